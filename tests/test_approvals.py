"""Does an answer fit its question? Refused with a reason, or given back as it is to be stored."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.errors import is_invalid_resume
from langgraph.types import Interrupt
from pydantic import BaseModel

from agentgraph.approvals import ASKED, call_digest, check_answer
from agentgraph.errors import ResumeError

PAY = {"name": "pay", "args": {"to": "ann"}}
CLOSE = {"name": "close", "args": {}}
APPROVE = {"type": "approve"}


def batched(*allowed, requests=(PAY,), **config):
    kinds = list(allowed or ("approve", "edit", "reject", "respond"))
    configs = [{"action_name": one["name"], "allowed_decisions": kinds, **config} for one in requests]
    return Interrupt({"action_requests": list(requests), "review_configs": configs}, id="q1")


def single(schema=None):
    return Interrupt({"type": "tool_approval", "tool_call_id": "c", **PAY}, id="q1", response_schema=schema)


def branch(kind, **properties):
    return {"type": "object", "properties": {"type": {"const": kind}, **properties}, "required": ["type", *properties]}


def edit(**action):
    return {"type": "edit", "edited_action": action}


DIGEST = call_digest("pay", {"to": "ann"})

CLEAN = {
    "approve": (APPROVE, APPROVE),
    "what belongs to no decision": ({"type": "approve", "message": "fine", "by": "me"}, APPROVE),
    "edit": (edit(name="pay", args={"to": "bob"}, why="x"), edit(name="pay", args={"to": "bob"})),
    "reject": ({"type": "reject", "message": "no"}, {"type": "reject", "message": "no"}),
    "reject without a reason": ({"type": "reject", "message": None}, {"type": "reject"}),
    "respond": ({"type": "respond", "message": ""}, {"type": "respond", "message": ""}),
}


@pytest.mark.parametrize(("given", "clean"), CLEAN.values(), ids=CLEAN)
def test_a_decision_is_stored_clean_and_bound_to_its_call(given, clean):
    assert check_answer(batched(), {"decisions": [given]}) == {"decisions": [clean], ASKED: [DIGEST]}
    assert check_answer(single(), given) == {**clean, ASKED: [DIGEST]}


def test_an_answer_that_was_checked_passes_unchanged():
    for question, answer in ((batched(), {"decisions": [APPROVE]}), (single(), APPROVE)):
        once = check_answer(question, answer)
        assert check_answer(question, once) == once


def test_decisions_belong_to_the_calls_by_their_order():
    question = batched(requests=(PAY, CLOSE))
    checked = check_answer(question, {"decisions": [APPROVE, {"type": "reject"}]})
    assert checked == {"decisions": [APPROVE, {"type": "reject"}], ASKED: [DIGEST, call_digest("close", {})]}


def test_a_config_is_found_by_its_name_where_there_is_one_for_each_tool():
    value = {
        "action_requests": [CLOSE, PAY, PAY],
        "review_configs": [
            {"action_name": "pay", "allowed_decisions": ["approve"]},
            {"action_name": "close", "allowed_decisions": ["reject"]},
        ],
    }
    decisions = [{"type": "reject"}, APPROVE, APPROVE]
    assert check_answer(Interrupt(value, id="q"), {"decisions": decisions})["decisions"] == decisions
    with pytest.raises(ResumeError, match="decision 1 of 3"):
        check_answer(Interrupt(value, id="q"), {"decisions": [APPROVE] * 3})


REFUSED = {
    "nothing": (batched(), None, 'expected was {"decisions": [...]}'),
    "no list": (batched(), {"decisions": "approve"}, 'expected was {"decisions": [...]}'),
    "a bare list": (batched(), [APPROVE], 'expected was {"decisions": [...]}'),
    "too few": (batched(), {"decisions": []}, "0 decisions where 1 were expected"),
    "too many": (batched(), {"decisions": [APPROVE, APPROVE]}, "2 decisions where 1 were expected"),
    "not allowed": (batched("reject"), {"decisions": [APPROVE]}, "one of 'reject' as its \"type\"; 'approve' is not"),
    "unknown": (batched(), {"decisions": [{"type": "ignore"}]}, "'ignore' is no decision"),
    "a type that is no text": (batched(), {"decisions": [{"type": ["approve"]}]}, "['approve'] is no decision"),
    "no object": (batched(), {"decisions": ["approve"]}, 'as in {"type": "approve"}, but it is no object'),
    "an edit without action": (batched(), {"decisions": [{"type": "edit"}]}, '"edited_action"'),
    "an edit without name": (batched(), {"decisions": [edit(args={})]}, "with the name of a tool"),
    "an edit without arguments": (batched(), {"decisions": [edit(name="pay")]}, "must be an object"),
    "arguments without names": (batched(), {"decisions": [edit(name="pay", args={1: 2})]}, "must be an object"),
    "an approval with an edit": (
        batched(),
        {"decisions": [{**APPROVE, "edited_action": {"name": "pay", "args": {}}}]},
        "'approve' takes no \"edited_action\"",
    ),
    "a response without text": (batched(), {"decisions": [{"type": "respond"}]}, "a text for the model"),
    "a reason that is no text": (batched(), {"decisions": [{"type": "reject", "message": 7}]}, "a text for the model"),
    "edited arguments": (
        batched(args_schema={"properties": {"to": {"enum": ["ann"]}}}),
        {"decisions": [edit(name="pay", args={"to": "eve"})]},
        "'eve' is not one of ['ann']",
    ),
    "for others": (batched(), {"decisions": [APPROVE], ASKED: []}, "for other calls"),
    "one for a batch": (single(), {"decisions": [APPROVE]}, "None is no decision"),
    "one not in its schema": (single(branch("reject")), APPROVE, "one of 'reject'"),
    "one against its schema": (
        single({"oneOf": [branch("approve"), branch("edit", edited_action={"required": ["x"]})]}),
        edit(name="pay", args={}),
        "edited_action: 'x' is a required property",
    ),
    "a schema of the user's": (
        Interrupt("How many?", id="q1", response_schema={"type": "integer"}),
        "many",
        "it does not fit the schema of the question: the root: 'many' is not of type 'integer'",
    ),
    "what is no JSON": (
        Interrupt("How many?", id="q1", response_schema={"type": "integer"}),
        object(),
        "it cannot be written as JSON",
    ),
}


@pytest.mark.parametrize(("question", "answer", "why"), REFUSED.values(), ids=REFUSED)
def test_an_answer_that_does_not_fit_is_refused_with_the_reason(question, answer, why):
    with pytest.raises(ResumeError, match="'q1'") as refused:
        check_answer(question, answer)
    assert why in str(refused.value)
    assert is_invalid_resume(refused.value)


class Size(BaseModel):
    width: int


@dataclass
class Depth:
    depth: int


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (Interrupt("Who?", id="q"), {"any": object}),
        (Interrupt({"type": "survey"}, id="q"), None),
        (Interrupt({"action_requests": [PAY]}, id="q"), "not an approval of ours"),
        (Interrupt("n", id="q", response_schema={"type": "integer"}), 7),
        (Interrupt("n", id="q", response_schema=Size.model_json_schema()), Size(width=1)),
        (Interrupt("n", id="q", response_schema={"required": ["depth"]}), Depth(1)),
        (Interrupt("n", id="q", response_schema={"$ref": "https://nowhere.invalid/schema"}), 7),
        (Interrupt("n", id="q", response_schema={"type": 7}), "an unsound schema refuses nothing"),
        (Interrupt("n", id="q", response_schema=Size), {"width": "langgraph checks types itself"}),
    ],
    ids=str,
)
def test_every_other_answer_passes_as_it_is(question, answer):
    assert check_answer(question, answer) is answer


def test_a_decision_of_somebody_elses_schema_is_read_through_its_references():
    schema = {"$defs": {"A": branch("approve")}, "oneOf": [{"$ref": "#/$defs/A"}, branch("reject")]}
    assert check_answer(single(schema), APPROVE)["type"] == "approve"
    with pytest.raises(ResumeError, match="one of 'approve', 'reject'"):
        check_answer(single(schema), {"type": "respond", "message": "x"})


def test_a_schema_that_is_no_choice_of_decisions_leaves_the_four_kinds():
    assert check_answer(single({"type": "object"}), APPROVE)["type"] == "approve"


def test_what_is_shown_of_an_answer_is_bounded():
    class Hostile:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(ResumeError) as refused:
        check_answer(batched(), {"decisions": "x" * 100_000})
    assert len(str(refused.value)) < 1_000
    with pytest.raises(ResumeError, match="Given was a Hostile"):
        check_answer(batched(), Hostile())
    for question, answer in ((single(), {"type": Hostile()}), (batched(), {"decisions": [{"type": Hostile()}]})):
        with pytest.raises(ResumeError, match="a Hostile is no decision"):
            check_answer(question, answer)


def test_a_digest_does_not_depend_on_the_order_of_arguments_but_on_all_else():
    same = call_digest("pay", {"a": 1, "b": {"c": [1, 2]}})
    assert same == call_digest("pay", {"b": {"c": (1, 2)}, "a": 1})
    others = [("pays", {"a": 1, "b": {"c": [1, 2]}}), ("pay", {"a": 1, "b": {"c": [2, 1]}}), ("pay", None)]
    assert same not in {call_digest(*one) for one in others}
    assert len(call_digest("pay", {"a": {1: 1, "b": "\ud800"}})) == len(same)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
shaped = st.fixed_dictionaries(
    {},
    optional={"type": st.sampled_from(["approve", "edit", "reject", "respond"]), "message": values}
    | {"edited_action": st.fixed_dictionaries({}, optional={"name": values, "args": values})},
)


@given(answer=values | shaped | st.fixed_dictionaries({"decisions": st.lists(values | shaped, max_size=2)}))
def test_an_answer_is_refused_or_a_decision_whatever_it_is(answer):
    for question in (batched("approve", "edit"), single()):
        try:
            checked = check_answer(question, answer)
        except ResumeError:
            continue
        assert check_answer(question, checked) == checked
