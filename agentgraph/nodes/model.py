"""The station of the model: from the state to a request, through the hooks around it, to an update of the state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from agentgraph.composing import Call, Composed, compose
from agentgraph.edges import Exits
from agentgraph.errors import ConfigurationTypeError, EmptyTurnError
from agentgraph.history import (
    check,
    feedback,
    feedback_kind,
    is_empty,
    last_ai_message,
    this_turn,
    with_call_ids,
    with_id,
)
from agentgraph.hooks import HOOKS
from agentgraph.nodes.binding import Binder
from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.nodes.hook import Channels, Hook, Passage, arrival, reduces, run_hooks
from agentgraph.progress import check_malformed, repetition_notice
from agentgraph.requests import CallRecord, ModelRequest, ModelResponse, lift_response, record_in, record_of
from agentgraph.state import AskAgain, visible_state
from agentgraph.structured_output import Reading, ResponsePlan, resolve

__all__ = ["MAX_STRUCTURED_ATTEMPTS", "ModelNode"]

MAX_STRUCTURED_ATTEMPTS = 5
"""So many bad or missing structured answers in a turn are asked for again; the next one is raised."""

EMPTY_TURN = "Your last turn was empty. Answer the user now, or call a tool."


@dataclass(frozen=True, eq=False)
class ModelNode(Runnable[Any, Any]):
    """The node that calls the model.

    Attributes:
        model: the agent's chat model.
        tools: what a request offers: client-side tools, then provider tools.
        system_message: of the agent, None for none.
        response: the plan of the structured answer, None for none.
        binder: binds tools and settings to a model, once for each set of these.
        middleware: all middleware; their wrap hooks stand around the call, the first outermost.
        before: inline hooks that run in this node before the call.
        after: inline hooks that run in this node after it.
        channels: the state's channels.
        polling: tools that may be called again and again.
        name: the agent's name, put on each message; None for none.
        settles: where this node is the loop's start, what it must know to settle the last step's tools.
    """

    model: Any
    tools: tuple[Any, ...]
    system_message: SystemMessage | None
    response: ResponsePlan | None
    binder: Binder
    middleware: tuple[Any, ...]
    before: tuple[Hook, ...]
    after: tuple[Hook, ...]
    channels: Channels
    polling: frozenset[str] = frozenset()
    name: str | None = None
    settles: Exits | None = None
    call: Call = field(init=False)

    def __post_init__(self) -> None:
        base = Call(self._call, self._acall)
        object.__setattr__(self, "call", compose(self.middleware, HOOKS["wrap_model_call"], base, lift_response))

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Call the model in a sync run."""
        return perform(self._steps(input))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Call the model in an async run."""
        return await aperform(self._steps(input))

    def _steps(self, state: dict[str, Any]) -> Steps:
        """The whole station, in order."""
        settled = arrival(state, self.settles)
        if settled is not None:
            return settled
        runtime = get_runtime()
        passage = Passage(self.channels, visible_state(state))
        yield from run_hooks(self.before, passage, runtime)
        if passage.jumped:
            return passage.result()
        request, messages_update = self._request(passage.state(), state.get("ask_again"), runtime)
        record = CallRecord(checked=request.messages)
        composed = yield Effect(self.call.sync, self.call.asynchronous, (record_in(request, record),))
        self._take_answer(passage, state, composed, messages_update, record)
        yield from run_hooks(self.after, passage, runtime)
        return passage.result()

    def _request(
        self, state: dict[str, Any], note: AskAgain | None, runtime: Runtime[Any]
    ) -> tuple[ModelRequest[Any], list[Any]]:
        """The request for this state, and what to write to `messages` so that the state agrees with it."""
        checked = check(state["messages"])
        told = [*_told_again(state["messages"], note), *repetition_notice(checked.messages, self.polling)]
        messages = [*checked.messages, *told] if told else checked.messages
        request: ModelRequest[Any] = ModelRequest(
            model=self.model,
            messages=messages,
            system_message=self.system_message,
            tools=list(self.tools),
            response_format=None if self.response is None else self.response.initial,
            state=state,  # type: ignore[arg-type] # the merged state is an AgentState with more fields
            runtime=runtime,
        )
        return request, [*checked.update, *told]

    def _take_answer(
        self,
        passage: Passage,
        state: dict[str, Any],
        composed: Composed,
        messages_update: list[Any],
        record: CallRecord,
    ) -> None:
        """Write the answer, and what the hooks around the call added."""
        response: ModelResponse[Any] = composed.value
        result = [with_id(message) for message in response.result]
        writes: list[tuple[str, Any]] = [("messages", [*messages_update, *result])]
        if response.structured_response is not None or self.response or state.get("structured_response") is not None:
            writes.append(("structured_response", response.structured_response))
        note = _ask_again(result, response.structured_response, record, [*state["messages"], *messages_update])
        if note or state.get("ask_again"):
            writes.append(("ask_again", note))
        check_malformed([*state["messages"], *result])
        passage.write(writes)
        _add_commands(passage, writes, composed.commands)

    def _call(self, request: ModelRequest[Any]) -> Composed:
        return Composed(perform(self._call_steps(request)))

    async def _acall(self, request: ModelRequest[Any]) -> Composed:
        return Composed(await aperform(self._call_steps(request)))

    def _call_steps(self, request: ModelRequest[Any]) -> Steps:
        """The innermost call: bind, ask, read."""
        form = resolve(
            request.response_format,
            model=request.model,
            tools_bound=bool(request.tools),
            declared={} if self.response is None else self.response.declared,
            native=self.binder.native,
        )
        bound = self.binder.bind(request, form.bind())
        answer = yield Effect(bound.invoke, bound.ainvoke, (_outgoing(request),))
        message = self._own(answer)
        reading = form.read(message)
        record_of(request).missing = self._missing(reading, request)
        return ModelResponse([message, *reading.messages], reading.structured_response)

    def _own(self, answer: Any) -> AIMessage:
        if not isinstance(answer, AIMessage):
            raise ConfigurationTypeError(
                f"The model answered with {type(answer).__name__}; expected was an AIMessage. "
                "Give create_agent a chat model, without an output parser behind it."
            )
        if answer.id and not self.name:
            return with_call_ids(answer)
        # A copy: the model may keep, and give again, the message it gave.
        return with_call_ids(answer.model_copy(update={"id": with_id(answer).id, "name": self.name or answer.name}))

    def _missing(self, reading: Reading, request: ModelRequest[Any]) -> str | None:
        """What to tell the model when its structured answer is none; raised when telling is no use any more."""
        if reading.error is None:
            return None
        attempts = _structured_attempts(request.messages, frozenset(self.response.declared if self.response else ()))
        no_use = reading.instruction is None and not reading.messages
        if no_use or attempts >= MAX_STRUCTURED_ATTEMPTS:
            raise reading.error
        return reading.instruction


def _outgoing(request: ModelRequest[Any]) -> list[Any]:
    """The messages as they are sent; hooks may have trimmed them, so the invariant is restored once more."""
    known = request.messages is record_of(request).checked
    messages = request.messages if known else check(request.messages).messages
    return messages if request.system_message is None else [request.system_message, *messages]


def _told_again(messages: Sequence[Any], note: AskAgain | None) -> list[Any]:
    """The message that asks again for an answer which was none, unless the conversation has gone on since."""
    turn = this_turn(messages)
    last = last_ai_message(turn)
    if note is None or last is None or last.id != note["message_id"]:
        return []
    return [feedback(note["kind"], note["text"])]


def _ask_again(
    result: Sequence[Any], structured_response: Any, record: CallRecord, before: Sequence[Any]
) -> AskAgain | None:
    """What the loop must know of an answer that is none."""
    last = last_ai_message(result)
    if last is None or last.tool_calls or structured_response is not None:
        return None
    if record.missing is not None:
        return AskAgain(kind="structured_response", text=record.missing, message_id=last.id or "")
    if not is_empty(last):
        return None
    if before and feedback_kind(before[-1]) == "empty_turn":
        raise EmptyTurnError(
            "The model answered with neither text nor a tool call, and did so again when it was asked once more. "
            "Some models have nothing to add after a tool result: say in the system prompt that a final answer is "
            "expected, or let the last tool return directly."
        )
    return AskAgain(kind="empty_turn", text=EMPTY_TURN, message_id=last.id or "")


def _structured_attempts(messages: Sequence[Any], names: frozenset[str]) -> int:
    turn = this_turn(messages)
    asked = sum(1 for message in turn if feedback_kind(message) == "structured_response")
    failed = {
        position
        for position, message in enumerate(turn)
        if isinstance(message, AIMessage)
        for answer in turn[position + 1 : position + 1 + len(message.tool_calls)]
        if getattr(answer, "status", None) == "error" and answer.name in names
    }
    return asked + len(failed)


def _add_commands(passage: Passage, own: Sequence[tuple[str, Any]], commands: Sequence[Command[Any]]) -> None:
    """The state updates of the hooks around the call, the innermost first."""
    written = {key for key, _ in own if not reduces(passage.channels[key])}
    for command in commands:
        pairs = list(command._update_as_tuples())  # noqa: SLF001 - langgraph's own reading of all forms of an update
        for key, _ in pairs:
            if key in written:
                raise InvalidUpdateError(
                    f"The field {key!r} is written by more than one command around the same model call, and it has no "
                    "reducer that could merge them. Annotate the field with a reducer, or write it in one place."
                )
        passage.write(pairs, who="A command of a wrap_model_call hook")
        written.update(key for key, _ in pairs if not reduces(passage.channels[key]))
