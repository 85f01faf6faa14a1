"""The strategies of structured output, as a user of `create_agent(response_format=...)` writes them.

`ToolStrategy` asks for the answer as a tool call, `ProviderStrategy` as JSON that the model's provider enforces, and
`AutoStrategy`, which a raw schema means, chooses between the two at each model call. Each analyses its schema when it
is made, so that a schema which cannot work is refused there. All of it is public as `agentgraph.structured_output`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import UnionType
from typing import Any, Generic, Self, cast, get_origin, overload

from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool

from agentgraph.errors import ConfigurationTypeError
from agentgraph.structured_output.json_schemas import strict_schema, without_filler
from agentgraph.structured_output.schemas import SchemaKind, SchemaMismatchError, SchemaSpec, SchemaT, excerpt, specs_of

__all__ = [
    "AutoStrategy",
    "ErrorPolicy",
    "OutputToolBinding",
    "ProviderStrategy",
    "ProviderStrategyBinding",
    "ResponseFormat",
    "ToolStrategy",
    "as_strategy",
]

ErrorPolicy = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]

_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_THOUGHTS_END = re.compile(r"</think(?:ing)?>")


@dataclass(init=False)
class ToolStrategy(Generic[SchemaT]):
    """Ask for the structured answer as a tool call: works with every model that can call tools.

    Each member of a union becomes a tool of its own. The model is made to call a tool (`tool_choice="any"`, unless the
    request sets another); a call of such a tool is validated and ends the run with `structured_response`.

    Args:
        schema: a pydantic class, dataclass, TypedDict, JSON schema (dict), or a union of them.
        tool_message_content: text of the ToolMessage that answers the accepted call; by default it says the value.
        handle_errors: what happens to an answer that does not fit, or comes twice in a turn. True (default): the model
            is told and asked again. A text: the model is told that text. Exception types: only errors of these types,
            or caused by them, are told, others raised. A callable: gets the error and returns the text. False: raised.

    Attributes:
        schema_specs: the analysed members, in order.

    Raises:
        ConfigurationError: the schema cannot be one, or `handle_errors` is none of the above.

    Example:
        >>> weather = {"title": "Weather", "type": "object", "properties": {"celsius": {"type": "number"}}}
        >>> ToolStrategy(weather).schema_specs[0].name
        'Weather'
    """

    schema: type[SchemaT] | UnionType | dict[str, Any]
    schema_specs: list[SchemaSpec[Any]]
    tool_message_content: str | None
    handle_errors: ErrorPolicy

    @overload
    def __init__(
        self: "ToolStrategy[dict[str, Any]]",
        schema: dict[str, Any],
        *,
        tool_message_content: str | None = None,
        handle_errors: ErrorPolicy = True,
    ) -> None: ...
    @overload
    def __init__(
        self: "ToolStrategy[Any]",
        schema: UnionType,
        *,
        tool_message_content: str | None = None,
        handle_errors: ErrorPolicy = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        schema: type[SchemaT],
        *,
        tool_message_content: str | None = None,
        handle_errors: ErrorPolicy = True,
    ) -> None: ...
    def __init__(
        self,
        schema: type[SchemaT] | UnionType | dict[str, Any],
        *,
        tool_message_content: str | None = None,
        handle_errors: ErrorPolicy = True,
    ) -> None:
        _require_error_policy(handle_errors)
        if not isinstance(tool_message_content, str | None):
            raise ConfigurationTypeError(
                f"tool_message_content is {excerpt(tool_message_content)}. Expected a text, or None to say the value."
            )
        self.schema = schema
        self.schema_specs = specs_of(schema)
        self.tool_message_content = tool_message_content
        self.handle_errors = handle_errors


@dataclass(init=False)
class ProviderStrategy(Generic[SchemaT]):
    """Ask for the structured answer as JSON that the model's provider enforces (OpenAI's `response_format`).

    Args:
        schema: a pydantic class, dataclass, TypedDict or JSON schema (dict) of one object.
        strict: True makes the schema strict (every property required, no further ones, optional ones nullable) and
            has the provider enforce it token by token. None and False leave the schema as it is.

    Attributes:
        schema_spec: the analysed schema.

    Raises:
        ConfigurationError: the schema cannot be one, is a union, or cannot be strict though it has to.

    Example:
        >>> strategy = ProviderStrategy({"title": "Size", "type": "object", "properties": {"cm": {"type": "number"}}})
        >>> strategy.to_model_kwargs()["response_format"]["json_schema"]["name"]
        'Size'
    """

    schema: type[SchemaT] | dict[str, Any]
    schema_spec: SchemaSpec[SchemaT]

    @overload
    def __init__(
        self: "ProviderStrategy[dict[str, Any]]", schema: dict[str, Any], *, strict: bool | None = None
    ) -> None: ...
    @overload
    def __init__(self, schema: type[SchemaT], *, strict: bool | None = None) -> None: ...
    def __init__(self, schema: type[SchemaT] | dict[str, Any], *, strict: bool | None = None) -> None:
        specs = specs_of(schema, strict=strict)
        if len(specs) != 1:
            names = ", ".join(spec.name for spec in specs)
            raise ConfigurationTypeError(
                f"ProviderStrategy was given a union ({names}), and providers take one object. Use ToolStrategy, which "
                "makes a tool of each member, or a model with the union as a field."
            )
        self.schema = schema
        self.schema_spec = specs[0]
        self._wire_schema = _wire_schema(specs[0])

    def to_model_kwargs(self) -> dict[str, Any]:
        """Say the strategy as keyword arguments of the chat model, in the form of OpenAI's chat completions.

        Returns:
            `{"response_format": {"type": "json_schema", "json_schema": {"name", "schema", "strict"?}}}`.
        """
        described: dict[str, Any] = {"name": self.schema_spec.name, "schema": self._wire_schema}
        if self.schema_spec.strict:
            described["strict"] = True
        return {"response_format": {"type": "json_schema", "json_schema": described}}


@dataclass(init=False)
class AutoStrategy(Generic[SchemaT]):
    """Choose at each model call: the provider's own structured output if the model has it, else tool calling.

    This is what a raw schema in `response_format` means. A union always takes tool calling.

    Args:
        schema: as for ToolStrategy.

    Raises:
        ConfigurationError: the schema cannot be one.
    """

    schema: type[SchemaT] | UnionType | dict[str, Any]

    @overload
    def __init__(self: "AutoStrategy[dict[str, Any]]", schema: dict[str, Any]) -> None: ...
    @overload
    def __init__(self: "AutoStrategy[Any]", schema: UnionType) -> None: ...
    @overload
    def __init__(self, schema: type[SchemaT]) -> None: ...
    def __init__(self, schema: type[SchemaT] | UnionType | dict[str, Any]) -> None:
        self.schema = schema
        self._tool_form: ToolStrategy[SchemaT] = ToolStrategy(cast("type[SchemaT]", schema))

    @property
    def tool_form(self) -> ToolStrategy[SchemaT]:
        """The strategy for models without structured output of their own."""
        return self._tool_form

    @cached_property
    def provider_form(self) -> ProviderStrategy[SchemaT] | None:
        """The strategy for models with it; None for a union."""
        if len(self._tool_form.schema_specs) != 1:
            return None
        return ProviderStrategy(cast("type[SchemaT]", self.schema))


ResponseFormat = ToolStrategy[SchemaT] | ProviderStrategy[SchemaT] | AutoStrategy[SchemaT]
"""Any strategy, e.g. `ResponseFormat[Weather]`."""


@dataclass
class OutputToolBinding(Generic[SchemaT]):
    """A schema and the tool that stands for it.

    Attributes:
        schema: what the user gave.
        schema_kind: what kind of schema it is.
        tool: the tool that is shown to the model. It is never run: a call of it is the answer.
    """

    schema: type[SchemaT] | dict[str, Any]
    schema_kind: SchemaKind
    tool: BaseTool
    spec: SchemaSpec[SchemaT] = field(repr=False, compare=False)

    @classmethod
    def from_schema_spec(cls, schema_spec: SchemaSpec[SchemaT]) -> Self:
        """Make the tool of an analysed schema."""
        tool = StructuredTool(
            name=schema_spec.name,
            description=schema_spec.description or f"Give the final answer as {schema_spec.name}.",
            args_schema=schema_spec.json_schema,
        )
        return cls(schema=schema_spec.schema, schema_kind=schema_spec.schema_kind, tool=tool, spec=schema_spec)

    def parse(self, tool_args: dict[str, Any]) -> SchemaT:
        """Validate the arguments of a call.

        Raises:
            SchemaMismatchError: they do not fit; it is a ValueError.
        """
        return self.spec.parse(tool_args)


@dataclass
class ProviderStrategyBinding(Generic[SchemaT]):
    """A schema and how an answer of the provider's is read as it.

    Attributes:
        schema: what the user gave.
        schema_kind: what kind of schema it is.
    """

    schema: type[SchemaT] | dict[str, Any]
    schema_kind: SchemaKind
    spec: SchemaSpec[SchemaT] = field(repr=False, compare=False)

    @classmethod
    def from_schema_spec(cls, schema_spec: SchemaSpec[SchemaT]) -> Self:
        """Make the reader of an analysed schema."""
        return cls(schema=schema_spec.schema, schema_kind=schema_spec.schema_kind, spec=schema_spec)

    def parse(self, response: AIMessage) -> SchemaT:
        """Validate the text of a message: its text blocks joined, thoughts left out, a code fence around it opened.

        Raises:
            SchemaMismatchError: the text is not JSON or does not fit; it is a ValueError.
        """
        data = _decoded(str(response.text), self.spec.name)
        if self.spec.strict:
            data = without_filler(data, self.spec.json_schema)
        return self.spec.parse(data)


def as_strategy(response_format: Any) -> ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]:
    """Lift what a user gave as `response_format` to a strategy; a strategy stays the object it is.

    Args:
        response_format: a strategy of ours or of `langchain.agents`, or a raw schema.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(response_format, ToolStrategy | ProviderStrategy | AutoStrategy):
        return response_format
    given = get_origin(response_format) or response_format
    if isinstance(given, type):
        if given in {ToolStrategy, ProviderStrategy, AutoStrategy}:
            raise ConfigurationTypeError(
                f"response_format is the class {given.__name__}. Expected an object: {given.__name__}(YourSchema)."
            )
        return _auto_once(response_format)
    return _adopted(response_format) or AutoStrategy(response_format)


