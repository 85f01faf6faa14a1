"""What the readers of texts with marks share: text that streams up to a mark, calls as objects, plain inputs."""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from agentgraph.protocols.base import (
    CallArguments,
    CallEnd,
    CallStart,
    Event,
    StreamParser,
    TextDelta,
    ToolOffer,
    ToolSpec,
)
from agentgraph.protocols.json_reader import JSONTurnParser
from agentgraph.protocols.json_scanner import JSONScanner, Steps, UnreadableError
from agentgraph.protocols.loose_json import loose_value
from agentgraph.protocols.schemas import inlined

__all__ = ["MarkedTurnParser", "TrimmedText", "arguments_of", "takes_nothing"]

_SPACES = re.compile(r"\s+")
_TICKS = re.compile(r"`+")
_WORD = re.compile(r"\w+")
_LETTER = 2  # so many characters at the end of a text may be its own, more are the beginning of a mark
# Begun like this, an object was meant as a call, also where it cannot be read.
_MEANT = re.compile(r"\{\s*\W?(?:tool|tool_calls?|calls|args|arguments|function|action|action_input)\W?\s*:")


def arguments_of(text: str, tool: ToolSpec | None) -> str | None:
    """Give the JSON text of arguments that were written without braces; None where it is not plain what they are.

    A text is the value of the only parameter, if that takes a string; an object written as a string is the object.
    """
    text = text.strip().strip("`").strip()
    said: Any = text
    if text.startswith('"'):
        try:
            said = json.loads(text, strict=False)
        except ValueError:
            said = text
    if not isinstance(said, str):
        return None
    if said.lstrip().startswith("{"):
        return said
    # A tool that is not offered gets the text under any name: it is the tool's own name that has to be corrected.
    name = _lone_parameter(tool) if tool is not None else "input"
    if name is not None and said:
        return json.dumps({name: said}, ensure_ascii=False)
    return "{}" if tool is not None and takes_nothing(tool) and said.lower() in {"", "none", "null", "n/a"} else None


def _lone_parameter(tool: ToolSpec) -> str | None:
    properties = inlined(tool.parameters).get("properties")
    if not isinstance(properties, Mapping) or len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    return name if isinstance(schema, Mapping) and schema.get("type") == "string" else None


def takes_nothing(tool: ToolSpec) -> bool:
    """Say whether a tool has no parameters at all."""
    return not inlined(tool.parameters).get("properties")


