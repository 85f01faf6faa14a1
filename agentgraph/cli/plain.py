"""Any value as plain JSON: what a model, a tool or a question holds may be unfit for it, and is shown all the same."""

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

__all__ = ["plain"]

DEEPEST = 50
SHOWN = 1000
LARGEST = 10**1000  # Python writes no number of more than 4300 digits, other languages far less


def plain(value: Any) -> Any:
    """`value` made of dicts with string keys, lists, strings, numbers, booleans and None, as strict JSON has them.

    What JSON has no form for becomes its `repr`, cut where it is long; so do nan and infinity.

    Example:
        >>> plain({"a": (1, float("inf"))})
        {'a': [1, 'inf']}
    """
    try:
        found = to_jsonable_python(value, fallback=_shown, serialize_unknown=True)
        json.dumps(found, allow_nan=False)
    except Exception:  # noqa: BLE001  foreign values raise what they like; no graph runs in here
        return _plain(value, ())
    return found


def _plain(value: Any, inside: tuple[int, ...]) -> Any:
    """The same, value by value; `inside` has the ids of what it is part of."""
    if len(inside) < DEEPEST and id(value) not in inside:
        if isinstance(value, Mapping):
            return {_key(key): _plain(one, (*inside, id(value))) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [_plain(one, (*inside, id(value))) for one in value]
    return value if value is None or isinstance(value, str) or _is_number(value) else _shown(value)


def _is_number(value: Any) -> bool:
    return abs(value) < LARGEST if isinstance(value, int) else isinstance(value, float) and math.isfinite(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else _shown(key)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  as above
        return f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
