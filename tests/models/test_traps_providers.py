"""Traps of Anthropic, Gemini and Ollama: what is particular to what their servers write.

A row is a trap, as a sentence; its events are played to both ways of streaming: as they are, one byte at a time, and
with CRLF. Where the trap exists in a whole answer too, that is played to both ways of asking for it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agentgraph.errors import (
    ContentFilterError,
    ContextOverflowError,
    OverloadedError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.refusals import RefusedAnswerError
from tests.models import anthropic_asking as anthropic
from tests.models.gemini_asking import USAGE, added_up, called, piece, text
from tests.models.ollama_asking import END, call, event
from tests.models.openai_asking import STREAMING_WAYS, Asking, add, ainvoke, invoke
from tests.models.test_traps_streams import FORMATS, REPLAYS, Fails, Outcome, Said, outcome, replay, settled
from tests.wire_server import WireServer, answer

ONE, TWO = ("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})


@dataclass(frozen=True)
class Trap:
    """The events of a stream, the same as a whole answer where there is such a one, and what comes of them."""

    events: Sequence[Any]
    expected: Outcome
    document: Any = None
    usage: Sequence[int] | None = None
    ending: str | None = None
    content: Any = None


# Anthropic

PLAIN = {"type": "text", "text": "Hello"}
UNSAID = {"type": "thinking", "thinking": "", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "cmVk"}


def tool_use(id: str, args: Any) -> dict[str, Any]:  # noqa: A002 the wire's name
    return {"type": "tool_use", "id": id, "name": "add", "input": args}


def blocks(*made: dict[str, Any], stop_reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    """The same answer as events and whole."""
    body = anthropic.body_of(*made, stop_reason=stop_reason, **more)
    return {"events": anthropic.events(body), "document": body}


def interleaved() -> list[Any]:
    """Two calls whose pieces alternate, with pings, unknown events and unknown deltas between them."""
    made = anthropic.events(anthropic.body_of(tool_use("t1", ONE[1]), tool_use("t2", TWO[1]), stop_reason="tool_use"))
    inner = [[one for one in made if one.get("index") == index] for index in (0, 1)]
    noise = [{"type": "ping"}, {"type": "novelty"}, {"type": "content_block_delta", "index": 1, "delta": {"type": "x"}}]
    mixed = [one for pair in zip(*inner, strict=True) for one in pair]
    return [made[0], *mixed[:2], *noise, *mixed[2:], *made[-2:]]


def broken_at(events: Sequence[Any], kind: str) -> list[Any]:
    """The events before the last of this kind, then the server's failure."""
    place = max(number for number, one in enumerate(events) if one["type"] == kind)
    return [*events[:place], {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}]


COUNTED = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3, "output_tokens": 5}

ANTHROPIC: Mapping[str, Trap] = {
    "pings and unknown events say nothing and blocks are kept apart by their index": Trap(
        interleaved(), Said(calls=[ONE, TWO])
    ),
    "empty arguments are none": Trap(
        **blocks(tool_use("t1", {}), stop_reason="tool_use"), expected=Said(calls=[("add", {})])
    ),
    "usage is replaced and that of the cache is part of the input": Trap(
        **blocks(PLAIN, usage=COUNTED), expected=Said("Hello"), usage=(17, 5)
    ),
    "thoughts without words keep their signature and hidden ones their data": Trap(
        **blocks(UNSAID, HIDDEN, PLAIN, tool_use("t1", ONE[1]), stop_reason="tool_use"),
        expected=Said("Hello", calls=[ONE]),
        content=[UNSAID, HIDDEN, PLAIN, tool_use("t1", {})],
    ),
    "a refusal says so": Trap(**blocks(PLAIN, stop_reason="refusal"), expected=Said("Hello"), ending="refusal"),
    "a refusal amid calls runs nothing": Trap(
        **blocks(tool_use("t1", ONE[1]), stop_reason="refusal"), expected=Fails(RefusedAnswerError)
    ),
    "a window that is full is told": Trap(
        **blocks(stop_reason="model_context_window_exceeded"), expected=Fails(ContextOverflowError)
    ),
    "an answer that its limit cut says so": Trap(
        **blocks(PLAIN, stop_reason="max_tokens"), expected=Said("Hello"), ending="length"
    ),
    "a call that the limit cut does not run": Trap(
        **blocks(tool_use("t1", {"a": 1}), stop_reason="max_tokens"), expected=Said(invalid=["add"]), ending="length"
    ),
    "a failure behind the text is that of its status": Trap(
        broken_at(anthropic.events(anthropic.message()), "message_delta"),
        Fails(OverloadedError, "busy", retryable=True),
    ),
    "a failure amid a call runs nothing": Trap(
        broken_at(anthropic.tool_events('{"a": 1,', ' "b": 2}'), "content_block_delta"),
        Fails(OverloadedError, "busy", retryable=True),
    ),
    "a stream without its reason of the end has none": Trap(
        [one for one in anthropic.events(anthropic.message()) if not one["type"].startswith("message_")],
        Fails(TruncatedStreamError, retryable=True),
    ),
}

