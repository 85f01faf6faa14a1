"""One conversation with a graph: turns in, events out, over any checkpointer."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, StateSnapshot, StreamMode

from agentgraph.cli.events import Done, Event, EventReader, Failed, Paused, Usage
from agentgraph.cli.exits import CommandError, ExitCode
from agentgraph.cli.targets import Graph

__all__ = ["Conversation"]

STREAM_MODES: list[StreamMode] = ["messages", "updates"]


class Conversation:
    """A thread of a graph, and what the person at the terminal needs to know of it.

    A graph without a checkpointer is given one in memory: the history of the conversation, a pause for an approval and
    what is left of a cancelled answer are then the same thing for every graph.

    Attributes:
        pending: the questions for which the thread is paused, empty when it is not.
        usage: tokens of all turns of this process.
        failure: what the last turn ended with, None if it ended well.
        thread_id: the thread.
        outlives_process: whether the thread is there when the process has ended.
    """

    def __init__(self, graph: Graph, thread_id: str) -> None:
        if "messages" not in graph.channels:
            raise CommandError("the graph has no `messages` in its state; expected one that answers messages")
        saved = isinstance(graph.checkpointer, bool) or graph.checkpointer is None
        self._graph = graph.copy({"checkpointer": InMemorySaver()}) if saved else graph
        self._config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        self.thread_id = thread_id
        self.outlives_process = not isinstance(self._graph.checkpointer, InMemorySaver)
        self._seen: set[str] = set()
        self._is_sync_only = False
        self.pending: tuple[Paused, ...] = ()
        self.usage = Usage()
        self.failure: Exception | None = None

    async def read_thread(self) -> None:
        """Learn what the thread holds: before the first turn, and after one that did not end by itself.

        Raises:
            CommandError: it cannot be read.
        """
        try:
            state = await self._read_state()
        except GraphBubbleUp:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise CommandError(f"the thread cannot be read: {why}", ExitCode.FAILED) from error
        messages = state.values.get("messages", ()) if isinstance(state.values, Mapping) else ()
        self._seen.update(m.id for m in messages if isinstance(m, BaseMessage) and m.id is not None)
        self.pending = tuple(Paused(one.id, one.value, self.thread_id) for one in state.interrupts)

    async def _read_state(self) -> StateSnapshot:
        try:
            return await self._graph.aget_state(self._config)
        except NotImplementedError:
            # Savers over a synchronous database driver have no async half.
            self._is_sync_only = True
            return self._graph.get_state(self._config)

    def say(self, message: str) -> AsyncGenerator[Event, None]:
        """The events of the turn that answers `message`."""
        return self._turn({"messages": [{"role": "user", "content": message}]})

    def answer(self, answers: Mapping[str, Any]) -> AsyncGenerator[Event, None]:
        """The events of the turn that goes on after a pause.

        Args:
            answers: for each open question its id and what is handed to it.
        """
        at_breakpoint = any(question.is_breakpoint for question in self.pending)
        return self._turn(None if at_breakpoint else Command(resume=dict(answers)))

    async def _turn(self, given: Any) -> AsyncGenerator[Event, None]:
        reader = EventReader(self._seen, self.thread_id)
        self.pending = ()
        self.failure = None
        try:
            async with aclosing(self._parts(given)) as parts:
                async for mode, payload in parts:
                    for event in reader.read(mode, payload):
                        yield event
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001  the end of a turn reports whatever a graph raised
            self.failure = error
            yield Failed(type(error).__name__, str(error))
        finally:
            self.usage += reader.usage
            self.pending = tuple(reader.pending)
        yield reader.usage
        yield Done("failed" if self.failure else "paused" if self.pending else "ok", reader.structured_response)

    async def _parts(self, given: Any) -> AsyncGenerator[tuple[str, Any], None]:
        if not self._is_sync_only:
            stream = self._graph.astream(given, self._config, stream_mode=STREAM_MODES)
            async with aclosing(cast("AsyncGenerator[tuple[str, Any], None]", stream)) as parts:
                async for part in parts:
                    yield part
            return
        parts_now: Iterator[Any] = self._graph.stream(given, self._config, stream_mode=STREAM_MODES)
        for part in parts_now:
            yield part
            # The one moment at which a cancel can come in.
            await asyncio.sleep(0)
