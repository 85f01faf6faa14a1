"""What happens in a turn, as a list of small values: read from a graph's stream, shown by a screen."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langgraph.types import Overwrite

from agentgraph.cli.plain import plain

__all__ = [
    "Done",
    "Event",
    "EventReader",
    "Failed",
    "Paused",
    "Text",
    "ToolAnswered",
    "ToolCalled",
    "Usage",
    "as_json",
]

TOOLS_NODE = "tools"
BREAKPOINT = "the graph stops here (interrupt_before, interrupt_after); approve to go on"


@dataclass(frozen=True)
class Text:
    """A piece of a message of the model."""

    type: ClassVar[str] = "text"
    id: str | None
    text: str


@dataclass(frozen=True)
class ToolCalled:
    """The model calls a tool."""

    type: ClassVar[str] = "tool_call"
    id: str | None
    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class ToolAnswered:
    """A tool's answer to one call; `status` is "error" when it failed."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str | None
    status: str
    content: str


@dataclass(frozen=True)
class Usage:
    """Tokens, as the provider counts them; zero where it does not say."""

    type: ClassVar[str] = "usage"
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))


@dataclass(frozen=True)
class Paused:
    """The run on `thread` waits for a decision about `value`; without an id it is at a breakpoint of the graph's."""

    type: ClassVar[str] = "interrupt"
    id: str
    value: Any
    thread: str

    @property
    def is_breakpoint(self) -> bool:
        """Whether nothing but going on can be said to it."""
        return not self.id


@dataclass(frozen=True)
class Failed:
    """The run ended with an exception."""

    type: ClassVar[str] = "error"
    error: str
    message: str


@dataclass(frozen=True)
class Done:
    """The end of a turn."""

    type: ClassVar[str] = "done"
    status: Literal["ok", "failed", "paused", "cancelled"]
    structured_response: Any = None


Event = Text | ToolCalled | ToolAnswered | Usage | Paused | Failed | Done


def as_json(event: Event) -> dict[str, Any]:
    """The event as a dictionary of JSON values; what JSON cannot hold becomes its `repr`."""
    values = {part.name: plain(getattr(event, part.name)) for part in fields(event)}
    if isinstance(event, Done) and event.structured_response is None:
        del values["structured_response"]
    return {"type": event.type} | values


@dataclass
class EventReader:
    """Reads the parts of `graph.stream(..., stream_mode=["messages", "updates"])` of one turn.

    Text comes from "messages", piece by piece; calls, results and usage come from "updates", once they are part of
    the state. A hook may write a message that was there before once more: it is not an event again.

    Attributes:
        seen: ids of messages that are known; shared by the turns of a conversation.
        thread: id of the thread, which who answers its questions needs.
    """

    seen: set[str]
    thread: str
    usage: Usage = field(default_factory=Usage)
    pending: list[Paused] = field(default_factory=list)
    structured_response: Any = None
    _streamed: set[str] = field(default_factory=set)

    def read(self, mode: str, payload: Any) -> list[Event]:
        """The events of one part of the stream."""
        if mode == "messages":
            return list(self._read_piece(*payload))
        return [event for node, update in payload.items() for event in self._read_update(node, update)]

    def _read_piece(self, message: BaseMessage, metadata: Mapping[str, Any]) -> Iterator[Event]:
        # A model that runs inside a tool is that tool's own affair; its answer comes as the tool's result.
        if metadata.get("langgraph_node") == TOOLS_NODE or message.id in self.seen:
            return
        if isinstance(message, AIMessage) and message.text:
            self._streamed.add(str(message.id))
            yield Text(message.id, str(message.text))

    def _read_update(self, node: str, update: Any) -> Iterator[Event]:
        if node == "__interrupt__":
            asked = [(interrupt.id, interrupt.value) for interrupt in update] or [("", BREAKPOINT)]
            paused = [Paused(*one, self.thread) for one in asked]
            self.pending.extend(paused)
            yield from paused
            return
        for written in update if isinstance(update, list | tuple) else [update]:
            if isinstance(written, Mapping):
                self.structured_response = written.get("structured_response", self.structured_response)
                for message in _messages_in(written.get("messages")):
                    yield from self._read_message(message)

    def _read_message(self, message: BaseMessage) -> Iterator[Event]:
        if message.id is not None:
            if message.id in self.seen:
                return
            self.seen.add(message.id)
        if isinstance(message, AIMessage):
            yield from self._read_answer(message)
        elif isinstance(message, ToolMessage):
            yield ToolAnswered(message.tool_call_id, message.name, message.status, str(message.text))

    def _read_answer(self, message: AIMessage) -> Iterator[Event]:
        if message.text and str(message.id) not in self._streamed:
            yield Text(message.id, str(message.text))
        if message.usage_metadata is not None:
            counted = message.usage_metadata
            self.usage += Usage(counted["input_tokens"], counted["output_tokens"], counted["total_tokens"])
        for call in message.tool_calls:
            yield ToolCalled(call["id"], call["name"], call["args"])


def _messages_in(written: Any) -> Sequence[BaseMessage]:
    value = written.value if isinstance(written, Overwrite) else written
    if value is None:
        return ()
    try:
        return convert_to_messages(value if isinstance(value, list | tuple) else [value])
    except (NotImplementedError, ValueError, TypeError):
        # A channel called `messages` may hold whatever its graph likes; it is shown only where it holds messages.
        return ()
