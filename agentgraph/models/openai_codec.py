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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import (
    InputTokenDetails,
    OutputTokenDetails,
    UsageMetadata,
    add_ai_message_chunks,
)

from agentgraph.errors import ContentFilterError, InvalidResponseError, ModelError, TruncatedStreamError
from agentgraph.models.failures import Origin, failure_in
from agentgraph.models.json_text import SplitText, parse_json, whole_text, without_halves
from agentgraph.models.openai_tool_calls import ToolCallAssembly, ToolCallDraft, as_text, given, sort_calls
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened

__all__ = ["Asked", "StreamReader", "read_answer", "read_events", "read_usage"]

_EXCERPT = 200
# Cleaning a text for an error looks at each character; of a huge one the beginning is enough.
_LONGEST_LOOKED_AT = 4096

# Text, usage, metadata


def _texts(content: Any, kinds: Collection[str]) -> str:
    """Read the text of a content that is a string, null, or a list of parts of which some kinds count."""
    if isinstance(content, str):
        return content if "text" in kinds else ""
    found: list[str] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            found.append(_texts(part, kinds))
        elif isinstance(part, dict) and part.get("type") in kinds:
            inner = next((part[key] for key in ("text", "thinking", "reasoning") if key in part), "")
            found.append(_texts(inner, ("text",)))
    return "".join(found)


def _reasoning(message: Mapping[str, Any]) -> str:
    """Read the reasoning, for which servers have several names; they often send one text under two of them."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            return str(message[key])
    details = message.get("reasoning_details")
    found = _texts(details, ("reasoning.text",)) if isinstance(details, list) else ""
    return found or _texts(message.get("content"), ("thinking", "reasoning"))


def _extras(message: Mapping[str, Any]) -> dict[str, Any]:
    """Read the words that are not the text: reasoning and refusal."""
    extras: dict[str, Any] = {}
    if reasoning := _reasoning(message):
        extras["reasoning_content"] = reasoning
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        extras["refusal"] = message["refusal"]
    return extras


@dataclass(slots=True)
class _Attachments:
    """Citations, sound and log probabilities: collected to the end, for langchain-core cannot add up their pieces."""

    annotations: list[Any] = field(default_factory=list)
    audio: dict[str, Any] = field(default_factory=dict)
    logprobs: dict[str, list[Any]] = field(default_factory=dict)

    def take(self, message: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        """Take what a message, or a piece of one, brings along."""
        found = (message.get("annotations"), message.get("audio"), choice.get("logprobs"))
        annotations, audio, logprobs = map(without_halves, found)
        self.annotations += annotations if isinstance(annotations, list) else []
        for key, value in audio.items() if isinstance(audio, dict) else ():
            pieces = key in {"data", "transcript"} and isinstance(value, str)
            self.audio[key] = f"{self.audio.get(key, '')}{value}" if pieces else value
        for key, value in logprobs.items() if isinstance(logprobs, dict) else ():
            self.logprobs.setdefault(key, []).extend(value if isinstance(value, list) else [])

    def extras(self) -> dict[str, Any]:
        """Give what belongs into `additional_kwargs`."""
        return {key: value for key, value in (("annotations", self.annotations), ("audio", self.audio)) if value}

    def metadata(self) -> dict[str, Any]:
        """Give what belongs into `response_metadata`."""
        return {"logprobs": self.logprobs} if self.logprobs else {}


def _count(usage: Mapping[str, Any], *path: str) -> int | None:
    value: Any = usage
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_usage(usage: Any) -> UsageMetadata | None:
    """Read a `usage` object; None if there is none."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if prompt is None and completion is None:
        return None
    read = UsageMetadata(input_tokens=prompt or 0, output_tokens=completion or 0, total_tokens=0)
    read["total_tokens"] = _count(usage, "total_tokens") or read["input_tokens"] + read["output_tokens"]
    cached = _count(usage, "prompt_tokens_details", "cached_tokens")
    taken: dict[str, int | None] = {
        "audio": _count(usage, "prompt_tokens_details", "audio_tokens"),
        "cache_read": cached if cached is not None else _count(usage, "prompt_cache_hit_tokens"),
    }
    made: dict[str, int | None] = {
        "audio": _count(usage, "completion_tokens_details", "audio_tokens"),
        "reasoning": _count(usage, "completion_tokens_details", "reasoning_tokens"),
    }
    if known := {key: value for key, value in taken.items() if value is not None}:
        read["input_token_details"] = InputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    if known := {key: value for key, value in made.items() if value is not None}:
        read["output_token_details"] = OutputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    return read


