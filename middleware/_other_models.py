"""The request for another model than the one it was made for, without what that one would refuse. Pure functions."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool

from agentgraph.requests import ModelRequest

__all__ = ["for_model"]

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


def for_model(request: ModelRequest[Any], model: Any) -> ModelRequest[Any]:
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
