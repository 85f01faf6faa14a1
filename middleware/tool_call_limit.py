"""A limit of tool calls, of one tool or of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.channels import UntrackedValue
from langgraph.runtime import Runtime
from langgraph.typing import ContextT
from typing_extensions import TypedDict

from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.history import MARK, last_ai_message, pending_calls
from agentgraph.hooks import AgentMiddleware
from agentgraph.state import AgentState, PrivateStateAttr, ResponseT

from ._call_limits import CallLimitExceededError, Limits, check_exit_behavior, closing

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]

_ALL = "__all__"
"""The key of the counts over all tools."""

ExitBehavior = Literal["continue", "error", "end"]
"""What follows when a call is over the limit."""

_OVER = "The call was not run: the limit of {what} is used up. Do not send another one; go on without it."
_LEFT = "The call was not run: the run ended, because the limit of {what} was reached by another call beside it."


class CountedCalls(TypedDict):
    """How the counts stood before the calls of one message, so that several limits count these only once.

    Attributes:
        message_id: of the model's message.
        before: by the key of the count: that of the thread, and that of the run.
    """

    message_id: str
    before: dict[str, tuple[int, int]]


class ToolCallLimitState(AgentState[ResponseT]):
    """The fields that limits of tool calls keep in the state. The counts are by the tool's name, or `__all__`.

    Attributes:
        thread_tool_call_count: calls that were let through on this thread, in all runs; stored.
        run_tool_call_count: calls that the model has sent in this run, those over the limit included; not stored.
        counted_tool_calls: which message was counted last.
    """

    thread_tool_call_count: NotRequired[Annotated[dict[str, int], PrivateStateAttr]]
    run_tool_call_count: NotRequired[Annotated[dict[str, int], UntrackedValue, PrivateStateAttr]]
    counted_tool_calls: NotRequired[Annotated[CountedCalls, PrivateStateAttr]]


class ToolCallLimitExceededError(CallLimitExceededError):
    """The model sent more tool calls than are let through; none of its message was run.

    Args:
        thread_count: calls on the thread, those of this message included.
        run_count: calls in this run, those of this message included.
        thread_limit: how many a thread may have, None for any number.
        run_limit: how many a run may have, None for any number.
        tool_name: the tool that is limited, None for all.
    """

    def __init__(
        self,
        thread_count: int,
        run_count: int,
        thread_limit: int | None,
        run_limit: int | None,
        tool_name: str | None = None,
    ) -> None:
        told = _limits(tool_name, thread_limit, run_limit).told(thread_count, run_count)
        super().__init__(told, thread_count, run_count, thread_limit, run_limit)
        self.tool_name = tool_name

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args`, which is the text alone.
        return type(self), (self.thread_count, self.run_count, self.thread_limit, self.run_limit, self.tool_name)


class ToolCallLimitMiddleware(AgentMiddleware[ToolCallLimitState[ResponseT], ContextT, ResponseT]):
    """Lets a number of tool calls through, in one run or on one thread, of one tool or of all.

    It looks at the model's message, before any of its calls runs, so that it holds also for calls side by side: the
    first ones have what is left. A structured answer is no tool call, and a call that was answered before (a person
    rejected it, another limit refused it) does not count. What a retry repeats counts as one call. A run is one
    `invoke` or `stream`; one that a person's answer resumes begins a count of its own.

    Hooks after the model run from the last in the list to the first. So put a limit behind HumanInTheLoopMiddleware in
    the list: then nobody is asked about a call that does not run.

    A limit that ends the run answers all open calls, adds a message of the assistant that says so, and
    `agentgraph.runs.outcome` calls it "limit".

    It adds `thread_tool_call_count`, `run_tool_call_count` (not stored) and `counted_tool_calls` to the state, private
    ones. It costs no model call and no superstep.

    Args:
        tool_name: the tool that is limited; None for all of them together. Default None.
        thread_limit: how many calls the runs on one thread may make together; None for any number. Default None.
        run_limit: how many calls one run may make; None for any number. Default None.
        exit_behavior: "continue" (the default): calls over the limit are answered with an error, the others run. "end":
            none runs, and the run ends. "error": none runs, and the run raises.

    Raises:
        ConfigurationError: no limit is given, one is negative, that of a run is above that of the thread, or
            exit_behavior is unknown.
        ConfigurationTypeError: a limit is no whole number, or the tool's name is no text.
        ToolCallLimitExceededError: in a run, with exit_behavior "error".

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def search(text: str) -> str:
        ...     "Search."
        ...     return f"all about {text}"
        >>> agent = create_agent(
        ...     ScriptedModel([tool_call("search", text="a"), tool_call("search", text="b")], "Done."),
        ...     [search],
        ...     middleware=[ToolCallLimitMiddleware(tool_name="search", run_limit=1)],
        ... )
        >>> [message.status for message in agent.invoke({"messages": "Find it."})["messages"] if message.type == "tool"]
        ['success', 'error']
    """

    state_schema = ToolCallLimitState  # type: ignore[assignment] # generic in the response, which is not bound here

    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: ExitBehavior = "continue",
    ) -> None:
        super().__init__()
        _check_name(tool_name)
        check_exit_behavior(exit_behavior, ("continue", "error", "end"))
        self._limits = _limits(tool_name, thread_limit, run_limit)
        if thread_limit is not None and run_limit is not None and run_limit > thread_limit:
            raise ConfigurationError(
                f"run_limit is {run_limit} and thread_limit {thread_limit}, so that of the run could never be reached. "
                "Give a run at most as many calls as its thread."
            )
        self.tool_name = tool_name
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior

    @property
    def name(self) -> str:
        """The class name, with the tool's name where there is one."""
        own = type(self).__name__
        return f"{own}[{self.tool_name}]" if self.tool_name else own

    @hook_config(can_jump_to=["end"], inline=True)
    def after_model(
        self,
        state: ToolCallLimitState[ResponseT],
        runtime: Runtime[ContextT],  # noqa: ARG002 - the hook's signature
    ) -> dict[str, Any] | None:
        """Count the calls of the model's message, and refuse those over the limit.

        Args:
            state: the state with the model's message and the counts.
            runtime: not used.

        Returns:
            The counts, and the answers to calls that do not run; None where no call is meant.

        Raises:
            ToolCallLimitExceededError: a call is over the limit, and exit_behavior is "error".
        """
        key = self.tool_name or _ALL
        pending = pending_calls(state["messages"])
        wanted = [call for call in pending if _means(key, call)]
        if not wanted:
            return None
        counts = _Counts.of(state, key)
        thread, run = counts.before[key]
        refused = wanted[self._limits.room(thread, run) :]
        sent = (thread + len(wanted), run + len(wanted))
        if not refused:
            return counts.update(key, len(wanted), pending)
        if self.exit_behavior == "error":
            raise ToolCallLimitExceededError(*sent, self.thread_limit, self.run_limit, self.tool_name)
        answers = [_refusal(call, _OVER, self._limits) for call in refused]
        if self.exit_behavior == "continue":
            let_through = [call for call in pending if call not in refused]
            return {**counts.update(key, len(wanted), let_through), "messages": answers}
        answers = [_refusal(call, _OVER if call in refused else _LEFT, self._limits) for call in pending]
        text, which = self._limits.told(*sent), self._limits.exceeded(sent[0])
        messages = closing(state["messages"], answers, text, which)
        return {**counts.update(key, len(wanted), []), "jump_to": "end", "messages": messages}

    @hook_config(can_jump_to=["end"], inline=True)
    async def aafter_model(
        self, state: ToolCallLimitState[ResponseT], runtime: Runtime[ContextT]
    ) -> dict[str, Any] | None:
        """As `after_model`, for async runs."""
        return self.after_model(state, runtime)


