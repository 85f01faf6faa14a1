"""A guard against the network: what a test opens without meaning to is refused at once, and named."""

import functools
import inspect
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from agentgraph.errors import AgentGraphError

__all__ = ["NetworkRefused", "no_network"]

F = TypeVar("F", bound=Callable[..., Any])

LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})


class NetworkRefused(AgentGraphError, AssertionError):  # noqa: N818 (says what happened, as a test reads it)
    """Something tried to leave this machine under `no_network`.

    It is no OSError on purpose, so that clients neither retry it nor dress it up as a failed connection.
    """


class no_network:  # noqa: N801 (a context manager and decorator, read as a word)
    """Refuse every connection that leaves this machine: a context manager, and a decorator of functions, sync or async.

    It holds in all threads of the process while it is open, for sockets made by Python (`socket`, asyncio's own loops,
    and what stands on them: httpx, urllib3, psycopg's pure-Python parts). Loopback addresses and Unix sockets pass;
    looking up a name counts as a connection. Subprocesses and C libraries that open sockets of their own are out of its
    reach. Guards nest; an address passes if all of them let it.

    Args:
        allow: further hosts that pass, as names or addresses.

    Attributes:
        refused: what was refused so far, as "host:port".

    Raises:
        NetworkRefused: in whoever tries to connect; names the address.

    Example:
        >>> import socket
        >>> with no_network() as guard:
        ...     socket.create_connection(("192.0.2.1", 443))
        Traceback (most recent call last):
        agentgraph.testing.network.NetworkRefused: connection to 192.0.2.1:443 refused: no_network() is active; ...
        >>> guard.refused
        ['192.0.2.1:443']
    """

    def __init__(self, *, allow: Iterable[str] = ()) -> None:
        self.allow = frozenset(allow)
        self.refused: list[str] = []

    def __enter__(self) -> Self:
        _patch.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _patch.remove(self)

    def __call__(self, function: F) -> F:
        """Guard every call of a function."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def aguarded(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return cast("F", aguarded)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast("F", guarded)

    def check(self, host: str, port: object) -> None:
        """Raise unless the host is this machine or allowed."""
        __tracebackhide__ = True  # pytest then shows who wanted to connect
        if host in self.allow or is_local(host):
            return
        self.refused.append(f"{host}:{port}")
        raise NetworkRefused(
            f"connection to {host}:{port} refused: no_network() is active; use a scripted model or a server on "
            f"127.0.0.1, or pass no_network(allow=[{host!r}])"
        )


def is_local(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host.lower().rstrip(".") in {*LOCAL_NAMES, socket.gethostname().lower()}:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_loopback or inner.is_unspecified)


class _Patch:
    """The replaced functions of the socket module, as long as any guard is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guards: list[no_network] = []
        self._saved: list[tuple[Any, str, Any]] = []

    def add(self, guard: no_network) -> None:
        with self._lock:
            if not self._guards:
                self._install()
            self._guards.append(guard)

    def remove(self, guard: no_network) -> None:
        with self._lock:
            self._guards.remove(guard)
            if not self._guards:
                self._restore()

    def check(self, host: object, port: object) -> None:
        __tracebackhide__ = True
        name = host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else str(host or "")
        for guard in list(self._guards):
            guard.check(name, port)

    def _install(self) -> None:
        for name in ("connect", "connect_ex", "sendto"):
            # They are inherited from the C class; what was not in the class itself is deleted again.
            self._saved.append((socket.socket, name, vars(socket.socket).get(name)))
            setattr(socket.socket, name, _guarded_method(getattr(socket.socket, name)))
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            self._saved.append((socket, name, getattr(socket, name)))
            setattr(socket, name, _guarded_lookup(getattr(socket, name)))

    def _restore(self) -> None:
        while self._saved:
            owner, name, original = self._saved.pop()
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


_patch = _Patch()


def _guarded_method(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method of sockets whose last argument is an address."""

    @functools.wraps(original)
    def method(self: socket.socket, *args: Any) -> Any:
        __tracebackhide__ = True
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            _patch.check(*_host_and_port(args[-1] if args else None))
        elif self.family != getattr(socket, "AF_UNIX", None):
            _patch.check(f"address family {self.family!r}", args[-1] if args else None)
        return original(self, *args)

    return method


def _host_and_port(address: object) -> tuple[object, object]:
    # A wrong address is the business of the original, which names what it expects.
    return (address[0], address[1]) if isinstance(address, tuple) and len(address) > 1 else ("", None)


def _guarded_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        _patch.check(host, kwargs.get("port", args[0] if args else None))
        return original(host, *args, **kwargs)

    return lookup
