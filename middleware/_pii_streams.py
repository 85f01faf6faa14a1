"""Streamed answers without sensitive values: text is held back until it is decided, and never longer.

A built-in detector knows what its values are made of, so the text up to the last character that no value contains is
decided. For any other detector a text is held back until its end. Arguments of calls are held back as well: they are
JSON, which is read as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessageChunk

from ._pii_messages import clean_content, clean_json, clean_message, text_field
from ._pii_rules import ResolvedRule

__all__ = ["ChunkStream", "EventStream", "Held", "TextStream"]

_STREAMS = ("text", "reasoning")


@dataclass
class Held:
    """A text that arrives in pieces.

    Attributes:
        rule: what to look for.
        pieces: what is not decided yet, each with what it belongs to.
    """

    rule: ResolvedRule
    pieces: list[tuple[Any, str]] = field(default_factory=list)
    _before: str = ""

    def feed(self, owner: Any, text: str) -> list[tuple[Any, str]]:
        """Add a piece; gives what is decided now, without its values."""
        boundary = self.rule.search.boundary(text) if self.rule.search else 0
        if not boundary:
            self.pieces.append((owner, text))
            return []
        decided = [*self.pieces, (owner, text[:boundary])]
        self.pieces = [(owner, text[boundary:])] if boundary < len(text) else []
        return self._cleaned(decided)

    def end(self) -> list[tuple[Any, str]]:
        """The rest, without its values."""
        decided, self.pieces = self.pieces, []
        return self._cleaned(decided) if decided else []

    def _cleaned(self, decided: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
        # The character before may forbid a value right after it, and is in none itself.
        texts = self.rule.pieces([self._before, *(text for _, text in decided)])
        last = decided[-1][1]
        self._before = last[-1:] or self._before
        return [(owner, text) for (owner, _), text in zip(decided, texts[1:], strict=True)]


class TextStream:
    """A model that streams bare texts."""

    def __init__(self, rule: ResolvedRule) -> None:
        self._held = Held(rule)

    def feed(self, token: str) -> str:
        """Add a token; gives what is decided."""
        return "".join(text for _, text in self._held.feed(None, token))

    def end(self) -> str:
        """The rest."""
        return "".join(text for _, text in self._held.end())


class ChunkStream:
    """A model's stream of message chunks. Their sum is the clean form of the sum of the given ones."""

    def __init__(self, rule: ResolvedRule) -> None:
        self._rule = rule
        self._held = {stream: Held(rule) for stream in _STREAMS}
        self._rest: AIMessageChunk | None = None
        self._last: AIMessageChunk | None = None

    def feed(self, chunk: AIMessageChunk) -> AIMessageChunk | None:
        """Add a chunk.

        Args:
            chunk: the model's; it is not changed.

        Returns:
            What may be shown of it and of what was held back, None for nothing.

        Raises:
            PIIDetectionError: the rule blocks.
        """
        is_first, self._last = self._last is None, chunk
        blocks = [text] if isinstance(text := chunk.content, str) and text else list(chunk.content)
        shown: list[Any] = []
        self._keep(chunk, [block for block in blocks if not self._feed_block(block, shown)])
        if chunk.chunk_position == "last":
            shown += self._texts_left()
        made = _chunk(chunk, shown, tool_call_chunks=_beginnings(chunk))
        made.usage_metadata, made.chunk_position = chunk.usage_metadata, chunk.chunk_position
        made.response_metadata = {k: v for k, v in chunk.response_metadata.items() if k != "logprobs"}
        if chunk.chunk_position == "last" and self._rest is not None:
            made += self._rest_left()
        return made if is_first or _says_something(made) else None

    def end(self) -> AIMessageChunk | None:
        """What was held back to the end, None for nothing."""
        if self._last is None:
            return None
        made = _chunk(self._last, self._texts_left())
        made = made if self._rest is None else made + self._rest_left()
        return made if _says_something(made) else None

    def _feed_block(self, block: Any, shown: list[Any]) -> bool:
        found = ("text", "") if isinstance(block, str) else text_field(block)
        if found is None or (found[0] == "reasoning" and "signature" in block):
            return False
        stream, key = found
        owner = None if isinstance(block, str) else ({k: v for k, v in block.items() if k != key}, key)
        text = block if isinstance(block, str) else block[key]
        shown += _blocks(self._held[stream].feed(owner, text))
        return True

    def _keep(self, chunk: AIMessageChunk, blocks: list[Any]) -> None:
        calls = [_nameless(call) for call in chunk.tool_call_chunks]
        if not blocks and not calls and not chunk.additional_kwargs:
            return
        rest = _chunk(chunk, blocks, tool_call_chunks=calls, additional_kwargs=chunk.additional_kwargs)
        self._rest = rest if self._rest is None else self._rest + rest

    def _texts_left(self) -> list[Any]:
        return [block for held in self._held.values() for block in _blocks(held.end())]

    def _rest_left(self) -> AIMessageChunk:
        rest, self._rest = self._rest, None
        cleaned: AIMessageChunk = clean_message(rest, self._rule)
        return cleaned


