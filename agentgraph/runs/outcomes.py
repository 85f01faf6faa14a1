"""How a run ended: read from types and marks, never guessed from text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.types import GraphOutput, Interrupt, StateSnapshot

from agentgraph.errors import ConfigurationTypeError, DeadlineError, RunCancelledError
from agentgraph.history import MARK, last_ai_message, pending_calls

__all__ = ["LIMIT_KEY", "Outcome", "OutcomeKind", "outcome", "unfinished_nodes"]

OutcomeKind = Literal["answer", "interrupt", "limit", "cancelled", "error", "unfinished"]
"""How a run ended, or stands."""

LIMIT_KEY = "limit"
"""Where a limit that ends a run says so: `response_metadata={"agentgraph": {"limit": "<which>"}}` of its message."""

_LIMIT_ERROR = "CallLimitExceededError"

_ENDINGS = ("CancelledError(", "NodeCancelledError(", "KeyboardInterrupt(", "SystemExit(", "GeneratorExit(")
"""How the stored error of a task begins that was made to end: langgraph keeps no more of an exception than its repr."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        kind: "answer": the model, or a tool that answers directly, gave the final answer. "interrupt": it waits for
            people. "limit": a limit ended it (of steps, calls, time). "cancelled": it was asked to end. "error": it
            failed. "unfinished": it stands in the middle, for instance after a crash; invoke with None to go on. A
            snapshot of a run that was cancelled or out of time is "unfinished" as well: it does not tell why.
        text: the final text, where there is one.
        structured_response: the structured answer, where there is one.
        questions: what it asks, where it waits.
        reason: which limit, why it was cancelled, what failed.
        error: the exception, where one ended it.
        next: the nodes whose step is not over, where it is read from a snapshot: those that would run next, or, where
            all have run, those whose results are stored, but no part of the state yet.
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

    Returns:
        Its `kind` is "answer", "interrupt" (a person is asked), "limit" (steps, time or calls are used up),
        "cancelled", "error", or "unfinished" (a snapshot whose next step has not run).

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
    nodes = unfinished_nodes(snapshot)
    if snapshot.interrupts:
        return Outcome("interrupt", questions=tuple(snapshot.interrupts), next=nodes)
    # A task may have failed, or been cancelled, and have its result all the same: then that is what it came to.
    broken = [task for task in snapshot.tasks if task.error is not None and task.result is None]
    failed = [task for task in broken if not _was_ended(task.error)]
    if broken:
        # A task that failed has its neighbours cancelled, so it says more than they do.
        telling = (failed or broken)[0]
        kind: OutcomeKind = "error" if failed else "unfinished"
        return Outcome(kind, reason=f"{telling.name}: {telling.error!s:.500}", next=nodes)
    if nodes:
        return Outcome("unfinished", next=nodes)
    return _of_state(values, ())


def _was_ended(error: Any) -> bool:
    """Whether a task's error says that it was made to end, and not that it failed."""
    return (error if isinstance(error, str) else repr(error)).startswith(_ENDINGS)


def unfinished_nodes(snapshot: StateSnapshot) -> tuple[str, ...]:
    """The nodes whose step is not over, one entry a task; empty for a thread at rest.

    `snapshot.next` has only those that have no result yet. Where all have theirs, and the process died before it stored
    the checkpoint that they lead to, it is empty, and the thread is not at rest.

    Args:
        snapshot: of the thread.
    """
    return tuple(snapshot.next) or tuple(task.name for task in snapshot.tasks)


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
