"""A byte server for each test, a transport that never really waits, and the ways of asking it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.transport import Clock, Reply, Transport
from tests.wire_server import WireServer

Connect = Callable[..., Transport]
Streaming = Callable[[Transport], list[ServerSentEvent]]
Asking = Callable[[Transport], Reply | list[ServerSentEvent]]

_BOUND = 20.0
_PATH = "chat/completions"


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    """The seconds that the transport would have slept between two attempts."""
    return []


@pytest.fixture
def connect(server: WireServer, waits: list[float]) -> Connect:
    """Make a transport to the byte server whose waits are recorded, not waited, and whose jitter is 0."""

    async def asleep(seconds: float) -> None:
        waits.append(seconds)

    def make(**settings: Any) -> Transport:
        clock = Clock(sleep=waits.append, asleep=asleep, random=lambda: 0.0, wall=lambda: 1_000_000_000.0)
        given: dict[str, Any] = {"provider": "acme", "base_url": server.url, "clock": clock} | settings
        return Transport(**given)

    return make


def _stream(transport: Transport) -> list[ServerSentEvent]:
    return list(transport.stream(_PATH, {}))


def _astream(transport: Transport) -> list[ServerSentEvent]:
    async def read() -> list[ServerSentEvent]:
        async with aclosing(transport.astream(_PATH, {})) as events:
            return [event async for event in events]

    return asyncio.run(asyncio.wait_for(read(), _BOUND))


def _post(transport: Transport) -> Reply:
    return transport.post(_PATH, {})


def _apost(transport: Transport) -> Reply:
    return asyncio.run(asyncio.wait_for(transport.apost(_PATH, {}), _BOUND))


@pytest.fixture(params=[_stream, _astream], ids=["stream", "astream"])
def stream(request: pytest.FixtureRequest) -> Streaming:
    """Both ways of streaming: what came, as a list."""
    way: Streaming = request.param
    return way


@pytest.fixture(params=[_post, _apost], ids=["post", "apost"])
def post(request: pytest.FixtureRequest) -> Callable[[Transport], Reply]:
    """Both ways of asking for a whole answer."""
    way: Callable[[Transport], Reply] = request.param
    return way


@pytest.fixture(params=[_post, _apost, _stream, _astream], ids=["post", "apost", "stream", "astream"])
def ask(request: pytest.FixtureRequest) -> Asking:
    """All four ways of asking."""
    way: Asking = request.param
    return way


@pytest.fixture
async def bounded() -> AsyncIterator[None]:
    """An async test that hangs fails."""
    async with asyncio.timeout(_BOUND):
        yield
