"""Who may run on a thread: one run at a time, in this process and in others, also after a crash."""

import asyncio
import gc
import multiprocessing
import os
import threading
import time

import psycopg
import pytest

from agentgraph.errors import CheckpointError
from agentgraph.persistence import open_checkpointer
from tests.persistence.processes import SECONDS, other_process

HOLDER = """
import sys
from agentgraph.persistence import open_checkpointer

saver = open_checkpointer(sys.argv[1])
lease = saver.thread_lease("t")
print("held" if lease else "busy", flush=True)
sys.stdin.readline()
lease.release()
print("released", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A place that several processes can use."""
    return str(request.getfixturevalue(f"{request.param}_url"))


def taken(saver, thread_id: str = "t") -> bool:
    """Whether a run holds the thread at this moment."""
    lease = saver.thread_lease(thread_id)
    if lease is None:
        return True
    lease.release()
    return False


def becomes_free(saver) -> bool:
    """Whether the thread is free within a few seconds; the kernel and the server need a moment to see a death."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not taken(saver):
            return True
        threading.Event().wait(0.01)
    return False


def test_a_thread_has_one_lease_at_a_time(url):
    with open_checkpointer(url) as saver:
        first = saver.thread_lease("t")
        second = saver.thread_lease("t")
        another = saver.thread_lease("u")
        first.release()
        third = saver.thread_lease("t")

        assert [first is None, second is None, another is None, third is None] == [False, True, False, False]
        assert (first.thread_id, repr(first), repr(third)) == (
            "t",
            "ThreadLease('t', released)",
            "ThreadLease('t', held)",
        )
        another.release()
        third.release()


def test_releasing_twice_does_not_end_the_next_lease(url):
    with open_checkpointer(url) as saver:
        first = saver.thread_lease("t")
        first.release()
        second = saver.thread_lease("t")

        first.release()

        assert taken(saver)
        second.release()
        assert not taken(saver)


def test_a_lease_ends_with_its_block(url):
    with open_checkpointer(url) as saver:
        with saver.thread_lease("t"):
            assert taken(saver)
        assert not taken(saver)


def test_a_lease_that_nobody_refers_to_is_given_back(url):
    with open_checkpointer(url) as saver:
        lease = saver.thread_lease("t")
        assert taken(saver)

        del lease
        gc.collect()

        assert not taken(saver)


def test_a_lease_is_taken_and_given_back_in_async_code(url):
    async def run() -> list[bool]:
        async with open_checkpointer(url) as saver:
            lease = await saver.athread_lease("t")
            busy = await saver.athread_lease("t") is None
            await lease.arelease()
            again = await saver.athread_lease("t")
            await again.arelease()
            return [busy, again is None]

    assert asyncio.run(asyncio.wait_for(run(), SECONDS)) == [True, False]


def test_of_many_threads_that_ask_at_once_one_gets_the_lease(url):
    with open_checkpointer(url) as saver:
        barrier = threading.Barrier(8, timeout=SECONDS)
        got = []

        def ask() -> None:
            barrier.wait()
            got.append(saver.thread_lease("t"))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(SECONDS)

        winners = [one for one in got if one is not None]
        assert (len(got), len(winners)) == (8, 1)
        winners[0].release()


def test_two_checkpointers_on_one_place_share_its_leases(shared_url):
    with open_checkpointer(shared_url) as one, open_checkpointer(shared_url) as two:
        lease = one.thread_lease("t")
        assert taken(two)

        lease.release()

        assert not taken(two)


def test_the_thread_names_of_other_alphabets_and_broken_ones_have_leases(url):
    names = ["", "ü/漢字", "x" * 5000, "\ud800", "a b\n"]
    with open_checkpointer(url) as saver:
        leases = [saver.thread_lease(name) for name in names]

        assert [one is None for one in leases] == [False] * len(names)
        assert [saver.thread_lease(name) for name in names] == [None] * len(names)
        for one in leases:
            one.release()


def test_another_process_sees_the_lease_and_its_end(shared_url):
    with open_checkpointer(shared_url) as saver, other_process(HOLDER, shared_url) as other:
        assert other.says() == "held"
        assert taken(saver)

        other.tell()

        assert other.says() == "released"
        assert not taken(saver)


def test_another_process_does_not_get_a_lease_that_is_held_here(shared_url):
    with open_checkpointer(shared_url) as saver, saver.thread_lease("t"), other_process(HOLDER, shared_url) as other:
        assert other.says() == "busy"


def test_a_killed_process_gives_its_leases_back(shared_url):
    with open_checkpointer(shared_url) as saver, other_process(HOLDER, shared_url) as other:
        assert other.says() == "held"
        assert taken(saver)

        other.kill()

        assert becomes_free(saver)


def test_a_lease_outlives_the_checkpointers_of_other_runs_on_the_same_file(sqlite_url):
    """Closing any descriptor of a file drops all locks of the process on it."""
    with open_checkpointer(sqlite_url) as saver, saver.thread_lease("t"):
        with open_checkpointer(sqlite_url) as passing, passing.thread_lease("u"):
            pass
        gc.collect()
        with other_process(HOLDER, sqlite_url) as other:
            assert other.says() == "busy"


def test_a_lease_file_that_was_deleted_is_made_anew(sqlite_url, tmp_path):
    with open_checkpointer(sqlite_url) as saver:
        assert not taken(saver)
        (tmp_path / "threads.db.leases").unlink()

        with saver.thread_lease("t"), other_process(HOLDER, sqlite_url) as other:
            assert other.says() == "busy"


def test_a_place_without_room_for_the_leases_is_a_clear_error(tmp_path):
    (tmp_path / "threads.db.leases").mkdir()
    with (
        open_checkpointer(f"sqlite:///{tmp_path}/threads.db") as saver,
        pytest.raises(CheckpointError, match=r"'t' cannot be reserved .* must be a writable file"),
    ):
        saver.thread_lease("t")


def _child(saver, lease, answers) -> None:
    lease.release()
    answers.put(saver.thread_lease("t") is None)
    answers.put(saver.thread_lease("u") is None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_neither_has_nor_ends_its_parents_leases(shared_url):
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with open_checkpointer(shared_url) as saver:
        lease = saver.thread_lease("t")
        child = context.Process(target=_child, args=(saver, lease, answers))

        child.start()
        child.join(SECONDS)

        assert child.exitcode == 0
        assert [answers.get(), answers.get()] == [True, False]
        assert taken(saver)
        lease.release()
        assert not taken(saver)


def _end_sessions(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_leases_are_taken_again_when_the_database_was_away(postgres_url):
    with open_checkpointer(postgres_url) as saver, open_checkpointer(postgres_url) as another:
        lease = saver.thread_lease("t")
        _end_sessions(postgres_url)

        saver.thread_lease("u").release()  # the first use afterwards

        assert taken(another)
        lease.release()
        assert not taken(another)


def test_a_lease_whose_session_broke_can_be_released(postgres_url):
    with open_checkpointer(postgres_url) as saver:
        lease = saver.thread_lease("t")
        _end_sessions(postgres_url)

        lease.release()

        assert not taken(saver)


def test_closing_gives_back_what_the_database_holds(postgres_url):
    with open_checkpointer(postgres_url) as saver, open_checkpointer(postgres_url) as another:
        lease = saver.thread_lease("t")
        saver.close()

        assert becomes_free(another)
        lease.release()


def test_a_database_that_cannot_be_reached_is_a_clear_error_without_the_password():
    with (
        open_checkpointer("postgresql://me:secret@127.0.0.1:1/db?connect_timeout=2") as saver,
        pytest.raises(CheckpointError, match="'t' cannot be reserved") as caught,
    ):
        saver.thread_lease("t")

    assert "secret" not in str(caught.value)


def test_asking_a_closed_checkpointer_is_a_clear_error(url):
    saver = open_checkpointer(url)
    saver.close()

    with pytest.raises(CheckpointError, match="was closed and is used again"):
        saver.thread_lease("t")
