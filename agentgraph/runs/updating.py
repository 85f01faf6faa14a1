"""An update of a thread's state from outside (`update_state`): alone on the thread, and with finished work kept.

langgraph's update drops what an unfinished step had stored, so that its tools run again. Here the results of finished
tools become a part of the state first; the update then counts as the same node's as without that, and what was not
finished is to run next again.

An update of an earlier checkpoint, and one that clears or copies, is langgraph's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph._internal._config import ensure_config  # merges as langgraph's updates do; the public one differs
from langgraph._internal._constants import (  # how a saver is lent to an inner graph, and an update is an input
    CONF,
    CONFIG_KEY_CHECKPOINTER,
    INPUT,
)
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot, StateUpdate

from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.runs.leases import HeldThread, has_taken, runs_on, take_thread
from agentgraph.runs.questions import finished_tasks, reading, settings_of
from agentgraph.runs.salvaging import atake_over, take_over

__all__ = ["aupdate", "update"]

Supersteps = Sequence[Sequence[StateUpdate]]


@dataclass(frozen=True)
class _Kept:
    """An update before which finished work is taken over.

    Attributes:
        newest: config of the thread's newest checkpoint.
        first: the first of the update's supersteps.
        goes_on_as: the node as which the unfinished work is to run next again if the update fails; None for nothing.
        steps_over: how many steps are ended: the unfinished one, and before an input the one that follows from it.
    """

    newest: RunnableConfig
    first: Sequence[StateUpdate]
    goes_on_as: str | None
    steps_over: int


def update(graph: Any, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
    """Update the state of a thread.

    Args:
        graph: the compiled graph.
        config: with the thread's id.
        supersteps: as for langgraph's `bulk_update_state`.

    Returns:
        The config of the new checkpoint.

    Raises:
        ThreadBusyError: a run is at work on the thread, or this code is part of one.
    """
    held: HeldThread | None = perform(_take(graph, config))
    try:
        kept: _Kept | None = perform(_look(graph, config, supersteps))
        if kept is None:
            return CompiledStateGraph.bulk_update_state(graph, config, supersteps)
        for _ in range(kept.steps_over):
            take_over(graph, kept.newest)
        at = _write(graph, _at_newest(config), kept)
        return CompiledStateGraph.bulk_update_state(graph, at, supersteps[1:]) if supersteps[1:] else at
    finally:
        if held is not None:
            held.release()


async def aupdate(graph: Any, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
    """Async form of `update`."""
    held: HeldThread | None = await aperform(_take(graph, config))
    try:
        kept: _Kept | None = await aperform(_look(graph, config, supersteps))
        if kept is None:
            return await CompiledStateGraph.abulk_update_state(graph, config, supersteps)
        for _ in range(kept.steps_over):
            await atake_over(graph, kept.newest)
        at = await _awrite(graph, _at_newest(config), kept)
        return await CompiledStateGraph.abulk_update_state(graph, at, supersteps[1:]) if supersteps[1:] else at
    finally:
        if held is not None:
            await held.arelease()


def _take(graph: Any, config: RunnableConfig) -> Steps:
    """Take the thread; None where none is kept, or where who calls has it already."""
    conf = settings_of(ensure_config(config))
    saver, thread_id = graph.saver_of(ensure_config(config)), conf.get("thread_id")
    if not isinstance(saver, BaseCheckpointSaver) or thread_id is None:
        return None  # langgraph says what is missing
    given = conf.get(CONFIG_KEY_CHECKPOINTER) or graph.checkpointer
    name = str(thread_id)
    is_inner = bool(conf.get("checkpoint_ns")) or CONFIG_KEY_CHECKPOINTER in conf
    # Inside a run, the state of a graph that this run does not go on with may be written.
    if has_taken(given, name) or (is_inner and runs_on(given, name)):
        return None
    return (yield from take_thread(given, name, wait=getattr(given, "on_busy", "raise") == "wait"))


def _look(graph: Any, config: RunnableConfig, supersteps: Supersteps) -> Steps:
    """What is to be done before the update so that no finished work is lost; None for nothing."""
    merged = ensure_config(config)
    conf = settings_of(merged)
    # Of a graph inside this one, which comes here itself, with the saver lent to it.
    is_for_inner = bool(conf.get("checkpoint_ns")) and CONFIG_KEY_CHECKPOINTER not in conf
    saver = graph.saver_of(merged)
    if is_for_inner or saver is None or conf.get("thread_id") is None or not _writes_values(graph, supersteps):
        return None
    newest = _at_newest(merged)
    saved: CheckpointTuple | None = yield reading(saver, newest)
    addressed = conf.get("checkpoint_id")
    if saved is None or (addressed and addressed != saved.checkpoint["id"]) or not finished_tasks(saved.pending_writes):
        return None
    snapshot: StateSnapshot = yield Effect(graph.get_state, graph.aget_state, (newest,))
    writer = graph._infer_as_node(saved.checkpoint["versions_seen"])  # noqa: SLF001 - langgraph's rule, by no public name
    if not snapshot.next:
        # The step is over but for its checkpoint, so its own node is the last that ran.
        names = {task.name for task in snapshot.tasks}
        writer = names.pop() if len(names) == 1 else writer
    first = [StateUpdate(*one) for one in supersteps[0]]
    if len(first) == 1 and first[0].as_node is None:
        if writer is None:
            return None  # langgraph says that it is ambiguous
        first = [first[0]._replace(as_node=writer)]
    steps_over = 2 if first[0].as_node == INPUT else 1
    return _Kept(newest, first, writer if snapshot.next else None, steps_over)


def _writes_values(graph: Any, supersteps: Supersteps) -> bool:
    """Whether the first superstep is a valid update by nodes, or by an input."""
    first = supersteps[0] if supersteps else ()
    nodes = [one[1] for one in first]
    return bool(nodes) and all(node in graph.nodes or node in {None, INPUT} for node in nodes)


def _at_newest(config: RunnableConfig) -> RunnableConfig:
    conf = {key: value for key, value in settings_of(config).items() if key not in {"checkpoint_id", "checkpoint_map"}}
    return cast("RunnableConfig", {**config, CONF: conf})


def _write(graph: Any, config: RunnableConfig, kept: _Kept) -> RunnableConfig:
    try:
        return CompiledStateGraph.bulk_update_state(graph, config, [kept.first])
    except BaseException:
        if kept.goes_on_as is not None:
            again = [[StateUpdate(None, kept.goes_on_as)]]
            CompiledStateGraph.bulk_update_state(graph, kept.newest, again)
        raise


async def _awrite(graph: Any, config: RunnableConfig, kept: _Kept) -> RunnableConfig:
    try:
        return await CompiledStateGraph.abulk_update_state(graph, config, [kept.first])
    except BaseException:
        if kept.goes_on_as is not None:
            again = [[StateUpdate(None, kept.goes_on_as)]]
            await CompiledStateGraph.abulk_update_state(graph, kept.newest, again)
        raise
