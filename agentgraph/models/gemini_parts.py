"""Content blocks of messages as parts of Gemini's contents. Pure: nothing is fetched, a URL goes on as a URL.

Two rules of Gemini's shape this module: a signature goes back on the very part it came on, and what another provider's
model thought or signed must not be sent at all.
"""

import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.errors import ConfigurationError

__all__ = ["OUTCOMES", "PART_SIGNATURES", "PROVIDER", "RAW_PART", "is_geminis", "part_of"]

PROVIDER: Final = "google_genai"
"""The provider in the metadata of answers, by which langchain-core knows how to read their content."""
RAW_PART: Final = "gemini_part"
"""The type of a block that holds a part of the API as it came, because langchain-core has no word for it."""
PART_SIGNATURES: Final = "gemini_part_signatures"
"""Where messages keep the signatures of images and code, by the blocks' indices."""
OUTCOMES: Final = ("OUTCOME_UNSPECIFIED", "OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED")
"""How running code ended; their places are the numbers that langchain-core reads."""

_FILES: Final = "https://generativelanguage.googleapis.com/v1beta/"
_MEDIA: Final = frozenset(
    {"audio", "document", "file", "file_data", "image", "image_url", "input_audio", "media", "video"}
)
_TEXTS: Final = frozenset({"input_text", "output_text", "text", "text-plain"})
_NATIVE: Final = frozenset({"fileData", "inlineData", "text"})
# Blocks of models' answers, ours or others', that mean nothing where they stand.
_SILENT: Final = frozenset(
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
_DATA_URL: Final = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.IGNORECASE)
_BEGINNINGS: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "JVBERi0": "application/pdf",
    "SUQz": "audio/mp3",
    "T2dnUw": "audio/ogg",
    "ZkxhQw": "audio/flac",
}


def is_geminis(message: BaseMessage) -> bool:
    """Whether a model of Gemini's wrote a message, here or through Vertex AI."""
    return message.response_metadata.get("model_provider") in {PROVIDER, "google_vertexai"}


def part_of(block: Any, owner: BaseMessage) -> dict[str, Any] | None:
    """Make a part from a content block.

    Args:
        block: a text, or a block in langchain-core's form (also its elder ones), OpenAI's, Anthropic's or Gemini's.
        owner: the message that it stands in.

    Returns:
        The part, None where the block says nothing to Gemini.

    Raises:
        ConfigurationError: a block that Gemini has no form for, or one without what it needs.
    """
    if isinstance(block, str):
        return {"text": block} if block else None
    if isinstance(owner, AIMessage):
        return _answered(block, owner)
    kind = str(block.get("type"))
    if kind in _TEXTS and "text" in block:
        return {"text": block["text"]} if block["text"] else None
    if kind in _MEDIA or kind == "text-plain":
        return _media(block, kind, owner)
    if "type" not in block and _NATIVE & block.keys():
        return dict(block)
    if kind in _SILENT:
        return None
    raise ConfigurationError(
        f"A {owner.type} message has a content block of type {kind[:100]!r}, for which Gemini has no form. Give text, "
        "image, audio, video or file blocks, or a part of the API: {'fileData': {'fileUri': ...}}."
    )


# What a model wrote


def _answered(block: Mapping[str, Any], owner: AIMessage) -> dict[str, Any] | None:
    """Make a part of an answer: all that Gemini wrote, of what others wrote the text."""
    kind = block.get("type")
    own = is_geminis(owner)
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        block = block["value"]
        kind = block.get("type")
    signed = _signed(block, owner) if own else {}
    if kind in _TEXTS:
        text = block.get("text") or ""
        return {"text": text, **signed} if text or signed else None
    if not own:
        return None
    if kind in {"thinking", "reasoning"}:
        # What the model thought is told back only as far as it is signed: it is proof, not content.
        return {"text": block.get(str(kind)) or "", "thought": True, **signed} if signed else None
    if kind == RAW_PART and isinstance(block.get("part"), Mapping):
        return dict(block["part"])
    if kind in _MEDIA:
        return {**_media(block, str(kind), owner), **signed}
    part = _code(block, str(kind))
    return None if part is None else {**part, **signed}


def _signed(block: Mapping[str, Any], owner: AIMessage) -> dict[str, Any]:
    """Find the signature in a block, or beside the content where blocks of its kind have no place for it."""
    beside, extras = owner.additional_kwargs.get(PART_SIGNATURES), block.get("extras")
    found = block.get("signature") or (extras.get("signature") if isinstance(extras, Mapping) else None)
    if found is None and isinstance(beside, Mapping):
        found = beside.get(str(block.get("index")))
    return {"thoughtSignature": found} if isinstance(found, str) and found else {}


