"""Structured answers of OpenAI-compatible Chat Completions: a schema as a request parameter, and the answer read by it.

Everything is pure but the two runnables at the end. An answer is read strictly: half a JSON is an error, not a shorter
object, and a refusal is a refusal, not a parse error.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from langchain_core.exceptions import ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap
from langchain_core.utils.function_calling import convert_to_openai_function
from pydantic import ValidationError

from agentgraph.errors import ConfigurationError
from agentgraph.models.refusals import refusal_error

__all__ = ["Method", "as_strict", "read_call", "read_text", "reading", "response_format_of", "tool_of"]

Method = Literal["json_schema", "function_calling", "json_mode"]

_FENCE = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?```\s*$", re.DOTALL | re.IGNORECASE)
_NOT_STRICT = frozenset(
    {
        "allOf",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxProperties",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_STRICT_FORMATS = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "time",
        "uuid",
    }
)


# The schema as a parameter


def _nullable(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    return (
        kind == "null"
        or (isinstance(kind, list) and "null" in kind)
        or any(_nullable(branch) for branch in schema.get("anyOf", ()))
        or None in schema.get("enum", ())
    )


def _strict_object(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    properties = schema.get("properties")
    if not properties or schema.get("additionalProperties", False) is not False:
        return None
    required = schema.get("required", [])
    if any(name not in required and not _nullable(value) for name, value in properties.items()):
        return None
    strict = {name: _strict(value) for name, value in properties.items()}
    if None in strict.values():
        return None
    return {**schema, "properties": strict, "required": list(properties), "additionalProperties": False}


def _strict(schema: Any) -> dict[str, Any] | None:
    """Give one schema in strict form, None if it has none."""
    if not isinstance(schema, Mapping) or _NOT_STRICT & schema.keys():
        return None
    if "format" in schema and schema["format"] not in _STRICT_FORMATS:
        return None
    out: dict[str, Any] | None = {key: value for key, value in schema.items() if key != "default"}
    if schema.get("type") == "object" or "properties" in schema:
        out = _strict_object({key: value for key, value in schema.items() if key != "default"})
    for key in ("items", "anyOf", "$defs"):
        out = _strict_below(out, key)
    return out


def _strict_below(schema: dict[str, Any] | None, key: str) -> dict[str, Any] | None:
    if schema is None or key not in schema:
        return schema
    value = schema[key]
    if key == "items":
        inner: Any = _strict(value)
        failed = inner is None
    elif isinstance(value, Mapping):
        inner = {name: _strict(branch) for name, branch in value.items()}
        failed = None in inner.values()
    else:
        inner = [_strict(branch) for branch in value]
        failed = None in inner
    return None if failed else {**schema, key: inner}


def as_strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give a JSON schema in the form that OpenAI's strict mode takes, None if that would change what it means.

    Strict means: every object closed, every property required (an optional one must take null), no root `anyOf`, and
    none of the keywords that the mode does not know.
    """
    return _strict(schema) if "properties" in schema and "anyOf" not in schema else None


def _function_of(schema: Any) -> dict[str, Any]:
    if isinstance(schema, Mapping) and "title" not in schema and "name" not in schema:
        schema = {"title": "answer", **schema}
    try:
        return convert_to_openai_function(schema)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{schema!r:.200} is no schema of an answer. Expected a pydantic class, a TypedDict class or a JSON "
            "schema of an object."
        ) from error


def response_format_of(schema: Any, *, strict: bool | None) -> dict[str, Any]:
    """Make the `response_format` parameter from a schema.

    Args:
        schema: pydantic class, TypedDict class, JSON schema, or a ready `response_format`.
        strict: whether the server must keep to the schema exactly; None: where the schema allows it.

    Raises:
        ConfigurationError: it is no schema.
    """
    if isinstance(schema, Mapping) and schema.get("type") in {"json_schema", "json_object", "text"}:
        return dict(schema)
    function = _function_of(schema)
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    exact = as_strict(parameters) if strict is not False else None
    shape: dict[str, Any] = {
        "name": re.sub("[^a-zA-Z0-9_-]", "_", function["name"])[:64],
        "schema": exact or parameters,
    }
    if function.get("description"):
        shape["description"] = function["description"]
    if strict or exact is not None:
        shape["strict"] = True
    return {"type": "json_schema", "json_schema": shape}


