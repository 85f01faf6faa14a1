"""Whether, and after how long, a failed call is made again: pure decisions, shared by the entries that retry."""

import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from langchain_core.exceptions import ModelError as CoreModelError
from langchain_core.tools import BaseTool

from agentgraph.errors import (
    CheckpointError,
    ConfigurationError,
    ConfigurationTypeError,
    DeadlineError,
    ModelError,
    RunCancelledError,
    ThreadBusyError,
)

__all__ = [
    "OnFailure",
    "RetryOn",
    "RetryPolicy",
    "answer_of",
    "bounded",
    "in_new_words",
    "may_succeed_later",
    "names_of",
    "said",
]

RetryOn: TypeAlias = tuple[type[Exception], ...] | type[Exception] | Callable[[Exception], bool]
"""What is tried again: types of exceptions, or a function that says so of one; quick and without I/O."""

OnFailure: TypeAlias = Literal["continue", "error"] | Callable[[Exception], str]
"""What happens at the end of all tries: "continue", "error", or a function that gives the text; without I/O."""

JITTER = 0.25
TEXT_LIMIT = 2_000
"""The longest text of an error that goes into a message, in characters."""

_NEVER = (CheckpointError, ConfigurationError, DeadlineError, RunCancelledError, ThreadBusyError)


def may_succeed_later(error: Exception) -> bool:
    """The default of `retry_on`: a model's error as far as it says so itself, and every other that may be of a moment.

    Args:
        error: what the call raised.

    Example:
        >>> may_succeed_later(TimeoutError()), may_succeed_later(ConfigurationError("no such tool"))
        (True, False)
    """
    if isinstance(error, ModelError):
        return error.retryable
    if isinstance(error, CoreModelError):
        return bool(error.is_retryable)
    return not isinstance(error, _NEVER)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a call is made again, for which errors, and how long is waited before.

    Attributes:
        max_retries: further tries after the first.
        retry_on: which errors are tried again.
        on_failure: what happens after the last try.
        backoff_factor: each wait is this many times the one before; 0 for waits that stay the same.
        initial_delay: the first wait, in seconds.
        max_delay: the longest wait, in seconds.
        jitter: whether waits vary by a quarter, so that clients which failed together do not come back together.

    Raises:
        ConfigurationError: one of them cannot work.

    Example:
        >>> policy = RetryPolicy(max_retries=3, backoff_factor=3, max_delay=5, jitter=False)
        >>> [policy.wait(TimeoutError(), retry) for retry in range(3)]
        [1.0, 3.0, 5.0]
    """

    max_retries: int = 2
    retry_on: RetryOn = may_succeed_later
    on_failure: OnFailure = "continue"
    backoff_factor: float = 2.0
    initial_delay: float = 1.0
    max_delay: float = 60.0
    jitter: bool = True

    def __post_init__(self) -> None:
        _check_count(self.max_retries)
        for name in ("backoff_factor", "initial_delay", "max_delay"):
            _check_amount(name, getattr(self, name))
        _check_retry_on(self.retry_on)
        _check_on_failure(self.on_failure)
        if not isinstance(self.jitter, bool):
            raise ConfigurationTypeError(f"jitter is {bounded(repr(self.jitter), 100)}; expected was True or False.")

    @property
    def has_own_choice(self) -> bool:
        """Whether somebody chose which errors are tried again."""
        return self.retry_on is not may_succeed_later

    def handles(self, error: Exception) -> bool:
        """Whether an error is one of those that are tried again."""
        if isinstance(self.retry_on, tuple | type):
            return isinstance(error, self.retry_on)
        return bool(self.retry_on(error))

    def wait(
        self, error: Exception, retry: int, *, uniform: Callable[[float, float], float] = random.uniform
    ) -> float | None:
        """The seconds to wait before a retry, None to give up.

        A server that said when (`retry_after` of the error) is not asked sooner. One that asks for more than
        `max_delay` is not waited for: to come too early would be of no use.

        Args:
            error: why the last try failed.
            retry: the number of the retry, from 0.
            uniform: a random number between two.
        """
        if retry >= self.max_retries:
            return None
        backoff = self._backoff(retry)
        asked = _asked(error)
        if asked is not None and asked > self.max_delay:
            return None
        spread = JITTER if self.jitter else 0.0
        if asked is not None and asked >= backoff:
            low, high = asked, asked * (1 + spread)
        else:
            low, high = max(backoff * (1 - spread), asked or 0.0), backoff * (1 + spread)
        high = min(high, self.max_delay)
        return uniform(low, high) if low < high else low

    def _backoff(self, retry: int) -> float:
        if not self.initial_delay:
            return 0.0
        try:
            grown = self.initial_delay * (self.backoff_factor**retry if self.backoff_factor else 1.0)
        except OverflowError:
            grown = math.inf
        return float(min(grown, self.max_delay))


def _asked(error: Exception) -> float | None:
    """The seconds that a server asked to wait, where the error says so in a way that can be understood."""
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        return None
    return float(asked) if asked >= 0 else None


def in_new_words(on_failure: OnFailure | str) -> OnFailure:
    """What is meant by `on_failure`, which had other words once."""
    new = {"raise": "error", "return_message": "continue"}.get(on_failure) if isinstance(on_failure, str) else None
    if new is not None:
        warnings.warn(f"on_failure={on_failure!r} is now called {new!r}.", DeprecationWarning, stacklevel=3)
    return cast("OnFailure", new or on_failure)


def answer_of(on_failure: Callable[[Exception], str], error: Exception) -> str:
    """What a user's function makes of an error.

    Raises:
        ConfigurationTypeError: it gave no text.
    """
    text = on_failure(error)
    if isinstance(text, str):
        return text
    if inspect.iscoroutine(text):
        text.close()
    raise ConfigurationTypeError(
        f"on_failure {bounded(repr(on_failure), 100)} gave {type(text).__name__}; expected was a text."
    ) from error


def names_of(tools: Any) -> frozenset[str] | None:
    """The names that a `tools` argument gives; None for all tools.

    Raises:
        ConfigurationTypeError: it is no list of names and tools.
    """
    if tools is None:
        return None
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise ConfigurationTypeError(f"tools is {bounded(repr(tools), 100)}; expected was a list of tools and names.")
    return frozenset(map(_name_of, tools))


def _name_of(tool: Any) -> str:
    if isinstance(tool, str):
        return tool
    # A plain function becomes a tool of its name.
    name = tool.name if isinstance(tool, BaseTool) else getattr(tool, "__name__", None)
    if isinstance(name, str) and not isinstance(tool, type):
        return name
    raise ConfigurationTypeError(
        f"tools holds {bounded(repr(tool), 100)}; expected was a tool, a function given as a tool, or a name."
    )


def said(error: Exception) -> str:
    """The text of an error, bounded."""
    try:
        return bounded(str(error))
    except Exception:  # noqa: BLE001 - an error whose text cannot be made must not hide that there was one
        return ""


def bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    """A text cut at a limit of characters."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def _check_count(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationTypeError(f"max_retries is {bounded(repr(value), 100)}; expected was a whole number.")
    if value < 0:
        raise ConfigurationError(f"max_retries is {value}; expected was at least 0, which means one try.")


