"""Crossing between sync and async code, in both directions, without deadlocks.

=================  =====  =====================================================================
bridge             from   to
=================  =====  =====================================================================
`run_coroutine`    sync   an async function, on a private loop in a worker thread
`run_limited`      sync   a sync function, for a limited time
`sync_handler`     sync   an async function that belongs to a loop in another thread
`run_blocking`     async  a sync function, without blocking the loop
`async_handler`    async  the same, as a wrapper
=================  =====  =====================================================================

Context variables (and so the configuration of the current run) are copied across every bridge. Cancelling goes
across as well: when a task that awaits `run_blocking` is cancelled, whatever the thread is waiting for through another
bridge is cancelled too, so that the thread unwinds with `asyncio.CancelledError`.

Threads come from an elastic set of daemon threads without an upper limit, because any limit deadlocks as soon as that
many calls each wait for a nested one; how many run at once is for those to limit who start them (`max_concurrency`).
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import math
import os
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

from agentgraph.neighbours import in_thread, thread_work

__all__ = ["async_handler", "run_blocking", "run_coroutine", "run_limited", "sync_handler"]

T = TypeVar("T")
P = ParamSpec("P")

IDLE_SECONDS = 10.0  # how long a thread without work waits for some before it ends
GRACE_SECONDS = 5.0  # how long an interrupted `run_coroutine` waits for its cancelled coroutine to clean up
INTERRUPT_SECONDS = 0.5  # how long Ctrl-C may go unnoticed while the main thread waits


class _Threads:
    """Daemon threads that are reused when idle and added when none is.

    Daemons, because a call that nobody awaits any more (a tool beyond its time limit) must not keep a process from
    ending.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: after a fork the child has the objects, but not the threads."""
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job, which must not raise, in a thread of its own."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="agentgraph-bridge", daemon=True).start()
        inbox.put(job)

    def _serve(self, inbox: queue.SimpleQueue[Callable[[], None]]) -> None:
        job: Callable[[], None] | None = inbox.get()
        while job is not None:
            job()
            # An idle thread must not keep the arguments of its last call alive.
            job = None
            with self._lock:
                self._idle.append(inbox)
            job = self._next(inbox)

    def _next(self, inbox: queue.SimpleQueue[Callable[[], None]]) -> Callable[[], None] | None:
        try:
            return inbox.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
            # It was picked for a job at the same moment; the job is about to arrive.
            return inbox.get()


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)


class _Scope:
    """What a call in a thread waits for, so that it can be cancelled from outside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancels: dict[int, Callable[[], object]] = {}
        self._cancelled = False

    def check(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError

    @contextlib.contextmanager
    def holding(self, cancel: Callable[[], object]) -> Generator[None]:
        with self._lock:
            self.check()
            self._cancels[id(cancel)] = cancel
        try:
            yield
        finally:
            with self._lock:
                del self._cancels[id(cancel)]

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            cancels = list(self._cancels.values())
        for cancel in cancels:
            cancel()


_scope: ContextVar[_Scope | None] = ContextVar("agentgraph_bridge_scope", default=None)


def _held(cancel: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
    scope = _scope.get()
    return contextlib.nullcontext() if scope is None else scope.holding(cancel)


def _perform(func: Callable[[], T], done: concurrent.futures.Future[T]) -> concurrent.futures.Future[T]:
    """Call a function and hold what it returned or raised."""
    try:
        done.set_result(func())
    except StopIteration as error:
        # No future, generator or coroutine can carry a StopIteration out.
        wrapped = RuntimeError(f"the called function raised StopIteration({error.value!r:.200})")
        wrapped.__cause__ = error
        done.set_exception(wrapped)
    except BaseException as error:  # noqa: BLE001 (it is raised again in the thread that waits)
        done.set_exception(error)
    return done


class _PrivateRun(Generic[T]):
    """One coroutine on a loop of its own, in a thread of its own."""

    def __init__(self, work: Awaitable[T] | Callable[[], Awaitable[T]]) -> None:
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._work = work
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None] | None = None
        self._cancelled = False

    def run(self) -> None:
        _perform(self._on_a_loop, self.done)

    def _on_a_loop(self) -> T:
        with asyncio.Runner() as runner:
            return runner.run(self._main(), context=self._context)

    async def _main(self) -> T:
        with self._lock:
            self._running = asyncio.get_running_loop(), asyncio.current_task()
            cancelled = self._cancelled
        if cancelled:
            self.discard()
            raise asyncio.CancelledError
        return await (self._work() if callable(self._work) else self._work)

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            running = self._running
        if running is not None and running[1] is not None:
            # The loop is closed when the coroutine has just ended by itself.
            with contextlib.suppress(RuntimeError):
                running[0].call_soon_threadsafe(running[1].cancel)

    def abandon(self) -> None:
        """Let it clean up when the one who waits was interrupted; nothing, where it has ended."""
        if self.done.done():
            return
        self.cancel()
        if self._running is None:
            # Should it begin just now, it sees that it was cancelled.
            self.discard()
        else:
            concurrent.futures.wait([self.done], timeout=GRACE_SECONDS)

    def discard(self) -> None:
        """Close a coroutine that will never be awaited."""
        if inspect.iscoroutine(self._work):
            self._work.close()


def _wait(done: "concurrent.futures.Future[Any]", seconds: float = math.inf) -> bool:
    """Wait in this thread; False when the time is over."""
    # A signal may reach another thread, and some systems never wake a waiting one: the main thread looks up in between.
    longest = INTERRUPT_SECONDS if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
    until = time.monotonic() + seconds
    while not concurrent.futures.wait([done], timeout=max(0.0, min(longest, until - time.monotonic()))).done:
        if time.monotonic() >= until:
            return False
    return True


def run_coroutine(work: Awaitable[T] | Callable[[], Awaitable[T]]) -> T:
    """Run something async from sync code and return its value.

    It runs on a private event loop in a worker thread, whether or not this thread has a running loop, with a copy of
    this thread's context variables. A running loop of this thread is blocked meanwhile, as by every sync call.

    Args:
        work: a coroutine, or a function without arguments that returns one. Objects that belong to another loop
            (a Task, a client with open connections) cannot be awaited here; give a function that makes them.

    Returns:
        What the coroutine returned; what it raised is raised. When this thread is interrupted (KeyboardInterrupt), the
        coroutine is cancelled and given `GRACE_SECONDS` to clean up.

    Example:
        >>> async def answer() -> int:
        ...     return 42
        >>> run_coroutine(answer)
        42
    """
    call = _PrivateRun(work)
    try:
        with _held(call.cancel):
            _threads.submit(call.run)
            _wait(call.done)
            return call.done.result()
    except BaseException:
        call.abandon()
        raise
    finally:
        # A raised exception refers to this frame; without this the two would keep each other alive.
        del call


def _in_scope(func: Callable[[], T]) -> tuple[_Scope, Callable[[], T]]:
    """A function that runs with this thread's context variables and a scope of its own."""
    scope = _Scope()
    context = contextvars.copy_context()
    context.run(_scope.set, scope)
    context.run(thread_work.set, None)
    return scope, functools.partial(context.run, func)


async def run_blocking(func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a sync function from async code in a thread, without blocking the loop, and return its value.

    Cancelling the awaiting task ends the awaiting at once. The thread cannot be killed: it is told to unwind where it
    waits for another bridge, and otherwise goes on by itself and its value is dropped, unless who waits is more patient
    (`ThreadWork`).

    Args:
        func: the function; it sees a copy of this task's context variables.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Returns:
        What the function returned; what it raised is raised, a StopIteration as RuntimeError.

    Example:
        >>> asyncio.run(run_blocking(max, 1, 2))
        2
    """
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[concurrent.futures.Future[T]] = loop.create_future()
    scope, call = _in_scope(functools.partial(func, *args, **kwargs))
    with in_thread(scope.cancel):
        _threads.submit(functools.partial(_settle, call, loop, settled))
        try:
            outcome = await settled
        except asyncio.CancelledError:
            scope.cancel()
            raise
    try:
        return outcome.result()
    finally:
        del outcome, settled


def _settle(call: Callable[[], Any], loop: asyncio.AbstractEventLoop, settled: "asyncio.Future[Any]") -> None:
    outcome = _perform(call, concurrent.futures.Future())
    # On a loop that was closed meanwhile nobody waits any more.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_tell, settled, outcome)


def _tell(settled: "asyncio.Future[Any]", outcome: "concurrent.futures.Future[Any]") -> None:
    if not settled.done():
        settled.set_result(outcome)


def run_limited(func: Callable[[], T], *, seconds: float, expired: Callable[[], Exception]) -> T:
    """Run a sync function from sync code for a limited time.

    Args:
        func: the function, without arguments; it runs in a thread with a copy of this thread's context variables.
        seconds: the limit. The thread cannot be killed: at the limit it is told to unwind where it waits for another
            bridge, and otherwise goes on by itself and its value is dropped.
        expired: makes the exception to raise at the limit.

    Returns:
        What the function returned; what it raised, or what `expired` made, is raised.

    Example:
        >>> run_limited(lambda: 42, seconds=1.0, expired=TimeoutError)
        42
    """
    scope, call = _in_scope(func)
    done: concurrent.futures.Future[concurrent.futures.Future[T]] = concurrent.futures.Future()
    with _held(scope.cancel):
        try:
            _threads.submit(lambda: done.set_result(_perform(call, concurrent.futures.Future())))
            finished = _wait(done, seconds)
        except BaseException:
            scope.cancel()
            raise
    if not finished:
        scope.cancel()
        raise expired()
    return done.result().result()


def sync_handler(handler: Callable[P, Awaitable[T]], loop: asyncio.AbstractEventLoop) -> Callable[P, T]:
    """Make an async function callable from a worker thread: it runs on the given loop.

    This is what a sync wrapper gets as its `handler` in an async run, in a thread of `run_blocking`. When the awaiting
    task is cancelled, the inner call is cancelled and the thread sees `asyncio.CancelledError`.

    Args:
        handler: the async function.
        loop: the running loop on which it is to run.

    Returns:
        A sync function with the same parameters, not to be called on the thread of `loop`, which would wait for itself.
    """
    work = thread_work.get()

    async def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        thread_work.set(work)
        return await handler(*args, **kwargs)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 (get_running_loop raises where there is none, which is the rule here)
            raise RuntimeError(
                "A sync handler was called on the thread of its own event loop, which would wait for itself for ever. "
                "Call it in the thread that the wrapper was started in."
            )
        return _call_on_loop(functools.partial(inner, *args, **kwargs), loop)

    return call


def _call_on_loop(func: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> T:
    # A call that was cancelled starts nothing new.
    if (scope := _scope.get()) is not None:
        scope.check()
    inner = func()
    try:
        future = asyncio.run_coroutine_threadsafe(inner, loop)
    except RuntimeError:
        inner.close()
        raise
    try:
        with _held(future.cancel):
            return future.result()
    except concurrent.futures.CancelledError:
        # concurrent.futures' own is an Exception, which a wrapper's catch-all would swallow.
        raise asyncio.CancelledError from None
    except BaseException:
        future.cancel()
        raise
    finally:
        del future


def async_handler(handler: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a sync function awaitable: each call runs in a thread by `run_blocking`.

    This is what an async wrapper gets as its `handler` in a sync run. The parameters stay the same.
    """

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_blocking(handler, *args, **kwargs)

    return call
