from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from agentgraph.history import check, feedback, feedback_kind, is_empty, pending_calls, this_turn, with_call_ids
from agentgraph.testing import ai, assert_valid_history, describe, invalid_call, tool_call


def human(text: str = "hi", id: str = "h") -> HumanMessage:  # noqa: A002 - the name of the message's field
    return HumanMessage(text, id=id)


def asking(*calls: Any, id: str = "a", **fields: Any) -> AIMessage:  # noqa: A002 - as above
    return ai(*calls).model_copy(update={"id": id, **fields})


def answer(call_id: str, text: str = "ok", id: str | None = None) -> ToolMessage:  # noqa: A002 - as above
    return ToolMessage(text, tool_call_id=call_id, name="look", id=id or f"t-{call_id}")


def test_a_valid_history_comes_back_as_the_same_messages_with_nothing_to_write() -> None:
    messages = [human(), asking(tool_call("look", id="1")), answer("1"), AIMessage("done", id="b")]
    checked = check(messages)
    assert all(a is b for a, b in zip(checked.messages, messages, strict=True))
    assert checked.update == []


def test_an_open_call_is_answered_with_an_error_that_claims_no_result() -> None:
    messages = [human(), asking(tool_call("look", id="1")), human("go on", id="h2")]
    repaired = check(messages).messages
    assert [m.type for m in repaired] == ["human", "ai", "tool", "human"]
    assert (repaired[2].status, repaired[2].tool_call_id, repaired[2].name) == ("error", "1", "look")
    assert "not finished" in repaired[2].text
    assert repaired[2].response_metadata == {"agentgraph": {"repair": "unanswered"}}


def test_answers_are_laid_out_in_the_order_of_the_calls_directly_after_them() -> None:
    late, early = answer("2"), answer("1")
    messages = [asking(tool_call("look", id="1"), tool_call("look", id="2")), late, human(), early]
    repaired = check(messages).messages
    assert [getattr(m, "tool_call_id", m.type) for m in repaired] == ["ai", "1", "2", "human"]
    assert repaired[1] is early
    assert repaired[2] is late


def test_orphan_answers_and_second_answers_are_dropped() -> None:
    messages = [answer("0"), human(), asking(tool_call("look", id="1")), answer("1"), answer("1", "again", id="x")]
    assert describe(check(messages).messages) == describe([messages[1], messages[2], messages[3]])


@pytest.mark.parametrize(
    "content",
    ["", "  \n", [], [{"type": "text", "text": " "}], [{"type": "thinking", "thinking": "hm", "signature": "s"}], [""]],
)
def test_an_assistant_message_that_says_nothing_is_dropped(content: Any) -> None:
    messages = [human(), AIMessage(content, id="e"), human("still there?", id="h2")]
    checked = check(messages)
    assert checked.messages == [messages[0], messages[2]]
    assert checked.update == [RemoveMessage(id="e")]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("text"),
        AIMessage([{"type": "image", "url": "https://example.com/cat.png"}]),
        AIMessage("", additional_kwargs={"refusal": "no"}),
        asking(tool_call("look", id="1")),
        AIMessage("", invalid_tool_calls=[invalid_call("look", id="1")]),
        HumanMessage(""),
    ],
)
def test_a_message_with_something_in_it_is_not_empty(message: Any) -> None:
    assert not is_empty(message)


