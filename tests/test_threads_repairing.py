"""What is wrong with stored messages, and mending them."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.errors import ConfigurationError
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.runs import resume
from agentgraph.testing import assert_valid_history, tool_call
from agentgraph.threads import RepairReport
from tests.thread_agents import THREAD, agent_with, do, saver, say, told, weather_agent

__all__ = ["do", "saver"]  # fixtures

HI = HumanMessage("hi", id="h")
BYE = HumanMessage("bye", id="b")


def calling(*calls, id="a", **settings):  # noqa: A002 - the name of the message's field
    made = [{"name": "weather", "args": {}, "id": call, "type": "tool_call"} for call in calls]
    return AIMessage("", tool_calls=made, id=id, **settings)


def result(call, id):  # noqa: A002 - as above
    return ToolMessage("sunny", tool_call_id=call, name="weather", id=id)


UNREADABLE = {"name": "weather", "args": "{", "id": "c1", "error": "no JSON", "type": "invalid_tool_call"}

BROKEN = [
    ([HI, calling("c1"), BYE], [("unanswered_call", "c1")]),
    ([HI, AIMessage("", id="a", invalid_tool_calls=[UNREADABLE]), BYE], [("unreadable_call", "c1")]),
    ([HI, result("c9", "t"), BYE], [("stray_answer", "c9")]),
    ([HI, calling("c1"), result("c1", "t"), result("c1", "u"), BYE], [("stray_answer", "c1")]),
    ([HI, AIMessage("", id="a"), BYE], [("empty_message", None)]),
    ([HI, calling("c1"), BYE, result("c1", "t")], [("misplaced_answer", "c1")]),
    ([HI, calling("c1", "c2"), result("c2", "u"), result("c1", "t"), BYE], [("misplaced_answer", "c1")]),
    ([HI, calling("c1", "c1"), result("c1", "t"), result("c1", "u"), BYE], [("call_ids", None)]),
]


def broken_thread(saver, messages):
    """A thread at rest with these messages."""
    agent = agent_with(saver, "Well.", "Now.")
    agent.update_state(THREAD, {"messages": messages}, as_node="model")
    agent.update_state(THREAD, None, as_node="__end__")
    return agent


@pytest.mark.parametrize(
    ("messages", "expected"), BROKEN, ids=[kinds[0][0] + str(at) for at, (_, kinds) in enumerate(BROKEN)]
)
def test_a_report_names_what_is_wrong_and_changes_nothing(do, messages, expected) -> None:
    agent = broken_thread(InMemorySaver(), messages)
    report = do("repair_report", agent, THREAD)
    assert [(one.kind, one.tool_call_id) for one in report.findings] == expected
    assert (report.is_sound, report.is_written, report.next) == (False, False, ())
    assert all(one.text for one in report.findings)
    assert do("messages", agent, THREAD) == messages
    assert do("repair", agent, THREAD, write=False).findings[0].kind == expected[0][0]


@pytest.mark.parametrize("messages", [messages for messages, _ in BROKEN])
def test_a_repair_makes_a_history_valid_and_leaves_the_thread_at_rest(do, saver, messages) -> None:
    agent = broken_thread(saver, messages)
    report = do("repair", agent, THREAD)
    assert (report.is_written, report.is_sound) == (True, False)
    mended = do("messages", agent, THREAD)
    assert_valid_history(mended)
    assert agent.get_state(THREAD).next == ()
    again = do("repair", agent, THREAD)
    assert (again.findings, again.is_written, again.is_sound) == ((), False, True)
    agent.invoke({"messages": "go on"}, THREAD)
    assert do("messages", agent, THREAD)[: len(mended)] == mended


def test_a_sound_thread_has_nothing_to_mend(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    steps = do("history", agent, THREAD)
    report = do("repair", agent, THREAD)
    assert (report.findings, report.update, report.is_written, report.is_sound) == ((), (), False, True)
    assert do("history", agent, THREAD) == steps


def test_a_call_that_waits_for_its_answer_is_not_broken_and_is_left_alone(do, saver) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which?"), "Thanks.")
    say(agent, "hi")
    report = do("repair_report", agent, THREAD)
    assert [(one.kind, one.tool) for one in report.findings] == [("pending_call", "ask")]
    assert (report.is_sound, report.next) == (True, ("tools",))
    with pytest.raises(ConfigurationError, match="not at rest: the step of tools is not over"):
        do("repair", agent, THREAD)
    assert told(do("messages", agent, THREAD)) == [("human", "hi"), ("ai", "")]
    assert len(agent.get_state(THREAD).interrupts) == 1


def test_an_earlier_checkpoint_is_reported_on_but_not_written_to(do) -> None:
    agent = broken_thread(InMemorySaver(), [HI, calling("c1"), BYE])
    earlier = do("history", agent, THREAD)[-1].config
    do("repair", agent, THREAD)
    assert [one.kind for one in do("repair_report", agent, earlier).findings] == ["unanswered_call"]
    with pytest.raises(ConfigurationError, match="written to the newest checkpoint"):
        do("repair", agent, earlier)


@pytest.mark.parametrize("settings", [{}, {"middleware": [HumanInTheLoopMiddleware({"ask": True})]}])
def test_a_saver_alone_tells_of_calls_that_wait_for_their_answers(do, saver, settings) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which?"), "Thanks.", **settings)
    say(agent, "hi")
    report, known = do("repair_report", saver, THREAD), do("repair_report", agent, THREAD)
    assert ([one.kind for one in report.findings], report.is_sound) == (["pending_call"], True)
    assert (report.next, len(report.next)) == (known.next, 1)
    resume(agent, THREAD, {"decisions": [{"type": "reject"}]} if settings else "Rome")
    assert do("repair_report", saver, THREAD) == RepairReport((), ())


def test_a_saver_alone_is_enough_for_a_report_but_not_for_a_repair(do) -> None:
    saver = InMemorySaver()
    broken_thread(saver, [HI, calling("c1"), BYE])
    assert [one.kind for one in do("repair_report", saver, THREAD).findings] == ["unanswered_call"]
    with pytest.raises(ConfigurationError, match="Give the agent instead"):
        do("repair", saver, THREAD)
