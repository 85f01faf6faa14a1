"""A strict reader of message histories: what a provider would answer with 400, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, SystemMessage, ToolCall, ToolMessage

__all__ = ["assert_valid_history", "history_faults"]

CALL_BLOCKS = {"tool_call": "id", "tool_use": "id", "function_call": "call_id"}
"""Content blocks that repeat a tool call in a provider's own form, and the key of the call's id."""

THOUGHTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
"""Content blocks that say nothing to anybody: a message of these alone is refused, or arrives as an empty one."""


def history_faults(messages: Sequence[object]) -> list[str]:
    """The reasons for which a chat provider would refuse a list of messages.

    Each tool call of an assistant message, readable or not, needs exactly one ToolMessage directly after that message,
    in the order of the calls; ids are present and unique within the message; no ToolMessage stands without a call; no
    assistant message is empty; a content block that repeats a call has its call; only the first message is a system
    message. (Answers to unreadable calls may stand before, between or after the others.)

    Args:
        messages: the history, as it is sent to a model.

    Returns:
        One line for each fault, with the index of the message; empty for a good history.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> from agentgraph.testing import ai, tool_call
        >>> history_faults([HumanMessage("hi"), AIMessage("hello")])
        []
        >>> history_faults([HumanMessage("hi"), ai(tool_call("weather", id="a")), HumanMessage("well?")])
        ["#1: no answer to call 'a' (weather) directly after it"]
    """
    reader = _Reader()
    for index, message in enumerate(messages):
        reader.read(index, message)
    reader.close()
    return reader.faults


def assert_valid_history(messages: Sequence[object]) -> None:
    """Assert that a provider would accept a list of messages, see `history_faults`.

    Args:
        messages: the history.

    Raises:
        AssertionError: with every fault, and the history in short.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> assert_valid_history([HumanMessage("hi")])
    """
    faults = history_faults(messages)
    if faults:
        raise AssertionError("a provider would refuse this history:\n  " + "\n  ".join(faults))


@dataclass
class _Turn:
    """An assistant message and the answers that came directly after it."""

    index: int = -1
    valid: list[ToolCall] = field(default_factory=list)
    invalid: list[InvalidToolCall] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    @property
    def names(self) -> dict[str, str]:
        return {call["id"]: call["name"] or "unknown" for call in (*self.valid, *self.invalid) if call["id"]}


@dataclass
class _Reader:
    faults: list[str] = field(default_factory=list)
    turn: _Turn = field(default_factory=_Turn)

    def read(self, index: int, message: object) -> None:
        if isinstance(message, ToolMessage):
            self._report(index, self._answer_faults(message))
            return
        self.close()
        if isinstance(message, AIMessage):
            self.turn = _Turn(index, list(message.tool_calls), list(message.invalid_tool_calls))
            self._report(index, _assistant_faults(message))
        elif isinstance(message, SystemMessage):
            self._report(index, ["a system message may only stand first"] if index else [])
        elif not isinstance(message, BaseMessage) or message.type == "remove":
            self._report(index, [f"not a message of a conversation: {message!r:.80}"])

    def close(self) -> None:
        """The answers of the current turn are over."""
        turn, self.turn = self.turn, _Turn()
        self._report(turn.index, _missing(turn))
        self._report(turn.index, _disorder(turn))

    def _report(self, index: int, faults: Iterable[str]) -> None:
        self.faults += [f"#{index}: {fault}" for fault in faults]

    def _answer_faults(self, message: ToolMessage) -> Iterator[str]:
        call_id = message.tool_call_id
        if call_id not in self.turn.names:
            yield f"answer to call {call_id!r}, which the assistant message directly before does not make"
        elif call_id in self.turn.answers:
            yield f"second answer to call {call_id!r}"
        else:
            self.turn.answers.append(call_id)


def _missing(turn: _Turn) -> Iterator[str]:
    for call_id, name in turn.names.items():
        if call_id not in turn.answers:
            yield f"no answer to call {call_id!r} ({name}) directly after it"


def _disorder(turn: _Turn) -> Iterator[str]:
    for calls in (turn.valid, turn.invalid):
        asked = [call["id"] for call in calls]
        given = [call_id for call_id in turn.answers if call_id in asked]
        if given != [call_id for call_id in dict.fromkeys(asked) if call_id in given]:
            yield f"answers in the order {given}, calls in the order {asked}"


def _assistant_faults(message: AIMessage) -> Iterator[str]:
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    others = [message.additional_kwargs.get(key) for key in ("refusal", "function_call", "audio")]
    if not calls and not any(others) and not _says_something(message.content):
        yield "empty assistant message: neither text nor tool calls"
    for call in calls:
        if not call["id"]:
            yield f"call of {call['name'] or 'unknown'} without an id"
    ids = [call["id"] for call in calls]
    yield from (f"{count} calls with the id {id_!r}" for id_, count in Counter(ids).items() if id_ and count > 1)
    for call_id in _block_ids(message.content):
        if call_id not in ids:
            yield f"content block of call {call_id!r}, which is not among the message's tool calls"


def _says_something(content: object) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    blocks = content if isinstance(content, list) else []
    return any(_block_says_something(block) for block in blocks)


def _block_says_something(block: object) -> bool:
    if not isinstance(block, Mapping):
        return _says_something(block)
    return _says_something(block.get("text")) if block.get("type") == "text" else block.get("type") not in THOUGHTS


def _block_ids(content: object) -> Iterator[Any]:
    for block in content if isinstance(content, list) else []:
        key = CALL_BLOCKS.get(block.get("type", "")) if isinstance(block, Mapping) else None
        if key is not None:
            yield block.get(key)
