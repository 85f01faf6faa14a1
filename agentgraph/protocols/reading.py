"""From a protocol's events to deltas of a message: thinking set apart, arguments checked, ids given.

Every protocol is read through here, whole and streamed alike, so the two cannot differ.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import uuid4

from langchain_core.messages import InvalidToolCall, ToolCall, ToolCallChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.messages.tool import tool_call_chunk as call_chunk

from agentgraph.errors import ConfigurationError
from agentgraph.models.json_text import parse_sendable
from agentgraph.protocols.base import (
    CallArguments,
    CallStart,
    Event,
    Parsed,
    ReasoningDelta,
    StreamParser,
    TextDelta,
    TextProtocol,
    ToolOffer,
)

__all__ = ["Delta", "ThinkingFilter", "TurnReader", "new_call_id", "parse"]

_THINKING = {"<think>": "</think>", "<thinking>": "</thinking>"}


def new_call_id() -> str:
    """Make an id for a tool call: "call_" and 24 hexadecimal digits."""
    return f"call_{uuid4().hex[:24]}"


@dataclass(slots=True)
class Delta:
    """What one piece of an answer adds to the message.

    Attributes:
        text: for the user.
        reasoning: the model's thinking.
        chunks: of the calls.
        errors: id of an unreadable call -> what is wrong with it.
        closers: id of an unreadable call -> what was put behind its arguments in the chunks, see `_break_off`.
    """

    text: str = ""
    reasoning: str = ""
    chunks: list[ToolCallChunk] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    closers: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning or self.chunks)


class ThinkingFilter:
    """Sets think blocks at the start of an answer apart from the rest, however the text is cut.

    Only at the start: behind it, `<think>` may be what the answer is about.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end = ""
        self._past = False

    def feed(self, text: str) -> tuple[str, str]:
        """Take the next piece; return (thinking, rest)."""
        thinking: list[str] = []
        self._held += text
        while not self._past and self._step(thinking):
            pass
        return "".join(thinking), self._release() if self._past else ""

    def close(self) -> tuple[str, str]:
        """Return what was held back, as (thinking, rest)."""
        held = self._release()
        return (held, "") if self._end else ("", held)

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held

    def _step(self, thinking: list[str]) -> bool:
        if self._end:
            return self._inside(thinking)
        self._held = self._held.lstrip()
        for start, end in _THINKING.items():
            if self._held.startswith(start):
                self._held, self._end = self._held[len(start) :], end
                return True
        self._past = not any(start.startswith(self._held) for start in _THINKING)
        return False

    def _inside(self, thinking: list[str]) -> bool:
        before, end, after = self._held.partition(self._end)
        if end:
            thinking.append(before)
            self._held, self._end = after, ""
            return True
        # The end mark may be cut: hold back what could be its beginning.
        kept = next((n for n in range(len(self._end) - 1, 0, -1) if self._held.endswith(self._end[:n])), 0)
        cut = len(self._held) - kept
        thinking.append(self._held[:cut])
        self._held = self._held[cut:]
        return False


