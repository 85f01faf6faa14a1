"""Policies in a run: what is denied, asked about and allowed, whatever stands around it."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.middleware import (
    ApprovalPolicyMiddleware,
    ApprovalRule,
    Argument,
    HumanInTheLoopMiddleware,
    ToolCallLimitMiddleware,
    after_model,
    wrap_tool_call,
)
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from tests.middleware.approving import APPROVE, THREAD, WAYS, Bank, decide, edit, reject, respond

DENY = ApprovalRule("deny", tools="close", reason="Accounts stay open.", name="no closing")
LARGE = ApprovalRule("ask", tools="transfer", arguments={"$.amount": Argument.more_than(100)}, name="large")
NOT_EVE = ApprovalRule("deny", tools="transfer", arguments={"$.to": "eve"}, name="not to eve")
RULES = [DENY, NOT_EVE, LARGE]
LOOK = ApprovalRule("allow", tools="balance", name="looking")


class Teller:
    """An agent with a policy on one thread, run in one of the four ways."""

    def __init__(self, run, *replies, rules=RULES, before=(), after=(), options=None, **settings):
        self.bank = Bank()
        self.model = ScriptedModel(*replies)
        policy = ApprovalPolicyMiddleware(rules, **{"default": "allow", **settings})
        self.agent = create_agent(
            self.model,
            self.bank.tools,
            middleware=[*before, policy, *after],
            checkpointer=InMemorySaver(),
            **(options or {}),
        )
        self._run = run

    def say(self, text="hi", thread=THREAD):
        return self._run(self.agent, {"messages": text}, thread)

    def resume(self, answer):
        return self._run(self.agent, answer if isinstance(answer, Command) else Command(resume=answer), THREAD)

    @property
    def log(self):
        return self.bank.log

    @property
    def interrupts(self):
        return [one for task in self.agent.get_state(THREAD).tasks for one in task.interrupts]

    @property
    def questions(self):
        return [one.value for one in self.interrupts]


def denied(call, rule="no closing", reason=" Accounts stay open."):
    text = f"This call of {call['name']!r} was denied by the rule {rule!r}; it did not run.{reason} "
    return answer(call, text + "Do not send it again; go on without it.", status="error")


def transfer(amount, to="ann", **fields):
    return tool_call("transfer", to=to, amount=amount, **fields)


CLOSE = tool_call("close", account="a")


@WAYS
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_each_call_is_denied_asked_about_or_allowed(run, mode):
    calls = [transfer(5), CLOSE, transfer(500)]
    desk = Teller(run, calls, "Done.", interrupt_mode=mode)

    desk.say()

    told = 'This tool call needs your approval\n\nTool: transfer\nArguments: {"to": "ann", "amount": 500}\nRule: large'
    (question,) = desk.interrupts
    assert desk.log == ([] if mode == "batched" else [("transfer", "ann", 5)])
    if mode == "batched":
        action = {"name": "transfer", "args": {"to": "ann", "amount": 500}, "description": told}
        every = ["approve", "edit", "reject", "respond"]
        review = {"action_name": "transfer", "allowed_decisions": every}
        assert question.value == {"action_requests": [action], "review_configs": [review]}
        result = desk.resume(decide(APPROVE))
    else:
        assert question.value == {
            "type": "tool_approval",
            "tool_call_id": calls[2]["id"],
            "name": "transfer",
            "args": {"to": "ann", "amount": 500},
            "description": told,
        }
        result = desk.resume({question.id: APPROVE})

    by_id = {m.tool_call_id: m for m in result["messages"] if m.type == "tool"}
    expected = [answer(calls[0], "sent 5 to ann"), denied(CLOSE), answer(calls[2], "sent 500 to ann")]
    assert_messages([by_id[call["id"]] for call in calls], expected)
    assert sorted(desk.log) == [("transfer", "ann", 5), ("transfer", "ann", 500)]
    assert result["messages"][-1].text == "Done."


@WAYS
@pytest.mark.parametrize("settings", [{}, {"interrupt_mode": "per_call"}], ids=["batched", "per_call"])
def test_a_turn_of_denied_calls_goes_back_to_the_model(run, settings):
    other = tool_call("close", account="b")
    desk = Teller(run, [CLOSE, other], "Done.", **settings)

    result = desk.say()

    assert_messages(
        result["messages"],
        [HumanMessage("hi"), ai(CLOSE, other), denied(CLOSE), denied(other), AIMessage("Done.")],
    )
    assert desk.log == []


@WAYS
def test_what_the_default_denies_is_told_without_a_rule(run):
    desk = Teller(run, CLOSE, "Done.", rules=[LOOK], default="deny")

    result = desk.say()

    assert_messages(result["messages"][2:3], [denied(CLOSE, "default", "")])


DECISIONS = [
    (reject("too much"), [], "error", "The reason: too much"),
    (respond("later"), [], "success", "later"),
    (edit("transfer", to="ann", amount=5), [("transfer", "ann", 5)], "success", "sent 5 to ann"),
    (edit("transfer", to="eve", amount=5), [], "error", "denied by the rule 'not to eve'"),
]


@WAYS
@pytest.mark.parametrize(
    ("mode", "decision", "log", "status", "text"),
    [
        *((mode, *row) for mode in ("batched", "per_call") for row in DECISIONS),
        # In `per_call` mode an edit keeps to the tool.
        ("batched", edit("close", account="a"), [], "error", "denied by the rule 'no closing'"),
        ("batched", edit("balance", account="a"), [("balance", "a")], "success", "a has 10"),
    ],
)
def test_a_person_answers_as_for_any_approval(run, mode, decision, log, status, text):
    desk = Teller(run, transfer(500), "Done.", interrupt_mode=mode)

    desk.say()
    result = desk.resume({"decisions": [decision]} if mode == "batched" else decision)

    message = result["messages"][2]
    assert (message.status, message.name, desk.log) == (status, "transfer", log)
    assert text in message.text
    assert result["messages"][-1].text == "Done."


@WAYS
def test_an_edit_into_other_arguments_that_a_rule_asks_about_is_asked_about(run):
    desk = Teller(run, transfer(500), "Done.")

    desk.say()
    desk.resume(decide(edit("transfer", to="ann", amount=700)))
    (question,) = desk.questions
    result = desk.resume(decide(APPROVE))

    assert question["action_requests"][0]["args"] == {"to": "ann", "amount": 700}
    assert desk.log == [("transfer", "ann", 700)]
    assert result["messages"][-1].text == "Done."


@WAYS
def test_an_edit_is_a_decision_for_a_rule_that_does_not_look_at_arguments(run):
    desk = Teller(run, transfer(500), "Done.", rules=[], default="ask")

    desk.say()
    result = desk.resume(decide(edit("transfer", to="ann", amount=700)))

    assert (desk.log, result["messages"][-1].text) == ([("transfer", "ann", 700)], "Done.")


@WAYS
def test_a_jump_to_the_tools_leads_around_nothing(run):
    @after_model(can_jump_to=["tools"])
    def hurry(state, runtime):
        return {"jump_to": "tools"}

    desk = Teller(run, [CLOSE, transfer(500)], "Done.", after=[hurry])

    desk.say()

    assert ([one["type"] for one in desk.questions], desk.log) == (["tool_approval"], [])
    desk.resume(APPROVE)
    assert desk.log == [("transfer", "ann", 500)]


@WAYS
def test_a_call_rewritten_around_the_tool_is_judged_as_it_would_run(run):
    @wrap_tool_call
    def rewriting(request, handler):
        if request.tool_call["name"] == "balance":
            tool = next(one for one in desk.bank.tools if one.name == "close")
            return handler(request.override(tool_call={**request.tool_call, "name": "close"}, tool=tool))
        return handler(request.override(tool_call={**request.tool_call, "args": {"to": "bob", "amount": 900}}))

    look = tool_call("balance", account="a")
    desk = Teller(run, [look, transfer(5)], "Done.", before=[rewriting])

    desk.say()

    assert [one["args"] for one in desk.questions] == [{"to": "bob", "amount": 900}]
    result = desk.resume(reject())
    by_id = {m.tool_call_id: m for m in result["messages"] if m.type == "tool"}
    assert "denied by the rule 'no closing'" in by_id[look["id"]].text
    assert desk.log == []


@WAYS
def test_what_another_approval_lets_through_is_denied_all_the_same(run):
    hitl = HumanInTheLoopMiddleware({"transfer": True})
    desk = Teller(run, transfer(5), "Done.", after=[hitl])

    desk.say()
    result = desk.resume(decide(edit("close", account="a")))

    assert (desk.log, result["messages"][2].status) == ([], "error")


@WAYS
def test_nobody_is_asked_about_a_call_over_a_limit(run):
    desk = Teller(run, [transfer(500), transfer(600)], "Done.", after=[ToolCallLimitMiddleware(run_limit=1)])

    desk.say()

    assert [one["args"]["amount"] for one in desk.questions[0]["action_requests"]] == [500]


@WAYS
def test_a_rule_that_denies_since_the_question_wins_over_the_approval(run):
    frozen = []
    rules = [ApprovalRule("deny", when=lambda request: bool(frozen), name="frozen"), LARGE]
    desk = Teller(run, [transfer(500), transfer(600)], "Done.", rules=rules)

    desk.say()
    frozen.append(True)
    result = desk.resume(decide(APPROVE, reject("no")))

    answers = sorted(m.text for m in result["messages"] if m.type == "tool")
    assert (desk.log, len(answers)) == ([], 2)
    assert answers[0].endswith("The reason: no")
    assert "was denied by the rule 'frozen'" in answers[1]


@WAYS
def test_a_rule_that_asks_since_the_question_is_heard_before_the_call_runs(run):
    careful = []
    rules = [LARGE, ApprovalRule("ask", when=lambda request: bool(careful), name="careful")]
    desk = Teller(run, [transfer(500), transfer(5)], "Done.", rules=rules)

    desk.say()
    careful.append(True)
    desk.resume(decide(APPROVE))

    assert ([one["args"]["amount"] for one in desk.questions], desk.log) == ([5], [("transfer", "ann", 500)])
    desk.resume(APPROVE)
    assert desk.log == [("transfer", "ann", 500), ("transfer", "ann", 5)]


@WAYS
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_rule_reads_what_a_tool_declares_before_and_at_the_tools(run, mode):
    rules = [
        ApprovalRule("allow", declared="read"),
        ApprovalRule("deny", declared=["write", "external"], name="writes"),
    ]
    desk = Teller(run, [tool_call("balance", account="a"), transfer(5), CLOSE], "Done.", rules=rules, default="ask")
    for one, effect in zip(desk.bank.tools, ("write", "external", "read"), strict=True):
        one.metadata = {"effect": effect}

    result = desk.say()

    assert {m.name: m.status for m in result["messages"] if m.type == "tool"} == {
        "transfer": "error",
        "close": "error",
        "balance": "success",
    }
    assert desk.log == [("balance", "a")]
    declared = {"transfer": ["write"], "close": ["external"], "balance": ["read"]}
    assert desk.agent.get_state(THREAD).values["approval_effects"] == declared


@WAYS
def test_a_structured_answer_is_no_call_that_needs_approval(run):
    class Total(BaseModel):
        amount: int

    final = tool_call("Total", amount=5)
    desk = Teller(run, final, rules=[], default="ask", options={"response_format": ToolStrategy(Total)})

    assert desk.say()["structured_response"] == Total(amount=5)


@WAYS
@pytest.mark.parametrize(
    ("rules", "settings", "step"),
    [
        ([LOOK, DENY], {"default": "deny"}, False),
        ([LOOK, DENY], {"default": "allow"}, False),
        ([LOOK, LARGE], {"default": "allow", "interrupt_mode": "per_call"}, False),
        ([LOOK, LARGE], {"default": "allow"}, True),
        ([LOOK], {"default": "ask"}, True),
    ],
)
def test_only_a_policy_that_asks_after_the_model_costs_a_step(run, rules, settings, step):
    desk = Teller(run, tool_call("balance", account="a"), "Done.", rules=rules, **settings)

    result = desk.say()

    after = [name for name in desk.agent.get_graph().nodes if name.startswith("ApprovalPolicyMiddleware")]
    assert after == (["ApprovalPolicyMiddleware.after_model"] if step else [])
    assert len(list(desk.agent.get_state_history(THREAD))) == (7 if step else 5)
    assert (set(result), len(desk.model.requests), desk.log) == ({"messages"}, 2, [("balance", "a")])
    kept = set(desk.agent.get_state(THREAD).values) - {"messages"}
    assert kept <= {"approval_grants", "approval_effects"}


@WAYS
def test_a_policy_that_never_asks_needs_no_checkpointer(run):
    bank = Bank()
    policy = ApprovalPolicyMiddleware([LOOK], default="deny")
    agent = create_agent(ScriptedModel(CLOSE, "Done."), bank.tools, middleware=[policy])

    assert (run(agent, {"messages": "hi"})["messages"][-1].text, bank.log) == ("Done.", [])
