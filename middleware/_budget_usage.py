"""What has been spent: amounts in a tree by model, tool and subagent, and how a state keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired

from langgraph.types import GraphOutput, StateSnapshot

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.state import AgentState, OmitFromInput, PrivateStateAttr, ResponseT

__all__ = ["BudgetState", "Usage", "as_subagent", "run_of", "usage_of"]

_RUN = "run"


@dataclass(frozen=True)
class Usage:
    """What was spent, also by model, by tool and by subagent.

    The amounts are those of the whole tree; `models` and `tools` are the agent's own share of them, `subagents` that of
    the agents which its tools called. Only `seconds` is not summed up: a subagent works while its tool does.

    Attributes:
        model_calls: answers of models.
        tool_calls: tool calls that were let through.
        refused_calls: tool calls that were not run, because a limit was reached.
        input_tokens: tokens of the requests; estimated where a model reports none.
        output_tokens: tokens of the answers; estimated where a model reports none.
        cached_tokens: those of `input_tokens` that came from the provider's cache.
        cost: US dollars, where prices are known.
        seconds: time in which a model or a tool was at work.
        models: by the name of the model.
        tools: by the name of the tool.
        subagents: by the name of the agent, or of the tool that called it where it has none.

    Example:
        >>> (Usage(input_tokens=3) + Usage(input_tokens=1, output_tokens=2)).tokens
        6
    """

    model_calls: int = 0
    tool_calls: int = 0
    refused_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal = Decimal(0)
    seconds: float = 0.0
    models: Mapping[str, "Usage"] = field(default_factory=dict)
    tools: Mapping[str, "Usage"] = field(default_factory=dict)
    subagents: Mapping[str, "Usage"] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens of the requests and the answers together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        amounts = {name: getattr(self, name) + getattr(other, name) for name in _AMOUNTS}
        branches: dict[str, Any] = {name: _merged(getattr(self, name), getattr(other, name)) for name in _BRANCHES}
        return Usage(**amounts, **branches)

    def without(self, other: "Usage") -> "Usage":
        """The amounts less those of another one, without the tree."""
        return Usage(**{name: getattr(self, name) - getattr(other, name) for name in _AMOUNTS})

    def own(self) -> "Usage":
        """The amounts without those of subagents, and without the tree."""
        amounts: dict[str, Any] = {name: getattr(self, name) for name in _AMOUNTS}
        for one in self.subagents.values():
            for name in _SUMMED:
                amounts[name] -= getattr(one, name)
        return Usage(**amounts)

    def as_dict(self) -> dict[str, Any]:
        """The tree as JSON has it, without what is zero; the cost is a text, so that no cent is rounded."""
        amounts = {name: getattr(self, name) for name in _AMOUNTS if getattr(self, name)}
        if self.cost:
            amounts["cost"] = str(self.cost)
        trees = {name: {key: one.as_dict() for key, one in getattr(self, name).items()} for name in _BRANCHES}
        return amounts | {name: tree for name, tree in trees.items() if tree}

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> "Usage":
        """The tree out of what `as_dict` gave."""
        given = data or {}
        amounts = {name: given[name] for name in _AMOUNTS if name in given}
        branches = {name: {key: cls.of(one) for key, one in (given.get(name) or {}).items()} for name in _BRANCHES}
        return cls(**{**amounts, **branches, "cost": Decimal(given.get("cost", 0))})


_BRANCHES = ("models", "tools", "subagents")
_AMOUNTS = tuple(one.name for one in fields(Usage) if one.name not in _BRANCHES)
_SUMMED = tuple(name for name in _AMOUNTS if name != "seconds")


def as_subagent(name: str, usage: Usage) -> Usage:
    """The usage of a subagent as a part of its caller's."""
    return Usage(**{amount: getattr(usage, amount) for amount in _SUMMED}, subagents={name: usage})


def usage_of(given: Any, *, of: Literal["run", "thread"] = "run") -> Usage:
    """What a run, or all runs of its thread, have spent.

    Args:
        given: the result of `invoke`, a state, or what `get_state` shows.
        of: "run" (the default), or "thread", which results do not show: give what `get_state` shows for it.

    Returns:
        The tree; all zero where nothing was spent or no BudgetMiddleware counts.

    Raises:
        ConfigurationTypeError: it is none of these.
        ConfigurationError: `of` is neither "run" nor "thread".

    Example:
        >>> usage_of({"messages": [], "usage": {"input_tokens": 12, "output_tokens": 3}}).tokens
        15
    """
    if str(of) not in {"run", "thread"}:
        raise ConfigurationError(f"of is {repr(of)[:200]}; expected was 'run' or 'thread'.")
    state = given.values if isinstance(given, StateSnapshot) else given
    state = state.value if isinstance(state, GraphOutput) else state
    if not isinstance(state, Mapping):
        raise ConfigurationTypeError(
            f"A {type(given).__name__} has no usage; expected was the result of `invoke`, a state, or what `get_state` "
            "shows."
        )
    return Usage.of(state.get("usage" if of == "run" else "thread_usage"))


def run_of(state: Mapping[str, Any]) -> str:
    """The id of the run that a state belongs to; "" where no run was begun."""
    return str((state.get("usage") or {}).get(_RUN, ""))


def _add_of_run(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """What the runs' usage is after a write; that of another run begins anew."""
    if left.get(_RUN) != right.get(_RUN):
        return right
    return {_RUN: right.get(_RUN, ""), **(Usage.of(left) + Usage.of(right)).as_dict()}


def _add(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return (Usage.of(left) + Usage.of(right)).as_dict()


def _mark(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """The marks after a write; those of another run are dropped."""
    known = left if left.get(_RUN) == right.get(_RUN) else {}
    gone = set(right.get("forget", ()))
    return {
        _RUN: right.get(_RUN, ""),
        "seen": [*(one for one in known.get("seen", ()) if one not in gone), *right.get("seen", ())],
        "warned": sorted({*known.get("warned", ()), *right.get("warned", ())}),
        "raised": {**known.get("raised", {}), **right.get("raised", {})},
    }


class BudgetState(AgentState[ResponseT]):
    """The fields that a budget keeps in the state.

    Attributes:
        usage: what this run has spent, as `Usage.as_dict` gives it, and the run's id; a part of the result.
        thread_usage: what all runs of the thread have spent.
        budget_marks: which bookings of this run are in `usage`, what was warned of, which limits a person has raised.
    """

    usage: NotRequired[Annotated[dict[str, Any], _add_of_run, OmitFromInput]]
    thread_usage: NotRequired[Annotated[dict[str, Any], _add, PrivateStateAttr]]
    budget_marks: NotRequired[Annotated[dict[str, Any], _mark, PrivateStateAttr]]


def _merged(left: Mapping[str, Usage], right: Mapping[str, Usage]) -> dict[str, Usage]:
    return {**left, **{key: left[key] + one if key in left else one for key, one in right.items()}}