def _code(block: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Make a part of code that Gemini ran, or of what came of it, in its own blocks or in langchain-core's."""
    if kind == "executable_code":
        return _program(block.get("language"), block.get("executable_code"))
    if kind == "server_tool_call" and isinstance(block.get("args"), Mapping) and "code" in block["args"]:
        return _program(block["args"].get("language"), block["args"]["code"])
    if kind == "code_execution_result":
        return _result(block.get("outcome"), block.get("code_execution_result"))
    extras = block.get("extras")
    if kind == "server_tool_result" and isinstance(extras, Mapping) and "outcome" in extras:
        return _result(extras["outcome"], block.get("output"))
    return None


def _program(language: Any, code: Any) -> dict[str, Any]:
    # The API's names of languages are in capitals, langchain-core's are not.
    return {"executableCode": {"language": str(language or "python").upper(), "code": code or ""}}


def _result(outcome: Any, output: Any) -> dict[str, Any]:
    known = isinstance(outcome, int) and 0 <= outcome < len(OUTCOMES)
    return {"codeExecutionResult": {"outcome": OUTCOMES[outcome] if known else str(outcome), "output": output or ""}}


# Media


def _media(block: Mapping[str, Any], kind: str, owner: BaseMessage) -> dict[str, Any]:
    data, url, mime_type = _source(block, kind)
    if data is None and url is not None and (inline := _DATA_URL.match(url)):
        data, mime_type = _inline(url, inline, mime_type)
    if data is not None:
        found = mime_type or _guessed(data)
        if found is not None:
            return {"inlineData": {"mimeType": found, "data": data}, **_how_to_read(block)}
    elif url:
        full = f"{_FILES}{url}" if url.startswith("files/") else url
        named = mime_type or mimetypes.guess_type(urlsplit(full).path)[0]
        return {"fileData": {"fileUri": full, **({"mimeType": named} if named else {})}, **_how_to_read(block)}
    raise ConfigurationError(
        f"A {kind} block of a {owner.type} message cannot be sent to Gemini: it needs base64 and mime_type, a url, or "
        f"the file_id of an uploaded file; it has {sorted(map(str, block))!r:.200}."
    )


def _how_to_read(block: Mapping[str, Any]) -> dict[str, Any]:
    """Give what may stand beside the data: the part of a video that counts, and how fine an image is read."""
    extras = block.get("extras")
    given = {**(extras if isinstance(extras, Mapping) else {}), **block}
    names = {"video_metadata": "videoMetadata", "media_resolution": "mediaResolution"}
    return {sent: value for name, sent in names.items() if (value := given.get(name, given.get(sent))) is not None}


def _source(block: Mapping[str, Any], kind: str) -> tuple[str | None, str | None, str | None]:
    """Find base64 data, URL and media type in whichever form a block has."""
    inner = block.get(kind) if kind in {"image_url", "input_audio", "file"} else block.get("source")
    if isinstance(inner, str):
        return None, inner, _text(block, "mime_type")
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else block
    mime_type = _text(fields, "mime_type", "media_type") or _text(block, "mime_type")
    if kind == "input_audio":
        return _text(fields, "data"), None, f"audio/{_text(fields, 'format') or 'wav'}"
    if fields.get("type") == "text" and isinstance(fields.get("data"), str):
        return _encoded(fields["data"].encode("utf-8", "replace")), None, mime_type or "text/plain"
    data = next((fields[name] for name in ("base64", "data", "file_data") if fields.get(name)), None)
    if isinstance(data, bytes | bytearray):
        data = _encoded(data)
    if isinstance(data, str) and not data.startswith("data:"):
        return data, None, mime_type
    return None, data or _text(fields, "url", "file_uri", "file_id", "id"), mime_type


def _text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), None)


def _encoded(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode()


def _inline(url: str, head: re.Match[str], mime_type: str | None) -> tuple[str, str | None]:
    payload = url[head.end() :]
    if ";base64" not in head[2].lower():
        payload = _encoded(unquote_to_bytes(payload))
    return payload, head[1] or mime_type


def _guessed(data: str) -> str | None:
    """Guess a media type from the first bytes, None if they tell nothing."""
    known = next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), None)
    if known is not None or not data.startswith("UklGR"):
        return known
    try:
        # RIFF names what it carries behind its length.
        carried = base64.b64decode(data[:16])[8:12]
    except binascii.Error:
        return None
    return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(carried)
