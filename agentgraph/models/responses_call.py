"""One call of a Responses server: its request, mended where the server refuses a part of it, and its answer."""

from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import BadRequestError
from agentgraph.models.responses_codec import Asked, StreamReader, read_answer, read_events
from agentgraph.models.responses_request import THOUGHTS, without_refused
from agentgraph.models.transport import EVENTS_KEY, Reply
from agentgraph.models.wire import Link

__all__ = ["PATH", "Call"]

PATH = "responses"


@dataclass(slots=True)
class Call:
    """One call: its request, which a refusal may change once for each part, and what reading the answer needs."""

    link: Link
    body: dict[str, Any]
    asked: Asked
    mended: list[str] = field(default_factory=list)

    def mend(self, error: BadRequestError) -> None:
        """Leave out what the server refuses by name; raise `error` if that is not it.

        A parameter is not sent again later. Thoughts are: those of another conversation may be fine.
        """
        mended = without_refused(self.body, str(error))
        if mended is None or mended[1] in self.mended:
            raise error
        self.body, refused = mended
        self.mended.append(refused)
        if refused != THOUGHTS and refused not in self.link.refused:
            self.link.refused.append(refused)

    def result(self, reply: Reply) -> ChatResult:
        """Read a whole answer."""
        asked = replace(self.asked, request_id=reply.request_id)
        body: Any = reply.json
        events = body.get(EVENTS_KEY) if isinstance(body, dict) else None
        message = read_answer(body, asked) if events is None else read_events(events, asked)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def path(self) -> str:
        """Of the Responses API."""
        return PATH

    def reader(self) -> StreamReader:
        """Give a reader of the streamed answer."""
        return StreamReader(self.asked)
