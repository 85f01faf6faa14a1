"""Savers of langgraph's, given as they are: what they stored is read back as what it was.

langgraph's serializer stores more of a dataclass than it can read: the value of a computed field is there, but no
constructor takes it, and a plain dict comes back in the object's place. Here such a saver is read through a copy that
differs in nothing but in how stored bytes become objects. What is written, and the saver itself, stay as they are.
"""

import copy
import functools
import importlib
from typing import Any, Literal

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agentgraph.errors import CheckpointError
from agentgraph.persistence.guard import KEEPING
from agentgraph.persistence.rebuilding import rebuild
from agentgraph.persistence.registry import Registry, is_data_class

__all__ = ["restoring"]

_OBJECTS = frozenset({EXT_CONSTRUCTOR_SINGLE_ARG, EXT_CONSTRUCTOR_POS_ARGS, EXT_CONSTRUCTOR_KW_ARGS, EXT_PYDANTIC_V2})
Allowed = Literal[True] | frozenset[tuple[str, ...]]


def restoring(saver: Any) -> Any:
    """The saver to read with in the place of one of langgraph's.

    Only langgraph's own savers with its own serializer are replaced, also where that is encrypted; it must not read by
    a hook of the user's. Which types may come back is decided by the serializer, as before. The copy is shallow, so
    both have the same connection, locks and storage; it is made anew each time, and is not meant to be kept.

    Args:
        saver: a checkpointer, or what else `create_agent` takes for one.

    Returns:
        A copy of the saver, or what was given.

    Example:
        >>> saver = InMemorySaver()
        >>> restoring(saver).storage is saver.storage
        True
    """
    if not (type(saver) is InMemorySaver or f"{type(saver).__module__}.{type(saver).__name__}" in KEEPING):
        return saver
    serde = _restoring_serializer(saver.serde)
    if serde is saver.serde:
        return saver
    twin: BaseCheckpointSaver[Any] = copy.copy(saver)
    twin.serde = serde
    return twin


def _restoring_serializer(serde: Any) -> Any:
    if type(serde) is EncryptedSerializer:
        inner = _restoring_serializer(serde.serde)
        return serde if inner is serde.serde else EncryptedSerializer(serde.cipher, inner)
    # A subclass, and a hook of the user's, know better what they are for.
    if type(serde) is not JsonPlusSerializer or serde._custom_unpack_ext_hook:  # noqa: SLF001 - known by no public name
        return serde
    return _RestoringSerializer(serde)


class _RestoringSerializer(JsonPlusSerializer):
    """langgraph's serializer as it was set up, but for objects that it would give up.

    Args:
        theirs: the serializer; it is left alone.
    """

    def __init__(self, theirs: JsonPlusSerializer) -> None:
        vars(self).update(vars(theirs))
        self._theirs = theirs._unpack_ext_hook  # noqa: SLF001 - as above
        self._classes = _classes_for(_allowed_by(theirs))
        self._unpack_ext_hook = self._extension

    def _extension(self, code: int, stored: bytes) -> Any:
        if code == EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(self._unpack(stored))
        if code not in _OBJECTS:
            return self._theirs(code, stored)
        module, name, content, *further = self._unpack(stored)
        cls = self._classes.find(module, name)
        if cls is not None:
            try:
                return rebuild(cls, code, content, *further[1:2])
            except CheckpointError:
                pass  # then it is as with langgraph's own
        return self._theirs(code, stored)

    def _unpack(self, stored: bytes) -> Any:
        return ormsgpack.unpackb(stored, ext_hook=self._extension, option=ormsgpack.OPT_NON_STR_KEYS)


class _Classes(Registry):
    """The classes that a serializer of langgraph's may make, besides those that are known here.

    Args:
        allowed: the names, True for any.
    """

    def __init__(self, allowed: Allowed) -> None:
        super().__init__()
        self._any = allowed is True
        self._names: frozenset[tuple[str, ...]] = allowed if isinstance(allowed, frozenset) else frozenset()

    def find(self, module: str, name: str) -> type | None:
        """The class of that name; None when it is not known, or may not be made."""
        known = super().find(module, name)
        if known is not None or not (self._any or (module, name) in self._names):
            return known
        try:
            found = getattr(importlib.import_module(module), name, None)
        except Exception:  # noqa: BLE001 - a module that went, or fails, is then langgraph's to report; no run is inside
            return None
        # Not remembered: in a notebook, the class of that name may soon be another one.
        return found if isinstance(found, type) and is_data_class(found) else None


@functools.lru_cache(maxsize=64)
def _classes_for(allowed: Allowed) -> _Classes:
    """One table for all serializers of the same setting, so that our own classes are looked for once."""
    return _Classes(allowed)


def _allowed_by(serde: JsonPlusSerializer) -> Allowed:
    given = serde._allowed_msgpack_modules  # noqa: SLF001 - as above
    return True if given is True else frozenset(given or ())
