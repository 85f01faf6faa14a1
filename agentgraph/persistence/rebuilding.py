"""Objects as the parts that are stored of them, and objects from these parts."""

import dataclasses
import enum
import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_PYDANTIC_V2,
)
from langgraph.errors import GraphBubbleUp
from langgraph.store.base import Item
from langgraph.types import Send
from pydantic import AfterValidator, BaseModel, BeforeValidator, PlainValidator, ValidationError, WrapValidator
from pydantic_core import PydanticUndefined

from agentgraph.errors import CheckpointError
from agentgraph.persistence.registry import type_name

__all__ = ["parts_of", "rebuild"]

_VALIDATORS = (AfterValidator, BeforeValidator, PlainValidator, WrapValidator)
_NOTHING = object()

Parts = tuple[int, Any]
"""A code of langgraph's format and the arguments that make the object again."""


def parts_of(value: Any) -> Parts | None:
    """What is stored of an object; None where its parts cannot be objects of the user's, and langgraph writes it."""
    cls: Any = type(value)
    take = _way_apart(cls)
    return take(value) if take else None


def rebuild(cls: type, code: int, content: Any, fields_set: Sequence[str] | None = None) -> Any:
    """An object from its parts.

    Args:
        cls: its class.
        code: of the way in which its parts were stored.
        content: the parts.
        fields_set: of a model, the fields that were set; None where they are not known, because its parts are what
            `model_dump` made of it.

    Raises:
        CheckpointError: the class has changed so much that the parts do not make one any more.
    """
    try:
        made = _way_together(cls, code)(cls, content)
        return made if fields_set is None else _settled(made, content, fields_set)
    except Exception as error:
        raise CheckpointError(
            f"A stored {type_name(cls.__module__, cls.__qualname__)} does not fit its class any more: "
            f"{type(error).__name__}: {error!s:.300}. Nothing was changed. Give new fields a default and keep old "
            "names readable, then the thread can be read again."
        ) from error


@functools.lru_cache(maxsize=1024)
def _way_apart(cls: type) -> Callable[[Any], Parts] | None:
    for kind, take in _APART:
        if issubclass(cls, kind):
            return take
    if issubclass(cls, tuple):
        return _named_tuple if hasattr(cls, "_asdict") else _collection
    return _dataclass if dataclasses.is_dataclass(cls) else None


def _enum(value: enum.Enum) -> Parts:
    return EXT_CONSTRUCTOR_SINGLE_ARG, value.value


class _Layout(NamedTuple):
    """What is asked of a model's class at every message, found once."""

    names: frozenset[str]
    keeps_extra: bool
    has_aliases: bool
    has_private: bool
    has_validators: bool


@functools.lru_cache(maxsize=1024)
def _layout(cls: type[BaseModel]) -> _Layout:
    return _Layout(
        names=frozenset(cls.model_fields),
        keeps_extra=cls.model_config.get("extra") == "allow",
        has_aliases=any(one.alias or one.validation_alias for one in cls.model_fields.values()),
        has_private=bool(cls.__private_attributes__),
        has_validators=_has_validators(cls),
    )


def _has_validators(cls: type[BaseModel]) -> bool:
    """Whether code of the class's own takes part when one is made."""
    found = cls.__pydantic_decorators__
    return (
        bool(found.field_validators or found.model_validators or found.validators or found.root_validators)
        or any(isinstance(one, _VALIDATORS) for field in cls.model_fields.values() for one in field.metadata)
        or (cls.model_post_init is not BaseModel.model_post_init)
    )


def _model(value: BaseModel) -> Parts:
    # By the fields' own values: `model_dump` would make dicts of the objects in fields typed Any, leave out excluded
    # fields, and add computed ones that no constructor takes.
    cls: Any = type(value)
    held, names = vars(value), _layout(cls).names
    fields = held if held.keys() == names else {name: held[name] for name in cls.model_fields if name in held}
    return EXT_PYDANTIC_V2, {**fields, **extra} if (extra := value.model_extra) else fields


def _dataclass(value: Any) -> Parts:
    names = [one.name for one in dataclasses.fields(value)]
    return EXT_CONSTRUCTOR_KW_ARGS, {name: getattr(value, name) for name in names if hasattr(value, name)}


def _named_tuple(value: Any) -> Parts:
    return EXT_CONSTRUCTOR_KW_ARGS, value._asdict()


def _send(value: Send) -> Parts:
    return EXT_CONSTRUCTOR_POS_ARGS, [value.node, value.arg, *([value.timeout] if value.timeout else [])]


def _item(value: Item) -> Parts:
    return EXT_CONSTRUCTOR_KW_ARGS, {name: getattr(value, name) for name in Item.__slots__}


def _collection(value: Any) -> Parts:
    return EXT_CONSTRUCTOR_SINGLE_ARG, [*value]


def _number(value: int) -> Parts:
    # Only those beyond 64 bits come here.
    return EXT_CONSTRUCTOR_SINGLE_ARG, str(int(value))


