"""Answers of OpenAI-compatible Chat Completions, read into messages. Pure: no I/O, no clock.

A whole answer becomes one AIMessage (`read_answer`); a streamed one becomes chunks (`StreamReader`) whose sum is the
same message. Servers differ in nearly everything the specification says, so what is read here is what they send, and
what is handed on is always of one form:

* a tool call is valid only if its arguments are one JSON object; everything else is an invalid tool call that says
  why, also where merging chunks would otherwise complete half a JSON into a call (see `openai_tool_calls`);
* each tool call chunk has an integer index of ours, an id, and its name once;
* usage and the finish reason come once, on the last chunk;
* an answer without its end is an error, never a short answer.

Format: https://platform.openai.com/docs/api-reference/chat
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import (
    add_ai_message_chunks,
)
from langchain_core.messages.tool import ToolCallChunk

from agentgraph.errors import ContentFilterError, InvalidResponseError, ModelError, TruncatedStreamError
from agentgraph.models.chunks import words_chunk
from agentgraph.models.endings import is_filtered
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.json_text import SplitText, parse_json, whole_text
from agentgraph.models.openai_blocks import piece_chunks
from agentgraph.models.openai_parts import Attachments, extras_of, read_usage, texts_of
from agentgraph.models.openai_tool_calls import ToolCallAssembly, ToolCallDraft, as_text, given, sort_calls
from agentgraph.models.openai_words import RepeatedForm, only_words
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened

__all__ = ["Asked", "StreamReader", "read_answer", "read_events", "read_usage"]

_EXCERPT = 200
# Cleaning a text for an error looks at each character; of a huge one the beginning is enough.
_LONGEST_LOOKED_AT = 4096
# What of an answer's top level is kept for the message's metadata.
_TOP = ("id", "model", "service_tier", "system_fingerprint")

# Whole answers


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked, as far as reading its answer needs it.

    Attributes:
        origin: whom it asked, for errors; its provider is in the message's metadata too.
        model: the model that was asked for; servers that do not name theirs are taken to have used it.
        names: names of tools as they were sent -> as they are called here, for those that had to be changed.
        request_id: the provider's id of the request, if it gave one.
        standard: whether the chunks of a stream are to hold standard blocks.
    """

    origin: Origin
    model: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None
    standard: bool = False

    def metadata(self, body: Mapping[str, Any], finish_reason: str, *, reasoned: bool) -> dict[str, Any]:
        """Make a message's response_metadata from an answer's top level."""
        # langchain-core's reading of "openai" messages knows no reasoning, its reading of unknown providers' does.
        provider = self.origin.provider
        if reasoned and provider == "openai":
            provider = "openai_compatible"
        known = {"id": body.get("id"), "request_id": self.request_id}
        known.update({key: body.get(key) for key in ("system_fingerprint", "service_tier")})
        return {
            "model_provider": provider,
            "model_name": given(body.get("model")) or self.model,
            "finish_reason": whole_text(finish_reason),
            **{key: whole_text(value) for key, value in known.items() if isinstance(value, str) and value},
        }


