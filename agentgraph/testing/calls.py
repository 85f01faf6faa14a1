"""Tool calls and the messages around them, short to write and with ids that do not change from run to run."""

import hashlib
import json
import re
from collections.abc import Mapping
from types import EllipsisType
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall, ToolMessage

__all__ = ["ai", "answer", "derived_id", "invalid_call", "tool_call"]


def derived_id(name: str, args: object) -> str:
    """The id that `tool_call` and `invalid_call` give when none is asked for: made of the name and the arguments.

    Args:
        name: name of the tool.
        args: the arguments, any value; what JSON cannot hold counts by its type.

    Returns:
        The id: letters, digits, `_` and `-` only, as every provider accepts it.

    Example:
        >>> derived_id("weather", {"city": "Rome"})
        'call_weather_28a1c8'
    """
    text = json.dumps([name, args], sort_keys=True, default=lambda value: type(value).__name__)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"call_{re.sub('[^a-zA-Z0-9_-]', '_', name)[:32]}_{digest}"


def tool_call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    id: str | EllipsisType | None = ...,  # noqa: A002 (the field's own name)
    **args: Any,
) -> ToolCall:
    """A tool call, as a model asks for it: a reply of a `ScriptedModel`, or a part of one.

    Args:
        name: name of the tool.
        arguments: arguments as a mapping, for names that Python or this function takes already (`id`, `class`).
        id: the call's id. By default made of name and arguments, so that the same expression gives the same id wherever
            it stands; a `ScriptedModel` that plays it twice tells the two apart. None makes a call without an id.
        **args: arguments by keyword.

    Returns:
        The call.

    Example:
        >>> tool_call("weather", city="Rome")
        {'name': 'weather', 'args': {'city': 'Rome'}, 'id': 'call_weather_28a1c8', 'type': 'tool_call'}
        >>> tool_call("fetch", {"id": 7}, id="a")
        {'name': 'fetch', 'args': {'id': 7}, 'id': 'a', 'type': 'tool_call'}
    """
    given = {**(arguments or {}), **args}
    return ToolCall(name=name, args=given, id=derived_id(name, given) if id is ... else id, type="tool_call")


def invalid_call(
    name: str | None,
    args: str | None = '{"city": "Rome"]',
    *,
    id: str | EllipsisType | None = ...,  # noqa: A002 (the field's own name)
    error: str | None = None,
) -> InvalidToolCall:
    """A tool call whose arguments cannot be read, as a model sends it that loses its way in JSON.

    langchain-core completes arguments that merely break off (`{"city": "Ro`) when it joins the pieces of a stream, and
    so makes a valid call of them; the default here is wrong in a way that nothing can complete.

    Args:
        name: name of the tool, None if not even that came.
        args: the text of the arguments.
        id: the call's id; by default made of name and text. None makes a call without an id.
        error: what the reader of the answer said about it. A streamed answer has none.

    Returns:
        The invalid call.

    Example:
        >>> invalid_call("weather", '{"city"', id="a")
        {'type': 'invalid_tool_call', 'id': 'a', 'name': 'weather', 'args': '{"city"', 'error': None}
    """
    return InvalidToolCall(
        type="invalid_tool_call",
        id=derived_id(name or "unknown", args) if id is ... else id,
        name=name,
        args=args,
        error=error,
    )


def ai(*calls: ToolCall | InvalidToolCall, text: str = "", **fields: Any) -> AIMessage:
    """An assistant message that makes these tool calls.

    Args:
        *calls: what `tool_call` and `invalid_call` return, in the order in which the model makes them.
        text: what the model says beside them.
        **fields: further fields of the message (`id`, `usage_metadata`, ...).

    Returns:
        The message.

    Example:
        >>> ai(tool_call("weather", city="Rome"), text="Let me see.").tool_calls[0]["name"]
        'weather'
    """
    valid = [cast("ToolCall", call) for call in calls if call.get("type") != "invalid_tool_call"]
    invalid = [cast("InvalidToolCall", call) for call in calls if call.get("type") == "invalid_tool_call"]
    return AIMessage(content=text, tool_calls=valid, invalid_tool_calls=invalid, **fields)


def answer(
    call: ToolCall | InvalidToolCall,
    content: str = "",
    *,
    status: Literal["success", "error"] = "success",
    **fields: Any,
) -> ToolMessage:
    """The message that answers a call.

    Args:
        call: the call; its id and name are taken over.
        content: what the tool says.
        status: "error" for a call that failed.
        **fields: further fields of the message (`artifact`, ...).

    Returns:
        The message.

    Example:
        >>> answer(tool_call("weather", city="Rome", id="a"), "sunny").tool_call_id
        'a'
    """
    return ToolMessage(content=content, tool_call_id=call["id"] or "", name=call["name"], status=status, **fields)
