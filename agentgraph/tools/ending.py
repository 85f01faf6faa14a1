"""Cancelling a tool call in async code: what is at work in a thread is awaited, everything else ends."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from agentgraph.neighbours import ThreadWork, thread_work

__all__ = ["outlast_cancels", "to_its_end"]

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""So long a run that is cancelled again and again waits for its own end: async clean-up, and storing what is done."""


async def to_its_end(work: Coroutine[Any, Any, T], at_work: "set[asyncio.Task[Any]] | None" = None) -> tuple[T, bool]:
    """Await a tool call and the hooks around it; when this task is cancelled, what is at work in a thread is awaited.

    Nobody can end a thread, and what it does it does once. So its result goes its way, through the hooks, and a new
    attempt is not begun. What the thread waits for through a bridge is cancelled, as is a call that is in no thread.
    Time limits further in are not touched by this: they end the waiting for their thread.

    Args:
        work: the call, as a coroutine.
        at_work: holds the call's own task as long as it goes on, for who still waits for it when this task was
            cancelled a second time. With None nobody does, and the call is then cancelled.

    Returns:
        What it gave, and whether this task was cancelled meanwhile, which is then for the caller to raise.

    Raises:
        asyncio.CancelledError: this task was cancelled and the call came to nothing; or it was cancelled a second
            time, which ends the waiting here at once.

    Example:
        >>> from agentgraph.bridge import run_blocking
        >>> asyncio.run(to_its_end(run_blocking(max, 1, 2)))
        (2, False)
    """
    threads, context = ThreadWork(), copy_context()
    context.run(thread_work.set, threads)
    call = asyncio.create_task(work, context=context)
    if at_work is not None:
        at_work.add(call)
        call.add_done_callback(at_work.discard)
    try:
        await asyncio.wait([call])
    except asyncio.CancelledError as cancelled:
        if not call.done() and not threads.end():
            call.cancel()
        await _wait_again(call, keep=at_work is not None)
        if call.cancelled():
            raise
        if (error := call.exception()) is not None:
            raise cancelled from error
        return call.result(), True
    try:
        return call.result(), False
    finally:
        # A raised exception refers to this frame; without this the two would keep each other alive.
        del call


async def _wait_again(call: "asyncio.Task[Any]", *, keep: bool) -> None:
    try:
        await asyncio.wait([call])
    except asyncio.CancelledError:
        call.add_done_callback(_looked_at)
        if not keep:
            call.cancel()
        raise


async def outlast_cancels(
    work: "asyncio.Task[Any]", *, seconds: float = PATIENCE_SECONDS, unless: Callable[[], bool] = lambda: False
) -> None:
    """Await work that is short and must not be cut, however often this task is cancelled meanwhile.

    Some cancel once and wait; anyio's cancel scopes, and so web servers whose client has gone, cancel again at every
    await.

    Args:
        work: the work; it is not cancelled, and its result and exception are left in it.
        seconds: once this task was cancelled, so long is waited at most.
        unless: where it gives True, a cancel ends the waiting at once.

    Raises:
        asyncio.CancelledError: this task was cancelled meanwhile; raised when the waiting is over.
    """
    until, cancelled = float("inf"), None
    clock = asyncio.get_running_loop().time
    while not work.done() and clock() < until:
        try:
            await asyncio.wait([work], timeout=None if cancelled is None else until - clock())
        except asyncio.CancelledError as error:
            until = clock() + seconds if cancelled is None else until
            cancelled = error
            if unless():
                break
    if cancelled is not None:
        raise cancelled


def _looked_at(call: "asyncio.Task[Any]") -> None:
    """Take notice of an exception that nobody waits for any more, else asyncio reports it."""
    if not call.cancelled():
        call.exception()
