"""From what the wrapped model says, whole or in chunks, to the message that its caller sees."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult

from agentgraph.errors import TruncatedStreamError
from agentgraph.protocols.reading import Delta, TurnReader

__all__ = ["answer_chunks", "explained", "last_chunk", "told_as_read", "whole_answer"]

_UNREADABLE = "unreadable_tool_calls"


def whole_answer(reply: AIMessage, reader: TurnReader | None) -> ChatResult:
    """Read a whole answer of the wrapped model. Without a reader (no tools are offered) it is passed on as it is."""
    if reader is None:
        return ChatResult(generations=[ChatGeneration(message=reply)])
    reader.feed(reply.text)
    reader.close()
    parsed = reader.parsed
    message = AIMessage(
        content=parsed.text,
        tool_calls=parsed.calls,
        invalid_tool_calls=parsed.invalid_calls,
        additional_kwargs=_extras(reply, parsed.reasoning),
        response_metadata=reply.response_metadata,
        usage_metadata=reply.usage_metadata,
        id=_own_id(reply),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def answer_chunks(chunk: AIMessage, reader: TurnReader | None) -> Iterator[ChatGenerationChunk]:
    """Give what a chunk of the wrapped model comes to: nothing as long as it may be part of a mark."""
    if reader is None:
        yield ChatGenerationChunk(message=chunk if isinstance(chunk, AIMessageChunk) else _as_chunk(chunk))
        return
    delta = reader.feed(chunk.text)
    message = _message(delta, _extras(chunk, delta.reasoning))
    message.usage_metadata = chunk.usage_metadata
    message.response_metadata = chunk.response_metadata
    message.id = _own_id(chunk)
    if delta or message.usage_metadata or message.response_metadata or message.additional_kwargs:
        yield ChatGenerationChunk(message=message)


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    """A model that cannot stream gives its whole message where a chunk is expected."""
    return AIMessageChunk(**message.model_dump(exclude={"type"}), chunk_position="last")


def last_chunk(reader: TurnReader) -> ChatGenerationChunk:
    """Give what was held back until the answer ended, marked as the last chunk."""
    delta = reader.close()
    message = _message(delta, {"reasoning_content": delta.reasoning} if delta.reasoning else {})
    message.chunk_position = "last"
    return ChatGenerationChunk(message=message)


@contextmanager
def told_as_read(reader: TurnReader | None) -> Iterator[None]:
    """Have an error that holds what came of an answer hold it as it was read, not in the protocol's own words."""
    try:
        yield
    except TruncatedStreamError as error:
        if reader is not None and error.partial is not None:
            reader.close()
            parsed = reader.parsed
            error.partial = AIMessageChunk(content=parsed.text, tool_calls=parsed.calls, id=error.partial.id)
        raise


def _message(delta: Delta, extras: dict[str, Any]) -> AIMessageChunk:
    if delta.errors:
        extras[_UNREADABLE] = {
            call_id: {"error": error, "closer": delta.closers[call_id]} for call_id, error in delta.errors.items()
        }
    return AIMessageChunk(content=delta.text, tool_call_chunks=delta.chunks, additional_kwargs=extras)


def _extras(message: AIMessage, thinking: str) -> dict[str, Any]:
    """Keep what the wrapped model says beside its text, and gather its thinking, wherever it put it."""
    extras = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    blocks = message.content if isinstance(message.content, list) else []
    found = [block.get("thinking") or block.get("reasoning") or "" for block in blocks if isinstance(block, dict)]
    reasoning = "".join([str(extras.get("reasoning_content") or ""), *map(str, found), thinking])
    return {**extras, "reasoning_content": reasoning} if reasoning else extras


def _own_id(message: AIMessage) -> str | None:
    """Give a provider's id of the message; ids that langchain-core made belong to the inner call."""
    return None if message.id is None or message.id.startswith("lc_") else message.id


def explained(result: LLMResult) -> LLMResult:
    """Tell of unreadable calls what is wrong and what the model wrote; a sum of chunks cannot carry it there."""
    for generation in chain.from_iterable(result.generations):
        message = generation.message if isinstance(generation, ChatGeneration) else None
        if isinstance(message, AIMessage) and _UNREADABLE in message.additional_kwargs:
            known = message.additional_kwargs.pop(_UNREADABLE)
            for call in message.invalid_tool_calls:
                told = known.get(call["id"], {})
                call["error"] = told.get("error")
                call["args"] = (call["args"] or "").removesuffix(told.get("closer", ""))
    return result
