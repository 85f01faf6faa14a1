"""Replies of scripted models: their forms, and how one is cut into the pieces of a stream."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, cast

from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall, ToolCallChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.utils.json import parse_partial_json

from agentgraph.errors import ConfigurationTypeError
from agentgraph.testing.calls import ai, derived_id
from agentgraph.testing.effects import Pause

__all__ = ["Reply", "Staged", "chunks_of", "cut"]


@dataclass(frozen=True)
class Staged:
    """A reply that waits, or breaks off, after some pieces of its stream; `Gate.hold` and `cut` make it."""

    reply: "Reply"
    pause: Pause | None = None
    error: BaseException | None = None
    after: int = 0


Reply: TypeAlias = (
    str
    | AIMessage
    | ToolCall
    | InvalidToolCall
    | Sequence[ToolCall | InvalidToolCall]
    | BaseException
    | type[BaseException]
    | Staged
    | Callable[..., Any]
)
"""One turn of a model: a text, a message, a tool call or several, an exception to raise, or a function
`(messages, settings)`, sync or async, that returns any of these."""


def cut(reply: Reply, error: BaseException, *, after: int = 1) -> Staged:
    """A reply whose stream breaks off: some pieces come, then the exception. Not streamed, only the exception comes.

    Args:
        reply: the reply that does not come to its end.
        error: the exception to raise.
        after: number of pieces that come before it.

    Returns:
        A reply for a `ScriptedModel` or `FunctionModel`.

    Example:
        >>> from agentgraph.testing import ScriptedModel
        >>> model = ScriptedModel(cut("one two three", ConnectionError("lost"), after=2))
        >>> for piece in model.stream("hi"):
        ...     print(repr(piece.content))
        Traceback (most recent call last):
        ConnectionError: lost
    """
    return Staged(reply, error=error, after=after)


def is_exception(reply: object) -> TypeGuard[BaseException | type[BaseException]]:
    """Whether a reply is to be raised."""
    return isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException))


def check_reply(reply: object) -> None:
    """Refuse what is no reply.

    Args:
        reply: anything.

    Raises:
        ConfigurationTypeError: it has none of the forms of `Reply`, or is a function that takes other arguments.
    """
    if isinstance(reply, Staged):
        check_reply(reply.reply)
    elif callable(reply) and not is_exception(reply):
        check_function(reply)
    elif not (isinstance(reply, (str, AIMessage)) or is_exception(reply) or _are_calls(_as_list(reply))):
        raise ConfigurationTypeError(
            f"{reply!r:.200} is no reply of a model: give a text, an AIMessage, a tool_call(...) or a list of them, "
            "an exception, or a function (messages, settings) that returns one of these. "
            "A whole script that is a list already goes to ScriptedModel(replies=[...])"
        )


def check_function(function: object) -> None:
    """Refuse a function that could not be called with what a model is asked.

    Args:
        function: anything.

    Raises:
        ConfigurationTypeError: it is no function of `(messages, settings)`.
    """
    try:
        inspect.signature(cast("Callable[..., Any]", function)).bind([], {})
    except TypeError as error:
        raise ConfigurationTypeError(
            f"{function!r:.200} cannot reply for a model ({error}): give a function of two arguments, "
            "(messages, settings): the list of messages and a dict with `tools`, `tool_choice`, `stop` and what else "
            "was bound"
        ) from None
    except ValueError:
        return  # some functions of C do not tell their arguments


def to_message(reply: object) -> AIMessage:
    """Bring a finished reply (no function, no exception) into the form of a message of its own.

    Args:
        reply: a text, a message, or one or several tool calls.

    Returns:
        A new message.

    Raises:
        ConfigurationTypeError: it is nothing of the kind.
    """
    check_reply(reply)
    if isinstance(reply, AIMessage):
        return reply.model_copy(deep=True)
    if isinstance(reply, str):
        return AIMessage(content=reply)
    return ai(*_as_list(reply)).model_copy(deep=True)


def _as_list(reply: object) -> Any:
    return [reply] if isinstance(reply, Mapping) else reply


def _are_calls(calls: object) -> bool:
    return isinstance(calls, Sequence) and all(
        isinstance(call, Mapping) and {"name", "args", "id", "type"} <= call.keys() for call in calls
    )


def with_unique_ids(message: AIMessage, used: set[str]) -> AIMessage:
    """Tell calls with derived ids apart from earlier ones; ids that the test chose itself stay, doubled or not.

    Args:
        message: the reply; it is changed.
        used: ids of earlier calls; the new ones are added.
    """
    for call in (*message.tool_calls, *message.invalid_tool_calls):
        stem = derived_id(call["name"] or "unknown", call["args"])
        if call["id"] == stem:
            repetition = 1
            while call["id"] in used:
                repetition += 1
                call["id"] = f"{stem}_{repetition}"
        if call["id"]:
            used.add(call["id"])
    return message


def cut_at_stop(message: AIMessage, stop: Sequence[str] | None) -> AIMessage:
    """End the text before the first stop word, as a server does."""
    text = message.content
    if stop and isinstance(text, str):
        message.content = re.split("|".join(re.escape(word) for word in stop), text, maxsplit=1)[0]
    return message


def chunks_of(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Cut a message into the pieces of a stream: word by word, tool calls with their arguments in parts.

    Joined again by `+` they give the message: with one exception. langchain-core completes arguments that break off, so
    an unreadable call whose text could be completed gets a closing bracket too many.

    Args:
        message: the whole answer.

    Yields:
        The pieces. The last has `chunk_position="last"`, the usage and the other metadata.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> [piece.content for piece in chunks_of(AIMessage("It is sunny."))]
        ['It', ' is', ' sunny.', '']
    """
    for piece in _content_pieces(message.content):
        yield AIMessageChunk(content=piece)
    calls = [(call["name"], call["id"], _as_json(call)) for call in message.tool_calls]
    calls += [(call["name"] or "", call["id"], _unreadable(call["args"] or "")) for call in message.invalid_tool_calls]
    for index, (name, call_id, args) in enumerate(calls):
        for chunk in _call_pieces(name, call_id, args, index):
            yield AIMessageChunk(content="", tool_call_chunks=[chunk])
    yield AIMessageChunk(
        content="",
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )


def _content_pieces(content: str | list[Any]) -> Iterator[Any]:
    if isinstance(content, str):
        yield from re.findall(r"\s*\S+\s*$|\s*\S+|\s+", content)
    else:
        yield from ([block] for block in content)


def _as_json(call: ToolCall) -> str:
    return json.dumps(call["args"], ensure_ascii=False)


def _unreadable(args: str) -> str:
    """A text of arguments that stays unreadable when langchain-core joins the pieces."""
    closings = [quote + bracket for quote in ("", '"', '""') for bracket in "]}"]
    candidates = (args, *(args + closing for closing in closings))
    return next(text for text in candidates if text and not _is_completed(text))


def _is_completed(args: str) -> bool:
    try:
        return isinstance(parse_partial_json(args), dict)
    except ValueError:
        return False


def _call_pieces(name: str, call_id: str | None, args: str, index: int) -> Iterator[ToolCallChunk]:
    yield tool_call_chunk(name=name, id=call_id, args="", index=index)
    third = len(args) // 3 + 1
    for start in range(0, len(args), third):
        yield tool_call_chunk(args=args[start : start + third], index=index)
