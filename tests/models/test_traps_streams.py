"""Traps that every wire format shares: however a server writes or breaks its stream, what comes of it is known.

A row of `TRAPS` is a trap, as a sentence; what a server writes then is made for each format, and played to both ways of
streaming: as it is, one byte at a time, and with CRLF. It ends in the right message or in the right typed error.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agentgraph.errors import (
    InvalidResponseError,
    ModelError,
    OverloadedError,
    ServerError,
    TruncatedStreamError,
)
from tests.models import anthropic_asking as anthropic
from tests.models import gemini_asking as gemini
from tests.models import ollama_asking as ollama
from tests.models import openai_asking as openai
from tests.models import openai_responses_asking as responses
from tests.models.openai_asking import STREAMING_WAYS, Asking, add
from tests.wire_server import Cut, Step, WireServer, in_pieces, streamed

# What an answer comes to


@dataclass(frozen=True)
class Said:
    """A message: its text, the calls that may run, and the names of those that may not."""

    text: str = ""
    calls: Sequence[Any] = ()
    invalid: Sequence[Any] = ()


@dataclass(frozen=True)
class Fails:
    """An error: its class, words of its text, and the text of the partial message if it has one."""

    kind: type[ModelError]
    says: str = ""
    partial: str | None = None
    retryable: bool | None = None


Outcome = Said | Fails
REPLAYS: Mapping[str, Callable[[bytes], list[bytes]]] = {
    "as it is": lambda data: [data],
    "one byte at a time": in_pieces,
    "with CRLF": lambda data: [data.replace(b"\n", b"\r\n")],
}


def outcome(model: Any, way: Asking, expected: Outcome) -> Outcome:
    """Ask, and tell what came in the words of what is expected."""
    try:
        message = way(model.bind_tools([add]), "Hi")
    except ModelError as error:
        return _told(error, expected)
    assert isinstance(message, AIMessage)
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    assert all(call["id"] for call in message.tool_calls)
    return Said(message.text, calls, [call["name"] or "" for call in message.invalid_tool_calls])


def _told(error: ModelError, expected: Outcome) -> Outcome:
    if not isinstance(expected, Fails):
        raise error
    partial = getattr(error, "partial", None)
    # Of half a call nothing may run, whoever picks the partial message up.
    assert partial is None or [call["args"] for call in partial.tool_calls] in ([], [{"a": 1, "b": 2}])
    return Fails(
        type(error),
        expected.says if expected.says in str(error) else str(error),
        partial.text if partial is not None and expected.partial is not None else None,
        error.retryable if expected.retryable is not None else None,
    )


def settled(expected: Outcome) -> Outcome:
    """The outcome with lists, as `outcome` gives them."""
    return Said(expected.text, list(expected.calls), list(expected.invalid)) if isinstance(expected, Said) else expected


# What each format's server writes


def sse(*events: Any) -> bytes:
    return b"".join(f"data: {json.dumps(one, ensure_ascii=False)}\n\n".encode() for one in events)


def named(*events: Any) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one, ensure_ascii=False)}\n\n".encode() for one in events)


def lines(*events: Any) -> bytes:
    return b"".join(ollama.lines(*events))


@dataclass(frozen=True)
class Format:
    """One wire format: how events are framed, and its events of a text, of a call of `add`, of a failure."""

    local: Callable[..., Any]
    frame: Callable[..., bytes]
    text: Callable[[str, str], Sequence[Any]]  # in two pieces; the last `ending` events are its end
    call: Sequence[Any]
    failure: Any
    ending: int = 1
    mime: str = "text/event-stream"
    document: Callable[[str], Any] = dict


def chunk(**fields: Any) -> dict[str, Any]:
    ending = {"finish_reason": fields.pop("finish_reason", None)}
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": fields, **ending}]}


def _openai_call() -> list[Any]:
    begun = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": text}} for text in ('{"a": 1', ', "b": 2}')]
    deltas = [chunk(tool_calls=[one]) for one in (begun, *pieces)]
    return [*deltas, chunk(finish_reason="tool_calls")]


def _pieces(kind: str, events: Sequence[Any], *texts: str) -> list[Any]:
    """The events with other pieces of text in place of those of this kind."""
    first = next(number for number, one in enumerate(events) if one["type"] == kind)
    kept = [one for one in events if one["type"] != kind]
    shape = events[first]
    made = [
        {**shape, "delta": {**shape["delta"], "text": text} if isinstance(shape["delta"], dict) else text}
        for text in texts
    ]
    return [*kept[:first], *made, *kept[first:]]


def _responses_text(first: str, second: str) -> list[Any]:
    whole = responses.response(responses.message(first + second))
    return _pieces("response.output_text.delta", responses.events_of(whole), first, second)


def _anthropic_text(first: str, second: str) -> list[Any]:
    made = anthropic.events(anthropic.message(first + second))
    deltas = [one for one in made if one["type"] != "ping"]
    return _pieces("content_block_delta", deltas, first, second)


def _gemini_text(first: str, second: str) -> list[Any]:
    return [
        gemini.piece(gemini.text(first)),
        gemini.piece(gemini.text(second)),
        gemini.piece(gemini.text(""), reason="STOP", usageMetadata=gemini.USAGE),
    ]


_TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
_OVERLOADED = {"type": "overloaded_error", "message": "busy for now"}

FORMATS: Mapping[str, Format] = {
    "openai": Format(
        openai.local,
        sse,
        lambda first, second: [chunk(content=first), chunk(content=second), chunk(finish_reason="stop")],
        _openai_call(),
        {"error": {**_OVERLOADED, "code": 503}},
        document=lambda text: {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]},
    ),
    "openai_responses": Format(
        responses.local,
        named,
        _responses_text,
        responses.events_of(responses.response(responses.call("add", '{"a": 1, "b": 2}', "c1"))),
        {"type": "error", "code": "server_overloaded", "message": "busy for now"},
        document=lambda text: responses.response(responses.message(text)),
    ),
    "anthropic": Format(
        anthropic.local,
        named,
        _anthropic_text,
        anthropic.events(anthropic.body_of(_TOOL_USE, stop_reason="tool_use")),
        {"type": "error", "error": _OVERLOADED},
        ending=2,
        document=anthropic.message,
    ),
    "gemini": Format(
        gemini.local,
        sse,
        _gemini_text,
        [
            gemini.piece(gemini.called("add", {"a": 1, "b": 2})),
            gemini.piece(gemini.text(""), reason="STOP"),
        ],
        {"error": {"code": 503, "message": "busy for now", "status": "UNAVAILABLE"}},
        document=lambda text: gemini.piece(gemini.text(text), reason="STOP"),
    ),
    "ollama": Format(
        ollama.local,
        lines,
        lambda first, second: [ollama.event(first), ollama.event(second), ollama.event(**ollama.END)],
        [ollama.event(calls=[ollama.call()]), ollama.event(**ollama.END)],
        {"error": "busy for now"},
        mime=ollama.NDJSON,
        document=lambda text: ollama.event(text, **ollama.END),
    ),
}
SSE = [name for name, one in FORMATS.items() if one.mime == "text/event-stream"]

# The traps


@dataclass(frozen=True)
class Trap:
    """What a server writes in a format, and what comes of it."""

    written: Callable[[Format], bytes]
    expected: Outcome
    only: Sequence[str] = tuple(FORMATS)
    cut: bool = False  # the connection breaks behind what was written


def hello(form: Format) -> bytes:
    return form.frame(*form.text("Hel", "lo"))


def opening(form: Format) -> bytes:
    """The events up to the end of the text, without the end of the answer."""
    made = form.text("Hel", "lo")
    return form.frame(*made[: -form.ending])


def amid_text(form: Format) -> bytes:
    """The events up to the first piece of the text."""
    made = list(form.text("Hel", "lo"))
    place = next(number for number, one in enumerate(made) if '"Hel"' in json.dumps(one))
    return form.frame(*made[: place + 1])


def words(text: str) -> Callable[[Format], bytes]:
    return lambda form: form.frame(*form.text("a" + text, text + "b"))


def interspersed(form: Format) -> bytes:
    between = b": OPENROUTER PROCESSING\n\nid: 1\nretry: 10\nunknown: x\n\n"
    return between + hello(form).replace(b"\n\n", b"\n\n" + between)


TRAPS: Mapping[str, Trap] = {
    "an answer is read": Trap(hello, Said("Hello")),
    "a call is read": Trap(lambda form: form.frame(*form.call), Said(calls=[("add", {"a": 1, "b": 2})])),
    "a mark of the byte order is no part of the first event": Trap(
        lambda form: b"\xef\xbb\xbf" + hello(form), Said("Hello")
    ),
    "separators of lines within JSON cut nothing": Trap(
        words("\u2028\u2029\u0085\x0b\x0c"), Said("a" + "\u2028\u2029\u0085\x0b\x0c" * 2 + "b")
    ),
    "characters of several bytes are put together": Trap(
        words("\u00e9\u20ac\U0001f600"), Said("a\u00e9\u20ac\U0001f600\u00e9\u20ac\U0001f600b")
    ),
    "white space of a delta is kept": Trap(lambda form: form.frame(*form.text(" \n", "\t x ")), Said(" \n\t x ")),
    "comments, ids, retries and unknown fields say nothing": Trap(interspersed, Said("Hello"), SSE),
    "a field needs no space": Trap(lambda form: hello(form).replace(b"data: ", b"data:"), Said("Hello"), SSE),
    "an event may come in several lines of data": Trap(
        lambda form: hello(form).replace(b", ", b",\ndata: "), Said("Hello"), SSE
    ),
    "a word of the end that the format does not have is no event": Trap(
        lambda form: hello(form) + b"data: [DONE]\n\n", Said("Hello"), SSE
    ),
    "a stream without its end is no short answer": Trap(
        opening, Fails(TruncatedStreamError, partial="Hello", retryable=True)
    ),
    "a stream that ends amid the text is no short answer": Trap(
        amid_text, Fails(TruncatedStreamError, partial="Hel", retryable=True)
    ),
    "a stream that ends within an event is no short answer": Trap(
        lambda form: amid_text(form) + b'data: {"id": "c", "model', Fails(TruncatedStreamError, partial="Hel"), SSE
    ),
    "a connection that breaks amid the text is no short answer": Trap(
        amid_text, Fails(TruncatedStreamError, partial="Hel", retryable=True), cut=True
    ),
    "an error in place of the first event is that of its status": Trap(
        lambda form: form.frame(form.failure),
        Fails(OverloadedError, "busy for now", retryable=True),
        [name for name in FORMATS if name != "ollama"],
    ),
    "an error amid the text is that of its status": Trap(
        lambda form: amid_text(form) + form.frame(form.failure),
        Fails(OverloadedError, "busy for now", retryable=True),
        [name for name in FORMATS if name != "ollama"],
    ),
    "an error of words alone is the server's": Trap(
        lambda form: amid_text(form) + form.frame(form.failure),
        Fails(ServerError, "busy for now", retryable=True),
        ["ollama"],
    ),
    "an event that is no JSON is told with an excerpt": Trap(
        lambda form: amid_text(form) + (b"data: {nonsense\n\n" if form.mime != ollama.NDJSON else b"{nonsense\n"),
        Fails(InvalidResponseError, "nonsense"),
        [name for name in FORMATS if name != "openai_responses"],
    ),
}
ROWS = [(name, trap) for trap in TRAPS for name in TRAPS[trap].only]


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def replay(server: WireServer, form: Format, data: bytes, how: str, *, cut: bool = False) -> None:
    """Have the server write the bytes in this way."""
    ending: list[Step] = [Cut()] if cut else []
    server.play(streamed(*REPLAYS[how](data), *ending, content_type=form.mime, end=not cut))


@pytest.mark.parametrize("how", REPLAYS)
@pytest.mark.parametrize(("name", "trap"), ROWS, ids=lambda value: value)
def test_a_stream_comes_to_the_right_message_or_error(
    server: WireServer, ask_streaming: Asking, name: str, trap: str, how: str
) -> None:
    form, row = FORMATS[name], TRAPS[trap]
    replay(server, form, row.written(form), how, cut=row.cut)
    expected = settled(row.expected)
    assert outcome(form.local(server), ask_streaming, expected) == expected
    assert len(server.requests) == 1
