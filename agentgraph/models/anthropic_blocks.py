"""Content blocks of answers of Anthropic's Messages API, put together from their events. Pure: no I/O.

Each block is handed on as chunks whose sum it is, under an index of ours, so that one that numbers them twice harms
nobody. A call's pieces are chunks of the call beside a block that says whose they are, since readers of standard blocks
look there. Blocks of calls that run at the provider, and those of kinds that are not known, are handed on whole.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessageChunk

from agentgraph.models.chunks import words_chunk
from agentgraph.models.json_text import SplitText, whole_text, without_halves
from agentgraph.models.openai_tool_calls import ToolCallAssembly, as_text, given

__all__ = ["BlockAssembly", "chunk_of"]

_IMPLIED = {"input_json_delta": "tool_use", "signature_delta": "thinking", "thinking_delta": "thinking"}


def chunk_of(content: Any, **fields: Any) -> AIMessageChunk:
    """Make a chunk that says whose blocks it holds."""
    metadata = {"model_provider": "anthropic"}
    if not fields:
        return words_chunk(content, response_metadata=metadata)
    return AIMessageChunk(content=content, response_metadata=metadata, **fields)


def _piece(block: dict[str, Any], *calls: Any) -> AIMessageChunk:
    return chunk_of([block], tool_call_chunks=list(calls)) if calls else chunk_of([block])


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    return without_halves(value) if isinstance(value, dict) else None


def _key(index: Any) -> int | str | None:
    return index if isinstance(index, int | str) else None


def _is_citation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


@dataclass(slots=True)
class _Block:
    """A content block while it is put together."""

    index: int
    kind: str
    # What its first event said; of blocks that are handed on whole, what came so far.
    start: dict[str, Any]
    text: SplitText = field(default_factory=SplitText)
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    begun: bool = False


class BlockAssembly:
    """Makes chunks of the events of content blocks.

    Args:
        names: names of tools as they were sent -> as they are called here.
        plain: whether nothing but text is expected, so that content is a string as long as that is so.
        first: the index of the first block.
    """

    def __init__(self, names: Mapping[str, str], *, plain: bool, first: int = 0) -> None:
        self._names = names
        self.plain = plain
        self._assembly = ToolCallAssembly()
        self._places: list[int] = []
        self._blocks: dict[Any, _Block] = {}
        self._count = first
        self._last_kind = ""

    @property
    def count(self) -> int:
        """The index of the block that would come next."""
        return self._count

    @property
    def calls(self) -> bool:
        """Whether a call has begun."""
        return bool(self._places)

    def open(self, index: Any, start: Mapping[str, Any]) -> list[AIMessageChunk]:
        """Begin a block; returns what it brings along."""
        said = start.get("type")
        kind = said if isinstance(said, str) and said else "text"
        block = _Block(self._count, kind, without_halves({**start, "type": kind}))
        self._blocks[_key(index)] = block
        self._count += 1
        self._last_kind = kind
        # A list can only be begun before there is text.
        self.plain = self.plain and kind == "text" and not isinstance(start.get("citations"), list)
        if kind == "tool_use":
            return self._call(block)
        if kind == "text":
            return self._text(block, as_text(start.get("text")), start.get("citations"))
        if kind == "thinking":
            block.signature = as_text(start.get("signature"))
            return self._thought(block, as_text(start.get("thinking")))
        return []

    def add(self, index: Any, delta: Mapping[str, Any]) -> list[AIMessageChunk]:
        """Add a piece to a block; one that was not begun is begun."""
        block = self._blocks.get(_key(index))
        if block is None:
            opened = self.open(index, {"type": _IMPLIED.get(str(delta.get("type")), "text")})
            return opened + self.add(index, delta)
        match block.kind, delta.get("type"):
            case "text", "text_delta":
                return self._text(block, as_text(delta.get("text")), None)
            case "text", "citations_delta":
                return self._text(block, "", [delta.get("citation")])
            case "thinking", "thinking_delta":
                return self._thought(block, as_text(delta.get("thinking")))
            case "thinking", "signature_delta":
                block.signature = as_text(delta.get("signature"))
            case "text" | "thinking", _:
                return []
            case _, "input_json_delta":
                return self._input(block, as_text(delta.get("partial_json")))
            case _:
                self._append(block, delta)
        return []

    @staticmethod
    def _append(block: _Block, delta: Mapping[str, Any]) -> None:
        """Add what a kind of delta says that is not known: texts go on, all else replaces."""
        for key, value in delta.items():
            known = block.start.get(key)
            if key != "type" and value is not None:
                block.start[key] = known + value if isinstance(known, str) and isinstance(value, str) else value

    def close(self, index: Any) -> list[AIMessageChunk]:
        """End a block."""
        block = self._blocks.pop(_key(index), None)
        if block is None:
            return []
        if block.kind == "tool_use":
            wanted = block.start.get("input")
            return [] if block.pieces or wanted in (None, {}) else self._input(block, as_text(wanted))
        if block.kind == "text":
            return self._text(block, block.text.rest(), None, whole=True)
        if block.kind == "thinking":
            return self._thought_end(block)
        if block.pieces:
            read = _object("".join(block.pieces))
            if read is None:
                return []  # cut amid the arguments of a call that runs at the provider, which so did not run
            block.start["input"] = read
        return [_piece({**without_halves(block.start), "index": block.index})]

    def _text(self, block: _Block, text: str, citations: Any, *, whole: bool = False) -> list[AIMessageChunk]:
        text = text if whole else block.text.feed(text)
        found = [without_halves(one) for one in citations if _is_citation(one)] if isinstance(citations, list) else []
        if not text and not found:
            return []
        if self.plain and not found:
            return [chunk_of(text)]
        made = {"type": "text", "text": text, "index": block.index}
        return [_piece({**made, "citations": found} if found else made)]

    def _thought(self, block: _Block, text: str) -> list[AIMessageChunk]:
        text = block.text.feed(text)
        if block.begun and not text:
            return []
        block.begun = True
        return [_piece({"type": "thinking", "thinking": text, "index": block.index})]

    def _thought_end(self, block: _Block) -> list[AIMessageChunk]:
        made: dict[str, Any] = {"type": "thinking"}
        if rest := block.text.rest():
            made["thinking"] = rest
        if block.signature:
            made["signature"] = whole_text(block.signature)
        return [_piece({**made, "index": block.index})] if len(made) > 1 else []

    # Calls

    def _call(self, block: _Block) -> list[AIMessageChunk]:
        name = given(block.start.get("name"))
        id_ = given(block.start.get("id"))
        if id_ is None or any(call.id == id_ for call in self._assembly.calls):
            id_ = f"toolu_{uuid4().hex[:24]}"
        chunk = self._assembly.feed({"index": block.index, "id": id_, "function": {"name": name}})
        assert chunk is not None  # noqa: S101 a new id always adds something
        self._places.append(block.index)
        chunk["index"] = block.index
        chunk["name"] = self._names.get(name or "", name)
        kept = {key: block.start[key] for key in ("caller", "toolset_name") if block.start.get(key)}
        marker: dict[str, Any] = {
            "type": "tool_use",
            "id": id_,
            "name": chunk["name"],
            "input": {},
            "index": block.index,
        }
        return [_piece(marker | kept, chunk)]

    def _input(self, block: _Block, text: str) -> list[AIMessageChunk]:
        if not text:
            return []
        block.pieces.append(text)
        if block.kind != "tool_use":
            return []
        return self._more(self._assembly.feed({"index": block.index, "function": {"arguments": text}}), block.index)

    def _more(self, chunk: Any, index: int) -> list[AIMessageChunk]:
        """Hand on a further piece of a call, beside the block that says whose it is."""
        if chunk is None:
            return []
        chunk["index"] = index
        return [_piece({"type": "input_json_delta", "index": index}, chunk)]

    def finish(self) -> list[AIMessageChunk]:
        """End the blocks that the server left open."""
        return [chunk for index in list(self._blocks) for chunk in self.close(index)]

    def tails(self, *, cut: bool) -> list[AIMessageChunk]:
        """Give the chunks that spoil the calls that must not run. `cut`: the answer ended at its limit, here."""
        spoilt: list[AIMessageChunk] = []
        if cut and self._places and self._last_kind == "tool_use":
            # Whole answers do not show whether the arguments of a call that was cut are all there.
            slot = self._places[-1]
            spoilt = self._more(self._assembly.feed({"index": slot, "function": {"arguments": "]"}}), slot)
        tails = self._assembly.close(cut=cut)
        places = [self._places[chunk["index"] or 0] for chunk in tails]
        more = [one for chunk, place in zip(tails, places, strict=True) for one in self._more(chunk, place)]
        return spoilt + more
