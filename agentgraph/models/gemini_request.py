"""Requests of Gemini's generateContent, made from messages, tools and settings. Pure: no I/O.

What a user meets here and not at other providers: calls are answered by the name of the function, in one content for
all calls of a turn; roles alternate; and newer models refuse a call of theirs that comes back without its signature.

Format: https://ai.google.dev/api/generate-content
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.gemini_parts import is_geminis, part_of
from agentgraph.models.gemini_profiles import gemini_row
from agentgraph.models.gemini_schema import json_schema
from agentgraph.models.gemini_tools import legal_name, tool_entries, with_legal_names
from agentgraph.models.json_text import parse_sendable

__all__ = ["SIGNATURES", "Dialect", "contents_of", "dialect_of", "request_body"]

SIGNATURES: Final = "__gemini_function_call_thought_signatures__"
"""Where messages keep the signatures of their calls, by the calls' ids: the key of LangChain's integration too."""

# Google's word for a call that no Gemini model made, so that none signed it.
_NOT_SIGNED: Final = "skip_thought_signature_validator"
# Ids of ours: the server, which gave none, is not told them.
_MADE_ID: Final = re.compile(r"call_[0-9a-f]{24}")
_GENERATION: Final = re.compile(r"gemini-(\d+)")
_FIRST_SIGNING: Final = 3
_CONFIG: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "max_output_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "stop_sequences": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "response_logprobs": "responseLogprobs",
    "logprobs": "logprobs",
    "response_modalities": "responseModalities",
    "response_mime_type": "responseMimeType",
    "response_schema": "responseSchema",
    "response_json_schema": "responseJsonSchema",
    "media_resolution": "mediaResolution",
    "speech_config": "speechConfig",
    "image_config": "imageConfig",
}
_THINKING: Final[Mapping[str, str]] = {
    "thinking_budget": "thinkingBudget",
    "thinking_level": "thinkingLevel",
    "include_thoughts": "includeThoughts",
}
_TOP: Final[Mapping[str, str]] = {
    "safety_settings": "safetySettings",
    "cached_content": "cachedContent",
    "labels": "labels",
}
_ELSEWHERE: Final = frozenset({"model", "parallel_tool_calls", "response_format", "tool_choice", "tools"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one model differs from the others.

    Attributes:
        signed: whether calls in a history have to be signed.
        media_in_results: whether the result of a call may hold images; else they follow it.
        system: whether there is an instruction beside the contents; else it begins the first turn of the user.
    """

    signed: bool = True
    media_in_results: bool = True
    system: bool = True


def dialect_of(model: str) -> Dialect:
    """Choose the dialect of a model by its name; "gemini-flash-latest" and its like are the newest."""
    found = _GENERATION.search(model.lower())
    newest = "gemini" in model.lower() if found is None else int(found[1]) >= _FIRST_SIGNING
    row = gemini_row(model)
    return Dialect(signed=newest, media_in_results=newest, system=row is None or row.system)


# Messages


def _parts(message: BaseMessage) -> list[dict[str, Any]]:
    content = [message.content] if isinstance(message.content, str) else message.content
    return [part for block in content if (part := part_of(block, message)) is not None]


def _arguments(raw: Any) -> dict[str, Any]:
    """Give arguments as an object that JSON has a form for, whatever they were."""
    if isinstance(raw, str):
        try:
            parsed = parse_sendable(raw)
        except (ValueError, RecursionError):
            parsed = None
        raw = parsed if isinstance(parsed, dict) else {"invalid_arguments": raw}
    try:
        json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError):
        # What JSON has no form for is in histories that came from elsewhere: it is told as text.
        raw = json.loads(json.dumps(raw, default=str), parse_constant=str)
    return dict(raw or {})