_APART: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    (enum.Enum, _enum),  # before int, which some enums are as well
    (BaseModel, _model),
    (Send, _send),
    (Item, _item),
    ((set, frozenset, deque), _collection),
    (int, _number),
)


@functools.lru_cache(maxsize=1024)
def _way_together(cls: type, code: int) -> Callable[[type, Any], Any]:
    if cls is Send:
        return _to_send
    if issubclass(cls, BaseMessage):
        return _to_message
    if issubclass(cls, BaseModel):
        return _to_model
    if code == EXT_CONSTRUCTOR_SINGLE_ARG:
        return _to_value
    if code == EXT_CONSTRUCTOR_POS_ARGS:
        return _to_positional
    return _to_dataclass if dataclasses.is_dataclass(cls) else _to_named


def _to_send(cls: type[Send], content: Any) -> Send:
    node, arg, *timeout = content
    return cls(node, arg, timeout=timeout[0] if timeout else None)


def _to_message(cls: Any, content: Mapping[str, Any]) -> BaseMessage:
    # Validating a message costs four times as much, and histories consist of them. What was stored was validated
    # before; only where the class has got other fields since, it has to be again.
    if content.keys() >= _layout(cls).names:
        return cast("BaseMessage", _restored(cls, content))
    return cast("BaseMessage", cls(**content))


def _to_model(cls: Any, content: Any) -> BaseModel:
    if not isinstance(content, Mapping):
        return cast("BaseModel", cls.model_validate(content))
    layout = _layout(cls)
    try:
        made = cls.model_validate(content, by_alias=False, by_name=True) if layout.has_aliases else cls(**content)
    except ValidationError:
        # Validators may refuse, or take another form of, what they themselves made.
        if content.keys() >= layout.names:
            return _restored(cls, content)
        raise
    return cast("BaseModel", made)


def _settled(made: Any, content: Mapping[str, Any], fields_set: Sequence[str]) -> Any:
    """The model with the values that it had, where validators have made others of these once more."""
    cls: Any = type(made)
    layout, values = _layout(cls), vars(made)
    for name in layout.names & content.keys() if layout.has_validators else ():
        # Of another type, it is what the class has been changed to since, or a form that only its validators know.
        if type(values.get(name)) is type(content[name]) and not _same(values[name], content[name]):
            values[name] = content[name]
    made.model_fields_set.intersection_update(fields_set)
    return made


def _same(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(a == b)
    except GraphBubbleUp:
        raise
    except Exception:  # noqa: BLE001 - values of a user's own, such as arrays, need not compare to a truth value
        return True


def _restored(cls: Any, content: Mapping[str, Any]) -> BaseModel:
    """The model as it was, by the way that copies and pickles of models take."""
    names, keeps_extra, _, has_private, _ = _layout(cls)
    exact = len(content) == len(names)
    extra = {} if exact else {name: value for name, value in content.items() if name not in names}
    model: BaseModel = cls.__new__(cls)
    model.__setstate__(
        {
            "__dict__": content if exact else {name: content[name] for name in cls.model_fields},
            "__pydantic_extra__": extra if keeps_extra else None,
            "__pydantic_fields_set__": {*content},
            "__pydantic_private__": _private_defaults(cls, content) if has_private else None,
        }
    )
    return model


def _private_defaults(cls: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """Private attributes as a new model has them; like pydantic, checkpoints do not hold their values."""
    found: dict[str, Any] = {}
    for name, one in cls.__private_attributes__.items():
        make: Any = one.default_factory
        if make is None:
            found[name] = one.get_default()
        else:
            takes_fields = getattr(one, "default_factory_takes_validated_data", False)  # in newer versions of pydantic
            found[name] = make({**content, **found}) if takes_fields else make()
    return {name: value for name, value in found.items() if value is not PydanticUndefined}


def _to_dataclass(cls: Any, content: Mapping[str, Any]) -> Any:
    fields = {one.name: one for one in dataclasses.fields(cls)}
    given = {name: value for name, value in content.items() if name in fields}
    try:
        made = cls(**{name: value for name, value in given.items() if fields[name].init})
        # Also those that its code has made anew out of what it had made of them before.
        rest = {name: value for name, value in given.items() if not _same(getattr(made, name, _NOTHING), value)}
    except Exception:
        # It is not made of its fields alone (InitVar, an own __init__), or refuses today what it was yesterday.
        if given.keys() != fields.keys():
            raise
        made, rest = cls.__new__(cls), given
    for name, value in rest.items():
        object.__setattr__(made, name, value)  # frozen ones too
    return made


def _to_named(cls: Any, content: Mapping[str, Any]) -> Any:
    return cls(**content)


def _to_value(cls: Any, content: Any) -> Any:
    return cls(content)


def _to_positional(cls: Any, content: Any) -> Any:
    return cls(*content)
