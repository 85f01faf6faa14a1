"""What a Gemini server says, whole and in events, for the tests of ChatGemini."""

import json
from collections.abc import Callable
from typing import Any

from agentgraph.models.gemini import ChatGemini
from tests.models.openai_asking import Asking
from tests.wire_server import Step, WireServer, answer, in_pieces, streamed

KEY = "AIzaPeer0123456789abcdef"
USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}


def piece(*parts: Any, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """One answer, or one event of it."""
    top = {key: fields.pop(key) for key in ("usageMetadata", "promptFeedback") if key in fields}
    ending = {"finishReason": reason} if reason else {}
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    candidate = {**content, **ending, "index": 0, **fields}
    return {"candidates": [candidate], "modelVersion": "gemini-x-001", "responseId": "r1", **top}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"text": words, **fields}


def called(name: str, args: Any = None, **fields: Any) -> dict[str, Any]:
    part = {name: fields.pop(name) for name in ("thoughtSignature",) if name in fields}
    return {"functionCall": {"name": name, "args": args or {}, **fields}, **part}


def event(body: Any) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def document(body: Any, status: int = 200, **headers: str) -> list[Step]:
    return answer(status, json.dumps(body).encode(), **{"x_goog_request_id": "req_1", **headers})


def sse(*bodies: Any, cut: Callable[[bytes], list[bytes]] = lambda data: [data]) -> list[Step]:
    data = b"".join(event(body) for body in bodies)
    return streamed(*cut(data), x_goog_request_id="req_1")


def crlf(data: bytes) -> list[bytes]:
    return [data.replace(b"\n", b"\r\n")]


CUTS = {"as sent": lambda data: [data], "one byte at a time": in_pieces, "with CRLF": crlf}


def added_up(bodies: tuple[Any, ...]) -> dict[str, Any]:
    """The whole answer of which these are the events."""
    whole: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    parts: list[Any] = []
    for body in bodies:
        whole |= {key: value for key, value in body.items() if key != "candidates"}
        for one in body.get("candidates", []):
            parts += one.get("content", {}).get("parts", [])
            candidate |= one
    return {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}


def played(way: Asking, *bodies: Any) -> list[Step]:
    return sse(*bodies) if "stream" in way.__name__ else document(added_up(bodies))


def hello(way: Asking) -> list[Step]:
    return played(way, piece(text("Hel")), piece(text("lo"), reason="STOP", usageMetadata=USAGE))


def refusal(message: str, status: int = 400, name: str = "INVALID_ARGUMENT", details: Any = ()) -> list[Step]:
    error = {"code": status, "message": message, "status": name, "details": list(details)}
    return document({"error": error}, status)


def local(server: WireServer, **settings: Any) -> ChatGemini:
    return ChatGemini(**{"model": "gemini-2.5-flash", "base_url": server.url, "max_retries": 0, **settings})


def bodies(server: WireServer) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in server.requests]
