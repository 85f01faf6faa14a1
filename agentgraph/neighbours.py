"""A failing tool changes nothing for its neighbours: they run to their end, and their results are kept.

When a task fails, langgraph cancels the tasks beside it, or stops waiting for them; what they had done is then lost,
and done again when the run goes on. It lets them finish for one kind of failure only, an answer that does not fit
(`is_invalid_resume`). So the exception of a tool that ends the run bears that mark on its way out of the step, and
loses it where the run ends.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, TypeVar

from langgraph.errors import _INVALID_RESUME, is_invalid_resume  # the mark's name has no public form, its reader has

__all__ = ["aunmarked", "spare_neighbours", "unmark", "unmarked"]

OURS = "_agentgraph_spares_neighbours"

E = TypeVar("E", bound=Exception)


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


def unmarked(pieces: Iterator[Any]) -> Generator[Any]:
    """The stream of a run inside another, whose exceptions leave it without the mark."""
    try:
        yield from pieces
    except Exception as error:
        unmark(error)
        raise


async def aunmarked(pieces: AsyncIterator[Any]) -> AsyncGenerator[Any]:
    """Async form of `unmarked`."""
    try:
        async for piece in pieces:
            yield piece
    except Exception as error:
        unmark(error)
        raise
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
