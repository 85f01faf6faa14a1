"""When a conversation is summarised, and what of it is kept as it is: pure functions of its size."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph.errors import ConfigurationError
from agentgraph.history import check, last_ai_message

__all__ = [
    "SOURCE",
    "SOURCE_KEY",
    "ContextSize",
    "Divider",
    "Division",
    "Size",
    "TokenCounter",
    "Trigger",
    "TriggerClause",
    "is_summary",
    "newest",
    "size_of",
    "sizes_of",
]

SOURCE_KEY = "lc_source"
"""Under which key of its `additional_kwargs` a message says that it is a summary."""

SOURCE = "summarization"
"""What stands there."""

ContextSize = tuple[Literal["tokens", "messages"], int] | tuple[Literal["fraction"], float]
"""A size: `("tokens", 3000)`, `("messages", 50)`, or `("fraction", 0.8)` of the model's window."""

TokenCounter = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of messages."""


class TriggerClause(TypedDict, total=False):
    """Sizes that must all be reached.

    Attributes:
        tokens: the conversation has at least so many tokens.
        messages: it has at least so many messages.
        fraction: it has at least this part, above 0 and at most 1, of the tokens of the model's window.
    """

    tokens: int
    messages: int
    fraction: float


Trigger = ContextSize | TriggerClause | Sequence[ContextSize | TriggerClause]
"""When a summary is due: a size, a clause, or a list of them, any of which is enough."""


@dataclass(frozen=True)
class Size:
    """Sizes in numbers; None is not asked for."""

    messages: int | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Division:
    """A conversation in three parts.

    Attributes:
        front: system messages at its start, which stay.
        old: what the summary takes the place of.
        kept: what stays after it; begins at no answer to a tool call.
    """

    front: list[Any]
    old: list[Any]
    kept: list[Any]


def sizes_of(trigger: Any, window: int | None) -> tuple[Size, ...]:
    """The alternatives of a trigger.

    Raises:
        ConfigurationError: it is no trigger.
    """
    if trigger is None:
        return ()
    if isinstance(trigger, Mapping):
        return (_clause(trigger, window),)
    if isinstance(trigger, tuple) and trigger and isinstance(trigger[0], str):
        return (size_of("trigger", trigger, window),)
    if isinstance(trigger, Sequence) and not isinstance(trigger, str):
        return tuple(size for one in trigger for size in sizes_of(one, window))
    raise _refused("trigger", trigger)


def size_of(name: str, given: Any, window: int | None) -> Size:
    """One size of the user's; `name` is the parameter.

    Raises:
        ConfigurationError: it is none, or a fraction of a window that is not known.
    """
    if not isinstance(given, tuple) or len(given) != 2:  # noqa: PLR2004 (a kind and a value)
        raise _refused(name, given)
    kind, value = given
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _refused(name, given)
    if kind == "fraction" and value <= 1:
        if window is None:
            raise ConfigurationError(
                f"{name} is {given!r}, a fraction of the model's window, but the model's profile does not say how "
                'large that is. Give the model `profile={"max_input_tokens": ...}`, or a size in tokens or messages.'
            )
        return Size(tokens=max(int(window * value), 1))
    if kind in {"tokens", "messages"} and isinstance(value, int):
        return Size(**{kind: value})
    raise _refused(name, given)


def _clause(clause: Mapping[Any, Any], window: int | None) -> Size:
    sizes = [size_of("trigger", item, window) for item in clause.items()]
    if not sizes:
        raise _refused("trigger", dict(clause))
    counts = [size.messages for size in sizes if size.messages is not None]
    tokens = [size.tokens for size in sizes if size.tokens is not None]
    return Size(max(counts, default=None), max(tokens, default=None))


def _refused(name: str, given: Any) -> ConfigurationError:
    more = ', a dict such as {"tokens": 4000, "messages": 10} (all of it), or a list (any of it)'
    return ConfigurationError(
        f'{name} is {repr(given)[:200]}; expected was ("tokens", n) or ("messages", n) with a whole n above 0, or '
        f'("fraction", f) with f above 0 and at most 1{more if name == "trigger" else ""}.'
    )


@dataclass(frozen=True)
class Divider:
    """Divides conversations.

    Attributes:
        triggers: any of them makes it due.
        keep: how much stays.
        count: counts tokens.
        believes_usage: whether the tokens that the model's server reported count as well.
    """

    triggers: tuple[Size, ...]
    keep: Size
    count: TokenCounter
    believes_usage: bool

    def divide(self, messages: Sequence[Any]) -> Division | None:
        """The parts of a conversation whose summary is due; None where it is not, or would make nothing shorter."""
        met = self._met(messages)
        if not met:
            return None
        sound = check(messages).messages
        start = next((i for i, message in enumerate(sound) if not isinstance(message, SystemMessage)), len(sound))
        cut = self._cut(sound, start)
        limits = [size.tokens for size in met if size.tokens is not None]
        if limits:
            # What is kept must leave room, or nearly each model call would have its summary. A number of messages says
            # nothing about that; a number of tokens was chosen beside the trigger's.
            limit = min(limits)
            room = limit * 3 // 4 if self.keep.tokens is None else limit
            if self.count(sound[cut:]) >= room:
                cut = newest(sound, cut, limit // 2, self.count)
        elif _comes_too_soon(sound, start, cut, met):
            return None
        old = sound[start:cut]
        return None if all(map(is_summary, old)) else Division(sound[:start], old, sound[cut:])

    def _met(self, messages: Sequence[Any]) -> list[Size]:
        """The alternatives that are reached. Tokens are counted only where that decides."""
        long = [size for size in self.triggers if len(messages) >= (size.messages or 0)]
        if not messages or all(size.tokens is None for size in long):
            return long if messages else []
        tokens = self._tokens(messages)
        return [size for size in long if tokens >= (size.tokens or 0)]

    def _tokens(self, messages: Sequence[Any]) -> int:
        counted = self.count(messages)
        last = last_ai_message(messages) if self.believes_usage else None
        if last is None or not last.usage_metadata:
            return counted
        later = messages[_place(messages, last) + 1 :]
        return max(counted, last.usage_metadata["total_tokens"] + (self.count(later) if later else 0))

    def _cut(self, messages: list[Any], start: int) -> int:
        """Where the kept part begins by what is to be kept."""
        if self.keep.tokens is not None:
            return newest(messages, start, self.keep.tokens, self.count)
        cut = max(len(messages) - (self.keep.messages or 0), start)
        while cut > start and isinstance(messages[cut], ToolMessage):
            cut -= 1
        return cut


def newest(messages: Sequence[Any], start: int, budget: int, count: TokenCounter) -> int:
    """Where the longest end of a valid history begins that has at most so many tokens.

    It never begins at an answer to a tool call, and the last message stays, with the calls that it answers.

    Args:
        messages: the history.
        start: where it may begin.
        budget: in tokens.
        count: counts tokens.
    """
    starts = [i for i in range(start, len(messages)) if not isinstance(messages[i], ToolMessage)]
    if not starts:
        return len(messages)
    return starts[min(bisect_left(starts, -budget, key=lambda i: -count(messages[i:])), len(starts) - 1)]


def is_summary(message: Any) -> bool:
    """Whether a message is a summary that stands for what came before it."""
    return isinstance(message, HumanMessage) and message.additional_kwargs.get(SOURCE_KEY) == SOURCE


def _comes_too_soon(messages: list[Any], start: int, cut: int, met: list[Size]) -> bool:
    """Whether so much is kept that each model call would have its summary.

    Then it waits until what has come since the last one is at least half of what is kept.
    """
    if cut == start or not is_summary(messages[start]):
        return False
    kept, new = len(messages) - cut, cut - start - 1
    is_due_again = start + 1 + kept >= min(size.messages or 0 for size in met)
    return is_due_again and 2 * new < kept


def _place(messages: Sequence[Any], wanted: AIMessage) -> int:
    return next(i for i in range(len(messages) - 1, -1, -1) if messages[i] is wanted)
