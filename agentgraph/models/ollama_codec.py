"""Answers of Ollama's chat API, read into messages. Pure: no I/O, no clock.

A whole answer is read as a stream of one event, so that both give the same message: text as `content`, thinking as
`reasoning_content` in `additional_kwargs`, calls with ids (Ollama's, or ours where it gives none), usage and metadata
once, at the end. Calls come before the end and the end says "stop" beside them: they are remembered, whatever it says.

Format: https://docs.ollama.com/api/chat
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata, add_ai_message_chunks
from langchain_core.messages.tool import ToolCallChunk

from agentgraph.errors import ContextOverflowError, InvalidResponseError, ModelError, ServerError, TruncatedStreamError
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.json_text import SplitText, parse_json, whole_text, without_halves
from agentgraph.models.openai_blocks import piece_chunks
from agentgraph.models.openai_tool_calls import ToolCallAssembly, given
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened

__all__ = ["PROVIDER", "Asked", "StreamReader", "read_events", "read_usage"]

PROVIDER = "ollama"
_EXCERPT = 200
# Cleaning a text for an error looks at each character; of a huge one the beginning is enough.
_LONGEST_LOOKED_AT = 4096
# A model that is loaded or unloaded says so in the form of an answer.
_NO_ANSWER = frozenset({"load", "unload"})
_TIMES = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked, as far as reading its answer needs it.

    Attributes:
        origin: whom it asked, for errors.
        model: the model that was asked for; a server that does not name it is taken to have used it.
        window: the window that was set (`num_ctx`), in tokens; None if the server's default decides.
        truncate: whether the server was allowed to leave out parts of a prompt that is longer than the window.
        request_id: the id of the request, if a gateway gave one.
        standard: whether the chunks of a stream are to hold standard blocks.
    """

    origin: Origin
    model: str = ""
    window: int | None = None
    truncate: bool = False
    request_id: str | None = None
    standard: bool = False


def _count(body: Mapping[str, Any], key: str) -> int | None:
    value = body.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_usage(body: Mapping[str, Any]) -> UsageMetadata | None:
    """Read the counts of the last event; None if there are none. A prompt that was cached whole may have no count."""
    prompt, answer = _count(body, "prompt_eval_count"), _count(body, "eval_count")
    if prompt is None and answer is None:
        return None
    read, made = prompt or 0, answer or 0
    return UsageMetadata(input_tokens=read, output_tokens=made, total_tokens=read + made)


def _raw_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


