"""Where the transport's connections live: one client a process for threads, one a running event loop for tasks.

Nothing is made at import. A connection belongs to the loop and the process that opened it, so a value made here is
never handed to another loop, nor to a forked child.
"""

import asyncio
import atexit
import functools
import os
import ssl
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["DefaultClients", "PerLoop", "PerProcess"]

T = TypeVar("T")

# What an HTTP library reads when a client is made: a change of it must not be answered by a client made before.
_ENVIRONMENT: Final = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
_Environment = tuple[str | None, ...]


class PerProcess(Generic[T]):
    """One value a process, made when it is first asked for.

    Args:
        create: makes the value.
    """

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._value: tuple[int, T] | None = None
        self._inherited: list[tuple[int, T]] = []

    def get(self) -> T:
        """Return this process's value."""
        held = self._value
        if held is not None and held[0] == os.getpid():
            return held[1]
        if held is not None:
            # A fork may have copied the lock while another thread held it. What the parent opened is kept until the
            # exit: an async client closed here would say goodbye on the parent's connections.
            self._lock = threading.Lock()
            self._inherited.append(held)
            self._value = None
        with self._lock:
            if self._value is None:
                self._value = (os.getpid(), self._create())
            return self._value[1]


class PerLoop(Generic[T]):
    """One value a running event loop, made when it is first asked for, dropped with its loop.

    Args:
        create: makes the value; called in the loop it is for.
    """

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._loops: PerProcess[WeakKeyDictionary[asyncio.AbstractEventLoop, T]] = PerProcess(WeakKeyDictionary)
        self._lock: PerProcess[threading.Lock] = PerProcess(threading.Lock)

    def get(self) -> T:
        """Return the running loop's value.

        Raises:
            RuntimeError: no loop runs.
        """
        loop = asyncio.get_running_loop()
        loops = self._loops.get()
        with self._lock.get():
            value = loops.get(loop)
            if value is None:
                # A value can hold its loop by its connections, so that the weak key alone would not let it go.
                for gone in [other for other in loops if other.is_closed()]:
                    del loops[gone]
                value = loops[loop] = self._create()
            return value


class DefaultClients:
    """The clients that calls share which were given none: one a process, one an event loop, anew for other proxies.

    Args:
        trusted: makes the TLS settings, which takes long (it reads all certificates), once for all clients.
        make: makes a sync client.
        make_async: makes an async client.
    """

    def __init__(
        self,
        trusted: Callable[[], ssl.SSLContext],
        make: Callable[[ssl.SSLContext], Any],
        make_async: Callable[[ssl.SSLContext], Any],
    ) -> None:
        self._trusted = functools.lru_cache(maxsize=4)(lambda environment: trusted())  # noqa: ARG005 - it is the key
        self._make = make
        self._make_async = make_async
        self._lock: PerProcess[threading.RLock] = PerProcess(threading.RLock)
        self._clients: PerProcess[dict[_Environment, Any]] = PerProcess(dict)
        self._async_clients: PerLoop[dict[_Environment, tuple[Any, AsyncGenerator[Any, None]]]] = PerLoop(dict)

    def get(self) -> Any:
        """Return the process's client."""
        clients, environment = self._clients.get(), _environment()
        if environment not in clients:
            with self._lock.get():
                if environment not in clients:
                    client = clients[environment] = self._make(self._context(environment))
                    # In a forked child too: a sync client only gives its copies of the sockets back.
                    atexit.register(client.close)
        return clients[environment]

    async def aget(self) -> Any:
        """Return the running loop's client; it is closed when `asyncio.run` closes the loop."""
        clients, environment = self._async_clients.get(), _environment()
        held = clients.get(environment)
        if held is not None and not held[0].is_closed:
            return held[0]
        context = await asyncio.to_thread(self._context, environment)
        held = clients.get(environment)  # another task may have made it meanwhile
        if held is None or held[0].is_closed:
            client = self._make_async(context)
            held = clients[environment] = (client, _until_loop_ends(client, clients, environment))
            await anext(held[1])
        return held[0]

    def _context(self, environment: _Environment) -> ssl.SSLContext:
        # Two hundred first calls at once would else read the certificates in as many threads as there are.
        with self._lock.get():
            return self._trusted(environment)


async def _until_loop_ends(
    client: Any, clients: dict[_Environment, Any], environment: _Environment
) -> AsyncGenerator[Any, None]:
    """Close the client in its own loop: a loop that ends in order closes the generators that were begun in it."""
    try:
        yield client
    finally:
        # A generator holds its loop even after its end, so that it must not stay where the loop is the key.
        clients.pop(environment, None)
        await client.aclose()


def _environment() -> _Environment:
    return tuple(map(os.environ.get, _ENVIRONMENT))
