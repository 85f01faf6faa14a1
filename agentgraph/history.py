"""The invariant of a history (I1), and its repair.

Providers refuse a conversation, for ever, when a tool call is left without its answer. So before every model call:

* each tool call of an assistant message has exactly one tool message, directly after it, in the order of the calls;
* there is no tool message without a call;
* there is no empty assistant message;
* every call has an id that is its own within the message.

Pure functions on lists of messages. A repair adds only what is known: an unanswered call gets an error that says so,
never a made-up result.
"""

import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage

from agentgraph.state import replaced_messages

__all__ = [
    "Checked",
    "answers_to",
    "check",
    "feedback",
    "feedback_kind",
    "is_empty",
    "last_ai_message",
    "pending_calls",
    "this_turn",
    "with_call_ids",
    "with_id",
]

MARK = "agentgraph"
"""The key of `response_metadata` under which messages that the runtime wrote say why."""

EXCERPT = 200
"""How many characters of broken arguments are shown back to the model."""

NAME = 128
"""How many characters of a tool's name are repeated; a broken one may be of any length."""

_CALL_BLOCKS = {"tool_use": "id", "tool_call": "id", "function_call": "call_id"}
"""Content blocks that repeat a tool call: Anthropic's, langchain-core's, OpenAI Responses'."""

_THOUGHTS = frozenset({"reasoning", "thinking", "redacted_thinking"})


@dataclass(frozen=True)
class Checked:
    """A history that holds the invariant.

    Attributes:
        messages: the history to send.
        update: what to write to the `messages` of the state so that it holds there too; empty when it did already.
    """

    messages: list[Any]
    update: list[Any]


def check(messages: Sequence[Any]) -> Checked:
    """The same history with the invariant restored; a valid one comes back as it is.

    Args:
        messages: a conversation without its system prompt.

    Example:
        >>> check([HumanMessage("hi", id="1")]).update
        []
    """
    if _holds(messages):
        return Checked(list(messages), [])
    named = [with_id(message) for message in messages]
    sound = _sound(named)
    return Checked(sound, _update(messages, sound))


