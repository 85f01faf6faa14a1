"""Waiting, apart from deciding: what a test model has to wait for, and the sync and async drivers of its flows.

A model's call is written once, as a generator that yields whatever has to be waited for (a `Pause`) and is sent the
result; a stream's generator yields pieces between them.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langchain_core.messages import AIMessageChunk

from agentgraph.bridge import run_blocking, run_coroutine

__all__ = ["END", "Call", "Next", "Open", "Pause", "arun", "astream", "run", "stream"]

T = TypeVar("T")

END: Any = object()
"""What `Next` gives when there is no next piece."""


class Pause(Protocol):
    """Something to wait for, by blocking or by awaiting."""

    def run(self) -> Any:
        """Wait in this thread."""

    async def arun(self) -> Any:
        """Wait on the running loop."""


@dataclass(frozen=True)
class Call:
    """A function of the user's, sync or async, that makes a reply."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self) -> Any:
        """Call it; what it awaits runs on a private loop."""
        value = self.function(*self.arguments)
        return run_coroutine(value) if inspect.isawaitable(value) else value

    async def arun(self) -> Any:
        """Call it; a sync one runs in a thread, since it may block."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(*self.arguments)
        value = await run_blocking(self.function, *self.arguments)
        return await value if inspect.isawaitable(value) else value


@dataclass(frozen=True)
class Open:
    """A function of the user's that returns an iterator or async iterator of pieces."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self) -> Iterator[Any]:
        """Call it; an async iterator is read to its end first, since only one loop may drive it."""
        source = self.function(*self.arguments)
        return iter(run_coroutine(_collect(source))) if isinstance(source, AsyncIterator) else iter(source)

    async def arun(self) -> AsyncIterator[Any] | Iterator[Any]:
        """Call it; a generator function does nothing yet, so this cannot block."""
        source = self.function(*self.arguments)
        return source if isinstance(source, AsyncIterator) else iter(source)


@dataclass(frozen=True)
class Next:
    """The next piece of what `Open` opened, or END."""

    source: Any

    def run(self) -> Any:
        """Take it."""
        return next(self.source, END)

    async def arun(self) -> Any:
        """Take it; a sync iterator runs in a thread, since it may block."""
        if isinstance(self.source, AsyncIterator):
            return await anext(self.source, END)
        return await run_blocking(next, self.source, END)


async def _collect(source: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in source]


def run(flow: Generator[Pause, Any, T]) -> T:
    """Drive a flow from sync code.

    Args:
        flow: yields what to wait for.

    Returns:
        What the flow returns.
    """
    result = None
    while True:
        try:
            pause = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        result = pause.run()


async def arun(flow: Generator[Pause, Any, T]) -> T:
    """Drive a flow from async code, see `run`."""
    result = None
    while True:
        try:
            pause = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        result = await pause.arun()


def stream(flow: Generator[Pause | AIMessageChunk, Any, None]) -> Iterator[AIMessageChunk]:
    """Drive the flow of a stream from sync code.

    Args:
        flow: yields pieces, and what to wait for.

    Yields:
        The pieces.
    """
    result = None
    while True:
        try:
            step = flow.send(result)
        except StopIteration:
            return
        result = None
        if isinstance(step, AIMessageChunk):
            yield step
        else:
            result = step.run()


async def astream(flow: Generator[Pause | AIMessageChunk, Any, None]) -> AsyncIterator[AIMessageChunk]:
    """Drive the flow of a stream from async code, see `stream`."""
    result = None
    while True:
        try:
            step = flow.send(result)
        except StopIteration:
            return
        result = None
        if isinstance(step, AIMessageChunk):
            yield step
        else:
            result = await step.arun()
