"""Middleware from single functions, and the marks on hook methods.

Each decorator makes an *instance* of a new middleware class, named after the function. A coroutine function becomes the
async half, a plain one the sync half; either serves both kinds of runs.
"""

import difflib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import HOOKS, AgentMiddleware, HookSpec
from agentgraph.requests import ModelRequest
from agentgraph.state import AgentState, JumpTo

__all__ = [
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]

HookFunction = Callable[..., Any]
Middleware = AgentMiddleware[Any, Any, Any]
Decorator = Callable[[HookFunction], Middleware]
HookT = TypeVar("HookT", bound=HookFunction)

_JUMPS = ("tools", "model", "end")
_OPTIONS = ("state_schema", "tools", "can_jump_to", "name")


def hook_config(*, can_jump_to: Sequence[JumpTo] | None = None, inline: bool = False) -> Callable[[HookT], HookT]:
    """Mark a before or after hook method.

    Args:
        can_jump_to: where its `jump_to` may send the run: "tools", "model" (the loop's start), "end".
        inline: the hook neither pauses nor needs a checkpoint of its own, so it may run inside the neighbouring node.
            Default False: the hook is a node.

    Raises:
        ConfigurationError: an unknown destination.

    Example:
        >>> class Stop(AgentMiddleware):
        ...     @hook_config(can_jump_to=["end"])
        ...     def before_model(self, state, runtime):
        ...         return {"jump_to": "end"} if len(state["messages"]) > 50 else None
    """
    _check_jumps(can_jump_to)

    def mark(method: HookT) -> HookT:
        if can_jump_to is not None:
            method.__can_jump_to__ = list(can_jump_to)  # type: ignore[attr-defined] # functions take attributes
        if inline:
            method.__inline__ = True  # type: ignore[attr-defined] # as above
        return method

    return mark


@overload
def before_agent(func: HookFunction) -> Middleware: ...
@overload
def before_agent(
    func: None = None,
    *,
    state_schema: type[AgentState[Any]] | None = None,
    tools: list[BaseTool] | None = None,
    can_jump_to: list[JumpTo] | None = None,
    name: str | None = None,
) -> Decorator: ...
def before_agent(func: HookFunction | None = None, **options: Any) -> Middleware | Decorator:
    """Middleware with a `before_agent` hook, from a function `(state, runtime)`; bare or with arguments.

    Args:
        func: the function, where the decorator stands bare.
        **options: `state_schema`: a subclass of AgentState with the fields that the hook adds; `tools`: those that come
            with it; `can_jump_to`: where its `jump_to` may send the run, of "tools", "model", "end"; `name`: of the
            middleware, by default the function's. Each can be left out.
    """
    return _decorate("before_agent", func, **options)


@overload
def before_model(func: HookFunction) -> Middleware: ...
@overload
def before_model(
    func: None = None,
    *,
    state_schema: type[AgentState[Any]] | None = None,
    tools: list[BaseTool] | None = None,
    can_jump_to: list[JumpTo] | None = None,
    name: str | None = None,
) -> Decorator: ...
def before_model(func: HookFunction | None = None, **options: Any) -> Middleware | Decorator:
    """Middleware with a `before_model` hook, from a function `(state, runtime)`; bare or with arguments.

    Args:
        func: the function, where the decorator stands bare.
        **options: `state_schema`: a subclass of AgentState with the fields that the hook adds; `tools`: those that come
            with it; `can_jump_to`: where its `jump_to` may send the run, of "tools", "model", "end"; `name`: of the
            middleware, by default the function's. Each can be left out.

    Example:
        >>> @before_model(can_jump_to=["end"])
        ... def stop_when_long(state, runtime):
        ...     return {"jump_to": "end"} if len(state["messages"]) > 50 else None
    """
    return _decorate("before_model", func, **options)