def with_call_ids(message: AIMessage) -> AIMessage:
    """The message with an id of its own for each call, and its content in step; the same object if it is so already."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    fresh = _own_ids(ids)
    content = _content_in_step(message.content, ids, fresh)
    extras = _extras_in_step(message.additional_kwargs, ids, fresh)
    if fresh == ids and content is message.content and extras is message.additional_kwargs:
        return message
    valid, invalid = fresh[: len(message.tool_calls)], fresh[len(message.tool_calls) :]
    return message.model_copy(
        update={
            "tool_calls": [{**call, "id": new} for call, new in zip(message.tool_calls, valid, strict=True)],
            "invalid_tool_calls": [
                {**call, "id": new} for call, new in zip(message.invalid_tool_calls, invalid, strict=True)
            ],
            "content": content,
            "additional_kwargs": extras,
        }
    )


def with_id(message: Any) -> Any:
    """The message with an id, so that it can be replaced and removed later; the same object where it has one."""
    return message if message.id else message.model_copy(update={"id": str(uuid.uuid4())})


def is_empty(message: BaseMessage) -> bool:
    """Whether an assistant message says nothing: no text, no call, no other content. Thoughts alone say nothing."""
    if not isinstance(message, AIMessage) or message.tool_calls or message.invalid_tool_calls:
        return False
    if any(message.additional_kwargs.get(key) for key in ("refusal", "function_call", "audio")):
        return False
    if isinstance(message.content, str) or message.content is None:
        return not (message.content or "").strip()
    return all(_is_blank(block) for block in message.content)


def last_ai_message(messages: Sequence[Any]) -> AIMessage | None:
    """The last assistant message, None if there is none."""
    return next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)


def answers_to(messages: Sequence[Any], message: AIMessage) -> dict[str, ToolMessage]:
    """The tool messages after an assistant message, by the id of the call they answer."""
    answers: dict[str, ToolMessage] = {}
    for later in reversed(messages):
        if later is message:
            break
        if isinstance(later, ToolMessage):
            answers[later.tool_call_id] = later
    return answers


def pending_calls(messages: Sequence[Any]) -> list[Any]:
    """The readable calls of the last assistant message that have no answer yet."""
    message = last_ai_message(messages)
    if message is None or not message.tool_calls:
        return []
    answered = answers_to(messages, message)
    return [call for call in message.tool_calls if call["id"] not in answered]


def this_turn(messages: Sequence[Any]) -> list[Any]:
    """What came after the last message of a person; feedback of the runtime does not count as one."""
    for position in range(len(messages) - 1, -1, -1):
        if isinstance(messages[position], HumanMessage) and feedback_kind(messages[position]) is None:
            return list(messages[position + 1 :])
    return list(messages)


def feedback(kind: str, text: str) -> HumanMessage:
    """A message of the runtime to the model, marked with why it was written."""
    return HumanMessage(content=text, id=str(uuid.uuid4()), response_metadata={MARK: {"feedback": kind}})


def feedback_kind(message: Any) -> str | None:
    """Why the runtime wrote this message, None if it did not."""
    mark = message.response_metadata.get(MARK) if isinstance(message, BaseMessage) else None
    return mark.get("feedback") if isinstance(mark, dict) else None


def _holds(messages: Sequence[Any]) -> bool:
    """Whether the invariant holds already: one tight pass, because a long conversation pays for it with each call."""
    waiting: list[str | None] = []
    for message in messages:
        if not message.id:
            return False
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop() != message.tool_call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, AIMessage):
            if not _is_whole(message):
                return False
            waiting = [call["id"] for call in reversed(message.tool_calls)]
    return not waiting


def _is_whole(message: AIMessage) -> bool:
    """Whether an assistant message says something, and its calls have ids of their own."""
    if message.invalid_tool_calls:
        return False
    if not isinstance(message.content, str) or message.additional_kwargs:
        return with_call_ids(message) is message and not is_empty(message)
    ids = [call["id"] for call in message.tool_calls]
    return bool(ids or message.content.strip()) and all(ids) and len(set(ids)) == len(ids)


def _sound(messages: list[Any]) -> list[Any]:
    """One pass: collect each call's answer, wherever it stands; then lay them out in the order of the calls."""
    out: list[Any] = []
    open_slots: dict[str, deque[_Slot]] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            if waiting := open_slots.get(message.tool_call_id):
                waiting.popleft().found = message
            # Else an answer to nothing, or a second one: the provider would refuse it.
        elif isinstance(message, AIMessage):
            whole = with_call_ids(message)
            slots = _slots_of(message, whole)
            # A later message may use an id again: answers then belong to the later one.
            open_slots.update(_by_old_id(slots))
            out.extend(() if is_empty(whole) else (whole, *slots))
        else:
            out.append(message)
    return [part.answer() if isinstance(part, _Slot) else part for part in out]


@dataclass
class _Slot:
    """The place of one call's answer."""

    call: Any
    old_id: str | None
    valid: bool
    found: ToolMessage | None = None

    def answer(self) -> ToolMessage:
        if self.found is None:
            return _answer_for(self.call, valid=self.valid)
        if self.found.tool_call_id != self.call["id"]:
            return self.found.model_copy(update={"tool_call_id": self.call["id"]})
        return self.found


def _slots_of(message: AIMessage, whole: AIMessage) -> list[_Slot]:
    old = [call.get("id") for call in (*message.tool_calls, *message.invalid_tool_calls)]
    new = [*whole.tool_calls, *whole.invalid_tool_calls]
    readable = len(whole.tool_calls)
    return [
        _Slot(call, old_id, position < readable) for position, (call, old_id) in enumerate(zip(new, old, strict=True))
    ]


def _by_old_id(slots: list[_Slot]) -> dict[str, deque[_Slot]]:
    grouped: dict[str, deque[_Slot]] = {}
    for slot in slots:
        if slot.old_id:
            grouped.setdefault(slot.old_id, deque()).append(slot)
    return grouped


