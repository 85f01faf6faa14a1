"""Conditions on the arguments of a call: where a value stands, and what it has to be.

Arguments are written by a model, so nothing about them is sure: a value may be missing, of another type, or of a size
nobody thought of. A test that cannot judge a value raises, and who asks decides which side is the safe one.
"""

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

from langgraph.errors import GraphBubbleUp

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

__all__ = ["Argument", "ArgumentTest", "Condition", "Path", "ReadyTest", "is_async", "judged", "name_of"]

ArgumentTest: TypeAlias = Callable[[Any], bool]
"""`(value)` to whether the value is meant. One that raises could not judge it."""

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


@dataclass(frozen=True)
class ReadyTest:
    """A ready-made test; its text is its identity, in every process."""

    text: str
    judge: Callable[[Any], bool]

    def __call__(self, value: Any) -> bool:
        return self.judge(value)

    def __repr__(self) -> str:
        return self.text


class Argument:
    r"""Ready-made tests of an argument's value.

    None converts anything: a value of another type than the test speaks of (a number as a text, a list) cannot be
    judged, and raises a TypeError. In a rule that counts against the call.

    Example:
        >>> Argument.at_most(100)(99.5), Argument.one_of("ann", "bob")("eve"), Argument.matches(r"\w+@home")("x@home")
        (True, False, True)
    """

    @staticmethod
    def equals(value: Any) -> ArgumentTest:
        """The same JSON value. 1 and 1.0 are the same number; 1, "1" and True are of different types."""
        return ReadyTest(f"equals({value!r})", lambda given: _is_same(value, given))

    @staticmethod
    def one_of(*values: Any) -> ArgumentTest:
        """The same as one of these.

        Raises:
            ConfigurationError: there are none.
        """
        if not values:
            raise ConfigurationError("one_of() has no values, so that nothing could be one of them.")
        return ReadyTest(f"one_of{values!r}", lambda given: _is_one(values, given))

    @staticmethod
    def matches(pattern: str, *, longest: int = 1000) -> ArgumentTest:
        """A text that a regular expression describes as a whole.

        Args:
            pattern: the expression. The text is a model's, so choose one that is not slow on any text.
            longest: in characters; a longer text is not judged.

        Raises:
            ConfigurationError: it is no regular expression.
        """
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ConfigurationError(f"{repr(pattern)[:200]} is no regular expression: {error}.") from None
        return ReadyTest(f"matches({pattern!r})", lambda given: _is_like(compiled, longest, given))

    @staticmethod
    def less_than(number: float) -> ArgumentTest:
        """A number below this one."""
        bound = _bound("less_than", number)
        return ReadyTest(f"less_than({number!r})", lambda given: _number(given) < bound)

    @staticmethod
    def at_most(number: float) -> ArgumentTest:
        """A number not above this one."""
        bound = _bound("at_most", number)
        return ReadyTest(f"at_most({number!r})", lambda given: _number(given) <= bound)

    @staticmethod
    def more_than(number: float) -> ArgumentTest:
        """A number above this one."""
        bound = _bound("more_than", number)
        return ReadyTest(f"more_than({number!r})", lambda given: _number(given) > bound)

    @staticmethod
    def at_least(number: float) -> ArgumentTest:
        """A number not below this one."""
        bound = _bound("at_least", number)
        return ReadyTest(f"at_least({number!r})", lambda given: _number(given) >= bound)


def _bound(name: str, number: Any) -> Any:
    try:
        return _number(number)
    except TypeError:
        raise ConfigurationTypeError(f"{name}({repr(number)[:200]}) was given; expected was a number.") from None


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - not a number
        raise TypeError(f"{type(value).__name__} is no number")
    return value


def _kind(value: Any) -> type[Any]:
    if isinstance(value, bool):
        return bool
    return next(
        (kind for kind in (float, str, dict, list) if isinstance(value, kind)),
        float if isinstance(value, int) else type(value),
    )


def _is_same(expected: Any, given: Any) -> bool:
    if _kind(expected) is not _kind(given):
        raise TypeError(f"{type(given).__name__} cannot be compared with {type(expected).__name__}")
    if isinstance(expected, dict):
        return expected.keys() == given.keys() and all(_is_same(expected[key], given[key]) for key in expected)
    if isinstance(expected, list):
        return len(expected) == len(given) and all(map(_is_same, expected, given))
    return bool(expected == given)


def _is_one(values: Sequence[Any], given: Any) -> bool:
    comparable = [value for value in values if _kind(value) is _kind(given)]
    if not comparable:
        raise TypeError(f"{type(given).__name__} cannot be compared with any of the values")
    return any(_is_same(value, given) for value in comparable)


def _is_like(pattern: re.Pattern[str], longest: int, given: Any) -> bool:
    if not isinstance(given, str) or len(given) > longest:
        raise TypeError("only a text that is not too long can be matched")
    return pattern.fullmatch(given) is not None


def judged(test: Callable[[Any], Any], value: Any) -> bool | None:
    """What a test says; None where it could not judge, because it raised."""
    try:
        said = test(value if isinstance(test, ReadyTest) else copy.deepcopy(value))
        if inspect.isawaitable(said):
            getattr(said, "close", bool)()
            return None
        return bool(said)
    except GraphBubbleUp:
        raise
    except Exception:  # noqa: BLE001 - a model's arguments can break any test; the caller takes the safe side
        return None


@dataclass(frozen=True)
class Condition:
    """A test of the values at a path."""

    path: Path
    test: ArgumentTest

    @classmethod
    def of(cls, path: Any, expected: Any) -> "Condition":
        """A condition as a user wrote it: a path, and a test or a plain value.

        Raises:
            ConfigurationError: the path is none.
        """
        if is_async(expected):
            raise ConfigurationTypeError(f"The test at {path!r} is async; expected was a plain function of the value.")
        test: ArgumentTest = cast("ArgumentTest", expected) if callable(expected) else Argument.equals(expected)
        return cls(Path.of(path), test)

    def holds(self, args: Any, *, for_all: bool, if_missing: bool) -> bool:
        """Whether the arguments are meant.

        Args:
            args: of the call.
            for_all: all values must pass, there must be one, and what cannot be judged fails; else one is enough, also
                one that cannot be judged.
            if_missing: what follows where the path leads nowhere.
        """
        found = self.path.find(args)
        passed = [judged(self.test, value) for value in found.values]
        if found.is_missing and not for_all and if_missing:
            return True
        if not for_all:
            return any(one is not False for one in passed)
        if found.is_missing and not if_missing:
            return False
        return all(passed) and (bool(passed) or found.is_missing)

    def told(self) -> str:
        """The condition as a short text."""
        named = repr(self.test) if isinstance(self.test, ReadyTest) else name_of(self.test)
        return f"{self.path.text} {named}"


def name_of(function: Any) -> str:
    """A function's name, the same in every process."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def is_async(function: Any) -> bool:
    """Whether calling this would give something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