@overload
def after_model(func: HookFunction) -> Middleware: ...
@overload
def after_model(
    func: None = None,
    *,
    state_schema: type[AgentState[Any]] | None = None,
    tools: list[BaseTool] | None = None,
    can_jump_to: list[JumpTo] | None = None,
    name: str | None = None,
) -> Decorator: ...
def after_model(func: HookFunction | None = None, **options: Any) -> Middleware | Decorator:
    """Middleware with an `after_model` hook, from a function `(state, runtime)`; bare or with arguments.

    Args:
        func: the function, where the decorator stands bare.
        **options: `state_schema`: a subclass of AgentState with the fields that the hook adds; `tools`: those that come
            with it; `can_jump_to`: where its `jump_to` may send the run, of "tools", "model", "end"; `name`: of the
            middleware, by default the function's. Each can be left out.
    """
    return _decorate("after_model", func, **options)


@overload
def after_agent(func: HookFunction) -> Middleware: ...
@overload
def after_agent(
    func: None = None,
    *,
    state_schema: type[AgentState[Any]] | None = None,
    tools: list[BaseTool] | None = None,
    can_jump_to: list[JumpTo] | None = None,
    name: str | None = None,
) -> Decorator: ...
def after_agent(func: HookFunction | None = None, **options: Any) -> Middleware | Decorator:
    """Middleware with an `after_agent` hook, from a function `(state, runtime)`; bare or with arguments.

    Args:
        func: the function, where the decorator stands bare.
        **options: `state_schema`: a subclass of AgentState with the fields that the hook adds; `tools`: those that come
            with it; `can_jump_to`: where its `jump_to` may send the run, of "tools", "model", "end"; `name`: of the
            middleware, by default the function's. Each can be left out.
    """
    return _decorate("after_agent", func, **options)


@overload
def wrap_model_call(func: HookFunction) -> Middleware: ...
@overload
def wrap_model_call(
    func: None = None,
    *,
    state_schema: type[AgentState[Any]] | None = None,
    tools: list[BaseTool] | None = None,
    name: str | None = None,
) -> Decorator: ...
def wrap_model_call(func: HookFunction | None = None, **options: Any) -> Middleware | Decorator:
    """Middleware with a `wrap_model_call` hook, from a function `(request, handler)`; bare or with arguments.

    Args:
        func: the function, where the decorator stands bare.
        **options: `state_schema`: a subclass of AgentState with the fields that the hook adds; `tools`: those that come
            with it; `name`: of the middleware, by default the function's. Each can be left out.

    Example:
        >>> @wrap_model_call
        ... def twice(request, handler):
        ...     try:
        ...         return handler(request)
        ...     except TimeoutError:
        ...         return handler(request)
    """
    return _decorate("wrap_model_call", func, **options)


@overload
def wrap_tool_call(func: HookFunction) -> Middleware: ...
@overload
def wrap_tool_call(
    func: None = None,
    *,
    state_schema: type[AgentState[Any]] | None = None,
    tools: list[BaseTool] | None = None,
    name: str | None = None,
) -> Decorator: ...
def wrap_tool_call(func: HookFunction | None = None, **options: Any) -> Middleware | Decorator:
    """Middleware with a `wrap_tool_call` hook, from a function `(request, handler)`; bare or with arguments.

    Args:
        func: the function, where the decorator stands bare.
        **options: `state_schema`: a subclass of AgentState with the fields that the hook adds; `tools`: those that come
            with it; `name`: of the middleware, by default the function's. Each can be left out.
    """
    return _decorate("wrap_tool_call", func, **options)


@overload
def dynamic_prompt(func: Callable[[ModelRequest[Any]], str | SystemMessage]) -> Middleware: ...
@overload
def dynamic_prompt(func: Callable[[ModelRequest[Any]], Awaitable[str | SystemMessage]]) -> Middleware: ...
@overload
def dynamic_prompt(func: None = None) -> Decorator: ...
def dynamic_prompt(func: HookFunction | None = None) -> Middleware | Decorator:
    """Middleware that computes the system message of each model call, from a function `(request)`.

    The function returns a str or a SystemMessage, which replaces the system message; of several, the innermost wins.

    Example:
        >>> @dynamic_prompt
        ... def prompt(request):
        ...     return f"You talk to {request.runtime.context['user']}."
    """
    if func is None:
        return dynamic_prompt
    _check_function(func, "(request)", 1)
    return _middleware(HOOKS["wrap_model_call"], _prompting(func), {}, name=_name_of(func))


