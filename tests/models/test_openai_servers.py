"""ChatOpenAI and servers that differ from OpenAI's, break, or are left: what they may do, and what comes of it."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import httpx
import pytest

from agentgraph.errors import BadRequestError, InvalidResponseError, ModelError, ModelTimeoutError, TruncatedStreamError
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.transport import Timeouts
from tests.models.openai_asking import (
    BOUND,
    STREAMING_WAYS,
    WAYS,
    Asking,
    add,
    bodies,
    document,
    event,
    invoke,
    local,
    played,
    refusal,
    sse,
    stream,
)
from tests.wire_server import Cut, Hold, Step, WireServer, answer, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


# Servers that differ


def test_a_parameter_that_a_server_refuses_is_dropped_once_and_remembered(server: WireServer, ask: Asking) -> None:
    server.play(refusal("Unknown parameter: 'parallel_tool_calls'."), played(ask))
    model = local(server).bind_tools([add], parallel_tool_calls=False)
    assert ask(model, "Hi").content == "Hello"
    assert ask(model, "Hi").content == "Hello"
    assert ["parallel_tool_calls" in body for body in bodies(server)] == [True, False, False]


def test_calls_that_are_refused_together_are_all_asked_again() -> None:
    together = threading.Barrier(4, timeout=BOUND)

    def answered(request: httpx.Request) -> httpx.Response:
        if b"stream_options" not in request.content:
            return httpx.Response(200, content=event(content="Hello") + event(finish_reason="stop"))
        together.wait()
        return httpx.Response(400, json={"error": {"message": "Unknown parameter: 'stream_options'."}})

    with httpx.Client(transport=httpx.MockTransport(answered)) as client, ThreadPoolExecutor(4) as threads:
        model = ChatOpenAI(model="m", http_client=client, max_retries=0)
        answers = list(threads.map(lambda _: stream(model, "Hi").content, range(4)))
    assert answers == ["Hello"] * 4


def test_several_refused_parameters_are_dropped_one_by_one(server: WireServer, ask_streaming: Asking) -> None:
    refusals = [refusal(f"Unknown parameter: '{name}'.") for name in ("stream_options", "max_tokens")]
    server.play(*refusals, sse())
    assert ask_streaming(local(server, max_tokens=5), "Hi").content == "Hello"
    assert bodies(server)[-1] == {
        "messages": [{"role": "user", "content": "Hi"}],
        "model": "m",
        "stream": True,
        "max_completion_tokens": 5,
    }


@pytest.mark.parametrize(
    "text", ["Unknown parameter: 'seed'.", "tool_choice names no tool", "Unknown parameter: 'tools'."]
)
def test_any_other_refusal_is_raised_at_once(server: WireServer, ask: Asking, text: str) -> None:
    server.play(refusal(text))
    with pytest.raises(BadRequestError):
        ask(local(server, seed=1).bind_tools([add], tool_choice="any"), "Hi")
    assert len(server.requests) == 1


def test_a_parameter_that_is_refused_under_both_names_is_raised(server: WireServer, ask: Asking) -> None:
    first, second = refusal("Unknown parameter: 'max_tokens'."), refusal("Unknown parameter: 'max_completion_tokens'.")
    server.play(first, second, first)
    with pytest.raises(BadRequestError):
        ask(local(server, max_tokens=5), "Hi")
    assert len(server.requests) == 3


def test_a_document_in_place_of_a_stream_and_a_stream_in_place_of_a_document_are_read(server: WireServer) -> None:
    server.play(document(), sse())
    model = local(server)
    assert [stream(model, "Hi").content, invoke(model, "Hi").content] == ["Hello", "Hello"]


@pytest.mark.parametrize(
    ("content", "says"), [("a\ud83d", "a\ufffd"), ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"), ("a\nb", "a\nb")]
)
@pytest.mark.parametrize("raw", [False, True], ids=["escaped", "raw"])
def test_an_answer_is_read_whatever_is_in_its_strings(
    server: WireServer, ask: Asking, content: str, says: str, *, raw: bool
) -> None:
    quoted = json.dumps(content, ensure_ascii=not raw).encode("utf-8", "replace")
    text = quoted.replace(b"\\n", b"\n") if raw else quoted
    choice = b'{"index": 0, "message": {"content": %b}, "finish_reason": "stop", "logprobs": {"content": [NaN]}}' % text
    server.play(answer(200, b'{"choices": [%b]}' % choice))
    assert ask(local(server), "Hi").content == (says if not raw else says.replace("\ufffd", "?"))


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"a": 1}', b'[{"a": 1}]'])
def test_json_that_is_no_answer_is_a_typed_error(server: WireServer, ask: Asking, body: bytes) -> None:
    server.play(answer(200, body))
    with pytest.raises((InvalidResponseError, TruncatedStreamError), match="openai"):
        ask(local(server), "Hi")


# Streams that break


@pytest.mark.parametrize("end", [[], [Cut()]], ids=["ended", "cut"])
def test_a_stream_without_its_end_holds_what_came_and_no_call_of_it(
    server: WireServer, ask_streaming: Asking, end: list[Step]
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"a": 1'}}
    server.play(streamed(event(content="Hel"), event(tool_calls=[call]), *end, end=not end))
    with pytest.raises(TruncatedStreamError) as caught:
        ask_streaming(local(server, max_retries=2), "Hi")
    partial = caught.value.partial
    assert (partial.content, partial.tool_calls, len(partial.invalid_tool_calls)) == ("Hel", [], 1)
    assert len(server.requests) == 1


def test_a_connection_that_breaks_behind_the_end_of_the_answer_breaks_nothing(
    server: WireServer, ask_streaming: Asking
) -> None:
    server.play(streamed(event(content="Hello"), event(finish_reason="stop"), Cut(), end=False))
    assert ask_streaming(local(server), "Hi").content == "Hello"


def test_a_server_that_falls_silent_behind_the_end_of_the_answer_breaks_nothing(
    server: WireServer, ask_streaming: Asking
) -> None:
    server.play(streamed(event(content="Hello"), event(finish_reason="stop"), Hold(), end=False))
    assert ask_streaming(local(server, timeout=Timeouts(between_events=0.2)), "Hi").content == "Hello"


def test_a_server_that_falls_silent_within_an_answer_times_out(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(event(content="Hello"), Hold(), end=False))
    with pytest.raises(ModelTimeoutError):
        ask_streaming(local(server, timeout=Timeouts(between_events=0.2)), "Hi")


def test_an_error_within_a_stream_is_raised_typed(server: WireServer, ask_streaming: Asking) -> None:
    failure = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    server.play(streamed(event(content="Hel"), failure))
    with pytest.raises(ModelError, match="out of memory"):
        ask_streaming(local(server), "Hi")


def test_leaving_a_stream_early_closes_the_connection(server: WireServer) -> None:
    server.play(streamed(event(content="Hello"), Hold(), end=False))
    chunks = local(server).stream("Hi")
    assert next(chunks).content == "Hello"
    chunks.close()  # type: ignore[attr-defined]  # it is a generator
    assert server.requests[0].left.wait(5)


async def test_leaving_or_cancelling_an_async_stream_closes_the_connection(server: WireServer) -> None:
    server.play(streamed(event(content="Hello"), Hold(), end=False))
    model = local(server)
    async with asyncio.timeout(BOUND), aclosing(model.astream("Hi")) as chunks:
        assert (await anext(chunks)).content == "Hello"
    assert await asyncio.to_thread(server.requests[0].left.wait, 5)
    started = asyncio.Event()

    async def read() -> None:
        async for _ in model.astream("Hi"):
            started.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(started.wait(), BOUND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, BOUND)
    assert await asyncio.to_thread(server.requests[1].left.wait, 5)
