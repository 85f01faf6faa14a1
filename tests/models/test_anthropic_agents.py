"""Agents on a server of the Messages API: rounds of tools and structured answers, in all ways of running."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from agentgraph import create_agent, open_checkpointer
from agentgraph.errors import OverloadedError
from agentgraph.models.anthropic import ChatAnthropic
from agentgraph.structured_output import ProviderStrategy, ToolStrategy
from tests.models.anthropic_asking import body_of, frames, local, sse
from tests.models.anthropic_peer import KEY, AnthropicPeer
from tests.models.openai_asking import BOUND, bodies
from tests.wire_server import Step, WireServer, answer, streamed

Running = Callable[..., dict[str, Any]]

SIGNED = {"type": "thinking", "thinking": "Both, then.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "ZW5j"}


def invoke(agent: Any, given: Any, config: Any = None) -> dict[str, Any]:
    return dict(agent.invoke(given, config))


def ainvoke(agent: Any, given: Any, config: Any = None) -> dict[str, Any]:
    return dict(asyncio.run(asyncio.wait_for(agent.ainvoke(given, config), BOUND)))


def stream(agent: Any, given: Any, config: Any = None) -> dict[str, Any]:
    pieces = agent.stream(given, config, stream_mode=["values", "messages"])
    return dict([piece for mode, piece in pieces if mode == "values"][-1])


def astream(agent: Any, given: Any, config: Any = None) -> dict[str, Any]:
    async def read() -> list[Any]:
        pieces = agent.astream(given, config, stream_mode=["values", "messages"])
        return [piece async for mode, piece in pieces if mode == "values"]

    return dict(asyncio.run(asyncio.wait_for(read(), BOUND))[-1])


@pytest.fixture(params=[invoke, ainvoke, stream, astream], ids=lambda way: way.__name__)
def run(request: pytest.FixtureRequest) -> Running:
    way: Running = request.param
    return way


def turn(run: Running, *blocks: dict[str, Any], **more: Any) -> list[Step]:
    """One answer of the server, in the form in which it is asked for in this way of running."""
    called = any(block["type"] == "tool_use" for block in blocks)
    body = body_of(*blocks, **{"stop_reason": "tool_use" if called else "end_turn", **more})
    return sse(body) if "stream" in run.__name__ else answer(200, json.dumps(body).encode())


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id_: str, city: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "population", "input": {"city": city}}


def population(city: str) -> str:
    """Get the number of people in a city."""
    return {"Rome": "2.7 million", "Oslo": "0.7 million"}[city]


def result(id_: str, words: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": words}


def test_an_agent_that_thinks_goes_through_two_rounds_of_tools_on_a_stored_thread(
    server: WireServer, run: Running
) -> None:
    server.play(
        turn(run, SIGNED, HIDDEN, text("Let me look."), call("t1", "Rome"), call("t2", "Oslo")),
        turn(run, {**SIGNED, "thinking": ""}, call("t3", "Atlantis")),
        turn(run, text("Rome is larger.")),
    )
    model = local(server, thinking={"type": "adaptive"})
    with open_checkpointer("memory://") as saver:
        agent = create_agent(model, [population], system_prompt="Count.", checkpointer=saver)
        thread = {"configurable": {"thread_id": "1"}}
        messages = run(agent, {"messages": [HumanMessage("Which is larger?")]}, thread)["messages"]
    assert [message.text for message in messages[:4]] == [
        "Which is larger?",
        "Let me look.",
        "2.7 million",
        "0.7 million",
    ]
    assert messages[-1].text == "Rome is larger."
    body = bodies(server)[2]
    failed = body["messages"][-1]["content"][0]
    assert (failed["is_error"], "KeyError" in failed["content"], body["system"]) == (True, True, "Count.")
    assert body["messages"] == [
        {"role": "user", "content": "Which is larger?"},
        {
            "role": "assistant",
            "content": [SIGNED, HIDDEN, text("Let me look."), call("t1", "Rome"), call("t2", "Oslo")],
        },
        {"role": "user", "content": [result("t1", "2.7 million"), result("t2", "0.7 million")]},
        {"role": "assistant", "content": [{**SIGNED, "thinking": ""}, call("t3", "Atlantis")]},
        {"role": "user", "content": [failed]},
    ]


def test_an_agent_asks_again_when_a_call_was_cut(server: WireServer, run: Running) -> None:
    server.play(
        turn(run, call("t1", "Rome"), stop_reason="max_tokens"),
        turn(run, call("t2", "Rome")),
        turn(run, text("2.7 million.")),
    )
    messages = run(create_agent(local(server), [population]), {"messages": "How many?"})["messages"]
    assert [(message.type, message.text) for message in messages if message.type == "tool"][1:] == [
        ("tool", "2.7 million")
    ]
    told = bodies(server)[1]["messages"][-1]["content"][0]
    assert (told["tool_use_id"], told["is_error"]) == ("t1", True)


def test_a_failure_amid_a_stream_ends_the_run_with_the_typed_error(server: WireServer) -> None:
    begun = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm"}}
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.play(streamed(frames([begun, failure])))
    with pytest.raises(OverloadedError):
        stream(create_agent(local(server), [population]), {"messages": "How many?"})


class City(BaseModel):
    """A city."""

    name: str
    people: int


@pytest.mark.parametrize("strategy", [ProviderStrategy, ToolStrategy])
def test_an_agent_gives_a_structured_answer_by_schema_and_by_tool(run: Running, strategy: Any) -> None:
    with AnthropicPeer() as peer:
        model = ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY)
        agent = create_agent(model, [population], response_format=strategy(City))
        if strategy is ProviderStrategy:
            found = run(agent, {"messages": "It has 3 people and is called 'Rome'."})
        else:
            found = run(agent, {"messages": "The City has 3 people and is called 'Rome'."})
        assert found["structured_response"] == City(name="Rome", people=3)
        kinds = ["output_config" in peer.bodies[-1], peer.bodies[-1].get("tool_choice")]
    assert kinds == ([True, None] if strategy is ProviderStrategy else [False, {"type": "any"}])


def test_an_edited_call_goes_back_as_it_was_edited(server: WireServer) -> None:
    server.play(turn(invoke, text("Fine.")))
    said = AIMessage([{**call("t1", "Oslo"), "index": 0}], tool_calls=[{"name": "population", "args": {}, "id": "t1"}])
    edited = said.model_copy(update={"tool_calls": [{**said.tool_calls[0], "args": {"city": "Rome"}}]})
    create_agent(local(server), [population]).invoke({"messages": [HumanMessage("Hi"), edited]})
    assert bodies(server)[0]["messages"][1]["content"] == [call("t1", "Rome")]


@pytest.mark.integration
def test_the_local_model_is_asked_in_this_format_as_well(local_model: Any) -> None:
    server, key = local_model._server(), local_model._key()
    model = ChatAnthropic(model="smollm2", base_url=server, api_key=key, max_tokens=16, temperature=0)
    whole, total = model.invoke("Name one colour."), None
    for chunk in model.stream("Name one colour."):
        total = chunk if total is None else total + chunk
    assert total is not None
    assert (whole.text, bool(whole.text)) == (total.text, True)
    for said in (whole, total):
        assert said.usage_metadata is not None
        assert min(said.usage_metadata["input_tokens"], said.usage_metadata["output_tokens"]) > 0
        assert said.response_metadata["stop_reason"] in {"end_turn", "max_tokens"}
