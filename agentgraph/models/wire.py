"""One call of a model's server, whatever the wire format: asked whole or streamed, sync or async.

The effects between the pure parts of a format: the only place where a chat model touches the transport. A format brings
a `WireCall` (its request, and how an answer is read) and a `StreamReader` (the same for a stream, event by event).
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agentgraph.errors import BadRequestError, ModelConnectionError, ModelError, TruncatedStreamError
from agentgraph.models.chunks import generation_of
from agentgraph.models.failures import Origin
from agentgraph.models.leaked_messages import LeakedStreamReader, offered_names, with_leaked_calls
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.transport import Reply, Transport
from agentgraph.models.urls import redact_url

__all__ = ["Link", "Opened", "StreamReader", "WireCall", "acomplete", "astream_chunks", "complete", "stream_chunks"]


@dataclass(slots=True)
class Link:
    """A transport with the settings it was made of, and what its server has refused so far.

    Attributes:
        made_of: the settings.
        transport: made of them.
        origin: whom it asks, for errors.
        refused: parameters that the server has refused.
        calls_in_text: whether its model writes tool calls as text, although the server was given tools.
    """

    made_of: tuple[Any, ...]
    transport: Transport
    origin: Origin
    refused: list[str] = field(default_factory=list)
    calls_in_text: bool = False

    def asked_at(self, path: str) -> Origin:
        """Whom a call of this path asks, for the errors that stand in its answer.

        Args:
            path: below the server's base URL.
        """
        return replace(self.origin, url=redact_url(self.transport.url(path)))


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
        asked: what reading the answer needs to know; `names` in it are of the tools that were sent under another.
    """

    link: Link
    body: dict[str, Any]
    asked: Any

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
            return _result_of(call, reply)


async def acomplete(call: WireCall) -> ChatResult:
    """As `complete`, awaited."""
    while True:
        try:
            reply = await call.link.transport.apost(call.path, call.body)
        except BadRequestError as error:
            call.mend(error)
        else:
            return _result_of(call, reply)


def stream_chunks(call: WireCall) -> Generator[ChatGenerationChunk, None, None]:
    """Ask for the answer in pieces; closing the generator closes the connection."""
    reader = _reader_of(call)
    with closing(_batches_of(call, reader)) as batches:
        for events in batches:
            for event in events:
                for chunk in reader.feed(event):
                    yield generation_of(chunk)
    for chunk in reader.finish():
        yield generation_of(chunk)


async def astream_chunks(call: WireCall) -> AsyncGenerator[ChatGenerationChunk, None]:
    """As `stream_chunks`, awaited."""
    reader = _reader_of(call)
    async with aclosing(_abatches_of(call, reader)) as batches:
        async for events in batches:
            for event in events:
                for chunk in reader.feed(event):
                    yield generation_of(chunk)
    for chunk in reader.finish():
        yield generation_of(chunk)


def _leaking(call: WireCall) -> dict[str, str]:
    """The tools whose calls may stand in the text of the answer."""
    return offered_names(call.body, getattr(call.asked, "names", {})) if call.link.calls_in_text else {}


def _result_of(call: WireCall, reply: Reply) -> ChatResult:
    result, names = call.result(reply), _leaking(call)
    return with_leaked_calls(result, names) if names else result


def _reader_of(call: WireCall) -> StreamReader:
    reader, names = call.reader(), _leaking(call)
    return LeakedStreamReader(reader, names) if names else reader


def _batches_of(call: WireCall, reader: StreamReader) -> Generator[list[ServerSentEvent], None, None]:
    """Yield the events of a stream; a failure behind the end of the answer is none, before it has what came."""
    while True:
        try:
            with closing(call.link.transport.batches(call.path, call.body, on_reply=reader.opened)) as batches:
                yield from batches
        except BadRequestError as error:
            call.mend(error)
        except (TruncatedStreamError, ModelConnectionError) as error:
            reader.broken(error)
            return
        else:
            return


async def _abatches_of(call: WireCall, reader: StreamReader) -> AsyncGenerator[list[ServerSentEvent], None]:
    """As `_batches_of`, awaited."""
    while True:
        try:
            async with aclosing(call.link.transport.abatches(call.path, call.body, on_reply=reader.opened)) as batches:
                async for events in batches:
                    yield events
        except BadRequestError as error:
            call.mend(error)
        except (TruncatedStreamError, ModelConnectionError) as error:
            reader.broken(error)
            return
        else:
            return
