"""Retries of the model: a failed call is made again, and what is left of it at the end is what was asked for."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from agentgraph import AgentState, create_agent
from agentgraph.errors import AuthenticationError, ConfigurationTypeError, RateLimitError
from agentgraph.flows import adrive, drive
from agentgraph.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    wrap_model_call,
)
from agentgraph.runs import outcome
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from tests.middleware.approving import THREAD, WAYS

SLOW = TimeoutError("slow")


def retry(**settings):
    return ModelRetryMiddleware(**{"initial_delay": 0, **settings})


def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def play(run, model, *middleware, **options):
    agent = create_agent(model, [look], middleware=middleware, **options)
    return run(agent, {"messages": "go"})


@WAYS
def test_each_call_that_fails_is_made_again_until_it_succeeds(run):
    call = tool_call("look", at="sky", id="l")
    model = ScriptedModel(SLOW, call, ValueError("odd"), SLOW, "Blue.")
    result = play(run, model, retry())
    assert_messages(result["messages"], [HumanMessage("go"), ai(call), answer(call, "saw sky"), AIMessage("Blue.")])
    assert [len(request.messages) for request in model.requests] == [1, 1, 3, 3, 3]
    model.assert_played()


@WAYS
def test_after_the_last_try_a_message_says_what_failed_and_is_marked(run):
    for retries, often in ((2, "3 times"), (0, "once")):
        result = play(run, ScriptedModel(*[SLOW] * (retries + 1)), retry(max_retries=retries))
        told = f"The model gave no answer: it was called {often}, and failed with TimeoutError: slow"
        assert_messages(result["messages"], [HumanMessage("go"), AIMessage(told)])
        assert result["messages"][-1].response_metadata == {"agentgraph": {"failed": "TimeoutError"}}
        assert outcome(result).kind == "answer"


@WAYS
def test_the_text_of_an_error_is_bounded_and_may_be_missing(run):
    long = play(run, ScriptedModel(ValueError("x" * 9_000)), retry(max_retries=0))["messages"][-1].text
    assert len(long) < 2_200
    assert long.endswith("xx ...")

    class WordlessError(Exception):
        def __str__(self):
            raise RuntimeError

    short = play(run, ScriptedModel(WordlessError()), retry(max_retries=0))["messages"][-1].text
    assert short == "The model gave no answer: it was called once, and failed with WordlessError"


@WAYS
def test_a_function_gives_the_text_of_the_message(run):
    words = retry(max_retries=1, on_failure=lambda error: f"Sorry, {type(error).__name__}.")
    result = play(run, ScriptedModel(SLOW, SLOW), words)
    assert_messages(result["messages"], [HumanMessage("go"), AIMessage("Sorry, TimeoutError.")])


@WAYS
def test_a_function_that_gives_no_text_ends_the_run(run):
    with pytest.raises(ConfigurationTypeError, match=r"on_failure .* gave int; expected was a text") as raised:
        play(run, ScriptedModel(SLOW), retry(max_retries=0, on_failure=lambda error: 3))
    assert raised.value.__cause__ is SLOW


@WAYS
def test_on_failure_error_ends_the_run_with_the_last_error(run):
    model = ScriptedModel(TimeoutError("first"), SLOW)
    with pytest.raises(TimeoutError) as raised:
        play(run, model, retry(max_retries=1, on_failure="error"))
    assert raised.value is SLOW
    model.assert_played()


@WAYS
@pytest.mark.parametrize(
    ("error", "settings"),
    [(KeyError("a bug"), {"retry_on": (TimeoutError,)}), (AuthenticationError("no key"), {})],
    ids=["own choice", "default"],
)
def test_what_is_left_out_ends_the_run_at_once(run, error, settings):
    model = ScriptedModel(error)
    with pytest.raises(type(error)) as raised:
        play(run, model, retry(**settings))
    assert raised.value is error
    model.assert_played()


@WAYS
def test_a_question_asked_around_the_model_passes(run):
    @wrap_model_call
    def asking(request, handler):
        return handler(request.override(system_prompt=interrupt("which?")))

    model = ScriptedModel("Hello.")
    agent = create_agent(model, middleware=[retry(), asking], checkpointer=InMemorySaver())
    run(agent, {"messages": "go"}, THREAD)
    assert [one.value for task in agent.get_state(THREAD).tasks for one in task.interrupts] == ["which?"]
    result = run(agent, Command(resume="this"), THREAD)
    assert_messages(result["messages"], [HumanMessage("go"), AIMessage("Hello.")])
    assert [request.messages[0].text for request in model.requests] == ["this"]


@WAYS
def test_state_updates_of_a_try_that_failed_are_dropped(run):
    class State(AgentState):
        tries: int

    class Counting(AgentMiddleware):
        state_schema = State

        def __init__(self):
            self.count = 0

        def wrap_model_call(self, request, handler):
            self.count += 1
            command = Command(update={"tries": self.count})
            if self.count == 1:
                raise SLOW
            return ExtendedModelResponse(handler(request), command)

    result = play(run, ScriptedModel("Hello."), retry(), Counting())
    assert result["tries"] == 2


class Sky(BaseModel):
    colour: str


@WAYS
def test_a_failed_call_of_a_structured_answer_ends_with_the_message_and_without_an_answer(run):
    result = play(run, ScriptedModel(SLOW, SLOW), retry(max_retries=1), response_format=Sky)
    assert result["messages"][-1].response_metadata == {"agentgraph": {"failed": "TimeoutError"}}
    assert result.get("structured_response") is None


@WAYS
def test_a_structured_answer_comes_through_a_retry(run):
    call = tool_call("Sky", colour="blue")
    assert play(run, ScriptedModel(SLOW, call), retry(), response_format=Sky)["structured_response"] == Sky(
        colour="blue"
    )


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_waits_between_the_tries_are_those_of_the_settings(is_async):
    log = []
    errors = [SLOW, RateLimitError("2", retry_after=7), RateLimitError("3", retry_after=700)]
    request = ModelRequest(model=ScriptedModel(), messages=[HumanMessage("go")])

    def handler(given):
        log.append("try")
        raise errors[log.count("try") - 1]

    async def ahandler(given):
        return handler(given)

    async def sleep(seconds):
        log.append(seconds)

    flow = ModelRetryMiddleware(max_retries=5, jitter=False, on_failure="error").model_call(request)

    def play_flow():
        if is_async:
            return asyncio.run(asyncio.wait_for(adrive(flow, ahandler, sleep=sleep), 10))
        return drive(flow, handler, sleep=log.append)

    with pytest.raises(RateLimitError, match="3"):
        play_flow()
    assert log == ["try", 1.0, "try", 7.0, "try"]


@WAYS
def test_it_can_stand_around_another_hook_that_answers_by_itself(run):
    @wrap_model_call
    def cached(request, handler):
        return ModelResponse([AIMessage("cached")])

    result = play(run, ScriptedModel(), retry(), cached)
    assert_messages(result["messages"], [HumanMessage("go"), AIMessage("cached")])
