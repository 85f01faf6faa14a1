"""Reading a thread: its messages, and its history step by step."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Interrupt, StateSnapshot

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps, aperform, perform
from agentgraph.threads.access import (
    Agent,
    AgentOrSaver,
    checkpoint_id_of,
    graph_of,
    in_thread,
    read_state,
    thread_of,
)
from agentgraph.threads.comparing import MessagesDiff, changed_fields, compare_messages, messages_of

_TOKENS = ("input_tokens", "output_tokens", "total_tokens")

__all__ = ["Step", "ToolRun", "ahistory", "amessages", "back_from", "history", "messages"]


@dataclass(frozen=True)
class ToolRun:
    """A call of a tool that was answered in a step.

    Attributes:
        name: of the tool.
        tool_call_id: of the call.
        args: what the model called it with; empty where the call is no longer in the conversation.
        status: "success" or "error".
    """

    name: str
    tool_call_id: str
    args: Mapping[str, Any]
    status: str


@dataclass(frozen=True)
class Step:
    """One checkpoint, and what was done to get to it.

    Attributes:
        thread_id: of the thread.
        checkpoint_id: of the checkpoint.
        parent_id: of the one before, None for the first and where the one before was pruned.
        number: langgraph's count; -1 is the first input.
        source: "input", "loop" (nodes ran), "update" (`update_state`) or "fork".
        created_at: when it was stored.
        nodes: which ran, one entry a task; unknown (empty) where only a saver was given.
        messages: what they did to the conversation.
        tools: calls that were answered.
        fields: names of other fields that changed.
        usage: tokens of the model, as far as providers tell: "input_tokens", "output_tokens", "total_tokens".
        duration: seconds since the checkpoint before; None where nothing ran or a person was waited for.
        interrupts: what was asked at this checkpoint.
        errors: what went wrong in tasks that began here, as text.
        next: the nodes that were to run next.
    """

    thread_id: str
    checkpoint_id: str
    parent_id: str | None
    number: int
    source: str
    created_at: datetime | None
    nodes: tuple[str, ...] = ()
    messages: MessagesDiff = field(default_factory=MessagesDiff)
    tools: tuple[ToolRun, ...] = ()
    fields: tuple[str, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    duration: float | None = None
    interrupts: tuple[Interrupt, ...] = ()
    errors: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    @property
    def config(self) -> RunnableConfig:
        """The checkpoint as a config: for `fork`, `rewind`, `diff`, and langgraph's `get_state`."""
        return in_thread(self.thread_id, self.checkpoint_id)


def messages(agent: AgentOrSaver, config: RunnableConfig) -> list[AnyMessage]:
    """The conversation of a thread.

    Args:
        agent: the agent, or its checkpointer.
        config: with a thread_id, and a checkpoint_id for the conversation as it was there.

    Returns:
        All messages, the oldest first.

    Raises:
        CheckpointError: there is no such thread or checkpoint, or it cannot be read.
        ConfigurationError: the agent has no checkpointer, or the config names no thread.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.persistence import open_checkpointer
        >>> from agentgraph.testing import ScriptedModel
        >>> agent = create_agent(ScriptedModel(replies=["Hello!"]), checkpointer=open_checkpointer("memory://"))
        >>> thread = {"configurable": {"thread_id": "1"}}
        >>> _ = agent.invoke({"messages": "hi"}, thread)
        >>> [message.text for message in messages(agent, thread)]
        ['hi', 'Hello!']
    """
    found: list[AnyMessage] = perform(_messages(graph_of(agent), config))
    return found


async def amessages(agent: AgentOrSaver, config: RunnableConfig) -> list[AnyMessage]:
    """Async form of `messages`."""
    found: list[AnyMessage] = await aperform(_messages(graph_of(agent), config))
    return found


def _messages(graph: Agent, config: RunnableConfig) -> Steps:
    snapshot: StateSnapshot = yield from read_state(graph, config)
    return messages_of(snapshot)


def history(agent: AgentOrSaver, config: RunnableConfig, *, limit: int | None = 100) -> list[Step]:
    """What was done on a thread, step by step, in the order of time.

    It is the line of checkpoints that leads to the newest one, or to the one the config names: what a fork or a rewind
    left behind is no part of it. Each step is read from its checkpoint, so a long history takes its time.

    Args:
        agent: the agent; or its checkpointer, which does not know which nodes ran.
        config: with a thread_id, and a checkpoint_id to end there.
        limit: how many steps at most, the last ones; None for all. Default 100.

    Returns:
        The steps, the oldest first.

    Raises:
        CheckpointError: there is no such thread or checkpoint, or it cannot be read.
        ConfigurationError: the agent has no checkpointer, or the config names no thread.
    """
    found: list[Step] = perform(_history(graph_of(agent), config, limit))
    return found


