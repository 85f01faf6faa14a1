"""Messages, arguments and structured answers without their sensitive values. What has none is the same object."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, BaseMessageChunk, HumanMessage, ToolMessage
from langgraph.types import Command
from pydantic import BaseModel

from ._pii_rules import ResolvedRule

__all__ = [
    "answer_with",
    "clean_content",
    "clean_json",
    "clean_message",
    "clean_value",
    "is_media",
    "newest",
    "restored",
    "text_field",
]

# What names or binds a block, and bytes.
_LEFT_ALONE = frozenset({"type", "id", "index", "name", "call_id", "tool_use_id", "mime_type", "data", "base64"})
_LEFT_ALONE |= {"signature", "thought_signature", "encrypted_content", "cache_control"}
_SIGNATURES = ("signature", "thought_signature")
_JSON_FIELDS = frozenset({"args", "arguments", "input", "partial_json"})
_MEDIA = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file", "document"}
)
_TEXTS = ("text", "output_text", "input_text")
_REASONING = {"reasoning": "reasoning", "thinking": "thinking"}
_LONG_NUMBER = 10**11


class TextField(NamedTuple):
    """Where a content block has its text.

    Attributes:
        stream: "text" or "reasoning": the blocks of a stream are read as one text.
        key: the field of the block.
    """

    stream: str
    key: str


def text_field(block: Any) -> TextField | None:
    """The field of a block that is part of the message's text or reasoning, None for any other block."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind in _TEXTS or (kind is None and isinstance(block, Mapping) and "text" in block):
        return TextField("text", "text") if isinstance(block.get("text"), str) else None
    key = _REASONING.get(kind or "")
    return TextField("reasoning", key) if key and isinstance(block.get(key), str) else None


def is_media(block: Any) -> bool:
    """Whether a block is an image, a recording or a file; its address is how it is reached."""
    return isinstance(block, Mapping) and block.get("type") in _MEDIA


def clean_message(message: Any, rule: ResolvedRule) -> Any:
    """A message without sensitive values, with the id it had.

    Args:
        message: any message; what is none is given back.
        rule: what to look for.

    Returns:
        The message itself where it has none. A tool message's `artifact` is left alone: no model sees it.

    Raises:
        PIIDetectionError: the rule blocks.
    """
    if not isinstance(message, BaseMessage):
        return message
    changes: dict[str, Any] = {"content": clean_content(message.content, rule)} if message.content else {}
    if isinstance(message, AIMessage):
        changes["tool_calls"] = [clean_call(call, rule) for call in message.tool_calls]
        changes["invalid_tool_calls"] = [clean_call(call, rule) for call in message.invalid_tool_calls]
        changes["additional_kwargs"] = clean_value(message.additional_kwargs, rule)
    if isinstance(message, AIMessage) and isinstance(message, BaseMessageChunk):
        changes["tool_call_chunks"] = [clean_call(call, rule) for call in message.tool_call_chunks]  # type: ignore[attr-defined] # an AIMessageChunk, which has them
    changes = {name: value for name, value in changes.items() if value != getattr(message, name)}
    if not changes:
        return message
    if "logprobs" in message.response_metadata:
        # They spell the text out.
        changes["response_metadata"] = {k: v for k, v in message.response_metadata.items() if k != "logprobs"}
    return message.model_copy(update=changes)


def clean_call(call: Any, rule: ResolvedRule) -> Any:
    """A tool call, a part of one or an unreadable one, without sensitive values in its arguments."""
    given = call.get("args")
    args = clean_json(given, rule)
    if isinstance(call.get("error"), str):
        cleaned = {**call, "args": args, "error": rule.text(call["error"])}
        return call if cleaned == call else cleaned
    return call if args is given else {**call, "args": args}


def clean_content(content: Any, rule: ResolvedRule) -> Any:
    """The content of a message; a list keeps its shape, and a value that its texts share is found."""
    if isinstance(content, str):
        return rule.text(content)
    blocks = list(content)
    for stream in ("text", "reasoning"):
        _clean_stream(blocks, stream, rule)
    cleaned = [block if isinstance(block, str) else _clean_block(block, rule) for block in blocks]
    return content if cleaned == content else cleaned


def _clean_stream(blocks: list[Any], stream: str, rule: ResolvedRule) -> None:
    """Clean the texts of one kind, which a reader sees as one, in place."""
    places, texts = [], []
    for place, block in enumerate(blocks):
        field = text_field(block)
        if stream == "text" and isinstance(block, str):
            places.append((place, ""))
            texts.append(block)
        elif field is not None and field.stream == stream:
            places.append((place, field.key))
            texts.append(block[field.key])
    for (place, key), old, new in zip(places, texts, rule.pieces(texts), strict=True):
        if new != old:
            blocks[place] = {**_unsigned(blocks[place]), key: new} if key else new


def _unsigned(block: Mapping[str, Any]) -> dict[str, Any]:
    # A provider refuses a text that does not agree with its signature.
    return {key: value for key, value in block.items() if key not in _SIGNATURES}


def _clean_block(block: Any, rule: ResolvedRule) -> Any:
    if not isinstance(block, Mapping) or is_media(block):
        return block
    field = text_field(block)
    return {
        key: value if field is not None and key == field.key else _clean_field(key, value, rule)
        for key, value in block.items()
    }


