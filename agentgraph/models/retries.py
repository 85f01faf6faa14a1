"""Whether, and after how long, a request is sent again: pure decisions. The transport sleeps.

One budget holds for a call, whatever happens in it; the error that is raised at its end says how often the request was
sent (`attempts`), so that an outer retry need not multiply it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from agentgraph.errors import ConfigurationError, ModelError

__all__ = ["RETRYABLE_STATUSES", "RetryBudget", "retry_after", "should_retry"]

RETRYABLE_STATUSES: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_FIRST_WAIT: Final = 0.5
_LONGEST_BACKOFF: Final = 8.0
_JITTER: Final = 0.25
_LONGEST_JITTER: Final = 5.0
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{0,12})?")


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the server's own word (`x-should-retry`), None when it gave none.

    Args:
        headers: the answer's headers with lower-case names.
    """
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds that the server asked to wait, at least 0, None when it did not ask or cannot be understood.

    `retry-after-ms` goes before `Retry-After` in seconds (also fractions), that before a date (RFC 9110, 10.2.3).

    Args:
        headers: the answer's headers with lower-case names.
        now: seconds since the epoch.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return max(float(milliseconds) / 1000, 0.0)
    value = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(value):
        return max(float(value), 0.0)
    # What looks like a number and is none must not reach the date parser, which reads "2026" as a year.
    return _seconds_until(value, now) if re.search("[A-Za-z]{3}", value) else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - now, 0.0)


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often and how long one call may wait.

    Attributes:
        max_retries: further attempts after the first.
        max_wait: seconds; a server that asks for more is not waited for.
        random: a number of [0, 1) for the jitter.
    """

    max_retries: int
    max_wait: float
    random: Callable[[], float]

    def __post_init__(self) -> None:
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int) or self.max_retries < 0:
            raise ConfigurationError(f"max_retries is {self.max_retries!r}. Expected a whole number of at least 0.")
        if isinstance(self.max_wait, bool) or not isinstance(self.max_wait, int | float) or not self.max_wait >= 0:
            raise ConfigurationError(f"max_retry_wait is {self.max_wait!r}. Expected seconds, a number of at least 0.")

    def wait_before_next(self, error: BaseException, attempts: int, time_left: float | None = None) -> float | None:
        """Return the seconds to wait before the next attempt, None to give up.

        Jitter goes upwards only: a server that said when is never asked sooner.

        Args:
            error: why the last attempt failed.
            attempts: attempts made until now, at least 1.
            time_left: seconds until the call's total limit, None without one.
        """
        if not isinstance(error, ModelError) or not error.retryable or attempts > self.max_retries:
            return None
        asked = error.retry_after
        if asked is not None and asked > self.max_wait:
            return None
        backoff = min(_FIRST_WAIT * 2.0 ** (attempts - 1), _LONGEST_BACKOFF, self.max_wait)
        base = backoff if asked is None else asked
        wait = base + self.random() * min(_JITTER * max(base, backoff), _LONGEST_JITTER)
        return wait if time_left is None or wait < time_left else None
