"""The one way to a model's server: requests, streams, retries, deadlines, secrets. All chat models of ours stand on it.

A codec (one file a wire format) makes the body of a request and reads the events of the answer; the transport knows
nothing of either. It is the only module that imports httpx. A call runs like this::

    post | stream -> Call -> [attempt: gate, send, status, first event]   again, within one budget of retries
                          -> the other events                             never again
"""

import asyncio
import functools
import inspect
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, closing
from typing import Any, Final, NoReturn, Self, TypeVar

import tenacity
from pydantic import SecretStr

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, ModelError
from agentgraph.models.answers import EVENTS_KEY, as_document
from agentgraph.models.call import Call, Clock, Timeouts, encoded, secret_header
from agentgraph.models.clients import DefaultClients, PerLoop, PerProcess
from agentgraph.models.exchange import AsyncExchange, Exchange
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.reply import Arrival, Reply
from agentgraph.models.retries import RetryBudget
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.urls import Endpoint, redact_url

__all__ = ["EVENTS_KEY", "Clock", "Reply", "Timeouts", "Transport"]

R = TypeVar("R", tenacity.Retrying, tenacity.AsyncRetrying)

# Two hundred runs at once are ordinary; the library's hundred connections would starve half of them.
_LIMITS: Final = {"max_connections": 1000, "max_keepalive_connections": 100}
_USER_AGENT: Final = {"user-agent": "agentgraph"}


