"""A server on the loopback that answers like OpenAI's Responses API, whole and streamed, and checks like it too.

What it says is what the peer of Chat Completions says to the same question; what OpenAI refuses it refuses with 400:
outputs without a call and calls without an output, nested tools, tools that do not say whether they are strict,
thoughts that nothing follows, ids that it did not store.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.models.openai_peer import Refused, answer_to
from tests.models.openai_responses_asking import KEY, call, events_of, message, response, sse, thought

_PARTS = {"input_text", "input_image", "input_file"}
_KNOWN = {
    "include",
    "input",
    "max_output_tokens",
    "model",
    "parallel_tool_calls",
    "stop",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
    "tools",
}


def check(body: Mapping[str, Any]) -> None:
    """Refuse what OpenAI refuses."""
    if unknown := sorted(body.keys() - _KNOWN):
        raise Refused(f"Unknown parameter: {unknown[0]!r}.")
    if "tools" in body and not body["tools"]:
        raise Refused("Invalid 'tools': empty array.")
    if "tools" not in body and ("tool_choice" in body or "parallel_tool_calls" in body):
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")
    for tool in body.get("tools", []):
        if "function" in tool or not isinstance(tool.get("strict"), bool):
            raise Refused("Missing required parameter: 'tools[0].name'.")
    check_items(body["input"])


def check_items(items: Sequence[Mapping[str, Any]]) -> None:
    open_calls: list[str] = []
    for item, following in zip(items, [*items[1:], {"role": "user"}], strict=True):
        kind = item.get("type", "message")
        if kind == "function_call":
            check_call(item)
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                raise Refused(f"No tool call found for function call output with call_id {item['call_id']}.")
            open_calls.remove(item["call_id"])
        elif kind == "reasoning":
            check_thought(item, following)
        else:
            check_message(item)
    if open_calls:
        raise Refused(f"No tool output found for function call {open_calls[0]}.")


def check_call(item: Mapping[str, Any]) -> None:
    if not isinstance(item["arguments"], str) or len(item["call_id"]) > 64:
        raise Refused("Invalid 'input'.")


def check_thought(item: Mapping[str, Any], following: Mapping[str, Any]) -> None:
    if "id" in item and not item.get("encrypted_content"):
        raise Refused(f"Item with id {item['id']!r} not found.")
    if following.get("role") == "user":
        raise Refused("Item of type 'reasoning' was provided without its required following item.")


def check_message(item: Mapping[str, Any]) -> None:
    if item["role"] not in {"user", "system", "developer", "assistant"}:
        raise Refused(f"Invalid value: {item['role']!r}.")
    if not isinstance(item["content"], str) and any(part["type"] not in _PARTS for part in item["content"]):
        raise Refused("Invalid value: 'content[0].type'.")


def as_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same question in the form of Chat Completions."""
    last = body["input"][-1]
    content = last.get("output", last.get("content"))
    role = "tool" if last.get("type") == "function_call_output" else last["role"]
    chat = {"messages": [*body["input"][:-1], {"role": role, "content": content}]}
    chat |= {key: body[key] for key in ("stop",) if key in body}
    if "tools" in body:
        chat["tools"] = [{"type": "function", "function": tool} for tool in body["tools"]]
        choice = body.get("tool_choice", "auto")
        chat["tool_choice"] = {"function": choice} if isinstance(choice, dict) else choice
    shape = body.get("text", {}).get("format")
    if shape:
        chat["response_format"] = {"type": shape["type"], "json_schema": shape}
    return chat


def response_to(body: Mapping[str, Any]) -> dict[str, Any]:
    """Make the answer."""
    said = answer_to(as_chat(body))
    calls = [
        call(one["function"]["name"], one["function"]["arguments"], f"{one['id']}_{place}")
        for place, one in enumerate(said.get("tool_calls", []))
    ]
    texts = [message(said["content"])] if said["content"] else []
    thoughts = [thought("hm", encrypted_content="gAAA")] if calls else []
    return response(*thoughts, *texts, *calls, model=body["model"], store=body.get("store", True))


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ResponsesPeer"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        if self.headers.get("authorization") != f"Bearer {KEY}":
            return self._say(401, {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}})
        try:
            check(body)
        except Refused as error:
            return self._say(400, {"error": {"message": str(error), "type": "invalid_request_error", "code": None}})
        whole = response_to(body)
        if body.get("stream"):
            return self._write(200, "text/event-stream", sse(events_of(whole)))
        return self._say(200, whole)

    def _say(self, status: int, body: Mapping[str, Any]) -> None:
        self._write(status, "application/json", json.dumps(body).encode())

    def _write(self, status: int, content_type: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.send_header("x-request-id", "req_peer")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name in the base class
        """Say nothing on stderr."""


class ResponsesPeer(ThreadingHTTPServer):
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
