"""Injected parameters of tools: which there are, found once, and their values, looked up for each call.

A parameter is injected by its annotation, in the tool's function or in its argument schema:

==================================  =================================================
annotation                          value
==================================  =================================================
`ToolRuntime`, `ToolRuntime[C, S]`  the runtime of this call
`Annotated[T, InjectedState]`       the whole state
`Annotated[T, InjectedState("f")]`  the field `f` of the state
`Annotated[T, InjectedStore()]`     the store of the run
`Annotated[T, InjectedToolCallId]`  the id of the call
`Annotated[T, InjectedToolArg]`     nothing: it is only hidden from the model
`RunnableConfig`                    the configuration of this call
==================================  =================================================

each also as `... | None` and as a string. The model never sees such a parameter, and what it sends for one is dropped.
"""

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel

from agentgraph.errors import ConfigurationError

__all__ = ["Injected", "Injection", "analyse", "callables_of", "injected_values"]

Kind: TypeAlias = Literal["runtime", "state", "field", "store", "call_id", "config", "hidden"]

_MISSING: Any = object()

# Postponed annotations name types that may exist only inside a function, where nobody can look them up.
_RUNTIME_BY_NAME = re.compile(r"(?:\w+\.)*ToolRuntime(?:\[.*\])?(?:\s*\|\s*None)?")


@dataclass(frozen=True, slots=True)
class Injected:
    """One injected parameter.

    Attributes:
        name: the parameter.
        kind: what it gets.
        field: the state field, where kind is "field".
        has_default: leave it out when there is no value.
        allows_none: it can get None when there is no value.
    """

    name: str
    kind: Kind
    field: str | None = None
    has_default: bool = False
    allows_none: bool = False


@dataclass(frozen=True, slots=True)
class Injection:
    """What a tool wants injected.

    Attributes:
        parameters: the injected parameters.
        hidden: their names; the model neither sees them nor can set them.
    """

    parameters: tuple[Injected, ...] = ()
    hidden: frozenset[str] = frozenset()

    @property
    def reads_state(self) -> bool:
        """Whether a call needs the state of the graph, in whatever form."""
        return any(parameter.kind in {"runtime", "state", "field"} for parameter in self.parameters)


def analyse(tool: BaseTool) -> Injection:
    """Find the injected parameters of a tool.

    Args:
        tool: any tool; its function (or `_run` and `_arun` of a tool class) and its argument schema are read.

    Raises:
        ConfigurationError: a parameter has two contradicting marks.
    """
    seen: dict[str, list[tuple[Any, bool]]] = {}
    for name, annotation, has_default in (*_from_schema(tool), *_from_callables(tool)):
        seen.setdefault(name, []).append((annotation, has_default))
    parameters = [_injected(tool.name, name, places) for name, places in seen.items()]
    found = tuple(parameter for parameter in parameters if parameter is not None)
    return Injection(found, frozenset(parameter.name for parameter in found))


def _injected(tool_name: str, name: str, places: list[tuple[Any, bool]]) -> Injected | None:
    """What a parameter gets, from every place that annotates it."""
    markers = list(dict.fromkeys(marker for annotation, _ in places for marker in _markers(annotation)))
    # InjectedToolArg only hides; a more exact mark beside it says what to inject.
    markers = [marker for marker in markers if marker[0] != "hidden"] or markers
    if not markers:
        return None
    if len(markers) > 1:
        raise ConfigurationError(
            f"The parameter {name!r} of the tool {tool_name!r} is marked to get {markers[0]!r} and {markers[1]!r}; "
            "a parameter can be injected with one thing. Keep one of the marks."
        )
    kind, field = markers[0]
    return Injected(
        name,
        kind,
        field,
        has_default=any(has_default for _, has_default in places),
        allows_none=any(_allows_none(annotation) for annotation, _ in places),
    )


def callables_of(tool: BaseTool) -> tuple[Callable[..., Any], ...]:
    """The functions behind a tool: those it was made of, or the methods of its class."""
    made_of = [getattr(tool, attribute, None) for attribute in ("func", "coroutine")]
    if any(made_of):
        return tuple(function for function in made_of if function is not None)
    methods = [tool._run]  # noqa: SLF001 (the documented place for a tool's code)
    if type(tool)._arun is not BaseTool._arun:  # noqa: SLF001 (as above)
        methods.append(tool._arun)  # noqa: SLF001 (as above)
    return tuple(methods)


def _from_schema(tool: BaseTool) -> list[tuple[str, Any, bool]]:
    schema = tool.args_schema
    if schema is None or isinstance(schema, dict):
        return []
    if issubclass(schema, BaseModel):
        fields = schema.model_fields
        return [
            (name, annotation, name in fields and not fields[name].is_required())
            for name, annotation in get_all_basemodel_annotations(schema).items()
        ]
    return [(name, annotation, False) for name, annotation in get_all_basemodel_annotations(schema).items()]


