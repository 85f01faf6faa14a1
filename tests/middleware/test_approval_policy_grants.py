"""Remembered approvals: for what they hold, how long, and what they never outlive."""

import json

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import ApprovalGrant, ApprovalPolicyMiddleware, ApprovalRule, Argument
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, WAYS, Bank, decide, edit, reject

MODES = pytest.mark.parametrize("mode", ["batched", "per_call"])
SCOPES = pytest.mark.parametrize("scope", ["thread", "store"])


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Counter:
    """An agent with a policy that remembers, for several threads and users."""

    def __init__(self, run, mode="batched", *, rules=None, store=None, saver=None, tools=(), **grant):
        self.clock, self.bank, self.mode, self._run = Clock(), Bank(), mode, run
        rules = [ApprovalRule("ask", tools="transfer", grant=ApprovalGrant(**grant))] if rules is None else rules
        self.policy = ApprovalPolicyMiddleware(rules, default="allow", interrupt_mode=mode, clock=self.clock)
        self.store = InMemoryStore() if store is None else store
        self.saver = saver or InMemorySaver()
        self.tools = [*self.bank.tools, *tools]

    def sends(self, *calls, thread="1", user="ann", answer=None):
        """One turn of calls; gives whether it was asked about, and answers if there is an answer."""
        agent = self.agent(*calls)
        config = {"configurable": {"thread_id": thread, "user_id": user}}
        self._run(agent, {"messages": "hi"}, config)
        asked = [one for task in agent.get_state(config).tasks for one in task.interrupts]
        if asked and answer is not None:
            given = {"decisions": [answer] * len(calls)} if self.mode == "batched" else answer
            resume = given if len(asked) == 1 else {one.id: given for one in asked}
            self._run(agent, Command(resume=resume), config)
        return bool(asked)

    def agent(self, *calls):
        model = ScriptedModel(list(calls), "Done.")
        return create_agent(
            model, self.tools, middleware=[self.policy], checkpointer=self.saver, store=self.store, name="teller"
        )

    def state(self, thread="1"):
        return self.agent().get_state({"configurable": {"thread_id": thread}}).values


def pay(amount=5, to="ann"):
    # Each call has an id of its own, as a model's have.
    pay.count += 1
    return tool_call("transfer", to=to, amount=amount, id=f"call-{pay.count}")


pay.count = 0


@WAYS
@MODES
@SCOPES
def test_an_approved_call_is_not_asked_about_again_until_the_grant_ends(run, mode, scope):
    desk = Counter(run, mode, seconds=60, scope=scope)

    assert desk.sends(pay(), answer=APPROVE)
    assert not desk.sends(pay())
    desk.clock.now += 59
    assert not desk.sends(pay())
    desk.clock.now += 1
    assert desk.sends(pay(), answer=APPROVE)
    assert not desk.sends(pay())
    assert desk.bank.log == [("transfer", "ann", 5)] * 5


@WAYS
@MODES
@pytest.mark.parametrize("answer", [reject(), edit("transfer", to="ann", amount=5)], ids=["rejected", "edited"])
def test_only_an_approval_is_remembered(run, mode, answer):
    desk = Counter(run, mode)

    assert desk.sends(pay(6), answer=answer)
    assert desk.sends(pay(6), thread="1", answer=reject())
    assert desk.sends(pay(5))
    assert desk.state().get("approval_grants", {}) == {}


@WAYS
@SCOPES
def test_a_grant_is_bound_to_the_arguments_the_user_and_its_scope(run, scope):
    desk = Counter(run, scope=scope)

    assert desk.sends(pay(), answer=APPROVE)

    assert desk.sends(pay(), thread="2") is (scope == "thread")
    assert desk.sends(pay(), user="bob", answer=reject())
    assert desk.sends(pay(6), answer=reject())
    assert desk.sends(pay(to="bob"), answer=reject())
    assert not desk.sends(pay())


@WAYS
def test_a_grant_for_a_tool_holds_for_all_arguments_that_its_rule_is_about(run):
    small = {"$.amount": Argument.at_most(10)}
    rules = [
        ApprovalRule("ask", tools="transfer", arguments=small, grant=ApprovalGrant(match="tool"), if_missing=False),
        ApprovalRule("ask", tools="transfer", arguments={"$.amount": Argument.more_than(10)}),
        ApprovalRule("ask", tools="close", grant=ApprovalGrant(match="tool")),
    ]
    desk = Counter(run, rules=rules)

    assert desk.sends(pay(5), answer=APPROVE)

    assert not desk.sends(pay(6))
    assert desk.sends(pay(11), answer=APPROVE)
    assert desk.sends(pay(11), answer=APPROVE)
    assert desk.sends(tool_call("close", account="a"))


