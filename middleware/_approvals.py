"""What people have decided about the calls of a message: how it is kept, and what follows from it.

The record stands in the state beside the message it is about, so that it holds across crashes and processes, and is
worth nothing for any other message, also where a model uses the id of a call again.
"""

import functools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, cast

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Interrupt, interrupt
from pydantic import PlainValidator, ValidationError, WithJsonSchema
from typing_extensions import TypedDict

from agentgraph.approvals import ASKED, check_answer
from agentgraph.history import MARK, last_ai_message
from agentgraph.state import AgentState, PrivateStateAttr, ResponseT
from agentgraph.tools.results import as_content

from ._approvals_formats import Action, Decision
from ._approvals_policy import Policy, Put, as_json, digest_of

__all__ = [
    "EDITS",
    "REVIEWS",
    "HumanInTheLoopState",
    "Outcome",
    "Review",
    "answer_message",
    "answers_given",
    "ask",
    "asked_before",
    "edit_of",
    "forgotten",
    "review_of",
    "with_notice",
]

EDITS = "hitl_edited_tool_calls"
REVIEWS = "hitl_reviews"


class Edit(Action):
    """What runs in the place of a model's call.

    Attributes:
        message_id: of the model's message; the edit is worth nothing for a call of another one.
    """

    message_id: str


class Review(TypedDict):
    """What is known about the calls of one message.

    Attributes:
        message_id: of the model's message.
        allowed: for calls that may run, by their ids: the digest of what may run.
        answered: for calls that must not run, by their ids: the decision.
    """

    message_id: str
    allowed: dict[str, str]
    answered: dict[str, Decision]


class HumanInTheLoopState(AgentState[ResponseT]):
    """The fields that approvals keep in the state.

    Attributes:
        hitl_edited_tool_calls: by the id of the model's call, what a person wants to run in its place.
        hitl_reviews: by the mark of the policy, what was decided about the last message that it looked at.
    """

    hitl_edited_tool_calls: NotRequired[Annotated[dict[str, Edit], PrivateStateAttr]]
    hitl_reviews: NotRequired[Annotated[dict[str, Review], PrivateStateAttr]]


