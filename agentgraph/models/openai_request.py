"""Requests of OpenAI-compatible Chat Completions, made from messages, tools and settings. Pure: no I/O.

Servers that speak "the OpenAI API" agree on less than its specification. What they disagree on is in a `Dialect`,
chosen by provider, host and model (`dialect_of`, from the rows of `presets`), never by trial; the one exception, an
optional parameter that a server refuses by name, is dropped by `without_refused`.

Format: https://platform.openai.com/docs/api-reference/chat/create
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.block_translators.openai import convert_to_openai_data_block

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.call_ids import with_own_call_ids
from agentgraph.models.json_text import parse_sendable
from agentgraph.models.openai_refusals import refused_parameters
from agentgraph.models.openai_tools import checked_choice, chosen, nested_choice
from agentgraph.models.presets import preset_of

__all__ = [
    "Dialect",
    "arguments_text",
    "dialect_of",
    "is_openai",
    "is_reasoning_model",
    "request_body",
    "request_messages",
    "tool_choice_of",
    "tool_names",
    "without_refused",
]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
# Its templates demand such ids of whoever serves it; nobody else minds them.
_MISTRAL_MODEL = re.compile(r"(?:^|[/:])(?:open-)?(?:mistral|mixtral|ministral|magistral|codestral|devstral|pixtral)")
_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
_REASONING_MODEL = re.compile(r"(?:^|[/:])(?:o\d(?:-|$)|gpt-5(?!-chat)|gpt-[6-9])")
# Blocks that other providers' answers bring along, and that mean nothing to this one.
_SILENT = frozenset(
    {
        "cachePoint",
        "document_citation",
        "function_call",
        "invalid_tool_call",
        "non_standard",
        "reasoning",
        "reasoning_content",
        "redacted_thinking",
        "refusal",
        "server_tool_call",
        "server_tool_result",
        "server_tool_use",
        "thinking",
        "tool_call",
        "tool_call_chunk",
        "tool_use",
        "web_search_tool_result",
    }
)
_SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})
_MEDIA = frozenset({"image", "audio", "file", "document"})
_SOUND_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}
_NATIVE = frozenset({"image_url", "input_audio"})


# What a server takes


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server differs from the others.

    Attributes:
        system_role: "developer" for OpenAI's reasoning models, else "system".
        max_tokens: its name for the limit of an answer's tokens.
        sampling: whether `temperature`, `top_p` and penalties may be sent.
        speakers: whether messages may carry `name`.
        call_id: what ids of tool calls must look like.
        reasoning_back: whether an assistant turn with calls must bring its reasoning back (DeepSeek).
        merge_system: whether leading system messages are merged, because many chat templates take only one.
        refused: optional parameters that are not sent.
        renamed: parameters that have another name there, as (name, its name).
        named_choice: whether `tool_choice` may name a tool; else that tool is sent alone, and "required".
    """

    system_role: str = "system"
    max_tokens: str = "max_tokens"
    sampling: bool = True
    speakers: bool = False
    call_id: re.Pattern[str] = _CALL_ID
    reasoning_back: bool = False
    merge_system: bool = True
    refused: frozenset[str] = frozenset()
    renamed: tuple[tuple[str, str], ...] = ()
    named_choice: bool = True


def is_openai(base_url: str) -> bool:
    """Whether a base URL is OpenAI's own service, there or at Azure."""
    host = urlsplit(base_url).hostname or ""
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))


def is_reasoning_model(model: str) -> bool:
    """Whether the name is one of OpenAI's reasoning models (o-series, GPT-5 and later)."""
    return _REASONING_MODEL.search(model.lower()) is not None


