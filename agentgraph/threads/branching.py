"""Going on from an earlier point: in the same thread (a rewind), or beside it (a fork)."""

from collections.abc import Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.types import StateSnapshot

from agentgraph.errors import CheckpointError, ConfigurationError
from agentgraph.nodes.effects import Steps
from agentgraph.threads.access import (
    Agent,
    AgentOrSaver,
    aperform_alone,
    at_checkpoint,
    checkpoint_id_of,
    either,
    graph_of,
    in_thread,
    is_reader,
    names_in,
    perform_alone,
    read_state,
    read_tuples,
    saver_of,
    text_of_thread,
    thread_of,
)
from agentgraph.threads.comparing import messages_of
from agentgraph.threads.lineage import CheckpointFacts, facts_of, lineage
from agentgraph.threads.rows import Key, Removal
from agentgraph.threads.steps import back_from
from agentgraph.threads.storage import storage_of

__all__ = ["afork", "arewind", "fork", "rewind"]

COPY = "__copy__"
"""langgraph's word for a checkpoint that is a copy of another: the same state, the same parent, nothing run yet."""


def fork(
    agent: AgentOrSaver,
    config: RunnableConfig,
    *,
    update: Any = None,
    as_node: str | None = None,
    thread_id: str | None = None,
) -> RunnableConfig:
    """Branch off at a checkpoint. What came after it stays where it is, and is no part of the new branch.

    What was to run next at the checkpoint is to run next on the branch; a question that was open there is asked again
    when the branch runs, whether or not it was answered since.

    Args:
        agent: the agent; its checkpointer alone is enough where nothing is updated.
        config: with a thread_id, and a checkpoint_id unless the newest is meant.
        update: a state update to begin the branch with, as for langgraph's `update_state`.
        as_node: the node that the update counts as; by default the last one that ran.
        thread_id: of a new thread to put the branch into, with the history before it. By default the branch is the
            same thread's new head.

    Returns:
        The config to run the branch with. It names no checkpoint, since each run goes on from the newest.

    Raises:
        CheckpointError: there is no such checkpoint, or there is a thread of the new id already.
        ThreadBusyError: a run is at work on the thread that is written to.
        ConfigurationError: the agent has no checkpointer, the config names no thread, or the saver cannot copy.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.persistence import open_checkpointer
        >>> from agentgraph.testing import ScriptedModel
        >>> saver = open_checkpointer("memory://")
        >>> agent = create_agent(ScriptedModel(replies=["Hello!", "Bonjour!"]), checkpointer=saver)
        >>> thread = {"configurable": {"thread_id": "1"}}
        >>> _ = agent.invoke({"messages": "hi"}, thread)
        >>> french = fork(agent, thread, thread_id="2")
        >>> len(agent.invoke({"messages": "And in French?"}, french)["messages"])
        4
    """
    graph, target = _forking(agent, config, update, thread_id)
    perform_alone(saver_of(graph), target, _fork(graph, config, update, as_node, target))
    return _head(config, target)


async def afork(
    agent: AgentOrSaver,
    config: RunnableConfig,
    *,
    update: Any = None,
    as_node: str | None = None,
    thread_id: str | None = None,
) -> RunnableConfig:
    """Async form of `fork`."""
    graph, target = _forking(agent, config, update, thread_id)
    await aperform_alone(saver_of(graph), target, _fork(graph, config, update, as_node, target))
    return _head(config, target)


def _forking(agent: AgentOrSaver, config: RunnableConfig, update: Any, thread_id: str | None) -> tuple[Agent, str]:
    graph, source = graph_of(agent), thread_of(config)
    if update is not None and is_reader(graph):
        raise ConfigurationError(
            "A fork with an update was asked of a checkpointer, which does not know what the update means. "
            "Give the agent instead."
        )
    target = source if thread_id is None else text_of_thread(thread_id, "thread_id")
    if thread_id is not None and target == source:
        raise ConfigurationError(
            f"thread_id={target!r:.200} is the thread that is forked. Leave it out to branch within the thread, or "
            "name a new one."
        )
    return graph, target


def _fork(graph: Agent, config: RunnableConfig, update: Any, as_node: str | None, target: str) -> Steps:
    source = thread_of(config)
    snapshot: StateSnapshot = yield from read_state(graph, config)
    checkpoint_id = str(checkpoint_id_of(snapshot.config))
    if target != source:
        yield from _transplant(graph, source, target, checkpoint_id)
        if update is not None:
            yield from _update(graph, in_thread(target, checkpoint_id), update, as_node)
    elif update is not None:
        yield from _update(graph, in_thread(source, checkpoint_id), update, as_node)
    else:
        yield from _update(graph, in_thread(source, checkpoint_id), None, COPY)


def _transplant(graph: Agent, source: str, target: str, checkpoint_id: str) -> Steps:
    """A new thread that ends with a checkpoint of another, as it was before anything ran from there."""
    saver = saver_of(graph)
    facts: list[CheckpointFacts] = yield from read_tuples(saver, source, facts_of)
    kept = set(lineage(facts, checkpoint_id))
    # What subgraphs did for steps of this line; those of the last one are not begun yet.
    before = {key.checkpoint_id for key in kept} - {checkpoint_id}
    kept.update(one.key for one in facts if one.key.namespace and one.root in before)
    gone = tuple(one.key for one in facts if one.key not in kept)
    yield from storage_of(saver).copy(source, target, Removal(gone, writes=(Key("", checkpoint_id),)))


