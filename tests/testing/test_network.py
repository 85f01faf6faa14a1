"""Nothing leaves this machine under the guard, whoever opens the connection; afterwards everything is as before."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agentgraph.testing import NetworkRefused, no_network

REMOTE = "192.0.2.1"
"""An address that is reserved for documentation."""

PATCHED = ("connect", "connect_ex", "sendto", "getaddrinfo", "gethostbyname", "gethostbyname_ex")


def state() -> list[Any]:
    return [getattr(socket.socket, name, getattr(socket, name, None)) for name in PATCHED] + [
        sorted(vars(socket.socket)),
    ]


@pytest.fixture(autouse=True)
def _everything_is_as_before() -> Iterator[None]:
    before = state()
    yield
    assert state() == before


def _connect(family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, how: str = "connect", *args: Any) -> None:
    with socket.socket(family, kind) as sock:
        getattr(sock, how)(*args)


@pytest.mark.parametrize(
    ("open_it", "address"),
    [
        (lambda: _connect(socket.AF_INET, socket.SOCK_STREAM, "connect", (REMOTE, 443)), f"{REMOTE}:443"),
        (lambda: _connect(socket.AF_INET, socket.SOCK_STREAM, "connect_ex", (REMOTE, 443)), f"{REMOTE}:443"),
        (lambda: _connect(socket.AF_INET, socket.SOCK_DGRAM, "sendto", b"x", (REMOTE, 53)), f"{REMOTE}:53"),
        (lambda: _connect(socket.AF_INET6, socket.SOCK_STREAM, "connect", ("2001:db8::1", 1)), "2001:db8::1:1"),
        (lambda: socket.create_connection(("api.example.com", 443)), "api.example.com:443"),
        (lambda: socket.getaddrinfo(b"api.example.com", 443), "api.example.com:443"),
        (lambda: socket.getaddrinfo("api.example.com", port=80), "api.example.com:80"),
        (lambda: socket.gethostbyname("api.example.com"), "api.example.com:None"),
        (lambda: asyncio.run(_open("api.example.com")), "api.example.com:443"),
        (lambda: asyncio.run(_open(REMOTE)), f"{REMOTE}:443"),
        (lambda: httpx.get("https://api.example.com/v1"), "api.example.com:443"),
        (lambda: asyncio.run(_get("https://api.example.com/v1")), "api.example.com:443"),
    ],
)
def test_a_connection_that_leaves_this_machine_is_refused_and_named(open_it: Any, address: str) -> None:
    with no_network() as guard, pytest.raises(NetworkRefused) as refused:
        open_it()
    assert guard.refused == [address]
    host = address.rsplit(":", 1)[0]
    assert f"connection to {address} refused" in str(refused.value)
    assert f"allow=[{host!r}]" in str(refused.value)


async def _open(host: str) -> None:
    await asyncio.open_connection(host, 443)


async def _get(url: str) -> None:
    async with httpx.AsyncClient() as client:
        await client.get(url)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"])  # noqa: S104 (to connect to)
def test_this_machine_is_reached(server: socket.socket, host: str) -> None:
    port = server.getsockname()[1]
    with no_network() as guard:
        with socket.create_connection((host, port), timeout=10):
            pass
        asyncio.run(_dial(port))
        _connect(socket.AF_INET, socket.SOCK_DGRAM, "sendto", b"x", 0, ("127.0.0.1", port))
    assert guard.refused == []


async def _dial(port: int) -> None:
    _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 10)
    writer.close()
    await writer.wait_closed()


def test_the_own_name_may_be_looked_up() -> None:
    with no_network() as guard, contextlib.suppress(OSError):
        socket.gethostbyname(socket.gethostname())
    assert guard.refused == []


def test_unix_sockets_pass(tmp_path: Any) -> None:
    with socket.socket(socket.AF_UNIX) as listening, no_network():
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        _connect(socket.AF_UNIX, socket.SOCK_STREAM, "connect", str(tmp_path / "s"))


def test_other_families_are_refused() -> None:
    with no_network() as guard, pytest.raises(NetworkRefused, match="address family"):
        _connect(socket.AF_NETLINK, socket.SOCK_RAW, "connect", (0, 0))
    assert len(guard.refused) == 1


def test_an_address_of_the_wrong_form_is_left_to_the_socket() -> None:
    with no_network(), pytest.raises(TypeError):
        _connect(socket.AF_INET, socket.SOCK_STREAM, "connect", REMOTE)


def test_guards_nest_and_an_address_needs_the_leave_of_all() -> None:
    with no_network(allow=[REMOTE]) as outer:
        with no_network() as inner, pytest.raises(NetworkRefused):
            socket.create_connection((REMOTE, 443))
        assert (outer.refused, inner.refused) == ([], [f"{REMOTE}:443"])
        with no_network(allow=["other"]), pytest.raises(NetworkRefused):
            socket.getaddrinfo("elsewhere", 1)
        assert outer.refused == ["elsewhere:1"]
        assert socket.getaddrinfo(REMOTE, 443, type=socket.SOCK_STREAM)


def test_threads_are_guarded_too() -> None:
    caught: list[BaseException] = []

    def dial() -> None:
        try:
            socket.create_connection((REMOTE, 443))
        except NetworkRefused as error:
            caught.append(error)

    with no_network():
        thread = threading.Thread(target=dial)
        thread.start()
        thread.join(10)
    assert len(caught) == 1


def test_functions_are_guarded_by_the_decorator() -> None:
    @no_network()
    def dial(host: str, *, again: bool = False) -> str:
        if again:
            return dial(host)
        with pytest.raises(NetworkRefused):
            socket.create_connection((host, 443))
        return host

    @no_network()
    async def adial(host: str) -> str:
        with pytest.raises(NetworkRefused):
            await asyncio.open_connection(host, 443)
        return host

    assert dial(REMOTE, again=True) == REMOTE
    assert asyncio.run(adial("api.example.com")) == "api.example.com"
    assert dial.__name__ == "dial"


def test_an_error_in_the_block_ends_the_guard() -> None:
    with pytest.raises(ValueError, match="mine"), no_network():
        raise ValueError("mine")
