"""What the tools of one thread did, and what they may do: the side of the thread machine that knows what is right.

Each call of the model carries a serial number of its own, and each time a tool runs is numbered too. A tool's result
names both, so that a result in a conversation is known to be the one of a certain execution, and of no other.
"""

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

__all__ = [
    "GUARDED",
    "Action",
    "Answer",
    "Execution",
    "Ledger",
    "actions_of",
    "answer_for",
    "answers_by_serial",
    "result_text",
]

GUARDED = "pay"
"""The tool that needs an approval."""

RESPONSE = "No need to."
"""What a person answers in the place of a tool."""

_RESULT = re.compile(r"did (\w+) (\d+) for (\d+) as #(\d+)")


@dataclass(frozen=True)
class Action:
    """What a call does: the tool, the serial number of the call, and the amount, which a person may change."""

    tool: str
    serial: int
    amount: int


@dataclass
class Execution:
    """One time that a tool ran."""

    number: int
    action: Action
    returned: bool = False


def result_text(execution: Execution) -> str:
    """What a tool says about its execution."""
    action = execution.action
    return f"did {action.tool} {action.serial} for {action.amount} as #{execution.number}"


@dataclass(frozen=True)
class Answer:
    """What became of a call, read from its tool message; `number` is None where it is not a tool's own result."""

    message: ToolMessage
    action: Action | None
    number: int | None

    @classmethod
    def of(cls, message: ToolMessage) -> "Answer":
        found = _RESULT.search(message.text)
        if found is None:
            return cls(message, None, None)
        tool, serial, amount, number = found.groups()
        return cls(message, Action(tool, int(serial), int(amount)), int(number))


def answers_by_serial(messages: Iterable[Any]) -> dict[int, list[Answer]]:
    """The answers in a conversation, by the serial number of their call: the last before them that has their id."""
    serials: dict[str | None, int] = {}
    found: dict[int, list[Answer]] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            serials.update({call["id"]: call["args"]["serial"] for call in message.tool_calls})
        elif isinstance(message, ToolMessage):
            found.setdefault(serials.get(message.tool_call_id, -1), []).append(Answer.of(message))
    return found


