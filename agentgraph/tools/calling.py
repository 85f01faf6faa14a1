"""Running a tool's code for one call: arguments, injected values, threads and loops, time limit.

There are two ways with the same result. When nobody listens (no callback handler, no tracer, no debug output) the
*direct* way is: check the arguments, call the function, make the message. The *public* way is langchain-core's
`BaseTool.invoke`, which tells the listeners; it runs the very same code inside. A tool class with a way of its own to
run goes the public way.
"""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.globals import get_debug
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from langchain_core.tools.base import (
    _handle_tool_error as handled_tool_error,
)
from langchain_core.tools.base import (
    _handle_validation_error as handled_validation_error,
)
from langchain_core.tracers.context import _configure_hooks as global_handlers
from langchain_core.tracers.context import _tracing_v2_is_enabled as tracing_is_enabled
from pydantic import ValidationError

from agentgraph import bridge
from agentgraph.errors import ToolTimeoutError
from agentgraph.neighbours import thread_work
from agentgraph.tools.failures import passes
from agentgraph.tools.prepare import PreparedTool
from agentgraph.tools.results import answer, as_content, is_output

__all__ = ["ToolRun", "arun", "listens", "run"]


@dataclass(slots=True, eq=False)
class ToolRun:
    """One call of one tool, ready to run.

    Attributes:
        prepared: the tool.
        call: the model's call.
        arguments: what the model sent, without what it cannot set.
        injected: what the runtime adds.
        config: the configuration that the tool runs under.
        entered: whether the tool's own code was reached, so that its errors are told from wrong arguments.
    """

    prepared: PreparedTool
    call: ToolCall
    arguments: dict[str, Any]
    injected: dict[str, Any]
    config: RunnableConfig
    entered: bool = False


