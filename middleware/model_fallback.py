"""Fallback models: where the agent's model fails, the same request goes to the next one."""

from collections.abc import Generator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.typing import ContextT

from agentgraph.errors import ConfigurationTypeError, DeadlineError, RunCancelledError
from agentgraph.hooks import AgentMiddleware
from agentgraph.models import init_chat_model
from agentgraph.requests import ModelRequest
from agentgraph.state import ResponseT, StateT
from agentgraph.tools.failures import passes

from ._other_models import for_model
from ._retrying import bounded, said

__all__ = ["ModelFallbackMiddleware"]


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
                return (yield request if not errors else for_model(request, model))
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
