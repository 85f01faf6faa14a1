"""Pieces of a streamed answer as langchain-core's objects, made without being validated. Pure: no I/O.

A codec makes one for each word of an answer, out of what it has checked already, and validating that once more costs
more than reading the word does. The objects are made of their fields, as pydantic's `model_construct` does it, and are
in every field what the constructors make; a langchain-core whose chunks have fields that this module does not know is
left its constructors.
"""

from typing import Any, Final, TypeVar

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

__all__ = ["generation_of", "words_chunk"]

C = TypeVar("C", AIMessageChunk, ChatGenerationChunk)

_set: Final = object.__setattr__  # the classes' own would validate
_Text: Final = type(AIMessageChunk(content="").text)
_MESSAGE_FIELDS: Final[dict[str, Any]] = dict(AIMessageChunk(content=""))
_GENERATION_FIELDS: Final[dict[str, Any]] = dict(ChatGenerationChunk(message=AIMessageChunk(content="")))
# Two chunks must not share a list or a dict, so each has to have its own of every one there is.
_KNOWN: Final = {name for name, value in _MESSAGE_FIELDS.items() if isinstance(value, dict | list)} == {
    "additional_kwargs",
    "invalid_tool_calls",
    "response_metadata",
    "tool_call_chunks",
    "tool_calls",
} and set(_GENERATION_FIELDS) == {"generation_info", "message", "text", "type"}


def words_chunk(content: str | list[str | dict[Any, Any]], **fields: dict[str, Any]) -> AIMessageChunk:
    """Make what `AIMessageChunk(content=content, **fields)` would.

    Args:
        content: a text or blocks.
        fields: `additional_kwargs` (without raw tool calls) and `response_metadata`, dicts that are the chunk's own.

    Example:
        >>> words_chunk("Hi") == AIMessageChunk(content="Hi")
        True
    """
    if not _KNOWN:
        return AIMessageChunk(content=content, **fields)  # type: ignore[arg-type] # the two fields named above are dicts
    values = _MESSAGE_FIELDS.copy()
    values["content"] = content
    values["additional_kwargs"] = {}
    values["response_metadata"] = {}
    values["tool_calls"] = []
    values["invalid_tool_calls"] = []
    values["tool_call_chunks"] = []
    values.update(fields)
    return _made(AIMessageChunk, values, {"content", *fields}, {})


def generation_of(message: AIMessageChunk) -> ChatGenerationChunk:
    """Make what `ChatGenerationChunk(message=message)` would.

    Args:
        message: a chunk; one whose content is blocks takes the constructor, which knows what is text among them.
    """
    text = message.content
    if not _KNOWN or not isinstance(text, str):
        return ChatGenerationChunk(message=message)
    values = _GENERATION_FIELDS.copy()
    values["message"] = message
    values["text"] = _Text(text)
    return _made(ChatGenerationChunk, values, {"message", "text"}, None)


def _made(kind: type[C], values: dict[str, Any], given: set[str], extra: dict[str, Any] | None) -> C:
    chunk = object.__new__(kind)
    _set(chunk, "__dict__", values)
    _set(chunk, "__pydantic_fields_set__", given)
    _set(chunk, "__pydantic_extra__", extra)
    _set(chunk, "__pydantic_private__", None)
    return chunk
