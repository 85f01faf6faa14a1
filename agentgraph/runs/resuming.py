"""Resuming: an answer is checked, stored once with its question, and then the run simply goes on.

langgraph hands the answers of a `Command(resume=...)` to the first question that asks for one. When the command is
delivered again, after a crash or a double click, that is another question than the one it was meant for. So here:

1. the answers are matched with the open questions, and checked, before anything is stored;
2. each is written to the list of answers of the task that asked, at the checkpoint it asked on, which no repetition
   can change;
3. the run goes on without a command.

An answer that was given already is refused, unless the run ended before it could be used: then the same answer again
lets the run go on, and changes nothing.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.types import Command, Interrupt

from agentgraph.approvals import check_answer
from agentgraph.errors import ResumeError, RunError
from agentgraph.nodes.effects import Effect, Steps
from agentgraph.runs.edits import check_edits
from agentgraph.runs.questions import (
    Asked,
    Asking,
    answered_before,
    find_asked,
    latest,
    missing_nodes,
    reading,
    settings_of,
)

__all__ = ["Answer", "answer_questions", "check_nodes", "match_answers", "take_back"]

_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN_IDS = 10
_LOOKED_BACK = 100  # so many checkpoints are looked through to say that an answer comes too late


@dataclass(frozen=True)
class Answer:
    """A checked answer, and the task it is for."""

    asked: Asked
    value: Any


def answer_questions(graph: Any, saver: Any, config: RunnableConfig, command: Command[Any], *, pauses: bool) -> Steps:
    """Check and store the answers of a command.

    Reads the thread's newest checkpoint, on which the run is to go on, and one more a level for questions of agents
    inside tools.

    Args:
        graph: the agent.
        saver: the thread's checkpoint saver.
        config: of the run, with the thread's id.
        command: has a `resume`.
        pauses: whether the graph pauses at nodes (`interrupt_before`, `interrupt_after`), where no answer is needed.

    Returns:
        The input to go on with: None, or what the command holds besides the answers.

    Raises:
        ResumeError: the answers do not fit the open questions; nothing was stored.
    """
    newest = latest(config)
    saved: CheckpointTuple | None = yield reading(saver, newest)
    _check_newest(config, saved)
    asking: Asking = yield from find_asked(saver, saved)
    if not asking.open and not asking.asked and pauses and saved is not None:
        return _rest(command)
    try:
        answers, foreign = match_answers(command.resume, asking)
    except _NotOpenError as error:
        raise ResumeError((yield from _why_not_open(saver, newest, error, asking))) from None
    _check_awaited(graph, asking)
    for one in answers:
        if not one.asked.is_nested:
            check_edits(graph, one.asked.interrupt, one.value)
    for one in answers:
        yield _storing(saver, one.asked, [*one.asked.given, one.value])
    # Where the place of an answer is not known, langgraph finds it by the question's id.
    rest = dataclasses.replace(command, resume=foreign) if foreign else _rest(command)
    return rest


def _check_awaited(graph: Any, asking: Asking) -> None:
    """Refuse answers that nobody would take: the run would go on as if they had not been given."""
    for one in asking.asked:
        node = one.namespace.partition(":")[0]
        if node not in graph.nodes:
            raise _nobody_waits(one, f"by {node!r}, which this agent has not got")
        if not one.is_nested and _is_approval(one.interrupt) and graph.approves is None:
            raise _nobody_waits(one, "by a middleware for approvals, and this agent has none")


def _is_approval(question: Interrupt[Any]) -> bool:
    """Whether middleware asks about one call, around the tool; a tool that asks the like states no schema with it."""
    value = question.value
    return isinstance(value, Mapping) and value.get("type") == "tool_approval" and question.response_schema is not None


def _nobody_waits(one: Asked, by: str) -> ResumeError:
    return ResumeError(
        f"The question {one.interrupt.id!r}, {one.interrupt.value!r:.200}, was asked {by}, so nobody waits for its "
        "answer. Nothing was stored. Answer it by an agent with the middleware and tools that it was asked with; or "
        "send a new message, and the calls that wait are answered as not run."
    )


def check_nodes(graph: Any, saver: Any, config: RunnableConfig) -> Steps:
    """See that what is to run next on a thread is there to be run.

    Args:
        graph: the agent.
        saver: the thread's checkpoint saver.
        config: of a run that is to go on where the thread stands.

    Raises:
        RunError: the agent has not got a node that is to run next.
    """
    saved: CheckpointTuple | None = yield reading(saver, config)
    missing = missing_nodes(saved, graph.nodes) if saved is not None else []
    if missing:
        raise RunError(
            f"The thread goes on with {', '.join(map(repr, missing))}, which this agent has not got, so the run would "
            "end with nothing done. Nothing was changed. Go on with an agent that has the middleware and tools which "
            "the thread was left with; or send a new message, and the calls that wait are answered as not run."
        )


def take_back(saver: Any, config: RunnableConfig) -> Steps:
    """Open the questions again at whose answers the code that asked has failed."""
    asking: Asking = yield from find_asked(saver, (yield reading(saver, latest(config))))
    for one in asking.asked:
        if one.failed and not one.is_open:
            yield _storing(saver, one, list(one.given[: one.position]))


def match_answers(resume: Any, asking: Asking) -> tuple[list[Answer], dict[str, Any]]:
    """Which answer is for which question.

    Args:
        resume: answers by the id of their question, or one answer where one question is open.
        asking: the questions.

    Returns:
        The answers to store, and those whose place is not known, by id. Answers that are stored already are in neither.

    Raises:
        ResumeError: none is open, the answer fits none or several, or it is of the wrong shape.
    """
    by_id = _by_id(resume, asking)
    known = {one.interrupt.id: one for one in asking.asked if one.is_open}
    foreign = {one.id: one for one in asking.foreign}
    repeated = [
        _repeats(asking, key, answer) for key, answer in by_id.items() if key not in known and key not in foreign
    ]
    missing = [key for key in by_id if key not in known and key not in foreign]
    refused = [key for key, same in zip(missing, repeated, strict=True) if not same]
    if refused:
        raise _NotOpenError(refused)
    questions = {**{key: one.interrupt for key, one in known.items()}, **foreign}
    checked = {key: check_answer(questions[key], answer) for key, answer in by_id.items() if key in questions}
    return (
        [Answer(known[key], value) for key, value in checked.items() if key in known],
        {key: value for key, value in checked.items() if key in foreign},
    )


class _NotOpenError(Exception):
    """Answers to questions that are not open."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self.ids = list(ids)


