"""Composing: many wrap hooks as one call, in both worlds.

The first middleware in the list is the outermost layer. Each layer is called with a handler that goes one layer
further in. Two things are kept for every layer, whatever its own code does: an interrupt that came up from inside
passes (a catch-all cannot swallow it, a retry cannot run past it), and the state updates of the inner layers are those
of the last attempt only.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Command

from agentgraph import bridge
from agentgraph.errors import ConfigurationTypeError, ResumeError
from agentgraph.flows import adrive, drive
from agentgraph.hooks import HookSpec, nearness, overrides

__all__ = ["Call", "Composed", "Wrap", "compose", "has_hook", "hook_pair"]

Lift = Callable[[Any], tuple[Any, Command[Any] | None]]
Fit = Callable[[Callable[..., Any], str], Callable[..., Any]]


@dataclass(frozen=True)
class Composed:
    """What a composed call gave: the value for the caller, and the updates of all layers, the innermost first."""

    value: Any
    commands: tuple[Command[Any], ...] = ()


@dataclass(frozen=True)
class Wrap:
    """One middleware's wrap hook, both halves present: the missing one crosses a bridge."""

    sync: Callable[[Any, Callable[[Any], Any]], Any]
    asynchronous: Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True)
class Call:
    """A composed call, both halves."""

    sync: Callable[[Any], Composed]
    asynchronous: Callable[[Any], Awaitable[Composed]]


def has_hook(middleware: Any, spec: HookSpec) -> bool:
    """Whether a middleware has the hook in any form: sync, async or as a flow."""
    return any(overrides(middleware, method) for method in (spec.name, spec.async_name, spec.flow) if method)


def hook_pair(middleware: Any, spec: HookSpec) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """Both halves of a before or after hook.

    Raises:
        ConfigurationTypeError: a half cannot be called with `(state, runtime)`, or is async under the sync name.
    """
    sync, twin = (_own(middleware, spec, method, _fit_hook) for method in (spec.name, spec.async_name))
    if twin is None:
        return sync, functools.partial(bridge.run_blocking, sync)  # type: ignore[return-value, arg-type] # one of the two is there
    if sync is None:
        return lambda *args: bridge.run_coroutine(lambda: twin(*args)), twin
    return sync, twin


def wrap_of(middleware: Any, spec: HookSpec) -> Wrap:
    """A middleware's wrap hook with both halves.

    Raises:
        ConfigurationTypeError: a half cannot be called with `(request, handler)`, or is async under the sync name.
    """
    if _flow_is_nearest(middleware, spec):
        flow = _own(middleware, spec, spec.flow, _fit_flow)
        return Wrap(
            lambda request, handler: drive(flow(request), handler),  # type: ignore[misc] # it was just found
            lambda request, handler: adrive(flow(request), handler),  # type: ignore[misc] # as above
        )
    sync, twin = (_own(middleware, spec, method, _fit_wrap) for method in (spec.name, spec.async_name))
    return Wrap(
        sync or functools.partial(_through_async, twin),  # type: ignore[arg-type] # one of the two is there
        twin or functools.partial(_through_sync, sync),  # type: ignore[arg-type] # as above
    )


def compose(middleware: Sequence[Any], spec: HookSpec, base: Call, lift: Lift) -> Call:
    """All wrap hooks of one kind around a base call.

    Args:
        middleware: in the user's order; those without the hook are passed over.
        spec: the hook.
        base: the call that they wrap.
        lift: a hook's result as (value for the layer outside, state update or None).
    """
    call = base
    for one in reversed([m for m in middleware if has_hook(m, spec)]):
        layer = _Layer(wrap_of(one, spec), call, lift)
        call = Call(layer.call, layer.acall)
    return call


@dataclass(frozen=True)
class _Layer:
    wrap: Wrap
    inner: Call
    lift: Lift

    def call(self, request: Any) -> Composed:
        inside = _Inside()

        def handler(changed: Any) -> Any:
            inside.enter()
            try:
                return inside.leave(self.inner.sync(changed))
            except (GraphBubbleUp, ResumeError) as bubble:
                inside.bubble = bubble
                raise

        try:
            result = self.wrap.sync(request, handler)
        except Exception:
            inside.pass_on()
            raise
        return inside.result(self.lift(result))

    async def acall(self, request: Any) -> Composed:
        inside = _Inside()

        async def handler(changed: Any) -> Any:
            inside.enter()
            try:
                return inside.leave(await self.inner.asynchronous(changed))
            except (GraphBubbleUp, ResumeError) as bubble:
                inside.bubble = bubble
                raise

        try:
            result = await self.wrap.asynchronous(request, handler)
        except Exception:
            inside.pass_on()
            raise
        return inside.result(self.lift(result))


