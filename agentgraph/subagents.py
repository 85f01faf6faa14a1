"""Subagents in the event stream: the agents that a run calls, each with the projections of a run of its own.

`create_agent(name=...)` writes its name into the metadata of every task of its runs (`lc_agent_name`). So langgraph's
`tasks` events tell where a named agent runs inside another run, and under which namespace::

    ()                          the run itself
    ("tools:<task>",)           the first graph that this task called
    ("tools:<task>", "1")       the second one of the same task
"""

from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict

from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.stream import (
    AsyncSubgraphRunStream,
    ProtocolEvent,
    StreamChannel,
    StreamTransformer,
    SubgraphRunStream,
    SubgraphStatus,
)

__all__ = ["AsyncSubagentRunStream", "SubagentRunStream", "SubagentTransformer", "ToolCallCause"]

Namespace = tuple[str, ...]


class ToolCallCause(TypedDict):
    """The tool call for which a subagent runs.

    Attributes:
        type: "toolCall", the only kind so far.
        tool_call_id: id of the call in the message of the calling agent's model.
    """

    type: Literal["toolCall"]
    tool_call_id: str


class _Subagent:
    graph_name: str | None
    cause: ToolCallCause | None = None

    @property
    def name(self) -> str | None:
        """The name that the agent was given by `create_agent(name=...)`."""
        return self.graph_name


class SubagentRunStream(_Subagent, SubgraphRunStream):
    """The run of one subagent, as `run.subagents` yields it in sync code.

    It has every projection of the outer run (`messages`, `tool_calls`, `values`, `subagents`, `output`, ...), scoped to
    the subagent. A projection keeps only what comes after somebody began to iterate it, so begin in the body of the
    loop over `run.subagents`, before the run goes on.

    Attributes:
        name: name of the agent.
        path: namespace of its run, from the root.
        cause: the tool call that started it, None if something else did (a hook, a plain node).
        status: "started" until the task that called it ends; then "completed", "interrupted", "failed" or "drained".
        error: text of the error that made it fail, else None. One that the calling agent survived, because its tool
            told the model, ends the projections; one that also ended the calling task is raised by them.
    """


class AsyncSubagentRunStream(_Subagent, AsyncSubgraphRunStream):
    """The run of one subagent, as `run.subagents` yields it in async code; see `SubagentRunStream`."""


class _Nested(NamedTuple):
    """The run of a subagent that is still going on."""

    handle: SubagentRunStream | AsyncSubagentRunStream
    mux: Any  # langgraph's StreamMux: what feeds the projections; its module is private
    task: str


class _End(NamedTuple):
    """How the run of a subagent ended."""

    status: SubgraphStatus
    error: str | None = None
    raised: BaseException | None = None  # by whoever still reads the projections


class _Step(NamedTuple):
    """A call of a mux, by the name of its sync form; the async form's name begins with an a."""

    mux: Any
    method: Literal["push", "close", "fail"]
    arguments: tuple[Any, ...] = ()

    def run(self) -> None:
        getattr(self.mux, self.method)(*self.arguments)

    async def arun(self) -> None:
        await getattr(self.mux, f"a{self.method}")(*self.arguments)


