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
    given: Any = None
    try:
        while True:
            try:
                effect = steps.send(given)
            except StopIteration as stop:
                return stop.value
            given = _called(effect)
    finally:
        steps.close()


async def aperform(steps: Steps) -> Any:
    """Run the steps in async code; the result is what they return."""
    given: Any = None
    try:
        while True:
            try:
                effect = steps.send(given)
            except StopIteration as stop:
                return stop.value
            given = await effect.asynchronous(*effect.args)
    finally:
        steps.close()


def _called(effect: Effect) -> Any:
    try:
        return effect.sync(*effect.args)
    except StopIteration as error:
        # As Python does in async functions: a forgotten `next()` must not pass for the end of whatever runs it.
        raise RuntimeError("A hook or a model raised StopIteration, as next() on an empty iterator does.") from error
