"""What every function here begins with: from what it was given to a graph, a saver, a thread id, and reads of them.

Reads are effects (see agentgraph/nodes/effects.py), so that each function has one body for sync and async code.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeAlias, TypedDict

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from agentgraph import bridge
from agentgraph.channels import MessagesChannel
from agentgraph.errors import CheckpointError, ConfigurationError, ConfigurationTypeError
from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.runs.leases import HeldThread, take_thread

__all__ = [
    "Agent",
    "AgentOrSaver",
    "Saver",
    "aperform_alone",
    "at_checkpoint",
    "checkpoint_id_of",
    "either",
    "graph_of",
    "in_thread",
    "is_reader",
    "names_in",
    "no_checkpoint",
    "no_thread",
    "perform_alone",
    "read_state",
    "read_tuples",
    "saver_of",
    "text_of_thread",
    "thread_of",
]

Agent: TypeAlias = Pregel[Any, Any, Any, Any]
"""A compiled graph with a checkpointer: what `create_agent` returns, or any other graph with `messages`."""

Saver: TypeAlias = BaseCheckpointSaver[Any]

AgentOrSaver: TypeAlias = Agent | Saver
"""A saver alone is enough where nothing but the conversation is read."""

READER = "reader"


class _Conversation(TypedDict):
    """What a graph has to know of a thread to read its messages."""

    messages: Annotated[list[AnyMessage], MessagesChannel()]


def graph_of(target: AgentOrSaver) -> Agent:
    """The agent itself, or for a saver a graph that knows how messages are kept and nothing else.

    Raises:
        ConfigurationError: the agent has no checkpointer, or what was given is neither.
    """
    if isinstance(target, Pregel):
        saver_of(target)
        return target
    builder = StateGraph(_Conversation).add_node(READER, _stand_still).add_edge(START, READER)
    reader: Agent = builder.compile(checkpointer=saver_of(target), name=READER)
    # Work that is to be sent to nodes of the agent's would be reported as unknown with each read.
    reader.channels.pop(TASKS, None)
    return reader


def _stand_still(state: _Conversation) -> dict[str, Any]:
    del state  # langgraph wants the parameter to be called so
    return {}


def is_reader(graph: Agent) -> bool:
    """Whether the graph was made here for a saver: it knows the messages, not the nodes."""
    return graph.name == READER and READER in graph.nodes


def saver_of(target: AgentOrSaver) -> Saver:
    """The saver that keeps the threads.

    Raises:
        ConfigurationError: the agent has no checkpointer of its own, or what was given is neither agent nor saver.
    """
    saver = target.checkpointer if isinstance(target, Pregel) else target
    if isinstance(saver, BaseCheckpointSaver):
        return saver
    if isinstance(target, Pregel):
        raise ConfigurationError(
            f"The agent was built with checkpointer={saver!r:.100}, so it has no threads of its own. "
            "Build it with a checkpointer, for example open_checkpointer('sqlite:///threads.db')."
        )
    raise ConfigurationTypeError(
        f"Expected an agent (a compiled graph) or a checkpoint saver; given was {type(target).__name__}."
    )


def thread_of(config: RunnableConfig) -> str:
    """The thread that a config names.

    Raises:
        ConfigurationError: it names none.
    """
    names = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(names, Mapping) or not _is_name(names.get("thread_id")):
        raise ConfigurationError(
            f"The config names no thread; expected {{'configurable': {{'thread_id': ...}}}}, given was {config!r:.200}."
        )
    return str(names["thread_id"])


def names_in(config: RunnableConfig | None) -> dict[str, Any]:
    """What a config says of the thread, the checkpoint, and whatever else can be configured; a dict of the caller's."""
    return dict((config or {}).get("configurable") or {})


def checkpoint_id_of(config: RunnableConfig | None) -> str | None:
    """The checkpoint that a config names, None for the newest."""
    named = names_in(config).get("checkpoint_id")
    return None if named is None else str(named)


