"""The limits of a budget: how a user says them, and whether a call still fits. Pure decisions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError

from ._budget_prices import decimal_of
from ._budget_usage import Usage
from ._own_calls import model_of

__all__ = ["Budget", "BudgetExceededError", "BudgetKey", "Degrade", "Standing", "Verdict", "amount", "decide"]

Dimension = Literal["tokens", "cost", "seconds", "model_calls", "tool_calls"]
_DIMENSIONS: tuple[Dimension, ...] = ("cost", "tokens", "model_calls", "tool_calls", "seconds")
_MODES = ("stop", "warn", "ask", "error")
_UNITS = {"tokens": "tokens", "cost": "US dollars", "seconds": "seconds"}


class _CallLimitExceededError(RunError):
    """By this name `agentgraph.runs.outcome` knows the errors of limits."""


class BudgetExceededError(_CallLimitExceededError):
    """A call would go over a limit whose budget has `on_exceeded="error"`.

    Args:
        limit: which one, e.g. "run_tokens".
        spent: what was spent before the call.
        allowed: how much the limit allows.
    """

    def __init__(self, limit: str, spent: Any, allowed: Any) -> None:
        super().__init__(
            f"The budget {limit!r} allows {allowed}; {spent} are spent, and the next call does not fit. Raise the "
            "limit, or use on_exceeded='stop' to end such a run with an answer."
        )
        self.limit, self.spent, self.allowed = limit, spent, allowed

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args`, which is the text alone.
        return type(self), (self.limit, self.spent, self.allowed)


class Degrade:
    """What `on_exceeded` takes to go on with another model, usually a cheaper one, for the rest.

    The limit does not end the run then. Give a second, higher budget for that.

    Args:
        model: a chat model, or "provider:name".

    Raises:
        ConfigurationError: the name leads to no model, or it is no chat model.
    """

    def __init__(self, model: str | BaseChatModel) -> None:
        self.model = model_of(model)


@dataclass(frozen=True)
class BudgetKey:
    """A scope that runs on different threads share, such as a tenant; what they spend is kept in the store.

    Args:
        key: `(runtime) -> ("tenant", "acme")`: from the run's runtime (context, store) to the parts of a key: texts
            that are not empty and have no dot. Put the month into it for a budget a month.

    Example:
        >>> of_tenant = BudgetKey(lambda runtime: ("tenant", runtime.context.tenant))
    """

    key: Callable[[Any], Sequence[str]]

    def __post_init__(self) -> None:
        if not callable(self.key):
            raise ConfigurationTypeError(f"BudgetKey got {repr(self.key)[:200]}; expected was a function (runtime).")

    def namespace(self, runtime: Any) -> tuple[str, ...]:
        """Under which namespace of the store the key's records are.

        Raises:
            ConfigurationError: the function gave no key.
        """
        parts = self.key(runtime)
        listed = tuple(parts) if isinstance(parts, Sequence) and not isinstance(parts, str) else ()
        if not listed or not all(isinstance(part, str) and part and "." not in part for part in listed):
            raise ConfigurationError(
                f"The key of a budget is {repr(parts)[:200]}; expected were texts without dots, as in "
                '("tenant", "acme").'
            )
        return ("budgets", *listed)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much may be spent, by whom together, and what happens when it is not enough.

    Attributes:
        tokens: of requests and answers together; None for any number.
        cost: US dollars, a number or a text such as "0.50"; None for any amount.
        seconds: in which a model or a tool is at work; pauses do not count. None for any time.
        model_calls: answers of models; None for any number.
        tool_calls: None for any number.
        scope: "run" (the default), one run with its pauses; "thread", all runs on the thread; or a BudgetKey.
        on_exceeded: when the next call does not fit. "stop" (the default): one last answer without tools, for which
            room is kept, and the run ends. "ask": a person is asked for more. "error": the run raises. "warn": an
            event, and the run goes on. `Degrade(model)`: it goes on with another model.
        warn_at: from which part of the limit on there is a warning, above 0 and at most 1; None for none.
            Default 0.8.

    Raises:
        ConfigurationError: nothing is limited, a limit is negative, or a choice is unknown.
        ConfigurationTypeError: a limit is no number.

    Example:
        >>> Budget(tokens=50_000, cost="0.50").scope
        'run'
    """

    tokens: int | None = None
    cost: Decimal | float | str | None = None
    seconds: float | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    scope: Literal["run", "thread"] | BudgetKey = "run"
    on_exceeded: Literal["stop", "warn", "ask", "error"] | Degrade = "stop"
    warn_at: float | None = 0.8
    limits: Mapping[Dimension, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in _DIMENSIONS if getattr(self, name) is not None}
        if not given:
            raise ConfigurationError(
                "This Budget limits nothing. Give it at least one of tokens, cost, seconds, model_calls, tool_calls."
            )
        object.__setattr__(self, "limits", {name: _number(name, value) for name, value in given.items()})
        if not isinstance(self.scope, BudgetKey) and str(self.scope) not in {"run", "thread"}:
            raise ConfigurationError(
                f"scope is {repr(self.scope)[:200]}; expected was 'run', 'thread' or a BudgetKey(...)."
            )
        if not isinstance(self.on_exceeded, Degrade) and self.on_exceeded not in _MODES:
            raise ConfigurationError(
                f"on_exceeded is {repr(self.on_exceeded)[:200]}; expected was one of {', '.join(_MODES)}, or "
                "Degrade(model)."
            )
        if self.warn_at is not None and not (_is_number(self.warn_at) and 0 < self.warn_at <= 1):
            raise ConfigurationError(
                f"warn_at is {repr(self.warn_at)[:200]}; expected was a part above 0 and at most 1, or None."
            )