@dataclass
class _Inside:
    """What happened further in during one call of a layer."""

    commands: tuple[Command[Any], ...] = ()
    bubble: GraphBubbleUp | ResumeError | None = field(default=None)

    def enter(self) -> None:
        self.pass_on()
        self.commands = ()

    def leave(self, composed: Composed) -> Any:
        self.commands = composed.commands
        return composed.value

    def pass_on(self) -> None:
        if self.bubble is not None:
            raise self.bubble

    def result(self, lifted: tuple[Any, Command[Any] | None]) -> Composed:
        self.pass_on()
        value, command = lifted
        return Composed(value, self.commands if command is None else (*self.commands, command))


def _through_async(
    twin: Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]], request: Any, handler: Callable[[Any], Any]
) -> Any:
    return bridge.run_coroutine(lambda: twin(request, bridge.async_handler(handler)))


async def _through_sync(
    sync: Callable[[Any, Callable[[Any], Any]], Any], request: Any, handler: Callable[[Any], Awaitable[Any]]
) -> Any:
    return await bridge.run_blocking(sync, request, bridge.sync_handler(handler, asyncio.get_running_loop()))


def _flow_is_nearest(middleware: Any, spec: HookSpec) -> bool:
    """A flow counts where there are no halves, and where it stands in a class derived from theirs."""
    flow, *halves = (nearness(middleware, name) for name in (spec.flow, spec.name, spec.async_name))
    return flow is not None and all(half is None or flow < half for half in halves)


def _own(middleware: Any, spec: HookSpec, name: str, fit: Fit) -> Callable[..., Any] | None:
    """A method as far as the middleware has it itself, fit to be called."""
    if not overrides(middleware, name):
        return None
    method, label = getattr(middleware, name), f"{type(middleware).__name__}.{name}"
    if name != spec.async_name and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
        raise ConfigurationTypeError(
            f"{label} is an async function under a sync name. The async half of the hook is called {spec.async_name}; "
            "a flow is a plain generator function, which serves both."
        )
    return fit(method, label)


_PASSED_BY_NAME: dict[str, Callable[[Runtime[Any]], Any]] = {
    "runtime": lambda runtime: runtime,
    "config": lambda _: get_config(),
    "store": lambda runtime: runtime.store,
    "writer": lambda runtime: runtime.stream_writer,
}


def _fit_hook(hook: Callable[..., Any], label: str) -> Callable[..., Any]:
    """A before or after hook as a function of `(state, runtime)`.

    Hooks written for LangChain may leave the runtime out, and take by name what langgraph passes to its nodes.
    """
    signature = inspect.signature(hook)
    named = {name for name in list(signature.parameters)[1:] if name in _PASSED_BY_NAME}
    if _takes(signature, 2) and named <= {"runtime"}:
        return hook
    _check_parameters(signature, label, "(state, runtime)", fits=_takes(signature, 1, *named))
    return lambda state, runtime: hook(state, **{name: _PASSED_BY_NAME[name](runtime) for name in named})


def _fit_wrap(wrap: Callable[..., Any], label: str) -> Callable[..., Any]:
    signature = inspect.signature(wrap)
    _check_parameters(signature, label, "(request, handler)", fits=_takes(signature, 2))
    return wrap


def _fit_flow(flow: Callable[..., Any], label: str) -> Callable[..., Any]:
    signature = inspect.signature(flow)
    _check_parameters(signature, label, "(request)", fits=_takes(signature, 1))
    return flow


def _check_parameters(signature: inspect.Signature, label: str, expected: str, *, fits: bool) -> None:
    if not fits:
        raise ConfigurationTypeError(f"{label} takes {signature}; expected was {expected}.")


def _takes(signature: inspect.Signature, positional: int, *named: str) -> bool:
    try:
        signature.bind(*range(positional), **dict.fromkeys(named))
    except TypeError:
        return False
    return True
