"""Structured output: the promise of `structured_response`, from `response_format` to the checked value.

What a user writes is a strategy or a raw schema. In a run it is used in three steps:

1. `ResponsePlan.of` analyses it when the agent is built.
2. `resolve` decides at each model call, on the request's model, which `Format` holds: `Plain`, `ToolFormat` or
   `NativeFormat`. No other place asks which strategy it is.
3. The format says what to bind to the model (`Format.bind`) and what a message of the model's means (`Format.read`).

A `Reading` says what to do about a missing or bad answer; how often it is asked for again is the model node's matter.
"""

from agentgraph.structured_output.errors import (
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    StructuredOutputError,
    StructuredOutputValidationError,
)
from agentgraph.structured_output.formats import (
    Binding,
    Format,
    NativeFormat,
    Plain,
    Reading,
    ToolFormat,
    prose_feedback,
)
from agentgraph.structured_output.native_support import supports_native
from agentgraph.structured_output.resolving import ResponsePlan, resolve
from agentgraph.structured_output.schemas import SchemaMismatchError, SchemaSpec
from agentgraph.structured_output.strategies import (
    AutoStrategy,
    OutputToolBinding,
    ProviderStrategy,
    ProviderStrategyBinding,
    ResponseFormat,
    ToolStrategy,
)

__all__ = [
    "AutoStrategy",
    "Binding",
    "Format",
    "MissingStructuredOutputError",
    "MultipleStructuredOutputsError",
    "NativeFormat",
    "OutputToolBinding",
    "Plain",
    "ProviderStrategy",
    "ProviderStrategyBinding",
    "Reading",
    "ResponseFormat",
    "ResponsePlan",
    "SchemaMismatchError",
    "SchemaSpec",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolFormat",
    "ToolStrategy",
    "prose_feedback",
    "resolve",
    "supports_native",
]
