"""Approvals: a person decides about tool calls before they run.

`batched`: after the model's message, one question about all its guarded calls. `per_call`: one question for each call,
when it is about to run. Both are langgraph interrupts, so the thread is kept by a checkpointer until the answer comes.

The guard stands twice, so that no other middleware leads around it: what was decided is recorded beside the message,
and the last look before a tool runs lets pass only what was decided or does not need to be.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command
from langgraph.typing import ContextT

from agentgraph import bridge
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.history import last_ai_message, pending_calls
from agentgraph.hooks import AgentMiddleware
from agentgraph.state import ResponseT, StateT

from ._approvals import (
    HumanInTheLoopState,
    Outcome,
    answer_message,
    answers_given,
    ask,
    asked_before,
    edit_of,
    forgotten,
    review_of,
    with_notice,
)
from ._approvals_formats import (
    Action,
    ActionRequest,
    ApproveDecision,
    Decision,
    DecisionType,
    EditDecision,
    HITLRequest,
    HITLResponse,
    InterruptMode,
    InterruptOnConfig,
    RejectDecision,
    RespondDecision,
    ReviewConfig,
    ToolApprovalRequest,
    answer_schema,
)
from ._approvals_memory import Memory, memory_of
from ._approvals_policy import Policy, Put, digest_of, early_request

__all__ = [
    "Action",
    "ActionRequest",
    "ApproveDecision",
    "Decision",
    "DecisionType",
    "EditDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "InterruptMode",
    "InterruptOnConfig",
    "RejectDecision",
    "RespondDecision",
    "ReviewConfig",
    "ToolApprovalRequest",
]

EDIT_NOTICE = (
    "A person changed this call before it ran; your message still shows the call as you wrote it. The change was "
    "intended, so do not send the original call again."
)
"""What the result of an edited call begins with."""

ToolResult = ToolMessage | Command[Any]


class HumanInTheLoopMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Asks a person before guarded tools run: approve, edit, reject or respond.

    A call that was rejected never runs, and an approval holds for exactly the call that it was given for: one that
    other middleware has changed since, or that reaches the tools by a jump past the question, is asked about again, as
    in `per_call` mode. Other middleware that rewrites calls around the tool (`wrap_tool_call`) must stand before this
    one in the list, so that this one sees what will run. An answer that does not fit raises a ResumeError, and the
    question stays open.

    Args:
        interrupt_on: by the tool's name: True (all four decisions), False (not guarded), or a config.
        description_prefix: begins the text about a call whose config has no description.
        edit_notice: begins the result of an edited call, so that the model knows; None for nothing.
        interrupt_mode: "batched", one question a turn, answered by position; or "per_call", one question a call with a
            schema of its answer, answered by the interrupt's id. There an edit keeps to the tool and its arguments.

    Raises:
        ConfigurationError: a config would guard nothing or cannot work.

    Example:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def pay(to: str) -> str:
        ...     "Pay somebody."
        ...     return f"paid {to}"
        >>> agent = create_agent(
        ...     ScriptedModel(replies=[[tool_call("pay", to="ann")], "Done."]),
        ...     [pay],
        ...     middleware=[HumanInTheLoopMiddleware({"pay": True})],
        ...     checkpointer=InMemorySaver(),
        ... )
        >>> thread = {"configurable": {"thread_id": "1"}}
        >>> paused = agent.invoke({"messages": "Pay Ann."}, thread)
        >>> paused["__interrupt__"][0].value["action_requests"][0]["name"]
        'pay'
        >>> agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)["messages"][-1].text
        'Done.'
    """

    state_schema = HumanInTheLoopState  # type: ignore[assignment] # a subclass of the bound, which mypy cannot see here
    needs_checkpointer = True
    """Read when the agent runs: without a checkpointer no answer could ever arrive."""

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "This tool call needs your approval",
        edit_notice: str | None = EDIT_NOTICE,
        interrupt_mode: InterruptMode = "batched",
    ) -> None:
        super().__init__()
        if not isinstance(description_prefix, str):
            raise ConfigurationTypeError(
                f"description_prefix is {repr(description_prefix)[:200]}; expected was a text."
            )
        if interrupt_mode not in get_args(InterruptMode):
            raise ConfigurationError(
                f"interrupt_mode is {repr(interrupt_mode)[:200]}; expected was 'batched' (one question a turn) or "
                "'per_call' (one question a call)."
            )
        if not isinstance(edit_notice, str | None):
            raise ConfigurationTypeError(f"edit_notice is {repr(edit_notice)[:200]}; expected was a text or None.")
        self._policy = Policy.of(interrupt_on, description_prefix)
        self.interrupt_on = dict(self._policy.configs)
        self.description_prefix = description_prefix
        self.edit_notice = edit_notice
        self.interrupt_mode = interrupt_mode

    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Ask about the guarded calls of the model's message that have no answer yet; pauses in `batched` mode.

        Args:
            state: the state with the model's message.
            runtime: handed to the config's functions.

        Returns:
            The answers to calls that do not run, and the record of what was decided; None if nothing is guarded.

        Raises:
            ResumeError: the answer does not fit the question; the question stays open.
        """
        message = last_ai_message(state["messages"])
        calls = [] if message is None or self.interrupt_mode == "per_call" else pending_calls(state["messages"])
        guarded = [call for call in calls if call["id"]]
        if message is None or not guarded:
            return forgotten(state)
        outcome = Outcome.of(state, message)
        if not self._review(outcome.puts(guarded), outcome, state, runtime):
            return forgotten(state)
        return outcome.update(state, self._policy)

    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As `after_model`, for async runs."""
        if self._policy.asks_user_code:
            return await bridge.run_blocking(self.after_model, state, runtime)
        return self.after_model(state, runtime)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """The last look before a call runs: what was decided is done, and what is still due is asked, which pauses.

        Args:
            request: the call.
            handler: runs it.

        Returns:
            The result, which says so where a person has edited the call; or the answer to a call that must not run.

        Raises:
            ResumeError: the answer does not fit the question; the question stays open.
        """
        decided = self._decide(request)
        return decided if isinstance(decided, ToolMessage) else self._told(handler(decided), request, decided)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """As `wrap_tool_call`, for async runs."""
        if self._policy.asks_user_code:
            decided = await bridge.run_blocking(self._decide, request)
        else:
            decided = self._decide(request)
        return decided if isinstance(decided, ToolMessage) else self._told(await handler(decided), request, decided)

    def _review(self, puts: list[Put], outcome: Outcome, state: Any, runtime: Runtime[Any]) -> bool:
        """Ask until nothing is open; gives whether anything was guarded.

        An edit may lead to a further question, which has an answer of its own. What a person was asked about is decided
        by the answer, also where the policy does not guard it any more.
        """
        given = answers_given()
        answered = asked_before(puts, given.pop(0) if given else None)
        puts = [put for put in puts if put in answered or self._policy.guards(put)]
        is_guarded = bool(puts)
        while puts:
            asked = answered or [
                put for put in puts if self._policy.is_due(put, early_request(put.call, state, runtime))
            ]
            for put in puts:
                if put not in asked:
                    outcome.allow(put)
            if not asked:
                break
            question = self._policy.question(asked, state, runtime)
            puts = outcome.decide(asked, ask(question, answer_schema(len(asked)))["decisions"])
            answered = asked_before(puts, given.pop(0) if given else None)
        return is_guarded

    def _decide(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The request to run, or the answer to a call that must not run."""
        call, state = request.tool_call, request.state if isinstance(request.state, Mapping) else {}
        review = review_of(state, self._policy)
        if review is not None and (call["id"] or "") in review["answered"]:
            return answer_message(call, review["answered"][call["id"] or ""])
        edit = edit_of(state, call)
        to_run: ToolCall = call if edit is None else {**call, "name": edit["name"], "args": edit["args"]}
        if review is not None and review["allowed"].get(call["id"] or "") == digest_of(to_run):
            return _changed(request, to_run)
        edited = memory_of(request).edited
        put = edited.get(digest_of(to_run)) if edited else None
        return self._ask(put or Put(to_run, call), request)

    def _ask(self, put: Put, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """Ask about one call until nothing is open."""
        while True:
            changed = _changed(request, put.call)
            decision = self._decision(put, changed)
            if decision is None or decision["type"] == "approve":
                return changed
            if decision["type"] != "edit":
                return answer_message(put.model_call, decision)
            put = put.edited(decision)
            memory_of(request).edited[digest_of(put.call)] = put

    def _decision(self, put: Put, request: ToolCallRequest) -> Decision | None:
        """What a person says about the call; None where nobody has to be asked."""
        digest, memory = digest_of(put.call), memory_of(request)
        if digest in put.seen:
            return None
        key = f"{self._policy.mark}:{digest}"
        if key not in memory.decisions:
            memory.decisions[key] = self._answer(put, request, memory)
        return memory.decisions[key]

    def _answer(self, put: Put, request: ToolCallRequest, memory: Memory) -> Decision | None:
        digest, is_due = digest_of(put.call), self._policy.is_due(put, request)
        if not is_due and answers_given().count([digest]) <= memory.used.count(digest):
            return None
        if digest in memory.foreign:
            return memory.foreign.pop(digest)
        answer: Decision = ask(*self._policy.single_question(put, request, get_runtime()))
        memory.used.append(digest)
        if not is_due:
            # It was asked by another approval, or by this one before its policy changed its mind.
            memory.foreign[digest] = answer
        return answer

    def _told(self, result: Any, request: ToolCallRequest, ran: ToolCallRequest) -> Any:
        """The result, with the notice where a person has edited the call."""
        if ran is request or digest_of(ran.tool_call) == digest_of(request.tool_call):
            return result
        return with_notice(result, request.tool_call, ran.tool_call, self.edit_notice)


def _changed(request: ToolCallRequest, call: ToolCall) -> ToolCallRequest:
    """The request for another call; its tool is None where the agent has none of that name, which the model is told."""
    if call is request.tool_call or digest_of(call) == digest_of(request.tool_call):
        return request
    if call["name"] == request.tool_call["name"]:
        return request.override(tool_call=call)
    tools = getattr(request.runtime, "tools", None) or []
    tool = next((one for one in tools if one.name == call["name"]), None)
    return request.override(tool_call=call, tool=tool)  # type: ignore[arg-type] # None is an unknown tool
