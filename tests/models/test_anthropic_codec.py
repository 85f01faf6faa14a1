"""Answers of the Messages API: whole and streamed, in every cut, good endings and bad ones."""

import json
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from langchain_core.messages import AIMessage
from pydantic import TypeAdapter

from agentgraph.errors import (
    ContentFilterError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    OverloadedError,
    TruncatedStreamError,
)
from tests.models.anthropic_asking import (
    body_of,
    events,
    frames,
    local,
    message,
    played,
    sse,
    tool_events,
    without_id,
)
from tests.models.openai_asking import STREAMING_WAYS, WAYS, Asking, add, stream
from tests.wire_server import Cut, WireServer, answer, in_pieces, streamed

METADATA = {
    "model_provider": "anthropic",
    "model_name": "claude-test",
    "stop_reason": "end_turn",
    "finish_reason": "stop",
    "id": "msg_1",
    "request_id": "req_1",
}
USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
TEXT = {"type": "text", "text": "Let me see."}
THOUGHT = {"type": "thinking", "thinking": "They want a sum.", "signature": "c2ln+/="}
HIDDEN = {"type": "redacted_thinking", "data": "ZW5j"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": [2, {"c": "ö"}]}}
BARE_CALL = {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sums"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://example.org",
            "title": "Sums",
            "encrypted_content": "e",
            "page_age": None,
        }
    ],
}
CITATION = {
    "type": "web_search_result_location",
    "url": "https://example.org",
    "title": "Sums",
    "cited_text": "1+1=2",
    "encrypted_index": "i",
}
CITED = {"type": "text", "text": "It is two.", "citations": [CITATION, {**CITATION, "cited_text": "2"}]}


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_stream(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def marker(block: dict[str, Any], index: int) -> dict[str, Any]:
    return {**block, "input": {}, "index": index}


def call_of(block: dict[str, Any]) -> dict[str, Any]:
    return {"name": block["name"], "args": block["input"], "id": block["id"], "type": "tool_call"}


ANSWERS: dict[str, tuple[dict[str, Any], AIMessage]] = {
    "one text": (
        body_of(TEXT),
        AIMessage([{**TEXT, "index": 0}], response_metadata=METADATA, usage_metadata=USAGE),
    ),
    "nothing": (body_of(), AIMessage("", response_metadata=METADATA, usage_metadata=USAGE)),
    "thoughts, text and two calls": (
        body_of(THOUGHT, HIDDEN, TEXT, CALL, BARE_CALL, stop_reason="tool_use"),
        AIMessage(
            [
                {**THOUGHT, "index": 0},
                {**HIDDEN, "index": 1},
                {**TEXT, "index": 2},
                marker(CALL, 3),
                marker(BARE_CALL, 4),
            ],
            tool_calls=[call_of(CALL), call_of(BARE_CALL)],
            response_metadata={**METADATA, "stop_reason": "tool_use", "finish_reason": "tool_calls"},
            usage_metadata=USAGE,
        ),
    ),
    "a thought without words": (
        body_of({**THOUGHT, "thinking": ""}, CALL, stop_reason="tool_use"),
        AIMessage(
            [{**THOUGHT, "thinking": "", "index": 0}, marker(CALL, 1)],
            tool_calls=[call_of(CALL)],
            response_metadata={**METADATA, "stop_reason": "tool_use", "finish_reason": "tool_calls"},
            usage_metadata=USAGE,
        ),
    ),
    "a search at the provider, and citations": (
        body_of(TEXT, SEARCH, FOUND, CITED),
        AIMessage(
            [{**TEXT, "index": 0}, {**SEARCH, "index": 1}, {**FOUND, "index": 2}, {**CITED, "index": 3}],
            response_metadata=METADATA,
            usage_metadata=USAGE,
        ),
    ),
    "a stop word": (
        body_of(TEXT, stop_reason="stop_sequence", stop_sequence="."),
        AIMessage(
            [{**TEXT, "index": 0}],
            response_metadata={**METADATA, "stop_reason": "stop_sequence", "stop_sequence": "."},
            usage_metadata=USAGE,
        ),
    ),
}
STREAM_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_the_same_in_every_way_of_asking(server: WireServer, ask: Asking, name: str) -> None:
    body, expected = ANSWERS[name]
    server.play(played(ask, body))
    assert without_id(ask(local(server).bind_tools([add]), "Hi")) == expected


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answers_that_the_tests_play_are_such_as_the_official_client_reads(name: str) -> None:
    body, _ = ANSWERS[name]
    Message.model_validate(body)
    for one in events(body):
        if one["type"] != "ping":
            STREAM_EVENT.validate_python(one)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_stream_cut_anywhere_is_the_same_answer(server: WireServer, name: str, line_end: bytes) -> None:
    body, expected = ANSWERS[name]
    server.play(streamed(*in_pieces(frames(events(body)).replace(b"\n", line_end)), request_id="req_1"))
    assert without_id(stream(local(server).bind_tools([add]), "Hi")) == expected


def test_without_tools_the_content_is_the_text(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, message("Hello there")))
    assert ask(local(server), "Hi").content == "Hello there"


