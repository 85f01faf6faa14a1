"""Answers of Ollama's chat, as its servers send them: whole and streamed, sync and async, in any pieces."""

import json
import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from ollama import ChatResponse

from agentgraph.errors import (
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ServerError,
    TruncatedStreamError,
)
from tests.models.ollama_asking import END, NDJSON, call, document, event, lines, local, ndjson, played
from tests.models.openai_asking import STREAMING_WAYS, WAYS, Asking, invoke
from tests.wire_server import Cut, Pause, WireServer, answer, in_pieces, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


TURN = (
    event(thinking="Let me "),
    event(thinking="add."),
    event("It "),
    event("is… 😀\u2028\u0085 "),
    event(calls=[call(id="call_1"), call("unit", {})]),
    event(calls=[call(id="call_3")]),
    event(**END, total_duration=9, load_duration=1, prompt_eval_duration=2, eval_duration=3),
)


def seen(message: Any) -> dict[str, Any]:
    """All of a message but the ids that were made for it."""
    dumped: dict[str, Any] = message.model_dump()
    dumped.pop("id")
    for one in (*dumped["tool_calls"], *dumped["invalid_tool_calls"]):
        one["id"] = "made" if re.fullmatch("call_[0-9a-f]{24}", one["id"]) else one["id"]
    return dumped


WHOLE_TURN = seen(
    AIMessage(
        content="It is… 😀\u2028\u0085 ",
        additional_kwargs={"reasoning_content": "Let me add."},
        tool_calls=[
            {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1"},
            {"name": "unit", "args": {}, "id": "call_" + "0" * 24},
            {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_3"},
        ],
        usage_metadata={"input_tokens": 5, "output_tokens": 3, "total_tokens": 8},
        response_metadata={
            "model_provider": "ollama",
            "model_name": "m",
            "created_at": "2026-11-30T10:00:00Z",
            "request_id": "req_1",
            "total_duration": 9,
            "load_duration": 1,
            "prompt_eval_duration": 2,
            "eval_duration": 3,
            "finish_reason": "stop",
        },
    )
)


def test_the_turn_that_is_played_here_is_one_to_the_apis_own_types() -> None:
    assert [ChatResponse.model_validate(one).done for one in TURN] == [False] * 6 + [True]


def test_all_ways_of_asking_give_the_same_message(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, *TURN))
    assert seen(ask(local(server), "Hi")) == WHOLE_TURN


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"], ids=["LF", "CRLF", "blank lines"])
@pytest.mark.parametrize("size", [1, 3, 4096])
def test_a_stream_may_be_cut_anywhere(server: WireServer, ask_streaming: Asking, size: int, end: bytes) -> None:
    pieces = in_pieces(b"".join(lines(*TURN, end=end)), size)
    server.play(streamed(*pieces, content_type=NDJSON, x_request_id="req_1"))
    assert seen(ask_streaming(local(server), "Hi")) == WHOLE_TURN


def test_a_server_that_streams_without_being_asked_to_is_read_as_well(server: WireServer) -> None:
    server.play(ndjson(*TURN, x_request_id="req_1"))
    assert seen(invoke(local(server), "Hi")) == WHOLE_TURN


def test_a_server_that_does_not_stream_when_it_is_asked_to_is_read_as_well(
    server: WireServer, ask_streaming: Asking
) -> None:
    server.play(played(invoke, *TURN))
    assert seen(ask_streaming(local(server), "Hi")) == WHOLE_TURN


def test_usage_comes_once_and_the_last_chunk_says_that_it_is_the_last(server: WireServer) -> None:
    server.play(ndjson(*TURN))
    chunks = list(local(server).stream("Hi"))
    assert [chunk.usage_metadata is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    indices = [one["index"] for chunk in chunks for one in chunk.tool_call_chunks]
    assert indices == [0, 1, 2]


# Tool calls


def test_calls_of_one_turn_have_ids_of_their_own(server: WireServer, ask: Asking) -> None:
    same = [call(), call(), call(id="call_1"), call(id="call_1")]
    server.play(played(ask, event(calls=same), event(**END)))
    message = ask(local(server), "Hi")
    assert [one["args"] for one in message.tool_calls] == [{"a": 1, "b": 2}] * 4
    assert len({one["id"] for one in message.tool_calls}) == 4


def test_calls_of_two_turns_have_different_ids(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, event(calls=[call()]), event(**END)))
    ids = [ask(local(server), "Hi").tool_calls[0]["id"] for _ in range(2)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("arguments", "args"), [('{"a": 1}', {"a": 1}), ("", {}), ({"é": {"x": [1, None]}}, {"é": {"x": [1, None]}})]
)
def test_arguments_are_read_whatever_their_form(server: WireServer, ask: Asking, arguments: Any, args: Any) -> None:
    server.play(played(ask, event(calls=[call(arguments=arguments)]), event(**END)))
    message = ask(local(server), "Hi")
    assert ([one["args"] for one in message.tool_calls], message.invalid_tool_calls) == ([args], [])


@pytest.mark.parametrize(
    "raw", [call(arguments='{"a": 1'), call(arguments=[1]), call(name=""), call(arguments="hello")]
)
def test_a_broken_call_is_an_invalid_one_and_leaves_its_neighbours_alone(
    server: WireServer, ask: Asking, raw: Any
) -> None:
    server.play(played(ask, event(calls=[raw, call("unit", {})]), event(**END)))
    message = ask(local(server), "Hi")
    assert [one["name"] for one in message.tool_calls] == ["unit"]
    assert len(message.invalid_tool_calls) == 1


def test_calls_that_are_no_calls_are_none(server: WireServer, ask: Asking) -> None:
    strange = {"message": {"role": "assistant", "content": None, "thinking": None, "tool_calls": ["x", 3]}}
    server.play(document({**strange, **END}))
    message = ask(local(server), "Hi")
    assert (message.content, message.tool_calls, message.invalid_tool_calls) == ("", [], [])


def test_a_turn_that_reached_its_limit_keeps_its_whole_calls(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, event("a", calls=[call()]), event(**{**END, "done_reason": "length"})))
    message = ask(local(server), "Hi")
    assert (message.response_metadata["finish_reason"], len(message.tool_calls)) == ("length", 1)


