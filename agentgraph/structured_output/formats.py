"""How a structured answer is asked for and read in one model call: as nothing, as a tool call, or as enforced JSON.

A `Reading` says what to do about a missing or bad answer; how often it is asked for again is the model node's matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from pydantic_core import to_json

from agentgraph.errors import ConfigurationTypeError
from agentgraph.models.refusals import refusal_in
from agentgraph.structured_output.errors import (
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    StructuredOutputError,
    StructuredOutputValidationError,
)
from agentgraph.structured_output.schemas import SchemaMismatchError, excerpt
from agentgraph.structured_output.strategies import (
    ErrorPolicy,
    OutputToolBinding,
    ProviderStrategy,
    ProviderStrategyBinding,
    ToolStrategy,
)

__all__ = ["Binding", "Declared", "Format", "NativeFormat", "Plain", "Reading", "ToolFormat", "prose_feedback"]

Declared = Mapping[str, OutputToolBinding[Any]]

_LONGEST_VALUE = 2000


@dataclass(frozen=True)
class Binding:
    """What a format adds to a model call.

    Attributes:
        tools: the structured-output tools, to be bound after the request's own; the same tuple members in every call.
        tool_choice: what the call demands unless the request sets a choice itself.
        settings: keyword arguments for the model; those of the request win.
    """

    tools: tuple[BaseTool, ...] = ()
    tool_choice: Any | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """What a message of the model's means for the structured answer.

    Attributes:
        messages: answers to its structured calls, to stand after the AIMessage, in the order of the calls. Ordinary
            calls are not among them.
        structured_response: the accepted answer; None if there is none in this message.
        error: why there is none although one was due; None if there is one or none was due (ordinary calls go first).
        instruction: text of a human message that asks again, where no ToolMessage in `messages` does. None together
            with an error and without `messages` means that asking again is no use: raise the error.
    """

    messages: list[ToolMessage] = field(default_factory=list)
    structured_response: Any = None
    error: StructuredOutputError | None = None
    instruction: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing has to be asked for again."""
        return self.error is None


class Format(Protocol):
    """How the answer is asked for and read in one model call."""

    def bind(self) -> Binding:
        """Say what the model call needs for it."""
        ...

    def read(self, message: AIMessage) -> Reading:
        """Read the model's message.

        Raises:
            StructuredOutputError: the answer is bad, and the strategy's `handle_errors` says to raise.
        """
        ...


@dataclass(frozen=True)
class Plain:
    """No structured answer is asked for in this call.

    Attributes:
        declared: the agent's structured-output tools; a call of one of them, from memory, is answered with an error.
    """

    declared: Declared = field(default_factory=dict)

    def bind(self) -> Binding:
        """Add nothing."""
        return Binding()

    def read(self, message: AIMessage) -> Reading:
        """Look only for calls of tools that were not offered."""
        return _without_answer(message, self.declared, offered=(), instruction="")


@dataclass(frozen=True)
class ToolFormat:
    """The answer comes as a call of one of the offered tools.

    Attributes:
        strategy: says how errors are handled and what the accepted call is answered.
        offered: the tools in effect, by name.
        declared: all structured-output tools of the agent, by name.
    """

    strategy: ToolStrategy[Any]
    offered: Declared
    declared: Declared

    def bind(self) -> Binding:
        """Add the tools, and demand that one is called."""
        return Binding(tools=tuple(binding.tool for binding in self.offered.values()), tool_choice="any")

    def read(self, message: AIMessage) -> Reading:
        """Accept one call that fits; tell the model about all else, or raise, as the strategy says."""
        names = tuple(self.offered)
        calls = [call for call in message.tool_calls if call["name"] in self.offered]
        if not calls:
            return _without_answer(message, self.declared, offered=names, instruction=prose_feedback(names))
        status: Literal["success", "error"] = "success"
        value, error = None, None
        try:
            value = self._value(calls, message)
            text = self.strategy.tool_message_content or f"Accepted as the final answer: {_value_text(value)}"
        except StructuredOutputError as raised:
            told = _told(self.strategy.handle_errors, raised)
            if told is None:
                raise
            text, status, error = told, "error", raised
        answers = dict.fromkeys(names, (text, status))
        return Reading(_answers(message, self.declared, answers), structured_response=value, error=error)

    def _value(self, calls: Sequence[ToolCall], message: AIMessage) -> Any:
        if len(calls) > 1:
            raise MultipleStructuredOutputsError([call["name"] for call in calls], message)
        name = calls[0]["name"]
        try:
            return self.offered[name].parse(calls[0]["args"])
        except SchemaMismatchError as error:
            raise StructuredOutputValidationError(name, error, message) from error


