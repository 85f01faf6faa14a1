"""Fallback models: where the agent's model fails, the same request goes to the next one."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool
from langgraph.typing import ContextT

from agentgraph.errors import ConfigurationTypeError, DeadlineError, RunCancelledError
from agentgraph.hooks import AgentMiddleware
from agentgraph.models import init_chat_model
from agentgraph.requests import ModelRequest
from agentgraph.state import ResponseT, StateT
from agentgraph.tools.failures import passes

from ._retrying import bounded, said

__all__ = ["ModelFallbackMiddleware"]

T = TypeVar("T")

_CACHE_MARK = "cache_control"
_AFFINITY_HEADER = "x-session-affinity"

_ANTHROPICS = ("anthropic",)
_OPENAIS = ("openai", "azure-openai", "fireworks")
_FIREWORKS = ("fireworks",)

_TAKEN_BY: dict[str, tuple[str, ...]] = {
    _CACHE_MARK: _ANTHROPICS,
    "thinking": _ANTHROPICS,
    "betas": _ANTHROPICS,
    "context_management": (*_ANTHROPICS, "openai"),
    "prompt_cache_key": _OPENAIS,
    "prompt_cache_retention": _OPENAIS,
    "safety_identifier": _OPENAIS,
    "previous_response_id": ("openai",),
    "safety_settings": ("gemini", "chat-google", "vertexai"),
    "cached_content": ("gemini", "chat-google", "vertexai"),
    "keep_alive": ("ollama", "chat-ollama"),
}
"""Settings that servers of other kinds answer with 400: by name, how the kinds (`_llm_type`) begin that take them."""

_KNOWN_KINDS = tuple({kind for kinds in _TAKEN_BY.values() for kind in kinds})


class ModelFallbackMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Asks the next model where the one before it failed.

    It stands around each model call, and begins each turn with the agent's own model. What stands further in, after it
    in the list, runs once a model. The next model is given the same messages, tools and response format. What only
    servers of another kind take is left out for it: settings such as `prompt_cache_key`, and `cache_control` marks in
    settings, messages and tools. That is done on copies; the state keeps its messages.

    Every exception leads on to the next model, but for interrupts and the end of a cancelled run. A stream shows what
    came before a model broke off as well; the state holds only the answer that succeeded.

    It adds nothing to the state. It costs one model call for each model that is tried, and no steps of the graph.

    Args:
        first_model: the model to ask after the agent's own: a chat model, or "provider:name".
        *additional_models: those after it, in order.

    Raises:
        ConfigurationError: a model's name is unknown, or something is no chat model. When all models fail, the error of
            the agent's own model is raised, with a note about each of the others.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel
        >>> broken, spare = ScriptedModel(ConnectionError("no route")), ScriptedModel("Hello.")
        >>> agent = create_agent(broken, middleware=[ModelFallbackMiddleware(spare)])
        >>> agent.invoke({"messages": "Hi."})["messages"][-1].text
        'Hello.'
    """

    def __init__(self, first_model: str | BaseChatModel, *additional_models: str | BaseChatModel) -> None:
        super().__init__()
        self.models = [_model_of(model) for model in (first_model, *additional_models)]

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Call the request's model, and where that fails the others in order.

        Args:
            request: the call to make.

        Returns:
            The first response.
        """
        errors: list[Exception] = []
        for model in (request.model, *self.models):
            try:
                return (yield request if not errors else _for_model(request, model))
            except Exception as error:
                if passes(error) or isinstance(error, DeadlineError | RunCancelledError):
                    raise
                errors.append(error)
        raise _noted(errors[0], [_note(*one) for one in enumerate(zip(self.models, errors[1:], strict=True), start=1)])


def _model_of(model: Any) -> BaseChatModel:
    if isinstance(model, str):
        return init_chat_model(model)
    if isinstance(model, type) or not hasattr(model, "invoke"):
        raise ConfigurationTypeError(
            f"{bounded(repr(model), 100)} is no fallback model; expected was a chat model, or 'provider:name'."
        )
    return model  # type: ignore[no-any-return] # it is called like one, whatever its class


def _note(number: int, failed: tuple[Any, Exception]) -> str:
    model, error = failed
    what = said(error)
    return f"Fallback model {number} ({type(model).__name__}) failed too: {type(error).__name__}{what and f': {what}'}"


def _noted(error: Exception, notes: Sequence[str]) -> Exception:
    """The first error, which says best what is wrong; the others are read in its traceback."""
    for note in notes:
        # One object may be raised more than once.
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return error


def _for_model(request: ModelRequest[Any], model: Any) -> ModelRequest[Any]:
    """The request for another model, without what only servers of another kind take."""
    kind = _kind(model)
    if kind == _kind(request.model) and kind.startswith(_KNOWN_KINDS):
        return request.override(model=model)
    changes: dict[str, Any] = {"model": model, "model_settings": _settings_for(request.model_settings, model)}
    if not _takes(model, _CACHE_MARK):
        changes["messages"] = _each(request.messages, _unmarked_message)
        changes["tools"] = _each(request.tools, _unmarked_tool)
        if request.system_message is not None:
            changes["system_message"] = _unmarked_message(request.system_message)
    return request.override(**changes)


def _innermost(model: Any) -> Any:
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model


def _kind(model: Any) -> str:
    """What a model says its API is; "" where it says nothing."""
    kind = getattr(_innermost(model), "_llm_type", "")
    return kind if isinstance(kind, str) else ""


def _takes(model: Any, setting: str) -> bool:
    """Whether a model takes a setting that not all take: by its kind, or because its class has such a field."""
    fields = getattr(type(_innermost(model)), "model_fields", {})
    return _kind(model).startswith(_TAKEN_BY[setting]) or setting in fields


def _settings_for(settings: Mapping[str, Any], model: Any) -> dict[str, Any]:
    kept = {name: value for name, value in settings.items() if name not in _TAKEN_BY or _takes(model, name)}
    headers = kept.get("extra_headers")
    if not isinstance(headers, Mapping) or _kind(model).startswith(_FIREWORKS):
        return kept
    others = {name: value for name, value in headers.items() if str(name).lower() != _AFFINITY_HEADER}
    if not others and headers:
        del kept["extra_headers"]
    elif len(others) < len(headers):
        kept["extra_headers"] = others
    return kept


def _each(items: list[T], change: Callable[[T], T]) -> list[T]:
    """All items changed; the very list where none is, because it is known to be a valid history."""
    changed = [change(item) for item in items]
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed


def _unmarked_message(message: Any) -> Any:
    if not isinstance(message, BaseMessage) or isinstance(message.content, str):
        return message
    content = _each(list(message.content), _unmarked)
    if all(new is old for new, old in zip(content, message.content, strict=True)):
        return message
    return message.model_copy(update={"content": content})


def _unmarked_tool(tool: Any) -> Any:
    if not isinstance(tool, BaseTool):
        return _unmarked(tool)
    extras = _unmarked(tool.extras)
    return tool if extras is tool.extras else tool.model_copy(update={"extras": extras or None})


def _unmarked(block: Any) -> Any:
    """A content block or a provider's tool without marks, also one level down; itself where it has none."""
    if not isinstance(block, dict):
        return block
    kept = {name: value for name, value in block.items() if name != _CACHE_MARK}
    for name in ("extras", "metadata"):
        inner = kept.get(name)
        if isinstance(inner, dict) and _CACHE_MARK in inner:
            kept[name] = {key: value for key, value in inner.items() if key != _CACHE_MARK}
    return block if kept == block else kept