@WAYS
@MODES
def test_a_grant_stands_against_neither_a_denial_nor_another_rule_that_asks(run, mode):
    switched = []
    rules = [
        ApprovalRule("ask", tools="transfer", grant=ApprovalGrant(), name="all"),
        ApprovalRule("deny", when=lambda request: "deny" in switched, name="frozen"),
        ApprovalRule("ask", when=lambda request: "ask" in switched, name="careful"),
    ]
    desk = Counter(run, mode, rules=rules)
    assert desk.sends(pay(), answer=APPROVE)

    switched.append("deny")
    assert not desk.sends(pay())
    assert desk.bank.log == [("transfer", "ann", 5)]
    switched[:] = ["ask"]
    assert desk.sends(pay(), answer=APPROVE)
    assert desk.sends(pay(), answer=APPROVE)
    switched.clear()
    assert not desk.sends(pay())


@WAYS
def test_a_rule_that_was_rewritten_does_not_take_the_grants_of_the_old_one(run):
    old = Counter(run)
    assert old.sends(pay(), answer=APPROVE)

    rules = [ApprovalRule("ask", tools=["transfer", "close"], grant=ApprovalGrant())]
    assert Counter(run, saver=old.saver, rules=rules).sends(pay())


@WAYS
def test_what_is_kept_is_a_digest_and_two_times(run):
    for scope in ("thread", "store"):
        desk = Counter(run, scope=scope, seconds=60)
        assert desk.sends(pay(to="secret-person"), answer=APPROVE)

        kept = desk.state().get("approval_grants", {})
        stored = {one.key: one.value for one in desk.store.search(("agentgraph", "approvals"))}

        (key, grant), *others = [*kept.items(), *stored.items()]
        assert (len(key), grant, others) == (64, {"made": 1000.0, "ends": 1060.0}, [])
        assert ("secret" in json.dumps([kept, stored]), bool(kept)) == (False, scope == "thread")


@WAYS
def test_a_caller_without_an_id_leaves_nothing_in_the_store(run):
    desk = Counter(run, scope="store")

    assert desk.sends(pay(), user=None, answer=APPROVE)
    assert desk.sends(pay(), user=None)
    assert desk.store.search(("agentgraph", "approvals")) == []


@WAYS
def test_a_grant_in_a_store_needs_a_store(run):
    rules = [ApprovalRule("ask", grant=ApprovalGrant(scope="store"))]
    policy = ApprovalPolicyMiddleware(rules)
    agent = create_agent(ScriptedModel("Done."), [], middleware=[policy], checkpointer=InMemorySaver())

    with pytest.raises(ConfigurationError, match="the agent has none"):
        run(agent, {"messages": "hi"}, {"configurable": {"thread_id": "1"}})


@WAYS
def test_calls_side_by_side_are_each_remembered(run):
    for mode in ("batched", "per_call"):
        desk = Counter(run, mode)

        assert desk.sends(pay(1), pay(2), answer=APPROVE)

        assert not desk.sends(pay(2), pay(1))
        assert len(desk.state()["approval_grants"]) == 2


@WAYS
def test_what_has_ended_is_dropped_with_the_next_grant(run):
    desk = Counter(run, seconds=60)
    assert desk.sends(pay(1), answer=APPROVE)
    desk.clock.now += 60

    assert desk.sends(pay(2), answer=APPROVE)

    assert [one["made"] for one in desk.state()["approval_grants"].values()] == [1060.0]


@WAYS
@pytest.mark.parametrize("form", ["command", "list", "bare"])
def test_a_grant_is_kept_whatever_form_the_result_has(run, form):
    @tool
    def shape(runtime_form: str) -> object:
        """Answer in some form."""
        message = ToolMessage("shaped", tool_call_id="c")
        command = Command(update={"messages": [message]})
        return {"command": command, "list": [command], "bare": "shaped"}[runtime_form]

    rules = [ApprovalRule("ask", tools="shape", grant=ApprovalGrant())]
    desk = Counter(run, "per_call", rules=rules, tools=[shape])
    call = tool_call("shape", runtime_form=form, id="c")

    assert desk.sends(call, answer=APPROVE)

    assert not desk.sends({**call, "id": "c"}, thread="1")
    answers = [m.text for m in desk.state()["messages"] if m.type == "tool"]
    assert answers == ["shaped", "shaped"]


@WAYS
def test_the_default_remembers_too_and_says_so_to_the_person(run):
    policy = ApprovalPolicyMiddleware([], default_grant=ApprovalGrant(seconds=90, match="tool"), clock=Clock())
    desk = Counter(run)
    desk.policy = policy

    agent, config = desk.agent(pay()), {"configurable": {"thread_id": "1"}}
    run(agent, {"messages": "hi"}, config)
    (question,) = [one for task in agent.get_state(config).tasks for one in task.interrupts]
    run(agent, Command(resume=decide(APPROVE).resume), config)

    assert question.value["action_requests"][0]["description"].splitlines()[-2:] == [
        "Rule: default",
        "An approval also holds for every such call of this tool in this conversation for 90 seconds.",
    ]
    call = {"name": "transfer", "args": {"to": "bob", "amount": 7}}
    said = policy.explain(call, state=desk.state())
    assert (said.outcome, said.rule) == ("allow", "default")
    assert said.why == "the rule 'default' asks, and an approval is remembered for another 90 seconds"
    assert policy.explain(call).outcome == "ask"
