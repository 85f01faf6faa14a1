"""Which types may come back from a checkpoint: a table of classes, never an import by a stored name."""

import dataclasses
import enum
import importlib
import inspect
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from types import ModuleType, UnionType
from typing import Any, ForwardRef, TypeVar, get_args, get_type_hints

from langchain_core.tools import BaseTool
from pydantic import BaseModel, SecretBytes, SecretStr
from typing_extensions import NoDefault, is_typeddict

from agentgraph.errors import ConfigurationTypeError

__all__ = ["Registry", "is_data_class", "is_plain", "type_name", "types_of"]

# Modules of data: what a state is made of. Importing them does nothing else.
_OURS = (
    "langchain_core.agents",
    "langchain_core.documents",
    "langchain_core.messages",
    "langchain_core.outputs",
    "langchain_core.prompt_values",
    "langgraph.store.base",
    "langgraph.types",
)
_PROJECT = "agentgraph"
_NOT_DATA = ("agentgraph.cli", "agentgraph.demo")
_BUILT_IN: dict[tuple[str, str], type] = {
    ("builtins", "tuple"): tuple,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "int"): int,
    ("builtins", "dict"): dict,
    ("collections", "deque"): deque,
    ("pydantic.types", "SecretStr"): SecretStr,
    ("pydantic.types", "SecretBytes"): SecretBytes,
}
# Of Python's own types, those that langgraph's serializer reads in its strictest setting.
_PLAIN = frozenset(
    {
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(("ipaddress", f"IPv{version}{kind}") for version in (4, 6) for kind in ("Address", "Interface", "Network")),
        *((module, name) for module in ("pathlib", "pathlib._local") for name in ("Path", "PosixPath", "WindowsPath")),
        ("decimal", "Decimal"),
        ("re", "compile"),
        ("uuid", "UUID"),
        ("zoneinfo", "ZoneInfo"),
    }
)


class Registry:
    """The classes that may come back, by module and name.

    Args:
        types: see `register`.
    """

    def __init__(self, types: Iterable[Any] = ()) -> None:
        self._lock = threading.Lock()
        self._classes: dict[tuple[str, str], type] = dict(_BUILT_IN)
        self.register(*types)

    def register(self, *types: Any) -> None:
        """Add classes, all data classes of modules, or the classes in annotations; the latest of a name counts."""
        for given in types:
            found = _members(given) if isinstance(given, ModuleType) else _classes_of(given)
            with self._lock:
                for one in found:
                    self._classes[one.__module__, one.__qualname__] = one
                    # langgraph's own serializer stores a nested class without the name of the outer one.
                    self._classes.setdefault((one.__module__, one.__name__), one)

    def find(self, module: str, name: str) -> type | None:
        """The class of that name; None when it is not known."""
        known = self._classes.get((module, name))
        if known is None and _is_ours(module):
            known = _load(module, name)
            if known is not None:
                self._classes[module, name] = known
        return known

    def adopt(self, names: Iterable[tuple[str, ...]]) -> None:
        """Register classes that langgraph names, where their modules are loaded."""
        for module, name, *_ in names:
            found = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if isinstance(found, type):
                self.register(found)

    def knows(self, module: str, name: str) -> bool:
        """Whether a type of that name comes back."""
        return is_plain(module, name) or self.find(module, name) is not None

    def __contains__(self, cls: type) -> bool:
        return self.find(cls.__module__, cls.__qualname__) is not None


def is_plain(module: str, name: str) -> bool:
    """Whether it is one of Python's own types that langgraph reads."""
    return (module, name) in _PLAIN


def _is_ours(module: str) -> bool:
    if module == _PROJECT or module.startswith(f"{_PROJECT}."):
        return not module.startswith(_NOT_DATA)
    return any(module == one or module.startswith(f"{one}.") for one in _OURS)


def _load(module: str, name: str) -> type | None:
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    # A module also holds what it imported; only what it defines counts, and only data.
    if not isinstance(found, type) or found.__module__ != module:
        return None
    return found if is_data_class(found) or module.startswith("langgraph.") else None


