"""One call of Ollama's chat: its request, its answer, and what there is to be done about its failures."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import (
    BadRequestError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
)
from agentgraph.models import wire
from agentgraph.models.ollama_codec import Asked, StreamReader, read_events
from agentgraph.models.tagged_thoughts import TaggedThoughts, ThoughtStreamReader, with_thoughts
from agentgraph.models.transport import EVENTS_KEY, Reply
from agentgraph.models.wire import Link

__all__ = ["PATH", "Call", "advising"]

PATH = "api/chat"
_NO_MODEL = re.compile(r"""model ["'].{1,300}["'] not found""")


@dataclass(slots=True)
class Call:
    """One call: its request, and what reading the answer needs."""

    link: Link
    body: dict[str, Any]
    asked: Asked
    thoughts: TaggedThoughts | None = None

    @property
    def path(self) -> str:
        """Of the chat."""
        return PATH

    def mend(self, error: BadRequestError) -> None:
        """Raise `error`: the server drops what it does not know, and what it refuses is meant."""
        raise error

    def result(self, reply: Reply) -> ChatResult:
        """Read a whole answer."""
        asked = replace(self.asked, request_id=reply.request_id)
        body: Any = reply.json
        events = body.get(EVENTS_KEY) if isinstance(body, dict) else None
        message = read_events([json.dumps(body)] if events is None else events, asked)
        return with_thoughts(ChatResult(generations=[ChatGeneration(message=message)]), self.thoughts)

    def reader(self) -> wire.StreamReader:
        """Give a reader of the streamed answer."""
        reader = StreamReader(self.asked)
        return reader if self.thoughts is None else ThoughtStreamReader(reader, self.thoughts)


def _advice(error: ModelError, model: str) -> str:
    """Say what mends a failure, where Ollama's own reason is known."""
    text = str(error)
    if isinstance(error, ModelNotFoundError):
        if _NO_MODEL.search(text):
            return f"Have that server download it: ollama pull {model[:200]}"
        return "Check that base_url leads to an Ollama server, without /v1."
    if isinstance(error, ContextOverflowError):
        return (
            "Or give num_ctx=, a larger window in tokens, which takes more memory; or truncate=True, which has the "
            "server leave out the oldest messages."
        )
    if isinstance(error, BadRequestError) and "does not support tools" in text:
        return (
            'Give create_agent tool_protocol="json", which has tools called as text, or take a model that calls tools.'
        )
    if isinstance(error, BadRequestError) and "does not support thinking" in text:
        return "Leave `think` out for this model."
    if isinstance(error, ModelConnectionError) and not isinstance(error, ModelTimeoutError):
        return "Is Ollama running there (ollama serve)? Another server is named by OLLAMA_HOST or base_url."
    return ""


@contextmanager
def advising(model: str) -> Iterator[None]:
    """Let failures of calls pass with a word on what mends them.

    Args:
        model: the model that is asked.
    """
    try:
        yield
    except ModelError as error:
        advice = _advice(error, model)
        if advice and advice not in str(error):
            error.args = (f"{error} {advice}",)
        raise
