"""What a text protocol is: tool calls written as text, for models without native tool calls.

A protocol stands between the model node and the chat model. Before a call it describes the tools in the prompt and
rewrites earlier calls and results into its text; after a call it reads the answer, whole or streamed, back into
ordinary tool calls. Nothing after the model node knows which protocol it was.

The shape follows the four steps of Toolformer and ReAct prompting (arXiv 2302.04761, 2210.03629): describe, show,
constrain, read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentgraph.errors import ConfigurationError

__all__ = [
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Event",
    "Parsed",
    "ReasoningDelta",
    "StreamParser",
    "TextDelta",
    "TextProtocol",
    "ToolOffer",
    "ToolResult",
    "ToolSpec",
    "WrittenCall",
]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told about a tool.

    Attributes:
        name: the name by which it is called.
        description: what it does, in the words of its author; "" if there are none.
        parameters: JSON schema (an object) of its arguments, without injected ones.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, tool: BaseTool | Callable[..., Any] | type | Mapping[str, Any]) -> "ToolSpec":
        """Read a tool, a callable, a schema class or an OpenAI function dict.

        Raises:
            ConfigurationError: the tool has no name and schema that could be written into a prompt, as the tools that
                run on a provider's side (`{"type": "web_search"}`).
        """
        source = dict(tool) if isinstance(tool, Mapping) else tool
        try:
            converted = convert_to_openai_tool(source)
        except ValueError as error:
            raise ConfigurationError(_not_a_tool(tool)) from error
        function = converted.get("function")
        if not isinstance(function, Mapping) or not function.get("name"):
            raise ConfigurationError(_not_a_tool(tool))
        return cls(
            name=str(function["name"]),
            description=str(function.get("description") or ""),
            parameters=function.get("parameters") or {"type": "object", "properties": {}},
        )


def _not_a_tool(tool: object) -> str:
    return (
        f"{tool!r:.200} cannot be offered through a text protocol: a protocol writes name, description and argument "
        "schema into the prompt. Give a tool of your own (a BaseTool, a function, a function dict); tools that run on "
        "a provider's side need that provider's native tool calls (tool_protocol=None)."
    )


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """Which tools a turn may call, and whether it must. What `tool_choice` comes to.

    Attributes:
        tools: the tools that may be called now; empty when none may (`tool_choice="none"`).
        required: whether the turn must be a call (`tool_choice="any"` or the name of a tool).
        parallel: whether one turn may hold several calls, where the format can say so.
    """

    tools: tuple[ToolSpec, ...]
    required: bool = False
    parallel: bool = True

    @classmethod
    def of(cls, tools: Sequence[ToolSpec], tool_choice: object = None, *, parallel: bool = True) -> "ToolOffer":
        """Make the offer that a `tool_choice` means.

        Args:
            tools: all bound tools.
            tool_choice: None or "auto" (free), "any", "required" or True (some tool), "none" or False (no tool), the
                name of a tool, or a provider's dict that names one.
            parallel: whether one turn may hold several calls.

        Raises:
            ConfigurationError: the choice names a tool that is not bound, or is none of the forms above.
        """
        everything = tuple(tools)
        name = _mode_or_name(tool_choice)
        if name == "auto":
            return cls(everything, parallel=parallel)
        if name == "none":
            return cls((), parallel=parallel)
        if name == "any":
            return cls(everything, required=bool(everything), parallel=parallel)
        chosen = tuple(tool for tool in everything if tool.name == name)
        if not chosen:
            names = ", ".join(tool.name for tool in everything) or "(no tools)"
            raise ConfigurationError(
                f"tool_choice={tool_choice!r:.200} names no bound tool. Bound are: {names}. Give one of these names, "
                '"any", "auto" or "none".'
            )
        return cls(chosen, required=True, parallel=parallel)


_MODES = {None: "auto", True: "any", False: "none", "auto": "auto", "any": "any", "required": "any", "none": "none"}


def _mode_or_name(tool_choice: object) -> object:
    if isinstance(tool_choice, Mapping):
        function = tool_choice.get("function")
        named = function if isinstance(function, Mapping) else tool_choice
        kind = tool_choice.get("type")
        return named.get("name") or (_mode_or_name(kind) if kind else tool_choice)
    # A tool may be called "required", but 1 is not True here.
    return _MODES.get(tool_choice, tool_choice) if isinstance(tool_choice, str | bool | None) else tool_choice


# What a parser reports.


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the text for the user, without any mark of the protocol."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's thinking, kept apart from its text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. `name` is as the model wrote it, "" if it wrote none."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the JSON text of the open call's arguments."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The open call is complete, or cannot be read: then `error` says why, in words for the model."""

    error: str | None = None


Event = TextDelta | ReasoningDelta | CallStart | CallArguments | CallEnd


class StreamParser(ABC):
    """Reads one answer as it comes. A new one is made for each answer.

    However the text is cut, the events must add up to the same. A call is reported as CallStart, any number of
    CallArguments that add up to a JSON object, CallEnd. Whether they do is checked by the reader, not here.
    """

    @abstractmethod
    def feed(self, text: str) -> list[Event]:
        """Take the next piece of the answer; return what can be said by now."""

    @abstractmethod
    def close(self) -> list[Event]:
        """The answer has ended; return what was held back. Called once, last."""