# Ends


@pytest.mark.parametrize("counts", [{}, {"prompt_eval_count": 5}, {"eval_count": 3}])
def test_a_cached_prompt_has_no_count(server: WireServer, ask: Asking, counts: Any) -> None:
    server.play(played(ask, event("Hi"), event(done=True, **counts)))
    message = ask(local(server), "Hi")
    read, made = counts.get("prompt_eval_count", 0), counts.get("eval_count", 0)
    expected = {"input_tokens": read, "output_tokens": made, "total_tokens": read + made}
    assert message.usage_metadata == (expected if counts else None)
    assert message.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("ending", [[], [Cut()], [b'{"model": "m", "mess', Cut()], [Pause(0.05)]])
def test_a_stream_without_its_end_is_an_error_that_holds_what_came(
    server: WireServer, ask_streaming: Asking, ending: list[Any]
) -> None:
    begun = lines(event("Hello"), event(calls=[call()]))
    server.play(streamed(*begun, *ending, content_type=NDJSON, end=Cut() not in ending))
    with pytest.raises(TruncatedStreamError) as caught:
        ask_streaming(local(server), "Hi")
    assert (caught.value.partial.text, caught.value.retryable) == ("Hello", True)


def test_a_connection_that_breaks_behind_the_end_is_no_matter(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(*lines(event("Hello"), event(**END)), Cut(), content_type=NDJSON, end=False))
    assert ask_streaming(local(server), "Hi").content == "Hello"


def test_a_stream_that_says_nothing_at_all_is_an_error(server: WireServer, ask_streaming: Asking) -> None:
    server.play(ndjson(event("")))
    with pytest.raises(TruncatedStreamError) as caught:
        ask_streaming(local(server), "Hi")
    assert caught.value.partial is None


def test_what_follows_the_end_is_no_part_of_the_answer(server: WireServer, ask_streaming: Asking) -> None:
    server.play(ndjson(event("Hello"), event(**END), event(" again"), event(done=True, eval_count=99)))
    message = ask_streaming(local(server), "Hi")
    assert (message.content, message.usage_metadata["output_tokens"]) == ("Hello", 3)  # type: ignore[index]  # it has one


def test_a_whole_answer_that_is_not_done_is_an_error(server: WireServer) -> None:
    server.play(document(event("Hello")))
    with pytest.raises(TruncatedStreamError, match="done: true"):
        invoke(local(server), "Hi")


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_a_server_that_only_loads_the_model_has_not_answered(server: WireServer, ask: Asking, reason: str) -> None:
    server.play(played(ask, event(done=True, done_reason=reason)))
    with pytest.raises(ServerError, match="gave no answer") as caught:
        ask(local(server), "Hi")
    assert caught.value.retryable


def test_an_answer_may_follow_the_loading(server: WireServer, ask_streaming: Asking) -> None:
    server.play(ndjson(event(done=True, done_reason="load"), event("Hello"), event(**END)))
    assert ask_streaming(local(server), "Hi").content == "Hello"


