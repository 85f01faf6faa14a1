"""The station of the model: from the state to a request, through the hooks around it, to an update of the state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from agentgraph.composing import Call, Composed, compose
from agentgraph.edges import Exits
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, EmptyTurnError
from agentgraph.history import (
    check,
    feedback,
    is_empty,
    last_ai_message,
    this_turn,
    with_call_ids,
    with_id,
)
from agentgraph.hooks import HOOKS
from agentgraph.nodes.binding import Binder
from agentgraph.nodes.demands import ask_for_call, was_asked
from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.nodes.hook import Channels, Hook, Passage, arrival, identified, reduces, run_hooks
from agentgraph.progress import count_malformed, count_rounds
from agentgraph.requests import CallRecord, ModelRequest, ModelResponse, lift_response, record_in, record_of
from agentgraph.state import AskAgain, RunProgress, visible_state
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
        counted = state.get("run_progress") or RunProgress()
        request, update, progress = self._request(passage.state(), state.get("ask_again"), counted, runtime)
        record = CallRecord(
            checked=request.messages,
            history=passage.state()["messages"],
            structured=progress.get("structured", 0),
            asked=progress.get("forced", False) or was_asked(request.messages),
            forced=progress.get("forced", False),
        )
        composed = yield Effect(self.call.sync, self.call.asynchronous, (record_in(request, record),))
        note, progress = _judged(composed.value, record, progress)
        writes = self._writes(composed.value, update, state)
        writes += [("ask_again", note)] if note or state.get("ask_again") else []
        writes += [("run_progress", progress)] if progress != counted else []
        passage.write(writes)
        _add_commands(passage, writes, composed.commands)
        yield from run_hooks(self.after, passage, runtime)
        return passage.result()

    def _request(
        self, state: dict[str, Any], note: AskAgain | None, progress: RunProgress, runtime: Runtime[Any]
    ) -> tuple[ModelRequest[Any], list[Any], RunProgress]:
        """The request for this state, what to write to `messages` so that the state agrees with it, and the counts."""
        checked = check(state["messages"])
        counted, notices = count_rounds(progress, checked.messages, self.polling)
        told = [*_told_again(state["messages"], note), *notices]
        request: ModelRequest[Any] = ModelRequest(
            model=self.model,
            messages=[*checked.messages, *told] if told else checked.messages,
            system_message=self.system_message,
            tools=list(self.tools),
            response_format=None if self.response is None else self.response.initial,
            state=state,  # type: ignore[arg-type] # the merged state is an AgentState with more fields
            runtime=runtime,
        )
        return request, [*checked.update, *told], counted

    def _writes(self, response: ModelResponse[Any], update: list[Any], state: dict[str, Any]) -> list[tuple[str, Any]]:
        """What the answer writes to the state."""
        writes: list[tuple[str, Any]] = [("messages", [*update, *response.result])]
        if response.structured_response is not None or self.response or state.get("structured_response") is not None:
            writes.append(("structured_response", response.structured_response))
        return writes

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
        record = record_of(request)
        message = self._own(answer, record.history)
        if bound.demand is not None and bound.demand.missed_by(message):
            return ModelResponse([message, *ask_for_call(bound.demand, message, record)])
        reading = form.read(message)
        record.missing, record.kind = _missing(reading, record), "structured_response"
        record.forced = record.forced and not message.tool_calls
        return ModelResponse([message, *reading.messages], reading.structured_response)

    def _own(self, answer: Any, history: Sequence[Any]) -> AIMessage:
        if not isinstance(answer, AIMessage):
            raise ConfigurationTypeError(
                f"The model answered with {type(answer).__name__}; expected was an AIMessage. "
                "Give create_agent a chat model, without an output parser behind it."
            )
        # An id that the history has already (a model's cache gives it again) would replace the older message.
        taken = any(message.id == answer.id for message in history)
        if answer.id and not taken and not self.name:
            return with_call_ids(answer)
        # A copy: the model may keep, and give again, the message it gave.
        unnamed = answer.model_copy(update={"id": None if taken else answer.id, "name": self.name or answer.name})
        return with_call_ids(with_id(unnamed))


def _missing(reading: Reading, record: CallRecord) -> str | None:
    """What to tell the model when its structured answer is none; raised when telling is no use any more."""
    if reading.error is None:
        record.structured = 0 if reading.structured_response is not None else record.structured
        return None
    no_use = reading.instruction is None and not reading.messages
    if no_use or record.structured >= MAX_STRUCTURED_ATTEMPTS:
        raise reading.error
    record.structured += 1
    return reading.instruction


def _outgoing(request: ModelRequest[Any]) -> list[Any]:
    """The messages as they are sent; hooks may have trimmed them, so the invariant is restored once more."""
    if request.messages is record_of(request).checked:
        messages = request.messages
    else:
        messages = check(convert_to_messages(request.messages)).messages
    if request.system_message is not None:
        return [request.system_message, *messages]
    if not messages:
        raise ConfigurationError(
            'The run has no message for the model. Pass {"messages": "..."}; other keys of the input are dropped '
            "unless they are fields of the state."
        )
    return messages


def _told_again(messages: Sequence[Any], note: AskAgain | None) -> list[Any]:
    """The message that asks again for an answer which was none, unless the conversation has gone on since."""
    turn = this_turn(messages)
    last = last_ai_message(turn)
    if note is None or last is None or last.id != note["message_id"]:
        return []
    return [feedback(note["kind"], note["text"])]


def _judged(
    response: ModelResponse[Any], record: CallRecord, progress: RunProgress
) -> tuple[AskAgain | None, RunProgress]:
    """What the loop must know of an answer that is none, and the counts after it.

    Raises:
        EmptyTurnError: an empty turn, and it was asked again already.
        MalformedToolCallError: too many turns with unreadable calls.
    """
    response.result = [identified(message) for message in response.result]
    last = last_ai_message(response.result)
    if last is None:
        raise ConfigurationTypeError(
            "A wrap_model_call hook answered without an AIMessage. Return what the handler gives, or an AIMessage."
        )
    empty = record.missing is None and response.structured_response is None and is_empty(last)
    if empty and progress.get("empty"):
        raise EmptyTurnError(
            "The model answered with neither text nor a tool call, and did so again when it was asked once more. "
            "Some models have nothing to add after a tool result: say in the system prompt that a final answer is "
            "expected, or let the last tool return directly."
        )
    counted: RunProgress = {
        **count_malformed(progress, last),
        "empty": empty,
        "structured": record.structured,
        "forced": record.forced,
    }
    if last.tool_calls or not (empty or record.missing):
        return None, counted
    kind, text = ("empty_turn", EMPTY_TURN) if empty else (record.kind, record.missing or "")
    return AskAgain(kind=kind, text=text, message_id=last.id or ""), counted


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
