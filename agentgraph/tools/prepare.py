"""Getting a tool ready: everything that can be known before a call is found out once, here.

`as_tool` makes a tool of a function; `prepare` analyses a tool. Both are used when an agent is built, so mistakes show
at that moment, as a ConfigurationError that names the tool and the fix.
"""

import functools
import inspect
import math
import typing
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool, Tool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, create_model

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.tools.injection import Injection, analyse, callables_of

__all__ = ["PreparedTool", "as_tool", "model_schema", "prepare"]

# A class that redefines one of these has a way of its own to run, which is then the one to go.
_RUN_METHODS = ("invoke", "ainvoke", "run", "arun", "_run", "_arun", "_parse_input", "_to_args_and_kwargs")


_BASES: tuple[type[BaseTool], ...] = (BaseTool, StructuredTool, Tool)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTool:
    """A tool and all that is known about it before a call.

    Attributes:
        tool: the tool, the very object that was given.
        injection: its injected parameters.
        timeout: its time limit in seconds, None for none; from `tool.metadata["timeout"]` or `tool.extras["timeout"]`.
        polling: whether identical calls with identical results are its normal use (`metadata["polling"]`).
        direct: whether a call can be "validate, call, message" when nobody listens.
        validator: the model that checks the arguments on the direct way; None to pass them as they are.
        fields: names of the fields of `validator`.
        runs_sync: whether it has a sync implementation.
        runs_async: whether it has an async implementation.
    """

    tool: BaseTool
    injection: Injection
    timeout: float | None
    polling: bool
    direct: bool
    validator: type[BaseModel] | None
    fields: tuple[str, ...]
    runs_sync: bool
    runs_async: bool

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


def prepare(candidate: BaseTool | Callable[..., Any], *, for_model: bool = True) -> PreparedTool:
    """Analyse a tool, once.

    Args:
        candidate: a tool, or a function to make one of.
        for_model: check, too, that its argument schema can be shown to a model.

    Raises:
        ConfigurationError: it cannot work as a tool; the message names it and the fix.

    Example:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> prepare(add).direct
        True
    """
    made = as_tool(candidate)
    _refuse_generators(made)
    injection = analyse(made)
    _hide_injected(made, injection)
    if for_model:
        model_schema(made)
    direct = _is_direct(made)
    validator = _validator(made, injection) if direct else None
    runs_sync, runs_async = _ways(made)
    return PreparedTool(
        tool=made,
        injection=injection,
        timeout=_timeout(made),
        polling=bool(_setting(made, "polling")),
        direct=direct,
        validator=validator,
        fields=() if validator is None else tuple(validator.model_fields),
        runs_sync=runs_sync,
        runs_async=runs_async,
    )


def as_tool(candidate: Any) -> BaseTool:
    """A tool, or what makes one: a function, a bound method, a `functools.partial`, a callable object.

    Raises:
        ConfigurationTypeError: it is no tool and nothing to make one of.
        ConfigurationError: it has no name, no description, or annotations that are no argument schema.
    """
    if isinstance(candidate, BaseTool):
        return candidate
    if isinstance(candidate, type | Runnable) or not callable(candidate):
        raise ConfigurationTypeError(
            f"{_shown(candidate)} is no tool. Expected a tool object, or a function with annotated parameters and a "
            f"docstring.{_hint(candidate)}"
        )
    function = candidate if inspect.isfunction(candidate) or inspect.ismethod(candidate) else _as_function(candidate)
    name = function.__name__
    if name == "<lambda>":
        raise ConfigurationError(
            "A lambda has no name and no description that a model could go by. "
            "Write a function with a docstring, or use StructuredTool.from_function(..., name=..., description=...)."
        )
    _refuse_generator(name, function)
    if not (function.__doc__ or "").strip():
        raise ConfigurationError(
            f"The tool {name!r} has no description, so a model cannot know what it does. "
            "Give the function a docstring, or decorate it with @tool(description=...)."
        )
    try:
        return tool(function)
    except Exception as error:
        raise ConfigurationError(
            f"The parameters of the tool {name!r} cannot be made an argument schema: {_in_one_line(error)} "
            "Annotate them with types that pydantic knows, or give an own schema by @tool(args_schema=...)."
        ) from error


def model_schema(made: BaseTool) -> dict[str, Any]:
    """The tool as a model sees it, in OpenAI's form, without injected parameters.

    Raises:
        ConfigurationError: its argument schema has no JSON form.
    """
    try:
        return convert_to_openai_tool(made)
    except Exception as error:
        raise ConfigurationError(
            f"The arguments of the tool {made.name!r} cannot be described to a model: {_in_one_line(error)} "
            "Use types that have a JSON form, or mark parameters that are not the model's with InjectedToolArg."
        ) from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _shown(candidate: Any) -> str:
    return f"{repr(candidate)[:100]} ({type(candidate).__name__})"


def _hint(candidate: Any) -> str:
    if isinstance(candidate, type):
        return f" This is a class; give an object of it: {candidate.__name__}(...)."
    if isinstance(candidate, Runnable):
        return " Make one of a runnable with .as_tool(name=..., description=...)."
    return ""


