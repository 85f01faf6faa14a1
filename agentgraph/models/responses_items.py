"""Items of a Responses answer, put together from events into message chunks. Pure: no I/O.

Deltas belong to an item by its place in the output or, from servers that do not say that, by its id; the place counts
first, because gateways make up a new id for each event. A block begins when something of it is there, and an item that
comes whole at its end gives what its pieces had not given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk

from agentgraph.models.chunks import words_chunk
from agentgraph.models.json_text import SplitText, whole_text, without_halves
from agentgraph.models.openai_tool_calls import ToolCallAssembly, ToolCallDraft, as_text, given, read_arguments
from agentgraph.models.responses_history import CUSTOM_INPUT

__all__ = ["ItemAssembly"]

_INCOMPLETE: Final = "] <- this call did not come to its end"
_CONTRADICTED: Final = "] <- the server ended this call with other arguments than it had sent"
# Event -> (kind of piece, key of its number within the item).
_DELTAS: Final = {
    "response.output_text.delta": ("text", "content_index"),
    "response.refusal.delta": ("refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content_index"),
}
_MESSAGE_PARTS: Final = {"output_text": "text", "text": "text", "refusal": "refusal"}
_MESSAGE_KINDS: Final = frozenset({"text", "refusal"})

Contradiction = Callable[[str, str], Exception]


@dataclass(slots=True)
class _Piece:
    """A text of an item while it comes."""

    kind: str
    number: int
    slot: int
    said: list[str] = field(default_factory=list)
    halves: SplitText = field(default_factory=SplitText)


@dataclass(slots=True)
class _Item:
    """An item while it comes."""

    kind: str = ""
    id: str | None = None
    slot: int | None = None
    pieces: dict[tuple[str, int], _Piece] = field(default_factory=dict)
    call: ToolCallDraft | None = None
    done: bool = False
    # The slots whose block has the id already.
    named: set[int] = field(default_factory=set)


class ItemAssembly:
    """The items of one answer.

    Args:
        names: names of tools as they were sent -> as they are called here.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}
        self._slots = 0
        self._calls = ToolCallAssembly()
        self._call_slots: dict[int, int] = {}
        self.logprobs: list[Any] = []

    @property
    def calls(self) -> list[ToolCallDraft]:
        """The calls as far as they came."""
        return self._calls.calls

    def feed(self, kind: str, body: Mapping[str, Any], contradiction: Contradiction) -> list[AIMessageChunk]:
        """Take an event; those of other types give nothing.

        Args:
            kind: the event's type.
            body: the event.
            contradiction: makes the error of a text whose end is not that of its pieces.
        """
        delta = body.get("delta")
        if kind in _DELTAS and isinstance(delta, str):
            name, key = _DELTAS[kind]
            number = body.get(key)
            return self._say(self._item(body), name, number if isinstance(number, int) else 0, delta)
        if kind == "response.function_call_arguments.delta" and isinstance(delta, str):
            return self._call(self._item(body), {}, delta)
        raw = body.get("item")
        if kind == "response.output_item.added" and isinstance(raw, dict):
            return self._open(self._item(body, raw, opens=True), raw)
        if kind == "response.output_item.done" and isinstance(raw, dict):
            return self._close_item(self._item(body, raw), without_halves(raw), contradiction)
        return []

    def rest(self, output: Any, contradiction: Contradiction) -> list[AIMessageChunk]:
        """Take the whole output at the end of the answer: what the events before did not bring."""
        chunks: list[AIMessageChunk] = []
        for place, raw in enumerate(output if isinstance(output, list) else ()):
            if not isinstance(raw, dict):
                continue
            item = self._by_index.get(place) or self._by_id.get(str(raw.get("id"))) or self._at(place, raw)
            if not item.done:
                chunks += self._close_item(item, raw, contradiction)
        return chunks

    def close(self, *, cut: bool) -> list[AIMessageChunk]:
        """Give the chunks that complete what is open: halves of characters, missing ids, calls that must not run."""
        chunks = [
            self._piece_chunk(item, piece, rest)
            for item in self._items
            for piece in item.pieces.values()
            if (rest := piece.halves.rest())
        ]
        for item in self._items if cut else ():
            if item.call is not None and not item.done and item.call.fault(cut=False) is None:
                chunks += self._call(item, {}, _INCOMPLETE)
        for tail in self._calls.close(cut=cut):
            place = {"call_id": tail["id"]} if tail["id"] else {}
            slot = self._call_slots.get(tail["index"] or 0, 0)
            block = {"type": "function_call", **place, "index": slot}
            chunks.append(AIMessageChunk(content=[block], tool_call_chunks=[tail]))
        return chunks

    # Which item

    def _item(self, body: Mapping[str, Any], raw: Mapping[str, Any] | None = None, *, opens: bool = False) -> _Item:
        index = body.get("output_index")
        id_ = given((raw or {}).get("id")) or given(body.get("item_id"))
        if isinstance(index, int):
            found = self._by_index.get(index)
            # Some gateways give one place to all items.
            found = None if found is not None and found.done and opens else found
        elif id_ is not None:
            found = self._by_id.get(id_)
        else:
            found = self._items[-1] if self._items and not (opens or self._items[-1].done) else None
        item = found or self._new()
        if isinstance(index, int):
            self._by_index[index] = item
        if id_ is not None:
            self._by_id.setdefault(id_, item)
        if raw is not None:
            item.kind = item.kind or str(raw.get("type"))
            item.id = item.id or given(raw.get("id"))
        return item

    def _new(self) -> _Item:
        item = _Item()
        self._items.append(item)
        return item

    def _at(self, place: int, raw: Mapping[str, Any]) -> _Item:
        """Find the item at a place of the output, for servers that say neither places nor ids in their events."""
        kind = str(raw.get("type"))
        if not self._by_index and place < len(self._items) and self._items[place].kind in {"", kind}:
            found = self._items[place]
        else:
            found = self._new()
        found.kind, found.id = kind, found.id or given(raw.get("id"))
        return found

    def _slot(self, item: _Item) -> int:
        if item.slot is None:
            item.slot = self._next_slot()
        return item.slot

    def _next_slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    # Texts

    def _say(self, item: _Item, kind: str, number: int, text: str) -> list[AIMessageChunk]:
        if not text:
            return []
        piece = item.pieces.get((kind, number))
        if piece is None:
            slot = self._next_slot() if kind in _MESSAGE_KINDS else self._slot(item)
            piece = item.pieces[kind, number] = _Piece(kind, number, slot)
        whole = piece.halves.feed(text)
        return [self._piece_chunk(item, piece, whole)] if whole else []

    def _piece_chunk(self, item: _Item, piece: _Piece, text: str) -> AIMessageChunk:
        piece.said.append(text)
        kind = "reasoning" if piece.kind == "summary" else piece.kind
        if piece.kind == "summary":
            said: dict[str, Any] = {"summary": [{"type": "summary_text", "text": text, "index": piece.number}]}
        else:
            said = {kind: text, **({"summary": []} if kind == "reasoning" else {})}
        return self._block(item, piece.slot, {"type": kind, **said})

    def _block(self, item: _Item, slot: int, block: dict[str, Any], **chunk: Any) -> AIMessageChunk:
        """Make the chunk of a block; the item's id is said once for each."""
        named = {}
        if item.id and slot not in item.named:
            item.named.add(slot)
            named = {"id": whole_text(item.id)}
        content: list[str | dict[Any, Any]] = [{**block, **named, "index": slot}]
        return AIMessageChunk(content=content, **chunk) if chunk else words_chunk(content)

    def _complete(
        self, item: _Item, key: tuple[str, int], final: Any, contradiction: Contradiction
    ) -> list[AIMessageChunk]:
        """Give what of a text the pieces had not brought."""
        if not isinstance(final, str):
            return []
        piece = item.pieces.get(key)
        said = "".join(piece.said) if piece else ""
        missing = _missing(said, final)
        if missing is None:
            raise contradiction(said, final)
        if piece is not None:
            # A half that waits for its other one is part of what is missing.
            piece.halves = SplitText()
        return self._say(item, *key, missing)

    # Whole items

    def _open(self, item: _Item, raw: Mapping[str, Any]) -> list[AIMessageChunk]:
        return self._call(item, raw, "") if raw.get("type") == "function_call" else []

    def _close_item(self, item: _Item, raw: Mapping[str, Any], contradiction: Contradiction) -> list[AIMessageChunk]:
        if item.done:
            return []
        item.done = True
        kind = str(raw.get("type"))
        if kind == "message":
            return self._close_message(item, raw, contradiction)
        if kind == "reasoning":
            return self._close_reasoning(item, raw, contradiction)
        if kind == "function_call":
            return self._close_call(item, raw)
        if kind == "custom_tool_call":
            text = orjson.dumps({CUSTOM_INPUT: as_text(raw.get("input"))}).decode()
            return self._call(item, raw, text + (_INCOMPLETE if raw.get("status") == "incomplete" else ""))
        known = {key: value for key, value in raw.items() if key not in {"id", "index"} and value is not None}
        return [self._block(item, self._slot(item), known)]

    def _close_message(self, item: _Item, raw: Mapping[str, Any], contradiction: Contradiction) -> list[AIMessageChunk]:
        chunks: list[AIMessageChunk] = []
        for number, part in enumerate(_dicts(raw.get("content"))):
            kind = _MESSAGE_PARTS.get(str(part.get("type")))
            if kind is None:
                continue
            chunks += self._complete(item, (kind, number), part.get(kind), contradiction)
            piece = item.pieces.get((kind, number))
            self.logprobs += _dicts(part.get("logprobs"))
            extras = {"annotations": _dicts(part.get("annotations")), "phase": raw.get("phase")}
            known = {key: value for key, value in extras.items() if value}
            if piece is not None and known:
                chunks.append(self._block(item, piece.slot, {"type": kind, kind: "", **known}))
        return chunks

    def _close_reasoning(
        self, item: _Item, raw: Mapping[str, Any], contradiction: Contradiction
    ) -> list[AIMessageChunk]:
        chunks: list[AIMessageChunk] = []
        for kind, key in (("summary", "summary"), ("reasoning", "content")):
            for number, part in enumerate(_dicts(raw.get(key))):
                chunks += self._complete(item, (kind, number), part.get("text"), contradiction)
        encrypted = given(raw.get("encrypted_content"))
        if item.pieces and not encrypted:
            return chunks
        # The empty summary has langchain-core put this chunk to the block's others.
        block = {"type": "reasoning", "summary": [], **({"encrypted_content": encrypted} if encrypted else {})}
        return [*chunks, self._block(item, self._slot(item), block)]

    # Calls

    def _close_call(self, item: _Item, raw: Mapping[str, Any]) -> list[AIMessageChunk]:
        final = as_text(raw.get("arguments"))
        missing = _missing_arguments(item.call, "" if final == "null" else final)
        if raw.get("status") == "incomplete":
            missing += _INCOMPLETE
        return self._call(item, raw, missing)

    def _call(self, item: _Item, raw: Mapping[str, Any], text: str) -> list[AIMessageChunk]:
        slot = self._slot(item)
        fresh = item.call is None
        call_id = given(raw.get("call_id")) or given(raw.get("id"))
        name = given(raw.get("name"))
        named = {"name": name} if name and (fresh or not (item.call and item.call.name)) else {}
        delta = {"index": slot, "function": {**named, "arguments": text}}
        if call_id and (item.call is None or item.call.id is None):
            delta["id"] = call_id
        chunk = self._calls.feed(delta)
        if item.call is None and self._calls.calls:
            item.call = self._calls.calls[-1]
            self._call_slots[item.call.slot] = slot
        return [self._call_chunk(item, slot, raw, chunk)] if chunk is not None else []

    def _call_chunk(self, item: _Item, slot: int, raw: Mapping[str, Any], chunk: ToolCallChunk) -> AIMessageChunk:
        chunk["name"] = self._names.get(chunk["name"] or "", chunk["name"])
        place: dict[str, Any] = {"type": str(raw.get("type") or "function_call")}
        if chunk["id"]:
            place["call_id"] = chunk["id"]
        if chunk["name"]:
            place["name"] = chunk["name"]
            # A tool that was looked for is called by it, and the call is only taken back with it.
            if given(raw.get("namespace")):
                place["namespace"] = whole_text(raw["namespace"])
        return self._block(item, slot, place, tool_call_chunks=[chunk])


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _missing(said: str, final: str) -> str | None:
    """Give what `said` lacks of `final`, None where they contradict each other. White space around is no matter."""
    if final.startswith(said):
        return final[len(said) :]
    return "" if final.strip() in said else None


def _missing_arguments(call: ToolCallDraft | None, final: str) -> str:
    """Give what a call lacks of its final arguments, or what spoils it where they contradict each other."""
    said = call.arguments if call is not None else ""
    if final.startswith(said):
        return final[len(said) :]
    if not final or read_arguments(said) == read_arguments(final):
        return ""
    return _CONTRADICTED
