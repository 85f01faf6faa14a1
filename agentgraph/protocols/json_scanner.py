"""Reads JSON values as they come, in pieces of any size.

One pass, character classes at a time, nothing read twice: time is linear in the length of the text. The methods are
generators that pause when the text at hand is used up, so that what is built of them reads like a grammar.
"""

import re
from collections.abc import Callable, Generator

__all__ = ["JSONScanner", "Steps", "UnreadableError", "ignore"]

Steps = Generator[None, None, None]

_ANY = re.compile(r".", re.DOTALL)
_SPACES = re.compile(r"\s+")
_PLAIN = re.compile(r'[^"\\]+')
_STRUCTURE = re.compile(r'[^"{}\[\]]+')
_SCALAR = re.compile(r'[^\s,:"{}\[\]]+')

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"'}
_HEX = frozenset("0123456789abcdefABCDEF")
_HEX_DIGITS = 4  # of \uXXXX
_HIGH = range(0xD800, 0xDC00)
_LOW = range(0xDC00, 0xE000)
_REPLACEMENT = "\ufffd"


class UnreadableError(Exception):
    """The text is not what the grammar asks for at this place."""


def ignore(text: str) -> None:
    """Take a part of the text that says nothing."""


class _Unescape:
    """Decodes the inside of a string, surrogate pairs in two pieces included."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._high = 0

    def plain(self, text: str) -> None:
        self.flush()
        self._emit(text)

    def unit(self, code: int) -> None:
        if self._high and code in _LOW:
            self._emit(chr(0x10000 + ((self._high - _HIGH.start) << 10) + code - _LOW.start))
            self._high = 0
            return
        self.flush()
        if code in _HIGH:
            self._high = code
        else:
            self._emit(_REPLACEMENT if code in _LOW else chr(code))

    def flush(self) -> None:
        if self._high:
            self._high = 0
            self._emit(_REPLACEMENT)


class JSONScanner:
    """The text of an answer, as far as it has come.

    Attributes:
        raw: what was taken since the caller set it to a list; None while nobody wants to know.
    """

    def __init__(self) -> None:
        self.raw: list[str] | None = None
        self._text = ""
        self._at = 0
        self._ended = False

    def push(self, text: str) -> None:
        """Give the next piece. The one before must be used up, which it is when a generator has paused."""
        self._text, self._at = text, 0

    def end(self) -> None:
        """There is no more."""
        self._ended = True

    @property
    def exhausted(self) -> bool:
        """Whether the whole text has come and is used up."""
        return self._ended and self._at >= len(self._text)

    def peek(self) -> Generator[None, None, str]:
        """The next character, not taken; "" at the end."""
        while self._at >= len(self._text):
            if self._ended:
                return ""
            yield
        return self._text[self._at]

    def take(self, pattern: re.Pattern[str] = _ANY) -> str:
        """Take what matches here, of the text at hand; "" if nothing does."""
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        if self.raw is not None:
            self.raw.append(match[0])
        return match[0]

    def run(self, pattern: re.Pattern[str]) -> Generator[None, None, str]:
        """Take all that matches, also when it comes in pieces."""
        pieces: list[str] = []
        while (yield from self.peek()) and (piece := self.take(pattern)):
            pieces.append(piece)
        return "".join(pieces)

    def next(self) -> Generator[None, None, str]:
        """The next character that is no space, not taken.

        Raises:
            UnreadableError: there is none.
        """
        while (char := (yield from self.peek())).isspace():
            self.take(_SPACES)
        if not char:
            raise UnreadableError("the text ends too early.")
        return char

    def expect(self, char: str) -> Steps:
        """Take this character, behind spaces.

        Raises:
            UnreadableError: it is another.
        """
        found = yield from self.next()
        if found != char:
            raise UnreadableError(f"expected {char} and found {found!r}.")
        self.take()

    def string(self, emit: Callable[[str], None]) -> Steps:
        """Take a string; emit what it says, piece by piece."""
        yield from self.expect('"')
        unescape = _Unescape(emit)
        while (char := (yield from self.peek())) not in {'"', ""}:
            if char == "\\":
                self.take()
                yield from self._escape(unescape)
            else:
                unescape.plain(self.take(_PLAIN))
        unescape.flush()
        yield from self.expect('"')

    def _escape(self, unescape: _Unescape) -> Steps:
        yield from self.peek()
        char = self.take()
        if char != "u":
            # Unknown escapes stand as they are: models write formulas without doubling their backslashes.
            unescape.plain(_ESCAPES.get(char, f"\\{char}" if char else ""))
            return
        digits = ""
        while len(digits) < _HEX_DIGITS and (yield from self.peek()) in _HEX:
            digits += self.take()
        if len(digits) == _HEX_DIGITS:
            unescape.unit(int(digits, 16))
        elif not self.exhausted:
            unescape.plain(f"\\u{digits}")

    def value(self, emit: Callable[[str], None]) -> Steps:
        """Take any value; emit it as it is written. Its inside is followed as far as brackets and strings go."""
        char = yield from self.next()
        if char in "{[":
            yield from self._nested(emit)
        elif char == '"':
            yield from self._quoted(emit)
        else:
            scalar = yield from self.run(_SCALAR)
            if not scalar:
                raise UnreadableError(f"expected a value and found {char!r}.")
            emit(scalar)

    def _nested(self, emit: Callable[[str], None]) -> Steps:
        closers: list[str] = []
        while char := (yield from self.peek()):
            if char == '"':
                yield from self._quoted(emit)
                continue
            if char in "{[":
                closers.append("}" if char == "{" else "]")
            elif char in "}]" and closers.pop() != char:
                raise UnreadableError(f"found {char} where it closes nothing.")
            emit(self.take() if char in "{}[]" else self.take(_STRUCTURE))
            if not closers:
                return
        raise UnreadableError("the text ends too early.")

    def _quoted(self, emit: Callable[[str], None]) -> Steps:
        emit(self.take())
        while char := (yield from self.peek()):
            if char == "\\":
                emit(self.take())
                yield from self.peek()
                emit(self.take())
            elif char == '"':
                emit(self.take())
                return
            else:
                emit(self.take(_PLAIN))
        raise UnreadableError("the text ends inside a string.")

    def text_or_value(self, emit: Callable[[str], None]) -> Steps:
        """Take what a string says, or another value as it is written; null says nothing."""
        char = yield from self.next()
        if char == '"':
            yield from self.string(emit)
        elif char in "{[":
            yield from self.value(emit)
        else:
            scalar: list[str] = []
            yield from self.value(scalar.append)
            emit("" if scalar == ["null"] else "".join(scalar))
