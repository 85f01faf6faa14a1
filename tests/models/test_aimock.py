"""Whole dialogues of agents with a stranger's reading of the five wire formats, in all ways of running.

The mock answers what it understood: a turn that it read otherwise than it was meant finds no answer. It is not like the
providers in everything (`Spoken` has what matters here), so what only a provider can say is not looked for.
"""

import base64
import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    InvalidResponseError,
    ModelConnectionError,
    ModelError,
    OverloadedError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.structured_output import ProviderStrategy, ToolStrategy
from tests.models.aimock_asking import (
    DIALOGUES,
    FORMATS,
    STREAMING,
    WAYS,
    Dialogue,
    Running,
    Spoken,
    answers_belong_to_calls,
    bare,
    by_invoke,
    by_stream,
    on,
    told,
    understood,
)
from tests.models.aimock_server import Aimock, missing


@pytest.fixture(scope="module")
def aimock() -> Iterator[Aimock]:
    reason = missing()
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}; in CI `make lint` brings a node, and `make test` the rest")
        pytest.skip(reason)
    with Aimock() as running:
        yield running


@pytest.fixture(params=FORMATS, ids=lambda one: one.name)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    one: Spoken = request.param
    return one


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def run(request: pytest.FixtureRequest) -> Running:
    way: Running = request.param
    return way


@pytest.fixture(params=STREAMING, ids=lambda way: way.__name__)
def run_streaming(request: pytest.FixtureRequest) -> Running:
    way: Running = request.param
    return way


def weather(city: str) -> str:
    """Get the weather of a city."""
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"sunny in {city}"


# Dialogues


def held(aimock: Aimock, spoken: Spoken, run: Running, dialogue: Dialogue) -> dict[str, Any]:
    """Hold a dialogue on a thread of its own, and return its last state."""
    aimock.play(*dialogue.fixtures(spoken))
    agent = create_agent(spoken.connected(aimock), [weather], checkpointer=InMemorySaver())
    states = [run(agent, {"messages": words}, configurable={"thread_id": "1"}) for words in dialogue.asks]
    return states[-1]


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_dialogue_is_understood_on_both_sides(aimock: Aimock, spoken: Spoken, run: Running, name: str) -> None:
    dialogue = DIALOGUES[name]
    state = held(aimock, spoken, run, dialogue)
    assert told(state["messages"]) == dialogue.said
    entries = aimock.journal()
    ends = [at for at, one in enumerate(dialogue.said) if one[0] == "ai"]
    assert [understood(entry) for entry in entries] == [dialogue.said[:end] for end in ends]
    assert all(answers_belong_to_calls(entry) for entry in entries)
    assert [bool(entry["body"].get("stream")) for entry in entries] == [run in STREAMING] * len(ends)


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_streamed_dialogue_is_the_one_that_comes_whole(
    aimock: Aimock, spoken: Spoken, run_streaming: Running, name: str
) -> None:
    streamed, whole = [
        [bare(message.model_dump()) for message in held(aimock, spoken, way, DIALOGUES[name])["messages"]]
        for way in (run_streaming, by_invoke)
    ]
    assert streamed == whole


def test_the_error_of_a_tool_is_told_to_the_model(aimock: Aimock, spoken: Spoken, run: Running) -> None:
    aimock.play(
        on("Atlantis?", spoken.calls("Atlantis", "Rome")),
        on("Atlantis?", {"content": "It has sunk."}, result="sunny in Rome"),
    )
    messages = run(create_agent(spoken.connected(aimock), [weather]), {"messages": "Atlantis?"})["messages"]
    assert [message.status for message in messages if isinstance(message, ToolMessage)] == ["error", "success"]
    assert "there is no such city" in messages[2].text
    assert understood(aimock.journal()[-1]) == told(messages)[:-1]
    assert messages[-1].text == "It has sunk."


def test_tokens_are_counted_as_the_server_counts_them(aimock: Aimock, spoken: Spoken, run: Running) -> None:
    aimock.play(on("Hi!", {"content": "Hello.", "usage": {"prompt_tokens": 11, "completion_tokens": 5}}))
    message = run(create_agent(spoken.connected(aimock)), {"messages": "Hi!"})["messages"][-1]
    counted = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    assert message.usage_metadata == (counted if spoken.counts else dict.fromkeys(counted, 0))


# Thoughts