def _by_id(resume: Any, asking: Asking) -> dict[str, Any]:
    if isinstance(resume, Mapping) and all(isinstance(key, str) and _ID.fullmatch(key) for key in resume):
        if not resume:
            raise ResumeError(f"An empty dict answers nothing. {_whats_open(asking.open)}")
        return dict(resume)
    questions = asking.open
    if len(questions) == 1:
        return {questions[0].id: resume}
    if questions:
        raise ResumeError(
            f"One answer was given, {resume!r:.200}, but {len(questions)} questions are open, and nothing says which "
            f"of them it is for. {_whats_open(questions)} Nothing was stored."
        )
    return _again(resume, asking)


def _again(resume: Any, asking: Asking) -> dict[str, Any]:
    """A plain answer where no question is open: it may be one that was stored before the run broke off."""
    if len(asking.asked) == 1:
        one = asking.asked[0]
        if _same(one.given[one.position], resume, one.interrupt):
            return {one.interrupt.id: resume}
        raise ResumeError(
            f"The question {one.interrupt.id!r} was already answered, and the run has not gone on since. Given was "
            f"another answer, {resume!r:.200}, which was not stored. Invoke the agent with None to let the run go on."
        )
    if asking.asked:
        raise ResumeError(
            f"All {len(asking.asked)} questions of this thread were already answered, and the run has not gone on "
            "since. Nothing was stored. Invoke the agent with None to let the run go on."
        )
    raise ResumeError(
        f"The answer {resume!r:.200} was given, but no question is open on this thread: nothing was asked, it was "
        "already answered, or the conversation has gone on without the answer. Nothing was stored."
    )


