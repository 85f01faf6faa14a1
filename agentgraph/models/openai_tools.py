"""Tools in the form of Chat Completions, from all the forms that users give, and the one that is chosen. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from reprlib import Repr
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.errors import ConfigurationError

__all__ = [
    "checked_choice",
    "checked_function",
    "chosen",
    "described_tool",
    "function_tool",
    "nested_choice",
    "nested_function",
]

_DECLARATIONS = ("functionDeclarations", "function_declarations")
# Of what may be nested too deep for the ordinary way.
_SHOWN = Repr()
_SHOWN.maxdict = _SHOWN.maxlist = 8
_SHOWN.maxstring = _SHOWN.maxother = 200
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
_WORDS = {"any": "required", "auto": "auto", "none": "none"}


def nested_function(tool: Any) -> Any:
    """Give a function that the Responses API has flat in the nested form; anything else as it is."""
    if not isinstance(tool, Mapping) or tool.get("type") != "function" or "function" in tool:
        return tool
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def described_tool(tool: Any, *, strict: bool | None) -> dict[str, Any]:
    """Describe a tool in the nested form.

    Args:
        tool: a tool, a function, a pydantic class, a JSON schema, or a dict that is ready for OpenAI or Anthropic.
        strict: ask for arguments that keep to the schema exactly.

    Raises:
        ConfigurationError: it is none of these.
    """
    try:
        described = convert_to_openai_tool(nested_function(tool), strict=strict)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _no_tool(tool, f"{error!s:.200}") from error
    if described.get("type") == "function":
        checked_function(described.get("function"))
    return described


def checked_function(function: Any) -> None:
    """Look whether a function can be called by its description: no server takes one without a name, or another schema.

    Args:
        function: its description, with the schema of its arguments in any format's place.

    Raises:
        ConfigurationError: it has no name, or its schema is not one of an object.
    """
    if not isinstance(function, Mapping):
        raise _no_tool(function, "it describes no function")
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _no_tool(function, f"its name is {name!r:.50}")
    schemas = [function[key] for key in _SCHEMAS if function.get(key) is not None]
    if not all(isinstance(schema, Mapping) for schema in schemas):
        raise _no_tool(function, "its schema is no dict")
    if not all(isinstance(schema.get("properties"), Mapping | None) for schema in schemas):
        raise _no_tool(function, "the properties of its schema are no dict")


def _no_tool(tool: Any, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{_SHOWN.repr(tool)[:300]} is no tool: {why}. Expected a tool, a function with type hints and a docstring, a "
        'pydantic class, or {"type": "function", "function": {"name": ..., "parameters": {...}}}.'
    )


def function_tool(tool: Any, *, strict: bool | None) -> dict[str, Any]:
    """As `described_tool`, for an API that knows functions only.

    Raises:
        ConfigurationError: also a custom tool, whose input is a text in place of arguments.
    """
    custom = isinstance(tool, Mapping) and tool.get("type") == "custom" and "input_schema" not in tool
    described: Mapping[str, Any] = tool if custom else described_tool(tool, strict=strict)
    if described.get("type") == "custom":
        raise ConfigurationError(
            f"{_SHOWN.repr(tool)[:300]} is a custom tool, which only the Responses API has. Take "
            "agentgraph.models.openai_responses.ChatOpenAIResponses, or give a tool with one argument."
        )
    return dict(described)


def _choices(tool: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Give the names by which a tool can be chosen, each with the choice that it stands for."""
    functions = [tool.get("function"), *(one for key in _DECLARATIONS for one in tool.get(key) or ())]
    for function in functions:
        if isinstance(function, Mapping):
            yield function.get("name"), {"type": "function", "function": {"name": function.get("name")}}
    inner = tool.get("custom")
    name = inner.get("name") if isinstance(inner, Mapping) else tool.get("name")
    match tool.get("type"):
        case None | "function":
            return
        case "custom":
            yield name, {"type": "custom", "name": name}
        case "mcp":
            label = tool.get("server_label")
            yield from ((known, {"type": "mcp", "server_label": label}) for known in (label, "mcp"))
        case kind:
            yield kind, {"type": kind}


def chosen(name: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the choice of the tool of a name.

    Args:
        name: of a function or a custom tool, the label of an MCP server, or the type of a tool of the provider's.
        tools: the bound tools.

    Raises:
        ConfigurationError: no tool has it.
    """
    known = [(other, choice) for tool in tools for other, choice in _choices(tool) if other]
    for other, choice in known:
        if other == name:
            return choice
    names = [other for other, _ in known]
    raise ConfigurationError(
        f"tool_choice={name[:100]!r} is not a bound tool: {names!r:.500}. Expected one of them, or "
        '"auto", "none", "required", "any".'
    )


def checked_choice(choice: Any) -> Any:
    """Give a choice as it is, if it has the form of one.

    Raises:
        ConfigurationError: it is neither a word nor a name nor a dict, or a dict whose type or name is no text.
    """
    if choice is None or isinstance(choice, str | bool):
        return choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        told = [choice.get("type"), choice.get("name"), function.get("name") if isinstance(function, Mapping) else None]
        if all(isinstance(one, str | None) for one in told):
            return choice
    raise ConfigurationError(
        f"tool_choice={_SHOWN.repr(choice)[:200]} is none. Expected the name of a bound tool, "
        '"auto", "none", "required", "any", or {"type": "function", "function": {"name": ...}}.'
    )


def nested_choice(choice: Any) -> Any:
    """Give a choice in the form of Chat Completions; one that is in it, or that is not known, stays as it is.

    Args:
        choice: in the form of Chat Completions, of the Responses API or of Anthropic.

    Raises:
        ConfigurationError: it is no choice.
    """
    if not isinstance(checked_choice(choice), Mapping):
        return choice
    kind, name = choice.get("type"), choice.get("name")
    if kind in {"function", "tool"} and isinstance(name, str):
        return {"type": "function", "function": {"name": name}}
    return _WORDS.get(str(kind), choice)
