"""Conditions on the arguments of a call: where a value stands, and what it has to be.

Arguments are written by a model, so nothing about them is sure: a value may be missing, of another type, or of a size
nobody thought of. A test that cannot judge a value raises, and who asks decides which side is the safe one.
"""

import copy
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from langgraph.errors import GraphBubbleUp

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

from ._policy_paths import Path

__all__ = ["Argument", "ArgumentTest", "Condition", "ReadyTest", "is_async", "judged", "name_of"]

ArgumentTest: TypeAlias = Callable[[Any], bool]
"""`(value)` to whether the value is meant. One that raises could not judge it."""


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
    def contains(part: str) -> ArgumentTest:
        """A text with this one anywhere in it, in capitals or not."""
        if not isinstance(part, str) or not part:
            raise ConfigurationError(f"contains({repr(part)[:200]}): expected was a text that is not empty.")
        return ReadyTest(f"contains({part!r})", lambda given: part.casefold() in _text(given).casefold())

    @staticmethod
    def matches(pattern: str, *, longest: int = 1000) -> ArgumentTest:
        """A text that a regular expression describes as a whole.

        Args:
            pattern: the expression. The text is a model's, so choose one that is not slow on any text. `sudo` fits only
                the text "sudo"; a part of a text is found by `contains`.
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
    if len(_text(given)) > longest:
        raise TypeError("only a text that is not too long can be matched")
    return pattern.fullmatch(given) is not None


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError("only a text can be looked into")
    return given


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
