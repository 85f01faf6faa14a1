"""One run of an agent that is not part of another run: its thread's lease, what goes before it, and how it ends."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import (
    CONF,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_NODE_FINISHED,
)  # langgraph's settings of a run
from langgraph.errors import GraphDrained, NodeCancelledError, is_invalid_resume
from langgraph.types import Command

from agentgraph import bridge
from agentgraph.errors import MissingCheckpointerError, ResumeError
from agentgraph.neighbours import unmark
from agentgraph.nodes.effects import Steps, aperform, perform
from agentgraph.runs.control import control_of
from agentgraph.runs.keeping import Keeping, aclosing, closing
from agentgraph.runs.leases import HeldThread, hold, let_go, take_thread
from agentgraph.runs.questions import settings_of
from agentgraph.runs.resuming import answer_questions, check_nodes, take_back
from agentgraph.runs.salvaging import salvage

__all__ = ["RootRun"]


class RootRun:
    """A run, before it begins.

    Args:
        graph: the agent.
        merged: the whole config, as langgraph will see it.
        config: the config as the caller gave it.
        given: the input.
        options: the caller's options for `stream`.
    """

    def __init__(
        self,
        graph: Any,
        merged: RunnableConfig,
        config: Mapping[str, Any] | None,
        given: Any,
        options: dict[str, Any],
    ) -> None:
        self._graph = graph
        self._merged = merged
        self._config = config
        self._given = given
        self._options = options
        self._control = control_of(merged, options.get("control"))
        self._saver: Any = None
        self._held: HeldThread | None = None
        self._keeping = Keeping(graph)
        self._scope = bridge._Scope()  # noqa: SLF001 - what cancels calls that wait in threads
        if self._control is not None:
            self._options = {**options, "control": self._control}

    def stream(self, inner: Callable[..., Iterator[Any]]) -> Generator[Any]:
        """Run in sync code; `inner` is langgraph's own stream."""
        with self._controlled(), self._interrupted_by_control():
            try:
                perform(self._take())
                with self._inside():
                    given, config = perform(self._prepare())
                yield from self._pieces(inner(given, config, **self._options))
            except (GraphDrained, NodeCancelledError, asyncio.CancelledError) as error:
                unmark(error)
                self._raise_if_asked_to_end()
                raise
            except BaseException as error:
                if not unmark(error) and self._held is not None and is_invalid_resume(error):
                    perform(take_back(self._saver, self._merged))
                    raise _refused(error) from error
                raise
            finally:
                if self._held is not None:
                    self._held.release()

    async def astream(self, inner: Callable[..., AsyncIterator[Any]]) -> AsyncGenerator[Any]:
        """Run in async code; `inner` is langgraph's own astream."""
        with self._controlled():
            try:
                async with self._step():
                    await aperform(self._take())
                with self._inside():
                    async with self._step():
                        given, config = await aperform(self._prepare())
                async with contextlib.aclosing(self._apieces(inner(given, config, **self._options))) as pieces:
                    async for piece in pieces:
                        yield piece
            except (GraphDrained, NodeCancelledError) as error:
                unmark(error)
                self._raise_if_asked_to_end()
                raise
            except BaseException as error:
                if not unmark(error) and self._held is not None and is_invalid_resume(error):
                    await aperform(take_back(self._saver, self._merged))
                    raise _refused(error) from error
                raise
            finally:
                if self._held is not None and not self._keeping.afterwards(self._held.release_later):
                    await self._held.arelease()

    def _take(self) -> Steps:
        """Take the thread; nothing where none is kept."""
        self._check_checkpointer()
        conf, control = settings_of(self._merged), self._control
        self._saver = self._graph.saver_of(self._merged)
        thread_id = conf.get("thread_id")
        if control is not None:
            control.check()
        if self._saver is None or thread_id is None:
            return
        # The saver as it was given: langgraph may use a copy of it.
        given = conf.get(CONFIG_KEY_CHECKPOINTER) or self._graph.checkpointer
        on_busy = (control and control.on_busy) or getattr(given, "on_busy", "raise")
        self._keeping.begin(self._saver, self._merged)
        self._held = yield from take_thread(
            given,
            str(thread_id),
            wait=on_busy == "wait",
            until=control.until if control else None,
            check=control.check if control else None,
            is_run=True,
        )

    def _prepare(self) -> Steps:
        """What goes before the run: the input and config that it begins with."""
        given, newest = self._given, False
        if self._held is not None:
            if isinstance(given, Command):
                if given.resume is not None:
                    answering = answer_questions(self._graph, self._saver, self._merged, given, pauses=self._pauses())
                    given, newest = (yield from answering), True
            elif given is not None:
                given, newest = yield from salvage(self._graph, self._saver, self._merged, given)
            else:
                yield from check_nodes(self._graph, self._saver, self._merged)
        return given, self._run_config(newest=newest)

    def _run_config(self, *, newest: bool) -> Mapping[str, Any] | None:
        changes: dict[str, Any] = {}
        if newest and settings_of(self._merged).get("checkpoint_id"):
            changes["checkpoint_id"] = None
        if self._control is not None:
            changes[CONFIG_KEY_NODE_FINISHED] = self._control.node_finished
        if not changes:
            return self._config
        config = dict(self._config or {})
        return {**config, CONF: {**config.get(CONF, {}), **changes}}

    def _pauses(self) -> bool:
        graph, options = self._graph, self._options
        places = (graph.interrupt_before_nodes, graph.interrupt_after_nodes)
        return any((*places, options.get("interrupt_before"), options.get("interrupt_after")))

    def _check_checkpointer(self) -> None:
        asker = self._graph.approves
        if asker is None or self._graph.saver_of(self._merged) is not None:
            return
        raise MissingCheckpointerError(
            f"{asker} asks people about tool calls, but the agent has no checkpointer, so that the run could never be "
            "resumed with an answer. Pass create_agent(..., checkpointer=...): InMemorySaver() for a trial, "
            'open_checkpointer("sqlite:///threads.db") to keep threads. Nothing was sent to the model.'
        )

    def _pieces(self, inner: Iterator[Any]) -> Generator[Any]:
        with self._keeping.ending(), closing(inner):
            try:
                while True:
                    with self._inside(), self._keeping.step():
                        try:
                            piece = next(inner)
                        except StopIteration:
                            return
                    yield piece
            finally:
                # Left early, or at its end: what still waits in threads for async work is not waited for.
                self._scope.cancel()

    async def _apieces(self, inner: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        async with self._keeping.aending(), aclosing(inner):
            while True:
                with self._inside(), self._keeping.step():
                    async with self._step():
                        try:
                            piece = await anext(inner)
                        except StopAsyncIteration:
                            return
                yield piece

    @contextlib.contextmanager
    def _inside(self) -> Generator[None]:
        """Around each step of the run, because a generator has no context variables of its own."""
        with bridge._held(self._scope.cancel):  # noqa: SLF001 - as above
            scope = bridge._scope.set(self._scope)  # noqa: SLF001 - as above
            threads = None if self._held is None else hold(self._held)
            try:
                yield
            finally:
                if threads is not None:
                    let_go(threads)
                bridge._scope.reset(scope)  # noqa: SLF001 - as above

    def _controlled(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self._control is None else self._control.run()

    @contextlib.contextmanager
    def _interrupted_by_control(self) -> Generator[None]:
        if self._control is None:
            yield
            return
        with self._control.interrupting(self._scope.cancel), self._control.clock():
            yield

    def _step(self) -> contextlib.AbstractAsyncContextManager[Any]:
        return contextlib.nullcontext() if self._control is None else self._control.step()

    def _raise_if_asked_to_end(self) -> None:
        """Say that the run was asked to end, instead of how langgraph's loop noticed."""
        if self._control is not None and self._control.cancelled is not None:
            raise self._control.error() from None


def _refused(error: BaseException) -> ResumeError:
    """The error for an answer that only the code that asked could find wrong; its question is open again."""
    if isinstance(error, ResumeError):
        return error
    return ResumeError(
        f"The answer was refused where it was used: {type(error).__name__}: {error!s:.500}. It was taken back, and "
        "the question is open again."
    )
