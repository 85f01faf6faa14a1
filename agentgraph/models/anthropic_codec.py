"""Answers of Anthropic's Messages API, read into messages. Pure: no I/O, no clock.

A stream becomes chunks (`StreamReader`); a whole answer is read as the stream that would have brought it
(`read_answer`), so that both give the same message:

* `content` is the text where nothing else can come, else a list of Anthropic's own blocks with an index, in order:
  thoughts with their signatures, texts with citations, places of calls, calls that ran at the provider, and their
  results. `text` is the text of both. What the API wants back is in there, so checkpoints and trimming keep it;
* a tool call may run only if its arguments are one JSON object and the answer went on behind it or ended well;
* usage, the reason of the end and the other metadata come once, on the last chunk;
* an answer without its end is an error, never a short answer.

Format: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata, add_ai_message_chunks

from agentgraph.errors import (
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    TruncatedStreamError,
)
from agentgraph.models.anthropic_blocks import BlockAssembly, chunk_of
from agentgraph.models.endings import unknown_ending
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.json_text import parse_json, whole_text, without_halves
from agentgraph.models.openai_tool_calls import as_text, given
from agentgraph.models.refusals import RefusedAnswerError
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened

__all__ = ["Asked", "StreamReader", "read_answer", "read_events", "read_usage"]

_EXCERPT = 200
_LONGEST_LOOKED_AT = 4096
_EVENTS = frozenset(
    {
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "json",
        "message",
        "message_delta",
        "message_start",
        "message_stop",
    }
)
_KINDS = _EVENTS - {"json"} | {"ping"}
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
# The words of Chat Completions, which readers of any provider's answers know.
_FINISH_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
_KNOWN_REASONS = frozenset({*_FINISH_REASONS, "pause_turn", "refusal"})
_NO_REASON = "The model refused to answer and gave no reason."


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked, as far as reading its answer needs it.

    Attributes:
        origin: whom it asked, for errors.
        model: the model that was asked for.
        names: names of tools as they were sent -> as they are called here.
        plain: whether nothing but text is to be expected, so that content is a string.
        request_id: the provider's id of the request, if it gave one.
        first: the index of the first content block, above 0 where an answer goes on that was paused.
    """

    origin: Origin
    model: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    plain: bool = True
    request_id: str | None = None
    first: int = 0


# Usage


def _count(usage: Mapping[str, Any], *path: str) -> int | None:
    value: Any = usage
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_usage(usage: Mapping[str, Any]) -> UsageMetadata | None:
    """Read a `usage` object, whose `input_tokens` leave out what was read from, or written to, the cache."""
    fresh, made = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    if fresh is None and made is None:
        return None
    cached = {
        "cache_read": _count(usage, "cache_read_input_tokens"),
        "cache_creation": _count(usage, "cache_creation_input_tokens"),
    }
    taken = (fresh or 0) + sum(value or 0 for value in cached.values())
    written = {
        f"ephemeral_{life}_input_tokens": _count(usage, "cache_creation", f"ephemeral_{life}_input_tokens")
        for life in ("5m", "1h")
    }
    known = {key: value for key, value in {**cached, **written}.items() if value is not None}
    read = UsageMetadata(input_tokens=taken, output_tokens=made or 0, total_tokens=taken + (made or 0))
    if known:
        read["input_token_details"] = InputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literals above
    thought = _count(usage, "output_tokens_details", "thinking_tokens")
    if thought is not None:
        read["output_token_details"] = OutputTokenDetails(reasoning=thought)
    return read


# Streamed answers