def listens(tool: BaseTool, config: RunnableConfig) -> bool:
    """Whether anybody wants to be told of a call: a handler of the run or of the tool, a tracer, debug output."""
    callbacks = config.get("callbacks")
    return bool(
        (callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", None))
        or tool.callbacks
        or tool.verbose
        or get_debug()
        or any(variable.get() is not None for variable, *_ in global_handlers)
        or tracing_is_enabled()
    )


def run(this: ToolRun) -> Any:
    """Run a tool from sync code; an async-only tool runs on a private loop.

    Returns:
        A ToolMessage, or what the tool returned where that is a message, a command or a list of these.

    Raises:
        ToolTimeoutError: it took longer than its limit.
        Exception: what the tool raised; ValidationError for wrong arguments.
    """
    if not this.prepared.runs_sync:
        return bridge.run_coroutine(functools.partial(arun, this))
    if this.prepared.timeout is None:
        return _run(this)
    return bridge.run_limited(
        functools.partial(_run, this), seconds=this.prepared.timeout, expired=lambda: _expired(this.prepared)
    )


async def arun(this: ToolRun) -> Any:
    """Run a tool from async code; a sync-only tool runs in a thread. Result and errors as `run`."""
    if this.prepared.timeout is None:
        return await _arun(this)
    clock = asyncio.timeout(this.prepared.timeout)
    try:
        async with clock:
            return await _arun(this)
    except TimeoutError:
        if clock.expired():
            raise _expired(this.prepared) from None
        raise


def _expired(prepared: PreparedTool) -> ToolTimeoutError:
    return ToolTimeoutError(
        f"The tool {prepared.name!r} took longer than its limit of {prepared.timeout:g} seconds and was abandoned."
    )


def _run(this: ToolRun) -> Any:
    tool = this.prepared.tool
    if not this.prepared.direct:
        return _run_foreign(this)
    if listens(tool, this.config):
        return _public(this).invoke(_full_call(this), this.config)
    # A copy, as on the public way: what the tool sets in it is not seen by the next attempt.
    context = contextvars.copy_context()
    context.run(var_child_runnable_config.set, this.config)
    try:
        return _message(this, context.run(_call, this))
    except Exception as error:  # noqa: BLE001 (told or raised again, by the tool's own settings)
        return _handled(this, error)


async def _arun(this: ToolRun) -> Any:
    if not this.prepared.runs_async:
        return await bridge.run_blocking(_run, this)
    # The tool's own async code is cancelled, whatever it has at work in threads.
    token = thread_work.set(None)
    try:
        return await _arun_on_the_loop(this)
    finally:
        thread_work.reset(token)


async def _arun_on_the_loop(this: ToolRun) -> Any:
    tool = this.prepared.tool
    if not this.prepared.direct:
        return await tool.ainvoke(_full_call(this), this.config)
    if listens(tool, this.config):
        return await _public(this).ainvoke(_full_call(this), this.config)
    token = None
    if var_child_runnable_config.get() is not this.config:
        token = var_child_runnable_config.set(this.config)
    try:
        return _message(this, await _acall(this))
    except Exception as error:  # noqa: BLE001 (as above)
        return _handled(this, error)
    finally:
        if token is not None:
            var_child_runnable_config.reset(token)


def _run_foreign(this: ToolRun) -> Any:
    tool = this.prepared.tool
    try:
        return tool.invoke(_full_call(this), this.config)
    except NotImplementedError as error:
        if not this.prepared.runs_async or not _says_async_only(tool, error):
            raise
    return bridge.run_coroutine(lambda: tool.ainvoke(_full_call(this), this.config))


def _says_async_only(tool: BaseTool, error: NotImplementedError) -> bool:
    """Whether the `_run` of a tool class itself says that there is no sync way, before doing anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is getattr(type(tool)._run, "__code__", None)  # noqa: SLF001 (the documented place for a tool's code)


def _full_call(this: ToolRun) -> dict[str, Any]:
    """The call as BaseTool takes it: the arguments together with what is injected."""
    # BaseTool gives a tool class its configuration by itself.
    skipped = {parameter.name for parameter in this.prepared.injection.parameters if parameter.kind == "config"}
    injected = {name: value for name, value in this.injected.items() if name not in skipped}
    return {**this.call, "args": {**this.arguments, **injected}, "type": "tool_call"}


def _call(this: ToolRun) -> Any:
    function: Callable[..., Any] = this.prepared.tool.func  # type: ignore[attr-defined] # only a StructuredTool is direct
    arguments = _checked(this)
    this.entered = True
    value = function(**arguments)
    return bridge.run_coroutine(value) if inspect.iscoroutine(value) else value


async def _acall(this: ToolRun) -> Any:
    function: Callable[..., Any] = this.prepared.tool.coroutine  # type: ignore[attr-defined] # as above
    arguments = _checked(this)
    this.entered = True
    return await function(**arguments)


def _checked(this: ToolRun) -> dict[str, Any]:
    """The arguments for the tool's function: checked and converted by its schema, with what is injected."""
    validator, fields = this.prepared.validator, this.prepared.fields
    if validator is None:
        return this.arguments | this.injected
    if not fields:
        # As langchain-core has it: a tool without parameters takes whatever is sent and uses none of it.
        return dict(this.injected)
    given = this.arguments | {name: value for name, value in this.injected.items() if name in _checked_names(this)}
    model = validator.model_validate(given)
    known = model.model_fields_set | given.keys()
    checked = {
        name: getattr(model, name)
        for name in fields
        # Not asked for, these two only stand for variadic parameters.
        if name in known or not (name in this.prepared.injection.hidden or name in {"args", "kwargs"})
    }
    return this.injected | checked | (model.model_extra or {})


def _checked_names(this: ToolRun) -> Container[str]:
    """Injected parameters that the schema converts: single state fields that it knows."""
    parameters = this.prepared.injection.parameters
    return (
        {one.name for one in parameters if one.kind == "field" and one.name in this.prepared.fields}
        if parameters
        else ()
    )


def _rendered(this: ToolRun, value: Any) -> Any:
    return value if is_output(value, this.call) else as_content(value)


def _split(this: ToolRun, value: Any) -> tuple[Any, Any]:
    """Content and artifact, by the tool's `response_format`."""
    if this.prepared.tool.response_format != "content_and_artifact":
        return _rendered(this, value), None
    if not isinstance(value, tuple) or len(value) != 2:  # noqa: PLR2004 (content and artifact)
        raise ValueError(
            f"The tool {this.prepared.name!r} has response_format='content_and_artifact', so it must return a tuple "
            f"(content, artifact); it returned {type(value).__name__!r}."
        )
    return _rendered(this, value[0]), value[1]


def _message(this: ToolRun, value: Any) -> Any:
    content, artifact = _split(this, value)
    return content if is_output(content, this.call) else answer(this.call, content, artifact=artifact)


def _handled(this: ToolRun, error: Exception) -> ToolMessage:
    """What a tool says of its own errors by `handle_tool_error` and `handle_validation_error`; else raised again."""
    tool = this.prepared.tool
    if not passes(error):
        if isinstance(error, ValidationError) and tool.handle_validation_error:
            said: Any = handled_validation_error(error, flag=tool.handle_validation_error)
            return answer(this.call, as_content(said), error=True)
        if isinstance(error, ToolException) and tool.handle_tool_error:
            said = handled_tool_error(error, flag=tool.handle_tool_error)
            return answer(this.call, as_content(said), error=True)
    raise error


def _public(this: ToolRun) -> StructuredTool:
    """The tool as a StructuredTool whose code is the direct way's, for BaseTool to run with its callbacks."""
    tool = this.prepared.tool

    def func(**_: Any) -> Any:
        return _for_base_tool(this, _call(this))

    async def coroutine(**_: Any) -> Any:
        return _for_base_tool(this, await _acall(this))

    # Tells BaseTool which arguments it must not show to listeners.
    signature = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[Any, InjectedToolArg])
            for name in sorted(this.prepared.injection.hidden)
        ]
    )
    func.__signature__ = coroutine.__signature__ = signature  # type: ignore[attr-defined] # where inspect looks for one
    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema={"type": "object", "properties": {}},
        func=func if this.prepared.runs_sync else None,
        coroutine=coroutine if this.prepared.runs_async else None,
        callbacks=tool.callbacks,
        tags=tool.tags,
        metadata=tool.metadata,
        verbose=tool.verbose,
        handle_tool_error=tool.handle_tool_error,
        handle_validation_error=tool.handle_validation_error,
        response_format=tool.response_format,
    )


def _for_base_tool(this: ToolRun, value: Any) -> Any:
    content, artifact = _split(this, value)
    return (content, artifact) if this.prepared.tool.response_format == "content_and_artifact" else content
