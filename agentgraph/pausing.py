"""Waiting in sync code, for no longer than the run goes on that waits."""

import threading
import time

from agentgraph import bridge

__all__ = ["pause"]


def pause(seconds: float) -> None:
    """Sleep; ended early where the run is cancelled or out of time.

    Args:
        seconds: how long.

    Raises:
        asyncio.CancelledError: the run that this is part of was asked to end meanwhile.

    Example:
        >>> pause(0.0)
    """
    scope = bridge._scope.get()  # noqa: SLF001 - what a run cancels of the work in threads
    if scope is None:
        time.sleep(seconds)
        return
    ended = threading.Event()
    with scope.holding(ended.set):
        ended.wait(seconds)
    scope.check()
