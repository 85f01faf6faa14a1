"""The rules of an approval policy: what one says, and which calls it is about."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest

from agentgraph.approvals import call_digest
from agentgraph.errors import ConfigurationError, ConfigurationTypeError

from ._policy_arguments import ArgumentTest, Condition, ReadyTest, is_async, judged, name_of
from ._policy_grants import ApprovalGrant

__all__ = [
    "ApprovalRule",
    "ApprovalVerdict",
    "Caller",
    "DeclaredEffect",
    "Look",
    "PolicyOutcome",
    "declared_effects",
    "the_sequence",
]

PolicyOutcome: TypeAlias = Literal["deny", "ask", "allow"]
"""What is to happen with a call."""

DeclaredEffect: TypeAlias = Literal["read", "write", "external", "undeclared"]
"""What a tool says that it does; "undeclared" for a tool that says nothing."""

_EFFECTS = ("read", "write", "external")


@dataclass(frozen=True)
class Caller:
    """On whose behalf the agent runs.

    Attributes:
        id: of the user; None where the run does not say.
        context: the run's context.
    """

    id: str | None
    context: Any


@dataclass(frozen=True)
class ApprovalVerdict:
    """What a policy says about a call.

    Attributes:
        outcome: "deny", "ask" or "allow".
        rule: the name of the rule that decided; "default" where none did.
        why: the rule in words, for people.
    """

    outcome: PolicyOutcome
    rule: str
    why: str


@dataclass(frozen=True)
class Look:
    """What rules look at.

    Attributes:
        name: of the tool.
        args: the arguments by name.
        effects: what the tool declares; "undeclared" alone where it declares nothing.
        caller: on whose behalf.
        request: makes the request for a user's own function, which may change it.
    """

    name: str
    args: Mapping[str, Any]
    effects: frozenset[str]
    caller: Caller
    request: Callable[[], ToolCallRequest]


@dataclass(frozen=True, eq=False)
class ApprovalRule:
    """One rule: what happens with the calls that fit all of its conditions.

    A condition that cannot be judged (a value of another type, an error in a function) counts against the call: a rule
    that denies or asks holds then, and one that allows does not. Where a path or a tool's declaration gives several
    values, one that fits is enough to deny or ask, and all must fit to allow.

    Args:
        outcome: "deny", "ask" or "allow".
        tools: names, or patterns such as "mail_*", of which one must fit. None: all tools.
        arguments: by path (`$.to`, `$.items[0].price`, `$.items[*]`, `$['a key']`), a plain value, one of the tests of
            `Argument`, or a function of the value.
        declared: what the tool says that it does, one or several of "read", "write", "external", "undeclared": its
            `metadata["effect"]`, or the hints readOnlyHint, destructiveHint and openWorldHint of MCP in its metadata.
            These are the tool's own words, so believe only tools whose source you trust.
        caller: an id, several ids, or a function of a `Caller`.
        when: a function of the ToolCallRequest. Its `tool` is None where the question comes before the tools.
        if_missing: whether a path that leads nowhere fits. None: to deny and to ask it does, so that leaving an
            argument out does not get around the rule; to allow it does not.
        grant: for "ask": how long an approval is remembered. None: it is not.
        reason: told to the person who is asked, and to the model whose call is denied.
        name: tells the rule from others, in explanations. Default: its place in the list.

    Raises:
        ConfigurationError: a part cannot work.
        ConfigurationTypeError: a part is of the wrong type.
    """

    outcome: PolicyOutcome
    _: KW_ONLY
    tools: str | Sequence[str] | None = None
    arguments: Mapping[str, ArgumentTest | Any] | None = None
    declared: DeclaredEffect | Sequence[DeclaredEffect] | None = None
    caller: str | Sequence[str] | Callable[[Caller], bool] | None = None
    when: Callable[[ToolCallRequest], bool] | None = None
    if_missing: bool | None = None
    grant: ApprovalGrant | None = None
    reason: str = ""
    name: str = ""
    conditions: tuple[Condition, ...] = field(init=False, repr=False)
    patterns: tuple[str, ...] = field(init=False, repr=False)
    effects: frozenset[str] = field(init=False, repr=False)
    identity: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.outcome not in get_args(PolicyOutcome):
            raise ConfigurationError(
                f"A rule's outcome is {repr(self.outcome)[:200]}; expected was 'deny', 'ask' or 'allow'."
            )
        self._check_parts()
        # Own copies, so that a later change of the user's lists cannot open a guard.
        given = self.arguments or {}
        object.__setattr__(self, "conditions", tuple(Condition.of(path, one) for path, one in given.items()))
        object.__setattr__(self, "patterns", the_sequence("tools", self.tools))
        effects = the_sequence("declared", self.declared)
        unknown = sorted(set(effects) - set(get_args(DeclaredEffect)))
        if unknown:
            raise ConfigurationError(
                f"declared has {unknown}; expected were {', '.join(map(repr, get_args(DeclaredEffect)))}."
            )
        object.__setattr__(self, "effects", frozenset(effects))
        if self.caller is not None and not callable(self.caller):
            object.__setattr__(self, "caller", the_sequence("caller", self.caller))
        object.__setattr__(self, "identity", call_digest(self.name, [self.outcome, self.told(), self.fits_missing]))

    def _check_parts(self) -> None:
        for part, given, expected in (
            ("arguments", self.arguments, Mapping),
            ("if_missing", self.if_missing, bool),
            ("grant", self.grant, ApprovalGrant),
            ("reason", self.reason, str),
            ("name", self.name, str),
        ):
            if given is not None and not isinstance(given, expected):
                raise ConfigurationTypeError(
                    f"A rule's {part} is {repr(given)[:200]}; expected was {expected.__name__}."
                )
        for part, function in (("when", self.when), ("caller", self.caller if callable(self.caller) else None)):
            if function is not None and (not callable(function) or is_async(function)):
                raise ConfigurationTypeError(
                    f"A rule's {part} is {repr(function)[:200]}; expected was a plain function."
                )
        if self.grant is not None and self.outcome != "ask":
            raise ConfigurationError(
                f"A rule that says {self.outcome!r} has a grant; only an answer can be remembered."
            )

    @property
    def fits_missing(self) -> bool:
        """Whether a path that leads nowhere fits."""
        return self.outcome != "allow" if self.if_missing is None else self.if_missing

    @property
    def has_user_code(self) -> bool:
        """Whether functions of the user's take part."""
        own = any(not isinstance(one.test, ReadyTest) for one in self.conditions)
        return own or self.when is not None or callable(self.caller)

    @property
    def looks_inside(self) -> bool:
        """Whether it tells calls of one tool from each other."""
        return bool(self.conditions) or self.when is not None

    def fits(self, look: Look) -> bool:
        """Whether the rule is about this call."""
        return (
            (not self.patterns or any(fnmatch.fnmatchcase(look.name, one) for one in self.patterns))
            and self._fits_effects(look.effects)
            and self._fits_caller(look.caller)
            and all(
                one.holds(look.args, for_all=self.outcome == "allow", if_missing=self.fits_missing)
                for one in self.conditions
            )
            and self._agrees(self.when is None or judged(lambda _: self.when(look.request()), None))  # type: ignore[misc] # None was asked before
        )

    def _fits_effects(self, declared: frozenset[str]) -> bool:
        if not self.effects:
            return True
        return declared <= self.effects if self.outcome == "allow" else bool(declared & self.effects)

    def _fits_caller(self, caller: Caller) -> bool:
        if self.caller is None:
            return True
        if callable(self.caller):
            function = self.caller
            return self._agrees(judged(lambda _: function(caller), None))
        return self._agrees(None if caller.id is None else caller.id in self.caller)

    def _agrees(self, judgement: bool | None) -> bool:
        """A judgement, on the safe side where there is none."""
        return self.outcome != "allow" if judgement is None else judgement

    def told(self) -> str:
        """The conditions in words, the same in every process."""
        parts = [
            f"tools {', '.join(self.patterns)}" if self.patterns else "",
            *(one.told() for one in self.conditions),
            f"declared {', '.join(sorted(self.effects))}" if self.effects else "",
            f"caller {name_of(self.caller) if callable(self.caller) else ', '.join(self.caller)}"
            if self.caller
            else "",
            f"when {name_of(self.when)}" if self.when else "",
        ]
        return "; ".join(part for part in parts if part) or "every call"