@dataclass(frozen=True)
class _Counts:
    """The counts at the calls of one message.

    Attributes:
        message_id: of the message.
        thread: of the thread, by key, as they stand.
        run: of the run, by key, as they stand.
        before: for the keys that were counted at this message, how they stood before it.
    """

    message_id: str
    thread: Mapping[str, int]
    run: Mapping[str, int]
    before: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, state: Any, key: str) -> "_Counts":
        """The counts in a state; `key` is counted from here on, unless another limit has begun to."""
        message = last_ai_message(state["messages"])
        message_id = (message.id if message is not None else None) or ""
        thread, run = state.get("thread_tool_call_count") or {}, state.get("run_tool_call_count") or {}
        counted = state.get("counted_tool_calls")
        known = counted["before"] if counted and message_id and counted["message_id"] == message_id else {}
        return cls(message_id, thread, run, {key: (thread.get(key, 0), run.get(key, 0)), **known})

    def update(self, key: str, wanted: int, let_through: Sequence[ToolCall]) -> dict[str, Any]:
        """What to write to the state.

        Args:
            key: whose limit it is.
            wanted: how many calls the model has sent of what this limit means.
            let_through: the calls that run; what another limit has counted and does not run is taken back.
        """
        ran = {one: count + sum(_means(one, call) for call in let_through) for one, (count, _) in self.before.items()}
        sent = max(self.run.get(key, 0), self.before[key][1] + wanted)
        return {
            "thread_tool_call_count": {**self.thread, **ran},
            "run_tool_call_count": {**self.run, key: sent},
            "counted_tool_calls": CountedCalls(message_id=self.message_id, before=self.before),
        }


def _means(key: str, call: ToolCall) -> bool:
    return key in {_ALL, call["name"]}


def _limits(tool_name: str | None, thread_limit: int | None, run_limit: int | None) -> Limits:
    if tool_name is None:
        return Limits(thread_limit, run_limit, "tool calls", "tool_calls")
    return Limits(thread_limit, run_limit, f"calls of the tool {tool_name!r}", f"tool_calls[{tool_name}]")


def _refusal(call: ToolCall, text: str, limits: Limits) -> ToolMessage:
    # Another key than that of the run's last message: a refused call alone does not end the run.
    return ToolMessage(
        text.format(what=limits.what),
        name=call["name"],
        tool_call_id=call["id"] or "",
        status="error",
        response_metadata={MARK: {"refused": limits.key}},
    )


def _check_name(name: Any) -> None:
    if name is None:
        return
    if not isinstance(name, str):
        raise ConfigurationTypeError(f"tool_name is {repr(name)[:200]}; expected was the name of a tool, or None.")
    if not name or name == _ALL:
        raise ConfigurationError(f"tool_name is {name!r}; expected was the name of a tool, or None for all of them.")
