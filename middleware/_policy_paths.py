"""Where a value stands in the arguments of a call: a small, strict part of JSON path, read early. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

__all__ = ["Found", "Path"]

_STEP = re.compile(r"\.(?P<name>[^\W\d][\w-]*)|\[(?P<index>0|[1-9]\d{0,8})\]|\[(?P<every>\*)\]|\['(?P<quoted>[^']+)'\]")
_LONGEST_PATH = 500


class Found(NamedTuple):
    """What a path leads to.

    Attributes:
        values: all of them; none also where a list on the way is empty.
        is_missing: whether the path, or a branch of it, leads nowhere.
    """

    values: list[Any]
    is_missing: bool


@dataclass(frozen=True)
class Path:
    """Where values stand in the arguments.

    Attributes:
        text: as it was written.
        steps: names, indexes, and None for every element.
    """

    text: str
    steps: tuple[str | int | None, ...]

    @classmethod
    def of(cls, text: Any) -> "Path":
        """Read a path.

        Raises:
            ConfigurationError: it is none.
        """
        if not isinstance(text, str):
            raise ConfigurationTypeError(f"arguments has the key {repr(text)[:200]}; expected was a path as a text.")
        steps: list[str | int | None] = []
        at = 1
        while at < len(text) and (step := _STEP.match(text, at)):
            steps.append(_step(step))
            at = step.end()
        if not text.startswith("$") or at < len(text) or len(text) > _LONGEST_PATH:
            raise ConfigurationError(
                f"{text[:200]!r} is no path, from its character {max(at, 1)} on; expected was one such as "
                "'$.to', '$.items[0].price', '$.items[*]' or \"$['a key']\"."
            )
        return cls(text, tuple(steps))

    def find(self, args: Any) -> Found:
        """The values that the path leads to in these arguments."""
        places, is_missing = [args], False
        for step in self.steps:
            inner = [_within(place, step) for place in places]
            is_missing = is_missing or any(one is None for one in inner)
            places = [value for values in inner if values is not None for value in values]
        return Found(places, is_missing)


def _step(step: re.Match[str]) -> str | int | None:
    if step["every"]:
        return None
    return int(step["index"]) if step["index"] else str(step["name"] or step["quoted"])


def _within(place: Any, step: str | int | None) -> list[Any] | None:
    """What one step leads to; None where it leads nowhere."""
    is_list = isinstance(place, Sequence) and not isinstance(place, str | bytes)
    if step is None:
        if isinstance(place, Mapping):
            return list(place.values())
        return list(place) if is_list else None
    if isinstance(step, int):
        return [place[step]] if is_list and step < len(place) else None
    return [place[step]] if isinstance(place, Mapping) and step in place else None
