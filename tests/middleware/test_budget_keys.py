"""Budgets that runs on different threads share by a key: what they spend is kept in the store."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import Budget, BudgetKey, BudgetMiddleware, Usage, usage_of
from agentgraph.runs import outcome
from agentgraph.testing import FunctionModel, ScriptedModel, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import THREAD, WAYS

HI = {"messages": "hi"}


@dataclass
class User:
    tenant: str


def by_tenant(runtime):
    return ("tenant", runtime.context.tenant)


def budget(**limits):
    return Budget(scope=BudgetKey(by_tenant), **limits)


def agent_of(store, *limits, model=None, tools=(), saver=None):
    model = model or FunctionModel(lambda messages, settings: "Hello.")
    options = {"context_schema": User, "store": store, "checkpointer": saver}
    return create_agent(model, tools, middleware=[BudgetMiddleware(limits)], **options)


def of_tenant(store, name):
    """What the records of a tenant add up to."""
    return sum((Usage.of(item.value) for item in store.search(("budgets", "tenant", name), limit=1000)), Usage())


@WAYS
def test_the_runs_of_one_key_share_a_budget_and_those_of_another_do_not(run):
    agent = agent_of(InMemoryStore(), budget(model_calls=2))
    ends = [outcome(run(agent, HI, context=User("acme"))) for _ in range(3)]
    assert [end.kind for end in ends] == ["answer", "answer", "limit"]
    assert (ends[-1].text, ends[-1].reason) == (
        "The budget shared with other runs is used up: 2 model calls.",
        "key_model_calls",
    )
    assert outcome(run(agent, HI, context=User("other"))).kind == "answer"


@WAYS
def test_a_key_that_begins_with_another_one_is_another_one(run):
    store = InMemoryStore()
    store.put(("budgets", "tenant", "acme", "team"), "r", {"model_calls": 9})
    assert outcome(run(agent_of(store, budget(model_calls=1)), HI, context=User("acme"))).kind == "answer"


@WAYS
def test_a_run_writes_one_record_and_a_subagent_another(run):
    store = InMemoryStore()
    poet = create_agent(
        FunctionModel(lambda messages, settings: "Roses."), middleware=[BudgetMiddleware()], name="poet"
    )

    @tool
    def poem() -> str:
        """Write a poem."""
        return poet.invoke(HI)["messages"][-1].text

    script = ScriptedModel(tool_call("poem", id="p"), "Done.")
    result = run(agent_of(store, budget(model_calls=9), model=script, tools=[poem]), HI, context=User("acme"))
    assert usage_of(result).model_calls == 3
    records = store.search(("budgets", "tenant", "acme"))
    assert sorted(item.value["model_calls"] for item in records) == [1, 2]


@WAYS
def test_a_subagent_ends_where_the_shared_budget_does(run):
    store = InMemoryStore()

    @tool
    def rhyme(word: str) -> str:
        """Find a rhyme."""
        return word

    again = FunctionModel(lambda messages, settings: tool_call("rhyme", word=f"w{len(messages)}"))
    poet = create_agent(again, [rhyme], middleware=[BudgetMiddleware(reserve=None)], name="poet")

    @tool
    def poem() -> str:
        """Write a poem."""
        return poet.invoke(HI)["messages"][-1].text

    script = ScriptedModel(tool_call("poem", id="p"), "Done.")
    result = run(agent_of(store, budget(model_calls=5), model=script, tools=[poem]), HI, context=User("acme"))
    assert (outcome(result).reason, of_tenant(store, "acme").model_calls) == ("key_model_calls", 5)


@WAYS
def test_a_run_that_pauses_has_one_record(run):
    store, saver = InMemoryStore(), InMemorySaver()

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    script = ScriptedModel(tool_call("look", id="l"), "Done.")
    agent = agent_of(store, budget(model_calls=1, on_exceeded="ask"), model=script, tools=[look], saver=saver)
    run(agent, HI, THREAD, context=User("acme"))
    result = run(agent, Command(resume={"type": "approve", "raise_by": 1}), THREAD, context=User("acme"))
    assert (outcome(result).text, of_tenant(store, "acme").model_calls) == ("Done.", 2)
    assert len(store.search(("budgets", "tenant", "acme"))) == 1


def test_no_record_is_lost_when_many_runs_write_at_once():
    store = InMemoryStore()
    agent = agent_of(store, budget(model_calls=1000))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: agent.invoke(HI, context=User("acme")), range(40)))
    assert of_tenant(store, "acme").model_calls == 40


@WAYS
def test_more_records_than_one_page_are_all_summed_up(run):
    store = InMemoryStore()
    for number in range(1100):
        store.put(("budgets", "tenant", "acme"), f"r{number}", {"model_calls": 1}, index=False)
    agents = [agent_of(store, budget(model_calls=limit)) for limit in (1100, 1101)]
    assert [outcome(run(agent, HI, context=User("acme"))).kind for agent in agents] == ["limit", "answer"]


@WAYS
def test_a_key_without_a_store_is_refused_before_the_call(run):
    model = ScriptedModel("Never.")
    with pytest.raises(ConfigurationError, match="keeps what was spent in the store"):
        run(agent_of(None, budget(model_calls=1), model=model), HI, context=User("acme"))
    assert model.requests == []


@pytest.mark.parametrize("key", ["tenant", (), ("tenant", ""), ("a.b",), ("tenant", 5), None])
def test_what_is_no_key_is_refused(key):
    agent = agent_of(InMemoryStore(), Budget(model_calls=1, scope=BudgetKey(lambda runtime: key)))
    with pytest.raises(ConfigurationError, match="expected were texts without dots"):
        agent.invoke(HI, context=User("acme"))