def test_a_model_that_thinks_unasked_gives_blocks(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, body_of(THOUGHT, TEXT)))
    said = ask(local(server), "Hi")
    assert (said.content, said.text) == ([{**THOUGHT, "index": 0}, {**TEXT, "index": 1}], "Let me see.")


def test_standard_blocks_can_be_read_of_every_answer(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, body_of(THOUGHT, TEXT, CALL, stop_reason="tool_use")))
    assert ask(local(server).bind_tools([add]), "Hi").content_blocks == [
        {"type": "reasoning", "reasoning": THOUGHT["thinking"], "extras": {"signature": "c2ln+/="}, "index": 0},
        {"type": "text", "text": "Let me see.", "index": 1},
        {**call_of(CALL), "index": 2},
    ]


def test_an_answer_of_the_kind_that_was_not_asked_for_is_read_as_well(server: WireServer, ask: Asking) -> None:
    body, expected = ANSWERS["thoughts, text and two calls"]
    other = answer(200, json.dumps(body).encode(), request_id="req_1") if "stream" in ask.__name__ else sse(body)
    server.play(other)
    assert without_id(ask(local(server).bind_tools([add]), "Hi")) == expected


def test_tokens_are_counted_once_and_those_of_the_cache_are_part_of_the_input(server: WireServer, ask: Asking) -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    server.play(played(ask, {**message(), "usage": usage}))
    said = ask(local(server), "Hi")
    assert isinstance(said, AIMessage)
    assert said.usage_metadata == {
        "input_tokens": 140,
        "output_tokens": 7,
        "total_tokens": 147,
        "input_token_details": {
            "cache_read": 100,
            "cache_creation": 30,
            "ephemeral_5m_input_tokens": 20,
            "ephemeral_1h_input_tokens": 10,
        },
        "output_token_details": {"reasoning": 3},
    }


def test_unknown_events_and_blocks_are_no_reason_to_fail(server: WireServer, ask_stream: Asking) -> None:
    made = events(message())
    strange = [
        {"type": "message_mood", "mood": "good"},
        {"type": "content_block_start", "index": 7, "content_block": {"type": "compaction", "content": "a"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "compaction_delta", "content": "b"}},
        {"type": "content_block_stop", "index": 7},
        {"type": "content_block_stop", "index": 99},
    ]
    server.play(streamed(b"event: mood\ndata: good\n\n", frames([*made[:1], *strange, *made[1:]])))
    assert ask_stream(local(server), "Hi").content == [
        {"type": "compaction", "content": "ab", "index": 0},
        {"type": "text", "text": "Hello", "index": 1},
    ]


def test_a_character_cut_in_two_by_the_server_is_joined(server: WireServer, ask_stream: Asking) -> None:
    data = frames(events(message("xxx😀"))).replace(b'"xxx\\ud83d\\ude00"', b'"xxx\\ud83d"')
    rest = b'"index": 0, "delta": {"type": "text_delta", "text": "\\ude00!"}}\n\n'
    stop = b"event: content_block_stop"
    more = b'event: content_block_delta\ndata: {"type": "content_block_delta", ' + rest
    server.play(streamed(data.replace(stop, more + stop)))
    assert ask_stream(local(server), "Hi").text == "xxx😀!"


# Calls that must not run


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (('{"a": 1, ',), "tool_use"),
        (('{"a": 1, "b": "tw',), "max_tokens"),
        (('{"a": 1, "b": 2}',), "max_tokens"),
        (("",), "max_tokens"),
        (('{"a": 1}', "]"), "tool_use"),
        (("[1]",), "tool_use"),
        (('"a"',), "end_turn"),
        (('{"a": NaN}',), "tool_use"),
        (('{"a": 1}',), "model_context_window_exceeded"),
    ],
)
def test_a_call_that_is_not_whole_never_runs(
    server: WireServer, ask_stream: Asking, pieces: tuple[str, ...], reason: str
) -> None:
    server.play(streamed(frames(tool_events(*pieces, stop_reason=reason))))
    said = ask_stream(local(server).bind_tools([add]), "Hi")
    assert isinstance(said, AIMessage)
    assert (said.tool_calls, [call["id"] for call in said.invalid_tool_calls]) == ([], ["toolu_1"])


def test_a_call_that_was_cut_never_runs_though_its_arguments_look_whole(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, body_of(BARE_CALL, CALL, stop_reason="max_tokens")))
    said = ask(local(server).bind_tools([add]), "Hi")
    assert isinstance(said, AIMessage)
    assert said.tool_calls == [call_of(BARE_CALL)]
    assert [(call["id"], "cut off" in str(call["args"])) for call in said.invalid_tool_calls] == [("toolu_1", True)]


