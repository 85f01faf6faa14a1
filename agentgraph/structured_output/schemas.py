"""Schemas of structured answers: which ones there are, what they are called, and whether an answer fits.

A schema is a pydantic class, a dataclass, a TypedDict, a JSON schema, or a union of those. It is analysed once, when a
strategy is made, into `SchemaSpec` objects: one for each member of a union. Nothing here knows of models or tools.
"""

import copy
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import lru_cache, partial
from types import UnionType
from typing import Annotated, Any, Generic, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, Discriminator, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_json
from typing_extensions import TypeAliasType, TypeVar, is_typeddict

from agentgraph.errors import AgentGraphError, ConfigurationError, ConfigurationTypeError
from agentgraph.structured_output.json_schemas import (
    check_json_schema,
    json_mismatches,
    json_variants,
    rooted_at_object,
)

__all__ = ["SchemaKind", "SchemaMismatchError", "SchemaSpec", "SchemaT", "excerpt", "legal_name", "specs_of"]

SchemaT = TypeVar("SchemaT", default=Any)
SchemaKind = Literal["pydantic", "dataclass", "typeddict", "json_schema"]
Validator = Callable[[Any], Any]

_NAME_LENGTH = 64
_LEGAL_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{_NAME_LENGTH}}}")
_UNNAMED = "structured_response"
_MOST_PROBLEMS = 10
_LONGEST_PROBLEM = 300
_LONGEST_VALUE = 80


