"""A server on the loopback that answers like OpenAI's Chat Completions, whole and streamed, and checks like it too.

What it answers follows from the request alone: it calls a tool when one is demanded or spoken of, fills schemas with
samples, and else chats. What OpenAI refuses it refuses with 400: unpaired tool messages, illegal names, `tools: []`,
`tool_choice` without tools, arguments that are no string.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

KEY = "sk-peer-0123456789"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = {"system", "developer", "user", "assistant", "tool"}


class Refused(Exception):  # noqa: N818 it is an answer of the server, not a failure of the test
    """The request is answered with 400."""


def sample(schema: Mapping[str, Any], text: str) -> Any:
    """Make a value that fits a schema: numbers and quoted strings are taken from the text."""
    if "const" in schema or "enum" in schema:
        return schema.get("const", next(iter(schema.get("enum", [None]))))
    if "anyOf" in schema:
        return sample(next(branch for branch in schema["anyOf"] if branch.get("type") != "null"), text)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: sample(value, text) for name, value in schema.get("properties", {}).items()}
    if kind == "array":
        return [sample(schema.get("items", {"type": "string"}), text)]
    number = next(iter(re.findall(r"\d+", text)), "7")
    quoted = next(iter(re.findall("'([^']+)'", text)), "a fine answer")
    return {"integer": int(number), "number": float(number), "boolean": True, "null": None}.get(kind, quoted)


def check(body: Mapping[str, Any]) -> None:
    """Refuse what OpenAI refuses."""
    if not body.get("messages"):
        raise Refused("Invalid type for 'messages': expected a non-empty array.")
    if "tools" in body and not body["tools"]:
        raise Refused("Invalid 'tools': empty array. Expected an array with minimum length 1.")
    if "tools" not in body and ("tool_choice" in body or "parallel_tool_calls" in body):
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")
    if nulls := [key for key, value in body.items() if value is None]:
        raise Refused(f"Invalid type for {nulls!r}: got null.")
    for tool in body.get("tools", []):
        if not _NAME.fullmatch(tool["function"]["name"]):
            raise Refused("Invalid 'tools[0].function.name': string does not match pattern.")
    check_messages(body["messages"])


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    open_calls: list[str] = []
    for message in messages:
        open_calls = check_message(message, open_calls)
    if open_calls:
        raise Refused(f"An assistant message with 'tool_calls' must be followed by tool messages: {open_calls}")


def check_message(message: Mapping[str, Any], open_calls: list[str]) -> list[str]:
    """Refuse an illegal message; returns the calls that wait for their result behind it."""
    if message["role"] not in _ROLES:
        raise Refused(f"Invalid value: {message['role']!r}.")
    if message["role"] == "tool":
        return check_result(message, open_calls)
    if open_calls:
        raise Refused(f"An assistant message with 'tool_calls' must be followed by tool messages: {open_calls}")
    calls = message.get("tool_calls", [])
    if message.get("content") is None and not calls and not message.get("refusal"):
        raise Refused("Invalid value for 'content': expected a string, got null.")
    for call in calls:
        if not isinstance(call["function"]["arguments"], str) or len(call["id"]) > 40:
            raise Refused("Invalid 'tool_calls'.")
    return [call["id"] for call in calls]


def check_result(message: Mapping[str, Any], open_calls: list[str]) -> list[str]:
    if message["tool_call_id"] not in open_calls:
        raise Refused("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
    if not isinstance(message["content"], str):
        raise Refused("Invalid type for 'content': expected a string.")
    return [one for one in open_calls if one != message["tool_call_id"]]


def last_text(body: Mapping[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def called_tool(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Choose the tool to call, None for none."""
    tools: list[Mapping[str, Any]] = [tool["function"] for tool in body.get("tools", [])]
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        return next(tool for tool in tools if tool["name"] == choice["function"]["name"])
    if not tools or choice == "none":
        return None
    text = last_text(body).lower()
    spoken_of = [tool for tool in tools if any(word in text for word in (tool["name"], *tool["name"].split("_")))]
    wanted = choice == "required" or (body["messages"][-1]["role"] == "user" and spoken_of)
    return (spoken_of or tools)[0] if wanted else None


def answer_to(body: Mapping[str, Any]) -> dict[str, Any]:
    """Make the assistant's message."""
    text, tool = last_text(body), called_tool(body)
    if tool is not None:
        arguments = json.dumps(sample(tool.get("parameters", {}), text), ensure_ascii=False)
        call = {"id": f"call_{len(body['messages'])}", "type": "function"}
        return {"content": None, "tool_calls": [{**call, "function": {"name": tool["name"], "arguments": arguments}}]}
    shape = body.get("response_format", {"type": "text"})
    if shape["type"] == "json_schema":
        return {"content": json.dumps(sample(shape["json_schema"]["schema"], text))}
    if shape["type"] == "json_object":
        return {"content": json.dumps(dict.fromkeys(re.findall("'([a-z]+)'", text), "because"))}
    words = f"Hello, you said: {text}"
    for stop in body.get("stop", []):
        words = words.partition(stop)[0] or "Hello"
    return {"content": words}


def usage_of(body: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    prompt, completion = len(json.dumps(body["messages"])) // 4, len(json.dumps(message)) // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0},
    }


def deltas_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None}
    text = message["content"] or ""
    yield from ({"content": text[at : at + 7]} for at in range(0, len(text), 7))
    for index, call in enumerate(message.get("tool_calls", [])):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": function}]}
        arguments = call["function"]["arguments"]
        for at in range(0, len(arguments), 5):
            yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[at : at + 5]}}]}


def events_of(body: Mapping[str, Any], head: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for delta in deltas_of(message):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason(message)}]}
    if body.get("stream_options", {}).get("include_usage"):
        yield {**head, "choices": [], "usage": usage_of(body, message)}


def finish_reason(message: Mapping[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "OpenAIPeer"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        if self.headers.get("authorization") != f"Bearer {KEY}":
            return self._say(401, {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}})
        try:
            check(body)
        except Refused as error:
            return self._say(400, {"error": {"message": str(error), "type": "invalid_request_error", "code": None}})
        message, head = answer_to(body), {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
        if body.get("stream"):
            events = [
                json.dumps({**event, "object": "chat.completion.chunk"}) for event in events_of(body, head, message)
            ]
            return self._write(200, "text/event-stream", "".join(f"data: {data}\n\n" for data in [*events, "[DONE]"]))
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason(message)}
        return self._say(
            200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage_of(body, message)}
        )

    def _say(self, status: int, body: Mapping[str, Any]) -> None:
        self._write(status, "application/json", json.dumps(body))

    def _write(self, status: int, content_type: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.send_header("x-request-id", "req_peer")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name in the base class
        """Say nothing on stderr."""


class OpenAIPeer(ThreadingHTTPServer):
    """The server; `bodies` is what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.bodies: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join(timeout=5)
