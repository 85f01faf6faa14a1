"""What a run that breaks off had finished is stored, also what langgraph had no time for.

While a run lasts, its tools node writes down what each call came to (`agentgraph.tools.ledger`). A run that ends well
leaves it at that. One that is cancelled, out of time, closed or failing is compared with its saver before it gives its
thread back, and what is missing is stored as langgraph would have stored it: with the id of the task, at the
checkpoint on which the task ran.
"""

import asyncio
import contextlib
import functools
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import (  # what langgraph hands a task to read and write by
    CONF,
    CONFIG_KEY_READ,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_SEND,
    NO_WRITES,
)
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.errors import GraphBubbleUp, NodeCancelledError, NodeTimeoutError
from langgraph.pregel._algo import task_path_str  # how a task's path is stored has no public name
from langgraph.pregel._messages import ensure_message_ids  # nor has the ids that stored messages are given

from agentgraph import bridge
from agentgraph.neighbours import thread_work, unmark
from agentgraph.nodes.direct import node_tasks
from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.runs.questions import finished_tasks, reading, settings_of
from agentgraph.runs.resuming import check_nodes
from agentgraph.tools.ending import outlast_cancels
from agentgraph.tools.ledger import FinishedCall, Ledger, current_ledger

__all__ = ["Keeping", "NestedRun", "aclosing", "closing"]

Writes = list[tuple[str, Any]]

_ENOUGH = 2  # so many cancels of a task mean that nobody wants to wait


class Keeping:
    """The finished tool calls of one run of a graph, and storing those that langgraph did not.

    Args:
        graph: the compiled graph.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._saver: Any = None
        self._ledger: Ledger | None = None
        self._outer = current_ledger.get()
        self._nodes: set[asyncio.Task[Any]] = set()
        self._finishing: asyncio.Task[None] | None = None

    def begin(self, saver: Any, config: RunnableConfig) -> None:
        """Write down from now on; nothing, where no thread is kept."""
        if saver is not None and settings_of(config).get("thread_id") is not None:
            self._saver, self._ledger = saver, Ledger()

    @contextlib.contextmanager
    def step(self) -> Generator[None]:
        """Stand around each step of the run, because a generator has no context variables of its own."""
        ledger, threads = current_ledger.set(self._ledger), thread_work.set(None)
        nodes = node_tasks.set(self._nodes)
        try:
            yield
        finally:
            node_tasks.reset(nodes)
            thread_work.reset(threads)
            current_ledger.reset(ledger)

    @contextlib.contextmanager
    def ending(self) -> Generator[None]:
        """Stand around a whole sync run, until langgraph's own end of it."""
        try:
            yield
        except GraphBubbleUp:
            raise
        except BaseException as error:
            with _noting_failure(error):
                perform(self._store())
            raise

    @contextlib.asynccontextmanager
    async def aending(self) -> AsyncGenerator[None]:
        """Async form of `ending`. A run whose task is cancelled a second time does not wait for that end."""
        cancelled = _times_cancelled()
        try:
            yield
        except GraphBubbleUp:
            raise
        except BaseException as error:
            left = self._end_nodes()
            if self._ledger is not None or left:
                self._finishing = asyncio.create_task(self._afinish(error, left))
                if self._outer is not None:
                    self._outer.at_work.add(self._finishing)
                if not (self._in_threads() and _times_cancelled() - cancelled >= _ENOUGH):
                    await outlast_cancels(self._finishing, unless=self._in_threads)
            raise

    def _end_nodes(self) -> "set[asyncio.Task[Any]]":
        """Cancel the nodes that langgraph left at work, which it does when it is itself cancelled at its end."""
        left = {one for one in self._nodes if not one.done() and one is not asyncio.current_task()}
        for one in left:
            if not one.cancelling():
                one.cancel()
        return left

    def _in_threads(self) -> bool:
        """Whether a call is at work that nobody can end."""
        return self._ledger is not None and any(not one.done() for one in self._ledger.at_work)

    def afterwards(self, done: Callable[[], object]) -> bool:
        """Have `done` called when a finish that nobody waited for is over; False where nothing goes on any more."""
        if self._finishing is None or self._finishing.done():
            return False
        self._finishing.add_done_callback(lambda _: done())
        return True

    async def _afinish(self, error: BaseException, left: "set[asyncio.Task[Any]]") -> None:
        # A time limit has given its call up; whoever cancels a run has not.
        at_work = set() if self._ledger is None or isinstance(error, NodeTimeoutError) else self._ledger.at_work
        while unfinished := _unfinished(error) | {one for one in (*left, *at_work) if not one.done()}:
            await asyncio.wait(unfinished)
        with _noting_failure(error):
            await aperform(self._store())

    def _store(self) -> Steps:
        calls = self._ledger.calls if self._ledger is not None else []
        if not calls:
            return
        saved: CheckpointTuple | None = yield reading(self._saver, _checkpoint_of(calls[0]))
        if saved is None:
            return
        stored = finished_tasks(saved.pending_writes)
        for call in calls:
            # Another graph's node may have been called with this run's context.
            own = self._graph.nodes.get(_name_of(call))
            if call.place.task_id in stored or own is None or own.bound is not call.node:
                continue
            stored.add(call.place.task_id)
            writes = _writes_of(call, self._graph)
            path = _path_of(self._saver, call)
            yield Effect(
                self._saver.put_writes,
                self._saver.aput_writes,
                (_checkpoint_of(call), writes, call.place.task_id, *path),
            )


