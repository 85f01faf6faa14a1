"""ChatAnthropic as users hold it: against a server on the loopback, whole and streamed, sync and async."""

import asyncio
import copy
import json
import logging
import pickle
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, AIMessageChunk
from pydantic import BaseModel

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ModelNotFoundError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from agentgraph.models.anthropic import ChatAnthropic
from agentgraph.models.transport import Timeouts
from tests.models.anthropic_asking import body_of, local, message, played, without_id
from tests.models.anthropic_peer import KEY, AnthropicPeer
from tests.models.openai_asking import BOUND, WAYS, Asking, add, ainvoke, bodies, invoke, stream
from tests.wire_server import Hold, WireServer, answer, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(scope="module")
def peer() -> Iterator[AnthropicPeer]:
    with AnthropicPeer() as running:
        yield running


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"):
        monkeypatch.delenv(name, raising=False)


def failure(kind: str, text: str, status: int, **headers: str) -> Any:
    return answer(status, json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode(), **headers)


def test_all_ways_of_asking_give_the_same_message(peer: AnthropicPeer, ask: Asking) -> None:
    said = ask(ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY), "Hi")
    assert said.id is not None
    assert (said.content, said.response_metadata) == (
        "Hello, you said: Hi",
        {
            "model_provider": "anthropic",
            "model_name": "claude-sonnet-4-5",
            "stop_reason": "end_turn",
            "finish_reason": "stop",
            "id": "msg_1",
            "request_id": "req_peer",
        },
    )


def test_all_ways_of_asking_call_the_same_tool(peer: AnthropicPeer, ask: Asking) -> None:
    model = ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY)
    said = ask(model.bind_tools([add], tool_choice="add"), "What is 3 and 3?")
    assert said.tool_calls == [{"name": "add", "args": {"a": 3, "b": 3}, "id": "toolu_1", "type": "tool_call"}]


def test_the_chunks_of_a_stream_say_where_they_belong_and_which_is_the_last(peer: AnthropicPeer) -> None:
    model = ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY).bind_tools([add])
    chunks = list(model.stream("add 3"))
    calls = [call for chunk in chunks for call in chunk.tool_call_chunks]
    assert ({call["index"] for call in calls}, "".join(call["args"] or "" for call in calls)) == (
        {0},
        '{"a": 3, "b": 3}',
    )
    assert [chunk.usage_metadata is not None for chunk in chunks].count(True) == 1
    assert [chunk.chunk_position for chunk in chunks if chunk.chunk_position] == ["last"]


# The connection


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/", "/v1/messages"])
def test_a_base_url_works_with_and_without_version(server: WireServer, base: str) -> None:
    server.play(played(invoke, message()))
    local(server, base_url=server.url + base).invoke("Hi")
    assert server.requests[0].target == "/v1/messages"


def test_headers_say_key_version_and_features(server: WireServer) -> None:
    server.play(played(invoke, message()))
    model = local(server, api_key=KEY, betas=["a-2026", "b-2026"], anthropic_version="2026-10-21")
    model.invoke("Hi")
    model.bind(betas=["c"]).invoke("Hi")
    model.model_copy(update={"betas": [], "api_key": None}).invoke("Hi")
    names = ("x-api-key", "anthropic-version", "anthropic-beta", "authorization")
    assert [[request.headers.get(name) for name in names] for request in server.requests] == [
        [KEY, "2026-10-21", "a-2026,b-2026", None],
        [KEY, "2026-10-21", "c", None],
        [None, "2026-10-21", None, None],
    ]
    assert [set(body) for body in bodies(server)] == [{"model", "max_tokens", "messages"}] * 3


