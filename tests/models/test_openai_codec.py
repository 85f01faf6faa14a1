"""Answers of Chat Completions: what servers send, whole and in events, and the one message that has to come of it."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from agentgraph.errors import (
    AgentGraphError,
    ContentFilterError,
    InvalidResponseError,
    ModelError,
    OverloadedError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.failures import Origin
from agentgraph.models.openai_codec import Asked, StreamReader, read_answer, read_events, read_usage
from agentgraph.models.sse import ServerSentEvent

ASKED = Asked(Origin("openai", "https://api.openai.com/v1/chat/completions"), "gpt-4o")
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def stream(*bodies: Any, asked: Asked = ASKED, done: bool = True) -> list[AIMessageChunk]:
    reader = StreamReader(asked)
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies] + ["[DONE]"] * done
    chunks = [chunk for text in texts for chunk in reader.feed(ServerSentEvent("message", text))]
    return chunks + reader.finish()


def total(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """Add chunks up one by one, as users do, and make the message that goes into a history."""
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    whole = message_chunk_to_message(message)
    assert isinstance(whole, AIMessage)
    return whole


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def whole(message: dict[str, Any], finish_reason: str | None = "stop", **top: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        **top,
    }


def call(name: str, args: dict[str, Any], id: str) -> dict[str, Any]:  # noqa: A002 the field's name
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def test_a_whole_answer_becomes_one_message() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 1}}
    body = whole(
        {"role": "assistant", "content": "Hi"},
        usage={**USAGE, **details},
        system_fingerprint="fp",
        service_tier="default",
    )
    asked = Asked(ASKED.origin, "gpt-4o", request_id="req_1")
    assert read_answer(body, asked) == AIMessage(
        content="Hi",
        response_metadata={
            "model_provider": "openai",
            "model_name": "m",
            "finish_reason": "stop",
            "id": "c",
            "request_id": "req_1",
            "system_fingerprint": "fp",
            "service_tier": "default",
        },
        usage_metadata={
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
            "input_token_details": {"cache_read": 3},
            "output_token_details": {"reasoning": 1},
        },
    )


CONTENTS = {
    "text": ({"content": " Hi "}, " Hi ", {}),
    "null": ({"content": None}, "", {}),
    "missing": ({}, "", {}),
    "empty": ({"content": ""}, "", {}),
    "parts": ({"content": [{"type": "text", "text": "Hi "}, {"type": "text", "text": "you"}]}, "Hi you", {}),
    "parts that are text": ({"content": ["Hi ", "you"]}, "Hi you", {}),
    "reasoning_content": ({"content": "Hi", "reasoning_content": "hm"}, "Hi", {"reasoning_content": "hm"}),
    "reasoning": ({"content": "Hi", "reasoning": "hm"}, "Hi", {"reasoning_content": "hm"}),
    "reasoning twice": ({"reasoning": "hm", "reasoning_content": "hm"}, "", {"reasoning_content": "hm"}),
    "reasoning_details": (
        {"content": "Hi", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        "Hi",
        {"reasoning_content": "hm"},
    ),
    "thinking part": (
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "Hi"},
            ]
        },
        "Hi",
        {"reasoning_content": "hm"},
    ),
    "refusal": ({"content": None, "refusal": "No."}, "", {"refusal": "No."}),
    "citations": (
        {"content": "Hi", "annotations": [{"type": "url_citation"}]},
        "Hi",
        {"annotations": [{"type": "url_citation"}]},
    ),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_text_stays_apart_from_reasoning_and_refusal(case: str) -> None:
    message, text, extras = CONTENTS[case]
    for read in (read_answer(whole(message), ASKED), total(stream(delta(**message), delta("stop")))):
        assert (read.content, read.additional_kwargs) == (text, extras)


def test_reasoning_shows_as_a_content_block() -> None:
    for read in (
        read_answer(whole({"content": "Hi", "reasoning_content": "hm"}), ASKED),
        total(stream(delta(reasoning_content="h"), delta(reasoning_content="m"), delta(content="Hi"), delta("stop"))),
    ):
        assert read.content_blocks == [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Hi"}]


def test_whitespace_deltas_are_kept() -> None:
    texts = [" ", "a", "\n", " b", " "]
    assert total(stream(*[delta(content=text) for text in texts], delta("stop"))).content == " a\n b "


def test_usage_counts_once_the_last_one_and_the_last_chunk_has_it() -> None:
    growing = [{**delta(content="x"), "usage": {"prompt_tokens": 5, "completion_tokens": n}} for n in (1, 2)]
    chunks = stream(*growing, delta("stop"), {"choices": [], "usage": USAGE})
    assert [chunk.usage_metadata for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert total(chunks).usage_metadata == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]


def test_chunks_without_choices_say_nothing() -> None:
    filters = {"choices": [], "prompt_filter_results": [{}], "id": "", "model": ""}
    assert total(stream(filters, delta(content="Hi"), {"choices": []}, delta("stop"))).content == "Hi"


@pytest.mark.parametrize("usage", [None, {}, [], "5", {"prompt_tokens": "5"}, {"prompt_tokens": None}])
def test_usage_that_is_none_is_none(usage: Any) -> None:
    assert read_usage(usage) is None


def test_done_is_not_needed_and_a_finish_reason_is() -> None:
    assert total(stream(delta(content="Hi"), delta("stop"), done=False)).content == "Hi"
    for done in (True, False):
        with pytest.raises(TruncatedStreamError, match="finish_reason") as caught:
            stream(
                delta(content="Hi"),
                delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "get", "arguments": '{"city":"Par'}}]),
                done=done,
            )
        partial = caught.value.partial
        assert (partial.content, partial.tool_calls, len(partial.invalid_tool_calls)) == ("Hi", [], 1)
        assert caught.value.retryable


def test_a_blank_finish_reason_ends_an_answer_only_together_with_done() -> None:
    assert total(stream(delta("", content="Hi"))).response_metadata["finish_reason"] == "stop"
    with pytest.raises(TruncatedStreamError):
        stream(delta("", content="Hi"), done=False)


def test_a_stream_of_nothing_is_truncated_without_a_partial() -> None:
    with pytest.raises(TruncatedStreamError) as caught:
        stream(done=False)
    assert caught.value.partial is None


FAILURES: dict[str, tuple[Any, type[ModelError]]] = {
    "an error object": ({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, RateLimitError),
    "an error text": ({"error": "out of order"}, ServerError),
    "an error in a list": ([{"error": {"message": "busy", "code": 503}}], OverloadedError),
    "an error beside empty choices": ({"choices": [], "error": {"message": "no", "code": 500}}, ServerError),
    "an error in the choice": (
        {"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": {"message": "gone", "code": 502}}]},
        ServerError,
    ),
    "finish_reason error": (delta("error"), ServerError),
    "vLLM's error": ({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, ModelError),
    "content_filter": (delta("content_filter"), ContentFilterError),
    "no JSON": ("{oops", InvalidResponseError),
    "a number": ("7", InvalidResponseError),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_error_within_a_stream_is_raised_typed(case: str) -> None:
    event, kind = FAILURES[case]
    with pytest.raises(kind) as caught:
        stream(delta(content="Hi"), event)
    assert isinstance(caught.value, AgentGraphError)
    assert "openai" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, RateLimitError),
        (whole({"content": "x"}, "content_filter"), ContentFilterError),
        ({"choices": []}, InvalidResponseError),
        ([], InvalidResponseError),
        (None, InvalidResponseError),
        ([{"error": "no"}], ServerError),
        ({"choices": [{}]}, InvalidResponseError),
        ({"choices": None}, InvalidResponseError),
        ({}, InvalidResponseError),
        ({"choices": ["x"]}, InvalidResponseError),
    ],
)
def test_a_whole_answer_that_is_none_is_an_error(body: Any, kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        read_answer(body, ASKED)


def test_a_document_in_place_of_events_is_read_as_the_answer() -> None:
    raw = {"id": "a", "function": {"name": "get", "arguments": '{"city":"Paris"}'}}
    document = whole({"content": "Hi", "tool_calls": [raw]}, "tool_calls", usage=USAGE)
    reader = StreamReader(ASKED)
    message = total(reader.feed(ServerSentEvent("json", json.dumps(document))) + reader.finish())
    assert message == read_answer(document, ASKED)
    assert message == read_answer([document], ASKED)


def test_events_in_place_of_a_document_are_read_as_the_answer() -> None:
    events = [json.dumps(body) for body in (delta(content="Hi"), delta("stop"))] + ["[DONE]"]
    assert read_events(events, ASKED).content == "Hi"


def test_names_that_were_changed_for_the_wire_are_changed_back() -> None:
    asked = Asked(ASKED.origin, "m", {"a_b_1": "a.b"})
    raw = {"index": 0, "id": "a", "function": {"name": "a_b_1", "arguments": "{}"}}
    expected = [call("a.b", {}, "a")]
    assert read_answer(whole({"tool_calls": [raw]}), asked).tool_calls == expected
    assert total(stream(delta(tool_calls=[raw]), delta("stop"), asked=asked)).tool_calls == expected


def test_pieces_of_sound_and_citations_are_added_up() -> None:
    pieces = [{"id": "s", "data": "AA", "expires_at": 1}, {"id": "s", "data": "BB", "expires_at": 2}]
    message = total(stream(*[delta(audio=one, annotations=[one["data"]]) for one in pieces], delta("stop")))
    assert message.additional_kwargs == {
        "audio": {"id": "s", "data": "AABB", "expires_at": 2},
        "annotations": ["AA", "BB"],
    }


def test_log_probabilities_are_kept() -> None:
    tokens = [{"content": [{"token": "H", "logprob": -0.1}]}, {"content": [{"token": "i", "logprob": -0.2}]}]
    document = whole({"content": "Hi"})
    document["choices"][0]["logprobs"] = {"content": [*tokens[0]["content"], *tokens[1]["content"]]}
    events = [delta(content=text) for text in "Hi"]
    for event, token in zip(events, tokens, strict=True):
        event["choices"][0]["logprobs"] = token
    for read in (read_answer(document, ASKED), total(stream(*events, delta("stop")))):
        assert [one["token"] for one in read.response_metadata["logprobs"]["content"]] == ["H", "i"]


def read_texts(*events: ServerSentEvent) -> AIMessage:
    reader = StreamReader(ASKED)
    return total([chunk for event in events for chunk in reader.feed(event)] + reader.finish())


def test_a_character_that_was_cut_in_half_is_put_together_and_a_lone_half_is_replaced() -> None:
    pieces = [{"content": "a\ud83d"}, {"content": "\ude00b", "reasoning": "\ud83d"}, {"reasoning": "\ude00"}]
    message = total(stream(*[delta(**piece) for piece in pieces], delta("stop", content="\ud83d")))
    assert message.content == "a😀b\ufffd"
    assert message.additional_kwargs == {"reasoning_content": "😀"}


def test_log_probabilities_without_end_do_not_cost_the_answer() -> None:
    choice = '{"delta": {"content": "H"}, "logprobs": {"content": [{"logprob": -Infinity}]}, "finish_reason": "stop"}'
    message = read_texts(ServerSentEvent("message", f'{{"choices": [{choice}]}}'), ServerSentEvent("message", "[DONE]"))
    assert (message.content, message.response_metadata["logprobs"]) == ("H", {"content": [{"logprob": float("-inf")}]})


def test_events_of_a_type_that_the_api_does_not_have_say_nothing() -> None:
    events = [
        ServerSentEvent("status", "warming up"),
        *[ServerSentEvent("chunk", json.dumps(delta("stop", content="Hi")))],
    ]
    assert read_texts(*events).content == "Hi"


def test_an_error_event_of_plain_text_is_the_servers_error() -> None:
    events = [ServerSentEvent("message", json.dumps(delta(content="Hi"))), ServerSentEvent("error", "upstream is gone")]
    with pytest.raises(ServerError, match="upstream is gone"):
        read_texts(*events)


_WORDS = ["", "null", "text", "stop", "error", "thinking", "a", '{"a":1}', "{"]
_KEYS = [
    "choices",
    "delta",
    "message",
    "index",
    "content",
    "tool_calls",
    "function",
    "function_call",
    "name",
    "arguments",
    "id",
    "type",
    "text",
    "thinking",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "annotations",
    "audio",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "error",
    "code",
    "logprobs",
    "prompt_tokens_details",
    "object",
    "model",
    "detail",
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 900) | st.floats(allow_nan=False) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=20,
)
_ANSWER = st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=5)


@settings(max_examples=300, deadline=None)
@given(_ANSWER, st.lists(_ANSWER, min_size=1, max_size=3))
def test_whatever_a_server_sends_is_a_message_or_a_typed_error(
    message: dict[str, Any], deltas: list[dict[str, Any]]
) -> None:
    with suppress(ModelError):
        assert isinstance(read_answer(message, ASKED), AIMessage)
    with suppress(ModelError):
        assert isinstance(read_answer(whole(message), ASKED), AIMessage)
    with suppress(ModelError):
        stream(*deltas)
    with suppress(ModelError):
        assert isinstance(total(stream(*[delta(**one) for one in deltas], delta("stop"))), AIMessage)