def test_calls_without_an_id_or_with_a_doubled_one_get_their_own() -> None:
    message = asking(tool_call("look", id="same"), tool_call("look", id="same"), tool_call("look", id="x"))
    message.tool_calls[2]["id"] = None
    named = with_call_ids(message)
    ids = [call["id"] for call in named.tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 3
    assert all(ids)
    assert [call["id"] for call in message.tool_calls] == ["same", "same", None]


def test_a_message_whose_ids_are_its_own_is_left_alone() -> None:
    message = asking(tool_call("look", id="1"), tool_call("look", id="2"))
    assert with_call_ids(message) is message


def test_providers_copies_of_renamed_calls_follow() -> None:
    blocks = [{"type": "text", "text": "so"}, *({"type": "tool_use", "id": "s", "name": "look", "input": {}},) * 2]
    message = AIMessage(
        blocks,
        tool_calls=[tool_call("look", id="s"), tool_call("look", id="s")],
        additional_kwargs={"tool_calls": ["raw"], "other": 1},
    )
    named = with_call_ids(message)
    assert [block.get("id") for block in named.content[1:]] == [call["id"] for call in named.tool_calls]
    assert named.additional_kwargs == {"other": 1}


@pytest.mark.parametrize(("kind", "key"), [("tool_use", "id"), ("tool_call", "id"), ("function_call", "call_id")])
def test_content_of_a_call_that_was_taken_away_goes_with_it(kind: str, key: str) -> None:
    kept, gone = {"type": kind, key: "1", "name": "look"}, {"type": kind, key: "2", "name": "look"}
    message = AIMessage([{"type": "text", "text": "so"}, kept, gone], tool_calls=[tool_call("look", id="1")])
    assert with_call_ids(message).content == [{"type": "text", "text": "so"}, kept]


def test_content_of_an_unreadable_call_without_an_id_gets_the_id_of_its_call() -> None:
    block = {"type": "tool_use", "id": None, "name": "look", "input": "{"}
    named = with_call_ids(AIMessage([block], invalid_tool_calls=[invalid_call("look") | {"id": None}]))
    assert named.content == [{**block, "id": named.invalid_tool_calls[0]["id"]}]


def test_doubled_ids_in_the_input_keep_the_order_of_their_answers() -> None:
    messages = [asking(tool_call("look", id="s"), tool_call("look", id="s")), answer("s", "one", id="x")]
    messages.append(answer("s", "two", id="y"))
    repaired = check(messages).messages
    assert [m.text for m in repaired[1:]] == ["one", "two"]
    assert [m.tool_call_id for m in repaired[1:]] == [call["id"] for call in repaired[0].tool_calls]


def test_an_unreadable_call_is_answered_with_what_was_wrong_and_a_short_excerpt() -> None:
    bad = invalid_call("look", id="1", args='{"city": "' + "x" * 100_000, error="unterminated string")
    message = AIMessage("", id="a", invalid_tool_calls=[bad])
    told = check([human(), message]).messages[-1]
    assert (told.status, told.tool_call_id, told.name) == ("error", "1", "look")
    assert "unterminated string" in told.text
    assert len(told.text) < 1000


def test_an_unreadable_call_without_a_name_is_answered_as_unknown() -> None:
    message = AIMessage("", invalid_tool_calls=[{**invalid_call("x", id="1", error=None), "name": None, "args": None}])
    told = check([message]).messages[-1]
    assert told.name == "unknown"
    assert "They began" not in told.text


def test_an_id_used_again_in_a_later_message_belongs_to_the_later_one() -> None:
    first, second = asking(tool_call("look", id="1"), id="a"), asking(tool_call("look", id="1"), id="b")
    messages = [first, answer("1", "old", id="x"), human(), second, answer("1", "new", id="y")]
    assert check(messages).update == []


def test_the_update_turns_the_state_into_the_checked_history() -> None:
    messages = [human(), asking(tool_call("look", id="1")), human("go on", id="h2")]
    checked = check(messages)
    assert checked.update[0] == RemoveMessage(id=REMOVE_ALL_MESSAGES)
    assert add_messages(messages, checked.update) == checked.messages


def test_answers_missing_at_the_end_are_only_appended() -> None:
    messages = [human(), asking(tool_call("look", id="1"))]
    checked = check(messages)
    assert checked.update == checked.messages[2:]


def test_messages_without_an_id_get_one() -> None:
    checked = check([HumanMessage("hi"), AIMessage("ho")])
    assert all(message.id for message in checked.messages)
    assert describe(add_messages([], checked.update)) == describe([HumanMessage("hi"), AIMessage("ho")])


def test_pending_are_the_readable_calls_of_the_last_message_without_an_answer() -> None:
    message = asking(tool_call("look", id="1"), tool_call("look", id="2"))
    assert pending_calls([human(), message, answer("1")]) == [message.tool_calls[1]]
    assert pending_calls([human(), message, answer("1"), answer("2")]) == []
    assert pending_calls([human()]) == []


def test_feedback_does_not_begin_a_new_turn() -> None:
    messages = [human(), AIMessage("a"), feedback("empty_turn", "Go on."), AIMessage("b")]
    assert this_turn(messages) == messages[1:]
    assert [feedback_kind(message) for message in messages] == [None, None, "empty_turn", None]
    assert this_turn([AIMessage("a")]) == [AIMessage("a")]


CALLS = st.lists(st.sampled_from(["1", "2", "3", None]), max_size=3)


@st.composite
def histories(draw: Any) -> list[Any]:
    messages = []
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["human", "ai", "tool", "empty", "system"]))
        if kind == "ai":
            calls = [tool_call("look", id="x") | {"id": call} for call in draw(CALLS)]
            bad = [invalid_call("look", id="x") | {"id": call} for call in draw(CALLS)]
            messages.append(AIMessage("so", id=f"m{number}", tool_calls=calls, invalid_tool_calls=bad))
        elif kind == "tool":
            messages.append(answer(draw(st.sampled_from(["1", "2", "3"])), id=f"m{number}"))
        elif kind == "system" and not messages:
            messages.append(SystemMessage("be", id=f"m{number}"))
        elif kind == "empty":
            messages.append(AIMessage("", id=f"m{number}"))
        else:
            messages.append(human(id=f"m{number}"))
    return messages


@given(histories())
def test_whatever_comes_in_what_goes_out_is_valid_and_the_update_agrees(messages: list[Any]) -> None:
    checked = check(messages)
    assert_valid_history(checked.messages)
    assert check(checked.messages).update == []
    merged = add_messages(messages, checked.update) if checked.update else messages
    assert [m.id for m in merged] == [m.id for m in checked.messages]
