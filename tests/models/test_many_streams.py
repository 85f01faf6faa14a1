"""Two hundred streams at once: all are open together, come piece by piece, and cost no more than they have in hand."""

import asyncio
import json
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, contextmanager
from typing import Any

import pytest

from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.transport import Transport
from tests.models.soak_formats import PIECES, STAND_IN, written
from tests.models.soak_server import BOUND, Connection, SoakServer, chunks, head

STREAMS = 200
FIRST = 100_000
EVENT_SIZE, EVENTS = 32 * 1024, 64
# A stream of 2 MiB may have so much in memory: one read of the event loop (256 KiB) and one of the HTTP library
# (64 KiB), both in bytes, as text and as events, what is read ahead, and the buffers of the server, which is in this
# process as well. It is less than a third of the stream.
BOUND_OF_STREAM = 640 * 1024
READERS = 20  # of the streams that are read to their end, which takes longer


class Rounds(Connection):
    """Gives one piece of a stream at a time, when the test says so."""

    def play(self, number: int, form: str, fault: str, *, streamed: bool) -> None:
        self._number, self._said = b"%d" % number, 0
        self.transport.write(head(200, "text/event-stream", length=None))
        self.next_piece()

    def next_piece(self) -> None:
        events = written("openai").events
        last = self._said == len(PIECES) - 1
        piece = events[self._said :] if last else events[self._said : self._said + 1]
        self._said += 1
        data = chunks(*piece).replace(STAND_IN, self._number)
        self.transport.write(data + b"0\r\n\r\n" if last else data)
        if last:
            self.let_go()


class Flood(Connection):
    """Writes as much of a long stream as its client takes."""

    _event = b"".join(
        [
            b"data: ",
            json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "x" * EVENT_SIZE}}]}).encode(),
            b"\n\n",
        ]
    )
    paused = False
    written = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=EVENT_SIZE)
        # The system would else take a whole stream off the server.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, EVENT_SIZE)

    def play(self, number: int, form: str, fault: str, *, streamed: bool) -> None:
        if fault == "none":
            super().play(number, form, fault, streamed=streamed)
            return
        self.hold(number)
        self.written = 0
        self.transport.write(head(200, "text/event-stream", length=None))
        self._pump()

    def pause_writing(self) -> None:
        self.server.noticed(lambda: setattr(self, "paused", True))

    def resume_writing(self) -> None:
        self.server.noticed(lambda: setattr(self, "paused", False))
        self._pump()

    def _pump(self) -> None:
        while self.written < EVENTS and not (self.paused or self.transport.is_closing()):
            self.written += 1
            self.transport.write(chunks(self._event))
        if self.written == EVENTS:
            self.written += 1
            self.transport.write(b"0\r\n\r\n")
            self.let_go()


