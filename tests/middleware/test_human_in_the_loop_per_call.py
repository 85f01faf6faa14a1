"""Approvals call by call: a question of its own for each, with a schema of its answer."""

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from agentgraph import AgentMiddleware
from agentgraph.errors import ResumeError
from agentgraph.testing import tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, WAYS, Desk, edit, reject, respond

pytestmark = WAYS

BOB = tool_call("transfer", to="bob", amount=500, id="t")
CLOSE = tool_call("close", account="x", id="c")


def desk_for(run, *replies, **options):
    return Desk(run, *replies, interrupt_mode="per_call", edit_notice="Changed.", **options)


def by_name(desk):
    return {one.value["name"]: one for one in desk.questions}


def test_a_question_shows_the_call_and_the_schema_of_its_answer(run):
    desk = desk_for(run, BOB, guards={"transfer": {"allowed_decisions": ["edit", "reject"]}})
    desk.say()
    assert desk.question.value == {
        "type": "tool_approval",
        "tool_call_id": "t",
        "name": "transfer",
        "args": {"to": "bob", "amount": 500},
        "description": 'This tool call needs your approval\n\nTool: transfer\nArguments: {"to": "bob", "amount": 500}',
    }
    arguments = {
        "title": "transfer",
        "description": "Move money.",
        "type": "object",
        "properties": {"to": {"title": "To", "type": "string"}, "amount": {"title": "Amount", "type": "integer"}},
        "required": ["to", "amount"],
    }
    action = {"name": {"const": "transfer", "type": "string"}, "args": arguments}
    assert desk.question.response_schema == {
        "oneOf": [
            {
                "title": "EditDecision",
                "type": "object",
                "properties": {
                    "type": {"const": "edit", "type": "string"},
                    "edited_action": {
                        "title": "EditedAction",
                        "type": "object",
                        "properties": action,
                        "required": ["name", "args"],
                    },
                },
                "required": ["type", "edited_action"],
            },
            {
                "title": "RejectDecision",
                "type": "object",
                "properties": {"type": {"const": "reject", "type": "string"}, "message": {"type": "string"}},
                "required": ["type"],
            },
        ],
        "discriminator": {"propertyName": "type"},
    }


@pytest.mark.parametrize(
    ("decision", "log", "told", "status"),
    [
        (APPROVE, [("transfer", "bob", 500)], "sent 500 to bob", "success"),
        (
            edit("transfer", to="bob", amount=5),
            [("transfer", "bob", 5)],
            'Changed. What ran: transfer with the arguments {"to": "bob", "amount": 5}.\n\nsent 5 to bob',
            "success",
        ),
        (reject("no"), [], "The user rejected this call of 'transfer'; it did not run. The reason: no", "error"),
        (respond("sent by hand"), [], "sent by hand", "success"),
    ],
    ids=["approve", "edit", "reject", "respond"],
)
def test_a_decision_does_what_it_says(run, decision, log, told, status):
    desk = desk_for(run, BOB, "ok")
    desk.say()
    desk.resume({desk.question.id: decision})
    message = desk.answers()["t"]
    assert (desk.log, message.text, message.status, message.name) == (log, told, status, "transfer")
    assert desk.messages[-1].text == "ok"


def test_questions_are_answered_one_by_one_and_finished_work_is_kept(run):
    desk = desk_for(run, [BOB, CLOSE, tool_call("balance", account="x", id="b")], "ok")
    desk.say()
    first = by_name(desk)
    assert set(first) == {"transfer", "close"}
    desk.resume({first["close"].id: APPROVE})
    assert desk.log == [("balance", "x"), ("close", "x")]
    assert by_name(desk) == {"transfer": first["transfer"]}
    desk.resume({first["transfer"].id: reject()})
    assert desk.log == [("balance", "x"), ("close", "x")]
    assert [m.status for m in desk.answers().values()] == ["error", "success", "success"]


WRONG = {
    "another tool": (edit("close", account="x"), "edited_action.name: 'transfer' was expected"),
    "a wrong argument": (edit("transfer", to="bob", amount="much"), "edited_action.args.amount: 'much' is not of type"),
    "a missing argument": (edit("transfer", to="bob"), "'amount' is a required property"),
    "not allowed": (respond("done"), "'respond' is not allowed here"),
    "a batch": ({"decisions": [APPROVE]}, "None is no decision"),
    "no message": ({"type": "reject", "message": 7}, "a text for the model"),
    "an edit in disguise": ({**edit("transfer", to="bob", amount=1), "type": "approve"}, 'takes no "edited_action"'),
    "for another call": ({**APPROVE, "asked": ["of something else"]}, "for other calls"),
}


def test_wrong_answers_are_refused_and_the_right_one_still_works(run):
    guards = {"transfer": {"allowed_decisions": ["approve", "edit", "reject"]}}
    desk = desk_for(run, BOB, "ok", guards=guards)
    desk.say()
    asked = desk.question
    for wrong, why in WRONG.values():
        with pytest.raises(ResumeError, match="approval of transfer") as refused:
            desk.resume(wrong)
        assert why in str(refused.value)
        assert desk.question == asked
    assert desk.log == []
    desk.resume(APPROVE)
    assert desk.log == [("transfer", "bob", 500)]


