"""Pieces of a streamed answer as message chunks: thoughts, words and calls, each by itself. Pure: no I/O.

langchain-core tells the blocks of a chunk apart by their place in it, or by an index. Two kinds of piece in one chunk
would so be taken for others in the next, and the integer index of a call for that of a text. So each kind has chunks of
its own; and where standard blocks are asked for (`output_version="v1"`), these are made here, under indices that are
words and cannot be mistaken for one another.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk

from agentgraph.models.chunks import words_chunk

__all__ = ["V1", "call_block", "piece_chunks"]

V1: Final = "v1"
"""The `output_version` that asks for standard blocks."""

_METADATA: Final = {"output_version": V1}


def call_block(call: ToolCallChunk) -> dict[str, Any]:
    """Give a piece of a call as a standard block.

    Args:
        call: the piece, under the integer index of its call.
    """
    return {**call, "type": "tool_call_chunk", "index": f"lc_tc_{call['index']}"}


def piece_chunks(
    text: str, extras: Mapping[str, Any], calls: Sequence[ToolCallChunk], *, standard: bool
) -> list[AIMessageChunk]:
    """Make the chunks of what one event brings; none where it brings nothing.

    Args:
        text: words of the answer.
        extras: other words by their names in `additional_kwargs`: `reasoning_content`, `refusal`.
        calls: pieces of calls.
        standard: whether content is to be standard blocks.
    """
    thought = {key: words for key, words in extras.items() if key == "reasoning_content"}
    other = {key: words for key, words in extras.items() if key not in thought}
    chunks = [words_chunk("", additional_kwargs=thought)] if thought else []
    if text or other:
        chunks.append(words_chunk(text, additional_kwargs=other))
    if calls:
        chunks.append(AIMessageChunk(content="", tool_call_chunks=list(calls)))
    return [_standard(chunk) for chunk in chunks] if standard else chunks


def _standard(chunk: AIMessageChunk) -> AIMessageChunk:
    blocks: list[str | dict[Any, Any]] = []
    if thought := chunk.additional_kwargs.get("reasoning_content"):
        blocks.append({"type": "reasoning", "reasoning": thought, "index": "lc_rs_0"})
    if chunk.content:
        blocks.append({"type": "text", "text": chunk.content, "index": "lc_txt_0"})
    if refusal := chunk.additional_kwargs.get("refusal"):
        blocks.append({"type": "refusal", "refusal": refusal, "index": "lc_ref_0"})
    blocks += [call_block(call) for call in chunk.tool_call_chunks]
    return chunk.model_copy(update={"content": blocks, "response_metadata": dict(_METADATA)})
