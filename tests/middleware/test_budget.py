"""Budgets of one agent: looked at before a call is made, and counted once, whatever happens in between."""

import pickle
from decimal import Decimal

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, RetryPolicy

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, MissingCheckpointerError, ResumeError
from agentgraph.middleware import (
    AgentMiddleware,
    Budget,
    BudgetExceededError,
    BudgetKey,
    BudgetMiddleware,
    Degrade,
    HumanInTheLoopMiddleware,
    Price,
    Usage,
    hook_config,
    usage_of,
    wrap_model_call,
)
from agentgraph.runs import Outcome, outcome
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, assert_valid_history, describe, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, THREAD, WAYS, decide

HI = {"messages": "hi"}
COUNTED = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
REFUSED = "The call was not run: the budget allows no further tool calls. Do not send another one; go on without it."


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing {place}"


def at(place):
    return tool_call("look", place=place, id=place)


def agent_of(limits, *script, before=(), saver=None, tools=(look,), usage=COUNTED, options=None, **settings):
    model = ScriptedModel(*script, usage=usage)
    stack = [*before, BudgetMiddleware(limits, **settings)]
    return create_agent(model, tools, middleware=stack, checkpointer=saver, **(options or {})), model


def amounts(usage):
    """The tree without its times, which no test can know."""
    shown = usage.as_dict()
    shown.pop("seconds", None)
    return shown


def spent(calls, **more):
    both = {"model_calls": calls, "input_tokens": 100 * calls, "output_tokens": 10 * calls}
    return {**both, "models": {"scripted": both}, **more}


@WAYS
def test_the_last_call_that_fits_is_an_answer_without_tools(run):
    agent, model = agent_of(Budget(model_calls=2), at("here"), "I found nothing so far.")
    result = run(agent, HI)
    assert describe(result["messages"]) == [
        "human: hi",
        "ai: -> look(place='here')",
        "tool look: nothing here",
        "ai: I found nothing so far.",
    ]
    assert outcome(result) == Outcome("limit", text="I found nothing so far.", reason="run_model_calls")
    assert [request.tools for request in model.requests] == [["look"], []]
    assert "budget of this run is nearly used up" in model.requests[1].messages[-1].text
    assert amounts(usage_of(result)) == spent(2, tool_calls=1, tools={"look": {"tool_calls": 1}})


@WAYS
def test_a_run_within_its_budget_gives_its_answer(run):
    limits = Budget(model_calls=3, tool_calls=1, tokens=2000, seconds=60)
    agent, _ = agent_of(limits, at("here"), "Nothing.")
    assert outcome(run(agent, HI)) == Outcome("answer", text="Nothing.")


@WAYS
def test_without_room_for_an_answer_the_run_ends_before_the_call(run):
    agent, model = agent_of(Budget(tokens=115), at("here"), reserve=None)
    result = run(agent, HI)
    assert outcome(result) == Outcome(
        "limit", text="The budget of this run is used up: 115 tokens.", reason="run_tokens"
    )
    assert_valid_history(result["messages"])
    assert len(model.requests) == 1


@WAYS
def test_an_agent_without_tools_needs_no_room_for_a_last_answer(run):
    agent, _ = agent_of(Budget(model_calls=1), "Hello.", tools=())
    assert outcome(run(agent, HI)) == Outcome("answer", text="Hello.")


@WAYS
def test_a_last_answer_that_calls_tools_all_the_same_is_none(run):
    agent, _ = agent_of(Budget(model_calls=1), at("here"))
    result = run(agent, HI)
    assert describe(result["messages"])[1:] == [
        "ai: -> look(place='here')",
        f"tool look error: {REFUSED}",
        "ai: The budget of this run is used up: 1 model calls.",
    ]
    assert outcome(result).reason == "run_model_calls"


@WAYS
def test_a_last_answer_can_be_a_structured_one(run):
    schema = {"title": "Report", "type": "object", "properties": {"text": {"type": "string"}}}
    options = {"response_format": ToolStrategy(schema)}
    agent, _ = agent_of(Budget(model_calls=1), tool_call("Report", text="all"), options=options)
    ended = outcome(run(agent, HI))
    assert (ended.kind, ended.structured_response) == ("limit", {"text": "all"})