def _prompting(func: HookFunction) -> HookFunction:
    if _is_async(func):

        async def aprompt(request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]) -> Any:
            return await handler(_with_prompt(request, await func(request)))

        return aprompt

    def prompt(request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        return handler(_with_prompt(request, func(request)))

    return prompt


def _with_prompt(request: ModelRequest[Any], prompt: Any) -> ModelRequest[Any]:
    if isinstance(prompt, str):
        prompt = SystemMessage(content=prompt)
    if not isinstance(prompt, SystemMessage):
        raise ConfigurationTypeError(
            f"A dynamic_prompt function returned {type(prompt).__name__}; expected was a str or a SystemMessage."
        )
    return request.override(system_message=prompt)


def _decorate(hook: str, func: HookFunction | None, **options: Any) -> Middleware | Decorator:
    spec = HOOKS[hook]
    _check_options(spec, options)
    expected = "(request, handler)" if spec.direction == "wrap" else "(state, runtime)"

    def decorate(function: HookFunction) -> Middleware:
        _check_function(function, expected, 2)
        fields = {"state_schema": options.get("state_schema") or AgentState, "tools": list(options.get("tools") or ())}
        marks = {"can_jump_to": options.get("can_jump_to")}
        return _middleware(spec, function, fields, name=options.get("name") or _name_of(function), **marks)

    return decorate if func is None else decorate(func)


def _middleware(
    spec: HookSpec,
    function: HookFunction,
    fields: dict[str, Any],
    *,
    name: str,
    can_jump_to: Sequence[JumpTo] | None = None,
) -> Middleware:
    """One instance of a new class whose only hook is the function; marks on the function stay with the hook."""

    def sync_hook(self: Any, *args: Any) -> Any:  # noqa: ARG001 - a method without use for its object
        return function(*args)

    async def async_hook(self: Any, *args: Any) -> Any:  # noqa: ARG001 - as above
        return await function(*args)

    is_async = _is_async(function)
    hook: HookFunction = async_hook if is_async else sync_hook
    jumps = getattr(function, "__can_jump_to__", None) if can_jump_to is None else can_jump_to
    hook = hook_config(can_jump_to=jumps, inline=getattr(function, "__inline__", False))(hook)
    hook.__doc__ = function.__doc__
    made: type[Middleware] = type(
        name,
        (AgentMiddleware,),
        {**fields, spec.async_name if is_async else spec.name: hook, "__doc__": function.__doc__},
    )
    return made()


def _is_async(function: HookFunction) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - the call of a callable object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _name_of(function: HookFunction) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _check_function(function: Any, expected: str, parameters: int) -> None:
    if not callable(function):
        raise ConfigurationTypeError(
            f"A middleware decorator was put on {function!r:.200}, which is no function. Its options are keyword-only."
        )
    signature = inspect.signature(function)
    try:
        signature.bind(*range(parameters))
    except TypeError:
        raise ConfigurationTypeError(
            f"The function {_name_of(function)!r} of a middleware decorator takes {signature}; expected was {expected}."
        ) from None


def _check_options(spec: HookSpec, options: Mapping[str, Any]) -> None:
    known = [one for one in _OPTIONS if one != "can_jump_to" or spec.direction != "wrap"]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            raise ConfigurationTypeError(
                f"The decorator {spec.name} has no option {option!r}{f' (did you mean {near[0]!r}?)' if near else ''}; "
                f"it has {', '.join(known)}."
            )
    _check_jumps(options.get("can_jump_to"))


def _check_jumps(jumps: Any) -> None:
    if isinstance(jumps, str):
        raise ConfigurationTypeError(f"can_jump_to is {jumps!r:.200}; expected was a list. Write [{jumps!r:.200}].")
    for jump in jumps or ():
        if jump not in _JUMPS:
            raise ConfigurationError(f"can_jump_to names {jump!r}; a hook can jump to {', '.join(map(repr, _JUMPS))}.")