class SubagentTransformer(StreamTransformer):
    """Shows the named agents that a run calls on `run.subagents` of `stream_events(version="v3")`.

    `create_agent` puts it into each agent that it builds. A subagent is a nested run with an agent's name in its
    metadata, directly below this one; its own subagents are on its own handle. Metadata is inherited, so a plain graph
    that is called inside a named agent is shown as a run of that agent.

    Args:
        scope: namespace of the run that is observed; `()` is the root.

    Example:
        >>> import warnings
        >>> from agentgraph import create_agent, tool
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> poet = create_agent(ScriptedModel("Roses are red."), name="poet")
        >>> @tool
        ... def poem(topic: str) -> str:
        ...     "Write a poem."
        ...     return poet.invoke({"messages": [("user", topic)]})["messages"][-1].text
        >>> agent = create_agent(ScriptedModel(tool_call("poem", topic="roses", id="a"), "There."), [poem])
        >>> warnings.simplefilter("ignore")  # langgraph: the third version of the stream is young
        >>> run = agent.stream_events({"messages": [("user", "A poem!")]}, version="v3")
        >>> for subagent in run.subagents:
        ...     print(subagent.name, subagent.cause, [str(message.text) for message in subagent.messages])
        poet {'type': 'toolCall', 'tool_call_id': 'a'} ['Roses are red.']
    """

    _native: ClassVar[bool] = True
    supports_sync: ClassVar[bool] = True
    required_stream_modes: ClassVar[tuple[str, ...]] = ("tasks", "values")

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._log: StreamChannel[SubagentRunStream | AsyncSubagentRunStream] = StreamChannel()
        self._mux: Any = None
        self._calls: dict[str, str] = {}  # task of this run -> the tool call that it carries out
        self._seen: set[Namespace] = set()
        self._open: dict[Namespace, _Nested] = {}
        self._failures: dict[Namespace, Any] = {}  # the last error of a task inside an open run

    def init(self) -> dict[str, Any]:
        """The projections that this transformer adds to a run: `subagents`."""
        return {"subagents": self._log}

    def _on_register(self, mux: Any) -> None:
        self._mux = mux

    def process(self, event: ProtocolEvent) -> bool:
        """Follow one event, and pass it to the subagent that it belongs to.

        Args:
            event: an event of this run, or of one below it.

        Returns:
            True: the event stays in the stream.
        """
        for step in self._steps(event):
            step.run()
        return True

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Async form of `process`."""
        for step in self._steps(event):
            await step.arun()
        return True

    def finalize(self) -> None:
        """End the subagents that are still open when the run ends, or is left early."""
        with ExitStack() as stack:  # closes all of them, also when one raises
            for step in self._end(self._open, _End("completed")):
                stack.callback(step.run)

    async def afinalize(self) -> None:
        """Async form of `finalize`."""
        async with AsyncExitStack() as stack:
            for step in self._end(self._open, _End("completed")):
                stack.push_async_callback(step.arun)

    def fail(self, err: BaseException) -> None:
        """End the subagents that are still open with the error that ended the run.

        Args:
            err: the error.
        """
        for step in self._end(self._open, _end_of_failed_run(err)):
            step.run()

    async def afail(self, err: BaseException) -> None:
        """Async form of `fail`."""
        for step in self._end(self._open, _end_of_failed_run(err)):
            await step.arun()

    def _steps(self, event: ProtocolEvent) -> list[_Step]:
        """What an event makes happen, apart from this object's own books."""
        namespace = tuple(event["params"]["namespace"])
        run = _nested_run(namespace, self.scope)
        steps: list[_Step] = []
        if event["method"] == "tasks":
            steps += self._follow(namespace, run, event["params"]["data"])
        elif event["method"] == "values" and run is not None and namespace == run:
            self._failures.pop(run, None)  # a step was completed: an error handler took care of the error of a task
        if run is not None and (nested := self._open.get(run)) is not None:
            # langgraph's handles learn `output` and `interrupts` in no other way.
            nested.handle._observe_event(event)  # noqa: SLF001 (see above)
            steps.append(_Step(nested.mux, "push", (event,)))
        return steps

    def _follow(self, namespace: Namespace, run: Namespace | None, task: dict[str, Any]) -> Iterable[_Step]:
        """Keep the books of a task that started or ended; of those deeper down the subagent's own mux keeps them."""
        ended = "result" in task
        if namespace == self.scope:
            return self._task_ended(task) if ended else self._task_started(task)
        if run is None or namespace != run:
            return ()
        if not ended:
            self._run_started(run, task)
        elif run in self._open and (error := task.get("error")):
            self._failures[run] = error
        return ()

    def _run_started(self, namespace: Namespace, task: dict[str, Any]) -> None:
        name = (task.get("metadata") or {}).get("lc_agent_name")
        if namespace in self._seen or not name:
            return
        self._seen.add(namespace)
        # langgraph has no public way to give a nested run the projections of its parent.
        mux = self._mux._make_child(namespace)  # noqa: SLF001 (see above)
        caller = namespace[len(self.scope)].partition(":")[2]
        build: type[SubagentRunStream | AsyncSubagentRunStream] = (
            AsyncSubagentRunStream if mux.is_async else SubagentRunStream
        )
        handle = build(mux, path=namespace, graph_name=name, trigger_call_id=caller)
        if (call := self._calls.get(caller)) is not None:
            handle.cause = {"type": "toolCall", "tool_call_id": call}
        self._open[namespace] = _Nested(handle, mux, caller)
        self._log.push(handle)

    def _task_started(self, task: dict[str, Any]) -> Iterable[_Step]:
        if (call := _tool_call_id(task.get("input"))) is not None:
            self._calls[task["id"]] = call
        return ()

    def _task_ended(self, task: dict[str, Any]) -> Iterable[_Step]:
        self._calls.pop(task["id"], None)
        called = [namespace for namespace, nested in self._open.items() if nested.task == task["id"]]
        return [
            step
            for namespace in called
            for step in self._end([namespace], _end_of_task(task, self._failures.get(namespace)))
        ]

    def _end(self, namespaces: Iterable[Namespace], end: _End) -> list[_Step]:
        steps = []
        for namespace in list(namespaces):
            nested = self._open.pop(namespace)
            self._failures.pop(namespace, None)
            nested.handle.status, nested.handle.error = end.status, end.error
            steps.append(_Step(nested.mux, "close") if end.raised is None else _Step(nested.mux, "fail", (end.raised,)))
        return steps


def _nested_run(namespace: Namespace, scope: Namespace) -> Namespace | None:
    """The run directly below `scope` to which an event of `namespace` belongs, None if there is none.

    The second and later graphs that one task calls have a number after the segment of the task; a number right after
    the scope is thus a neighbour of the run that is observed, not a run below it.
    """
    depth = len(scope)
    below = namespace[depth:]
    if namespace[:depth] != scope or not below or below[0].isdecimal():
        return None
    numbered = len(below) > 1 and below[1].isdecimal()
    return namespace[: depth + 1 + numbered]


def _tool_call_id(payload: Any) -> str | None:
    """The id of the tool call in the input of a task: a call, a call with its context, or a list of calls."""
    if isinstance(payload, list):
        return next((found for item in payload if (found := _tool_call_id(item)) is not None), None)
    if not isinstance(payload, dict):
        return None
    call = payload.get("tool_call", payload if payload.get("type") == "tool_call" else None)
    found = call.get("id") if isinstance(call, dict) else None
    return found if isinstance(found, str) else None


def _end_of_task(task: dict[str, Any], failure: Any) -> _End:
    """How a subagent ended, from the end of the task that called it and the last error inside the subagent."""
    if task.get("interrupts"):
        return _End("interrupted")
    if error := task.get("error"):
        return _End("failed", str(error), error if isinstance(error, BaseException) else RuntimeError(str(error)))
    return _End("failed", str(failure)) if failure else _End("completed")


def _end_of_failed_run(error: BaseException) -> _End:
    if isinstance(error, GraphDrained):
        return _End("drained", raised=error)
    if isinstance(error, GraphInterrupt):
        return _End("interrupted", raised=error)
    return _End("failed", str(error), error)
