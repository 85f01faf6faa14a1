"""Do the tools that approvals name exist? A misspelt name would let a call pass that a person should have seen."""

import difflib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentgraph.composing import has_hook
from agentgraph.hooks import HOOKS

__all__ = ["unknown_guarded", "warn_of_unknown"]

_WILD = frozenset("*?[")
_WHAT = {False: "Approvals are asked for", True: "A rule denies"}


def warn_of_unknown(middleware: Sequence[Any], tools: Iterable[str]) -> None:
    """Warn of each guarded name that no tool has.

    It is a warning and no error, because one list of guarded names often serves several agents.

    Args:
        middleware: all of the agent's; one that guards tools has them in `interrupt_on`, by name, or in `rules` with an
            `outcome` ("deny" or "ask") and `patterns`.
        tools: the names of the agent's tools.

    Example:
        >>> warn_of_unknown([], ["pay"])
    """
    known = list(tools)
    for one in middleware:
        # Others that stand around tool calls may run tools that nobody registered.
        open_ended = any(other is not one and has_hook(other, HOOKS["wrap_tool_call"]) for other in middleware)
        guarded = {**_named_by_rules(one), **(_mapping(getattr(one, "interrupt_on", None)) or {})}
        for text in unknown_guarded(guarded, known, open_ended=open_ended):
            warnings.warn(text, stacklevel=3)


def _mapping(value: Any) -> Mapping[Any, Any] | None:
    return value if isinstance(value, Mapping) else None


def _named_by_rules(middleware: Any) -> dict[str, Any]:
    """The names, not the patterns, that rules deny or ask about; one that allows opens nothing where it is misspelt."""
    rules = getattr(middleware, "rules", ())
    strict = [rule for rule in rules if getattr(rule, "outcome", None) in {"deny", "ask"}] if _is_list(rules) else []
    return {
        name: rule
        for rule in strict
        for name in getattr(rule, "patterns", ())
        if isinstance(name, str) and _WILD.isdisjoint(name)
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def unknown_guarded(guarded: Any, tools: Sequence[str], *, open_ended: bool) -> list[str]:
    """What to say of guarded names that are no tool's.

    Args:
        guarded: by the tool's name.
        tools: the names there are.
        open_ended: whether there may be more tools than these; then only names that look misspelt are spoken of.
    """
    names = [name for name in guarded if name not in tools] if isinstance(guarded, Mapping) else []
    denied = {name for name in names if getattr(guarded[name], "outcome", None) == "deny"}
    near = {name: difflib.get_close_matches(str(name), tools, n=1) for name in names}
    there_are = ", ".join(tools) or "none"
    return [
        f"{_WHAT[name in denied]} the tool {name!r:.200}, which this agent does not have"
        f"{f' (did you mean {near[name][0]!r}?)' if near[name] else ''}. It does not hold for tools of other names; "
        f"there are: {there_are}."
        for name in names
        if near[name] or not open_ended
    ]
