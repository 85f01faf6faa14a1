"""One short answer in each of the five wire formats, whole and in events, with a stand-in for the call's number."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.models import anthropic_asking, gemini_asking, ollama_asking, openai_responses_asking

__all__ = ["MODELS", "PIECES", "STAND_IN", "Written", "format_of", "written"]

STAND_IN = b"NUMBER"
PIECES = ("The answer ", "to NUMBER ", "is", " NUMBER.")
_SSE = "text/event-stream"

# Each format: where its class is, and what is asked for.
MODELS: Mapping[str, tuple[str, str, str]] = {
    "openai": ("agentgraph.models.openai", "ChatOpenAI", "gpt-4o"),
    "responses": ("agentgraph.models.openai_responses", "ChatOpenAIResponses", "gpt-4o"),
    "anthropic": ("agentgraph.models.anthropic", "ChatAnthropic", "claude-sonnet-4-5"),
    "gemini": ("agentgraph.models.gemini", "ChatGemini", "gemini-2.5-flash"),
    "ollama": ("agentgraph.models.ollama", "ChatOllama", "qwen3"),
}


@dataclass(frozen=True)
class Written:
    """An answer as it is written.

    Attributes:
        mime: of a stream.
        document: the whole answer.
        events: the same in events, framed.
        begun: how many events show the first of the text.
        error: a document that holds an error.
        error_event: the same as an event.
        no_json: an event that is none.
    """

    mime: str
    document: bytes
    events: tuple[bytes, ...]
    begun: int
    error: bytes
    error_event: bytes
    no_json: bytes


def format_of(target: str, body: bytes) -> tuple[str, bool]:
    """The format of a request, and whether a stream is asked for."""
    streamed = b'"stream":true' in body or "streamGenerateContent" in target
    ends = {"openai": "/chat/completions", "responses": "/responses", "anthropic": "/messages", "ollama": "/api/chat"}
    return next((form for form, end in ends.items() if target.endswith(end)), "gemini"), streamed


@cache
def written(form: str) -> Written:
    makers = {
        "openai": _openai,
        "responses": _responses,
        "anthropic": _anthropic,
        "gemini": _gemini,
        "ollama": _ollama,
    }
    return makers[form]()


def _events(bodies: Sequence[Mapping[str, Any]]) -> tuple[bytes, ...]:
    named = [f"event: {body['type']}\n" if "type" in body else "" for body in bodies]
    return tuple(f"{name}data: {json.dumps(body)}\n\n".encode() for name, body in zip(named, bodies, strict=True))


def _in_sse(document: Any, bodies: Sequence[Mapping[str, Any]], begun: int, error: Any, end: bytes = b"") -> Written:
    events = (*_events(bodies), *([end] if end else []))
    return Written(
        _SSE,
        json.dumps(document).encode(),
        events,
        begun,
        json.dumps(error).encode(),
        _events([error])[0],
        b'data: {"half": \n\n',
    )


def _openai() -> Written:
    head = {"id": "chatcmpl-NUMBER", "created": 1, "model": "gpt-4o"}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    message = {"role": "assistant", "content": "".join(PIECES)}
    deltas = [{"role": "assistant", "content": PIECES[0]}, *({"content": piece} for piece in PIECES[1:])]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    whole = {**head, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    error = {"error": {"message": "broke", "type": "server_error", "code": "server_error"}}
    return _in_sse(whole, [*chunks, last, {**head, "choices": [], "usage": usage}], 1, error, b"data: [DONE]\n\n")


def _responses() -> Written:
    said = openai_responses_asking.message("".join(PIECES), id="msg_NUMBER")
    whole = openai_responses_asking.response(said, id="resp_NUMBER")
    # The pieces of four characters would cut the stand-in.
    events = [one for one in openai_responses_asking.events_of(whole) if not one["type"].endswith("text.delta")]
    place = {"output_index": 0, "item_id": "msg_NUMBER", "content_index": 0, "logprobs": []}
    at = next(at for at, one in enumerate(events) if one["type"] == "response.content_part.added") + 1
    events[at:at] = [{"type": "response.output_text.delta", "delta": piece, **place} for piece in PIECES]
    error = {"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "broke"}}
    return _in_sse(whole, events, at + 1, error)


def _anthropic() -> Written:
    whole = anthropic_asking.body_of({"type": "text", "text": "".join(PIECES)}, id="msg_NUMBER")
    events = [one for one in anthropic_asking.events(whole) if one["type"] != "content_block_delta"]
    deltas = [{"type": "text_delta", "text": piece} for piece in PIECES]
    events[3:3] = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    return _in_sse(whole, events, 4, {"type": "error", "error": {"type": "overloaded_error", "message": "broke"}})


def _gemini() -> Written:
    fixed: dict[str, Any] = {"responseId": "r-NUMBER", "usageMetadata": gemini_asking.USAGE}
    parts = [gemini_asking.text(piece) for piece in PIECES]
    events = [gemini_asking.piece(part) | fixed for part in parts[:-1]]
    events.append(gemini_asking.piece(parts[-1], reason="STOP") | fixed)
    whole = gemini_asking.piece(gemini_asking.text("".join(PIECES)), reason="STOP") | fixed
    return _in_sse(whole, events, 1, {"error": {"code": 503, "message": "broke", "status": "UNAVAILABLE"}})


def _ollama() -> Written:
    events = [ollama_asking.event(piece) for piece in PIECES]
    end = ollama_asking.event("", **ollama_asking.END)
    whole = ollama_asking.event("".join(PIECES), **ollama_asking.END)
    error = json.dumps({"error": "broke"}).encode()
    return Written(
        ollama_asking.NDJSON,
        json.dumps(whole).encode(),
        tuple(ollama_asking.lines(*events, end)),
        1,
        error,
        error + b"\n",
        b'{"half": \n',
    )