@dataclass(slots=True)
class _Conversation:
    """The contents as far as they are made, and the calls that later messages may answer."""

    dialect: Dialect
    system: list[dict[str, Any]] = field(default_factory=list)
    contents: list[dict[str, Any]] = field(default_factory=list)
    # By the id of the call: the function's name, and the id if the server knows it.
    calls: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    # Images and files of results follow the last one, because the results have to come first.
    media: list[dict[str, Any]] = field(default_factory=list)

    def add(self, message: BaseMessage) -> None:
        """Take the next message."""
        if isinstance(message, ToolMessage):
            self._append("user", [self._result(message)])
            return
        self.flush()
        if isinstance(message, AIMessage):
            self._append("model", [*_parts(message), *self._calls(message)])
        elif isinstance(message, FunctionMessage):
            response = {"name": legal_name(message.name), "response": {"result": message.text}}
            self._append("user", [{"functionResponse": response}])
        elif _is_system(message) and not self.contents:
            self.system += _parts(message)
        else:
            # Gemini has one instruction, before all contents: a later one keeps its place, as a turn of the user.
            self._append(_role(message), _parts(message))

    def flush(self) -> None:
        """Put what waits for the last result behind it."""
        media, self.media = self.media, []
        self._append("user", media)

    def _append(self, role: str, parts: list[dict[str, Any]]) -> None:
        if not parts:
            return
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _calls(self, message: AIMessage) -> Iterator[dict[str, Any]]:
        own = is_geminis(message)
        kept = message.additional_kwargs.get(SIGNATURES) if own else None
        signatures = kept if isinstance(kept, Mapping) else {}
        for position, call in enumerate((*message.tool_calls, *message.invalid_tool_calls)):
            id_ = call.get("id") or ""
            name = legal_name(call.get("name"))
            known = id_ if own and id_ and not _MADE_ID.fullmatch(id_) else None
            self.calls[id_] = (name, known)
            made = {"name": name, "args": _arguments(call.get("args"))} | ({"id": known} if known else {})
            signature = signatures.get(id_)
            if signature is None and position == 0 and self.dialect.signed:
                signature = _NOT_SIGNED
            yield {"functionCall": made} | ({"thoughtSignature": signature} if signature else {})

    def _result(self, message: ToolMessage) -> dict[str, Any]:
        name, known = self.calls.get(message.tool_call_id) or (legal_name(message.name), None)
        parts = _parts(message)
        text = "\n".join(part["text"] for part in parts if "text" in part)
        media = [part for part in parts if "text" not in part]
        # As text, though objects may be sent: Gemini would read their whole numbers as floats, and keys as its own.
        response: dict[str, Any] = {"error" if message.status == "error" else "result": text}
        out: dict[str, Any] = {"name": name, "response": response} | ({"id": known} if known else {})
        inside = [part for part in media if self.dialect.media_in_results and "inlineData" in part]
        if inside:
            out["parts"] = inside
        if outside := [part for part in media if part not in inside]:
            self.media += [{"text": f"Result of the tool {name}:"}, *outside]
        return {"functionResponse": out}