@WAYS
def test_of_parallel_calls_the_first_ones_have_what_is_left(run):
    agent, _ = agent_of(Budget(tool_calls=2), [at("a"), at("b"), at("c")], "Done.")
    result = run(agent, HI)
    assert_valid_history(result["messages"])
    answers = {m.tool_call_id: (m.status, m.text) for m in result["messages"] if m.type == "tool"}
    assert answers == {"a": ("success", "nothing a"), "b": ("success", "nothing b"), "c": ("error", REFUSED)}
    assert outcome(result) == Outcome("limit", text="Done.", reason="run_tool_calls")
    found = usage_of(result)
    assert (found.tool_calls, found.refused_calls, found.tools) == (2, 1, {"look": Usage(tool_calls=2)})


@WAYS
def test_a_thread_has_one_budget_for_its_runs(run):
    limits = Budget(model_calls=2, scope="thread")
    agent, model = agent_of(limits, "One.", "Two.", tools=(), saver=InMemorySaver())
    results = [run(agent, HI, THREAD) for _ in range(3)]
    assert [outcome(one).kind for one in results] == ["answer", "answer", "limit"]
    assert outcome(results[-1]).reason == "thread_model_calls"
    assert [usage_of(one).model_calls for one in results] == [1, 1, 0]
    assert usage_of(agent.get_state(THREAD), of="thread").model_calls == 2
    assert len(model.requests) == 2


@WAYS
def test_a_run_that_pauses_keeps_its_budget(run):
    guard = HumanInTheLoopMiddleware({"look": True})
    agent, _ = agent_of(Budget(model_calls=2), at("here"), "Last.", before=[guard], saver=InMemorySaver())
    run(agent, HI, THREAD)
    result = run(agent, decide(APPROVE), THREAD)
    assert outcome(result) == Outcome("limit", text="Last.", reason="run_model_calls")
    assert amounts(usage_of(result)) == spent(2, tool_calls=1, tools={"look": {"tool_calls": 1}})


@WAYS
def test_error_raises_what_outcome_calls_a_limit(run):
    agent, _ = agent_of(Budget(model_calls=1, on_exceeded="error"), at("here"))
    with pytest.raises(BudgetExceededError, match="allows 1; 1 are spent") as raised:
        run(agent, HI)
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - what was pickled in this line
    assert (again.limit, again.spent, again.allowed) == ("run_model_calls", 1, 1)
    assert outcome(raised.value).kind == "limit"


@WAYS
def test_a_person_can_raise_the_limit(run):
    limits = Budget(model_calls=1, on_exceeded="ask")
    agent, model = agent_of(limits, at("a"), at("b"), "Done.", saver=InMemorySaver())
    run(agent, HI, THREAD)
    (question,) = agent.get_state(THREAD).interrupts
    asked = {"limit": "run_model_calls", "spent": 1, "allowed": 1, "answers": ["approve", "stop"]}
    assert question.value == {"type": "budget_exceeded", **asked}
    result = run(agent, Command(resume={"type": "approve", "raise_by": 1}), THREAD)
    assert len(model.requests) == 2
    assert result["__interrupt__"][0].value["allowed"] == 2
    result = run(agent, Command(resume={"type": "approve", "raise_by": 5}), THREAD)
    assert outcome(result) == Outcome("answer", text="Done.")
    assert usage_of(result).model_calls == 3


@WAYS
def test_a_person_can_stop_the_run(run):
    agent, _ = agent_of(Budget(model_calls=1, on_exceeded="ask"), at("a"), saver=InMemorySaver())
    run(agent, HI, THREAD)
    assert outcome(run(agent, Command(resume={"type": "stop"}), THREAD)).reason == "run_model_calls"


