"""`ToolNode`: all tool calls of a message at once, for graphs that one builds oneself.

It takes and gives what langgraph's node of that name does, with the same defaults, and runs on this package's engine:
injected arguments are analysed once, results are made text or left as content blocks, every call is answered.
An agent of `create_agent` does not use it: there, each call is a task of its own.
"""

import asyncio
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, get_executor_for_config
from langchain_core.tools import BaseTool
from langgraph._internal._constants import CONF, CONFIG_KEY_READ, CONFIG_KEY_READ_STATE
from langgraph.prebuilt.tool_node import AsyncToolCallWrapper, ToolCallRequest, ToolCallWrapper, ToolInvocationError
from langgraph.types import Command, Send
from pydantic import ValidationError

from agentgraph import bridge
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.tools.calls import own_call
from agentgraph.tools.execution import Toolbox, acall_tool, call_tool, request_for
from agentgraph.tools.failures import Tell, error_text, halves, passes
from agentgraph.tools.prepare import prepare
from agentgraph.tools.results import ToolAnswer, answer, answered, as_items

__all__ = ["ToolNode"]

HandleToolErrors: TypeAlias = (
    bool | str | Callable[..., str | Awaitable[str]] | type[Exception] | tuple[type[Exception], ...]
)
InputKind: TypeAlias = Literal["list", "dict", "tool_calls"]

_ARGUMENT_ERRORS: tuple[type[Exception], ...] = (ToolInvocationError, ValidationError)


