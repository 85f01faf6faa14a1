import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentgraph.errors import MalformedToolCallError, RepeatedToolCallError
from agentgraph.history import feedback, feedback_kind
from agentgraph.progress import (
    MAX_MALFORMED,
    STOP_REPEATING_AFTER,
    TELL_REPEATING_AFTER,
    check_malformed,
    repetition_notice,
)
from agentgraph.testing import ai, invalid_call, tool_call


def round_of(number, *, args=None, result="same"):
    call = tool_call("look", id=f"c{number}", **({"at": "x"} if args is None else args))
    return [ai(call), ToolMessage(result, tool_call_id=f"c{number}", name="look")]


def rounds(count, **fields):
    return [HumanMessage("hi"), *(message for n in range(count) for message in round_of(n, **fields))]


@pytest.mark.parametrize("count", [1, TELL_REPEATING_AFTER - 1, TELL_REPEATING_AFTER + 1, STOP_REPEATING_AFTER - 1])
def test_rounds_below_and_between_the_limits_are_let_pass(count):
    assert repetition_notice(rounds(count)) == []


def test_a_model_that_repeats_itself_is_told_once_which_tool_and_how_often():
    (notice,) = repetition_notice(rounds(TELL_REPEATING_AFTER))
    assert feedback_kind(notice) == "repetition"
    assert "'look'" in notice.text
    assert str(TELL_REPEATING_AFTER) in notice.text


def test_a_model_that_goes_on_after_it_was_told_is_stopped():
    messages = rounds(STOP_REPEATING_AFTER)
    messages.insert(9, feedback("repetition", "Stop."))
    with pytest.raises(RepeatedToolCallError, match="polling"):
        repetition_notice(messages)


def test_a_polling_tool_may_be_called_again_and_again():
    assert repetition_notice(rounds(50), frozenset({"look"})) == []


def test_other_results_or_arguments_or_something_in_between_begin_the_count_anew():
    ends = rounds(TELL_REPEATING_AFTER - 1)
    for first in (round_of(90, result="other"), round_of(91, args={"at": "y"}), [AIMessage("thinking")]):
        assert repetition_notice([HumanMessage("hi"), *first, *ends[1:]]) == []


def test_a_new_message_of_a_person_begins_the_count_anew():
    messages = [*rounds(TELL_REPEATING_AFTER - 1), *rounds(1)]
    assert repetition_notice(messages) == []


def test_nothing_is_said_where_no_tool_has_answered():
    assert repetition_notice([]) == []
    assert repetition_notice([HumanMessage("hi")]) == []
    assert repetition_notice([ToolMessage("left over", tool_call_id="0")]) == []


def malformed():
    return AIMessage("", invalid_tool_calls=[invalid_call("look", error="cut off")])


def test_unreadable_calls_are_let_pass_up_to_the_limit_and_then_end_the_run():
    messages = [HumanMessage("hi"), *(malformed() for _ in range(MAX_MALFORMED))]
    check_malformed(messages)
    with pytest.raises(MalformedToolCallError, match="cut off"):
        check_malformed([*messages, malformed()])


def test_a_readable_turn_in_between_begins_the_count_of_unreadable_ones_anew():
    messages = [malformed() for _ in range(MAX_MALFORMED)]
    check_malformed([*messages, *round_of(1), malformed()])
    check_malformed([*messages, AIMessage("text"), malformed()])
