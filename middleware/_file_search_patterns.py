"""Names and patterns of the file search: what is refused, how a glob is matched, how a name is shown.

Only the standard library is used, as the process that searches loads this file without the rest.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Glob", "alternatives", "components", "expanded", "shown"]

LONGEST = 1_000  # characters of a pattern
LONGEST_PATH = 4_096  # characters of a path
MOST_ALTERNATIVES = 100  # patterns that the braces of one may stand for
ANY_DEPTH = "**"

_UNSHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})  # would break a line of the result, or cannot be encoded


def components(text: str, what: str) -> list[str]:
    """The parts of a virtual path or of a glob, without the empty ones and ".".

    Args:
        text: what the model gave.
        what: what it is called in an error.

    Raises:
        ValueError: it could lead outside or is no name; the message is for the model.
    """
    longest = LONGEST_PATH if what == "path" else LONGEST
    if len(text) > longest:
        raise ValueError(f"the {what} has {len(text)} characters; the most are {longest}")
    if any(unicodedata.category(character) in _UNSHOWN for character in text):
        raise ValueError(f"the {what} has a control character or half a character in it")
    if "\\" in text:
        raise ValueError(f'the {what} has a backslash in it; parts are separated by "/"')
    found = [part for part in text.split("/") if part not in {"", "."}]
    if any(_leads_up(part) for part in found):
        raise ValueError(f'the {what} has ".." in it, and nothing above "/" can be searched')
    if any(part.startswith("~") for part in found):
        raise ValueError(f'the {what} has "~" in it, which has no meaning here; "/" is the top')
    return found


def _leads_up(part: str) -> bool:
    """Whether a part is "..", also in characters that some file systems take for dots and slashes."""
    return ".." in unicodedata.normalize("NFKC", part).split("/")


def expanded(text: str) -> list[str]:
    """The patterns that one with braces stands for: `*.{py,pyi}` for two.

    Raises:
        ValueError: the braces do not match, or stand for too many; the message is for the model.
    """
    if len(text) > LONGEST:
        raise ValueError(f"the pattern has {len(text)} characters; the most are {LONGEST}")
    found, waiting = [], [text]
    while waiting:
        pattern = waiting.pop()
        braces = _first_braces(pattern)
        if braces is None:
            found.append(pattern)
        else:
            start, end = braces
            options = list(_options(pattern[start + 1 : end]))
            waiting += [pattern[:start] + option + pattern[end + 1 :] for option in reversed(options)]
        if len(found) + len(waiting) > MOST_ALTERNATIVES:
            raise ValueError(f"its braces stand for more than {MOST_ALTERNATIVES} patterns")
    return list(dict.fromkeys(found))


def _first_braces(pattern: str) -> tuple[int, int] | None:
    start = pattern.find("{")
    depth = 0
    for position, character in enumerate(pattern):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0 or pattern[position : position + 2] == "{}":
            raise ValueError("its braces do not match, or hold nothing")
        if character == "}" and depth == 0:
            return start, position
    if depth:
        raise ValueError("its braces do not match")
    return None


def _options(inner: str) -> Iterator[str]:
    """The parts of what stands within braces, separated by commas that are not in braces of their own."""
    depth, start = 0, 0
    for position, character in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield inner[start:position]
            start = position + 1
    yield inner[start:]


def alternatives(pattern: str, what: str = "pattern") -> list[list[str]]:
    """A glob as lists of parts, one for each pattern that its braces stand for.

    Args:
        pattern: the glob.
        what: what it is called in an error.

    Raises:
        ValueError: it cannot be searched for; the message is for the model.
    """
    if pattern.startswith("/"):
        raise ValueError(f'the {what} begins with "/"; give the folder as path and the rest as {what}')
    found = [components(one, what) for one in expanded(pattern)]
    if not all(found):
        raise ValueError(f"the {what} is empty")
    return found


class Glob:
    """Patterns matched part by part along a path, so that a walk enters only folders that can hold a match.

    What `step` gives is the set of places in the patterns that the path so far leads to. The work is bounded by the
    number of places; nothing is tried twice. A name that begins with a dot is matched by parts that do so as well.

    Args:
        patterns: lists of parts, of which one must match.
    """

    def __init__(self, patterns: Iterable[Sequence[str]]) -> None:
        self._patterns = [tuple(pattern) for pattern in patterns]
        parts = {part for pattern in self._patterns for part in pattern}
        self._regexes = {part: re.compile(fnmatch.translate(part)) for part in parts if part != ANY_DEPTH}
        self.start = self._closed((number, 0) for number in range(len(self._patterns)))

    @property
    def names_hidden(self) -> bool:
        """Whether any part matches names that begin with a dot."""
        return any(part.startswith(".") for part in self._regexes)

    def step(self, places: frozenset[tuple[int, int]], name: str) -> frozenset[tuple[int, int]]:
        """The places after one more name; none where nothing below it can match."""
        after = set()
        for number, index in places:
            pattern = self._patterns[number]
            if index == len(pattern):
                continue
            part = pattern[index]
            if name.startswith(".") and not part.startswith("."):
                continue
            if part == ANY_DEPTH:
                after.add((number, index))
            elif self._regexes[part].match(name):
                after.add((number, index + 1))
        return self._closed(after)

    def accepts(self, places: frozenset[tuple[int, int]]) -> bool:
        """Whether a file there is a match."""
        return any(index == len(self._patterns[number]) for number, index in places)

    def matches(self, parts: Iterable[str]) -> bool:
        """Whether a path matches."""
        places = self.start
        for part in parts:
            places = self.step(places, part)
        return self.accepts(places)

    def _closed(self, places: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """The places together with those reached when `**` stands for no folder."""
        found = set()
        for number, first in places:
            index = first
            found.add((number, index))
            while index < len(self._patterns[number]) and self._patterns[number][index] == ANY_DEPTH:
                index += 1
                found.add((number, index))
        return frozenset(found)


def shown(text: str) -> str:
    r"""A name or line as one line that can be encoded: control characters and wrong bytes are escaped (`\x0a`)."""
    if text.isprintable():
        return text
    return "".join(_escaped(character) if _breaks(character) else character for character in text)


def _breaks(character: str) -> bool:
    return character != "\t" and unicodedata.category(character) in _UNSHOWN


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 (how Python holds a byte of a name that is not UTF-8)
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 (what two hex digits hold)