class ToolNode(Runnable[Any, Any]):
    """A node that runs the tool calls of the last AI message, side by side.

    Args:
        tools: tools, or functions to make tools of.
        name: the node's name.
        tags: tags of the node.
        handle_tool_errors: which errors are told to the model. Default: wrong arguments only. True: all. False: none.
            A str: all, with this text. An exception type or several: these. A function `(error) -> str`, sync or async:
            those that its annotation names, with the text it returns; in async runs a sync one is called in a thread.
        messages_key: the field of the state with the messages.
        wrap_tool_call: `(request, execute)` around each call; it may call `execute` once, often or never.
        awrap_tool_call: the same for async runs; without it, async runs use `wrap_tool_call` in a thread.

    The input is a state (dict or object) with messages, a list of messages, or a list of tool calls. The output is
    `{messages_key: [ToolMessage, ...]}`, for a list of messages a list; where a tool returned a Command, a list of
    commands and of such updates.

    Raises:
        ConfigurationError: a tool cannot work, or `handle_tool_errors` is none of these forms.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> node = ToolNode([add])
        >>> calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1", "type": "tool_call"}]
        >>> node.invoke({"messages": [AIMessage("", tool_calls=calls)]})["messages"][0].content
        '3'
    """

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        *,
        name: str = "tools",
        tags: list[str] | None = None,
        handle_tool_errors: HandleToolErrors = _ARGUMENT_ERRORS,
        messages_key: str = "messages",
        wrap_tool_call: ToolCallWrapper | None = None,
        awrap_tool_call: AsyncToolCallWrapper | None = None,
    ) -> None:
        self.name = name
        self.tags = tags
        prepared = [prepare(tool, for_model=False) for tool in tools]
        self._toolbox = Toolbox({one.name: one for one in prepared}, messages_key)
        self._tell = _tell_by(handle_tool_errors)
        self._wrap = wrap_tool_call
        self._awrap = awrap_tool_call

    @property
    def tools_by_name(self) -> dict[str, BaseTool]:
        """The tools by name."""
        return {name: prepared.tool for name, prepared in self._toolbox.tools.items()}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 (the interface of Runnable)
        """Run the calls in threads."""
        kind, requests = self._requests(input, ensure_config(config))
        if len(requests) == 1:
            return self._output(kind, [self._run(requests[0])])
        with get_executor_for_config(config) as executor:
            return self._output(kind, list(executor.map(self._run, requests)))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 (the interface of Runnable)
        """Run the calls as tasks; sync tools in threads."""
        kind, requests = self._requests(input, ensure_config(config))
        tasks = [asyncio.ensure_future(self._arun(request)) for request in requests]
        try:
            return self._output(kind, await asyncio.gather(*tasks))
        except BaseException:
            # Nobody would await the neighbours of a failed call any more.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def _requests(self, given: Any, config: RunnableConfig) -> tuple[InputKind, list[ToolCallRequest | ToolMessage]]:
        """The requests, and the answers to calls that cannot be read."""
        kind, calls = self._calls(given)
        state = self._state(kind, given, config)
        own = map(own_call, calls)
        return kind, [
            one if isinstance(one, ToolMessage) else request_for(one, state, config, self._toolbox) for one in own
        ]

    def _calls(self, given: Any) -> tuple[InputKind, list[ToolCall]]:
        if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
            return "tool_calls", [given["tool_call"]]
        if isinstance(given, list) and given and isinstance(given[-1], dict) and given[-1].get("type") == "tool_call":
            return "tool_calls", cast("list[ToolCall]", given)
        key = self._toolbox.messages_key
        if isinstance(given, list):
            kind: InputKind = "list"
            messages = given
        else:
            kind = "dict"
            messages = given.get(key, []) if isinstance(given, dict) else getattr(given, key, [])
        for message in reversed(messages or []):
            if isinstance(message, AIMessage):
                return kind, message.tool_calls
        raise ValueError(
            f"There is no AI message in the input of the tools node {self.name!r}. Expected a state with messages in "
            f"{key!r}, a list of messages, or a list of tool calls."
        )

    def _state(self, kind: InputKind, given: Any, config: RunnableConfig) -> Any:
        if kind != "tool_calls":
            return given
        if isinstance(given, dict):
            return given["state"]
        conf = config.get(CONF, {})
        read_state = conf.get(CONFIG_KEY_READ_STATE)
        if read_state is not None:
            return read_state()
        read = conf.get(CONFIG_KEY_READ)
        # Its second argument are the channels; the others are langgraph's own.
        return {} if read is None else read(list(read.args[1]), True)

    def _run(self, request: ToolCallRequest | ToolMessage) -> ToolAnswer:
        if isinstance(request, ToolMessage):
            return request
        if self._wrap is None:
            return self._execute(request)
        try:
            return self._answered(request, self._wrap(request, self._execute))  # type: ignore[arg-type] # a tool may give several
        except Exception as error:  # noqa: BLE001 (told or raised again)
            return _or_raise(self._tell.sync(error, request), error)

    async def _arun(self, request: ToolCallRequest | ToolMessage) -> ToolAnswer:
        if isinstance(request, ToolMessage):
            return request
        if self._awrap is None and self._wrap is None:
            return await self._aexecute(request)
        try:
            if self._awrap is not None:
                return self._answered(request, await self._awrap(request, self._aexecute))  # type: ignore[arg-type] # as above
            execute = bridge.sync_handler(self._aexecute, asyncio.get_running_loop())
            return self._answered(request, await bridge.run_blocking(cast("Any", self._wrap), request, execute))
        except Exception as error:  # noqa: BLE001 (as above)
            return _or_raise(await self._tell.asynchronous(error, request), error)

    def _execute(self, request: ToolCallRequest) -> ToolAnswer:
        return call_tool(request, self._toolbox, self._tell)

    async def _aexecute(self, request: ToolCallRequest) -> ToolAnswer:
        return await acall_tool(request, self._toolbox, self._tell)

    def _answered(self, request: ToolCallRequest, result: Any) -> ToolAnswer:
        by = f"The wrapper of the tool {request.tool_call['name']!r}"
        return answered(result, request.tool_call, messages_key=self._toolbox.messages_key, by=by)

    def _output(self, kind: InputKind, answers: Sequence[ToolAnswer]) -> Any:
        items = [item for one in answers for item in as_items(one)]
        if not any(isinstance(item, Command) for item in items):
            return items if kind == "list" else {self._toolbox.messages_key: items}
        return _with_one_way_up([item if isinstance(item, Command) else self._update(kind, item) for item in items])

    def _update(self, kind: InputKind, message: ToolMessage) -> Any:
        return [message] if kind == "list" else {self._toolbox.messages_key: [message]}


