"""What a provider refuses beside a broken history: settings of a request that contradict each other."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentgraph.errors import BadRequestError

__all__ = ["ProviderRejected", "settings_faults"]

LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools and of response schemas that every provider accepts."""

CHOICE_MODES = {"auto", "none", "any", "required"}


class ProviderRejected(BadRequestError):  # noqa: N818 (says what happened, as a test reads it)
    """A scripted model was sent what a provider answers with 400.

    Attributes:
        faults: every reason, one line each.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("a provider would refuse this request: " + "; ".join(faults), provider="scripted", status=400)
        self.faults = list(faults)


def tool_name(tool: Any) -> str:
    """The name of a tool in any of its forms; of a provider's own tool without a name its type, or its only key."""
    if isinstance(tool, Mapping):
        function = tool.get("function")
        named = function if isinstance(function, Mapping) else tool
        return str(named.get("name") or named.get("title") or tool.get("type") or next(iter(tool), ""))
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", tool))


def settings_faults(settings: Mapping[str, Any], profile: Mapping[str, Any] | None = None) -> list[str]:
    """The reasons for which a provider would refuse the settings of a request.

    Args:
        settings: what is bound to the model or given with the call: `tools`, `tool_choice`, `response_format` and so
            on.
        profile: what the model can do, as in `BaseChatModel.profile`; an ability that is False is refused when asked
            for.

    Returns:
        One line for each fault; empty for good settings.

    Example:
        >>> settings_faults({"tool_choice": "any"})
        ["tool_choice 'any' without tools"]
        >>> settings_faults({"tools": [{"type": "function", "function": {"name": "get weather"}}]})
        ["illegal tool name 'get weather': 1 to 64 letters, digits, '_' or '-' are accepted"]
    """
    names = [tool_name(tool) for tool in settings.get("tools") or ()]
    return [
        *_name_faults(names),
        *_choice_faults(settings, names),
        *_format_faults(settings.get("response_format")),
        *_ability_faults(settings, profile or {}),
    ]


def _name_faults(names: Sequence[str]) -> Iterator[str]:
    yield from (f"{count} tools with the name {name!r}" for name, count in Counter(names).items() if count > 1)
    for name in names:
        if not LEGAL_NAME.fullmatch(name):
            yield f"illegal tool name {name!r:.100}: 1 to 64 letters, digits, '_' or '-' are accepted"


def _choice_faults(settings: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    choice = settings.get("tool_choice")
    if not names:
        if choice is not None:
            yield f"tool_choice {choice!r} without tools"
        if settings.get("parallel_tool_calls") is not None:
            yield "parallel_tool_calls without tools"
    elif (chosen := chosen_tool(choice)) is not None and chosen not in names:
        yield f"tool_choice names the tool {chosen!r}; the request has {list(names)}"


def chosen_tool(choice: object) -> str | None:
    """The tool that a tool_choice forces, None where it forces no single one."""
    if isinstance(choice, Mapping):
        named = choice.get("function") if isinstance(choice.get("function"), Mapping) else choice
        return named.get("name") if isinstance(named, Mapping) else None
    return choice if isinstance(choice, str) and choice not in CHOICE_MODES else None


def _format_faults(response_format: object) -> Iterator[str]:
    if not isinstance(response_format, Mapping) or response_format.get("type") != "json_schema":
        return
    described = response_format.get("json_schema")
    if not isinstance(described, Mapping) or not isinstance(described.get("schema"), Mapping):
        yield "response_format of type json_schema without json_schema.schema"
    elif not LEGAL_NAME.fullmatch(str(described.get("name", ""))):
        yield f"illegal name of a response schema {described.get('name')!r:.100}"


def _ability_faults(settings: Mapping[str, Any], profile: Mapping[str, Any]) -> Iterator[str]:
    asked = {
        "tool_calling": "tools",
        "tool_choice": "tool_choice",
        "structured_output": "response_format",
    }
    for ability, setting in asked.items():
        if profile.get(ability) is False and settings.get(setting):
            yield f"{setting} sent to a model whose profile says {ability}=False"
