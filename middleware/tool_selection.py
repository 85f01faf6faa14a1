"""Tool selection: a model picks the tools that the agent's model is shown, where there are very many."""

import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.typing import ContextT
from pydantic import ValidationError

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError
from agentgraph.flows import adrive, drive
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ModelCallResult, ModelRequest, ModelResponse
from agentgraph.state import ResponseT, StateT

from ._own_calls import OwnCall, aanswering, answering, model_of
from .internal_calls import InternalCallTransformer

__all__ = ["LLMToolSelectorMiddleware", "OnParsingFailure", "ToolSelectionError"]

DEFAULT_SYSTEM_PROMPT = """\
You choose tools for an assistant, which will then answer the user's message; do not answer it yourself. Choose every \
tool that the assistant may need for it, and no others."""
"""What the choosing model is told first; edit it by `system_prompt`."""

OnParsingFailure: TypeAlias = Literal["error", "none", "all"] | list[str] | Callable[[Any], list[str]]
"""What to do when the choosing model gives no usable answer: raise, show no tools, show all, these, or ask a function
that is given the last answer (None where it could not even be read)."""

_LIMIT = "Name the most useful ones first: only the first {limit} are taken."
_TOOLS = "The tools:"
_AGAIN = (
    "Your last answer could not be used. Answer with an object whose `tools` is a list of names, spelt exactly as in "
    "the list above."
)
_UNREADABLE = (OutputParserException, ValidationError, json.JSONDecodeError)


class ToolSelectionError(RunError, ValueError):
    """The choosing model named no tools in a way that can be used, also when it was asked again."""


class LLMToolSelectorMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Lets a model pick the tools for the user's last message before each call of the agent's model.

    For agents with so many tools that their descriptions cost much or confuse the model. It stands around the model
    call, and only narrows what the model is shown: the order of the tools stays, and so do provider tools (dicts) and a
    tool that the request's `tool_choice` demands. Where there is nothing to choose from, or no message of a user, the
    request passes as it is.

    Names that are no tools are passed over; an answer with nothing but such names is unusable, as is one that is no
    list.

    It adds nothing to the state and takes no step of the graph. Its cost: one model call before each model call of the
    agent, and `max_retries` more at most; they are not streamed. Errors of that model are raised as they are.

    Args:
        model: the model that chooses, with structured output; by default the agent's own.
        system_prompt: what it is told first. The names and descriptions of the tools follow.
        max_tools: how many tools it may choose at most; None for any number.
        always_include: names of tools that are always shown; they do not count.
        max_retries: how often it is asked again after an unusable answer.
        on_parsing_failure: what happens after that, see `OnParsingFailure`; `max_tools` does not hold for it.

    Raises:
        ConfigurationError: an argument cannot work; in a run, a name of `always_include` or `on_parsing_failure` that
            is no tool of the request, or a model without structured output.
        ToolSelectionError: in a run, where `on_parsing_failure` is "error".

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def weather(city: str) -> str:
        ...     "Get the weather."
        ...     return "sunny"
        >>> def stocks(name: str) -> str:
        ...     "Get a stock's price."
        ...     return "7"
        >>> chooser = ScriptedModel(tool_call("ToolSelectionResponse", tools=["weather"]))
        >>> model = ScriptedModel("In which city?")
        >>> selector = LLMToolSelectorMiddleware(model=chooser, max_tools=1)
        >>> answer = create_agent(model, [weather, stocks], middleware=[selector]).invoke({"messages": "Will it rain?"})
        >>> model.requests[0].tools
        ['weather']
    """

    transformers = (InternalCallTransformer,)

    def __init__(
        self,
        *,
        model: str | BaseChatModel | None = None,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        max_tools: int | None = None,
        always_include: Sequence[str] | None = None,
        max_retries: int = 1,
        on_parsing_failure: OnParsingFailure = "error",
    ) -> None:
        super().__init__()
        if not isinstance(system_prompt, str):
            raise ConfigurationTypeError(f"system_prompt is {repr(system_prompt)[:200]}; expected was a text.")
        if max_tools is not None:
            _check_number("max_tools", max_tools, least=1)
        _check_number("max_retries", max_retries, least=0)
        if always_include is not None:
            _check_names("always_include", always_include)
        _check_failure(on_parsing_failure)
        self.model = None if model is None else model_of(model)
        self.system_prompt = system_prompt
        self.max_tools = max_tools
        self.always_include = list(always_include or ())
        self.max_retries = max_retries
        self.on_parsing_failure = on_parsing_failure

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> ModelCallResult[ResponseT]:
        """Choose the tools, then call the model with them.

        Args:
            request: the call with all tools.
            handler: makes the call.

        Returns:
            The handler's response.
        """
        result: ModelCallResult[ResponseT] = drive(self._narrowed(request), answering(handler))
        return result

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelCallResult[ResponseT]:
        """As `wrap_model_call`, for async runs."""
        result: ModelCallResult[ResponseT] = await adrive(self._narrowed(request), aanswering(handler))
        return result

    def _narrowed(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        _check_known("always_include", self.always_include, tools)
        fixed = {*self.always_include, *_demanded(request.tool_choice, tools)}
        open_tools = {name: tool for name, tool in tools.items() if name not in fixed}
        user = next((one for one in reversed(request.messages) if isinstance(one, HumanMessage)), None)
        if not open_tools or user is None:
            return (yield request)
        given = yield from self._answer(self.model or request.model, open_tools, user)
        names = _names_in(given, open_tools)
        # What stands in for an unusable answer is somebody's decision, so the limit does not hold for it.
        shown = fixed.union(self._instead(given, tools) if names is None else names[: self.max_tools])
        kept = [tool for tool in request.tools if not isinstance(tool, BaseTool) or tool.name in shown]
        return (yield request.override(tools=kept))

    def _answer(
        self, model: BaseChatModel, tools: Mapping[str, BaseTool], user: HumanMessage
    ) -> Generator[Any, Any, Any]:
        """The model's first usable answer, else its last one; None where that could not be read."""
        runnable, told = _structured(model, tools), self._told(tools)
        given: Any = None
        for attempt in range(self.max_retries + 1):
            messages: list[BaseMessage] = [SystemMessage(told if attempt == 0 else f"{told}\n\n{_AGAIN}"), user]
            try:
                given = yield OwnCall(runnable, messages, "tool_selection")
            except _UNREADABLE:
                given = None
            if _names_in(given, tools) is not None:
                break
        return given

    def _told(self, tools: Mapping[str, BaseTool]) -> str:
        limit = [] if self.max_tools is None else [_LIMIT.format(limit=self.max_tools)]
        listed = [f"- {name}: {tool.description}" for name, tool in tools.items()]
        return "\n".join([self.system_prompt, *limit, "", _TOOLS, *listed])

    def _instead(self, given: Any, tools: Mapping[str, BaseTool]) -> Sequence[str]:
        wanted = self.on_parsing_failure
        if wanted == "error":
            raise ToolSelectionError(
                f"The model that chooses the tools gave {repr(given)[:200]}, after it was asked {self.max_retries + 1} "
                f"time(s); expected was {{'tools': [...]}} with names of these: {_shown(tools)}. Raise max_retries, "
                "take a model that is better at structured output, or set on_parsing_failure."
            )
        if isinstance(wanted, str):
            return list(tools) if wanted == "all" else []
        names = wanted(given) if callable(wanted) else wanted
        _check_names("on_parsing_failure", names)
        _check_known("on_parsing_failure", names, tools)
        return names


