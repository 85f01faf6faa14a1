"""One attempt of a request: sent, its status checked, its answer read event by event, closed. Sync and async.

The library's errors become ours outside of the `except` that caught them, because its exceptions and their frames hold
the request with its keys.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from agentgraph.errors import ModelError, ModelTimeoutError
from agentgraph.models.answers import AnswerReader
from agentgraph.models.call import Call, broken, library_errors
from agentgraph.models.collecting import outside_of_collection
from agentgraph.models.failures import failure_of_status
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.urls import redacted_logs
from agentgraph.models.watchdog import Watchdog

__all__ = ["AsyncExchange", "Exchange"]

_MAX_ERROR_BYTES: Final = 64 * 1024
_ERROR_BODY_SECONDS: Final = 10.0
# What follows `[DONE]` is only read so that the connection can be used again, and a server may leave it open.
_DRAIN_SECONDS: Final = 0.2
# What a reader who is slow has waiting: batches, and characters in them beside the last.
_READ_AHEAD: Final = 16
_READ_AHEAD_SIZE: Final = 16 * 1024
_SUCCESS: Final = range(200, 300)
# A task that no one waits for any more is kept here, since the loop itself would let it go.
_CLOSING: Final[set[asyncio.Future[None]]] = set()


class _Attempt:
    """The part of an attempt that is the same with and without `await`."""

    def __init__(self, client: Any, call: Call) -> None:
        self._client = client
        self._call = call
        self._errors = library_errors(client)
        self._send_errors: tuple[type[Exception], ...] = (*self._errors, RuntimeError, UnicodeError)
        self._response: Any = None
        self._chunks: Any = None
        self._reader: AnswerReader | None = None
        self._error_body = b""
        self._begun = False
        self._ended = False
        self._done = False

    def _request(self) -> Any:
        call = self._call
        return self._client.build_request(
            "POST", call.url, content=call.content, headers=call.headers(), timeout=call.request_timeouts()
        )

    def _admit(self) -> AnswerReader:
        """Take an answer that is a success and make ready to read it."""
        self._lengthen_read_limit()
        headers = _lower_case(self._response.headers)
        self._reader = AnswerReader(self._call.origin, self._response.status_code, headers)
        if self._call.on_headers is not None:
            self._call.on_headers(self._response.status_code, headers)
        return self._reader

    def _lengthen_read_limit(self) -> None:
        """Take the limit of the headers off the body: the library has one limit for both, and asks for it anew.

        Left as it was, the limit of the first event would hold between all events.
        """
        request = getattr(self._response, "request", None)
        limits = getattr(request, "extensions", {}).get("timeout")
        if isinstance(limits, dict) and "read" in limits:
            limits["read"] = self._call.body_timeout()

    def _refusal(self, body: bytes) -> ModelError:
        headers, now = _lower_case(self._response.headers), self._call.clock.wall()
        return failure_of_status(self._call.origin, self._response.status_code, headers, body, now=now)

    def _not_sent(self, error: Exception) -> ModelError:
        """Return our error; a RuntimeError is the library's only when its client, or the client's loop, was closed."""
        if isinstance(error, RuntimeError) and "closed" not in str(error):
            raise error
        return broken(self._call, error, None)

    def _collect(self, chunk: bytes) -> bool:
        """Keep a piece of an error's body; False when it is enough."""
        self._error_body = (self._error_body + chunk)[:_MAX_ERROR_BYTES]
        return len(self._error_body) < _MAX_ERROR_BYTES

    def _taken(self, events: list[ServerSentEvent]) -> list[ServerSentEvent]:
        self._begun = self._begun or bool(events)
        self._done = self._done or any(event.data == "[DONE]" for event in events)
        return events


def _lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


class Exchange(_Attempt):
    """One attempt over a sync client.

    Args:
        client: a client with `build_request` and `send`.
        call: what is asked.
        gate: bounds the attempts that run at once, None does not.
    """

    def __init__(self, client: Any, call: Call, gate: threading.Semaphore | None) -> None:
        super().__init__(client, call)
        self._gate = gate
        self._held = False
        self._watchdog: Watchdog | None = None

    def open(self) -> list[ServerSentEvent]:
        """Send the request and return the first events; closes itself when that fails."""
        try:
            self._enter()
            self._send()
            self._watchdog = Watchdog.over(self._response)
            if self._response.status_code in _SUCCESS:
                self._admit()
                return self.more()
            self._read_error()
            failure = self._refusal(self._error_body)
        except BaseException:
            self.close()
            raise
        self.close()
        raise failure

    def more(self) -> list[ServerSentEvent]:
        """Return the next events, none at the end of the answer."""
        if self._reader is None or self._ended:
            return []
        if self._done:
            self._drain()
            return []
        limit = self._call.limit(begun=self._begun)
        due = None if limit is None else self._call.clock.monotonic() + limit
        self._arm(limit)
        try:
            return self._taken(self._read(self._reader, due))
        finally:
            # The time until the reader asks again is not the server's, and a connection read to its end is another's.
            self._arm(None)

    def close(self) -> None:
        """Close the answer; the server sees it when it was not read to its end."""
        outside_of_collection(self._close)

    def _close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
        try:
            if self._response is not None:
                with suppress(*self._errors):
                    self._response.close()
        finally:
            if self._held and self._gate is not None:
                self._held = False
                self._gate.release()

    def _enter(self) -> None:
        if self._gate is None:
            return
        self._held = self._gate.acquire(timeout=self._call.time_left())
        if not self._held:
            raise self._call.timed_out("no turn came among max_concurrency calls")

    def _send(self) -> None:
        try:
            with redacted_logs(self._client):
                self._response = self._client.send(self._request(), stream=True, follow_redirects=False)
        except self._send_errors as error:
            failure = self._not_sent(error)
        else:
            self._chunks = self._response.iter_bytes()
            return
        raise failure

    def _read(self, reader: AnswerReader, due: float | None) -> list[ServerSentEvent]:
        failure: ModelError | None = None
        try:
            for chunk in self._chunks:
                events = reader.feed(chunk)
                if events:
                    return events
                if due is not None and self._call.clock.monotonic() >= due:
                    failure = self._call.silent(begun=self._begun)
                    break
        except self._errors as error:
            failure = broken(self._call, error, reader)
        # Shut down by the watchdog, an answer without a length looks like one that ended.
        if self._watchdog is not None and self._watchdog.barked:
            failure = self._call.silent(begun=self._begun)
        if failure is not None:
            raise failure
        self._ended = True
        return reader.close()

    def _read_error(self) -> None:
        self._arm(_ERROR_BODY_SECONDS)
        with suppress(*self._errors):
            for chunk in self._chunks:
                if not self._collect(chunk):
                    break
        self._arm(None)

    def _drain(self) -> None:
        self._ended = True
        if self._watchdog is None:
            return
        self._arm(_DRAIN_SECONDS)
        with suppress(*self._errors):
            for _ in self._chunks:
                pass
        self._arm(None)

    def _arm(self, seconds: float | None) -> None:
        if self._watchdog is not None:
            self._watchdog.arm(seconds)


