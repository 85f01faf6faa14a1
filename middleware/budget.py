"""Budgets: what an agent may spend, of tokens, money, time and calls, by itself and with its subagents."""

import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT

from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.flows import adrive, drive
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ModelCallResult, ModelRequest, ModelResponse
from agentgraph.state import ResponseT

from ._approvals import ask
from ._budget_calls import BudgetCall, question
from ._budget_keys import Place, aanswering, answering, place_of
from ._budget_ledger import CALLER, Level
from ._budget_limits import Budget, BudgetExceededError, BudgetKey, Degrade, amount
from ._budget_prices import Price, Prices, Tokens, name_of
from ._budget_usage import BudgetState, Usage, run_of, usage_of

__all__ = [
    "Budget",
    "BudgetExceededError",
    "BudgetKey",
    "BudgetMiddleware",
    "BudgetState",
    "Degrade",
    "Price",
    "Usage",
    "usage_of",
]

_COUNTED = "budget_counts"
"""In a request's state only: a budget further out counts this call already."""

ToolResult = ToolMessage | Command[Any]


class BudgetMiddleware(AgentMiddleware[BudgetState[ResponseT], ContextT, ResponseT]):
    """Keeps an agent, and the subagents that its tools call, within budgets, and counts what they spend.

    It looks before each model call, with an estimate of what the call will spend at least, and at the calls of each
    answer before they run: in their order, those that do not fit are answered with an error. Put it last in the list,
    so that it sees the model and the messages that are really sent, and each try of a retry or a fallback.

    A subagent spends from the budgets of the agents above it if it has a BudgetMiddleware of its own: the same object,
    or `BudgetMiddleware()`, which only counts. Where a budget above it is used up, it ends as with "stop". Model calls
    that other middleware or tools make for themselves are not counted, nor are calls that failed.

    "stop" keeps room for one last answer: when a call and such an answer do not fit both, the model is asked without
    tools to answer now. Where not even that fits, the run ends with a message that says so. For
    `agentgraph.runs.outcome` both are a "limit". "ask" is an interrupt with `{"type": "budget_exceeded", "limit",
    "spent", "allowed", "answers"}`, answered with `{"type": "approve", "raise_by": 1000}`, for this run, or
    `{"type": "stop"}`. After the answer the model's step begins again, with the inline hooks before it.

    The state gets `usage`, a part of the result, and `thread_usage` and `budget_marks`, private ones, all written
    together with the message that they belong to; read them with `usage_of`. In the "custom" stream there is
    `{"type": "budget", "event": "warning" | "exceeded", "limit", "spent", "allowed"}`, once a run for each limit. It
    costs one superstep a run, and no model call but the last answer. For a BudgetKey it reads the records of all
    runs with that key before each model call, and writes its own after it. Calls that run at that time in other runs
    are not seen: n of them at once may overshoot by what n calls cost. Within one run, parallel subagents
    included, only the error of the estimate overshoots.

    Args:
        limits: one Budget or several, each with its own scope and consequence; none to only count.
        prices: what models cost, by name or "provider:name". Default: the data that comes with the package
            genai-prices (the extra `prices`), which are never fetched anew.
        reserve: tokens that are kept for the output of the last answer; None for no last answer. Default 500.

    Raises:
        ConfigurationError: a limit that is none; a limit of cost without prices, or without that of the model, the
            latter before the first call; a BudgetKey without a store; two BudgetMiddleware in one agent.
        ConfigurationTypeError: an argument is of another type.
        BudgetExceededError: in a run, with on_exceeded "error".

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def look(place: str) -> str:
        ...     "Look somewhere."
        ...     return "nothing"
        >>> agent = create_agent(
        ...     ScriptedModel(tool_call("look", place="here"), "It is not here."),
        ...     [look],
        ...     middleware=[BudgetMiddleware(Budget(model_calls=2))],
        ... )
        >>> result = agent.invoke({"messages": "Find it."})
        >>> result["messages"][-1].text, usage_of(result).model_calls
        ('It is not here.', 2)
    """

    state_schema = BudgetState  # type: ignore[assignment] # generic in the response, which is not bound here

    def __init__(
        self,
        limits: Budget | Sequence[Budget] = (),
        *,
        prices: Mapping[str, Price] | None = None,
        reserve: int | None = 500,
    ) -> None:
        super().__init__()
        self.limits = _budgets(limits)
        if reserve is not None and (isinstance(reserve, bool) or not isinstance(reserve, int) or reserve < 0):
            raise ConfigurationError(
                f"reserve is {repr(reserve)[:200]}; expected was a whole number of tokens, 0 or more, or None."
            )
        self.reserve = reserve
        self.prices = Prices(prices, needed=any("cost" in one.limits for one in self.limits))
        for one in self.limits:
            if isinstance(one.on_exceeded, Degrade):
                self.prices.cost(name_of(one.on_exceeded.model), Tokens(0))
        self.needs_checkpointer = any(one.on_exceeded == "ask" for one in self.limits)

    @hook_config(inline=True)
    def before_agent(
        self,
        state: BudgetState[ResponseT],
        runtime: Runtime[ContextT],  # noqa: ARG002 - the hook's signature
    ) -> dict[str, Any] | None:
        """Begin the usage of a run.

        Args:
            state: the state, with the usage of the run before.
            runtime: not used.

        Returns:
            The new run's id, and what a run that was left in the middle has spent but not stored.
        """
        update: dict[str, Any] = {"usage": {"run": uuid.uuid4().hex}}
        if not run_of(state):
            return update
        before = self._level(state, ())
        left = before.update()["thread_usage"]
        before.tab.booked.clear()
        return {**update, "thread_usage": left} if left else update

    @hook_config(inline=True)
    async def abefore_agent(self, state: BudgetState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As `before_agent`, for async runs."""
        return self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> ModelCallResult[ResponseT]:
        """Make the call if it fits; see `model_call`."""
        result: ModelCallResult[ResponseT] = drive(self.model_call(request), answering(handler))
        return result

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelCallResult[ResponseT]:
        """As `wrap_model_call`, for async runs."""
        result: ModelCallResult[ResponseT] = await adrive(self.model_call(request), aanswering(handler))
        return result

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Look whether the call fits, make it, and count it.

        Args:
            request: the call.

        Returns:
            The response, with the usage as an update of the state.

        Raises:
            BudgetExceededError: it does not fit, and its budget has on_exceeded "error".
            ResumeError: a person's answer does not fit; the question stays open.
        """
        state: dict[str, Any] = dict(request.state or {})
        if state.get(_COUNTED):
            raise ConfigurationError(
                "This agent has two BudgetMiddleware, which would count each call twice. Give one of them all limits: "
                "BudgetMiddleware([Budget(...), Budget(...)])."
            )
        level = self._level(state, self._places(request.runtime))
        call = BudgetCall(request.override(state={**state, _COUNTED: True}), level, self.reserve)
        yield from call.read()
        try:
            verdict = call.decide()
            while verdict.kind == "ask":
                verdict = call.answered(verdict, ask(*question(verdict))) or call.decide()
            if verdict.kind == "error" and verdict.standing is not None:
                which, spent = verdict.standing.which(verdict.dimension), verdict.standing.spent
                allowed = verdict.standing.allowed(verdict.dimension)
                raise BudgetExceededError(which, amount(spent, verdict.dimension), allowed)
            if verdict.kind == "end":
                return call.ended(verdict)
            with call.level.tab.at_work():
                response = yield call.outgoing(verdict)
            settled = call.settled(response, verdict)
            yield from call.write()
            return settled
        finally:
            call.release()

    def tool_call(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """Run the tool as the one from whose budgets its subagents spend.

        Args:
            request: the call.

        Returns:
            The result, with what subagents have spent.
        """
        state = request.state if isinstance(request.state, Mapping) else {}
        level = self._level(state, self._places(request.runtime), request.tool_call["name"])
        # A run that goes on after a pause may come to its end without another model call.
        level.tell()
        token = CALLER.set(level)
        try:
            with level.tab.at_work():
                result = yield request
        finally:
            CALLER.reset(token)
        return level.attached(result)

    def _places(self, runtime: Any) -> tuple[Place | None, ...]:
        return tuple(
            place_of(runtime.store, one.scope.namespace(runtime)) if isinstance(one.scope, BudgetKey) else None
            for one in self.limits
        )

    def _level(self, state: Any, places: tuple[Place | None, ...], tool: str = "") -> Level:
        config = _config()
        conf, name = config.get("configurable", {}), config.get("metadata", {}).get("lc_agent_name")
        # Without a checkpointer the run's own id is enough to tell it from others.
        return Level.of(
            state,
            str(conf.get("thread_id") or ""),
            agent=str(name) if name else None,
            tool=tool,
            budgets=self.limits,
            places=places,
            prices=self.prices,
        )


def _budgets(given: Any) -> tuple[Budget, ...]:
    listed = [given] if isinstance(given, Budget) else given
    if isinstance(listed, Sequence) and not isinstance(listed, str) and all(isinstance(one, Budget) for one in listed):
        return tuple(listed)
    raise ConfigurationTypeError(
        f"limits is {repr(given)[:200]}; expected was a Budget, or a list of them, as in "
        "BudgetMiddleware(Budget(tokens=50_000))."
    )


def _config() -> RunnableConfig:
    try:
        return get_config()
    except RuntimeError:  # outside of a run
        return {}
