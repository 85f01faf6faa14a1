"""One place, many users: threads, event loops, forks, and processes that write at once or are killed."""

import asyncio
import multiprocessing
import os
import sqlite3
import threading

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from agentgraph import create_agent
from agentgraph.errors import CheckpointError
from agentgraph.persistence import open_checkpointer, postgres
from agentgraph.testing import ScriptedModel
from tests.persistence.processes import SECONDS, other_process

TALKER = """
import sys
from agentgraph import create_agent
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ScriptedModel

url, name, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open_checkpointer(url) as saver:
    agent = create_agent(ScriptedModel(*map(str, range(turns))), checkpointer=saver)
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(turns):
        agent.invoke({"messages": f"{name} {turn}"}, {"configurable": {"thread_id": name}})
    print("done", flush=True)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A place that several processes can use."""
    return str(request.getfixturevalue(f"{request.param}_url"))


def config(name: str):
    return {"configurable": {"thread_id": name}}


def texts(saver, name: str) -> list[str]:
    agent = create_agent(ScriptedModel(), checkpointer=saver)
    return [message.text for message in agent.get_state(config(name)).values.get("messages", [])]


def expected(name: str, turns: int) -> list[str]:
    return [text for turn in range(turns) for text in (f"{name} {turn}", str(turn))]


def talk(saver, name: str, turns: int) -> None:
    agent = create_agent(ScriptedModel(*map(str, range(turns))), checkpointer=saver)
    for turn in range(turns):
        agent.invoke({"messages": f"{name} {turn}"}, config(name))


async def atalk(saver, name: str, turns: int) -> None:
    agent = create_agent(ScriptedModel(*map(str, range(turns))), checkpointer=saver)
    for turn in range(turns):
        await agent.ainvoke({"messages": f"{name} {turn}"}, config(name))


def test_processes_that_begin_at_the_same_moment_make_the_tables_once_and_lose_nothing(shared_url):
    names = ["a", "b", "c"]
    with (
        other_process(TALKER, shared_url, "a", "4") as a,
        other_process(TALKER, shared_url, "b", "4") as b,
        other_process(TALKER, shared_url, "c", "4") as c,
    ):
        assert [other.says() for other in (a, b, c)] == ["ready"] * 3
        for other in (a, b, c):
            other.tell()
        assert [other.says() for other in (a, b, c)] == ["done"] * 3

    with open_checkpointer(shared_url) as saver:
        assert {name: texts(saver, name) for name in names} == {name: expected(name, 4) for name in names}


def test_a_process_that_is_killed_while_it_writes_leaves_whole_threads(shared_url):
    with other_process(TALKER, shared_url, "a", "1000") as other:
        assert other.says() == "ready"
        other.tell()
        with open_checkpointer(shared_url) as saver:
            watching = threading.Event()
            for _ in range(200):
                if len(texts(saver, "a")) >= 4:
                    break
                watching.wait(0.05)
            other.kill()

            found = texts(saver, "a")
            assert len(found) >= 4
            assert found == expected("a", 1000)[: len(found)]
            talk(saver, "b", 1)
            assert texts(saver, "b") == expected("b", 1)


def test_threads_and_loops_use_one_object_at_once(url):
    with open_checkpointer(url, max_connections=3) as saver:
        jobs = [threading.Thread(target=talk, args=(saver, f"sync {n}", 3)) for n in range(3)]
        jobs += [threading.Thread(target=lambda n=n: asyncio.run(atalk(saver, f"loop {n}", 3))) for n in range(3)]
        for job in jobs:
            job.start()

        async def many() -> None:
            async with asyncio.timeout(SECONDS):
                await asyncio.gather(*(atalk(saver, f"task {n}", 3) for n in range(3)))

        asyncio.run(many())
        for job in jobs:
            job.join(SECONDS)

        names = [f"{kind} {n}" for kind in ("sync", "loop", "task") for n in range(3)]
        assert {name: texts(saver, name) for name in names} == {name: expected(name, 3) for name in names}


