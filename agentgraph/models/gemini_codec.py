"""Answers of Gemini's generateContent, read into messages. Pure: no I/O, no clock.

A whole answer is read as a stream of one event, so that both give the same message. Usage and the finish reason come
once, on the last chunk. An answer that ended badly is an error that names the reason, never a short answer; but a call
that the model, or the server, garbled is an invalid call, which the model can be told of.

Format: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks

from agentgraph.errors import InvalidResponseError, ModelError, TruncatedStreamError
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.gemini_assembly import PartAssembly
from agentgraph.models.gemini_endings import GARBLED_CALL, LIMIT, blocked, refuse_bad_ending
from agentgraph.models.gemini_metadata import read_details, read_usage
from agentgraph.models.gemini_parts import PROVIDER
from agentgraph.models.json_text import parse_json, whole_text
from agentgraph.models.openai_tool_calls import given
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened

__all__ = ["Asked", "StreamReader", "read_answer", "read_events"]

# What is at the top of every event of this API, one of them at the least.
_TOP: Final = frozenset({"candidates", "modelVersion", "promptFeedback", "responseId", "usageMetadata"})
_EXCERPT: Final = 200
# Cleaning a text for an error looks at each character; of a huge one the beginning is enough.
_LONGEST_LOOKED_AT: Final = 4096


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked, as far as reading its answer needs it.

    Attributes:
        origin: whom it asked, for errors.
        model: the model that was asked for; servers that do not name theirs are taken to have used it.
        names: names of tools as they were sent -> as they are called here, for those that had to be changed.
        request_id: the provider's id of the request, if it gave one.
        standard: whether the chunks of a stream are to be read as standard blocks.
    """

    origin: Origin
    model: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None
    standard: bool = False