def _first_choice(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = body.get("choices")
    found = choices if isinstance(choices, list) else []
    return next((one for one in found if isinstance(one, dict) and one.get("index") in (0, None)), None)


def _is_cut(finish_reason: str) -> bool:
    return finish_reason.lower() in {"length", "max_tokens", "model_length"}


def _refuse_failures(body: Mapping[str, Any], asked: Asked) -> None:
    """Raise the error that stands in an answer of status 200, wherever servers put it."""
    choice = _first_choice(body) or {}
    failure = failure_in(asked.origin, body)
    if failure is None and choice.get("error"):
        failure = failure_in(asked.origin, {"error": choice["error"]})
    if failure is None and choice.get("finish_reason") == "error":
        failure = failure_in(asked.origin, {"error": "the answer ended with finish_reason 'error' and no reason"})
    if failure is not None:
        failure.request_id = failure.request_id or asked.request_id
        raise failure


def _refuse_filtered(finish_reason: str, asked: Asked) -> None:
    if is_filtered(finish_reason):
        raise ContentFilterError(
            f"{asked.origin.provider}: the provider's content filter cut the answer (finish_reason "
            f"{asked.origin.excerpt(finish_reason, 100)!r}). "
            "Rephrase the request, or change the filter's settings at the provider.",
            provider=asked.origin.provider,
            code=asked.origin.excerpt(finish_reason, 100),
            request_id=asked.request_id,
        )


def _raw_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Read the tool calls of a message or a delta; the elder `function_call` counts as one."""
    calls = message.get("tool_calls")
    found: list[Mapping[str, Any]] = []
    if isinstance(calls, list):
        found = [call for call in calls if isinstance(call, dict)]
    if not found and isinstance(message.get("function_call"), dict):
        found = [{"function": message["function_call"]}]
    return found


def _whole_calls(message: Mapping[str, Any]) -> list[ToolCallDraft]:
    calls: list[ToolCallDraft] = []
    for slot, raw in enumerate(_raw_calls(message)):
        function = raw.get("function")
        function = function if isinstance(function, dict) else {}
        text = as_text(function.get("arguments"))
        pieces = [] if text == "null" else [text]
        # Some servers give one id to all calls: an answer to the second would then answer the first.
        id_ = given(raw.get("id"))
        id_ = None if any(call.id == id_ for call in calls) else id_
        calls.append(ToolCallDraft(slot, id_, given(function.get("name")), pieces))
    return calls


def _no_answer(body: Any, asked: Asked) -> InvalidResponseError:
    return InvalidResponseError(
        f"{asked.origin.provider}: {asked.origin.url}: the answer has no choices[0].message, so it is not a chat "
        "completion: "
        f"{asked.origin.excerpt((body if isinstance(body, str) else repr(body))[:_LONGEST_LOOKED_AT], _EXCERPT)}. "
        "Check base_url: it must be the root of an OpenAI-compatible API.",
        provider=asked.origin.provider,
        request_id=asked.request_id,
        url=asked.origin.url,
    )


def read_answer(body: Any, asked: Asked) -> AIMessage:
    """Read a whole Chat Completions answer.

    Args:
        body: the parsed JSON, which some servers put into a list.
        asked: what the request asked.

    Returns:
        The message: text as `content`; reasoning, refusal and citations in `additional_kwargs`; calls in `tool_calls`
        or, where they must not run, in `invalid_tool_calls`; `usage_metadata`; `response_metadata`.

    Raises:
        ModelError: the body holds an error; ContentFilterError when the provider's filter cut the answer.
        InvalidResponseError: it is not an answer of this API.
    """
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict):
        raise _no_answer(body, asked)
    _refuse_failures(body, asked)
    choice = _first_choice(body)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise _no_answer(body, asked)
    calls, extras = _whole_calls(message), extras_of(message)
    finish_reason = given(choice.get("finish_reason")) or ("tool_calls" if calls else "stop")
    _refuse_filtered(finish_reason, asked)
    metadata = asked.metadata(body, finish_reason, reasoned="reasoning_content" in extras)
    attached = Attachments()
    attached.take(message, choice)
    return AIMessage(
        content=texts_of(message.get("content"), ("text", "output_text")),
        additional_kwargs=extras | attached.extras(),
        response_metadata=metadata | attached.metadata(),
        usage_metadata=read_usage(body.get("usage")),
        **sort_calls(calls, asked.names, cut=_is_cut(finish_reason)),
    )


# Streamed answers


class StreamReader:
    """Reads the events of one streamed answer into chunks whose sum is the message.

    Args:
        asked: what the request asked.

    Example:
        >>> reader = StreamReader(Asked(Origin("openai", "https://api.openai.com/v1")))
        >>> chunk = '{"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}'
        >>> [c.text for data in (chunk, "[DONE]") for c in reader.feed(ServerSentEvent("message", data))]
        ['Hi', '']
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._assembly = ToolCallAssembly()
        self._attached = Attachments()
        self._text = SplitText()
        self._form = RepeatedForm()
        self._words: defaultdict[str, SplitText] = defaultdict(SplitText)
        # Of words alone their text: thousands of chunks that nobody else holds would be work for the garbage collector.
        self._chunks: list[AIMessageChunk | str] = []
        self._top: dict[str, Any] = {}
        self._usage: Any = None
        self._finish_reason: str | None = None
        self._reasoned = False
        self._finished = False
        # An event, as long as none was of this API.
        self._foreign: str | None = ""

    def opened(self, reply: "Opened") -> None:
        """Take what the answer's headers said."""
        self._asked = replace(self._asked, request_id=reply.request_id)

    @property
    def ended(self) -> bool:
        """Whether the end marker came: what is missing then is at most the connection's own end."""
        return bool(self._finish_reason)

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Take one event; returns the chunks that follow from it, often none.

        Raises:
            ModelError: the event is an error of the server.
            InvalidResponseError: the event is not JSON.
            TruncatedStreamError: `[DONE]` came, but no end of the answer before it.
        """
        words = self._form.words_of(event.data) if event.event == "message" else None
        if words is not None:
            return self._say(words)
        self._form.forget()
        if event.data.strip() == "[DONE]":
            if self._finish_reason == "":
                self._finish_reason = "tool_calls" if self._assembly.calls else "stop"
            return self.finish()
        body = self._parse(event)
        if body is None:
            return []
        words = only_words(body) if event.event == "message" else None
        if words is None:
            _refuse_failures(body, self._asked)
        else:
            self._form.learn(event.data, words)
        self._recognise(event, body, said=words is not None)
        self._read_top(body)
        return self._read(event, body) if words is None else self._say(words)

    def _recognise(self, event: ServerSentEvent, body: Mapping[str, Any], *, said: bool) -> None:
        if said or isinstance(body.get("choices"), list) or str(body.get("object")).startswith("chat.completion"):
            self._foreign = None
        elif self._foreign is not None:
            self._foreign = self._foreign or event.data

    def _read_top(self, body: Mapping[str, Any]) -> None:
        for key in _TOP:
            if value := body.get(key):
                self._top[key] = value
        # Some servers repeat the sum so far in every chunk: the last one counts, nothing is added up.
        self._usage = body.get("usage") or self._usage

    def _read(self, event: ServerSentEvent, body: Mapping[str, Any]) -> list[AIMessageChunk]:
        choice = _first_choice(body)
        if choice is None:
            return []
        return self._read_choice(choice, "message" if event.event == "json" and "message" in choice else "delta")

    def _parse(self, event: ServerSentEvent) -> Mapping[str, Any] | None:
        """Parse an event; None for one of a type that this API does not have."""
        try:
            body = parse_json(event.data)
        except ValueError:
            body = None
        if isinstance(body, list) and len(body) == 1:
            body = body[0]
        if event.event == "error" and not isinstance(body, dict):
            return {"error": event.data}
        if not isinstance(body, dict) and event.event not in {"message", "json"}:
            return None
        if not isinstance(body, dict):
            raise InvalidResponseError(
                f"{self._asked.origin.provider}: an event of the stream is not a JSON object: "
                f"{self._asked.origin.excerpt(event.data[:_LONGEST_LOOKED_AT], _EXCERPT)!r}. "
                "Check base_url, and whether a proxy in between changes the stream.",
                provider=self._asked.origin.provider,
            )
        return {"error": body} if event.event == "error" and "error" not in body else body

    def _read_choice(self, choice: Mapping[str, Any], key: str) -> list[AIMessageChunk]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and not self._finish_reason:
            self._finish_reason = reason
        delta = choice.get(key)
        delta = delta if isinstance(delta, dict) else {}
        said = {key: self._words[key].feed(words) for key, words in extras_of(delta).items()}
        extras = {key: words for key, words in said.items() if words}
        self._reasoned = self._reasoned or "reasoning_content" in extras
        calls = [chunk for raw in _raw_calls(delta) if (chunk := self._assembly.feed(raw)) is not None]
        for chunk in calls:
            chunk["name"] = self._asked.names.get(chunk["name"] or "", chunk["name"])
        text = self._text.feed(texts_of(delta.get("content"), ("text", "output_text")))
        self._attached.take(delta, choice)
        return self._out(*self._pieces(text, extras, calls))

    def _say(self, words: str) -> list[AIMessageChunk]:
        text = self._text.feed(words)
        if not text:
            return []
        if self._asked.standard:
            return self._out(*self._pieces(text, {}, ()))
        self._chunks.append(text)
        return [words_chunk(text, additional_kwargs={})]

    def _pieces(self, text: str, extras: Mapping[str, Any], calls: Sequence[ToolCallChunk]) -> list[AIMessageChunk]:
        return piece_chunks(text, extras, calls, standard=self._asked.standard)

    def _out(self, *chunks: AIMessageChunk) -> list[AIMessageChunk]:
        self._chunks.extend(chunks)
        return list(chunks)

    def finish(self) -> list[AIMessageChunk]:
        """End the answer; returns the chunks that complete it, none when it was ended already.

        Raises:
            TruncatedStreamError: no end of the answer came; `partial` is what did come.
            InvalidResponseError: nothing that came is of this API.
            ContentFilterError: the provider's filter cut the answer.
        """
        if self._finished:
            return []
        if self._foreign:
            raise _no_answer(self._foreign, self._asked)
        if not self._finish_reason:
            raise TruncatedStreamError(
                f"{self._asked.origin.provider}: the stream ended without a finish_reason, so it is not complete. "
                "What came is in `partial`, and nothing of it was run. Try again.",
                partial=self.partial(),
                provider=self._asked.origin.provider,
            )
        self._finished = True
        _refuse_filtered(self._finish_reason, self._asked)
        metadata = self._asked.metadata(self._top, self._finish_reason, reasoned=self._reasoned)
        rests = {key: rest for key, words in self._words.items() if (rest := words.rest())}
        pieces = self._pieces(self._text.rest(), rests, ())
        last = AIMessageChunk(
            content=[] if self._asked.standard else "",
            additional_kwargs=self._attached.extras(),
            usage_metadata=read_usage(self._usage),
            response_metadata=metadata | self._attached.metadata(),
            chunk_position="last",
        )
        return self._out(*pieces, *self._closing_chunks(cut=_is_cut(self._finish_reason)), last)

    def _closing_chunks(self, *, cut: bool) -> list[AIMessageChunk]:
        return self._pieces("", {}, self._assembly.close(cut=cut))

    def partial(self) -> AIMessageChunk | None:
        """Add up what came so far, open calls spoiled, so that nobody can run half a call. None if nothing came."""
        if not self._chunks:
            return None
        came = [words_chunk(one, additional_kwargs={}) if isinstance(one, str) else one for one in self._chunks]
        return add_ai_message_chunks(*came, *self._closing_chunks(cut=True))

    def broken(self, error: ModelError) -> None:
        """Deal with a connection that failed: no matter if the answer had ended, else `error` with what came."""
        if self.ended:
            return
        if isinstance(error, TruncatedStreamError):
            error.partial = self.partial()
        raise error


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
    chunks += reader.finish()
    message = message_chunk_to_message(add_ai_message_chunks(*chunks))
    assert isinstance(message, AIMessage)  # noqa: S101 narrows what langchain-core types as any message
    return message
