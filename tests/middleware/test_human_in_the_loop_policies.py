"""Approvals hold where the policy is another one by the time of the answer, and beside a second approval."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.testing import ScriptedModel, tool_call
from tests.middleware.approving import APPROVE, THREAD, WAYS, Bank, Desk, edit, reject, respond

BOB = tool_call("transfer", to="bob", amount=500, id="t")
CLOSE = tool_call("close", account="x", id="c")
MODES = pytest.mark.parametrize("mode", ["batched", "per_call"])
TO_BOB, LESS = ("transfer", "bob", 500), ("transfer", "bob", 5)
DECISIONS = pytest.mark.parametrize(
    ("decision", "log"),
    [
        (APPROVE, [TO_BOB]),
        (reject("no"), []),
        (respond("done by hand"), []),
        (edit("transfer", to="bob", amount=5), [LESS]),
    ],
    ids=["approve", "reject", "respond", "edit"],
)


def answer_to(question, decision):
    return Command(resume={question.id: {"decisions": [decision]} if "action_requests" in question.value else decision})


def open_questions(agent):
    return [one for task in agent.get_state(THREAD).tasks for one in task.interrupts]


class Desks:
    """One thread whose agent is built anew, with other approvals each time."""

    def __init__(self, run):
        self.bank, self.saver, self._run = Bank(), InMemorySaver(), run

    def agent(self, *approvals, reply="ok"):
        model = ScriptedModel(reply)
        return create_agent(model, self.bank.tools, middleware=approvals, checkpointer=self.saver)

    def ask(self, *approvals, reply=BOB):
        agent = self.agent(*approvals, reply=reply)
        self._run(agent, {"messages": "hi"}, THREAD)
        return open_questions(agent)

    def answer(self, question, decision, *approvals):
        """Answer on an agent with these approvals; gives what is asked then."""
        agent = self.agent(*approvals)
        self._run(agent, answer_to(question, decision), THREAD)
        return [one.value.get("args") or one.value for one in open_questions(agent)]


@WAYS
@MODES
@DECISIONS
def test_a_decision_holds_where_the_policy_does_not_guard_the_tool_any_more(run, mode, decision, log):
    desks = Desks(run)
    (question,) = desks.ask(HumanInTheLoopMiddleware({"transfer": True}, interrupt_mode=mode))

    later = desks.answer(question, decision, HumanInTheLoopMiddleware({"close": True}, interrupt_mode=mode))

    assert (desks.bank.log, later) == (log, [])


@WAYS
def test_an_edit_into_what_is_guarded_by_now_is_asked_about(run):
    desks = Desks(run)
    (question,) = desks.ask(HumanInTheLoopMiddleware({"transfer": True}))

    later = desks.answer(question, edit("close", account="x"), HumanInTheLoopMiddleware({"close": True}))

    assert (desks.bank.log, [one["action_requests"][0]["name"] for one in later]) == ([], ["close"])


@WAYS
@DECISIONS
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_an_approval_that_guards_other_tools_leaves_an_answer_as_it_is(run, decision, log, place):
    desks = Desks(run)
    two = [
        HumanInTheLoopMiddleware({"close": True}, interrupt_mode="per_call"),
        HumanInTheLoopMiddleware({"transfer": True}, interrupt_mode="per_call"),
    ]
    approvals = two if place == "outside" else two[::-1]
    (question,) = desks.ask(*approvals)

    later = desks.answer(question, decision, *approvals)

    assert (desks.bank.log, later) == (log, [])


@WAYS
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_an_approval_that_does_not_ask_about_a_call_does_not_ask_once_another_has(run, place):
    large = {
        "allowed_decisions": ["approve", "reject"],
        "when": lambda request: request.tool_call["args"]["amount"] > 900,
    }
    desks = Desks(run)
    two = [
        HumanInTheLoopMiddleware({"transfer": large}, interrupt_mode="per_call"),
        HumanInTheLoopMiddleware({"transfer": True}, interrupt_mode="per_call"),
    ]
    approvals = two if place == "inside" else two[::-1]
    (question,) = desks.ask(*approvals)

    assert (desks.answer(question, APPROVE, *approvals), desks.bank.log) == ([], [TO_BOB])


class Later:
    async def __call__(self, *given):
        return True


MISTAKES = {
    "async object": ({"when": Later()}, "when="),
    "async object as text": ({"description": Later()}, "description="),
    "decisions in a list": ({"allowed_decisions": [["approve"]]}, "allowed_decisions=[['approve']]"),
    "no schema": ({"args_schema": 7}, "args_schema=7"),
}


@pytest.mark.parametrize(("config", "why"), MISTAKES.values(), ids=MISTAKES)
def test_what_could_not_guard_is_refused(config, why):
    with pytest.raises(ConfigurationError) as refused:
        HumanInTheLoopMiddleware({"transfer": {"allowed_decisions": ["approve"], **config}})
    assert why in str(refused.value)


def test_a_prefix_that_is_no_text_is_refused():
    with pytest.raises(ConfigurationTypeError, match="description_prefix is 7"):
        HumanInTheLoopMiddleware({"transfer": True}, description_prefix=7)


async def said(*given):
    return True


@WAYS
@MODES
@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"when": lambda *given: said()}, "The when of interrupt_on['transfer'] gave something to await"),
        ({"description": lambda *given: said()}, "The description of interrupt_on['transfer'] gave something to await"),
        ({"description": lambda *given: 7}, "gave 7; expected was a text"),
        ({"description": lambda *given: None}, "gave None; expected was a text"),
    ],
    ids=["when", "description", "number", "nothing"],
)
def test_a_function_that_gives_something_else_ends_the_run_before_anything_runs(run, mode, config, why):
    guards = {"transfer": {"allowed_decisions": ["approve"], **config}}
    desk = Desk(run, BOB, "ok", guards=guards, interrupt_mode=mode)

    with pytest.raises(ConfigurationTypeError) as refused:
        desk.say()

    assert why in str(refused.value)
    assert desk.log == []


@WAYS
@MODES
@pytest.mark.parametrize("part", ["when", "description"])
def test_a_function_cannot_change_the_call_that_it_is_shown(run, mode, part):
    def change(given, *more):
        call = given.tool_call if part == "when" else given
        call["args"]["to"] = "eve"
        return "text"

    guards = {"transfer": {"allowed_decisions": ["approve"], part: change}}
    desk = Desk(run, BOB, "ok", guards=guards, interrupt_mode=mode)
    desk.say()
    value = desk.question.value

    assert (value["action_requests"][0] if mode == "batched" else value)["args"] == {"to": "bob", "amount": 500}
    desk.resume(answer_to(desk.question, APPROVE))
    assert desk.log == [TO_BOB]