class Parsed(NamedTuple):
    """An answer as read.

    Attributes:
        text: the text for the user.
        calls: the tool calls, with fresh ids, in the order in which they were written.
        invalid_calls: calls that could not be read, each with an `error` for the model.
        reasoning: the model's thinking, if it wrote any down.
    """

    text: str
    calls: list[ToolCall]
    invalid_calls: list[InvalidToolCall]
    reasoning: str = ""


# What a history holds.


class WrittenCall(NamedTuple):
    """An earlier tool call. `args` is its broken text when it could not be read at the time."""

    name: str
    args: Mapping[str, Any] | str


class ToolResult(NamedTuple):
    """The result of an earlier call; `failed` is true for a ToolMessage with status "error"."""

    name: str
    text: str
    failed: bool


class TextProtocol(ABC):
    """How tools, calls and results are written as text. Derive from it for a format of your own.

    Four methods make a protocol: `render`, `settings`, `parser` and `rewrite`. The last has a default that is made of
    three small ones (`call_text`, `answer_text`, `result_text`), so that most protocols write those instead.
    Instances are shared by all runs of an agent: keep no state of a run in them.

    Example:
        >>> class Shout(TextProtocol):
        ...     name = "shout"
        ...     reminder = "Write CALL name {json}."
        ...
        ...     def render(self, offer):
        ...         return "Tools: " + ", ".join(tool.name for tool in offer.tools)
        ...
        ...     def parser(self, offer):
        ...         return ShoutParser()
        ...
        ...     def call_text(self, calls, text):
        ...         return " ".join(f"CALL {call.name} {call.args}" for call in calls)
    """

    name: ClassVar[str] = ""
    """Name in errors and traces."""

    reminder: str = ""
    """The format in one sentence. The model is told it when a call of its could not be read."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def render(self, offer: ToolOffer) -> str:
        """Describe the format and the tools; appended to the system prompt. Computed once for an offer.

        Args:
            offer: the tools, at least one, and whether a call is required.
        """

    @abstractmethod
    def parser(self, offer: ToolOffer) -> StreamParser:
        """Make a parser for one answer to this offer."""

    @abstractmethod
    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        """Write an assistant turn that called tools.

        Args:
            calls: at least one call.
            text: what the model said beside them, mostly "".
        """

    def answer_text(self, text: str) -> str:
        """Write an assistant turn that called nothing. Default: the text itself."""
        return text

    def result_text(self, results: Sequence[ToolResult]) -> str:
        """Write the results of one turn's calls, in their order; they become one user turn."""
        return "\n".join(f"{'Error' if failed else 'Result'} of {name}: {text}" for name, text, failed in results)

    def settings(self, offer: ToolOffer) -> Mapping[str, Any]:  # noqa: ARG002 -- part of the contract for subclasses
        """Settings for the model's server: `stop` (a list of words), `response_format`, `grammar`.

        The last two are dropped, once and for all, when the server refuses them. Default: none.
        """
        return {}

    def rewrite(self, messages: Sequence[BaseMessage], offer: ToolOffer) -> list[BaseMessage]:
        """Rewrite a history so that it holds neither tool calls nor tool messages.

        Calls become assistant text; the results that follow them become one user turn, joined with a user's message
        behind it, since many chat templates demand that the roles alternate. Everything else is left as it is. Where
        no tool is offered, plain answers stay plain.
        """
        out: list[BaseMessage] = []
        names: dict[str, str] = {}
        pending: list[ToolMessage] = []
        for message in messages:
            if isinstance(message, ToolMessage):
                pending.append(message)
                continue
            if pending:
                out.append(self._results_turn(pending, names))
                pending = []
                if isinstance(message, HumanMessage):
                    out[-1] = _joined(out[-1], message)
                    continue
            out.append(self._assistant_turn(message, names, offer) if isinstance(message, AIMessage) else message)
        return [*out, self._results_turn(pending, names)] if pending else out

    def _assistant_turn(self, message: AIMessage, names: dict[str, str], offer: ToolOffer) -> BaseMessage:
        calls = [WrittenCall(call["name"], call["args"]) for call in message.tool_calls]
        calls += [WrittenCall(call["name"] or "unknown", call["args"] or "") for call in message.invalid_tool_calls]
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            names[call["id"] or ""] = call["name"] or "unknown"
        if calls:
            return AIMessage(content=self.call_text(calls, message.text), id=message.id, name=message.name)
        if not offer.tools:
            return message
        return AIMessage(content=self.answer_text(message.text), id=message.id, name=message.name)

    def _results_turn(self, messages: Sequence[ToolMessage], names: Mapping[str, str]) -> BaseMessage:
        results = [
            ToolResult(
                name=message.name or names.get(message.tool_call_id, "unknown"),
                text=message.text,
                failed=message.status == "error",
            )
            for message in messages
        ]
        text = self.result_text(results)
        attached = [block for message in messages for block in _not_text(message)]
        return HumanMessage(content=[{"type": "text", "text": text}, *attached] if attached else text)


def _not_text(message: BaseMessage) -> list[str | dict[str, Any]]:
    if isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, dict) and block.get("type") != "text"]


def _joined(results: BaseMessage, message: HumanMessage) -> HumanMessage:
    if isinstance(results.content, str) and isinstance(message.content, str):
        content: str | list[str | dict[str, Any]] = f"{results.content}\n\n{message.content}"
    else:
        content = [
            part
            for piece in (results.content, message.content)
            for part in ([{"type": "text", "text": piece}] if isinstance(piece, str) else piece)
        ]
    return message.model_copy(update={"content": content})