@lru_cache(maxsize=256)
def dialect_of(provider: str, base_url: str, model: str) -> Dialect:
    """Choose the dialect of a server.

    Args:
        provider: the provider's name in the registry.
        base_url: the server.
        model: the model's name; on OpenAI's own service it decides which parameters are allowed.
    """
    if is_openai(base_url) or provider == "azure_openai":
        if is_reasoning_model(model):
            return Dialect("developer", "max_completion_tokens", sampling=False, speakers=True, merge_system=False)
        return Dialect(max_tokens="max_completion_tokens", speakers=True, merge_system=False)
    preset = preset_of(provider, (urlsplit(base_url).hostname or "").lower())
    nine = _MISTRAL_MODEL.search(model.lower()) is not None or (preset is not None and preset.nine_character_ids)
    call_id = _MISTRAL_ID if nine else _CALL_ID
    if preset is None:
        return Dialect(call_id=call_id)
    pattern, by_model = preset.refused_by
    return Dialect(
        call_id=call_id,
        reasoning_back=preset.reasoning_back,
        refused=preset.refused | (by_model if re.search(pattern, model.lower()) else frozenset()),
        renamed=preset.renamed,
        named_choice=preset.named_choice,
    )


_OPTIONAL = ("stream_options", "parallel_tool_calls", "tool_choice")
_SYNONYMS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


def without_refused(body: Mapping[str, Any], message: str) -> tuple[dict[str, Any], str] | None:
    """Mend a request that a server refused because of an optional parameter that it does not know.

    Args:
        body: the refused request.
        message: the server's error.

    Returns:
        The request without the parameter, or under its other name, and the parameter; None if that is not the matter.
    """
    named = refused_parameters(body, message, (*_OPTIONAL, *_SYNONYMS))
    return (renamed(body, named[:1]), named[0]) if named else None


def renamed(body: Mapping[str, Any], refused: Iterable[str]) -> dict[str, Any]:
    """Give a request without what its server is known to refuse; the limit of tokens gets its other name."""
    mended = dict(body)
    for key in refused:
        value = mended.pop(key, None)
        if value is not None and key in _SYNONYMS:
            mended[_SYNONYMS[key]] = value
    return mended


# Names and ids


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def legal_tool_name(name: str) -> str:
    """Give the name under which a tool is sent: its own, or one made from it where that is not allowed."""
    if _TOOL_NAME.fullmatch(name):
        return name
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[:55]}_{_digest(name)[:8]}"


def legal_call_id(call_id: str, legal: re.Pattern[str]) -> str:
    """Give the id under which a call of another provider is sent: always the same, so that both sides match."""
    if legal.fullmatch(call_id):
        return call_id
    digest = _digest(call_id)
    return digest[:9] if legal is _MISTRAL_ID else f"call_{digest[:24]}"


def tool_names(tools: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Map names as they are sent to names as they are called here, for the tools whose names had to be changed."""
    names = [str((tool.get("function") or {}).get("name", "")) for tool in tools]
    return {legal_tool_name(name): name for name in names if name and not _TOOL_NAME.fullmatch(name)}


def legal_tools(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give the tools under names that may be sent."""
    if not tool_names(tools):
        return list(tools)
    return [
        {**tool, "function": {**tool["function"], "name": legal_tool_name(tool["function"]["name"])}}
        if "name" in (tool.get("function") or {})
        else tool
        for tool in tools
    ]


# Content


def _part(block: Any, owner: BaseMessage) -> dict[str, Any] | None:
    """Make a content part from a block; None for one that says nothing to this API."""
    if isinstance(block, str):
        return {"type": "text", "text": block} if block else None
    kind = str(block.get("type"))
    if kind in {"text", "text-plain", "input_text", "output_text"}:
        text = block.get("text")
        return {"type": "text", "text": text} if text else None
    if kind in _NATIVE or (kind == "file" and isinstance(block.get("file"), Mapping)):
        return {key: value for key, value in block.items() if key in {"type", kind}}
    if kind in _MEDIA:
        return _media(block, owner)
    if kind in _SILENT or isinstance(owner, AIMessage):
        return None
    raise ConfigurationError(
        f"A {owner.type} message has a content block of type {kind[:100]!r}, for which Chat Completions has no "
        "form. Give text, image, audio or file blocks, or images as image_url."
    )


def _media(block: Mapping[str, Any], owner: BaseMessage) -> dict[str, Any]:
    source = block.get("source")
    if isinstance(source, Mapping):
        # Anthropic's form of an image or a document.
        block = {
            "type": "image" if block["type"] == "image" else "file",
            "mime_type": source.get("media_type"),
            **source_of(source),
        }
    filename = block.get("filename") or (block.get("extras") or block.get("metadata") or {}).get("filename")
    named = dict(block) if filename or block.get("type") != "file" else {**block, "filename": "file"}
    try:
        part: dict[str, Any] = convert_to_openai_data_block(named)
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            f"A block of the type {block.get('type')!r:.100} in a message of the type {owner.type!r} cannot be sent to "
            f"Chat Completions: {str(error).rstrip('.')}. "
            "Images need url, or base64 and mime_type; audio base64 and mime_type; files these, or file_id."
        ) from error
    sound = part.get("input_audio")
    if sound:
        sound["format"] = _SOUND_FORMATS.get(sound["format"], sound["format"])
    return part


