"""A fast server for thousands of calls in all five wire formats, which fails as it is told to by the prompt.

A prompt is `call NUMBER FAULT TIMES`, the number in six digits: the request is spoilt in that way so many times, then
answered. The number stands in the answer's text and id, so that no two answers are alike. All bytes are made once.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import Any, Self

from tests.models.soak_formats import STAND_IN, Written, format_of, written

__all__ = ["BOUND", "Connection", "SoakServer", "chunks", "head"]

BOUND = 30.0  # seconds: nothing here is waited for longer, whatever a bug makes
_ASKED = re.compile(rb"call (\d{6}) (\w+) (\d)")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STATUSES = ("429", "500", "503", "529")


@dataclass(frozen=True)
class _Play:
    """What is written, and what comes after: "stay" for the next request, "close", or "hold" until the client left."""

    data: bytes
    then: str = "stay"


def head(status: int, mime: str, *, length: int | None) -> bytes:
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = (f"HTTP/1.1 {status} Status", f"content-type: {mime}", framing, "retry-after: 0")
    return "\r\n".join([*lines, "\r\n"]).encode()


def _whole(status: int, mime: str, body: bytes) -> bytes:
    return head(status, mime, length=len(body)) + body


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


@cache
def _play(form: str, streamed: bool, fault: str) -> _Play:
    """Make the bytes for one format and fault, with the stand-in for the number."""
    if fault == "cut_before_head":
        return _Play(b"", "close")
    if fault in _STATUSES:
        return _Play(_whole(int(fault), "application/json", b'{"error": {"message": "not now", "type": "soak"}}'))
    if fault == "html":
        return _Play(_whole(200, "text/html", b"<!doctype html><html><body>Sign in</body></html>"))
    if fault == "empty":
        return _Play(_whole(200, "application/json", b""))
    way = written(form)
    return _streamed_play(way, fault) if streamed else _whole_play(way, fault)


def _whole_play(way: Written, fault: str) -> _Play:
    body = {"error_event": way.error, "no_json": way.document[: len(way.document) // 2]}.get(fault, way.document)
    answer = _whole(200, "application/json", body)
    if fault in {"cut_mid_stream", "cut_in_event"}:
        return _Play(answer[: -len(body) // 2], "close")
    return _Play(b"", "hold") if fault == "held" else _Play(answer)


def _streamed_play(way: Written, fault: str) -> _Play:
    first, rest = way.events[: way.begun], way.events[way.begun :]
    begun = head(200, way.mime, length=None) + chunks(*first)
    match fault:
        case "held":
            return _Play(begun, "hold")
        case "cut_mid_stream":
            return _Play(begun, "close")
        case "cut_in_event":
            return _Play(begun + chunks(rest[0][: len(rest[0]) // 2]), "close")
        case "error_event":
            return _Play(begun + chunks(way.error_event) + b"0\r\n\r\n")
        case "no_json":
            return _Play(begun + chunks(way.no_json, *rest) + b"0\r\n\r\n")
    return _Play(begun + chunks(*rest) + b"0\r\n\r\n")


class Connection(asyncio.Protocol):
    """One connection: requests one after the other.

    Attributes:
        server: that accepted it.
        transport: to the client.
    """

    def __init__(self, server: "SoakServer") -> None:
        self.server = server
        self.transport: Any = None
        self._received = b""
        self._held: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.server.noticed(lambda: self.server.open.add(self))

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.noticed(self._gone)

    def _gone(self) -> None:
        self.server.open.discard(self)
        if self._received or self._held is not None:
            self.server.left.add(self._held)
        self.server.busy.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self.server.noticed(lambda: self.server.busy.add(self))
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        self._answer(head.split(b" ", 2)[1].decode(), body)

    def _answer(self, target: str, body: bytes) -> None:
        asked = _ASKED.search(body)
        assert asked is not None, body
        number, fault, times = int(asked[1]), asked[2].decode(), int(asked[3])
        self.server.attempts[number] += 1
        form, streamed = format_of(target, body)
        self.play(number, form, fault if self.server.attempts[number] <= times else "none", streamed=streamed)

    def play(self, number: int, form: str, fault: str, *, streamed: bool) -> None:
        play = _play(form, streamed, fault)
        self.transport.write(play.data.replace(STAND_IN, b"%d" % number))
        if play.then == "hold":
            self.hold(number)
            return
        if play.then == "close":
            self.transport.close()
        self.let_go()

    def hold(self, number: int) -> None:
        self._held = number
        self.server.tell(number)

    def let_go(self) -> None:
        self._held = None
        self.server.noticed(lambda: self.server.busy.discard(self))


class SoakServer:
    """Use it as a context manager. Its loop lives in a thread of its own.

    Args:
        kind: of its connections.

    Attributes:
        open: connections.
        busy: those with a request that is not answered to its end.
        left: calls that were held and whose clients have left.
        attempts: requests a call.
    """

    def __init__(self, kind: type[Connection] = Connection) -> None:
        self._kind = kind
        self.url = ""
        self.open: set[Connection] = set()
        self.busy: set[Connection] = set()
        self.left: set[int | None] = set()
        self.attempts: Counter[int] = Counter()
        self.most_open = 0
        self._told: dict[int, Callable[[], object]] = {}
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="soak-server", daemon=True)

    def noticed(self, change: Callable[[], object]) -> None:
        with self._changed:
            change()
            self.most_open = max(self.most_open, len(self.open))
            self._changed.notify_all()

    def when_held(self, number: int, tell: Callable[[], object]) -> None:
        """Say whom to tell, from the server's thread, when it holds this call back."""
        self._told[number] = tell

    def soon(self, call: Callable[[], object]) -> None:
        """Have something done in the server's thread."""
        self._loop.call_soon_threadsafe(call)

    def tell(self, number: int) -> None:
        self._told.pop(number, bool)()

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait until the connections are so; whether they became it in time."""
        with self._changed:
            return self._changed.wait_for(condition, BOUND)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(BOUND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.soon(self._stop.set)
        self._thread.join(BOUND)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await self._loop.create_server(partial(self._kind, self), "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for connection in list(self.open):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop says so to each connection
