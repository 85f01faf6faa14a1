"""What all of our checkpointers share: their life, their leases, and async methods made of sync ones."""

import asyncio
import itertools
import os
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from agentgraph.errors import CheckpointError
from agentgraph.persistence.leases import Leases, ThreadLease

__all__ = ["GAP", "Checkpointer", "InThreads", "OnBusy", "gap_parameters", "no_letter"]

T = TypeVar("T")
P = ParamSpec("P")

OnBusy = Literal["raise", "wait"]
"""What a run does when another one is at work on its thread."""

PAGE = 32  # checkpoints fetched at once when an async loop goes through a history


class Life:
    """Whether a checkpointer is open; shared by the copies that langgraph makes of it.

    Args:
        name: the checkpointer's URL without secrets, for errors.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False

    def check(self) -> None:
        """Refuse to go on after the end."""
        if self.closed:
            raise CheckpointError(
                f"The checkpointer {self.name!r} was closed and is used again. Keep its `with` block open for as long "
                "as the agent runs, or open a new one with open_checkpointer."
            )


class Checkpointer(BaseCheckpointSaver[str]):
    """A saver of langgraph's with a life, leases on threads and a strict serializer; what `open_checkpointer` returns.

    Use it from sync and async code, from any thread and event loop, with `with` or `async with` or `close`. One object
    serves any number of agents and runs.

    Attributes:
        url: where it keeps the threads, without secrets.
        on_busy: what a run does when another one is at work on its thread: "raise" a ThreadBusyError, or "wait".
    """

    url: str
    on_busy: OnBusy
    _life: Life
    _leases: Leases

    def _begin(self, life: Life, leases: Leases, on_busy: OnBusy) -> None:
        self.url = life.name
        self.on_busy = on_busy
        self._life = life
        self._leases = leases

    def thread_lease(self, thread_id: str) -> ThreadLease | None:
        """Reserve a thread for one run, without waiting.

        Args:
            thread_id: the thread.

        Returns:
            The lease; None while another run, in this process or another, holds it. Release it when the run ends; when
            the process dies, it is released by the operating system or the database server.

        Raises:
            CheckpointError: the checkpointer was closed, or the place of the leases cannot be reached.
        """
        self._life.check()
        return self._leases.take(str(thread_id))

    async def athread_lease(self, thread_id: str) -> ThreadLease | None:
        """The same from async code, without blocking the loop."""
        return self.thread_lease(thread_id)

    def close(self) -> None:
        """End its use: connections are closed. May be called again; any other use afterwards is a CheckpointError."""
        if not self._life.closed:
            self._life.closed = True
            self._release()

    async def aclose(self) -> None:
        """The same from async code."""
        self.close()

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What channels that store only their changes were written, back to their last whole value.

        Raises:
            CheckpointError: one of the checkpoints in between was deleted, so a part of it is lost.
        """
        found = super().get_delta_channel_history(config=config, channels=channels)
        if any("seed" not in one for one in found.values()):
            names = config.get("configurable", {})
            line = str(names["thread_id"]), str(names.get("checkpoint_ns", "")), names.get("checkpoint_id")
            if (gone := self._gap(*line)) is not None:
                raise CheckpointError(_gap_text(line[0], gone, channels))
        return found

    @abstractmethod
    def _gap(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> str | None:
        """The first checkpoint before one (None: the newest) that is named as a parent and is not there."""

    @abstractmethod
    def _release(self) -> None:
        """Close connections; called once."""

    def __enter__(self) -> Self:
        self._life.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._life.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        state = ", closed" if self._life.closed else ""
        return f"{type(self).__name__}({self.url!r}, on_busy={self.on_busy!r}{state})"


class Workers:
    """A few threads for the database calls of async code; they start with the first call and survive a fork.

    Args:
        size: how many calls may run at once; more wait for their turn.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def pool(self) -> ThreadPoolExecutor:
        """The threads of this process."""
        if self._pool is None or self._pool[0] != os.getpid():
            # Two that come first at once may both make one; the loser's has no threads yet.
            self._pool = os.getpid(), ThreadPoolExecutor(self._size, thread_name_prefix="agentgraph-checkpoints")
        return self._pool[1]

    def close(self) -> None:
        """Let the threads end when their calls have."""
        if self._pool is not None and self._pool[0] == os.getpid():
            self._pool[1].shutdown(wait=False)
        self._pool = None

    async def read(self, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call in a thread; a cancelled caller leaves at once."""
        return await asyncio.get_running_loop().run_in_executor(self.pool(), lambda: func(*args, **kwargs))

    async def write(self, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call in a thread; also a cancelled caller waits for the end, so that whoever reads next sees it all."""
        call = asyncio.get_running_loop().run_in_executor(self.pool(), lambda: func(*args, **kwargs))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait([call])
            raise


class InThreads(Checkpointer):
    """The async methods, each the sync one in a thread: one way to the database, whatever loop asks."""

    _workers: Workers

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` from async code."""
        return await self._workers.read(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - langgraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` from async code."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while page := await self._workers.read(_take, found):
            for one in page:
                yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put` from async code."""
        return await self._workers.write(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` from async code."""
        await self._workers.write(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` from async code."""
        await self._workers.write(self.delete_thread, thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history` from async code."""
        return await self._workers.read(self.get_delta_channel_history, config=config, channels=channels)

    async def athread_lease(self, thread_id: str) -> ThreadLease | None:
        """`thread_lease` from async code, without blocking the loop."""
        return await self._workers.read(self.thread_lease, thread_id)

    async def aclose(self) -> None:
        """`close` from async code."""
        await asyncio.to_thread(self.close)


GAP = """
WITH RECURSIVE line(id, parent) AS (
    SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = COALESCE(?, (
        SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?
    ))
    UNION ALL
    SELECT c.checkpoint_id, c.parent_checkpoint_id FROM line JOIN checkpoints c
    ON c.thread_id = ? AND c.checkpoint_ns = ? AND c.checkpoint_id = line.parent
)
SELECT parent FROM line WHERE parent IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM checkpoints p WHERE p.thread_id = ? AND p.checkpoint_ns = ? AND p.checkpoint_id = line.parent
)
"""
"""The SQL of `_gap`, for both databases; see `gap_parameters`."""


def gap_parameters(thread_id: str, namespace: str, checkpoint_id: str | None) -> tuple[str | None, ...]:
    """The parameters of GAP."""
    line = (thread_id, namespace)
    return (*line, checkpoint_id, *line, *line, *line)


def _gap_text(thread_id: str, gone: str, channels: Sequence[str]) -> str:
    return (
        f"The checkpoint {gone!r} of the thread {thread_id!r:.200} was deleted, but {', '.join(map(repr, channels))} "
        "of the newer ones is read from it, so a part of it is lost. Nothing was changed. Put the rows back from a "
        "backup, or delete the thread. To make threads small, use agentgraph.threads.prune, which keeps what is needed."
    )


def no_letter(error: UnicodeEncodeError) -> str:
    """Why a text cannot be stored that holds half of a surrogate pair; for an error."""
    return (
        f"{error.object[error.start : error.end]!r} in a name (the id of a thread, a field, metadata) is no letter, so "
        "no database takes it. Nothing was stored by this call. Repair the name, for example with "
        "name.encode(errors='replace').decode()."
    )


def _take(found: Iterator[CheckpointTuple]) -> list[CheckpointTuple]:
    return list(itertools.islice(found, PAGE))
