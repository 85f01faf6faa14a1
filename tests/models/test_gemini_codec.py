"""Answers of Gemini: what the server sends, whole and in events, and the one message that has to come of it."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from agentgraph.errors import ModelError
from agentgraph.models.gemini_codec import Asked, read_answer
from agentgraph.models.gemini_request import SIGNATURES
from tests.models.gemini_asking import USAGE, called, piece, text
from tests.models.gemini_reading import ASKED, MADE, both, stream, total


def test_an_answer_becomes_one_message() -> None:
    usage = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 3,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 25,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}, {"modality": "AUDIO", "tokenCount": 2}],
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 1}],
    }
    growing = {"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11}
    message = both(
        piece(text("Hel"), usageMetadata=growing),
        piece(text("lo "), reason="STOP", avgLogprobs=-0.5, usageMetadata=usage),
    )
    assert message == AIMessage(
        content="Hello ",
        response_metadata={
            "model_provider": "google_genai",
            "model_name": "gemini-x-001",
            "finish_reason": "STOP",
            "id": "r1",
            "request_id": "q",
            "avg_logprobs": -0.5,
        },
        usage_metadata={
            "input_tokens": 13,
            "output_tokens": 12,
            "total_tokens": 25,
            "input_token_details": {"audio": 2, "cache_read": 4},
            "output_token_details": {"audio": 1, "reasoning": 7},
        },
    )


def test_usage_and_metadata_come_once_on_the_last_chunk() -> None:
    chunks = stream(piece(text("a"), usageMetadata=USAGE), piece(text("b"), reason="STOP", usageMetadata=USAGE))
    assert [chunk.usage_metadata is None for chunk in chunks] == [True, True, False]
    assert [list(chunk.response_metadata) for chunk in chunks[:-1]] == [["model_provider"]] * 2
    assert [chunk.chunk_position for chunk in chunks] == [None, None, "last"]


@pytest.mark.parametrize("usage", [{}, {"promptTokenCount": "5"}, {"promptTokenCount": True}, [], None, 3])
def test_usage_that_is_none_is_none(usage: Any) -> None:
    assert both(piece(text("a"), reason="STOP", usageMetadata=usage)).usage_metadata is None


CONTENTS: dict[str, tuple[list[Any], Any]] = {
    "a plain text": ([text("a"), text(" b\n")], "a b\n"),
    "nothing": ([], ""),
    "a text that is signed": (
        [text("a", thoughtSignature="s")],
        [{"type": "text", "text": "a", "extras": {"signature": "s"}, "index": "lc_part_0"}],
    ),
    "a signature behind the text": (
        [text("a"), text("", thoughtSignature="s")],
        ["a", {"type": "text", "text": "", "extras": {"signature": "s"}, "index": "lc_part_0"}],
    ),
    "a signature without a text": (
        [text("a"), {"thoughtSignature": "s"}],
        ["a", {"type": "text", "text": "", "extras": {"signature": "s"}, "index": "lc_part_0"}],
    ),
    "thoughts before the text": (
        [text("h", thought=True), text("m", thought=True), text("a"), text("b")],
        [
            {"type": "thinking", "thinking": "hm", "index": "lc_part_0"},
            {"type": "text", "text": "ab", "index": "lc_part_1"},
        ],
    ),
    "signed thoughts are no part of others": (
        [text("h", thought=True), text("m", thought=True, thoughtSignature="s"), text("n", thought=True)],
        [
            {"type": "thinking", "thinking": "h", "index": "lc_part_0"},
            {"type": "thinking", "thinking": "m", "signature": "s", "index": "lc_part_1"},
            {"type": "thinking", "thinking": "n", "index": "lc_part_2"},
        ],
    ),
    "an image": (
        [text("see"), {"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "s"}, text("it")],
        [
            "see",
            {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,AA=="},
                "index": "lc_part_0",
            },
            {"type": "text", "text": "it", "index": "lc_part_1"},
        ],
    ),
    "sound and a file": (
        [
            {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AA=="}},
            {"fileData": {"fileUri": "gs://a/b", "mimeType": "text/plain"}},
        ],
        [
            {"type": "audio", "base64": "AA==", "mime_type": "audio/L16;rate=24000", "index": "lc_part_0"},
            {"type": "file_data", "file_uri": "gs://a/b", "mime_type": "text/plain", "index": "lc_part_1"},
        ],
    ),
    "code that was run": (
        [
            {"executableCode": {"id": "c1", "language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
            text("one"),
        ],
        [
            {
                "type": "executable_code",
                "executable_code": "print(1)",
                "language": "python",
                "id": "c1",
                "index": "lc_part_0",
            },
            {
                "type": "code_execution_result",
                "code_execution_result": "1\n",
                "outcome": 1,
                "tool_call_id": "c1",
                "index": "lc_part_1",
            },
            {"type": "text", "text": "one", "index": "lc_part_2"},
        ],
    ),
    "what no answer can hold": ([{"functionResponse": {"name": "get"}}, {"functionCall": 7}, text("a")], "a"),
    "something new": (
        [{"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "t"}, "thoughtSignature": "s"}],
        [
            {
                "type": "gemini_part",
                "part": {"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "t"}, "thoughtSignature": "s"},
                "index": "lc_part_0",
            }
        ],
    ),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_parts_become_content(case: str) -> None:
    parts, content = CONTENTS[case]
    message = both(*[piece(part) for part in parts], piece(reason="STOP"))
    assert message.content == content
    assert message.text == "".join(part.get("text", "") for part in parts if not part.get("thought"))


def test_langchain_reads_the_blocks() -> None:
    parts = [part for parts, _ in CONTENTS.values() for part in parts]
    blocks = both(piece(*parts, reason="STOP")).content_blocks
    kinds = [block["type"] for block in blocks]
    assert {"reasoning", "text", "image", "file", "server_tool_call", "server_tool_result"} <= set(kinds)
    signed = [block for block in blocks if block["type"] == "reasoning" and "extras" in block]
    assert signed == [
        {"type": "reasoning", "reasoning": "m", "extras": {"signature": "s"}, "index": signed[0]["index"]}
    ]


def test_a_character_that_was_cut_in_half_is_put_together_and_a_lone_half_is_replaced() -> None:
    chunks = stream(piece(text("a\ud83d")), piece(text("\ude00b")), piece(text("\ud83d"), reason="STOP"))
    assert total(chunks).content == "a😀b\ufffd"
    assert total(stream(piece(text("\ud83d")), piece(text("h", thought=True), reason="STOP"))).text == "\ufffd"


# Calls


def test_calls_keep_their_signatures_by_their_ids_and_those_of_one_name_stay_apart() -> None:
    message = both(
        piece(text("Let me see.")),
        piece(called("get", {"city": "Rome"}, id="x", thoughtSignature="s1"), called("get", {"city": "Oslo"}, id="y")),
        piece(called("now")),
        piece(reason="STOP"),
    )
    made = message.tool_calls[2]["id"]
    assert made is not None
    assert MADE.fullmatch(made)
    assert message.tool_calls == [
        {"name": "get", "args": {"city": "Rome"}, "id": "x", "type": "tool_call"},
        {"name": "get", "args": {"city": "Oslo"}, "id": "y", "type": "tool_call"},
        {"name": "now", "args": {}, "id": made, "type": "tool_call"},
    ]
    assert (message.content, message.additional_kwargs) == ("Let me see.", {SIGNATURES: {"x": "s1"}})


def test_each_call_is_a_chunk_with_an_index_of_its_own() -> None:
    chunks = stream(piece(called("get"), called("get")), piece(called("now"), reason="STOP"))
    found = [(call["index"], call["name"], call["args"]) for chunk in chunks for call in chunk.tool_call_chunks]
    assert found == [(0, "get", "{}"), (1, "get", "{}"), (2, "now", "{}")]


def test_calls_of_one_id_get_ids_of_their_own() -> None:
    nameless = {"functionCall": {"id": "x", "args": {"city": "Rome"}}}
    message = both(piece(called("get", id="x"), called("get", id="x"), nameless, reason="STOP"))
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    assert [call["name"] for call in calls] == ["get", "get", None]
    assert len({call["id"] for call in calls}) == 3


def test_arguments_nested_without_end_are_an_invalid_call() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    message = read_answer(piece(called("get", {"deep": deep}), reason="STOP"), ASKED)
    assert ([call["name"] for call in message.invalid_tool_calls], message.tool_calls) == (["get"], [])


GARBLED = {
    "arguments that are a list": {"name": "get", "args": [1]},
    "arguments that are half a text": {"name": "get", "args": '{"city": "Ro'},
    "no name": {"args": {"city": "Rome"}},
    "arguments in pieces": {"name": "get", "args": {}, "willContinue": True},
    "the first of them": {"name": "get", "partialArgs": [{"jsonPath": "$.city", "stringValue": "Ro"}]},
}


@pytest.mark.parametrize("case", GARBLED)
def test_a_call_that_cannot_be_read_is_invalid_and_its_neighbour_is_not(case: str) -> None:
    message = both(piece({"functionCall": GARBLED[case]}, called("now"), reason="STOP"))
    assert [call["name"] for call in message.tool_calls] == ["now"]
    assert [call["name"] for call in message.invalid_tool_calls] == [GARBLED[case].get("name")]


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("Malformed function call: print(default_api.get(city='Ro", "get"),
        ("Malformed function call: get(city=", "get"),
        (None, None),
    ],
)
def test_a_call_that_the_server_could_not_read_is_an_invalid_call(reason: str, told: str | None, name: Any) -> None:
    message = both(piece(reason=reason, finishMessage=told))
    assert (message.tool_calls, [call["name"] for call in message.invalid_tool_calls]) == ([], [name])
    assert (told or "did not say") in str(message.invalid_tool_calls[0]["args"])
    assert message.response_metadata["finish_reason"] == reason


def test_names_that_were_changed_for_the_wire_are_changed_back() -> None:
    asked = Asked(ASKED.origin, "m", {"_a_b_1": "a b"})
    for message in (
        read_answer(piece(called("_a_b_1"), reason="STOP"), asked),
        total(stream(piece(called("_a_b_1"), reason="STOP"), asked=asked)),
    ):
        assert [call["name"] for call in message.tool_calls] == ["a b"]


def test_sources_become_citations() -> None:
    grounding = {
        "webSearchQueries": ["q"],
        "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}, "x"],
        "groundingSupports": [
            {"segment": {"endIndex": 2, "text": "Hi"}, "groundingChunkIndices": [0, "1", 9, -1]},
            {"segment": None},
            7,
        ],
    }
    message = both(piece(text("Hi")), piece(reason="STOP", groundingMetadata=grounding))
    (block,) = message.content_blocks
    (citation,) = block["annotations"]
    assert (citation["url"], citation["title"], citation["cited_text"]) == ("https://a.test", "A", "Hi")
    assert both(piece(text("Hi"), reason="STOP", groundingMetadata={"groundingChunks": 1})).content == "Hi"


_WORDS = ["", "null", "STOP", "SAFETY", "MALFORMED_FUNCTION_CALL", "a", '{"a":1}', "{", "OUTCOME_OK", "image/png"]
_KEYS = [
    *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name", "args", "id"),
    *("executableCode", "code", "codeExecutionResult", "outcome", "output", "inlineData", "mimeType", "data", "index"),
    *("fileData", "fileUri", "finishReason", "finishMessage", "usageMetadata", "promptTokenCount", "promptFeedback"),
    *("blockReason", "error", "message", "details", "groundingMetadata", "groundingSupports", "segment", "web"),
    *("groundingChunks", "promptTokensDetails", "modality", "tokenCount", "modelVersion", "responseId", "willContinue"),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 900) | st.floats(allow_nan=False) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=20,
)
_PART = st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=4)


@settings(max_examples=300, deadline=None)
@given(_PART, st.lists(_PART, min_size=1, max_size=3), _PART)
def test_whatever_a_server_sends_is_a_message_or_a_typed_error(top: Any, parts: list[Any], candidate: Any) -> None:
    bodies = [{**top, **piece(part, finishReason="STOP")} for part in parts]
    with suppress(ModelError):
        assert isinstance(read_answer(top, ASKED), AIMessage)
    with suppress(ModelError):
        both(*[piece(part) for part in parts], piece(reason="STOP")).content_blocks  # noqa: B018 reading must not fail
    with suppress(ModelError):
        stream(*bodies, {"candidates": [candidate]})
