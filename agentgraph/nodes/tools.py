"""The station of the tools: one tool call, through the hooks around it, to an update of the state.

The node runs once for each call (langgraph's `Send`), so calls run side by side, and one that fails, waits or
interrupts changes nothing for the others. Its input is the call; the whole state is read from the graph.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langgraph._internal._constants import CONF, CONFIG_KEY_NODE_FINISHED, CONFIG_KEY_READ, CONFIG_KEY_READ_STATE
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agentgraph.composing import Call, Composed, compose, has_hook
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import HOOKS
from agentgraph.neighbours import spare_neighbours, thread_work
from agentgraph.nodes.commands import check_command, ends_run, without_way
from agentgraph.plan import TOOLS_NODE
from agentgraph.state import ToolExit, visible_state
from agentgraph.tools.calls import own_call
from agentgraph.tools.ending import to_its_end
from agentgraph.tools.execution import (
    Toolbox,
    acall_tool,
    asettle,
    call_tool,
    request_for,
    settle,
    tell_arguments,
)
from agentgraph.tools.failures import OnToolError, Tell, passes, tell_by
from agentgraph.tools.ledger import FinishedCall, current_ledger
from agentgraph.tools.prepare import PreparedTool
from agentgraph.tools.results import ToolAnswer, answered, answers_in, as_items, done

__all__ = ["ToolsNode"]


@dataclass(frozen=True, eq=False)
class ToolsNode(Runnable[Any, Any]):
    """The node that runs one tool call.

    Attributes:
        tools: the agent's tools by name.
        on_tool_error: what happens with a tool's error that no hook has dealt with.
        middleware: all middleware; their wrap hooks stand around the call, the first outermost.
        channels: the fields of the agent's state, so that a write of another one is an error; None for no check.

    Example:
        >>> from agentgraph.tools.prepare import prepare
        >>> def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> node = ToolsNode({"add": prepare(add)})
        >>> node.invoke([{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}])["messages"][0].content
        '3'
    """

    tools: Mapping[str, PreparedTool]
    on_tool_error: OnToolError = "return"
    middleware: tuple[Any, ...] = ()
    channels: Mapping[str, Any] | None = None
    toolbox: Toolbox = field(init=False)
    tell: Tell = field(init=False)
    tell_inside: Tell = field(init=False)
    call: Call = field(init=False)
    wrapped: bool = field(init=False)
    always_reads_state: bool = field(init=False)

    def __post_init__(self) -> None:
        spec = HOOKS["wrap_tool_call"]
        wrapped = any(has_hook(one, spec) for one in self.middleware)
        base = Call(self._call, self._acall)
        tell = tell_by(self.on_tool_error)
        for name, value in {
            "toolbox": Toolbox(self.tools),
            "tell": tell,
            "tell_inside": tell_arguments(tell),
            "call": compose(self.middleware, spec, base, _lift),
            "wrapped": wrapped,
            # Others than the tool see the state in the request.
            "always_reads_state": wrapped or callable(self.on_tool_error),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def tools_by_name(self) -> dict[str, BaseTool]:
        """The tools by name."""
        return {name: prepared.tool for name, prepared in self.tools.items()}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Run one call in a sync run."""
        call = own_call(_one_call(input))
        if isinstance(call, ToolMessage):
            return {"messages": [call]}
        with _sparing_neighbours():
            request = self._request(call, input, config)
            try:
                result = self.call.sync(request).value
            except Exception as error:  # noqa: BLE001 - told or raised again
                result = settle(error, request, self.tell)
            return self._noted(request, result, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Run one call in an async run."""
        call = own_call(_one_call(input))
        if isinstance(call, ToolMessage):
            return {"messages": [call]}
        with _sparing_neighbours():
            request = self._request(call, input, config)
            if self._stays_on_the_loop(request):
                return await self._settled(request, config)
            ledger = current_ledger.get()
            at_work = None if ledger is None else ledger.at_work
            update, cut = await to_its_end(self._settled(request, config), at_work)
            if cut:
                _tell_finished(config)
                raise asyncio.CancelledError
            return update

    async def _settled(self, request: ToolCallRequest, config: RunnableConfig | None) -> Any:
        try:
            result = (await self.call.asynchronous(request)).value
        except Exception as error:  # noqa: BLE001 - told or raised again
            result = await asettle(error, request, self.tell)
        return self._noted(request, result, config)

    def _call(self, request: ToolCallRequest) -> Composed:
        return Composed(call_tool(request, self.toolbox, self.tell_inside))

    async def _acall(self, request: ToolCallRequest) -> Composed:
        if (threads := thread_work.get()) is not None:
            threads.check()
        return Composed(await acall_tool(request, self.toolbox, self.tell_inside))

    def _stays_on_the_loop(self, request: ToolCallRequest) -> bool:
        """Whether an async call needs no thread, so that cancelling can end it anywhere."""
        if self.wrapped or callable(self.on_tool_error):
            return False
        prepared = self.tools.get(request.tool_call["name"])
        return prepared is None or prepared.runs_async

    def _noted(self, request: ToolCallRequest, result: Any, config: RunnableConfig | None) -> Any:
        """The update of a finished call, written down in case the run does not live to store it."""
        update = self._update(request, result)
        if config is not None and (ledger := current_ledger.get()) is not None:
            ledger.note(FinishedCall(self, update, config))
        return update

    def _request(self, call: ToolCall, given: Any, config: RunnableConfig | None) -> ToolCallRequest:
        config = ensure_config() if config is None else config
        prepared = self.tools.get(call["name"])
        needed = self.always_reads_state or (prepared is not None and prepared.injection.reads_state)
        return request_for(call, _state(given, config) if needed else {}, config, self.toolbox)

    def _update(self, request: ToolCallRequest, result: Any) -> Any:
        """What the call writes to the state: messages, commands, and the wish to leave the loop."""
        items = as_items(_answered(result, request.tool_call))
        tool = f"The tool {request.tool_call['name']!r}"
        who = f"{tool}, or a wrap_tool_call hook around it," if self.wrapped else tool
        for item in items:
            if isinstance(item, Command):
                check_command(item, who, self.channels)
        return _written(request, items)


@contextlib.contextmanager
def _sparing_neighbours() -> Iterator[None]:
    """Let the calls beside this one finish when an error of this one ends the run."""
    try:
        yield
    except BaseException as error:
        # A call that is cancelled is as good as failed: those beside it are told themselves.
        if not (isinstance(error, Exception) and passes(error)):
            spare_neighbours(error)
        raise


def _tell_finished(config: RunnableConfig | None) -> None:
    """Count the node as finished, as langgraph does for tasks that were not cancelled."""
    conf = (config or {}).get(CONF, {})
    if (finished := conf.get(CONFIG_KEY_NODE_FINISHED)) is not None:
        finished(TOOLS_NODE)


def _one_call(given: Any) -> Mapping[str, Any]:
    if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
        given = [given["tool_call"]]
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict) and given[0].keys() & {"name", "id"}:
        return given[0]
    raise ConfigurationTypeError(
        f"The tools node got {repr(given)[:200]}; expected was a list of one call, as in Send('tools', [tool_call]). "
        "To run all calls of a message at once in a graph of your own, use agentgraph.tools.ToolNode."
    )


def _state(given: Any, config: RunnableConfig) -> dict[str, Any]:
    """The whole state: a Send carries only the call."""
    if isinstance(given, dict):
        return visible_state(given["state"])
    conf = config.get(CONF, {})
    read_state = conf.get(CONFIG_KEY_READ_STATE)
    if read_state is not None:
        return visible_state(read_state())
    read = conf.get(CONFIG_KEY_READ)
    # Its second argument are the channels; the others are langgraph's own.
    return {} if read is None else visible_state(read(list(read.args[1]), True))


def _lift(result: Any) -> tuple[Any, None]:
    items = result if isinstance(result, list) and result else [result]
    strange = [item for item in items if not isinstance(item, ToolMessage | Command)]
    if not strange:
        return result, None
    raise ConfigurationTypeError(
        f"A wrap_tool_call hook returned {type(strange[0]).__name__}; expected was what the handler gives, a "
        "ToolMessage or a Command. Was a `return` or an `await` forgotten?"
    )


def _answered(result: Any, call: ToolCall) -> ToolAnswer:
    """The result as what answers the call; a tool's own is that already, so what is wrong with it is a hook's doing."""
    by = f"A wrap_tool_call hook around the tool {call['name']!r}"
    try:
        return answered(result, call, by=by)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from error


def _written(request: ToolCallRequest, items: list[ToolMessage | Command[Any]]) -> Any:
    call = request.tool_call
    messages = [item for item in items if isinstance(item, ToolMessage)]
    commands = [item for item in items if isinstance(item, Command) and item.graph is None]
    # A graph can be left only once, so the loop's first node does it for all calls of this step together.
    leaving = [item for item in items if isinstance(item, Command) and item.graph is not None]
    own = [message for command in commands for message in answers_in(command, call)]
    if leaving and not messages and not own:
        messages = [message for command in leaving for message in answers_in(command, call)] or [done(call)]
    exits: list[ToolExit] = [{"kind": "parent", "command": command} for command in leaving]
    if any(map(ends_run, commands)):
        exits.append({"kind": "end"})
    if getattr(request.tool, "return_direct", False) and all(m.status != "error" for m in (*messages, *own)):
        exits.append({"kind": "return_direct"})
    update = ({"messages": messages} if messages else {}) | ({"tool_exits": exits} if exits else {})
    if not commands:
        return update
    return [*map(without_way, commands), *([update] if update else [])]
