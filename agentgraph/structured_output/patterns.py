"""The regular expressions of JSON schemas, on an engine whose time grows only with the text.

What a model wrote is hostile, and a search that backtracks, such as that of `re`, takes minutes over thirty characters
where a pattern repeats a repetition. pydantic's engine (Rust's `regex`) does not backtrack. It reads a few forms
differently; they are said in its words first.

`re` is left for what cannot be matched in linear time or has no form there: look-around, back references, possessive
and atomic groups, conditions, and flags other than `i`, `m` and `s`. Such a pattern is as safe as its author makes it.

`$` means the very end of the text, as JSON schema has it, and not also a place before a final newline.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

__all__ = ["matches", "matches_any"]

_PATTERNS_KEPT = 256
# The forms on which the two engines differ; all else outside of sets is passed on as it is.
_PIECE = re.compile(
    r"""
      \\(?P<edge>[<>])                                     # a plain character, and to Rust the edge of a word
    | (?P<end>\\Z)
    | \\.
    | \[(?P<set>\^?\]?(?:\\.|[^\]\\])*)\]
    | (?P<foreign>(?:[*+?]|\{\d*,?\d*\})\+|\(\?(?!:|P<|[ims]+[:)]))
    | (?P<up_to>\{,(?=\d*\}))
    | (?P<brace>\{(?!\d+(?:,\d*)?\}))
    """,
    re.VERBOSE | re.DOTALL,
)
_SET_PIECE = re.compile(r"\\(?P<edge>[<>])|\\.|(?P<operator>[\[&~])", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern is found anywhere in a text, as JSON schema's `pattern` asks it.

    Args:
        pattern: a regular expression that `re` can read.
        text: the text; half a surrogate pair counts as one strange character.

    Raises:
        re.error: it is no regular expression.

    Example:
        >>> matches("^(a+)+$", "a" * 10_000 + "!")
        False
    """
    return _search(pattern)(text if text.isascii() else _SURROGATE.sub("\ufffd", text))


def matches_any(patterns: Mapping[str, Any], text: str) -> bool:
    """Whether any of the patterns, the keys, is found in a text."""
    return any(matches(pattern, text) for pattern in patterns)


@lru_cache(maxsize=_PATTERNS_KEPT)
def _search(pattern: str) -> Callable[[str], bool]:
    linear = _in_rust_words(pattern)
    if linear is not None:
        try:
            schema = core_schema.str_schema(pattern=linear, regex_engine="rust-regex")
            return SchemaValidator(schema).isinstance_python
        except SchemaError:
            pass
    backtracking = re.compile(pattern)
    return lambda text: backtracking.search(text) is not None


def _in_rust_words(pattern: str) -> str | None:
    """The pattern with the same meaning for Rust; None where it has none that is known."""
    foreign = any(m["foreign"] or "--" in (m["set"] or "") for m in _PIECE.finditer(pattern))
    return None if foreign else _PIECE.sub(_piece, pattern)


def _piece(found: re.Match[str]) -> str:
    said = {"edge": found["edge"], "end": r"\z", "up_to": "{0,", "brace": r"\{"}
    if found["set"] is not None:
        return f"[{_SET_PIECE.sub(_set_piece, found['set'])}]"
    return said.get(found.lastgroup or "", found[0])


def _set_piece(found: re.Match[str]) -> str:
    # Rust has sets in sets, and operators between them.
    return found["edge"] or (f"\\{found[0]}" if found["operator"] else found[0])
