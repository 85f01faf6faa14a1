"""Parts of Gemini's answers, put together into content, calls and signatures. Pure: no I/O.

A text that nobody signed, before anything else came, is plain content, so that an ordinary answer is an ordinary
string. Everything else is a block with an index: pieces of one text have one index and are added up by it, and a part
that is signed is a block of its own, because its signature has to go back on exactly that part.

langchain-core reads each chunk by itself too, by the provider that it names. So every chunk names it, but for a call
that cannot be read: of Gemini's chunks only calls that can be read are shown, of nobody's all.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk

from agentgraph.models.chunks import words_chunk
from agentgraph.models.gemini_parts import OUTCOMES, PART_SIGNATURES, PROVIDER, RAW_PART
from agentgraph.models.gemini_request import SIGNATURES
from agentgraph.models.json_text import SplitText, whole_text, without_halves
from agentgraph.models.openai_blocks import piece_chunks
from agentgraph.models.openai_tool_calls import ToolCallAssembly, given

__all__ = ["PartAssembly"]

# What an answer cannot hold, or holds in a form that cannot be read: sent back, it would break the pairs of a history.
_NOT_SAID: Final = frozenset({"functionCall", "functionResponse"})
_CALLED: Final = re.compile(r"default_api\.(\w{1,64})|\b(?!print\b)([A-Za-z_]\w{0,63})\s*\(")


class PartAssembly:
    """Makes message chunks of parts.

    Args:
        names: names of tools as they were sent -> as they are called here, for those that had to be changed.
        standard: whether the chunks are to be read as standard blocks (`output_version="v1"`).
    """

    def __init__(self, names: Mapping[str, str], *, standard: bool = False) -> None:
        self._names = names
        self._standard = standard
        self._calls = ToolCallAssembly()
        self._text = SplitText()
        # What the next unsigned piece may be added to: the kind of the open block and its index (None: plain content).
        self._open: tuple[str, int | None] = ("text", None)
        self._blocks = 0
        self._code_id: str | None = None

    def feed(self, part: Mapping[str, Any]) -> list[AIMessageChunk]:
        """Take the next part."""
        signature = given(part.get("thoughtSignature"))
        if isinstance(part.get("functionCall"), Mapping):
            return self._call(part["functionCall"], signature)
        if isinstance(part.get("text"), str):
            return self._words("thinking" if part.get("thought") is True else "text", part["text"], signature)
        block = self._block(part)
        if block is not None:
            return self._closed(block, signature)
        if set(part) <= {"text", "thought", "thoughtSignature"}:
            return self._words("text", "", signature)
        if _NOT_SAID & part.keys():
            return []
        return self._closed({"type": RAW_PART, "part": without_halves(dict(part))}, None)

    def malformed(self, told: str) -> list[AIMessageChunk]:
        """Take a call that the server itself could not read, as far as it tells of it: an invalid call."""
        found = _CALLED.search(told)
        name = (found[1] or found[2]) if found else None
        return self._call({"name": name, "args": told or "the server did not say which call it was"}, None)

    def close(self, *, cut: bool) -> list[AIMessageChunk]:
        """Give the chunks that complete the answer."""
        tails = self._calls.close(cut=cut)
        return [*self._rest(), *self._unread(tails)]

    # Words

    def _words(self, kind: str, text: str, signature: str | None) -> list[AIMessageChunk]:
        if signature is not None:
            block = {"type": kind, kind: whole_text(text)}
            return self._closed(block, signature)
        rest: list[AIMessageChunk] = []
        if text and self._open[0] != kind:
            rest = self._opened(kind)
        said = self._text.feed(text)
        return [*rest, self._said(said)] if said else rest

    def _opened(self, kind: str) -> list[AIMessageChunk]:
        """Begin a block of words; returns what was left of the last one."""
        rest = self._rest()
        self._open = (kind, self._blocks if kind != "text" or self._blocks else None)
        self._blocks += self._open[1] is not None
        return rest

    def _said(self, text: str) -> AIMessageChunk:
        kind, index = self._open
        return _chunk(text if index is None else [{"type": kind, kind: text, "index": _index(index)}])

    def _rest(self) -> list[AIMessageChunk]:
        rest = self._text.rest()
        return [self._said(rest)] if rest else []

    # Other blocks

    def _closed(self, block: dict[str, Any], signature: str | None) -> list[AIMessageChunk]:
        """Give a block that nothing is added to; words behind it are another block."""
        rest = self._rest()
        self._open = ("", None)
        index, self._blocks = _index(self._blocks), self._blocks + 1
        if signature is None:
            return [*rest, _chunk([{**block, "index": index}])]
        if block["type"] == "thinking":
            return [*rest, _chunk([{**block, "signature": signature, "index": index}])]
        if block["type"] == "text":
            return [*rest, _chunk([{**block, "extras": {"signature": signature}, "index": index}])]
        # langchain-core's standard form of other blocks has no place for it.
        return [*rest, _chunk([{**block, "index": index}], additional_kwargs={PART_SIGNATURES: {index: signature}})]

    def _block(self, part: Mapping[str, Any]) -> dict[str, Any] | None:
        if isinstance(code := part.get("executableCode"), Mapping):
            self._code_id = given(code.get("id")) or f"code_{uuid4().hex[:24]}"
            language = str(code.get("language") or "PYTHON").lower()
            text = whole_text(str(code.get("code") or ""))
            return {"type": "executable_code", "executable_code": text, "language": language, "id": self._code_id}
        if isinstance(result := part.get("codeExecutionResult"), Mapping):
            outcome = OUTCOMES.index(result["outcome"]) if result.get("outcome") in OUTCOMES else 0
            id_ = given(result.get("id")) or self._code_id or ""
            output = whole_text(str(result.get("output") or ""))
            kind = "code_execution_result"
            return {"type": kind, kind: output, "outcome": outcome, "tool_call_id": id_}
        if isinstance(data := part.get("inlineData"), Mapping):
            return _inline(str(data.get("mimeType") or ""), str(data.get("data") or ""))
        if isinstance(file := part.get("fileData"), Mapping):
            known = {"file_uri": file.get("fileUri"), "mime_type": file.get("mimeType")}
            return {"type": "file_data"} | {key: str(value) for key, value in known.items() if value}
        return None

    # Calls

    def _call(self, call: Mapping[str, Any], signature: str | None) -> list[AIMessageChunk]:
        arguments = call.get("args")
        if call.get("partialArgs") or call.get("willContinue"):
            # Arguments in pieces were not asked for; with some of them missing the call must not run.
            arguments = [arguments, call.get("partialArgs")]
        raw: dict[str, Any] = {
            "index": len(self._calls.calls),
            "id": self._own_id(given(call.get("id"))),
            "function": {"name": given(call.get("name")), "arguments": _as_json(arguments)},
        }
        chunk = self._calls.feed(raw)
        assert chunk is not None  # noqa: S101 a new id always says something
        chunk["name"] = self._names.get(chunk["name"] or "", chunk["name"])
        if self._calls.calls[-1].fault(cut=False):
            return self._unread([chunk])
        return [_chunk("", tool_call_chunks=[chunk], additional_kwargs=_signed(chunk, signature))]

    def _unread(self, pieces: Sequence[ToolCallChunk]) -> list[AIMessageChunk]:
        """Give pieces of calls that cannot be read, which langchain-core would not look for in Gemini's chunks."""
        return piece_chunks("", {}, pieces, standard=self._standard)

    def _own_id(self, id_: str | None) -> str:
        """Give a call an id: the server's, unless there is none, or another call has it."""
        if id_ is None or any(call.id == id_ for call in self._calls.calls):
            return f"call_{uuid4().hex[:24]}"
        return id_


def _chunk(content: str | list[str | dict[str, Any]], **fields: Any) -> AIMessageChunk:
    metadata = {"model_provider": PROVIDER}
    if not fields:
        return words_chunk(content, response_metadata=metadata)
    return AIMessageChunk(content=content, response_metadata=metadata, **fields)


def _index(number: int) -> str:
    """Give the index of a block, of a kind that no index of a call is taken for."""
    return f"lc_part_{number}"


def _as_json(arguments: Any) -> str:
    """Write arguments, which come as an object, as the text that langchain-core reads; none are an empty object."""
    whole = without_halves({} if arguments in (None, "") else arguments)
    try:
        return whole if isinstance(whole, str) else json.dumps(whole)
    except RecursionError:
        return "nested too deep"


def _signed(chunk: ToolCallChunk, signature: str | None) -> dict[str, Any]:
    return {} if signature is None else {SIGNATURES: {chunk["id"]: signature}}


def _inline(mime_type: str, data: str) -> dict[str, Any]:
    kind = mime_type.partition("/")[0]
    if kind == "image":
        # The form in which langchain-core looks for an image of Gemini's.
        return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
    return {"type": kind if kind in {"audio", "video"} else "file", "base64": data, "mime_type": mime_type}
