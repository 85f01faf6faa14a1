"""Tool calls that a model wrote into its text, although its server was given tools: read from the text. Pure: no I/O.

Small models do so where the server does not know their way of writing a call. What is read is only what cannot be meant
otherwise: calls of tools that were offered, with an object of arguments, in a text that holds nothing else, or between
tags. Everything else stays text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from agentgraph.models.json_text import parse_sendable

__all__ = ["MAX_HELD", "LeakedCall", "LeakedCallReader", "read_leaked_calls"]

MAX_HELD: Final = 256 * 1024
"""So many characters are held back while they may be a call; what is longer is text."""

_OPENING: Final = 200
"""So many characters decide whether a text can be nothing but calls."""
_BLANKS: Final = 64
"""So many blanks beside a call are dropped."""

_KEYS: Final = ("name", "arguments", "parameters", "function", "type", "id")
_ARGUMENTS: Final = ("arguments", "parameters")
_END: Final = "</tool_call>"
_TAGS: Final = ("<tool_call>", "<|python_tag|>", "[TOOL_CALLS]")
_LONGEST_TAG: Final = max(map(len, _TAGS))
_TAG: Final = re.compile("|".join(map(re.escape, _TAGS)))
_FENCES: Final = ("```", "```json", "```tool_call", "```tool_calls", "```tool_code")
_FENCE: Final = r"```(?:json|tool_calls?|tool_code)?(?![A-Za-z])"
_OPENED_FENCE: Final = re.compile(rf"{_FENCE}\s*")
# What may stand around and between calls without saying anything.
_BETWEEN: Final = re.compile(rf"(?:[\s,;]+|{_FENCE}|</tool_call>|<\|(?:eom_id|eot_id|im_end|end)\|>|</s>)*+")
_NAMED: Final = re.compile(r"([\w.-]{1,128})(?:\[CALL_ID\][\w-]{1,64})?\[ARGS\]\s*")
_FIRST_KEY: Final = re.compile(r'"([a-z]*)("?)')


def _refuse(name: str) -> NoReturn:
    message = f"{name} is no JSON"
    raise ValueError(message)


_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=_refuse)


@dataclass(frozen=True, slots=True)
class LeakedCall:
    """A call that was written as text.

    Attributes:
        name: of the tool, as it is called here.
        arguments: of the call.
    """

    name: str
    arguments: dict[str, Any]


def read_leaked_calls(text: str, names: Mapping[str, str]) -> tuple[str, list[LeakedCall]]:
    """Read the calls in a whole text.

    Args:
        text: what the model wrote.
        names: the tools it was offered: names as they were sent -> as they are called here.

    Returns:
        The text without the calls, and the calls.

    Example:
        >>> read_leaked_calls('{"name": "add", "arguments": {"a": 1}}', {"add": "add"})
        ('', [LeakedCall(name='add', arguments={'a': 1})])
    """
    reader = LeakedCallReader(names)
    shown = reader.feed(text)
    rest, calls = reader.close()
    return shown + rest, calls


class LeakedCallReader:
    """Reads the calls in a text that comes in pieces: `feed` them, then `close`.

    Text that may be the beginning of a call is held back until it is known to be one, or to be none, so that nobody is
    shown what later becomes a call. How the text is cut makes no difference.

    Args:
        names: the tools that were offered: names as they were sent -> as they are called here.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._step = self._begin
        self._held: list[str] = []
        self._size = 0
        self._tag = ""
        self._in_code = False
        self._after_call = False
        self._read: list[tuple[str, list[LeakedCall]]] = []

    def feed(self, text: str) -> str:
        """Take the next piece; return what of the text is known to be no call."""
        shown: list[str] = []
        while text:
            said, text = self._step(text)
            shown.append(said)
        return "".join(shown)

    def close(self, *, native: bool = False) -> tuple[str, list[LeakedCall]]:
        """Say that no more comes.

        Args:
            native: whether the server gave calls of its own; then everything is text, so that no call runs twice.

        Returns:
            The rest of the text, and the calls.
        """
        held, calls = self._release(), None
        if self._step in (self._bare, self._to_the_end, self._to_the_mark):
            calls = _calls_in(held[len(self._lead(held)) :], self._names, tag=self._tag)
        if calls is not None:
            self._read.append((held, calls))
            held = ""
        elif self._after_call and not held.strip():
            held = ""
        if native:
            return "".join(raw for raw, _ in self._read) + held, []
        return held, [call for _, found in self._read for call in found]

    # The steps: each takes the text at hand, and gives what is to be shown and what is left for the next step.

    def _begin(self, text: str) -> tuple[str, str]:
        """Look whether the text can be nothing but calls."""
        held = self._release() + text
        begun = held.lstrip()
        blanks = len(held) - len(begun)
        decided = _may_be_calls(begun[:_OPENING]) if blanks <= _BLANKS else False
        if decided is None and len(begun) < _OPENING:
            self._hold(held)
            return "", ""
        self._step = self._bare if decided else self._prose
        return "", held

    def _bare(self, text: str) -> tuple[str, str]:
        """Hold everything: only the end can tell."""
        return self._hold_within_bounds(text)

    def _to_the_end(self, text: str) -> tuple[str, str]:
        """Hold everything behind a tag that has no end mark."""
        return self._hold_within_bounds(text)

    def _to_the_mark(self, text: str) -> tuple[str, str]:
        """Hold everything up to the end mark."""
        text, beyond = text[: MAX_HELD - self._size], text[MAX_HELD - self._size :]
        seam = "".join(self._held[-len(_END) :])[-len(_END) + 1 :]
        at = (seam + text).find(_END)
        if at < 0:
            said, more = self._hold_within_bounds(text + beyond[:1])
            return said, (more + beyond[1:] if said else beyond)
        cut = at + len(_END) - len(seam)
        raw = self._release() + text[:cut]
        calls = _calls_in(raw[len(self._lead(raw)) : -len(_END)], self._names, tag=self._tag)
        self._step, self._tag = self._prose, ""
        if calls is None:
            return self._said(raw), text[cut:] + beyond
        self._read.append((raw, calls))
        self._after_call = True
        return "", text[cut:] + beyond

    def _prose(self, text: str) -> tuple[str, str]:
        """Show the text up to what may be a tag."""
        text = self._release() + text
        found = self._next_tag(text)
        cut = found.start() if found else len(text) - _tag_begun(text)
        cut -= _blanks_before(text, cut)
        shown, rest = text[:cut], text[cut:]
        self._said(shown)
        if found is None:
            self._hold(rest)
            return shown, ""
        self._tag = found.group()
        self._step = self._to_the_mark if self._tag == _TAGS[0] else self._to_the_end
        opened = found.end() - cut
        self._hold(rest[:opened])
        return shown, rest[opened:]

    def _next_tag(self, text: str) -> re.Match[str] | None:
        """The next tag that is not quoted as code."""
        seen, in_code = 0, self._in_code
        for found in _TAG.finditer(text):
            in_code ^= bool(text.count("`", seen, found.start()) % 2)
            seen = found.start()
            if not in_code:
                return found
        return None

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._size += len(text)

    def _release(self) -> str:
        held = "".join(self._held)
        self._held, self._size = [], 0
        return held

    def _hold_within_bounds(self, text: str) -> tuple[str, str]:
        room = MAX_HELD - self._size
        self._hold(text[:room])
        if len(text) <= room:
            return "", ""
        # Too long for a call: from here on it is text like any other.
        self._step, self._tag = self._prose, ""
        return self._said(self._release()), text[room:]

    def _said(self, text: str) -> str:
        """Take notice of text that is shown."""
        self._in_code ^= bool(text.count("`") % 2)
        self._after_call = self._after_call and not text
        return text

    def _lead(self, raw: str) -> str:
        """What stands before the calls in a held text: blanks and the tag."""
        blanks = raw[: len(raw) - len(raw.lstrip())]
        return blanks + self._tag


