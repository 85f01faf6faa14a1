"""What a policy says about a call: deny before ask, ask before allow, and what is remembered."""

import copy
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime

from agentgraph.approvals import call_digest
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.history import MARK

from ._approvals_formats import ToolApprovalRequest
from ._approvals_policy import Policy, Put, as_json, digest_of, early_request
from ._policy_grants import EFFECTS, GRANTS, NAMESPACE, ApprovalGrant, Kept
from ._policy_rules import ApprovalRule, ApprovalVerdict, Caller, Look, PolicyOutcome, declared_effects

__all__ = ["CallerId", "RulePolicy", "Ruling", "checked_function", "checked_rules", "denial"]

CallerId = Callable[[Any, Mapping[str, Any]], str | None]
"""`(context, config)` to the id of the user; None where there is none."""


@dataclass(frozen=True)
class Ruling:
    """A verdict, and the rules whose question is open.

    Attributes:
        verdict: what was decided, by which rule.
        open: the names and rules that ask, and that no remembered approval answers.
    """

    verdict: ApprovalVerdict
    open: tuple[tuple[str, ApprovalRule], ...] = ()


@dataclass(frozen=True, eq=False)
class RulePolicy(Policy):
    """The policy of rules, in the place of one by the names of tools.

    Attributes:
        rules: with their names.
        fallback: what holds for a call that no rule is about.
        caller_id: finds the user's id; None: in the run's config.
        clock: the time in seconds since 1970.
    """

    rules: tuple[tuple[str, ApprovalRule], ...] = field(kw_only=True)
    fallback: ApprovalRule = field(kw_only=True)
    caller_id: CallerId | None = field(kw_only=True)
    clock: Callable[[], float] = field(kw_only=True)

    def __post_init__(self) -> None:
        rules = [one.identity for _, one in (*self.rules, ("default", self.fallback))]
        object.__setattr__(self, "mark", call_digest("", rules))

    @property
    def can_ask(self) -> bool:
        """Whether a person could ever be asked."""
        return any(rule.outcome == "ask" for rule in self._all)

    @property
    def asks_user_code(self) -> bool:
        """Whether functions of the user's, or a store, take part, which may block."""
        return self.caller_id is not None or self.uses_store or any(rule.has_user_code for rule in self._all)

    @property
    def uses_store(self) -> bool:
        """Whether approvals are remembered in the agent's store."""
        return any(rule.grant is not None and rule.grant.scope == "store" for rule in self._all)

    @property
    def reads_effects(self) -> bool:
        """Whether a rule asks what tools declare."""
        return any(rule.effects for rule in self._all)

    @property
    def _all(self) -> list[ApprovalRule]:
        return [*(rule for _, rule in self.rules), self.fallback]

    def guards(self, put: Put) -> bool:  # noqa: ARG002 - the policy's own rule, which does not look at the call
        """Only calls that a rule asks about come so far."""
        return True

    def is_due(self, put: Put, request: ToolCallRequest) -> bool:
        """Whether the call needs a decision.

        A person's edit is a decision itself. It is asked about again where it leads to another tool that is asked
        about, or where a rule asks about its very arguments.
        """
        if digest_of(put.call) in put.seen:
            return False
        asking = self.ruling(request).open
        return any(put.edited_from != put.call["name"] or rule.looks_inside for _, rule in asking)

    def single_question(
        self, put: Put, request: ToolCallRequest, runtime: Runtime[Any]
    ) -> tuple[ToolApprovalRequest, dict[str, Any]]:
        """The question about one call, and the schema of its answer."""
        question, schema = super().single_question(put, request, runtime)
        question["description"] = self._told(put, request)
        return question, schema

    def ruling(self, request: ToolCallRequest) -> Ruling:
        """What the rules say about a call as it would run."""
        look = self._look(request)
        fitting = [(name, rule) for name, rule in self.rules if rule.fits(look)]
        by_outcome = {kind: [one for one in fitting if one[1].outcome == kind] for kind in get_args(PolicyOutcome)}
        if by_outcome["deny"]:
            return Ruling(_verdict(*by_outcome["deny"][0]))
        fallback = ("default", self.fallback)
        asking = by_outcome["ask"] or ([] if by_outcome["allow"] or self.fallback.outcome != "ask" else [fallback])
        ends = [self._ends(rule, look, request) for _, rule in asking]
        open_ones = tuple(one for one, end in zip(asking, ends, strict=True) if end is None)
        if open_ones:
            return Ruling(_verdict(*open_ones[0]), open_ones)
        if asking:
            left = min(end for end in ends if end is not None) - self.clock()
            why = (
                f"the rule {asking[0][0]!r} asks, and an approval is remembered for another {max(left, 0):.0f} seconds"
            )
            return Ruling(ApprovalVerdict("allow", asking[0][0], why))
        return Ruling(_verdict(*(by_outcome["allow"] or [fallback])[0]))

    def grants(self, asked: Sequence[tuple[str, ApprovalRule]], request: ToolCallRequest) -> dict[str, Kept]:
        """Remember an approval; gives what belongs into the state, and puts into the store what belongs there."""
        look, now, kept = self._look(request), self.clock(), {}
        for _, rule in asked:
            key = _key(rule, look)
            if rule.grant is None or key is None:
                continue
            grant = Kept(made=now, ends=now + rule.grant.seconds)
            if rule.grant.scope == "thread":
                kept[key] = grant
            else:
                request.runtime.store.put(NAMESPACE, key, dict(grant), index=False)  # type: ignore[union-attr] # the first model call has looked for it
        return kept

    def _look(self, request: ToolCallRequest) -> Look:
        call, runtime = request.tool_call, request.runtime
        tool = request.tool if request.tool is not None and request.tool.name == call["name"] else None
        state: Mapping[str, Any] = request.state if isinstance(request.state, Mapping) else {}
        declared = declared_effects(tool) if tool is not None else (state.get(EFFECTS) or {}).get(call["name"], ())
        context, config = getattr(runtime, "context", None), getattr(runtime, "config", None) or {}
        return Look(
            name=call["name"],
            args=call["args"],
            effects=frozenset(declared) or frozenset({"undeclared"}),
            caller=Caller((self.caller_id or _configured)(context, config), context),
            request=lambda: request.override(tool_call={**call, "args": copy.deepcopy(call["args"])}),
        )

    def _ends(self, rule: ApprovalRule, look: Look, request: ToolCallRequest) -> float | None:
        """Until when an approval is remembered that answers this rule's question; None where none is."""
        key = _key(rule, look)
        if rule.grant is None or key is None:
            return None
        if rule.grant.scope == "thread":
            state: Mapping[str, Any] = request.state if isinstance(request.state, Mapping) else {}
            kept = (state.get(GRANTS) or {}).get(key)
        else:
            store = getattr(request.runtime, "store", None)
            item = None if store is None else store.get(NAMESPACE, key)
            kept = None if item is None else item.value
        ends = kept.get("ends") if isinstance(kept, Mapping) else None
        return float(ends) if isinstance(ends, int | float) and ends > self.clock() else None

    def _description(self, put: Put, state: Any, runtime: Runtime[Any]) -> str:
        return self._told(put, early_request(put.call, state, runtime))

    def _told(self, put: Put, request: ToolCallRequest) -> str:
        """What the person is told: the call, the rules that ask, and what an approval is remembered for."""
        lines = [f"{self.prefix}\n\nTool: {put.call['name']}\nArguments: {as_json(put.call['args'])}"]
        for name, rule in self.ruling(request).open:
            lines.append(f"Rule: {name}" + (f": {rule.reason}" if rule.reason else ""))
            if isinstance(rule.grant, ApprovalGrant):
                lines.append(rule.grant.told())
        return "\n".join(lines)


