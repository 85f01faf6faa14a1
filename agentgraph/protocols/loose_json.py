"""Reads JSON as models write it, and gives it as JSON is written.

Forgiven is what can be read in one way only: single and typographic quotes, keys without quotes, commas at the end,
bare line breaks in strings, Python's `True`, `False` and `None`. Nothing is completed. One pass, as the text comes.
"""

import json
import re
from collections.abc import Callable, Generator, Mapping

from agentgraph.protocols.json_scanner import JSONScanner, Steps, UnreadableError

__all__ = ["loose_value"]

_CLOSERS = {'"': '"', "'": "'", "\u201c": "\u201d", "\u201d": "\u201d", "\u2018": "\u2019", "\u2019": "\u2019"}
_PLAIN = {closer: re.compile(rf'[^"\\\x00-\x1f{closer}]+') for closer in _CLOSERS.values()}
_WORD = re.compile(r"""[^\s,:"'{}\[\]<>`\u2018\u2019\u201c\u201d]+""")
_SPACES = re.compile(r"\s+")
_KEY = re.compile(r"[^\W\d]\w*\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_LITERALS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}


class _Writer:
    """Writes JSON token by token; a comma waits until it is known to stand between two values."""

    def __init__(self, emit: Callable[[str], None], keys: Mapping[str, str]) -> None:
        self._emit = emit
        self._keys = keys
        self._closers: list[str] = []
        self._comma = False
        self.at_key = False

    @property
    def depth(self) -> int:
        return len(self._closers)

    def put(self, text: str) -> None:
        self._emit(", " + text if self._comma else text)
        self._comma = False

    def opened(self, char: str) -> None:
        self.put(char)
        self._closers.append("}" if char == "{" else "]")
        self.at_key = char == "{"

    def closed(self, char: str) -> None:
        if not self._closers or self._closers.pop() != char:
            raise UnreadableError(f"found {char} where it closes nothing.")
        self._comma = False
        self._emit(char)
        self.at_key = False

    def comma(self) -> None:
        self._comma = True
        self.at_key = bool(self._closers) and self._closers[-1] == "}"

    def key(self, name: str) -> None:
        self.put(json.dumps(self._keys.get(name, name) if self.depth == 1 else name, ensure_ascii=False) + ": ")
        self.at_key = False


def loose_value(scan: JSONScanner, emit: Callable[[str], None], keys: Mapping[str, str] | None = None) -> Steps:
    """Take an object or a list; emit it as strict JSON, piece by piece.

    Args:
        scan: the text; it stands at the bracket.
        emit: takes the pieces.
        keys: other names for keys of the outermost object.

    Raises:
        UnreadableError: the text is cut, or can be read in no way or in several.
    """
    writer = _Writer(emit, keys or {})
    yield from _token(scan, writer)
    while writer.depth:
        yield from _token(scan, writer)


def _token(scan: JSONScanner, writer: _Writer) -> Steps:
    char = yield from scan.next()
    if char in "{[" and not writer.at_key:
        writer.opened(scan.take())
    elif char in "}]":
        writer.closed(scan.take())
    elif char == ",":
        scan.take()
        writer.comma()
    elif writer.at_key:
        yield from _key(scan, writer)
    elif char in _CLOSERS:
        writer.put('"')
        yield from _string(scan, writer.put)
        writer.put('"')
    else:
        writer.put((yield from _scalar(scan)))


def _key(scan: JSONScanner, writer: _Writer) -> Steps:
    written: list[str] = []
    if (yield from scan.peek()) in _CLOSERS:
        yield from _string(scan, written.append)
        try:
            name = str(json.loads(f'"{"".join(written)}"'))
        except json.JSONDecodeError as error:
            raise UnreadableError("a key holds an escape that does not exist.") from error
    else:
        name = yield from scan.run(_WORD)
        if not _KEY.match(name):
            raise UnreadableError("a key does not stand in double quotes.")
    yield from scan.expect(":")
    writer.key(name)


def _scalar(scan: JSONScanner) -> Generator[None, None, str]:
    word = yield from scan.run(_WORD)
    if word in _LITERALS:
        return _LITERALS[word]
    if not _NUMBER.match(word):
        raise UnreadableError(f"expected a value and found {(word or scan.take())[:40]!r}.")
    return word


def _string(scan: JSONScanner, emit: Callable[[str], None]) -> Steps:
    """Take a string; emit its inside as it stands between double quotes."""
    closer = _CLOSERS[scan.take()]
    plain = _PLAIN[closer]
    while (char := (yield from scan.peek())) != closer:
        if not char:
            raise UnreadableError("the text ends inside a string.")
        if piece := scan.take(plain):
            emit(piece)
            continue
        scan.take()
        if char == "\\":
            yield from scan.peek()
            escaped = scan.take()
            emit(escaped if escaped in {"'", "\u2018", "\u2019", "\u201c", "\u201d"} else f"\\{escaped}")
        else:
            emit(json.dumps(char)[1:-1])
    scan.take()
