"""The compiled agent: langgraph's compiled graph, whose runs keep finished work and are alone on their thread.

What happens around a run that is not part of another one::

    control     begin the deadline
    lease       take the thread, or wait for it, or ThreadBusyError
    prepare     new input: salvage what a broken run had finished  |  a resume: check and store the answers
    run         langgraph's own stream
    keep        where it broke off: store the results of finished tools that langgraph did not
    lease       give the thread back, however the run ended

`invoke`, `ainvoke`, `stream_events` and the rest of langgraph's ways to run go through `stream` and `astream`.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._config import ensure_config  # merges as langgraph's runs do; the public one differs
from langgraph._internal._constants import (  # what a run hands on to those inside it; a task's id marks these
    CONF,
    CONFIG_KEY_NODE_FINISHED,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_TASK_ID,
)
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateUpdate

from agentgraph.errors import ResumeError
from agentgraph.runs.control import NestedControl, RunControl
from agentgraph.runs.keeping import NestedRun
from agentgraph.runs.questions import settings_of
from agentgraph.runs.root import RootRun
from agentgraph.runs.savers import reading_back
from agentgraph.runs.updating import aupdate, update

__all__ = ["AgentGraph", "approver"]


class AgentGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled agent, as `create_agent` returns it; everything langgraph offers for a compiled graph works.

    Beyond that, for a thread with a checkpointer:

    * new input on a thread that broke off, and an update of its state, keep the results of the tools that had finished;
    * one run at a time: a second one gets a ThreadBusyError, or waits (`RunControl(on_busy="wait")`); so does an update
      of the state from outside;
    * `Command(resume=...)` is checked before anything is stored (ResumeError), and delivering it again, also after a
      crash, answers no other question.

    Attributes:
        approves: the name of a middleware that asks a person and so needs a checkpointer, None if there is none.
    """

    approves: str | None = None

    def __init__(self, *, approves: str | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self.approves = approves

    @classmethod
    def of(cls, compiled: CompiledStateGraph[Any, Any, Any, Any], *, approves: str | None = None) -> "AgentGraph":
        """An AgentGraph with all that a compiled graph holds.

        Args:
            compiled: the graph; it is left alone.
            approves: the name of a middleware that needs a checkpointer.
        """
        fields = {key: value for key, value in vars(compiled).items() if key != "__orig_class__"}
        return cls(**fields, approves=approves)

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:  # noqa: A002 - the options are langgraph's, passed on as they are
        """Run the agent and stream what happens; the parameters are langgraph's.

        Args:
            input: new input for the state, None to go on where the thread stopped, or a Command.
            config: with `configurable={"thread_id": ...}` where there is a checkpointer.
            **options: `stream_mode`, `subgraphs`, `context`, `control`, `durability` ...: langgraph's.

        Raises:
            ThreadBusyError: another run is at work on the thread.
            ResumeError: the answers do not fit the open questions; nothing was stored.
            MissingCheckpointerError: the agent asks for approvals, but keeps no threads.
            RunCancelledError: `RunControl.cancel` was called.
            DeadlineError: the run took longer than its control allows.
        """
        _refuse_nothing(input)
        merged = ensure_config(self.config, config)
        if CONFIG_KEY_TASK_ID in settings_of(merged):
            config, options = _as_nested(merged, config, options)
            nested = NestedRun(self, merged, drained="control" in options)
            return nested.stream(super().stream(input, config, **options))
        return RootRun(self, merged, config, input, options).stream(super().stream)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002 - as above
        """Async form of `stream`."""
        _refuse_nothing(input)
        merged = ensure_config(self.config, config)
        if CONFIG_KEY_TASK_ID in settings_of(merged):
            config, options = _as_nested(merged, config, options)
            nested = NestedRun(self, merged, drained="control" in options)
            return nested.astream(super().astream(input, config, **options))
        return RootRun(self, merged, config, input, options).astream(super().astream)

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Update the state of a thread, as langgraph does; `update_state` comes here too.

        On a thread that broke off, the results of finished tools become a part of the state first.

        Args:
            config: with `configurable={"thread_id": ...}`; with a `checkpoint_id` to branch off there.
            supersteps: updates, each of values, node and task.

        Returns:
            The config of the new checkpoint.

        Raises:
            ThreadBusyError: a run is at work on the thread, or this call is part of one.
        """
        return update(self, config, supersteps)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Async form of `bulk_update_state`."""
        return await aupdate(self, config, supersteps)

    def saver_of(self, config: RunnableConfig) -> Any:
        """The checkpoint saver that a run with this config uses, None for none."""
        return self._resolve_checkpointer(config)

    def _resolve_checkpointer(self, config: RunnableConfig) -> Any:
        return reading_back(super()._resolve_checkpointer(config))


def _refuse_nothing(given: Any) -> None:
    """Refuse a command that holds nothing, on which langgraph fails; most often it was meant for an answer."""
    if isinstance(given, Command) and given.resume is None and not (given.update or given.goto):
        raise ResumeError(
            "A Command was given that holds neither an answer nor an update nor a goto. The answer None looks like no "
            "answer: give it by its question's id, Command(resume={id: None}), or any other value. To go on without an "
            "answer, invoke the agent with None. Nothing was stored."
        )


def _as_nested(
    merged: RunnableConfig, config: RunnableConfig | None, options: dict[str, Any]
) -> tuple[RunnableConfig | None, dict[str, Any]]:
    """Config and options of a run that is part of another, whose control was not made for it."""
    outer = getattr(settings_of(merged).get(CONFIG_KEY_RUNTIME), "control", None)
    if options.get("control") is not None or not isinstance(outer, RunControl):
        return config, options
    given: RunnableConfig = config or {}
    conf = {**given.get(CONF, {}), CONFIG_KEY_NODE_FINISHED: None}
    return {**given, CONF: conf}, {**options, "control": NestedControl(outer)}


def approver(middleware: Sequence[Any], names: Sequence[str]) -> str | None:
    """The name of the first middleware that asks people, None if none does.

    Args:
        middleware: the agent's middleware. One that asks says so by the class attribute `needs_checkpointer = True`;
            LangChain's is known by its name.
        names: their names.
    """
    return next((name for one, name in zip(middleware, names, strict=True) if _asks(one)), None)


def _asks(middleware: Any) -> bool:
    foreign = any(
        cls.__name__ == "HumanInTheLoopMiddleware" and cls.__module__.startswith("langchain.")
        for cls in type(middleware).__mro__
    )
    return foreign or bool(getattr(middleware, "needs_checkpointer", False))
