"""What hooks are handed and what they give back: requests to the model and its responses."""

import difflib
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolCallWrapper
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.state import AgentState, ResponseT

__all__ = [
    "CallRecord",
    "ExtendedModelResponse",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "ToolCallRequest",
    "ToolCallWrapper",
    "lift_response",
    "record_in",
    "record_of",
]


@dataclass(init=False)
class ModelRequest(Generic[ContextT]):
    """One call of the model, as `wrap_model_call` hooks see and change it.

    Args:
        model: the chat model to call.
        messages: the conversation, without the system message.
        system_message: the system message, None for none.
        system_prompt: the same as a str; give one of the two.
        tool_choice: None (the model's default), "auto", "any", a tool's name, or the provider's own form.
        tools: client-side tools, then provider tools as dicts; tools of structured output are not among them.
        response_format: the strategy of the structured answer, None for none.
        state: the agent's state at this moment.
        runtime: context, store, stream writer of the run.
        model_settings: further keyword arguments for the model, such as `temperature`.

    Raises:
        ConfigurationError: both `system_prompt` and `system_message` are given.

    Example:
        >>> def wrap_model_call(self, request, handler):
        ...     return handler(request.override(tools=request.tools[:3]))
    """

    model: BaseChatModel
    messages: list[AnyMessage]
    system_message: SystemMessage | None
    tool_choice: Any | None
    tools: list[BaseTool | dict[str, Any]]
    response_format: Any | None
    state: AgentState[Any]
    runtime: Runtime[ContextT]
    model_settings: dict[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        *,
        model: BaseChatModel,
        messages: list[AnyMessage],
        system_message: SystemMessage | None = None,
        system_prompt: str | None = None,
        tool_choice: Any | None = None,
        tools: list[BaseTool | dict[str, Any]] | None = None,
        response_format: Any | None = None,
        state: AgentState[Any] | None = None,
        runtime: Runtime[ContextT] | None = None,
        model_settings: dict[str, Any] | None = None,
    ) -> None:
        # Written past __setattr__, which warns: to build a request is no change of one.
        self.__dict__.update(
            model=model,
            messages=messages,
            system_message=_one_system_message(system_message, system_prompt),
            tool_choice=tool_choice,
            tools=[] if tools is None else tools,
            response_format=response_format,
            state={"messages": []} if state is None else state,
            runtime=runtime,
            model_settings={} if model_settings is None else model_settings,
        )

    @property
    def system_prompt(self) -> str | None:
        """The text of the system message."""
        return None if self.system_message is None else self.system_message.text

    def override(self, **changes: Any) -> Self:
        """A new request with these parts changed; the others are the same objects.

        Args:
            **changes: parts by their names; `system_prompt` stands for a system message of that text.

        Raises:
            ConfigurationTypeError: a name is not a part of a request.
            ConfigurationError: both `system_prompt` and `system_message` are given.
        """
        if "system_prompt" in changes:
            prompt = changes.pop("system_prompt")
            changes["system_message"] = _one_system_message(changes.get("system_message"), prompt)
        unknown = [name for name in changes if name not in _PARTS]
        if unknown:
            near = difflib.get_close_matches(unknown[0], _PARTS, n=1)
            raise ConfigurationTypeError(
                f"A model request has no part {unknown[0]!r}{f' (did you mean {near[0]!r}?)' if near else ''}; "
                f"its parts are {', '.join(sorted(_PARTS))}."
            )
        changed = replace(self, **changes)
        changed.__dict__["_call"] = self.__dict__.get("_call")
        return changed

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            warnings.warn(
                f"Assigning to ModelRequest.{name} changes a request that others may hold. "
                f"Use request.override({name}=...), which gives a new one.",
                DeprecationWarning,
                stacklevel=2,
            )
        if name == "system_prompt":
            name, value = "system_message", _one_system_message(None, value)
        object.__setattr__(self, name, value)


