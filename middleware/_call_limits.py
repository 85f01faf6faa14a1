"""What the limits of calls have in common: their two numbers, how they are told, and how a run ends by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError
from agentgraph.history import MARK, check

__all__ = ["CallLimitExceededError", "Limits", "check_exit_behavior", "closing"]


@dataclass(frozen=True)
class Limits:
    """How many calls are let through.

    Attributes:
        thread: over all runs on the thread; None for any number.
        run: in one run; None for any number.
        what: the calls, for texts, e.g. "model calls".
        key: the calls, for programs, e.g. "model_calls".
    """

    thread: int | None
    run: int | None
    what: str
    key: str

    def __post_init__(self) -> None:
        if self.thread is None and self.run is None:
            raise ConfigurationError(
                "Neither thread_limit nor run_limit was given, so nothing would be limited; expected was a whole "
                "number for at least one of them."
            )
        _check_number("thread_limit", self.thread)
        _check_number("run_limit", self.run)

    def room(self, thread_count: int, run_count: int) -> int:
        """How many more calls are let through."""
        pairs = ((self.thread, thread_count), (self.run, run_count))
        return max(0, min(limit - count for limit, count in pairs if limit is not None))

    def exceeded(self, thread_count: int) -> str:
        """Which limit is exceeded, for programs; the thread's where both are, because it outlasts the run."""
        by_thread = _exceeds(thread_count, self.thread)
        return f"{'thread' if by_thread else 'run'}_{self.key}"

    def told(self, thread_count: int, run_count: int) -> str:
        """Which limits are exceeded, for people; the counts include the calls that are not let through."""
        thread = f"{self.thread} in this conversation" if _exceeds(thread_count, self.thread) else ""
        run = f"{self.run} in one run" if _exceeds(run_count, self.run) else ""
        return f"The limit of {self.what} is reached: {' and '.join(one for one in (thread, run) if one)}."


class CallLimitExceededError(RunError):
    """A limit of calls ended the run.

    Attributes:
        thread_count: calls on the thread, those that were wanted included.
        run_count: the same in this run.
        thread_limit: of the thread, None where there is none.
        run_limit: of one run, None where there is none.
    """

    def __init__(
        self, text: str, thread_count: int, run_count: int, thread_limit: int | None, run_limit: int | None
    ) -> None:
        super().__init__(f"{text} ({thread_count} on the thread, {run_count} in this run)")
        self.thread_count = thread_count
        self.run_count = run_count
        self.thread_limit = thread_limit
        self.run_limit = run_limit


def check_exit_behavior(given: Any, known: Sequence[str]) -> None:
    """Refuse what is no way to end.

    Raises:
        ConfigurationError: it is none of the known ones.
    """
    if given not in known:
        raise ConfigurationError(f"exit_behavior is {repr(given)[:200]}; expected was one of {', '.join(known)}.")


def closing(messages: Sequence[Any], answers: Sequence[ToolMessage], text: str, which: str) -> list[Any]:
    """What to write to `messages` so that a run ends by a limit, and the thread can be used on.

    Args:
        messages: the history so far.
        answers: to the calls that are not run.
        text: of the last message, for people.
        which: the limit, for programs.
    """
    last = AIMessage(text, response_metadata={MARK: {"limit": which}})
    # No model node comes after this one that would mend what else is open, such as calls that could not be read.
    return [*answers, *check([*messages, *answers]).update, last]


def _exceeds(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit


def _check_number(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationTypeError(f"{name} is {repr(value)[:200]}; expected was a whole number of calls, or None.")
    if value < 0:
        raise ConfigurationError(f"{name} is {value}; expected was 0 or more calls, or None for any number.")
