"""What is wrong with a stored conversation, and mending it.

The model node mends a history before each request (agentgraph/history.py), so a thread need not be repaired by hand.
This shows what it would do, for a look at a thread that came from elsewhere, and does it for those who read the stored
messages by other ways.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from agentgraph.errors import ConfigurationError
from agentgraph.history import check, last_ai_message
from agentgraph.nodes.effects import Steps, aperform, perform
from agentgraph.runs.outcomes import unfinished_nodes
from agentgraph.threads.access import (
    Agent,
    AgentOrSaver,
    aperform_alone,
    checkpoint_id_of,
    either,
    graph_of,
    is_reader,
    perform_alone,
    read_state,
    saver_of,
    thread_of,
)
from agentgraph.threads.comparing import compare_messages, messages_of
from agentgraph.threads.resting import knowing_agent, nodes_led_to, unfinished, write_messages

__all__ = ["Finding", "FindingKind", "RepairReport", "arepair", "arepair_report", "repair", "repair_report"]

FindingKind = Literal[
    "pending_call",
    "unanswered_call",
    "unreadable_call",
    "stray_answer",
    "misplaced_answer",
    "empty_message",
    "call_ids",
    "no_id",
]

_TEXTS: dict[str, str] = {
    "pending_call": "the call is still to be run or answered; nothing is wrong with it",
    "unanswered_call": "the call has no answer; an error that says so is put after it",
    "unreadable_call": "the call's arguments could not be read; an error that says so is put after it",
    "stray_answer": "the answer belongs to no call, or to one that has an answer already; it is removed",
    "misplaced_answer": "the answer does not stand right after its call; it is moved there",
    "empty_message": "the assistant message says nothing; it is removed",
    "call_ids": "ids of calls were missing or doubled; they are given their own",
    "no_id": "the message has no id; it is given one",
}


@dataclass(frozen=True)
class Finding:
    """One thing that a provider would refuse, and what is done about it.

    Attributes:
        kind: which.
        message_id: the message it is about; None where it had no id.
        tool_call_id: the call it is about, where it is about one.
        tool: the name of the tool, where it is known.
    """

    kind: FindingKind
    message_id: str | None
    tool_call_id: str | None = None
    tool: str | None = None

    @property
    def text(self) -> str:
        """What is wrong and what is done, for a person."""
        return _TEXTS[self.kind]


@dataclass(frozen=True)
class RepairReport:
    """What is wrong with a conversation.

    Attributes:
        findings: in the order of the conversation as it would be.
        update: what would be written to the `messages` of the state.
        next: the nodes whose step is not over; while there are some, the run that goes on does the repair.
        is_written: whether `update` was written.
    """

    findings: tuple[Finding, ...]
    update: tuple[Any, ...]
    next: tuple[str, ...] = ()
    is_written: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether nothing has to be mended. Calls that are about to be run do not count."""
        return all(one.kind == "pending_call" for one in self.findings)


def repair_report(agent: AgentOrSaver, config: RunnableConfig) -> RepairReport:
    """What a repair of a thread's messages would change, and why. Nothing is written.

    Args:
        agent: the agent, or its checkpointer.
        config: with a thread_id, and a checkpoint_id for an earlier state.

    Returns:
        The findings.

    Raises:
        CheckpointError: there is no such thread or checkpoint, or it cannot be read.
        ConfigurationError: the agent has no checkpointer, or the config names no thread.
    """
    found: RepairReport = perform(_report(graph_of(agent), config))
    return found


async def arepair_report(agent: AgentOrSaver, config: RunnableConfig) -> RepairReport:
    """Async form of `repair_report`."""
    found: RepairReport = await aperform(_report(graph_of(agent), config))
    return found


def repair(agent: AgentOrSaver, config: RunnableConfig, *, write: bool = True) -> RepairReport:
    """Mend the stored messages of a thread that is at rest.

    Args:
        agent: the agent.
        config: with the thread_id.
        write: False only reports, as `repair_report`.

    Returns:
        What was found, and whether it was written; a sound conversation is left alone.

    Raises:
        CheckpointError: there is no such thread, or it cannot be read.
        ThreadBusyError: a run is at work on the thread.
        ConfigurationError: the thread is not at rest, an earlier checkpoint is named, or only a checkpointer was given.
    """
    if not write:
        return repair_report(agent, config)
    graph, thread_id = _repairing(agent, config)
    found: RepairReport = perform_alone(saver_of(graph), thread_id, _repair(graph, config))
    return found