class TurnReader:
    """Reads one answer: piece by piece with `feed`, then `close`; `parsed` holds the whole afterwards.

    Args:
        protocol: the protocol in which the answer is written.
        offer: what was offered to the model for this turn.
        new_id: makes the ids of the calls.
    """

    def __init__(self, protocol: TextProtocol, offer: ToolOffer, new_id: Callable[[], str] = new_call_id) -> None:
        self._protocol = protocol
        self._parser: StreamParser = protocol.parser(offer)
        self._thinking = ThinkingFilter()
        self._new_id = new_id
        self._index = -1
        self._id = ""
        self._name = ""
        self._args: list[str] | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._invalid: list[InvalidToolCall] = []

    def feed(self, text: str) -> Delta:
        """Take the next piece of the answer; return what it adds."""
        thinking, rest = self._thinking.feed(text)
        return self._apply([ReasoningDelta(thinking), *(self._parser.feed(rest) if rest else ())])

    def close(self) -> Delta:
        """The answer has ended; return what was held back."""
        thinking, rest = self._thinking.close()
        events: list[Event] = [ReasoningDelta(thinking)]
        if rest:
            events += self._parser.feed(rest)
        events += self._parser.close()
        delta = self._apply(events)
        if self._args is not None:
            self._end("the answer ends in the middle of the call.", delta)
        return delta

    @property
    def parsed(self) -> Parsed:
        """The answer as far as it was read."""
        return Parsed("".join(self._text), self._calls, self._invalid, "".join(self._reasoning))

    def _apply(self, events: list[Event]) -> Delta:
        delta = Delta()
        for event in events:
            match event:
                case TextDelta(text):
                    self._text.append(text)
                    delta.text += text
                case ReasoningDelta(text):
                    self._reasoning.append(text)
                    delta.reasoning += text
                case CallStart(name):
                    self._start(name, delta)
                case CallArguments(text):
                    self._argue(text, delta)
                case _:
                    self._end(event.error, delta)
        return delta

    def _start(self, name: str, delta: Delta) -> None:
        if self._args is not None:
            self._misordered("CallStart inside an open call")
        self._index += 1
        self._id, self._name, self._args = self._new_id(), name, []
        delta.chunks.append(call_chunk(name=name, args="", id=self._id, index=self._index))

    def _argue(self, text: str, delta: Delta) -> None:
        if self._args is None:
            self._misordered("CallArguments without an open call")
        self._args.append(text)
        last = delta.chunks[-1] if delta.chunks else None
        if last is not None and last["index"] == self._index:
            # Two pieces of one call in one chunk would be taken for two calls when chunks are added up.
            last["args"] = (last["args"] or "") + text
        else:
            delta.chunks.append(call_chunk(args=text, index=self._index))

    def _end(self, error: str | None, delta: Delta) -> None:
        if self._args is None:
            self._misordered("CallEnd without an open call")
        text = "".join(self._args)
        if error is None and not text.strip():
            # A call without arguments; a merged stream would read a blank as "cannot be read".
            self._argue("{}", delta)
            text += "{}"
        args: dict[str, Any] | None = None
        if error is None:
            args, error = read_arguments(text)
        if args is not None:
            self._calls.append(tool_call(name=self._name, args=args, id=self._id))
        else:
            closer = _break_off(text)
            self._argue(closer, delta)
            delta.closers[self._id] = closer
            delta.errors[self._id] = told = f"{error} {self._protocol.reminder}".strip()
            self._invalid.append(invalid_tool_call(name=self._name, args=text, id=self._id, error=told))
        self._args = None

    def _misordered(self, what: str) -> NoReturn:
        raise ConfigurationError(
            f"The parser of the text protocol {self._protocol.name or type(self._protocol).__name__!r} reported {what}."
            " A call is CallStart, any number of CallArguments, CallEnd; correct the parser."
        )


def read_arguments(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """Read the JSON text of a call's arguments; return (arguments, None) or (None, what is wrong)."""
    try:
        value = parse_sendable(text)
    except UnicodeEncodeError:
        return None, "its arguments hold half of a surrogate pair."
    except json.JSONDecodeError as error:
        return None, f"its arguments are not valid JSON ({error.msg} at character {error.pos})."
    except (ValueError, RecursionError) as error:
        return None, f"its arguments are not valid JSON ({error!s:.100})."
    if not isinstance(value, dict):
        return None, f"its arguments are a JSON {type(value).__name__}, not an object."
    return value, None


def _break_off(text: str) -> str:
    """Say what makes broken arguments unreadable for good.

    langchain-core completes cut JSON when it adds up the chunks of a stream, and so would turn half a call into a
    whole one that runs. A closing bracket that fits nothing stops it. It is in the chunks alone: a whole message holds
    what the model wrote.
    """
    stack: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]" and stack:
            stack.pop()
    quote = ('""' if escaped else '"') if in_string else ""
    return quote + ("}" if stack and stack[-1] == "]" else "]")


def parse(protocol: TextProtocol, text: str, offer: ToolOffer, new_id: Callable[[], str] = new_call_id) -> Parsed:
    """Read a whole answer.

    Args:
        protocol: the protocol in which it is written.
        text: what the model wrote.
        offer: what was offered to it.
        new_id: makes the ids of the calls.

    Example:
        >>> from agentgraph.protocols.json import JSONProtocol
        >>> parse(JSONProtocol(), '{"final": "Hello."}', ToolOffer(())).text
        'Hello.'
    """
    reader = TurnReader(protocol, offer, new_id)
    reader.feed(text)
    reader.close()
    return reader.parsed
