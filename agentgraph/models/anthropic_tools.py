"""Tools, the choice among them, and schemas of answers, as Anthropic's Messages API takes them. Pure: no I/O."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from agentgraph.errors import ConfigurationError
from agentgraph.models.openai_request import legal_tool_name
from agentgraph.models.openai_tools import checked_choice, checked_function, function_tool

__all__ = ["closed_schema", "output_format", "renamed_tools", "tool_choice_of", "tool_of", "tools_called"]

_OWN_EXTRAS = ("allowed_callers", "cache_control", "defer_loading", "eager_input_streaming", "input_examples")
_KINDS_OF_CHOICE = frozenset({"auto", "any", "tool", "none"})
# The types of dicts that describe a function to anyone; each other one is a tool of the provider's.
_DESCRIBED = frozenset({"function", "object"})
_FORCED = frozenset({"any", "tool"})
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)  # fmt: skip
_KEPT = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "definitions",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    }
)


# Tools


def tool_of(tool: Any, *, strict: bool | None) -> dict[str, Any]:
    """Convert a tool to Anthropic's form; a dict in that form, also of a tool that runs at the provider, stays.

    Args:
        tool: a tool, function, pydantic class, or dict.
        strict: ask for arguments that keep to the schema exactly.

    Raises:
        ConfigurationError: it is none of these.
    """
    if isinstance(tool, Mapping) and ("input_schema" in tool or not _is_described(tool.get("type"))):
        if "input_schema" in tool:
            checked_function(tool)
        return dict(tool)
    function = function_tool(tool, strict=strict)["function"]
    schema = dict(function.get("parameters") or {})
    schema = {"type": "object", **schema} if "properties" in schema else {"type": "object", "properties": {}, **schema}
    made: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        made["description"] = function["description"]
    made["input_schema"] = closed_schema(schema) if function.get("strict") else schema
    if function.get("strict"):
        made["strict"] = True
    extras = _beside(tool)
    return made | {key: extras[key] for key in _OWN_EXTRAS if key in extras}


def _is_described(kind: Any) -> bool:
    """Whether a dict of this type describes a function to anyone; where it is no type, it is looked at as one."""
    return not isinstance(kind, str) or kind in _DESCRIBED


def _beside(tool: Any) -> Mapping[str, Any]:
    """Give what is said of a tool beside its function: a dict may say it within the function as well."""
    if isinstance(tool, BaseTool):
        return tool.extras or {}
    if not isinstance(tool, Mapping):
        return {}
    inner = tool.get("function")
    return {**inner, **tool} if isinstance(inner, Mapping) else tool


def renamed_tools(tools: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Give tools under names that may be sent.

    Returns:
        The tools, and their names as they are sent -> as they are called here, for those that had to be changed.
    """
    renamed: dict[str, str] = {}
    sent = []
    for tool in tools:
        one = dict(tool)
        name = str(tool.get("name") or "")
        if name and "input_schema" in tool and legal_tool_name(name) != name:
            one["name"] = legal_tool_name(name)
            renamed[one["name"]] = name
        sent.append(one)
    return sent, renamed


def tools_called(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Declare the tools that a conversation has called, for a request that offers none.

    The API refuses calls of earlier turns where no tools are declared; beside the choice "none" these cannot be called.

    Args:
        turns: as they are sent.
    """
    blocks = [block for turn in turns for block in turn["content"]]
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    told = "Was offered earlier in this conversation."
    return [{"name": name, "description": told, "input_schema": {"type": "object"}} for name in names]


# The choice among tools


def _plain_choice(choice: Any) -> dict[str, Any] | None:
    if not checked_choice(choice):
        return None
    if isinstance(choice, Mapping):
        if choice.get("type") in _KINDS_OF_CHOICE:
            return dict(choice)
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        return {"type": "tool", "name": name} if name else {"type": "any"}
    if choice is True or choice in {"any", "required"}:
        return {"type": "any"}
    return {"type": choice} if choice in {"auto", "none"} else {"type": "tool", "name": choice}


def tool_choice_of(choice: Any, *, parallel: bool | None, thinking: bool) -> dict[str, Any] | None:
    """Make the `tool_choice` parameter, None for the API's default.

    Args:
        choice: "auto", "none", "required" or "any" (one has to be called), True (likewise), the name of a tool, or a
            dict in Anthropic's or OpenAI's form.
        parallel: whether several calls may come at once; None leaves it to the API.
        thinking: whether the model is asked to think. It then refuses to be forced, so that a forced call becomes a
            wish, and whoever needs the call looks whether it came.
    """
    made = _plain_choice(choice)
    if made is not None and made["type"] == "tool":
        made["name"] = legal_tool_name(str(made.get("name")))
    if made is not None and thinking and made["type"] in _FORCED:
        made = {**{key: value for key, value in made.items() if key != "name"}, "type": "auto"}
    if parallel is False and (made is None or made["type"] != "none"):
        made = {**(made or {"type": "auto"}), "disable_parallel_tool_use": True}
    return made


# Schemas of answers


def _told(schema: Mapping[str, Any], untold: Mapping[str, Any]) -> dict[str, Any]:
    """Say in the description what the API would refuse as a keyword; the model can then still keep to it."""
    if not untold:
        return dict(schema)
    rules = ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False, default=str)}" for key, value in untold.items())
    described = f"{schema['description']} ({rules})" if schema.get("description") else rules
    return {**schema, "description": described}


def _is_kept(key: str, value: Any) -> bool:
    if key == "format":
        return value in _FORMATS
    return key in _KEPT or (key == "minItems" and value in {0, 1})


def _closed_below(key: str, value: Any) -> Any:
    if key in {"properties", "$defs", "definitions"} and isinstance(value, Mapping):
        return {name: closed_schema(inner) for name, inner in value.items()}
    if key in {"anyOf", "allOf"} and isinstance(value, Sequence):
        return [closed_schema(inner) for inner in value]
    return closed_schema(value) if key == "items" else value


def closed_schema(schema: Any) -> Any:
    """Give a JSON schema as structured answers and strict tools take it: objects closed, no unknown keywords.

    Keywords that are not taken (bounds, lengths, patterns) are told in the description. An object that is open on
    purpose stays open: the API refuses it by name, where closing it would change what it means.
    """
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if _is_kept(key, value)}
    if "oneOf" in schema and "anyOf" not in schema:
        kept["anyOf"] = schema["oneOf"]
    untold = {key: value for key, value in schema.items() if key not in kept and key not in {"$schema", "oneOf"}}
    kept = {key: _closed_below(key, value) for key, value in kept.items()}
    if schema.get("type") == "object" or "properties" in schema:
        kept = {"type": "object", "additionalProperties": False, **kept}
    return _told(kept, untold)


def output_format(response_format: Any) -> dict[str, Any] | None:
    """Make the format of `output_config` from a `response_format` in OpenAI's form, None for plain text.

    Raises:
        ConfigurationError: any JSON is asked for, which this API has no mode for; or it is no format.
    """
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None
    shape = response_format.get("json_schema") if kind == "json_schema" else None
    schema = shape.get("schema") if isinstance(shape, Mapping) else response_format.get("schema") if kind else None
    if kind != "json_schema" or not isinstance(schema, Mapping):
        raise ConfigurationError(
            f"response_format of type {str(kind)[:100]!r} has no form in the Messages API. Expected "
            '{"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}: give the schema of the answer.'
        )
    return {"type": "json_schema", "schema": closed_schema(schema)}
