"""Closing what the garbage collector finds, without waiting for locks.

The collector closes a stream that was left in a cycle, such as that of an error and its traceback, wherever a thread is
just then: perhaps inside of the connection pool, whose lock the closing would take. The thread would wait for itself.
"""

import _thread
import gc
import threading
from collections.abc import Callable
from typing import Final

__all__ = ["outside_of_collection"]


class _Collecting(threading.local):
    now = False


_COLLECTING: Final = _Collecting()


def _notice(phase: str, _: dict[str, int]) -> None:
    _COLLECTING.now = phase == "start"


gc.callbacks.append(_notice)


def outside_of_collection(close: Callable[[], None]) -> None:
    """Call a function now, or in another thread while the garbage collector runs in this one.

    Args:
        close: may take locks.
    """
    if _COLLECTING.now:
        _thread.start_new_thread(close, ())  # a Thread would take locks of its own
    else:
        close()
