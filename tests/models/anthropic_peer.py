"""A server on the loopback that answers like Anthropic's Messages API, whole and streamed, and checks like it too.

What it answers follows from the request alone: it calls a tool when one is demanded or spoken of, fills schemas with
samples, and else chats. What Anthropic refuses it refuses with 400: turns out of order, unpaired or late results of
tools, blank texts, illegal names, forced calls with thinking, more than four cache breakpoints.
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.models.anthropic_asking import body_of, events, frames
from tests.models.openai_peer import Refused, sample

KEY = "sk-ant-peer-0123456789"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def check(body: Mapping[str, Any]) -> None:
    """Refuse what Anthropic refuses."""
    for name in ("model", "max_tokens", "messages"):
        if not body.get(name):
            raise Refused(f"{name}: Field required")
    if nulls := [key for key, value in body.items() if value is None]:
        raise Refused(f"{nulls}: Input should be valid")
    check_messages(body["messages"])
    marks = json.dumps(body).count('"cache_control"')
    if marks > 4:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    check_tools(body)


def check_tools(body: Mapping[str, Any]) -> None:
    if body.get("tool_choice") and not body.get("tools"):
        raise Refused("tool_choice may only be specified while providing tools")
    blocks = [block for message in body["messages"] for block in blocks_of(message["content"])]
    if not body.get("tools") and {"tool_use", "tool_result"} & {block["type"] for block in blocks}:
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")
    if body.get("thinking") and body.get("tool_choice", {}).get("type") in {"any", "tool"}:
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")
    for tool in body.get("tools", []):
        if not _NAME.fullmatch(tool["name"]) or tool["input_schema"]["type"] != "object":
            raise Refused("tools.0: illegal")


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        blocks = blocks_of(message["content"])
        if message["role"] != ("user", "assistant")[place % 2]:
            raise Refused("messages: roles must alternate")
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            raise Refused("messages: text content blocks must be non-empty")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        first = [block["type"] for block in blocks[: len(results)]]
        if sorted(results) != sorted(open_calls) or first != ["tool_result"] * len(results):
            raise Refused(f"messages.{place}: tool_use ids without tool_result blocks immediately after: {open_calls}")
        check_thoughts(blocks)
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if open_calls or str(blocks[-1].get("text", "")) != str(blocks[-1].get("text", "")).rstrip():
        raise Refused("messages: final assistant content is illegal")


def check_thoughts(blocks: Sequence[Mapping[str, Any]]) -> None:
    for block in blocks:
        if "index" in block:
            raise Refused("messages: index: Extra inputs are not permitted")
        if block["type"] == "thinking" and not block.get("signature"):
            raise Refused("messages: Invalid `signature` in `thinking` block")


def last_text(body: Mapping[str, Any]) -> str:
    blocks = blocks_of(body["messages"][-1]["content"])
    return " ".join(block.get("text") or str(block.get("content", "")) for block in blocks)


def called_tool(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    tools, choice = body.get("tools", []), body.get("tool_choice", {"type": "auto"})
    if choice["type"] == "tool":
        return next(tool for tool in tools if tool["name"] == choice["name"])
    if not tools or choice["type"] == "none":
        return None
    text = last_text(body).lower()
    spoken_of = [
        tool for tool in tools if any(word.lower() in text for word in (tool["name"], *tool["name"].split("_")))
    ]
    answers = any(block["type"] == "tool_result" for block in blocks_of(body["messages"][-1]["content"]))
    return (spoken_of or tools)[0] if choice["type"] == "any" or (spoken_of and not answers) else None


def answer_to(body: Mapping[str, Any]) -> dict[str, Any]:
    """Make the whole answer."""
    text, tool, content = last_text(body), called_tool(body), []
    if body.get("thinking"):
        content.append({"type": "thinking", "thinking": "Let me think.", "signature": "c2ln"})
    if tool is not None:
        id_ = f"toolu_{len(body['messages'])}"
        made = {"type": "tool_use", "id": id_, "name": tool["name"], "input": sample(tool["input_schema"], text)}
        return answer(body, [*content, made], "tool_use")
    schema = body.get("output_config", {}).get("format", {}).get("schema")
    words = json.dumps(sample(schema, text)) if schema else f"Hello, you said: {text}"
    for stop in body.get("stop_sequences", []):
        words = words.partition(stop)[0] or "Hello"
    return answer(body, [*content, {"type": "text", "text": words}], "end_turn")


def answer(body: Mapping[str, Any], content: Sequence[dict[str, Any]], stop_reason: str) -> dict[str, Any]:
    usage = {
        "input_tokens": len(json.dumps(body["messages"])) // 4,
        "cache_read_input_tokens": 1,
        "cache_creation_input_tokens": 1,
        "output_tokens": len(json.dumps(content)) // 4,
        "output_tokens_details": {"thinking_tokens": 1},
    }
    return body_of(*content, stop_reason=stop_reason, model=body["model"], usage=usage)


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "AnthropicPeer"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        if self.headers.get("x-api-key") != KEY or not self.headers.get("anthropic-version"):
            return self._fail(401, "authentication_error", "invalid x-api-key")
        try:
            check(body)
        except Refused as error:
            return self._fail(400, "invalid_request_error", str(error))
        said = answer_to(body)
        if body.get("stream"):
            return self._write(200, "text/event-stream", frames(events(said)))
        return self._write(200, "application/json", json.dumps(said).encode())

    def _fail(self, status: int, kind: str, text: str) -> None:
        failure = {"type": "error", "error": {"type": kind, "message": text}}
        self._write(status, "application/json", json.dumps(failure).encode())

    def _write(self, status: int, content_type: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", "req_peer")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name in the base class
        """Say nothing on stderr."""


class AnthropicPeer(ThreadingHTTPServer):
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
