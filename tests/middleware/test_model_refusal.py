"""Refusals: what counts as one, the error that it becomes, and who acts on it."""

import pickle

import pytest
from langchain_core.exceptions import ModelError as CoreModelError
from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.errors import ContentFilterError, MissingToolCallError, ModelError, RateLimitError, RefusalError
from agentgraph.middleware import (
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    ModelRetryMiddleware,
    wrap_model_call,
)
from agentgraph.models.refusals import RefusedAnswerError
from agentgraph.structured_output import ProviderStrategy, StructuredOutputError
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import WAYS

LOOK = tool_call("look", at="sky", id="l")
SAID = AIMessage("", additional_kwargs={"refusal": "I must not."})


@tool
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


class Answer(BaseModel):
    """An answer."""

    text: str


def ended(reason, key="finish_reason", text=""):
    return AIMessage(text, response_metadata={key: reason})


class Reason:
    """A member of another package's enumeration."""

    name = "SAFETY"


REFUSALS = {
    "beside the content": (SAID, ": 'I must not.'"),
    "a block": (AIMessage([{"type": "refusal", "refusal": "I must not."}]), ": 'I must not.'"),
    "a block that says nothing": (AIMessage([{"type": "refusal", "refusal": ""}]), ", and gave no reason"),
    "a block with a category": (
        AIMessage([{"type": "refusal", "refusal": "No.", "extras": {"category": "cyber"}}]),
        " (cyber): 'No.'",
    ),
    "a block beside calls": (ai(LOOK, text="").model_copy(update={"additional_kwargs": {"refusal": "No."}}), ": 'No.'"),
    "Anthropic": (ended("refusal", "stop_reason"), " (refusal), and gave no reason"),
    "a filter": (ended("content_filter", text="Take two"), " (content_filter): 'Take two'"),
    "Bedrock": (ended("guardrail_intervened", "stopReason", "Blocked."), " (guardrail_intervened): 'Blocked.'"),
    "Gemini": (ended("SAFETY"), " (safety), and gave no reason"),
    "a member of an enumeration": (ended(Reason()), " (safety), and gave no reason"),
    "the text of a member": (ended("FinishReason.SPII"), " (spii), and gave no reason"),
    "a prompt": (ended({"block_reason": "OTHER"}, "prompt_feedback"), " (other), and gave no reason"),
    "the Responses API": (ended({"reason": "content_filter"}, "incomplete_details"), " (content_filter), and gave"),
}


def play(run, model, *middleware, **options):
    agent = create_agent(model, [look], middleware=[*middleware, ModelRefusalMiddleware()], **options)
    return run(agent, {"messages": "go"})