def _may_be_calls(text: str) -> bool | None:
    """Whether a text that begins so can be nothing but calls; None while it is too short to tell."""
    if any(fence.startswith(text) for fence in _FENCES):
        return None
    if text.startswith("`"):
        fence = _OPENED_FENCE.match(text)
        if fence is None:
            return False
        text = text[fence.end() :]
    text = text.removeprefix("[").lstrip()
    return _may_be_a_call(text) if text else None


def _may_be_a_call(text: str) -> bool | None:
    """Whether a JSON object that begins so can be a call."""
    inside = text[1:].lstrip()
    if not text.startswith("{"):
        return False
    if not inside:
        return None
    key = _FIRST_KEY.match(inside)
    if key is None:
        return False
    if key[2]:
        return key[1] in _KEYS
    return None if key.end() == len(inside) and any(known.startswith(key[1]) for known in _KEYS) else False


def _tag_begun(text: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    end = text[-_LONGEST_TAG + 1 :]
    if "<" not in end and "[" not in end:
        return 0
    return next((n for n in range(len(end), 0, -1) if any(tag.startswith(end[-n:]) for tag in _TAGS)), 0)


def _blanks_before(text: str, cut: int) -> int:
    before = text[max(cut - _BLANKS, 0) : cut]
    return len(before) - len(before.rstrip())


def _calls_in(text: str, names: Mapping[str, str], *, tag: str) -> list[LeakedCall] | None:
    """The calls of a text that holds nothing else, None for every other text."""
    try:
        found = list(_values_in(text, named=tag == "[TOOL_CALLS]"))
    except (ValueError, RecursionError):
        return None
    calls = [_call_of(value, names) for value in found]
    whole = [call for call in calls if call is not None]
    return whole if whole and len(whole) == len(calls) else None


def _values_in(text: str, *, named: bool) -> Iterator[Any]:
    """The JSON values that a text consists of, those of a list one by one.

    Raises:
        ValueError: there is something else in it.
    """
    place = _between(text, 0)
    while place < len(text):
        name = _NAMED.match(text, place) if named else None
        value, place = _DECODER.raw_decode(text, name.end() if name else place)
        if name is not None:
            yield {"name": name[1], "arguments": value}
        elif isinstance(value, list):
            yield from value
        else:
            yield value
        place = _between(text, place)


def _between(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return found.end() if found else place


def _call_of(value: Any, names: Mapping[str, str]) -> LeakedCall | None:
    """The call that a JSON value is, None where it is none, or one that is not certain."""
    if not isinstance(value, dict) or not value.keys() <= set(_KEYS) or value.get("type", "function") != "function":
        return None
    inner = value.get("function")
    if isinstance(inner, dict) and value.keys() <= {"function", "id", "type"}:
        return _call_of(inner, names) if "function" not in inner else None
    given = [value[key] for key in _ARGUMENTS if key in value]
    name = value.get("name")
    if "function" in value or len(given) != 1 or not isinstance(name, str) or name not in names:
        return None
    arguments = _object_of(given[0])
    return None if arguments is None else LeakedCall(names[name], arguments)


def _object_of(arguments: Any) -> dict[str, Any] | None:
    """Arguments that can be sent and saved again, from an object or the text of one."""
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        value = parse_sendable(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