def test_an_edit_into_arguments_that_the_policy_asks_about_is_asked_about_again(run):
    seen = []

    def large(request):
        seen.append((request.tool.name, request.runtime.tool_call_id))
        return request.tool_call["args"]["amount"] > 100

    guards = {"transfer": {"allowed_decisions": ["approve", "edit"], "when": large}}
    desk = desk_for(run, [BOB, tool_call("transfer", to="cid", amount=1, id="free")], "ok", guards=guards)
    desk.say()
    first = desk.question
    assert desk.log == [("transfer", "cid", 1)]
    desk.resume(edit("transfer", to="bob", amount=400))
    assert desk.question.id != first.id
    assert desk.question.value["args"] == {"to": "bob", "amount": 400}
    desk.resume(APPROVE)
    assert desk.log == [("transfer", "cid", 1), ("transfer", "bob", 400)]
    assert set(seen) == {("transfer", "t"), ("transfer", "free")}


def test_an_edit_back_to_a_form_that_was_asked_about_is_a_decision(run):
    guards = {"transfer": {"allowed_decisions": ["edit"], "when": lambda request: True}}
    desk = desk_for(run, BOB, "ok", guards=guards)
    desk.say()
    desk.resume(edit("transfer", to="bob", amount=400))
    desk.resume(edit("transfer", to="bob", amount=500))
    assert desk.log == [("transfer", "bob", 500)]
    assert desk.answers()["t"].text == "sent 500 to bob"


class Address(BaseModel):
    """Where to."""

    city: str


@tool
def ship(to: Address) -> str:
    """Ship it."""
    return f"shipped to {to.city}"


ship_by_schema = StructuredTool.from_function(
    lambda to: f"shipped to {to['city']}",
    name="ship",
    description="Ship it.",
    args_schema={
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/Address"}},
        "required": ["to"],
        "$defs": {"Address": Address.model_json_schema()},
    },
)


@pytest.mark.parametrize("shipping", [ship, ship_by_schema], ids=["of a model", "of a JSON schema"])
def test_the_schema_of_nested_arguments_can_be_followed_from_its_root(run, shipping):
    desk = desk_for(run, tool_call("ship", to={"city": "Rome"}, id="s"), "ok", tools=[shipping], guards={"ship": True})
    desk.say()
    assert set(desk.question.response_schema["$defs"]) == {"Address"}
    with pytest.raises(ResumeError, match=r"edited_action\.args\.to"):
        desk.resume(edit("ship", to={"city": 7}))
    desk.resume(edit("ship", to={"city": "Oslo"}))
    assert desk.answers()["s"].text.endswith("shipped to Oslo")


def test_a_schema_of_the_users_takes_the_place_of_the_tools_own(run):
    small = {"type": "object", "properties": {"amount": {"maximum": 10}}}
    guards = {"transfer": {"allowed_decisions": ["edit"], "args_schema": small}}
    desk = desk_for(run, BOB, "ok", guards=guards)
    desk.say()
    with pytest.raises(ResumeError, match="11 is greater than the maximum of 10"):
        desk.resume(edit("transfer", to="bob", amount=11))
    desk.resume(edit("transfer", to="bob", amount=10))
    assert desk.log == [("transfer", "bob", 10)]


class Retry(AgentMiddleware):
    """Calls twice what fails once, and catches all."""

    def wrap_tool_call(self, request, handler):
        try:
            return handler(request)
        except Exception:
            return handler(request)


class CatchAll(AgentMiddleware):
    """Lets no exception out."""

    def wrap_tool_call(self, request, handler):
        try:
            return handler(request)
        except Exception as error:
            return ToolMessage(f"caught {error}", tool_call_id=request.tool_call["id"])


def test_a_retry_around_the_approval_asks_once(run):
    tries = []

    @tool
    def shaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise OSError("busy")
        return "done"

    call = tool_call("shaky", id="s")
    desk = desk_for(run, call, "ok", tools=[shaky], guards={"shaky": True}, before=[CatchAll(), Retry()])
    desk.say()
    assert tries == []
    desk.resume(APPROVE)
    assert (desk.answers()["s"].text, len(tries)) == ("done", 2)


def test_a_wrong_answer_passes_a_catch_all_around_the_approval(run):
    desk = desk_for(run, BOB, "ok", before=[CatchAll()])
    desk.say()
    with pytest.raises(ResumeError, match="'maybe' is no decision"):
        desk.resume({"type": "maybe"})
    desk.resume(reject())
    assert (desk.log, desk.answers()["t"].status) == ([], "error")


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_condition_that_fails_lets_nothing_run(run, mode):
    def when(request):
        raise LookupError(request.tool_call["name"])

    guards = {"transfer": {"allowed_decisions": ["approve"], "when": when}}
    desk = Desk(run, BOB, "ok", guards=guards, interrupt_mode=mode)
    with pytest.raises(LookupError):
        desk.say()
    assert desk.log == []