@dataclass
class Ledger:
    """What happened on the present branch of a thread, and what must not happen.

    Attributes:
        executions: everything that tools ever did.
        kept: by the serial number of a call, the execution whose result the thread must have.
        closed: the calls that have an answer, so that they must not run.
        approved: by the serial number of a guarded call, what a person allowed.
        not_before: calls with a smaller serial number must not run in the present run, because it began with a message.
        faults: what was wrong, in words.
    """

    executions: list[Execution] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    approved: dict[int, Action] = field(default_factory=dict)
    not_before: int = 0
    faults: list[str] = field(default_factory=list)
    first_of_run: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def decide(self, decided: Iterable[tuple[Action, str]]) -> None:
        """A person decides: what was decided about the same calls before counts no more."""
        for action, kind in decided:
            self.approved.pop(action.serial, None)
            if kind in {"approve", "edit"}:
                self.approved[action.serial] = edited(action) if kind == "edit" else action

    def begin_run(self, *, not_before: int) -> None:
        """A run begins."""
        self.not_before, self.first_of_run = not_before, len(self.executions)

    def begin(self, action: Action) -> Execution:
        """A tool has its side effect; it is noted here whether it was allowed to."""
        with self._lock:
            again = {one.action.serial for one in self.executions[self.first_of_run :]}
            self._forbid(action, "which has run in this run already", when=action.serial in again)
            self._forbid(action, "whose result is stored", when=action.serial in self.kept)
            self._forbid(action, "which has an answer", when=action.serial in self.closed)
            self._forbid(action, "from before the message that began the run", when=action.serial < self.not_before)
            unapproved = action.tool == GUARDED and self.approved.get(action.serial) != action
            self._forbid(action, f"while approved was {self.approved.get(action.serial)}", when=unapproved)
            execution = Execution(len(self.executions), action)
            self.executions.append(execution)
            return execution

    def finish(self, execution: Execution) -> str:
        """A tool returns; from now on its result must be kept."""
        with self._lock:
            execution.returned = True
            self.kept[execution.action.serial] = execution.number
        return result_text(execution)

    def lose_what_was_not_stored(self, stored: set[int]) -> None:
        """The process was killed in this run: only what had reached the storage must be there."""
        for one in self.executions[self.first_of_run :]:
            if one.number not in stored and self.kept.get(one.action.serial) == one.number:
                del self.kept[one.action.serial]

    def branch_off(self, messages: Iterable[Any], *, keep_approvals: bool) -> None:
        """The thread goes on from these messages: what happened afterwards happened on another branch."""
        answers = answers_by_serial(messages)
        self.kept = {serial: one.number for serial, (one, *_) in answers.items() if one.number is not None}
        if not keep_approvals:
            self.approved = {}

    def look(self, messages: Iterable[Any], asked: Iterable[int]) -> None:
        """Compare a conversation with what happened.

        Args:
            messages: the conversation, with the results that are stored, but not yet part of it.
            asked: serial numbers of the calls that a person is asked about.
        """
        answers = answers_by_serial(messages)
        self.closed = set(answers)
        for serial in asked:
            # What was decided so far was lost with a process that was killed, or was decided on another branch.
            self.approved.pop(serial, None)
        for serial, number in self.kept.items():
            told = [one.number for one in answers.get(serial, [])]
            self._expect(told == [number], f"the result #{number} of call {serial} is lost; its answers are {told}")
        for serial, given in answers.items():
            self._expect(serial >= 0, f"an answer without a call: {given}")
            for one in given:
                self._check(serial, one)

    def check(self) -> None:
        """Raise what was wrong so far.

        Raises:
            AssertionError: with every fault.
        """
        if self.faults:
            raise AssertionError("\n".join(self.faults))

    def _check(self, serial: int, answer: Answer) -> None:
        """A result is the one of an execution, and whatever else answers a call does not look like a result."""
        message = answer.message
        if answer.number is None:
            honest = message.status == "error" or message.text == RESPONSE
            self._expect(honest, f"call {serial} has a result that no tool gave: {message.text!r}")
            return
        ran = self.executions[answer.number].action
        self._expect(answer.action == ran and ran.serial == serial, f"call {serial} has the result of {ran}")
        status = "error" if ran.tool == "fails" else "success"
        self._expect(message.status == status, f"the result of {ran} has the status {message.status}")

    def _forbid(self, action: Action, why: str, *, when: bool) -> None:
        self._expect(not when, f"{action} ran, {why}")

    def _expect(self, right: bool, fault: str) -> None:
        if not right and fault not in self.faults:
            self.faults.append(fault)


def actions_of(question: Mapping[str, Any]) -> list[Action]:
    """The actions that an approval asks about."""
    requests = question.get("action_requests", [question])
    return [Action(one["name"], one["args"]["serial"], one["args"]["amount"]) for one in requests]


def answer_for(question: Mapping[str, Any], decided: Iterable[tuple[Action, str]]) -> Any:
    """The answer to an approval, in the form that it asks for."""
    decisions = [_decision(action, kind) for action, kind in decided]
    return {"decisions": decisions} if "action_requests" in question else decisions[0]


def edited(action: Action) -> Action:
    """What a person makes of an action."""
    return replace(action, amount=action.amount + 1000)


def _decision(action: Action, kind: str) -> Any:
    match kind:
        case "approve":
            return {"type": "approve"}
        case "edit":
            changed = edited(action)
            args = {"serial": changed.serial, "amount": changed.amount}
            return {"type": "edit", "edited_action": {"name": changed.tool, "args": args}}
        case _:
            return {"type": kind, "message": RESPONSE}
