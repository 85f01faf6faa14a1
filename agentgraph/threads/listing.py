"""Which threads there are, how big one is, copying and deleting them whole."""

from dataclasses import dataclass
from datetime import datetime

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps, aperform, perform
from agentgraph.threads.access import (
    AgentOrSaver,
    Saver,
    aperform_alone,
    either,
    no_thread,
    perform_alone,
    saver_of,
    text_of_thread,
)
from agentgraph.threads.rows import Place, Removal, ThreadRow, ThreadSize, time_of
from agentgraph.threads.storage import storage_of

__all__ = [
    "ThreadSummary",
    "acopy_thread",
    "adelete_thread",
    "alist_threads",
    "asize",
    "copy_thread",
    "delete_thread",
    "list_threads",
    "size",
]


@dataclass(frozen=True)
class ThreadSummary:
    """A thread in a list of threads. Nothing of its state was read for it.

    Attributes:
        thread_id: its id.
        checkpoint_id: its newest checkpoint.
        created_at: when its oldest checkpoint was made; None where the saver's ids do not tell.
        updated_at: when its newest checkpoint was made.
        checkpoints: how many it has, those of subgraphs not counted.
        is_waiting: whether it is paused for a person's answer.
    """

    thread_id: str
    checkpoint_id: str
    created_at: datetime | None
    updated_at: datetime | None
    checkpoints: int
    is_waiting: bool


def list_threads(
    saver: AgentOrSaver, *, limit: int = 50, before: ThreadSummary | str | None = None
) -> list[ThreadSummary]:
    """The threads of a checkpointer, the most recently used first.

    Args:
        saver: the checkpointer, or an agent that has one.
        limit: how many at most. Default 50.
        before: only threads used before this one: the last of a page, or a checkpoint id, gives the next page.

    Returns:
        A page of threads.

    Raises:
        ConfigurationError: the saver cannot list its threads.

    Example:
        >>> from agentgraph.persistence import open_checkpointer
        >>> with open_checkpointer("memory://") as saver:
        ...     list_threads(saver)
        []
    """
    found: list[ThreadSummary] = perform(_list(saver_of(saver), limit, before))
    return found


async def alist_threads(
    saver: AgentOrSaver, *, limit: int = 50, before: ThreadSummary | str | None = None
) -> list[ThreadSummary]:
    """Async form of `list_threads`."""
    found: list[ThreadSummary] = await aperform(_list(saver_of(saver), limit, before))
    return found


def _list(saver: Saver, limit: int, before: ThreadSummary | str | None) -> Steps:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigurationError(f"limit={limit!r:.100} was given; expected a number of threads from 1 up.")
    if before == "":
        raise ConfigurationError("before='' was given; expected a checkpoint id, or None for the first page.")
    place = (
        None
        if before is None
        else Place(before)
        if isinstance(before, str)
        else Place(before.checkpoint_id, before.thread_id)
    )
    rows: list[ThreadRow] = yield from storage_of(saver).newest(limit, place)
    return [
        ThreadSummary(
            thread_id=row.thread_id,
            checkpoint_id=row.newest,
            created_at=time_of(row.oldest),
            updated_at=time_of(row.newest),
            checkpoints=row.checkpoints,
            is_waiting=row.waiting > 0,
        )
        for row in rows
    ]


def size(saver: AgentOrSaver, thread_id: str) -> ThreadSize:
    """How much of the database a thread takes.

    Args:
        saver: the checkpointer, or an agent that has one.
        thread_id: the thread.

    Returns:
        Numbers of rows, and bytes as stored.

    Raises:
        CheckpointError: there is no such thread.
        ConfigurationError: the saver cannot tell.
    """
    found: ThreadSize = perform(_size(saver_of(saver), text_of_thread(thread_id, "thread_id")))
    return found


async def asize(saver: AgentOrSaver, thread_id: str) -> ThreadSize:
    """Async form of `size`."""
    found: ThreadSize = await aperform(_size(saver_of(saver), text_of_thread(thread_id, "thread_id")))
    return found


def _size(saver: Saver, thread_id: str) -> Steps:
    found: ThreadSize = yield from storage_of(saver).weigh(thread_id)
    if not found.checkpoints:
        raise no_thread(thread_id)
    return found


def copy_thread(saver: AgentOrSaver, source: str, target: str) -> None:
    """Copy a thread whole: its history, what is unfinished, and its open questions, which keep their ids.

    Args:
        saver: the checkpointer, or an agent that has one.
        source: the thread to copy; it is left alone, and may be in use.
        target: the id of the new thread; there must be none of that id.

    Raises:
        CheckpointError: there is no thread `source`, or there is a thread `target`.
        ThreadBusyError: a run is at work on `target`.
        ConfigurationError: the saver cannot copy.
    """
    keeper, source, target = _copying(saver, source, target)
    perform_alone(keeper, target, storage_of(keeper).copy(source, target, Removal()))


async def acopy_thread(saver: AgentOrSaver, source: str, target: str) -> None:
    """Async form of `copy_thread`."""
    keeper, source, target = _copying(saver, source, target)
    await aperform_alone(keeper, target, storage_of(keeper).copy(source, target, Removal()))


def _copying(saver: AgentOrSaver, source: str, target: str) -> tuple[Saver, str, str]:
    return saver_of(saver), text_of_thread(source, "source"), text_of_thread(target, "target")


def delete_thread(saver: AgentOrSaver, thread_id: str) -> None:
    """Delete a thread for good: all checkpoints, those of its subgraphs, and what its tasks wrote.

    Args:
        saver: the checkpointer, or an agent that has one.
        thread_id: the thread. Nothing happens where there is none.

    Raises:
        ThreadBusyError: a run is at work on it.
        ConfigurationError: the saver cannot delete.
    """
    keeper, thread = saver_of(saver), text_of_thread(thread_id, "thread_id")
    perform_alone(keeper, thread, _delete(keeper, thread))


async def adelete_thread(saver: AgentOrSaver, thread_id: str) -> None:
    """Async form of `delete_thread`."""
    keeper, thread = saver_of(saver), text_of_thread(thread_id, "thread_id")
    await aperform_alone(keeper, thread, _delete(keeper, thread))


def _delete(saver: Saver, thread_id: str) -> Steps:
    yield either(_Deleting(saver), saver.adelete_thread, thread_id)


@dataclass(frozen=True)
class _Deleting:
    saver: Saver

    def __call__(self, thread_id: str) -> None:
        try:
            self.saver.delete_thread(thread_id)
        except NotImplementedError:
            raise ConfigurationError(
                f"{type(self.saver).__name__} cannot delete a thread; {thread_id!r:.200} was left as it is. "
                "Take a checkpointer that has delete_thread, for example one of open_checkpointer."
            ) from None