def _begun_with(system: list[dict[str, Any]], contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put an instruction before the first turn, for a model that has no other place for it."""
    # The server joins the parts of a turn as they are.
    spaced = [{**part, "text": f"{part['text']}\n\n"} if "text" in part else part for part in system]
    first, *later = contents
    if first["role"] == "user":
        return [{**first, "parts": [*spaced, *first["parts"]]}, *later]
    return [{"role": "user", "parts": spaced}, *contents]


def _is_system(message: BaseMessage) -> bool:
    return isinstance(message, SystemMessage) or (
        isinstance(message, ChatMessage) and message.role in {"system", "developer"}
    )


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return "model" if message.role in {"assistant", "model"} else "user"
    if isinstance(message, HumanMessage | SystemMessage):
        return "user"
    raise ConfigurationTypeError(
        f"A chat model cannot be sent a {type(message).__name__}. Expected system, human, AI and tool messages."
    )


def contents_of(messages: Sequence[BaseMessage], dialect: Dialect) -> dict[str, Any]:
    """Give messages as `contents`, and leading system messages as `systemInstruction`.

    Args:
        messages: the conversation.
        dialect: what the model takes.

    Raises:
        ConfigurationError: nothing is left to send, or a content block or message that Gemini has no form for.
    """
    conversation = _Conversation(dialect)
    for message in messages:
        conversation.add(message)
    conversation.flush()
    contents, system = conversation.contents, conversation.system
    if system and contents and not dialect.system:
        contents, system = _begun_with(system, contents), []
    if not contents and system:
        # An instruction alone is refused; it can only be meant as the question.
        contents, system = [{"role": "user", "parts": system}], []
    if not contents:
        raise ConfigurationError(
            f"None of the {len(messages)} messages has anything that Gemini could be sent. Give a text, a file, or a "
            "result of a tool."
        )
    return {"contents": contents} | ({"systemInstruction": {"parts": system}} if system else {})


# The whole request


def _response_format(given: Any) -> dict[str, Any]:
    """Translate OpenAI's `response_format`."""
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "json_schema":
        schema = json_schema(given["json_schema"].get("schema") or {"type": "object"})
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    if kind == "text" or not given:
        return {}
    raise ConfigurationError(
        f'response_format={given!r:.200} is none. Expected {{"type": "json_schema", "json_schema": {{"schema": ...}}}}'
        ' or {"type": "json_object"}.'
    )


def _generation_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    config = {sent: settings[name] for name, sent in _CONFIG.items() if name in settings}
    if isinstance(config.get("stopSequences"), str):
        config["stopSequences"] = [config["stopSequences"]]
    if thinking := {sent: settings[name] for name, sent in _THINKING.items() if name in settings}:
        config["thinkingConfig"] = thinking
    return config | _response_format(settings.get("response_format"))


def _safety(settings: Any) -> list[Any]:
    """Give safety settings as the API's list, also from a dict of category and threshold."""
    if isinstance(settings, Mapping):
        return [{"category": category, "threshold": threshold} for category, threshold in settings.items()]
    return list(settings)


def _refuse_unknown(settings: Mapping[str, Any]) -> None:
    known = {*_CONFIG, *_THINKING, *_TOP, *_ELSEWHERE}
    for name in settings.keys() - known:
        nearest = difflib.get_close_matches(name, known, n=1)
        guess = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigurationError(
            f"{name!r:.100} is no parameter of Gemini's{guess} Give what the API has beyond ChatGemini's arguments in "
            "extra_body, in the API's own form."
        )


def request_body(
    messages: Sequence[BaseMessage], settings: Mapping[str, Any], *, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Make the body of a request.

    Args:
        messages: the conversation.
        settings: the parameters by ChatGemini's names; those that are None or empty are not sent. `tools` are in
            OpenAI's form or in Gemini's, `tool_choice` and `response_format` in OpenAI's or in Gemini's.
        extra: further parameters in the API's form, which win over all others; `generationConfig` and `toolConfig`
            are merged.

    Raises:
        ConfigurationError: an unknown parameter, or one that Gemini has no form for.
    """
    given = {key: value for key, value in settings.items() if value is not None and value not in ("", [], {})}
    _refuse_unknown(given)
    body = contents_of(messages, dialect_of(str(given.get("model", ""))))
    body |= with_legal_names(tool_entries(given.get("tools", ()), given.get("tool_choice")))
    body |= {sent: given[name] for name, sent in _TOP.items() if name in given}
    if "safetySettings" in body:
        body["safetySettings"] = _safety(body["safetySettings"])
    if config := _generation_config(given):
        body["generationConfig"] = config
    for key, value in extra.items():
        merged = key in {"generationConfig", "toolConfig"} and isinstance(value, Mapping)
        body[key] = {**body.get(key, {}), **value} if merged else value
    return body
