"""The words of the thread machine: how a run begins, and what goes wrong in it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["PLEASE", "Again", "Decide", "GoOn", "Say", "Start", "Trouble", "Where"]

PLEASE = "Please do: "


@dataclass(frozen=True)
class Say:
    """A run begins with a message: the calls of each round of the model."""

    rounds: tuple[tuple[str, ...], ...] = ()

    @property
    def text(self) -> str:
        return PLEASE + " / ".join(" ".join(calls) for calls in self.rounds)


@dataclass(frozen=True)
class GoOn:
    """A run goes on where the thread stopped."""


@dataclass(frozen=True)
class Decide:
    """A run begins with decisions, in turn, on what is asked; of several questions perhaps on the first alone."""

    kinds: tuple[str, ...]
    only_first: bool = False


@dataclass(frozen=True)
class Again:
    """A run begins with the last decisions once more, word for word."""


Start: TypeAlias = Say | GoOn | Decide | Again
Where = Literal["in a tool", "after a tool", "in the model"]


@dataclass(frozen=True)
class Trouble:
    """What goes wrong: `what` happens at the `nth` time that the run comes to a place."""

    what: str = "nothing"
    where: Where = "in a tool"
    nth: int = 1