def test_an_error_amid_the_stream_is_an_error(server: WireServer, ask_streaming: Asking) -> None:
    server.play(ndjson(event("Hel"), {"error": "an error was encountered while running the model"}))
    with pytest.raises(ServerError, match="while running the model"):
        ask_streaming(local(server), "Hi")


def test_an_error_in_the_place_of_an_answer_is_an_error(server: WireServer, ask: Asking) -> None:
    server.play(document({"error": "llama runner process has terminated"}))
    with pytest.raises(ServerError, match="has terminated") as caught:
        ask(local(server), "Hi")
    assert caught.value.retryable


@pytest.mark.parametrize(
    "body", [{"models": []}, {"response": "Hi", "done": True}, {"choices": [{"message": {"content": "Hi"}}]}]
)
def test_an_answer_of_another_api_is_told_with_what_to_check(server: WireServer, ask: Asking, body: Any) -> None:
    server.play(document(body))
    with pytest.raises(InvalidResponseError, match="Check base_url"):
        ask(local(server), "Hi")


@pytest.mark.parametrize("line", [b"[1, 2]\n", b"{broken}\n", b'"text"\n'])
def test_an_event_that_is_no_json_object_is_told(server: WireServer, ask_streaming: Asking, line: bytes) -> None:
    server.play(streamed(*lines(event("Hel")), line, content_type=NDJSON))
    with pytest.raises(InvalidResponseError, match="not a JSON object"):
        ask_streaming(local(server), "Hi")


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (answer(200, b"<html>Log in</html>", "text/html"), InvalidResponseError),
        (answer(200, b"", "application/json"), InvalidResponseError),
        (answer(200, b"", NDJSON), ModelError),
        (answer(502, b"<html>Bad gateway</html>", "text/html"), ServerError),
    ],
)
def test_what_a_proxy_answers_is_an_error(server: WireServer, ask: Asking, script: Any, kind: Any) -> None:
    server.play(script)
    with pytest.raises(kind):
        ask(local(server), "Hi")


# The window


def test_a_prompt_that_fills_the_window_is_an_error(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, event("Hello"), event(**END)))
    with pytest.raises(ContextOverflowError, match=r"5 tokens .* num_ctx=.* truncate=True"):
        ask(local(server, num_ctx=5), "Hi")


@pytest.mark.parametrize("settings", [{}, {"num_ctx": 8}, {"num_ctx": 4}, {"options": {"num_ctx": 8}}])
def test_a_prompt_that_left_room_or_that_the_window_did_not_bound_is_whole(
    server: WireServer, ask: Asking, settings: dict[str, Any]
) -> None:
    server.play(played(ask, event("Hello"), event(**END)))
    message = ask(local(server, **settings), "Hi")
    assert (message.content, "prompt_truncated" in message.response_metadata) == ("Hello", False)


def test_a_truncation_that_was_allowed_is_told_in_the_metadata(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, event("Hello"), event(**END)))
    message = ask(local(server, num_ctx=5, truncate=True), "Hi")
    assert message.response_metadata["prompt_truncated"] is True


@pytest.mark.parametrize("window", [6, 7])
def test_an_answer_that_pushed_the_prompt_out_of_the_window_says_so(
    server: WireServer, ask: Asking, window: int
) -> None:
    server.play(played(ask, event("Hello"), event(**END)))
    message = ask(local(server, num_ctx=window), "Hi")
    assert (message.content, message.response_metadata["prompt_truncated"]) == ("Hello", True)


# Texts


def test_halves_of_characters_are_joined_across_events(server: WireServer, ask_streaming: Asking) -> None:
    halves = [json.dumps(event(half, thinking=half)).encode() + b"\n" for half in ("a\ud83d", "\ude00b\ud83d")]
    server.play(streamed(*halves, *lines(event(**END)), content_type=NDJSON))
    message = ask_streaming(local(server), "Hi")
    assert (message.content, message.additional_kwargs) == ("a😀b\ufffd", {"reasoning_content": "a😀b\ufffd"})


def test_log_probabilities_of_all_events_are_kept(server: WireServer, ask: Asking) -> None:
    tokens = [{"token": "He", "logprob": -0.5}, {"token": "y", "logprob": -1.5}]
    server.play(ndjson(event("He", logprobs=tokens[:1]), event("y", logprobs=tokens[1:]), event(**END)))
    assert ask(local(server), "Hi").response_metadata["logprobs"] == {"content": tokens}
