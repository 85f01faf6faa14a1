"""Direct nodes: a node that opens no callback run of its own while nobody listens.

langgraph runs a node as a sequence, the node and then what writes its result, and reports it to the run's callback
handlers. Where there is no handler the report goes nowhere, yet it is a fifth of a step's cost. A direct node calls the
same parts in the same order and leaves the report out. With any handler, be it a tracer, a stream of messages or of
events, langgraph's own sequence runs.
"""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

__all__ = ["DirectNode", "is_observed", "make_direct", "node_tasks"]


class DirectNode(Runnable[Any, Any]):
    """A node with its writers, as langgraph's tasks run it.

    Args:
        bound: the node itself.
        writers: what writes its result to the state, and then chooses the way on.
        observed: langgraph's sequence of all of them, which runs when somebody listens.
    """

    def __init__(self, bound: Runnable[Any, Any], writers: Sequence[Runnable[Any, Any]], observed: Any) -> None:
        self.bound = bound
        self.writers = tuple(writers)
        self.observed = observed

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - the interface of Runnable
        """Run the node in a sync run."""
        if kwargs or config is None or is_observed(config):
            return self.observed.invoke(input, config, **kwargs)
        inner = _inner(config)
        return self._written(_context(inner).run(self.bound.invoke, input, inner), inner)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - the interface of Runnable
        """Run the node in an async run."""
        with _listed():
            if kwargs or config is None or is_observed(config):
                return await self.observed.ainvoke(input, config, **kwargs)
            inner = _inner(config)
            # A task, because nothing else runs a coroutine with context variables of its own.
            task = asyncio.create_task(self.bound.ainvoke(input, inner), context=_context(inner))
            return self._written(await task, inner)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002 - the interface of Runnable
        """As langgraph's sequence; it is streamed only for somebody who listens."""
        return self.observed.stream(input, config, **kwargs)  # type: ignore[no-any-return] # it is a Runnable

    def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002 - the interface of Runnable
        """Async form of `stream`."""
        return self.observed.astream(input, config, **kwargs)  # type: ignore[no-any-return] # it is a Runnable

    def _written(self, result: Any, config: RunnableConfig) -> Any:
        # Writers wait for nothing (the agent's edges are plain decisions), so their sync half serves async runs too.
        for writer in self.writers:
            result = writer.invoke(result, config)
        return result


node_tasks: ContextVar["set[asyncio.Task[Any]] | None"] = ContextVar("agentgraph_node_tasks", default=None)
"""The tasks in which langgraph runs the nodes of the current async run, for whoever must see to it that they end."""


@contextlib.contextmanager
def _listed() -> Generator[None]:
    tasks, task = node_tasks.get(), asyncio.current_task()
    if tasks is None or task is None:
        yield
        return
    tasks.add(task)
    try:
        yield
    finally:
        tasks.discard(task)


def is_observed(config: RunnableConfig) -> bool:
    """Whether a callback handler listens to the run that this config belongs to.

    The graph's run has gathered all handlers, also the global ones, before its first node begins.
    """
    callbacks = config.get("callbacks")
    return not isinstance(callbacks, BaseCallbackManager) or bool(callbacks.handlers or callbacks.inheritable_handlers)


def _inner(config: RunnableConfig) -> RunnableConfig:
    """The config inside the node: its name and run id are the node's, not those of what it calls."""
    inner = config.copy()
    inner.pop("run_name", None)
    inner.pop("run_id", None)
    return inner


def _context(config: RunnableConfig) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(var_child_runnable_config.set, config)
    return context


def make_direct(nodes: Iterable[Any]) -> None:
    """Make nodes of a compiled graph direct, in place.

    Args:
        nodes: the compiled nodes; each has a Runnable and writers.
    """
    for node in nodes:
        # `node` is a cached property, which langgraph's tasks read. A copy computes it anew, and so is observed again.
        node.node = DirectNode(node.bound, node.flat_writers, node.node)