class StreamReader:
    """Reads the events of one streamed answer into chunks whose sum is the message.

    Args:
        asked: what the request asked.

    Example:
        >>> reader = StreamReader(Asked(Origin("anthropic", "https://api.anthropic.com/v1")))
        >>> data = '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}'
        >>> [chunk.text for chunk in reader.feed(ServerSentEvent("content_block_delta", data))]
        ['Hi']
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._content = BlockAssembly(asked.names, plain=asked.plain, first=asked.first)
        self._chunks: list[AIMessageChunk] = []
        self._top: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self._stopped = False
        # An event, as long as none was of this API.
        self._foreign: str | None = ""

    def opened(self, reply: "Opened") -> None:
        """Take what the answer's headers said."""
        self._asked = replace(self._asked, request_id=reply.request_id)

    @property
    def ended(self) -> bool:
        """Whether the end came: what is missing then is at most the connection's own end."""
        return self._stopped or bool(self._stop_reason)

    @property
    def paused(self) -> bool:
        """Whether the provider stopped amid a long turn, and wants to be asked again to go on."""
        return self._stop_reason == "pause_turn"

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Take one event; returns the chunks that follow from it, often none.

        Raises:
            ModelError: the event is an error of the server.
            InvalidResponseError: the event is not JSON.
        """
        body = self._parse(event)
        if body is None:
            return []
        failure = failure_in(self._asked.origin, body)
        if failure is not None:
            failure.request_id = failure.request_id or self._asked.request_id
            raise failure
        if event.event == "json" and not isinstance(body.get("content"), list):
            raise _not_this_api(event.data, self._asked)
        self._recognise(event, body.get("type"))
        return self.take({**body, "type": "message"} if event.event == "json" else body)

    def _recognise(self, event: ServerSentEvent, kind: Any) -> None:
        if str(kind) in _KINDS or event.event == "json":
            self._foreign = None
        elif self._foreign is not None:
            self._foreign = self._foreign or event.data

    def _parse(self, event: ServerSentEvent) -> Mapping[str, Any] | None:
        """Parse an event; None for one that says nothing here."""
        if event.data.strip() == "[DONE]":
            return None
        try:
            body = parse_json(event.data)
        except ValueError:
            body = None
        if event.event == "error":
            return body if isinstance(body, dict) and "error" in body else {"error": body or event.data}
        if isinstance(body, dict):
            return body
        if event.event not in _EVENTS:
            return None
        raise _not_this_api(event.data, self._asked)

    def take(self, body: Mapping[str, Any]) -> list[AIMessageChunk]:
        """Take one parsed event; types that are not known are skipped, as the API asks of its clients."""
        match body.get("type"):
            case "message_start":
                self._begin(_mapping(body.get("message")))
            case "content_block_start":
                return self._out(self._content.open(body.get("index"), _mapping(body.get("content_block"))))
            case "content_block_delta":
                return self._out(self._content.add(body.get("index"), _mapping(body.get("delta"))))
            case "content_block_stop":
                return self._out(self._content.close(body.get("index")))
            case "message_delta":
                self._end(_mapping(body.get("delta")), _mapping(body.get("usage")))
            case "message_stop":
                self._stopped = True
            case "message" if isinstance(body.get("content"), list):
                return [chunk for event in _events_of(body) for chunk in self.take(event)]
        return []

    # The frame of the answer

    def _begin(self, message: Mapping[str, Any]) -> None:
        self._top.update({key: value for key, value in message.items() if value})
        self._usage.update({key: value for key, value in _mapping(message.get("usage")).items() if value is not None})

    def _end(self, delta: Mapping[str, Any], usage: Mapping[str, Any]) -> None:
        self._top.update({key: value for key, value in delta.items() if value})
        # These are the sums so far, not what was added to them. Some servers say 0 of what they counted before.
        self._usage.update({key: value for key, value in usage.items() if value or key not in self._usage})
        self._stop_reason = given(delta.get("stop_reason")) or self._stop_reason

    def _out(self, chunks: list[AIMessageChunk]) -> list[AIMessageChunk]:
        self._chunks.extend(chunks)
        return chunks

    # The end

    def finish(self) -> list[AIMessageChunk]:
        """End the answer; returns the chunks that complete it.

        Raises:
            TruncatedStreamError: no end of the answer came; `partial` is what did come.
            InvalidResponseError: nothing that came is of this API.
            RefusalError: the answer was stopped by a refusal when it had begun to call tools.
            ContextOverflowError: the prompt left no room for an answer.
            ServerError: the answer ended for a reason that is not known, and holds nothing.
        """
        if self._foreign:
            raise _not_this_api(self._foreign, self._asked)
        if not self.ended:
            raise TruncatedStreamError(
                f"{self._asked.origin.provider}: the stream ended without a stop_reason, so it is not complete. "
                "What came is in `partial`, and nothing of it was run. Try again.",
                partial=self.partial(),
                provider=self._asked.origin.provider,
                request_id=self._asked.request_id,
            )
        chunks = self._out(self._content.finish())
        reason = self._stop_reason or ("tool_use" if self._content.calls else "end_turn")
        self._refuse_failed(reason)
        chunks += self._out(self._content.tails(cut=reason in _CUT))
        return chunks + self._out([self._last(reason)])

    def _refuse_failed(self, reason: str) -> None:
        named: dict[str, Any] = {
            "provider": self._asked.origin.provider,
            "code": reason,
            "request_id": self._asked.request_id,
        }
        if reason not in _KNOWN_REASONS:
            asked = self._asked
            unknown = unknown_ending(reason, asked.origin, asked.request_id, holds_something=bool(self._chunks))
            if unknown is not None:
                raise unknown
        if reason == "refusal" and self._content.calls:
            raise RefusedAnswerError(
                f"{self._asked.origin.provider}: the model refused when it had begun to call tools: "
                f"{self._refusal()}. Nothing was run. Rephrase the request.",
                raw_message=self.partial(),
                **named,
            )
        if reason == "model_context_window_exceeded" and not self._chunks:
            raise ContextOverflowError(
                f"{self._asked.origin.provider}: the prompt fills the model's context window and leaves no room for an "
                "answer. Shorten the conversation (trim or summarise it), or take a model with a larger window.",
                **named,
            )

    def _refusal(self) -> str:
        details = _mapping(self._top.get("stop_details"))
        return self._asked.origin.excerpt(as_text(details.get("explanation"))[:_LONGEST_LOOKED_AT]) or _NO_REASON

    def _last(self, reason: str) -> AIMessageChunk:
        usage = read_usage(self._usage)
        content: Any = "" if self._content.plain or not self._chunks else []
        if reason == "pause_turn":
            return chunk_of(content, usage_metadata=usage)
        if reason == "refusal" and content == []:
            content = [self._refusal_block()]
        last = chunk_of(content, usage_metadata=usage, chunk_position="last")
        last.response_metadata = self._metadata(reason)
        if reason == "refusal":
            last.additional_kwargs = {"refusal": self._refusal()}
        return last

    def _refusal_block(self) -> dict[str, Any]:
        """Make the block that langchain-core would make of the metadata, but with an index that no other block has."""
        details = _mapping(self._top.get("stop_details"))
        block = {"type": "refusal", "refusal": whole_text(as_text(details.get("explanation")))}
        category = {"extras": {"category": without_halves(details["category"])}} if details.get("category") else {}
        return {**block, **category, "index": self._content.count}

    def _metadata(self, reason: str) -> dict[str, Any]:
        kept = {key: self._top.get(key) for key in ("stop_sequence", "stop_details", "container", "context_management")}
        kept["service_tier"] = self._usage.get("service_tier")
        known = {"id": given(self._top.get("id")), "request_id": self._asked.request_id, **kept}
        return {
            "model_provider": "anthropic",
            "model_name": given(self._top.get("model")) or self._asked.model,
            "stop_reason": whole_text(reason),
            "finish_reason": _FINISH_REASONS.get(reason, whole_text(reason)),
            **{key: without_halves(value) for key, value in known.items() if value},
        }

    def partial(self) -> AIMessageChunk | None:
        """Add up what came so far, open calls spoiled, so that nobody can run half a call. None if nothing came."""
        chunks = [*self._chunks, *self._content.tails(cut=True)] if self._chunks else []
        return add_ai_message_chunks(*chunks) if chunks else None

    def broken(self, error: ModelError) -> None:
        """Deal with a connection that failed: no matter if the answer had ended, else `error` with what came."""
        if self.ended:
            return
        if isinstance(error, TruncatedStreamError):
            error.partial = self.partial()
        raise error


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# Whole answers


def _not_this_api(what: str, asked: Asked) -> InvalidResponseError:
    return InvalidResponseError(
        f"{asked.origin.provider}: {asked.origin.url}: what came is no answer of the Messages API: "
        f"{asked.origin.excerpt(what[:_LONGEST_LOOKED_AT], _EXCERPT)!r}. Check base_url, and whether a proxy in "
        "between answers, or changes the stream.",
        provider=asked.origin.provider,
        request_id=asked.request_id,
        url=asked.origin.url,
    )


def _events_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a whole answer as the events that would have brought it."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**body, "content": []}}]
    for index, block in enumerate(body["content"]):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    ended = {key: body.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    return [*events, {"type": "message_delta", "delta": ended}, {"type": "message_stop"}]


def _added(reader: StreamReader, chunks: Sequence[AIMessageChunk]) -> AIMessage:
    whole = add_ai_message_chunks(*chunks, *reader.finish())
    if reader.paused:
        return whole
    message = message_chunk_to_message(whole)
    assert isinstance(message, AIMessage)  # noqa: S101 narrows what langchain-core types as any message
    return message


def read_answer(body: Any, asked: Asked) -> AIMessage:
    """Read a whole answer of the Messages API.

    Args:
        body: the parsed JSON.
        asked: what the request asked.

    Returns:
        The message; an AIMessageChunk if the provider paused, and has to be asked to go on.

    Raises:
        ModelError: the body holds an error; see also `StreamReader.finish`.
        InvalidResponseError: it is not an answer of this API.
    """
    failure = failure_in(asked.origin, body)
    if failure is not None:
        failure.request_id = failure.request_id or asked.request_id
        raise failure
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise _not_this_api(repr(body), asked)
    reader = StreamReader(asked)
    return _added(reader, reader.take({**body, "type": "message"}))


def read_events(events: Sequence[str], asked: Asked) -> AIMessage:
    """Read the events of a server that streamed although it was asked for a whole answer.

    Args:
        events: the data of each event.
        asked: what the request asked.

    Raises:
        ModelError: as `StreamReader`.
    """
    reader = StreamReader(asked)
    return _added(reader, [chunk for data in events for chunk in reader.feed(ServerSentEvent("message", data))])
