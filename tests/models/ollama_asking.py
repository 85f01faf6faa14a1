"""What an Ollama server says, whole and streamed, for the tests of ChatOllama."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from agentgraph.models.ollama import ChatOllama
from tests.wire_server import Step, WireServer, answer, streamed

NDJSON = "application/x-ndjson"
USAGE = {"prompt_eval_count": 5, "eval_count": 3}
END: dict[str, Any] = {"done": True, "done_reason": "stop", **USAGE}
CREATED = "2026-11-30T10:00:00Z"


def call(name: str = "add", arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": {"a": 1, "b": 2} if arguments is None else arguments}}


def event(content: str = "", *, thinking: str = "", calls: Iterable[Any] = (), **top: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    message |= {"thinking": thinking} if thinking else {}
    message |= {"tool_calls": list(calls)} if calls else {}
    return {"model": "m", "created_at": CREATED, "message": message, "done": False, **top}


def lines(*events: Any, end: bytes = b"\n") -> list[bytes]:
    return [json.dumps(one, ensure_ascii=False).encode() + end for one in events]


def ndjson(*events: Any, **headers: Any) -> list[Step]:
    return streamed(*lines(*events), content_type=NDJSON, **headers)


def document(body: Any, **headers: str) -> list[Step]:
    return answer(200, json.dumps(body).encode(), "application/json; charset=utf-8", **headers)


def played(way: Callable[..., Any], *events: Any) -> list[Step]:
    """Play the events as the server gives them when it is asked in this way: added up where it is asked for all."""
    if "stream" in way.__name__:
        return ndjson(*events, x_request_id="req_1")
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {}
    for one in events:
        whole |= one
        for key, value in one.get("message", {}).items():
            message[key] = value if key == "role" else message.get(key, type(value)()) + value
    return document({**whole, "message": message} if message else whole, x_request_id="req_1")


def refusal(text: str, status: int = 400) -> list[Step]:
    return answer(status, json.dumps({"error": text}).encode())


def local(server: WireServer, **settings: Any) -> ChatOllama:
    return ChatOllama(model="m", base_url=server.url, **{"max_retries": 0, **settings})