def _clean_field(key: Any, value: Any, rule: ResolvedRule) -> Any:
    if key in _LEFT_ALONE and not isinstance(value, Mapping | list):
        return value
    if key in _JSON_FIELDS:
        return clean_json(value, rule)
    if isinstance(value, list):
        return [_clean_field(None, one, rule) for one in value]
    return _clean_block(value, rule) if isinstance(value, Mapping) else clean_value(value, rule)


def clean_json(value: Any, rule: ResolvedRule) -> Any:
    """Arguments, as an object or as the JSON that a model wrote: its escapes hide nothing, and it stays JSON."""
    if not isinstance(value, str):
        return clean_value(value, rule)
    try:
        read = json.loads(value)
    except ValueError:
        # Half a JSON: its escapes are undone where something is found behind them.
        plain = _unescaped(value)
        return rule.text(value) if plain == value or not rule.matches(plain) else rule.text(plain)
    cleaned = clean_value(read, rule)
    return value if cleaned == read else json.dumps(cleaned, ensure_ascii=False)


def _unescaped(text: str) -> str:
    parts, place = [], 0
    while (found := text.find("\\u", place)) >= 0:
        code = text[found + 2 : found + 6]
        is_code = len(code) == 4 and all(char in "0123456789abcdefABCDEF" for char in code)  # noqa: PLR2004 (as JSON has it)
        parts += [text[place:found], chr(int(code, 16)) if is_code else text[found : found + 2]]
        place = found + (6 if is_code else 2)
    return "".join([*parts, text[place:]])


def clean_value(value: Any, rule: ResolvedRule) -> Any:
    """Any value without sensitive ones in its texts, its keys and its long numbers.

    Args:
        value: of dicts, lists, tuples, messages, pydantic models and dataclasses; others are given back.
        rule: what to look for.
    """
    if isinstance(value, str):
        return rule.text(value)
    if isinstance(value, Mapping):
        return _clean_mapping(value, rule)
    if isinstance(value, list | tuple):
        return _clean_sequence(value, rule)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LONG_NUMBER:
        digits = str(value)
        return rule.text(digits) if rule.matches(digits) else value
    return _clean_object(value, rule)


def _clean_mapping(value: Mapping[Any, Any], rule: ResolvedRule) -> Any:
    cleaned: dict[Any, Any] = {}
    for key, one in value.items():
        name = first = rule.text(key) if isinstance(key, str) else key
        number = 2
        while name in cleaned:
            name, number = f"{first} ({number})", number + 1
        cleaned[name] = clean_value(one, rule)
    return value if cleaned == value else cleaned


def _clean_sequence(value: Sequence[Any], rule: ResolvedRule) -> Any:
    cleaned = [clean_value(one, rule) for one in value]
    if all(new is old for new, old in zip(cleaned, value, strict=True)):
        return value
    return cleaned if isinstance(value, list) else tuple(cleaned)


def _clean_object(value: Any, rule: ResolvedRule) -> Any:
    if isinstance(value, BaseMessage):
        return clean_message(value, rule)
    if isinstance(value, BaseModel):
        fields = dict(value)
        changed = {name: new for name, old in fields.items() if (new := clean_value(old, rule)) is not old}
        # Not validated again: a placeholder is no address, and this is no answer of the model's.
        return value.model_copy(update=changed) if changed else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        changed = {name: new for name, old in fields.items() if (new := clean_value(old, rule)) is not old}
        return dataclasses.replace(value, **changed) if changed else value
    return value


def restored(given: Any, cleaned: Any, raw: Any) -> Any:
    """Arguments with their values back, wherever nobody has changed the placeholder.

    Args:
        given: the arguments as they are now, perhaps edited.
        cleaned: as they were stored.
        raw: as the model wrote them.
    """
    if given == cleaned:
        return raw
    if isinstance(given, dict) and isinstance(cleaned, dict) and isinstance(raw, dict):
        back = dict(zip(cleaned, raw, strict=True))
        return {
            back.get(key, key): restored(one, cleaned[key], raw[back[key]]) if key in back else one
            for key, one in given.items()
        }
    if all(isinstance(one, list) for one in (given, cleaned, raw)) and len(given) == len(cleaned):
        return [restored(*three) for three in zip(given, cleaned, raw, strict=True)]
    return given


def answer_with(answer: Any, change: Callable[[Any], Any]) -> Any:
    """What a tool answered, in whichever form, with each of its messages changed."""
    if isinstance(answer, list):
        return [answer_with(one, change) for one in answer]
    if not isinstance(answer, Command):
        return change(answer)
    update = answer.update
    if isinstance(update, dict) and "messages" in update:
        update = {**update, "messages": answer_with(update["messages"], change)}
    elif isinstance(update, list):
        update = [_pair_with(pair, change) for pair in update]
    return dataclasses.replace(answer, update=update)


def _pair_with(pair: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(pair, tuple):
        return (pair[0], answer_with(pair[1], change)) if pair[0] == "messages" else pair
    return change(pair)


def newest(messages: Sequence[Any]) -> frozenset[int]:
    """Which messages are new to the model: the last of the user, and the tool results that nothing follows."""
    end = len(messages)
    last = next((place for place in range(end - 1, -1, -1) if isinstance(messages[place], HumanMessage)), None)
    while end and isinstance(messages[end - 1], ToolMessage):
        end -= 1
    results = range(end, len(messages))
    return frozenset(results if last is None else [last, *results])
