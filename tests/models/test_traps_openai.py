"""Traps of OpenAI's two APIs and of the servers that imitate them: how calls are cut, and how answers end.

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
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from tests.models import openai_responses_asking as responses
from tests.models.openai_asking import STREAMING_WAYS, Asking, add, ainvoke, invoke
from tests.models.test_traps_streams import (
    FORMATS,
    REPLAYS,
    Fails,
    Outcome,
    Said,
    chunk,
    named,
    outcome,
    replay,
    settled,
    sse,
)
from tests.wire_server import WireServer, answer

ONE, TWO = ("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})


@dataclass(frozen=True)
class Trap:
    """The events of a stream, the same as a whole answer where there is such a one, and what comes of them."""

    events: Sequence[Any]
    expected: Outcome
    document: Any = None
    done: bool = True
    usage: Sequence[int] | None = None
    ending: str | None = None


def part(index: int | None = None, id: str | None = None, **function: Any) -> dict[str, Any]:  # noqa: A002 the wire's name
    """One delta of one call; what is None is not in it."""
    fields = {"index": index, "id": id, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def calls(*parts: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return chunk(tool_calls=list(parts), finish_reason=finish_reason)


def end(reason: Any = "tool_calls", **fields: Any) -> dict[str, Any]:
    return {**chunk(finish_reason=reason), **fields}


def whole(reason: Any = "tool_calls", **message: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def entry(arguments: Any, id: Any = "a") -> dict[str, Any]:  # noqa: A002 the wire's name
    return {"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}}


def tokens(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


A, B = '{"a": 1, "b": 2}', '{"a": 3, "b": 4}'
HEAD, TAIL = '{"a": 1,', ' "b": 2}'

CHAT: Mapping[str, Trap] = {
    "deltas of two calls may be interleaved": Trap(
        [
            calls(part(0, "a", name="add", arguments=HEAD), part(1, "b", name="add", arguments='{"a": 3,')),
            calls(part(1, arguments=' "b": 4}')),
            calls(part(0, arguments=TAIL)),
            end(),
        ],
        Said(calls=[ONE, TWO]),
        whole(content=None, tool_calls=[entry(A), entry(B, "b")]),
    ),
    "a known id beats the index": Trap(
        [
            calls(part(0, "a", name="add", arguments=HEAD)),
            calls(part(1, "b", name="add", arguments=B)),
            calls(part(1, "a", arguments=TAIL)),
            end(),
        ],
        Said(calls=[ONE, TWO]),
    ),
    "a new id on a used index is a new call": Trap(
        [calls(part(0, "a", name="add", arguments=A)), calls(part(0, "b", name="add", arguments=B)), end()],
        Said(calls=[ONE, TWO]),
    ),
    "one id for two calls makes them two": Trap(
        [calls(part(0, "a", name="add", arguments=A)), calls(part(1, "a", name="add", arguments=B)), end()],
        Said(calls=[ONE, TWO]),
        whole(tool_calls=[entry(A), entry(B)]),
    ),
    "without index and id the open call goes on": Trap(
        [
            calls(part(None, "a", name="add", arguments="")),
            calls(part(arguments=HEAD)),
            calls(part(arguments=TAIL)),
            end(),
        ],
        Said(calls=[ONE]),
    ),
    "calls without an index are told apart by their ids": Trap(
        [calls(part(None, "a", name="add", arguments=A)), calls(part(None, "b", name="add", arguments=B)), end()],
        Said(calls=[ONE, TWO]),
    ),
    "id and name that are repeated are set once": Trap(
        [calls(part(0, "a", name="add", arguments=text)) for text in (HEAD, ' "b": 2', "}")] + [end()],
        Said(calls=[ONE]),
    ),
    "id and name may be empty or the word null behind the first": Trap(
        [
            calls(part(0, "a", name="add", arguments="null")),
            calls(part(0, "", name="", arguments=HEAD)),
            calls(part(0, "null", name=None, arguments=TAIL)),
            end(),
        ],
        Said(calls=[ONE]),
    ),
    "id and name may come late": Trap(
        [
            calls(part(0, arguments="")),
            calls(part(0, "a", arguments=HEAD)),
            calls(part(0, name="add", arguments=TAIL)),
            end(),
        ],
        Said(calls=[ONE]),
    ),
    "a call without an id gets one": Trap(
        [calls(part(0, name="add", arguments=A)), end()], Said(calls=[ONE]), whole(tool_calls=[entry(A, None)])
    ),
    "a call without a name does not run": Trap(
        [calls(part(0, "a", arguments=A)), end()],
        Said(invalid=[""]),
        whole(tool_calls=[{"id": "a", "function": {"arguments": A}}]),
    ),
    "arguments may be an object": Trap(
        [calls(part(0, "a", name="add", arguments={"a": 1, "b": 2})), end()],
        Said(calls=[ONE]),
        whole(tool_calls=[entry({"a": 1, "b": 2})]),
    ),
    "arguments that are empty or null are none": Trap(
        [calls(part(0, "a", name="add", arguments="")), calls(part(1, "b", name="add", arguments=None)), end()],
        Said(calls=[("add", {}), ("add", {})]),
        whole(tool_calls=[entry(""), entry(None, "b")]),
    ),
    "arguments that are no JSON do not run": Trap(
        [calls(part(0, "a", name="add", arguments='{"a": 1, b')), calls(part(1, "b", name="add", arguments=B)), end()],
        Said(calls=[TWO], invalid=["add"]),
        whole(tool_calls=[entry('{"a": 1, b'), entry(B, "b")]),
    ),
    "arguments that are no object do not run": Trap(
        [calls(part(0, "a", name="add", arguments="[1, 2]")), end()],
        Said(invalid=["add"]),
        whole(tool_calls=[entry("[1, 2]")]),
    ),
    "a call that the limit of tokens cut does not run and the one before it does": Trap(
        [
            calls(part(0, "a", name="add", arguments=A)),
            calls(part(1, "b", name="add", arguments='{"a": 3')),
            end("length"),
        ],
        Said(calls=[ONE], invalid=["add"]),
        whole("length", tool_calls=[entry(A), entry('{"a": 3', "b")]),
        ending="length",
    ),
    **{
        f"calls count although the end says {reason!r}": Trap(
            [calls(part(0, "a", name="add", arguments=A)), end(reason)],
            Said(calls=[ONE]),
            whole(reason, tool_calls=[entry(A)]),
        )
        for reason in ("stop", "", "function_call", "eos", "end_turn")
    },
    "content may be null, missing, empty, or in parts": Trap(
        [
            chunk(role="assistant", content=None),
            chunk(),
            chunk(content=""),
            chunk(content=[{"type": "text", "text": "Hel"}]),
            chunk(content="lo"),
            end("stop"),
        ],
        Said("Hello"),
        whole("stop", content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]),
    ),
    "reasoning is no part of the text": Trap(
        [chunk(reasoning_content="hm"), chunk(reasoning="hm"), chunk(content="Hello"), end("stop")],
        Said("Hello"),
        whole("stop", content="Hello", reasoning_content="hm"),
    ),
    "a refusal is no part of the text": Trap(
        [chunk(refusal="I will"), chunk(refusal=" not."), end("stop")],
        Said(""),
        whole("stop", content=None, refusal="No."),
    ),
    "chunks without choices say nothing and usage is the last one": Trap(
        [
            {"choices": [], "prompt_filter_results": []},
            {**chunk(content="Hel"), "usage": tokens(5, 1)},
            {**chunk(content="lo"), "usage": tokens(5, 2)},
            end("stop"),
            {"choices": [], "usage": tokens(5, 3)},
        ],
        Said("Hello"),
        usage=(5, 3),
    ),
    "the word of the end is not needed": Trap([chunk(content="Hello"), end("stop")], Said("Hello"), done=False),
    "the word of the end alone is no end": Trap(
        [chunk(content="Hel")], Fails(TruncatedStreamError, partial="Hel", retryable=True)
    ),
    "an error beside empty choices is an error": Trap(
        [chunk(content="Hel"), {"choices": [], "error": {"message": "gone", "code": 429}}],
        Fails(RateLimitError, "gone", retryable=True),
    ),
    "an error beside choices is an error": Trap(
        [{**chunk(content="Hel"), "error": {"message": "gone", "code": 500}}],
        Fails(ServerError, "gone", retryable=True),
    ),
    "an end by an error is an error": Trap([chunk(content="Hel"), end("error")], Fails(ServerError)),
    "an end by the filter says so": Trap(
        [chunk(content="Hel"), end("content_filter")], Fails(ContentFilterError), whole("content_filter", content="Hel")
    ),
}


def delta(kind: str, text: str, index: int, **place: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text, "output_index": index, **place}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}}


def items(*events: dict[str, Any], status: str = "completed", output: Sequence[Any] = (), **fields: Any) -> list[Any]:
    """A stream of these events, with a beginning and this end."""
    begun = {"type": "response.created", "response": responses.response(status="in_progress")}
    last = responses.response(*output, status=status, **fields)
    return [begun, *events, {"type": f"response.{status}", "response": last}]


FIRST, SECOND = (responses.call("add", text, id_) for text, id_ in ((A, "c1"), (B, "c2")))
HELLO = responses.message("Hello")
CUT = {"incomplete_details": {"reason": "max_output_tokens"}}
FILTERED = {"incomplete_details": {"reason": "content_filter"}}
BUSY = {"error": {"code": "rate_limit_exceeded", "message": "slow down"}}

RESPONSES: Mapping[str, Trap] = {
    "deltas of two items may be interleaved": Trap(
        items(
            added(0, FIRST),
            added(1, SECOND),
            delta("function_call_arguments", HEAD, 0),
            delta("function_call_arguments", '{"a": 3,', 1),
            delta("function_call_arguments", TAIL, 0),
            delta("function_call_arguments", ' "b": 4}', 1),
            output=[FIRST, SECOND],
        ),
        Said(calls=[ONE, TWO]),
        responses.response(FIRST, SECOND),
    ),
    "the end of an item wins over its deltas": Trap(
        items(
            *responses.item_events(0, HELLO)[:3],
            {"type": "response.output_item.done", "output_index": 0, "item": HELLO},
            output=[HELLO],
        ),
        Said("Hello"),
    ),
    "events of an unknown type say nothing": Trap(
        items(
            {"type": "response.novelty.delta", "delta": "x", "output_index": 0},
            *responses.item_events(0, HELLO),
            {"type": "keepalive"},
            output=[HELLO],
        ),
        Said("Hello"),
    ),
    "an answer that its limit cut says so": Trap(
        items(*responses.item_events(0, HELLO), status="incomplete", output=[HELLO], **CUT),
        Said("Hello"),
        responses.response(HELLO, status="incomplete", **CUT),
        ending="length",
    ),
    "a call that the limit cut does not run": Trap(
        items(
            added(0, FIRST),
            delta("function_call_arguments", HEAD, 0),
            status="incomplete",
            output=[{**FIRST, "arguments": HEAD, "status": "incomplete"}],
            **CUT,
        ),
        Said(invalid=["add"]),
        responses.response({**FIRST, "arguments": HEAD, "status": "incomplete"}, status="incomplete", **CUT),
        ending="length",
    ),
    "an answer that the filter cut says so": Trap(
        items(*responses.item_events(0, HELLO), status="incomplete", output=[HELLO], **FILTERED),
        Fails(ContentFilterError),
        responses.response(HELLO, status="incomplete", **FILTERED),
    ),
    "a failed answer is a typed error": Trap(
        items(*responses.item_events(0, HELLO), status="failed", **BUSY),
        Fails(RateLimitError, "slow down", retryable=True),
        responses.response(status="failed", **BUSY),
    ),
    "a stream that stops at the end of an item has no end": Trap(
        items(*responses.item_events(0, FIRST))[:-1], Fails(TruncatedStreamError, retryable=True)
    ),
    "a refusal is no part of the text": Trap(
        items(
            *responses.item_events(0, REFUSED := responses.message({"type": "refusal", "refusal": "No."})),
            output=[REFUSED],
        ),
        Said(""),
        responses.response(REFUSED),
    ),
    "reasoning is no part of the text": Trap(
        items(
            *responses.item_events(0, HM := responses.thought("hm")),
            *responses.item_events(1, HELLO),
            output=[HM, HELLO],
        ),
        Said("Hello"),
        responses.response(HM, HELLO),
    ),
    "arguments that are no JSON do not run": Trap(
        items(*responses.item_events(0, BROKEN := responses.call("add", "{nonsense", "c1")), output=[BROKEN]),
        Said(invalid=["add"]),
        responses.response(BROKEN),
    ),
}
TABLES = {"openai": CHAT, "openai_responses": RESPONSES}
ROWS = [(name, trap) for name, table in TABLES.items() for trap in table]


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def compare(server: WireServer, way: Asking, name: str, row: Trap) -> None:
    """Ask, and compare all that the row speaks of."""
    model, expected = FORMATS[name].local(server), settled(row.expected)
    assert outcome(model, way, expected) == expected
    if row.usage is None and row.ending is None:
        return
    message = way(model.bind_tools([add]), "Hi")
    assert isinstance(message, AIMessage)
    if row.usage is not None:
        assert message.usage_metadata is not None
        assert [message.usage_metadata[key] for key in ("input_tokens", "output_tokens")] == list(row.usage)
    assert row.ending in {None, message.response_metadata["finish_reason"]}


@pytest.mark.parametrize("how", REPLAYS)
@pytest.mark.parametrize(("name", "trap"), ROWS, ids=lambda value: value)
def test_a_stream_comes_to_the_right_message_or_error(
    server: WireServer, ask_streaming: Asking, name: str, trap: str, how: str
) -> None:
    row = TABLES[name][trap]
    data = sse(*row.events) + b"data: [DONE]\n\n" * row.done if name == "openai" else named(*row.events)
    replay(server, FORMATS[name], data, how)
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