def _from_callables(tool: BaseTool) -> list[tuple[str, Any, bool]]:
    return [row for function in callables_of(tool) for row in _parameters(function)]


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any, bool]]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Some functions written in C have no signature; they cannot have annotations either.
        return []
    owner = _annotation_owner(function)
    hints = _hints(owner)
    return [
        (name, hints.get(name, parameter.annotation), parameter.default is not inspect.Parameter.empty)
        for name, parameter in parameters.items()
    ]


def _annotation_owner(function: Any) -> Callable[..., Any]:
    """The plain function whose annotations describe a callable."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function) or inspect.isclass(function):
            return function
        else:
            function = type(function).__call__


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations with their strings resolved; one that cannot be resolved does not spoil the others."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 (annotations are any code; each is then tried by itself)
        raw = getattr(function, "__annotations__", {})
        return {name: _resolved(annotation, function) for name, annotation in raw.items()}


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    try:
        return typing.get_type_hints(holder, globalns=getattr(function, "__globals__", {}), include_extras=True)[
            "value"
        ]
    except Exception:  # noqa: BLE001 (as above; the text itself is what remains)
        return annotation


def _markers(annotation: Any) -> Iterable[tuple[Kind, str | None]]:
    """The marks in an annotation, wherever it holds them."""
    if isinstance(annotation, str):
        return [("runtime", None)] if _RUNTIME_BY_NAME.fullmatch(annotation.strip()) else []
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        return [*_markers(inner), *(kind for mark in marks if (kind := _mark(mark)) is not None)]
    if origin in {typing.Union, types.UnionType}:
        return [marker for part in get_args(annotation) for marker in _markers(part)]
    if sys.version_info >= (3, 12) and isinstance(annotation, typing.TypeAliasType):
        return _markers(annotation.__value__)
    if annotation is RunnableConfig:
        return [("config", None)]
    return [("runtime", None)] if _is_runtime(origin or annotation) else []


def _is_runtime(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, ToolRuntime)


def _mark(mark: Any) -> tuple[Kind, str | None] | None:
    cls = mark if isinstance(mark, type) else type(mark)
    if issubclass(cls, InjectedState):
        field = getattr(mark, "field", None)
        return ("field", field) if isinstance(field, str) and field else ("state", None)
    if issubclass(cls, InjectedStore):
        return ("store", None)
    if issubclass(cls, InjectedToolCallId):
        return ("call_id", None)
    return ("hidden", None) if issubclass(cls, InjectedToolArg) else None


def _allows_none(annotation: Any) -> bool:
    if annotation is None or annotation is type(None):
        return True
    if get_origin(annotation) is Annotated:
        return _allows_none(get_args(annotation)[0])
    if get_origin(annotation) in {typing.Union, types.UnionType}:
        return any(_allows_none(part) for part in get_args(annotation))
    return isinstance(annotation, str) and annotation.replace(" ", "").endswith("|None")


def injected_values(
    injection: Injection, tool_name: str, runtime: ToolRuntime[Any, Any], *, messages_key: str = "messages"
) -> dict[str, Any]:
    """The values of the injected parameters for one call.

    Args:
        injection: what the tool wants.
        tool_name: named in errors.
        runtime: the runtime of the call, with the state.
        messages_key: the name under which a state that is only a list of messages is seen.

    Raises:
        ConfigurationError: there is no store, or a state field is not set and the parameter has no default.
    """
    values: dict[str, Any] = {}
    for parameter in injection.parameters:
        value = _value(parameter, tool_name, runtime, messages_key)
        if value is not _MISSING:
            values[parameter.name] = value
    return values


def _value(parameter: Injected, tool_name: str, runtime: ToolRuntime[Any, Any], messages_key: str) -> Any:
    if parameter.kind == "runtime":
        return runtime
    if parameter.kind == "config":
        return runtime.config
    if parameter.kind == "call_id":
        return runtime.tool_call_id
    if parameter.kind == "store":
        return _store(parameter, tool_name, runtime)
    if parameter.kind == "hidden":
        return _MISSING
    state = {messages_key: runtime.state} if isinstance(runtime.state, list) else runtime.state
    return state if parameter.kind == "state" else _field(parameter, tool_name, state)


def _store(parameter: Injected, tool_name: str, runtime: ToolRuntime[Any, Any]) -> Any:
    if runtime.store is not None:
        return runtime.store
    if parameter.has_default:
        return _MISSING
    if parameter.allows_none:
        return None
    raise ConfigurationError(
        f"The tool {tool_name!r} wants the store in its parameter {parameter.name!r}, but this run has none. "
        "Give one to create_agent(..., store=...), or allow None in the annotation."
    )


def _field(parameter: Injected, tool_name: str, state: Any) -> Any:
    field = parameter.field or ""
    value = state.get(field, _MISSING) if isinstance(state, Mapping) else getattr(state, field, _MISSING)
    if value is not _MISSING:
        return value
    if parameter.has_default:
        return _MISSING
    if parameter.allows_none:
        return None
    raise ConfigurationError(
        f"The tool {tool_name!r} wants the state field {field!r} in its parameter {parameter.name!r}, but it is not "
        "set at this moment. Set it before the tool runs, give the parameter a default, or allow None in its type."
    )
