"""Which checkpoints are built on which: pure functions on a few facts about each.

A delta channel stores a step's writes and, now and then, a snapshot. So a checkpoint without a snapshot is read from
its ancestors, back to the nearest one that has the value::

    snapshot <- +a <- +b <- +c      to read the last one, all four are needed
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime

from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.threads.access import checkpoint_id_of, names_in
from agentgraph.threads.rows import Key, is_waiting

__all__ = ["CheckpointFacts", "delta_channels", "facts_of", "leaves", "lineage", "needed"]


SENDS_INSIDE = 4
"""From this version of langgraph's format on, a checkpoint holds what is to be sent to nodes itself."""


@dataclass(frozen=True)
class CheckpointFacts:
    """What has to be known of a checkpoint to decide whether it can go.

    Attributes:
        key: its namespace and id.
        parent: the id of the one before, in the same namespace.
        root: for one of a subgraph, the id of the root graph's checkpoint during which it was made.
        made_at: when.
        known: the channels that were ever written.
        stored: those whose value lies in the checkpoint itself.
        counted: channels that langgraph counts updates of, which are delta channels.
        is_waiting: whether a task of it asked a person and has not gone on.
        reads_parent: whether work that is to be sent to nodes lies with its parent, as langgraph once stored it.
    """

    key: Key
    parent: str | None
    root: str | None
    made_at: datetime
    known: frozenset[str]
    stored: frozenset[str]
    counted: frozenset[str]
    is_waiting: bool
    reads_parent: bool = False


def facts_of(one: CheckpointTuple) -> CheckpointFacts:
    """The facts of a checkpoint; its values are let go."""
    checkpoint, metadata = one.checkpoint, one.metadata
    tasks: dict[str, list[str]] = {}
    for task_id, channel, _ in one.pending_writes or ():
        tasks.setdefault(task_id, []).append(channel)
    made_at = datetime.fromisoformat(checkpoint["ts"])
    return CheckpointFacts(
        key=Key(names_in(one.config).get("checkpoint_ns", ""), checkpoint["id"]),
        parent=checkpoint_id_of(one.parent_config),
        root=(metadata.get("parents") or {}).get(""),
        made_at=made_at if made_at.tzinfo is not None else made_at.replace(tzinfo=UTC),
        known=frozenset(checkpoint["channel_versions"]),
        stored=frozenset(checkpoint["channel_values"]),
        counted=frozenset(metadata.get("counters_since_delta_snapshot") or ()),
        is_waiting=any(map(is_waiting, tasks.values())),
        reads_parent=checkpoint["v"] < SENDS_INSIDE,
    )


def delta_channels(facts: Iterable[CheckpointFacts]) -> frozenset[str]:
    """The delta channels of a thread: those that langgraph counts updates of, anywhere in it."""
    return frozenset().union(*(one.counted for one in facts))


def lineage(facts: Iterable[CheckpointFacts], checkpoint_id: str) -> list[Key]:
    """A checkpoint of the root graph and all before it."""
    by_key = {one.key: one for one in facts}
    line: list[Key] = []
    here = by_key.get(Key("", checkpoint_id))
    while here is not None:
        line.append(here.key)
        here = by_key.get(Key("", here.parent)) if here.parent is not None else None
    return line


def leaves(facts: Sequence[CheckpointFacts]) -> list[CheckpointFacts]:
    """The checkpoints that nothing was built on: the newest, and the ends of left branches."""
    parents = {Key(one.key.namespace, one.parent) for one in facts if one.parent is not None}
    return [one for one in facts if one.key not in parents]


def needed(facts: Sequence[CheckpointFacts], kept: Iterable[Key], delta: AbstractSet[str]) -> set[Key]:
    """The ancestors without which the kept checkpoints cannot be read."""
    by_key = {one.key: one for one in facts}
    found: set[Key] = set()
    for key in kept:
        found.update(_back_to_snapshots(by_key, by_key[key], delta))
    return found


def _back_to_snapshots(
    by_key: Mapping[Key, CheckpointFacts], here: CheckpointFacts, delta: AbstractSet[str]
) -> list[Key]:
    missing = (delta & here.known) - here.stored
    back: list[Key] = []
    while (missing or here.reads_parent) and here.parent is not None:
        before = by_key.get(Key(here.key.namespace, here.parent))
        if before is None:
            break
        back.append(before.key)
        missing -= before.stored
        here = before
    return back
