"""One call of a model's server, whatever the wire format: asked whole or streamed, sync or async.

The effects between the pure parts of a format: the only place where a chat model touches the transport. A format brings
a `WireCall` (its request, and how an answer is read) and a `StreamReader` (the same for a stream, event by event).
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agentgraph.errors import BadRequestError, ModelConnectionError, ModelError, TruncatedStreamError
from agentgraph.models.failures import Origin
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.transport import Reply, Transport

__all__ = ["Link", "Opened", "StreamReader", "WireCall", "acomplete", "astream_chunks", "complete", "stream_chunks"]


@dataclass(slots=True)
class Link:
    """A transport with the settings it was made of, and what its server has refused so far."""

    made_of: tuple[Any, ...]
    transport: Transport
    origin: Origin
    refused: list[str] = field(default_factory=list)


class Opened(Protocol):
    """What is known of an answer before its first event."""

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request."""
        ...


class StreamReader(Protocol):
    """Makes message chunks of the events of one streamed answer."""

    def opened(self, reply: Opened) -> None:
        """Take notice of status and headers."""

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Read an event."""
        ...

    def finish(self) -> list[AIMessageChunk]:
        """Read the end; raises where the end of the format did not come."""
        ...

    def broken(self, error: ModelError) -> None:
        """Take notice that the connection broke; raises the error, with what came, unless the answer was complete."""


class WireCall(Protocol):
    """One call: its request, which a refusal may change, and the reading of its answer.

    Attributes:
        link: to the server.
        path: below the server's base URL.
        body: of the request.
    """

    link: Link
    body: dict[str, Any]

    @property
    def path(self) -> str:
        """Below the server's base URL."""
        ...

    def mend(self, error: BadRequestError) -> None:
        """Change the request so that it may be sent again; raise `error` where that cannot help."""

    def result(self, reply: Reply) -> ChatResult:
        """Read a whole answer."""
        ...

    def reader(self) -> StreamReader:
        """Give a reader of the streamed answer."""
        ...


def complete(call: WireCall) -> ChatResult:
    """Ask for the whole answer."""
    while True:
        try:
            reply = call.link.transport.post(call.path, call.body)
        except BadRequestError as error:
            call.mend(error)
        else:
            return call.result(reply)


async def acomplete(call: WireCall) -> ChatResult:
    """As `complete`, awaited."""
    while True:
        try:
            reply = await call.link.transport.apost(call.path, call.body)
        except BadRequestError as error:
            call.mend(error)
        else:
            return call.result(reply)


def stream_chunks(call: WireCall) -> Generator[ChatGenerationChunk, None, None]:
    """Ask for the answer in pieces; closing the generator closes the connection."""
    reader = call.reader()
    with closing(_events_of(call, reader)) as events:
        for event in events:
            for chunk in reader.feed(event):
                yield ChatGenerationChunk(message=chunk)
    for chunk in reader.finish():
        yield ChatGenerationChunk(message=chunk)


async def astream_chunks(call: WireCall) -> AsyncGenerator[ChatGenerationChunk, None]:
    """As `stream_chunks`, awaited."""
    reader = call.reader()
    async with aclosing(_aevents_of(call, reader)) as events:
        async for event in events:
            for chunk in reader.feed(event):
                yield ChatGenerationChunk(message=chunk)
    for chunk in reader.finish():
        yield ChatGenerationChunk(message=chunk)


def _events_of(call: WireCall, reader: StreamReader) -> Generator[ServerSentEvent, None, None]:
    """Yield the events of a stream; a failure behind the end of the answer is none, before it has what came."""
    while True:
        try:
            with closing(call.link.transport.stream(call.path, call.body, on_reply=reader.opened)) as events:
                yield from events
        except BadRequestError as error:
            call.mend(error)
        except (TruncatedStreamError, ModelConnectionError) as error:
            reader.broken(error)
            return
        else:
            return


async def _aevents_of(call: WireCall, reader: StreamReader) -> AsyncGenerator[ServerSentEvent, None]:
    """As `_events_of`, awaited."""
    while True:
        try:
            async with aclosing(call.link.transport.astream(call.path, call.body, on_reply=reader.opened)) as events:
                async for event in events:
                    yield event
        except BadRequestError as error:
            call.mend(error)
        except (TruncatedStreamError, ModelConnectionError) as error:
            reader.broken(error)
            return
        else:
            return
