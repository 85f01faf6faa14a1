"""Fallback models: where a model fails the same request goes to the next, without what only the others take."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.errors import (
    ConfigurationError,
    ConfigurationTypeError,
    DeadlineError,
    ModelError,
    RateLimitError,
    ResumeError,
    RunCancelledError,
)
from agentgraph.flows import adrive, drive
from agentgraph.messages import ToolMessage
from agentgraph.middleware import (
    ModelFallbackMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    wrap_model_call,
)
from agentgraph.models import init_chat_model
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import THREAD, WAYS

LOOK = tool_call("look", at="sky", id="l")
MARK = {"cache_control": {"type": "ephemeral"}}


@tool
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def broken(text="down", times=1):
    return ScriptedModel(*[ConnectionError(text) for _ in range(times)])


def play(run, model, *middleware, **options):
    return run(create_agent(model, [look], middleware=middleware, **options), {"messages": "go"})


@WAYS
def test_the_next_model_gets_the_same_request_and_each_turn_begins_with_the_agents_own(run):
    own, spare = broken(times=2), ScriptedModel(LOOK, "Blue.")
    result = play(run, own, ModelFallbackMiddleware(spare), system_prompt="Look.")
    saw = answer(LOOK, "saw sky")
    assert_messages(result["messages"], [HumanMessage("go"), ai(LOOK), saw, AIMessage("Blue.")])
    assert [request.tools for request in spare.requests] == [["look"], ["look"]]
    assert spare.requests == own.requests
    assert_messages(spare.requests[1].messages, [SystemMessage("Look."), HumanMessage("go"), ai(LOOK), saw])


@WAYS
def test_models_are_tried_in_order_and_only_as_far_as_needed(run):
    first, second, third = broken(), ScriptedModel("second"), ScriptedModel()
    result = play(run, broken(), ModelFallbackMiddleware(first, second, third))
    assert_messages(result["messages"], [HumanMessage("go"), AIMessage("second")])
    assert [len(model.requests) for model in (first, second, third)] == [1, 1, 0]


@WAYS
def test_a_model_that_answers_needs_no_other(run):
    spare = ScriptedModel()
    assert play(run, ScriptedModel("Hi."), ModelFallbackMiddleware(spare))["messages"][-1].text == "Hi."
    assert spare.requests == []


@WAYS
def test_when_all_fail_the_first_error_is_raised_with_notes_about_the_others(run):
    error = RateLimitError("busy", retry_after=3)
    with pytest.raises(RateLimitError) as raised:
        play(run, ScriptedModel(error), ModelFallbackMiddleware(broken("one"), ScriptedModel(KeyError())))
    assert raised.value is error
    assert [note for note in error.__notes__ if note.startswith("Fallback")] == [
        "Fallback model 1 (ScriptedModel) failed too: ConnectionError: one",
        "Fallback model 2 (ScriptedModel) failed too: KeyError",
    ]


@WAYS
def test_an_error_object_that_is_raised_again_collects_no_notes_twice(run):
    error = RateLimitError("busy")
    fallback = ModelFallbackMiddleware(broken("one", times=2))
    with pytest.raises(RateLimitError):
        play(
            run,
            ScriptedModel(error, error),
            ModelRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error"),
            fallback,
        )
    assert [note for note in error.__notes__ if note.startswith("Fallback")] == [
        "Fallback model 1 (ScriptedModel) failed too: ConnectionError: one"
    ]


@WAYS
def test_a_retry_further_in_tries_each_model_and_one_further_out_the_whole_row(run):
    own, spare = broken(times=2), ScriptedModel(TimeoutError(), "Hi.")
    inner = ModelRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error")
    assert play(run, own, ModelFallbackMiddleware(spare), inner)["messages"][-1].text == "Hi."
    own, spare = broken(times=2), ScriptedModel(TimeoutError(), "Hi.")
    assert play(run, own, inner, ModelFallbackMiddleware(spare))["messages"][-1].text == "Hi."
    own.assert_played()


class Sky(BaseModel):
    colour: str


@WAYS
def test_a_structured_answer_comes_from_the_next_model(run):
    spare = ScriptedModel(tool_call("Sky", colour="blue"))
    result = play(run, broken(), ModelFallbackMiddleware(spare), response_format=Sky)
    assert result["structured_response"] == Sky(colour="blue")


@WAYS
def test_a_question_asked_around_the_model_passes(run):
    @wrap_model_call
    def asking(request, handler):
        return handler(request.override(system_prompt=interrupt("which?")))

    spare = ScriptedModel()
    agent = create_agent(
        ScriptedModel("Hello."), middleware=[ModelFallbackMiddleware(spare), asking], checkpointer=InMemorySaver()
    )
    run(agent, {"messages": "go"}, THREAD)
    assert [one.value for task in agent.get_state(THREAD).tasks for one in task.interrupts] == ["which?"]
    result = run(agent, Command(resume="this"), THREAD)
    assert_messages(result["messages"], [HumanMessage("go"), AIMessage("Hello.")])
    assert spare.requests == []


BLOCK = {"type": "text", "text": "long"}
SETTINGS = {
    "temperature": 0,
    "prompt_cache_key": "k",
    "extra_headers": {"X-Session-Affinity": "s", "x-own": "o"},
    **MARK,
}


def marked_request(model):
    marked = look.model_copy(update={"extras": dict(MARK)})
    named = look.model_copy(update={"name": "named", "extras": {**MARK, "defer_loading": True}})
    return ModelRequest(
        model=model,
        system_message=SystemMessage([{**BLOCK, **MARK}]),
        messages=[
            HumanMessage([{**BLOCK, **MARK}, {**BLOCK, "extras": dict(MARK)}]),
            AIMessage("plain"),
            ToolMessage([BLOCK], tool_call_id="t"),
        ],
        tools=[marked, named, look, {"type": "search", **MARK}, {"type": "plain"}],
        model_settings=dict(SETTINGS),
    )


def asked(models, request, *, is_async):
    """What each model after the request's own is asked, where all but the last one fail."""
    seen = []

    def handler(given):
        seen.append(given)
        if len(seen) <= len(models):
            raise ConnectionError
        return ModelResponse([AIMessage("Hi.")])

    async def ahandler(given):
        return handler(given)

    flow = ModelFallbackMiddleware(*models).model_call(request)
    if is_async:
        asyncio.run(asyncio.wait_for(adrive(flow, ahandler), 10))
    else:
        drive(flow, handler)
    assert seen[0] is request
    return seen[1:]


