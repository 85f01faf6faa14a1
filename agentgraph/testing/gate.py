"""Gates: hold a model's reply, or a tool, until the test lets it go. No sleeping, every wait bounded."""

import asyncio
import contextlib
import threading
from typing import Any

from agentgraph.testing.replies import Reply, Staged

__all__ = ["Gate", "Signal"]


class Signal:
    """An event that sync and async code can wait for, in any thread and on any loop.

    Unlike `threading.Event` it never blocks a loop, unlike `asyncio.Event` it may be set from everywhere.

    Args:
        name: what it says, for the error of a wait that takes too long.
        timeout: seconds that a wait takes at most unless it names its own.
    """

    def __init__(self, name: str = "signal", *, timeout: float = 10.0) -> None:
        self._name = name
        self._timeout = timeout
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def __repr__(self) -> str:
        return f"Signal({self._name!r}, {'set' if self.is_set() else 'not set'})"

    def is_set(self) -> bool:
        """Whether it was given."""
        return self._event.is_set()

    def set(self) -> None:
        """Give the signal: every present and later wait ends."""
        with self._lock:
            self._event.set()
            waiters, self._waiters = self._waiters, []
        for loop, waiter in waiters:
            # A closed loop has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, waiter)

    def wait(self, timeout: float | None = None) -> None:
        """Block this thread until the signal is given.

        Args:
            timeout: seconds; by default those of the signal.

        Raises:
            TimeoutError: it was not given in time.
        """
        seconds = self._timeout if timeout is None else timeout
        if not self._event.wait(seconds):
            raise self._late(seconds)

    async def wait_async(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the twin of `wait`)
        """Wait on the running loop until the signal is given, see `wait`."""
        seconds = self._timeout if timeout is None else timeout
        waiter = self._waiter()
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            raise self._late(seconds) from None

    def _waiter(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._event.is_set():
                waiter.set_result(None)
            else:
                self._waiters.append((loop, waiter))
        return waiter

    def _late(self, seconds: float) -> TimeoutError:
        return TimeoutError(f"{self._name}: nothing came in {seconds} s; was it to be set by another thread or task?")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Gate:
    """A place where a run stops until the test opens it.

    `arrived` is given as soon as a run stands at the gate; `open()` lets it, and all that come later, pass. Use
    `gate.hold(reply)` as a reply of a `ScriptedModel`, or call `gate.run()` (`await gate.arun()`) in a tool.

    Args:
        timeout: seconds that either side waits at most; then TimeoutError.

    Attributes:
        arrived: `Signal` that a run stands at the gate.
        opened: `Signal` that it may pass.

    Example:
        >>> import threading
        >>> from agentgraph.testing import ScriptedModel
        >>> gate = Gate()
        >>> model = ScriptedModel(gate.hold("late"))
        >>> answers = []
        >>> thread = threading.Thread(target=lambda: answers.append(model.invoke("hi").content))
        >>> thread.start()
        >>> gate.arrived.wait()  # the request is on its way, and nothing has come back
        >>> answers
        []
        >>> gate.open()
        >>> thread.join(10)
        >>> answers
        ['late']
    """

    def __init__(self, *, timeout: float = 10.0) -> None:
        self.arrived = Signal("nobody arrived at the gate", timeout=timeout)
        self.opened = Signal("the gate was not opened", timeout=timeout)

    def open(self) -> None:
        """Let everybody pass, now and later."""
        self.opened.set()

    def run(self) -> None:
        """Stand at the gate and block this thread until it opens."""
        self.arrived.set()
        self.opened.wait()

    async def arun(self) -> None:
        """Stand at the gate and await its opening; the loop goes on."""
        self.arrived.set()
        await self.opened.wait_async()

    def hold(self, reply: Reply, *, after: int = 0) -> Any:
        """A reply that waits at this gate.

        Args:
            reply: the reply, in any form that a `ScriptedModel` takes.
            after: number of pieces of a stream that come before the wait. A reply that is not streamed waits as a
                whole.

        Returns:
            A reply for a `ScriptedModel` or `FunctionModel`.
        """
        return Staged(reply, pause=self, after=after)