# Whole answers


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked, as far as reading its answer needs it.

    Attributes:
        origin: whom it asked, for errors; its provider is in the message's metadata too.
        model: the model that was asked for; servers that do not name theirs are taken to have used it.
        names: names of tools as they were sent -> as they are called here, for those that had to be changed.
        request_id: the provider's id of the request, if it gave one.
    """

    origin: Origin
    model: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None

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
    if finish_reason == "content_filter":
        raise ContentFilterError(
            f"{asked.origin.provider}: the provider's content filter cut the answer (finish_reason 'content_filter'). "
            "Rephrase the request, or change the filter's settings at the provider.",
            provider=asked.origin.provider,
            code=finish_reason,
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
        f"{asked.origin.provider}: the answer has no choices[0].message, so it is not a chat completion: "
        f"{asked.origin.excerpt(repr(body)[:_LONGEST_LOOKED_AT], _EXCERPT)}. "
        "Check base_url: it must be the root of an OpenAI-compatible API.",
        provider=asked.origin.provider,
        request_id=asked.request_id,
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
    calls, extras = _whole_calls(message), _extras(message)
    finish_reason = given(choice.get("finish_reason")) or ("tool_calls" if calls else "stop")
    _refuse_filtered(finish_reason, asked)
    metadata = asked.metadata(body, finish_reason, reasoned="reasoning_content" in extras)
    attached = _Attachments()
    attached.take(message, choice)
    return AIMessage(
        content=_texts(message.get("content"), ("text", "output_text")),
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
        self._attached = _Attachments()
        self._text = SplitText()
        self._words: defaultdict[str, SplitText] = defaultdict(SplitText)
        self._chunks: list[AIMessageChunk] = []
        self._top: dict[str, Any] = {}
        self._usage: Any = None
        self._finish_reason: str | None = None
        self._reasoned = False
        self._finished = False

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
        if event.data.strip() == "[DONE]":
            if self._finish_reason == "":
                self._finish_reason = "tool_calls" if self._assembly.calls else "stop"
            return self.finish()
        body = self._parse(event)
        if body is None:
            return []
        _refuse_failures(body, self._asked)
        self._top.update({key: value for key, value in body.items() if value and key not in {"choices", "usage"}})
        # Some servers repeat the sum so far in every chunk: the last one counts, nothing is added up.
        self._usage = body.get("usage") or self._usage
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
        said = {key: self._words[key].feed(words) for key, words in _extras(delta).items()}
        extras = {key: words for key, words in said.items() if words}
        self._reasoned = self._reasoned or "reasoning_content" in extras
        calls = [chunk for raw in _raw_calls(delta) if (chunk := self._assembly.feed(raw)) is not None]
        for chunk in calls:
            chunk["name"] = self._asked.names.get(chunk["name"] or "", chunk["name"])
        text = self._text.feed(_texts(delta.get("content"), ("text", "output_text")))
        self._attached.take(delta, choice)
        if not (text or extras or calls):
            return []
        return self._out(AIMessageChunk(content=text, additional_kwargs=extras, tool_call_chunks=calls))

    def _out(self, *chunks: AIMessageChunk) -> list[AIMessageChunk]:
        self._chunks.extend(chunks)
        return list(chunks)

    def finish(self) -> list[AIMessageChunk]:
        """End the answer; returns the chunks that complete it, none when it was ended already.

        Raises:
            TruncatedStreamError: no end of the answer came; `partial` is what did come.
            ContentFilterError: the provider's filter cut the answer.
        """
        if self._finished:
            return []
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
        last = AIMessageChunk(
            content=self._text.rest(),
            additional_kwargs=rests | self._attached.extras(),
            usage_metadata=read_usage(self._usage),
            response_metadata=metadata | self._attached.metadata(),
            chunk_position="last",
        )
        return self._out(*self._closing_chunks(cut=_is_cut(self._finish_reason)), last)

    def _closing_chunks(self, *, cut: bool) -> list[AIMessageChunk]:
        tails = self._assembly.close(cut=cut)
        return [AIMessageChunk(content="", tool_call_chunks=tails)] if tails else []

    def partial(self) -> AIMessageChunk | None:
        """Add up what came so far, open calls spoiled, so that nobody can run half a call. None if nothing came."""
        chunks = [*self._chunks, *self._closing_chunks(cut=True)] if self._chunks else []
        return add_ai_message_chunks(*chunks) if chunks else None

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
