"""A server on the loopback that answers like Ollama's chat, whole and as NDJSON, and checks like it too.

What it answers follows from the request alone: it calls a tool when one is spoken of, fills schemas with samples, and
else chats. What Ollama refuses it refuses with 400, and what it would drop in silence (an unknown parameter) as well.
"""

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from ollama import _types as sdk

from tests.models.openai_peer import Refused, called_tool, last_text, sample

_TOP = {*sdk.ChatRequest.model_fields, "truncate", "shift"}
_MODELS = {"qwen3", "llama3.2"}


def check(body: Mapping[str, Any]) -> None:
    if unknown := body.keys() - _TOP:
        raise Refused(f"unknown parameters: {unknown}")
    if unknown := body.get("options", {}).keys() - sdk.Options.model_fields.keys() - {"min_p"}:
        raise Refused(f"unknown options: {unknown}")
    if not body["messages"] or None in body.values():
        raise Refused("no messages, or a null")
    for message in body["messages"]:
        if message["role"] not in {"system", "user", "assistant", "tool"} or not isinstance(message["content"], str):
            raise Refused("invalid message")
        for image in message.get("images", []):
            base64.b64decode(image, validate=True)
        if not all(isinstance(call["function"]["arguments"], dict) for call in message.get("tool_calls", [])):
            raise Refused("json: cannot unmarshal string into arguments")


def answer_to(body: Mapping[str, Any]) -> dict[str, Any]:
    text, tool = last_text(body), called_tool(body)
    if tool is not None:
        arguments = sample(tool.get("parameters", {}), text)
        call = {"function": {"index": 0, "name": tool["name"], "arguments": arguments}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if body.get("format") == "json":
        said = json.dumps(dict.fromkeys(re.findall("'([a-z]+)'", text), "because"))
    elif "format" in body:
        said = json.dumps(sample(body["format"], text))
    else:
        said = f"Hello, you said: {text}"
        for stop in body.get("options", {}).get("stop", []):
            said = said.partition(stop)[0] or "Hello"
    return {"role": "assistant", "content": said}


def events_of(body: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    head = {"model": body["model"], "created_at": "2026-11-30T10:00:00Z"}
    text = message["content"]
    for at in range(0, len(text), 7):
        yield {**head, "message": {"role": "assistant", "content": text[at : at + 7]}, "done": False}
    if "tool_calls" in message:
        yield {**head, "message": message, "done": False}
    yield {**head, "message": {"role": "assistant", "content": ""}, **end_of(body, message)}


def end_of(body: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    counts = {"prompt_eval_count": len(json.dumps(body)) // 4, "eval_count": len(json.dumps(message)) // 4}
    return {"done": True, "done_reason": "stop", "total_duration": 9, **counts}


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "OllamaPeer"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        if self.path != "/api/chat":
            return self._write(404, "text/plain", "404 page not found")
        if body["model"] not in _MODELS:
            return self._write(404, "application/json", json.dumps({"error": f"model '{body['model']}' not found"}))
        try:
            check(body)
        except Refused as error:
            return self._write(400, "application/json", json.dumps({"error": str(error)}))
        message = answer_to(body)
        if body.get("stream", True):
            lines = "".join(f"{json.dumps(event)}\n" for event in events_of(body, message))
            return self._write(200, "application/x-ndjson", lines)
        whole = {"model": body["model"], "message": message, **end_of(body, message)}
        return self._write(200, "application/json; charset=utf-8", json.dumps(whole))

    def _write(self, status: int, content_type: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name in the base class
        """Say nothing on stderr."""


class OllamaPeer(ThreadingHTTPServer):
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
