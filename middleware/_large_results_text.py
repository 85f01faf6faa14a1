"""The texts of results: finding them, replacing them, and reading parts of them. Pure functions."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from langgraph.types import Command

__all__ = ["id_of", "messages_in", "part", "replaced", "text_of", "up_to_line", "with_text"]

_NEAR = 80
_PLACES = 20
_BETWEEN = "\n\n"


def messages_in(result: Any) -> Iterator[ToolMessage]:
    """The tool messages of what a tool call gave: a message, a command, or a list of these."""
    if isinstance(result, ToolMessage):
        yield result
    elif isinstance(result, list | tuple):
        for one in result:
            yield from messages_in(one)
    elif isinstance(result, Command):
        for key, value in _pairs(result):
            if key == "messages":
                yield from messages_in(value)


def replaced(result: Any, old: ToolMessage, new: ToolMessage) -> Any:
    """The same result with one message in place of another; everything else is the same object."""
    if result is old:
        return new
    if isinstance(result, list | tuple):
        return [replaced(one, old, new) for one in result]
    if isinstance(result, Command) and any(one is old for one in messages_in(result)):
        pairs = [(key, replaced(value, old, new) if key == "messages" else value) for key, value in _pairs(result)]
        return Command(graph=result.graph, update=pairs, resume=result.resume, goto=result.goto)
    return result


def _pairs(command: Command[Any]) -> list[tuple[str, Any]]:
    return list(command._update_as_tuples())  # noqa: SLF001 - langgraph's own reading of all forms of an update


def text_of(message: ToolMessage) -> str:
    """A message's text; the texts of a list of blocks, with a blank line between them."""
    if isinstance(message.content, str):
        return message.content
    return _BETWEEN.join(text for text in map(_block_text, message.content) if text is not None)


def with_text(content: Any, text: str) -> Any:
    """The content with this text in place of all its texts, where the first of them stood."""
    if isinstance(content, str):
        return text
    kept: list[Any] = []
    placed = False
    for block in content:
        if _block_text(block) is None:
            kept.append(block)
        elif not placed:
            placed = True
            kept.append(text if isinstance(block, str) else {**block, "text": text})
    return kept


def _block_text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def id_of(message: ToolMessage, text: str) -> str:
    """The id of a result: the same for the same answer to the same call, so that a repeated step keeps it once."""
    made_of = f"{message.tool_call_id}\n{text}".encode("utf-8", "surrogatepass")
    return f"r{hashlib.blake2b(made_of, digest_size=8).hexdigest()}"


def up_to_line(text: str, size: int) -> str:
    """The beginning of a text, up to the end of the last line where that costs no more than a fifth of it."""
    start = text[:size]
    end = start.rfind("\n") + 1
    return start[:end] if end > size * 4 // 5 else start


def part(text: str | None, id: str, offset: int, find: str, size: int) -> str:  # noqa: A002 - the field's word for it
    """What a reading gives.

    Args:
        text: the kept text; None where there is none.
        id: what was asked for.
        offset: where the part begins, in characters.
        find: list the places that hold this text instead.
        size: the most that is given, in characters.

    Raises:
        ToolException: there is no such result, or nothing at that offset.
    """
    if text is None:
        raise ToolException(f"No result is kept under the id {id[:50]!r} in this conversation. Call the tool again.")
    if find:
        return _places(text, find, size)
    if not 0 <= offset < max(len(text), 1):
        raise ToolException(f"offset={offset} is outside of the result, which has {len(text)} characters.")
    given = text[offset : offset + size]
    end = offset + len(given)
    if end == len(text):
        return f"{given}\n[This is the end of the result.]"
    return f"{given}\n[{len(text) - end} characters are left; read on with offset={end}.]"


def _places(text: str, find: str, size: int) -> str:
    lines: list[str] = []
    left = size
    found = re.finditer(re.escape(find), text, re.IGNORECASE)
    for match in found:
        near = text[max(match.start() - _NEAR, 0) : match.end() + _NEAR].replace("\n", " ")
        line = f"offset {match.start()}: {near[:left]}"
        left -= len(line)
        if left <= 0 or len(lines) == _PLACES:
            lines.append("[There are more; search for a longer text.]")
            break
        lines.append(line)
    return "\n".join(lines) or f"Nothing in the {len(text)} characters of the result holds {find[:_NEAR]!r}."
