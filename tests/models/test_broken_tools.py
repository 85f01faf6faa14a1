"""Tools and tool choices that cannot be: told when they are bound, in every format; all others make a body that is."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agentgraph import create_agent
from agentgraph.decorators import wrap_model_call
from agentgraph.errors import ConfigurationError
from agentgraph.models.gemini import ChatGemini
from agentgraph.models.leaked_messages import offered_names
from tests.models.formats import Format, Said, each_format
from tests.models.openai_asking import WAYS, Asking
from tests.wire_server import WireServer

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def described(name: Any = "add", parameters: Any = None) -> dict[str, Any]:
    function = {"name": name, "description": "Adds.", "parameters": NOTHING if parameters is None else parameters}
    return {"type": "function", "function": function}


def deep() -> dict[str, Any]:
    schema = dict(NOTHING)
    for _ in range(3000):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@each_format()
@pytest.mark.parametrize(
    "tool",
    [
        described(""),
        described(" "),
        described(5),
        described(parameters="object"),
        described(parameters=[1]),
        described(parameters=5),
        described(parameters={"type": "object", "properties": ["a"]}),
        {"type": "function", "function": None},
        {"type": "function", "function": "add"},
        {"type": ["function"], "name": "add"},
        {"name": "add", "input_schema": 5},
        {"name": "", "input_schema": NOTHING},
        {"title": "add", "properties": 5},
        {**described(5), "more": deep()},
    ],
    ids=lambda tool: f"{tool!s:.40}" if "more" not in tool else "deep",
)
def test_a_tool_that_no_server_would_take_is_told_when_it_is_bound(wire: Format, tool: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="is no tool"):
        wire.model_class(model=wire.model, api_key="k").bind_tools([tool])


@pytest.mark.parametrize("key", ["functionDeclarations", "function_declarations"])
@pytest.mark.parametrize("functions", [{"name": "add"}, [5], [None], [{"name": ""}], [{"description": "Adds."}]])
def test_a_declaration_that_gemini_would_refuse_is_told_when_it_is_bound(key: str, functions: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"is no tool|expected a list"):
        ChatGemini(model="m", api_key="k").bind_tools([{key: functions}])


@each_format()
@pytest.mark.parametrize(
    "tool",
    [
        described(parameters={"$ref": "#"}),
        described(parameters={**NOTHING, "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#"}}}),
        described(parameters={**NOTHING, "properties": {"a": {"$ref": "#/$defs/Gone"}}}),
        described(parameters={**NOTHING, "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}),
        described("n" * 1000),
        described("wetter in k\u00f6ln \u5929\u6c17"),
        described("a\ud800"),
    ],
    ids=["root cycle", "cycle", "missing", "wide", "long name", "name of other letters", "lone surrogate"],
)
def test_an_odd_tool_makes_a_body_that_is_json(server: WireServer, wire: Format, tool: dict[str, Any]) -> None:
    server.play(wire.play(Said(), False))
    assert wire.build(server).bind_tools([tool]).invoke("Hi").text == "Hello"
    body = json.loads(server.requests[-1].body.decode())
    assert len(offered_names(body, {})) == 1


@each_format()
@pytest.mark.parametrize("choice", [5, ["add"], {"type": ["function"]}, {"type": "function", "function": {"name": 5}}])
@pytest.mark.parametrize("ask", WAYS, ids=lambda way: way.__name__)
def test_a_tool_choice_that_is_none_is_told(server: WireServer, ask: Asking, wire: Format, choice: Any) -> None:
    server.play(wire.play(Said(), False))
    with pytest.raises(ConfigurationError, match="tool_choice="):
        wire.build(server).bind_tools([described()], tool_choice=choice)
    with pytest.raises(ConfigurationError, match="tool_choice="):
        ask(wire.build(server).bind(tools=[described()], tool_choice=choice), "Hi")
    assert server.requests == []


def add(a: int) -> str:
    """Add."""
    return f"added {a}"


def agent_with(server: WireServer, wire: Format, choice: Any) -> Any:
    @wrap_model_call
    def choose(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_choice=choice))

    model = wire.build(server, profile={"tool_calls_in_text": True})
    return create_agent(model, [add], middleware=[choose])


@each_format()
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_in_the_text_of_a_turn_that_may_not_call_stays_text(
    server: WireServer, wire: Format, streamed: bool
) -> None:
    written = '{"name": "add", "arguments": {"a": 1}}'
    server.play(wire.play(Said(written), streamed))
    agent = agent_with(server, wire, "none")
    if streamed:
        state = list(agent.stream({"messages": "Hi"}, stream_mode=["values", "messages"]))[-1][1]
    else:
        state = agent.invoke({"messages": "Hi"})
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    assert (last.text, last.tool_calls, len(server.requests)) == (written, [], 1)


@pytest.mark.parametrize(
    "forbidding",
    [
        {"tool_choice": "none"},
        {"tool_choice": {"type": "none"}},
        {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        {"tool_config": {"function_calling_config": {"mode": "none"}}},
    ],
)
def test_a_request_that_forbids_calls_offers_none(forbidding: dict[str, Any]) -> None:
    assert offered_names({"tools": [described()], **forbidding}, {}) == {}


@each_format()
def test_an_agent_whose_middleware_chooses_by_no_type_is_told(server: WireServer, wire: Format) -> None:
    with pytest.raises(ConfigurationError, match="tool_choice="):
        agent_with(server, wire, {"type": ["any"]}).invoke({"messages": "Hi"})
    assert server.requests == []


@each_format()
@pytest.mark.parametrize(
    "choice",
    [
        {"function_calling_config": {"mode": "ANY", "allowed_function_names": 5}},
        {"type": "allowed_tools", "tools": 5, "mode": "required"},
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [5, {"function": 5}]}},
    ],
)
def test_a_choice_that_only_its_server_understands_demands_nothing_else(
    server: WireServer, wire: Format, choice: Any
) -> None:
    server.play(wire.play(Said(), False))
    assert agent_with(server, wire, choice).invoke({"messages": "Hi"})["messages"][-1].text == "Hello"


@each_format()
@pytest.mark.parametrize("ask", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    "tools",
    [5, "add", {"a": 1}, [5], [None], [add], [{"type": "function", "function": "add"}]],
    ids=lambda tools: f"{tools!s:.20}",
)
def test_tools_that_were_given_past_bind_tools_are_told_how_to_bind_them(
    server: WireServer, ask: Asking, wire: Format, tools: Any
) -> None:
    with pytest.raises(ConfigurationError, match="bind_tools"):
        ask(wire.build(server).bind(tools=tools), "Hi")
    assert server.requests == []
