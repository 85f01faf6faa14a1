"""The questions of a paused thread: which task asked, where its answer is to be stored, and what it was given already.

A task that asks (`interrupt`) leaves the question in the pending writes of the checkpoint it runs on; answers are kept
there too, one list a task. The question of an agent that runs inside a tool shows up at every level above it, but its
answer belongs to the innermost one. What is read here is what a saver gives for that: checkpoints and their pending
writes, the public interface of every saver.
"""

import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, TASKS
from langgraph.types import Interrupt, Send, _interrupt_id  # the id of a question is known by no public name

from agentgraph.nodes.effects import Effect, Steps

__all__ = [
    "Asked",
    "Asking",
    "answered_before",
    "find_asked",
    "finished_tasks",
    "latest",
    "missing_nodes",
    "reading",
    "settings_of",
]

NO_TASK = "00000000-0000-0000-0000-000000000000"
"""Under this id langgraph stores what belongs to no task."""

_BRANCH = "branch:to:"
_CONTROL = frozenset({*WRITES_IDX_MAP, "__error_source_node__"})
_MOST_GRAPHS = 64  # so many graphs called by one task are looked through


@dataclass(frozen=True)
class Asked:
    """A task that has asked, and has not finished since.

    Attributes:
        interrupt: its newest question.
        task_id: id of the task.
        node: name of its node.
        namespace: the namespace of the task, from the root: `tools:<task>|model:<task>`.
        place: config of the checkpoint that its answers are stored with.
        given: the answers it has been given, in the order of its questions.
        position: which of its questions the newest is, from 0.
        failed: whether it has failed since.
    """

    interrupt: Interrupt[Any]
    task_id: str
    node: str
    namespace: str
    place: RunnableConfig
    given: tuple[Any, ...]
    position: int
    failed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the newest question still waits for its answer."""
        return len(self.given) <= self.position

    @property
    def is_nested(self) -> bool:
        """Whether a graph inside the thread's own one asks."""
        return "|" in self.namespace


@dataclass(frozen=True)
class Asking:
    """All unfinished questions of a thread.

    Attributes:
        asked: those whose place is known.
        foreign: questions that surfaced, but whose place no saver of this thread knows.
    """

    asked: tuple[Asked, ...] = ()
    foreign: tuple[Interrupt[Any], ...] = ()

    @property
    def open(self) -> list[Interrupt[Any]]:
        """The questions that wait for an answer."""
        return [*(one.interrupt for one in self.asked if one.is_open), *self.foreign]


def reading(saver: Any, config: RunnableConfig) -> Effect:
    """The call that reads one checkpoint with its pending writes."""
    return Effect(saver.get_tuple, saver.aget_tuple, (config,))


def settings_of(config: RunnableConfig) -> dict[str, Any]:
    """The `configurable` of a config."""
    return config.get("configurable", {})


def latest(config: RunnableConfig) -> RunnableConfig:
    """The config of a thread's newest checkpoint, out of any config of the thread."""
    given = {k: v for k, v in settings_of(config).items() if k not in {"checkpoint_id", "checkpoint_map"}}
    newest: RunnableConfig = {"configurable": {**given, "checkpoint_ns": ""}}
    return newest


def finished_tasks(writes: Iterable[PendingWrite] | None) -> set[str]:
    """Ids of the tasks whose result is stored: by langgraph's rule those that wrote more than control marks."""
    return {task for task, channel, _ in writes or () if task != NO_TASK and channel not in _CONTROL}


def answered_before(one: Asked) -> dict[str, Any]:
    """The answers a task has been given, by the id of their question."""
    return {_interrupt_id(one.namespace, position): answer for position, answer in enumerate(one.given)}


def missing_nodes(saved: CheckpointTuple, nodes: Container[str]) -> list[str]:
    """Names of the nodes that are to run next on a checkpoint, but that a graph has not got.

    Args:
        saved: the checkpoint.
        nodes: the names of the graph's nodes.
    """
    checkpoint = saved.checkpoint
    values = checkpoint["channel_values"]
    sent = [one.node for one in values.get(TASKS) or () if isinstance(one, Send)]
    # What leads to a node that is gone is never used up, so only what was written last is to run next.
    written = [one for one in checkpoint.get("updated_channels") or () if one in values and one.startswith(_BRANCH)]
    led = [one.removeprefix(_BRANCH) for one in written]
    return list(dict.fromkeys(name for name in (*sent, *led) if name not in nodes))


