"""Content blocks of messages as Anthropic's Messages API takes them, from whatever form they have. Pure: no I/O.

The forms are langchain-core's standard blocks and their elder version, OpenAI's parts, and Anthropic's own, which are
passed on. What a model of another provider left in its answers (thoughts, signatures, calls that ran at the provider)
means nothing here and is left out.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.errors import ConfigurationError
from agentgraph.models.json_text import parse_sendable
from agentgraph.models.openai_request import legal_call_id, legal_tool_name

__all__ = ["CALL_ID", "assistant_content", "call_input", "user_content"]

CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(.*)", re.DOTALL)
_MEDIA = frozenset({"image", "image_url", "file", "text-plain"})
_NO_FORM = frozenset({"audio", "input_audio", "video"})
# What other providers' tools and models put beside their text.
_SILENT = frozenset(
    {
        "cachePoint",
        "function_call",
        "invalid_tool_call",
        "reasoning",
        "reasoning_content",
        "refusal",
        "tool_call_chunk",
    }
)
_DOCUMENT_KEYS = ("title", "context", "citations")
_SERVER_TOOLS = {"code_interpreter": "code_execution"}

Block = dict[str, Any]


# What users and tools send


def _cache(block: Mapping[str, Any]) -> Block:
    """Read the mark up to which a prompt is to be cached: on the block, or among the extras of a standard one."""
    for holder in (block, block.get("extras"), block.get("metadata")):
        if isinstance(holder, Mapping) and holder.get("cache_control"):
            return {"cache_control": holder["cache_control"]}
    return {}


def _text(text: Any, block: Mapping[str, Any] | None = None) -> Block | None:
    """Give a text block; None for one that is blank, which the API refuses."""
    if not isinstance(text, str) or not text.strip():
        return None
    citations = [_citation(one) for one in (block or {}).get("citations") or () if isinstance(one, Mapping)]
    return {"type": "text", "text": text, **({"citations": citations} if citations else {}), **_cache(block or {})}


def _citation(citation: Mapping[str, Any]) -> Block:
    # Answers say this too, requests must not.
    return {key: value for key, value in citation.items() if key not in {"file_id", "index"}}


def _source(block: Mapping[str, Any]) -> Block | None:
    """Read where an image or a document comes from, in whatever form it is said; None if it is not said."""
    inner = block.get("image_url") or block.get("file")
    if isinstance(inner, str):
        inner = {"url": inner}
    said: Mapping[str, Any] = {**block, **inner} if isinstance(inner, Mapping) else block
    url = said.get("url") or said.get("file_data")
    data = said.get("base64") or (said.get("data") if said.get("source_type") == "base64" else None)
    mime = said.get("mime_type") or said.get("media_type")
    if isinstance(url, str) and (match := _DATA_URL.fullmatch(url)):
        data, mime, url = match[2], match[1] or mime, None
    if isinstance(data, str) and data:
        return {"type": "base64", "media_type": mime, "data": data}
    if isinstance(url, str) and url:
        return {"type": "url", "url": url}
    by_id = said.get("file_id") or (said.get("id") if said.get("source_type") == "id" else None)
    return {"type": "file", "file_id": by_id} if by_id else None


def _plain_source(block: Mapping[str, Any], source: Block | None) -> Block | None:
    """Give a document that is text as text, which is the only form in which the API takes one."""
    text = block.get("text")
    if isinstance(text, str) and text:
        return {"type": "text", "media_type": "text/plain", "data": text}
    if source is None or not str(source.get("media_type") or "").startswith("text/"):
        return source
    try:
        decoded = base64.b64decode(source["data"], validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(
            f"A file block of type {source['media_type'][:100]!r} is not base64 of text in UTF-8 ({error})."
        ) from error
    return {"type": "text", "media_type": "text/plain", "data": decoded}


def _media(block: Mapping[str, Any], owner: BaseMessage) -> Block:
    kind, source = str(block["type"]), _source(block)
    mime = str((source or {}).get("media_type") or block.get("mime_type") or "")
    as_image = kind in {"image", "image_url"} or mime.startswith("image/")
    if not as_image:
        source = _plain_source(block, source)
    if source is None:
        raise ConfigurationError(
            f"A {kind} block of a {owner.type} message does not say where its content is: it has the keys "
            f"{sorted(map(str, block))!r:.200}. Expected url, base64 and mime_type, or file_id."
        )
    if source["type"] == "base64" and not source["media_type"]:
        source["media_type"] = "image/jpeg" if as_image else "application/pdf"
    if as_image:
        return {"type": "image", "source": source, **_cache(block)}
    extras = {**(block.get("metadata") or {}), **(block.get("extras") or {}), **block}
    named = {key: extras[key] for key in _DOCUMENT_KEYS if extras.get(key)}
    if "title" not in named and isinstance(extras.get("filename"), str):
        named["title"] = extras["filename"]
    return {"type": "document", "source": source, **named, **_cache(block)}


def _given(block: Any, owner: BaseMessage) -> Block | None:
    """Convert a block of a user or a tool; None for one that says nothing here."""
    if isinstance(block, str):
        return _text(block)
    kind = str(block.get("type"))
    if kind in {"text", "input_text", "output_text"}:
        return _text(block.get("text"), block)
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        return _given(block["value"], owner)
    if kind in _SILENT:
        return None
    if kind in _NO_FORM:
        raise ConfigurationError(
            f"A {owner.type} message has a content block of type {kind!r}, for which the Messages API has no form. "
            "Give text, images, PDFs or plain text files."
        )
    if kind in _MEDIA and "source" not in block:
        return _media(block, owner)
    return {key: value for key, value in block.items() if key != "index"}


def user_content(message: BaseMessage) -> list[Block]:
    """Give the content of a system, human or tool message as blocks, blank ones left out.

    Raises:
        ConfigurationError: a block that this API has no form for, or one that does not say where its content is.
    """
    content = [message.content] if isinstance(message.content, str) else message.content
    return [made for block in content if (made := _given(block, message)) is not None]


# What the assistant said


def call_input(raw: Any) -> Block:
    """Give the arguments of a call as the object that the API demands, whatever they were."""
    if isinstance(raw, Mapping):
        return dict(raw)
    if raw in (None, ""):
        return {}
    try:
        parsed = parse_sendable(raw) if isinstance(raw, str) else None
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {"invalid_arguments": raw if isinstance(raw, str) else repr(raw)}


def _tool_use(call: Mapping[str, Any], marker: Mapping[str, Any]) -> Block:
    kept = {key: marker[key] for key in ("caller", "toolset_name") if marker.get(key)}
    return {
        "type": "tool_use",
        "id": legal_call_id(str(call.get("id") or ""), CALL_ID),
        "name": legal_tool_name(call.get("name") or "unknown"),
        "input": call_input(call.get("args")),
        **kept,
        **_cache(marker),
    }


def _thought(block: Mapping[str, Any]) -> Block | None:
    """Give a thought back as it came; None for one without its signature, which the API refuses."""
    if block["type"] == "redacted_thinking":
        return {"type": "redacted_thinking", "data": block["data"]} if block.get("data") else None
    extras = block.get("extras")
    signature = block.get("signature") or (extras.get("signature") if isinstance(extras, Mapping) else None)
    thinking = block.get("thinking") if block["type"] == "thinking" else block.get("reasoning")
    return {"type": "thinking", "thinking": thinking or "", "signature": signature} if signature else None


def _server_block(block: Mapping[str, Any]) -> Block | None:
    """Give a standard block of a call that ran at the provider, or of its result, in Anthropic's form."""
    extras = {key: value for key, value in (block.get("extras") or {}).items() if key != "block_type"}
    if block["type"] == "server_tool_call":
        name = _SERVER_TOOLS.get(str(block.get("name")), block.get("name"))
        return {"type": "server_tool_use", "id": block.get("id"), "name": name, "input": block.get("args") or {}}
    kind = (block.get("extras") or {}).get("block_type")
    made = {"type": kind, "tool_use_id": block.get("tool_call_id"), "content": block.get("output") or [], **extras}
    return made if kind else None