@dataclass(frozen=True)
class Standing:
    """How one budget stands before a call.

    Attributes:
        budget: the limits.
        key: of the budget within its agent, for marks.
        spent: what counts against it; calls that are being made included.
        refused: whether a tool call of this run was refused already.
        raised: by dimension, what a person has added.
        inherited: whether it is the budget of an agent further up.
    """

    budget: Budget
    key: str
    spent: Usage
    refused: bool = False
    raised: Mapping[str, Any] = field(default_factory=dict)
    inherited: bool = False

    @property
    def mode(self) -> str:
        """What happens when a call does not fit; a subagent can end itself alone, its caller does the rest."""
        if isinstance(self.budget.on_exceeded, Degrade):
            return "degrade"
        if self.inherited and self.budget.on_exceeded in {"ask", "error"}:
            return "stop"
        return self.budget.on_exceeded

    def allowed(self, dimension: Dimension) -> Any:
        """How much the limit allows by now."""
        return self.budget.limits[dimension] + self.raised.get(dimension, 0)

    def which(self, dimension: Dimension) -> str:
        """The limit for programs, e.g. "run_tokens"."""
        return f"{self.budget.scope if isinstance(self.budget.scope, str) else 'key'}_{dimension}"

    def over(self, expected: Usage, *, with_tools: bool = True) -> Dimension | None:
        """Which limit a call that spends at least so much does not fit into; None where it does."""
        for dimension in self.budget.limits:
            spent, allowed = amount(self.spent, dimension), self.allowed(dimension)
            if dimension == "tool_calls":
                if with_tools and self.refused and spent >= allowed:
                    return dimension
            elif spent + amount(expected, dimension) > allowed or (dimension == "seconds" and spent >= allowed):
                return dimension
        return None

    def room_for_tools(self) -> int | None:
        """How many more tool calls are let through; None for any number."""
        if "tool_calls" not in self.budget.limits or self.mode == "warn":
            return None
        return max(int(self.allowed("tool_calls")) - self.spent.tool_calls, 0)

    def nearly_reached(self) -> list[Dimension]:
        """The limits of which so much is spent that a warning is due."""
        part = self.budget.warn_at
        if part is None:
            return []
        used: list[tuple[Dimension, Any, Any]] = [
            (one, amount(self.spent, one), self.allowed(one)) for one in self.budget.limits
        ]
        return [one for one, spent, allowed in used if spent and float(spent) >= float(allowed) * part]

    def told(self, dimension: Dimension) -> str:
        """The limit for people."""
        scopes = {"run": "of this run", "thread": "of this conversation"}
        whose = scopes.get(self.budget.scope, "") if isinstance(self.budget.scope, str) else "shared with other runs"
        unit = _UNITS.get(dimension, dimension.replace("_", " "))
        return f"The budget {whose} is used up: {self.allowed(dimension)} {unit}."


@dataclass(frozen=True)
class Verdict:
    """What becomes of a model call: it is made ("go"), it is the "last" one, the run ends, raises or asks."""

    kind: Literal["go", "last", "end", "error", "ask"]
    standing: Standing | None = None
    dimension: Dimension = "tokens"


def decide(standings: Sequence[Standing], expected: Usage, last: Usage | None) -> Verdict:
    """Whether a call fits into all budgets.

    Args:
        standings: how they stand.
        expected: what the call spends at least.
        last: what a last answer would spend, for which room has to be kept; None where none is to be given.
    """
    verdicts = [_judged(one, expected, last) for one in standings]
    return next(
        (one for kind in ("error", "end", "ask", "last") for one in verdicts if one.kind == kind), Verdict("go")
    )


def _judged(one: Standing, expected: Usage, last: Usage | None) -> Verdict:
    if one.mode in {"warn", "degrade"}:
        return Verdict("go")
    keeps = one.mode == "stop" and last is not None
    over = one.over(expected + last if keeps and last is not None else expected)
    if over is None:
        return Verdict("go")
    if one.mode == "error":
        return Verdict("error", one, over)
    if one.mode == "ask":
        return Verdict("ask", one, over)
    # The room that was kept is for what the answer has beyond that.
    if not keeps or one.over(expected, with_tools=False) is not None:
        return Verdict("end", one, over)
    return Verdict("last", one, over)


def amount(usage: Usage, dimension: Dimension) -> Any:
    """One amount of a usage by the name of its limit."""
    return getattr(usage, dimension)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(name: str, value: Any) -> Any:
    if name == "cost":
        return decimal_of(name, value)
    if not _is_number(value) or (name != "seconds" and not isinstance(value, int)):
        kind = "a number" if name == "seconds" else "a whole number"
        raise ConfigurationTypeError(f"{name} is {repr(value)[:200]}; expected was {kind}, or None for any.")
    if value < 0:
        raise ConfigurationError(f"{name} is {value}; expected was 0 or more, or None for any.")
    return value
