"""Ids of tool calls that are one call's alone within a request. Pure: no I/O.

Some servers number the calls of each answer anew, so that a conversation has several calls "c1". Whether an answer of a
tool goes to the first or the last of them is then for the next server to guess, and Anthropic's refuses the request, as
do gateways before it that speak another format. A later call gets an id that is made of its own and of how often that
was used before: always the same one, so that what the provider has cached of the conversation stays valid.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

__all__ = ["with_own_call_ids"]

_CALL_BLOCKS: Final[Mapping[str, str]] = {
    "custom_tool_call": "call_id",
    "function_call": "call_id",
    "invalid_tool_call": "id",
    "tool_call": "id",
    "tool_use": "id",
}


def with_own_call_ids(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Give messages in which no two calls have one id, and each result of a tool has the id of its call.

    The first call with an id keeps it. A result belongs to the latest call before it with its id; where one message has
    several of them, the results belong to them in their order.

    Args:
        messages: the conversation, which is left as it is.

    Returns:
        The same object where there is nothing to do.

    Example:
        >>> def turn() -> list[BaseMessage]:
        ...     call = {"name": "now", "args": {}, "id": "c1"}
        ...     return [AIMessage("", tool_calls=[call]), ToolMessage("noon", tool_call_id="c1")]
        >>> first, _, second, answer = with_own_call_ids([*turn(), *turn()])
        >>> first.tool_calls[0]["id"], second.tool_calls[0]["id"] == answer.tool_call_id
        ('c1', True)
    """
    ids = [id_ for message in messages if isinstance(message, AIMessage) for id_ in _ids(message) if id_]
    if len(ids) == len(set(ids)):
        return messages
    uses = Counter[str]()
    open_: dict[str, deque[str]] = {}
    return [_renamed(message, uses, open_) for message in messages]


def _ids(message: AIMessage) -> list[str]:
    return [call.get("id") or "" for call in (*message.tool_calls, *message.invalid_tool_calls)]


def _renamed(message: BaseMessage, uses: Counter[str], open_: dict[str, deque[str]]) -> BaseMessage:
    if isinstance(message, ToolMessage):
        waiting = open_.get(message.tool_call_id)
        if not waiting:
            return message
        # A second result of one call still names that call.
        id_ = waiting.popleft() if len(waiting) > 1 else waiting[0]
        return message if id_ == message.tool_call_id else message.model_copy(update={"tool_call_id": id_})
    if not isinstance(message, AIMessage):
        return message
    old = _ids(message)
    new = [_own(id_, uses) for id_ in old]
    open_.update(_grouped(old, new))
    return message if old == new else _with_ids(message, old, new)


def _own(id_: str, uses: Counter[str]) -> str:
    uses[id_] += 1
    if uses[id_] == 1 or not id_:
        return id_
    digest = hashlib.sha256(f"{id_}\n{uses[id_]}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"call_{digest[:24]}"


def _grouped(old: Iterable[str], new: Iterable[str]) -> dict[str, deque[str]]:
    grouped: dict[str, deque[str]] = {}
    for was, is_ in zip(old, new, strict=True):
        grouped.setdefault(was, deque()).append(is_)
    return grouped


def _with_ids(message: AIMessage, old: list[str], new: list[str]) -> AIMessage:
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    named = [{**call, "id": id_} if id_ else call for call, id_ in zip(calls, new, strict=True)]
    valid = len(message.tool_calls)
    changed: dict[str, Any] = {"tool_calls": named[:valid], "invalid_tool_calls": named[valid:]}
    if isinstance(message.content, list):
        waiting = _grouped(old, new)
        changed["content"] = [_block(block, waiting) for block in message.content]
    return message.model_copy(update=changed)


def _block(block: Any, waiting: Mapping[str, deque[str]]) -> Any:
    """Give a block that says where a call stood the new id of that call."""
    key = _CALL_BLOCKS.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    ids = waiting.get(str(block.get(key))) if key else None
    return {**block, key: ids.popleft()} if ids else block
