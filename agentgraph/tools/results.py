"""What a tool returned, as messages and commands that answer its call.

The rules: text stays text; a list of content blocks stays one; everything else becomes readable text (JSON where it has
a JSON form, with its letters as they are). Whatever comes back, the call is answered exactly once. Nothing that the
tool returned is changed: what needs a correction is copied.
"""

import dataclasses
import datetime as dt
import enum
import json
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, cast

from langchain_core.messages import BaseMessage, RemoveMessage, ToolCall, ToolMessage, convert_to_messages
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command
from pydantic import BaseModel

__all__ = ["ToolAnswer", "answer", "answered", "answers_in", "as_content", "as_items", "done", "is_output"]

ToolAnswer: TypeAlias = ToolMessage | Command[Any] | list[ToolMessage | Command[Any]]
"""What a tool call gives: its message, a command, or several of both."""

Content: TypeAlias = str | list[str | dict[Any, Any]]

DONE_TEXT = "Done."


def answer(call: ToolCall, content: Content, *, artifact: Any = None, error: bool = False) -> ToolMessage:
    """The message that answers a call."""
    return ToolMessage(
        content,
        id=str(uuid.uuid4()),
        name=call["name"],
        tool_call_id=call["id"] or "",
        artifact=artifact,
        status="error" if error else "success",
    )


def done(call: ToolCall) -> ToolMessage:
    """The answer to a call whose tool returned only a command."""
    return answer(call, DONE_TEXT)


