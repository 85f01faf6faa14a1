"""What is done with sensitive values: a rule, its strategies, and the error of the one that blocks."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from agentgraph.errors import AgentGraphError, ConfigurationError, ConfigurationTypeError

from ._pii_detectors import BUILT_IN, Detector, PIIMatch, Search

__all__ = ["PIIDetectionError", "RedactionRule", "ResolvedRule", "Strategy"]

Strategy = Literal["block", "redact", "mask", "hash"]

_SHOWN = 4
"""So many characters at the end of a value a mask leaves readable."""

_OCTETS = 4


class PIIDetectionError(AgentGraphError):
    """The strategy is "block", and a sensitive value was found. The error's text does not show the value.

    Args:
        pii_type: what was found.
        matches: the values and their places.
    """

    def __init__(self, pii_type: str, matches: Sequence[PIIMatch]) -> None:
        self.pii_type = pii_type
        self.matches = list(matches)
        super().__init__(f"A text has {len(self.matches)} value(s) of type {pii_type!r}, which is to be blocked.")

    def __repr__(self) -> str:
        return f"PIIDetectionError(pii_type={self.pii_type!r}, count={len(self.matches)})"

    def __reduce__(self) -> Any:
        return type(self), (self.pii_type, self.matches)


@dataclass(frozen=True)
class RedactionRule:
    """How one type of sensitive values is found and what is done with it.

    Args:
        pii_type: a built-in type, or a name for what `detector` finds.
        strategy: "redact" puts `[REDACTED_<TYPE>]` in its place, "mask" leaves the end of the value, "hash" puts a
            pseudonym that is the same for the same value, "block" raises. Default "redact".
        detector: a regular expression, or a function from a text to its matches, each a dict with `start`, `end` and,
            where it likes, `value` (or `text`) and `type`. None for the built-in detector of the type.

    Example:
        >>> rule = RedactionRule("ticket", detector=r"T-[0-9]+").resolve()
        >>> rule.apply("See T-12.")[0]
        'See [REDACTED_TICKET].'
    """

    pii_type: str
    strategy: Strategy = "redact"
    detector: Detector | str | None = None

    def resolve(self) -> "ResolvedRule":
        """The rule, ready to be applied.

        Raises:
            ConfigurationError: an unknown type or strategy, or no regular expression.
        """
        if self.strategy not in get_args(Strategy):
            raise ConfigurationError(
                f"strategy is {repr(self.strategy)[:200]}; expected was one of {', '.join(get_args(Strategy))}."
            )
        if not isinstance(self.pii_type, str) or not self.pii_type:
            raise ConfigurationTypeError(f"pii_type is {repr(self.pii_type)[:200]}; expected was a name.")
        return ResolvedRule(self.pii_type, self.strategy, _detector_of(self.pii_type, self.detector))


@dataclass(frozen=True)
class ResolvedRule:
    """A rule whose detector is known.

    Attributes:
        pii_type: what it finds.
        strategy: what it does with it.
        detector: finds it.
    """

    pii_type: str
    strategy: Strategy
    detector: Detector

    @property
    def search(self) -> Search | None:
        """The detector where it knows what its values are made of, so that a stream can be decided piece by piece."""
        return self.detector if isinstance(self.detector, Search) else None

    def softened(self) -> "ResolvedRule":
        """The rule for what must be kept out of sight but cannot be blocked any more."""
        return replace(self, strategy="redact") if self.strategy == "block" else self

    def apply(self, content: str) -> tuple[str, list[PIIMatch]]:
        """Apply the rule to a text.

        Args:
            content: the text.

        Returns:
            The text without the values, and what was found.

        Raises:
            PIIDetectionError: something was found, and the strategy is "block".
        """
        found = self.matches(content)
        return self._replaced([content], content, found)[0] if found else content, found

    def text(self, content: str) -> str:
        """A text without the values; the same object where there are none."""
        return self.apply(content)[0]

    def pieces(self, texts: list[str]) -> list[str]:
        """The pieces of one text without the values, also those that begin in one piece and end in another."""
        whole = "".join(texts)
        found = self.matches(whole)
        return self._replaced(texts, whole, found) if found else texts

    def matches(self, content: str) -> list[PIIMatch]:
        """The values in a text, in order; those that overlap are one."""
        merged: list[PIIMatch] = []
        for match in sorted(self.detector(content), key=lambda one: (one["start"], -one["end"])):
            if not merged or match["start"] >= merged[-1]["end"]:
                merged.append(match)
            elif match["end"] > merged[-1]["end"]:
                start = merged[-1]["start"]
                value = content[start : match["end"]]
                merged[-1] = PIIMatch(type=merged[-1]["type"], value=value, start=start, end=match["end"])
        return merged

    def _replaced(self, texts: list[str], whole: str, found: list[PIIMatch]) -> list[str]:
        if self.strategy == "block":
            raise PIIDetectionError(self.pii_type, found)
        result, begin, number = [], 0, 0
        for text in texts:
            end, parts, place = begin + len(text), [], begin
            while number < len(found) and found[number]["start"] < end:
                match = found[number]
                if match["start"] >= begin:
                    parts += [whole[place : match["start"]], _REPLACEMENTS[self.strategy](match)]
                place = min(match["end"], end)
                if match["end"] > end:
                    break
                number += 1
            result.append("".join([*parts, whole[place:end]]))
            begin = end
        return result


def _detector_of(pii_type: str, given: Any) -> Detector:
    if given is None:
        if pii_type in BUILT_IN:
            return BUILT_IN[pii_type]
        raise ConfigurationError(
            f"There is no detector for the type {pii_type!r:.200}; there are those for {', '.join(BUILT_IN)}. "
            "For another type pass detector=, a regular expression or a function."
        )
    if isinstance(given, str):
        try:
            pattern = re.compile(given)
        except re.error as error:
            raise ConfigurationError(f"detector is {given!r:.200}, which is no regular expression: {error}.") from error
        return lambda content: [
            PIIMatch(type=pii_type, value=match.group(), start=match.start(), end=match.end())
            for match in pattern.finditer(content)
            if match.group()
        ]
    if isinstance(given, Search):
        return given
    if callable(given):
        detect: Callable[[str], Any] = given
        return lambda content: [_match_of(one, pii_type, content) for one in detect(content) or ()]
    raise ConfigurationTypeError(
        f"detector is {type(given).__name__}; expected was a regular expression or a function from a text to matches."
    )


def _match_of(given: Any, pii_type: str, content: str) -> PIIMatch:
    start, end = (given.get("start"), given.get("end")) if isinstance(given, Mapping) else (None, None)
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= len(content):
        # What it gave may hold the value, so it is not shown.
        raise ConfigurationTypeError(
            f"The detector of {pii_type!r} gave a match without a place in the text; expected were dicts with `start` "
            "and `end`, whole numbers with 0 <= start < end <= the length of the text."
        )
    value = given.get("value", given.get("text")) or content[start:end]
    return PIIMatch(type=str(given.get("type", pii_type)), value=str(value), start=start, end=end)


def _redacted(match: PIIMatch) -> str:
    return f"[REDACTED_{match['type'].upper()}]"


def _hashed(match: PIIMatch) -> str:
    return f"<{match['type']}_hash:{hashlib.sha256(match['value'].encode(errors='replace')).hexdigest()[:8]}>"


def _masked(match: PIIMatch) -> str:
    return _MASKS.get(match["type"], _masked_end)(match["value"])


def _masked_end(value: str) -> str:
    return f"****{value[-_SHOWN:]}" if len(value) > _SHOWN else "****"


def _masked_email(value: str) -> str:
    name, at, domain = value.partition("@")
    return f"{name}@****.{domain.rpartition('.')[2]}" if at and "." in domain else "****"


def _masked_card(value: str) -> str:
    digits = "".join(char for char in value if char.isdigit())
    separator = next((one for one in "- " if one in value), "")
    return separator.join(["****"] * 3 + [digits[-_SHOWN:]])


def _masked_ip(value: str) -> str:
    octets = value.split(".")
    return f"*.*.*.{octets[-1]}" if len(octets) == _OCTETS and ":" not in value else "****"


def _masked_mac(value: str) -> str:
    separator = ":" if ":" in value else "-"
    return separator.join(["**"] * 5 + [value[-2:]])


_MASKS: dict[str, Callable[[str], str]] = {
    "email": _masked_email,
    "credit_card": _masked_card,
    "ip": _masked_ip,
    "mac_address": _masked_mac,
    "url": lambda _: "[MASKED_URL]",
}

_REPLACEMENTS: dict[str, Callable[[PIIMatch], str]] = {"redact": _redacted, "mask": _masked, "hash": _hashed}
