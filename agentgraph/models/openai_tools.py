"""Tools in the form of Chat Completions, from all the forms that users give, and the one that is chosen. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.errors import ConfigurationError

__all__ = ["chosen", "described_tool", "function_tool", "nested_choice", "nested_function"]

_DECLARATIONS = ("functionDeclarations", "function_declarations")
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
        return convert_to_openai_tool(nested_function(tool), strict=strict)
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            f"{tool!r:.300} is no tool: {error!s:.200}. Expected a tool, a function with type hints and a docstring, a "
            'pydantic class, or {"type": "function", "function": {"name": ..., "parameters": {...}}}.'
        ) from error


def function_tool(tool: Any, *, strict: bool | None) -> dict[str, Any]:
    """As `described_tool`, for an API that knows functions only.

    Raises:
        ConfigurationError: also a custom tool, whose input is a text in place of arguments.
    """
    custom = isinstance(tool, Mapping) and tool.get("type") == "custom" and "input_schema" not in tool
    described: Mapping[str, Any] = tool if custom else described_tool(tool, strict=strict)
    if described.get("type") == "custom":
        raise ConfigurationError(
            f"{tool!r:.300} is a custom tool, which only the Responses API has. Take "
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


def nested_choice(choice: Any) -> Any:
    """Give a choice in the form of Chat Completions; one that is in it, or that is not known, stays as it is.

    Args:
        choice: in the form of Chat Completions, of the Responses API or of Anthropic.
    """
    if not isinstance(choice, Mapping):
        return choice
    kind, name = choice.get("type"), choice.get("name")
    if kind in {"function", "tool"} and isinstance(name, str):
        return {"type": "function", "function": {"name": name}}
    return _WORDS.get(str(kind), choice)
