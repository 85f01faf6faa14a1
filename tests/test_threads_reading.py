"""Messages, history and differences of stored threads."""

import itertools
import logging

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import CheckpointError, ConfigurationError
from agentgraph.testing import ScriptedModel, flaky, tool_call
from agentgraph.threads.comparing import changed_fields, compare_messages
from tests.thread_agents import THREAD, agent_with, ask, do, saver, say, told, turn, weather_agent

__all__ = ["do", "saver"]  # fixtures


def test_the_messages_of_a_thread_are_read_with_an_agent_or_with_its_saver_alone(do, saver, caplog) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi", "and now?")
    expected = turn(0) + turn(1, "and now?")
    assert told(do("messages", agent, THREAD)) == expected
    assert told(do("messages", saver, THREAD)) == expected
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_messages_are_read_as_they_were_at_a_checkpoint(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    earlier = do("history", agent, THREAD)[-1].config
    say(agent, "and now?")
    assert told(do("messages", agent, earlier)) == turn(0)


def steps_told(steps):
    return [(step.source, step.nodes, told(step.messages.added), step.next) for step in steps]


def test_the_history_says_of_each_step_what_ran_and_what_it_wrote(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    steps = do("history", agent, THREAD)
    assert steps_told(steps) == [
        ("input", (), [], ("__start__",)),
        ("loop", ("__start__",), [("human", "hi")], ("model",)),
        ("loop", ("model",), [("ai", "")], ("tools",)),
        ("loop", ("tools",), [("tool", "sunny in City 0")], ("model",)),
        ("loop", ("model",), [("ai", "Sunny 0.")], ()),
    ]
    assert [step.number for step in steps] == [-1, 0, 1, 2, 3]
    assert [step.parent_id for step in steps] == [None, *(step.checkpoint_id for step in steps[:-1])]
    assert [(run.name, run.args, run.status) for step in steps for run in step.tools] == [
        ("weather", {"city": "City 0"}, "success")
    ]
    assert [step.usage.get("total_tokens", 0) for step in steps] == [0, 0, 7, 0, 7]
    assert [step.duration is None for step in steps] == [True, False, False, False, False]
    assert all(step.duration >= 0 for step in steps[1:])
    assert all(before.created_at <= after.created_at for before, after in itertools.pairwise(steps))


def test_with_a_saver_alone_the_history_says_what_happened_to_the_messages(do, saver) -> None:
    say(weather_agent(saver), "hi")
    steps = do("history", saver, THREAD)
    assert [told(step.messages.added) for step in steps] == [[], *([message] for message in turn(0))]
    assert {node for step in steps for node in step.nodes} == {"__start__"}


def test_a_limited_history_ends_with_the_last_step(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    whole = do("history", agent, THREAD, limit=None)
    assert do("history", agent, THREAD, limit=2) == whole[-2:]
    assert do("history", agent, whole[1].config) == whole[:2]


def test_the_history_shows_questions_and_does_not_count_the_time_a_person_took(do, saver) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which city?"), "Thanks.")
    say(agent, "hi")
    (paused,) = [step for step in do("history", agent, THREAD) if step.interrupts]
    assert [asked.value for asked in paused.interrupts] == ["Which city?"]
    agent.invoke(Command(resume="Rome"), THREAD)
    steps = do("history", agent, THREAD)
    (answered,) = [step for step in steps if step.tools]
    assert (answered.nodes, answered.duration) == (("tools",), None)
    assert told(do("messages", agent, THREAD))[-2:] == [("tool", "Rome"), ("ai", "Thanks.")]


def test_the_history_shows_what_went_wrong(do, saver) -> None:
    agent = create_agent(
        ScriptedModel(tool_call("ask", question="x")),
        [flaky(ask, [ValueError("the tool broke")])],
        checkpointer=saver,
        on_tool_error="raise",
    )
    with pytest.raises(ValueError, match="the tool broke"):
        say(agent, "hi")
    last = do("history", agent, THREAD)[-1]
    assert last.next == ("tools",)
    assert ["the tool broke" in error for error in last.errors] == [True]


def test_two_checkpoints_are_compared_by_messages_and_fields(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    before = do("history", agent, THREAD)[-1].config
    say(agent, "and now?")
    found = do("diff", agent, before, THREAD)
    assert told(found.messages.added) == turn(1, "and now?")
    assert (found.messages.removed, found.messages.changed, dict(found.fields)) == ((), (), {})
    back = do("diff", agent, THREAD, before)
    assert (back.messages.added, back.messages.removed) == ((), found.messages.added)
    assert not do("diff", agent, THREAD, THREAD)


def test_messages_are_told_apart_by_id_and_compared_by_value() -> None:
    hi, hello = HumanMessage("hi", id="1"), HumanMessage("hello", id="1")
    old, new = AIMessage("old", id="2"), AIMessage("new", id="3")
    found = compare_messages([hi, old], [hello, new])
    assert (found.added, found.removed) == ((new,), (old,))
    assert [(change.before, change.after) for change in found.changed] == [(hi, hello)]
    assert not compare_messages([hi], [HumanMessage("hi", id="1")])


class Unequal:
    """A value that cannot be compared, as arrays cannot."""

    def __eq__(self, other):
        raise ValueError("ambiguous")

    __hash__ = None


def test_fields_are_compared_also_where_their_values_cannot_be() -> None:
    one = Unequal()
    found = changed_fields({"a": 1, "b": one, "c": Unequal(), "messages": [1]}, {"a": 2, "b": one, "d": 3})
    assert sorted(found) == ["a", "c", "d"]
    assert (found["a"].before, found["a"].after, found["d"].before) == (1, 2, None)


@pytest.mark.parametrize(
    ("name", "args"),
    [("messages", (THREAD,)), ("history", (THREAD,)), ("diff", (THREAD, THREAD)), ("repair_report", (THREAD,))],
)
def test_a_thread_that_is_not_there_is_an_error_that_names_it(do, saver, name, args) -> None:
    with pytest.raises(CheckpointError, match="no thread '1'"):
        do(name, weather_agent(saver), *args)
    assert do("list_threads", saver) == []


def test_a_checkpoint_that_is_not_there_is_an_error_that_names_it(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    missing = {"configurable": {"thread_id": "1", "checkpoint_id": "1f000000-0000-6000-8000-000000000000"}}
    with pytest.raises(CheckpointError, match="'1' has no checkpoint '1f000000-0000-6000-8000-000000000000'"):
        do("messages", agent, missing)


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": ""}}, None])
def test_a_config_that_names_no_thread_is_refused(do, saver, config) -> None:
    with pytest.raises(ConfigurationError, match="names no thread"):
        do("messages", saver, config)


def test_an_agent_without_a_checkpointer_is_refused(do) -> None:
    with pytest.raises(ConfigurationError, match="checkpointer=None, so it has no threads"):
        do("messages", create_agent(ScriptedModel("hi")), THREAD)
    with pytest.raises(ConfigurationError, match=r"Expected an agent .* given was str"):
        do("list_threads", "sqlite:///threads.db")


@pytest.mark.parametrize("limit", [0, -1, True, "5"])
def test_a_limit_that_is_no_number_from_one_up_is_refused(do, saver, limit) -> None:
    say(weather_agent(saver), "hi")
    for call in (lambda: do("history", saver, THREAD, limit=limit), lambda: do("list_threads", saver, limit=limit)):
        with pytest.raises(ConfigurationError, match="limit="):
            call()