@lru_cache(maxsize=32)
def _auto_once(schema: Any) -> AutoStrategy[Any]:
    return AutoStrategy(schema)


def _adopted(foreign: Any) -> ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any] | None:
    """Take over a strategy of the original library, which a middleware written for it may put into a request."""
    kind = type(foreign).__name__
    if kind == "ToolStrategy":
        content = foreign.tool_message_content
        return ToolStrategy(foreign.schema, tool_message_content=content, handle_errors=foreign.handle_errors)
    if kind == "ProviderStrategy":
        return ProviderStrategy(foreign.schema, strict=foreign.schema_spec.strict)
    return AutoStrategy(foreign.schema) if kind == "AutoStrategy" else None


def _wire_schema(spec: SchemaSpec[Any]) -> dict[str, Any]:
    return strict_schema(spec.json_schema, name=spec.name) if spec.strict else spec.json_schema


def _require_error_policy(policy: object) -> None:
    members = policy if isinstance(policy, tuple) else (policy,)
    if isinstance(policy, bool | str) or all(_is_exception_type(member) for member in members):
        return
    if isinstance(policy, type | tuple) or not callable(policy):
        raise ConfigurationTypeError(
            f"handle_errors is {excerpt(policy)}. Expected True, False, a text for the model, an exception type, a "
            "tuple of exception types, or a callable that makes the text of the error."
        )


def _is_exception_type(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _decoded(text: str, schema_name: str) -> Any:
    text = _THOUGHT.sub("", text, count=1) if _THOUGHT.match(text) else text
    # A prompt's template may open the thought, so that the answer holds only its end.
    behind = _THOUGHTS_END.split(text, maxsplit=1)[-1]
    for candidate in (text, behind, _fenced(behind), _fenced(text)):
        try:
            return _loads(candidate)
        except (ValueError, RecursionError) as error:
            reason = error
    problem = f"not JSON: {excerpt(str(reason))} (given: {excerpt(text)})"
    raise SchemaMismatchError(schema_name, [problem]) from reason


def _fenced(text: str) -> str:
    """Take what stands between the first and the last code fence, without the name of its language."""
    start, end = text.find("```"), text.rfind("```")
    inner = text[start + 3 : end] if 0 <= start < end else text
    language, newline, rest = inner.partition("\n")
    return rest if newline and language.strip().isalpha() else inner.removeprefix("json")


def _loads(text: str) -> Any:
    return json.loads(text.strip().lstrip("\ufeff"), parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
