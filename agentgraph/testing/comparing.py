"""Comparing lists of messages by what matters, with a difference that can be read."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph.testing.calls import derived_id

__all__ = ["assert_messages", "describe"]


def describe(messages: Sequence[BaseMessage], *, ids: bool = False) -> list[str]:
    """A list of messages as short lines, for whole comparisons and for looking at.

    Args:
        messages: the messages.
        ids: whether to show the ids of tool calls.

    Returns:
        One line a message: its type, an answer's tool and failure, the text, the tool calls.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from agentgraph.testing import ai, answer, tool_call
        >>> call = tool_call("weather", city="Rome", id="a")
        >>> for line in describe([HumanMessage("hi"), ai(call), answer(call, "no such city", status="error")]):
        ...     print(line)
        human: hi
        ai: -> weather(city='Rome')
        tool weather error: no such city
    """
    return [_line(message, ids) for message in messages]


def assert_messages(actual: Sequence[BaseMessage], expected: Sequence[BaseMessage]) -> None:
    """Assert that two lists of messages say the same.

    Compared are type, content (a single text block counts as its text), tool calls (name, arguments, id), unreadable
    calls, and of answers the call, the status and the tool's name. Ids of messages, names of assistants, usage,
    artifacts and all other metadata are not. The id of an expected call that `tool_call` derived itself stands for
    whatever id the call got.

    Args:
        actual: the messages that came.
        expected: the messages that should have come.

    Raises:
        AssertionError: with both lists, line against line, and each field that differs.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> assert_messages([AIMessage("hello", id="1")], [AIMessage("hello")])
        >>> assert_messages([HumanMessage("hi"), AIMessage("hello")], [HumanMessage("hi"), AIMessage("bye")])
        Traceback (most recent call last):
        AssertionError: the messages differ (- expected, + actual):
          human: hi
        - ai: bye
        + ai: hello
        #1 content: expected 'bye', got 'hello'
    """
    __tracebackhide__ = True  # pytest then shows the line of the test instead of this function
    renamed = _renamed_ids(actual, expected)
    given = [_fields(message, renamed) for message in actual]
    wanted = [_fields(message, {}) for message in expected]
    if given == wanted:
        return
    lines = difflib.ndiff(describe(expected, ids=True), [_line(m, ids=True, renamed=renamed) for m in actual])
    shown = [line.rstrip() for line in lines if not line.startswith("?")]
    raise AssertionError(
        "\n".join(["the messages differ (- expected, + actual):", *shown, *_differences(given, wanted)])
    )


def _renamed_ids(actual: Sequence[BaseMessage], expected: Sequence[BaseMessage]) -> dict[str, str]:
    """Ids of actual calls -> the derived ids that stand for them in the expected ones."""
    renamed: dict[str, str] = {}
    for one, other in zip(actual, expected, strict=False):
        for (_, _, given), (name, args, wanted) in zip(_calls(one), _calls(other), strict=False):
            derived = derived_id(name, args)
            if given and wanted == derived:
                renamed[given] = derived
    return renamed


def _calls(message: BaseMessage) -> list[tuple[str, Any, str | None]]:
    if not isinstance(message, AIMessage):
        return []
    calls = [(call["name"], call["args"], call["id"]) for call in message.tool_calls]
    return [*calls, *((call["name"] or "unknown", call["args"], call["id"]) for call in message.invalid_tool_calls)]


def _fields(message: BaseMessage, renamed: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": _type(message), "content": _content(message)}
    if isinstance(message, AIMessage):
        calls = [(name, args, renamed.get(id_ or "", id_)) for name, args, id_ in _calls(message)]
        fields["tool_calls"] = calls[: len(message.tool_calls)]
        fields["invalid_tool_calls"] = calls[len(message.tool_calls) :]
    elif isinstance(message, ToolMessage):
        call_id = renamed.get(message.tool_call_id, message.tool_call_id)
        fields |= {"tool_call_id": call_id, "status": message.status, "name": message.name}
    return fields


def _type(message: BaseMessage) -> str:
    return message.type.removesuffix("MessageChunk").lower()


def _content(message: BaseMessage) -> Any:
    content = message.content
    if isinstance(content, list) and len(content) == 1:
        block = content[0]
        if isinstance(block, dict) and block.get("type") == "text":
            return block.get("text", "")
    return content


def _differences(given: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> Iterator[str]:
    if len(given) != len(wanted):
        yield f"expected {len(wanted)} messages, got {len(given)}"
    for index, (one, other) in enumerate(zip(given, wanted, strict=False)):
        for key in {**other, **one}:
            if one.get(key) != other.get(key):
                yield f"#{index} {key}: expected {other.get(key)!r:.500}, got {one.get(key)!r:.500}"


def _line(message: BaseMessage, ids: bool, renamed: dict[str, str] | None = None) -> str:
    names = renamed or {}
    head = _type(message)
    if isinstance(message, ToolMessage):
        words = ["tool", message.name or "", "error" if message.status == "error" else ""]
        head = " ".join(word for word in words if word) + _id(message.tool_call_id, ids, names)
    content = _content(message)
    parts = [content if isinstance(content, str) else repr(content)]
    parts += [f"-> {_call(name, args)}{_id(call_id, ids, names)}" for name, args, call_id in _calls(message)]
    return f"{head}: {' '.join(part for part in parts if part)}".rstrip()


def _call(name: str, args: Any) -> str:
    if isinstance(args, dict):
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"
    return f"{name}(unreadable {args!r:.80})"


def _id(call_id: str | None, ids: bool, renamed: dict[str, str]) -> str:
    return f" [{renamed.get(call_id or '', call_id)}]" if ids else ""