def find_asked(saver: Any, saved: CheckpointTuple | None) -> Steps:
    """The unfinished questions of a checkpoint, each with the place of its answer.

    Reads nothing for questions of the thread's own graph, and one checkpoint a level for those of graphs inside it.

    Args:
        saver: the checkpoint saver.
        saved: the checkpoint, None for a thread that has none.

    Returns:
        An Asking.
    """
    if saved is None:
        return Asking()
    asked, foreign = yield from _level(saver, saved, "")
    return Asking(tuple(asked), tuple(foreign))


def _level(saver: Any, saved: CheckpointTuple, namespace: str) -> Steps:
    writes = saved.pending_writes or []
    finished = finished_tasks(writes)
    names = _node_names(saved)
    asked: list[Asked] = []
    foreign: list[Interrupt[Any]] = []
    for task, channel, value in writes:
        if channel != INTERRUPT or task in finished:
            continue
        questions = list(value) if isinstance(value, Sequence) else [value]
        own = _own(saved, namespace, task, names, questions)
        if own is not None:
            asked.append(own)
            continue
        inner = yield from _inside(saver, saved, namespace, task, names, questions)
        asked.extend(inner)
        known = {one for found in inner for one in (found.interrupt.id, *answered_before(found))}
        foreign.extend(question for question in questions if question.id not in known)
    return asked, foreign


def _own(
    saved: CheckpointTuple, namespace: str, task: str, names: Sequence[str], questions: Sequence[Interrupt[Any]]
) -> Asked | None:
    """The question as one that the task itself asked; None if a graph inside it did."""
    given: Any = next((v for t, c, v in saved.pending_writes or () if t == task and c == RESUME), [])
    answers = tuple(given) if isinstance(given, list) else (given,)
    failed = any(t == task and c == ERROR for t, c, _ in saved.pending_writes or ())
    for name, position in itertools.product(names, range(len(answers) + 1)):
        inside = _joined(namespace, f"{name}:{task}")
        for question in questions:
            if question.id == _interrupt_id(inside, position):
                return Asked(question, task, name, inside, saved.config, answers, position, failed)
    return None


def _inside(
    saver: Any,
    saved: CheckpointTuple,
    namespace: str,
    task: str,
    names: Sequence[str],
    questions: Sequence[Interrupt[Any]],
) -> Steps:
    """The questions of graphs that the task has called; the second of these has the namespace `<task>|1`."""
    wanted = {question.id for question in questions}
    found: list[Asked] = []
    for name in names:
        base = _joined(namespace, f"{name}:{task}")
        for number in range(_MOST_GRAPHS):
            inner = base if not number else f"{base}|{number}"
            there = yield reading(saver, _at(saved, inner))
            if there is None:
                break
            asked, _ = yield from _level(saver, there, inner)
            found.extend(asked)
            wanted -= {known for one in asked for known in (one.interrupt.id, *answered_before(one))}
            if not wanted:
                return found
        if found:
            break
    return found


def _at(saved: CheckpointTuple, namespace: str) -> RunnableConfig:
    return {"configurable": {"thread_id": settings_of(saved.config)["thread_id"], "checkpoint_ns": namespace}}


def _joined(namespace: str, task: str) -> str:
    return f"{namespace}|{task}" if namespace else task


def _node_names(saved: CheckpointTuple) -> list[str]:
    """Names of nodes that may have a task on this checkpoint, the likeliest first."""
    checkpoint = saved.checkpoint
    sent = [one.node for one in checkpoint["channel_values"].get(TASKS) or () if isinstance(one, Send)]
    led = [channel.removeprefix(_BRANCH) for channel in checkpoint["channel_versions"] if channel.startswith(_BRANCH)]
    return list(dict.fromkeys([*sent, *led, *checkpoint["versions_seen"]]))