def _chunk(chunk: AIMessageChunk, blocks: list[Any], **parts: Any) -> AIMessageChunk:
    """A chunk of the same message, with its content in the form that the given one has."""
    plain = all(isinstance(block, str) for block in blocks) and (blocks or isinstance(chunk.content, str))
    return AIMessageChunk(content="".join(blocks) if plain else blocks, id=chunk.id, name=chunk.name, **parts)


def _blocks(decided: list[tuple[Any, str]]) -> list[Any]:
    """Decided pieces as content; the pieces of one block, which its index tells, are put together."""
    joined: list[tuple[Any, str]] = []
    for owner, text in decided:
        if joined and joined[-1][0] == owner and (owner is None or "index" in owner[0]):
            joined[-1] = (owner, joined[-1][1] + text)
        else:
            joined.append((owner, text))
    return [text if owner is None else {**owner[0], owner[1]: text} for owner, text in joined]


def _says_something(chunk: AIMessageChunk) -> bool:
    return bool(
        chunk.content
        or chunk.tool_call_chunks
        or chunk.usage_metadata
        or chunk.response_metadata
        or chunk.additional_kwargs
        or chunk.chunk_position
    )


def _beginnings(chunk: AIMessageChunk) -> list[Any]:
    """The calls that begin in a chunk, for whoever shows that one is coming."""
    return [
        {**call, "args": ""}
        for call in chunk.tool_call_chunks
        if call["index"] is not None and (call["name"] or call["id"])
    ]


def _nameless(call: Any) -> Any:
    return call if call["index"] is None else {**call, "name": None, "id": None}


class EventStream:
    """A model's stream of content-block events."""

    def __init__(self, rule: ResolvedRule) -> None:
        self._rule = rule
        self._held: dict[Any, tuple[Held, str]] = {}

    def feed(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Add an event, which is not changed; gives the events to show in its place.

        Raises:
            PIIDetectionError: the rule blocks.
        """
        kind = event.get("event")
        if kind == "content-block-start":
            return self._start(event)
        if kind == "content-block-delta":
            return self._delta(event)
        if kind == "content-block-finish":
            return self._finish(event)
        return [dict(event)]

    def _start(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        block = event.get("content") or {}
        emptied = {key: "" if key in {"text", "reasoning", "args"} else value for key, value in block.items()}
        field_ = text_field(block)
        started = [{**event, "content": self._cleaned(emptied)}]
        return started + (self._text(event, field_.key, block[field_.key]) if field_ and block[field_.key] else [])

    def _delta(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        delta = event["delta"]
        kind = delta.get("type")
        if kind in {"text-delta", "reasoning-delta"}:
            key = kind.removesuffix("-delta")
            return self._text(event, key, delta[key])
        if kind == "tool-call-delta":
            return []
        if kind == "block-delta":
            fields = {key: "" if key == "args" else value for key, value in delta["fields"].items()}
            return [{**event, "delta": {**delta, "fields": self._cleaned(fields)}}]
        return [dict(event)]

    def _text(self, event: Mapping[str, Any], key: str, text: str) -> list[dict[str, Any]]:
        held, _ = self._held.setdefault(event["index"], (Held(self._rule), key))
        return _text_events(event, key, held.feed(None, text))

    def _finish(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        held, key = self._held.pop(event["index"], (Held(self._rule), ""))
        return [*_text_events(event, key, held.end()), {**event, "content": self._cleaned(event["content"])}]

    def _cleaned(self, block: Any) -> Any:
        cleaned = clean_content([block], self._rule)[0]
        # A call's arguments come as JSON where they could not be read.
        return {**cleaned, "args": clean_json(cleaned["args"], self._rule)} if "args" in cleaned else cleaned


def _text_events(event: Mapping[str, Any], key: str, decided: list[tuple[Any, str]]) -> list[dict[str, Any]]:
    text = "".join(text for _, text in decided)
    delta = {"type": f"{key}-delta", key: text}
    return [{"event": "content-block-delta", "index": event["index"], "delta": delta}] if text else []