THOUGHTFUL = [one for one in FORMATS if one.reasons]
THINKING = {"ChatAnthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}


def thinks(spoken: Spoken) -> list[dict[str, Any]]:
    hidden = {"reasoningSignature": "c2ln", "redactedThinking": ["aGlkZGVu"]} if spoken.name == "ChatAnthropic" else {}
    thought = spoken.calls("Rome", content="Let me see.", reasoning="Hm, to Rome … then.", **hidden)
    return [on("Rome?", thought), on("Rome?", {"content": "Sunny.", "reasoning": "Easy."}, result="sunny in Rome")]


@pytest.mark.parametrize("spoken", THOUGHTFUL, ids=lambda one: one.name)
def test_thoughts_are_told_apart_from_what_is_said(aimock: Aimock, spoken: Spoken, run: Running) -> None:
    aimock.play(*thinks(spoken))
    agent = create_agent(spoken.connected(aimock, **THINKING.get(spoken.name, {})), [weather])
    messages = run(agent, {"messages": "Rome?"})["messages"]
    thoughts = [
        [block["reasoning"] for block in messages[at].content_blocks if block["type"] == "reasoning"] for at in (1, 3)
    ]
    assert thoughts == [["Hm, to Rome … then."], ["Easy."]]
    assert [messages[at].text for at in (1, 3)] == ["Let me see.", "Sunny."]
    assert understood(aimock.journal()[-1]) == told(messages)[:-1]


CALLED = {"name": "weather", "arguments": '{"city": "Rome"}'}
SAID = {"role": "assistant", "content": "Let me see."}
# The turn that thought, as it goes back: what a provider wants back, and nothing that it refuses.
WAYS_BACK = {
    "ChatOpenAI": [SAID | {"tool_calls": [{"type": "function", "function": CALLED}]}],
    "ChatOpenAIResponses": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm, to Rome … then."}]},
        {"type": "message", **SAID},
        {"type": "function_call", **CALLED},
    ],
    "ChatAnthropic": [
        {
            "role": "assistant",
            "content": [
                {"type": "redacted_thinking", "data": "aGlkZGVu"},
                {"type": "thinking", "thinking": "Hm, to Rome … then.", "signature": "c2ln"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "name": "weather", "input": {"city": "Rome"}},
            ],
        }
    ],
    "ChatGemini": [
        {
            "role": "model",
            "parts": [{"text": "Let me see."}, {"functionCall": {"name": "weather", "args": {"city": "Rome"}}}],
        }
    ],
}


@pytest.mark.parametrize("way", [by_invoke, by_stream])
@pytest.mark.parametrize("spoken", THOUGHTFUL, ids=lambda one: one.name)
def test_a_turn_that_thought_goes_back_as_its_provider_wants_it(aimock: Aimock, spoken: Spoken, way: Running) -> None:
    sent: list[Any] = []
    with httpx.Client(event_hooks={"request": [lambda request: sent.append(json.loads(request.content))]}) as client:
        model = spoken.connected(aimock, http_client=client, **THINKING.get(spoken.name, {}))
        aimock.play(*thinks(spoken))
        way(create_agent(model, [weather]), {"messages": "Rome?"})
    (turns,) = [sent[-1][key] for key in ("messages", "input", "contents") if key in sent[-1]]
    assert bare(turns[1:-1]) == WAYS_BACK[spoken.name]
    sealed = [(turn["id"], turn["encrypted_content"]) for turn in turns if turn.get("type") == "reasoning"]
    assert all(base64.b64decode(seal).decode().endswith(f":{name}") for name, seal in sealed)


# Structured answers


class Forecast(BaseModel):
    """A forecast."""

    city: str
    degrees: int


ROME: dict[str, Any] = {"city": "Rome", "degrees": 20}


def forecast(spoken: Spoken, **arguments: Any) -> dict[str, Any]:
    return {"toolCalls": [{"name": "Forecast", "arguments": arguments, "id": "call_1"}], **spoken.fields}


def test_a_structured_answer_that_the_provider_keeps_to(aimock: Aimock, spoken: Spoken, run: Running) -> None:
    answer = on("Rome?", {"content": ROME})
    answer["match"] |= {"responseFormat": "json_schema"} if spoken.judges else {}
    aimock.play(answer)
    agent = create_agent(spoken.connected(aimock), response_format=ProviderStrategy(Forecast))
    assert run(agent, {"messages": "Rome?"})["structured_response"] == Forecast(**ROME)


def test_a_structured_answer_by_a_call_is_asked_for_again_when_it_does_not_fit(
    aimock: Aimock, spoken: Spoken, run: Running
) -> None:
    wrong, right = on("Rome?", forecast(spoken, city="Rome")), on("Rome?", forecast(spoken, **ROME), result="degrees")
    wrong["match"]["toolName"] = "Forecast"
    aimock.play(wrong, right)
    agent = create_agent(spoken.connected(aimock), response_format=ToolStrategy(Forecast))
    assert run(agent, {"messages": "Rome?"})["structured_response"] == Forecast(**ROME)
    assert aimock.statuses() == [200, 200]


