"""What differs between two states of a thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.types import StateSnapshot

from agentgraph.nodes.effects import Steps, aperform, perform
from agentgraph.threads.access import Agent, AgentOrSaver, graph_of, read_state

__all__ = [
    "FieldChange",
    "MessageChange",
    "MessagesDiff",
    "ThreadDiff",
    "adiff",
    "changed_fields",
    "compare_messages",
    "diff",
    "messages_of",
]


@dataclass(frozen=True)
class MessageChange:
    """A message that another one of the same id took the place of."""

    before: BaseMessage
    after: BaseMessage


@dataclass(frozen=True)
class MessagesDiff:
    """What differs between two conversations; messages are told apart by their ids.

    Attributes:
        added: messages that only the second has, in its order.
        removed: messages that only the first has, in its order.
        changed: messages of both that are not equal.
    """

    added: tuple[BaseMessage, ...] = ()
    removed: tuple[BaseMessage, ...] = ()
    changed: tuple[MessageChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class FieldChange:
    """A field of the state that is not the same.

    Attributes:
        before: its value in the first state, None where it had none.
        after: its value in the second.
    """

    before: Any
    after: Any


@dataclass(frozen=True)
class ThreadDiff:
    """What differs between two checkpoints.

    Attributes:
        messages: in the conversation.
        fields: in the other fields of the state, by name; only those that differ.
    """

    messages: MessagesDiff
    fields: Mapping[str, FieldChange]

    def __bool__(self) -> bool:
        return bool(self.messages or self.fields)


def diff(agent: AgentOrSaver, a: RunnableConfig, b: RunnableConfig) -> ThreadDiff:
    """What leads from one checkpoint to another. They may be of two threads.

    Args:
        agent: the agent, or its checkpointer, which knows of the messages only.
        a: a config with a thread_id, and a checkpoint_id for any but the newest checkpoint.
        b: likewise.

    Returns:
        What is in `b` and not in `a` as added, and so on; false where nothing differs.

    Raises:
        CheckpointError: there is no such thread or checkpoint, or it cannot be read.
        ConfigurationError: the agent has no checkpointer, or a config names no thread.
    """
    found: ThreadDiff = perform(_diff(graph_of(agent), a, b))
    return found


async def adiff(agent: AgentOrSaver, a: RunnableConfig, b: RunnableConfig) -> ThreadDiff:
    """Async form of `diff`."""
    found: ThreadDiff = await aperform(_diff(graph_of(agent), a, b))
    return found


def _diff(graph: Agent, a: RunnableConfig, b: RunnableConfig) -> Steps:
    before: StateSnapshot = yield from read_state(graph, a)
    after: StateSnapshot = yield from read_state(graph, b)
    return ThreadDiff(
        compare_messages(messages_of(before), messages_of(after)), changed_fields(before.values, after.values)
    )


def messages_of(snapshot: StateSnapshot) -> list[BaseMessage]:
    """The conversation in a snapshot."""
    found = snapshot.values.get("messages", ()) if isinstance(snapshot.values, Mapping) else ()
    return [one for one in found if isinstance(one, BaseMessage)] if isinstance(found, list | tuple) else []


def compare_messages(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> MessagesDiff:
    """What differs between two conversations."""
    old, new = {one.id: one for one in before}, {one.id: one for one in after}
    return MessagesDiff(
        added=tuple(one for one in after if one.id not in old),
        removed=tuple(one for one in before if one.id not in new),
        changed=tuple(
            MessageChange(old[one.id], one) for one in after if one.id in old and not _same(old[one.id], one)
        ),
    )


def changed_fields(before: Any, after: Any) -> dict[str, FieldChange]:
    """The fields but `messages` that are not the same in two states."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return {}
    names = [name for name in dict.fromkeys([*before, *after]) if name != "messages"]
    return {
        name: FieldChange(before.get(name), after.get(name))
        for name in names
        if not _same(before.get(name), after.get(name))
    }


def _same(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(a == b)
    except GraphBubbleUp:
        raise
    except Exception:  # noqa: BLE001 - values of a user's own, such as arrays, need not compare to a truth value
        return False
