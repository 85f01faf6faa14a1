"""Reads a turn of the JSON protocol as it comes.

What is forgiven: prose, code fences and marks of chat templates around, `name` and `arguments` for `tool` and `args`,
a call wrapped in `function`, arguments as a string of JSON, bare line breaks in strings, missing outer braces, several
objects in a row. What is not: a call whose arguments are broken is never completed or emptied.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Literal

from agentgraph.protocols.base import CallArguments, CallEnd, CallStart, Event, StreamParser, TextDelta
from agentgraph.protocols.json_scanner import JSONScanner, Steps, UnreadableError, ignore

__all__ = ["JSONTurnParser"]

_SPACES = re.compile(r"\s+")
_PROSE = re.compile(r"[^\s`{\[<]+")
_FENCE = re.compile(r"`+")
_WORD = re.compile(r"\w+")
_SEPARATORS = re.compile(r"[\s,;\[\]}]+")
_LOOSE_KEY = re.compile(r"[^\s:,{}\[\]]+")
_CALL_BEGINS = re.compile(r"\{\s*\W?(tool|tool_calls?|calls|args|arguments|function)\W?\s*:")
_ANSWER_BEGINS = re.compile(r"\{\s*\W?final\W?\s*:?")

# Results are for the tools to give. A model that writes one makes it up, and no user is to read it as found.
_RESULT_BEGINS = re.compile(r'\{\s*"(?:result_of|error_of)"\s*:')
# An object that was cut before its first key was told.
_CUT_OFF = re.compile(r'\{\s*(?:"(\w*)"?\s*)?\Z')
_KEYS = ("tool", "tool_calls", "name", "calls", "args", "arguments", "function", "final")

# What chat templates put around calls and behind a turn; models write them out of habit, and servers let them through.
_MARKS = ("<tool_call>", "</tool_call>", "<|tool_call|>", "<|python_tag|>", "<|im_end|>", "<|eot_id|>", "[TOOL_CALLS]")

_DEPTH = 4  # calls within calls: more is a trap, not a call

Kind = Literal["call", "answer"]


@dataclass(slots=True)
class _Draft:
    """What is known of the object that is being read."""

    name: str | None = None
    args: list[str] = field(default_factory=list)
    has_args: bool = False
    depth: int = 0
    state: Literal["", "open", "called", "answered"] = ""


class JSONTurnParser(StreamParser):
    """The reader of one turn.

    Example:
        >>> parser = JSONTurnParser()
        >>> parser.feed('{"final": "Hel') + parser.feed('lo."}') + parser.close()
        [TextDelta(text='Hel'), TextDelta(text='lo.')]
    """

    def __init__(self) -> None:
        self._scan = JSONScanner()
        self._events: list[Event] = []
        self._held: list[str] = []  # prose whose fate the next object decides: spaces, a fence, a bracket
        self._spoke = self._called = self._finished = False
        self._steps = self._turn()

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the turn."""
        if not self._finished:
            self._scan.push(text)
            self._finished = next(self._steps, self) is self
        return self._drain()

    def close(self) -> list[Event]:
        """The turn has ended."""
        self._scan.end()
        return self.feed("")

    def _drain(self) -> list[Event]:
        events: list[Event] = []
        for event in self._events:
            last = events[-1] if events else None
            if isinstance(event, TextDelta) and isinstance(last, TextDelta):
                events[-1] = TextDelta(last.text + event.text)
            elif isinstance(event, CallArguments) and isinstance(last, CallArguments):
                events[-1] = CallArguments(last.text + event.text)
            else:
                events.append(event)
        self._events = []
        return events

    # Around the objects.

    def _turn(self) -> Steps:
        kind = yield from self._before()
        while kind == "call":
            self._called = True
            kind = yield from self._between()

    def _before(self) -> Generator[None, None, Kind | None]:
        while char := (yield from self._scan.peek()):
            if char == "{":
                if kind := (yield from self._object()):
                    return kind
            elif char == "`":
                self._held += [(yield from self._scan.run(_FENCE)), (yield from self._scan.run(_WORD))]
            elif char in "<[":
                yield from self._mark_or_prose()
            elif char.isspace():
                self._held.append(self._scan.take(_SPACES))
            else:
                self._say(self._scan.take(_PROSE))
        self._held = ["".join(self._held).rstrip()]
        self._say("")
        return None

    def _between(self) -> Generator[None, None, Kind | None]:
        """Between calls only separators may stand: what follows prose is made up, as a result that never came."""
        while char := (yield from self._scan.peek()):
            if char == "{":
                return (yield from self._object())
            if char == "`":
                yield from self._scan.run(_FENCE)
                yield from self._scan.run(_WORD)
            elif char in "<[":
                if (yield from self._mark()) not in {"[", *_MARKS}:
                    break
            elif not self._scan.take(_SEPARATORS):
                break
        return None

    def _mark_or_prose(self) -> Steps:
        mark = yield from self._mark()
        if mark == "[" or mark in _MARKS:
            self._held.append(mark)
        else:
            self._say(mark)

    def _mark(self) -> Generator[None, None, str]:
        """Take a mark of a chat template, or as much as could have been the beginning of one."""
        taken = self._scan.take()
        while char := (yield from self._scan.peek()):
            if not any(mark.startswith(taken + char) for mark in _MARKS):
                break
            taken += self._scan.take()
        return taken

    def _say(self, text: str) -> None:
        text = "".join(self._held) + text
        self._held = []
        if not self._spoke:
            text = text.lstrip()
        self._spoke = self._spoke or bool(text)
        self._tell(text)

    def _tell(self, text: str) -> None:
        if text:
            self._events.append(TextDelta(text))

    def _argue(self, text: str) -> None:
        if text:
            self._events.append(CallArguments(text))

    # Objects.

    def _object(self) -> Generator[None, None, Kind | None]:
        self._scan.raw = []
        draft = _Draft()
        error = ""
        try:
            yield from self._members(draft)
        except UnreadableError as unreadable:
            error = str(unreadable)
        kind = self._settle(draft, error)
        raw, self._scan.raw = self._scan.raw or [], None
        if kind is None and not self._called:
            self._say("".join(raw))
        return kind

    def _settle(self, draft: _Draft, error: str) -> Kind | None:
        """Decide what an object was, now that it is over or broken."""
        if draft.state:
            if draft.state == "open":
                self._events.append(CallEnd(error))
            return "answer" if draft.state == "answered" else "call"
        raw = "".join(self._scan.raw or ())
        cut = self._scan.exhausted and (bool(draft.name) or self._is_cut_off(raw))
        made_up = not self._called and _RESULT_BEGINS.match(raw) is not None
        error = "it is a result, which only a tool can give." if made_up else error
        if not (draft.has_args or _CALL_BEGINS.match(raw) or cut or made_up):
            return "answer" if _ANSWER_BEGINS.match(raw) else None
        self._events.append(CallStart(draft.name or ""))
        if error or draft.name is None:
            self._argue(raw)
            error = error or "it names no tool."
        self._events.append(CallEnd(error or None))
        return "call"

    def _is_cut_off(self, raw: str) -> bool:
        """Whether the whole answer is the first letters of an object, which are nothing for a user to see."""
        found = None if self._spoke else _CUT_OFF.match(raw)
        return found is not None and any(key.startswith(found[1] or "") and found[1] != "final" for key in _KEYS)

    def _members(self, draft: _Draft) -> Steps:
        yield from self._scan.expect("{")
        while (char := (yield from self._scan.next())) != "}":
            if char == ",":
                self._scan.take()
                continue
            if char != '"':
                # Read on to the colon, so that it can be told whether this was meant as a call.
                yield from self._scan.run(_LOOSE_KEY)
                yield from self._scan.expect(":")
                raise UnreadableError("a key does not stand in double quotes.")
            key: list[str] = []
            yield from self._scan.string(key.append)
            yield from self._scan.expect(":")
            yield from self._member("".join(key), draft)
        self._scan.take()

    def _member(self, key: str, draft: _Draft) -> Steps:
        char = yield from self._scan.next()
        nested = draft.depth < _DEPTH
        if key in {"tool", "function", "tool_call"} and char == "{" and nested:
            draft.depth += 1
            yield from self._members(draft)
        elif key in {"tool", "name", "function"} and char == '"' and draft.name is None:
            yield from self._name(draft)
        elif key in {"args", "arguments"} and not draft.has_args:
            yield from self._arguments(draft)
        elif key in {"calls", "tool_calls"} and char == "[" and nested:
            yield from self._calls(draft)
        elif key == "final" and not draft.state:
            yield from self._answer(draft)
        else:
            yield from self._scan.value(ignore)

    def _name(self, draft: _Draft) -> Steps:
        name: list[str] = []
        yield from self._scan.string(name.append)
        draft.name = "".join(name)
        if draft.has_args:
            self._open(draft)
            self._argue("".join(draft.args))
            self._end_call(draft)

    def _arguments(self, draft: _Draft) -> Steps:
        draft.has_args = True
        if draft.name is None:
            # They come before the name, so they wait for it.
            yield from self._scan.text_or_value(draft.args.append)
            return
        self._open(draft)
        yield from self._scan.text_or_value(self._argue)
        self._end_call(draft)

    def _open(self, draft: _Draft) -> None:
        draft.state = "open"
        self._scan.raw = None
        self._events.append(CallStart(draft.name or ""))

    def _end_call(self, draft: _Draft) -> None:
        draft.state = "called"
        self._events.append(CallEnd())

    def _calls(self, draft: _Draft) -> Steps:
        self._scan.take()
        while (char := (yield from self._scan.next())) != "]":
            if char == ",":
                self._scan.take()
            else:
                yield from self._call(draft)
        self._scan.take()

    def _call(self, draft: _Draft) -> Steps:
        """One element of a list of calls. What it was is told before an error of it ends the list."""
        outer, self._scan.raw = self._scan.raw, []
        element = _Draft(depth=draft.depth + 1)
        error = ""
        try:
            yield from self._members(element)
        except UnreadableError as unreadable:
            error = str(unreadable)
        kind = self._settle(element, error)
        if kind:
            draft.state = "called" if kind == "call" else "answered"
        self._scan.raw = None if kind else [*(outer or ()), *(self._scan.raw or ())]
        if error or kind is None:
            raise UnreadableError(error or "an element of the list is no call.")

    def _answer(self, draft: _Draft) -> Steps:
        draft.state = "answered"
        self._scan.raw = None
        if self._spoke and not self._called:
            self._tell("\n")
        yield from self._scan.text_or_value(ignore if self._called else self._tell)
