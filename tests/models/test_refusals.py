"""Refusals of our own models: where the answer is needed, they are one error of both trees."""

from typing import Any

import pytest
from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessageChunk
from pydantic import BaseModel

import agentgraph
from agentgraph import create_agent
from agentgraph.errors import RefusalError
from agentgraph.middleware import ModelFallbackMiddleware, ModelRefusalMiddleware
from agentgraph.testing import ScriptedModel
from tests.models import anthropic_asking, openai_responses_asking
from tests.models.anthropic_asking import body_of
from tests.models.openai_asking import WAYS, Asking, add, invoke
from tests.models.openai_responses_asking import message, response
from tests.wire_server import WireServer

CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
DETAILS = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
REFUSED = response(message({"type": "refusal", "refusal": "Not this."}))


class City(BaseModel):
    """A city."""

    name: str


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_refusal_amid_calls_is_a_refusal_with_what_came(server: WireServer, ask: Asking) -> None:
    server.play(anthropic_asking.played(ask, body_of(CALL, stop_reason="refusal", stop_details=DETAILS)))
    with pytest.raises(RefusalError, match="refused when it had begun to call tools: Not this") as caught:
        ask(anthropic_asking.local(server).bind_tools([add]), "Hi")
    assert isinstance(caught.value, ModelRefusalError)
    assert isinstance(caught.value.raw_message, AIMessageChunk)
    assert (caught.value.raw_message.tool_calls, caught.value.code) == ([], "refusal")


@pytest.mark.parametrize("include_raw", [False, True])
def test_a_structured_answer_that_was_refused_is_a_refusal(server: WireServer, include_raw: bool) -> None:
    server.play(openai_responses_asking.played(invoke, REFUSED))
    structured: Any = openai_responses_asking.local(server).with_structured_output(City, include_raw=include_raw)
    if include_raw:
        found = structured.invoke("Hi")
        error = found["parsing_error"]
        assert (found["parsed"], error.raw_message) == (None, found["raw"])
    else:
        with pytest.raises(ModelRefusalError) as caught:
            structured.invoke("Hi")
        error = caught.value
    assert isinstance(error, RefusalError)
    assert str(error).startswith("The model refused to answer: 'Not this.'")


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
def test_a_refused_turn_of_an_agent_goes_to_the_next_model(server: WireServer, provider: str) -> None:
    model: Any
    if provider == "anthropic":
        server.play(anthropic_asking.played(invoke, body_of(stop_reason="refusal", stop_details=DETAILS)))
        model = anthropic_asking.local(server)
    else:
        server.play(openai_responses_asking.played(invoke, REFUSED))
        model = openai_responses_asking.local(server)
    fallback = ModelFallbackMiddleware(ScriptedModel("Gladly."))
    agent = create_agent(model, middleware=[fallback, ModelRefusalMiddleware()])
    assert [one.text for one in agent.invoke({"messages": "Hi"})["messages"]] == ["Hi", "Gladly."]


def test_the_error_is_reached_from_the_top() -> None:
    assert agentgraph.RefusalError is RefusalError
