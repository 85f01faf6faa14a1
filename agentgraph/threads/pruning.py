"""Making a long thread small: old checkpoints go, the conversation stays."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from langgraph.types import Overwrite, StateSnapshot

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps
from agentgraph.runs.outcomes import unfinished_nodes
from agentgraph.threads.access import (
    Agent,
    AgentOrSaver,
    Saver,
    aperform_alone,
    in_thread,
    no_thread,
    perform_alone,
    read_state,
    read_tuples,
    saver_of,
    text_of_thread,
)
from agentgraph.threads.comparing import messages_of
from agentgraph.threads.lineage import CheckpointFacts, delta_channels, facts_of, leaves, needed
from agentgraph.threads.resting import knowing_agent, unfinished, write_messages
from agentgraph.threads.rows import Key, Removal
from agentgraph.threads.storage import storage_of

__all__ = ["Pruned", "aprune", "prune", "what_stays"]


@dataclass(frozen=True)
class Pruned:
    """What pruning did to a thread.

    Attributes:
        deleted: checkpoints that went, those of subgraphs included.
        kept: checkpoints that are left.
        needed: of these, the ones that are left only because newer ones are read from them: the messages are stored
            as changes, back to the last snapshot.
        waiting: of these, the ones that are left because a person's answer is still open.
    """

    deleted: int
    kept: int
    needed: int
    waiting: int


def prune(
    saver: AgentOrSaver,
    thread_id: str,
    *,
    keep_last: int | None = None,
    max_age: timedelta | float | None = None,
    snapshot: bool = False,
) -> Pruned:
    """Delete old checkpoints of a thread. Its state, its messages and its open questions stay as they are.

    The `keep_last` newest checkpoints stay in any case, younger ones than `max_age` as well, and whatever the state of
    these is read from: messages are stored as changes with a snapshot every hundred updates or more, so a short thread
    may well be left whole. A checkpoint that waits for a person's answer stays, however old. One cannot rewind or fork
    to a checkpoint that went. SQLite uses the room again, but the file does not shrink by itself.

    Args:
        saver: the checkpointer, or an agent that has one.
        thread_id: the thread.
        keep_last: how many of the newest stay, from 1 up. It or `max_age` must be given; with `max_age` alone it is 1.
        max_age: a timedelta or seconds. Without it no checkpoint stays because of its age.
        snapshot: first store the messages whole, as new checkpoints of a thread that is at rest, so that nothing before
            has to stay for them. It needs the agent. Default False.

    Returns:
        How many went and how many are left.

    Raises:
        CheckpointError: there is no such thread, or it cannot be read.
        ThreadBusyError: a run is at work on it.
        ConfigurationError: neither `keep_last` nor `max_age` is given, one is out of range, the saver cannot delete
            single checkpoints, or a snapshot is asked for without the agent or of an unfinished thread.
    """
    keeper, thread = saver_of(saver), text_of_thread(thread_id, "thread_id")
    count, since = _limits(keep_last, max_age)
    graph = knowing_agent(saver, "A snapshot") if snapshot else None
    found: Pruned = perform_alone(keeper, thread, _prune(keeper, graph, thread, count, since))
    return found


async def aprune(
    saver: AgentOrSaver,
    thread_id: str,
    *,
    keep_last: int | None = None,
    max_age: timedelta | float | None = None,
    snapshot: bool = False,
) -> Pruned:
    """Async form of `prune`."""
    keeper, thread = saver_of(saver), text_of_thread(thread_id, "thread_id")
    count, since = _limits(keep_last, max_age)
    graph = knowing_agent(saver, "A snapshot") if snapshot else None
    found: Pruned = await aperform_alone(keeper, thread, _prune(keeper, graph, thread, count, since))
    return found


def _limits(keep_last: int | None, max_age: timedelta | float | None) -> tuple[int, datetime | None]:
    if keep_last is None and max_age is None:
        raise ConfigurationError("prune was given neither keep_last nor max_age. Say what is to stay: keep_last=1.")
    if keep_last is not None and (isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1):
        raise ConfigurationError(
            f"keep_last={keep_last!r:.100} was given; expected a number of checkpoints from 1 up. "
            "A thread without any is what delete_thread leaves."
        )
    try:
        age = max_age if max_age is None or isinstance(max_age, timedelta) else timedelta(seconds=max_age)
        since = None if age is None else datetime.now(UTC) - age
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(f"max_age={max_age!r:.100} was given; expected a timedelta or seconds.") from None
    if age is not None and age < timedelta(0):
        raise ConfigurationError(f"max_age={max_age!r:.100} was given; expected a time span from 0 up.")
    return keep_last or 1, since


def _prune(saver: Saver, graph: Agent | None, thread_id: str, keep_last: int, since: datetime | None) -> Steps:
    if graph is not None:
        yield from _snapshot(graph, thread_id)
    facts: list[CheckpointFacts] = yield from read_tuples(saver, thread_id, facts_of)
    if not facts:
        raise no_thread(thread_id)
    wanted = what_stays(facts, keep_last, since)
    ancestors = needed(facts, wanted, delta_channels(facts))
    gone = tuple(one.key for one in facts if one.key not in wanted and one.key not in ancestors)
    if gone:
        yield from storage_of(saver).remove(thread_id, Removal(gone))
    return Pruned(
        deleted=len(gone),
        kept=len(facts) - len(gone),
        needed=len(ancestors - wanted),
        waiting=sum(one.is_waiting for one in leaves(facts) if one.key in wanted),
    )


def _snapshot(graph: Agent, thread_id: str) -> Steps:
    head: StateSnapshot = yield from read_state(graph, in_thread(thread_id))
    if nodes := unfinished_nodes(head):
        raise unfinished(thread_id, nodes, "Go on with it first, or prune without a snapshot.")
    # langgraph stores a field whole in the checkpoint in which it was overwritten.
    yield from write_messages(graph, thread_id, Overwrite(messages_of(head)))


def what_stays(facts: Sequence[CheckpointFacts], keep_last: int, since: datetime | None) -> set[Key]:
    """The checkpoints that stay for their own sake.

    Args:
        facts: of all checkpoints of the thread, in any order.
        keep_last: how many of the newest of the root graph.
        since: those made since then; None for none.
    """
    roots = sorted((one for one in facts if not one.key.namespace), key=lambda one: one.key.checkpoint_id, reverse=True)
    kept = {one.key for one in roots[:keep_last]}
    kept.update(one.key for one in roots if since is not None and one.made_at >= since)
    kept.update(one.key for one in leaves(roots) if one.is_waiting)
    steps = {key.checkpoint_id for key in kept}
    kept.update(one.key for one in facts if one.key.namespace and one.root in steps)
    # A subgraph with threads of its own (`checkpointer=True`) remembers across steps: its newest stays.
    newest: dict[str, Key] = {}
    for one in facts:
        space = one.key.namespace
        if space and ":" not in space.rpartition("|")[2]:
            newest[space] = max(newest.get(space, one.key), one.key)
    return kept | set(newest.values())
