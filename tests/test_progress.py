import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentgraph.errors import MalformedToolCallError, RepeatedToolCallError
from agentgraph.history import feedback_kind
from agentgraph.progress import (
    MAX_MALFORMED,
    STOP_REPEATING_AFTER,
    TELL_REPEATING_AFTER,
    count_malformed,
    count_rounds,
)
from agentgraph.testing import ai, invalid_call, tool_call


def a_round(number, *, at="x", result="same"):
    """One round of calls and results; each is a message of its own."""
    asking = ai(tool_call("look", at=at, id=f"c{number}")).model_copy(update={"id": f"a{number}"})
    return [HumanMessage("hi"), asking, ToolMessage(result, tool_call_id=f"c{number}", name="look")]


def play(rounds, polling=frozenset()):
    """Count these rounds one after the other; gives what was told after each."""
    progress, told = {}, []
    for number, fields in enumerate(rounds):
        progress, notices = count_rounds(progress, a_round(number, **fields), polling)
        told.append([(feedback_kind(notice), notice.text) for notice in notices])
    return told


def test_a_model_that_repeats_itself_is_told_once_which_tool_and_how_often():
    told = play([{}] * (STOP_REPEATING_AFTER - 1))
    assert [bool(one) for one in told] == [n == TELL_REPEATING_AFTER for n in range(1, STOP_REPEATING_AFTER)]
    ((kind, text),) = told[TELL_REPEATING_AFTER - 1]
    assert kind == "repetition"
    assert "'look'" in text
    assert str(TELL_REPEATING_AFTER) in text


def test_a_model_that_goes_on_after_it_was_told_is_stopped():
    with pytest.raises(RepeatedToolCallError, match="polling"):
        play([{}] * STOP_REPEATING_AFTER)


@pytest.mark.parametrize("circle", [[{"at": "a"}, {"at": "b"}], [{"at": "a"}, {"at": "b"}, {"at": "c"}]])
def test_a_model_that_goes_round_in_a_small_circle_is_told_and_stopped(circle):
    told = play(circle * (STOP_REPEATING_AFTER - 1))
    assert sum(map(bool, told)) >= 1
    with pytest.raises(RepeatedToolCallError):
        play(circle * STOP_REPEATING_AFTER)


def test_a_polling_tool_may_be_called_again_and_again():
    assert not any(play([{}] * 50, frozenset({"look"})))


def test_other_results_or_arguments_in_between_begin_the_count_anew():
    almost = [{}] * (STOP_REPEATING_AFTER - 1)
    for other in ({"result": "other"}, {"at": "y"}):
        play([*almost, other, *almost])


def test_a_round_is_counted_once_however_often_the_model_is_asked_after_it():
    messages = a_round(1)
    first, _ = count_rounds({}, messages)
    assert count_rounds(first, [*messages, HumanMessage("and?")]) == (first, [])


def test_nothing_is_counted_where_no_tool_was_called():
    assert count_rounds({}, [HumanMessage("hi"), AIMessage("ho")]) == ({}, [])
    assert count_rounds({}, []) == ({}, [])


@pytest.mark.parametrize("content", [[{"type": "text", "text": "a", 1: 2}], [{"type": "text", "n": 2**70}], "\ud800"])
def test_results_of_any_kind_can_be_compared(content):
    message = ToolMessage("x", tool_call_id="c1").model_copy(update={"content": content})
    asking = ai(tool_call("look", id="c1")).model_copy(update={"id": "a1"})
    progress, _ = count_rounds({}, [asking, message])
    assert len(progress["rounds"]) == 1


def malformed():
    return AIMessage("", invalid_tool_calls=[invalid_call("look", error="cut off")])


def test_unreadable_calls_are_let_pass_up_to_the_limit_and_then_end_the_run():
    progress = {}
    for number in range(1, MAX_MALFORMED + 1):
        progress = count_malformed(progress, malformed())
        assert progress["malformed"] == number
    with pytest.raises(MalformedToolCallError, match="cut off"):
        count_malformed(progress, malformed())


@pytest.mark.parametrize(
    "message", [AIMessage("text"), ai(tool_call("look")), ai(tool_call("look"), invalid_call("x"))]
)
def test_a_readable_answer_begins_the_count_of_unreadable_ones_anew(message):
    assert count_malformed({"malformed": 5}, message) == {"malformed": 0}
    assert count_malformed({}, message) == {}
