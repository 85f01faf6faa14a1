"""One call of a Chat Completions server: its request, mended where the server refuses a parameter, and its answer."""

from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import BadRequestError
from agentgraph.models import wire
from agentgraph.models.openai_codec import Asked, StreamReader, read_answer, read_events
from agentgraph.models.openai_request import without_refused
from agentgraph.models.tagged_thoughts import TaggedThoughts, ThoughtStreamReader, with_thoughts
from agentgraph.models.transport import EVENTS_KEY, Reply
from agentgraph.models.wire import Link

__all__ = ["PATH", "Call"]

PATH = "chat/completions"


@dataclass(slots=True)
class Call:
    """One call: its request, which a refusal may change once for each parameter, and what reading the answer needs."""

    link: Link
    body: dict[str, Any]
    asked: Asked
    mended: list[str] = field(default_factory=list)
    thoughts: TaggedThoughts | None = None

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
        return with_thoughts(ChatResult(generations=[ChatGeneration(message=message)]), self.thoughts)

    @property
    def path(self) -> str:
        """Of Chat Completions."""
        return PATH

    def reader(self) -> wire.StreamReader:
        """Give a reader of the streamed answer."""
        reader = StreamReader(self.asked)
        return reader if self.thoughts is None else ThoughtStreamReader(reader, self.thoughts)