def _own_block(block: Mapping[str, Any]) -> Block | None:
    """Convert what only this provider's answers hold; None for what has no meaning here."""
    kind = str(block.get("type"))
    if kind in {"thinking", "redacted_thinking", "reasoning"}:
        return _thought(block)
    if kind in {"server_tool_call", "server_tool_result"}:
        return _server_block(block)
    if kind == "non_standard":
        value = block.get("value")
        return _own_block(value) if isinstance(value, Mapping) and value.get("type") != "non_standard" else None
    native = kind.endswith("_tool_result") or kind in {
        "server_tool_use",
        "mcp_tool_use",
        "compaction",
        "container_upload",
    }
    return {key: value for key, value in block.items() if key != "index"} if native else None


def _is_own(message: AIMessage) -> bool:
    return message.response_metadata.get("model_provider") in {None, "anthropic"}


def _said(message: AIMessage, calls: dict[str, Mapping[str, Any]]) -> Iterator[Block | None]:
    own = _is_own(message)
    content: Sequence[Any] = [message.content] if isinstance(message.content, str) else message.content
    for block in content:
        kind = "text" if isinstance(block, str) else str(block.get("type"))
        if isinstance(block, str):
            yield _text(block)
        elif kind in {"text", "output_text"}:
            yield _text(block.get("text"), block if own else None)
        elif kind in {"tool_use", "tool_call"}:
            call = calls.pop(str(block.get("id")), None)
            yield None if call is None else _tool_use(call, block)
        elif own:
            yield _own_block(block)


def assistant_content(message: AIMessage) -> list[Block]:
    """Give what the assistant said as blocks, in its order.

    `tool_calls` is what counts of calls, since approvals and repairs change it: blocks of calls in the content only say
    where a call stood. Invalid calls are told as well, for their answers follow.
    """
    calls: dict[str, Mapping[str, Any]] = {}
    for place, call in enumerate((*message.tool_calls, *message.invalid_tool_calls)):
        known = str(call.get("id") or "")
        calls[known if known and known not in calls else f"{known} {place}"] = call
    blocks = [block for block in _said(message, calls) if block is not None]
    blocks += [_tool_use(call, {}) for call in calls.values()]
    refusal = _text(message.additional_kwargs.get("refusal"))
    return blocks or ([refusal] if refusal else [])