def served(name):
    return init_chat_model(name, api_key="k")


BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@BOTH
def test_what_only_other_servers_take_is_left_out_on_copies(is_async):
    request = marked_request(served("anthropic:claude-sonnet-4-5"))
    before = marked_request(request.model)
    (given,) = asked([served("ollama:qwen3")], request, is_async=is_async)
    assert given.model_settings == {"temperature": 0, "extra_headers": {"x-own": "o"}}
    assert given.system_message == SystemMessage([BLOCK])
    assert given.messages[0].content == [BLOCK, {**BLOCK, "extras": {}}]
    assert all(new is old for new, old in zip(given.messages[1:], request.messages[1:], strict=True))
    assert [getattr(one, "extras", one) for one in given.tools] == [
        None,
        {"defer_loading": True},
        None,
        {"type": "search"},
        {"type": "plain"},
    ]
    assert given.tools[2] is look
    for part in ("model_settings", "system_message", "messages", "tools"):
        assert getattr(request, part) == getattr(before, part)


@BOTH
def test_each_model_keeps_what_it_takes(is_async):
    request = marked_request(ScriptedModel())
    claude, gpt = asked([served("anthropic:claude-sonnet-4-5"), served("openai:gpt-5")], request, is_async=is_async)
    own = {"temperature": 0, "extra_headers": {"x-own": "o"}}
    assert claude.model_settings == {**own, **MARK}
    assert (claude.messages, claude.tools) == (request.messages, request.tools)
    assert gpt.model_settings == {**own, "prompt_cache_key": "k"}
    assert gpt.messages[0].content[0] == BLOCK


@BOTH
def test_a_model_of_the_same_kind_gets_the_very_same_parts(is_async):
    request = marked_request(served("openai:gpt-5"))
    (given,) = asked([served("openai:gpt-5-mini")], request, is_async=is_async)
    for part in ("model_settings", "system_message", "messages", "tools"):
        assert getattr(given, part) is getattr(request, part)


@BOTH
def test_lists_without_marks_stay_the_very_lists_and_lonely_headers_go_as_a_whole(is_async):
    request = ModelRequest(
        model=ScriptedModel(),
        messages=[HumanMessage("go")],
        tools=[look],
        model_settings={"extra_headers": {"x-session-affinity": "s"}},
    )
    (given,) = asked([ScriptedModel().bind(stop=["x"])], request, is_async=is_async)
    assert (given.messages is request.messages, given.tools is request.tools) == (True, True)
    assert (given.model_settings, given.system_message) == ({}, None)


@pytest.mark.parametrize("end", [DeadlineError("over"), RunCancelledError("ended"), ResumeError("unfit")], ids=repr)
def test_the_end_of_a_run_and_an_unfit_answer_do_not_lead_on_to_the_next_model(end):
    seen = []

    def handler(given):
        seen.append(given.model)
        raise end

    own, spare = ScriptedModel(), ScriptedModel()
    flow = ModelFallbackMiddleware(spare).model_call(ModelRequest(model=own, messages=[HumanMessage("go")]))
    with pytest.raises(type(end)) as raised:
        drive(flow, handler)
    assert raised.value is end
    assert seen == [own]


def test_models_are_named_or_given():
    fallback = ModelFallbackMiddleware("openai:gpt-5", model := ScriptedModel())
    assert (type(fallback.models[0]).__name__, fallback.models[1]) == ("ChatOpenAI", model)


def test_what_is_no_model_is_refused_at_once():
    with pytest.raises(ConfigurationError, match="openia"):
        ModelFallbackMiddleware("openia:gpt-5")
    for given in (3, None, ScriptedModel):
        with pytest.raises(ConfigurationTypeError, match=r"is no fallback model; expected was a chat model"):
            ModelFallbackMiddleware(ScriptedModel(), given)


async def test_one_object_serves_many_runs_at_once():
    fallback = ModelFallbackMiddleware(ScriptedModel(*["spare"] * 6))

    async def one(number):
        model = broken() if number % 2 else ScriptedModel(f"own {number}")
        return (await create_agent(model, middleware=[fallback]).ainvoke({"messages": "go"}))["messages"][-1].text

    texts = await asyncio.wait_for(asyncio.gather(*map(one, range(12))), 60)
    assert texts == [("spare" if number % 2 else f"own {number}") for number in range(12)]


@WAYS
def test_an_outer_retry_decides_by_the_first_error(run):
    model = ScriptedModel(ModelError("refused"))
    retry = ModelRetryMiddleware(initial_delay=0)
    with pytest.raises(ModelError, match="refused"):
        play(run, model, retry, ModelFallbackMiddleware(broken()))
    model.assert_played()
