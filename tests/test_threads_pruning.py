"""Pruning: what stays, by facts alone, and on real threads."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command

from agentgraph import AgentState, create_agent
from agentgraph.errors import CheckpointError, ConfigurationError
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.threads import Pruned
from agentgraph.threads.lineage import CheckpointFacts, delta_channels, leaves, lineage, needed
from agentgraph.threads.pruning import what_stays
from agentgraph.threads.rows import Key
from tests.persistence.conftest import postgres_server, postgres_url
from tests.thread_agents import THREAD, agent_with, ask, do, opened, say, told, turn, weather_agent

__all__ = ["do", "postgres_server", "postgres_url"]  # fixtures

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DELTA = frozenset({"messages"})


def facts(name, parent=None, *, stored=False, waiting=False, space="", root=None, age=0, known=True):
    return CheckpointFacts(
        key=Key(space, name),
        parent=parent,
        root=root,
        made_at=NOW - timedelta(days=age),
        known=DELTA if known else frozenset(),
        stored=DELTA if stored else frozenset(),
        counted=frozenset() if stored else DELTA,
        is_waiting=waiting,
    )


def ids(keys):
    return sorted(key.checkpoint_id for key in keys)


LINE = [facts("1"), facts("2", "1"), facts("3", "2", stored=True), facts("4", "3"), facts("5", "4")]


def test_a_checkpoint_is_read_from_all_before_it_back_to_a_snapshot() -> None:
    assert delta_channels(LINE) == DELTA
    assert {one.key.checkpoint_id: ids(needed(LINE, [one.key], DELTA)) for one in LINE} == {
        "1": [],
        "2": ["1"],
        "3": [],
        "4": ["3"],
        "5": ["3", "4"],
    }
    assert ids(needed(LINE, [LINE[4].key], frozenset())) == []
    assert ids(needed([facts("1"), facts("2", "1", known=False)], [Key("", "2")], DELTA)) == []


def test_a_checkpoint_of_langgraphs_older_formats_keeps_its_parent() -> None:
    old = [facts("1"), facts("2", "1", stored=True), replace(facts("3", "2", stored=True), reads_parent=True)]
    assert ids(needed(old, [Key("", "3")], DELTA)) == ["2"]


def test_a_line_ends_where_its_parents_were_pruned() -> None:
    cut = [facts("2", "gone"), facts("3", "2")]
    assert [key.checkpoint_id for key in lineage(cut, "3")] == ["3", "2"]
    assert ids(needed(cut, [Key("", "3")], DELTA)) == ["2"]


def test_leaves_are_what_nothing_was_built_on() -> None:
    assert ids(one.key for one in leaves([*LINE, facts("6", "2")])) == ["5", "6"]


def test_the_newest_stay_and_the_young_ones() -> None:
    aged = [facts("1", age=9), facts("2", "1", age=5), facts("3", "2", age=3), facts("4", "3", age=1)]
    assert ids(what_stays(aged, 1, None)) == ["4"]
    assert ids(what_stays(aged, 3, None)) == ["2", "3", "4"]
    assert ids(what_stays(aged, 9, None)) == ["1", "2", "3", "4"]
    assert ids(what_stays(aged, 1, NOW - timedelta(days=5))) == ["2", "3", "4"]
    assert ids(what_stays(aged, 1, NOW + timedelta(days=1))) == ["4"]


def test_an_open_question_stays_however_old_but_an_answered_one_does_not() -> None:
    asked = [facts("1", waiting=True), facts("2", "1"), facts("3", "1", waiting=True), facts("4", "2")]
    assert ids(what_stays(asked, 1, None)) == ["3", "4"]


def test_subgraphs_stay_with_their_step_and_those_with_a_memory_keep_their_newest() -> None:
    found = [
        facts("1"),
        facts("2", "1"),
        facts("a", space="child:x", root="1"),
        facts("b", space="child:y", root="2"),
        facts("c", space="memory", root="1"),
        facts("d", "c", space="memory", root="1"),
        facts("e", space="child:x|memory", root="1"),
    ]
    assert ids(what_stays(found, 1, None)) == ["2", "b", "d", "e"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def saver(request, tmp_path):
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with opened(request.param, tmp_path, url) as found:
        yield found


class WholeState(AgentState):
    """Each checkpoint holds all messages."""

    messages: Annotated[list, add_messages]


def whole_agent(saver, *replies):
    return create_agent(ScriptedModel(*replies), state_schema=WholeState, checkpointer=saver)


def test_pruning_leaves_the_messages_and_what_can_be_done_with_the_thread(do, saver) -> None:
    agent = whole_agent(saver, *map(str, range(6)))
    say(agent, "a", "b", "c", "d", "e")
    before, size = do("messages", agent, THREAD), do("size", saver, "1")
    assert do("prune", saver, "1", keep_last=3) == Pruned(deleted=12, kept=3, needed=0, waiting=0)
    after = do("size", saver, "1")
    assert (after.checkpoints, after.writes * 5) == (3, size.writes)
    assert after.blobs < size.blobs or size.blobs == 0
    assert after.bytes * 2 < size.bytes
    steps = do("history", agent, THREAD)
    assert (len(steps), steps[0].parent_id, do("messages", agent, THREAD)) == (3, None, before)
    say(agent, "f")
    assert told(do("messages", agent, THREAD))[-2:] == [("human", "f"), ("ai", "5")]
    assert do("prune", agent, "1", keep_last=6).deleted == 0


def test_what_messages_are_read_from_stays_back_to_the_snapshot(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    messages = do("messages", agent, THREAD)
    assert do("prune", saver, "1", keep_last=1) == Pruned(deleted=0, kept=5, needed=4, waiting=0)
    assert do("messages", agent, THREAD) == messages


def test_a_long_thread_is_cut_at_a_snapshot(do) -> None:
    saver = InMemorySaver()
    agent = agent_with(saver, *map(str, range(61)))
    say(agent, *(f"said {number}" for number in range(60)))
    messages = do("messages", agent, THREAD)
    found = do("prune", saver, "1", keep_last=1)
    assert found.deleted > 100
    assert found.deleted + found.kept == 180
    assert do("messages", agent, THREAD) == messages
    assert told(say_more(agent))[:-2] == told(messages)


def test_a_snapshot_lets_all_before_it_go(do, saver) -> None:
    agent = weather_agent(saver, 4)
    say(agent, "a", "b", "c")
    messages, size = do("messages", agent, THREAD), do("size", saver, "1")
    found = do("prune", agent, "1", keep_last=1, snapshot=True)
    # The snapshot's checkpoint and the head; where values are stored by their version, the head has the snapshot too.
    assert found in {Pruned(15, 2, needed=1, waiting=0), Pruned(16, 1, needed=0, waiting=0)}
    assert do("size", saver, "1").bytes * 2 < size.bytes
    assert (do("messages", agent, THREAD), agent.get_state(THREAD).next) == (messages, ())
    say(agent, "d")
    assert told(do("messages", agent, THREAD)) == told(messages) + turn(3, "d")


def test_a_snapshot_needs_the_agent_and_a_thread_at_rest(do, saver) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which?"))
    say(agent, "hi")
    with pytest.raises(ConfigurationError, match="Give the agent instead"):
        do("prune", saver, "1", keep_last=1, snapshot=True)
    with pytest.raises(ConfigurationError, match="not at rest: the step of tools is not over"):
        do("prune", agent, "1", keep_last=1, snapshot=True)
    assert (do("size", saver, "1").checkpoints, len(agent.get_state(THREAD).interrupts)) == (3, 1)


def say_more(agent):
    return agent.invoke({"messages": "more"}, THREAD)["messages"]


def test_a_paused_branch_stays_open_when_the_rest_is_pruned(do, saver) -> None:
    agent = create_agent(
        ScriptedModel("One.", "Two.", tool_call("ask", question="Which?"), "Three.", "Thanks."),
        [ask],
        state_schema=WholeState,
        checkpointer=saver,
    )
    say(agent, "a", "b")
    rewound = do("history", agent, THREAD)[-1].config
    say(agent, "c")
    paused = do("history", agent, THREAD)[-1]
    do("rewind", agent, THREAD, to=rewound)
    say(agent, "d")
    assert do("prune", saver, "1", keep_last=1) == Pruned(deleted=11, kept=2, needed=0, waiting=1)
    assert [asked.value for asked in agent.invoke(None, paused.config)["__interrupt__"]] == ["Which?"]
    answered = agent.invoke(Command(resume="Rome"), THREAD)
    assert told(answered["messages"])[-2:] == [("tool", "Rome"), ("ai", "Thanks.")]


def test_checkpoints_of_subgraphs_go_with_their_step(do, saver) -> None:
    inner = StateGraph(MessagesState).add_node("echo", lambda state: {"messages": [HumanMessage("echo")]})
    graph = StateGraph(MessagesState).add_node("child", inner.add_edge(START, "echo").compile())
    agent = graph.add_edge(START, "child").compile(checkpointer=saver)
    agent.invoke({"messages": "one"}, THREAD)
    agent.invoke({"messages": "two"}, THREAD)
    before = do("messages", agent, THREAD)
    do("prune", saver, "1", keep_last=2)
    spaces = [one.config["configurable"]["checkpoint_ns"] for one in saver.list(THREAD)]
    assert (len(set(spaces)), spaces.count("")) == (2, 2)
    do("prune", saver, "1", keep_last=1)
    assert [one.config["configurable"]["checkpoint_ns"] for one in saver.list(THREAD)] == [""]
    assert do("messages", agent, THREAD) == before


def test_age_is_counted_from_now(do, saver) -> None:
    agent = whole_agent(saver, "One.", "Two.")
    say(agent, "a", "b")
    assert do("prune", saver, "1", max_age=timedelta(days=1)) == Pruned(0, 6, 0, 0)
    assert do("prune", saver, "1", max_age=3600.0, keep_last=1).deleted == 0
    assert do("prune", saver, "1", max_age=0) == Pruned(5, 1, 0, 0)


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"keep_last": 0},
        {"keep_last": True},
        {"keep_last": "3"},
        {"max_age": -1},
        {"max_age": float("nan")},
        {"max_age": float("inf")},
        {"max_age": "1d"},
        {"max_age": timedelta(days=-1)},
    ],
)
def test_limits_that_make_no_sense_are_refused(do, limits) -> None:
    saver = InMemorySaver()
    say(weather_agent(saver), "hi")
    with pytest.raises(ConfigurationError, match=r"keep_last|max_age"):
        do("prune", saver, "1", **limits)
    assert do("size", saver, "1").checkpoints == 5


def test_a_thread_that_is_not_there_cannot_be_pruned(do, saver) -> None:
    with pytest.raises(CheckpointError, match="no thread '1'"):
        do("prune", saver, "1", keep_last=1)
