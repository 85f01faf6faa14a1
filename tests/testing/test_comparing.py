"""Messages are compared by what they say; a difference is shown line against line."""

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from agentgraph.testing import ai, answer, assert_messages, describe, invalid_call, tool_call

HI = HumanMessage("hi")
ROME = tool_call("weather", city="Rome")
X = tool_call("weather", city="Rome", id="x")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [AIMessage("a", id="1", name="bot", response_metadata={"k": 1}, additional_kwargs={"k": 1})],
            [AIMessage("a")],
            id="metadata",
        ),
        pytest.param([AIMessageChunk(content="a", chunk_position="last")], [AIMessage("a")], id="chunks"),
        pytest.param([AIMessage([{"type": "text", "text": "a", "index": 0}])], [AIMessage("a")], id="one text block"),
        pytest.param([ai(X), answer(X, "sunny")], [ai(ROME), answer(ROME, "sunny")], id="derived id stands for any"),
        pytest.param(
            [ai(X, tool_call("weather", city="Rome", id="y")), answer(X, "sunny")],
            [ai(ROME, ROME), answer(ROME, "sunny")],
            id="derived id stands for several",
        ),
        pytest.param([answer(X, "sunny", artifact=object())], [answer(X, "sunny")], id="artifact"),
        pytest.param(
            [ai(invalid_call("pay", id="z"))], [ai(invalid_call("pay"))], id="derived id of an unreadable call"
        ),
    ],
)
def test_messages_that_say_the_same_are_equal(actual: list[BaseMessage], expected: list[BaseMessage]) -> None:
    assert_messages(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "told"),
    [
        ([HI], [], "expected 0 messages, got 1"),
        ([HI], [HI, HI], "expected 2 messages, got 1"),
        ([AIMessage("hi")], [HI], "#0 type: expected 'human', got 'ai'"),
        ([HI], [SystemMessage("hi")], "#0 type: expected 'system', got 'human'"),
        ([HI, AIMessage("a")], [HI, AIMessage("b")], "#1 content: expected 'b', got 'a'"),
        (
            [ai(X)],
            [ai(tool_call("weather", city="Oslo", id="x"))],
            "#0 tool_calls: expected [('weather', {'city': 'Oslo'}",
        ),
        ([ai(ROME)], [ai(X)], "#0 tool_calls: expected [('weather', {'city': 'Rome'}, 'x')]"),
        ([ai()], [ai(invalid_call("pay"))], "#0 invalid_tool_calls: expected [('pay'"),
        ([answer(X, "a", status="error")], [answer(X, "a")], "#0 status: expected 'success', got 'error'"),
        ([answer(X)], [answer(ROME)], "#0 tool_call_id: expected 'call_weather_28a1c8', got 'x'"),
        ([ToolMessage("a", tool_call_id="x")], [answer(X, "a")], "#0 name: expected 'weather', got None"),
    ],
)
def test_each_difference_is_told(actual: list[BaseMessage], expected: list[BaseMessage], told: str) -> None:
    with pytest.raises(AssertionError) as failed:
        assert_messages(actual, expected)
    assert told in str(failed.value)


def test_a_difference_shows_both_lists_line_against_line() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_messages([HI, ai(X), answer(X, "sunny")], [HI, ai(X), answer(X, "rainy")])
    assert str(failed.value).splitlines() == [
        "the messages differ (- expected, + actual):",
        "  human: hi",
        "  ai: -> weather(city='Rome') [x]",
        "- tool weather [x]: rainy",
        "+ tool weather [x]: sunny",
        "#2 content: expected 'rainy', got 'sunny'",
    ]


BLOCKS: list[Any] = [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}]


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (HI, "human: hi"),
        (AIMessage(""), "ai:"),
        (ai(ROME, text="Let me see."), "ai: Let me see. -> weather(city='Rome')"),
        (ai(invalid_call(None, '{"a')), "ai: -> unknown(unreadable '{\"a')"),
        (answer(ROME, "sunny"), "tool weather: sunny"),
        (ToolMessage("no", tool_call_id="x", status="error"), "tool error: no"),
        (AIMessage(BLOCKS), f"ai: {BLOCKS!r}"),
        (AIMessageChunk(content="a"), "ai: a"),
        (RemoveMessage("1"), "remove:"),
    ],
)
def test_a_message_is_described_in_one_line(message: BaseMessage, line: str) -> None:
    assert describe([message]) == [line]
