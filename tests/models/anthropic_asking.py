"""What a server of Anthropic's Messages API says, for the tests of ChatAnthropic; the ways of asking are OpenAI's."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import TypeAdapter

from agentgraph.models.anthropic import ChatAnthropic
from tests.models.openai_asking import Asking, bodies, invoke
from tests.wire_server import Step, WireServer, answer, streamed

_WHOLE: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
_STREAMED: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)

USAGE = {"input_tokens": 10, "output_tokens": 5}
HEAD = {"type": "message", "role": "assistant", "id": "msg_1", "model": "claude-test"}


def body_of(*blocks: dict[str, Any], stop_reason: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    """A whole answer of these blocks."""
    return {
        **HEAD,
        "content": list(blocks),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": USAGE,
        **more,
    }


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How the real server begins a block, and in what pieces the rest of it comes."""
    if block["type"] == "text":
        pieces = [{"type": "text_delta", "text": block["text"][at : at + 4]} for at in range(0, len(block["text"]), 4)]
        citations = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
        return {**block, "text": "", **({"citations": []} if citations else {})}, [*pieces, *citations]
    if block["type"] == "thinking":
        text = block["thinking"]
        pieces = [{"type": "thinking_delta", "thinking": text[at : at + 5]} for at in range(0, len(text), 5)]
        signed = [{"type": "signature_delta", "signature": block["signature"]}] if block["signature"] else []
        return {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, *signed]
    if "input" in block:
        text = json.dumps(block["input"]) if block["input"] else ""
        pieces = [{"type": "input_json_delta", "partial_json": text[at : at + 3]} for at in range(0, len(text), 3)]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": ""}, *pieces]
    return block, []


def events(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The events with which the real server would stream a whole answer."""
    usage = body["usage"]
    made: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}},
        },
        {"type": "ping"},
    ]
    for index, block in enumerate(body["content"]):
        start, deltas = _deltas(block)
        made.append({"type": "content_block_start", "index": index, "content_block": start})
        made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        made.append({"type": "content_block_stop", "index": index})
    end = {key: body.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    return [*made, {"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]


def frames(made: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in made)


def sse(body: dict[str, Any]) -> list[Step]:
    return streamed(frames(events(body)), request_id="req_1")


def played(way: Asking, body: dict[str, Any]) -> list[Step]:
    """The script of an answer for one way of asking."""
    return sse(body) if "stream" in way.__name__ else answer(200, json.dumps(body).encode(), request_id="req_1")


def message(text: str = "Hello") -> dict[str, Any]:
    return body_of({"type": "text", "text": text})


def tool_events(*pieces: str, stop_reason: str = "tool_use") -> list[dict[str, Any]]:
    """A stream of one call whose arguments come in these pieces."""
    made = events(body_of({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}, stop_reason=stop_reason))
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return [*made[:4], *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas), *made[4:]]


def without_id(said: Any) -> AIMessage:
    """The message without the id that langchain-core gives it, which differs between calls."""
    assert isinstance(said, AIMessage)
    return said.model_copy(update={"id": None})


def walked(value: Any) -> Any:
    """Go through a validated value to its leaves: fields that are Iterable are validated only then."""
    if isinstance(value, Mapping):
        return {key: walked(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [walked(inner) for inner in value]
    return value


def body_sent(server: WireServer, model: Any, messages: Any, *, way: Asking = invoke) -> dict[str, Any]:
    """The body with which these messages are asked, checked against the official client's types."""
    server.play(played(way, message()))
    way(model, messages)
    body = bodies(server)[-1]
    walked((_STREAMED if body.get("stream") else _WHOLE).validate_python(body))
    return body


def turns_sent(server: WireServer, *messages: BaseMessage) -> Any:
    return body_sent(server, local(server), list(messages))["messages"]


def content_sent(server: WireServer, *blocks: Any) -> Any:
    return turns_sent(server, HumanMessage(list(blocks)))[0]["content"]


def local(server: WireServer, **settings: Any) -> ChatAnthropic:
    return ChatAnthropic(**{"model": "claude-test", "base_url": server.url, "max_retries": 0, **settings})
