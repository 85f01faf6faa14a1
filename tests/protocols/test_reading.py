"""From events to the deltas of a message: thinking, ids, and arguments that cannot be read."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk

from agentgraph.errors import ConfigurationError
from agentgraph.protocols import (
    CallArguments,
    CallEnd,
    CallStart,
    Event,
    StreamParser,
    TextDelta,
    TextProtocol,
    ToolOffer,
    WrittenCall,
    parse,
)
from agentgraph.protocols.reading import ThinkingFilter, TurnReader, new_call_id

OFFER = ToolOffer(())


class Played(StreamParser):
    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def feed(self, text: str) -> list[Event]:
        return self._events

    def close(self) -> list[Event]:
        return []


class Script(TextProtocol):
    """Reports the same events for every answer."""

    name = "script"

    def __init__(self, *events: Event) -> None:
        self._events = list(events)

    def render(self, offer: ToolOffer) -> str:
        return ""

    def parser(self, offer: ToolOffer) -> StreamParser:
        return Played(self._events)

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        return ""


THINKING = {
    "none": ("It is <think> cold", "", "It is <think> cold"),
    "spaces": (" \n It", "", "It"),
    "a block": (" <think>hm</think>\n It", "hm", "It"),
    "two blocks": ("<thinking>a</thinking> <think>b</think>It", "ab", "It"),
    "only a block": ("<think>hm</think> ", "hm", ""),
    "an open block": ("<think>hm </thin", "hm </thin", ""),
    "the beginning of a mark": ("<thi", "", "<thi"),
    "an almost mark": ("<thirst> is", "", "<thirst> is"),
    "an almost end": ("<think>a</thick></think>b", "a</thick>", "b"),
}


@pytest.mark.parametrize(("text", "thinking", "rest"), THINKING.values(), ids=THINKING)
def test_thinking_is_set_apart_however_the_text_is_cut(text: str, thinking: str, rest: str) -> None:
    for width in range(1, len(text) + 1):
        sieve = ThinkingFilter()
        parts = [sieve.feed(text[at : at + width]) for at in range(0, len(text), width)]
        parts.append(sieve.close())
        assert ("".join(t for t, _ in parts), "".join(r for _, r in parts)) == (thinking, rest)


def test_thinking_streams_while_it_is_written() -> None:
    sieve = ThinkingFilter()

    assert [sieve.feed(piece) for piece in ["<th", "ink>one", " two</", "think>", "\n", "It"]] == [
        ("", ""),
        ("one", ""),
        (" two", ""),
        ("", ""),
        ("", ""),
        ("", "It"),
    ]


def test_ids_of_calls_are_unique_and_of_the_usual_form() -> None:
    ids = {new_call_id() for _ in range(100)}

    assert len(ids) == 100
    assert all(len(one) == len("call_") + 24 and int(one.removeprefix("call_"), 16) >= 0 for one in ids)


def test_a_call_that_the_parser_leaves_open_is_broken() -> None:
    parsed = parse(Script(CallStart("add"), CallArguments('{"a": 1}')), "x", OFFER, lambda: "call_1")

    assert parsed.calls == []
    assert parsed.invalid_calls == [
        {
            "name": "add",
            "args": '{"a": 1}',
            "id": "call_1",
            "error": "the answer ends in the middle of the call.",
            "type": "invalid_tool_call",
        }
    ]


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([CallArguments("{}")], "CallArguments without an open call"),
        ([CallEnd()], "CallEnd without an open call"),
        ([CallStart("a"), CallStart("b")], "CallStart inside an open call"),
    ],
)
def test_a_parser_that_reports_out_of_order_is_named(events: list[Event], what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"protocol 'script' reported {what}"):
        parse(Script(*events), "x", OFFER)


def test_a_text_beside_calls_is_kept_in_order() -> None:
    parsed = parse(Script(TextDelta("a"), CallStart("now"), CallEnd(), TextDelta("b")), "x", OFFER, lambda: "call_1")

    assert parsed.text == "ab"
    assert parsed.calls == [{"name": "now", "args": {}, "id": "call_1", "type": "tool_call"}]


DEEP = "[" * 100_000


@pytest.mark.parametrize("args", [DEEP, '{"a": ' + DEEP, '{"a": ' + "9" * 5000 + "}"])
def test_arguments_that_exhaust_the_reader_are_broken(args: str) -> None:
    parsed = parse(Script(CallStart("add"), CallArguments(args), CallEnd()), "x", OFFER)

    assert parsed.calls == []
    assert len(parsed.invalid_calls[0]["error"] or "") < 300


@given(
    st.lists(st.sampled_from(["{", "}", "[", "]", '"', "\\", ":", ",", "a", "1", " ", "\n", '{"a": 1', "NaN", "null"]))
)
def test_chunks_of_broken_arguments_never_add_up_to_a_call(tokens: list[str]) -> None:
    numbers = itertools.count()
    reader = TurnReader(
        Script(CallStart("add"), *map(CallArguments, tokens), CallEnd()), OFFER, lambda: f"call_{next(numbers)}"
    )

    delta = reader.feed("x")
    merged = AIMessageChunk(content="", tool_call_chunks=delta.chunks)
    assert merged.tool_calls == reader.parsed.calls
    written = [f"{call['args']}{delta.closers[str(call['id'])]}" for call in reader.parsed.invalid_calls]
    assert [call["args"] for call in merged.invalid_tool_calls] == written
