"""JSON as servers and models write it: read strictly where it can be, else in the one way that it can be meant. Pure.

Servers in JavaScript cut texts between the halves of a character beyond U+FFFF, those in Python write NaN, and many
leave line breaks in strings as they are. None of this is a reason to lose an answer.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import orjson

__all__ = ["SplitText", "parse_json", "parse_sendable", "whole_text", "without_halves"]

_FIRST_HALF: Final = ("\ud800", "\udbff")
_REPLACEMENT: Final = "\ufffd"
# Whatever walks through a value later (repr, pydantic, checkpoints) does so by recursion, on a stack of its own height.
_DEEPEST: Final = 200
_TOO_DEEP: Final = f"it is nested more than {_DEEPEST} levels deep"


def parse_json(text: str) -> Any:
    r"""Parse what a server calls JSON; NaN, bare control characters and halves of surrogate pairs are let through.

    Args:
        text: one document.

    Raises:
        ValueError: it is not JSON even so, or nested too deep.

    Example:
        >>> parse_json('{"logprob": -Infinity}')
        {'logprob': -inf}
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        value = _parse_leniently(text, error)
    if _is_too_deep(text, value):
        raise ValueError(_TOO_DEEP)
    return value


def _parse_leniently(text: str, refusal: ValueError) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise refusal from None


def _is_too_deep(text: str, value: Any) -> bool:
    if text.count("[") + text.count("{") <= _DEEPEST:
        return False
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(one, dict | list) for one in level)


def parse_sendable(text: str) -> Any:
    """Parse what a model wrote, if it can be sent and saved again.

    Args:
        text: one document; bare line breaks in strings are let through.

    Raises:
        json.JSONDecodeError: it is not JSON.
        UnicodeEncodeError: it holds half of a surrogate pair.
        ValueError: it holds a number that JSON has no form for (NaN, infinity).
        RecursionError: it is nested too deep.
    """
    value = json.loads(text, strict=False, parse_constant=_refuse_constant)
    if _is_too_deep(text, value):
        raise RecursionError(_TOO_DEEP)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is no JSON"
    raise ValueError(message)


def whole_text(text: str) -> str:
    """Join the halves of surrogate pairs that stand together, and replace those that stand alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_halves(value: Any) -> Any:
    """Do `whole_text` to every string in a parsed JSON value, in place; return the value."""
    if isinstance(value, str):
        return whole_text(value)
    # No recursion: how deep a server nests is its own choice.
    waiting: list[Any] = [value] if isinstance(value, dict | list) else []
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else ():
            node[whole_text(key)] = node.pop(key)
        for key, item in list(node.items() if isinstance(node, dict) else enumerate(node)):
            if isinstance(item, str):
                node[key] = whole_text(item)
            elif isinstance(item, dict | list):
                waiting.append(item)
    return value


@dataclass(slots=True)
class SplitText:
    r"""A text that comes in pieces, between which a character may be cut in half.

    Example:
        >>> text = SplitText()
        >>> text.feed("a\ud83d"), text.feed("\ude00b"), text.rest()
        ('a', '😀b', '')
    """

    _held: str = ""

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is whole by now."""
        if not piece:
            return ""
        text, self._held = self._held + piece, ""
        if _FIRST_HALF[0] <= text[-1] <= _FIRST_HALF[1]:
            text, self._held = text[:-1], text[-1]
        return whole_text(text)

    def rest(self) -> str:
        """Say that no more comes; return the replacement of a half that was left."""
        held, self._held = self._held, ""
        return _REPLACEMENT if held else ""
