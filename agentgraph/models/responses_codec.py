"""Answers of OpenAI's Responses API, read into messages. Pure: no I/O, no clock.

An answer is a list of items, and each of them becomes content blocks: text, refusal, reasoning, the place of a call,
and the records of the provider's own tools. The content stays in this form, so that langchain-core's `content_blocks`
reads it and the next request can give it back. A whole answer is read by the reader of streams, as one that only ever
had its last event; so both give the same message:

* every block has an integer index, by which the pieces of a stream are merged;
* what an event of the end says wins over what the deltas said, and where both contradict each other there is no answer;
* a call is valid only if its arguments are one JSON object and the server said that the call is complete;
* an answer without its end is an error, never a short answer.

Format: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata, add_ai_message_chunks

from agentgraph.errors import ContentFilterError, InvalidResponseError, ModelError, TruncatedStreamError
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.json_text import parse_json, whole_text, without_halves
from agentgraph.models.openai_tool_calls import given, sort_calls
from agentgraph.models.responses_history import whose
from agentgraph.models.responses_items import ItemAssembly
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened

__all__ = ["Asked", "StreamReader", "read_answer", "read_events", "read_usage"]

_EXCERPT = 200
# Cleaning a text for an error looks at each character; of a huge one the beginning is enough.
_LONGEST_LOOKED_AT = 4096
_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
_KEEP_ALIVES = frozenset({"heartbeat", "keepalive", "ping"})
_NO_REASON = "the answer's status is 'failed', and it does not say why."
_PARAMETER_FAULTS = ("invalid_", "image_", "unsupported_", "empty_image", "failed_to_download_image")


# Usage


def _count(usage: Mapping[str, Any], *path: str) -> int | None:
    value: Any = usage
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_usage(usage: Any) -> UsageMetadata | None:
    """Read a `usage` object; None if there is none."""
    if not isinstance(usage, dict):
        return None
    taken, made = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    if taken is None and made is None:
        return None
    read = UsageMetadata(input_tokens=taken or 0, output_tokens=made or 0, total_tokens=0)
    read["total_tokens"] = _count(usage, "total_tokens") or read["input_tokens"] + read["output_tokens"]
    into = {
        "cache_read": _count(usage, "input_tokens_details", "cached_tokens"),
        "cache_creation": _count(usage, "input_tokens_details", "cache_write_tokens"),
    }
    out = {"reasoning": _count(usage, "output_tokens_details", "reasoning_tokens")}
    if known := {key: value for key, value in into.items() if value is not None}:
        read["input_token_details"] = InputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    if known := {key: value for key, value in out.items() if value is not None}:
        read["output_token_details"] = OutputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    return read


# What was asked, and what may be wrong with an answer


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked, as far as reading its answer needs it.

    Attributes:
        origin: whom it asked, for errors; its provider is in the message's metadata too (`whose`).
        model: the model that was asked for; servers that do not name theirs are taken to have used it.
        names: names of tools as they were sent -> as they are called here, for those that had to be changed.
        limit: the limit of the answer's tokens, if one was set.
        request_id: the provider's id of the request, if it gave one.
    """

    origin: Origin
    model: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    request_id: str | None = None

    def metadata(self, response: Mapping[str, Any], finish_reason: str) -> dict[str, Any]:
        """Make a message's response_metadata from an answer's top level."""
        known = {"id": response.get("id"), "request_id": self.request_id}
        known.update({key: response.get(key) for key in ("status", "service_tier")})
        stored = {"store": response["store"]} if isinstance(response.get("store"), bool) else {}
        return {
            **whose(self.origin.provider),
            "model_name": given(response.get("model")) or self.model,
            "finish_reason": whole_text(finish_reason),
            **{key: whole_text(value) for key, value in known.items() if isinstance(value, str) and value},
            **stored,
        }

    def invalid(self, what: str, advice: str) -> InvalidResponseError:
        """Make the error of an answer that is not what this API says."""
        return InvalidResponseError(
            f"{self.origin.provider}: {self.origin.url}: {what} {advice}",
            provider=self.origin.provider,
            request_id=self.request_id,
            url=self.origin.url,
        )

    def shown(self, value: Any) -> str:
        """Show some of what came."""
        text = value if isinstance(value, str) else repr(value)
        return self.origin.excerpt(text[:_LONGEST_LOOKED_AT], _EXCERPT)


def _refuse_failure(response: Mapping[str, Any], status: str, asked: Asked) -> None:
    error = response.get("error")
    if not error and status != "failed":
        return
    said = dict(error) if isinstance(error, dict) else {"message": str(error or _NO_REASON)}
    if str(said.get("code") or "").startswith(_PARAMETER_FAULTS):
        said["type"] = "invalid_request_error"
    failure = failure_in(asked.origin, {"error": said})
    if failure is not None:
        failure.request_id = failure.request_id or asked.request_id
        raise failure


