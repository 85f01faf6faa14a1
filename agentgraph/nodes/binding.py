"""Binding tools and settings to a chat model, once for each set of these."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.nodes.demands import Demand, demand_of
from agentgraph.requests import ModelRequest
from agentgraph.structured_output import Binding

__all__ = ["Binder", "BoundModel", "can_bind_tools", "no_native_tools"]

KEPT_BINDINGS = 32
"""How many bound models are kept; a middleware that makes new tools for each call would else fill the memory."""


@dataclass(frozen=True)
class BoundModel:
    """A model with its tools and settings, ready to be called with messages.

    Attributes:
        invoke: calls it.
        ainvoke: the same, awaited.
        demand: the call that each answer has to hold, None for none.
    """

    invoke: Callable[[list[Any]], Any]
    ainvoke: Callable[[list[Any]], Awaitable[Any]]
    demand: Demand | None = None


@dataclass(frozen=True)
class Binder:
    """Makes what is invoked out of a request and the needs of its response format.

    Attributes:
        known: the tools the agent can run by name; None where a wrap_tool_call hook may run others.
        protocol: makes a model that calls tools by text out of a model that cannot; None for native tool calling.
    """

    known: Mapping[str, BaseTool] | None
    protocol: Any | None = None
    _kept: dict[Any, tuple[BoundModel, Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def native(self) -> bool | None:
        """Whether the provider's own structured output may be used; a text protocol needs that setting for itself."""
        return None if self.protocol is None else False

    def bind(self, request: ModelRequest[Any], needs: Binding) -> BoundModel:
        """The model with the request's tools and settings, and those of the response format.

        Args:
            request: names model, tools, tool choice and settings.
            needs: what the response format adds.

        Raises:
            ConfigurationError: a tool that the agent cannot run, or a model that takes no tools.
        """
        self._check_tools(request.tools)
        _check_model(request.model)
        tools = [*request.tools, *needs.tools]
        settings = {**needs.settings, **request.model_settings}
        choice = needs.tool_choice if request.tool_choice is None else request.tool_choice
        key = _key(request.model, tools, choice, settings)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        bound = replace(
            _callable(self._bind(request.model, tools, choice, settings)),
            demand=_demand(request.model, tools, choice, settings, needs),
        )
        if key is not None:
            self._keep(key, (bound, (request.model, tools)))
        return bound

    def _bind(self, model: Any, tools: list[Any], choice: Any, settings: dict[str, Any]) -> Any:
        if self.protocol is not None:
            # Without tools as well: earlier calls in the history have to be rewritten as text.
            model = self.protocol(model)
        if not tools:
            return model.bind(**settings) if settings else model
        if isinstance(model, RunnableBinding):
            # `bind_tools` of a binding reaches the model below it, past what the binding carries.
            if "tools" in model.kwargs:
                raise ConfigurationError(
                    "The model has tools bound already. Give create_agent the model without bind_tools, and the tools "
                    "in tools=[...], so that the agent can run them."
                )
            inner = self._bind(model.bound, tools, choice, {**model.kwargs, **settings})
            return inner.with_config(model.config) if model.config else inner
        if not can_bind_tools(model):
            raise ConfigurationError(no_native_tools(model))
        if choice is not None:
            settings = {"tool_choice": choice, **settings}
        return model.bind_tools(tools, **settings)

    def _keep(self, key: Any, value: tuple[BoundModel, Any]) -> None:
        # The model and tools are kept beside, so that the identities in the key cannot be given to other objects.
        # No lock: two threads may bind the same twice, which harms nobody, and an agent can be copied.
        self._kept[key] = value
        for oldest in list(self._kept)[:-KEPT_BINDINGS]:
            self._kept.pop(oldest, None)

    def _check_tools(self, tools: list[Any]) -> None:
        if self.known is None:
            return
        runnable = [tool for tool in tools if not isinstance(tool, dict)]
        names = [str(getattr(tool, "name", getattr(tool, "__name__", type(tool).__name__))) for tool in runnable]
        unknown = [name for name in names if name not in self.known]
        if unknown:
            raise ConfigurationError(
                f"The request offers the tools {unknown}, but this agent can run only {sorted(self.known)}. "
                "Give them to create_agent(tools=...), or mount a middleware whose wrap_tool_call runs them."
            )


def _demand(model: Any, tools: list[Any], choice: Any, settings: dict[str, Any], needs: Binding) -> Demand | None:
    """What a binding demands of each answer."""
    while isinstance(model, RunnableBinding):
        model, settings = model.bound, {**model.kwargs, **settings}
    demand = demand_of(model, tools, choice, settings)
    if demand is None or not needs.tools:
        return demand
    return replace(demand, structured=any(tool.name in demand.names for tool in needs.tools))


def _callable(bound: Any) -> BoundModel:
    """What is called for a bound model.

    `bind` wraps a model in a RunnableBinding, which merges configurations in each call. One that carries only keyword
    arguments has nothing to merge, so the model is called with these directly.
    """
    plain = isinstance(bound, RunnableBinding) and type(bound).invoke is RunnableBinding.invoke
    if plain and not bound.config and not bound.config_factories:
        model, settings = bound.bound, bound.kwargs
        return BoundModel(functools.partial(model.invoke, **settings), functools.partial(model.ainvoke, **settings))
    return BoundModel(bound.invoke, bound.ainvoke)


def _check_model(model: Any) -> None:
    if not hasattr(model, "invoke"):
        raise ConfigurationTypeError(
            f"The request's model is {type(model).__name__}; expected was a chat model. "
            "Make one of a name with agentgraph.init_chat_model, once, not in each call."
        )


def can_bind_tools(model: Any) -> bool:
    """Whether a model takes tools natively, as far as it says."""
    if isinstance(model, RunnableBinding):
        return can_bind_tools(model.bound)
    bind = getattr(type(model), "bind_tools", None)
    if bind is None:
        return hasattr(model, "bind_tools")  # wrappers such as with_fallbacks hand the name on
    profile = getattr(model, "profile", None)
    return bind is not BaseChatModel.bind_tools and not (profile and profile.get("tool_calling") is False)


def no_native_tools(model: Any) -> str:
    """The error text for tools given to a model that takes none."""
    if not isinstance(model, BaseChatModel | RunnableBinding):
        return (
            f"{type(model).__name__} is no chat model and has no bind_tools, but tools (or a structured answer by "
            "call) are given. Give the chat model itself; for with_retry that is max_retries= of the model, or "
            "ModelRetryMiddleware."
        )
    return (
        f"{type(model).__name__} has no native tool calling, but tools (or a structured answer by call) are given. "
        'Pass create_agent(..., tool_protocol="json"), which writes tool calls as text, or take a model with tools.'
    )


def _key(model: Any, tools: list[Any], choice: Any, settings: dict[str, Any]) -> Any | None:
    """What a binding depends on; None where that cannot be told."""
    try:
        rest = orjson.dumps([choice, settings], option=orjson.OPT_SORT_KEYS) if settings or choice is not None else b""
    except TypeError:
        return None
    return id(model), tuple(map(id, tools)), rest
