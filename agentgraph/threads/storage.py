"""Which storage a saver has.

langgraph's interface of a saver reads and writes one checkpoint at a time. Listing threads, copying one, weighing it
and deleting some of its checkpoints are no part of it, or not of every saver: `copy_thread` and `prune` are declared,
but neither the in-memory nor the SQLite saver has them, and Postgres' `prune` refuses threads with a delta channel. So
these four go to the tables themselves, never decoding a value of the state: also a thread with unknown types in it can
be copied, weighed and deleted.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps
from agentgraph.threads.access import Saver, either, names_in
from agentgraph.threads.memory import MemoryStorage
from agentgraph.threads.rows import Place, Removal, Storage, ThreadRow, is_waiting, page
from agentgraph.threads.sql import postgres_storage, sqlite_storage

__all__ = ["storage_of"]

_SQLITE = (("langgraph.checkpoint.sqlite", "SqliteSaver"), ("langgraph.checkpoint.sqlite.aio", "AsyncSqliteSaver"))
_POSTGRES = (
    ("langgraph.checkpoint.postgres", "PostgresSaver"),
    ("langgraph.checkpoint.postgres.aio", "AsyncPostgresSaver"),
)


def storage_of(saver: Saver) -> Storage:
    """The storage of a saver; of an unknown one what langgraph's interface gives."""
    if isinstance(saver, InMemorySaver):
        return MemoryStorage(saver)
    if _is_one_of(saver, _SQLITE):
        return sqlite_storage(saver)
    if _is_one_of(saver, _POSTGRES):
        return postgres_storage(saver)
    return ForeignStorage(saver)


def _is_one_of(saver: Saver, classes: Iterable[tuple[str, str]]) -> bool:
    # Where its module was never imported, the saver is none of it; and the extra may not be installed.
    found = (getattr(sys.modules.get(module), name, None) for module, name in classes)
    return isinstance(saver, tuple(one for one in found if isinstance(one, type)))


@dataclass(frozen=True)
class ForeignStorage:
    """A saver of which nothing is known but langgraph's interface."""

    saver: Saver

    def newest(self, limit: int, before: Place | None) -> Steps:
        """See Storage. All checkpoints of all threads are read."""
        return (yield either(self._newest, self._anewest, limit, before))

    def copy(self, source: str, target: str, removal: Removal) -> Steps:
        """See Storage. Only a whole thread, where the saver itself can copy."""
        base = BaseCheckpointSaver
        own = type(self.saver)
        if removal != Removal() or (own.copy_thread is base.copy_thread and own.acopy_thread is base.acopy_thread):
            raise self._unable("copy parts of a thread" if removal != Removal() else "copy a thread")
        yield either(self.saver.copy_thread, self.saver.acopy_thread, source, target)

    def weigh(self, thread_id: str) -> Steps:
        """See Storage."""
        raise self._unable(f"say how much of it the thread {thread_id!r:.100} takes")

    def remove(self, thread_id: str, removal: Removal) -> Steps:
        """See Storage."""
        raise self._unable(f"delete {len(removal.checkpoints)} checkpoints of the thread {thread_id!r:.100}")

    def _newest(self, limit: int, before: Place | None) -> list[ThreadRow]:
        threads: dict[str, ThreadRow] = {}
        try:
            for one in self.saver.list(None):
                _count(threads, one)
        except NotImplementedError:
            raise self._unable("list all threads") from None
        return page(threads.values(), limit, before)

    async def _anewest(self, limit: int, before: Place | None) -> list[ThreadRow]:
        threads: dict[str, ThreadRow] = {}
        async for one in self.saver.alist(None):
            _count(threads, one)
        return page(threads.values(), limit, before)

    def _unable(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{type(self.saver).__name__} cannot {what}: langgraph's interface of a saver has no way for it. "
            "It can be done with InMemorySaver, SqliteSaver, PostgresSaver and what open_checkpointer returns."
        )


def _count(threads: dict[str, ThreadRow], one: CheckpointTuple) -> None:
    names = names_in(one.config)
    if names.get("checkpoint_ns"):
        return
    thread_id, checkpoint_id = names["thread_id"], one.checkpoint["id"]
    row = threads.get(thread_id)
    if row is None:
        threads[thread_id] = ThreadRow(thread_id, checkpoint_id, checkpoint_id, 1, _waiting(one))
    else:
        is_newer = checkpoint_id > row.newest
        threads[thread_id] = ThreadRow(
            thread_id,
            checkpoint_id if is_newer else row.newest,
            min(checkpoint_id, row.oldest),
            row.checkpoints + 1,
            _waiting(one) if is_newer else row.waiting,
        )


def _waiting(one: CheckpointTuple) -> int:
    tasks: dict[str, list[str]] = {}
    for task_id, channel, _ in one.pending_writes or ():
        tasks.setdefault(task_id, []).append(channel)
    return sum(map(is_waiting, tasks.values()))
