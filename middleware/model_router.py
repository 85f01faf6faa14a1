"""Model routing: a classifier chooses, once a run, which model works on the user's message."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from langchain_core.decisions import Choice, ChoiceAnswer
from langchain_core.decisions.types import Content
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import TracePolicy, omit_payload
from langgraph.typing import ContextT
from pydantic import JsonValue, ValidationError

from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.flows import adrive, drive
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ModelRequest
from agentgraph.state import AgentState, OmitFromInput, ResponseT

from ._classifying import Classifier, Classifying
from ._other_models import for_model
from ._own_calls import OwnCall, aask, ask, model_of
from .internal_calls import InternalCallTransformer

__all__ = ["ModelChoice", "ModelRouterMiddleware", "ModelRouterState"]

_ROUTE = "model_route"


@dataclass(frozen=True)
class ModelChoice:
    """A model that the router can choose, and what for.

    Attributes:
        model: a chat model, or its name as "provider:name".
        criteria: which messages it is the right one for: words, or JSON.
    """

    model: str | BaseChatModel
    criteria: JsonValue


class ModelRouterState(AgentState[ResponseT]):
    """The field that the router keeps in the state.

    Attributes:
        model_route: the classifier's answer of this run, with the label in `choice`; stored, and in the result.
    """

    model_route: NotRequired[Annotated[ChoiceAnswer, OmitFromInput]]


class ModelRouterMiddleware(AgentMiddleware[ModelRouterState[ResponseT], ContextT, ResponseT]):
    """Has a classifier choose the model for the user's last message; it makes all model calls of the run.

    It chooses before the agent, and puts the chosen model into each request. Middleware before it in the list sees the
    agent's own model in a request, and middleware after it the chosen one; so a ModelFallbackMiddleware goes after it.
    What only servers of another kind take (settings such as `prompt_cache_key`, cache marks) is left out for a model of
    another kind, on copies.

    A classifier that fails, or gives what is no label, ends the run; no other model is taken in silence. The agent's
    own model works only where nothing was chosen: a thread that was paused before it had a router, or with choices that
    are gone.

    It adds `model_route` to the state, which the caller's input cannot set. Its cost: one call of the classifier a run,
    two at most where a chat model's answer cannot be used, which is not streamed; and one step of the graph, shared
    with other `before_agent` hooks that are inline.

    Args:
        choices: the models by label.
        instructions: how to choose: words, or JSON.
        classifier: a decision model (langchain_core.decisions); a chat model or its name, asked for structured output;
            or a function, sync or async, of `{"state": message, "questions": {...}}` that returns a label.

    Raises:
        ConfigurationError: an argument cannot work; in a run, no message of a user to choose by.
        ClassificationError: in a run, what the classifier gave is no label.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel
        >>> choices = {
        ...     "small": ModelChoice(ScriptedModel("Hi!"), "Small talk."),
        ...     "large": ModelChoice(ScriptedModel("Let me think."), "Work."),
        ... }
        >>> router = ModelRouterMiddleware(
        ...     choices=choices,
        ...     instructions="Choose the smallest model that can do it.",
        ...     classifier=lambda asked: "small" if len(asked["state"].text) < 20 else "large",
        ... )
        >>> create_agent(ScriptedModel(), middleware=[router]).invoke({"messages": "Hello."})["messages"][-1].text
        'Hi!'
    """

    state_schema = ModelRouterState  # type: ignore[assignment] # generic, which the attribute's type cannot say
    transformers = (InternalCallTransformer,)
    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, *, choices: Mapping[str, ModelChoice], instructions: Content, classifier: Classifier) -> None:
        super().__init__()
        known = _checked(choices)
        self.models = {label: model_of(choice.model) for label, choice in known.items()}
        question = _question({label: choice.criteria for label, choice in known.items()}, instructions)
        self.classifier = classifier
        self._classifying = Classifying.of(classifier, _ROUTE, question, "model_routing")

    @hook_config(inline=True)
    def before_agent(self, state: ModelRouterState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, Any]:  # noqa: ARG002 (the contract)
        """Choose the model of this run.

        Args:
            state: the state with the user's message.
            runtime: not used.

        Returns:
            The classifier's answer.

        Raises:
            ConfigurationError: there is no message of a user.
            ClassificationError: what the classifier gave is no label.
        """
        update: dict[str, Any] = drive(self._routing(state), ask)
        return update

    @hook_config(inline=True)
    async def abefore_agent(self, state: ModelRouterState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, Any]:  # noqa: ARG002 (the contract)
        """As `before_agent`, for async runs."""
        update: dict[str, Any] = await adrive(self._routing(state), aask)
        return update

    def _routing(self, state: Mapping[str, Any]) -> Generator[OwnCall, Any, dict[str, Any]]:
        asked = next((one for one in reversed(state["messages"]) if isinstance(one, HumanMessage)), None)
        if asked is None:
            raise ConfigurationError(
                "ModelRouterMiddleware chooses by the last message of the user, and the state has none. Give the run a "
                "HumanMessage, or leave the router out of an agent that works without."
            )
        return {_ROUTE: (yield from self._classifying.asked(asked))}

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Make the call with the chosen model.

        Args:
            request: the call.

        Returns:
            The response.
        """
        route = request.state.get(_ROUTE)
        model = self.models.get(route.choice) if isinstance(route, ChoiceAnswer) else None
        return (yield request if model is None else for_model(request, model))


def _checked(choices: Any) -> dict[str, ModelChoice]:
    if not isinstance(choices, Mapping) or not all(isinstance(label, str) for label in choices):
        raise ConfigurationTypeError(f"choices is {repr(choices)[:200]}; expected was a dict of ModelChoice by label.")
    if not choices:
        raise ConfigurationError("choices is empty; expected was at least one ModelChoice.")
    for label, choice in choices.items():
        if not isinstance(choice, ModelChoice):
            raise ConfigurationTypeError(
                f"choices[{label[:100]!r}] is {repr(choice)[:200]}; expected was ModelChoice(model, criteria)."
            )
    return dict(choices)


def _question(criteria: dict[str, JsonValue], instructions: Content) -> Choice:
    try:
        return Choice(instructions=instructions, criteria=criteria)
    except ValidationError as error:
        raise ConfigurationTypeError(
            f"instructions or criteria of the choices are no words and no JSON: {str(error)[:500]}"
        ) from error
