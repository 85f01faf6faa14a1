"""What a storage gives and takes: plain values, the same for every database."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import INTERRUPT

from agentgraph.errors import CheckpointError
from agentgraph.nodes.effects import Steps

__all__ = [
    "Key",
    "Place",
    "Removal",
    "Storage",
    "ThreadRow",
    "ThreadSize",
    "is_waiting",
    "page",
    "thread_exists",
    "time_of",
]

_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


class Key(NamedTuple):
    """A checkpoint within a thread."""

    namespace: str
    checkpoint_id: str


class Place(NamedTuple):
    """A place in the list of threads. Copies of a thread have the same newest checkpoint, so their ids count too."""

    newest: str
    thread_id: str = ""


@dataclass(frozen=True)
class Removal:
    """What is to go out of a thread.

    Attributes:
        checkpoints: with their writes, and with the values that only they refer to.
        writes: checkpoints of which only the writes go.
    """

    checkpoints: tuple[Key, ...] = ()
    writes: tuple[Key, ...] = ()


@dataclass(frozen=True)
class ThreadSize:
    """How much of a database a thread takes.

    Attributes:
        checkpoints: how many, those of subgraphs included.
        writes: rows that hold what tasks wrote.
        blobs: rows that hold values of the state, where the saver keeps these apart (memory, Postgres); else 0.
        bytes: of all these, as stored, without indexes and overhead of the database.
    """

    checkpoints: int
    writes: int
    blobs: int
    bytes: int


class ThreadRow(NamedTuple):
    """A thread, as its newest checkpoint shows it."""

    thread_id: str
    newest: str
    oldest: str
    checkpoints: int
    waiting: int


def page(rows: Iterable[ThreadRow], limit: int, before: Place | None) -> list[ThreadRow]:
    """So many of the rows, in the order of a list of threads."""
    ordered = sorted(rows, key=lambda row: (row.newest, row.thread_id), reverse=True)
    return [row for row in ordered if before is None or (row.newest, row.thread_id) < before][:limit]


class Storage(Protocol):
    """What is done with whole threads; each method gives the steps that do it."""

    def newest(self, limit: int, before: Place | None) -> Steps:
        """A list of ThreadRow, the most recently used thread first, from after the place `before` in that order."""
        ...

    def copy(self, source: str, target: str, removal: Removal) -> Steps:
        """Copy a thread to a new one, all or nothing, without what `removal` names."""
        ...

    def weigh(self, thread_id: str) -> Steps:
        """Its ThreadSize."""
        ...

    def remove(self, thread_id: str, removal: Removal) -> Steps:
        """Delete what `removal` names, all or nothing; a checkpoint whose parent goes has no parent then."""
        ...


def time_of(checkpoint_id: str) -> datetime | None:
    """When a checkpoint was made, which is the beginning of its id (UUID version 6, RFC 9562); None for other ids."""
    digits = checkpoint_id.replace("-", "")
    if len(digits) != 32 or digits[12] != "6":  # noqa: PLR2004 - the length of a UUID in hexadecimal digits
        return None
    try:
        ticks = int(digits[:12] + digits[13:16], 16)
        return _GREGORIAN + timedelta(microseconds=ticks // 10)
    except (ValueError, OverflowError):
        return None


def is_waiting(channels: Iterable[str]) -> bool:
    """Whether a task that wrote to these channels asked a person and has not gone on since."""
    written = set(channels)
    return INTERRUPT in written and written <= set(WRITES_IDX_MAP)


def thread_exists(thread_id: str) -> CheckpointError:
    """The error for a copy that would overwrite a thread."""
    return CheckpointError(
        f"There is a thread {thread_id!r:.200} already; it was left as it is. Choose another id, or delete it first."
    )