class StreamReader:
    """Reads the events of one streamed answer into chunks whose sum is the message.

    Args:
        asked: what the request asked.

    Example:
        >>> reader = StreamReader(Asked(Origin("ollama", "http://127.0.0.1:11434")))
        >>> line = '{"message": {"content": "Hi"}, "done": true, "done_reason": "stop"}'
        >>> [chunk.text for chunk in reader.feed(ServerSentEvent("json", line))]
        ['Hi', '']
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._assembly = ToolCallAssembly()
        self._text = SplitText()
        self._thought = SplitText()
        self._logprobs: list[Any] = []
        self._chunks: list[AIMessageChunk] = []
        self._loaded = False
        self._foreign = ""
        self._finished = False

    def opened(self, reply: "Opened") -> None:
        """Take what the answer's headers said."""
        self._asked = replace(self._asked, request_id=reply.request_id)

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Take one event; returns the chunks that follow from it, often none.

        Raises:
            ModelError: the event is an error of the server.
            InvalidResponseError: the event is not JSON, or the end of something that is no answer.
            ContextOverflowError: the prompt filled the window, so that something of it was left out.
        """
        body = self._parse(event)
        failure = failure_in(self._asked.origin, body)
        if failure is not None:
            failure.request_id = failure.request_id or self._asked.request_id
            raise failure
        if self._finished:
            return []
        message = body.get("message")
        if not isinstance(message, dict):
            self._foreign = self._foreign or event.data
            message = {}
        chunks = self._read_message(message, body.get("logprobs"))
        return [*chunks, *self._end(body)] if body.get("done") is True else chunks

    def _parse(self, event: ServerSentEvent) -> Mapping[str, Any]:
        try:
            body = parse_json(event.data)
        except ValueError:
            body = None
        if isinstance(body, dict):
            return body
        raise self._invalid(f"an event of the stream is not a JSON object: {self._excerpt(event.data)!r}.")

    def _read_message(self, message: Mapping[str, Any], logprobs: Any) -> list[AIMessageChunk]:
        text, thought = (message.get(key) for key in ("content", "thinking"))
        text = self._text.feed(text) if isinstance(text, str) else ""
        thought = self._thought.feed(thought) if isinstance(thought, str) else ""
        calls = [
            chunk for raw in _raw_calls(message) if (chunk := self._assembly.feed(self._numbered(raw))) is not None
        ]
        self._logprobs += without_halves(logprobs) if isinstance(logprobs, list) else []
        return self._out(*self._pieces(text, thought, calls))

    def _pieces(self, text: str, thought: str, calls: Sequence[ToolCallChunk]) -> list[AIMessageChunk]:
        extras = {"reasoning_content": thought} if thought else {}
        return piece_chunks(text, extras, calls, standard=self._asked.standard)

    def _numbered(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Give a call an index and an id of its own: each comes whole, so none ever goes on an earlier one."""
        return {**raw, "index": len(self._assembly.calls), "id": given(raw.get("id")) or f"call_{uuid4().hex[:24]}"}

    def _out(self, *chunks: AIMessageChunk) -> list[AIMessageChunk]:
        self._chunks.extend(chunks)
        return list(chunks)

    def _end(self, body: Mapping[str, Any]) -> list[AIMessageChunk]:
        reason = given(body.get("done_reason")) or "stop"
        if reason in _NO_ANSWER:
            # No end of an answer: it may still follow, and it is an error if it does not.
            self._loaded = True
            return []
        if self._foreign and not self._chunks:
            raise self._no_answer()
        self._finished = True
        metadata = {**self._metadata(body), "finish_reason": whole_text(reason), **self._window_left(body)}
        rests = self._pieces(self._text.rest(), self._thought.rest(), self._assembly.close(cut=reason == "length"))
        last = AIMessageChunk(
            content=[] if self._asked.standard else "",
            usage_metadata=read_usage(body),
            response_metadata=metadata,
            chunk_position="last",
        )
        return self._out(*rests, last)

    def _metadata(self, body: Mapping[str, Any]) -> dict[str, Any]:
        known = {"request_id": self._asked.request_id, "created_at": given(body.get("created_at"))}
        return {
            "model_provider": PROVIDER,
            "model_name": given(body.get("model")) or self._asked.model,
            **{key: value for key, value in known.items() if value},
            **{key: count for key in _TIMES if (count := _count(body, key)) is not None},
            **({"logprobs": {"content": self._logprobs}} if self._logprobs else {}),
        }

    def _window_left(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Notice by the counts that a part of the prompt was left out, before the answer or while it was written.

        A server that cuts the prompt to the window leaves just as much as fits. One that reads more than the window
        does not keep to it, and has cut nothing.
        """
        window, read = self._asked.window, _count(body, "prompt_eval_count")
        if window is None or read is None or read > window or read + (_count(body, "eval_count") or 0) <= window:
            return {}
        if read < window or self._asked.truncate:
            return {"prompt_truncated": True}
        raise ContextOverflowError(
            f"{self._asked.origin.provider}: the prompt filled the whole window of {window} tokens (num_ctx), so the "
            "server left out a part of it, and the answer is to what was left. Shorten the conversation.",
            **self._whence(),
        )

    def finish(self) -> list[AIMessageChunk]:
        """Say that no event follows; there is nothing to add, for the last event ends the answer.

        Raises:
            TruncatedStreamError: no end of the answer came; `partial` is what did come.
            InvalidResponseError: what came is no answer of this API.
            ServerError: the server only loaded the model, or unloaded it; retryable.
        """
        if self._finished:
            return []
        origin = self._asked.origin
        if self._loaded and not self._chunks:
            raise ServerError(
                f"{origin.provider}: the server loaded or unloaded the model and gave no answer. Try again.",
                **self._whence(),
            )
        if self._foreign and not self._chunks:
            raise self._no_answer()
        raise TruncatedStreamError(
            f"{origin.provider}: the answer ended without its last event (done: true), so it is not complete. "
            "What came is in `partial`, and nothing of it was run. Try again.",
            partial=self.partial(),
            **self._whence(),
        )

    def broken(self, error: ModelError) -> None:
        """Deal with a connection that failed: no matter if the answer had ended, else `error` with what came."""
        if self._finished:
            return
        if isinstance(error, TruncatedStreamError):
            error.partial = self.partial()
        raise error

    def partial(self) -> AIMessageChunk | None:
        """Add up what came so far, open calls spoiled, so that nobody can run half a turn. None if nothing came."""
        if not self._chunks:
            return None
        return add_ai_message_chunks(*self._chunks, *self._pieces("", "", self._assembly.close(cut=True)))

    def _whence(self) -> dict[str, Any]:
        """Give what errors say of the server and the request."""
        origin = self._asked.origin
        return {"provider": origin.provider, "request_id": self._asked.request_id, "url": origin.url}

    def _excerpt(self, text: str) -> str:
        return self._asked.origin.excerpt(text[:_LONGEST_LOOKED_AT], _EXCERPT)

    def _no_answer(self) -> InvalidResponseError:
        return self._invalid(
            f"the answer has no message, so it is not one of Ollama's chat: {self._excerpt(self._foreign)}."
        )

    def _invalid(self, what: str) -> InvalidResponseError:
        origin = self._asked.origin
        return InvalidResponseError(
            f"{origin.provider}: {origin.url}: {what} Check base_url: it must be the root of an Ollama server, without "
            "/v1, and whether a proxy in between changes the answer.",
            **self._whence(),
        )


def read_events(events: Sequence[str], asked: Asked) -> AIMessage:
    """Read an answer that is there as a whole: one event of a whole answer, or all of a streamed one.

    Args:
        events: the JSON of each event.
        asked: what the request asked.

    Raises:
        ModelError: as `StreamReader`.
    """
    reader = StreamReader(asked)
    chunks = [chunk for data in events for chunk in reader.feed(ServerSentEvent("json", data))]
    chunks += reader.finish()
    message = message_chunk_to_message(add_ai_message_chunks(*chunks))
    assert isinstance(message, AIMessage)  # noqa: S101 narrows what langchain-core types as any message
    return message