def _answer_for(call: Any, *, valid: bool) -> ToolMessage:
    name = str(call.get("name") or "unknown")[:NAME]
    if valid:
        why = "unanswered"
        text = (
            f"No result: the call of {name!r} was not finished before the conversation went on. Do not assume that it "
            "had an effect, nor that it had none; call the tool again if its result is still needed."
        )
    else:
        why = "invalid_arguments"
        text = (
            f"The call of {name!r} was not run: its arguments could not be read{_reason(call)}. "
            f"{_given(call.get('args'))}Send the call again; its arguments must be one valid JSON object."
        )
    return ToolMessage(
        content=text,
        name=name,
        tool_call_id=call["id"],
        status="error",
        id=str(uuid.uuid4()),
        response_metadata={MARK: {"repair": why}},
    )


def _reason(call: Any) -> str:
    error = str(call.get("error") or "").strip()
    return f" ({error[:EXCERPT]})" if error else ""


def _given(arguments: Any) -> str:
    text = arguments if isinstance(arguments, str) else repr(arguments or "")
    if not text.strip("'\""):
        return ""
    shown = text if len(text) <= EXCERPT else f"{text[:EXCERPT]}... ({len(text)} characters)"
    return f"They began with: {shown}. "


def _own_ids(ids: Sequence[str | None]) -> list[str]:
    seen: set[str] = set()
    own: list[str] = []
    for given in ids:
        new = given if given and given not in seen else f"call_{uuid.uuid4().hex[:24]}"
        seen.add(new)
        own.append(new)
    return own


def _extras_in_step(extras: dict[str, Any], old_ids: Sequence[str | None], new_ids: Sequence[str]) -> dict[str, Any]:
    """Additional fields, without a provider's raw copy of the calls where that says something else than the calls."""
    raw = extras.get("tool_calls")
    if not raw:
        return extras
    raw_ids = [call.get("id") for call in raw if isinstance(call, dict)]
    if sorted(map(str, raw_ids)) == sorted(map(str, old_ids)) and list(old_ids) == list(new_ids):
        return extras
    return {key: value for key, value in extras.items() if key != "tool_calls"}


def _content_in_step(content: Any, old_ids: Sequence[str | None], new_ids: Sequence[str]) -> Any:
    """Content whose blocks of calls have the ids of the calls; a block whose call a hook took away is dropped."""
    if not isinstance(content, list) or not any(_call_key(block) for block in content):
        return content
    waiting: dict[str | None, deque[str]] = {}
    for old, new in zip(old_ids, new_ids, strict=True):
        waiting.setdefault(old, deque()).append(new)
    blocks = [block for block in (_block_in_step(block, waiting) for block in content) if block is not None]
    same = len(blocks) == len(content) and all(a is b for a, b in zip(blocks, content, strict=True))
    return content if same else blocks


def _block_in_step(block: Any, waiting: dict[str | None, deque[str]]) -> Any:
    key = _call_key(block)
    if key is None:
        return block
    ids = waiting.get(block.get(key))
    if not ids:
        return None
    new = ids.popleft()
    return block if block.get(key) == new else {**block, key: new}


def _call_key(block: Any) -> str | None:
    """Under which key a content block names the call it stands for, None for other blocks."""
    return _CALL_BLOCKS.get(str(block.get("type"))) if isinstance(block, dict) else None


def _is_blank(block: Any) -> bool:
    if isinstance(block, str) or block is None:
        return not (block or "").strip()
    if not isinstance(block, dict):
        return False
    if block.get("type") == "text":
        return not str(block.get("text") or "").strip()
    return str(block.get("type")) in _THOUGHTS


def _update(before: Sequence[Any], after: list[Any]) -> list[Any]:
    """The smallest update of a messages channel that turns one history into the other."""
    if len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True)):
        return []
    kept_ids = {message.id for message in after}
    kept = [message for message in before if message.id in kept_ids]
    if all(message.id for message in before) and _starts_with(after, kept):
        removed = [RemoveMessage(id=message.id) for message in before if message.id not in kept_ids]
        return [*removed, *after[len(kept) :]]
    return replaced_messages(after)


def _starts_with(messages: list[Any], start: Iterable[Any]) -> bool:
    return all(position < len(messages) and messages[position] is m for position, m in enumerate(start))