class Transport:
    """A model server, ready to be asked, from threads and from tasks alike.

    It holds settings, not connections: those belong to the process (sync) or to the running event loop (async) and are
    shared by all transports, so that two hundred idle models cost one client. Nothing is opened until the first call.

    Args:
        provider: the server's name in errors, e.g. "openai".
        base_url: with or without version, trailing slash, path prefix, query. See `version_prefix`.
        headers: sent with every request; they win over the transport's own.
        secret_headers: likewise, never shown; one that is empty is not sent (no key, no Authorization).
        query: query parameters of every request; they win over those of `base_url`.
        timeouts: limits in seconds; a number stands for read, first_event and between_events, and bounds connect and
            write. None: those of `http_client` if it was given some, else the defaults of `Timeouts`.
        max_retries: further attempts of one call, before its first event was handed on.
        max_retry_wait: seconds; a server that asks for a longer wait is not waited for.
        http_client: a sync client of httpx or httpx2, for proxies, certificates, hooks. It is not closed.
        http_async_client: the async one. A client of the user's belongs to one event loop.
        max_concurrency: calls that run at once, for threads in all and for each event loop; None does not bound them.
        version_prefix: segment added to a `base_url` whose path has no version; None adds nothing.
        clock: time and chance, for tests.

    Raises:
        ConfigurationError: one of these is out of its range.

    Example:
        >>> Transport(provider="local", base_url="http://localhost:8080").url("chat/completions")
        'http://localhost:8080/v1/chat/completions'
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        secret_headers: Mapping[str, SecretStr] | None = None,
        query: Mapping[str, str] | None = None,
        timeouts: Timeouts | float | None = None,
        max_retries: int = 2,
        max_retry_wait: float = 60.0,
        http_client: Any = None,
        http_async_client: Any = None,
        max_concurrency: int | None = None,
        version_prefix: str | None = "v1",
        clock: Clock | None = None,
    ) -> None:
        self._provider = provider
        self._endpoint = Endpoint.parse(base_url, query or {}, version_prefix)
        self._headers = dict(headers or {})
        self._secret_headers = {
            name: kept for name, value in (secret_headers or {}).items() if (kept := secret_header(name, value))
        }
        self._timeouts = None if timeouts is None else Timeouts.of(timeouts)
        self._clock = clock or Clock()
        self._retries = RetryBudget(max_retries, max_retry_wait, self._clock.random)
        self._http_client = _client_of_kind("http_client", http_client, asynchronous=False)
        self._http_async_client = _client_of_kind("http_async_client", http_async_client, asynchronous=True)
        bound = _bound(max_concurrency)
        self._gates = None if bound is None else PerProcess(functools.partial(threading.BoundedSemaphore, bound))
        self._async_gates = None if bound is None else PerLoop(functools.partial(asyncio.BoundedSemaphore, bound))

    def url(self, path: str) -> str:
        """Return the full URL of a path, with the secrets that base_url and query may hold.

        Args:
            path: below the base, e.g. "chat/completions"; it may have a query.
        """
        return self._endpoint.join(path)

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Ask and wait for the whole answer.

        Args:
            path: below the base, e.g. "chat/completions".
            body: the request, sent as JSON.

        Returns:
            The parsed answer.

        Raises:
            ModelError: the typed error of what happened; `attempts` says how often it was tried.
        """
        call, answer = self._call(path, body, self._http_client, streaming=False)
        retrying = self._retrying(call, tenacity.Retrying, self._clock.sleep)
        events: list[ServerSentEvent] = retrying(self._whole, call)
        return answer.reply(as_document(events))

    async def apost(self, path: str, body: Mapping[str, Any]) -> Reply:
        """As `post`, awaited; cancelling it closes the connection."""
        call, answer = self._call(path, body, self._http_async_client, streaming=False)
        retrying = self._retrying(call, tenacity.AsyncRetrying, self._clock.asleep)
        events: list[ServerSentEvent] = await retrying(self._awhole, call)
        return answer.reply(as_document(events))

    def stream(
        self, path: str, body: Mapping[str, Any], *, on_reply: Callable[[Reply], None] | None = None
    ) -> Generator[ServerSentEvent, None, None]:
        """Ask and yield the events of the answer as they come.

        Until the first event was yielded a failed attempt is made again within the budget. `[DONE]` is an event with
        the data "[DONE]". An ordinary end of the answer ends the generator: whether the end marker of the format came
        is for the codec to see. A server that sends one JSON document in place of events yields one event "json" with
        it; lines of JSON are an event "json" each. Read to the end, the connection is kept; close() closes it at once.

        Args:
            path: below the base.
            body: the request, sent as JSON.
            on_reply: told status, headers and request id of the answer (its `json` is empty) before the first event.

        Yields:
            Each event, without comments and pings.

        Raises:
            TruncatedStreamError: the connection broke, or ended within an event (without the partial message, which the
                codec adds).
            ModelTimeoutError: no event came in time.
            ModelError: see `post`.
        """
        with closing(self.batches(path, body, on_reply=on_reply)) as batches:
            for events in batches:
                yield from events

    def batches(
        self, path: str, body: Mapping[str, Any], *, on_reply: Callable[[Reply], None] | None = None
    ) -> Generator[list[ServerSentEvent], None, None]:
        """As `stream`, but the events that came in one read together, which costs less than one by one."""
        call, _ = self._call(path, body, self._http_client, streaming=True, on_reply=on_reply)
        retrying = self._retrying(call, tenacity.Retrying, self._clock.sleep)
        opened: tuple[Exchange, list[ServerSentEvent]] = retrying(self._opened, call)
        exchange, events = opened
        try:
            while events:
                yield events
                events = exchange.more()
        finally:
            exchange.close()

    async def astream(
        self, path: str, body: Mapping[str, Any], *, on_reply: Callable[[Reply], None] | None = None
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """As `stream`, awaited. Wrap it in `contextlib.aclosing`; aclose() and cancelling close the connection."""
        async with aclosing(self.abatches(path, body, on_reply=on_reply)) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def abatches(
        self, path: str, body: Mapping[str, Any], *, on_reply: Callable[[Reply], None] | None = None
    ) -> AsyncGenerator[list[ServerSentEvent], None]:
        """As `batches`, awaited."""
        call, _ = self._call(path, body, self._http_async_client, streaming=True, on_reply=on_reply)
        retrying = self._retrying(call, tenacity.AsyncRetrying, self._clock.asleep)
        opened: tuple[AsyncExchange, list[ServerSentEvent]] = await retrying(self._aopened, call)
        exchange, events = opened
        try:
            while events:
                yield events
                events = await exchange.more()
        finally:
            await exchange.close()

    def failure_in(self, payload: Any) -> ModelError | None:
        """Return the typed error that a parsed event of a stream holds in place of content, None if it holds none.

        Args:
            payload: a parsed event, e.g. `{"error": {"message": ..., "code": ...}}`.
        """
        return failure_in(self._origin(self.url("")), payload)

    def __repr__(self) -> str:
        return f"Transport(provider={self._provider!r}, base_url={redact_url(self.url(''))!r})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it changes, and its gates have to stay one

    def __reduce__(self) -> NoReturn:
        raise ConfigurationTypeError(
            f"{self!r} was about to be pickled. It holds keys, which a pickle would show, and locks, which it "
            "cannot hold. Build the chat model anew where it is needed."
        )

    def _call(
        self,
        path: str,
        body: Mapping[str, Any],
        client: Any,
        *,
        streaming: bool,
        on_reply: Callable[[Reply], None] | None = None,
    ) -> tuple[Call, "Arrival"]:
        timeouts = self._timeouts or Timeouts.for_client(client)
        answer, url = Arrival(on_reply), self.url(path)
        call = Call(
            url=url,
            content=encoded(body),
            headers=functools.partial(self._request_headers, streaming=streaming),
            origin=self._origin(url),
            timeouts=timeouts,
            streaming=streaming,
            deadline=None if timeouts.total is None else self._clock.monotonic() + timeouts.total,
            clock=self._clock,
            on_headers=answer.begin,
        )
        return call, answer

    def _origin(self, url: str) -> Origin:
        secrets = (*self._endpoint.secrets, *self._secret_headers.values())
        return Origin(self._provider, redact_url(url), secrets)

    def _request_headers(self, *, streaming: bool) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json"}
        if streaming:
            # Compressed events reach the reader when a proxy's buffer is full, not when they happen.
            headers |= {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        headers |= {name.lower(): value for name, value in self._headers.items()}
        return headers | {name.lower(): value.get_secret_value() for name, value in self._secret_headers.items()}

    def _retrying(self, call: Call, kind: type[R], sleep: Callable[[float], Any]) -> R:
        """Return tenacity's driver, sync or async, over the one decision that both share."""

        def wait(state: tenacity.RetryCallState) -> float | None:
            error = state.outcome.exception() if state.outcome is not None else None
            if isinstance(error, ModelError):
                error.attempts = state.attempt_number
            return (
                None if error is None else self._retries.wait_before_next(error, state.attempt_number, call.time_left())
            )

        return kind(
            sleep=sleep,
            retry=lambda state: wait(state) is not None,
            wait=lambda state: wait(state) or 0.0,
            reraise=True,
        )

    def _opened(self, call: Call) -> tuple[Exchange, list[ServerSentEvent]]:
        exchange = Exchange(self._client(), call, None if self._gates is None else self._gates.get())
        return exchange, exchange.open()

    async def _aopened(self, call: Call) -> tuple[AsyncExchange, list[ServerSentEvent]]:
        gate = None if self._async_gates is None else self._async_gates.get()
        exchange = AsyncExchange(await self._async_client(), call, gate)
        return exchange, await exchange.open()

    def _whole(self, call: Call) -> list[ServerSentEvent]:
        exchange, events = self._opened(call)
        whole: list[ServerSentEvent] = []
        try:
            while events:
                whole += events
                events = exchange.more()
        finally:
            exchange.close()
        return whole

    async def _awhole(self, call: Call) -> list[ServerSentEvent]:
        exchange, events = await self._aopened(call)
        whole: list[ServerSentEvent] = []
        try:
            while events:
                whole += events
                events = await exchange.more()
        finally:
            await exchange.close()
        return whole

    def _client(self) -> Any:
        if self._http_client is not None:
            return self._http_client
        if self._http_async_client is not None:
            raise _missing_twin("http_client", "a sync", "http_async_client")
        return _DEFAULT_CLIENTS.get()

    async def _async_client(self) -> Any:
        if self._http_async_client is not None:
            return self._http_async_client
        if self._http_client is not None:
            raise _missing_twin("http_async_client", "an async", "http_client")
        return await _DEFAULT_CLIENTS.aget()


def _bound(max_concurrency: Any) -> int | None:
    if max_concurrency is None or (type(max_concurrency) is int and max_concurrency > 0):
        return max_concurrency
    raise ConfigurationError(f"max_concurrency is {max_concurrency!r}. Expected a whole number of at least 1, or None.")


def _client_of_kind(name: str, client: Any, *, asynchronous: bool) -> Any:
    if client is None:
        return None
    send = getattr(client, "send", None)
    if callable(getattr(client, "build_request", None)) and inspect.iscoroutinefunction(send) is asynchronous:
        return client
    expected = "httpx.AsyncClient" if asynchronous else "httpx.Client"
    raise ConfigurationTypeError(
        f"{name} is a {type(client).__module__}.{type(client).__qualname__}. Expected an {expected} or its like. "
        "A sync client goes to http_client, an async one to http_async_client."
    )


def _missing_twin(missing: str, kind: str, given: str) -> ConfigurationError:
    return ConfigurationError(
        f"This is {kind} call, and only {given} was given. Expected {missing} too: without it the call would pass by "
        f"the proxy, certificates and hooks of your client. Give {missing} as well."
    )


def _trusted() -> ssl.SSLContext:
    import httpx  # noqa: PLC0415 - an import of 0.1 s that waits for the first call

    return httpx.create_ssl_context()


def _make(kind: str, context: ssl.SSLContext) -> Any:
    import httpx  # noqa: PLC0415 - see _trusted

    try:
        return getattr(httpx, kind)(verify=context, limits=httpx.Limits(**_LIMITS), headers=_USER_AGENT)
    except (httpx.InvalidURL, ImportError, ValueError) as error:
        # The library's words may show the password that a proxy's URL holds.
        problem = str(error)[:200] if isinstance(error, ImportError) else type(error).__name__
    raise ConfigurationError(
        f"The proxy that the environment names cannot be used: {problem}. Expected http:// or https:// URLs in "
        "HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, and hosts in NO_PROXY; or give http_client= and http_async_client=."
    )


# They take nothing of a transport's, so that all transports can share them.
_DEFAULT_CLIENTS: Final = DefaultClients(
    _trusted, functools.partial(_make, "Client"), functools.partial(_make, "AsyncClient")
)
