"""What all attempts of one call share, its limits, and the names of its failures. No I/O.

The HTTP library is not named here: a client is whatever has `build_request` and `send` (httpx, httpx2, a subclass of
the user's), and its errors are those of its own module.
"""

import asyncio
import json
import math
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic import SecretStr

from agentgraph.errors import (
    ConfigurationError,
    ConfigurationTypeError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
)
from agentgraph.models.answers import AnswerReader
from agentgraph.models.failures import Origin, invalid_response

__all__ = ["Call", "Clock", "Timeouts", "broken", "encoded", "library_errors", "secret_header", "shortest"]

# httpx and httpx2 give every part five seconds, which no model keeps; a client that has just that was given no limit.
_LIBRARY_DEFAULT: Final = 5.0
# Seconds that no clock of the system takes, infinity among them: they are meant as no limit.
_ENDLESS: Final = 1e9
_LASTING: Final = frozenset(
    {"InvalidURL", "LocalProtocolError", "UnicodeEncodeError", "UnicodeError", "UnsupportedProtocol"}
)
_TIMEOUTS: Final[Mapping[str, str]] = {
    "ConnectTimeout": "no connection within the connect limit",
    "ReadTimeout": "not a byte came within the read limit",
    "WriteTimeout": "the request was not taken within the write limit",
    "PoolTimeout": "no connection of the client became free within the pool limit",
}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a call may take, part by part, in seconds; None, and what no one lives to see, is no limit.

    Attributes:
        connect: until the connection, with TLS, is there.
        write: for each piece of the request.
        pool: until one of the client's connections is free.
        read: without a single byte of the answer.
        first_event: from the answer's headers to the first event of a stream; also the limit until the headers.
            Comments and pings are no events.
        between_events: from one event of a stream to the next.
        total: the whole call with all its attempts and waits.
    """

    connect: float | None = 5.0
    write: float | None = 60.0
    pool: float | None = 600.0
    read: float | None = 600.0
    first_event: float | None = 120.0
    between_events: float | None = 120.0
    total: float | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise ConfigurationError(
                    f"The limit {name!r} is {value!r}. Expected seconds as a number above 0, or None for no limit."
                )
            if value is not None and value >= _ENDLESS:
                object.__setattr__(self, name, None)

    @classmethod
    def of(cls, given: "Timeouts | float") -> "Timeouts":
        """Return the limits that a number stands for, as it is given to a chat model (`timeout=30`).

        The number is the limit of silence: of the answer's bytes, its first event, and between two events. Connecting
        and writing take no longer than that either; waiting for a connection of one's own client is not the server's
        silence.

        Args:
            given: seconds, or limits, which are returned as they are.

        Raises:
            ConfigurationError: it is neither.
        """
        if isinstance(given, Timeouts):
            return given
        if not _is_number(given) or given <= 0:
            raise ConfigurationError(f"timeout is {given!r}. Expected seconds as a number above 0, or Timeouts.")
        default = cls()
        return cls(
            connect=shortest(default.connect, given),
            write=shortest(default.write, given),
            read=given,
            first_event=given,
            between_events=given,
        )

    @classmethod
    def for_client(cls, client: Any) -> "Timeouts":
        """Return the defaults, with the four limits of a user's client where it was given others than its library's.

        Args:
            client: a client of httpx or of its like, None without one.
        """
        own = getattr(client, "timeout", None)
        given = tuple(getattr(own, part, _LIBRARY_DEFAULT) for part in ("connect", "write", "pool", "read"))
        return cls() if set(given) == {_LIBRARY_DEFAULT} else cls(*given)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, so that tests need neither wait nor be lucky."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """What all attempts of one call share.

    Attributes:
        url: the full URL, with its secrets.
        content: the request's body.
        headers: makes the request's headers, with their secrets, at the last moment.
        origin: whom it asks, for errors.
        timeouts: its limits.
        streaming: whether the deadlines of events hold.
        deadline: the monotonic moment of the total limit, None without one.
        clock: time.
        on_headers: told the status and headers of an answer that is a success.
    """

    url: str
    content: bytes
    headers: Callable[[], dict[str, str]]
    origin: Origin
    timeouts: Timeouts
    streaming: bool
    deadline: float | None = None
    clock: Clock = field(default_factory=Clock)
    on_headers: Callable[[int, Mapping[str, str]], None] | None = None

    def time_left(self) -> float | None:
        """Return the seconds until the total limit, at least 0, None without one."""
        return None if self.deadline is None else max(self.deadline - self.clock.monotonic(), 0.0)

    def limit(self, *, begun: bool) -> float | None:
        """Return how many seconds may pass until the next event."""
        between = self.timeouts.between_events if begun else self.timeouts.first_event
        return shortest(between if self.streaming else None, self.time_left())

    def request_timeouts(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return connect, read, write and pool as the HTTP library takes them, until the headers have come."""
        left, limits = self.time_left(), self.timeouts
        read = shortest(limits.read, limits.first_event) if self.streaming else limits.read
        return (
            shortest(limits.connect, left),
            shortest(read, left),
            shortest(limits.write, left),
            shortest(limits.pool, left),
        )

    def body_timeout(self) -> float | None:
        """Return the limit between two pieces of the answer's body, once its headers have come."""
        return shortest(self.timeouts.read, self.time_left())

    def timed_out(self, what: str) -> ModelTimeoutError:
        """Return the error of a limit that passed; `what` says which."""
        total = self.timeouts.total is not None and self.time_left() == 0.0
        what = f"the call took longer than its total limit of {self.timeouts.total:g} s" if total else what
        return ModelTimeoutError(
            f"{self.origin.provider}: {self.origin.url}: {what}. Raise the limit (timeout) if the model needs "
            "longer, or check that the server is alive.",
            provider=self.origin.provider,
            url=self.origin.url,
        )

    def silent(self, *, begun: bool) -> ModelTimeoutError:
        """Return the error of a stream that sent no event in time, whatever else it sent."""
        name = "between_events" if begun else "first_event"
        limit = getattr(self.timeouts, name)
        return self.timed_out(f"no event came within {limit} s ({name}); comments and pings do not count")


