"""Agents on Gemini: two rounds of tools, signatures that go back, structured answers, garbled calls, checkpoints."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.structured_output import ProviderStrategy, ToolStrategy
from tests.models.gemini_asking import bodies, called, local, piece, played, text
from tests.models.openai_asking import BOUND, WAYS, Asking
from tests.wire_server import WireServer


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def weather(city: str) -> str:
    """Get the weather of a city."""
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"sunny in {city}"


Input = dict[str, Any]


def by_invoke(agent: Any, given: Input, **config: Any) -> Input:
    return dict(agent.invoke(given, config))


def by_ainvoke(agent: Any, given: Input, **config: Any) -> Input:
    return dict(asyncio.run(asyncio.wait_for(agent.ainvoke(given, config), BOUND)))


def by_stream(agent: Any, given: Input, **config: Any) -> Input:
    states = [
        state for mode, state in agent.stream(given, config, stream_mode=["messages", "values"]) if mode == "values"
    ]
    return dict(states[-1])


def by_astream(agent: Any, given: Input, **config: Any) -> Input:
    async def read() -> Input:
        pairs = agent.astream(given, config, stream_mode=["messages", "values"])
        return dict([state async for mode, state in pairs if mode == "values"][-1])

    return asyncio.run(asyncio.wait_for(read(), BOUND))


# How an agent is run, and how its model is asked then.
RUNS = dict(zip((by_invoke, by_ainvoke, by_stream, by_astream), WAYS, strict=True))


@pytest.fixture(params=RUNS, ids=lambda run: run.__name__)
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


def script(run: Any, *answers: tuple[Any, ...]) -> list[Any]:
    way: Asking = RUNS[run]
    return [played(way, *events) for events in answers]


ROME = called("weather", {"city": "Rome"}, id="a", thoughtSignature="c2lnMQ==")
ATLANTIS = called("weather", {"city": "Atlantis"}, id="b")
OSLO = called("weather", {"city": "Oslo"}, thoughtSignature="c2lnMg==")


def test_two_rounds_of_tools_bring_back_what_the_model_signed(server: WireServer, run: Any) -> None:
    thought = text("hm", thought=True)
    server.play(
        *script(
            run,
            (piece(thought), piece(text("Let me see.")), piece(ROME, ATLANTIS, reason="STOP")),
            (piece(OSLO, reason="STOP"),),
            (piece(text("Sunny")), piece(text(".", thoughtSignature="c2lnMw=="), reason="STOP")),
        )
    )
    agent = create_agent(
        local(server, model="gemini-3-pro-preview"),
        [weather],
        system_prompt="You are a guide.",
        checkpointer=InMemorySaver(),
    )
    state = run(agent, {"messages": "Rome?"}, configurable={"thread_id": "1"})
    assert [(message.type, message.text) for message in state["messages"][:3]] == [
        ("human", "Rome?"),
        ("ai", "Let me see."),
        ("tool", "sunny in Rome"),
    ]
    assert [message.text for message in state["messages"][4:]] == ["", "sunny in Oslo", "Sunny."]
    failed = state["messages"][3]
    result = {"name": "weather", "response": {"result": "sunny in Rome"}, "id": "a"}
    error = {"name": "weather", "response": {"error": failed.text}, "id": "b"}
    assert failed.status == "error"
    sent = bodies(server)
    assert sent[2]["systemInstruction"] == {"parts": [text("You are a guide.")]}
    assert sent[2]["contents"] == [
        {"role": "user", "parts": [text("Rome?")]},
        {"role": "model", "parts": [text("Let me see."), ROME, ATLANTIS]},
        {"role": "user", "parts": [{"functionResponse": result}, {"functionResponse": error}]},
        {"role": "model", "parts": [OSLO]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"result": "sunny in Oslo"}}}],
        },
    ]
    server.play(*script(run, (piece(text("Yes."), reason="STOP"),)))
    run(agent, {"messages": "Sure?"}, configurable={"thread_id": "1"})
    assert bodies(server)[3]["contents"][5:] == [
        {"role": "model", "parts": [text("Sunny"), text(".", thoughtSignature="c2lnMw==")]},
        {"role": "user", "parts": [text("Sure?")]},
    ]


def test_a_call_that_the_server_could_not_read_is_told_to_the_model(server: WireServer, run: Any) -> None:
    told = "Malformed function call: print(default_api.weather(city='Ro"
    server.play(
        *script(
            run,
            (piece(reason="MALFORMED_FUNCTION_CALL", finishMessage=told),),
            (piece(text("Sorry."), reason="STOP"),),
        )
    )
    state = run(create_agent(local(server), [weather]), {"messages": "Rome?"})
    assert state["messages"][-1].text == "Sorry."
    (_, call, answer) = bodies(server)[1]["contents"]
    assert call["parts"][0]["functionCall"]["name"] == "weather"
    assert "error" in answer["parts"][0]["functionResponse"]["response"]


def test_an_empty_answer_is_asked_for_again(server: WireServer, run: Any) -> None:
    empty = piece(text("", thoughtSignature="c2ln"), reason="STOP")
    server.play(*script(run, (empty,), (piece(text("Here."), reason="STOP"),)))
    assert run(create_agent(local(server), [weather]), {"messages": "Rome?"})["messages"][-1].text == "Here."
    assert len(server.requests) == 2


class Forecast(BaseModel):
    """A forecast."""

    city: str
    degrees: int


STRUCTURED = {
    "as text": (ProviderStrategy(Forecast), text('{"city": "Rome", "degrees": 20}')),
    "as a call": (ToolStrategy(Forecast), called("Forecast", {"city": "Rome", "degrees": 20})),
    "as the model can": (Forecast, text('{"city": "Rome", "degrees": 20}')),
}


@pytest.mark.parametrize("case", STRUCTURED)
def test_a_structured_answer_by_every_strategy(server: WireServer, run: Any, case: str) -> None:
    strategy, part = STRUCTURED[case]
    server.play(*script(run, (piece(part, reason="STOP"),)))
    agent = create_agent(local(server, model="gemini-3-pro-preview"), [weather], response_format=strategy)
    state = run(agent, {"messages": "Rome?"})
    assert state["structured_response"] == Forecast(city="Rome", degrees=20)
    config = bodies(server)[0].get("generationConfig", {})
    assert config.get("responseMimeType") == (None if case == "as a call" else "application/json")
    if case != "as a call":
        assert config["responseJsonSchema"]["required"] == ["city", "degrees"]


def test_an_image_reaches_the_model_and_googles_tools_stand_beside_functions(server: WireServer, run: Any) -> None:
    server.play(*script(run, (piece(text("A cat."), reason="STOP"),)))
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    agent = create_agent(local(server), [weather, {"google_search": {}}])
    run(agent, {"messages": [HumanMessage(["What is it?", image])]})
    (body,) = bodies(server)
    assert body["contents"][0]["parts"] == [
        text("What is it?"),
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
    ]
    assert [list(tool) for tool in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]


def test_a_thread_of_another_provider_goes_on_here(server: WireServer, run: Any) -> None:
    server.play(*script(run, (piece(text("Sunny."), reason="STOP"),)))
    call = {"name": "weather", "args": {"city": "Rome"}, "id": "toolu_1", "type": "tool_call"}
    before = AIMessage(
        [{"type": "thinking", "thinking": "hm", "signature": "x"}],
        tool_calls=[call],
        response_metadata={"model_provider": "anthropic"},
    )
    history = [HumanMessage("Rome?"), before, ToolMessage("sunny", tool_call_id="toolu_1")]
    run(create_agent(local(server, model="gemini-3-pro-preview"), [weather]), {"messages": history})
    assert bodies(server)[0]["contents"][1] == {
        "role": "model",
        "parts": [called("weather", {"city": "Rome"}, thoughtSignature="skip_thought_signature_validator")],
    }