def in_thread(thread_id: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config of a thread, or of one checkpoint of it.

    Raises:
        ConfigurationError: the id of the checkpoint is empty, which would stand for the newest.
    """
    if checkpoint_id == "":
        raise ConfigurationError("An empty id of a checkpoint was given. Leave it out for the newest one.")
    names = {"thread_id": thread_id, "checkpoint_ns": ""}
    return {"configurable": names if checkpoint_id is None else {**names, "checkpoint_id": checkpoint_id}}


def at_checkpoint(thread_id: str, where: RunnableConfig | str, what: str) -> str:
    """The checkpoint id in `where`, an id or a config of the same thread.

    Raises:
        ConfigurationError: it names no checkpoint, or one of another thread.
    """
    if isinstance(where, str):
        return where
    named, thread = checkpoint_id_of(where), thread_of(where)
    if named is None or thread != thread_id:
        raise ConfigurationError(
            f"{what} must be a checkpoint of the thread {thread_id!r:.100}: its id, or a config with the same "
            f"thread_id and a checkpoint_id, as `history` gives them; given was {where!r:.200}."
        )
    return named


def text_of_thread(thread_id: object, what: str) -> str:
    """The id of a thread as text.

    Raises:
        ConfigurationError: it is none, or empty.
    """
    if not _is_name(thread_id):
        raise ConfigurationError(f"{what} must be the id of a thread; given was {thread_id!r:.200}.")
    return str(thread_id)


def _is_name(thread_id: object) -> bool:
    # langgraph turns other ids into text; a config in the id's place is a mistake.
    return thread_id is not None and thread_id != "" and not isinstance(thread_id, Mapping)


def no_thread(thread_id: str) -> CheckpointError:
    """The error for a thread that is not there."""
    return CheckpointError(
        f"There is no thread {thread_id!r:.200} where this checkpointer keeps its threads. Look with list_threads."
    )


def no_checkpoint(thread_id: str, checkpoint_id: str) -> CheckpointError:
    """The error for a checkpoint that is not there."""
    return CheckpointError(
        f"The thread {thread_id!r:.200} has no checkpoint {checkpoint_id!r:.100}; it was pruned, or belongs to another "
        "thread. Look with history."
    )


def either(sync: Callable[..., Any], asynchronous: Callable[..., Awaitable[Any]] | None = None, *args: Any) -> Effect:
    """A call; async code makes the sync one in a thread where there is no async one.

    Savers over a synchronous database driver have the async methods too, but they raise NotImplementedError.
    """
    return Effect(sync, _Awaited(sync, asynchronous), args)


class _Awaited:
    def __init__(self, sync: Callable[..., Any], asynchronous: Callable[..., Awaitable[Any]] | None) -> None:
        self._sync = sync
        self._asynchronous = asynchronous

    async def __call__(self, *args: Any) -> Any:
        if self._asynchronous is not None:
            try:
                return await self._asynchronous(*args)
            except NotImplementedError:
                pass
        return await bridge.run_blocking(self._sync, *args)


def read_state(graph: Agent, config: RunnableConfig) -> Steps:
    """The snapshot that a config names.

    Raises:
        CheckpointError: there is no such thread or checkpoint.
    """
    thread_id, checkpoint_id = thread_of(config), checkpoint_id_of(config)
    # A copy, because langgraph writes into the config it is given.
    named: RunnableConfig = {**config, "configurable": names_in(config)}
    snapshot: StateSnapshot = yield either(graph.get_state, graph.aget_state, named)
    if snapshot.metadata is None:
        raise no_thread(thread_id) if checkpoint_id is None else no_checkpoint(thread_id, checkpoint_id)
    return snapshot


def read_tuples(saver: Saver, thread_id: str, digest: Callable[[CheckpointTuple], Any]) -> Steps:
    """All checkpoints of a thread, of all namespaces, each reduced at once to what is needed of it."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    return (yield either(_digests, _adigests, saver, config, digest))


def _digests(saver: Saver, config: RunnableConfig, digest: Callable[[CheckpointTuple], Any]) -> list[Any]:
    return [digest(one) for one in saver.list(config)]


async def _adigests(saver: Saver, config: RunnableConfig, digest: Callable[[CheckpointTuple], Any]) -> list[Any]:
    return [digest(one) async for one in saver.alist(config)]


def perform_alone(saver: Saver, thread_id: str, steps: Steps) -> Any:
    """Do the steps while no run is at work on the thread.

    Raises:
        ThreadBusyError: one is.
    """
    held: HeldThread = perform(take_thread(saver, thread_id, wait=False, until=None))
    try:
        return perform(steps)
    finally:
        held.release()


async def aperform_alone(saver: Saver, thread_id: str, steps: Steps) -> Any:
    """Async form of `perform_alone`."""
    held: HeldThread = await aperform(take_thread(saver, thread_id, wait=False, until=None))
    try:
        return await aperform(steps)
    finally:
        await held.arelease()
