"""How a run ended: read from types and marks, never guessed from text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.types import GraphOutput, Interrupt, StateSnapshot

from agentgraph.errors import ConfigurationTypeError, DeadlineError, RunCancelledError
from agentgraph.history import MARK, last_ai_message, pending_calls

__all__ = ["LIMIT_KEY", "Outcome", "OutcomeKind", "outcome"]

OutcomeKind = Literal["answer", "interrupt", "limit", "cancelled", "error", "unfinished"]
"""How a run ended, or stands."""

LIMIT_KEY = "limit"
"""Where a limit that ends a run says so: `response_metadata={"agentgraph": {"limit": "<which>"}}` of its message."""

_LIMIT_ERROR = "CallLimitExceededError"


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        kind: "answer": the model, or a tool that answers directly, gave the final answer. "interrupt": it waits for
            people. "limit": a limit ended it (of steps, calls, time). "cancelled": it was asked to end. "error": it
            failed. "unfinished": it stands in the middle, for instance after a crash; invoke with None to go on.
        text: the final text, where there is one.
        structured_response: the structured answer, where there is one.
        questions: what it asks, where it waits.
        reason: which limit, why it was cancelled, what failed.
        error: the exception, where one ended it.
        next: the nodes that would run next, where it is read from a snapshot.
    """

    kind: OutcomeKind
    text: str | None = None
    structured_response: Any = None
    questions: tuple[Interrupt[Any], ...] = ()
    reason: str | None = None
    error: BaseException | None = None
    next: tuple[str, ...] = ()


def outcome(result: Any) -> Outcome:
    """How a run ended.

    Args:
        result: what `invoke` returned, what it raised, or what `get_state` shows of the thread.

    Raises:
        ConfigurationTypeError: it is none of these.

    Example:
        >>> outcome({"messages": [AIMessage("Sunny.")]}).kind
        'answer'
    """
    if isinstance(result, BaseException):
        return _of_error(result)
    if isinstance(result, StateSnapshot):
        return _of_snapshot(result)
    if isinstance(result, GraphOutput):
        return _of_state(result.value, tuple(result.interrupts))
    if isinstance(result, Mapping):
        return _of_state(result, tuple(result.get("__interrupt__") or ()))
    raise ConfigurationTypeError(
        f"{type(result).__name__} says nothing about how a run ended; expected was the result of `invoke`, the "
        "exception it raised, or a snapshot of `get_state`."
    )


def _of_error(error: BaseException) -> Outcome:
    text = f"{type(error).__name__}: {error!s:.500}"
    if isinstance(error, GraphRecursionError | DeadlineError) or _is_call_limit(error):
        return Outcome("limit", reason=text, error=error)
    if isinstance(error, RunCancelledError | GraphDrained):
        return Outcome("cancelled", reason=error.reason or text, error=error)
    # asyncio.CancelledError and KeyboardInterrupt: the world asked the run to end.
    kind: OutcomeKind = "error" if isinstance(error, Exception) else "cancelled"
    return Outcome(kind, reason=text, error=error)


def _is_call_limit(error: BaseException) -> bool:
    """The catalogue's limits are above this room, so they are known by their names."""
    return any(cls.__name__.endswith(_LIMIT_ERROR) for cls in type(error).__mro__)


def _of_snapshot(snapshot: StateSnapshot) -> Outcome:
    values = snapshot.values if isinstance(snapshot.values, Mapping) else {}
    if snapshot.interrupts:
        return Outcome("interrupt", questions=tuple(snapshot.interrupts), next=tuple(snapshot.next))
    failed = next((task for task in snapshot.tasks if task.error is not None), None)
    if failed is not None:
        return Outcome("error", reason=f"{failed.name}: {failed.error!s:.500}", next=tuple(snapshot.next))
    if snapshot.next:
        return Outcome("unfinished", next=tuple(snapshot.next))
    return _of_state(values, ())


def _of_state(state: Any, questions: tuple[Interrupt[Any], ...]) -> Outcome:
    if questions:
        return Outcome("interrupt", questions=questions)
    messages: Sequence[Any] = state.get("messages") or () if isinstance(state, Mapping) else ()
    structured = state.get("structured_response") if isinstance(state, Mapping) else None
    last = messages[-1] if messages else None
    limit = _limit_of(last)
    text = last.text if isinstance(last, AIMessage | ToolMessage) else None
    if limit is not None:
        return Outcome("limit", text=text, structured_response=structured, reason=limit)
    if structured is not None:
        return Outcome("answer", text=text, structured_response=structured)
    if text is None or last_ai_message(messages) is None or pending_calls(messages):
        return Outcome("unfinished", text=text)
    return Outcome("answer", text=text)


def _limit_of(message: Any) -> str | None:
    mark = message.response_metadata.get(MARK) if isinstance(message, BaseMessage) else None
    limit = mark.get(LIMIT_KEY) if isinstance(mark, dict) else None
    return None if limit is None else str(limit)
