"""Model calls that middleware makes for itself, from hooks that are written once as generators."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from agentgraph.errors import ConfigurationTypeError
from agentgraph.models import init_chat_model

from .internal_calls import internal_call_metadata

__all__ = ["OwnCall", "aanswering", "aask", "answering", "ask", "config_of", "model_of"]


@dataclass(frozen=True)
class OwnCall:
    """What a flow yields to ask a model of its own; the yield gives the answer or raises the call's error.

    Attributes:
        runnable: the model, or a form of it.
        given: what it is asked.
        source: why, for tracers.
    """

    runnable: Runnable[Any, Any]
    given: Any
    source: str


def config_of(source: str) -> RunnableConfig:
    """The config of such a call: the user's stream shows nothing of it; the callbacks of the run are inherited.

    Args:
        source: why the call is made, for tracers: `metadata["lc_source"]`.
    """
    return {"tags": [TAG_NOSTREAM], "metadata": {"lc_source": source, **internal_call_metadata()}}


def ask(asked: OwnCall) -> Any:
    """Make a call; drives a flow that makes no others."""
    return asked.runnable.invoke(asked.given, config_of(asked.source))


async def aask(asked: OwnCall) -> Any:
    """As `ask`, for async runs."""
    return await asked.runnable.ainvoke(asked.given, config_of(asked.source))


def answering(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook's handler that makes a flow's own calls as well."""

    def answer(asked: Any) -> Any:
        if isinstance(asked, OwnCall):
            return ask(asked)
        return handler(asked)

    return answer


def aanswering(handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """As `answering`, for async runs."""

    async def answer(asked: Any) -> Any:
        if isinstance(asked, OwnCall):
            return await aask(asked)
        return await handler(asked)

    return answer


def model_of(given: str | BaseChatModel, **settings: Any) -> BaseChatModel:
    """The chat model of a `model` argument.

    Args:
        given: "provider:name" or a chat model.
        **settings: for a model that is built from its name.

    Raises:
        ConfigurationTypeError: it is neither.
        ConfigurationError: the name leads to no model.
    """
    if isinstance(given, str):
        model: BaseChatModel = init_chat_model(given, **settings)
        return model
    # A configurable model stands for a chat model without being one.
    if callable(getattr(given, "with_structured_output", None)) and not isinstance(given, type):
        return given
    raise ConfigurationTypeError(
        f"model is {repr(given)[:200]}; expected was a chat model, or its name as 'provider:name'."
    )
