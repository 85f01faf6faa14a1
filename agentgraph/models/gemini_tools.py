"""Tools of Gemini's requests: functions to declare, tools that Google runs itself, and which must be called. Pure."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from agentgraph.errors import ConfigurationError
from agentgraph.models.gemini_schema import declaration
from agentgraph.models.openai_tools import checked_choice, checked_function

__all__ = ["checked_own", "declared", "is_own_tool", "legal_name", "tool_entries", "tool_names", "with_legal_names"]

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_DECLARATIONS: Final = "functionDeclarations"
# What a tool, or a schema, in one of the forms that langchain-core knows has one of.
_DESCRIPTION: Final = frozenset({"function", "name", "parameters", "properties", "title"})
_MODES: Final[Mapping[str, str]] = {"auto": "AUTO", "any": "ANY", "none": "NONE", "required": "ANY"}


def legal_name(name: Any) -> str:
    """Give the name under which a tool is sent: its own, or one made from it where that is not allowed."""
    given = str(name or "unknown")
    if _NAME.fullmatch(given):
        return given
    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"_{re.sub('[^a-zA-Z0-9_-]', '_', given)[:54]}_{digest}"


def is_own_tool(tool: Any) -> bool:
    """Whether a tool is one in Gemini's form: `{"google_search": {}}`, `{"functionDeclarations": [...]}`."""
    if not isinstance(tool, Mapping) or not tool or _DESCRIPTION & tool.keys():
        return False
    return all(isinstance(value, Mapping | list) for value in tool.values()) or tool.keys() == {"type"}


def checked_own(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Give a tool in Gemini's form as it is, if the functions that it declares can be called.

    Raises:
        ConfigurationError: one of them cannot.
    """
    for key, functions in tool.items():
        if _camel(key) == _DECLARATIONS:
            if not isinstance(functions, list):
                raise ConfigurationError(f"{key} is a {type(functions).__name__}; expected a list of functions.")
            for function in functions:
                checked_function(function)
    return dict(tool)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def declared(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give tools as Gemini takes them: all functions in one entry, then Google's own tools.

    Args:
        tools: in OpenAI's form or in Gemini's, mixed.
    """
    functions: list[Any] = []
    own: list[dict[str, Any]] = []
    for tool in tools:
        if isinstance(tool.get("function"), Mapping):
            functions.append(declaration(tool["function"]))
            continue
        entry = {_camel(key): value for key, value in tool.items() if key != "type"}
        functions += entry.pop(_DECLARATIONS, [])
        if tool.get("type") and not entry:
            entry = {_camel(str(tool["type"])): {}}
        own += [entry] if entry else []
    return [*([{_DECLARATIONS: functions}] if functions else []), *own]


def _functions(tools: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for tool in tools:
        yield from (one for one in tool.get(_DECLARATIONS, ()) if isinstance(one, Mapping))


def tool_names(tools: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Map names as they are sent to names as they are called here, for the tools whose names had to be changed."""
    names = [str(one.get("name", "")) for one in _functions(declared(tools))]
    return {legal_name(name): name for name in names if name and not _NAME.fullmatch(name)}


def _calling(choice: Any) -> dict[str, Any] | None:
    """Translate a `tool_choice`, None for none."""
    if isinstance(checked_choice(choice), Mapping):
        if "functionCallingConfig" in choice or "function_calling_config" in choice:
            return dict(choice.get("functionCallingConfig") or choice["function_calling_config"])
        if "mode" in choice:
            return dict(choice)
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        choice = name or choice.get("type")
        if name:
            return {"mode": "ANY", "allowedFunctionNames": [legal_name(name)]}
    if choice is True:
        choice = "any"
    if isinstance(choice, str):
        mode = _MODES.get(choice.lower())
        return {"mode": mode} if mode else {"mode": "ANY", "allowedFunctionNames": [legal_name(choice)]}
    return None


def tool_entries(tools: Iterable[Mapping[str, Any]], choice: Any) -> dict[str, Any]:
    """Give the parts of a request that are about tools: `tools` and `toolConfig`, none without tools.

    Args:
        tools: in OpenAI's form or in Gemini's.
        choice: which has to be called; it only means something for functions, the others Google runs as it likes.
    """
    entries = declared(tools)
    if not entries:
        return {}
    config = _calling(choice) if any(_functions(entries)) else None
    if config is None:
        return {"tools": entries}
    return {"tools": entries, "toolConfig": {"functionCallingConfig": config}}


def with_legal_names(body: dict[str, Any]) -> dict[str, Any]:
    """Give `tools` under names that may be sent; the same object where they have such names already."""
    tools = body.get("tools", [])
    if all(_NAME.fullmatch(str(one.get("name", ""))) for one in _functions(tools)):
        return body
    changed = [
        {**tool, _DECLARATIONS: [{**one, "name": legal_name(one.get("name"))} for one in tool[_DECLARATIONS]]}
        if _DECLARATIONS in tool
        else tool
        for tool in tools
    ]
    return {**body, "tools": changed}
