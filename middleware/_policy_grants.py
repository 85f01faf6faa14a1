"""Remembered approvals: what they are bound to, where they are kept, and until when they hold.

A grant is kept under a digest of the rule, the tool, the arguments and the caller, beside the time when it ends. What
was approved cannot be read from it.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import ToolMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.types import Command
from typing_extensions import TypedDict

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.state import PrivateStateAttr, ResponseT

from ._approvals import HumanInTheLoopState

__all__ = ["EFFECTS", "GRANTS", "NAMESPACE", "ApprovalGrant", "ApprovalPolicyState", "Kept", "canonical", "with_grants"]

GRANTS = "approval_grants"
EFFECTS = "approval_effects"
NAMESPACE = ("agentgraph", "approvals")
"""Where grants stand in the store."""

_MOST_KEPT = 500


class Kept(TypedDict):
    """One grant.

    Attributes:
        made: when, in seconds since 1970.
        ends: when, in seconds since 1970.
    """

    made: float
    ends: float


def merged(old: Mapping[str, Kept] | None, new: Mapping[str, Kept] | None) -> dict[str, Kept]:
    """Grants with new ones: tools side by side may each write one. What has ended by the newest's time is dropped."""
    both = {**(old or {}), **(new or {})}
    now = max((one["made"] for one in (new or {}).values()), default=-math.inf)
    alive = [(key, one) for key, one in both.items() if one["ends"] > now]
    return dict(sorted(alive, key=lambda pair: pair[1]["ends"])[-_MOST_KEPT:])


def latest(old: Any, new: Any) -> Any:  # noqa: ARG001 - a reducer's signature
    """The newer one: several policies of one agent write the same."""
    return new


def _unset_until_written(reducer: Callable[[Any, Any], Any]) -> BinaryOperatorAggregate[Any]:
    """A channel that streams and snapshots do not show before something is written: its type has no empty value."""
    of_any_type: Any = Any
    return BinaryOperatorAggregate(of_any_type, reducer)


_Grants = _unset_until_written(merged)
_Effects = _unset_until_written(latest)


class ApprovalPolicyState(HumanInTheLoopState[ResponseT]):
    """The fields that a policy keeps in the state, beside those of the approvals that it asks for.

    Attributes:
        approval_grants: by digest, the approvals that are remembered on this thread.
        approval_effects: by the tool's name, the effects that tools declare; written only where a rule reads them.
    """

    approval_grants: NotRequired[Annotated[dict[str, Kept], _Grants, PrivateStateAttr]]
    approval_effects: NotRequired[Annotated[dict[str, list[str]], _Effects, PrivateStateAttr]]


@dataclass(frozen=True)
class ApprovalGrant:
    """How long an approval is remembered, and for what.

    Args:
        seconds: how long it holds, from the approval on. Default 3600.
        scope: "thread" (the default): in the state of the thread, so a fork has it too. "store": in the agent's store,
            for all threads of the same caller; without the caller's id nothing is remembered there.
        match: "arguments" (the default): the very same arguments. "tool": all calls of the tool that the rule asks for.

    Raises:
        ConfigurationError: seconds is not above 0, or scope or match is unknown.
    """

    seconds: float = 3600.0
    scope: Literal["thread", "store"] = "thread"
    match: Literal["arguments", "tool"] = "arguments"

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise ConfigurationTypeError(f"seconds is {repr(self.seconds)[:200]}; expected was a number of seconds.")
        if not 0 < self.seconds < math.inf:
            raise ConfigurationError(f"seconds is {self.seconds}; expected was more than 0, and an end.")
        for name, given, known in (
            ("scope", self.scope, ("thread", "store")),
            ("match", self.match, ("arguments", "tool")),
        ):
            if given not in known:
                raise ConfigurationError(
                    f"{name} is {repr(given)[:200]}; expected was {' or '.join(map(repr, known))}."
                )

    def key(self, rule: str, tool: str, args: Any, caller: str | None) -> str | None:
        """What a grant is kept under; None for a call that no grant can be bound to."""
        if self.scope == "store" and caller is None:
            return None
        bound = [rule, self.match, tool, caller, args if self.match == "arguments" else None]
        text = canonical(bound)
        return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def told(self) -> str:
        """What a person is told about it."""
        what = "the same call" if self.match == "arguments" else "every such call of this tool"
        where = "in this conversation" if self.scope == "thread" else "in all conversations of this user"
        return f"An approval also holds for {what} {where} for {self.seconds:g} seconds."


def canonical(value: Any) -> str | None:
    """A JSON value as one text, different for different values; None for what is no JSON.

    The order of keys does not count. 1, 1.0, "1" and true differ, and so do texts that merely look alike.

    Example:
        >>> canonical({"b": 1.0, "a": [True, None]})
        '{"a":[true,null],"b":1.0}'
    """
    try:
        if not _is_json(value):
            return None
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):  # NaN, which is not even itself; circles
        return None


def _is_json(value: Any) -> bool:
    # The exact types: json writes also tuples, enums and keys that are numbers, as something else.
    if type(value) is dict:
        return all(type(key) is str and _is_json(one) for key, one in value.items())
    if type(value) is list:
        return all(map(_is_json, value))
    return value is None or type(value) in {str, bool, int, float}


def with_grants(result: Any, grants: Mapping[str, Kept]) -> Any:
    """A tool's result, with the grants as an update of the state.

    A command to a parent graph cannot carry them; then nothing is remembered, and a person is asked again.
    """
    if not grants:
        return result
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], GRANTS: grants})
    if isinstance(result, Command) and result.graph is None:
        pairs = list(result._update_as_tuples())  # noqa: SLF001 - langgraph's own reading of all forms of an update
        if any(key == "__root__" for key, _ in pairs):
            return result
        others = [(key, value) for key, value in pairs if key != GRANTS]
        both = {name: one for key, value in pairs if key == GRANTS for name, one in value.items()} | dict(grants)
        update = [*others, (GRANTS, both)]
        return dataclasses.replace(result, update=dict(update) if len(dict(others)) == len(others) else update)
    if isinstance(result, list):
        place = next((at for at, one in enumerate(result) if with_grants(one, grants) is not one), None)
        return result if place is None else [*result[:place], with_grants(result[place], grants), *result[place + 1 :]]
    return result
