"""Threads in the memory of this process, for tests, notebooks and runs that need no tomorrow."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from agentgraph.persistence.checkpointer import Checkpointer, Life, OnBusy
from agentgraph.persistence.leases import LeaseTable

__all__ = ["MemoryCheckpointer"]


class MemoryCheckpointer(Checkpointer, InMemorySaver):
    """langgraph's InMemorySaver, made safe for threads; `open_checkpointer("memory://")`.

    Args:
        serde: the serializer.
        on_busy: see Checkpointer.
    """

    def __init__(self, *, serde: SerializerProtocol, on_busy: OnBusy = "raise") -> None:
        InMemorySaver.__init__(self, serde=serde)
        self._begin(Life("memory://"), LeaseTable(), on_busy)
        # langgraph's goes through dictionaries that another run may be changing.
        self._lock = threading.RLock()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """One checkpoint, the newest of the thread unless the config names one."""
        with self._open():
            return super().get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - langgraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first, as they are at this moment."""
        with self._open():
            found = [*super().list(config, filter=filter, before=before, limit=limit)]
        yield from found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        with self._open():
            return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote."""
        with self._open():
            super().put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all of a thread."""
        with self._open():
            super().delete_thread(thread_id)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What channels that store only their changes were written, back to their last whole value."""
        with self._open():
            return super().get_delta_channel_history(config=config, channels=channels)

    def _gap(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> str | None:
        there = self.storage.get(thread_id, {}).get(namespace, {})
        here = checkpoint_id or max(there, default=None)
        while here is not None and here in there:
            here = there[here][2]
        return here

    def _open(self) -> AbstractContextManager[Any]:
        self._life.check()
        return self._lock

    def _release(self) -> None:
        with self._lock:
            self.storage.clear()
            self.writes.clear()
            self.blobs.clear()
