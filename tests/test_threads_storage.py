"""Listing, copying, weighing and deleting whole threads, on savers of known storage and on one of unknown."""

import sqlite3
import warnings
from dataclasses import dataclass, replace
from typing import NotRequired

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from agentgraph import AgentState, create_agent, threads
from agentgraph.errors import CheckpointError, ConfigurationError
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.threads.rows import ThreadSize, time_of
from tests.persistence.conftest import postgres_server, postgres_url
from tests.thread_agents import THREAD, agent_with, bounded, do, opened, say, told, turn, weather_agent

__all__ = ["do", "postgres_server", "postgres_url"]  # fixtures

OTHER = {"configurable": {"thread_id": "2"}}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def saver(request, tmp_path):
    """Each kind of storage, empty."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with opened(request.param, tmp_path, url) as found:
        yield found


def names(found):
    return [one.thread_id for one in found]


def test_threads_are_listed_the_last_used_first(do, saver) -> None:
    agent = agent_with(saver, "One.", tool_call("ask", question="Which?"), "Three.", "Four.")
    for thread_id in ("a", "b", "c", "a"):
        say(agent, "hi", thread={"configurable": {"thread_id": thread_id}})
    found = do("list_threads", saver)
    assert [(one.thread_id, one.checkpoints, one.is_waiting) for one in found] == [
        ("a", 6, False),
        ("c", 3, False),
        ("b", 3, True),
    ]
    assert do("list_threads", agent) == found
    state = agent.get_state({"configurable": {"thread_id": "a"}})
    assert found[0].checkpoint_id == state.config["configurable"]["checkpoint_id"]
    assert found[0].created_at < found[2].created_at < found[1].updated_at < found[0].updated_at


def test_a_thread_does_not_wait_any_more_when_it_was_answered(do, saver) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which?"), "Thanks.")
    say(agent, "hi")
    agent.invoke(Command(resume="Rome"), THREAD)
    assert [one.is_waiting for one in do("list_threads", saver)] == [False]


def test_a_list_of_threads_comes_in_pages_that_lose_no_copies(do, saver) -> None:
    say(agent_with(saver, "One."), "hi", thread={"configurable": {"thread_id": "a"}})
    for copy in ("b", "c", "d"):
        do("copy_thread", saver, "a", copy)
    whole = do("list_threads", saver)
    pages, last = [], None
    while page := do("list_threads", saver, limit=1, before=last):
        pages += page
        last = page[-1]
    assert (names(pages), pages) == (["d", "c", "b", "a"], whole)
    assert do("list_threads", saver, before=whole[0].checkpoint_id) == []


def test_a_copy_is_a_thread_of_its_own(do, saver) -> None:
    agent = weather_agent(saver, 3)
    say(agent, "hi")
    do("copy_thread", saver, "1", "2")
    assert not do("diff", agent, THREAD, OTHER)
    assert [replace(step, thread_id="1") for step in do("history", agent, OTHER)] == do("history", agent, THREAD)
    say(agent, "and now?", thread=OTHER)
    say(agent, "and here?", thread=THREAD)
    assert told(do("messages", agent, OTHER)) == turn(0) + turn(1, "and now?")
    assert told(do("messages", agent, THREAD)) == turn(0) + turn(2, "and here?")


def test_a_copy_of_a_paused_thread_can_be_answered_by_itself(do, saver) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which city?"), "Thanks.", "Thank you.")
    say(agent, "hi")
    do("copy_thread", saver, "1", "2")
    (asked,) = agent.get_state(OTHER).interrupts
    assert agent.get_state(THREAD).interrupts == (asked,)
    assert told(agent.invoke(Command(resume={asked.id: "Oslo"}), OTHER)["messages"])[-2:] == [
        ("tool", "Oslo"),
        ("ai", "Thanks."),
    ]
    assert told(agent.invoke(Command(resume={asked.id: "Rome"}), THREAD)["messages"])[-2] == ("tool", "Rome")


def test_a_copy_needs_a_source_and_a_free_name(do, saver) -> None:
    agent = weather_agent(saver, 2)
    with pytest.raises(CheckpointError, match="no thread '1'"):
        do("copy_thread", saver, "1", "2")
    say(agent, "hi")
    say(agent, "hello", thread=OTHER)
    with pytest.raises(CheckpointError, match="There is a thread '2' already"):
        do("copy_thread", saver, "1", "2")
    assert told(do("messages", agent, OTHER)) == turn(1, "hello")
    for ids in (("", "2"), ("1", ""), ("1", THREAD)):
        with pytest.raises(ConfigurationError, match="must be the id of a thread"):
            do("copy_thread", saver, *ids)


def test_a_thread_is_weighed_with_all_its_rows(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    small = do("size", saver, "1")
    assert small.checkpoints == 5
    assert small.writes > 0
    assert small.bytes > 1000
    say(agent, "x" * 5000)
    big = do("size", agent, "1")
    assert (big.checkpoints, big.writes) == (10, 2 * small.writes)
    assert 0 < big.bytes - small.bytes < 40_000
    do("copy_thread", saver, "1", "2")
    assert do("size", saver, "2") == big
    with pytest.raises(CheckpointError, match="no thread '3'"):
        do("size", saver, "3")


def test_a_deleted_thread_is_gone_and_the_others_are_not(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    say(agent, "hello", thread=OTHER)
    do("delete_thread", saver, "1")
    do("delete_thread", saver, "1")
    assert names(do("list_threads", saver)) == ["2"]
    with pytest.raises(CheckpointError, match="no thread '1'"):
        do("size", saver, "1")
    assert told(do("messages", agent, OTHER)) == turn(1, "hello")


@dataclass
class Order:
    """A type that the reader of a thread may not know."""

    number: int


class OrderState(AgentState):
    """A state with an order."""

    order: NotRequired[Order]


def test_a_thread_of_unknown_types_can_be_listed_copied_weighed_and_deleted(do, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/threads.db"
    with open_checkpointer(url, types=[Order]) as saver:
        agent = create_agent(ScriptedModel("Hello!"), state_schema=OrderState, checkpointer=saver)
        agent.invoke({"messages": "hi", "order": Order(17)}, THREAD)
    with open_checkpointer(url) as saver:
        with pytest.raises(CheckpointError, match="Order"):
            do("messages", saver, THREAD)
        do("copy_thread", saver, "1", "2")
        assert names(do("list_threads", saver)) == ["2", "1"]
        assert do("size", saver, "2") == do("size", saver, "1")
        do("delete_thread", saver, "1")
        assert names(do("list_threads", saver)) == ["2"]


async def use_all(saver) -> None:
    """Everything that touches storage, on a saver for async code."""
    script = [
        reply for number in range(2) for reply in (tool_call("weather", city=f"City {number}"), f"Sunny {number}.")
    ]
    agent = agent_with(saver, *script)
    await agent.ainvoke({"messages": "hi"}, THREAD)
    await threads.acopy_thread(saver, "1", "2")
    branch = await threads.afork(agent, THREAD, thread_id="3")
    assert told(await threads.amessages(agent, branch)) == turn(0)
    assert names(await threads.alist_threads(saver)) == ["3", "2", "1"]
    whole, part = await threads.asize(saver, "1"), await threads.asize(saver, "3")
    assert (part.checkpoints, part.writes) == (whole.checkpoints, whole.writes)
    with pytest.raises(CheckpointError, match="already"):
        await threads.acopy_thread(saver, "1", "3")
    found = await threads.aprune(saver, "2", keep_last=1)
    assert (found.deleted, found.needed) == (0, 4)
    await threads.adelete_thread(saver, "2")
    assert names(await threads.alist_threads(saver)) == ["3", "1"]
    await agent.ainvoke({"messages": "and now?"}, branch)
    assert told(await threads.amessages(agent, branch)) == turn(0) + turn(1, "and now?")


@pytest.mark.parametrize("kind", ["InMemorySaver", "SqliteSaver", "PostgresSaver"])
def test_savers_of_langgraphs_own_are_used_in_sync_and_in_async_code(do, kind, tmp_path, postgres_url) -> None:
    with opened(kind, tmp_path, postgres_url) as saver:
        agent = weather_agent(saver, 2)
        say(agent, "hi")
        do("copy_thread", saver, "1", "2")
        branch = do("fork", agent, THREAD, thread_id="3")
        assert names(do("list_threads", saver)) == ["3", "2", "1"]
        assert (do("size", saver, "2"), do("size", saver, "3").checkpoints) == (do("size", saver, "1"), 5)
        assert do("prune", saver, "2", keep_last=1).needed == 4
        do("delete_thread", saver, "2")
        say(agent, "and now?", thread=branch)
        assert told(do("messages", agent, branch)) == turn(0) + turn(1, "and now?")


def test_savers_for_async_code_are_used_in_async_code(tmp_path, postgres_url) -> None:
    async def on_sqlite() -> None:
        async with AsyncSqliteSaver.from_conn_string(f"{tmp_path}/threads.db") as saver:
            await use_all(saver)

    async def on_postgres() -> None:
        async with AsyncPostgresSaver.from_conn_string(postgres_url) as saver:
            await saver.setup()
            await use_all(saver)

    bounded(on_sqlite())
    bounded(on_postgres())


def test_savers_for_async_code_are_refused_in_sync_code(tmp_path) -> None:
    async def try_sync() -> None:
        async with AsyncSqliteSaver.from_conn_string(f"{tmp_path}/threads.db") as saver:
            threads.list_threads(saver)

    with pytest.raises(ConfigurationError, match="one for async code only"):
        bounded(try_sync())


class Foreign(BaseCheckpointSaver[str]):
    """A saver of somebody's, of which only langgraph's interface is known."""

    def __init__(self) -> None:
        super().__init__()
        self._inner = InMemorySaver()

    def get_tuple(self, config):
        return self._inner.get_tuple(config)

    def list(self, config, **options):
        return self._inner.list(config, **options)

    def put(self, *args):
        return self._inner.put(*args)

    def put_writes(self, *args):
        return self._inner.put_writes(*args)

    def get_next_version(self, current, channel):
        return self._inner.get_next_version(current, channel)


class Copying(Foreign):
    """One that can copy."""

    copied = ()

    def copy_thread(self, source, target):
        self.copied = (source, target)


def test_what_a_foreign_saver_cannot_do_is_an_error_that_says_so(do) -> None:
    saver = Foreign()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has no async half, or may keep no history
        agent = weather_agent(saver, 2)
    say(agent, "hi")
    say(agent, "hello", thread=OTHER)
    assert [(one.thread_id, one.checkpoints) for one in do("list_threads", saver)] == [("2", 5), ("1", 5)]
    assert told(do("messages", agent, THREAD)) == turn(0)
    for name, args in (("size", ("1",)), ("copy_thread", ("1", "3")), ("delete_thread", ("1",))):
        with pytest.raises(ConfigurationError, match="Foreign cannot"):
            do(name, saver, *args)
    with pytest.raises(ConfigurationError, match="Foreign cannot copy parts of a thread"):
        do("fork", agent, THREAD, thread_id="3")


def test_a_foreign_saver_that_can_copy_is_asked_to(do) -> None:
    saver = Copying()
    do("copy_thread", saver, "1", "2")
    assert saver.copied == ("1", "2")


def test_a_saver_that_lists_nothing_is_refused(do) -> None:
    with pytest.raises(ConfigurationError, match="BaseCheckpointSaver cannot list all threads"):
        do("list_threads", BaseCheckpointSaver())


def test_a_copy_that_fails_halfway_leaves_nothing(do, tmp_path) -> None:
    with opened("SqliteSaver", tmp_path) as saver:
        say(weather_agent(saver), "hi")
        saver.conn.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON writes WHEN NEW.thread_id = '2' "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="refused"):
            do("copy_thread", saver, "1", "2")
        assert names(do("list_threads", saver)) == ["1"]


def test_the_time_of_a_checkpoint_is_in_its_id() -> None:
    assert time_of("1f1ecea0-76b4-6143-812a-7c1f5ecbda97").isoformat() == "2026-11-30T18:15:31.616800+00:00"
    assert [time_of(other) for other in ("7", "x" * 32, "0193e0a0-0000-7000-8000-000000000000")] == [None] * 3


def test_a_size_counts_blobs_apart() -> None:
    assert ThreadSize(1, 2, 3, 4) == ThreadSize(checkpoints=1, writes=2, blobs=3, bytes=4)