@dataclass
class Outcome:
    """The decisions about the calls of one message, collected question by question.

    Attributes:
        message: the model's message.
        edits: for its calls, those of other approvals included.
    """

    message: AIMessage
    edits: dict[str, Edit]
    allowed: dict[str, str] = field(default_factory=dict)
    answered: dict[str, Decision] = field(default_factory=dict)

    @classmethod
    def of(cls, state: Mapping[str, Any], message: AIMessage) -> "Outcome":
        """A fresh one, with the edits that another approval has already made to this message."""
        edits: dict[str, Edit] = state.get(EDITS) or {}
        return cls(message, {key: edit for key, edit in edits.items() if edit.get("message_id") == message.id})

    def puts(self, calls: Sequence[ToolCall]) -> list[Put]:
        """Calls as they would run by now."""
        return [Put(_replaced(call, self.edits.get(call["id"] or "")), call) for call in calls]

    def allow(self, put: Put) -> None:
        """The call may run, in this form."""
        self.allowed[put.id] = digest_of(put.call)
        if digest_of(put.call) == digest_of(put.model_call):
            self.edits.pop(put.id, None)
        else:
            self.edits[put.id] = Edit(name=put.call["name"], args=put.call["args"], message_id=self.message.id or "")

    def decide(self, puts: Sequence[Put], decisions: Sequence[Decision]) -> list[Put]:
        """Take decisions; gives the calls that were edited, which somebody may have to look at again."""
        edited = []
        for put, decision in zip(puts, decisions, strict=True):
            if decision["type"] == "approve":
                self.allow(put)
            elif decision["type"] == "edit":
                edited.append(put.edited(decision))
            else:
                self.answered[put.id] = decision
        return edited

    def update(self, state: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
        """What to write to the state: the answers to calls that do not run, and the record."""
        answers = [
            answer_message(call, self.answered[call["id"] or ""])
            for call in self.message.tool_calls
            if call["id"] in self.answered
        ]
        review = Review(message_id=self.message.id or "", allowed=self.allowed, answered=self.answered)
        update = {EDITS: self.edits, REVIEWS: {**(state.get(REVIEWS) or {}), policy.mark: review}}
        return {"messages": answers, **update} if answers else update


def forgotten(state: Any) -> dict[str, Any] | None:
    """Take away what was decided about an earlier message."""
    message = last_ai_message(state["messages"])
    records = [*(state.get(EDITS) or {}).values(), *(state.get(REVIEWS) or {}).values()]
    stale = [one for one in records if message is None or one.get("message_id") != message.id]
    return {EDITS: {}, REVIEWS: {}} if stale else None


def _replaced(call: ToolCall, edit: Edit | None) -> ToolCall:
    return call if edit is None else {**call, "name": edit["name"], "args": edit["args"]}


def review_of(state: Mapping[str, Any], policy: Policy) -> Review | None:
    """What this policy knows about the calls of the last message; None when it has not looked at it."""
    review: Review | None = (state.get(REVIEWS) or {}).get(policy.mark)
    return review if review is not None and review["message_id"] == _last_id(state) else None


def edit_of(state: Mapping[str, Any], call: ToolCall) -> Edit | None:
    """What a person put in the place of this call of the last message."""
    edit: Edit | None = (state.get(EDITS) or {}).get(call["id"])
    return edit if edit is not None and edit.get("message_id") == _last_id(state) else None


def _last_id(state: Mapping[str, Any]) -> str | None:
    message = last_ai_message(state.get("messages") or ())
    # No id is no bond: an edit without one would fit every message without one.
    return (message.id or None) if message is not None else None


def answers_given() -> list[list[str] | None]:
    """For each answer that the running task holds: which calls it is for, None where it does not say.

    A `when` may say no at the time of the answer where it said yes at the time of the question. The calls that were
    asked about are then known from the answer, and it holds.
    """
    try:
        # Only interrupt() itself reads this publicly, and it takes the answer or pauses.
        scratchpad = get_config().get("configurable", {}).get(CONFIG_KEY_SCRATCHPAD)
    except RuntimeError:  # outside of a run
        return []
    if scratchpad is None:
        return []
    waiting = scratchpad.get_null_resume(False)
    given = [*scratchpad.resume, *([] if waiting is None else [waiting])]
    return [answer.get(ASKED) if isinstance(answer, Mapping) else None for answer in given]


def asked_before(puts: Sequence[Put], digests: Sequence[str] | None) -> list[Put]:
    """The calls that a person's answer is for; empty if it does not say, or says others."""
    left, found = list(puts), []
    for digest in digests or ():
        match = next((put for put in left if digest_of(put.call) == digest), None)
        if match is None:
            return []
        left.remove(match)
        found.append(match)
    return found


def ask(question: Any, schema: dict[str, Any]) -> Any:
    """Put a question to a person, which pauses the run; gives the checked answer.

    The check is a part of the answer's type, because langgraph stores an answer as soon as it has validated it: a wrong
    one would then be given again and again.

    Args:
        question: what the person sees.
        schema: of the answer, for clients.

    Raises:
        ResumeError: the answer does not fit; the question stays open.
    """
    check = functools.partial(check_answer, Interrupt(question, id="", response_schema=schema))
    shape: Any = Annotated[Any, PlainValidator(check), WithJsonSchema({})]
    try:
        return interrupt(question, response_schema=shape)
    except GraphInterrupt as paused:
        # The schema takes no way through pydantic, which looks for what it refers to among definitions of its own.
        shown = tuple(Interrupt(one.value, id=one.id, response_schema=schema) for one in paused.args[0])
        raise GraphInterrupt(shown) from None
    except ValidationError as error:
        raise error.errors()[0].get("ctx", {}).get("error", error) from None


def answer_message(call: ToolCall, decision: Decision) -> ToolMessage:
    """What the model gets for a call that does not run."""
    said = cast("str | None", decision.get("message"))
    name = call["name"]
    if decision["type"] == "respond":
        text = said or ""
    elif said:
        text = f"The user rejected this call of {name!r}; it did not run. The reason: {said}"
    else:
        text = f"The user rejected this call of {name!r}; it did not run. Send it again only if the user asks for it."
    return ToolMessage(
        as_content(text),
        id=str(uuid.uuid4()),
        name=name,
        tool_call_id=call["id"] or "",
        status="success" if decision["type"] == "respond" else "error",
        response_metadata={MARK: {"decision": decision["type"]}},
    )


def with_notice(result: Any, call: ToolCall, executed: ToolCall, notice: str | None) -> Any:
    """The result of an edited call, which begins with what really ran.

    Args:
        result: what the handler gave: a message, a command, or a list of these.
        call: the model's call.
        executed: what ran.
        notice: the words before it; None or "" for none.
    """
    if isinstance(result, list):
        return [with_notice(one, call, executed, notice) for one in result]
    if isinstance(result, ToolMessage) and result.tool_call_id == call["id"]:
        return _annotated(result, call, executed, notice)
    if isinstance(result, Command) and result.graph is None:
        return _annotated_command(result, call, executed, notice)
    return result


def _annotated_command(command: Command[Any], call: ToolCall, executed: ToolCall, notice: str | None) -> Command[Any]:
    pairs = list(command._update_as_tuples())  # noqa: SLF001 - langgraph's own reading of all forms of an update
    if not any(key == "messages" for key, _ in pairs):
        return command
    update = [(key, with_notice(value, call, executed, notice) if key == "messages" else value) for key, value in pairs]
    return Command(graph=command.graph, update=update, resume=command.resume, goto=command.goto)


def _annotated(message: ToolMessage, call: ToolCall, executed: ToolCall, notice: str | None) -> ToolMessage:
    # Some providers pair calls and results by name as well as by id, so the result keeps the name of the model's call.
    changes: dict[str, Any] = {"name": call["name"]}
    if notice:
        text = f"{notice} What ran: {executed['name']} with the arguments {as_json(executed['args'])}."
        changes["content"] = _before(text, message.content)
    return message.model_copy(update=changes)


def _before(text: str, content: Any) -> Any:
    if isinstance(content, str):
        return f"{text}\n\n{content}" if content else text
    # A list of one kind stays one: providers refuse texts beside blocks.
    plain = bool(content) and all(isinstance(block, str) for block in content)
    return [text if plain else {"type": "text", "text": text}, *content]