def tool_of(schema: Any, *, strict: bool | None) -> dict[str, Any]:
    """Make the tool whose call is the answer."""
    function = _function_of(schema)
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    exact = as_strict(parameters) if strict else None
    name = re.sub("[^a-zA-Z0-9_-]", "_", function["name"])[:64]
    made = {**function, "name": name, "parameters": exact or parameters}
    return {"type": "function", "function": {**made, "strict": True} if strict else made}


# The answer


_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})


def _refuse_incomplete(message: AIMessage) -> None:
    refused = refusal_error(message)
    if refused is not None:
        raise refused
    if str(message.response_metadata.get("finish_reason")).lower() in _CUT:
        raise OutputParserException(
            "The answer reached its limit of tokens before it was complete; raise max_tokens.", llm_output=message.text
        )


def _validated(schema: Any, value: Any, source: str) -> Any:
    """Check a value against a pydantic class; other schemas leave it as it is."""
    validate = getattr(schema, "model_validate", None) or getattr(schema, "parse_obj", None)
    if not isinstance(schema, type) or validate is None:
        return value
    try:
        return validate(value)
    except (ValidationError, ValueError) as error:
        raise OutputParserException(
            f"The answer does not fit {schema.__name__}: {str(error)[:1000]}", llm_output=source
        ) from error


def read_text(schema: Any, message: AIMessage) -> Any:
    """Read an answer whose text is JSON, also in a code fence.

    Raises:
        RefusalError: the model refused; also langchain-core's ModelRefusalError.
        OutputParserException: the answer is cut off, is not JSON, or does not fit the schema.
    """
    _refuse_incomplete(message)
    text = message.text
    fenced = _FENCE.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text, strict=False)
    except (ValueError, RecursionError) as error:
        raise OutputParserException(f"The answer is not JSON: {text[:500]!r}", llm_output=text) from error
    return _validated(schema, value, text)


def read_call(schema: Any, name: str, message: AIMessage) -> Any:
    """Read an answer that is the call of the tool `name`.

    Raises:
        RefusalError: the model refused; also langchain-core's ModelRefusalError.
        OutputParserException: there is no such call, its arguments are broken, or they do not fit the schema.
    """
    _refuse_incomplete(message)
    for call in message.tool_calls:
        if call["name"] == name:
            return _validated(schema, call["args"], json.dumps(call["args"], default=str))
    broken = "; ".join(f"{call.get('error')}" for call in message.invalid_tool_calls)
    said = f"its call cannot be read: {broken}" if broken else f"it said {message.text[:500]!r}"
    raise OutputParserException(f"The model did not answer by calling {name!r}: {said}", llm_output=message.text)


def reading(
    bound: Runnable[Any, AIMessage], read: Callable[[AIMessage], Any], *, include_raw: bool
) -> Runnable[Any, Any]:
    """Put the reading of the answer behind a model.

    Args:
        bound: the model with its schema bound.
        read: from the message to the value; raises where it cannot.
        include_raw: give `{"raw": message, "parsed": value or None, "parsing_error": error or None}`.
    """

    def read_beside(answer: dict[str, AIMessage]) -> dict[str, Any]:
        try:
            return {**answer, "parsed": read(answer["raw"]), "parsing_error": None}
        except (OutputParserException, ModelRefusalError) as error:
            return {**answer, "parsed": None, "parsing_error": error}

    if include_raw:
        return RunnableMap(raw=bound) | RunnableLambda(read_beside, name="structured_answer")
    return bound | RunnableLambda(read, name="structured_answer")