def denial(call: ToolCall, verdict: ApprovalVerdict, reason: str) -> ToolMessage:
    """What the model gets for a call that is denied."""
    why = f" {reason}" if reason else ""
    text = (
        f"This call of {call['name']!r} was denied by the rule {verdict.rule!r}; it did not run.{why} "
        "Do not send it again; go on without it."
    )
    return ToolMessage(
        text,
        id=str(uuid.uuid4()),
        name=call["name"],
        tool_call_id=call["id"] or "",
        status="error",
        response_metadata={MARK: {"denied_by": verdict.rule}},
    )


def _verdict(name: str, rule: ApprovalRule) -> ApprovalVerdict:
    reason = f". {rule.reason}" if rule.reason else ""
    if name == "default":
        told = f"no rule is about this call, and the default is {rule.outcome!r}"
    else:
        told = f"the rule {name!r} says {rule.outcome!r} ({rule.told()})"
    return ApprovalVerdict(rule.outcome, name, told + reason)


def _key(rule: ApprovalRule, look: Look) -> str | None:
    return None if rule.grant is None else rule.grant.key(rule.identity, look.name, look.args, look.caller.id)


def _configured(context: Any, config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - the signature of a CallerId
    """The user's id in the run's config: that of a server that has authenticated the user, else `user_id`."""
    given = config.get("configurable") or {}
    found = given.get("langgraph_auth_user_id") or given.get("user_id")
    return None if found is None else str(found)


def checked_rules(rules: Any) -> tuple[tuple[str, ApprovalRule], ...]:
    """Rules with their names.

    Raises:
        ConfigurationError: a name is taken twice.
        ConfigurationTypeError: they are no rules.
    """
    if not isinstance(rules, Sequence) or not all(isinstance(one, ApprovalRule) for one in rules):
        raise ConfigurationTypeError(f"rules is {repr(rules)[:200]}; expected was a list of ApprovalRule objects.")
    named = tuple((rule.name or f"{rule.outcome} #{place}", rule) for place, rule in enumerate(rules, 1))
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1 or name == "default"})
    if twice:
        raise ConfigurationError(
            f"Rules have the name {twice[0]!r} twice, or that of the default; an explanation could not tell them apart."
        )
    return named


def checked_function(name: str, given: Any) -> None:
    """Refuse what is no plain function.

    Raises:
        ConfigurationTypeError: it is none.
    """
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise ConfigurationTypeError(f"{name} is {repr(given)[:200]}; expected was a plain function.")