async def ahistory(agent: AgentOrSaver, config: RunnableConfig, *, limit: int | None = 100) -> list[Step]:
    """Async form of `history`."""
    found: list[Step] = await aperform(_history(graph_of(agent), config, limit))
    return found


def _history(graph: Agent, config: RunnableConfig, limit: int | None) -> Steps:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigurationError(f"limit={limit!r:.100} was given; expected a number of steps from 1 up, or None.")
    thread_id = thread_of(config)
    snapshot: StateSnapshot | None = yield from read_state(graph, config)
    # Once more by its id: without one, langgraph shows how things stand now, with what unfinished steps wrote so far.
    snapshot = yield from read_state(graph, in_thread(thread_id, checkpoint_id_of(_config_of(snapshot))))
    steps: list[Step] = []
    while snapshot is not None and (limit is None or len(steps) < limit):
        before: StateSnapshot | None = yield from back_from(graph, thread_id, snapshot)
        steps.append(_step(thread_id, before, snapshot))
        snapshot = before
    return steps[::-1]


def _config_of(snapshot: StateSnapshot | None) -> RunnableConfig | None:
    return None if snapshot is None else snapshot.config


def back_from(graph: Agent, thread_id: str, snapshot: StateSnapshot) -> Steps:
    """The snapshot before one, None where it is the first."""
    parent = checkpoint_id_of(snapshot.parent_config)
    return None if parent is None else (yield from read_state(graph, in_thread(thread_id, parent)))


def _step(thread_id: str, before: StateSnapshot | None, after: StateSnapshot) -> Step:
    metadata: Mapping[str, Any] = after.metadata or {}
    source = str(metadata.get("source", "loop"))
    was = [] if before is None else messages_of(before)
    now = messages_of(after)
    difference = compare_messages(was, now)
    # A fork is a copy of its sibling: what ran to get there is that one's doing.
    ran = () if before is None or source == "fork" else tuple(t.name for t in before.tasks if t.result is not None)
    return Step(
        thread_id=thread_id,
        checkpoint_id=str(checkpoint_id_of(after.config)),
        parent_id=checkpoint_id_of(after.parent_config),
        number=int(metadata.get("step", -1)),
        source=source,
        created_at=_time(after),
        nodes=ran,
        messages=difference,
        tools=tuple(_tool_run(one, now) for one in difference.added if isinstance(one, ToolMessage)),
        fields=() if before is None else tuple(changed_fields(before.values, after.values)),
        usage=_usage(difference.added),
        duration=_duration(before, after) if source == "loop" and ran else None,
        interrupts=tuple(after.interrupts),
        errors=tuple(str(task.error) for task in after.tasks if task.error is not None),
        next=after.next,
    )


def _time(snapshot: StateSnapshot) -> datetime | None:
    try:
        return None if snapshot.created_at is None else datetime.fromisoformat(snapshot.created_at)
    except ValueError:
        return None


def _duration(before: StateSnapshot | None, after: StateSnapshot) -> float | None:
    began, ended = None if before is None else _time(before), _time(after)
    if before is None or began is None or ended is None or before.interrupts:
        return None
    return (ended - began).total_seconds()


def _usage(added: tuple[BaseMessage, ...]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for message in added:
        if isinstance(message, AIMessage) and message.usage_metadata is not None:
            counted: Mapping[str, Any] = message.usage_metadata
            total.update({name: int(counted.get(name) or 0) for name in _TOKENS})
    return dict(total)


def _tool_run(answer: ToolMessage, conversation: list[BaseMessage]) -> ToolRun:
    calls = [call for one in conversation if isinstance(one, AIMessage) for call in one.tool_calls]
    # The same id may come again in a later turn; the answer is to the last call before it, which is the last so far.
    call = next((call for call in reversed(calls) if call["id"] == answer.tool_call_id), None)
    name = answer.name or (call["name"] if call else "unknown")
    return ToolRun(name, answer.tool_call_id, call["args"] if call else {}, answer.status)
