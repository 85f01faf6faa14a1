"""Wrap hooks written once: a generator without I/O, and the two drivers that run it, sync and async.

A flow yields a request to have it called, or a `Pause`; it receives the response, or the call's exception is raised at
the yield. What it returns is the hook's result. Since it never does I/O itself, one body serves both worlds.

Interrupts are langgraph's control flow, no failure that a flow could treat, so they pass: the flow is closed (its
`finally` blocks run) and never sees them. The same holds for a cancelled run.

The idea is that of httpx's `auth_flow` and of pluggy's wrappers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphBubbleUp

from agentgraph.errors import ConfigurationTypeError
from agentgraph.pausing import pause

__all__ = ["Pause", "adrive", "drive"]

Flow = Generator[Any, Any, Any]


@dataclass(frozen=True)
class Pause:
    """What a flow yields to wait: a sync run sleeps, an async run awaits.

    Args:
        seconds: how long; 0 or less does not wait.
    """

    seconds: float


def drive(flow: Flow, handler: Callable[[Any], Any], *, sleep: Callable[[float], Any] = pause) -> Any:
    """Run a flow in sync code.

    Args:
        flow: the generator.
        handler: makes the call for a request that the flow yields.
        sleep: waits for a `Pause`; seconds.

    Returns:
        What the flow returns.

    Raises:
        ConfigurationTypeError: it is no generator.

    Example:
        >>> def twice(request):
        ...     yield request
        ...     return (yield request + 1)
        >>> drive(twice(1), lambda request: request * 10)
        20
    """
    step = _first(flow)
    try:
        while True:
            try:
                asked = step()  # also the first step: a flow may return before it yields anything
            except StopIteration as stop:
                return stop.value
            try:
                given = sleep(max(asked.seconds, 0)) if isinstance(asked, Pause) else handler(asked)
            except GraphBubbleUp:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the call raised is the flow's to treat
                step = _throwing(flow, error)
            else:
                step = _sending(flow, given)
    finally:
        flow.close()


async def adrive(
    flow: Flow, handler: Callable[[Any], Awaitable[Any]], *, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
) -> Any:
    """Run a flow in async code; arguments, result and errors as `drive`."""
    step = _first(flow)
    try:
        while True:
            try:
                asked = step()
            except StopIteration as stop:
                return stop.value
            try:
                given = await (sleep(max(asked.seconds, 0)) if isinstance(asked, Pause) else handler(asked))
            except GraphBubbleUp:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the call raised is the flow's to treat
                step = _throwing(flow, error)
            else:
                step = _sending(flow, given)
    finally:
        flow.close()


def _first(flow: Flow) -> Callable[[], Any]:
    if isinstance(flow, Generator):
        return flow.__next__
    raise ConfigurationTypeError(
        f"A flow (`model_call` or `tool_call`) gave {type(flow).__name__}; expected was a generator: a plain function, "
        "not `async def`, with `response = yield request` in it."
    )


def _sending(flow: Flow, value: Any) -> Callable[[], Any]:
    return lambda: flow.send(value)


def _throwing(flow: Flow, error: Exception) -> Callable[[], Any]:
    return lambda: flow.throw(error)
