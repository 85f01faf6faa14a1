"""Agents on an Ollama server: rounds of tools and structured answers, sync and async, whole and streamed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.structured_output import ProviderStrategy, ToolStrategy
from tests.models.ollama_asking import END, call, document, event, local, ndjson
from tests.models.openai_asking import BOUND, bodies
from tests.wire_server import Step, WireServer

Running = Callable[[Any, Any], dict[str, Any]]


def invoke(agent: Any, given: Any) -> dict[str, Any]:
    return dict(agent.invoke(given))


def ainvoke(agent: Any, given: Any) -> dict[str, Any]:
    return dict(asyncio.run(asyncio.wait_for(agent.ainvoke(given), BOUND)))


def stream(agent: Any, given: Any) -> dict[str, Any]:
    states = [piece for mode, piece in agent.stream(given, stream_mode=["values", "messages"]) if mode == "values"]
    return dict(states[-1])


def astream(agent: Any, given: Any) -> dict[str, Any]:
    async def read() -> list[Any]:
        pieces = agent.astream(given, stream_mode=["values", "messages"])
        return [piece async for mode, piece in pieces if mode == "values"]

    return dict(asyncio.run(asyncio.wait_for(read(), BOUND))[-1])


@pytest.fixture(params=[invoke, ainvoke, stream, astream], ids=lambda way: way.__name__)
def run(request: pytest.FixtureRequest) -> Running:
    way: Running = request.param
    return way


def turn(run: Running, content: str = "", **said: Any) -> list[Step]:
    """One answer of the server, in the form in which it is asked for in this way of running."""
    if "stream" in run.__name__:
        return ndjson(event(content, **said), event(**END))
    return document(event(content, **said) | END)


def population(city: str) -> str:
    """Get the number of people in a city."""
    return {"Rome": "2.7 million", "Oslo": "0.7 million"}[city]


def asked(city: str) -> dict[str, Any]:
    return call("population", {"city": city})


def test_an_agent_goes_through_two_rounds_of_tools(server: WireServer, run: Running) -> None:
    server.play(
        turn(run, calls=[asked("Rome"), asked("Oslo")], thinking="both"),
        turn(run, "Once more.", calls=[asked("Rome")]),
        turn(run, "Rome is larger."),
    )
    agent = create_agent(local(server), [population], system_prompt="Count.")
    messages = run(agent, {"messages": [HumanMessage("Which is larger?")]})["messages"]
    assert [message.text for message in messages] == [
        "Which is larger?",
        "",
        "2.7 million",
        "0.7 million",
        "Once more.",
        "2.7 million",
        "Rome is larger.",
    ]
    ids = [one["id"] for message in messages if isinstance(message, AIMessage) for one in message.tool_calls]

    def sent(number: int, city: str) -> dict[str, Any]:
        function = {"name": "population", "arguments": {"city": city}}
        return {"id": ids[number], "type": "function", "function": function}

    def result(number: int, text: str) -> dict[str, Any]:
        return {"role": "tool", "content": text, "tool_call_id": ids[number], "tool_name": "population"}

    assert len(set(ids)) == 3
    assert bodies(server)[2]["messages"] == [
        {"role": "system", "content": "Count."},
        {"role": "user", "content": "Which is larger?"},
        {"role": "assistant", "content": "", "thinking": "both", "tool_calls": [sent(0, "Rome"), sent(1, "Oslo")]},
        result(0, "2.7 million"),
        result(1, "0.7 million"),
        {"role": "assistant", "content": "Once more.", "tool_calls": [sent(2, "Rome")]},
        result(2, "2.7 million"),
    ]


class City(BaseModel):
    """A city."""

    name: str


def test_the_providers_strategy_sends_the_schema_as_the_format(server: WireServer, run: Running) -> None:
    server.play(turn(run, '{"name": "Rome"}'))
    agent = create_agent(local(server), response_format=ProviderStrategy(City))
    assert run(agent, {"messages": "Which?"})["structured_response"] == City(name="Rome")
    assert bodies(server)[0]["format"]["properties"] == {"name": {"type": "string", "title": "Name"}}


@pytest.mark.parametrize("response_format", [ToolStrategy(City), City], ids=["tool", "automatic"])
def test_the_tool_strategy_goes_well_with_other_tools(server: WireServer, run: Running, response_format: Any) -> None:
    server.play(turn(run, calls=[asked("Rome")]), turn(run, calls=[call("City", {"name": "Rome"})]))
    agent = create_agent(local(server), [population], response_format=response_format)
    assert run(agent, {"messages": "Which?"})["structured_response"] == City(name="Rome")
    shown = [sorted(tool["function"]["name"] for tool in body["tools"]) for body in bodies(server)]
    assert shown == [["City", "population"]] * 2


def test_text_protocols_need_no_tool_calling_of_the_model(server: WireServer, run: Running) -> None:
    server.play(
        turn(run, '{"tool": "population", "args": {"city": "Oslo"}}'),
        turn(run, '{"final": "It has 0.7 million."}'),
    )
    agent = create_agent(local(server, profile={"tool_calling": False}), [population], tool_protocol="json")
    messages = run(agent, {"messages": "How many in Oslo?"})["messages"]
    assert [message.text for message in messages[-2:]] == ["0.7 million", "It has 0.7 million."]
    assert ["format" in body for body in bodies(server)] == [True, True]


def test_an_agent_thinks_on_where_its_content_is_kept_as_blocks(server: WireServer, run: Running) -> None:
    server.play(turn(run, "Let me see.", calls=[asked("Oslo")], thinking="hm"), turn(run, "0.7 million."))
    agent = create_agent(local(server, output_version="v1"), [population])
    messages = run(agent, {"messages": "How many in Oslo?"})["messages"]
    said = bodies(server)[1]["messages"][1]
    assert (said["content"], said["thinking"], messages[-1].text) == ("Let me see.", "hm", "0.7 million.")