def _repeats(asking: Asking, key: str, answer: Any) -> bool:
    """Whether an answer is stored already, and the run broke off before it could be used."""
    for one in asking.asked:
        if not one.is_open and key == one.interrupt.id:
            return _same(one.given[one.position], answer, one.interrupt)
    return False


def _same(stored: Any, answer: Any, question: Interrupt[Any]) -> bool:
    try:
        return bool(stored == answer) or bool(stored == check_answer(question, answer))
    except Exception:  # noqa: BLE001 - equality and checks of foreign values; nothing here runs a graph
        return False


def _why_not_open(saver: Any, config: RunnableConfig, error: _NotOpenError, asking: Asking) -> Steps:
    """The text for answers to questions that are not open; looks back in the thread to name the reason."""
    earlier = {key for one in asking.asked for key in (one.interrupt.id, *answered_before(one))}
    if not set(error.ids) <= earlier:
        past = yield Effect(_ids_before, _aids_before, (saver, config))
        earlier |= past
    too_late = [key for key in error.ids if key in earlier]
    unknown = [key for key in error.ids if key not in earlier]
    parts = [
        *([f"{_named(too_late)} already answered, or the conversation has gone on without it."] if too_late else []),
        *([f"{_named(unknown)} not known on this thread."] if unknown else []),
    ]
    return f"{' '.join(parts)} {_whats_open(asking.open)} Nothing was stored."


def _ids_before(saver: Any, config: RunnableConfig) -> set[str]:
    return {key for saved in saver.list(_every_level(config), limit=_LOOKED_BACK) for key in _ids_in(saved)}


async def _aids_before(saver: Any, config: RunnableConfig) -> set[str]:
    return {key async for saved in saver.alist(_every_level(config), limit=_LOOKED_BACK) for key in _ids_in(saved)}


def _every_level(config: RunnableConfig) -> RunnableConfig:
    return {"configurable": {"thread_id": settings_of(config)["thread_id"]}}


def _ids_in(saved: CheckpointTuple) -> list[str]:
    questions = [value for _, channel, value in saved.pending_writes or () if channel == INTERRUPT]
    return [one.id for value in questions for one in (value if isinstance(value, Sequence) else [value])]


def _check_newest(config: RunnableConfig, saved: CheckpointTuple | None) -> None:
    """An answer is for the newest checkpoint: further back, the question has had its answer, or lost its point."""
    asked_for = settings_of(config).get("checkpoint_id")
    if saved is None or not asked_for or asked_for == saved.checkpoint["id"]:
        return
    raise ResumeError(
        f"The answer is for the checkpoint {asked_for!r}, but the thread has gone on since; its newest checkpoint is "
        f"{saved.checkpoint['id']!r}. Nothing was stored. To go another way from there, invoke the agent with None and "
        "that config: it asks again, and the new question can be answered. To answer what is open now, leave the "
        "checkpoint_id out."
    )


def _storing(saver: Any, asked: Asked, answers: list[Any]) -> Effect:
    return Effect(saver.put_writes, saver.aput_writes, (asked.place, [(RESUME, answers)], asked.task_id))


def _rest(command: Command[Any]) -> Command[Any] | None:
    """What a command holds besides its answers; None for nothing."""
    rest = dataclasses.replace(command, resume=None)
    return rest if rest.update or rest.goto else None


def _named(ids: Sequence[str]) -> str:
    shown = ", ".join(repr(key) for key in ids[:_SHOWN_IDS])
    return f"The question {shown} is" if len(ids) == 1 else f"The questions {shown} are"


def _whats_open(questions: Sequence[Interrupt[Any]]) -> str:
    if not questions:
        return "No question is open."
    shown = "; ".join(f"{one.id!r}: {one.value!r:.120}" for one in questions[:_SHOWN_IDS])
    return f"Open are, by id: {shown}. Give the answers as {{id: answer}}."
