"""A model's call before anything is done with it: can it be read at all, and a copy of it for those who run it.

The calls of an assistant message belong to the history. What runs one, or stands around it, gets a copy, so that a
change of an argument does not change what the model is shown of its own past.
"""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage

from agentgraph.tools.results import answer

__all__ = ["copied", "own_call"]

_SHOWN = 100


def own_call(call: Mapping[str, Any]) -> ToolCall | ToolMessage:
    """A call's copy for its run, or the answer to one that cannot be read.

    Messages that were made without being checked can hold calls of any form.

    Args:
        call: as it stands in an assistant message, or was sent to the node.
    """
    name, args, call_id = call.get("name"), call.get("args"), call.get("id")
    if not isinstance(name, str):
        return _refused(call_id, "?", f"its name is {_shown(name)}, and must be the name of a tool, as text")
    if "args" not in call:
        return _refused(call_id, name, "it has no arguments; a tool without parameters is called with {}")
    if not isinstance(args, Mapping | None):
        return _refused(call_id, name, f"its arguments are {_shown(args)}, and must be an object, name by name")
    try:
        own = copied(dict(args or {}))
    except RecursionError:
        return _refused(call_id, name, "its arguments are nested too deeply")
    return {**call, "name": name, "args": own, "id": call_id}  # type: ignore[return-value] # what else the call has stays


def copied(value: Any) -> Any:
    """A copy of what JSON has made, all through; what has another type stays the same object."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if kind is list else value


def _refused(call_id: Any, name: str, problem: str) -> ToolMessage:
    said = f"Error: this call cannot be read: {problem}. No tool was run. Call the tool again in the right form."
    return answer(ToolCall(name=name[:_SHOWN], args={}, id=str(call_id or "")), said, error=True)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else f'{text[: _SHOWN - 4]} ...'}"
