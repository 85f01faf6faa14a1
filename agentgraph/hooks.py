"""The contract of middleware: the hooks, the base class, and which hooks a middleware has.

========================  ==========================  =======================================================
hook                      runs                        gets and gives
========================  ==========================  =======================================================
`before_agent`            once, first to last         `(state, runtime)`, an update of the state or None
`before_model`            each turn, first to last    the same
`wrap_model_call`         around each model call      `(request, handler)`, a response; the first is outermost
`after_model`             each turn, last to first    `(state, runtime)`, an update of the state or None
`wrap_tool_call`          around each tool call       `(request, handler)`, a tool message or command
`after_agent`             once, last to first         `(state, runtime)`, an update of the state or None
========================  ==========================  =======================================================

Each has an async twin, its name with an `a` before. One of the two is enough: it serves sync and async runs. A hook is
present when the class overrides it. Objects with the same hooks that derive from LangChain's base class work too.
"""

import difflib
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command, TracePolicy
from langgraph.typing import ContextT

from agentgraph.errors import ConfigurationError
from agentgraph.flows import Pause, adrive, drive
from agentgraph.requests import ModelCallResult, ModelRequest, ModelResponse
from agentgraph.state import AgentState, JumpTo, ResponseT, StateT

__all__ = [
    "HOOKS",
    "AgentMiddleware",
    "HookSpec",
    "MiddlewareLike",
    "Pause",
    "can_jump_to",
    "check_hooks",
    "is_inline",
    "nearness",
    "overrides",
]

Station = Literal["agent", "model", "tool"]
Direction = Literal["before", "after", "wrap"]


class HookSpec(NamedTuple):
    """One row of the table of hooks.

    Attributes:
        name: the sync method.
        async_name: its async twin.
        flow: the generator method that serves both, "" where there is none.
        station: what the hook stands at.
        direction: before it, after it, or around it.
    """

    name: str
    async_name: str
    flow: str
    station: Station
    direction: Direction


HOOKS: dict[str, HookSpec] = {
    spec.name: spec
    for spec in (
        HookSpec("before_agent", "abefore_agent", "", "agent", "before"),
        HookSpec("before_model", "abefore_model", "", "model", "before"),
        HookSpec("wrap_model_call", "awrap_model_call", "model_call", "model", "wrap"),
        HookSpec("after_model", "aafter_model", "", "model", "after"),
        HookSpec("wrap_tool_call", "awrap_tool_call", "tool_call", "tool", "wrap"),
        HookSpec("after_agent", "aafter_agent", "", "agent", "after"),
    )
}
"""All hooks by name. Collecting, node adding and composing loop over it."""


