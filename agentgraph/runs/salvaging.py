"""A new message on a thread that broke off: what was finished is kept, and what was asked is closed.

langgraph drops the results of an unfinished step when new input comes. Here they are committed first, so that a tool
that ran is never run again nor forgotten. Calls that were not finished are answered by the history's own rule
(`agentgraph.history`); calls that waited for a decision are answered here, because of these it is known that they did
not run.
"""

import uuid
import warnings
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import END
from langgraph.errors import InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, StateUpdate

from agentgraph.history import MARK, pending_calls
from agentgraph.nodes.effects import Effect, Steps
from agentgraph.plan import TOOLS_NODE
from agentgraph.runs.questions import Asked, Asking, find_asked, finished_tasks, latest, reading, settings_of

__all__ = ["atake_over", "not_run", "salvage", "take_over"]

_UNFIT = (InvalidUpdateError, TypeError, ValueError)
"""What an update raises that does not fit the state."""


def salvage(graph: Any, saver: Any, config: RunnableConfig, given: Any) -> Steps:
    """Make a thread ready for new input.

    Reads the newest checkpoint once; more is read and written only where the thread broke off.

    Args:
        graph: the compiled graph.
        saver: the thread's checkpoint saver.
        config: of the run, with the thread's id.
        given: the new input.

    Returns:
        The input, and whether the run must begin at the newest checkpoint, whatever `checkpoint_id` its config names.
    """
    newest = latest(config)
    saved: CheckpointTuple | None = yield reading(saver, newest)
    addressed = settings_of(config).get("checkpoint_id")
    if saved is None or not saved.pending_writes or (addressed and addressed != saved.checkpoint["id"]):
        # From a checkpoint further back the thread takes another way, on which nothing has been done yet.
        return given, False
    asking: Asking = yield from find_asked(saver, saved)
    if finished_tasks(saved.pending_writes):
        yield Effect(take_over, atake_over, (graph, newest))
    waiting = [one for one in asking.asked if one.is_open]
    if not waiting or not _takes_messages(given):
        return given, True
    snapshot = yield Effect(graph.get_state, graph.aget_state, (newest,))
    closed = not_run(snapshot.values.get("messages") or [], waiting)
    return (_with_first(given, closed) if closed else given), True


# As if at its end, the graph takes over the results of finished tasks and lets the others go.
_AT_ITS_END = [[StateUpdate(None, END)]]


def take_over(graph: Any, config: RunnableConfig) -> None:
    """Make the results of finished tasks a part of the state, and call the others off.

    Args:
        graph: the compiled graph, whose thread this code holds.
        config: of the thread's newest checkpoint.
    """
    try:
        CompiledStateGraph.bulk_update_state(graph, config, _AT_ITS_END)
    except _UNFIT as error:
        _warn_of(error)


async def atake_over(graph: Any, config: RunnableConfig) -> None:
    """Async form of `take_over`."""
    try:
        await CompiledStateGraph.abulk_update_state(graph, config, _AT_ITS_END)
    except _UNFIT as error:
        _warn_of(error)


def _warn_of(error: Exception) -> None:
    # Such a write, of the input that broke the run off, would else break every later run as well.
    warnings.warn(
        f"What the last run of this thread had begun to write cannot be taken over and is dropped: {error}",
        stacklevel=2,
    )


def not_run(messages: list[Any], waiting: list[Asked]) -> list[ToolMessage]:
    """Answers to the calls that are known not to have run, because the decision on them never came.

    Args:
        messages: the conversation.
        waiting: the open questions.
    """
    own = [one for one in waiting if not one.is_nested]
    # A question before the tools holds up all calls; one inside a tool may come after half of its work is done.
    holds_all = any(one.node != TOOLS_NODE for one in own)
    asked = {_approval_of(one.interrupt.value) for one in own}
    return [_closed(call) for call in pending_calls(messages) if holds_all or call["id"] in asked]


def _approval_of(value: Any) -> str | None:
    """The id of the call that an approval asks about before it runs."""
    is_approval = isinstance(value, Mapping) and value.get("type") == "tool_approval"
    return value.get("tool_call_id") if is_approval else None


def _closed(call: Any) -> ToolMessage:
    return ToolMessage(
        content=(
            f"The call of {call['name']!r} was not run: a person's decision was awaited, who went on with the "
            "conversation instead."
        ),
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
        id=str(uuid.uuid4()),
        response_metadata={MARK: {"repair": "undecided"}},
    )


def _takes_messages(given: Any) -> bool:
    return isinstance(given, Mapping) and _as_list(given.get("messages")) is not None


def _as_list(messages: Any) -> list[Any] | None:
    """Messages of an input as a list; None where there are none to add to."""
    replaces = isinstance(messages, Overwrite) or (isinstance(messages, Mapping) and "__overwrite__" in messages)
    if messages is None or replaces:
        return None
    return list(messages) if isinstance(messages, list) else [messages]


def _with_first(given: Mapping[str, Any], first: list[ToolMessage]) -> dict[str, Any]:
    return {**given, "messages": [*first, *(_as_list(given["messages"]) or ())]}
