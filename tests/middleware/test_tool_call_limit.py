"""A limit of tool calls: it holds for calls side by side, of one tool or of all, and every call has its answer."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError
from agentgraph.middleware import (
    HumanInTheLoopMiddleware,
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
    after_agent,
)
from agentgraph.runs import Outcome, outcome
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import (
    FunctionModel,
    ScriptedModel,
    ai,
    assert_valid_history,
    describe,
    invalid_call,
    tool_call,
)
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, THREAD, WAYS, decide, reject

HI = {"messages": "hi"}
ROME = tool_call("weather", city="Rome", id="r")
OSLO = tool_call("weather", city="Oslo", id="o")
KIEV = tool_call("weather", city="Kiev", id="k")
NEWS = tool_call("news", topic="sea", id="n")

WEATHER = "calls of the tool 'weather'"
OVER = "error: The call was not run: the limit of {} is used up. Do not send another one; go on without it."
LEFT = "error: The call was not run: the run ended, because the limit of {} was reached by another call beside it."
REACHED = "The limit of {} is reached: {}."


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def news(topic: str) -> str:
    """The news of a topic."""
    return f"no news of {topic}"


def facts(error):
    return {name: value for name, value in vars(error).items() if name != "__notes__"}


class Report(BaseModel):
    """The end of it."""

    text: str


class Desk:
    """An agent with limits on one thread; `counts` has, run by run, what its hooks see at the end."""

    def __init__(self, run, *middleware, script, **options):
        self.counts = counts = []

        @after_agent
        def look(state, runtime):
            counts.append((state.get("thread_tool_call_count"), state.get("run_tool_call_count")))

        self.model = ScriptedModel(*script)
        self.agent = create_agent(
            self.model, [weather, news], middleware=[*middleware, look], checkpointer=InMemorySaver(), **options
        )
        self._run = run

    def say(self, given=HI):
        self.result = self._run(self.agent, given, THREAD)
        return outcome(self.result)

    @property
    def lines(self):
        assert_valid_history(self.result["messages"])
        return describe(self.result["messages"])[1:]


@WAYS
def test_of_calls_side_by_side_the_first_ones_run_and_the_others_are_refused(run):
    desk = Desk(run, ToolCallLimitMiddleware(run_limit=2), script=[[ROME, NEWS, OSLO, KIEV], "Done."])
    assert desk.say() == Outcome("answer", text="Done.")
    assert desk.lines == [
        "ai: -> weather(city='Rome') -> news(topic='sea') -> weather(city='Oslo') -> weather(city='Kiev')",
        "tool weather: sunny in Rome",
        "tool news: no news of sea",
        f"tool weather {OVER.format('tool calls')}",
        f"tool weather {OVER.format('tool calls')}",
        "ai: Done.",
    ]
    assert desk.counts == [({"__all__": 2}, {"__all__": 4})]


@WAYS
def test_turn_by_turn_the_limit_holds_for_the_run_and_starts_anew_with_the_next(run):
    desk = Desk(run, ToolCallLimitMiddleware(run_limit=1), script=[ROME, OSLO, "Done.", KIEV, "Again."])
    assert desk.say().text == "Done."
    assert desk.say().text == "Again."
    assert [line for line in desk.lines if line.startswith("tool")] == [
        "tool weather: sunny in Rome",
        f"tool weather {OVER.format('tool calls')}",
        "tool weather: sunny in Kiev",
    ]
    assert desk.counts == [({"__all__": 1}, {"__all__": 2}), ({"__all__": 2}, {"__all__": 1})]


@WAYS
def test_a_thread_limit_holds_over_the_runs(run):
    desk = Desk(run, ToolCallLimitMiddleware(thread_limit=1), script=[ROME, "One.", OSLO, "Two."])
    desk.say()
    desk.say()
    assert desk.lines[-2:] == [f"tool weather {OVER.format('tool calls')}", "ai: Two."]
    assert "run_tool_call_count" not in desk.agent.get_state(THREAD).values


@WAYS
def test_a_limit_of_one_tool_leaves_the_others_alone(run):
    limit = ToolCallLimitMiddleware(tool_name="weather", run_limit=0)
    desk = Desk(run, limit, script=[[ROME, NEWS], "Done."])
    desk.say()
    assert desk.lines[1:] == [
        f"tool weather {OVER.format(WEATHER)}",
        "tool news: no news of sea",
        "ai: Done.",
    ]
    assert desk.counts == [({"weather": 0}, {"weather": 1})]
    assert limit.name == "ToolCallLimitMiddleware[weather]"


@WAYS
def test_end_answers_every_open_call_and_the_thread_can_be_used_on(run):
    limit = ToolCallLimitMiddleware(tool_name="weather", run_limit=1, exit_behavior="end")
    desk = Desk(run, limit, script=[ai(ROME, invalid_call("news", id="i"), NEWS, OSLO), "Again."])
    told = REACHED.format(WEATHER, "1 in one run")
    assert desk.say() == Outcome("limit", text=told, reason="run_tool_calls[weather]")
    assert_valid_history(desk.result["messages"])
    statuses = {m.tool_call_id: m.status for m in desk.result["messages"] if m.type == "tool"}
    assert statuses == dict.fromkeys(["r", "n", "o", "i"], "error")
    assert [line for line in desk.lines if " was not run: the" in line and "read" not in line] == [
        f"tool weather {LEFT.format(WEATHER)}",
        f"tool news {LEFT.format(WEATHER)}",
        f"tool weather {OVER.format(WEATHER)}",
    ]
    assert desk.result["messages"][-1].response_metadata == {"agentgraph": {"limit": "run_tool_calls[weather]"}}
    assert desk.say() == Outcome("answer", text="Again.")
    assert desk.counts[0] == ({"weather": 0}, {"weather": 2})
    assert [line for line in desk.lines if "sunny" in line] == []


@WAYS
def test_the_end_names_the_limit_of_the_thread_only_where_that_is_exceeded(run):
    limit = ToolCallLimitMiddleware(thread_limit=2, run_limit=1, exit_behavior="end")
    desk = Desk(run, limit, script=[ROME, "One.", [OSLO, KIEV]])
    desk.say()
    told = REACHED.format("tool calls", "2 in this conversation and 1 in one run")
    assert desk.say() == Outcome("limit", text=told, reason="thread_tool_calls")
    limit = ToolCallLimitMiddleware(thread_limit=2, run_limit=1, exit_behavior="end")
    desk = Desk(run, limit, script=[[OSLO, KIEV]])
    assert desk.say().reason == "run_tool_calls"


@WAYS
def test_error_raises_before_any_call_runs_and_the_thread_can_be_used_on(run):
    limit = ToolCallLimitMiddleware(tool_name="weather", run_limit=1, exit_behavior="error")
    desk = Desk(run, limit, script=[[ROME, OSLO], "Again."])
    with pytest.raises(ToolCallLimitExceededError) as raised:
        desk.say()
    assert facts(raised.value) == {
        "thread_count": 2,
        "run_count": 2,
        "thread_limit": None,
        "run_limit": 1,
        "tool_name": "weather",
    }
    assert outcome(raised.value).kind == "limit"
    assert isinstance(raised.value, RunError)
    assert desk.say() == Outcome("answer", text="Again.")
    assert [line for line in desk.lines if "sunny" in line] == []


def test_the_error_says_what_was_reached_and_survives_pickling():
    error = ToolCallLimitExceededError(3, 3, 2, 2, "weather")
    reached = REACHED.format(WEATHER, "2 in this conversation and 2 in one run")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was pickled one call before
    text = f"{reached} (3 on the thread, 3 in this run)"
    assert (str(error), str(again), facts(again)) == (text, text, facts(error))


@WAYS
def test_what_another_limit_refuses_does_not_use_up_the_limit_of_all(run):
    stack = [ToolCallLimitMiddleware(tool_name="weather", run_limit=1), ToolCallLimitMiddleware(run_limit=3)]
    desk = Desk(run, *stack, script=[[ROME, OSLO], [NEWS], "Done."])
    desk.say()
    assert desk.counts == [({"__all__": 2, "weather": 1}, {"__all__": 3, "weather": 2})]


@WAYS
def test_a_limit_that_ends_the_run_takes_back_what_others_counted(run):
    stack = [ToolCallLimitMiddleware(tool_name="weather", run_limit=0, exit_behavior="end")]
    desk = Desk(run, *stack, ToolCallLimitMiddleware(thread_limit=5), script=[[ROME, NEWS]])
    assert desk.say().kind == "limit"
    assert desk.counts == [({"__all__": 0, "weather": 0}, {"__all__": 2, "weather": 1})]


@WAYS
@pytest.mark.parametrize("between", [[], [HumanInTheLoopMiddleware({"weather": True})]], ids=["alone", "approvals"])
def test_two_limits_of_the_same_calls_keep_one_count(run, between):
    stack = [ToolCallLimitMiddleware(thread_limit=2, exit_behavior="end"), *between]
    desk = Desk(run, *stack, ToolCallLimitMiddleware(run_limit=2), script=[[ROME, OSLO], "Done."])
    desk.say()
    if between:
        desk.say(decide(APPROVE, APPROVE))
    assert outcome(desk.result) == Outcome("answer", text="Done.")
    assert desk.counts == [({"__all__": 2}, {"__all__": 2})]


@WAYS
def test_nobody_is_asked_about_a_call_that_the_limit_refused(run):
    stack = [HumanInTheLoopMiddleware({"weather": True}), ToolCallLimitMiddleware(run_limit=1)]
    desk = Desk(run, *stack, script=[[ROME, OSLO], "Done."])
    (question,) = desk.say().questions or outcome(desk.agent.get_state(THREAD)).questions
    assert [one["args"] for one in question.value["action_requests"]] == [{"city": "Rome"}]
    desk.say(decide(APPROVE))
    assert desk.lines[1:] == [
        "tool weather: sunny in Rome",
        f"tool weather {OVER.format('tool calls')}",
        "ai: Done.",
    ]


@WAYS
def test_a_rejected_call_does_not_count_where_the_limit_comes_after_the_person(run):
    stack = [ToolCallLimitMiddleware(run_limit=1), HumanInTheLoopMiddleware({"weather": True})]
    desk = Desk(run, *stack, script=[[ROME, NEWS], "Done."])
    desk.say()
    desk.say(decide(reject("no")))
    assert [line.split(":")[0] for line in desk.lines[1:]] == ["tool weather error", "tool news", "ai"]
    assert desk.counts == [({"__all__": 1}, {"__all__": 1})]


@WAYS
def test_a_structured_answer_is_no_tool_call(run):
    report = tool_call("Report", text="all", id="s")
    limit = ToolCallLimitMiddleware(run_limit=1)
    desk = Desk(run, limit, script=[[ROME], [report, OSLO]], response_format=ToolStrategy(Report))
    assert desk.say().kind == "answer"
    assert desk.result["structured_response"] == Report(text="all")
    assert_valid_history(desk.result["messages"])
    assert desk.counts == [({"__all__": 1}, {"__all__": 2})]


def test_the_limits_add_no_step_and_nothing_to_the_result():
    stack = [ToolCallLimitMiddleware(run_limit=1), ToolCallLimitMiddleware(tool_name="news", run_limit=1)]
    agent = create_agent(ScriptedModel("Done."), [weather, news], middleware=stack)
    assert sorted(agent.invoke({**HI, "thread_tool_call_count": {"__all__": 5}})) == ["messages"]
    assert sorted(agent.get_graph().nodes) == ["__end__", "__start__", "model", "tools"]


def test_one_limit_serves_many_threads_at_once():
    model = FunctionModel(lambda messages, settings: "Done." if messages[-1].type == "tool" else [ROME, OSLO])
    limit = ToolCallLimitMiddleware(run_limit=1)
    agent = create_agent(model, [weather], middleware=[limit], checkpointer=InMemorySaver())

    def talk(n):
        return tuple(describe(agent.invoke(HI, {"configurable": {"thread_id": str(n)}})["messages"])[2:])

    with ThreadPoolExecutor(8) as pool:
        talks = set(pool.map(talk, range(16)))
    assert talks == {("tool weather: sunny in Rome", f"tool weather {OVER.format('tool calls')}", "ai: Done.")}


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({}, ConfigurationError, "Neither thread_limit nor run_limit was given"),
        ({"run_limit": -1}, ConfigurationError, "run_limit is -1; expected was 0 or more"),
        ({"thread_limit": "3"}, ConfigurationTypeError, "thread_limit is '3'; expected was a whole number"),
        ({"run_limit": 2, "thread_limit": 1}, ConfigurationError, "could never be reached"),
        ({"run_limit": 1, "exit_behavior": "stop"}, ConfigurationError, "one of continue, error, end"),
        ({"run_limit": 1, "tool_name": ""}, ConfigurationError, "tool_name is ''"),
        ({"run_limit": 1, "tool_name": "__all__"}, ConfigurationError, "tool_name is '__all__'"),
        ({"run_limit": 1, "tool_name": weather}, ConfigurationTypeError, "expected was the name of a tool"),
    ],
)
def test_what_cannot_work_is_refused_at_once(given, error, told):
    with pytest.raises(error, match=told):
        ToolCallLimitMiddleware(**given)
