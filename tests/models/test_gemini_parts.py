"""Content blocks of every form, and the parts of Gemini's requests that they become."""

import base64
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from agentgraph.errors import ConfigurationError
from agentgraph.models.gemini_request import contents_of, dialect_of
from tests.models.gemini_asking import text

PNG = "iVBORw0KGgoAAA=="


def sent(message: HumanMessage) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = contents_of([message], dialect_of("gemini-2.5-flash"))["contents"]
    return contents


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def inline(mime_type: str, data: str = "AAAA") -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": data}}


def file(uri: str, mime_type: str | None = None) -> dict[str, Any]:
    return {"fileData": {"fileUri": uri} | ({"mimeType": mime_type} if mime_type else {})}


API = "https://generativelanguage.googleapis.com/v1beta"
BLOCKS: dict[str, tuple[Any, Any]] = {
    "text": ({"type": "text", "text": "a"}, text("a")),
    "a bare text": ("a", text("a")),
    "an empty text": ({"type": "text", "text": ""}, None),
    "an image": ({"type": "image", "base64": "AAAA", "mime_type": "image/png"}, inline("image/png")),
    "an image whose kind is not told": ({"type": "image", "base64": PNG}, inline("image/png", PNG)),
    "sound whose kind is not told": (
        {"type": "audio", "base64": base64.b64encode(b"RIFF0000WAVEfmt ").decode()},
        inline("audio/wav", base64.b64encode(b"RIFF0000WAVEfmt ").decode()),
    ),
    "an image at a URL": (
        {"type": "image", "url": "https://a.test/b.png?c"},
        file("https://a.test/b.png?c", "image/png"),
    ),
    "an image of the elder form": (
        {"type": "image", "source_type": "base64", "data": "AAAA", "mime_type": "image/png"},
        inline("image/png"),
    ),
    "a URL of the elder form": (
        {"type": "image", "source_type": "url", "url": "https://a.test/b"},
        file("https://a.test/b"),
    ),
    "OpenAI's image": ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, inline("image/png")),
    "OpenAI's image as a text": (
        {"type": "image_url", "image_url": "https://a.test/b.jpg"},
        file("https://a.test/b.jpg", "image/jpeg"),
    ),
    "a data URL that is text": ({"type": "file", "url": "data:text/plain,a%20b"}, inline("text/plain", "YSBi")),
    "OpenAI's sound": ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, inline("audio/mp3")),
    "OpenAI's file": (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        inline("application/pdf"),
    ),
    "OpenAI's uploaded file": ({"type": "file", "file": {"file_id": "files/abc"}}, file(f"{API}/files/abc")),
    "Anthropic's image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        inline("image/png"),
    ),
    "Anthropic's document": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a b"}},
        inline("text/plain", "YSBi"),
    ),
    "Anthropic's URL": (
        {"type": "document", "source": {"type": "url", "url": "https://a.test/b.pdf"}},
        file("https://a.test/b.pdf", "application/pdf"),
    ),
    "an uploaded file": (
        {"type": "file", "file_id": "files/abc", "mime_type": "text/csv"},
        file(f"{API}/files/abc", "text/csv"),
    ),
    "bytes": ({"type": "media", "mime_type": "audio/ogg", "data": b"\0\0\0"}, inline("audio/ogg")),
    "a file in a bucket": (
        {"type": "media", "mime_type": "video/mp4", "file_uri": "gs://a/b"},
        file("gs://a/b", "video/mp4"),
    ),
    "a part of a video": (
        {"type": "video", "url": "https://youtu.be/x", "extras": {"video_metadata": {"fps": 1}}},
        {**file("https://youtu.be/x"), "videoMetadata": {"fps": 1}},
    ),
    "a plain text file": ({"type": "text-plain", "base64": "AAAA", "mime_type": "text/plain"}, inline("text/plain")),
    "a plain text": ({"type": "text-plain", "text": "a", "mime_type": "text/plain"}, text("a")),
    "a part of the API": (file("gs://a/b"), file("gs://a/b")),
    "a cache point": ({"type": "cachePoint"}, None),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks_of_every_form_become_parts(case: str) -> None:
    block, part = BLOCKS[case]
    assert sent(HumanMessage(["?", block])) == [user(text("?"), *([part] if part else []))]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"type": "hologram"}, "'hologram'"),
        ({"type": "image"}, "needs base64 and mime_type"),
        ({"type": "image", "base64": "AAAA"}, "needs base64 and mime_type"),
        ({"type": "audio", "base64": "UklGR#"}, "needs base64 and mime_type"),
        ({"no": "type"}, "'None'"),
    ],
)
def test_a_block_that_cannot_be_sent_is_told(block: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        sent(HumanMessage([block]))