class _ReadAhead(asyncio.Queue[list[ServerSentEvent] | Exception]):
    """A queue that is full by the size of what is in it, too: large events of many slow readers are much memory."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._sizes: deque[int] = deque()
        self._size = 0

    def full(self) -> bool:
        """Whether no more may be put."""
        return self._size >= _READ_AHEAD_SIZE or super().full()

    def _put(self, item: list[ServerSentEvent] | Exception) -> None:
        size = sum([len(event.data) for event in item]) if isinstance(item, list) else 0
        self._sizes.append(size)
        self._size += size
        super()._put(item)

    def _get(self) -> list[ServerSentEvent] | Exception:
        self._size -= self._sizes.popleft()
        item: list[ServerSentEvent] | Exception = super()._get()
        return item


class AsyncExchange(_Attempt):
    """One attempt over an async client, in the loop that the client belongs to.

    The client is used in a task of its own, which reads a few batches ahead. It has to be: the library loses a
    connection when a second cancel meets it while it closes after the first, and cancels of a caller come in pairs.
    Here they cancel the waiting, and `close` cancels the reading, once.

    Args:
        client: an async client with `build_request` and `send`.
        call: what is asked.
        gate: bounds the attempts that run at once, None does not.
    """

    def __init__(self, client: Any, call: Call, gate: asyncio.Semaphore | None) -> None:
        super().__init__(client, call)
        self._gate = gate
        self._held = False
        # An empty batch says that the head came, and then that the answer, or the body of an error, was read.
        self._batches = _ReadAhead(_READ_AHEAD)
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> list[ServerSentEvent]:
        """Send the request and return the first events; closes itself when that fails or is cancelled."""
        try:
            self._reading = asyncio.create_task(self._run())
            await self._next(self._call.time_left())
            if self._response.status_code in _SUCCESS:
                return await self.more()
            with suppress(ModelTimeoutError):
                await self._next(_ERROR_BODY_SECONDS)
            failure = self._refusal(self._error_body)
        except BaseException:
            await self.close()
            raise
        await self.close()
        raise failure

    async def more(self) -> list[ServerSentEvent]:
        """Return the next events, none at the end of the answer."""
        if self._ended:
            return []
        if self._done:
            self._ended = True
            with suppress(ModelError):
                await self._next(_DRAIN_SECONDS)
            return []
        events = await self._next(self._call.limit(begun=self._begun))
        self._ended = not events
        return self._taken(events)

    async def close(self) -> None:
        """Close the answer, however often that is cancelled; the server sees it."""
        closing = asyncio.ensure_future(self._finish())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)
        await asyncio.shield(closing)

    async def _next(self, limit: float | None) -> list[ServerSentEvent]:
        batch = None if self._batches.empty() else self._batches.get_nowait()
        if batch is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    batch = await self._batches.get()
        if batch is None:
            raise self._call.silent(begun=self._begun)
        if isinstance(batch, Exception):
            raise batch
        return batch

    async def _finish(self) -> None:
        try:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait({self._reading})
            if self._response is not None:
                with suppress(*self._errors):
                    await self._response.aclose()
        finally:
            if self._held and self._gate is not None:
                self._held = False
                self._gate.release()

    async def _run(self) -> None:
        try:
            if self._gate is not None:
                await self._gate.acquire()
                self._held = True
            await self._send()
            await self._batches.put([])
            if self._response.status_code in _SUCCESS:
                await self._read(self._admit())
            else:
                await self._read_error()
            await self._batches.put([])
        except Exception as error:  # noqa: BLE001 - whatever it is, also a user's hook's, is raised where it is waited for
            await self._batches.put(error)

    async def _send(self) -> None:
        try:
            with redacted_logs(self._client):
                self._response = await self._client.send(self._request(), stream=True, follow_redirects=False)
        except self._send_errors as error:
            failure = self._not_sent(error)
        else:
            self._chunks = self._response.aiter_bytes()
            return
        raise failure

    async def _read(self, reader: AnswerReader) -> None:
        try:
            async for chunk in self._chunks:
                events = reader.feed(chunk)
                if events:
                    await self._batches.put(events)
        except self._errors as error:
            failure = broken(self._call, error, reader)
        else:
            events = reader.close()
            if events:
                await self._batches.put(events)
            return
        raise failure

    async def _read_error(self) -> None:
        with suppress(*self._errors):
            async for chunk in self._chunks:
                if not self._collect(chunk):
                    break
