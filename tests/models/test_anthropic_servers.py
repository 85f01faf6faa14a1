"""Servers of the Messages API that differ from Anthropic's: what they leave out, repeat or add, and what follows."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agentgraph.errors import InvalidResponseError, ModelTimeoutError, OverloadedError, ServerError
from tests.models.anthropic_asking import body_of, events, frames, local, message, played, tool_events
from tests.models.openai_asking import STREAMING_WAYS, Asking, add, bodies, invoke
from tests.wire_server import Hold, WireServer, answer, streamed

TEXT = {"type": "text", "text": "Hello"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def delta(index: Any, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": said}


def test_blocks_that_are_not_begun_or_ended_are_read(server: WireServer, ask: Asking) -> None:
    thought = [delta(0, type="thinking_delta", thinking="Hm"), delta(0, type="signature_delta", signature="c2ln")]
    text = [delta(1, type="text_delta", text="Hel"), delta(1, type="text_delta", text="lo")]
    server.play(streamed(frames([*thought, *text, *events(message())[-2:]])))
    assert ask(local(server), "Hi").content == [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln", "index": 0},
        {"type": "text", "text": "Hello", "index": 1},
    ]


def test_an_end_without_its_reason_and_with_the_marker_of_another_api_is_one(server: WireServer, ask: Asking) -> None:
    made = [one for one in events(message()) if one["type"] != "message_delta"]
    server.play(streamed(frames(made), b"data: [DONE]\n\n"))
    said = ask(local(server), "Hi")
    assert (said.content, said.response_metadata["stop_reason"]) == ("Hello", "end_turn")


def test_a_call_whose_arguments_come_with_its_beginning_is_read(server: WireServer, ask: Asking) -> None:
    made = tool_events()
    made[2]["content_block"]["input"] = {"a": 1}
    server.play(streamed(frames([one for one in made if one["type"] != "content_block_delta"])))
    said = ask(local(server).bind_tools([add]), "Hi")
    assert isinstance(said, AIMessage)
    assert said.tool_calls == [{"name": "add", "args": {"a": 1}, "id": "toolu_1", "type": "tool_call"}]


def test_arguments_of_a_call_that_was_not_begun_never_run(server: WireServer, ask: Asking) -> None:
    made = [one for one in tool_events('{"a": 1}') if one["type"] != "content_block_start"]
    server.play(streamed(frames(made)))
    said = ask(local(server).bind_tools([add]), "Hi")
    assert isinstance(said, AIMessage)
    assert (said.tool_calls, len(said.invalid_tool_calls)) == ([], 1)


def test_usage_is_taken_from_whichever_event_has_it(server: WireServer, ask: Asking) -> None:
    made = events(message())
    made[0]["message"]["usage"] = {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 0}
    made[-2]["usage"] = {"input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 5}
    early = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}}
    server.play(streamed(frames([*made[:-2], early, *made[-2:]])))
    said = ask(local(server), "Hi")
    assert isinstance(said, AIMessage)
    assert said.usage_metadata == {
        "input_tokens": 14,
        "output_tokens": 5,
        "total_tokens": 19,
        "input_token_details": {"cache_read": 4},
    }


def test_a_call_at_the_provider_that_was_cut_amid_its_arguments_is_left_out(server: WireServer, ask: Asking) -> None:
    made = events(body_of(TEXT, SEARCH, stop_reason="max_tokens"))
    cut = delta(1, type="input_json_delta", partial_json='{"query": "su')
    at = next(place for place, one in enumerate(made) if one.get("index") == 1) + 1
    server.play(streamed(frames([*made[:at], cut, *made[at:]])))
    own_tool = {"type": "web_search_20250305", "name": "web_search"}
    assert ask(local(server).bind_tools([own_tool]), "Hi").content == [{**TEXT, "index": 0}]


def test_pieces_that_do_not_fit_their_block_are_skipped(server: WireServer, ask: Asking) -> None:
    made = events(message())
    strange = [delta(0, type="mood_delta", mood="x"), delta(0, type="text_delta", text=None), delta(0, type=5)]
    server.play(streamed(frames([*made[:3], *strange, *made[3:]])))
    assert ask(local(server), "Hi").content == "Hello"


def test_names_of_tools_that_may_not_be_sent_are_replaced_and_come_back_as_they_were(server: WireServer) -> None:
    named = {"name": "look up.now", "input_schema": {"type": "object", "properties": {}}}
    model = local(server).bind_tools([named], tool_choice="look up.now")
    server.play(played(invoke, message()))
    model.invoke("Hi")
    sent = bodies(server)[0]["tools"][0]["name"]
    assert bodies(server)[0]["tool_choice"] == {"type": "tool", "name": sent}
    call = {"type": "tool_use", "id": "toolu_1", "name": sent, "input": {}}
    server.play(played(invoke, body_of(call, stop_reason="tool_use")))
    said = model.invoke("Hi")
    assert (sent != "look up.now", said.tool_calls[0]["name"]) == (True, "look up.now")
    assert isinstance(said.content[0], dict)
    assert said.content[0]["name"] == "look up.now"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'event: error\ndata: {"type": "overloaded_error", "message": "busy"}\n\n', OverloadedError),
        (b"event: error\ndata: it broke\n\n", ServerError),
    ],
)
def test_an_error_event_in_another_form_is_an_error_too(
    server: WireServer, ask: Asking, data: bytes, kind: type[Exception]
) -> None:
    server.play(streamed(frames(events(message())[:4]), data))
    with pytest.raises(kind):
        ask(local(server), "Hi")


def test_a_whole_answer_of_another_api_in_place_of_a_stream_is_told(server: WireServer, ask: Asking) -> None:
    server.play(answer(200, b'{"choices": []}'))
    with pytest.raises(InvalidResponseError, match="no answer of the Messages API"):
        ask(local(server), "Hi")


def test_an_error_within_a_whole_answer_is_that_of_the_status(server: WireServer) -> None:
    server.play(answer(200, b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'))
    with pytest.raises(OverloadedError, match="busy"):
        local(server).invoke("Hi")


def test_a_problem_told_in_a_whole_answer_of_a_gateway_is_an_error(server: WireServer) -> None:
    server.play(answer(200, b'{"detail": "no such route"}'))
    with pytest.raises(ServerError, match="no such route"):
        local(server).invoke("Hi")


def test_thoughts_may_come_in_empty_pieces_and_end_in_half_a_character(server: WireServer, ask: Asking) -> None:
    pieces = [delta(0, type="thinking_delta", thinking=piece) for piece in ("Hm", "", "\ud83d")]
    server.play(streamed(frames([*pieces, *events(body_of())[-2:]])))
    assert ask(local(server), "Hi").content == [{"type": "thinking", "thinking": "Hm\ufffd", "index": 0}]


def test_arguments_that_are_the_word_null_are_none(server: WireServer, ask: Asking) -> None:
    server.play(streamed(frames(tool_events("null"))))
    said = ask(local(server).bind_tools([add]), "Hi")
    assert isinstance(said, AIMessage)
    assert said.tool_calls == [{"name": "add", "args": {}, "id": "toolu_1", "type": "tool_call"}]


def test_a_server_that_falls_silent_is_a_typed_error(server: WireServer, ask: Asking) -> None:
    server.play(streamed(frames(events(message())[:4]), Hold()))
    with pytest.raises(ModelTimeoutError, match="between_events"):
        ask(local(server, timeout=0.3), "Hi")