@dataclass(frozen=True)
class NativeFormat:
    """The answer comes as JSON text that the provider enforces.

    Attributes:
        strategy: has the schema and the settings of the call.
        declared: the agent's structured-output tools, none of which is offered.
    """

    strategy: ProviderStrategy[Any]
    declared: Declared = field(default_factory=dict)

    def bind(self) -> Binding:
        """Add the provider's settings."""
        return Binding(settings=self.strategy.to_model_kwargs())

    def read(self, message: AIMessage) -> Reading:
        """Validate the text, unless the model calls tools first."""
        spec = self.strategy.schema_spec
        again = prose_feedback([spec.name], native=True)
        if message.tool_calls or message.invalid_tool_calls or _refusal(message) or not message.text.strip():
            return _without_answer(message, self.declared, offered=(spec.name,), instruction=again)
        try:
            value = ProviderStrategyBinding.from_schema_spec(spec).parse(message)
        except SchemaMismatchError as error:
            return Reading(
                error=StructuredOutputValidationError(spec.name, error, message), instruction=f"{error}\n{again}"
            )
        return Reading(structured_response=value)


def prose_feedback(names: Sequence[str], *, native: bool = False) -> str:
    """Tell a model that answered in prose, or not at all, what to do.

    Args:
        names: the schemas of which one is expected.
        native: whether the answer is due as JSON text instead of as a tool call.

    Returns:
        Text for a human message.
    """
    listed = " or ".join(map(repr, names))
    if native:
        return (
            f"The final answer has to be one JSON object that fits the schema {listed}, without text around it. "
            "Give it now."
        )
    return (
        f"The final answer has to be a call of the tool {listed}, not text. Call it now, exactly once, with your "
        "answer as its arguments."
    )


def _told(policy: ErrorPolicy, error: StructuredOutputError) -> str | None:
    """Decide what the model is told of an error; None to raise it."""
    if isinstance(policy, bool):
        return _error_text(error) if policy else None
    if isinstance(policy, str):
        return policy or _error_text(error)
    if isinstance(policy, type | tuple):
        return _error_text(error) if any(isinstance(cause, policy) for cause in _causes(error)) else None
    text: object = policy(error)
    if not isinstance(text, str):
        raise ConfigurationTypeError(
            f"handle_errors {excerpt(policy)} returned {excerpt(text)}. Expected the text that the model is told."
        )
    return text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _error_text(error: StructuredOutputError) -> str:
    if isinstance(error, StructuredOutputValidationError):
        return f"{error.source}\nCall {error.tool_name!r} again, with arguments that fit its schema."
    return f"{error} Call one tool for the final answer again, exactly once."


def _without_answer(message: AIMessage, declared: Declared, *, offered: Sequence[str], instruction: str) -> Reading:
    """Read a message that holds no structured answer: of ordinary calls, calls not offered, prose, or a refusal."""
    expected = ", ".join(map(repr, offered))
    if messages := _answers(message, declared, {}):
        return Reading(messages, error=MissingStructuredOutputError(offered, message))
    if not expected or message.tool_calls or message.invalid_tool_calls:
        return Reading()
    refusal = _refusal(message)
    error = MissingStructuredOutputError(offered, message, refusal=refusal)
    return Reading(error=error, instruction=None if refusal else instruction)


def _answers(
    message: AIMessage, declared: Declared, texts: Mapping[str, tuple[str, Literal["success", "error"]]]
) -> list[ToolMessage]:
    """Answer each structured call, in the order of the calls; one without a text was not offered in this turn."""
    answers = []
    for call in message.tool_calls:
        name = call["name"]
        if name in declared:
            text, status = texts.get(name, (f"The tool {name!r} is not available in this turn.", "error"))
            answers.append(ToolMessage(text, name=name, tool_call_id=call["id"] or "", status=status))
    return answers


def _value_text(value: Any) -> str:
    try:
        text = to_json(value, inf_nan_mode="constants", fallback=repr).decode()
    except ValueError:
        return excerpt(value, _LONGEST_VALUE)
    return excerpt(text, _LONGEST_VALUE)


def _refusal(message: AIMessage) -> str | None:
    """Find the refusal of the model's or provider's that stands in place of an answer."""
    refusal = refusal_in(message)
    return None if refusal is None else refusal["refusal"] or "no reason given"