class SchemaMismatchError(AgentGraphError, ValueError):
    """An answer does not fit its schema. Its text is bounded, whatever the answer holds.

    Attributes:
        schema_name: the schema's name, as the model sees it.
        problems: one line for each violation: its place, what was expected there, what was given. At most ten.
    """

    def __init__(self, schema_name: str, problems: Iterable[str]) -> None:
        self.schema_name = schema_name
        self.problems = tuple(excerpt(problem, _LONGEST_PROBLEM) for problem in problems)
        listed = "\n".join(f"- {problem}" for problem in self.problems)
        super().__init__(f"The answer does not fit the schema {schema_name!r}:\n{listed}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args`, which holds the finished text instead of its parts.
        return type(self), (self.schema_name, self.problems)


@dataclass(frozen=True, kw_only=True)
class SchemaSpec(Generic[SchemaT]):
    """One analysed schema: a member of a union, or the only one.

    Made by `specs_of` when a strategy is made; a run only reads it.

    Attributes:
        schema: what the user gave.
        name: its name for models, `^[a-zA-Z0-9_-]{1,64}$`, after the class or the `title`.
        description: its docstring or `description`.
        schema_kind: what kind of schema it is.
        json_schema: the JSON schema with an object at its root.
        strict: whether the provider is to enforce the schema, None to leave it to the provider.
    """

    schema: type[SchemaT] | dict[str, Any]
    name: str
    description: str
    schema_kind: SchemaKind
    json_schema: dict[str, Any] = field(repr=False)
    strict: bool | None = None
    validator: Validator = field(repr=False, compare=False)

    def parse(self, data: Any) -> SchemaT:
        """Validate an answer.

        Args:
            data: the answer as decoded from JSON.

        Returns:
            An object of the schema; for a TypedDict and a JSON schema, a dict.

        Raises:
            SchemaMismatchError: it does not fit.
        """
        try:
            return cast("SchemaT", self.validator(data))
        except Exception as error:
            from langgraph.errors import GraphBubbleUp  # noqa: PLC0415 - costs 400 ms, which no good answer needs

            if isinstance(error, GraphBubbleUp):
                raise
            raise SchemaMismatchError(self.name, _problems(error)) from error


def specs_of(schema: Any, *, strict: bool | None = None) -> list[SchemaSpec[Any]]:
    """Analyse a schema or a union of schemas.

    Args:
        schema: a pydantic class, dataclass, TypedDict, JSON schema, or a union of them (`A | B`, a root `oneOf`).
        strict: kept in the specs.

    Returns:
        One spec for each member, in the order of the union, with names that are legal and differ.

    Raises:
        ConfigurationTypeError: a member is not a schema at all.
        ConfigurationError: a member cannot be described as a JSON schema of an object.

    Example:
        >>> [spec.name for spec in specs_of({"title": "Contact Info", "type": "object", "properties": {}})]
        ['Contact_Info']
    """
    specs: list[SchemaSpec[Any]] = []
    for spec in _analysed_members(schema):
        if all(spec.schema != known.schema for known in specs):
            name = _unused(spec.name, [known.name for known in specs])
            # The analysis is shared by all strategies of the class, and a chat model may change what it is handed.
            document = copy.deepcopy(spec.json_schema)
            specs.append(replace(spec, name=name, strict=strict, json_schema=document))
    return specs


def legal_name(title: str) -> str:
    """Make a name that every provider takes for a tool: `^[a-zA-Z0-9_-]{1,64}$`.

    Args:
        title: any text. A legal one stays as it is; accents fall, other characters become underscores.

    Returns:
        The name; "structured_response" if nothing legal is left.
    """
    if _LEGAL_NAME.fullmatch(title):
        return title
    plain = unicodedata.normalize("NFKD", title[: 8 * _NAME_LENGTH]).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", plain).strip("_-")[:_NAME_LENGTH] or _UNNAMED


def excerpt(value: Any, limit: int = _LONGEST_VALUE) -> str:
    """Show a value in an error or a message: text as it is, all else as its repr, at most `limit` characters."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply to be shown"
    shown = text if len(text) <= limit else f"{text[: limit - 3]}..."
    # Half a surrogate pair, which JSON can hold and UTF-8 cannot, would make the message unsendable.
    return shown.encode(errors="backslashreplace").decode()


def _unused(name: str, taken: Iterable[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        suffix = f"_{number}"
        candidate, number = name[: _NAME_LENGTH - len(suffix)] + suffix, number + 1
    return candidate


def _analysed_members(schema: Any) -> Iterator[SchemaSpec[Any]]:
    if isinstance(schema, Mapping):
        check_json_schema(schema)
        for part, completed in json_variants(schema):
            yield _json_spec(part, completed)
        return
    for member in _union_members(schema):
        yield _type_spec(member)


def _union_members(schema: Any) -> Iterator[Any]:
    if isinstance(schema, TypeAliasType):
        yield from _union_members(schema.__value__)
        return
    if get_origin(schema) is Annotated and _is_union(get_args(schema)[0]):
        union, *metadata = get_args(schema)
        # What chooses between the members is now the name of the tool; all else holds for each of them.
        kept = tuple(mark for mark in metadata if not isinstance(mark, (FieldInfo, Discriminator)))
        for member in _union_members(union):
            yield Annotated[(member, *kept)] if kept else member
        return
    if not _is_union(schema):
        yield schema
        return
    for member in get_args(schema):
        yield from _union_members(member)


def _is_union(schema: Any) -> bool:
    return get_origin(schema) in {Union, UnionType}


def _type_spec(schema: Any) -> SchemaSpec[Any]:
    try:
        hash(schema)
    except TypeError:
        return _analyse_type(schema)
    return _analyse_type_once(schema)


def _analyse_type(schema: Any) -> SchemaSpec[Any]:
    kind = _kind_of(schema)
    name = _name_of(schema)
    try:
        adapter = TypeAdapter[Any](schema)
        document = adapter.json_schema()
    except (PydanticUserError, TypeError, ValueError, NameError, RecursionError) as error:
        reason = excerpt(str(error).partition("\n")[0], _LONGEST_PROBLEM)
        raise ConfigurationError(
            f"Schema {name!r} cannot be described as a JSON schema: {reason} "
            "Expected fields of defined types that JSON can hold. Correct what is named here."
        ) from error
    root = rooted_at_object(document, name=name)
    return SchemaSpec(
        schema=schema,
        name=legal_name(name),
        description=str(root.get("description", "")),
        schema_kind=kind,
        json_schema=root,
        validator=partial(_validate_type, adapter),
    )


# A middleware may override the response format with the same class in every call: it is analysed in the first.
_analyse_type_once = lru_cache(maxsize=128)(_analyse_type)


def _json_spec(part: Mapping[str, Any], completed: Mapping[str, Any]) -> SchemaSpec[Any]:
    reference = str(completed.get("$ref", "")).rpartition("/")[2]
    name = str(completed.get("title") or reference or _UNNAMED)
    root = rooted_at_object(completed, name=name)
    return SchemaSpec(
        schema=cast("dict[str, Any]", part),
        name=legal_name(str(root.get("title") or name)),
        description=str(root.get("description", "")),
        schema_kind="json_schema",
        json_schema=root,
        validator=partial(_validate_json, root),
    )


def _kind_of(schema: Any) -> SchemaKind:
    plain = get_args(schema)[0] if get_origin(schema) is Annotated else schema
    origin = get_origin(plain) or plain
    if isinstance(origin, type):
        if any(base.__module__.startswith("pydantic.v1") for base in origin.__mro__):
            raise ConfigurationTypeError(
                f"Schema {origin.__name__!r} is a class of pydantic 1. Expected a class of pydantic 2: derive it from "
                "pydantic.BaseModel."
            )
        if issubclass(origin, BaseModel):
            return "pydantic"
        if is_dataclass(origin):
            return "dataclass"
        if is_typeddict(origin):
            return "typeddict"
    raise _not_a_schema(schema)


def _not_a_schema(schema: Any) -> ConfigurationTypeError:
    hint = ""
    if isinstance(schema, BaseModel) or (is_dataclass(schema) and not isinstance(schema, type)):
        hint = f" This is an object: give its class, {type(schema).__name__}."
    elif schema is None or schema is type(None):
        hint = " A structured answer cannot be absent: leave None out, or make a schema that says so."
    return ConfigurationTypeError(
        f"{excerpt(schema)} is not a schema of a structured answer. Expected a pydantic class, a dataclass, a "
        f"TypedDict, a JSON schema (dict), or a union of those.{hint}"
    )


def _name_of(schema: Any) -> str:
    plain = get_args(schema)[0] if get_origin(schema) is Annotated else schema
    origin, arguments = get_origin(plain), get_args(plain)
    if origin is None:
        return str(plain.__name__)
    return f"{origin.__name__}[{','.join(getattr(argument, '__name__', str(argument)) for argument in arguments)}]"


def _validate_type(adapter: TypeAdapter[Any], data: Any) -> Any:
    try:
        # As JSON, since that is what a model wrote: a strict pydantic model takes a date from text only there.
        encoded = to_json(data, inf_nan_mode="constants")
    except ValueError:
        return adapter.validate_python(data)
    return adapter.validate_json(encoded)


def _validate_json(document: Mapping[str, Any], data: Any) -> Any:
    if mismatches := json_mismatches(document, data, at_most=_MOST_PROBLEMS):
        raise _JsonMismatchesError(mismatches)
    return data


class _JsonMismatchesError(ValueError):
    """Carries what violates a JSON schema to the place that knows the name of the schema."""

    def __init__(self, mismatches: list[str]) -> None:
        super().__init__("; ".join(mismatches))
        self.mismatches = mismatches


def _problems(error: Exception) -> list[str]:
    if isinstance(error, _JsonMismatchesError):
        return error.mismatches
    if not isinstance(error, ValidationError):
        return [f"{type(error).__name__}: {error}"]
    details = error.errors(include_url=False, include_context=False)
    lines = [
        f"{_place(detail['loc'])}: {detail['msg']} (given: {excerpt(detail['input'])})"
        for detail in details[:_MOST_PROBLEMS]
    ]
    return lines if len(details) <= _MOST_PROBLEMS else [*lines, f"and {len(details) - _MOST_PROBLEMS} more"]


def _place(location: tuple[int | str, ...]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{excerpt(step)}" for step in location)
    return steps.lstrip(".") or "the answer"
