"""Tools, tool choices and answer schemas from the form of Chat Completions to that of the Responses API. Pure.

Here a function is flat, and `strict` is always said: where it is left out, the server may decide for strict, and refuse
schemas that are fine.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentgraph.models.openai_request import legal_call_id, legal_tool_name
from agentgraph.models.openai_tools import checked_function, nested_choice, nested_function

__all__ = [
    "described_with",
    "flat_choice",
    "flat_tools",
    "legal_tools",
    "names_of",
    "nested_tool",
    "sent_call_id",
    "text_format_of",
]

_OWN_EXTRAS = ("defer_loading",)
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def sent_call_id(call_id: str) -> str:
    """Give the id under which a call is sent: its own, or one made from it where that is not allowed."""
    return legal_call_id(call_id, _CALL_ID)


def nested_tool(tool: Any) -> dict[str, Any] | None:
    """Give a dict that is ready for OpenAI as it is bound: functions in the nested form; None for anything else.

    Raises:
        ConfigurationError: a function that no server would take.
    """
    if not isinstance(tool, Mapping) or not isinstance(tool.get("type"), str) or "input_schema" in tool:
        return None
    if tool["type"] == "object":
        return None
    if tool["type"] == "function":
        checked_function(nested_function(tool)["function"])
    return dict(nested_function(tool))


def described_with(extras: Mapping[str, Any] | None, described: Mapping[str, Any]) -> dict[str, Any]:
    """Add to a described tool what this API knows of a tool's extras: whether it waits until the model looks for it."""
    return {**described, **{key: extras[key] for key in _OWN_EXTRAS if extras and key in extras}}


def _flat(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "custom":
        return _flat_custom(tool)
    if tool.get("type") != "function":
        return dict(tool)
    function = tool.get("function") or {key: value for key, value in tool.items() if key != "type"}
    strict = {"strict": bool(function.get("strict"))}
    parameters = {"parameters": function.get("parameters") or {"type": "object", "properties": {}}}
    beside = {key: tool[key] for key in _OWN_EXTRAS if key in tool}
    return {"type": "function", **function, **beside, **parameters, **strict}


def _flat_custom(tool: Mapping[str, Any]) -> dict[str, Any]:
    inner = tool.get("custom")
    flat = {"type": "custom", **inner} if isinstance(inner, Mapping) else dict(tool)
    form = flat.get("format")
    grammar = form.get("grammar") if isinstance(form, Mapping) else None
    return {**flat, "format": {"type": "grammar", **grammar}} if isinstance(grammar, Mapping) else flat


def flat_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give tools in the form of the Responses API."""
    return [_flat(tool) for tool in tools]


def legal_tools(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give tools as they are sent: flat, under names that are allowed. Those that are so already stay as they are."""
    flat = [tool if tool.get("type") != "function" or "strict" in tool else _flat(tool) for tool in tools]
    changed = names_of(flat).values()
    return [{**tool, "name": legal_tool_name(tool["name"])} if tool.get("name") in changed else tool for tool in flat]


def names_of(tools: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Map names as they are sent to names as they are called here, for those that have to be changed."""
    functions = [tool.get("function") or tool for tool in tools if tool.get("type") == "function"]
    names = [str(function.get("name") or "") for function in functions]
    return {legal_tool_name(name): name for name in names if name and legal_tool_name(name) != name}


def flat_choice(choice: Any) -> Any:
    """Give a tool choice in the form of the Responses API; what is in it already stays."""
    choice = nested_choice(choice)
    function = choice.get("function") if isinstance(choice, Mapping) else None
    if isinstance(choice, Mapping) and isinstance(choice.get("custom"), Mapping):
        return {"type": "custom", "name": choice["custom"].get("name")}
    if isinstance(function, Mapping):
        return {"type": "function", "name": legal_tool_name(str(function.get("name") or ""))}
    return choice


def text_format_of(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Give a `response_format` as `text.format`."""
    inner = shape.get("json_schema")
    if not isinstance(inner, Mapping):
        return dict(shape)
    return {"type": "json_schema", **inner, "strict": bool(inner.get("strict"))}
