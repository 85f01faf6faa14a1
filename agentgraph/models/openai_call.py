"""One call of a Chat Completions server: its request, mended where the server refuses a parameter, and its answer.

The effects between the pure parts: the only place where `ChatOpenAI` touches the transport.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import BadRequestError, ModelConnectionError, TruncatedStreamError
from agentgraph.models.failures import Origin
from agentgraph.models.openai_codec import Asked, StreamReader, read_answer, read_events
from agentgraph.models.openai_request import without_refused
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.transport import EVENTS_KEY, Reply, Transport

__all__ = ["PATH", "Call", "Link", "acomplete", "aevents_of", "complete", "events_of"]

PATH = "chat/completions"


@dataclass(slots=True)
class Link:
    """A transport with the settings it was made of, and what its server has refused so far."""

    made_of: tuple[Any, ...]
    transport: Transport
    origin: Origin
    refused: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One call: its request, which a refusal may change once for each parameter, and what reading the answer needs."""

    link: Link
    body: dict[str, Any]
    asked: Asked
    mended: list[str] = field(default_factory=list)

    def mend(self, error: BadRequestError) -> None:
        """Leave out the parameter that the server refuses by name, now and later; raise `error` if that is not it."""
        mended = without_refused(self.body, str(error))
        if mended is None or mended[1] in self.mended:
            raise error
        self.body, refused = mended
        self.mended.append(refused)
        # Calls that were under way together are all refused: the first of them tells it to later ones.
        if refused not in self.link.refused:
            self.link.refused.append(refused)

    def result(self, reply: Reply) -> ChatResult:
        """Read a whole answer."""
        asked = replace(self.asked, request_id=reply.request_id)
        body: Any = reply.json
        events = body.get(EVENTS_KEY) if isinstance(body, dict) else None
        message = read_answer(body, asked) if events is None else read_events(events, asked)
        return ChatResult(generations=[ChatGeneration(message=message)])


def complete(call: Call) -> ChatResult:
    """Ask for the whole answer."""
    while True:
        try:
            reply = call.link.transport.post(PATH, call.body)
        except BadRequestError as error:
            call.mend(error)
        else:
            return call.result(reply)


async def acomplete(call: Call) -> ChatResult:
    """As `complete`, awaited."""
    while True:
        try:
            reply = await call.link.transport.apost(PATH, call.body)
        except BadRequestError as error:
            call.mend(error)
        else:
            return call.result(reply)


def events_of(call: Call, reader: StreamReader) -> Generator[ServerSentEvent, None, None]:
    """Yield the events of a stream; a failure behind the end of the answer is none, before it has what came."""
    while True:
        try:
            with closing(call.link.transport.stream(PATH, call.body, on_reply=reader.opened)) as events:
                yield from events
        except BadRequestError as error:
            call.mend(error)
        except (TruncatedStreamError, ModelConnectionError) as error:
            reader.broken(error)
            return
        else:
            return


async def aevents_of(call: Call, reader: StreamReader) -> AsyncGenerator[ServerSentEvent, None]:
    """As `events_of`, awaited."""
    while True:
        try:
            async with aclosing(call.link.transport.astream(PATH, call.body, on_reply=reader.opened)) as events:
                async for event in events:
                    yield event
        except BadRequestError as error:
            call.mend(error)
        except (TruncatedStreamError, ModelConnectionError) as error:
            reader.broken(error)
            return
        else:
            return
