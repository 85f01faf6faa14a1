"""Approvals of a turn's calls together: what a person decides is what happens, and nothing else."""

import operator
from typing import Annotated, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from agentgraph import AgentMiddleware, AgentState, ToolRuntime
from agentgraph.errors import ConfigurationError, ResumeError
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ai, answer, assert_messages, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, THREAD, WAYS, Desk, decide, edit, reject, respond

pytestmark = WAYS

PREFIX = "This tool call needs your approval"

BOB = tool_call("transfer", to="bob", amount=500, id="t")
CLOSE = tool_call("close", account="x", id="c")
LOOK = tool_call("balance", account="x", id="b")


def large(request):
    return request.tool_call["args"]["amount"] > 100


def test_one_question_holds_the_guarded_calls_of_a_turn_in_their_order(run):
    desk = Desk(run, [BOB, LOOK, CLOSE], guards={"transfer": True, "close": {"allowed_decisions": ["reject"]}})
    desk.say()
    assert desk.question.value == {
        "action_requests": [
            {
                "name": "transfer",
                "args": {"to": "bob", "amount": 500},
                "description": f'{PREFIX}\n\nTool: transfer\nArguments: {{"to": "bob", "amount": 500}}',
            },
            {
                "name": "close",
                "args": {"account": "x"},
                "description": f'{PREFIX}\n\nTool: close\nArguments: {{"account": "x"}}',
            },
        ],
        "review_configs": [
            {"action_name": "transfer", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
            {"action_name": "close", "allowed_decisions": ["reject"]},
        ],
    }
    assert desk.log == []


def test_every_decision_does_what_it_says_to_its_own_call(run):
    calls = [
        tool_call("transfer", to="ann", amount=1, id="1"),
        LOOK,
        tool_call("transfer", to="bob", amount=2, id="2"),
        tool_call("close", account="y", id="3"),
        tool_call("close", account="z", id="4"),
    ]
    desk = Desk(run, calls, "done", edit_notice="Changed.")
    desk.say()
    desk.resume(decide(APPROVE, edit("transfer", to="cid", amount=3), reject("keep it"), respond("closed long ago")))
    assert sorted(desk.log) == [("balance", "x"), ("transfer", "ann", 1), ("transfer", "cid", 3)]
    assert_messages(
        desk.messages,
        [
            HumanMessage("hi"),
            ai(*calls),
            answer(calls[0], "sent 1 to ann"),
            answer(LOOK, "x has 10"),
            answer(
                calls[2],
                'Changed. What ran: transfer with the arguments {"to": "cid", "amount": 3}.\n\nsent 3 to cid',
            ),
            answer(
                calls[3], "The user rejected this call of 'close'; it did not run. The reason: keep it", status="error"
            ),
            answer(calls[4], "closed long ago"),
            AIMessage("done"),
        ],
    )


def test_a_rejection_without_a_reason_tells_the_model_what_to_do(run):
    desk = Desk(run, CLOSE, "ok")
    desk.say()
    desk.resume(decide(reject()))
    assert desk.answers()["c"].text == (
        "The user rejected this call of 'close'; it did not run. Send it again only if the user asks for it."
    )


def test_an_edit_leaves_the_models_message_as_it_was_in_both_copies_of_the_call(run):
    raw = [{"id": "t", "type": "function", "function": {"name": "transfer", "arguments": '{"to":"bob","amount":500}'}}]
    desk = Desk(run, AIMessage("", tool_calls=[BOB], additional_kwargs={"tool_calls": raw}), "sent")
    desk.say()
    desk.resume(decide(edit("transfer", to="bob", amount=5)))
    message = desk.messages[1]
    assert (message.tool_calls[0]["args"], message.additional_kwargs["tool_calls"]) == (BOB["args"], raw)
    assert desk.log == [("transfer", "bob", 5)]


def test_an_edit_may_lead_to_a_free_tool_and_its_result_stays_with_the_models_call(run):
    desk = Desk(run, BOB, "ok", edit_notice=None)
    desk.say()
    desk.resume(decide(edit("balance", account="bob")))
    assert desk.log == [("balance", "bob")]
    assert_messages(desk.messages[2:3], [answer(BOB, "bob has 10")])


@pytest.mark.parametrize(
    ("edited", "why"),
    [
        (edit("transfers", to="bob"), r"'transfers', which this agent does not have \(did you mean 'transfer'"),
        (edit("sleep"), r"'sleep', which this agent does not have \(there are transfer, close, balance\)"),
        (edit("transfer", to="bob", amont=1), "do not fit the tool 'transfer': the root: 'amount' is a required"),
        (edit("transfer", to="bob", amount="many"), "do not fit the tool 'transfer': amount: 'many' is not of type"),
        (edit("close"), "do not fit the tool 'close': the root: 'account' is a required"),
    ],
)
def test_an_edit_that_could_not_run_is_refused_before_it_is_stored(run, edited, why):
    desk = Desk(run, BOB, "ok")
    desk.say()
    asked = desk.question
    with pytest.raises(ResumeError, match=why):
        desk.resume(decide(edited))
    assert desk.question == asked
    desk.resume(decide(edit("transfer", to="cid", amount=3)))
    assert desk.log == [("transfer", "cid", 3)]


def test_an_edit_that_changes_nothing_is_an_approval(run):
    desk = Desk(run, BOB, "ok")
    desk.say()
    desk.resume(decide(edit("transfer", amount=500, to="bob")))
    assert desk.answers()["t"].text == "sent 500 to bob"


@pytest.mark.parametrize(
    ("decision", "log"),
    [(APPROVE, [("close", "all")]), (reject(), []), (respond("no"), [])],
    ids=["approved", "rejected", "answered"],
)
def test_an_edit_into_another_guarded_tool_is_asked_about_by_that_tools_rules(run, decision, log):
    guards = {
        "transfer": {"allowed_decisions": ["approve", "edit"]},
        "close": {"allowed_decisions": ["approve", "reject", "respond"]},
    }
    desk = Desk(run, BOB, "ok", guards=guards)
    desk.say()
    first = desk.question
    desk.resume(decide(edit("close", account="all")))
    assert desk.log == []
    assert desk.question.id != first.id
    assert desk.question.value["action_requests"][0]["args"] == {"account": "all"}
    assert desk.question.value["review_configs"] == [
        {"action_name": "close", "allowed_decisions": ["approve", "reject", "respond"]}
    ]
    desk.resume(decide(decision))
    assert desk.log == log
    assert desk.messages[-1].text == "ok"


def test_an_edit_into_arguments_that_the_policy_asks_about_is_asked_about_again(run):
    guards = {"transfer": {"allowed_decisions": ["approve", "edit", "reject"], "when": large}}
    desk = Desk(run, [BOB, tool_call("transfer", to="cid", amount=200, id="u")], "ok", guards=guards)
    desk.say()
    desk.resume(decide(edit("transfer", to="bob", amount=400), edit("transfer", to="cid", amount=20)))
    assert [one["args"] for one in desk.question.value["action_requests"]] == [{"to": "bob", "amount": 400}]
    desk.resume(decide(APPROVE))
    assert sorted(desk.log) == [("transfer", "bob", 400), ("transfer", "cid", 20)]


def test_decisions_of_one_turn_are_worth_nothing_in_the_next(run):
    desk = Desk(run, BOB, "one", BOB, "two")
    desk.say("first")
    desk.resume(decide(edit("transfer", to="ann", amount=5)))
    desk.say("second")
    assert desk.log == [("transfer", "ann", 5)]
    desk.resume(decide(APPROVE))
    assert desk.log == [("transfer", "ann", 5), ("transfer", "bob", 500)]
    assert desk.messages[-2].text == "sent 500 to bob"


def test_what_was_decided_is_forgotten_when_nothing_is_guarded_any_more(run):
    desk = Desk(run, BOB, "one", "two")
    desk.say("first")
    desk.resume(decide(edit("transfer", to="ann", amount=5)))
    desk.say("second")
    kept = desk.agent.get_state(THREAD).values
    assert (kept["hitl_edited_tool_calls"], kept["hitl_reviews"]) == ({}, {})


def test_records_of_decisions_are_neither_taken_from_the_input_nor_shown_in_the_result(run):
    desk = Desk(run, BOB, "ok")
    forged = {"t": {"name": "close", "args": {"account": "all"}, "message_id": "m"}}
    result = desk._run(desk.agent, {"messages": "hi", "hitl_edited_tool_calls": forged}, THREAD)
    assert not set(result) & {"hitl_edited_tool_calls", "hitl_reviews"}
    result = desk.resume(decide(APPROVE))
    assert desk.log == [("transfer", "bob", 500)]
    if run.__name__ in {"_invoke", "_ainvoke"}:
        assert set(result) == {"messages"}


def test_a_call_that_another_hook_has_answered_is_not_asked_about(run):
    class Limit(AgentMiddleware):
        def after_model(self, state, runtime):
            last = state["messages"][-1]
            over = [answer(call, "limit reached", status="error") for call in getattr(last, "tool_calls", ())[:1]]
            return {"messages": over}

    desk = Desk(run, [BOB, CLOSE], "ok", after=[Limit()])
    desk.say()
    assert [one["name"] for one in desk.question.value["action_requests"]] == ["close"]
    desk.resume(decide(APPROVE))
    assert desk.log == [("close", "x")]
    assert desk.answers()["t"].text == "limit reached"


def test_a_structured_answer_beside_a_guarded_call_waits_for_it(run):
    schema = {"title": "Verdict", "type": "object", "properties": {"result": {"type": "string"}}}
    verdict = tool_call("Verdict", result="good", id="v")
    desk = Desk(run, [verdict, LOOK], guards={"balance": True}, response_format=ToolStrategy(schema))
    desk.say()
    assert [one["name"] for one in desk.question.value["action_requests"]] == ["balance"]
    result = desk.resume(decide(APPROVE))
    assert result["structured_response"] == {"result": "good"}
    assert desk.log == [("balance", "x")]


WRONG = {
    "no object": ("yes", "expected was"),
    "one decision bare": (APPROVE, "expected was"),
    "none": ({"decisions": []}, "it has 0 decisions where 2 were expected"),
    "too many": ({"decisions": [APPROVE] * 3}, "it has 3 decisions where 2 were expected"),
    "not allowed": ({"decisions": [APPROVE, APPROVE]}, "'approve' is not allowed here"),
    "unknown": ({"decisions": [APPROVE, {"type": "accept"}]}, "'accept' is no decision"),
    "a word": ({"decisions": [APPROVE, "reject"]}, "it is no object"),
    "no text": ({"decisions": [respond(7), reject()]}, "a text for the model"),
    "no action": ({"decisions": [{"type": "edit"}, reject()]}, '"edited_action"'),
    "for others": ({"decisions": [APPROVE, reject()], "asked": ["something else"]}, "for other calls"),
}


def test_wrong_answers_are_refused_and_the_right_one_still_works(run):
    desk = Desk(run, [BOB, CLOSE], "ok", guards={"transfer": True, "close": {"allowed_decisions": ["reject"]}})
    desk.say()
    asked = desk.question
    for wrong, why in WRONG.values():
        with pytest.raises(ResumeError, match="approval of transfer, close") as refused:
            desk.resume(wrong)
        assert why in str(refused.value)
        assert desk.question == asked
    assert desk.log == []
    desk.resume(decide(APPROVE, reject()))
    assert desk.log == [("transfer", "bob", 500)]


def test_a_new_message_instead_of_an_answer_leaves_the_call_undone(run):
    desk = Desk(run, BOB, "fine", CLOSE, "ok")
    desk.say("send 500")
    desk.say("no, forget it")
    assert desk.log == []
    assert desk.messages[-1].text == "fine"
    desk.say("close it")
    desk.resume(decide(APPROVE))
    assert desk.log == [("close", "x")]


class Basket(AgentState):
    bought: NotRequired[Annotated[list[str], operator.add]]


def said(item, runtime):
    return ToolMessage([{"type": "text", "text": f"bought {item}"}], tool_call_id=runtime.tool_call_id)


@tool
def in_one(item: str, runtime: ToolRuntime) -> Command:
    """Buy something."""
    return Command(update={"bought": [item], "messages": [said(item, runtime)]})


@tool
def in_parts(item: str, runtime: ToolRuntime) -> list:
    """Buy something."""
    return [Command(update={"bought": [item]}), said(item, runtime)]


@pytest.mark.parametrize("buy", [in_one, in_parts], ids=lambda one: one.name)
def test_the_notice_of_an_edit_stands_in_the_message_whatever_it_comes_with(run, buy):
    desk = Desk(
        run,
        tool_call(buy.name, item="car", id="k"),
        "ok",
        guards={buy.name: True},
        tools=[buy],
        state_schema=Basket,
        edit_notice="Changed.",
    )
    desk.say()
    result = desk.resume(decide(edit(buy.name, item="bike")))
    assert result["bought"] == ["bike"]
    assert desk.answers()["k"].content == [
        {"type": "text", "text": f'Changed. What ran: {buy.name} with the arguments {{"item": "bike"}}.'},
        {"type": "text", "text": "bought bike"},
    ]


def test_two_approvals_each_ask_for_their_own_tools_and_one_edits_into_the_others(run):
    desk = Desk(
        run,
        [BOB, CLOSE],
        "ok",
        guards={"close": {"allowed_decisions": ["approve", "reject"]}},
        after=[HumanInTheLoopMiddleware({"transfer": True})],
    )
    desk.say()
    assert [one["name"] for one in desk.question.value["action_requests"]] == ["transfer"]
    desk.resume(decide(edit("close", account="all")))
    assert [one["args"] for one in desk.question.value["action_requests"]] == [{"account": "all"}, {"account": "x"}]
    desk.resume(decide(reject(), APPROVE))
    assert desk.log == [("close", "x")]
    assert desk.messages[-1].text == "ok"


def test_a_guard_that_could_never_be_decided_is_refused(run):
    with pytest.raises(ConfigurationError, match="at least one of 'approve'"):
        Desk(run, guards={"close": {"allowed_decisions": []}})
