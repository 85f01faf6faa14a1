"""The strict reader names every fault for which a provider refuses a history, and no other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from agentgraph.testing import (
    ai,
    answer,
    assert_valid_history,
    history_faults,
    invalid_call,
    settings_faults,
    tool_call,
)

HI = HumanMessage("hi")
A, B = tool_call("weather", id="a"), tool_call("pay", id="b")
BAD, WORSE = invalid_call("weather", id="bad"), invalid_call(None, id="worse")


def answered(*calls: Any) -> list[BaseMessage]:
    return [answer(call, "ok") for call in calls]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="nothing"),
        pytest.param([SystemMessage("be kind"), HI, AIMessage("hello")], id="talk"),
        pytest.param([HI, HI, AIMessage("a"), AIMessage("b"), HI], id="any order of people"),
        pytest.param([HI, ai(A), *answered(A), AIMessage("done")], id="a call"),
        pytest.param([HI, ai(A, B), *answered(A, B)], id="two calls, in order"),
        pytest.param([HI, ai(A), *answered(A), HI, ai(A), *answered(A)], id="one id in two messages"),
        pytest.param([HI, ai(A, BAD), *answered(A, BAD)], id="unreadable call after"),
        pytest.param([HI, ai(A, BAD), *answered(BAD, A)], id="unreadable call before"),
        pytest.param([HI, ai(A, BAD, B, WORSE), *answered(BAD, A, WORSE, B)], id="unreadable calls between"),
        pytest.param([HI, AIMessage([{"type": "text", "text": "x"}])], id="text block"),
        pytest.param([HI, AIMessage([{"type": "image", "url": "x"}])], id="other block"),
        pytest.param([HI, AIMessage("", additional_kwargs={"refusal": "I will not."})], id="refusal"),
        pytest.param([HI, AIMessage(["x"])], id="bare string in content"),
        pytest.param(
            [HI, AIMessage([{"type": "tool_use", "id": "a", "name": "weather"}], tool_calls=[A]), *answered(A)],
            id="block that repeats its call",
        ),
        pytest.param([HI, AIMessage([{"type": "server_tool_call", "id": "s"}])], id="the server's own call"),
    ],
)
def test_a_good_history_has_no_faults(messages: list[Any]) -> None:
    assert history_faults(messages) == []
    assert_valid_history(messages)


EMPTY = "empty assistant message: neither text nor tool calls"


@pytest.mark.parametrize(
    ("messages", "faults"),
    [
        ([HI, ai(A)], ["#1: no answer to call 'a' (weather) directly after it"]),
        (
            [HI, ai(A, B), *answered(B), HI, *answered(A)],
            [
                "#1: no answer to call 'a' (weather) directly after it",
                "#4: answer to call 'a', which the assistant message directly before does not make",
            ],
        ),
        ([HI, ai(A, WORSE), *answered(A)], ["#1: no answer to call 'worse' (unknown) directly after it"]),
        ([HI, ai(A, B), *answered(B, A)], ["#1: answers in the order ['b', 'a'], calls in the order ['a', 'b']"]),
        (
            [HI, ai(BAD, WORSE), *answered(WORSE, BAD)],
            ["#1: answers in the order ['worse', 'bad'], calls in the order ['bad', 'worse']"],
        ),
        ([HI, ai(A), *answered(A, A)], ["#3: second answer to call 'a'"]),
        (
            [*answered(A), HI],
            ["#0: answer to call 'a', which the assistant message directly before does not make"],
        ),
        (
            [HI, ai(tool_call("weather", id=None)), ToolMessage("x", tool_call_id="")],
            [
                "#1: call of weather without an id",
                "#2: answer to call '', which the assistant message directly before does not make",
            ],
        ),
        ([HI, ai(A, A), *answered(A)], ["#1: 2 calls with the id 'a'"]),
        ([HI, AIMessage("")], [f"#1: {EMPTY}"]),
        ([HI, AIMessage(" \n")], [f"#1: {EMPTY}"]),
        ([HI, AIMessage([])], [f"#1: {EMPTY}"]),
        ([HI, AIMessage([{"type": "reasoning", "reasoning": "x"}])], [f"#1: {EMPTY}"]),
        ([HI, AIMessage([{"type": "text", "text": ""}, ""])], [f"#1: {EMPTY}"]),
        ([HI, SystemMessage("late")], ["#1: a system message may only stand first"]),
        ([RemoveMessage("1")], ["#0: not a message of a conversation: RemoveMessage("]),
        ([HI, {"role": "user"}], ["#1: not a message of a conversation: {'role': 'user'}"]),
        (
            [AIMessage(["x", {"type": "tool_use", "id": "gone"}, {"type": "function_call", "call_id": "too"}])],
            [
                "#0: content block of call 'gone', which is not among the message's tool calls",
                "#0: content block of call 'too', which is not among the message's tool calls",
            ],
        ),
    ],
)
def test_each_fault_is_named_with_its_place(messages: list[Any], faults: list[str]) -> None:
    found = history_faults(messages)
    assert len(found) == len(faults)
    assert all(one.startswith(other) for one, other in zip(found, faults, strict=True)), found
    with pytest.raises(AssertionError) as refused:
        assert_valid_history(messages)
    assert all(fault in str(refused.value) for fault in faults)


@given(st.permutations(range(4)), st.integers(0, 4), st.booleans())
def test_only_complete_answers_in_order_pass(order: list[int], given_answers: int, person_first: bool) -> None:
    calls = [tool_call("weather", id=str(number)) for number in range(4)]
    replies = [answer(calls[number]) for number in order[:given_answers]]
    messages = [ai(*calls), *([HI] if person_first else []), *replies]
    good = not person_first and given_answers == 4 and list(order) == [0, 1, 2, 3]
    assert (history_faults(messages) == []) is good


def named(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


SCHEMA = {"type": "json_schema", "json_schema": {"name": "Verdict", "schema": {}}}


@pytest.mark.parametrize(
    ("settings", "profile", "faults"),
    [
        ({}, None, []),
        ({"tools": named("a", "b"), "tool_choice": "any", "parallel_tool_calls": False}, None, []),
        ({"tools": named("a"), "tool_choice": "a", "response_format": SCHEMA}, {"tool_calling": True}, []),
        ({"tools": named("a"), "tool_choice": {"type": "function", "function": {"name": "a"}}}, None, []),
        ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "any"}}, None, []),
        ({"tools": [{"name": "a", "input_schema": {}}], "tool_choice": True}, None, []),
        ({"response_format": {"type": "json_object"}}, None, []),
        ({"tools": named("a", "b", "a")}, None, ["2 tools with the name 'a'"]),
        ({"tools": named("a.b")}, None, ["illegal tool name 'a.b': 1 to 64 letters, digits, '_' or '-' are accepted"]),
        ({"tools": named("x" * 65)}, None, [f"illegal tool name '{'x' * 65}': 1 to 64 letters"]),
        ({"tools": [{}]}, None, ["illegal tool name '': 1 to 64"]),
        ({"tools": [], "tool_choice": "auto"}, None, ["tool_choice 'auto' without tools"]),
        ({"parallel_tool_calls": True}, None, ["parallel_tool_calls without tools"]),
        (
            {"tools": named("a"), "tool_choice": "b"},
            None,
            ["tool_choice names the tool 'b'; the request has ['a']"],
        ),
        (
            {"tools": named("a"), "tool_choice": {"type": "tool", "name": "b"}},
            None,
            ["tool_choice names the tool 'b'; the request has ['a']"],
        ),
        (
            {"response_format": {"type": "json_schema"}},
            None,
            ["response_format of type json_schema without json_schema.schema"],
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "my verdict", "schema": {}}}},
            None,
            ["illegal name of a response schema 'my verdict'"],
        ),
        (
            {"tools": named("a"), "tool_choice": "any", "response_format": SCHEMA},
            {"tool_calling": False, "tool_choice": False, "structured_output": False},
            [
                "tools sent to a model whose profile says tool_calling=False",
                "tool_choice sent to a model whose profile says tool_choice=False",
                "response_format sent to a model whose profile says structured_output=False",
            ],
        ),
    ],
)
def test_contradictory_settings_are_named(settings: Any, profile: Any, faults: list[str]) -> None:
    found = settings_faults(settings, profile)
    assert len(found) == len(faults)
    assert all(one.startswith(other) for one, other in zip(found, faults, strict=True)), found