def _why_incomplete(response: Mapping[str, Any]) -> str:
    details = response.get("incomplete_details")
    return str((details.get("reason") if isinstance(details, dict) else None) or "incomplete")


def _refuse_filtered(response: Mapping[str, Any], status: str, asked: Asked) -> None:
    if status == "incomplete" and _why_incomplete(response) == "content_filter":
        raise ContentFilterError(
            f"{asked.origin.provider}: the provider's content filter cut the answer (incomplete, 'content_filter'). "
            "Rephrase the request, or change the filter's settings at the provider.",
            provider=asked.origin.provider,
            code="content_filter",
            request_id=asked.request_id,
        )


# Answers


class StreamReader:
    """Reads the events of one streamed answer into chunks whose sum is the message.

    Args:
        asked: what the request asked.

    Example:
        >>> reader = StreamReader(Asked(Origin("openai", "https://api.openai.com/v1")))
        >>> event = '{"type": "response.completed", "response": {"status": "completed", "output": []}}'
        >>> [chunk.chunk_position for chunk in reader.feed(ServerSentEvent("message", event))]
        ['last']
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._items = ItemAssembly(asked.names)
        self._chunks: list[AIMessageChunk] = []
        self._top: dict[str, Any] = {}
        self._finish_reason: str | None = None
        # An event, as long as none was of this API.
        self._foreign: str | None = ""

    def opened(self, reply: "Opened") -> None:
        """Take what the answer's headers said."""
        self._asked = replace(self._asked, request_id=reply.request_id)

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Take one event; returns the chunks that follow from it, often none.

        Raises:
            ModelError: the event is an error of the server, or says that the answer failed.
            InvalidResponseError: the event is not JSON, or contradicts the events before it.
            TruncatedStreamError: `[DONE]` came, but no end of the answer before it.
        """
        if event.data.strip() == "[DONE]":
            return self.finish()
        body = self._parse(event)
        if body is None or self._finish_reason is not None:
            return []
        kind = str(body.get("type") or event.event)
        if kind == "error" or (body.get("error") and "object" not in body):
            self._refuse_error(body)
        whole = _is_whole(body) if event.event == "json" else body.get("object") == "response"
        self._recognise(event, kind, known=whole)
        if kind in _ENDS or whole:
            return self._end(body, kind)
        if kind == "response.created" and isinstance(body.get("response"), dict):
            self._top = {key: value for key, value in body["response"].items() if key in {"id", "model"}}
        return self._out(self._items.feed(kind, body, self._contradiction))

    def _recognise(self, event: ServerSentEvent, kind: str, *, known: bool) -> None:
        if known or kind.startswith("response."):
            self._foreign = None
        elif self._foreign is not None and kind not in _KEEP_ALIVES:
            self._foreign = self._foreign or event.data

    def _refuse_error(self, body: Mapping[str, Any]) -> None:
        failure = failure_in(self._asked.origin, body if body.get("error") else {**body, "type": "error"})
        if failure is not None:
            failure.request_id = failure.request_id or self._asked.request_id
            raise failure

    def _parse(self, event: ServerSentEvent) -> Mapping[str, Any] | None:
        """Parse an event; None for one of a type that this API does not have."""
        try:
            body = parse_json(event.data)
        except ValueError:
            body = None
        if isinstance(body, dict):
            return body
        if event.event == "error":
            return {"type": "error", "message": event.data}
        if event.event not in {"message", "json"} and not event.event.startswith("response."):
            return None
        raise self._asked.invalid(
            f"an event of the stream is not a JSON object: {self._asked.shown(event.data)!r}.",
            "Check base_url, and whether a proxy in between changes the stream.",
        )

    def _contradiction(self, said: str, final: str) -> InvalidResponseError:
        return self._asked.invalid(
            f"the end of the stream has another text than its pieces: {self._asked.shown(final)!r} in place of "
            f"{self._asked.shown(said)!r}, so some of it was lost.",
            "Ask again; if it stays, ask without streaming.",
        )

    def take_whole(self, response: Mapping[str, Any]) -> None:
        """Take an answer that came whole."""
        self._end(response, "")

    def _end(self, body: Mapping[str, Any], kind: str) -> list[AIMessageChunk]:
        response = body.get("response") if kind in _ENDS else body
        if not isinstance(response, dict):
            raise self._asked.invalid(
                f"the end of the answer holds no response: {self._asked.shown(body)}.", "Ask again."
            )
        # Strings are read into the message as they are, so none may hold half a character.
        response = without_halves(response)
        status = str(response.get("status") or _ENDS.get(kind) or "completed")
        _refuse_failure(response, status, self._asked)
        if status not in {"completed", "incomplete"}:
            raise self._asked.invalid(
                f"the answer's status is {self._asked.shown(status)!r}; expected 'completed' or 'incomplete'.",
                "An answer that is made in the background (background=True) cannot be waited for.",
            )
        _refuse_filtered(response, status, self._asked)
        self._top |= {key: value for key, value in response.items() if value is not None}
        chunks = self._items.rest(response.get("output"), self._contradiction)
        self._finish_reason = self._reason(response, status)
        return self._out([*chunks, *self._items.close(cut=self._finish_reason == "length"), self._last()])

    def _reason(self, response: Mapping[str, Any], status: str) -> str:
        if status == "incomplete":
            why = _why_incomplete(response)
            return "length" if why in {"max_output_tokens", "incomplete"} else why
        # Some servers say "completed" of an answer that they cut at the limit.
        used = _count(response, "usage", "output_tokens")
        if self._asked.limit is not None and (used or 0) >= self._asked.limit:
            return "length"
        return "tool_calls" if self._items.calls else "stop"

    def _last(self) -> AIMessageChunk:
        logprobs = {"logprobs": {"content": self._items.logprobs}} if self._items.logprobs else {}
        return AIMessageChunk(
            content=[],
            usage_metadata=read_usage(self._top.get("usage")),
            response_metadata=self._asked.metadata(self._top, self._finish_reason or "") | logprobs,
            chunk_position="last",
        )

    def _out(self, chunks: Sequence[AIMessageChunk]) -> list[AIMessageChunk]:
        for chunk in chunks:
            # By it langchain-core knows how to read the blocks of a chunk, not only those of the sum.
            chunk.response_metadata.setdefault("model_provider", "openai")
        self._chunks.extend(chunks)
        return list(chunks)

    def finish(self) -> list[AIMessageChunk]:
        """End the answer, whose last chunk came with its last event.

        Raises:
            TruncatedStreamError: no end of the answer came; `partial` is what did come.
            InvalidResponseError: nothing that came is of this API.
        """
        if self._foreign:
            raise _no_answer(self._foreign, self._asked)
        if self._finish_reason is None:
            raise TruncatedStreamError(
                f"{self._asked.origin.provider}: the stream ended without response.completed or its like, so it is not "
                "complete. What came is in `partial`, and nothing of it was run. Try again.",
                partial=self.partial(),
                provider=self._asked.origin.provider,
                request_id=self._asked.request_id,
            )
        return []

    def partial(self) -> AIMessageChunk | None:
        """Add up what came so far, open calls spoiled, so that nobody can run half a call. None if nothing came."""
        if self._chunks:
            self._out(self._items.close(cut=True))
        chunks = self._chunks
        return add_ai_message_chunks(*chunks) if chunks else None

    def broken(self, error: ModelError) -> None:
        """Deal with a connection that failed: no matter if the answer had ended, else `error` with what came."""
        if self._finish_reason is not None:
            return
        if isinstance(error, TruncatedStreamError):
            error.partial = self.partial()
        raise error

    def whole(self) -> AIMessage:
        """Give the message of an answer that has ended; why a call must not run is said in its own words."""
        total = message_chunk_to_message(add_ai_message_chunks(*self._chunks))
        assert isinstance(total, AIMessage)  # noqa: S101 narrows what langchain-core types as any message
        calls = sort_calls(self._items.calls, self._asked.names, cut=self._finish_reason == "length")
        return AIMessage(
            content=total.content,
            response_metadata=total.response_metadata,
            usage_metadata=total.usage_metadata,
            **calls,
        )


def _is_whole(body: Any) -> bool:
    return isinstance(body, dict) and (isinstance(body.get("output"), list) or body.get("object") == "response")


def _no_answer(body: Any, asked: Asked) -> InvalidResponseError:
    return asked.invalid(
        f"the answer has no output, so it is none of the Responses API: {asked.shown(body)}.",
        "Check base_url: this server may speak Chat Completions alone (agentgraph.models.openai.ChatOpenAI).",
    )


def read_answer(body: Any, asked: Asked) -> AIMessage:
    """Read a whole answer.

    Args:
        body: the parsed JSON.
        asked: what the request asked.

    Returns:
        The message: a list of blocks as `content`; calls in `tool_calls` or, where they must not run, in
        `invalid_tool_calls`; `usage_metadata`; `response_metadata`.

    Raises:
        ModelError: the body holds an error; ContentFilterError when the provider's filter cut the answer.
        InvalidResponseError: it is not an answer of this API.
    """
    if not isinstance(body, dict) or not (isinstance(body.get("output"), list) or body.get("error")):
        raise _no_answer(body, asked)
    reader = StreamReader(asked)
    reader.take_whole(body)
    return reader.whole()


def read_events(events: Sequence[str], asked: Asked) -> AIMessage:
    """Read the events of a server that streamed although it was asked for a whole answer.

    Args:
        events: the data of each event.
        asked: what the request asked.

    Raises:
        ModelError: as `StreamReader`.
    """
    reader = StreamReader(asked)
    for data in events:
        reader.feed(ServerSentEvent("message", data))
    reader.finish()
    return reader.whole()
