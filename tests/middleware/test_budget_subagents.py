"""Budgets over several agents: a subagent spends from those above it, and the usage is a tree."""

import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.middleware import (
    Budget,
    BudgetExceededError,
    BudgetMiddleware,
    HumanInTheLoopMiddleware,
    Usage,
    _budget_ledger,
    usage_of,
)
from agentgraph.runs import outcome
from agentgraph.testing import FunctionModel, ScriptedModel, describe, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, THREAD, WAYS, decide

HI = {"messages": "hi"}
COUNTED = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}


def scripted(*script):
    return ScriptedModel(*script, usage=COUNTED)


def calls(*ids):
    return [tool_call("poem", about=one, id=one) for one in ids]


def poet_tool(poet, *, asks=False, breaks=False):
    """A tool that asks a subagent: in async runs by its async way."""

    def text_of(result):
        if asks:
            interrupt("ok?")
        if breaks:
            raise OSError("the poem was lost")
        return result["messages"][-1].text

    @tool
    def poem(about: str) -> str:
        """Write a poem."""
        return text_of(poet.invoke({"messages": about}))

    async def apoem(about: str) -> str:
        return text_of(await poet.ainvoke({"messages": about}))

    poem.coroutine = apoem
    return poem


@tool
def rhyme(word: str) -> str:
    """Find a rhyme."""
    return f"{word}ing"


def amounts(usage):
    def timeless(tree):
        tree.pop("seconds", None)
        for one in tree.get("subagents", {}).values():
            timeless(one)
        return tree

    return timeless(usage.as_dict())


def of_models(count):
    both = {"model_calls": count, "input_tokens": 100 * count, "output_tokens": 10 * count}
    return {**both, "models": {"scripted": both}}


def another_process():
    """What a process knows by itself is gone."""
    _budget_ledger._tabs.clear()


@WAYS
@pytest.mark.parametrize("shared", [True, False], ids=["one object", "two objects"])
def test_the_usage_of_a_subagent_is_a_branch_of_its_callers(run, shared):
    mine = BudgetMiddleware(Budget(model_calls=9))
    theirs = mine if shared else BudgetMiddleware()
    rhymed = tool_call("rhyme", word="rose", id="w")
    poet = create_agent(scripted(rhymed, "Roses."), [rhyme], middleware=[theirs], name="poet")
    agent = create_agent(scripted(calls("p"), "Done."), [poet_tool(poet)], middleware=[mine])
    result = run(agent, HI)
    assert describe(result["messages"])[-2:] == ["tool poem: Roses.", "ai: Done."]
    found = usage_of(result)
    child = {**of_models(2), "tool_calls": 1, "tools": {"rhyme": {"tool_calls": 1}}}
    both = {"model_calls": 2, "input_tokens": 200, "output_tokens": 20}
    assert amounts(found) == {
        "model_calls": 4,
        "input_tokens": 400,
        "output_tokens": 40,
        "tool_calls": 2,
        "models": {"scripted": both},
        "tools": {"poem": {"tool_calls": 1}},
        "subagents": {"poet": child},
    }
    assert found.own().model_calls == 2


@WAYS
def test_a_subagent_without_a_name_goes_by_its_tool(run):
    poet = create_agent(scripted("Roses."), middleware=[BudgetMiddleware()])
    agent = create_agent(scripted(calls("p"), "Done."), [poet_tool(poet)], middleware=[BudgetMiddleware()], name="boss")
    assert {key: one.model_calls for key, one in usage_of(run(agent, HI)).subagents.items()} == {"poem": 1}


@WAYS
def test_a_subagent_ends_where_the_budget_above_it_does(run):
    again = FunctionModel(lambda messages, settings: tool_call("rhyme", word=f"w{len(messages)}"), usage=COUNTED)
    poet = create_agent(again, [rhyme], middleware=[BudgetMiddleware()], name="poet")
    mine = BudgetMiddleware(Budget(model_calls=5, on_exceeded="error"), reserve=None)
    model = scripted(calls("p"))
    agent = create_agent(model, [poet_tool(poet)], middleware=[mine])
    with pytest.raises(BudgetExceededError, match="allows 5; 5 are spent"):
        run(agent, HI)
    assert (len(again.requests), len(model.requests)) == (4, 1)


@WAYS
def test_a_budget_two_levels_up_holds(run):
    again = FunctionModel(lambda messages, settings: tool_call("rhyme", word=f"w{len(messages)}"), usage=COUNTED)
    lowest = create_agent(again, [rhyme], middleware=[BudgetMiddleware()], name="lowest")
    middle = create_agent(
        scripted(calls("q"), "Mid."), [poet_tool(lowest)], middleware=[BudgetMiddleware()], name="mid"
    )
    mine = BudgetMiddleware(Budget(model_calls=6), reserve=None)
    agent = create_agent(scripted(calls("p")), [poet_tool(middle)], middleware=[mine])
    result = run(agent, HI)
    assert outcome(result).reason == "run_model_calls"
    found = usage_of(result)
    assert (found.model_calls, found.subagents["mid"].model_calls) == (6, 5)
    assert found.subagents["mid"].subagents["lowest"].model_calls == 4