def test_a_history_can_be_left_half_read_while_others_write(url):
    with open_checkpointer(url) as saver:
        talk(saver, "a", 3)
        history = saver.list(config("a"))
        first = next(history)

        talk(saver, "b", 1)

        rest = [one.config["configurable"]["checkpoint_id"] for one in history]
        assert len(rest) == len({*rest, first.config["configurable"]["checkpoint_id"]}) - 1
        assert len(rest) >= 6
        assert texts(saver, "b") == expected("b", 1)


def test_an_async_history_gives_all_checkpoints_in_order(url):
    async def run() -> list[str]:
        async with open_checkpointer(url) as saver:
            await atalk(saver, "a", 15)
            given = [one.config["configurable"]["checkpoint_id"] async for one in saver.alist(config("a"))]
            assert len(given) > 40, "more than one page"
            assert given == [one.config["configurable"]["checkpoint_id"] for one in saver.list(config("a"))]
            return given

    given = asyncio.run(run())
    assert given == sorted(given, reverse=True)


def test_a_cancelled_write_is_complete_when_the_cancel_is_seen(url):
    """Whoever reads next must not be overtaken by a write of a run that was cancelled before."""

    async def run() -> None:
        async with open_checkpointer(url) as saver:
            where = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            saver.get_tuple(where)
            checkpoint = empty_checkpoint()
            writing = asyncio.ensure_future(saver.aput(where, checkpoint, {}, {}))
            await asyncio.sleep(0)
            writing.cancel()
            done, _ = await asyncio.wait([writing], timeout=SECONDS)

            found = saver.get_tuple(where)
            assert done
            assert found is not None
            assert found.checkpoint["id"] == checkpoint["id"]

    asyncio.run(run())


def _child(saver, answers) -> None:
    try:
        talk(saver, "child", 1)
        answers.put(texts(saver, "parent") + texts(saver, "child"))
    except CheckpointError as error:
        answers.put([str(error)])


def fork(saver) -> list[str]:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_child, args=(saver, answers))
    child.start()
    child.join(SECONDS)
    assert child.exitcode == 0
    return answers.get()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")


@needs_fork
def test_a_forked_child_goes_on_with_connections_of_its_own(shared_url):
    with open_checkpointer(shared_url) as saver:
        talk(saver, "parent", 1)
        asyncio.run(atalk(saver, "other", 1))

        assert fork(saver) == expected("parent", 1) + expected("child", 1)

        assert texts(saver, "child") == expected("child", 1)
        talk(saver, "parent", 1)
        assert texts(saver, "parent") == expected("parent", 1) * 2


@needs_fork
def test_a_forked_child_cannot_mistake_its_copy_of_a_memory_database_for_the_original():
    with open_checkpointer("sqlite:///:memory:") as saver:
        talk(saver, "parent", 1)

        [told] = fork(saver)

        assert "belongs to the process that opened it" in told


def test_a_writer_that_takes_too_long_is_a_clear_error_and_nothing_is_half_written(sqlite_url, tmp_path):
    with open_checkpointer(f"{sqlite_url}?timeout=0.05") as saver:
        talk(saver, "a", 1)
        blocker = sqlite3.connect(tmp_path / "threads.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")

        with pytest.raises(CheckpointError, match=r"database is locked\. Another process"):
            talk(saver, "b", 1)

        blocker.execute("COMMIT")
        blocker.close()
        assert (texts(saver, "a"), texts(saver, "b")) == (expected("a", 1), [])
        talk(saver, "b", 1)


def test_postgres_goes_on_after_its_connections_were_cut(postgres_url, monkeypatch):
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 0.0)
    with open_checkpointer(postgres_url) as saver:
        talk(saver, "a", 1)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

        talk(saver, "a", 1)

        assert texts(saver, "a") == expected("a", 1) * 2


def test_a_role_that_may_not_make_tables_uses_those_that_are_there(postgres_url):
    with open_checkpointer(postgres_url) as saver:
        talk(saver, "a", 1)
    role = f"reader_{os.getpid()}_{threading.get_ident()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        try:
            info = {**psycopg.conninfo.conninfo_to_dict(postgres_url), "user": role, "password": "x"}
            query = "&".join(f"{name}={value}" for name, value in info.items())
            with open_checkpointer(f"postgresql://?{query}") as saver:
                talk(saver, "a", 1)
                assert texts(saver, "a") == expected("a", 1) * 2
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