class AgentMiddleware(Generic[StateT, ContextT, ResponseT]):
    """Base class of what can be mounted around an agent's model and tools. Override the hooks you need.

    Attributes:
        state_schema: fields this middleware adds to the state, as a class derived from AgentState. They are stored
            like the messages, so on a thread they outlive the run; `before_agent` can set them back.
        tools: tools it brings along.
        trace_policy: what tracers record of its nodes; None records all.
        transformers: factories of stream transformers, called as `factory(scope)` for each run.

    Example:
        >>> class Polite(AgentMiddleware):
        ...     def wrap_model_call(self, request, handler):
        ...         return handler(request.override(system_prompt="Be polite."))
    """

    state_schema: type[StateT] = cast("type[StateT]", AgentState)
    tools: Sequence[BaseTool | Callable[..., Any]]
    trace_policy: TracePolicy | None = None
    transformers: Sequence[Callable[..., Any]] = ()

    @property
    def name(self) -> str:
        """The name of its nodes: the class name. Override it to choose another."""
        return type(self).__name__

    def before_agent(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """Once, before everything else.

        Args:
            state: the state; do not change it, return an update.
            runtime: context, store, stream writer.

        Returns:
            An update of the state as a dict (with `jump_to` where the hook declares it), a Command, or None.
        """

    async def abefore_agent(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """As `before_agent`, for async runs."""

    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """Before each call of the model; arguments and result as `before_agent`."""

    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """As `before_model`, for async runs."""

    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """After each call of the model, before its tool calls run; arguments and result as `before_agent`."""

    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """As `after_model`, for async runs."""

    def after_agent(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """Once, after everything else; arguments and result as `before_agent`."""

    async def aafter_agent(self, state: StateT, runtime: Runtime[ContextT]) -> Any:
        """As `after_agent`, for async runs."""

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> ModelCallResult[ResponseT]:
        """Around a call of the model: change the request, call `handler` once, often or never, change the response.

        Args:
            request: the call to make; change it with `request.override(...)`.
            handler: makes the call, through the hooks further in.

        Returns:
            The handler's response, an AIMessage of your own, or an ExtendedModelResponse with a state update.
        """
        result: ModelCallResult[ResponseT] = drive(self.model_call(request), handler)
        return result

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelCallResult[ResponseT]:
        """As `wrap_model_call`, for async runs; await the handler."""
        result: ModelCallResult[ResponseT] = await adrive(self.model_call(request), handler)
        return result

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Around one tool call: change it, run it once, often or never, change the result.

        Args:
            request: the call; `request.tool` is None for a tool nobody registered.
            handler: runs the tool, through the hooks further in. Wrong arguments come back as a tool message; an
                exception of the tool itself is raised, and is told to the model only when no hook has dealt with it.

        Returns:
            The answer to the call.
        """
        result: ToolMessage | Command[Any] = drive(self.tool_call(request), handler)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`, for async runs; await the handler."""
        result: ToolMessage | Command[Any] = await adrive(self.tool_call(request), handler)
        return result

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """`wrap_model_call` and its twin written once, as a generator without I/O.

        Yield a request to have it called: the yield gives the response or raises the call's error. Yield a `Pause` to
        wait. Return the result.

        Example:
            >>> class Patient(AgentMiddleware):
            ...     def model_call(self, request):
            ...         try:
            ...             return (yield request)
            ...         except TimeoutError:
            ...             yield Pause(seconds=1)
            ...             return (yield request)
        """
        return (yield request)

    def tool_call(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """`wrap_tool_call` and its twin written once, as a generator; see `model_call`."""
        return (yield request)


class MiddlewareLike(Protocol):
    """What `create_agent` mounts beside its own AgentMiddleware: objects of classes written for LangChain's.

    Their hooks have the names of the table above. They are found by name, so that no type here lists them.

    Attributes:
        state_schema: fields the middleware adds to the state.
    """

    state_schema: type[Any]

    @property
    def name(self) -> str:
        """The name of its nodes."""
        ...


def overrides(middleware: Any, method: str) -> bool:
    """Whether a middleware has this method itself, rather than from a base class of middleware.

    Args:
        middleware: an AgentMiddleware, or an object with the same methods.
        method: the name of a hook, of its async twin or of a flow.
    """
    return nearness(middleware, method) is not None


def nearness(middleware: Any, method: str) -> int | None:
    """How near to the object's own class a method is overridden: 0 in the class itself, None nowhere.

    Args:
        middleware: an AgentMiddleware, or an object with the same methods.
        method: the name of a hook, of its async twin or of a flow.
    """
    for distance, cls in enumerate(type(middleware).__mro__):
        if method in vars(cls):
            return None if _is_base(cls) else distance
    return None


def check_hooks(middleware: Any) -> None:
    """Refuse a middleware whose only hooks are misspelt: it would be mounted, and never do anything.

    Raises:
        ConfigurationError: it has no hook, but a method whose name is nearly that of one.
    """
    methods = [name for spec in HOOKS.values() for name in (spec.name, spec.async_name, spec.flow) if name]
    if any(overrides(middleware, name) for name in methods):
        return
    classes = [cls for cls in type(middleware).__mro__ if not _is_base(cls)]
    own = [name for cls in classes for name, one in vars(cls).items() if callable(one)]
    for name in own:
        if near := difflib.get_close_matches(name, methods, n=1, cutoff=0.85):
            raise ConfigurationError(
                f"The middleware {type(middleware).__name__} has no hook, but a method {name!r}. "
                f"Did you mean {near[0]!r}?"
            )


def can_jump_to(middleware: Any, spec: HookSpec) -> tuple[JumpTo, ...]:
    """Where a hook declares that it may send the run, by `hook_config` on the method or its twin."""
    return tuple(dict.fromkeys(jump for mark in _declared(middleware, spec, "__can_jump_to__") for jump in mark))


def is_inline(middleware: Any, spec: HookSpec) -> bool:
    """Whether a hook declares that it may run inside the neighbouring node: by all of its methods that exist."""
    marks = [getattr(getattr(type(middleware), name), "__inline__", False) for name in _present(middleware, spec)]
    return bool(marks) and all(marks)


def _declared(middleware: Any, spec: HookSpec, mark: str) -> list[Sequence[JumpTo]]:
    return [getattr(getattr(type(middleware), name), mark, None) or () for name in _present(middleware, spec)]


def _present(middleware: Any, spec: HookSpec) -> list[str]:
    return [name for name in (spec.name, spec.async_name) if overrides(middleware, name)]


def _is_base(cls: type[Any]) -> bool:
    # LangChain's base class cannot be imported here (it is no dependency), so it is recognised by where it comes from.
    return cls is AgentMiddleware or (cls.__name__ == "AgentMiddleware" and cls.__module__.startswith("langchain."))