def _as_function(candidate: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function in front of a callable that is none, with its name, docstring and signature."""
    source: Any = candidate
    while isinstance(source, functools.partial):
        source = source.func
    plain = source if inspect.isroutine(source) else type(source).__call__
    call = _async_front(candidate) if inspect.iscoroutinefunction(plain) else _front(candidate)
    signature = inspect.signature(candidate)
    try:
        hints = typing.get_type_hints(plain, include_extras=True)
    except Exception:  # noqa: BLE001 (annotations are any code; the schema maker will say which one it cannot use)
        hints = dict(getattr(plain, "__annotations__", {}))
    # The parameters that a partial has filled are no parameters any more.
    hints = {name: hints[name] for name in (*signature.parameters, "return") if name in hints}
    parameters = [p.replace(annotation=hints.get(name, p.annotation)) for name, p in signature.parameters.items()]
    name = str(getattr(source, "__name__", None) or type(source).__name__)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = plain.__doc__ or (None if inspect.isroutine(source) else type(source).__doc__)
    call.__annotations__ = hints
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # where inspect looks for one
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        _refuse_generator(name, plain)
    return call


def _front(candidate: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return candidate(*args, **kwargs)

    return call


def _async_front(candidate: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await candidate(*args, **kwargs)

    return call


def _refuse_generators(made: BaseTool) -> None:
    for function in callables_of(made):
        _refuse_generator(made.name, function)


def _refuse_generator(name: str, function: Callable[..., Any]) -> None:
    plain = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 (not a test whether it is callable)
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        raise ConfigurationError(
            f"The tool {name!r} is a generator function, but a tool call has one result. Return a value; "
            "to show progress while it runs, call runtime.stream_writer(...) or runtime.emit_output_delta(...)."
        )


def _hide_injected(made: BaseTool, injection: Injection) -> None:
    """Take injected parameters out of what the model sees where langchain-core leaves them in."""
    shown = made.tool_call_schema if injection.hidden else None
    if isinstance(shown, dict):
        leaked = injection.hidden & set(shown.get("properties", {}))
        if leaked and isinstance(made.args_schema, dict):
            made.args_schema = _without(made.args_schema, leaked)
    elif shown is not None and issubclass(shown, BaseModel) and injection.hidden & set(shown.model_fields):
        fields: Any = {
            name: (info.annotation, info) for name, info in shown.model_fields.items() if name not in injection.hidden
        }
        made._tool_call_schema_memo = _quietly(made.name, made.description, fields)  # noqa: SLF001 (the one place that every converter reads)
    if (
        not isinstance(made, StructuredTool)
        and not getattr(made, "_injected_args_keys", frozenset()) >= injection.hidden
    ):
        # langchain-core passes only these on to `_run`, and does not see all forms of annotation.
        vars(made)["_injected_args_keys"] = injection.hidden


def _without(schema: dict[str, Any], names: frozenset[str] | set[str]) -> dict[str, Any]:
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in names}
    required = [name for name in schema.get("required", []) if name not in names]
    return {**schema, "properties": properties, "required": required}


def _quietly(name: str, description: str, fields: Any, base: type[BaseModel] | None = None) -> type[BaseModel]:
    with warnings.catch_warnings():
        # A parameter called like a method of BaseModel ("copy", "json") was warned about when the tool was made.
        warnings.simplefilter("ignore")
        return create_model(name, __doc__=description, __base__=base, **fields)


def _is_direct(made: BaseTool) -> bool:
    cls, schema = type(made), made.args_schema
    if not isinstance(made, StructuredTool):
        return False
    if any(getattr(cls, name) is not getattr(StructuredTool, name) for name in _RUN_METHODS):
        return False
    if not isinstance(schema, dict) and _own_schema(schema) is None:
        return False
    # These are given out by the public way only.
    return not any(
        {"callbacks", "run_manager"} & set(inspect.signature(function).parameters) for function in callables_of(made)
    )


def _own_schema(schema: Any) -> type[BaseModel] | None:
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None


def _validator(made: BaseTool, injection: Injection) -> type[BaseModel] | None:
    """The argument schema, with what is injected left out of the checking.

    A whole state that is checked against its annotation would be copied, message by message, in every call, and lose
    the fields that the annotation does not know. Single state fields are checked, as they are converted by that.
    """
    schema = _own_schema(made.args_schema)
    if schema is None:
        return None
    loose: Any = {
        parameter.name: (Annotated[Any, "injected"], None)
        for parameter in injection.parameters
        if parameter.kind != "field" and parameter.name in schema.model_fields
    }
    return _quietly(schema.__name__, schema.__doc__ or "", loose, schema) if loose else schema


def _ways(made: BaseTool) -> tuple[bool, bool]:
    """Whether a tool has a sync and an async implementation."""
    cls = type(made)
    has_async = (
        getattr(made, "coroutine", None) is not None
        or cls._arun not in {base._arun for base in _BASES}  # noqa: SLF001 (whose code it is)
        or cls.ainvoke not in {base.ainvoke for base in _BASES}
    )
    by_function = cls._run in {StructuredTool._run, Tool._run}  # noqa: SLF001 (as above)
    if by_function and not has_async and getattr(made, "func", None) is None:
        raise ConfigurationError(
            f"The tool {made.name!r} has nothing to run. Give it func=..., or coroutine=... for an async function."
        )
    return not by_function or getattr(made, "func", None) is not None, has_async


def _setting(made: BaseTool, name: str) -> Any:
    for place in (made.metadata, made.extras):
        if place and name in place:
            return place[name]
    return None


def _timeout(made: BaseTool) -> float | None:
    seconds = _setting(made, "timeout")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ConfigurationError(
            f"The tool {made.name!r} has the time limit {seconds!r}; expected seconds, a number above 0, "
            'as in metadata={"timeout": 30}.'
        )
    return float(seconds)