def _structured(model: BaseChatModel, tools: Mapping[str, BaseTool]) -> Runnable[Any, Any]:
    """The model in the form that answers with names of these tools."""
    chosen = {"type": "array", "items": {"type": "string", "enum": list(tools)}, "description": "Names of tools."}
    schema = {
        "title": "ToolSelectionResponse",
        "description": "The tools that the assistant may need.",
        "type": "object",
        "properties": {"tools": chosen},
        "required": ["tools"],
        "additionalProperties": False,
    }
    try:
        return model.with_structured_output(schema)
    except NotImplementedError as error:
        raise ConfigurationError(
            f"{type(model).__name__} has no structured output, so it cannot choose tools. Give "
            "LLMToolSelectorMiddleware a `model` that has."
        ) from error


def _names_in(given: Any, tools: Mapping[str, BaseTool]) -> list[str] | None:
    """The tools that an answer names, each once and in its order; None where it is unusable."""
    listed = given.get("tools") if isinstance(given, Mapping) else None
    if not isinstance(listed, list):
        return None
    names = list(dict.fromkeys(name for name in listed if isinstance(name, str) and name in tools))
    return names if names or not listed else None


def _demanded(choice: Any, tools: Mapping[str, BaseTool]) -> set[str]:
    """The tool that a `tool_choice` names: providers refuse a choice that is not among the tools."""
    if isinstance(choice, Mapping):
        inner = choice.get("function")
        choice = inner.get("name") if isinstance(inner, Mapping) else choice.get("name")
    return {choice} if isinstance(choice, str) and choice in tools else set()


def _check_number(name: str, given: Any, *, least: int) -> None:
    if not isinstance(given, int) or isinstance(given, bool):
        raise ConfigurationTypeError(f"{name} is {repr(given)[:200]}; expected was a number from {least} up.")
    if given < least:
        raise ConfigurationError(f"{name} is {given}; expected was a number from {least} up.")


def _check_names(name: str, given: Any) -> None:
    # A text is a sequence of texts too, of its letters.
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise ConfigurationTypeError(f"{name} gives {repr(given)[:200]}; expected was a list of names of tools.")


def _check_failure(given: Any) -> None:
    if isinstance(given, str):
        if given not in {"error", "none", "all"}:
            raise ConfigurationError(
                f"on_parsing_failure is {given[:200]!r}; expected was 'error', 'none', 'all', a list of names of "
                "tools, or a function that returns one."
            )
    elif not callable(given):
        _check_names("on_parsing_failure", given)


def _check_known(name: str, wanted: Sequence[str], tools: Mapping[str, BaseTool]) -> None:
    unknown = [one for one in wanted if one not in tools]
    if unknown:
        raise ConfigurationError(
            f"{name} names {unknown[0]!r}, which is no tool of this request; it has {_shown(tools)}. Correct the name, "
            "or give the agent the tool."
        )


def _shown(tools: Mapping[str, BaseTool]) -> str:
    return ", ".join(list(tools)[:50]) or "none"
