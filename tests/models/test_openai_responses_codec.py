"""Answers of the Responses API: what servers send, whole and in events, and the one message that has to come of it."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from agentgraph.errors import (
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.responses_codec import Asked, StreamReader, read_answer, read_events, read_usage
from agentgraph.models.sse import ServerSentEvent
from tests.models.openai_responses_asking import (
    ASKED,
    READ_USAGE,
    call,
    events_of,
    item_events,
    message,
    read_stream,
    response,
    thought,
    total,
)

METADATA = {
    "model_provider": "openai",
    "model_name": "gpt-5-2025",
    "finish_reason": "stop",
    "id": "resp_1",
    "status": "completed",
    "store": False,
}
LINK = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 2}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
SOURCE = {"type": "file_citation", "file_id": "f_1", "filename": "a.pdf", "index": 7}

ANSWERS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "text": ([message("Hello you")], [{"type": "text", "text": "Hello you", "id": "msg_1", "index": 0}]),
    "several texts": (
        [message("Well, ", "yes"), message("and no", id="msg_2", phase="final_answer")],
        [
            {"type": "text", "text": "Well, ", "id": "msg_1", "index": 0},
            {"type": "text", "text": "yes", "id": "msg_1", "index": 1},
            {"type": "text", "text": "and no", "id": "msg_2", "index": 2, "phase": "final_answer"},
        ],
    ),
    "citations": (
        [
            message(
                {"type": "output_text", "text": "It is so", "annotations": [LINK, SOURCE, {**SOURCE, "file_id": "f_2"}]}
            )
        ],
        [
            {
                "type": "text",
                "text": "It is so",
                "id": "msg_1",
                "index": 0,
                "annotations": [LINK, SOURCE, {**SOURCE, "file_id": "f_2"}],
            }
        ],
    ),
    "refusal": (
        [message({"type": "refusal", "refusal": "I will not."})],
        [{"type": "refusal", "refusal": "I will not.", "id": "msg_1", "index": 0}],
    ),
    "thoughts in summary": (
        [thought("First this", "then that", encrypted_content="gAAA"), message("Hi")],
        [
            {
                "type": "reasoning",
                "summary": [
                    {"type": "summary_text", "text": "First this", "index": 0},
                    {"type": "summary_text", "text": "then that", "index": 1},
                ],
                "encrypted_content": "gAAA",
                "id": "rs_1",
                "index": 0,
            },
            {"type": "text", "text": "Hi", "id": "msg_1", "index": 1},
        ],
    ),
    "thoughts unseen": (
        [thought(encrypted_content="gAAA"), message("Hi")],
        [
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAA", "id": "rs_1", "index": 0},
            {"type": "text", "text": "Hi", "id": "msg_1", "index": 1},
        ],
    ),
    "thoughts as they are": (
        [thought(content=[{"type": "reasoning_text", "text": "Hm, well"}]), message("Hi")],
        [
            {"type": "reasoning", "reasoning": "Hm, well", "summary": [], "id": "rs_1", "index": 0},
            {"type": "text", "text": "Hi", "id": "msg_1", "index": 1},
        ],
    ),
    "built-in tools": (
        [SEARCH, {"type": "dreaming_call", "id": "dr_1", "about": ["sheep"]}, message("Hi")],
        [
            {**SEARCH, "index": 0},
            {"type": "dreaming_call", "id": "dr_1", "about": ["sheep"], "index": 1},
            {"type": "text", "text": "Hi", "id": "msg_1", "index": 2},
        ],
    ),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_whole_and_streamed_give_the_same_message(case: str) -> None:
    output, content = ANSWERS[case]
    expected = AIMessage(content=content, response_metadata=METADATA, usage_metadata=READ_USAGE)
    assert read_answer(response(*output), ASKED) == expected
    assert total(read_stream(events_of(response(*output)))) == expected


def test_content_blocks_are_the_standard_ones_whole_and_streamed() -> None:
    output = response(thought("hm", encrypted_content="e"), SEARCH, call("get", "{}", "c1"), message("Hi"))
    for read in (read_answer(output, ASKED), total(read_stream(events_of(output)))):
        kinds = [block["type"] for block in read.content_blocks]
        assert kinds == ["reasoning", "server_tool_call", "server_tool_result", "tool_call", "text"]
        assert read.text == "Hi"


def test_each_chunk_shows_its_piece_as_a_standard_block() -> None:
    output = response(thought("hm"), message("Hi"), call("get", '{"a":', "c1"))
    kinds = [block["type"] for chunk in read_stream(events_of(output))[:-2] for block in chunk.content_blocks]
    assert kinds == ["reasoning", "text", "tool_call_chunk", "tool_call_chunk", "tool_call_chunk"]


def _without(*keys: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda event: {key: value for key, value in event.items() if key not in keys}


def _with_changing_ids(event: dict[str, Any]) -> dict[str, Any]:
    changed = {**event, **({"item_id": f"x{id(event)}"} if "item_id" in event else {})}
    if isinstance(event.get("item"), dict):
        changed["item"] = {**event["item"], "id": f"y{id(event)}"}
    return changed


@pytest.mark.parametrize(
    "change",
    [_without("output_index", "content_index"), _without("item_id"), _with_changing_ids],
    ids=["without places", "without ids", "an id for each event"],
)
def test_deltas_find_their_item_by_its_place_or_its_id(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    output = response(thought("hmm hmm"), message("Hello you"), call("get", '{"city": "Paris"}', "c1"))
    events = events_of(output)
    read = total(read_stream([*map(change, events[:-1]), events[-1]]))
    assert (read.text, [one["args"] for one in read.tool_calls]) == ("Hello you", [{"city": "Paris"}])
    assert len(read.content) == 3


def test_items_that_all_have_one_place_are_kept_apart() -> None:
    output = response(thought("hmm hmm"), message("Hello you"), message("Bye", id="msg_2"))
    events = [{**event, "output_index": 0} if "output_index" in event else event for event in events_of(output)]
    assert total(read_stream(events)) == read_answer(output, ASKED)


def test_an_end_brings_what_the_deltas_did_not() -> None:
    output = response(thought("hmm"), message("Hello you"), call("get", '{"city": "Paris"}', "c1"), SEARCH)
    events = events_of(output)
    whole = read_answer(output, ASKED)
    first_deltas = [event for event in events if "delta" not in event or event["delta"] in {"hmm", "Hell", '{"ci'}]
    for some in ([events[-1]], [events[0], events[-1]], [one for one in events if "delta" not in one], first_deltas):
        assert total(read_stream(some)) == whole


def test_an_end_without_output_leaves_what_the_events_brought() -> None:
    output = response(message("Hello you"), call("get", "{}", "c1"))
    events = events_of(output)
    hollow = {**events[-1], "response": {**output, "output": []}}
    assert total(read_stream([*events[:-1], hollow])) == read_answer(output, ASKED)


def test_a_lost_piece_of_text_is_an_error_and_never_an_answer() -> None:
    events = events_of(response(message("Hello you there")))
    deltas = [event for event in events if event["type"].endswith("delta")]
    with pytest.raises(InvalidResponseError, match="some of it was lost"):
        read_stream([event for event in events if event is not deltas[1]])


# Ends


def test_a_server_that_calls_an_answer_complete_which_it_cut_is_not_believed() -> None:
    asked = Asked(ASKED.origin, "m", limit=5)
    output = response(message("Well"))
    for read in (read_answer(output, asked), total(read_stream(events_of(output), asked))):
        assert read.response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize("end", [[], ["[DONE]"]])
def test_a_stream_without_its_end_is_an_error_with_what_came(end: list[str]) -> None:
    events = events_of(response(message("Hello you"), call("get", '{"city": "Paris"}', "c1")))
    until = next(at for at, event in enumerate(events) if "arguments.delta" in event["type"])
    with pytest.raises(TruncatedStreamError) as caught:
        read_stream([*events[: until + 1], *end])
    partial = caught.value.partial
    assert (partial.text, partial.tool_calls, len(partial.invalid_tool_calls)) == ("Hello you", [], 1)
    assert caught.value.retryable


def test_what_comes_behind_the_end_says_nothing() -> None:
    events = events_of(response(message("Hi")))
    assert total(read_stream([*events, events[3], "[DONE]", {"type": "error", "message": "late"}])).text == "Hi"


FAILURES: dict[str, tuple[Any, type[ModelError]]] = {
    "server_error": ({"code": "server_error", "message": "oops"}, ServerError),
    "rate_limit_exceeded": ({"code": "rate_limit_exceeded", "message": "slow"}, RateLimitError),
    "context_length_exceeded": ({"code": "context_length_exceeded", "message": "long"}, ContextOverflowError),
    "invalid_prompt": ({"code": "invalid_prompt", "message": "bad"}, BadRequestError),
    "image_too_large": ({"code": "image_too_large", "message": "big"}, BadRequestError),
    "no reason": (None, ServerError),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_answer_is_a_typed_error(case: str) -> None:
    error, kind = FAILURES[case]
    failed = response(message("Hel"), status="failed", error=error)
    with pytest.raises(kind):
        read_answer(failed, ASKED)
    with pytest.raises(kind):
        read_stream(events_of(failed))


EVENTS: dict[str, tuple[Any, type[ModelError]]] = {
    "error": ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, RateLimitError),
    "error within": ({"type": "error", "error": {"type": "server_error", "message": "no"}}, ServerError),
    "error without type": ({"error": {"message": "out of order", "code": 500}}, ServerError),
    "no JSON": ("{oops", InvalidResponseError),
    "a number": ("7", InvalidResponseError),
    "end without answer": ({"type": "response.completed"}, InvalidResponseError),
    "cancelled": ({"type": "response.completed", "response": response(status="cancelled")}, InvalidResponseError),
    "filtered": (
        {
            "type": "response.incomplete",
            "response": response(status="incomplete", incomplete_details={"reason": "content_filter"}),
        },
        ContentFilterError,
    ),
}


@pytest.mark.parametrize("case", EVENTS)
def test_an_error_within_a_stream_is_raised_typed(case: str) -> None:
    event, kind = EVENTS[case]
    with pytest.raises(kind, match="openai"):
        read_stream([*events_of(response(message("Hello")))[:-1], event])


@pytest.mark.parametrize("body", [None, [], {}, {"choices": []}, {"output": "x"}, response(status="queued")])
def test_a_whole_answer_that_is_none_is_an_error(body: Any) -> None:
    with pytest.raises(InvalidResponseError):
        read_answer(body, ASKED)


# Streams in detail


def test_usage_and_metadata_come_once_on_the_last_chunk() -> None:
    chunks = read_stream(events_of(response(thought("hm"), message("Hello you"), call("get", '{"a": 1}', "c1"))))
    assert [bool(chunk.usage_metadata) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [len(chunk.response_metadata) > 1 for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    assert {one["index"] for chunk in chunks for one in chunk.tool_call_chunks} == {0}


@pytest.mark.parametrize("usage", [None, {}, [], "5", {"input_tokens": "5"}])
def test_usage_that_is_none_is_none(usage: Any) -> None:
    assert read_usage(usage) is None


def test_usage_without_details_is_read() -> None:
    assert read_usage({"input_tokens": 1, "output_tokens": 2}) == {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
    }


def test_unknown_events_say_nothing() -> None:
    events = events_of(response(message("Hi")))
    odd = [{"type": "response.dreamt", "delta": "sheep"}, {"type": "keepalive"}, {}, {"type": 7}]
    assert total(read_stream([*odd, *events])).text == "Hi"


def test_events_that_are_no_json_say_nothing_if_the_api_does_not_have_their_type() -> None:
    reader = StreamReader(ASKED)
    assert reader.feed(ServerSentEvent("status", "warming up")) == []
    with pytest.raises(ServerError, match="upstream is gone"):
        reader.feed(ServerSentEvent("error", "upstream is gone"))


def test_a_part_or_a_piece_of_an_unknown_kind_costs_nothing() -> None:
    odd = response(message({"type": "smell", "smell": "roses"}, "Hi", {"type": "output_text", "text": None}))
    assert read_answer({**odd, "output": [*odd["output"], "x"]}, ASKED).text == "Hi"
    events = events_of(response(message("Hi")))
    assert total(read_stream([*events[:-1], events[-2], events[-1]])).text == "Hi"


def test_a_character_that_was_cut_in_half_is_put_together_and_a_lone_half_is_replaced() -> None:
    place = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    deltas = [{**place, "delta": text} for text in ("a\ud83d", "\ude00b", "\ud83d")]
    end = {"type": "response.completed", "response": response()}
    assert total(read_stream([*deltas, end])).text == "a😀b\ufffd"
    done = item_events(0, message("a😀b"))[-1]
    assert total(read_stream([deltas[0], done, end])).text == "a😀b"


def test_log_probabilities_are_kept() -> None:
    part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": [{"token": "Hi", "logprob": -0.1}]}
    for read in (read_answer(response(message(part)), ASKED), total(read_stream(events_of(response(message(part)))))):
        assert read.response_metadata["logprobs"] == {"content": [{"token": "Hi", "logprob": -0.1}]}


def test_a_document_and_events_are_read_in_each_others_place() -> None:
    whole = response(message("Hi"), call("get", "{}", "c1"))
    reader = StreamReader(ASKED)
    document = total(reader.feed(ServerSentEvent("json", json.dumps(whole))) + reader.finish())
    assert document == read_answer(whole, ASKED) == read_events([json.dumps(one) for one in events_of(whole)], ASKED)


_WORDS = ["", "null", "text", "message", "reasoning", "function_call", "output_text", "a", '{"a":1}', "{", "completed"]
_WORDS += ["response.output_item.added", "response.output_item.done", "response.output_text.delta", "incomplete"]
_WORDS += ["response.function_call_arguments.delta", "response.completed", "response.reasoning_summary_text.delta"]
_KEYS = ["type", "item", "item_id", "output_index", "content_index", "summary_index", "delta", "id", "call_id", "name"]
_KEYS += ["arguments", "content", "summary", "text", "status", "output", "response", "usage", "error", "annotations"]
_KEYS += ["encrypted_content", "phase", "logprobs", "incomplete_details", "input_tokens", "index", "object", "refusal"]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 900) | st.floats(allow_nan=False) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=20,
)
_ITEM = st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=5)
_EVENT = st.tuples(st.sampled_from([word for word in _WORDS if "response." in word]), _ITEM, _ITEM).map(
    lambda row: {**row[1], "item": row[2], "type": row[0]}
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_ITEM, max_size=3), st.lists(_EVENT, max_size=5))
def test_whatever_a_server_sends_is_a_message_or_a_typed_error(
    output: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    end = {"type": "response.completed", "response": response(*output)}
    with suppress(ModelError):
        assert isinstance(read_answer(response(*output), ASKED), AIMessage)
    with suppress(ModelError):
        assert isinstance(total(read_stream([*events, end])), AIMessage)
