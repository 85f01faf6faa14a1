"""A request that offers no tools behind turns that have called some: what each server is sent."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentgraph import create_agent
from agentgraph.hooks import ModelRequest, ModelResponse
from agentgraph.middleware import wrap_model_call
from agentgraph.models.anthropic import ChatAnthropic
from tests.models.anthropic_peer import KEY, AnthropicPeer
from tests.models.formats import Format, Said, each_format
from tests.models.openai_asking import WAYS, Asking, add
from tests.wire_server import WireServer

WITHDRAWN = {
    "name": "add",
    "description": "Was offered earlier in this conversation.",
    "input_schema": {"type": "object"},
}
CALLED = [
    HumanMessage("What is 1 + 2?"),
    AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "c0"}]),
    ToolMessage("3", tool_call_id="c0"),
]


@wrap_model_call
def without_tools_at_last(request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
    """Offer tools in the first turn only."""
    spoken = any(isinstance(message, ToolMessage) for message in request.messages)
    return handler(request.override(tools=[]) if spoken else request)


@each_format()
def test_an_agent_ends_with_a_text_when_a_hook_takes_its_tools_away(server: WireServer, wire: Format) -> None:
    server.play(wire.play(Said("", calls=({"a": 1, "b": 2},)), False), wire.play(Said("It is 3."), False))
    agent = create_agent(wire.build(server), [add], middleware=[without_tools_at_last])

    said = agent.invoke({"messages": [HumanMessage("What is 1 + 2?")]})["messages"][-1]

    sent = json.loads(server.requests[-1].body)
    about_tools = {key: sent[key] for key in ("tools", "tool_choice", "toolConfig") if key in sent}
    declared = {"tools": [WITHDRAWN], "tool_choice": {"type": "none"}}
    assert (said.text, about_tools) == ("It is 3.", declared if wire.name == "anthropic" else {})


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_a_server_that_refuses_calls_without_tools_answers(way: Asking) -> None:
    with AnthropicPeer() as peer:
        model = ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY, max_retries=0)
        said: Any = way(model, CALLED)

    assert said.tool_calls == []
    assert isinstance(said.content, str)
    assert said.content.startswith("Hello")


def test_tools_given_as_further_parameters_stay_as_they_are() -> None:
    with AnthropicPeer() as peer:
        own = [{"name": "add", "input_schema": {"type": "object", "properties": {}}}]
        model = ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY, extra_body={"tools": own})
        model.invoke(CALLED)

        assert (peer.bodies[-1]["tools"], "tool_choice" in peer.bodies[-1]) == (own, False)