def as_content(value: Any) -> Content:
    """A tool's value as the content of its message.

    Args:
        value: whatever the tool returned, but for messages and commands.

    Returns:
        The text or content blocks themselves; JSON for other values; `str(value)` for what has no JSON form.

    Example:
        >>> as_content({"größe": {1}})
        '{"größe": [1]}'
    """
    if isinstance(value, str):
        return _sendable(value)
    if isinstance(value, BaseMessage):
        return as_content(value.content)
    if isinstance(value, Sequence) and value and all(_is_block(item) for item in value):
        return list(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of_bytes(value)
    try:
        return _sendable(_json(value))
    except (TypeError, ValueError, RecursionError):
        return _sendable(str(value))


def _sendable(text: str) -> str:
    """Text that every checkpoint and every server takes."""
    if type(text) is not str:
        # An enum member or a lazy translation would not come back from a checkpoint as itself.
        text = str(text.value if isinstance(text, enum.Enum) else text)
    # A lone surrogate, the half of a cut emoji, cannot be encoded.
    return text if text.isascii() else text.encode(errors="replace").decode()


def _is_block(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in TOOL_MESSAGE_BLOCK_TYPES


def _json_form(value: Any) -> Any:
    """A value that JSON does not know, one step closer to it."""
    if isinstance(value, BaseMessage):
        return {"role": value.type, "content": value.content}
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields} | (value.model_extra or {})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return _in_order(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of_bytes(value)
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


_json = json.JSONEncoder(ensure_ascii=False, default=_json_form).encode


def _in_order(values: AbstractSet[Any]) -> list[Any]:
    # The order of a set differs between runs, which would make equal results unequal.
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _text_of_bytes(value: bytes | bytearray | memoryview) -> str:
    data = bytes(value)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"<{len(data)} bytes of binary data>"


def answered(result: Any, call: ToolCall, *, messages_key: str = "messages", by: str | None = None) -> ToolAnswer:
    """Make what came back answer its call exactly once.

    Args:
        result: a ToolMessage, a Command, a list of these, or a value.
        call: the call.
        messages_key: the field of a command's update that holds messages.
        by: who gave it, for errors; by default the tool.

    Returns:
        The same, where it answers the call already; else with the answer corrected or added.

    Raises:
        TypeError: a list mixes commands and values.
        ValueError: the call is answered more than once.
    """
    if isinstance(result, ToolMessage):
        return _own_message(result, call)
    if not is_output(result, call, by=by):
        return answer(call, as_content(result))
    items = [_by_name(item) for item in as_items(result)]
    _refuse_two(items, call, messages_key, by)
    if isinstance(result, Command):
        return _own_command(cast("Command[Any]", items[0]), call, messages_key)
    return _own_list(items, call, messages_key)


def is_output(result: Any, call: ToolCall, *, by: str | None = None) -> bool:
    """Whether something is a message, a command or a list of these, and so no value to be made text of.

    Raises:
        TypeError: a list mixes commands and values.
    """
    if not isinstance(result, list):
        return isinstance(result, ToolMessage | Command)
    others = [item for item in result if not isinstance(item, ToolMessage | Command)]
    if others and len(others) < len(result):
        raise TypeError(
            f"{by or _the_tool(call)} returned a list that mixes messages or commands with "
            f"{type(others[0]).__name__!r}; return only ToolMessage and Command objects in it, or one value."
        )
    return bool(result) and not others


def as_items(result: ToolAnswer) -> list[ToolMessage | Command[Any]]:
    """The messages and commands of an answer, one or several, as a list."""
    return result if isinstance(result, list) else [result]


def _the_tool(call: ToolCall) -> str:
    return f"The tool {call['name']!r}"


def _by_name(item: ToolMessage | Command[Any]) -> ToolMessage | Command[Any]:
    """A command whose update is pairs or an object of fields, with it as a dict, in which messages can be seen."""
    if isinstance(item, ToolMessage) or item.update is None or isinstance(item.update, dict):
        return item
    pairs = item._update_as_tuples()  # noqa: SLF001 - langgraph's own reading of all forms of an update
    update = dict(pairs)
    return item if len(update) < len(pairs) or "__root__" in update else dataclasses.replace(item, update=update)


def _refuse_two(items: Sequence[ToolMessage | Command[Any]], call: ToolCall, messages_key: str, by: str | None) -> None:
    own = [item for item in items if isinstance(item, ToolMessage) or item.graph is None]
    count = sum(_answers(message, call) for item in own for message in _all_messages(item, messages_key))
    if count > 1:
        raise ValueError(
            f"{by or _the_tool(call)} returned {count} messages that answer the call {call['id']!r}; "
            "return exactly one."
        )


def _own_message(message: ToolMessage, call: ToolCall) -> ToolMessage:
    """A tool's message, with what it must have: this call's id, a name, an id, content that providers take."""
    content = _legal(message.content)
    changes: dict[str, Any] = {} if content is message.content else {"content": content}
    if message.tool_call_id != (call["id"] or ""):
        changes["tool_call_id"] = call["id"] or ""
    if not message.name:
        changes["name"] = call["name"]
    if not message.id:
        changes["id"] = str(uuid.uuid4())
    return message.model_copy(update=changes) if changes else message


def _legal(content: Content) -> Content:
    return content if isinstance(content, str) else _same_or(content, as_content(content))


def _same_or(content: Content, converted: Content) -> Content:
    return content if converted == content else converted


def _answers(message: Any, call: ToolCall) -> bool:
    return isinstance(message, ToolMessage) and message.tool_call_id == (call["id"] or "")


def _own_command(command: Command[Any], call: ToolCall, messages_key: str) -> ToolAnswer:
    messages = _messages_of(command, messages_key)
    if messages is None:
        # Its update is no dict, or replaces the messages in a way of its own; the answer goes beside it.
        return [command, done(call)] if command.graph is None else command
    if command.graph is None and not _is_settled(messages, call):
        messages = [*messages, done(call)]
    return _with_messages(command, [_named(message, call) for message in messages], messages_key)


def answers_in(command: Command[Any], call: ToolCall, messages_key: str = "messages") -> list[ToolMessage]:
    """The messages in a command's update that answer a call."""
    return [m for m in _messages_of(command, messages_key) or [] if isinstance(m, ToolMessage) and _answers(m, call)]


def _messages_of(command: Command[Any], messages_key: str) -> list[BaseMessage] | None:
    """The messages in a command's update; None where they cannot be told."""
    if command.update is None:
        return []
    if isinstance(command.update, list) and all(isinstance(item, BaseMessage) for item in command.update):
        # The update of a graph whose whole state is a list of messages.
        return cast("list[BaseMessage]", command.update)
    if not isinstance(command.update, dict):
        return None
    messages = command.update.get(messages_key, [])
    if messages is None:
        return []
    if not isinstance(messages, list | tuple):
        messages = [messages]
    try:
        return convert_to_messages(messages)
    except (NotImplementedError, TypeError, ValueError):
        return None


def _is_settled(messages: list[BaseMessage], call: ToolCall) -> bool:
    """Whether the call is answered, or gone with the whole history."""
    return any(
        _answers(message, call) or (isinstance(message, RemoveMessage) and message.id == REMOVE_ALL_MESSAGES)
        for message in messages
    )


def _named(message: BaseMessage, call: ToolCall) -> BaseMessage:
    return _own_message(message, call) if _answers(message, call) else message  # type: ignore[arg-type] # _answers checks the class


def _with_messages(command: Command[Any], messages: list[BaseMessage], messages_key: str) -> Command[Any]:
    if isinstance(command.update, list):
        return dataclasses.replace(command, update=messages)
    update = command.update or {}
    if not messages and messages_key not in update:
        return command
    return dataclasses.replace(command, update={**update, messages_key: messages})


def _own_list(result: list[Any], call: ToolCall, messages_key: str) -> ToolAnswer:
    items = [_item(item, call, messages_key) for item in result]
    leaves = any(isinstance(item, Command) and item.graph is not None for item in result)
    answers = any(_answers(message, call) for item in result for message in _all_messages(item, messages_key))
    return items if answers or leaves else [*items, done(call)]


def _all_messages(item: ToolMessage | Command[Any], messages_key: str) -> list[BaseMessage]:
    return [item] if isinstance(item, ToolMessage) else _messages_of(item, messages_key) or []


def _item(item: ToolMessage | Command[Any], call: ToolCall, messages_key: str) -> ToolMessage | Command[Any]:
    if isinstance(item, ToolMessage):
        return cast("ToolMessage", _named(item, call))
    messages = _messages_of(item, messages_key)
    return item if not messages else _with_messages(item, [_named(m, call) for m in messages], messages_key)
