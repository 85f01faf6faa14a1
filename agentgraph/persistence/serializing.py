"""Values to bytes and back, strictly: only known types become objects again, and they are what they were.

The format is langgraph's (MessagePack with its extension types), so that threads that its own serializer wrote are
read, and the other way round. What differs:

- Nothing is imported because stored bytes name it. An unknown type is a CheckpointError, not a dict in its place.
- Objects are stored by their fields' own values and not by `model_dump`: what stands in a field typed `Any`, for
  instance the artifact of a tool, keeps its type; dataclasses keep computed fields; classes within classes, tuples and
  integers beyond 64 bits come back.
- Dicts keep objects as keys, and moments their time zones. What validators and `__post_init__` once made of a value is
  not made of it again. Private attributes of models are not stored, as pydantic itself leaves them out.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agentgraph.errors import CheckpointError
from agentgraph.persistence.rebuilding import parts_of, rebuild
from agentgraph.persistence.registry import Registry, is_plain, type_name, types_of

__all__ = ["Apart", "StrictSerializer", "register_types"]

_WRITE = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
_WRITE_KEYS = _WRITE | ormsgpack.OPT_NON_STR_KEYS
_READ = ormsgpack.OPT_NON_STR_KEYS
_OBJECTS = frozenset(
    {
        EXT_CONSTRUCTOR_SINGLE_ARG,
        EXT_CONSTRUCTOR_POS_ARGS,
        EXT_CONSTRUCTOR_KW_ARGS,
        EXT_METHOD_SINGLE_ARG,
        EXT_PYDANTIC_V1,
        EXT_PYDANTIC_V2,
    }
)
_PLAIN_KEYS = frozenset({str, float, bool, type(None), bytes})
_LEAST_INT, _MOST_INT = -(2**63), 2**64 - 1
_KEPT = "Nothing was changed."
_READ_BACK_BY = "model_validate_json"  # langgraph's format has a place for it and ignores what it says


class StrictSerializer(JsonPlusSerializer):
    """langgraph's serializer with a table of types; every checkpointer of `open_checkpointer` has one.

    Known from the start are the types of agentgraph, of langgraph's and langchain-core's state, and those of Python
    that langgraph knows (dates, decimals, UUIDs, paths, sets and the like).

    Args:
        types: further ones; see `register`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     number: int
        >>> serde = StrictSerializer([Order])
        >>> serde.loads_typed(serde.dumps_typed(Order(17)))
        Order(number=17)
    """

    def __init__(self, types: Iterable[Any] = ()) -> None:
        self.registry = Registry(types)
        self._warned: set[tuple[str, str]] = set()
        # Without a list of modules it makes only the types that it calls safe.
        self._plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        super().__init__(allowed_msgpack_modules=None)

    def register(self, *types: Any) -> None:
        """Make further types readable: classes (with the types of their fields), modules, or annotations.

        Registering later is enough: threads that could not be read before are read from then on.
        """
        self.registry.register(*types)

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> Self:
        """Register in langgraph's way, used by `compile` in its strict mode."""
        given = [*extra_allowlist]
        self.register(*(one for one in given if isinstance(one, type)))
        self.registry.adopt(one for one in given if not isinstance(one, type))
        return self

    @classmethod
    def within(cls, serde: Any) -> Self | None:
        """The StrictSerializer that a serializer is, or that an encrypting one holds."""
        inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        return inner if isinstance(inner, cls) else None

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value as bytes, with the name of their format.

        Raises:
            CheckpointError: the value cannot be stored.
        """
        if isinstance(obj, Apart):
            obj = obj.value
        if obj is None or isinstance(obj, bytes | bytearray):
            return super().dumps_typed(obj)
        writer = _Writer(self.registry, self._plain)
        try:
            stored = writer.pack(obj)
        except (TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"A value of type {type_name(type(obj).__module__, type(obj).__qualname__)} cannot be stored in a "
                f"checkpoint: {writer.failure or error!s:.300}. State, artifacts and interrupt values can hold plain "
                "data, dataclasses, pydantic models, enums and named tuples; keep connections and functions outside."
            ) from (writer.failure or error)
        for name in writer.unknown - self._warned:
            self._warned.add(name)
            _warn(*name)
        return "msgpack", stored

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """A value from bytes.

        Raises:
            CheckpointError: it holds a type that is not known, or bytes of another format. Nothing was changed.
        """
        kind, stored = data
        if kind == "msgpack":
            return _Reader(self.registry, self._plain).unpack(stored)
        try:
            return super().loads_typed(data)
        except NotImplementedError as error:
            raise CheckpointError(
                f"A stored value has the format {kind!r:.100}, which is not read: pickled and encrypted values need "
                f"the serializer that wrote them. {_KEPT}"
            ) from error


@dataclass(frozen=True)
class Apart:
    """A value that a saver is not to treat by its type; our serializer writes what is inside."""

    value: Any


class _Pairs:
    """A dict whose keys are objects, which MessagePack would turn into texts and numbers."""

    def __init__(self, content: dict[Any, Any]) -> None:
        self.pairs = [[key, value] for key, value in content.items()]


class _Raw(NamedTuple):
    """An extension as it is stored."""

    code: int
    content: bytes


class _Writer:
    """One value on its way to bytes.

    Attributes:
        unknown: names of the types in it that could not be read back.
        failure: what a part of it failed with; MessagePack's library does not hand that on.
    """

    def __init__(self, registry: Registry, plain: JsonPlusSerializer) -> None:
        self.unknown: set[tuple[str, str]] = set()
        self.failure: Exception | None = None
        self._registry = registry
        self._plain = plain
        self._has_keys = False

    def pack(self, value: Any) -> bytes:
        if not self._has_keys:
            try:
                return ormsgpack.packb(value, default=self._extension, option=_WRITE)
            except TypeError:
                if self.failure is not None:
                    raise
                # Most dicts have texts as keys, so the others are looked for once this is known not to be enough.
                self._has_keys = True
        return ormsgpack.packb(_with_pairs(value), default=self._extension, option=_WRITE_KEYS)

    def _extension(self, value: Any) -> Any:
        """What MessagePack has no word for."""
        if isinstance(value, _DeltaSnapshot):
            return ormsgpack.Ext(EXT_DELTA_SNAPSHOT, self.pack(value.value))
        if type(value) is _Pairs:
            return ormsgpack.Ext(EXT_CONSTRUCTOR_SINGLE_ARG, self.pack(["builtins", "dict", value.pairs]))
        try:
            parts = parts_of(value)
            return self._leaf(value) if parts is None else self._object(value, *parts)
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _object(self, value: Any, code: int, content: Any) -> Any:
        cls = type(value)
        if cls not in self._registry:
            self.unknown.add((cls.__module__, cls.__qualname__))
        name = [cls.__module__, cls.__qualname__]
        if code != EXT_PYDANTIC_V2:
            return ormsgpack.Ext(code, self.pack([*name, content]))
        # Messages are restored as they were in any case, and there are many of them.
        exact = () if isinstance(value, BaseMessage) else (sorted(value.model_fields_set),)
        try:
            return ormsgpack.Ext(code, self.pack([*name, content, _READ_BACK_BY, *exact]))
        except (TypeError, ValueError):
            # It has fields of foreign types, which its own serializers may make storable.
            stored = self.pack([*name, value.model_dump(), _READ_BACK_BY])
            self.failure = None
            return ormsgpack.Ext(code, stored)

    def _leaf(self, value: Any) -> Any:
        if type(value) is datetime and isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key:
            # langgraph's form has the offset at that moment only, and the zone is lost.
            return ormsgpack.Ext(EXT_CONSTRUCTOR_KW_ARGS, self.pack(["datetime", "datetime", _zoned(value)]))
        _, stored = self._plain.dumps_typed(value)
        leaf = ormsgpack.unpackb(stored, ext_hook=_Raw, option=_READ)
        if not isinstance(leaf, _Raw):
            return leaf
        if leaf.code in _OBJECTS:
            module, name, *_ = ormsgpack.unpackb(leaf.content, ext_hook=_Raw, option=_READ)
            if not self._registry.knows(module, name):
                self.unknown.add((module, name))
        return ormsgpack.Ext(leaf.code, leaf.content)


class _Reader:
    """One value on its way from bytes."""

    def __init__(self, registry: Registry, plain: JsonPlusSerializer) -> None:
        self._registry = registry
        self._plain = plain
        self._failure: BaseException | None = None

    def unpack(self, stored: bytes) -> Any:
        try:
            return self._unpack(stored)
        except ValueError as error:
            if self._failure is not None:
                raise self._failure from self._failure.__cause__
            raise CheckpointError(f"A stored value is damaged: {error!s:.300}. {_KEPT}") from error

    def _unpack(self, stored: bytes) -> Any:
        return ormsgpack.unpackb(stored, ext_hook=self._extension, option=_READ)

    def _extension(self, code: int, stored: bytes) -> Any:
        try:
            return self._object(code, stored)
        except BaseException as error:
            # MessagePack's library raises another error in its place, so it is raised by `unpack`.
            self._failure = self._failure or error
            raise

    def _object(self, code: int, stored: bytes) -> Any:
        if code == EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(self._unpack(stored))
        if code == EXT_NUMPY_ARRAY:
            return self._array(stored)
        if code not in _OBJECTS:
            raise CheckpointError(f"A stored value has the unknown code {code}; a newer version wrote it. {_KEPT}")
        module, name, content, *further = self._unpack(stored)
        cls = self._registry.find(module, name)
        if cls is not None:
            return rebuild(cls, code, content, *further[1:2])
        if is_plain(module, name):
            return self._by_langgraph(code, stored)
        raise CheckpointError(
            f"A stored thread holds a value of type {type_name(module, name)}, which this checkpointer does not know. "
            f"{_KEPT} Register the type and the thread can be read: open_checkpointer(..., types=[{name:.100}]), or "
            "name it in the agent's state schema."
        )

    def _array(self, stored: bytes) -> Any:
        array = self._by_langgraph(EXT_NUMPY_ARRAY, stored)
        if array is None:
            raise CheckpointError(f"A stored array cannot be read: numpy is not installed, or it is damaged. {_KEPT}")
        return array

    def _by_langgraph(self, code: int, stored: bytes) -> Any:
        return self._plain.loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, stored))))


def _with_pairs(value: Any) -> Any:
    """The value with each dict that has objects as keys in another form; what it holds inside objects comes later."""
    if isinstance(value, dict):
        inner = {key: _with_pairs(one) for key, one in value.items()}
        return inner if all(map(_is_plain_key, inner)) else _Pairs(inner)
    return [_with_pairs(one) for one in value] if isinstance(value, list) else value


def _is_plain_key(key: Any) -> bool:
    if type(key) in _PLAIN_KEYS:
        return True
    if type(key) is int:
        return _LEAST_INT <= key <= _MOST_INT
    if type(key) is tuple:
        return all(map(_is_plain_key, key))
    return isinstance(key, str) and not isinstance(key, Enum)


def _zoned(value: datetime) -> dict[str, Any]:
    names = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold")
    return {name: getattr(value, name) for name in names}


def _warn(module: str, name: str) -> None:
    warnings.warn(
        f"A value of type {type_name(module, name)} goes into a checkpoint that could not be read back with it. "
        f"Name the type in the agent's state schema, or register it: open_checkpointer(..., types=[{name:.100}]).",
        stacklevel=3,
    )


def register_types(saver: Any, *schemas: Any) -> None:
    """Make the types that schemas speak of readable for a saver; nothing where it does not read strictly.

    `create_agent` calls it with the schemas of the agent's state and of its structured response.

    Args:
        saver: a checkpointer, or what else `create_agent` takes for one.
        *schemas: classes or annotations.

    Example:
        >>> from agentgraph.persistence import open_checkpointer
        >>> register_types(open_checkpointer("memory://"), list[Registry] | None)
    """
    strict = StrictSerializer.within(getattr(saver, "serde", None))
    if strict is not None:
        strict.register(*types_of(*schemas))