def _first_candidate(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    candidates = body.get("candidates")
    found = candidates if isinstance(candidates, list) else []
    return next((one for one in found if isinstance(one, dict) and one.get("index") in (0, None)), None)


def _parts_of(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


class StreamReader:
    """Reads the events of one streamed answer into chunks whose sum is the message.

    Args:
        asked: what the request asked.
        whole: whether the answer comes in one piece, which cannot be cut unseen; it needs no finish reason.

    Example:
        >>> reader = StreamReader(Asked(Origin("google_genai", "https://generativelanguage.googleapis.com")))
        >>> data = '{"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}'
        >>> [chunk.text for chunk in reader.feed(ServerSentEvent("message", data)) + reader.finish()]
        ['Hi', '']
    """

    def __init__(self, asked: Asked, *, whole: bool = False) -> None:
        self._asked = asked
        self._whole = whole
        self._assembly = PartAssembly(asked.names, standard=asked.standard)
        self._chunks: list[AIMessageChunk] = []
        self._top: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._finished = False
        # An event, as long as none was of this API.
        self._foreign: Mapping[str, Any] | None = {}

    def opened(self, reply: "Opened") -> None:
        """Take what the answer's headers said."""
        self._asked = replace(self._asked, request_id=reply.request_id)

    @property
    def ended(self) -> bool:
        """Whether a finish reason came: what is missing then is at most the connection's own end."""
        return bool(self._finish_reason)

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Take one event; returns the chunks that follow from it, often none.

        Raises:
            ModelError: the event is an error of the server, or says that the prompt was blocked.
            InvalidResponseError: the event is not JSON.
        """
        return [chunk for body in self._bodies(event) for chunk in self.read(body)]

    def read(self, body: Mapping[str, Any]) -> list[AIMessageChunk]:
        """Take one parsed event, or a whole answer."""
        failure = failure_in(self._asked.origin, body)
        if failure is not None:
            failure.request_id = failure.request_id or self._asked.request_id
            raise failure
        self._recognise(body)
        candidate = _first_candidate(body)
        if candidate is None and (block := blocked(body, self._asked.origin, self._asked.request_id)) is not None:
            raise block
        self._top.update({key: value for key, value in body.items() if value and key != "candidates"})
        # What has been counted so far comes again with each event: the last word of each count stands.
        self._usage.update(usage if isinstance(usage := body.get("usageMetadata"), dict) else {})
        if candidate is None:
            return []
        self._candidate.update({key: value for key, value in candidate.items() if value and key != "content"})
        self._finish_reason = given(candidate.get("finishReason")) or self._finish_reason
        return self._out(chunk for part in _parts_of(candidate) for chunk in self._assembly.feed(part))

    def _recognise(self, body: Mapping[str, Any]) -> None:
        if _TOP & body.keys():
            self._foreign = None
        elif self._foreign is not None:
            self._foreign = self._foreign or body

    def _bodies(self, event: ServerSentEvent) -> list[Mapping[str, Any]]:
        """Parse an event: one answer, or several where a proxy made one array of the stream."""
        if event.data.strip() == "[DONE]":
            return []
        body: Any = None
        try:
            body = parse_json(event.data)
        except ValueError:
            body = {"error": event.data} if event.event == "error" else None
        bodies: list[Any] = body if isinstance(body, list) else [body]
        if all(isinstance(one, dict) for one in bodies):
            return [{"error": one} if event.event == "error" and "error" not in one else one for one in bodies]
        if event.event not in {"message", "json"}:
            return []
        raise InvalidResponseError(
            f"{self._asked.origin.provider}: an event of the stream is not a JSON object: "
            f"{self._asked.origin.excerpt(event.data[:_LONGEST_LOOKED_AT], _EXCERPT)!r}. "
            "Check base_url, and whether a proxy in between changes the stream.",
            provider=self._asked.origin.provider,
            request_id=self._asked.request_id,
        )

    def _out(self, chunks: Iterator[AIMessageChunk]) -> list[AIMessageChunk]:
        out = list(chunks)
        self._chunks += out
        return out

    def finish(self) -> list[AIMessageChunk]:
        """End the answer; returns the chunks that complete it, none when it was ended already.

        Raises:
            TruncatedStreamError: no finish reason came; `partial` is what did come.
            InvalidResponseError: nothing that came is of this API.
            ModelError: the answer ended badly; the class says how, `code` is Gemini's finish reason.
        """
        if self._finished:
            return []
        if not self._finish_reason:
            self._finish_reason = self._ending_of_silence()
        self._finished = True
        asked = self._asked
        told = given(self._candidate.get("finishMessage")) or ""
        refuse_bad_ending(self._finish_reason, told, asked.origin, asked.request_id, holds_something=bool(self._chunks))
        last = AIMessageChunk(
            content="",
            usage_metadata=read_usage(self._usage),
            response_metadata=self._metadata(self._finish_reason),
            chunk_position="last",
        )
        garbled = self._assembly.malformed(told) if self._finish_reason in GARBLED_CALL else []
        closing = self._assembly.close(cut=self._finish_reason in LIMIT)
        return self._out(chunk for chunk in (*garbled, *closing, last))

    def _ending_of_silence(self) -> str:
        """Name the ending of an answer that does not: a whole one was sent to its end, a stream was cut."""
        if self._whole and self._chunks:
            return "STOP"
        origin = self._asked.origin
        if self._whole or self._foreign:
            shown = origin.excerpt(repr(self._foreign or self._top)[:_LONGEST_LOOKED_AT], _EXCERPT)
            raise InvalidResponseError(
                f"{origin.provider}: {origin.url}: the answer has no candidate with a text or a finishReason, so it "
                f"says nothing: {shown}. Ask again; if it stays, check base_url: it must be the root of Gemini's API.",
                provider=origin.provider,
                request_id=self._asked.request_id,
                url=origin.url,
                retryable="usageMetadata" in self._top,
            )
        raise TruncatedStreamError(
            f"{origin.provider}: the stream ended without a finishReason, so it is not complete. "
            "What came is in `partial`, and nothing of it was run. Try again.",
            partial=self.partial(),
            provider=origin.provider,
            request_id=self._asked.request_id,
        )

    def _metadata(self, finish_reason: str) -> dict[str, Any]:
        asked = self._asked
        known = {"id": self._top.get("responseId"), "request_id": asked.request_id}
        return {
            "model_provider": PROVIDER,
            "model_name": given(self._top.get("modelVersion")) or asked.model.removeprefix("models/"),
            "finish_reason": whole_text(finish_reason),
            **{key: whole_text(value) for key, value in known.items() if isinstance(value, str) and value},
            **read_details(self._candidate),
        }

    def partial(self) -> AIMessageChunk | None:
        """Add up what came so far, so that nobody can run half a call. None if nothing came."""
        chunks = [*self._chunks, *self._assembly.close(cut=True)] if self._chunks else []
        return add_ai_message_chunks(*chunks) if chunks else None

    def broken(self, error: ModelError) -> None:
        """Deal with a connection that failed: no matter if the answer had ended, else `error` with what came."""
        if self.ended:
            return
        if isinstance(error, TruncatedStreamError):
            error.partial = self.partial()
        raise error


def _message(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    message = message_chunk_to_message(add_ai_message_chunks(*chunks))
    assert isinstance(message, AIMessage)  # noqa: S101 narrows what langchain-core types as any message
    return message


def read_answer(body: Any, asked: Asked) -> AIMessage:
    """Read a whole answer.

    Args:
        body: the parsed JSON; an array is one answer in pieces.
        asked: what the request asked.

    Returns:
        The message: a plain text as a string, else blocks (text, thinking, images, code and what came of it) with the
        signatures that have to go back; calls in `tool_calls` or, where they must not run, in `invalid_tool_calls`;
        `usage_metadata`; `response_metadata`.

    Raises:
        ModelError: the body holds an error, the prompt was blocked, or the answer ended badly.
        InvalidResponseError: it is not an answer of this API.
    """
    reader = StreamReader(asked, whole=True)
    bodies = body if isinstance(body, list) else [body]
    chunks = [chunk for one in bodies if isinstance(one, Mapping) for chunk in reader.read(one)]
    return _message([*chunks, *reader.finish()])


def read_events(events: Sequence[str], asked: Asked) -> AIMessage:
    """Read the events of a server that streamed although it was asked for a whole answer.

    Args:
        events: the data of each event.
        asked: what the request asked.

    Raises:
        ModelError: as `StreamReader`.
    """
    reader = StreamReader(asked)
    chunks = [chunk for data in events for chunk in reader.feed(ServerSentEvent("message", data))]
    return _message([*chunks, *reader.finish()])