def test_key_and_server_are_taken_from_the_environment(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.play(played(invoke, message()))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    ChatAnthropic(model="m").invoke("Hi")
    assert server.requests[0].headers["x-api-key"] == KEY


def test_a_missing_key_names_the_variable_at_the_first_call(ask: Asking) -> None:
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        ask(ChatAnthropic(model="claude-sonnet-4-5"), "Hi")


def test_a_key_is_nowhere_to_be_seen(server: WireServer, ask: Asking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.play(failure("authentication_error", f"the key {KEY} is wrong", 401))
    model = local(server, api_key=KEY, default_headers={"x-extra": "secret-header"})
    with pytest.raises(AuthenticationError) as caught:
        ask(model, "Hi")
    shown = [repr(model), str(model), dumps(model), str(model._identifying_params), str(model._get_invocation_params())]
    shown += ["".join(traceback.format_exception(caught.value)), repr(vars(caught.value)), caplog.text]
    hidden = [pickle.dumps(model), pickle.dumps(caught.value)]
    assert [text for text in shown if KEY in text or "secret-header" in text] == []
    assert [data for data in hidden if KEY.encode() in data or b"secret-header" in data] == []


def test_copies_and_pickles_work_on(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.play(played(invoke, message()))
    model = local(server, api_key=KEY)
    model.invoke("Hi")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 our own
        other.invoke("Hi")
    assert [request.headers["x-api-key"] for request in server.requests] == [KEY] * 3


def test_a_misspelt_argument_is_told_without_the_key() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'thinking'") as caught:
        ChatAnthropic(model="m", api_key=KEY, thinkin={})  # type: ignore[call-arg]  # what is tested
    assert KEY not in str(caught.value)


def test_the_profile_is_known_by_the_name() -> None:
    known = [ChatAnthropic(model=name).profile or {} for name in ("claude-sonnet-4-5", "claude-opus-4-20250514", "x")]
    names = ("max_input_tokens", "max_output_tokens", "structured_output", "tool_calling")
    assert [[profile.get(name) for name in names] for profile in known] == [
        [200_000, 64_000, True, True],
        [200_000, 32_000, False, True],
        [None, None, None, None],
    ]


def test_a_model_may_think_unseen_for_longer_than_others_are_silent() -> None:
    limits = [ChatAnthropic(model="m", timeout=timeout)._limits() for timeout in (None, 5)]
    assert limits == [Timeouts(between_events=600.0), 5]


def test_importing_it_loads_no_other_provider() -> None:
    code = "import sys, agentgraph.models.anthropic; print(*sorted(m for m in sys.modules if 'agentgraph.models' in m))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 our own
    others = ("gemini", "ollama", "responses", "openai.", "openai_codec", "openai_call")
    assert [name for name in found.stdout.split() if any(other in f"{name}." for other in others)] == []


# Failures


@pytest.mark.parametrize(
    ("kind", "text", "status", "expected", "retryable"),
    [
        ("invalid_request_error", "messages: illegal", 400, BadRequestError, False),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", 400, ContextOverflowError, False),
        ("invalid_request_error", "Your credit balance is too low", 400, QuotaError, False),
        ("permission_error", "no", 403, AuthenticationError, False),
        ("not_found_error", "model: x", 404, ModelNotFoundError, False),
        ("rate_limit_error", "slower", 429, RateLimitError, True),
        ("api_error", "oops", 500, ServerError, True),
        ("overloaded_error", "busy", 529, OverloadedError, True),
    ],
)
def test_a_failure_is_a_typed_error(
    server: WireServer, ask: Asking, kind: str, text: str, status: int, expected: type[ModelError], retryable: bool
) -> None:
    server.play(failure(kind, text, status, request_id="req_9"))
    with pytest.raises(expected, match=text) as caught:
        ask(local(server), "Hi")
    error = caught.value
    assert (type(error), error.code, error.status, error.retryable, error.request_id) == (
        expected,
        kind,
        status,
        retryable,
        "req_9",
    )


def test_a_page_in_place_of_an_answer_is_told(server: WireServer, ask: Asking) -> None:
    server.play(answer(200, b"<html>Sign in</html>", "text/html"))
    with pytest.raises(InvalidResponseError, match="Sign in"):
        ask(local(server), "Hi")


def test_an_overloaded_server_is_asked_again_before_the_first_event(server: WireServer, ask: Asking) -> None:
    server.play(failure("overloaded_error", "busy", 529, retry_after="0"), played(ask, message()))
    assert ask(local(server, max_retries=1), "Hi").text == "Hello"


async def test_a_cancelled_call_closes_its_connection(server: WireServer) -> None:
    beginning = b'event: message_start\ndata: {"type": "message_start", "message": {}}\n\n'
    server.play(streamed(beginning, Hold()))
    async with asyncio.timeout(BOUND):
        for asking in (local(server).ainvoke("Hi"), _collected(local(server).astream("Hi"))):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asking, 0.5)
            assert await asyncio.to_thread(server.requests[-1].left.wait, BOUND)
    assert len(server.requests) == 2


def test_a_stream_that_is_left_closes_its_connection(server: WireServer) -> None:
    text = b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, '
    server.play(streamed(text + b'"delta": {"type": "text_delta", "text": "Hi"}}\n\n', Hold()))
    chunks = local(server).stream("Hi")
    assert next(chunks).text == "Hi"
    chunks.close()  # type: ignore[attr-defined]  # it is a generator
    assert server.requests[0].left.wait(BOUND)


# A turn that is paused

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
TEXT = {"type": "text", "text": "Done."}
OWN_TOOL = {"type": "web_search_20250305", "name": "web_search"}


def test_a_turn_that_the_provider_pauses_is_gone_on_with(server: WireServer, ask: Asking) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
    server.play(
        played(ask, body_of(SEARCH, stop_reason="pause_turn")),
        played(ask, body_of(FOUND, TEXT, call, stop_reason="tool_use")),
    )
    said = without_id(ask(local(server).bind_tools([OWN_TOOL, add]), "Hi"))
    assert said == AIMessage(
        [
            {**SEARCH, "index": 0},
            {**FOUND, "index": 1},
            {**TEXT, "index": 2},
            {**call, "input": {}, "index": 3},
        ],
        tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "toolu_1", "type": "tool_call"}],
        usage_metadata={"input_tokens": 20, "output_tokens": 10, "total_tokens": 30},
        response_metadata={
            "model_provider": "anthropic",
            "model_name": "claude-test",
            "stop_reason": "tool_use",
            "finish_reason": "tool_calls",
            "id": "msg_1",
            "request_id": "req_1",
        },
    )
    assert bodies(server)[1]["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [SEARCH]},
    ]


