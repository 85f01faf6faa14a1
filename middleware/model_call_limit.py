"""A limit of model calls, so that an agent cannot go on for ever, nor cost without end."""

from collections.abc import Generator
from typing import Annotated, Any, Literal, NotRequired

from langgraph.channels import UntrackedValue
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT

from agentgraph.decorators import hook_config
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ExtendedModelResponse, ModelRequest
from agentgraph.state import AgentState, PrivateStateAttr, ResponseT

from ._call_limits import CallLimitExceededError, Limits, check_exit_behavior, closing

__all__ = ["ModelCallLimitExceededError", "ModelCallLimitMiddleware", "ModelCallLimitState"]

_COUNTED = "model_call_counted"
"""In a request's state only: an outer limit counts this call already, and both keep one count."""


class ModelCallLimitState(AgentState[ResponseT]):
    """The fields that a limit of model calls keeps in the state.

    Attributes:
        thread_model_call_count: model calls on this thread, in all runs; stored.
        run_model_call_count: model calls in this run; not stored.
    """

    thread_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]
    run_model_call_count: NotRequired[Annotated[int, UntrackedValue, PrivateStateAttr]]


class ModelCallLimitExceededError(CallLimitExceededError):
    """Another model call was due, and the limit is used up.

    Args:
        thread_count: model calls on the thread so far.
        run_count: model calls in this run so far.
        thread_limit: how many a thread may have, None for any number.
        run_limit: how many a run may have, None for any number.
    """

    def __init__(self, thread_count: int, run_count: int, thread_limit: int | None, run_limit: int | None) -> None:
        told = _limits(thread_limit, run_limit).told(thread_count + 1, run_count + 1)
        super().__init__(told, thread_count, run_count, thread_limit, run_limit)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args`, which is the text alone.
        return type(self), (self.thread_count, self.run_count, self.thread_limit, self.run_limit)


class ModelCallLimitMiddleware(AgentMiddleware[ModelCallLimitState[ResponseT], ContextT, ResponseT]):
    """Lets a number of model calls through, in one run or on one thread, and then ends the run.

    It looks before each model call, and counts those that gave an answer. What a retry further in repeats counts as one
    call. A run is one `invoke` or `stream`; one that a person's answer resumes begins a count of its own.

    A run that ends this way has a message of the assistant at its end that says so, and `agentgraph.runs.outcome` calls
    it "limit". The thread can be used on: the count of a run starts anew with each.

    It adds `thread_model_call_count` and `run_model_call_count` to the state, private ones, the second of which is not
    stored. It costs no model call and no superstep. Of several in one agent all look at the same counts.

    Args:
        thread_limit: how many calls the runs on one thread may make together; None for any number. Default None.
        run_limit: how many calls one run may make; None for any number. Default None.
        exit_behavior: "end" (the default), or "error" to raise.

    Raises:
        ConfigurationError: no limit is given, one is negative, or exit_behavior is unknown.
        ConfigurationTypeError: a limit is no whole number.
        ModelCallLimitExceededError: in a run, with exit_behavior "error".

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def look(place: str) -> str:
        ...     "Look somewhere."
        ...     return "nothing"
        >>> agent = create_agent(
        ...     ScriptedModel([tool_call("look", place="here")], [tool_call("look", place="there")]),
        ...     [look],
        ...     middleware=[ModelCallLimitMiddleware(run_limit=2)],
        ... )
        >>> agent.invoke({"messages": "Find it."})["messages"][-1].text
        'The limit of model calls is reached: 2 in one run.'
    """

    state_schema = ModelCallLimitState  # type: ignore[assignment] # generic in the response, which is not bound here

    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error"] = "end",
    ) -> None:
        super().__init__()
        check_exit_behavior(exit_behavior, ("end", "error"))
        self._limits = _limits(thread_limit, run_limit)
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior

    @hook_config(can_jump_to=["end"], inline=True)
    def before_model(
        self,
        state: ModelCallLimitState[ResponseT],
        runtime: Runtime[ContextT],  # noqa: ARG002 - the hook's signature
    ) -> dict[str, Any] | None:
        """End the run where no call is left.

        Args:
            state: the state with the counts.
            runtime: not used.

        Returns:
            The last messages and the way to the end; None to go on.

        Raises:
            ModelCallLimitExceededError: no call is left, and exit_behavior is "error".
        """
        thread, run = _counts(state)
        if self._limits.room(thread, run):
            return None
        if self.exit_behavior == "error":
            raise ModelCallLimitExceededError(thread, run, self.thread_limit, self.run_limit)
        text, which = self._limits.told(thread + 1, run + 1), self._limits.exceeded(thread + 1)
        update = {"jump_to": "end", "messages": closing(state["messages"], [], text, which)}
        # An earlier run's answer: no model call comes any more that would take it back.
        return update if state.get("structured_response") is None else {**update, "structured_response": None}

    @hook_config(can_jump_to=["end"], inline=True)
    async def abefore_model(
        self, state: ModelCallLimitState[ResponseT], runtime: Runtime[ContextT]
    ) -> dict[str, Any] | None:
        """As `before_model`, for async runs."""
        return self.before_model(state, runtime)

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Count the call once it has given an answer.

        Not in `after_model`, which is left out where a hook before it ends the run, and this call would not be counted.
        """
        state: dict[str, Any] = dict(request.state or {})
        if state.get(_COUNTED):
            return (yield request)
        response = yield request.override(state={**state, _COUNTED: True})
        thread, run = _counts(state)
        counts = {"thread_model_call_count": thread + 1, "run_model_call_count": run + 1}
        return ExtendedModelResponse(response, Command(update=counts))


def _limits(thread_limit: int | None, run_limit: int | None) -> Limits:
    return Limits(thread_limit, run_limit, "model calls", "model_calls")


def _counts(state: Any) -> tuple[int, int]:
    return state.get("thread_model_call_count") or 0, state.get("run_model_call_count") or 0
