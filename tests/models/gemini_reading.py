"""Reading answers of Gemini whole and streamed, for the tests of its codec."""

import json
import re
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from agentgraph.models.failures import Origin
from agentgraph.models.gemini_codec import Asked, StreamReader, read_answer
from agentgraph.models.sse import ServerSentEvent
from tests.models.gemini_asking import added_up

ASKED = Asked(Origin("google_genai", "https://generativelanguage.googleapis.com/v1beta/"), "gemini-x", request_id="q")
MADE = re.compile(r"(?:call|code)_[0-9a-f]{24}")


def stream(*bodies: Any, asked: Asked = ASKED) -> list[AIMessageChunk]:
    reader = StreamReader(asked)
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
    chunks = [chunk for data in texts for chunk in reader.feed(ServerSentEvent("message", data))]
    return chunks + reader.finish()


def total(chunks: list[AIMessageChunk]) -> AIMessage:
    """Add chunks up one by one, as users do, and make the message that goes into a history."""
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    whole = message_chunk_to_message(message)
    assert isinstance(whole, AIMessage)
    return whole


def with_plain_ids(message: AIMessage) -> dict[str, Any]:
    """The message with the ids of our own making numbered, since they are random."""
    dumped = json.dumps(message.model_dump())
    for number, id_ in enumerate(dict.fromkeys(MADE.findall(dumped))):
        dumped = dumped.replace(id_, f"made-{number}")
    return dict(json.loads(dumped))


def both(*bodies: Any) -> AIMessage:
    """Read an answer whole and streamed; they have to be the same message."""
    streamed, whole = total(stream(*bodies)), read_answer(added_up(bodies), ASKED)
    assert with_plain_ids(streamed) == with_plain_ids(whole)
    return whole