def _check_amount(name: str, value: Any) -> None:
    what = "a factor" if name == "backoff_factor" else "seconds"
    expected = f"expected was {what}, a number of at least 0."
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationTypeError(f"{name} is {bounded(repr(value), 100)}; {expected}")
    if not 0 <= value < math.inf:
        raise ConfigurationError(f"{name} is {value}; {expected}")


def _check_retry_on(value: Any) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if not isinstance(value, tuple | type) and callable(value) and not inspect.iscoroutinefunction(value):
        return
    wrong = [one for one in kinds if not (isinstance(one, type) and issubclass(one, Exception))]
    if wrong:
        raise ConfigurationTypeError(
            f"retry_on holds {bounded(repr(wrong[0]), 100)}; expected was a tuple of types of exceptions, or a plain "
            "function that takes an exception and says whether to try again."
        )


def _check_on_failure(value: Any) -> None:
    if isinstance(value, str):
        if value not in {"continue", "error"}:
            raise ConfigurationError(
                f"on_failure is {bounded(repr(value), 100)}; expected was 'continue', 'error' or a function."
            )
    elif not callable(value) or inspect.iscoroutinefunction(value) or isinstance(value, type):
        raise ConfigurationTypeError(
            f"on_failure is {bounded(repr(value), 100)}; expected was 'continue', 'error', or a plain function that "
            "takes the exception and gives a text."
        )