class TrimmedText:
    """Passes text on as it comes, without the spaces at either end of the whole.

    Args:
        tell: takes the pieces.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._held: list[str] = []  # spaces and marks, whose fate depends on what follows
        self.has_begun = False

    def add(self, text: str) -> None:
        """Take a piece."""
        if text.strip():
            self._held.append(text)
            self.flush()
        else:
            self._held.append(text)

    def hold(self, mark: str) -> None:
        """Take a piece that is text only if more text follows."""
        self._held.append(mark)

    @property
    def held(self) -> str:
        """What was taken and not passed on."""
        return "".join(self._held)

    def drop(self) -> None:
        """Forget what is held: it was no text."""
        self._held = []

    def flush(self) -> None:
        """Pass on what is held, but for the spaces at its end."""
        text = self.held
        if not self.has_begun:
            text = text.lstrip()
        told = text.rstrip()
        self._held = [text[len(told) :]]
        if told:
            self.has_begun = True
            self._tell(told)


class MarkedTurnParser(StreamParser):
    """A reader of one turn; derive from it and write `_turn`.

    Args:
        offer: what was offered for the turn.
    """

    final_name = ""
    """Name of the "tool" whose input is the answer, in lower case; "" if the format has none."""

    def __init__(self, offer: ToolOffer) -> None:
        self._tools = {tool.name: tool for tool in offer.tools}
        self._offer = offer
        self._scan = JSONScanner()
        self._events: list[Event] = []
        self._text = TrimmedText(lambda text: self._events.append(TextDelta(text)))
        self._called = self._finished = self._is_final = False
        self._name = ""
        self._plain: list[str] = []
        self._is_plain: bool | None = None
        self._steps = self._turn()

    @abstractmethod
    def _turn(self) -> Steps:
        """Read the turn; pause when the text at hand is used up."""

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the turn."""
        if not self._finished:
            self._scan.push(text)
            self._finished = next(self._steps, self) is self
        events, self._events = self._events, []
        return events

    def close(self) -> list[Event]:
        """The turn has ended."""
        self._scan.end()
        events = self.feed("")
        if not self._called:
            self._text.flush()
        return [*events, *self._events]

    # Text.

    def _until(
        self, marks: Sequence[str], text: list[str] | None = None, stops: str = ""
    ) -> Generator[None, None, str]:
        """Take text up to one of the marks, which is taken too; return the mark, "" at the end.

        Args:
            marks: none may begin with another, nor hold its own first character a second time.
            text: takes the text; None has it told to the user.
            stops: characters that end the text too, and are returned without being taken.
        """
        add = self._text.add if text is None else text.append
        firsts = "".join(sorted({mark[0] for mark in marks}))
        plain = re.compile(f"[^{re.escape(firsts + stops)}]+")
        while char := (yield from self._scan.peek()):
            if char in stops:
                return char
            if piece := self._scan.take(plain):
                add(piece)
                continue
            taken = yield from self._mark(marks)
            if taken in marks:
                return taken
            if text is None and len(taken) > _LETTER and self._scan.exhausted:
                return ""  # a mark that was cut, which is nothing for a user to see
            add(taken)
        return ""

    def _mark(self, marks: Sequence[str]) -> Generator[None, None, str]:
        """Take a mark, or as much as could have been the beginning of one."""
        taken = self._scan.take()
        while taken not in marks and (char := (yield from self._scan.peek())):
            if not any(mark.startswith(taken + char) for mark in marks):
                break
            taken += self._scan.take()
        return taken

    def _fence(self) -> Generator[None, None, str]:
        """Take spaces, a fence and its language, spaces; return them."""
        taken = yield from self._scan.run(_SPACES)
        ticks = yield from self._scan.run(_TICKS)
        if ticks:
            taken += ticks + (yield from self._scan.run(_WORD))
        return taken + (yield from self._scan.run(_SPACES))

    # Calls.

    def _begin(self, name: str) -> None:
        self._called = True
        self._name = name
        self._plain, self._is_plain = [], None
        self._is_final = bool(self.final_name) and name.strip().lower().replace("_", " ") == self.final_name
        if not self._is_final:
            self._events.append(CallStart(name))

    def _argue(self, text: str) -> None:
        if self._is_final:
            self._text.add(text)
            return
        if self._is_plain is None:
            # The first character shows whether this is an object, and spaces before it say nothing.
            text = text.lstrip()
            self._is_plain = text[0] != "{" if text else None
        if self._is_plain:
            self._plain.append(text)
        elif text:
            self._events.append(CallArguments(text))

    def _end(self, error: str | None = None) -> None:
        if self._is_final:
            return
        if self._is_plain:
            text = "".join(self._plain)
            read = arguments_of(text, self._tools.get(self._name)) if error is None else None
            if read is None and error is None:
                error = "its input is not a JSON object."
            self._events.append(CallArguments(text.strip() if read is None else read))
        self._events.append(CallEnd(error if error or self._name.strip() else "it names no tool."))

    def _plain_input(self, text: str, *, is_open: bool = True, is_cut: bool = False) -> None:
        """Give the open call an input that was written without braces, and end the call.

        Args:
            text: the input.
            is_open: whether nothing stands behind it: then an empty one may be one that was never written.
            is_cut: whether it is known to have been cut.
        """
        self._argue(text)
        tool = self._tools.get(self._name)
        is_missing = is_open and not text.strip() and tool is not None and not takes_nothing(tool)
        self._end("the answer ends in the middle of its input." if is_cut or is_missing else None)

    def _fail(self, name: str, raw: str, error: str) -> None:
        """Report a call that cannot be read."""
        self._called = True
        self._text.drop()
        self._events += [CallStart(name), *([CallArguments(raw)] if raw else ()), CallEnd(error)]

    def _input(self) -> Generator[None, None, bool]:
        """Take the object that is the open call's input and end the call; return whether it could be read."""
        try:
            yield from loose_value(self._scan, self._argue)
        except UnreadableError as unreadable:
            self._end(f"its input cannot be read: {unreadable}")
            return False
        self._end()
        return True

    def _object(self, keys: Mapping[str, str], *, meant: bool) -> Generator[None, None, bool]:
        """Take an object or a list of them that names tool and arguments; return whether it was a call.

        Args:
            keys: names that the format has for "tool" and "args".
            meant: whether it stands where only a call may; otherwise it is text of the user's if it is none.
        """
        reader = JSONTurnParser()
        self._scan.raw = []
        started = False
        error = ""

        def emit(text: str) -> None:
            nonlocal started
            started = self._pass_on(reader.feed(text)) or started

        try:
            yield from loose_value(self._scan, emit, {"final": "_final", **keys})
        except UnreadableError as unreadable:
            error = str(unreadable)
        raw, self._scan.raw = "".join(self._scan.raw or ()), None
        if started or not error:
            started = self._pass_on(reader.close()) or started
        if started:
            return True
        cut = bool(error) and self._scan.exhausted and not self._text.has_begun
        if meant or cut or _MEANT.match(raw):
            self._fail("", raw, error or "it names no tool.")
            return True
        self._text.add(raw)
        return False

    def _pass_on(self, events: Sequence[Event]) -> bool:
        """Take a call's events as they come; text is told elsewhere, as it was written."""
        for event in events:
            match event:
                case CallStart(name):
                    self._text.drop()
                    self._begin(name)
                case CallArguments(text):
                    self._argue(text)
                case CallEnd(error):
                    self._end(error)
        return any(isinstance(event, CallStart) for event in events)
