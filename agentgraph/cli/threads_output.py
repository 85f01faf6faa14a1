"""What `agentgraph threads` prints: one JSON object, or a few lines for people, for each thing found.

What messages, tools and ids hold is hostile. People see it with everything that a terminal would obey written as an
escape, each message shortened; JSON is ASCII and whole.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import typer
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph.cli.exits import one_line
from agentgraph.cli.plain import plain
from agentgraph.cli.screen import question_text, shortened, visible
from agentgraph.threads import Pruned, RepairReport, Step, ThreadDiff, ThreadSize, ThreadSummary
from agentgraph.threads.comparing import MessagesDiff

__all__ = ["Printer", "counted"]

LINE = 160
"""How many characters of a message stand in a line that tells of it."""


class Printer:
    """Prints what was found.

    Args:
        as_json: one JSON object a line instead of text.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def threads(self, found: Iterable[ThreadSummary]) -> None:
        """A line a thread, for people under a head of the columns."""
        head = [_columns("last used (UTC)", "checkpoints", "state", "thread")]
        for one in found:
            state = "waiting" if one.is_waiting else ""
            line = _columns(_moment(one.updated_at), str(one.checkpoints), state, _inline(one.thread_id))
            self._put(asdict(one), [*head, line])
            head = []

    def messages(self, found: Iterable[BaseMessage]) -> None:
        """Each message, whole."""
        for one in found:
            self._put(_message(one), _message_lines(one))

    def steps(self, found: Iterable[Step]) -> None:
        """Each step with what it did."""
        for one in found:
            self._put(_step(one), _step_lines(one))

    def diff(self, found: ThreadDiff) -> None:
        """What differs."""
        fields = {name: asdict(change) for name, change in found.fields.items()}
        lines = [*_diff_lines(found.messages), *(_field_line(name, change) for name, change in fields.items())]
        self._put({"messages": _messages_diff(found.messages), "fields": fields}, lines or ["no difference"])

    def size(self, found: ThreadSize) -> None:
        """How big a thread is."""
        parts = ", ".join(counted(count, what.removesuffix("s")) for what, count in asdict(found).items())
        self._put(asdict(found), [parts])

    def pruned(self, found: Pruned) -> None:
        """What pruning did."""
        lines = [f"{counted(found.deleted, 'checkpoint')} deleted, {found.kept} left"]
        if found.needed:
            are = "is" if found.needed == 1 else "are"
            lines.append(f"{found.needed} of these {are} left because the messages of newer ones are read from there")
        if found.waiting:
            lines.append(f"{found.waiting} of these {'waits' if found.waiting == 1 else 'wait'} for a person's answer")
        self._put(asdict(found), lines)

    def repair(self, found: RepairReport) -> None:
        """What is wrong, and whether it was mended."""
        for one in found.findings:
            about = " ".join(str(part) for part in (one.tool, one.tool_call_id or one.message_id) if part)
            line = f"{one.kind} {_inline(about)}: {one.text}"
            self._put({**asdict(one), "text": one.text}, [line])
        written = "written" if found.is_written else "nothing was written"
        self._put(
            {"is_sound": found.is_sound, "is_written": found.is_written},
            ["the history is sound" if found.is_sound else written],
        )

    def done(self, what: str, **facts: Any) -> None:
        """A command that changes something says what it did."""
        self._put(facts, [visible(what)])

    def _put(self, value: Mapping[str, Any], lines: Iterable[str]) -> None:
        if self._as_json:
            typer.echo(json.dumps(plain(value)))
        else:
            for line in lines:
                typer.echo(line)


def counted(number: int, what: str) -> str:
    """A number of things: "1 checkpoint", "2,000 checkpoints"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _columns(*cells: str) -> str:
    moment, checkpoints, state, thread = cells
    return f"{moment:<19}  {checkpoints:>11}  {state:<7}  {thread}"


def _moment(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def _inline(text: object, limit: int = LINE) -> str:
    """Text of anyone's as part of a line."""
    return visible(one_line(str(text), limit))


def _message(message: BaseMessage) -> dict[str, Any]:
    found: dict[str, Any] = {"type": message.type, "id": message.id, "content": message.content}
    if message.name is not None:
        found["name"] = message.name
    if isinstance(message, AIMessage):
        found |= {"tool_calls": message.tool_calls, "invalid_tool_calls": message.invalid_tool_calls}
    if isinstance(message, ToolMessage):
        found |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return found


def _message_lines(message: BaseMessage) -> Iterator[str]:
    yield _inline(_title(message))
    if message.text:
        yield from (f"  {line}" for line in visible(shortened(str(message.text))).split("\n"))
    if isinstance(message, AIMessage):
        yield from (f"  → {_call(call['name'], call['args'])}" for call in message.tool_calls)
        yield from (f"  ✗ {_call(call['name'], call['args'])}" for call in message.invalid_tool_calls)


def _title(message: BaseMessage) -> str:
    status = " failed" if isinstance(message, ToolMessage) and message.status == "error" else ""
    return f"{message.type}{f' {message.name}' if message.name else ''}{status} ({message.id})"


def _call(name: object, args: object) -> str:
    return _inline(f"{name}({json.dumps(plain(args), ensure_ascii=False)})")


def _messages_diff(found: MessagesDiff) -> dict[str, Any]:
    return {
        "added": [_message(one) for one in found.added],
        "removed": [_message(one) for one in found.removed],
        "changed": [{"before": _message(one.before), "after": _message(one.after)} for one in found.changed],
    }


def _diff_lines(found: MessagesDiff) -> Iterator[str]:
    yield from (f"- {_summary(one)}" for one in found.removed)
    for change in found.changed:
        yield f"< {_summary(change.before)}"
        yield f"> {_summary(change.after)}"
    yield from (f"+ {_summary(one)}" for one in found.added)


def _summary(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    said = " ".join([str(message.text), *(f"→ {call['name']}" for call in calls)]).strip()
    return _inline(f"{_title(message)}: {said}")


def _field_line(name: str, change: Mapping[str, Any]) -> str:
    return f"~ {_inline(name)}: {_inline(repr(change['before']))} → {_inline(repr(change['after']))}"


def _step(one: Step) -> dict[str, Any]:
    return {
        "thread_id": one.thread_id,
        "checkpoint_id": one.checkpoint_id,
        "parent_id": one.parent_id,
        "number": one.number,
        "source": one.source,
        "created_at": one.created_at,
        "nodes": one.nodes,
        "messages": _messages_diff(one.messages),
        "tools": [asdict(run) for run in one.tools],
        "fields": one.fields,
        "usage": one.usage,
        "duration": one.duration,
        "interrupts": [{"id": asked.id, "value": asked.value} for asked in one.interrupts],
        "errors": one.errors,
        "next": one.next,
    }


def _step_lines(one: Step) -> Iterator[str]:
    nodes = " ".join(one.nodes) or one.source
    took = "" if one.duration is None else f"  {one.duration:.3f} s"
    yield f"{one.checkpoint_id}  {_moment(one.created_at)}  {one.number:>4}  {_inline(nodes)}{took}"
    yield from (f"    {line}" for line in _diff_lines(one.messages))
    yield from (f"    ran {_call(run.name, run.args)}: {run.status}" for run in one.tools)
    if one.fields:
        yield f"    wrote {_inline(', '.join(one.fields))}"
    if one.usage:
        yield f"    {one.usage['input_tokens']} tokens in, {one.usage['output_tokens']} out"
    yield from (f"    ? {_inline(question_text(asked.value))}" for asked in one.interrupts)
    yield from (f"    ! {_inline(error)}" for error in one.errors)