def declared_effects(tool: BaseTool | None) -> frozenset[str]:
    """What a tool declares in its metadata; empty if nothing, or nothing that is known."""
    metadata = getattr(tool, "metadata", None)
    if not isinstance(metadata, Mapping):
        return frozenset()
    given = metadata.get("effect")
    own = [given] if isinstance(given, str) else given
    if isinstance(own, list | tuple | set | frozenset):
        # One word that is not known makes the whole declaration worth nothing.
        return frozenset(own) if all(one in _EFFECTS for one in own) else frozenset()
    nested = metadata.get("annotations")
    hints = {**metadata, **(nested if isinstance(nested, Mapping) else {})}
    reads, destroys, is_open = (hints.get(name) for name in ("readOnlyHint", "destructiveHint", "openWorldHint"))
    said = {
        "read": reads is True,
        "write": reads is False or (destroys is True and reads is not True),
        "external": is_open is True,
    }
    return frozenset(name for name, holds in said.items() if holds)


def the_sequence(part: str, given: Any) -> tuple[str, ...]:
    """One text or several as a tuple; none for None.

    Raises:
        ConfigurationError: it is empty, so that nothing could ever fit.
        ConfigurationTypeError: it is something else.
    """
    if given is None:
        return ()
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence | set | frozenset) or not all(isinstance(one, str) for one in texts):
        raise ConfigurationTypeError(f"A rule's {part} is {repr(given)[:200]}; expected was a text or several.")
    if not texts or not all(texts):
        raise ConfigurationError(f"A rule's {part} is {given!r}; expected was at least one text, none of them empty.")
    return tuple(texts) if isinstance(texts, Sequence) else tuple(sorted(texts))
