"""Refusals as errors: an answer that is none ends the call with an exception, so that another model can be asked."""

from collections.abc import Generator
from typing import Any

from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessage
from langgraph.types import TracePolicy, omit_payload
from langgraph.typing import ContextT

from agentgraph.errors import ContentFilterError, RunError
from agentgraph.hooks import AgentMiddleware
from agentgraph.models.refusals import RefusedAnswerError, refusal_error
from agentgraph.requests import ModelRequest
from agentgraph.state import ResponseT, StateT

__all__ = ["ModelRefusalMiddleware"]


class ModelRefusalMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Raises an error where the model, or its provider's filter, refused to answer.

    Without it a refusal is an answer like any other, and ends the run well. With it there is one error, whatever the
    provider: a RefusalError, which is also langchain-core's `ModelRefusalError`, with the message in `raw_message`. A
    refusal is a block of type "refusal", a `refusal` in `additional_kwargs`, an answer that ended for such a reason
    ("refusal", "content_filter", Gemini's "SAFETY" ...), one that failed for want of the call or the structured answer
    that it had to hold, or a ContentFilterError of the model. Nothing is guessed from the words of an answer.

    It stands around each model call. Behind a ModelFallbackMiddleware in the list, it has the next model asked; a
    ModelRetryMiddleware does not repeat a refused call. What the model had said before it refused has been streamed by
    then; the state gets none of it.

    It adds nothing to the state. It costs no model calls and no steps of the graph.

    Raises:
        RefusalError: in a run; the answer is a refusal.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> from agentgraph import create_agent
        >>> from agentgraph.middleware import ModelFallbackMiddleware
        >>> from agentgraph.testing import ScriptedModel
        >>> strict = ScriptedModel(AIMessage("", additional_kwargs={"refusal": "I must not."}))
        >>> fallback = ModelFallbackMiddleware(ScriptedModel("Gladly."))
        >>> agent = create_agent(strict, middleware=[fallback, ModelRefusalMiddleware()])
        >>> agent.invoke({"messages": "Tell me."})["messages"][-1].text
        'Gladly.'
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Make the call, and look at what came of it.

        Args:
            request: the call.

        Returns:
            The response, if it is no refusal.

        Raises:
            RefusalError: it is one.
        """
        try:
            response = yield request
        except ContentFilterError as error:
            if isinstance(error, ModelRefusalError):
                raise
            raise _same_said(error) from error
        except RunError as error:
            refused = _refused(getattr(error, "ai_message", None))
            if refused is None:
                raise
            raise refused from error
        for message in response.result:
            refused = _refused(message)
            if refused is not None:
                raise refused
        return response


def _refused(message: Any) -> RefusedAnswerError | None:
    return refusal_error(message) if isinstance(message, AIMessage) else None


def _same_said(error: ContentFilterError) -> RefusedAnswerError:
    """The error of a filter as a refusal, with all that it says of the request."""
    refused = RefusedAnswerError(*error.args)
    # The notes are a list, which both would add to.
    refused.__dict__.update({name: value for name, value in vars(error).items() if name != "__notes__"})
    return refused