def _with_one_way_up(outputs: list[Any]) -> list[Any]:
    """The outputs, with the commands that only send work to the parent graph joined: it can be gone to only once."""
    sending = [output for output in outputs if _only_sends_up(output)]
    if not sending:
        return outputs
    joined = replace(sending[0], update=None, goto=[send for command in sending for send in command.goto])
    return [*(output for output in outputs if not _only_sends_up(output)), joined]


def _only_sends_up(output: Any) -> bool:
    return (
        isinstance(output, Command)
        and output.graph is Command.PARENT
        and isinstance(output.goto, list)
        and all(isinstance(target, Send) for target in output.goto)
    )


def _or_raise(said: ToolAnswer | None, error: Exception) -> ToolAnswer:
    if said is None:
        raise error
    return said


def _tell_by(handle: Any) -> Tell:
    """A `handle_tool_errors`, read once: which errors are told, and with which text."""
    types: tuple[type[Exception], ...] = (Exception,)
    tell = Tell.at_once(_told_in_words)
    if isinstance(handle, bool):
        types = (Exception,) if handle else ()
    elif isinstance(handle, str):
        tell = Tell.at_once(lambda _, request: answer(request.tool_call, handle, error=True))
    elif isinstance(handle, tuple | type):
        types = _exception_types(handle if isinstance(handle, tuple) else (handle,), handle)
    elif callable(handle):
        tell, types = _asking(handle), _annotated_types(handle)
    else:
        raise ConfigurationError(_unfit(handle))
    return tell.only_for(lambda error: isinstance(error, types) and not passes(error))


def _told_in_words(error: Exception, request: ToolCallRequest) -> ToolAnswer:
    return answer(request.tool_call, error_text(error, request.tool_call), error=True)


def _asking(function: Callable[..., Any]) -> Tell:
    sync, asynchronous = halves(function)

    async def ask(error: Exception, request: ToolCallRequest) -> ToolAnswer:
        return _said(function, await asynchronous(error), request)

    return Tell(lambda error, request: _said(function, sync(error), request), ask)


def _said(function: Any, text: Any, request: ToolCallRequest) -> ToolMessage:
    if not isinstance(text, str | list):
        raise ConfigurationTypeError(
            f"handle_tool_errors {repr(function)[:100]} returned {repr(text)[:100]}; expected the text for the model."
        )
    return answer(request.tool_call, text, error=True)


def _exception_types(given: Sequence[Any], shown: Any) -> tuple[type[Exception], ...]:
    if not all(isinstance(one, type) and issubclass(one, Exception) for one in given):
        raise ConfigurationError(_unfit(shown))
    return tuple(given)


def _annotated_types(handler: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """The exception types that a handler's first parameter is annotated with; all, where it is not."""
    parameters = list(inspect.signature(handler).parameters)
    function = handler if inspect.isroutine(handler) else type(handler).__call__
    annotation = typing.get_type_hints(function).get(parameters[0]) if parameters else None
    if annotation is None or annotation is Any:
        return (Exception,)
    union = get_origin(annotation) in {typing.Union, types.UnionType}
    return _exception_types(get_args(annotation) if union else (annotation,), annotation)


def _unfit(given: Any) -> str:
    return (
        f"handle_tool_errors is or names {repr(given)[:100]}; expected True, False, a text, an exception type or a "
        "tuple of these, or a function (error) -> str whose parameter is annotated with exception types."
    )
