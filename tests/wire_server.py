"""A server of raw bytes on the loopback: it plays scripts, and remembers what it was asked and when it was left.

A script is a list of steps: bytes are written as they are, the others are below. One request plays one script; when
they run out, the last is played again. The server lives in a thread of its own, so that sync code can be tested too.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

__all__ = ["Cut", "Hold", "Pause", "Repeat", "Request", "Step", "WireServer", "answer", "head", "in_pieces", "streamed"]

_BOUND = 20.0  # seconds: no script waits longer, whatever a bug makes


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds, or until the client has left."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """Say nothing until the client has left."""


@dataclass(frozen=True)
class Repeat:
    """Write the bytes every so many seconds until the client has left, or so many times."""

    data: bytes
    seconds: float = 0.01
    times: int = 2000


@dataclass(frozen=True)
class Cut:
    """Close the connection, whatever is unfinished."""


Step = bytes | Pause | Hold | Repeat | Cut


@dataclass
class Request:
    """What one request said, and whether its client left before the script was over."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    left: threading.Event = field(default_factory=threading.Event)


def head(status: int = 200, content_type: str | None = "text/event-stream", **headers: str) -> bytes:
    """Return status line and headers; `retry_after="1"` is the header retry-after."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Status"] + [f"{name}: {value}" for name, value in named.items()]
    lines += [f"content-type: {content_type}"] if content_type else []
    return "\r\n".join([*lines, "\r\n"]).encode()


def answer(status: int, body: bytes, content_type: str | None = "application/json", **headers: str) -> list[Step]:
    """Return a script of one whole answer."""
    return [head(status, content_type, content_length=str(len(body)), **headers), body]


def streamed(
    *parts: Step, content_type: str | None = "text/event-stream", end: bool = True, **headers: str
) -> list[Step]:
    """Return a script of a chunked answer: bytes become one chunk each, other steps are kept."""
    steps: list[Step] = [head(200, content_type, transfer_encoding="chunked", **headers)]
    for part in parts:
        if isinstance(part, bytes):
            steps += [_chunk(part)] if part else []
        else:
            steps.append(Repeat(_chunk(part.data), part.seconds, part.times) if isinstance(part, Repeat) else part)
    return [*steps, b"0\r\n\r\n"] if end else steps


def in_pieces(data: bytes, size: int = 1) -> list[bytes]:
    """Return the bytes cut into pieces."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class WireServer:
    """Plays scripts; use it as a context manager."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.url = ""
        self._tls = tls
        self._scripts: list[Sequence[Step]] = []
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()

    def play(self, *scripts: Iterable[Step]) -> None:
        """Set the scripts of the next requests, one each; the last one stays."""
        self._scripts = [list(script) for script in scripts]

    @property
    def connections(self) -> int:
        """How many connections were opened."""
        return self._connections

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_BOUND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_BOUND)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{port}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        number = self._connections
        try:
            first = b""
            while (request := await _read_request(reader, first, number)) is not None:
                self.requests.append(request)
                played = await self._play(request, reader, writer)
                if played is None:
                    return
                first = played
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            return
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _play(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Play one script; the first byte of the next request, or None when the connection is over."""
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        watch = asyncio.create_task(reader.read(1))
        try:
            for step in script:
                if isinstance(step, Cut):
                    return None
                await _do(step, writer, watch)
                if watch.done() and not watch.result():
                    break
            return (await watch) or None
        except ConnectionError:
            return None
        finally:
            if watch.done() and not watch.cancelled() and (watch.exception() or not watch.result()):
                request.left.set()
            watch.cancel()


async def _do(step: Step, writer: asyncio.StreamWriter, watch: "asyncio.Task[bytes]") -> None:
    match step:
        case bytes():
            writer.write(step)
            await writer.drain()
        case Pause(seconds):
            await asyncio.wait([watch], timeout=seconds)
        case Hold():
            await asyncio.wait([watch], timeout=_BOUND)
        case Repeat(data, seconds, times):
            for _ in range(times):
                writer.write(data)
                await writer.drain()
                await asyncio.wait([watch], timeout=seconds)
                if watch.done():
                    return


async def _read_request(reader: asyncio.StreamReader, first: bytes, connection: int) -> Request | None:
    try:
        lines = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = lines[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in lines[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body, connection)
