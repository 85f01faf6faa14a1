"""Clients and their connections: loops, processes, threads, the user's own, proxies, certificates, bounds."""

import asyncio
import gc
import os
import ssl
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import trustme

from agentgraph.errors import (
    ConfigurationError,
    ConfigurationTypeError,
    ModelConnectionError,
    ModelTimeoutError,
    TruncatedStreamError,
)
from agentgraph.models import transport as transport_module
from agentgraph.models.call import library_errors
from agentgraph.models.clients import PerLoop, PerProcess
from agentgraph.models.transport import Timeouts, Transport
from tests.models.conftest import Connect
from tests.wire_server import Cut, Hold, Pause, WireServer, answer, streamed

OK = answer(200, b'{"a": 1}')
PATH = "chat/completions"


class TunedClient(httpx.Client):
    """A subclass in a module of its own: its library is found by its base class."""


class TunedAsyncClient(httpx2.AsyncClient):
    """The same of the other library."""


@contextmanager
def _unclosed_sockets_are_expected() -> Iterator[None]:
    """Collect, inside, what a loop has left that was closed in disorder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def test_one_transport_serves_one_loop_after_another(server: WireServer, connect: Connect) -> None:
    server.play(OK)
    transport = connect(max_retries=0)

    for _ in range(3):
        assert asyncio.run(transport.apost(PATH, {})).json == {"a": 1}

    assert server.connections == 3


def test_one_transport_serves_loops_in_several_threads_at_once(server: WireServer, connect: Connect) -> None:
    server.play(OK)
    transport = connect(max_retries=0)

    async def several() -> int:
        return len(await asyncio.gather(*[transport.apost(PATH, {}) for _ in range(5)]))

    with ThreadPoolExecutor(4) as pool:
        assert [done.result(20) for done in [pool.submit(asyncio.run, several()) for _ in range(4)]] == [5] * 4


def test_a_loop_that_ends_in_order_closes_its_connections_and_is_let_go(server: WireServer, connect: Connect) -> None:
    server.play(OK)
    transport = connect()
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def ask() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await transport.apost(PATH, {})

    asyncio.run(ask())
    assert server.requests[0].left.wait(10)

    gc.collect()
    assert loops[0]() is None


def test_a_loop_that_was_closed_in_disorder_costs_the_next_one_nothing(server: WireServer, connect: Connect) -> None:
    server.play(OK)
    with _unclosed_sockets_are_expected():
        transport = connect(max_retries=0)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(transport.apost(PATH, {}))
        loop.close()
        asyncio.run(transport.apost(PATH, {}))
        del loop

    assert len(server.requests) == 2


def test_threads_share_one_client_and_its_connections(server: WireServer, connect: Connect) -> None:
    server.play(OK)
    transports = [connect() for _ in range(3)]

    for transport in transports:
        transport.post(PATH, {})
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda transport: transport.post(PATH, {}), transports))

    assert server.connections <= 4
    assert len(server.requests) == 6


async def test_idle_transports_cost_nothing_and_busy_ones_share_a_client(connect: Connect, server: WireServer) -> None:
    server.play(OK)
    idle = [connect() for _ in range(200)]
    for one in idle[:20]:
        await one.apost(PATH, {})

    assert server.connections == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_uses_no_connection_of_its_parents() -> None:
    value = PerProcess(object)
    mine = value.get()
    reading, writing = os.pipe()

    child = os.fork()
    if child == 0:
        os.write(writing, b"other" if value.get() is not mine else b"same")
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reading, 10) == b"other"
    assert value.get() is mine
    os.close(reading)
    os.close(writing)


def test_a_value_is_one_per_loop_and_goes_with_it() -> None:
    values = PerLoop(object)

    async def two() -> tuple[object, object]:
        return values.get(), values.get()

    first, second = asyncio.run(two()), asyncio.run(two())

    assert first[0] is first[1]
    assert second[0] is second[1]
    assert first[0] is not second[0]


@pytest.mark.parametrize("kind", [httpx.Client, httpx2.Client, TunedClient])
def test_a_sync_client_of_the_users_is_taken_and_not_closed(
    server: WireServer, connect: Connect, kind: type[httpx.Client]
) -> None:
    with kind(headers={"x-own": "yes"}, follow_redirects=True) as client:
        transport = connect(http_client=client)
        server.play(streamed(b"data: 1\n\n"), OK, [Cut()], answer(307, b"", None, location="/elsewhere"))

        assert [event.data for event in transport.stream(PATH, {})] == ["1"]
        assert transport.post(PATH, {}).json == {"a": 1}
        with pytest.raises(Exception, match="a redirect to /elsewhere, which is not followed"):
            transport.post(PATH, {})
        assert not client.is_closed

    assert [request.headers["x-own"] for request in server.requests] == ["yes"] * 4


@pytest.mark.parametrize("kind", [httpx.AsyncClient, httpx2.AsyncClient, TunedAsyncClient])
async def test_an_async_client_of_the_users_is_taken_and_its_errors_are_ours(
    server: WireServer, connect: Connect, kind: type[httpx.AsyncClient]
) -> None:
    async with kind(headers={"x-own": "yes"}) as client:
        transport = connect(http_async_client=client, max_retries=0)

        server.play(OK)
        assert (await transport.apost(PATH, {})).json == {"a": 1}
        server.play([Cut()])
        with pytest.raises(ModelConnectionError):
            await transport.apost(PATH, {})
        server.play(streamed(b"data: 1\n\n", Cut()))
        with pytest.raises(TruncatedStreamError):
            assert [event.data async for event in transport.astream(PATH, {})] == ["1"]

    assert server.requests[0].headers["x-own"] == "yes"


def test_an_async_client_that_is_taken_to_another_loop_works_after_a_retry(
    server: WireServer, connect: Connect
) -> None:
    server.play(OK)
    with _unclosed_sockets_are_expected():
        transport = connect(http_async_client=httpx.AsyncClient())
        replies = [asyncio.run(transport.apost(PATH, {})).json for _ in range(2)]
        del transport

    assert replies == [{"a": 1}, {"a": 1}]


def test_a_client_that_is_closed_already_is_told(connect: Connect) -> None:
    client = httpx.Client()
    client.close()
    closed = httpx.AsyncClient()
    asyncio.run(closed.aclose())

    with pytest.raises(ModelConnectionError, match="Give the model a client that is open"):
        connect(http_client=client).post(PATH, {})
    with pytest.raises(ModelConnectionError, match="Give the model a client that is open"):
        asyncio.run(connect(http_async_client=closed).apost(PATH, {}))


def test_a_client_of_the_wrong_kind_is_refused_at_once(connect: Connect) -> None:
    for settings in (
        {"http_client": httpx.AsyncClient()},
        {"http_async_client": httpx.Client()},
        {"http_client": "me"},
    ):
        with pytest.raises(ConfigurationTypeError, match=r"Expected an httpx\.(Async)?Client or its like"):
            connect(**settings)


def test_a_call_does_not_pass_by_the_proxy_of_the_only_client_given(connect: Connect) -> None:
    with pytest.raises(ConfigurationError, match="Expected http_async_client too"):
        asyncio.run(connect(http_client=httpx.Client()).apost(PATH, {}))
    with pytest.raises(ConfigurationError, match="Expected http_client too"):
        connect(http_async_client=httpx.AsyncClient()).post(PATH, {})


def test_a_mock_in_place_of_the_network_works(connect: Connect) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="data: 1\n\ndata: [DONE]\n\n", headers={"content-type": "text/event-stream"})

    transport = connect(http_client=httpx.Client(transport=httpx.MockTransport(reply)), base_url="https://nowhere")

    assert [event.data for event in transport.stream(PATH, {})] == ["1", "[DONE]"]


@pytest.mark.parametrize(
    ("client", "timeouts"),
    [
        (None, Timeouts()),
        (httpx.Client(), Timeouts()),
        (httpx2.AsyncClient(), Timeouts()),
        (httpx.Client(timeout=9), Timeouts(connect=9, write=9, pool=9, read=9)),
        (httpx.Client(timeout=httpx.Timeout(5, read=None)), Timeouts(connect=5, write=5, pool=5, read=None)),
    ],
)
def test_limits_given_to_the_users_client_hold_and_the_librarys_own_do_not(client: Any, timeouts: Timeouts) -> None:
    assert Timeouts.for_client(client) == timeouts


def test_the_errors_of_a_client_are_those_of_its_library() -> None:
    assert library_errors(TunedClient()) == (httpx.HTTPError, httpx.InvalidURL)
    assert library_errors(TunedAsyncClient()) == (httpx2.HTTPError, httpx2.InvalidURL)
    assert library_errors(object()) == ()


def test_proxies_of_the_environment_are_used_and_exceptions_from_them_too(
    server: WireServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(OK)
    transport = connect(base_url="http://model.example/v1")
    monkeypatch.setenv("http_proxy", server.url)

    for _ in range(2):
        transport.post(PATH, {})
        asyncio.run(transport.apost(PATH, {}))
    assert {request.target for request in server.requests} == {"http://model.example/v1/chat/completions"}

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    connect().post(PATH, {})
    assert server.requests[-1].target == "/v1/chat/completions"


def test_a_certificate_authority_of_ones_own_is_trusted_when_the_environment_names_it(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    with WireServer(tls=context) as server:
        server.play(streamed(b"data: 1\n\n", Hold()))
        transport = connect(base_url=server.url, timeouts=Timeouts(between_events=0.2))
        with pytest.raises(ModelConnectionError, match="SSL_CERT_FILE") as caught:
            transport.post(PATH, {})
        assert (caught.value.retryable, caught.value.attempts) == (False, 1)

        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        events = transport.stream(PATH, {})
        assert next(events).data == "1"
        with pytest.raises(ModelTimeoutError):
            next(events)
        assert server.requests[-1].left.wait(10)


@pytest.mark.usefixtures("bounded")
async def test_two_hundred_calls_at_once_do_not_starve(server: WireServer, connect: Connect) -> None:
    server.play([Pause(0.3), *OK])
    transport = connect(timeouts=Timeouts(pool=5.0), max_retries=0)

    replies = await asyncio.gather(*[transport.apost(PATH, {}) for _ in range(200)])

    assert len(replies) == len(server.requests) == 200


@pytest.mark.usefixtures("bounded")
async def test_no_more_calls_run_at_once_than_allowed_and_a_left_one_makes_room(
    server: WireServer, connect: Connect
) -> None:
    server.play(streamed(b"data: 1\n\n", Hold()), streamed(b"data: 1\n\n", Hold()), OK)
    transport = connect(max_concurrency=2)
    open_streams = [transport.astream(PATH, {}) for _ in range(2)]
    for events in open_streams:
        await anext(events)

    waiting = asyncio.create_task(transport.apost(PATH, {}))
    given_up = asyncio.create_task(transport.apost(PATH, {}))
    await asyncio.sleep(0.05)
    given_up.cancel()
    assert not waiting.done()
    assert len(server.requests) == 2

    await open_streams[0].aclose()
    assert (await waiting).json == {"a": 1}
    assert (await transport.apost(PATH, {})).json == {"a": 1}
    await open_streams[1].aclose()


def test_threads_wait_for_their_turn_no_longer_than_the_total_limit(server: WireServer, connect: Connect) -> None:
    server.play(streamed(b"data: 1\n\n", Hold()))
    transport = connect(max_concurrency=1, timeouts=Timeouts(total=0.2), max_retries=0)
    events = transport.stream(PATH, {})
    next(events)

    with ThreadPoolExecutor(1) as pool, pytest.raises(ModelTimeoutError, match="total limit"):
        pool.submit(transport.post, PATH, {}).result(20)

    events.close()
    server.play(OK)
    assert transport.post(PATH, {}).json == {"a": 1}


def test_nothing_is_made_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> ssl.SSLContext:
        raise AssertionError

    monkeypatch.setattr(transport_module, "_trusted", refuse)
    threads = threading.active_count()

    Transport(provider="acme", base_url="https://model.example", max_concurrency=3)

    assert threading.active_count() == threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_and_its_fork_end_with_all_closed_and_without_touching_each_other(server: WireServer) -> None:
    server.play(OK)
    program = f"""
import os
from agentgraph.models.transport import Transport
transport = Transport(provider="acme", base_url={server.url!r})
transport.post("chat/completions", {{}})
child = os.fork()
if child:
    os.waitpid(child, 0)
transport.post("chat/completions", {{}})
"""
    ran = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert [request.connection for request in server.requests] == [1, 2, 1]


@pytest.mark.timeout(30)
def test_a_stream_that_the_garbage_collector_closes_does_not_wait_for_a_lock_of_its_own_thread(
    server: WireServer, connect: Connect
) -> None:
    server.play(streamed(b"data: 1\n\n", Hold()))
    client = httpx.Client()
    stream = connect(http_client=client).stream(PATH, {})
    assert next(stream).data == "1"

    stream = {"stream": stream}
    stream["itself"] = stream
    del stream
    with client._transport._pool._optional_thread_lock:
        gc.collect()
    assert server.requests[0].left.wait(10)
