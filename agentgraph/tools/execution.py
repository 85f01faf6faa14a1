"""One tool call, from the request to what answers it.

Everything before the call (which tool, which arguments, what is injected) and after it (the answer, the text of an
error) is decided by plain functions; `call_tool` and its twin only differ in whether the one call between is awaited.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph._internal._constants import CONF, CONFIG_KEY_RUNTIME
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.runtime import DEFAULT_RUNTIME
from pydantic import ValidationError

from agentgraph.tools.calling import ToolRun, arun, run
from agentgraph.tools.calls import copied
from agentgraph.tools.failures import Tell, arguments_error, passes, unknown_tool
from agentgraph.tools.injection import injected_values
from agentgraph.tools.prepare import PreparedTool, prepare
from agentgraph.tools.results import ToolAnswer, answered

__all__ = ["Toolbox", "acall_tool", "asettle", "call_tool", "request_for", "settle", "tell_arguments"]

_TOOL_ERROR = "_agentgraph_tool_error"
_DYNAMIC_TOOLS_KEPT = 128


@dataclass(frozen=True, eq=False)
class Toolbox:
    """The tools that a node runs.

    Attributes:
        tools: by name.
        messages_key: the state field of the messages.
    """

    tools: Mapping[str, PreparedTool]
    messages_key: str = "messages"

    def find(self, tool: Any) -> PreparedTool:
        """What is known of a tool; one that a wrapper brought along is analysed when it is first seen."""
        known = self.tools.get(getattr(tool, "name", ""))
        return known if known is not None and known.tool is tool else _seen(_Same(tool))

    def ready(self, request: ToolCallRequest) -> ToolRun:
        """The run of a request's tool.

        Raises:
            ConfigurationError: what the tool wants injected is not there.
        """
        prepared = self.find(request.tool)
        call, injection = request.tool_call, prepared.injection
        injected = (
            injected_values(injection, prepared.name, _runtime_of(request), messages_key=self.messages_key)
            if injection.parameters
            else {}
        )
        # Copied for each attempt: what a tool changes in a value is not what the next attempt is given.
        sent = {name: copied(value) for name, value in (call["args"] or {}).items() if name not in injection.hidden}
        config = getattr(request.runtime, "config", None)
        return ToolRun(prepared, call, sent, injected, ensure_config() if config is None else config)


class _Same:
    """A tool as a key that is equal only to the very same object: tools themselves cannot be hashed."""

    __slots__ = ("tool",)

    def __init__(self, tool: Any) -> None:
        self.tool = tool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.tool is self.tool

    def __hash__(self) -> int:
        return id(self.tool)


@functools.lru_cache(maxsize=_DYNAMIC_TOOLS_KEPT)
def _seen(tool: _Same) -> PreparedTool:
    return prepare(tool.tool, for_model=False)


def _runtime_of(request: ToolCallRequest) -> ToolRuntime[Any, Any]:
    """The runtime of a request; outside a graph, or in a wrapper's test, there may be none."""
    if isinstance(request.runtime, ToolRuntime):
        return request.runtime
    return runtime_for(request.tool_call, request.state, ensure_config(), [])


def runtime_for(call: ToolCall, state: Any, config: RunnableConfig, tools: list[Any]) -> ToolRuntime[Any, Any]:
    """The runtime of one call: the run's, with what belongs to the call."""
    runtime = config.get(CONF, {}).get(CONFIG_KEY_RUNTIME) or DEFAULT_RUNTIME
    return ToolRuntime(
        state=state,
        context=runtime.context,
        config=config,
        stream_writer=runtime.stream_writer,
        tool_call_id=call["id"],
        store=runtime.store,
        tools=tools,
        execution_info=runtime.execution_info,
        server_info=runtime.server_info,
    )


def request_for(call: ToolCall, state: Any, config: RunnableConfig, toolbox: Toolbox) -> ToolCallRequest:
    """The request for a call that can be read; its tool is None where no tool has the name."""
    known = toolbox.tools.get(call["name"])
    tools = [prepared.tool for prepared in toolbox.tools.values()]
    return ToolCallRequest(
        tool_call=call,
        tool=None if known is None else known.tool,
        state=state,
        runtime=runtime_for(call, state, config, tools),
    )


def call_tool(request: ToolCallRequest, toolbox: Toolbox, tell: Tell) -> ToolAnswer:
    """Run the tool of a request in sync code.

    Args:
        request: the call, as the wrappers left it.
        toolbox: the node's tools.
        tell: what the model is told of an error here, further in than every wrapper; None raises it through them.

    Returns:
        What answers the call.

    Raises:
        ConfigurationError: what the tool wants injected is not there; the model cannot mend it, so it is not told.
        Exception: what the tool raised, where `tell` gives None; wrong arguments as ToolInvocationError.
    """
    if request.tool is None:
        return unknown_tool(request.tool_call, toolbox.tools)
    this = toolbox.ready(request)
    try:
        return answered(run(this), request.tool_call, messages_key=toolbox.messages_key)
    except Exception as error:  # noqa: BLE001 (told or raised again)
        final = _final(error, this)
        return _marked(final, tell.sync(final, request))


async def acall_tool(request: ToolCallRequest, toolbox: Toolbox, tell: Tell) -> ToolAnswer:
    """Run the tool of a request in async code; arguments, result and errors as `call_tool`."""
    if request.tool is None:
        return unknown_tool(request.tool_call, toolbox.tools)
    this = toolbox.ready(request)
    try:
        return answered(await arun(this), request.tool_call, messages_key=toolbox.messages_key)
    except Exception as error:  # noqa: BLE001 (as above)
        final = _final(error, this)
        return _marked(final, await tell.asynchronous(final, request))


def _final(error: Exception, this: ToolRun) -> Exception:
    """The error to tell: wrong arguments as one that names them; control flow is raised at once."""
    if passes(error):
        raise error
    if not isinstance(error, ValidationError) or not _is_about_arguments(error, this):
        return error
    final = arguments_error(this.call, error, this.prepared.injection.hidden, this.arguments)
    final.__cause__ = error
    return final


def _marked(error: Exception, said: ToolAnswer | None) -> ToolAnswer:
    """What was said of an error; where nothing was, it is raised with the mark that it is the tool's."""
    if said is not None:
        return said
    # Written past a class that forbids it, such as a frozen dataclass.
    error.__dict__[_TOOL_ERROR] = True
    raise error


def _is_about_arguments(error: ValidationError, this: ToolRun) -> bool:
    if this.prepared.direct:
        return not this.entered
    schema = this.prepared.tool.args_schema
    return isinstance(schema, type) and error.title == schema.__name__


def tell_arguments(tell: Tell) -> Tell:
    """An agent's `tell` within its hooks: wrong arguments are answered at once, other errors are raised to them."""
    return tell.only_for(lambda error: isinstance(error, ToolInvocationError))


def settle(error: Exception, request: ToolCallRequest, tell: Tell) -> ToolAnswer:
    """What the model is told of an error that came out of all wrappers.

    Args:
        error: what was raised; when it is the tool's own it is told by the policy, when a wrapper's it is raised again.
        request: the call, as the model made it.
        tell: says what is told of it.
    """
    if not error.__dict__.get(_TOOL_ERROR):
        raise error
    return _marked(error, tell.sync(error, request))


async def asettle(error: Exception, request: ToolCallRequest, tell: Tell) -> ToolAnswer:
    """As `settle`, in an async run."""
    if not error.__dict__.get(_TOOL_ERROR):
        raise error
    return _marked(error, await tell.asynchronous(error, request))
