"""Calls that have one id several times in a conversation: in each request every call is one's own, with its result."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agentgraph import create_agent
from agentgraph.models.call_ids import with_own_call_ids
from tests.models import anthropic_asking as anthropic
from tests.models import openai_asking as openai
from tests.models import openai_responses_asking as responses
from tests.models.openai_asking import add, invoke
from tests.wire_server import WireServer, answer

Pairs = list[tuple[str, Any]]


def call(number: int, id_: str = "c1") -> Any:
    return {"type": "tool_call", "name": "add", "args": {"a": number, "b": 0}, "id": id_}


def result(number: int, id_: str = "c1") -> ToolMessage:
    return ToolMessage(str(number), tool_call_id=id_, name="add")


def turn(number: int, content: Any = "") -> list[BaseMessage]:
    return [HumanMessage("Go on."), AIMessage(content, tool_calls=[call(number)]), result(number)]


def _chat(body: Mapping[str, Any]) -> tuple[Pairs, Pairs]:
    messages = body["messages"]
    calls = [
        (one["id"], json.loads(one["function"]["arguments"])["a"])
        for message in messages
        for one in message.get("tool_calls", ())
    ]
    return calls, [(one["tool_call_id"], int(one["content"])) for one in messages if one["role"] == "tool"]


def _anthropic(body: Mapping[str, Any]) -> tuple[Pairs, Pairs]:
    blocks = [one for message in body["messages"] if isinstance(message["content"], list) for one in message["content"]]
    calls = [(one["id"], one["input"]["a"]) for one in blocks if one["type"] == "tool_use"]
    return calls, [(one["tool_use_id"], int(one["content"])) for one in blocks if one["type"] == "tool_result"]


def _responses(body: Mapping[str, Any]) -> tuple[Pairs, Pairs]:
    items = body["input"]
    calls = [(one["call_id"], json.loads(one["arguments"])["a"]) for one in items if one.get("type") == "function_call"]
    kind = "function_call_output"
    return calls, [(one["call_id"], int(one["output"])) for one in items if one.get("type") == kind]


CHAT_END = {"choices": [{"index": 0, "message": {"content": "Done."}, "finish_reason": "stop"}]}
FORMATS: Mapping[str, tuple[Callable[..., Any], Callable[[Mapping[str, Any]], tuple[Pairs, Pairs]], Any]] = {
    "openai": (openai.local, _chat, CHAT_END),
    "openai_responses": (responses.local, _responses, responses.response(responses.message("Done."))),
    "anthropic": (anthropic.local, _anthropic, anthropic.message("Done.")),
}
HISTORIES: Mapping[str, tuple[Sequence[BaseMessage], list[int]]] = {
    "one id in each turn": ([*turn(1), *turn(2), *turn(3)], [1, 2, 3]),
    "one id twice in a turn": (
        [HumanMessage("Hi"), AIMessage("", tool_calls=[call(1), call(2)]), result(1), result(2)],
        [1, 2],
    ),
    "blocks that say where a call stood": (
        [
            *turn(1, [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c1", "name": "add", "input": {}}]),
            *turn(2, [{"type": "function_call", "call_id": "c1", "name": "add"}, {"type": "text", "text": "b"}]),
            *turn(3, [{"type": "tool_call", "id": "c1", "name": "add", "args": {}}]),
        ],
        [1, 2, 3],
    ),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("history", HISTORIES)
def test_calls_of_one_id_are_sent_under_ids_of_their_own(server: WireServer, name: str, history: str) -> None:
    local, pairs, end = FORMATS[name]
    messages, numbers = HISTORIES[history]
    server.play(answer(200, json.dumps(end).encode()))
    for _ in range(2):
        invoke(local(server).bind_tools([add]), list(messages))
    first, again = (json.loads(request.body) for request in server.requests)
    calls, results = pairs(first)
    assert again == first
    assert calls == results
    assert [number for _, number in calls] == numbers
    assert len({id_ for id_, _ in calls}) == len(numbers)
    assert calls[0][0] == "c1"


def test_what_was_sent_before_is_sent_the_same_when_the_conversation_goes_on() -> None:
    shorter = with_own_call_ids([*turn(1), *turn(2)])
    longer = with_own_call_ids([*turn(1), *turn(2), *turn(3)])
    assert list(longer[: len(shorter)]) == list(shorter)


def test_a_conversation_without_doubled_ids_is_left_as_it_is() -> None:
    messages = [*turn(1), AIMessage("", tool_calls=[call(2, "c2")]), result(2, "c2"), result(9, "gone")]
    assert with_own_call_ids(messages) is messages


def test_invalid_calls_are_told_apart_as_well_and_nothing_that_was_given_is_changed() -> None:
    broken: Any = {"name": "add", "args": "{", "id": "c1", "error": "no JSON"}
    messages = [*turn(1), AIMessage("", invalid_tool_calls=[broken]), result(2), result(3)]
    *_, message, answer_, second = with_own_call_ids(messages)
    assert isinstance(message, AIMessage)
    assert isinstance(answer_, ToolMessage)
    assert isinstance(second, ToolMessage)
    assert message.invalid_tool_calls[0]["id"] == answer_.tool_call_id == second.tool_call_id != "c1"
    assert messages[3:] == [AIMessage("", invalid_tool_calls=[broken]), result(2), result(3)]


def test_an_agent_goes_on_with_a_server_that_numbers_the_calls_of_each_turn_anew(server: WireServer) -> None:
    asked = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
    using, said = anthropic.body_of(asked, stop_reason="tool_use"), anthropic.message("Done.")
    server.play(*(answer(200, json.dumps(body).encode()) for body in (using, using, said)))
    agent = create_agent(anthropic.local(server), [add])
    assert agent.invoke({"messages": "Hi"})["messages"][-1].text == "Done."
    calls, results = _anthropic(json.loads(server.requests[-1].body))
    ids = [id_ for id_, _ in calls]
    assert [id_ for id_, _ in results] == ids
    assert len(set(ids)) == 2