# Faults


def refused(status: int, **more: Any) -> dict[str, Any]:
    return on("Rome?", {"error": {"message": "Not now, please.", "type": "some_error"}, "status": status, **more})


def hindered(**chaos: float) -> dict[str, Any]:
    return on("Rome?", {"content": "Sunny."}, chaos=chaos)


FAULTS = {
    "400": (refused(400), BadRequestError, 400),
    "401": (refused(401), AuthenticationError, 401),
    "429": (refused(429, retryAfter=0.2), RateLimitError, 429),
    "500": (refused(500), ServerError, 500),
    "529": (refused(529), OverloadedError, 529),
    "no JSON": (hindered(malformedRate=1), InvalidResponseError, 200),
    "a connection that is cut before the answer": (hindered(disconnectRate=1), ModelConnectionError, 0),
}
WAITING_MENDS = {RateLimitError, ServerError, OverloadedError, ModelConnectionError}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_typed_error_and_its_thread_goes_on(
    aimock: Aimock, spoken: Spoken, run: Running, fault: str
) -> None:
    answer, kind, status = FAULTS[fault]
    agent = create_agent(spoken.connected(aimock), checkpointer=InMemorySaver())
    aimock.play(answer)
    with pytest.raises(ModelError) as caught:
        run(agent, {"messages": "Rome?"}, configurable={"thread_id": "1"})
    assert (type(caught.value), caught.value.retryable) == (kind, kind in WAITING_MENDS)
    assert ("Not now, please." in str(caught.value)) == ("error" in answer["response"])
    assert aimock.statuses() == [status]
    aimock.play(on("Again!", {"content": "Sunny."}))
    messages = run(agent, {"messages": "Again!"}, configurable={"thread_id": "1"})["messages"]
    assert told(messages) == [("human", "Rome?"), ("human", "Again!"), ("ai", "Sunny.")]


@pytest.mark.parametrize("fault", [name for name in FAULTS if FAULTS[name][1] in WAITING_MENDS])
def test_a_fault_that_waiting_mends_is_waited_for(
    aimock: Aimock, spoken: Spoken, run: Running, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgraph.models.retries._FIRST_WAIT", 0.01)
    answer, _, status = FAULTS[fault]
    first, then = [{**one, "match": one["match"] | {"sequenceIndex": at}} for at, one in enumerate((answer, SUNNY))]
    aimock.play(first, then)
    messages = run(create_agent(spoken.connected(aimock, max_retries=1)), {"messages": "Rome?"})["messages"]
    assert told(messages) == [("human", "Rome?"), ("ai", "Sunny.")]
    failed, answered = aimock.journal()
    assert [failed["response"]["status"], answered["response"]["status"]] == [status, 200]
    # In milliseconds, of which it counts whole ones.
    assert answered["timestamp"] - failed["timestamp"] >= 1000 * answer["response"].get("retryAfter", 0) - 1


SUNNY = on("Rome?", {"content": "Sunny."})
WORDS = "It is sunny in Rome, as it is in Oslo and in all of the other places that were asked for."


def breaks_off(aimock: Aimock, spoken: Spoken, run: Running, answer: dict[str, Any], events: int) -> Any:
    """What is known of an answer that is cut after so many events, while no tool was run and nothing asked again."""
    ran: list[str] = []

    def weather(city: str) -> str:
        """Get the weather of a city."""
        ran.append(city)
        return "sunny"

    # At a pace at which what was said before has left when the connection is cut.
    aimock.play(on("Rome?", answer, truncateAfterChunks=events, latency=5))
    agent = create_agent(spoken.connected(aimock, max_retries=2), [weather])
    with pytest.raises(TruncatedStreamError) as caught:
        run(agent, {"messages": "Rome?"})
    assert (caught.value.retryable, ran, aimock.statuses()) == (True, [], [200])
    return caught.value.partial


def test_an_answer_that_breaks_off_is_kept_apart(aimock: Aimock, spoken: Spoken, run_streaming: Running) -> None:
    partial = breaks_off(aimock, spoken, run_streaming, {"content": WORDS}, 6)
    assert WORDS.startswith(partial.text)
    assert 0 < len(partial.text) < len(WORDS)


@pytest.mark.parametrize("spoken", [one for one in FORMATS if one.cut], ids=lambda one: one.name)
def test_a_call_that_breaks_off_is_not_run(aimock: Aimock, spoken: Spoken, run_streaming: Running) -> None:
    partial = breaks_off(aimock, spoken, run_streaming, spoken.calls("Rome"), spoken.cut or 0)
    assert (partial.text, partial.tool_calls) == ("", [])
