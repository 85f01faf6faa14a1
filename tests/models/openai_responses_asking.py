"""What a Responses server says, and the ways of asking it, for the tests of ChatOpenAIResponses."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from agentgraph.models.failures import Origin
from agentgraph.models.openai_responses import ChatOpenAIResponses
from agentgraph.models.responses_codec import Asked, StreamReader
from agentgraph.models.sse import ServerSentEvent
from tests.models.openai_asking import Asking
from tests.wire_server import Step, WireServer, answer, streamed

KEY = "sk-peer-0123456789"
ASKED = Asked(Origin("openai", "https://api.openai.com/v1/responses"), "gpt-5")
USAGE = {
    "input_tokens": 9,
    "output_tokens": 5,
    "total_tokens": 14,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens_details": {"reasoning_tokens": 3},
}
READ_USAGE = {
    "input_tokens": 9,
    "output_tokens": 5,
    "total_tokens": 14,
    "input_token_details": {"cache_read": 4, "cache_creation": 2},
    "output_token_details": {"reasoning": 3},
}


# Items


def message(*parts: Mapping[str, Any] | str, id: str = "msg_1", **fields: Any) -> dict[str, Any]:  # noqa: A002 the field's name
    texts = [
        {"type": "output_text", "text": part, "annotations": []} if isinstance(part, str) else part for part in parts
    ]
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": texts, **fields}


def call(name: str, arguments: str, call_id: str, **fields: Any) -> dict[str, Any]:
    fixed = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
    return {**fixed, "call_id": call_id, "name": name, "arguments": arguments, **fields}


def thought(*summary: str, id: str = "rs_1", **fields: Any) -> dict[str, Any]:  # noqa: A002 the field's name
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": id, "summary": parts, **fields}


def response(*output: Mapping[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    fixed = {"id": "resp_1", "object": "response", "model": "gpt-5-2025", "error": None, "incomplete_details": None}
    return {**fixed, "status": status, "output": list(output), "usage": USAGE, "store": False, **fields}


# Their events


def _deltas(kind: str, text: str, **place: Any) -> list[dict[str, Any]]:
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    return [{"type": f"response.{kind}.delta", "delta": piece, **place} for piece in pieces]


def _message_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for number, part in enumerate(item["content"]):
        here = {**place, "content_index": number}
        kind = "refusal" if part["type"] == "refusal" else "output_text"
        text = part["refusal" if kind == "refusal" else "text"]
        events.append({"type": "response.content_part.added", "part": {**part, "text": ""}, **here})
        beside = {"logprobs": []} if kind == "output_text" else {}
        events += _deltas(kind, text, **beside, **here)
        done = "text" if kind == "output_text" else "refusal"
        events.append({"type": f"response.{kind}.done", done: text, **beside, **here})
        events.append({"type": "response.content_part.done", "part": part, **here})
    return events


def _thought_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> list[dict[str, Any]]:
    events = []
    for number, part in enumerate(item["summary"]):
        events += _deltas("reasoning_summary_text", part["text"], summary_index=number, **place)
    for number, part in enumerate(item.get("content") or ()):
        events += _deltas("reasoning_text", part["text"], content_index=number, **place)
    return events


def item_events(index: int, item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of one item, from its beginning to its end."""
    place = {"output_index": index, "item_id": item.get("id")}
    hollow = {**item, "status": "in_progress", "content": [], "summary": [], "arguments": ""}
    if item["type"] == "message":
        inner = _message_events(item, place)
    elif item["type"] == "reasoning":
        inner = _thought_events(item, place)
        hollow["encrypted_content"] = "half of it"
    elif item["type"] == "function_call":
        inner = _deltas("function_call_arguments", item["arguments"], **place)
        inner.append({"type": "response.function_call_arguments.done", "arguments": item["arguments"], **place})
    else:
        inner = [{"type": f"response.{item['type']}.in_progress", **place}]
    added = {"type": "response.output_item.added", "output_index": index, "item": hollow}
    return [added, *inner, {"type": "response.output_item.done", "output_index": index, "item": item}]


def events_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream whose answer is this one."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")]
    for index, item in enumerate(whole["output"]):
        events += item_events(index, item)
    return [*events, {"type": f"response.{whole['status']}", "response": whole}]


def read_stream(events: Sequence[Any], asked: Asked = ASKED) -> list[AIMessageChunk]:
    reader = StreamReader(asked)
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return [chunk for text in texts for chunk in reader.feed(ServerSentEvent("message", text))] + reader.finish()


def total(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """Add chunks up one by one, as users do, and make the message that goes into a history."""
    added = chunks[0]
    for chunk in chunks[1:]:
        added += chunk
    whole = message_chunk_to_message(added)
    assert isinstance(whole, AIMessage)
    return whole


# On the wire


def sse(events: Sequence[Mapping[str, Any]], end: bytes = b"\n") -> bytes:
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return b"".join(lines).replace(b"\n", end)


def played(way: Asking, whole: Mapping[str, Any]) -> list[Step]:
    """The script of an answer, as this way of asking expects it."""
    if "stream" in way.__name__:
        return streamed(sse(events_of(whole)), x_request_id="req_1")
    return answer(200, json.dumps(whole).encode(), x_request_id="req_1")


def local(server: WireServer, **settings: Any) -> ChatOpenAIResponses:
    return ChatOpenAIResponses(model="m", base_url=server.url, **{"max_retries": 0, **settings})
