"""Agents on ChatOpenAIResponses: tool rounds with thoughts between them, structured answers, and a real server."""

import asyncio
import json
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.errors import ContextOverflowError
from agentgraph.models.local import ChatLocal
from agentgraph.models.openai_responses import ChatOpenAIResponses
from agentgraph.structured_output import MissingStructuredOutputError, ProviderStrategy, ToolStrategy
from agentgraph.testing import describe
from tests.models.openai_asking import BOUND, WAYS, Asking, add, bodies
from tests.models.openai_responses_asking import call, events_of, local, message, played, response, sse, thought
from tests.wire_server import WireServer, answer, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


ROUNDS = [
    response(thought("first", encrypted_content="e1"), call("add", '{"a": 1, "b": 2}', "c1"), id="resp_1"),
    response(
        thought(id="rs_2", encrypted_content="e2"),
        message("And now", id="msg_2", phase="commentary"),
        call("add", '{"a": 3, "b": 4}', "c2"),
        call("add", '{"a": "x"', "c3"),
        id="resp_2",
    ),
    response(message("It is 7.", id="msg_3"), id="resp_3"),
]


def _run(agent: Any, way: Asking) -> dict[str, Any]:
    given = {"messages": "Add them."}
    if way.__name__ == "invoke":
        return agent.invoke(given)  # type: ignore[no-any-return]  # the graph is Any here
    if way.__name__ == "ainvoke":
        return asyncio.run(asyncio.wait_for(agent.ainvoke(given), BOUND))  # type: ignore[no-any-return]  # likewise
    if way.__name__ == "stream":
        return list(agent.stream(given, stream_mode=["values", "messages"]))[-1][1]  # type: ignore[no-any-return]  # likewise

    async def read() -> Any:
        return [item async for item in agent.astream(given, stream_mode=["values", "messages"])][-1][1]

    return asyncio.run(asyncio.wait_for(read(), BOUND))  # type: ignore[no-any-return]  # likewise


def test_an_agent_runs_its_tools_and_brings_the_thoughts_back(server: WireServer, ask: Asking) -> None:
    server.play(*[played(ask, one) for one in ROUNDS])
    final = _run(create_agent(local(server), [add]), ask)
    described = describe(final["messages"])
    assert [described[0], described[2], described[-1]] == ["human: Add them.", "tool add: 3", "ai: It is 7."]
    assert [item.get("type", item.get("role")) for item in bodies(server)[-1]["input"]] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    sent = bodies(server)[-1]["input"]
    assert [item["encrypted_content"] for item in sent if item.get("type") == "reasoning"] == ["e1", "e2"]
    assert {item["call_id"] for item in sent if "call_id" in item} == {"c1", "c2", "c3"}


class City(BaseModel):
    """A city."""

    name: str


def test_structured_output_comes_as_text_and_as_a_call(server: WireServer, ask: Asking) -> None:
    scripts = [response(message('{"name": "Rome"}')), response(call("City", '{"name": "Rome"}', "c1"))]
    server.play(*[played(ask, one) for one in scripts])
    for strategy in (ProviderStrategy(City), ToolStrategy(City)):
        final = _run(create_agent(local(server), response_format=strategy), ask)
        assert final["structured_response"] == City(name="Rome")
    native, by_call = bodies(server)
    assert native["text"]["format"]["name"] == "City"
    assert native["text"]["format"]["schema"]["properties"] == {"name": {"title": "Name", "type": "string"}}
    assert (by_call["tools"][0]["name"], by_call["tool_choice"]) == ("City", "required")


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_with_structured_output_gives_an_instance(server: WireServer, method: Any) -> None:
    said = call("City", '{"name": "Rome"}', "c1") if method == "function_calling" else message('{"name": "Rome"}')
    server.play(answer(200, json.dumps(response(said)).encode()))
    assert local(server).with_structured_output(City, method=method).invoke("Rome?") == City(name="Rome")
    (body,) = bodies(server)
    asked = body["tool_choice"] if method == "function_calling" else body["text"]["format"]["type"]
    assert asked == {"json_mode": "json_object"}.get(method, asked)
    if method == "function_calling":
        assert asked == {"type": "function", "name": "City"}


def test_the_newest_streaming_protocol_shows_thoughts_calls_and_text(server: WireServer) -> None:
    half = call("add", '{"a": 1', "c2")
    whole = response(thought("hm", encrypted_content="e"), message("Hello you"), call("add", '{"a": 1}', "c1"), half)
    server.play(streamed(sse(events_of(whole))))
    told = local(server).stream_events("Hi", version="v3").output
    assert (told.text, [one["id"] for one in told.tool_calls], [one["id"] for one in told.invalid_tool_calls]) == (
        "Hello you",
        ["c1"],
        ["c2"],
    )
    thoughts, text, *_ = told.content_blocks
    assert (thoughts["type"], thoughts["reasoning"], text["type"]) == ("reasoning", "hm", "text")
    assert [block["type"] for block in told.content_blocks] == [
        "reasoning",
        "text",
        "tool_call",
        "invalid_tool_call",
    ]


def test_a_refusal_in_place_of_a_structured_answer_is_told_as_one(server: WireServer) -> None:
    server.play(answer(200, json.dumps(response(message({"type": "refusal", "refusal": "I will not."}))).encode()))
    agent = create_agent(local(server), response_format=ProviderStrategy(City))
    with pytest.raises(MissingStructuredOutputError, match="refused: 'I will not"):
        agent.invoke({"messages": "Rome?"})


# A real server


@pytest.fixture
def real(local_model: BaseChatModel) -> ChatOpenAIResponses:
    """The local model behind llama.cpp's own endpoint of this API."""
    assert isinstance(local_model, ChatLocal)
    key = local_model._key()
    settings: dict[str, Any] = {"base_url": local_model._server(), "api_key": key, "timeout": 600, "temperature": 0}
    return ChatOpenAIResponses(model="smollm2", max_tokens=3, **settings)


@pytest.mark.integration
def test_all_ways_of_asking_a_real_server_give_the_same_message(real: ChatOpenAIResponses) -> None:
    read = [way(real, "Name one colour.") for way in WAYS]
    assert {one.text for one in read} == {read[0].text} != {""}
    assert {one.response_metadata["model_name"] for one in read} == {"smollm2"}
    # It says "completed" of an answer that it cut.
    assert {one.response_metadata["finish_reason"] for one in read} == {"length"}
    assert [one.usage_metadata["output_tokens"] for one in read] == [3] * 4


@pytest.mark.integration
def test_a_real_server_takes_a_conversation_with_calls(real: ChatOpenAIResponses) -> None:
    calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}]
    first = real.invoke("Hello")
    history = [
        SystemMessage("Be brief."),
        HumanMessage("Hello"),
        first,
        HumanMessage([{"type": "text", "text": "1+2?"}]),
    ]
    history += [AIMessage("", tool_calls=calls), ToolMessage("3", tool_call_id="c1")]
    assert real.invoke(history).text
    with pytest.raises(ContextOverflowError, match="4096"):
        real.invoke("word " * 5000)