def source_of(source: Mapping[str, Any]) -> dict[str, Any]:
    """Read the `source` of a block in Anthropic's form."""
    return {"url": source["url"]} if "url" in source else {"base64": source.get("data", "")}


def _parts(message: BaseMessage) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return [part for block in message.content if (part := _part(block, message)) is not None]


def _flat(parts: Sequence[Mapping[str, Any]], joint: str = "\n") -> str:
    return joint.join(part["text"] for part in parts if part["type"] == "text")


def _content(message: BaseMessage) -> str | list[dict[str, Any]]:
    """Give content as text where it is only text, because many servers take parts from users alone or not at all."""
    parts = _parts(message)
    return _flat(parts) if all(part["type"] == "text" for part in parts) else parts


# Messages


def arguments_text(raw: Any) -> str:
    """Give arguments as JSON of an object, whatever they were: templates of many servers parse them again."""
    if isinstance(raw, str):
        try:
            parsed = parse_sendable(raw)
        except (ValueError, RecursionError):
            parsed = None
        raw = parsed if isinstance(parsed, dict) else {"invalid_arguments": raw}
    try:
        return json.dumps(raw or {}, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # What JSON has no form for is in histories that came from elsewhere: it is told as text.
        plain = json.loads(json.dumps(raw, default=str), parse_constant=str)
        return json.dumps(plain, ensure_ascii=False)


def _call(call: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    return {
        "type": "function",
        "id": legal_call_id(call.get("id") or "", dialect.call_id),
        "function": {
            "name": legal_tool_name(call.get("name") or "unknown"),
            "arguments": arguments_text(call.get("args")),
        },
    }


def _assistant(message: AIMessage, dialect: Dialect) -> dict[str, Any]:
    text = _flat(_parts(message), "")
    out: dict[str, Any] = {"role": "assistant", "content": text}
    calls = [_call(call, dialect) for call in (*message.tool_calls, *message.invalid_tool_calls)]
    if calls:
        out |= {"content": text or None, "tool_calls": calls}
        if dialect.reasoning_back:
            out["reasoning_content"] = message.additional_kwargs.get("reasoning_content") or ""
    refusal = message.additional_kwargs.get("refusal")
    return out | {"content": None, "refusal": refusal} if refusal and not text else out


def _role(message: BaseMessage, dialect: Dialect) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, FunctionMessage):
        return "function"
    if isinstance(message, SystemMessage):
        return dialect.system_role
    raise ConfigurationTypeError(
        f"A chat model cannot be sent a {type(message).__name__}. Expected system, human, AI and tool messages."
    )


def _plain(message: BaseMessage, dialect: Dialect) -> dict[str, Any]:
    out: dict[str, Any] = {"role": _role(message, dialect), "content": _content(message)}
    if message.name and (
        isinstance(message, FunctionMessage) or (dialect.speakers and _SPEAKER.fullmatch(message.name))
    ):
        out["name"] = message.name
    return out


def _tool_result(message: ToolMessage, dialect: Dialect) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give the tool's message, and what of it only a user may send: images and files."""
    parts = _parts(message)
    media = [part for part in parts if part["type"] != "text"]
    text = _flat(parts) or ("(see the next message)" if media else "")
    out = {"role": "tool", "tool_call_id": legal_call_id(message.tool_call_id, dialect.call_id), "content": text}
    if media:
        media.insert(0, {"type": "text", "text": f"Result of the tool {message.name or message.tool_call_id}:"})
    return out, media


def request_messages(messages: Sequence[BaseMessage], dialect: Dialect) -> list[dict[str, Any]]:
    """Give messages as Chat Completions takes them.

    Blocks of other providers (thinking, signatures, calls as content) are left out. Media in tool results follow as a
    user message behind the last result of their turn, because only users may send them.

    Raises:
        ConfigurationError: a content block, or a message, that this API has no form for.
    """
    sent: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for message in with_own_call_ids(messages):
        if isinstance(message, ToolMessage):
            result, media = _tool_result(message, dialect)
            sent.append(result)
            waiting += media
            continue
        if waiting:
            sent.append({"role": "user", "content": waiting})
            waiting = []
        sent.append(_assistant(message, dialect) if isinstance(message, AIMessage) else _plain(message, dialect))
    if waiting:
        sent.append({"role": "user", "content": waiting})
    return _merged_system(sent) if dialect.merge_system else sent


def _merged_system(sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    leading = 0
    while leading < len(sent) and sent[leading]["role"] == "system" and isinstance(sent[leading]["content"], str):
        leading += 1
    if leading <= 1:
        return sent
    text = "\n\n".join(message["content"] for message in sent[:leading])
    return [{"role": "system", "content": text}, *sent[leading:]]


# The whole request


def tool_choice_of(choice: str | bool | Mapping[str, Any] | None, tools: Sequence[Mapping[str, Any]]) -> Any:
    """Give a `tool_choice` as Chat Completions takes it, None for none.

    Args:
        choice: "auto", "none", "required" or "any" (one has to be called), True (likewise), the name of a tool, or a
            dict that is passed on.
        tools: the bound tools, in OpenAI's form.

    Raises:
        ConfigurationError: the name of a tool that is not bound, or something that is no choice.
    """
    if not choice:
        return None
    if isinstance(choice, Mapping):
        return checked_choice(choice)
    if not isinstance(choice, str):
        return "required" if choice is True else checked_choice(choice)
    if choice in {"auto", "none", "required", "any"}:
        return "required" if choice == "any" else choice
    return chosen(choice, tools)


def _legal_choice(choice: Any) -> Any:
    choice = nested_choice(choice)
    function = choice.get("function") if isinstance(choice, Mapping) else None
    if not isinstance(function, Mapping) or "name" not in function:
        return choice
    return {**choice, "function": {**function, "name": legal_tool_name(function["name"])}}


def _narrowed(given: dict[str, Any]) -> dict[str, Any]:
    """Offer the one tool that is chosen, for a server that cannot be told its name."""
    chosen = given.get("tool_choice")
    function = chosen.get("function") if isinstance(chosen, Mapping) else None
    if not isinstance(function, Mapping):
        return given
    alone = [tool for tool in given["tools"] if (tool.get("function") or {}).get("name") == function.get("name")]
    return {**given, "tools": alone or given["tools"], "tool_choice": "required"}


def _spoken(settings: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Give parameters their names here, and leave out what is refused."""
    limits = [settings.pop(key, None) for key in ("max_completion_tokens", "max_tokens")]
    limit = next((value for value in limits if value is not None), None)
    if limit is not None:
        settings[dialect.max_tokens] = limit
    refused = dialect.refused if dialect.sampling else dialect.refused | _SAMPLING
    names = dict(dialect.renamed)
    return {names.get(key, key): value for key, value in settings.items() if key not in refused}


def request_body(
    messages: Sequence[BaseMessage], settings: Mapping[str, Any], dialect: Dialect, *, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Make the body of a request.

    Args:
        messages: the conversation.
        settings: the parameters by their names in the API; those that are None or empty are not sent, nor those that
            only mean something beside tools when there are none.
        dialect: what this server takes.
        extra: further parameters, which win over all others and are sent as they are.
    """
    given = {key: value for key, value in settings.items() if value is not None and value not in ("", [], {})}
    if "tools" in given:
        given["tools"] = legal_tools(given["tools"])
        if "tool_choice" in given:
            given["tool_choice"] = _legal_choice(given["tool_choice"])
        if not dialect.named_choice:
            given = _narrowed(given)
    else:
        given = {key: value for key, value in given.items() if key not in {"tool_choice", "parallel_tool_calls"}}
    return {"messages": request_messages(messages, dialect), **_spoken(given, dialect), **extra}