@WAYS
@pytest.mark.parametrize("answer", [{"type": "approve"}, {"type": "approve", "raise_by": -1}, "yes", {"type": "go"}])
def test_an_answer_that_does_not_fit_leaves_the_question_open(run, answer):
    agent, _ = agent_of(Budget(model_calls=1, on_exceeded="ask"), at("a"), "Done.", saver=InMemorySaver())
    run(agent, HI, THREAD)
    with pytest.raises(ResumeError):
        run(agent, Command(resume=answer), THREAD)
    assert outcome(run(agent, Command(resume={"type": "approve", "raise_by": 1}), THREAD)).text == "Done."


def test_a_budget_that_asks_needs_a_checkpointer():
    agent, _ = agent_of(Budget(model_calls=1, on_exceeded="ask"), "Never.")
    with pytest.raises(MissingCheckpointerError):
        agent.invoke(HI)


@WAYS
def test_degrade_goes_on_with_another_model_until_a_second_budget_ends_the_run(run):
    cheap = ScriptedModel(at("b"), "Last.", usage=COUNTED)
    limits = [Budget(model_calls=1, on_exceeded=Degrade(cheap)), Budget(model_calls=3)]
    agent, model = agent_of(limits, at("a"))
    result = run(agent, HI)
    assert outcome(result) == Outcome("limit", text="Last.", reason="run_model_calls")
    assert (len(model.requests), len(cheap.requests)) == (1, 2)


def events_of(agent):
    return [event for event in agent.stream(HI, stream_mode="custom") if event["type"] == "budget"]


def test_warn_goes_on_and_the_stream_is_told_once():
    agent, model = agent_of(Budget(model_calls=2, on_exceeded="warn", warn_at=0.5), at("a"), at("b"), at("c"), "Done.")
    rest = {"type": "budget", "limit": "run_model_calls", "allowed": 2}
    assert events_of(agent) == [{**rest, "event": "warning", "spent": 1}, {**rest, "event": "exceeded", "spent": 2}]
    assert len(model.requests) == 4


@WAYS
def test_a_model_that_reports_no_usage_is_counted_by_estimate(run):
    agent, _ = agent_of(Budget(tokens=10_000), "x" * 400, usage=None, tools=())
    found = usage_of(run(agent, HI))
    assert 0 < found.input_tokens < 20
    assert 100 <= found.output_tokens < 120


@WAYS
def test_answers_that_a_hook_throws_away_are_counted(run):
    @wrap_model_call
    def picky(request, handler):
        handler(request)
        return handler(request)

    agent, _ = agent_of(Budget(model_calls=5), "no", "yes", before=[picky], tools=())
    result = run(agent, HI)
    assert outcome(result) == Outcome("answer", text="yes")
    assert amounts(usage_of(result)) == spent(2)


@WAYS
def test_a_hook_that_asks_again_without_end_is_stopped(run):
    @wrap_model_call
    def picky(request, handler):
        for _ in range(50):
            response = handler(request)
        return response

    agent, model = agent_of(Budget(model_calls=3), "a", "b", "c", before=[picky], tools=())
    assert outcome(run(agent, HI)).kind == "limit"
    assert len(model.requests) == 3


@WAYS
def test_a_step_that_is_made_again_is_counted_as_often_as_it_was_paid_for(run):
    failures = [OSError("once")]

    class Flaky(AgentMiddleware):
        @hook_config(inline=True)
        def after_model(self, state, runtime):
            if failures:
                raise failures.pop()

    options = {"retry_policy": RetryPolicy(initial_interval=0.001, jitter=False, retry_on=OSError)}
    agent, model = agent_of(Budget(model_calls=9), "a", "b", before=[Flaky()], tools=(), options=options)
    result = run(agent, HI)
    assert (usage_of(result).model_calls, len(model.requests)) == (2, 2)


@WAYS
def test_a_failed_call_is_not_counted_and_the_run_goes_on_where_it_was(run):
    agent, _ = agent_of(Budget(model_calls=9), at("a"), OSError("down"), "Back.", saver=InMemorySaver())
    with pytest.raises(OSError, match="down"):
        run(agent, HI, THREAD)
    result = run(agent, None, THREAD)
    assert outcome(result) == Outcome("answer", text="Back.")
    assert amounts(usage_of(result)) == spent(2, tool_calls=1, tools={"look": {"tool_calls": 1}})


