"""Errors of tools: a function decides which of them the model is told, and in which words."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from langchain_core.messages import ContentBlock, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, TracePolicy, omit_payload
from langgraph.typing import ContextT

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.state import ResponseT, StateT
from agentgraph.tools.failures import halves, let_out, passes
from agentgraph.tools.results import answer

from ._retrying import bounded, names_of

__all__ = ["ToolErrorMiddleware"]

Told: TypeAlias = str | list[ContentBlock] | None
OnError: TypeAlias = Callable[[Exception, ToolCallRequest], Told]
AOnError: TypeAlias = Callable[[Exception, ToolCallRequest], Awaitable[Told]]
ToolResult: TypeAlias = ToolMessage | Command[Any]


class ToolErrorMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Tells the model of the errors that a function has words for, and lets the others end the run.

    It stands around each tool call, and sees the exceptions of the tool and of the hooks further in; so a
    ToolRetryMiddleware with `on_failure="error"` goes after it in the list. Wrong arguments are told to the model
    before they get here, and interrupts pass.

    Without it every error of a tool is told (`on_tool_error` of `create_agent`, which is the shorter way where one
    function speaks for all tools). What this entry has no words for ends the run, whatever `on_tool_error` says: no
    text of an exception reaches the model unless the function wrote it.

    It adds nothing to the state. It costs no model calls and no steps of the graph.

    Args:
        on_error: called with the exception and the request; gives the text or content blocks for the model, or None to
            let the exception end the run. In async runs it is called in a thread, so it may block.
        aon_error: the same as an async function, used in async runs; alone it serves sync runs too.
        tools: tools, or names of tools, that are looked after; None for all.

    Raises:
        ConfigurationError: neither function is given, or an argument is of another kind.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def fetch() -> str:
        ...     "Fetch the page."
        ...     raise ValueError("host 10.0.0.7 is down")
        >>> told = ToolErrorMiddleware(lambda error, request: "The page is not there today.")
        >>> agent = create_agent(ScriptedModel(tool_call("fetch"), "A pity."), [fetch], middleware=[told])
        >>> agent.invoke({"messages": "Fetch it."})["messages"][-2].text
        'The page is not there today.'
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(
        self,
        on_error: OnError | None = None,
        *,
        aon_error: AOnError | None = None,
        tools: Sequence[BaseTool | Callable[..., Any] | str] | None = None,
    ) -> None:
        super().__init__()
        for name, given in (("on_error", on_error), ("aon_error", aon_error)):
            if given is not None and (isinstance(given, type) or not callable(given)):
                raise ConfigurationTypeError(
                    f"{name} is {bounded(repr(given), 100)}; expected was a function (error, request) that gives the "
                    "text for the model, or None to let the error end the run."
                )
        first, second = on_error or aon_error, aon_error or on_error
        if first is None or second is None:
            raise ConfigurationError(
                "ToolErrorMiddleware was given neither on_error nor aon_error. Give one: a function (error, request) "
                "that gives the text for the model, or None to let the error end the run."
            )
        self._names = names_of(tools)
        self._ask = halves(first)[0]
        self._aask = halves(second)[1]

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Run the call, and say what the model is told where it fails.

        Args:
            request: the call.
            handler: runs it.

        Returns:
            The result; or the text for the model, as an answer with status "error".

        Raises:
            ConfigurationTypeError: the function gave what is no text.
        """
        try:
            return handler(request)
        except Exception as error:
            if not self._looks_after(error, request):
                raise
            told = _as_answer(self._ask(error, request), error, request)
            if told is None:
                raise
            return told

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """As `wrap_tool_call`, for async runs."""
        try:
            return await handler(request)
        except Exception as error:
            if not self._looks_after(error, request):
                raise
            told = _as_answer(await self._aask(error, request), error, request)
            if told is None:
                raise
            return told

    def _looks_after(self, error: Exception, request: ToolCallRequest) -> bool:
        return not passes(error) and (self._names is None or request.tool_call["name"] in self._names)


def _as_answer(said: Any, error: Exception, request: ToolCallRequest) -> ToolMessage | None:
    """What the function gave as an answer to the call; None, with the error marked, where it had no words for it."""
    if said is None:
        let_out(error)
        return None
    if isinstance(said, str | list):
        return answer(request.tool_call, said, error=True)
    raise ConfigurationTypeError(
        f"The function for errors of tools gave {type(said).__name__}; expected was a text, a list of content blocks, "
        "or None to let the error end the run."
    ) from error