def shortest(*limits: float | None) -> float | None:
    """Return the smallest of the limits, None when none of them is one."""
    return min((limit for limit in limits if limit is not None), default=None)


def library_errors(client: Any) -> tuple[type[Exception], ...]:
    """Return the exceptions that the client's own HTTP library raises, by the first library among its base classes.

    Args:
        client: a client of httpx or of its like, or of a subclass.
    """
    for cls in type(client).__mro__:
        module = sys.modules.get(cls.__module__.partition(".")[0])
        error = getattr(module, "HTTPError", None)
        if isinstance(error, type) and issubclass(error, Exception):
            # A URL that cannot be is no error of HTTP there.
            other = getattr(module, "InvalidURL", error)
            return (error, other)
    return ()


def broken(call: Call, error: Exception, reader: AnswerReader | None) -> ModelError:
    """Return our error for the library's, by its name: httpx and httpx2 share names, not classes."""
    name, origin = type(error).__name__, call.origin
    text = origin.excerpt(str(error)) or name
    if name.endswith("Timeout"):
        return call.timed_out(f"{_TIMEOUTS.get(name, name)} ({name})")
    if name == "DecodingError":
        return invalid_response(origin, f"a body whose content-encoding is broken: {text}")
    if name == "RuntimeError" and "client" in text:
        return _unreachable(call, f"{text} Give the model a client that is open.", retryable=False)
    if reader is not None:
        return reader.truncated(f"when the connection broke ({text})")
    untrusted = "CERTIFICATE_VERIFY_FAILED" in text
    advice = (
        "Name your own certificate authority in SSL_CERT_FILE." if untrusted else "Check base_url, network and proxy."
    )
    lasting = untrusted or name in _LASTING
    return _unreachable(call, f"{text} ({name}). {advice}", retryable=not lasting)


def _unreachable(call: Call, what: str, *, retryable: bool) -> ModelConnectionError:
    return ModelConnectionError(
        f"{call.origin.provider}: {call.origin.url}: no answer: {what}",
        provider=call.origin.provider,
        url=call.origin.url,
        retryable=retryable,
    )


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return the body of a request as JSON.

    Args:
        body: what a codec made. Lone surrogates, which hostile text may hold and UTF-8 cannot, become question marks.

    Raises:
        ConfigurationTypeError: it holds something that JSON has no form for.
    """
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        pass  # also for whole numbers over 64 bits, which JSON can hold
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        problem = str(error)[:200]
    raise ConfigurationTypeError(
        f"The request cannot be written as JSON: {problem}. Expected dicts, lists, strings, numbers, booleans and "
        "None; check the model's settings and extra_body."
    )


def secret_header(name: str, value: SecretStr) -> SecretStr | None:
    """Return the value of a header that is a secret, fit to be sent; None when there is no key in it.

    Args:
        name: the header's name, for the error.
        value: the header's whole value, e.g. "Bearer sk-...". Space around it, as files leave it, is dropped.

    Raises:
        ConfigurationError: it holds a character that no header can carry.
    """
    kept = value.get_secret_value().strip()
    if kept.lower() in {"", "bearer", "basic", "none", "bearer none"}:
        return None
    fits = kept.isascii() and kept.isprintable()
    value = SecretStr(kept) if fits else SecretStr("")
    del kept  # a traceback of the error below shows the locals of this frame
    if not fits:
        raise ConfigurationError(
            f"The value of the header {name!r} holds a line break or a character that is not ASCII. If it is a key, "
            "copy it again as the provider shows it."
        )
    return value