def test_a_turn_that_is_paused_for_ever_is_an_error(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, body_of(SEARCH, stop_reason="pause_turn")))
    with pytest.raises(ServerError, match="paused the turn") as caught:
        ask(local(server).bind_tools([OWN_TOOL]), "Hi")
    assert (len(server.requests), caught.value.retryable) == (21, False)


# Structured answers


class City(BaseModel):
    """A city."""

    name: str


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_a_structured_answer_is_an_instance_in_every_way_of_asking(
    peer: AnthropicPeer, ask: Asking, method: Any
) -> None:
    model = ChatAnthropic(model="claude-sonnet-4-5", base_url=peer.url, api_key=KEY)
    structured = model.with_structured_output(City, method=method)
    if ask is invoke:
        assert structured.invoke("It is 'Paris'") == City(name="Paris")
    elif ask is ainvoke:
        assert asyncio.run(structured.ainvoke("It is 'Paris'")) == City(name="Paris")
    elif ask is stream:
        assert list(structured.stream("It is 'Paris'")) == [City(name="Paris")]
    else:
        assert asyncio.run(_collected(structured.astream("It is 'Paris'"))) == [City(name="Paris")]


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


@pytest.mark.parametrize(("reason", "says"), [("max_tokens", "limit of tokens"), ("refusal", "refused")])
def test_a_structured_answer_that_was_cut_or_refused_is_no_answer(server: WireServer, reason: str, says: str) -> None:
    server.play(played(invoke, body_of({"type": "text", "text": '{"name": "Paris"}'}, stop_reason=reason)))
    found = local(server).with_structured_output(City, include_raw=True).invoke("Hi")
    assert (found["parsed"], says in str(found["parsing_error"])) == (None, True)


def test_a_chunk_of_a_paused_turn_is_never_handed_out_as_the_answer(server: WireServer) -> None:
    server.play(played(invoke, body_of(SEARCH, stop_reason="pause_turn")), played(invoke, body_of(TEXT)))
    assert not isinstance(local(server).bind_tools([OWN_TOOL]).invoke("Hi"), AIMessageChunk)
