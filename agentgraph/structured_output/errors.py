"""What goes wrong with a structured answer. The tree is drawn in `agentgraph.errors`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage

from agentgraph.errors import RunError
from agentgraph.structured_output.schemas import excerpt

__all__ = [
    "MissingStructuredOutputError",
    "MultipleStructuredOutputsError",
    "StructuredOutputError",
    "StructuredOutputValidationError",
]


class StructuredOutputError(RunError):
    """A structured answer was promised and did not come as it should.

    Attributes:
        ai_message: the message of the model's that should have held it.
    """

    ai_message: AIMessage


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model gave more than one structured answer in a turn.

    Attributes:
        tool_names: the names of the tools that were called, one for each answer.
        ai_message: the message with the calls.
    """

    def __init__(self, tool_names: list[str], ai_message: AIMessage) -> None:
        self.tool_names = tool_names
        self.ai_message = ai_message
        super().__init__(
            f"The model gave {len(tool_names)} structured answers in one turn: {excerpt(', '.join(tool_names), 300)}. "
            "Expected exactly one."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args`, which holds the finished text instead of its parts.
        return type(self), (self.tool_names, self.ai_message)


class StructuredOutputValidationError(StructuredOutputError):
    """The model's structured answer does not fit its schema.

    Attributes:
        tool_name: the name of the schema, or of the tool that stands for it.
        source: what the validation raised.
        ai_message: the message with the answer.
    """

    def __init__(self, tool_name: str, source: Exception, ai_message: AIMessage) -> None:
        self.tool_name = tool_name
        self.source = source
        self.ai_message = ai_message
        self.__cause__ = source
        super().__init__(f"The structured answer for {tool_name!r} was not accepted. {excerpt(str(source), 4000)}")

    def __reduce__(self) -> tuple[Any, ...]:
        # See MultipleStructuredOutputsError.
        return type(self), (self.tool_name, self.source, self.ai_message)


class MissingStructuredOutputError(StructuredOutputError):
    """The model gave no structured answer: it wrote prose, refused, or called a tool that was not offered.

    Attributes:
        schema_names: the names of the schemas of which one was expected.
        ai_message: the message without the answer.
        refusal: the model's or provider's words, if it refused.
    """

    def __init__(self, schema_names: Sequence[str], ai_message: AIMessage, *, refusal: str | None = None) -> None:
        self.schema_names = tuple(schema_names)
        self.ai_message = ai_message
        self.refusal = refusal
        expected = excerpt(" or ".join(map(repr, self.schema_names)) or "none", 300)
        given = f"refused: {excerpt(refusal, 300)!r}" if refusal else f"wrote: {excerpt(str(ai_message.text), 300)!r}"
        super().__init__(
            f"The model gave no structured answer. Expected {expected}; it {given}. "
            "Try a more capable model, a system prompt that asks for this answer, or another strategy: "
            "ProviderStrategy(...) where the server keeps answers to a schema, else ToolStrategy(...)."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # See MultipleStructuredOutputsError.
        return partial(type(self), refusal=self.refusal), (self.schema_names, self.ai_message)
