"""ChatGemini and servers that refuse, break, differ or are left: what they may do, and what comes of it."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.gemini import ChatGemini
from agentgraph.models.transport import Timeouts
from tests.models.gemini_asking import (
    CUTS,
    USAGE,
    bodies,
    called,
    document,
    event,
    hello,
    local,
    piece,
    played,
    refusal,
    sse,
    text,
)
from tests.models.openai_asking import BOUND, STREAMING_WAYS, WAYS, Asking, add, ainvoke, invoke, stream
from tests.wire_server import Cut, Hold, WireServer, answer, streamed


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
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


# Bytes

EVENTS = (
    piece(text("thinking: 😀", thought=True)),
    piece(text("Hel")),
    piece(text("lo\u2028\r\n")),
    piece(called("add", {"a": 1, "b": 2}, id="x", thoughtSignature="s")),
    piece(called("add", {"a": 3, "b": 4}, id="y")),
    piece(text("", thoughtSignature="t"), reason="STOP", usageMetadata=USAGE),
)


@pytest.mark.parametrize("cut", CUTS)
def test_a_stream_is_the_same_message_as_the_whole_answer_however_it_is_cut(
    server: WireServer, ask_streaming: Asking, cut: str
) -> None:
    server.play(played(invoke, *EVENTS))
    whole = invoke(local(server), "Hi")
    server.play(sse(*EVENTS, cut=CUTS[cut]))
    message = ask_streaming(local(server), "Hi")
    assert message.model_copy(update={"id": None}) == whole.model_copy(update={"id": None})
    assert message.text == "Hello\u2028\r\n"


def test_the_newest_streaming_protocol_gives_a_message_that_goes_back_like_the_whole_one(server: WireServer) -> None:
    parts = [
        text("hm", thought=True, thoughtSignature="czE="),
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "czI="},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
    ]
    broken = {"functionCall": {"name": "add", "args": [1], "id": "z"}}
    server.play(sse(*(piece(part) for part in parts), *EVENTS[1:-1], piece(broken), EVENTS[-1]))
    model = local(server)
    message = model.stream_events("Hi", version="v3").output
    assert message.text == "Hello\u2028\r\n"
    assert [(call["id"], call["args"]) for call in message.tool_calls] == [
        ("x", {"a": 1, "b": 2}),
        ("y", {"a": 3, "b": 4}),
    ]
    assert [call["id"] for call in message.invalid_tool_calls] == ["z"]
    results = [{"role": "tool", "content": "3", "tool_call_id": id_} for id_ in "xyz"]
    histories = [[("user", "Hi"), one, *results] for one in (message, stream(model, "Hi"))]
    server.play(hello(invoke))
    for history in histories:
        invoke(model, history)
    sent = [body["contents"] for body in bodies(server)[-2:]]
    assert sent[0][1]["parts"][:5] == [*parts, text("Hello\u2028\r\n"), text("", thoughtSignature="t")]
    assert sent[0] == sent[1]


def test_an_array_in_place_of_events_is_read_as_the_answer(server: WireServer, ask_streaming: Asking) -> None:
    server.play(document([piece(text("Hel")), piece(text("lo"), reason="STOP")]))
    assert ask_streaming(local(server), "Hi").content == "Hello"


def test_a_document_in_place_of_events_and_events_in_place_of_one_are_read(server: WireServer, ask: Asking) -> None:
    bodies = (piece(text("Hel")), piece(text("lo"), reason="STOP"))
    server.play(played(invoke if "stream" in ask.__name__ else STREAMING_WAYS[0], *bodies))
    assert ask(local(server), "Hi").content == "Hello"


# Refusals

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
INVALID_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
OVERFLOW = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
REFUSALS: dict[str, tuple[tuple[Any, ...], type[ModelError], float | None]] = {
    "a wrong key": (("API key not valid.", 400, "INVALID_ARGUMENT", [INVALID_KEY]), AuthenticationError, None),
    "no permission": (("no", 403, "PERMISSION_DENIED"), AuthenticationError, None),
    "no such model": (("models/x is not found", 404, "NOT_FOUND"), ModelNotFoundError, None),
    "too much at once": (("quota", 429, "RESOURCE_EXHAUSTED", [RETRY]), RateLimitError, 34.5),
    "too long": ((OVERFLOW, 400), ContextOverflowError, None),
    "overloaded": (("The model is overloaded.", 503, "UNAVAILABLE"), OverloadedError, None),
    "broken": (("internal", 500, "INTERNAL"), ServerError, None),
    "wrong": (("Unknown name \"oops\" at 'generation_config': Cannot find field.", 400), BadRequestError, None),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_a_typed_error(server: WireServer, ask: Asking, case: str) -> None:
    given, kind, wait = REFUSALS[case]
    server.play(refusal(*given))
    with pytest.raises(kind) as caught:
        ask(local(server), "Hi")
    assert (type(caught.value), caught.value.retry_after) == (kind, wait)
    assert (caught.value.provider, caught.value.request_id) == ("google_genai", "req_1")
    assert len(server.requests) == 1


def test_an_error_in_a_list_is_read(server: WireServer, ask: Asking) -> None:
    server.play(document([{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}], 429))
    with pytest.raises(RateLimitError, match="slow"):
        ask(local(server), "Hi")


def test_an_error_behind_the_first_event_is_typed(server: WireServer, ask_streaming: Asking) -> None:
    failure = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    server.play(sse(piece(text("Hi")), failure))
    with pytest.raises(OverloadedError, match="overloaded"):
        ask_streaming(local(server), "Hi")


def test_a_server_that_does_not_know_ids_of_calls_is_asked_without(server: WireServer, ask: Asking) -> None:
    unknown = "Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field."
    server.play(hello(invoke))
    answered = [piece(called("add", {"a": 1, "b": 2}, id="x"), reason="STOP")]
    server.play(played(ask, *answered), refusal(unknown), hello(ask))
    model = local(server)
    first = ask(model, "Hi")
    history = [("user", "Hi"), first, {"role": "tool", "content": "3", "tool_call_id": "x"}]
    assert ask(model, history).content == "Hello"
    sent = [json.dumps(body["contents"][1:]) for body in bodies(server)[1:]]
    assert ['"id": "x"' in one for one in sent] == [True, False]


def test_calls_that_are_refused_together_are_all_asked_again() -> None:
    together = threading.Barrier(4, timeout=BOUND)

    def answered(request: httpx.Request) -> httpx.Response:
        if b"parametersJsonSchema" not in request.content:
            return httpx.Response(200, json=piece(text("Hello"), reason="STOP"))
        together.wait()
        message = "Unknown name \"parametersJsonSchema\" at 'tools[0]': Cannot find field."
        return httpx.Response(400, json={"error": {"message": message, "code": 400}})

    with httpx.Client(transport=httpx.MockTransport(answered)) as client, ThreadPoolExecutor(4) as threads:
        model = ChatGemini(model="gemini-x", http_client=client, max_retries=0).bind_tools([add])
        assert list(threads.map(lambda _: model.invoke("Hi").content, range(4))) == ["Hello"] * 4


def test_a_refusal_that_stays_is_raised(server: WireServer, ask: Asking) -> None:
    server.play(refusal("Unknown name \"parametersJsonSchema\" at 'tools[0]': Cannot find field."))
    with pytest.raises(BadRequestError, match="parametersJsonSchema"):
        ask(local(server).bind_tools([add]), "Hi")
    assert len(server.requests) == 2


# Broken answers

PAGE = answer(200, b"<html>Sign in</html>", "text/html")
BROKEN: dict[str, tuple[Any, type[ModelError]]] = {
    "a page": (PAGE, InvalidResponseError),
    "an empty body": (answer(200, b""), InvalidResponseError),
    "half a document": (answer(200, b'{"candidates": [{'), InvalidResponseError),
    "no candidates": (document({"usageMetadata": USAGE}), InvalidResponseError),
    "another API's answer": (document({"choices": [{"message": {"content": "Hi"}}]}), InvalidResponseError),
    "a blocked prompt": (document({"promptFeedback": {"blockReason": "SAFETY"}}), ContentFilterError),
    "a filtered answer": (document(piece(text("Hi"), reason="SAFETY")), ContentFilterError),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("way", [invoke, ainvoke], ids=lambda way: way.__name__)
def test_what_is_no_answer_is_a_typed_error(server: WireServer, way: Asking, case: str) -> None:
    script, kind = BROKEN[case]
    server.play(script)
    with pytest.raises(kind):
        way(local(server), "Hi")


BROKEN_STREAMS: dict[str, tuple[Any, type[ModelError]]] = {
    "a page": (PAGE, InvalidResponseError),
    "no finish reason": (sse(piece(text("Hi")), piece(called("add", {"a": 1, "b": 2}))), TruncatedStreamError),
    "an event cut in half": (streamed(event(piece(text("Hi"))) + b'data: {"cand'), TruncatedStreamError),
    "a connection that breaks": (streamed(event(piece(text("Hi"))), Cut(), end=False), TruncatedStreamError),
    "nothing": (streamed(), TruncatedStreamError),
    "no JSON": (streamed(event(piece(text("Hi"))), b"data: oops\n\n"), InvalidResponseError),
    "a blocked prompt": (sse({"promptFeedback": {"blockReason": "OTHER"}}), ContentFilterError),
    "a filtered answer": (sse(piece(text("Hi")), piece(reason="PROHIBITED_CONTENT")), ContentFilterError),
}


@pytest.mark.parametrize("case", BROKEN_STREAMS)
def test_a_stream_that_does_not_end_well_is_a_typed_error(server: WireServer, ask_streaming: Asking, case: str) -> None:
    script, kind = BROKEN_STREAMS[case]
    server.play(script)
    with pytest.raises(kind) as caught:
        ask_streaming(local(server), "Hi")
    if isinstance(caught.value, TruncatedStreamError) and case != "nothing":
        assert caught.value.partial.text == "Hi"


def test_a_connection_that_breaks_behind_the_end_costs_nothing(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(event(piece(text("Hello"), reason="STOP")), Cut(), end=False))
    assert ask_streaming(local(server), "Hi").content == "Hello"


def test_a_server_that_falls_silent_is_left(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(event(piece(text("Hi"))), Hold(), end=False))
    with pytest.raises(ModelTimeoutError):
        ask_streaming(local(server, timeout=Timeouts(between_events=0.2)), "Hi")
    assert server.requests[0].left.wait(BOUND)


# Leaving


@pytest.mark.usefixtures("bounded")
async def test_cancelling_closes_the_connection(server: WireServer) -> None:
    server.play(streamed(event(piece(text("Hi"))), Hold(), end=False))
    started = asyncio.Event()

    async def read() -> None:
        async for _ in local(server).astream("Hi"):
            started.set()

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.requests[0].left.wait, BOUND)


@pytest.mark.usefixtures("bounded")
async def test_leaving_a_stream_closes_the_connection(server: WireServer) -> None:
    server.play(streamed(event(piece(text("Hi"))), Hold(), end=False))
    async with aclosing(local(server).astream("Hi")) as chunks:
        assert (await anext(chunks)).content == "Hi"
    stream = local(server).stream("Hi")
    assert next(stream).content == "Hi"
    await asyncio.to_thread(stream.close)  # type: ignore[attr-defined]  # it is a generator
    for request in server.requests:
        assert await asyncio.to_thread(request.left.wait, BOUND)