@dataclass
class CallRecord:
    """What one passage through the model node learns of its call, handed on from request to request.

    Hooks may answer with a response of their own making, so the response cannot carry it.

    Attributes:
        checked: the messages that are known to hold the invariant of a history; only that very list, and only as long
            as no hook has changed it in place.
        history: the messages of the state, whose ids are taken.
        structured: how often the run was asked again for a structured answer.
        missing: what to tell the model where its answer was none, None where it was one.
        kind: of the feedback in `missing`.
        asked: whether the run was already asked again for a forced tool call, when this turn began.
        forced: the same after this turn.
    """

    checked: list[Any] | None = None
    history: Sequence[Any] = ()
    structured: int = 0
    missing: str | None = None
    kind: str = "structured_response"
    asked: bool = False
    forced: bool = False
    _as_checked: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        self._as_checked = tuple(self.checked or ())

    def forget_changed(self) -> None:
        """Vouch no more for a list that was changed in place."""
        now = self.checked or ()
        if len(now) != len(self._as_checked) or not all(map(operator.is_, now, self._as_checked)):
            self.checked = None


def record_in(request: ModelRequest[Any], record: CallRecord) -> ModelRequest[Any]:
    """Put a record into a request; every request made from it by `override` has the same one."""
    request.__dict__["_call"] = record
    return request


def record_of(request: ModelRequest[Any]) -> CallRecord:
    """The record of a request; a new one where a hook built its request from nothing."""
    record: CallRecord = request.__dict__.get("_call") or CallRecord()
    record.forget_changed()
    return record


_PARTS = frozenset(part.name for part in fields(ModelRequest))


@dataclass
class ModelResponse(Generic[ResponseT]):
    """What a call of the model gave.

    Args:
        result: the model's message, followed by tool messages that belong to a structured answer.
        structured_response: the validated answer, None if there is none.
    """

    result: list[BaseMessage]
    structured_response: ResponseT | None = None


@dataclass
class ExtendedModelResponse(Generic[ResponseT]):
    """A response together with an update of the state.

    Args:
        model_response: what the call gave.
        command: its `update` is applied after the model's own; `goto`, `resume` and `graph` are not possible here.
    """

    model_response: ModelResponse[ResponseT]
    command: Command[Any] | None = None


ModelCallResult = ModelResponse[ResponseT] | AIMessage | ExtendedModelResponse[ResponseT]
"""What a `wrap_model_call` hook may return."""


def lift_response(result: Any) -> tuple[ModelResponse[Any], Command[Any] | None]:
    """Any of the forms of `ModelCallResult`, also those of LangChain's own classes, as a response and a command.

    Raises:
        ConfigurationTypeError: the hook returned something else.
    """
    if isinstance(result, AIMessage):
        return ModelResponse(result=[result]), None
    if hasattr(result, "model_response"):
        return lift_response(result.model_response)[0], _checked(result.command)
    if isinstance(result, ModelResponse):
        return _of_messages(result), None
    if hasattr(result, "result"):
        return _of_messages(ModelResponse(result.result, result.structured_response)), None
    raise ConfigurationTypeError(
        f"A wrap_model_call hook returned {type(result).__name__}; expected was a ModelResponse (what the handler "
        "gives), an AIMessage or an ExtendedModelResponse. Was a `return` or an `await` forgotten?"
    )


def _of_messages(response: ModelResponse[Any]) -> ModelResponse[Any]:
    messages = response.result
    if isinstance(messages, list) and all(isinstance(message, BaseMessage) for message in messages):
        return response
    raise ConfigurationTypeError(
        f"A wrap_model_call hook returned a ModelResponse whose result is {messages!r:.200}; expected was a list of "
        "messages, such as [AIMessage(...)]."
    )


def _checked(command: Command[Any] | None) -> Command[Any] | None:
    if command is None:
        return None
    jumps = any(key == "jump_to" for key, _ in command._update_as_tuples())  # noqa: SLF001 - langgraph's own reading of all forms of an update
    if command.goto or command.resume or command.graph or jumps:
        raise NotImplementedError(
            "A command of a wrap_model_call hook may only carry an `update` of the state; goto, resume, graph and "
            "jump_to would leave the model's node half done. To redirect the run, return `jump_to` from a before_model "
            "or after_model hook."
        )
    return command


def _one_system_message(message: SystemMessage | None, prompt: str | None) -> SystemMessage | None:
    if prompt is None:
        return message
    if message is not None:
        raise ConfigurationError(
            "Both system_prompt and system_message are given; give one: system_prompt is the short form."
        )
    return SystemMessage(content=prompt)
