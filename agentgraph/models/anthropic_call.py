"""One call of a Messages server: its request and its answer, and how an answer goes on that the provider paused."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import BadRequestError, ServerError
from agentgraph.models.anthropic_codec import Asked, StreamReader, read_answer, read_events
from agentgraph.models.transport import EVENTS_KEY, Reply
from agentgraph.models.wire import Link

__all__ = ["PATH", "Call", "Turn"]

PATH = "messages"
# A turn of many searches pauses now and then; one that does so for ever would cost for ever.
_MOST_PAUSES = 20


@dataclass(slots=True)
class Call:
    """One call: its request, and what reading the answer needs."""

    link: Link
    body: dict[str, Any]
    asked: Asked

    @property
    def path(self) -> str:
        """Of the Messages API."""
        return PATH

    def mend(self, error: BadRequestError) -> None:
        """Raise the error: this API has no optional parameters that servers are known to refuse."""
        raise error

    def result(self, reply: Reply) -> ChatResult:
        """Read a whole answer."""
        asked = replace(self.asked, request_id=reply.request_id)
        body: Any = reply.json
        events = body.get(EVENTS_KEY) if isinstance(body, dict) else None
        message = read_answer(body, asked) if events is None else read_events(events, asked)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def reader(self) -> StreamReader:
        """Give a reader of the streamed answer."""
        return StreamReader(self.asked)


@dataclass(slots=True)
class Turn:
    """One turn of the assistant, which takes several calls where the provider pauses amid its own tools.

    The provider is sent what it said so far and goes on. What is handed to the user is one message.

    Attributes:
        messages: the conversation.
        said: what came of the turn.
    """

    messages: Sequence[BaseMessage]
    said: list[AIMessageChunk] = field(default_factory=list)
    pauses: int = 0

    def conversation(self) -> list[BaseMessage]:
        """Give what the next call is asked."""
        return [*self.messages, add_ai_message_chunks(*self.said)] if self.said else list(self.messages)

    def continued(self, call: Call) -> Call:
        """Have a call number its blocks behind those that came."""
        blocks = [block for chunk in self.said for block in chunk.content if isinstance(block, dict)]
        first = max((block.get("index", -1) for block in blocks), default=-1) + 1
        return replace(call, asked=replace(call.asked, first=first, plain=call.asked.plain and not self.said))

    def goes_on(self, chunks: Sequence[AIMessageChunk]) -> bool:
        """Take what a call brought; whether the provider paused and has to be asked again.

        Raises:
            ServerError: it pauses without end.
        """
        self.said += chunks
        if any(chunk.chunk_position == "last" for chunk in chunks):
            return False
        self.pauses += 1
        if self.pauses > _MOST_PAUSES:
            raise ServerError(f"The provider paused the turn {self.pauses} times and did not end it.", retryable=False)
        return True

    def result(self, result: ChatResult) -> ChatResult | None:
        """Take a whole answer; None where the provider paused and has to be asked again."""
        message = result.generations[0].message
        if not isinstance(message, AIMessageChunk) and not self.said:
            return result
        chunk = message if isinstance(message, AIMessageChunk) else _as_last_chunk(message)
        if self.goes_on([chunk]):
            return None
        whole = message_chunk_to_message(add_ai_message_chunks(*self.said))
        return ChatResult(generations=[ChatGeneration(message=whole)])


def _as_last_chunk(message: BaseMessage) -> AIMessageChunk:
    assert isinstance(message, AIMessage)  # noqa: S101 narrows what langchain-core types as any message
    fields = {key: value for key, value in message.model_dump().items() if key not in {"type", "tool_calls"}}
    return AIMessageChunk(**fields, tool_calls=message.tool_calls, chunk_position="last")
