"""A limit of model calls: it holds in a run and on a thread, and leaves a thread that can be used on."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError
from agentgraph.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitExceededError,
    ModelCallLimitMiddleware,
    after_model,
    before_model,
    wrap_model_call,
)
from agentgraph.runs import Outcome, outcome
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import FunctionModel, ScriptedModel, ai, assert_valid_history, describe, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, THREAD, WAYS, decide

HI = {"messages": "hi"}
ROME = tool_call("weather", city="Rome", id="r")
OSLO = tool_call("weather", city="Oslo", id="o")
REACHED = "The limit of model calls is reached: {}."


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def agent_of(*middleware, script, saver=None):
    model = ScriptedModel(*script)
    return create_agent(model, [weather], middleware=middleware, checkpointer=saver), model


def shown(state):
    assert_valid_history(state["messages"])
    return describe(state["messages"])


def facts(error):
    return {name: value for name, value in vars(error).items() if name != "__notes__"}


def counts(agent):
    values = agent.get_state(THREAD).values
    return values.get("thread_model_call_count"), values.get("run_model_call_count")


@WAYS
def test_a_run_ends_when_its_calls_are_used_up_and_says_so(run):
    agent, model = agent_of(ModelCallLimitMiddleware(run_limit=2), script=[ROME, OSLO])
    result = run(agent, HI)
    assert shown(result) == [
        "human: hi",
        "ai: -> weather(city='Rome')",
        "tool weather: sunny in Rome",
        "ai: -> weather(city='Oslo')",
        "tool weather: sunny in Oslo",
        f"ai: {REACHED.format('2 in one run')}",
    ]
    assert result["messages"][-1].response_metadata == {"agentgraph": {"limit": "run_model_calls"}}
    assert outcome(result) == Outcome("limit", text=REACHED.format("2 in one run"), reason="run_model_calls")
    assert len(model.requests) == 2


@WAYS
def test_a_run_that_needs_all_its_calls_gives_its_answer(run):
    agent, _ = agent_of(ModelCallLimitMiddleware(run_limit=2, thread_limit=2), script=[ROME, "Sunny."])
    assert outcome(run(agent, HI)) == Outcome("answer", text="Sunny.")


@WAYS
def test_the_next_run_of_the_thread_counts_anew(run):
    limit = ModelCallLimitMiddleware(run_limit=1)
    agent, model = agent_of(limit, script=[ROME, "Again."], saver=InMemorySaver())
    run(agent, HI, THREAD)
    assert shown(run(agent, HI, THREAD))[-3:] == [
        f"ai: {REACHED.format('1 in one run')}",
        "human: hi",
        "ai: Again.",
    ]
    assert len(model.requests) == 2


@WAYS
def test_a_thread_ends_when_its_calls_are_used_up_over_its_runs(run):
    limit = ModelCallLimitMiddleware(thread_limit=2, run_limit=5)
    agent, model = agent_of(limit, script=["One.", "Two."], saver=InMemorySaver())
    results = [run(agent, HI, THREAD) for _ in range(3)]
    assert [outcome(result).kind for result in results] == ["answer", "answer", "limit"]
    assert outcome(results[-1]).reason == "thread_model_calls"
    assert results[-1]["messages"][-1].text == REACHED.format("2 in this conversation")
    assert len(model.requests) == 2
    assert counts(agent) == (2, None)


@WAYS
def test_error_raises_and_leaves_a_thread_that_can_be_used_on(run):
    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")
    agent, _ = agent_of(limit, script=[ROME, "Again."], saver=InMemorySaver())
    with pytest.raises(ModelCallLimitExceededError) as raised:
        run(agent, HI, THREAD)
    assert facts(raised.value) == {"thread_count": 1, "run_count": 1, "thread_limit": None, "run_limit": 1}
    assert outcome(raised.value).kind == "limit"
    assert isinstance(raised.value, RunError)
    assert shown(run(agent, HI, THREAD))[-2:] == ["human: hi", "ai: Again."]


def test_the_error_says_what_was_reached_and_survives_pickling():
    error = ModelCallLimitExceededError(2, 2, 2, 2)
    text = f"{REACHED.format('2 in this conversation and 2 in one run')} (2 on the thread, 2 in this run)"
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was pickled one call before
    assert (str(error), str(again), facts(again)) == (text, text, facts(error))


@WAYS
def test_calls_left_open_in_the_input_are_answered_when_the_run_ends(run):
    agent, model = agent_of(ModelCallLimitMiddleware(run_limit=0), script=[])
    result = run(agent, {"messages": [HumanMessage("hi"), ai(ROME), HumanMessage("well?")]})
    assert_valid_history(result["messages"])
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert model.requests == []


@WAYS
def test_the_structured_answer_of_an_earlier_run_is_not_that_of_a_run_that_ended(run):
    schema = {"title": "Report", "type": "object", "properties": {"text": {"type": "string"}}}
    limit, model = ModelCallLimitMiddleware(thread_limit=1), ScriptedModel(tool_call("Report", text="all"))
    options = {"middleware": [limit], "checkpointer": InMemorySaver(), "response_format": ToolStrategy(schema)}
    agent = create_agent(model, [weather], **options)
    ends = [outcome(run(agent, HI, THREAD)) for _ in range(2)]
    assert [(end.kind, end.structured_response) for end in ends] == [("answer", {"text": "all"}), ("limit", None)]


@WAYS
def test_two_limits_of_one_agent_keep_one_count(run):
    limits = [ModelCallLimitMiddleware(run_limit=3), ModelCallLimitMiddleware(thread_limit=2)]
    agent, _ = agent_of(*limits, script=[ROME, "Sunny."], saver=InMemorySaver())
    assert outcome(run(agent, HI, THREAD)) == Outcome("answer", text="Sunny.")
    assert counts(agent) == (2, None)


@WAYS
def test_a_call_counts_also_where_a_hook_after_it_ends_the_run(run):
    @after_model(can_jump_to=["end"])
    def leave(state, runtime):
        return {"jump_to": "end"}

    limit = ModelCallLimitMiddleware(thread_limit=1)
    agent, model = agent_of(limit, leave, script=["One.", "never"], saver=InMemorySaver())
    assert [outcome(run(agent, HI, THREAD)).kind for _ in range(2)] == ["answer", "limit"]
    assert len(model.requests) == 1


@WAYS
def test_a_call_that_was_not_made_does_not_count(run):
    @before_model(can_jump_to=["end"])
    def leave(state, runtime):
        return {"jump_to": "end", "messages": [AIMessage("Closed today.")]}

    agent, _ = agent_of(ModelCallLimitMiddleware(thread_limit=1), leave, script=[], saver=InMemorySaver())
    assert [outcome(run(agent, HI, THREAD)).text for _ in range(2)] == ["Closed today."] * 2


@WAYS
def test_a_retry_around_the_limit_counts_as_one_call(run):
    @wrap_model_call
    def twice(request, handler):
        handler(request)
        return handler(request)

    agent, _ = agent_of(twice, ModelCallLimitMiddleware(run_limit=1), script=["a", "b"], saver=InMemorySaver())
    assert outcome(run(agent, HI, THREAD)) == Outcome("answer", text="b")
    assert counts(agent) == (1, None)


@WAYS
def test_a_call_that_failed_does_not_count(run):
    limit = ModelCallLimitMiddleware(thread_limit=1)
    agent, _ = agent_of(limit, script=[ConnectionError("down"), "Back."], saver=InMemorySaver())
    with pytest.raises(ConnectionError, match="down"):
        run(agent, HI, THREAD)
    assert outcome(run(agent, HI, THREAD)) == Outcome("answer", text="Back.")


@WAYS
def test_a_question_to_a_person_passes_and_the_thread_counts_on(run):
    stack = [HumanInTheLoopMiddleware({"weather": True}), ModelCallLimitMiddleware(thread_limit=2)]
    agent, _ = agent_of(*stack, script=[ROME, "Sunny."], saver=InMemorySaver())
    run(agent, HI, THREAD)
    assert outcome(agent.get_state(THREAD)).kind == "interrupt"
    assert outcome(run(agent, decide(APPROVE), THREAD)) == Outcome("answer", text="Sunny.")
    assert counts(agent) == (2, None)


@WAYS
def test_a_caller_can_give_a_thread_new_calls(run):
    agent, _ = agent_of(ModelCallLimitMiddleware(thread_limit=1), script=["One.", "Two."], saver=InMemorySaver())
    run(agent, HI, THREAD)
    agent.update_state(THREAD, {"thread_model_call_count": 0})
    assert outcome(run(agent, HI, THREAD)) == Outcome("answer", text="Two.")


def test_the_limit_adds_no_step_and_nothing_to_the_result():
    agent, _ = agent_of(ModelCallLimitMiddleware(run_limit=1), script=["Done."])
    assert sorted(agent.invoke({**HI, "run_model_call_count": 5})) == ["messages"]
    assert sorted(agent.get_graph().nodes) == ["__end__", "__start__", "model", "tools"]


def test_one_limit_serves_many_threads_at_once():
    model = FunctionModel(lambda messages, settings: ROME if not isinstance(messages[-1], ToolMessage) else OSLO)
    limit = ModelCallLimitMiddleware(run_limit=3)
    agent = create_agent(model, [weather], middleware=[limit], checkpointer=InMemorySaver())

    def talk(n):
        return describe(agent.invoke(HI, {"configurable": {"thread_id": str(n)}})["messages"])

    with ThreadPoolExecutor(8) as pool:
        talks = list(pool.map(talk, range(16)))
    assert {len(one) for one in talks} == {8}
    assert {one[-1] for one in talks} == {f"ai: {REACHED.format('3 in one run')}"}


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({}, ConfigurationError, "Neither thread_limit nor run_limit was given"),
        ({"run_limit": -1}, ConfigurationError, "run_limit is -1; expected was 0 or more"),
        ({"thread_limit": "3"}, ConfigurationTypeError, "thread_limit is '3'; expected was a whole number"),
        ({"thread_limit": True}, ConfigurationTypeError, "thread_limit is True; expected was a whole number"),
        ({"run_limit": 1.5}, ConfigurationTypeError, "run_limit is 1.5; expected was a whole number"),
        ({"run_limit": 1, "exit_behavior": "continue"}, ConfigurationError, "expected was one of end, error"),
        ({"run_limit": 1, "exit_behavior": []}, ConfigurationError, "expected was one of end, error"),
    ],
)
def test_what_cannot_work_is_refused_at_once(given, error, told):
    with pytest.raises(error, match=told):
        ModelCallLimitMiddleware(**given)


@WAYS
def test_a_resumed_run_begins_a_count_of_its_own(run):
    stack = [HumanInTheLoopMiddleware({"weather": True}), ModelCallLimitMiddleware(run_limit=1)]
    agent, _ = agent_of(*stack, script=[ROME, "Sunny."], saver=InMemorySaver())
    run(agent, HI, THREAD)
    answered = Command(resume={"decisions": [APPROVE]})
    assert outcome(run(agent, answered, THREAD)) == Outcome("answer", text="Sunny.")