@WAYS
def test_money_is_counted_and_limited_by_the_prices_given(run):
    prices = {"scripted": Price(input=10, output="100", cached_input=1)}
    cached = {**COUNTED, "input_token_details": {"cache_read": 50}}
    agent, _ = agent_of(Budget(cost="0.0016"), at("a"), at("b"), usage=cached, prices=prices, reserve=None)
    result = run(agent, HI)
    assert usage_of(result).cost == Decimal("0.00155")
    assert outcome(result).reason == "run_cost"


@WAYS
def test_a_model_without_a_price_is_refused_before_it_is_called(run):
    agent, model = agent_of(Budget(cost=1), "Never.", prices={"gpt-5": Price(input=1, output=1)})
    with pytest.raises(ConfigurationError, match="needs the price of the model 'scripted'"):
        run(agent, HI)
    assert model.requests == []


def test_time_is_counted_while_a_model_or_a_tool_works():
    agent, _ = agent_of(Budget(seconds=0), "Never.")
    assert outcome(agent.invoke(HI)).reason == "run_seconds"
    agent, _ = agent_of((), "Hi.")
    assert 0 < usage_of(agent.invoke(HI)).seconds < 30


def test_it_costs_one_step_a_run_and_adds_three_fields():
    agent, _ = agent_of(Budget(model_calls=9), at("a"), "Done.", saver=InMemorySaver())
    pieces = [list(piece) for piece in agent.stream({**HI, "usage": {"run": "x", "model_calls": 5}}, THREAD)]
    assert pieces == [["BudgetMiddleware.before_agent"], ["model"], ["tools"], ["model"]]
    values = agent.get_state(THREAD).values
    assert sorted(values) == ["budget_marks", "messages", "thread_usage", "usage"]
    assert sorted(agent.invoke(None, THREAD)) == ["messages", "usage"]
    assert usage_of(values).model_calls == 2


@WAYS
def test_two_budgets_of_one_agent_are_refused(run):
    agent, _ = agent_of((), "Never.", before=[BudgetMiddleware(Budget(tokens=10_000))])
    with pytest.raises(ConfigurationError, match="two BudgetMiddleware"):
        run(agent, HI)


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (Budget, ConfigurationError, "limits nothing"),
        (lambda: Budget(tokens=-1), ConfigurationError, "tokens is -1"),
        (lambda: Budget(tokens=1.5), ConfigurationTypeError, "expected was a whole number"),
        (lambda: Budget(seconds=float("nan")), ConfigurationTypeError, "expected was a number"),
        (lambda: Budget(cost="much"), ConfigurationError, "expected was an amount of US dollars"),
        (lambda: Budget(cost=True), ConfigurationTypeError, "expected was an amount of US dollars"),
        (lambda: Budget(tokens=1, scope="day"), ConfigurationError, "scope is 'day'"),
        (lambda: Budget(tokens=1, on_exceeded="end"), ConfigurationError, "on_exceeded is 'end'"),
        (lambda: Budget(tokens=1, warn_at=80), ConfigurationError, "warn_at is 80"),
        (lambda: BudgetKey("tenant"), ConfigurationTypeError, "expected was a function"),
        (lambda: BudgetMiddleware(5), ConfigurationTypeError, "limits is 5"),
        (lambda: BudgetMiddleware(reserve=-1), ConfigurationError, "reserve is -1"),
        (lambda: BudgetMiddleware(prices={"a": 1}), ConfigurationTypeError, "price of 'a' is 1"),
        (lambda: usage_of(AIMessage("x")), ConfigurationTypeError, "AIMessage has no usage"),
        (lambda: usage_of({}, of="day"), ConfigurationError, "of is 'day'"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make, error, told):
    with pytest.raises(error, match=told):
        make()