@WAYS
@pytest.mark.parametrize(("message", "told"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_an_error_whatever_form_it_has(run, message, told):
    with pytest.raises(RefusalError) as caught:
        play(run, ScriptedModel(message))
    error = caught.value
    assert str(error).startswith(f"The model refused to answer{told}")
    assert str(error).endswith("The same request is likely to be refused again: rephrase it, or take another model.")
    assert (error.raw_message.text, error.raw_message.tool_calls) == (message.text, message.tool_calls)
    assert (error.retryable, error.is_retryable) == (False, False)


@WAYS
@pytest.mark.parametrize(
    "message",
    [
        AIMessage("I cannot help with that."),
        ended("stop", text="Hi."),
        ended("max_tokens", "stop_reason", "Hi"),
        ended({"block_reason": "BLOCKED_REASON_UNSPECIFIED"}, "prompt_feedback", "Hi."),
        ended(None, text="Hi."),
        AIMessage("Hi.", additional_kwargs={"refusal": None}),
        AIMessage([{"type": "text", "text": "Hi."}]),
    ],
)
def test_nothing_is_guessed_from_an_answer(run, message):
    assert play(run, ScriptedModel(message))["messages"][-1].text == message.text


@WAYS
def test_without_it_a_refusal_is_an_answer(run):
    assert run(create_agent(ScriptedModel(SAID)), {"messages": "go"})["messages"][-1].additional_kwargs == {
        "refusal": "I must not."
    }


@WAYS
def test_a_fallback_asks_the_next_model_and_the_state_has_none_of_the_refusal(run):
    first, spare = ScriptedModel(LOOK, SAID), ScriptedModel("Blue.")
    result = play(run, first, ModelFallbackMiddleware(spare))
    assert_messages(result["messages"], [HumanMessage("go"), ai(LOOK), answer(LOOK, "saw sky"), AIMessage("Blue.")])
    assert spare.requests == first.requests[1:]


@WAYS
def test_a_retry_does_not_repeat_what_was_refused(run):
    model = ScriptedModel(SAID)
    with pytest.raises(RefusalError):
        play(run, model, ModelRetryMiddleware(on_failure="error", initial_delay=0))
    assert len(model.requests) == 1


@WAYS
def test_a_filters_error_says_the_same_as_a_refusal(run):
    filtered = ContentFilterError("openai: filtered", provider="openai", status=400, code="x", request_id="r", url="u")
    with pytest.raises(ModelRefusalError) as caught:
        play(run, ScriptedModel(filtered))
    error = caught.value
    assert isinstance(error, RefusedAnswerError)
    assert error.__cause__ is filtered
    assert error.args == ("openai: filtered",)
    assert (error.provider, error.status, error.code, error.request_id, error.url) == ("openai", 400, "x", "r", "u")
    assert error.raw_message is None


@WAYS
@pytest.mark.parametrize("raised", [RefusedAnswerError("no"), RateLimitError("slow"), OSError("down")])
def test_other_errors_and_ready_refusals_pass_as_they_are(run, raised):
    with pytest.raises(type(raised)) as caught:
        play(run, ScriptedModel(raised))
    assert caught.value is raised


@WAYS
def test_a_demanded_call_that_was_refused_is_a_refusal(run):
    @wrap_model_call
    def demanding(request, handler):
        return handler(request.override(tool_choice="look"))

    with pytest.raises(RefusalError) as caught:
        play(run, ScriptedModel(SAID), demanding)
    assert isinstance(caught.value.__cause__, MissingToolCallError)


@WAYS
def test_a_structured_answer_that_was_refused_is_a_refusal(run):
    with pytest.raises(RefusalError) as caught:
        play(run, ScriptedModel(SAID), response_format=ProviderStrategy(Answer))
    assert not isinstance(caught.value, StructuredOutputError)


@WAYS
def test_an_error_of_middleware_further_in_that_holds_the_refusal_is_one(run):
    @wrap_model_call
    def reading(request, handler):
        raise MissingToolCallError("no call", ai_message=handler(request).result[0])

    agent = create_agent(ScriptedModel(SAID, "Hi."), middleware=[ModelRefusalMiddleware(), reading])
    with pytest.raises(RefusalError):
        run(agent, {"messages": "go"})
    with pytest.raises(MissingToolCallError):
        run(agent, {"messages": "go"})


def test_the_error_is_of_both_trees_and_survives_a_pickle():
    message = AIMessage("", additional_kwargs={"refusal": "No."})
    error = RefusedAnswerError("no", raw_message=message, provider="p")
    assert isinstance(error, RefusalError | ContentFilterError)
    assert isinstance(error, ModelError)
    assert isinstance(error, CoreModelError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), again.args, again.raw_message, again.provider) == (type(error), ("no",), message, "p")


def test_langchain_cores_way_of_making_one_works():
    block = {"type": "refusal", "refusal": "No.", "extras": {"category": "cyber"}}
    error = RefusedAnswerError.from_refusal(block, raw_message=SAID)
    assert isinstance(error, RefusedAnswerError)
    assert error.raw_message is SAID


def test_it_costs_no_step_and_no_field():
    with_it, without = (
        create_agent(ScriptedModel("Hi."), middleware=middleware) for middleware in ([ModelRefusalMiddleware()], [])
    )
    steps = [list(agent.stream({"messages": "go"}, stream_mode="updates")) for agent in (with_it, without)]
    assert [[list(step) for step in one] for one in steps] == [[["model"]], [["model"]]]
    assert list(steps[0][0]["model"]) == ["messages"]
