"""One body for sync and async: a node is a generator that yields the calls it wants made.

Everything between two effects is plain, synchronous code; only the two small drivers here know whether a call is
awaited.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple

__all__ = ["Effect", "Steps", "aperform", "perform"]


class Effect(NamedTuple):
    """A call to be made with `args`, by whichever half fits the run."""

    sync: Callable[..., Any]
    asynchronous: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]


Steps = Generator[Effect, Any, Any]


def perform(steps: Steps) -> Any:
    """Run the steps in sync code; the result is what they return."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(effect.sync(*effect.args))
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()


async def aperform(steps: Steps) -> Any:
    """Run the steps in async code; the result is what they return."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(await effect.asynchronous(*effect.args))
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()