# Gemini


def pieces(*made: Any, reason: str | None = "STOP", **fields: Any) -> dict[str, Any]:
    """An event for each part, and the end; the same added up."""
    events = [*(piece(one) for one in made[:-1]), piece(*made[-1:], reason=reason, **fields)]
    return {"events": events, "document": added_up(tuple(events))}


def counted(candidates: int, thoughts: int = 0) -> dict[str, Any]:
    counts = {"promptTokenCount": 5, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts}
    return {**counts, "totalTokenCount": 5 + candidates + thoughts}


BLOCKED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE}
EXHAUSTED = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}

GEMINI: Mapping[str, Trap] = {
    "calls without ids get some and those of one name stay apart": Trap(
        **pieces(called("add", ONE[1]), called("add", TWO[1])), expected=Said(calls=[ONE, TWO])
    ),
    "two same calls are two": Trap(
        **pieces(called("add", ONE[1]), called("add", ONE[1])), expected=Said(calls=[ONE, ONE])
    ),
    "thoughts are no part of the text": Trap(
        **pieces(text("hm", thought=True), text("Hel"), text("lo")), expected=Said("Hello")
    ),
    "usage is the last one and thoughts count as output": Trap(
        [
            piece(text("Hel"), usageMetadata=counted(1)),
            piece(text("lo"), usageMetadata=counted(2, 1)),
            piece(text(""), reason="STOP", usageMetadata=counted(2, 4)),
        ],
        Said("Hello"),
        usage=(5, 6),
    ),
    "a prompt that was blocked is told": Trap([BLOCKED], Fails(ContentFilterError, "PROHIBITED_CONTENT"), BLOCKED),
    "an end without words is an empty message": Trap(**pieces(text("")), expected=Said("")),
    "an end without content is an empty message": Trap([piece(reason="STOP")], Said(""), piece(reason="STOP")),
    **{
        f"an end by {reason} is told": Trap(
            **pieces(text("Hel"), reason=reason), expected=Fails(ContentFilterError, reason)
        )
        for reason in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT")
    },
    "a call that the server could not read is an invalid one": Trap(
        [piece(reason="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: add(a=1")],
        Said(invalid=["add"]),
        piece(reason="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: add(a=1"),
    ),
    "an answer that its limit cut says so": Trap(
        **pieces(text("Hel"), text("lo"), reason="MAX_TOKENS"), expected=Said("Hello"), ending="MAX_TOKENS"
    ),
    "arguments that are no object do not run": Trap(
        **pieces({"functionCall": {"name": "add", "args": [1, 2]}}), expected=Said(invalid=["add"])
    ),
    "an error in a list is an error": Trap(
        [[EXHAUSTED]], Fails(RateLimitError, "slow down", retryable=True), [EXHAUSTED]
    ),
    "a wait in the details of an error is told": Trap(
        [{"error": {**EXHAUSTED["error"], "details": [RETRY]}}],
        Fails(RateLimitError, "retry after 34 s", retryable=True),
        {"error": {**EXHAUSTED["error"], "details": [RETRY]}},
    ),
    "an array of events is the answer": Trap(
        [[piece(text("Hel")), piece(text("lo"), reason="STOP")]],
        Said("Hello"),
        [piece(text("Hel")), piece(text("lo"), reason="STOP")],
    ),
}