@WAYS
def test_subagents_side_by_side_do_not_overshoot(run):
    again = FunctionModel(lambda messages, settings: tool_call("rhyme", word=f"w{len(messages)}"), usage=COUNTED)
    poet = create_agent(again, [rhyme], middleware=[BudgetMiddleware()], name="poet")
    mine = BudgetMiddleware(Budget(model_calls=12), reserve=None)
    agent = create_agent(scripted(calls("a", "b", "c", "d")), [poet_tool(poet)], middleware=[mine])
    result = run(agent, HI)
    assert outcome(result).reason == "run_model_calls"
    assert (len(again.requests), usage_of(result).model_calls) == (11, 12)


@WAYS
def test_what_a_subagent_spent_before_its_tool_failed_counts(run):
    poet = create_agent(scripted("Roses."), middleware=[BudgetMiddleware()], name="poet")
    agent = create_agent(scripted(calls("p"), "Lost."), [poet_tool(poet, breaks=True)], middleware=[BudgetMiddleware()])
    found = usage_of(run(agent, HI))
    assert (found.model_calls, found.subagents["poet"].model_calls) == (3, 1)


@WAYS
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "another process"])
def test_a_subagent_that_paused_is_counted_once(run, elsewhere):
    guard = HumanInTheLoopMiddleware({"rhyme": True})
    rhymed = tool_call("rhyme", word="rose", id="w")
    model = scripted(rhymed, "Roses.")
    poet = create_agent(model, [rhyme], middleware=[guard, BudgetMiddleware()], name="poet")
    mine = BudgetMiddleware(Budget(model_calls=9))
    agent = create_agent(
        scripted(calls("p"), "Done."), [poet_tool(poet)], middleware=[mine], checkpointer=InMemorySaver()
    )
    run(agent, HI, THREAD)
    if elsewhere:
        another_process()
    result = run(agent, decide(APPROVE), THREAD)
    found = usage_of(result)
    assert (outcome(result).text, found.model_calls, len(model.requests)) == ("Done.", 4, 2)
    assert amounts(found.subagents["poet"]) == {**of_models(2), "tool_calls": 1, "tools": {"rhyme": {"tool_calls": 1}}}
    assert usage_of(agent.get_state(THREAD), of="thread").as_dict() == found.as_dict()


@WAYS
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "another process"])
def test_a_finished_subagent_beside_a_paused_tool_is_counted_once(run, elsewhere):
    @tool
    def confirm() -> str:
        """Ask a person."""
        return str(interrupt("ok?"))

    poet = create_agent(scripted("Roses."), middleware=[BudgetMiddleware()], name="poet")
    script = scripted([*calls("p"), tool_call("confirm", id="c")], "Done.")
    agent = create_agent(
        script, [poet_tool(poet), confirm], middleware=[BudgetMiddleware()], checkpointer=InMemorySaver()
    )
    run(agent, HI, THREAD)
    if elsewhere:
        another_process()
    found = usage_of(run(agent, Command(resume="yes"), THREAD))
    assert (found.model_calls, found.subagents["poet"].model_calls) == (3, 1)


@WAYS
def test_a_run_that_was_left_in_a_subagent_is_not_lost_to_its_thread(run):
    poet = create_agent(scripted("Roses."), middleware=[BudgetMiddleware()], name="poet")
    agent = create_agent(
        scripted(calls("p"), "Anew."),
        [poet_tool(poet, asks=True)],
        middleware=[BudgetMiddleware()],
        checkpointer=InMemorySaver(),
    )
    run(agent, HI, THREAD)
    result = run(agent, {"messages": "never mind"}, THREAD)
    assert outcome(result).text == "Anew."
    assert usage_of(result).model_calls == 1
    assert usage_of(agent.get_state(THREAD), of="thread").model_calls == 3


def test_runs_of_one_object_at_once_do_not_mix():
    mine = BudgetMiddleware(Budget(model_calls=4))
    script = FunctionModel(lambda messages, settings: "Done." if messages[-1].type == "tool" else calls("p"))
    poet = create_agent(FunctionModel(lambda messages, settings: "Roses."), middleware=[mine], name="poet")
    agent = create_agent(script, [poet_tool(poet)], middleware=[mine])

    async def all_of_them():
        return await asyncio.wait_for(asyncio.gather(*(agent.ainvoke(HI) for _ in range(20))), 30)

    found = [usage_of(one) for one in asyncio.run(all_of_them())]
    assert [(one.model_calls, one.tool_calls, one.tools) for one in found] == [
        (3, 1, {"poem": Usage(tool_calls=1)})
    ] * 20
