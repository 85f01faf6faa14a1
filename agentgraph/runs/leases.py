"""Threads are exclusive: at most one run at a time is at work on a thread.

Two runs on one thread would each build on the checkpoint the other is about to replace, and leave a history in which
calls and answers of both are mixed. So a run takes the thread's lease before it reads anything, and gives it back when
it ends, however it ends.

A saver that is used by several processes has its own lease (`thread_lease(thread_id)`, given back by the operating
system or the server when a process dies). For every other saver a table of this process is kept.
"""

import asyncio
import contextvars
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from agentgraph import bridge
from agentgraph.errors import ThreadBusyError
from agentgraph.nodes.effects import Effect, Steps
from agentgraph.runs.savers import shared_by_copies
from agentgraph.tools.ending import outlast_cancels

__all__ = ["HeldThread", "ThreadLease", "has_taken", "hold", "let_go", "runs_on", "take_thread"]

FIRST_PAUSE = 0.005
"""Seconds until a busy thread is asked for again; grows to LONGEST_PAUSE."""

LONGEST_PAUSE = 0.1

Key = tuple[int, str]


class ThreadLease(Protocol):
    """The right to work on a thread, as a saver gives it."""

    def release(self) -> object:
        """Give it back."""


_taken: dict[Key, tuple[object, Any]] = {}
# Of the runs of this process: the holder, and what the key names, so that its id is not given to another object.
# Without a lock, because the garbage collector may give back a forgotten lease at any point, also inside `_take_here`.


class _LocalLease:
    """A lease among the runs of this process."""

    def __init__(self, key: Key) -> None:
        self._key = key

    def release(self) -> None:
        _taken.pop(self._key, None)


def _take_here(saver: Any, thread_id: str) -> _LocalLease | None:
    key, token = _key(saver, thread_id), object()
    kept = token, shared_by_copies(saver)
    return _LocalLease(key) if _taken.setdefault(key, kept)[0] is token else None


def _key(saver: Any, thread_id: str) -> Key:
    return id(shared_by_copies(saver)), thread_id


class HeldThread:
    """A lease that is given back once: by `release`, or when nobody refers to it any more.

    The second way is for a stream that was left behind unfinished and collected.
    """

    def __init__(self, key: Key, lease: ThreadLease) -> None:
        self.key = key
        self._is_local = isinstance(lease, _LocalLease)
        self._finalizer = weakref.finalize(self, lease.release)
        self._finalizer.atexit = False

    @property
    def is_held(self) -> bool:
        """Whether it was not given back yet."""
        return self._finalizer.alive

    def release(self) -> None:
        """Give the thread back; nothing, the second time."""
        self._finalizer()

    def release_later(self) -> None:
        """The same, in a thread, for who can neither wait nor block."""
        if self._is_local:
            self.release()
        else:
            bridge._threads.submit(self.release)  # noqa: SLF001 - a job in a thread, without a loop

    async def arelease(self) -> None:
        """The same, without blocking the loop while a server is told."""
        if self._is_local:
            self.release()
        else:
            # A cancelled run gives its thread back before it ends.
            await outlast_cancels(asyncio.create_task(bridge.run_blocking(self.release)))


_held: contextvars.ContextVar[frozenset[Key]] = contextvars.ContextVar("agentgraph_held_threads", default=frozenset())


def hold(held: HeldThread) -> "contextvars.Token[frozenset[Key]]":
    """Let code in this context know that its own run holds the thread, so that it never waits for itself."""
    return _held.set(_held.get() | {held.key})


def let_go(token: "contextvars.Token[frozenset[Key]]") -> None:
    """The end of `hold`."""
    _held.reset(token)


_own: contextvars.ContextVar[tuple["weakref.ref[HeldThread]", ...]] = contextvars.ContextVar(
    "agentgraph_own_threads", default=()
)


def _remember(held: HeldThread) -> None:
    earlier = [one for one in _own.get() if (other := one()) is not None and other.is_held]
    _own.set((*earlier, weakref.ref(held)))


def has_taken(saver: Any, thread_id: str) -> bool:
    """Whether code in this context holds the thread, having taken it without a run."""
    key = _key(saver, thread_id)
    return any((held := one()) is not None and held.key == key and held.is_held for one in _own.get())


def runs_on(saver: Any, thread_id: str) -> bool:
    """Whether code in this context is part of a run on the thread."""
    return _key(saver, thread_id) in _held.get()


def take_thread(
    saver: Any,
    thread_id: str,
    *,
    wait: bool,
    until: float | None = None,
    check: Callable[[], None] | None = None,
    is_run: bool = False,
) -> Steps:
    """Take a thread's lease.

    Args:
        saver: the checkpoint saver that keeps the thread.
        thread_id: the thread.
        wait: whether to wait for a busy thread instead of raising.
        until: when waiting ends, on the clock of `time.monotonic`; None for never.
        check: called while waiting; raises when the run was asked to end meanwhile.
        is_run: whether a run takes it, whose stream is read by code that is no part of it. Else all code in this
            context may write to the thread until it is given back.

    Returns:
        A HeldThread.

    Raises:
        ThreadBusyError: another run works on the thread, and (with `wait`) did so until the time was over.
    """
    key = _key(saver, thread_id)
    pause = FIRST_PAUSE
    while True:
        lease = yield Effect(_take, _atake, (saver, thread_id))
        if lease is not None:
            held = HeldThread(key, lease)
            if not is_run:
                _remember(held)
            return held
        if not wait or key in _held.get() or (until is not None and time.monotonic() >= until):
            raise ThreadBusyError(_busy(thread_id, waited=wait, own=key in _held.get()))
        if check is not None:
            check()
        yield Effect(time.sleep, asyncio.sleep, (pause,))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _busy(thread_id: str, *, waited: bool, own: bool) -> str:
    if own:
        return (
            f"The thread {thread_id!r:.100} belongs to the run that this call is part of, so a second run on it can "
            "never begin, and its state changes by what tools and hooks return. Give an inner run a thread_id of its "
            "own."
        )
    how_long = ", and was so until the time was over" if waited else ""
    return (
        f"Another run is at work on the thread {thread_id!r:.100}{how_long}. "
        "Nothing was done. Try again when it has ended, cancel it, or let runs wait for each other: "
        'RunControl(on_busy="wait"), or open_checkpointer(..., on_busy="wait").'
    )


def _take(saver: Any, thread_id: str) -> ThreadLease | None:
    own = getattr(saver, "thread_lease", None)
    lease: ThreadLease | None = _take_here(saver, thread_id) if own is None else own(thread_id)
    return lease


async def _atake(saver: Any, thread_id: str) -> ThreadLease | None:
    if getattr(saver, "thread_lease", None) is None:
        return _take(saver, thread_id)
    if (own := getattr(saver, "athread_lease", None)) is not None:
        lease: ThreadLease | None = await own(thread_id)
        return lease
    taking = asyncio.ensure_future(bridge.run_blocking(_take, saver, thread_id))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_return_unwanted)
        raise


def _return_unwanted(taking: "asyncio.Future[ThreadLease | None]") -> None:
    if not taking.cancelled() and taking.exception() is None and (lease := taking.result()) is not None:
        lease.release()
