"""Rules that deny, ask about or allow tool calls."""

import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Self, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT

from agentgraph import bridge
from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationError
from agentgraph.history import last_ai_message, pending_calls
from agentgraph.requests import ExtendedModelResponse, ModelRequest
from agentgraph.state import ResponseT, StateT

from ._approvals import Outcome, answers_given, asked_before, forgotten
from ._approvals_formats import InterruptMode
from ._approvals_memory import memory_of
from ._approvals_policy import Put, digest_of, early_request
from ._policy_arguments import Argument
from ._policy_deciding import CallerId, RulePolicy, Ruling, checked_function, checked_rules, denial
from ._policy_grants import EFFECTS, GRANTS, ApprovalGrant, ApprovalPolicyState, Kept, with_grants
from ._policy_rules import ApprovalRule, ApprovalVerdict, Caller, PolicyOutcome, declared_effects
from .human_in_the_loop import EDIT_NOTICE, HumanInTheLoopMiddleware, ToolResult

__all__ = [
    "ApprovalGrant",
    "ApprovalPolicyMiddleware",
    "ApprovalPolicyState",
    "ApprovalRule",
    "ApprovalVerdict",
    "Argument",
    "Caller",
]


class ApprovalPolicyMiddleware(HumanInTheLoopMiddleware[StateT, ContextT, ResponseT]):
    """Decides by rules whether a tool call is denied, asked about or allowed.

    A rule that denies wins over all that ask, and these over all that allow; the order of the list counts only for
    which of several equal ones is named. A call that no rule is about is treated by `default`.

    Denied calls are answered with an error that names the rule. Calls that are asked about pause the run with the same
    questions, and take the same answers, as HumanInTheLoopMiddleware. What a person wants to run instead is judged like
    any other call: it can be denied, and a rule about its arguments asks about it again.

    The rules look twice: after the model, and once more when the call is about to run, so that no jump and no rewriting
    of calls leads around them. Middleware that rewrites calls around the tool (`wrap_tool_call`) must stand before this
    one in the list; what stands behind it is not seen. Put limits of calls behind it: then nobody is asked about a call
    that does not run.

    A rule's `grant` remembers that a person approved a call as it was sent. It holds for that rule as it is written,
    that tool, those arguments and that caller, never against a rule that denies or another one that asks.

    It adds private fields to the state: those of approvals, `approval_grants` (digests and times) and, where rules read
    what tools declare, `approval_effects`; a stream of values shows them once they are written. It makes no model
    calls. A policy that asks after the model costs a superstep each turn; one that never asks or "per_call", none.

    Args:
        rules: the rules.
        default: "deny", "ask" (the default) or "allow", for a call that no rule is about.
        default_grant: how long an approval that the default asked for is remembered; None: not at all.
        caller_id: finds the id of the user, from the run's context and config. Default: `langgraph_auth_user_id` or
            `user_id` in `config["configurable"]`. The service has to set it; a model cannot.
        description_prefix: begins the text about a call.
        edit_notice: begins the result of an edited call, so that the model knows; None for nothing.
        interrupt_mode: "batched", one question a turn; or "per_call", one question a call, when it is about to run.
        clock: the time in seconds since 1970.

    Raises:
        ConfigurationError: a rule cannot work, two have one name; in a run: a grant needs a store and there is none.
        ConfigurationTypeError: an argument is of the wrong type.

    Example:
        >>> policy = ApprovalPolicyMiddleware(
        ...     [
        ...         ApprovalRule(
        ...             "deny", tools="pay", arguments={"$.amount": Argument.more_than(1000)}, name="too much"
        ...         ),
        ...         ApprovalRule("allow", tools="pay", arguments={"$.amount": Argument.at_most(10)}, name="petty cash"),
        ...     ]
        ... )
        >>> [policy.explain({"name": "pay", "args": {"amount": n}}).outcome for n in (5, 500, 5000)]
        ['allow', 'ask', 'deny']
        >>> policy.explain({"name": "pay", "args": {}}).why
        "the rule 'too much' says 'deny' (tools pay; $.amount more_than(1000))"
    """

    state_schema = ApprovalPolicyState
    _policy: RulePolicy

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Where nothing pauses after the model, the hook there needs no step of its own, which the class tells."""
        rules = settings.get("rules", args[0] if args else ())
        outcomes = [getattr(one, "outcome", "ask") for one in rules] if isinstance(rules, Sequence) else []
        asks = "ask" in (settings.get("default", "ask"), *outcomes)
        is_inline = settings.get("interrupt_mode") == "per_call" or not asks
        chosen: Any = _Inline if is_inline and cls is ApprovalPolicyMiddleware else cls
        return cast("Self", object.__new__(chosen))

    def __init__(
        self,
        rules: Sequence[ApprovalRule],
        *,
        default: PolicyOutcome = "ask",
        default_grant: ApprovalGrant | None = None,
        caller_id: CallerId | None = None,
        description_prefix: str = "This tool call needs your approval",
        edit_notice: str | None = EDIT_NOTICE,
        interrupt_mode: InterruptMode = "batched",
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            {}, description_prefix=description_prefix, edit_notice=edit_notice, interrupt_mode=interrupt_mode
        )
        checked_function("clock", clock)
        if caller_id is not None:
            checked_function("caller_id", caller_id)
        named, fallback = checked_rules(rules), ApprovalRule(default, grant=default_grant, name="default")
        self._policy = RulePolicy(
            {}, description_prefix, rules=named, fallback=fallback, caller_id=caller_id, clock=clock
        )
        self.rules = tuple(rules)
        self.default = default
        self.needs_checkpointer = self._policy.can_ask

    def explain(
        self,
        call: Mapping[str, Any],
        *,
        tool: BaseTool | None = None,
        state: Mapping[str, Any] | None = None,
        context: Any = None,
        config: Mapping[str, Any] | None = None,
        store: Any = None,
    ) -> ApprovalVerdict:
        """What the policy would do with a call, and why. It runs nothing, asks nobody and remembers nothing.

        Args:
            call: with `name` and `args`, as in a model's message.
            tool: the tool, where rules read what it declares.
            state: of the thread, as `get_state(config).values` shows it, where approvals are remembered there.
            context: of the run.
            config: of the run, with the user's id.
            store: of the agent, where approvals are remembered there.
        """
        whole = ToolCall(name=call["name"], args=call["args"], id=call.get("id") or "", type="tool_call")
        runtime: ToolRuntime[Any, Any] = ToolRuntime(
            state=state or {},
            context=context,
            config=dict(config or {}),  # type: ignore[arg-type] # a config is a dict with known keys
            stream_writer=lambda _: None,
            tool_call_id=whole["id"],
            store=store,
        )
        request = ToolCallRequest(tool_call=whole, tool=tool, state=state or {}, runtime=runtime)
        return self._policy.ruling(request).verdict

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Note what the tools of the request declare, for the rules that look before the tools.

        Raises:
            ConfigurationError: a grant needs a store, and there is none.
        """
        if self._policy.uses_store and getattr(request.runtime, "store", None) is None:
            raise ConfigurationError(
                "A rule remembers approvals in a store, and the agent has none. Give create_agent a store=, or the "
                'grant scope="thread".'
            )
        response = yield request
        if not self._policy.reads_effects:
            return response
        tools = [tool for tool in request.tools or [] if isinstance(tool, BaseTool)]
        declared = {tool.name: sorted(effects) for tool in tools if (effects := declared_effects(tool))}
        if declared == ((request.state or {}).get(EFFECTS) or {}):
            return response
        return ExtendedModelResponse(response, Command(update={EFFECTS: declared}))

    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Answer the denied calls of the model's message, and ask about those that a rule asks about.

        Args:
            state: the state with the model's message.
            runtime: context, store.

        Returns:
            The answers to calls that do not run, and the record of what was decided; None if there is none.

        Raises:
            ResumeError: the answer does not fit the question; the question stays open.
        """
        message = last_ai_message(state["messages"])
        calls = [call for call in pending_calls(state["messages"]) if call["id"]]
        if message is None or not calls:
            return forgotten(state)
        outcome = Outcome.of(state, message)
        puts = outcome.puts(calls)
        rulings = [self._policy.ruling(early_request(put.call, state, runtime)) for put in puts]
        due = [] if self.interrupt_mode == "per_call" else _due(puts, rulings)
        pairs = list(zip(puts, rulings, strict=True))
        denied = [(put, one) for put, one in pairs if one.verdict.outcome == "deny" and put not in due]
        if due:
            self._review(list(due), outcome, state, runtime)
        update = outcome.update(state, self._policy) if due else forgotten(state) or {}
        grants: dict[str, Kept] = {}
        for put, ruling in pairs:
            if put in due and outcome.allowed.get(put.id) == digest_of(put.call):
                grants |= self._policy.grants(ruling.open, early_request(put.call, state, runtime))
        answers = [*update.get("messages", ()), *(self._denial(put.model_call, ruling) for put, ruling in denied)]
        if answers:
            places = {call["id"]: place for place, call in enumerate(message.tool_calls)}
            update["messages"] = sorted(answers, key=lambda one: places[one.tool_call_id])
        if grants:
            update[GRANTS] = grants
        return update or None

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """The last look before a call runs: a denied one does not, whatever was decided before.

        Args:
            request: the call.
            handler: runs it.

        Returns:
            The result, with what is remembered; or the answer to a call that must not run.

        Raises:
            ResumeError: the answer does not fit the question; the question stays open.
        """
        settled, grants = self._settled(request)
        if isinstance(settled, ToolMessage):
            return settled
        result: ToolResult = with_grants(self._told(handler(settled), request, settled), grants)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """As `wrap_tool_call`, for async runs."""
        if self._policy.asks_user_code:
            settled, grants = await bridge.run_blocking(self._settled, request)
        else:
            settled, grants = self._settled(request)
        if isinstance(settled, ToolMessage):
            return settled
        result: ToolResult = with_grants(self._told(await handler(settled), request, settled), grants)
        return result

    def _settled(self, request: ToolCallRequest) -> tuple[ToolCallRequest | ToolMessage, dict[str, Kept]]:
        """The request to run or the answer to a call that must not run, and what is remembered of it."""
        decided = self._decide(request)
        if isinstance(decided, ToolMessage):
            return decided, {}
        ruling = self._policy.ruling(decided)
        if ruling.verdict.outcome == "deny":
            return self._denial(request.tool_call, ruling), {}
        said = memory_of(request).decisions.get(f"{self._policy.mark}:{digest_of(decided.tool_call)}")
        is_as_sent = digest_of(decided.tool_call) == digest_of(request.tool_call)
        if said is None or said["type"] != "approve" or not is_as_sent:
            return decided, {}
        return decided, self._policy.grants(ruling.open, decided)

    def _denial(self, call: ToolCall, ruling: Ruling) -> ToolMessage:
        reasons = {name: rule.reason for name, rule in self._policy.rules}
        return denial(call, ruling.verdict, reasons.get(ruling.verdict.rule, ""))


class _Inline(ApprovalPolicyMiddleware[StateT, ContextT, ResponseT]):
    """A policy that does not pause after the model, so that its hook there runs inside the model's node."""

    @property
    def name(self) -> str:
        """That of the public class."""
        return ApprovalPolicyMiddleware.__name__

    @hook_config(inline=True)
    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As the public class."""
        return super().after_model(state, runtime)

    @hook_config(inline=True)
    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As the public class."""
        return await super().aafter_model(state, runtime)


def _due(puts: Sequence[Put], rulings: Sequence[Ruling]) -> list[Put]:
    """The calls to ask about now: those that an answer is given for, else those that a rule asks about.

    A rule that begins to ask only after the question was put is heard when its call is about to run.
    """
    given = answers_given()
    answered = asked_before(puts, given[0]) if given else []
    return answered or [put for put, ruling in zip(puts, rulings, strict=True) if ruling.open]
