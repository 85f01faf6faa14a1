"""What paused threads ask: the questions of one thread, and an inbox over all threads of a saver."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS
from langgraph.errors import GraphBubbleUp
from langgraph.types import Interrupt, Send, StateSnapshot

from agentgraph.errors import ConfigurationTypeError
from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.runs.questions import Asking, find_asked, latest, reading, settings_of
from agentgraph.runs.savers import lasting, reading_back, unread_in

__all__ = ["Question", "ThreadQuestions", "ainbox", "apending_questions", "inbox", "pending_questions"]

PUSHED = "__pregel_push"
"""How the path of a task begins that was sent (langgraph's `Send`)."""

Filter = Callable[["ThreadQuestions"], bool]


@dataclass(frozen=True)
class Question:
    """An open question of a paused run.

    Attributes:
        id: by which it is answered: `resume(agent, config, {id: answer})`.
        value: what was asked.
        response_schema: the JSON schema of the answer, None if the question has none.
        tool_call: the call that is asked about, as far as it can be told: the one the question names, or the one whose
            tool asks. None where it asks about several.
        namespace: of the task that asks, from the root; more than one entry for an agent inside a tool.
        since: when the step began that asks, in ISO 8601.
    """

    id: str
    value: Any
    response_schema: Any = None
    tool_call: Mapping[str, Any] | None = None
    namespace: tuple[str, ...] = ()
    since: str | None = None


@dataclass(frozen=True)
class ThreadQuestions:
    """A thread that waits for answers, or of which nobody can say whether it does.

    Attributes:
        thread_id: the thread.
        questions: its open questions, at least one; none where there is an `error`.
        config: to resume it with.
        metadata: of its newest checkpoint.
        error: why the thread cannot be read, None if it can.
    """

    thread_id: str
    questions: tuple[Question, ...]
    config: RunnableConfig
    metadata: Mapping[str, Any]
    error: Exception | None = None


def pending_questions(agent: Any, config: RunnableConfig) -> list[Question]:
    """The questions of a thread that wait for an answer, in the order of their tool calls.

    Args:
        agent: from `create_agent`, with a checkpointer; or a saver.
        config: with the thread's id.

    Returns:
        An empty list where nothing is asked.

    Raises:
        ConfigurationTypeError: the agent has no checkpointer.
    """
    found: list[Question] = perform(_pending(agent, config))
    return found


async def apending_questions(agent: Any, config: RunnableConfig) -> list[Question]:
    """Async form of `pending_questions`."""
    found: list[Question] = await aperform(_pending(agent, config))
    return found


def inbox(source: Any, *, limit: int | None = 100, where: Filter | None = None) -> Iterator[ThreadQuestions]:
    """The threads that wait for answers, over all threads of a saver.

    Reads while it is iterated. A saver keeps no list of open questions, so all its threads are looked through; to read
    a part, break off, or keep `limit` small. A thread that cannot be read, for instance because it holds an unknown
    type, is given too: without questions, and with an `error`.

    Args:
        source: a saver, or an agent with one.
        limit: at most so many threads; None for all.
        where: which threads to take, for example `lambda thread: thread.metadata.get("team") == "sales"`; also asked
            about those with an `error`.

    Yields:
        One ThreadQuestions a thread.

    Example:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> list(inbox(InMemorySaver()))
        []
    """
    saver = _saver_of(source)
    seen: set[str] = set()
    left = limit
    for saved in lasting(saver).list(None):
        if left == 0:
            return
        if _is_news(saved, seen):
            thread = _found(saver, saved)
            if thread is not None and (where is None or where(thread)):
                left = None if left is None else left - 1
                yield thread


async def ainbox(
    source: Any, *, limit: int | None = 100, where: Filter | None = None
) -> AsyncIterator[ThreadQuestions]:
    """Async form of `inbox`."""
    saver = _saver_of(source)
    seen: set[str] = set()
    left = limit
    async for saved in lasting(saver).alist(None):
        if left == 0:
            return
        if _is_news(saved, seen):
            thread = await _afound(saver, saved)
            if thread is not None and (where is None or where(thread)):
                left = None if left is None else left - 1
                yield thread


def _is_news(saved: CheckpointTuple, seen: set[str]) -> bool:
    """Whether this is a thread's newest checkpoint of its own graph; savers list the newest first."""
    conf = settings_of(saved.config)
    if conf.get("checkpoint_ns") or conf["thread_id"] in seen:
        return False
    seen.add(conf["thread_id"])
    return True


def _found(saver: Any, saved: CheckpointTuple) -> ThreadQuestions | None:
    try:
        asking: Asking = perform(_asking(saver, saved))
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - stored bytes may make any class fail; the entry says so
        return _entry(saved, [], error)
    return _entry(saved, _questions(saved, asking, {}))


async def _afound(saver: Any, saved: CheckpointTuple) -> ThreadQuestions | None:
    try:
        asking: Asking = await aperform(_asking(saver, saved))
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        return _entry(saved, [], error)
    return _entry(saved, _questions(saved, asking, {}))


def _asking(saver: Any, saved: CheckpointTuple) -> Steps:
    unread = unread_in(saved)
    if unread is not None:
        raise unread
    return (yield from find_asked(saver, saved))


def _entry(
    saved: CheckpointTuple, questions: Sequence[Question], error: Exception | None = None
) -> ThreadQuestions | None:
    if not questions and error is None:
        return None
    thread_id = settings_of(saved.config)["thread_id"]
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    return ThreadQuestions(thread_id, tuple(questions), config, saved.metadata, error)


def _pending(source: Any, config: RunnableConfig) -> Steps:
    saver = _saver_of(source)
    saved: CheckpointTuple | None = yield reading(saver, latest(config))
    if saved is None:
        return []
    asking: Asking = yield from find_asked(saver, saved)
    calls: Mapping[str, Any] = {}
    if hasattr(source, "get_state") and any(one.is_open and not one.is_nested for one in asking.asked):
        snapshot = yield Effect(source.get_state, source.aget_state, (latest(config),))
        calls = _calls_of_tasks(snapshot, saved)
    return _questions(saved, asking, calls)


def _questions(saved: CheckpointTuple, asking: Asking, calls: Mapping[str, Any]) -> list[Question]:
    since = saved.checkpoint["ts"]
    found = [
        Question(
            id=one.interrupt.id,
            value=one.interrupt.value,
            response_schema=one.interrupt.response_schema,
            tool_call=_named_call(one.interrupt) or calls.get(one.task_id),
            namespace=tuple(one.namespace.split("|")),
            since=since,
        )
        for one in asking.asked
        if one.is_open
    ]
    found += [Question(one.id, one.value, one.response_schema, _named_call(one), since=since) for one in asking.foreign]
    return found


def _named_call(question: Interrupt[Any]) -> dict[str, Any] | None:
    """The call that a question names itself."""
    value = question.value
    if not isinstance(value, Mapping):
        return None
    if value.get("type") == "tool_approval":
        return {"name": value.get("name"), "args": value.get("args"), "id": value.get("tool_call_id")}
    requests = value.get("action_requests")
    if isinstance(requests, list) and len(requests) == 1 and isinstance(requests[0], Mapping):
        return {"name": requests[0].get("name"), "args": requests[0].get("args"), "id": None}
    return None


def _calls_of_tasks(snapshot: StateSnapshot, saved: CheckpointTuple) -> dict[str, Any]:
    """The tool call that each task carries out: the path of a task that was sent ends with its place among all sent."""
    sent = dict(enumerate(saved.checkpoint["channel_values"].get(TASKS) or ()))
    places: dict[str, Any] = {
        task.id: task.path[1] for task in snapshot.tasks if len(task.path) > 1 and task.path[0] == PUSHED
    }
    calls = {task: _sent_call(sent.get(place)) for task, place in places.items()}
    return {task: call for task, call in calls.items() if call is not None}


def _sent_call(sent: Any) -> Any | None:
    arg = sent.arg if isinstance(sent, Send) else None
    return arg[0] if isinstance(arg, list) and len(arg) == 1 and isinstance(arg[0], Mapping) else None


def _saver_of(source: Any) -> Any:
    saver = getattr(source, "checkpointer", source)
    if callable(getattr(saver, "get_tuple", None)):
        return reading_back(saver)
    raise ConfigurationTypeError(
        f"{type(source).__name__} has no checkpointer, so that no thread of it is kept. Expected was an agent made "
        "with create_agent(..., checkpointer=...), or a checkpoint saver."
    )
