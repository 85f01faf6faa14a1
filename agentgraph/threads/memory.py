"""Whole threads in the memory of this process: those of langgraph's InMemorySaver."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.nodes.effects import Steps
from agentgraph.threads.access import either, no_thread
from agentgraph.threads.rows import Key, Place, Removal, ThreadRow, ThreadSize, is_waiting, page, thread_exists

__all__ = ["MemoryStorage"]


@dataclass(frozen=True)
class MemoryStorage:
    """The dictionaries of an InMemorySaver: `storage`, `writes` and `blobs`, all keyed by the thread."""

    saver: InMemorySaver

    def newest(self, limit: int, before: Place | None) -> Steps:
        """See Storage."""
        return (yield either(self._locked, None, self._newest, limit, before))

    def copy(self, source: str, target: str, removal: Removal) -> Steps:
        """See Storage."""
        yield either(self._locked, None, self._copy, source, target, removal)

    def weigh(self, thread_id: str) -> Steps:
        """See Storage."""
        return (yield either(self._locked, None, self._weigh, thread_id))

    def remove(self, thread_id: str, removal: Removal) -> Steps:
        """See Storage."""
        yield either(self._locked, None, self._remove, thread_id, removal)

    def _locked(self, work: Callable[..., Any], *args: Any) -> Any:
        # langgraph's own saver has no lock; open_checkpointer's has one.
        with getattr(self.saver, "_lock", nullcontext()):
            return work(*args)

    def _newest(self, limit: int, before: Place | None) -> list[ThreadRow]:
        rows = [
            ThreadRow(thread_id, max(found), min(found), len(found), self._waiting(thread_id, max(found)))
            for thread_id, spaces in list(self.saver.storage.items())
            if (found := spaces.get(""))
        ]
        return page(rows, limit, before)

    def _waiting(self, thread_id: str, checkpoint_id: str) -> int:
        tasks: dict[str, list[str]] = {}
        for task_id, channel, *_ in self.saver.writes.get((thread_id, "", checkpoint_id), {}).values():
            tasks.setdefault(task_id, []).append(channel)
        return sum(map(is_waiting, tasks.values()))

    def _copy(self, source: str, target: str, removal: Removal) -> None:
        saver = self.saver
        if not any(saver.storage.get(source, {}).values()):
            raise no_thread(source)
        if any(saver.storage.get(target, {}).values()):
            raise thread_exists(target)
        # Checkpoints, writes and blobs are bytes, never changed once they are there.
        for space, checkpoints in saver.storage[source].items():
            saver.storage[target][space] = dict(checkpoints)
        for (thread_id, space, checkpoint_id), writes in list(saver.writes.items()):
            if thread_id == source:
                saver.writes[target, space, checkpoint_id] = dict(writes)
        for (thread_id, space, channel, version), blob in list(saver.blobs.items()):
            if thread_id == source:
                saver.blobs[target, space, channel, version] = blob
        self._remove(target, removal)

    def _weigh(self, thread_id: str) -> ThreadSize:
        saver = self.saver
        checkpoints = [one for space in saver.storage.get(thread_id, {}).values() for one in space.values()]
        writes = [one for key, some in saver.writes.items() if key[0] == thread_id for one in some.values()]
        blobs = [blob for key, blob in saver.blobs.items() if key[0] == thread_id]
        stored = sum(len(checkpoint[1]) + len(metadata[1]) for checkpoint, metadata, _ in checkpoints)
        stored += sum(len(value[1]) for _, _, value, _ in writes) + sum(len(blob[1]) for blob in blobs)
        return ThreadSize(len(checkpoints), len(writes), len(blobs), stored)

    def _remove(self, thread_id: str, removal: Removal) -> None:
        for space, checkpoint_id in (*removal.checkpoints, *removal.writes):
            self.saver.writes.pop((thread_id, space, checkpoint_id), None)
        spaces = self.saver.storage[thread_id]
        for space, checkpoint_id in removal.checkpoints:
            spaces[space].pop(checkpoint_id, None)
        for space in [*spaces]:
            self._settle(thread_id, space)
        for key in self._garbage(thread_id, removal.checkpoints):
            del self.saver.blobs[key]

    def _settle(self, thread_id: str, space: str) -> None:
        checkpoints = self.saver.storage[thread_id][space]
        for checkpoint_id, (checkpoint, metadata, parent) in [*checkpoints.items()]:
            if parent is not None and parent not in checkpoints:
                checkpoints[checkpoint_id] = (checkpoint, metadata, None)
        if not checkpoints:
            del self.saver.storage[thread_id][space]

    def _garbage(self, thread_id: str, gone: Iterable[Key]) -> list[Any]:
        """The blobs of these namespaces that no checkpoint refers to any more."""
        spaces = {key.namespace for key in gone}
        used = {
            (space, channel, version)
            for space in spaces
            for checkpoint, _, _ in self.saver.storage[thread_id].get(space, {}).values()
            for channel, version in self.saver.serde.loads_typed(checkpoint)["channel_versions"].items()
        }
        return [key for key in self.saver.blobs if key[0] == thread_id and key[1] in spaces and key[1:] not in used]