def test_a_broken_call_does_not_run_for_the_newest_streaming_protocol(server: WireServer) -> None:
    server.play(streamed(frames(tool_events('{"a": 1', stop_reason="max_tokens"))))
    said = local(server).bind_tools([add]).stream_events("Hi", version="v3").output
    assert (said.tool_calls, [call["name"] for call in said.invalid_tool_calls]) == ([], ["add"])


def test_calls_under_one_id_or_none_get_ids_of_their_own(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, body_of(CALL, CALL, {**CALL, "id": None}, stop_reason="tool_use")))
    said = ask(local(server).bind_tools([add]), "Hi")
    assert isinstance(said, AIMessage)
    ids = [call["id"] for call in said.tool_calls]
    assert (ids[0], len(set(ids)), None in ids) == ("toolu_1", 3, False)
    assert [block["id"] for block in said.content if isinstance(block, dict)] == ids


# Bad endings


@pytest.mark.parametrize("left_out", [2, 3, 5, 7])
def test_a_stream_without_its_end_is_an_error_that_holds_what_came(
    server: WireServer, ask_stream: Asking, left_out: int
) -> None:
    made = events(body_of(TEXT, CALL, stop_reason="tool_use"))
    server.play(streamed(frames(made[:-left_out])))
    with pytest.raises(TruncatedStreamError) as caught:
        ask_stream(local(server).bind_tools([add]), "Hi")
    partial = caught.value.partial
    assert (partial.text, partial.tool_calls, caught.value.retryable) == ("Let me see.", [], True)


def test_a_connection_that_breaks_behind_the_reason_of_the_end_harms_nothing(
    server: WireServer, ask_stream: Asking
) -> None:
    server.play(streamed(frames(events(message())[:-1]), Cut(), end=False))
    assert ask_stream(local(server), "Hi").content == "Hello"


def test_a_connection_that_breaks_amid_the_answer_is_an_error_that_holds_what_came(
    server: WireServer, ask_stream: Asking
) -> None:
    server.play(streamed(frames(events(message())[:4]), Cut(), end=False))
    with pytest.raises(TruncatedStreamError) as caught:
        ask_stream(local(server), "Hi")
    assert caught.value.partial.content == "Hell"


@pytest.mark.parametrize("at", [0, 4])
def test_an_error_within_a_stream_is_that_of_the_status(server: WireServer, ask_stream: Asking, at: int) -> None:
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.play(streamed(frames([*events(message())[:at], failure]), request_id="req_1"))
    with pytest.raises(OverloadedError, match="Overloaded") as caught:
        ask_stream(local(server), "Hi")
    assert (caught.value.code, caught.value.retryable, caught.value.request_id) == ("overloaded_error", True, "req_1")


def test_a_refusal_is_told_beside_what_was_said(server: WireServer, ask: Asking) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    server.play(played(ask, body_of(TEXT, stop_reason="refusal", stop_details=details)))
    said = ask(local(server), "Hi")
    assert (said.content, said.additional_kwargs) == ("Let me see.", {"refusal": "Not this."})
    assert said.response_metadata == {
        **METADATA,
        "stop_reason": "refusal",
        "finish_reason": "refusal",
        "stop_details": details,
    }
    assert said.content_blocks[-1] == {"type": "refusal", "refusal": "Not this.", "extras": {"category": "cyber"}}


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (body_of(CALL, stop_reason="refusal"), ContentFilterError, "refused when it had begun to call tools"),
        (body_of(stop_reason="model_context_window_exceeded"), ContextOverflowError, "leaves no room"),
    ],
)
def test_an_end_that_is_no_answer_is_a_typed_error(
    server: WireServer, ask: Asking, body: dict[str, Any], kind: type[ModelError], says: str
) -> None:
    server.play(played(ask, body))
    with pytest.raises(kind, match=says) as caught:
        ask(local(server).bind_tools([add]), "Hi")
    assert (caught.value.code, caught.value.request_id) == (body["stop_reason"], "req_1")


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices": [{"message": {"content": "Hi"}}]}',
        b'{"type": "message", "content": "Hi"}',
        b'{"type": "message", "content": ["Hi"]}',
        b"[]",
    ],
)
def test_json_that_is_no_answer_of_this_api_is_told(server: WireServer, data: bytes) -> None:
    server.play(answer(200, data))
    with pytest.raises(InvalidResponseError, match="no answer of the Messages API"):
        local(server).invoke("Hi")


def test_an_event_that_is_not_json_is_told(server: WireServer, ask_stream: Asking) -> None:
    server.play(streamed(frames(events(message())[:3]), b"event: content_block_delta\ndata: {nonsense\n\n"))
    with pytest.raises(InvalidResponseError, match="nonsense"):
        ask_stream(local(server), "Hi")