class NestedRun:
    """A run inside another one: its finished calls are kept, and its exceptions leave it without our marks.

    Args:
        graph: the agent.
        merged: the whole config, as langgraph will see it.
        drained: whether a control ends it between two steps; else it ends with the thread that it is called in.
    """

    def __init__(self, graph: Any, merged: RunnableConfig, *, drained: bool) -> None:
        self._graph = graph
        self._merged = merged
        self._saver = graph.saver_of(merged)
        self._keeping = Keeping(graph)
        self._keeping.begin(self._saver, merged)
        self._drained = drained

    def stream(self, inner: Iterator[Any]) -> Generator[Any]:
        """Run in sync code; `inner` is langgraph's own stream."""
        try:
            perform(self._check())
            with self._keeping.ending(), closing(inner):
                while True:
                    if not self._drained:
                        _check_scope()
                    with self._keeping.step():
                        try:
                            piece = next(inner)
                        except StopIteration:
                            return
                    yield piece
        except BaseException as error:
            unmark(error)
            if isinstance(error, NodeCancelledError):
                # Its own tools were cancelled because the call that it runs in was; that is no error of the tool.
                _check_scope()
            raise

    async def astream(self, inner: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        """Run in async code; `inner` is langgraph's own astream."""
        try:
            await aperform(self._check())
            async with self._keeping.aending(), aclosing(inner):
                while True:
                    with self._keeping.step():
                        try:
                            piece = await anext(inner)
                        except StopAsyncIteration:
                            return
                    yield piece
        except BaseException as error:
            unmark(error)
            raise

    def _check(self) -> Steps:
        """Where it goes on with what it did before, see that it can."""
        if self._saver is not None and settings_of(self._merged).get(CONFIG_KEY_RESUMING):
            yield from check_nodes(self._graph, self._saver, self._merged)


def _times_cancelled() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _unfinished(error: BaseException) -> "set[asyncio.Task[Any]]":
    """The end of langgraph's own run, which it hands over with the exception when its waiting for it was cancelled."""
    return {one for one in error.args if isinstance(one, asyncio.Task) and not one.done()}


def _check_scope() -> None:
    """Raise where the call in whose thread this code runs was cancelled."""
    if (scope := bridge._scope.get()) is not None:  # noqa: SLF001 - what cancels calls in threads
        scope.check()


@contextlib.contextmanager
def _noting_failure(error: BaseException) -> Generator[None]:
    """What ends the run is told, and what failed besides is noted with it."""
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as failed:
        if isinstance(error, GeneratorExit):
            raise
        error.add_note(
            "Besides, results of finished tool calls could not be stored, so that these calls run again when the "
            f"thread goes on: {type(failed).__name__}: {failed!s:.500}"
        )


def _checkpoint_of(call: FinishedCall) -> RunnableConfig:
    place = call.place
    within = place.checkpoint_ns.rpartition("|")[0]
    config: RunnableConfig = {
        "configurable": {
            "thread_id": place.thread_id,
            "checkpoint_ns": within,
            "checkpoint_id": place.checkpoint_id,
        }
    }
    return config


def _name_of(call: FinishedCall) -> str:
    return str(call.config.get("metadata", {}).get("langgraph_node"))


def _path_of(saver: Any, call: FinishedCall) -> tuple[str, ...]:
    """The task's path, for a saver that takes one; elder ones do not."""
    if "task_path" not in inspect.signature(saver.put_writes).parameters:
        return ()
    return (task_path_str(call.config.get("metadata", {}).get("langgraph_path", ())),)


def _writes_of(call: FinishedCall, graph: Any) -> Writes:
    """What langgraph writes for the update: the node's own way from an update to the channels, taken once more."""
    writes: deque[tuple[str, Any]] = deque()
    conf = settings_of(call.config)
    read = conf[CONFIG_KEY_READ]
    # Conditional edges read the state with the writes of this task, which are those made here.
    own = functools.partial(
        read.func, *read.args[:3], read.args[3]._replace(writes=writes), *read.args[4:], **read.keywords
    )
    config = {**call.config, "callbacks": None, CONF: {**conf, CONFIG_KEY_SEND: writes.extend, CONFIG_KEY_READ: own}}
    given = call.update
    for writer in graph.nodes[_name_of(call)].flat_writers:
        given = writer.invoke(given, config)
    made = [one for one in writes if not isinstance(graph.channels.get(one[0]), UntrackedValue)]
    ensure_message_ids(graph.channels, made)
    return made or [(NO_WRITES, None)]


@contextlib.contextmanager
def closing(inner: Iterator[Any]) -> Generator[None]:
    """Close langgraph's stream at the end, also where it was left early."""
    try:
        yield
    finally:
        if isinstance(inner, Generator):
            inner.close()


@contextlib.asynccontextmanager
async def aclosing(inner: AsyncIterator[Any]) -> AsyncGenerator[None]:
    """Async form of `closing`."""
    try:
        yield
    finally:
        if isinstance(inner, AsyncGenerator):
            await inner.aclose()