# Ollama


def turn(*events: Any, **last: Any) -> list[Any]:
    return [*events, event(**{**END, **last})]


OLLAMA: Mapping[str, Trap] = {
    "calls before an end that says stop are calls": Trap(
        turn(event(calls=[call()]), event(calls=[call(arguments=TWO[1])])),
        Said(calls=[ONE, TWO]),
        event(calls=[call(), call(arguments=TWO[1])], **END),
    ),
    "arguments may be a text": Trap(
        turn(event(calls=[call(arguments='{"a": 1, "b": 2}')])),
        Said(calls=[ONE]),
        event(calls=[call(arguments='{"a": 1, "b": 2}')], **END),
    ),
    "arguments that are no JSON do not run": Trap(
        turn(event(calls=[call(arguments='{"a": 1, b')])),
        Said(invalid=["add"]),
        event(calls=[call(arguments='{"a": 1, b')], **END),
    ),
    "an error amid the lines is an error": Trap(
        [event("Hel"), {"error": "llama runner process has terminated"}], Fails(ServerError, "runner", retryable=True)
    ),
    "an error in place of an answer is an error": Trap(
        [{"error": "llama runner process has terminated"}],
        Fails(ServerError, "runner", retryable=True),
        {"error": "llama runner process has terminated"},
    ),
    "an answer that its limit cut says so": Trap(
        turn(event("Hello"), done_reason="length"),
        Said("Hello"),
        event("Hello", **{**END, "done_reason": "length"}),
        ending="length",
    ),
    "a prompt that was cached has no count": Trap(
        [event("Hello"), event(done=True, done_reason="stop", eval_count=3)], Said("Hello"), usage=(0, 3)
    ),
    "thinking is no part of the text": Trap(
        turn(event(thinking="hm"), event("Hello")), Said("Hello"), event("Hello", thinking="hm", **END), usage=(5, 3)
    ),
    "calls without the end run nothing": Trap([event(calls=[call()])], Fails(TruncatedStreamError, retryable=True)),
    "an answer of loading a model is none": Trap(
        [event(done=True, done_reason="load")], Fails(ServerError), event(done=True, done_reason="load")
    ),
}
TABLES = {"anthropic": ANTHROPIC, "gemini": GEMINI, "ollama": OLLAMA}
ROWS = [(name, trap) for name, table in TABLES.items() for trap in table]


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def compare(server: WireServer, way: Asking, name: str, row: Trap) -> None:
    """Ask, and compare all that the row speaks of."""
    model, expected = FORMATS[name].local(server), settled(row.expected)
    assert outcome(model, way, expected) == expected
    if row.usage is row.ending is row.content is None:
        return
    message = way(model.bind_tools([add]), "Hi")
    assert isinstance(message, AIMessage)
    if row.usage is not None:
        assert message.usage_metadata is not None
        assert [message.usage_metadata[key] for key in ("input_tokens", "output_tokens")] == list(row.usage)
    if row.content is not None:
        assert [{key: value for key, value in one.items() if key != "index"} for one in message.content] == row.content
    assert row.ending in {None, message.response_metadata["finish_reason"]}


@pytest.mark.parametrize("how", REPLAYS)
@pytest.mark.parametrize(("name", "trap"), ROWS, ids=lambda value: value)
def test_a_stream_comes_to_the_right_message_or_error(
    server: WireServer, ask_streaming: Asking, name: str, trap: str, how: str
) -> None:
    form, row = FORMATS[name], TABLES[name][trap]
    replay(server, form, form.frame(*row.events), how)
    compare(server, ask_streaming, name, row)


@pytest.mark.parametrize("way", [invoke, ainvoke], ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("name", "trap"), [row for row in ROWS if TABLES[row[0]][row[1]].document], ids=lambda value: value
)
def test_a_whole_answer_comes_to_the_right_message_or_error(
    server: WireServer, way: Asking, name: str, trap: str
) -> None:
    row = TABLES[name][trap]
    server.play(answer(200, json.dumps(row.document).encode()))
    compare(server, way, name, row)