def connected(server: SoakServer, models: int) -> list[ChatOpenAI]:
    """One model for all streams, or one for each."""
    made = [ChatOpenAI(model="m", base_url=server.url, api_key="k" * 20, max_retries=0) for _ in range(models)]
    return made * (STREAMS // models)


def next_round(server: SoakServer) -> None:
    server.soon(lambda: [connection.next_piece() for connection in server.open if isinstance(connection, Rounds)])


def heard_by_tasks(models: Sequence[ChatOpenAI], server: SoakServer) -> tuple[dict[int, list[str]], list[int]]:
    heard: dict[int, list[str]] = {number: [] for number in range(FIRST, FIRST + STREAMS)}
    order: list[int] = []

    async def listen(number: int, model: ChatOpenAI, together: asyncio.Barrier) -> None:
        async for chunk in model.astream(f"call {number} none 0"):
            if chunk.text:
                order.append(len(heard[number]))
                heard[number].append(chunk.text)
                if len(heard[number]) < len(PIECES) and await together.wait() == 0:
                    next_round(server)

    async def everyone() -> None:
        together = asyncio.Barrier(STREAMS)
        async with asyncio.timeout(BOUND), asyncio.TaskGroup() as tasks:
            for number, model in zip(heard, models, strict=True):
                tasks.create_task(listen(number, model, together))

    asyncio.run(everyone())
    return heard, order


def heard_by_threads(models: Sequence[ChatOpenAI], server: SoakServer) -> tuple[dict[int, list[str]], list[int]]:
    heard: dict[int, list[str]] = {number: [] for number in range(FIRST, FIRST + STREAMS)}
    order: list[int] = []
    together = threading.Barrier(STREAMS, timeout=BOUND)

    def listen(number: int, model: ChatOpenAI) -> None:
        for chunk in model.stream(f"call {number} none 0"):
            if chunk.text:
                order.append(len(heard[number]))
                heard[number].append(chunk.text)
                if len(heard[number]) < len(PIECES) and together.wait() == 0:
                    next_round(server)

    with ThreadPoolExecutor(STREAMS) as pool:
        for done in [pool.submit(listen, number, model) for number, model in zip(heard, models, strict=True)]:
            done.result(BOUND)
    return heard, order


@pytest.mark.parametrize("models", [1, STREAMS], ids=["one model", "a model each"])
@pytest.mark.parametrize("listen", [heard_by_tasks, heard_by_threads], ids=["tasks", "threads"])
def test_two_hundred_streams_are_open_at_once_and_each_piece_comes_before_the_next_is_sent(
    listen: Callable[[Sequence[ChatOpenAI], SoakServer], tuple[dict[int, list[str]], list[int]]], models: int
) -> None:
    with SoakServer(Rounds) as server:
        heard, order = listen(connected(server, models), server)
        assert server.wait_until(lambda: not server.busy)

        assert server.most_open == STREAMS
        assert order == [place for place in range(len(PIECES)) for _ in range(STREAMS)]
        assert heard == {number: [piece.replace("NUMBER", str(number)) for piece in PIECES] for number in heard}


@contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """Give what has been allocated since, and the most of it at once."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield lambda: tuple(size - before for size in tracemalloc.get_traced_memory())  # type: ignore[return-value] # two
    finally:
        tracemalloc.stop()


def all_paused(server: SoakServer) -> bool:
    return sum(isinstance(one, Flood) and one.paused for one in server.open) == STREAMS


async def stalled_tasks(model: ChatOpenAI, server: SoakServer, used: Callable[[], Any]) -> Any:
    """Take the first piece of each stream and no more; the memory when the server cannot write on."""
    async with asyncio.timeout(2 * BOUND):
        streams = [model.astream(f"call {FIRST + at} flood 1") for at in range(STREAMS)]
        await asyncio.gather(*[anext(stream) for stream in streams])
        assert await asyncio.to_thread(server.wait_until, lambda: all_paused(server))
        for at in range(20):  # whoever still read would have gone on by then
            await model.ainvoke(f"call {FIRST + STREAMS + at} none 0")
        assert all_paused(server)
        memory = used()
        await asyncio.gather(*[stream.aclose() for stream in streams])  # type: ignore[attr-defined] # a generator
    return memory


def stalled_threads(model: ChatOpenAI, server: SoakServer, used: Callable[[], Any]) -> Any:
    streams = [model.stream(f"call {FIRST + at} flood 1") for at in range(STREAMS)]
    with ThreadPoolExecutor(STREAMS) as pool:
        list(pool.map(next, streams, timeout=BOUND))
        assert server.wait_until(lambda: all_paused(server))
        memory = used()
        list(pool.map(lambda stream: stream.close(), streams, timeout=BOUND))  # type: ignore[attr-defined] # a generator
    return memory


@pytest.mark.parametrize("ask", [stalled_tasks, stalled_threads], ids=["tasks", "threads"])
def test_streams_whose_readers_are_slow_wait_at_the_server_not_in_memory(ask: Any) -> None:
    with SoakServer(Flood) as server:
        model = connected(server, 1)[0]
        model.invoke("call 999999 none 0")  # what is loaded once is not the streams'
        with traced() as used:
            memory = ask(model, server, used)
            current, peak = asyncio.run(memory) if asyncio.iscoroutine(memory) else memory
        assert server.wait_until(lambda: not server.busy)

    assert current < STREAMS * BOUND_OF_STREAM
    assert peak < STREAMS * BOUND_OF_STREAM
    assert len(server.left) == STREAMS


async def read_by_tasks(transport: Transport) -> list[int]:
    async def read(at: int) -> int:
        body = {"prompt": f"call {FIRST + at} flood 1", "stream": True}
        async with aclosing(transport.astream("chat/completions", body)) as events:
            return sum([len(event.data) async for event in events])

    async with asyncio.timeout(2 * BOUND):
        return await asyncio.gather(*[read(at) for at in range(READERS)])


def read_by_threads(transport: Transport) -> list[int]:
    def read(at: int) -> int:
        body = {"prompt": f"call {FIRST + at} flood 1", "stream": True}
        with closing(transport.stream("chat/completions", body)) as events:
            return sum(len(event.data) for event in events)

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(read, range(READERS), timeout=2 * BOUND))


@pytest.mark.parametrize("read", [read_by_tasks, read_by_threads], ids=["tasks", "threads"])
def test_streams_that_are_read_to_their_end_are_not_kept(read: Any) -> None:
    with SoakServer(Flood) as server:
        transport = Transport(provider="acme", base_url=server.url, max_retries=0)
        transport.post("chat/completions", {"prompt": "call 999999 none 0"})
        with traced() as used:
            sizes = read(transport)
            sizes = asyncio.run(sizes) if asyncio.iscoroutine(sizes) else sizes
            _, peak = used()
        assert server.wait_until(lambda: not server.busy)

    assert sizes == [EVENTS * (len(Flood._event) - len(b"data: \n\n"))] * READERS
    assert peak < READERS * BOUND_OF_STREAM
