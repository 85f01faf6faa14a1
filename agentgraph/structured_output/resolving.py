"""Which format of the structured answer holds: analysed once when the agent is built, decided at each model call."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentgraph.errors import ConfigurationError
from agentgraph.structured_output.formats import Declared, Format, NativeFormat, Plain, ToolFormat
from agentgraph.structured_output.native_support import supports_native
from agentgraph.structured_output.strategies import (
    AutoStrategy,
    OutputToolBinding,
    ProviderStrategy,
    ToolStrategy,
    as_strategy,
)

__all__ = ["ResponsePlan", "resolve"]


@dataclass(frozen=True)
class ResponsePlan:
    """The response format of an agent, analysed once when it is built.

    Attributes:
        initial: the strategy that `ModelRequest.response_format` shows; a raw schema is an AutoStrategy.
        declared: the tool of each schema that a call may ask for, by name. Empty for a ProviderStrategy.
    """

    initial: ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]
    declared: Declared

    @classmethod
    def of(cls, response_format: Any) -> "ResponsePlan | None":
        """Analyse the argument `response_format` of `create_agent`.

        Args:
            response_format: a strategy, a raw schema, or None.

        Returns:
            The plan; None if no structured output is wanted.

        Raises:
            ConfigurationError: it is neither, or its schema cannot work.
        """
        if response_format is None:
            return None
        strategy = as_strategy(response_format)
        if isinstance(strategy, ProviderStrategy):
            return cls(strategy, MappingProxyType({}))
        tool_form = strategy.tool_form if isinstance(strategy, AutoStrategy) else strategy
        bindings = [OutputToolBinding.from_schema_spec(spec) for spec in tool_form.schema_specs]
        return cls(strategy, MappingProxyType({binding.tool.name: binding for binding in bindings}))


def resolve(
    response_format: Any, *, model: Any, tools_bound: bool, declared: Declared, native: bool | None = None
) -> Format:
    """Decide how the structured answer is asked for in one model call.

    Args:
        response_format: the request's: a strategy, a raw schema, or None. An unchanged one is not analysed again.
        model: the request's chat model.
        tools_bound: whether the request has tools of its own.
        declared: the plan's `declared`, empty if the agent has no plan.
        native: whether the provider's own structured output can be used; None to find out from the model.

    Returns:
        The format of this call.

    Raises:
        ConfigurationError: the response format is none, or asks for a tool of a schema that the agent did not declare.
    """
    if response_format is None:
        return Plain(declared)
    strategy = as_strategy(response_format)
    if isinstance(strategy, AutoStrategy):
        enforced = supports_native(model, tools_bound=tools_bound) if native is None else native
        strategy = (strategy.provider_form if enforced else None) or strategy.tool_form
    if isinstance(strategy, ProviderStrategy):
        return NativeFormat(strategy, declared)
    return ToolFormat(strategy, _offered(strategy, declared), declared)


def _offered(strategy: ToolStrategy[Any], declared: Declared) -> Declared:
    offered: dict[str, OutputToolBinding[Any]] = {}
    for spec in strategy.schema_specs:
        names = [name for name, binding in declared.items() if binding.schema == spec.schema]
        if not names:
            known = ", ".join(declared) or "none: it was created with no response_format or with a ProviderStrategy"
            raise ConfigurationError(
                f"The request asks for the schema {spec.name!r}, which the agent did not declare. Declared: {known}. "
                "Name it in create_agent(response_format=ToolStrategy(A | B)) and narrow that in the request."
            )
        offered[names[0]] = declared[names[0]]
    return offered
