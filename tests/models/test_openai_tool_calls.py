"""Tool calls of Chat Completions: however a server sends them, one that may run is whole, and no other one runs."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from agentgraph.models.failures import Origin
from agentgraph.models.openai_codec import Asked, StreamReader, read_answer
from agentgraph.models.openai_tool_calls import read_arguments
from agentgraph.models.sse import ServerSentEvent

ASKED = Asked(Origin("openai", "https://api.openai.com/v1/chat/completions"), "gpt-4o")


def stream(*bodies: Any, asked: Asked = ASKED, done: bool = True) -> list[AIMessageChunk]:
    reader = StreamReader(asked)
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies] + ["[DONE]"] * done
    chunks = [chunk for text in texts for chunk in reader.feed(ServerSentEvent("message", text))]
    return chunks + reader.finish()


def total(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """Add chunks up one by one, as users do, and make the message that goes into a history."""
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    whole = message_chunk_to_message(message)
    assert isinstance(whole, AIMessage)
    return whole


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def part(index: int | str | None = None, id: str | None = None, **function: Any) -> dict[str, Any]:  # noqa: A002 the wire's name
    """One tool call delta; what is None is not in it."""
    fields = {"index": index, "id": id, "function": function}
    return delta(tool_calls=[{key: value for key, value in fields.items() if value is not None}])


def whole(message: dict[str, Any], finish_reason: str | None = "stop", **top: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        **top,
    }


def call(name: str, args: dict[str, Any], id: str) -> dict[str, Any]:  # noqa: A002 the field's name
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


A = call("get", {"city": "Paris"}, "a")
B = call("add", {"x": 1}, "b")

TOOL_CALL_STREAMS = {
    "in pieces by index": (
        [part(0, "a", name="get", arguments=""), part(0, arguments='{"city":'), part(0, arguments='"Paris"}')],
        [A],
    ),
    "two, interleaved": (
        [
            part(0, "a", name="get", arguments='{"city'),
            part(1, "b", name="add", arguments='{"x"'),
            part(0, arguments='":"Paris"}'),
            part(1, arguments=":1}"),
        ],
        [A, B],
    ),
    "a known id beats the index": (
        [
            part(0, "a", name="get", arguments='{"city":'),
            part(1, "b", name="add", arguments='{"x":1}'),
            part(1, "a", arguments='"Paris"}'),
        ],
        [A, B],
    ),
    "a new id on a used index is a new call": (
        [part(0, "a", name="get", arguments='{"city":"Paris"}'), part(0, "b", name="add", arguments='{"x":1}')],
        [A, B],
    ),
    "without any index": (
        [part(None, "a", name="get", arguments='{"city":"Paris"}'), part(None, "b", name="add", arguments='{"x":1}')],
        [A, B],
    ),
    "without index and id the open call goes on": (
        [part(None, "a", name="get", arguments=""), part(arguments='{"city":'), part(arguments='"Paris"}')],
        [A],
    ),
    "id and name repeated in each delta": (
        [
            part(0, "a", name="get", arguments='{"city":'),
            part(0, "a", name="get", arguments='"Paris"'),
            part(0, "a", name="get", arguments="}"),
        ],
        [A],
    ),
    "id and name empty or null in later deltas": (
        [
            part(0, "a", name="get", arguments='{"city":'),
            part(0, "", name="", arguments='"Par'),
            part(0, "null", name=None, arguments='is"}'),
        ],
        [A],
    ),
    "id late": ([part(0, name="get", arguments='{"city":'), part(0, "a", arguments='"Paris"}')], [A]),
    "name late": ([part(0, "a", arguments=""), part(0, name="get", arguments='{"city":"Paris"}')], [A]),
    "name in pieces": ([part(0, "a", name="ge"), part(0, name="t", arguments='{"city":"Paris"}')], [A]),
    "name that grows": ([part(0, "a", name="ge"), part(0, name="get", arguments='{"city":"Paris"}')], [A]),
    "a new id for every delta": (
        [part(0, "a", name="get", arguments='{"city":'), part(0, "z", arguments='"Paris"}')],
        [A],
    ),
    "arguments as an object": ([part(0, "a", name="get", arguments={"city": "Paris"})], [A]),
    "arguments null, then text": (
        [part(0, "a", name="get", arguments=None), part(0, arguments='{"city":"Paris"}')],
        [A],
    ),
    "arguments 'null', then text": (
        [part(0, "a", name="get", arguments="null"), part(0, arguments='{"city":"Paris"}')],
        [A],
    ),
    "no arguments": ([part(0, "a", name="now", arguments="")], [call("now", {}, "a")]),
    "the elder function_call": (
        [delta(function_call={"name": "get", "arguments": '{"city":'}), delta(function_call={"arguments": '"Paris"}'})],
        [{**A, "id": None}],
    ),
    "one id for all calls": (
        [
            part(0, "a", name="get", arguments=""),
            part(0, "a", arguments='{"city":"Paris"}'),
            part(1, "a", name="add", arguments=""),
            part(1, "a", arguments='{"x":'),
            part(1, "a", arguments="1}"),
        ],
        [A, {**B, "id": None}],
    ),
    "one id for all calls, each in one piece": (
        [
            part(0, "a", name="get", arguments='{"city":"Paris"}'),
            part(1, "a", name="get", arguments='{"city":"Paris"}'),
        ],
        [A, {**A, "id": None}],
    ),
    "one id for all calls, interleaved": (
        [
            part(0, "a", name="get", arguments='{"city'),
            part(1, "a", name="get", arguments='{"city'),
            part(0, "a", name="get", arguments='":"Paris"}'),
            part(1, "a", arguments='":"Paris"}'),
        ],
        [A, {**A, "id": None}],
    ),
    "the index as a text": (
        [
            part("0", "a", name="get", arguments='{"city'),
            part("1", "b", name="add", arguments='{"x"'),
            part("0", arguments='":"Paris"}'),
            part("1", arguments=":1}"),
        ],
        [A, B],
    ),
    "a character cut in half": (
        [part(0, "a", name="get", arguments='{"city":"\ud83d'), part(0, arguments='\ude00"}')],
        [call("get", {"city": "😀"}, "a")],
    ),
    "raw newline in a string": (
        [part(0, "a", name="get", arguments='{"city":"Pa\nris"}')],
        [call("get", {"city": "Pa\nris"}, "a")],
    ),
}


@pytest.mark.parametrize("case", TOOL_CALL_STREAMS)
def test_tool_calls_are_put_together_however_a_server_cuts_them(case: str) -> None:
    deltas, expected = TOOL_CALL_STREAMS[case]
    chunks = stream(*deltas, delta("tool_calls"))
    message = total(chunks)
    ids = [one["id"] for one in message.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    # Without an id: one of ours, whatever it is.
    expected = [{**one, "id": one["id"] or id_} for one, id_ in zip(expected, ids, strict=True)]
    assert message.tool_calls == expected
    assert message.invalid_tool_calls == []
    assert all(type(one["index"]) is int for chunk in chunks for one in chunk.tool_call_chunks)


def test_several_calls_without_index_and_id_in_one_delta_are_several_calls() -> None:
    calls = [{"function": {"name": "get", "arguments": "{}"}}, {"function": {"name": "get", "arguments": '{"x":1}'}}]
    message = total(stream(delta(tool_calls=calls), delta("stop")))
    assert [(one["name"], one["args"]) for one in message.tool_calls] == [("get", {}), ("get", {"x": 1})]
    assert len({one["id"] for one in message.tool_calls}) == 2


BROKEN = {
    "half a string": ('{"city":"Par', "not valid JSON"),
    "half an escape": ('{"city":"Par\\', "not valid JSON"),
    "half a list": ('{"cities":["Paris", ["', "not valid JSON"),
    "an unquoted word": ('{"city": Paris}', "not valid JSON"),
    "junk behind": ('{"city":"Paris"} ok?', "not valid JSON"),
    "a list": ('["Paris"]', "a JSON list, not an object"),
    "a word": ("Paris", "not valid JSON"),
    "a number": ("7", "a JSON int, not an object"),
    "a bracket too many": ('{"city":"Paris"}]', "not valid JSON"),
    "a list in an object": ('{"a":[1', "not valid JSON"),
    "nothing but a brace": ("{", "not valid JSON"),
    "no number": ('{"x": NaN}', "not valid JSON"),
    "a number without end": ('{"x": 1e999}', "not valid JSON"),
    "half of a character": ('{"city": "\\ud83d"}', "half of a surrogate pair"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_arguments_never_become_a_call(case: str) -> None:
    arguments, reason = BROKEN[case]
    raw = {"id": "a", "type": "function", "function": {"name": "get", "arguments": arguments}}
    message = read_answer(whole({"content": None, "tool_calls": [raw]}, "tool_calls"), ASKED)
    assert message.tool_calls == []
    [invalid] = message.invalid_tool_calls
    assert (invalid["name"], invalid["args"], invalid["id"]) == ("get", arguments, "a")
    assert reason in (invalid["error"] or "")
    chunks = stream(
        *[part(0, "a", name="get", arguments="")], *[part(0, arguments=char) for char in arguments], delta("stop")
    )
    added = total(chunks)
    assert added.tool_calls == []
    [streamed] = added.invalid_tool_calls
    assert (streamed["name"], streamed["id"]) == ("get", "a")
    assert (streamed["args"] or "").startswith(arguments)
    assert reason in (streamed["args"] or "")


def test_a_call_that_the_limit_of_tokens_cut_does_not_run_and_one_before_it_does() -> None:
    calls = [part(0, "a", name="get", arguments='{"city":"Paris"}'), part(1, "b", name="add", arguments="")]
    added = total(stream(*calls, delta("length")))
    assert added.tool_calls == [A]
    [cut] = added.invalid_tool_calls
    assert (cut["name"], cut["id"]) == ("add", "b")
    assert "cut off" in (cut["args"] or "")
    raw = [
        {"id": "a", "function": {"name": "get", "arguments": '{"city":"Paris"}'}},
        {"id": "b", "function": {"name": "add", "arguments": '{"x":'}},
    ]
    message = read_answer(whole({"content": None, "tool_calls": raw}, "length"), ASKED)
    assert message.tool_calls == [A]
    [cut] = message.invalid_tool_calls
    assert (cut["args"], "cut off" in (cut["error"] or "")) == ('{"x":', True)


def test_a_complete_call_runs_although_the_answer_reached_its_limit() -> None:
    assert total(stream(part(0, "a", name="get", arguments='{"city":"Paris"}'), delta("length"))).tool_calls == [A]


def test_a_call_without_a_name_is_invalid() -> None:
    added = total(stream(part(0, "a", arguments="{}"), delta("tool_calls")))
    assert (added.tool_calls, len(added.invalid_tool_calls)) == ([], 1)
    assert "names no tool" in (added.invalid_tool_calls[0]["args"] or "")


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "function_call", "end_turn", "eos"])
def test_calls_count_whatever_the_finish_reason_says(finish_reason: str) -> None:
    message = total(stream(part(0, "a", name="get", arguments='{"city":"Paris"}'), delta(finish_reason)))
    assert (message.tool_calls, message.response_metadata["finish_reason"]) == ([A], finish_reason)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:\\ntrue1aé ', max_size=24), st.integers(min_value=1, max_value=6))
def test_added_up_chunks_hold_a_call_only_if_its_arguments_are_one_json_object(arguments: str, size: int) -> None:
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    message = total(
        stream(part(0, "a", name="get", arguments=""), *[part(0, arguments=one) for one in pieces], delta("stop"))
    )
    expected, _ = read_arguments(arguments)
    assert [one["args"] for one in message.tool_calls] == ([] if expected is None else [expected])
    assert len(message.invalid_tool_calls) == (expected is None)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, {}),
        ("", {}),
        ("null", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        (["a"], "the arguments are a list, not a JSON object"),
        (7, "the arguments are a int, not a JSON object"),
        ("7", "the arguments are a JSON int, not an object"),
    ],
)
def test_arguments_are_an_object_or_an_error(raw: Any, expected: Any) -> None:
    assert read_arguments(raw) == ((expected, None) if isinstance(expected, dict) else (None, expected))


def test_nesting_without_end_is_an_error() -> None:
    arguments, error = read_arguments('{"a":' * 100_000)
    assert arguments is None
    assert error is not None


def test_a_delta_that_adds_nothing_is_no_chunk() -> None:
    chunks = stream(part(0, "a", name="get", arguments="{}"), part(0, "a", name="get", arguments=""), delta("stop"))
    assert [bool(chunk.tool_call_chunks) for chunk in chunks] == [True, False]


def test_calls_without_ids_and_with_one_id_get_ids_of_their_own() -> None:
    raw = {"function": {"name": "get", "arguments": "{}"}}
    for calls in ([raw, raw], [{**raw, "id": "a"}, {**raw, "id": "a"}]):
        message = read_answer({"choices": [{"message": {"tool_calls": calls}}]}, ASKED)
        assert len({one["id"] for one in message.tool_calls} | {None}) == 3
