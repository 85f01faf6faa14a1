"""A server on the loopback that answers like Gemini's generateContent, whole and streamed, and checks like it too.

What it says follows from the request alone, by the rules of the peer for Chat Completions. What Gemini refuses it
refuses with 400: roles that do not alternate, calls without as many results by their names, empty texts and parts,
unknown fields, newer models' calls without a signature.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from tests.models.gemini_asking import KEY
from tests.models.openai_peer import Refused, answer_to

_TOP = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent"}
_PART = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "thought", "thoughtSignature"}


def check(body: Mapping[str, Any], *, signed: bool) -> None:
    """Refuse what Gemini refuses."""
    if unknown := body.keys() - _TOP:
        raise Refused(f'Invalid JSON payload received. Unknown name "{min(unknown)}": Cannot find field.')
    contents = body.get("contents") or []
    if not contents:
        raise Refused("* GenerateContentRequest.contents: contents is not specified")
    roles = [content["role"] for content in contents]
    if roles != ["user", "model"] * (len(roles) // 2) + ["user"] * (len(roles) % 2) or roles[-1] != "user":
        raise Refused(f"Please ensure that multiturn requests alternate between user and model: {roles}")
    for content, following in zip(contents, [*contents[1:], {"parts": []}], strict=True):
        check_parts(content["parts"])
        check_calls(content["parts"], following["parts"], signed=signed)


def check_parts(parts: Sequence[Mapping[str, Any]]) -> None:
    for part in parts:
        if part.keys() - _PART or part.get("text") == "":
            raise Refused(f"contents.parts must have one data field that is known: {sorted(part)}")
    if not parts:
        raise Refused("contents.parts must not be empty.")


def check_calls(parts: Sequence[Mapping[str, Any]], following: Sequence[Mapping[str, Any]], *, signed: bool) -> None:
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [part["functionResponse"] for part in following if "functionResponse" in part]
    if [(one["name"], one.get("id")) for one in calls] != [(one["name"], one.get("id")) for one in results]:
        raise Refused("The number of function response parts must equal that of the function call parts, by name.")
    if not all(isinstance(one["args"], dict) for one in calls) or not all(
        isinstance(one["response"], dict) for one in results
    ):
        raise Refused("Proto field is not repeating, cannot start list.")
    first = next((part for part in parts if "functionCall" in part), {"thoughtSignature": "none"})
    if signed and not first.get("thoughtSignature"):
        raise Refused("Function call is missing a thought_signature in functionCall parts.")


def as_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Give the request as the peer for Chat Completions reads it."""
    last = body["contents"][-1]["parts"]
    said = " ".join(part.get("text", "") for part in last)
    role = "tool" if any("functionResponse" in part for part in last) else "user"
    functions = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    chat: dict[str, Any] = {"messages": [*[{}] * len(body["contents"]), {"role": role, "content": said}]}
    if functions:
        chat["tools"] = [{"function": {**one, "parameters": one.get("parametersJsonSchema", {})}} for one in functions]
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    names = calling.get("allowedFunctionNames")
    modes = {"ANY": "required", "NONE": "none"}
    chat["tool_choice"] = {"function": {"name": names[0]}} if names else modes.get(calling.get("mode"), "auto")
    config = body.get("generationConfig", {})
    chat["stop"] = config.get("stopSequences", [])
    if "responseJsonSchema" in config:
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": config["responseJsonSchema"]}}
    elif config.get("responseMimeType") == "application/json":
        chat["response_format"] = {"type": "json_object"}
    return chat


def parts_of(message: Mapping[str, Any], *, signed: bool) -> list[dict[str, Any]]:
    words = message["content"] or ""
    parts: list[dict[str, Any]] = [{"text": words[at : at + 7]} for at in range(0, len(words), 7)]
    for call in message.get("tool_calls", []):
        function = call["function"]
        made = {"name": function["name"], "args": json.loads(function["arguments"])} | ({"id": "c1"} if signed else {})
        parts.append({"functionCall": made} | ({"thoughtSignature": "c2ln"} if signed else {}))
    return parts


def events_of(body: Mapping[str, Any], model: str) -> Iterator[dict[str, Any]]:
    signed = "gemini-3" in model
    parts = parts_of(answer_to(as_chat(body)), signed=signed)
    prompt, answer = len(json.dumps(body)) // 4, 0
    for number, part in enumerate(parts, 1):
        answer += len(json.dumps(part)) // 4
        ending = {"finishReason": "STOP"} if number == len(parts) else {}
        yield {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0, **ending}],
            "usageMetadata": {
                "promptTokenCount": prompt,
                "cachedContentTokenCount": 1,
                "candidatesTokenCount": answer,
                "thoughtsTokenCount": 1,
                "totalTokenCount": prompt + answer + 1,
            },
            "modelVersion": model,
            "responseId": "r1",
        }


def added(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    last = events[-1]
    return {**last, "candidates": [{**last["candidates"][0], "content": {"role": "model", "parts": parts}}]}


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "GeminiPeer"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path, _, query = self.path.partition("?")
        model, _, method = path.removeprefix("/v1beta/models/").partition(":")
        if self.headers.get("x-goog-api-key") != KEY:
            return self._refuse(400, "API key not valid.", "INVALID_ARGUMENT")
        try:
            check(body, signed="gemini-3" in model)
        except Refused as error:
            return self._refuse(400, str(error), "INVALID_ARGUMENT")
        events = list(events_of(body, model))
        if method == "generateContent":
            return self._write(200, "application/json", json.dumps(added(events)))
        if (method, query) == ("streamGenerateContent", "alt=sse"):
            text = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events)
            return self._write(200, "text/event-stream", text)
        return self._refuse(404, f"no method {method}?{query}", "NOT_FOUND")

    def _refuse(self, status: int, message: str, name: str) -> None:
        error = {"code": status, "message": message, "status": name}
        self._write(status, "application/json", json.dumps({"error": error}))

    def _write(self, status: int, content_type: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name in the base class
        """Say nothing on stderr."""


class GeminiPeer(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self._thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

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