async def arepair(agent: AgentOrSaver, config: RunnableConfig, *, write: bool = True) -> RepairReport:
    """Async form of `repair`."""
    if not write:
        return await arepair_report(agent, config)
    graph, thread_id = _repairing(agent, config)
    found: RepairReport = await aperform_alone(saver_of(graph), thread_id, _repair(graph, config))
    return found


def _repairing(agent: AgentOrSaver, config: RunnableConfig) -> tuple[Agent, str]:
    graph, thread_id = knowing_agent(agent, "A repair"), thread_of(config)
    if checkpoint_id_of(config) is not None:
        raise ConfigurationError(
            f"A repair is written to the newest checkpoint, but the config names {checkpoint_id_of(config)!r:.100}. "
            "Leave it out; for an earlier state, rewind or fork first."
        )
    return graph, thread_id


def _report(graph: Agent, config: RunnableConfig) -> Steps:
    snapshot: StateSnapshot = yield from read_state(graph, config)
    before, nodes = messages_of(snapshot), unfinished_nodes(snapshot)
    if is_reader(graph):
        saver = saver_of(graph)
        nodes += nodes_led_to((yield either(saver.get_tuple, saver.aget_tuple, snapshot.config)))
    checked = check(before)
    return RepairReport(
        findings=tuple(_findings(before, checked.messages, is_at_rest=not nodes)),
        update=tuple(checked.update),
        next=nodes,
    )


def _repair(graph: Agent, config: RunnableConfig) -> Steps:
    report: RepairReport = yield from _report(graph, config)
    if report.next:
        raise unfinished(
            thread_of(config),
            report.next,
            "Go on with it (invoke(None, config), an answer, or a new message): the run mends what is to be mended.",
        )
    if not report.update:
        return report
    yield from write_messages(graph, thread_of(config), list(report.update))
    return replace(report, is_written=True)


def _findings(before: Sequence[BaseMessage], after: Sequence[Any], *, is_at_rest: bool) -> list[Finding]:
    known = {one.id for one in before}
    changes = compare_messages(before, after)
    last = last_ai_message(before)
    open_calls = set() if is_at_rest or last is None else {call["id"] for call in last.tool_calls}
    found = [_removed(one) for one in changes.removed]
    found += [Finding("call_ids", change.after.id) for change in changes.changed if isinstance(change.after, AIMessage)]
    found += [_added(one, open_calls) for one in changes.added if isinstance(one, ToolMessage) and _is_ours(one)]
    found += [_about("misplaced_answer", one) for one in _moved(before, after) if one.id in known]
    return found


def _is_ours(message: BaseMessage) -> bool:
    return "agentgraph" in message.response_metadata


def _removed(message: BaseMessage) -> Finding:
    if message.id is None:
        return Finding("no_id", None)
    return _about("stray_answer", message) if isinstance(message, ToolMessage) else Finding("empty_message", message.id)


def _added(answer: ToolMessage, open_calls: set[str | None]) -> Finding:
    if answer.tool_call_id in open_calls:
        return _about("pending_call", answer)
    why = answer.response_metadata["agentgraph"].get("repair")
    return _about("unreadable_call" if why == "invalid_arguments" else "unanswered_call", answer)


def _about(kind: FindingKind, answer: BaseMessage) -> Finding:
    return Finding(kind, answer.id, getattr(answer, "tool_call_id", None), answer.name)


def _moved(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The answers that stand elsewhere, the fewest that explain the new order."""
    ids, new_ids = [one.id for one in before], [one.id for one in after]
    both = {one for one in ids if one is not None} & {one for one in new_ids if one is not None}
    old_order = [one for one in ids if one in both]
    new_order = [one for one in new_ids if one in both]
    if old_order == new_order:
        return []
    codes = difflib.SequenceMatcher(None, old_order, new_order, autojunk=False).get_opcodes()
    gone = {one for code, start, end, *_ in codes if code != "equal" for one in old_order[start:end]}
    return [one for one in after if one.id in gone and isinstance(one, ToolMessage)]