def is_data_class(cls: type) -> bool:
    """Whether it is an enum, a dataclass, a pydantic model or a named tuple."""
    return (
        issubclass(cls, enum.Enum | BaseModel)
        or dataclasses.is_dataclass(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_asdict"))
    )


def type_name(module: str, name: str) -> str:
    """For errors, bounded: a stored name may be anything."""
    return f"{module}.{name}"[:200]


def _members(module: ModuleType) -> list[type]:
    mine = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    return [found for one in mine if is_data_class(one) for found in types_of(one)]


def _classes_of(given: Any) -> tuple[type, ...]:
    if isinstance(given, type) and not is_typeddict(given):
        return (given, *types_of(given))
    if isinstance(given, str) or not (isinstance(given, type | UnionType) or hasattr(given, "__module__")):
        raise ConfigurationTypeError(
            f"types holds {given!r:.200}, a {type(given).__name__}. Expected classes, modules, or annotations such as "
            "list[Order]; give the class itself, not its name."
        )
    return types_of(given)


def types_of(*schemas: Any) -> tuple[type, ...]:
    """The data classes that schemas speak of, so that they can be registered.

    Goes through the fields of TypedDicts, dataclasses, pydantic models and named tuples, through unions, generics,
    `Annotated` and aliases. Of a function or a tool it takes what it says to return: the second part of a
    `tuple[str, Order]` is the tool's artifact.

    Args:
        *schemas: classes, annotations, functions or tools; for instance a state schema.

    Returns:
        Enums, dataclasses, pydantic models and named tuples, each once.

    Example:
        >>> from enum import Enum
        >>> from typing import TypedDict
        >>> class Size(Enum):
        ...     S = "small"
        >>> class Order(TypedDict):
        ...     sizes: list[Size] | None
        >>> types_of(Order)
        (<enum 'Size'>,)
    """
    found: dict[type, None] = {}
    # By identity, because annotations are not always hashable; held, so that no other gets the same identity.
    seen: dict[int, Any] = {}
    ways = [*schemas]
    while ways:
        one = ways.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, type) and is_data_class(one):
            found[one] = None
        ways.extend(_parts(one))
    return tuple(found)


def _parts(annotation: Any) -> Iterator[Any]:
    """What an annotation is made of, one level down."""
    if isinstance(annotation, type):
        yield from _field_types(annotation)
    elif isinstance(annotation, BaseTool):
        yield from (getattr(annotation, "func", None), getattr(annotation, "coroutine", None), annotation._run)  # noqa: SLF001 - what a tool of one's own class overrides
    elif inspect.isroutine(annotation):
        yield _hints(annotation).get("return")
    elif isinstance(annotation, TypeVar):
        yield from (annotation.__bound__, *annotation.__constraints__, _default(annotation))
    elif isinstance(annotation, enum.Enum):  # of a Literal
        yield type(annotation)
    yield from get_args(annotation)
    yield from (getattr(annotation, name, None) for name in ("__origin__", "__supertype__", "__value__"))


def _default(variable: Any) -> Any:
    default = getattr(variable, "__default__", None)
    return None if default is NoDefault else default


def _field_types(cls: type) -> Iterator[Any]:
    if issubclass(cls, enum.Enum):
        return
    if issubclass(cls, BaseModel):
        yield from (one.annotation for one in cls.model_fields.values())
    elif is_typeddict(cls) or is_data_class(cls):
        yield from _hints(cls).values()


def _hints(owner: Any) -> dict[str, Any]:
    try:
        return get_type_hints(owner, include_extras=True)
    except Exception:  # noqa: BLE001 - a name that only type checkers see can fail in any way; the other fields count
        raw = vars(owner).get("__annotations__", {}) if isinstance(owner, type) else owner.__annotations__
        return {name: one for name, one in raw.items() if not isinstance(one, str | ForwardRef)}
