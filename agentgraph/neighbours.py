"""A tool call runs to its end, and its result is kept, whatever happens to its neighbours and to the run.

When a task fails, langgraph cancels the tasks beside it, or stops waiting for them; what they had done is then lost,
and done again when the run goes on. It lets them finish for one kind of failure only, an answer that does not fit
(`is_invalid_resume`). So the exception of a tool that ends the run bears that mark on its way out of the step, and
loses it where the run ends.

When the run itself is cancelled, a call that is at work in a thread cannot be ended. `ThreadWork` says which are.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TypeVar

from langgraph.errors import _INVALID_RESUME, is_invalid_resume  # the mark's name has no public form, its reader has

__all__ = ["ThreadWork", "in_thread", "spare_neighbours", "thread_work", "unmark"]

OURS = "_agentgraph_spares_neighbours"

E = TypeVar("E", bound=BaseException)


def spare_neighbours(error: E) -> E:
    """Mark an exception that is about to leave the tools node, so that the calls beside it are finished first.

    Args:
        error: the exception; control flow and unfit answers must not be given.

    Returns:
        The same exception.
    """
    # An exception that takes no attributes is raised as it is, and cuts its neighbours off.
    if isinstance(getattr(error, "__dict__", None), dict) and not is_invalid_resume(error):
        error.__dict__.update({_INVALID_RESUME: True, OURS: True})
    return error


def unmark(error: BaseException) -> bool:
    """Take the mark off again; whether it was there."""
    fields = getattr(error, "__dict__", None)
    if not isinstance(fields, dict) or fields.pop(OURS, None) is None:
        return False
    fields.pop(_INVALID_RESUME, None)
    return True


class ThreadWork:
    """What one async call is doing in threads, for the task that has to wait for these when it is cancelled.

    Only to be used on the thread of the call's event loop.
    """

    def __init__(self) -> None:
        self._cancels: list[Callable[[], object]] = []
        self._ending = False

    def check(self) -> None:
        """Raise where the call was told to end: it then begins nothing new."""
        if self._ending:
            raise asyncio.CancelledError

    def end(self) -> bool:
        """Tell the call to end; whether it is at work in a thread, which has to be awaited."""
        self._ending = True
        if self._cancels:
            # The innermost: those around it wait for it, and go on with what it gives.
            self._cancels[-1]()
        return bool(self._cancels)

    @contextlib.contextmanager
    def running(self, cancel: Callable[[], object]) -> Generator[None]:
        """Stand around the work of a thread; `cancel` ends what the thread waits for, and lets the thread go on.

        A call that was told to end may still need one, to tell the model what its tool came to.
        """
        self._cancels.append(cancel)
        try:
            yield
        finally:
            self._cancels.remove(cancel)


thread_work: ContextVar[ThreadWork | None] = ContextVar("agentgraph_thread_work", default=None)
"""Of the tool call that this code stands around; None inside the tool's own code, and where there is none."""


def in_thread(cancel: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
    """Stand around the work of a thread, for the tool call that it is part of; nothing, where it is of none."""
    work = thread_work.get()
    return contextlib.nullcontext() if work is None else work.running(cancel)
