"""Content of messages as the Responses API takes it from users and tools: text, images, files, sound. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from agentgraph.errors import ConfigurationError
from agentgraph.models.openai_request import source_of

__all__ = ["content_of", "output_of", "text_of"]

_TEXTS = frozenset({"text", "text-plain", "input_text", "output_text"})
_NATIVE = frozenset({"input_image", "input_file", "input_audio"})
# Blocks of answers of any provider, which a person or a tool may repeat, and that say nothing here.
_SILENT = frozenset(
    {
        "cachePoint",
        "function_call",
        "invalid_tool_call",
        "non_standard",
        "reasoning",
        "reasoning_content",
        "redacted_thinking",
        "server_tool_call",
        "server_tool_result",
        "thinking",
        "tool_call",
        "tool_call_chunk",
        "tool_use",
    }
)
_SOUND_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


def text_of(block: Any) -> str | None:
    """Read the text of a block that is nothing else, None for other blocks."""
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping) and str(block.get("type")) in _TEXTS:
        text = block.get("text")
        return text if isinstance(text, str) else ""
    return None


def _part(block: Any, owner: BaseMessage) -> dict[str, Any] | None:
    """Make a content part from a block; None for one that says nothing to this API."""
    text = text_of(block)
    if text is not None:
        return {"type": "input_text", "text": text} if text else None
    kind = str(block.get("type"))
    if kind in _NATIVE:
        return {key: value for key, value in block.items() if key not in {"cache_control", "index"}}
    if kind in _SILENT:
        return None
    part = _media(_unwrapped(block))
    if part is None:
        raise ConfigurationError(
            f"A {owner.type} message has a content block of type {kind[:100]!r} that the Responses API has no form "
            "for. Give text, image, file or audio blocks. Images need url, base64 and mime_type, or file_id; files "
            "likewise; audio base64 and mime_type."
        )
    return part


def _unwrapped(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a block of another form in langchain-core's: of Chat Completions, of Anthropic, or the elder one."""
    kind, source = str(block.get("type")), block.get("source")
    inner = block.get(kind)
    if kind == "image_url":
        image = {"url": inner} if isinstance(inner, str) else dict(inner or {})
        return {"type": "image", **image}
    if kind == "file" and isinstance(inner, Mapping):
        return {"type": "file", **inner}
    if isinstance(source, Mapping):
        as_kind = "image" if kind == "image" else "file"
        return {**block, "type": as_kind, "mime_type": source.get("media_type"), **source_of(source)}
    elder = {"base64": "data", "url": "url", "id": "id"}.get(str(block.get("source_type")))
    if elder is None:
        return block
    return {**block, ("file_id" if elder == "id" else str(block["source_type"])): block.get(elder)}


def _media(block: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "image":
        return _image(block)
    if kind in {"file", "document"}:
        return _file(block)
    if kind == "audio" and block.get("base64") and block.get("mime_type"):
        sound = str(block["mime_type"]).partition("/")[2]
        audio = {"data": block["base64"], "format": _SOUND_FORMATS.get(sound, sound)}
        return {"type": "input_audio", "input_audio": audio}
    return None


def _data_url(block: Mapping[str, Any]) -> str | None:
    data, mime_type = block.get("base64"), block.get("mime_type")
    return f"data:{mime_type};base64,{data}" if data and mime_type else None


def _extra(block: Mapping[str, Any], name: str) -> Any:
    beside = block.get("extras") or block.get("metadata") or {}
    return block.get(name) or beside.get(name)


def _image(block: Mapping[str, Any]) -> dict[str, Any] | None:
    part = {"type": "input_image", "detail": _extra(block, "detail") or "auto"}
    url = block.get("url") or _data_url(block)
    if url:
        return {**part, "image_url": url}
    return {**part, "file_id": block["file_id"]} if block.get("file_id") else None


def _file(block: Mapping[str, Any]) -> dict[str, Any] | None:
    filename = _extra(block, "filename")
    if block.get("file_id"):
        return {"type": "input_file", "file_id": block["file_id"]}
    url, data = block.get("url"), block.get("file_data") or _data_url(block)
    if url:
        return {"type": "input_file", "file_url": url}
    # Without a name, the server refuses the data.
    return {"type": "input_file", "filename": filename or "file", "file_data": data} if data else None


def _parts(message: BaseMessage) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"type": "input_text", "text": message.content}] if message.content else []
    return [part for block in message.content if (part := _part(block, message)) is not None]


def _simplest(parts: Sequence[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Give text where it is only text, which every server takes."""
    if all(part["type"] == "input_text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


def content_of(message: BaseMessage) -> str | list[dict[str, Any]]:
    """Give the content of a user's or system's message.

    Raises:
        ConfigurationError: a block that this API has no form for.
    """
    return _simplest(_parts(message))


def output_of(message: ToolMessage) -> tuple[str | list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the output of a tool's message, and the parts that cannot be in one.

    Raises:
        ConfigurationError: a block that this API has no form for.
    """
    parts = _parts(message)
    sound = [part for part in parts if part["type"] == "input_audio"]
    output = _simplest([part for part in parts if part["type"] != "input_audio"])
    return output or ("(see the next message)" if sound else ""), sound
