"""Tools that the model looks up: what our models are sent, what they keep of the search, and what goes back."""

from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool

from agentgraph import create_agent
from agentgraph.middleware import ProviderToolSearchMiddleware
from agentgraph.models.anthropic_tools import tool_of
from agentgraph.models.openai_responses import ChatOpenAIResponses
from agentgraph.testing import describe
from tests.models import anthropic_asking, openai_responses_asking
from tests.models.anthropic_asking import body_of
from tests.models.openai_asking import WAYS, Asking, bodies
from tests.models.openai_responses_asking import call, message, response
from tests.models.test_openai_responses_agents import _run
from tests.wire_server import WireServer


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@tool
def orders(customer: str) -> str:
    """List the orders of a customer."""
    return f"none of {customer}"


@tool
def weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


TOOLS: list[BaseTool] = [orders, weather]
SCHEMA = {"type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]}
FLAT = {"type": "function", "name": "orders", "parameters": SCHEMA, "defer_loading": True}
NESTED = {"type": "function", "function": {"name": "orders", "parameters": SCHEMA}, "defer_loading": True}


def agent_of(model: Any) -> Any:
    return create_agent(model, TOOLS, middleware=[ProviderToolSearchMiddleware(searchable_tools=["orders"])])


def test_anthropic_is_sent_the_mark_and_the_search_and_gets_its_blocks_back(server: WireServer, ask: Asking) -> None:
    name = "tool_search_tool_bm25"
    found = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "orders"}],
    }
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": {"query": "orders"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
        {"type": "tool_use", "id": "toolu_1", "name": "orders", "input": {"customer": "ann"}},
    ]
    first = body_of(*blocks, stop_reason="tool_use")
    last = body_of({"type": "text", "text": "None."})
    server.play(*(anthropic_asking.played(ask, body) for body in (first, last)))
    final = _run(agent_of(anthropic_asking.local(server)), ask)
    assert describe(final["messages"])[2:] == ["tool orders: none of ann", "ai: None."]
    for body in bodies(server):
        assert [(one["name"], one.get("defer_loading"), one.get("type")) for one in body["tools"]] == [
            ("orders", True, None),
            ("weather", None, None),
            (name, None, "tool_search_tool_bm25_20251119"),
        ]
    assert bodies(server)[1]["messages"][1] == {"role": "assistant", "content": blocks}


def test_openai_is_sent_the_mark_and_the_search_and_gets_its_items_back(server: WireServer, ask: Asking) -> None:
    fixed = {"execution": "server", "status": "completed"}
    items = [
        {"type": "tool_search_call", "id": "tsc_1", "arguments": {"paths": ["orders"]}, **fixed},
        {"type": "tool_search_output", "id": "tso_1", "tools": [FLAT], **fixed},
        call("orders", '{"customer": "ann"}', "c1", namespace="orders"),
    ]
    played = (openai_responses_asking.played(ask, one) for one in (response(*items), response(message("None."))))
    server.play(*played)
    final = _run(agent_of(openai_responses_asking.local(server)), ask)
    assert describe(final["messages"])[2:] == ["tool orders: none of ann", "ai: None."]
    for body in bodies(server):
        assert [(one.get("name"), one.get("defer_loading"), one["type"]) for one in body["tools"]] == [
            ("orders", True, "function"),
            ("weather", None, "function"),
            (None, None, "tool_search"),
        ]
    sent = bodies(server)[1]["input"]
    assert sent[1:3] == items[:2]
    assert sent[3] == {
        "type": "function_call",
        "call_id": "c1",
        "name": "orders",
        "namespace": "orders",
        "arguments": '{"customer": "ann"}',
    }
    assert sent[4]["type"] == "function_call_output"


@pytest.mark.parametrize("given", [FLAT, NESTED], ids=["flat", "nested"])
def test_a_dict_keeps_its_mark_in_both_forms(given: dict[str, Any]) -> None:
    model = ChatOpenAIResponses(model="gpt-5", api_key="k")
    (bound,) = model.bind_tools([given]).kwargs["tools"]  # type: ignore[attr-defined]  # of a binding
    assert bound == {**FLAT, "strict": False}
    assert tool_of(given, strict=None) == {"name": "orders", "input_schema": SCHEMA, "defer_loading": True}


def test_a_tool_without_the_mark_is_sent_without_one() -> None:
    model = ChatOpenAIResponses(model="gpt-5", api_key="k")
    marked = weather.model_copy(update={"extras": {"defer_loading": True, "cache_control": {"type": "ephemeral"}}})
    plain, other = model.bind_tools([weather, marked]).kwargs["tools"]  # type: ignore[attr-defined]  # of a binding
    assert "defer_loading" not in plain
    assert other == {**plain, "defer_loading": True}