def _update(graph: Agent, config: RunnableConfig, update: Any, as_node: str | None) -> Steps:
    return (yield either(_Updating(graph), _AsyncUpdating(graph), config, update, as_node))


class _Updating:
    def __init__(self, graph: Agent) -> None:
        self._graph = graph

    def __call__(self, config: RunnableConfig, update: Any, as_node: str | None) -> RunnableConfig:
        try:
            return self._graph.update_state(config, update, as_node=as_node)
        except InvalidUpdateError as error:
            raise _refused(error, as_node, self._graph.nodes) from error


class _AsyncUpdating(_Updating):
    async def __call__(self, config: RunnableConfig, update: Any, as_node: str | None) -> RunnableConfig:  # type: ignore[override] # the async twin
        try:
            return await self._graph.aupdate_state(config, update, as_node=as_node)
        except InvalidUpdateError as error:
            raise _refused(error, as_node, self._graph.nodes) from error


def _refused(error: InvalidUpdateError, as_node: str | None, nodes: Iterable[str]) -> ConfigurationError:
    known = ", ".join(repr(name) for name in nodes if not name.startswith("__"))
    return ConfigurationError(
        f"The update of the fork was refused with as_node={as_node!r:.100}: {error!s:.300}. "
        f"Name the node it counts as, one of {known}."
    )


def rewind(
    agent: AgentOrSaver,
    config: RunnableConfig,
    *,
    to: RunnableConfig | str | None = None,
    before_message: str | None = None,
) -> RunnableConfig:
    """Take a thread back to an earlier point, from which the next run goes on.

    Nothing is deleted: a copy of the earlier checkpoint becomes the newest, and what came after it stays readable by
    its checkpoint ids (a second rewind to one of these undoes the first). What tools did in the world is not undone.

    Args:
        agent: the agent, or its checkpointer.
        config: with the thread_id.
        to: the checkpoint: its id, or its config.
        before_message: the id of a message; the thread goes back to the last point at which it was not said yet.

    Returns:
        The config to go on with: new input begins the turn anew, and None runs what was to run next at that point.

    Raises:
        CheckpointError: there is no such checkpoint or message, or nothing before it.
        ThreadBusyError: a run is at work on the thread.
        ConfigurationError: not exactly one of `to` and `before_message` is given, the agent has no checkpointer, or the
            config names no thread.
    """
    graph, thread_id = graph_of(agent), thread_of(config)
    perform_alone(saver_of(graph), thread_id, _rewind(graph, thread_id, to, before_message))
    return _head(config, thread_id)


async def arewind(
    agent: AgentOrSaver,
    config: RunnableConfig,
    *,
    to: RunnableConfig | str | None = None,
    before_message: str | None = None,
) -> RunnableConfig:
    """Async form of `rewind`."""
    graph, thread_id = graph_of(agent), thread_of(config)
    await aperform_alone(saver_of(graph), thread_id, _rewind(graph, thread_id, to, before_message))
    return _head(config, thread_id)


def _rewind(graph: Agent, thread_id: str, to: RunnableConfig | str | None, message_id: str | None) -> Steps:
    if (to is None) == (message_id is None):
        raise ConfigurationError(
            f"Expected either a checkpoint or a message to go back to; given were to={to!r:.200} and "
            f"before_message={message_id!r:.100}."
        )
    if to is not None:
        target: RunnableConfig = in_thread(thread_id, at_checkpoint(thread_id, to, "to"))
        yield from read_state(graph, target)
    else:
        target = yield from _before_message(graph, thread_id, str(message_id))
    yield from _update(graph, target, None, COPY)


def _before_message(graph: Agent, thread_id: str, message_id: str) -> Steps:
    now: StateSnapshot = yield from read_state(graph, in_thread(thread_id))
    was_there = _has_message(now, message_id)
    # Once more by its id: without one, langgraph shows also what unfinished steps wrote so far.
    snapshot: StateSnapshot | None = yield from read_state(graph, in_thread(thread_id, checkpoint_id_of(now.config)))
    while snapshot is not None:
        is_there = _has_message(snapshot, message_id)
        # An input's checkpoint holds what is about to be said, so it is past the point that is looked for.
        if was_there and not is_there and (snapshot.metadata or {}).get("source") != "input":
            return in_thread(thread_id, checkpoint_id_of(snapshot.config))
        was_there = was_there or is_there
        snapshot = yield from back_from(graph, thread_id, snapshot)
    raise CheckpointError(
        f"The thread {thread_id!r:.200} begins with the message {message_id!r:.100}, or what was before was pruned, so "
        "there is nothing to go back to. Begin a new thread."
        if was_there
        else f"The thread {thread_id!r:.200} has no message {message_id!r:.100}. Take the id from `messages`."
    )


def _has_message(snapshot: StateSnapshot, message_id: str) -> bool:
    return any(one.id == message_id for one in messages_of(snapshot))


def _head(config: RunnableConfig, thread_id: str) -> RunnableConfig:
    """The given config for the newest checkpoint of a thread."""
    names = {key: value for key, value in names_in(config).items() if not key.startswith("checkpoint_")}
    return {**config, "configurable": {**names, "thread_id": thread_id}}
