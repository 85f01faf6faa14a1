"""ChatOpenAIResponses as users hold it: against a server on the loopback, whole and streamed, sync and async."""

import asyncio
import json
import logging
import pickle
import subprocess
import sys
import traceback
from contextlib import aclosing

import pytest
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContentFilterError,
    InvalidResponseError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    TruncatedStreamError,
)
from agentgraph.models.openai_responses import ChatOpenAIResponses
from agentgraph.models.registry import Provider
from agentgraph.models.transport import Timeouts
from tests.models.openai_asking import BOUND, STREAMING_WAYS, WAYS, Asking, add, bodies, refusal
from tests.models.openai_responses_asking import (
    KEY,
    READ_USAGE,
    call,
    events_of,
    local,
    message,
    played,
    response,
    sse,
    thought,
)
from tests.wire_server import Cut, Hold, Step, WireServer, answer, in_pieces, streamed

TURN = response(
    thought("hm", encrypted_content="e"), call("add", '{"a": 1, "b": 2}', "c1"), message("Hello: 😀\u2028.")
)


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


def turn() -> AIMessage:
    return AIMessage(
        content=[
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm", "index": 0}],
                "encrypted_content": "e",
                "id": "rs_1",
                "index": 0,
            },
            {"type": "function_call", "call_id": "c1", "name": "add", "id": "fc_c1", "index": 1},
            {"type": "text", "text": "Hello: 😀\u2028.", "id": "msg_1", "index": 2},
        ],
        tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}],
        usage_metadata=READ_USAGE,  # type: ignore[arg-type]  # its parts are typed dicts
        response_metadata={
            "model_provider": "openai",
            "model_name": "gpt-5-2025",
            "finish_reason": "tool_calls",
            "id": "resp_1",
            "request_id": "req_1",
            "status": "completed",
            "store": False,
        },
    )


def test_all_ways_of_asking_give_the_same_message(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, TURN))
    read = ask(local(server), "Hi")
    assert read.id is not None
    assert read.model_copy(update={"id": None}) == turn()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_stream_is_read_however_it_is_cut(server: WireServer, ask_streaming: Asking, end: bytes, size: int) -> None:
    server.play(streamed(*in_pieces(sse(events_of(TURN), end), size), x_request_id="req_1"))
    assert ask_streaming(local(server), "Hi").model_copy(update={"id": None}) == turn()


def test_the_request_is_what_was_asked_and_nothing_else(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, TURN))
    model = local(server, api_key=KEY, temperature=0.5, max_output_tokens=50, extra_body={"top_k": 5})
    ask(model.bind_tools([add], parallel_tool_calls=False).bind(store=True, extra_body={"min_p": 0.1}), "Hi")
    (body,) = bodies(server)
    (offered,) = body.pop("tools")
    assert (offered["name"], offered["strict"]) == ("add", False)
    assert body == {
        "input": [{"role": "user", "content": "Hi"}],
        "model": "m",
        "temperature": 0.5,
        "max_output_tokens": 50,
        "store": True,
        "parallel_tool_calls": False,
        "top_k": 5,
        "min_p": 0.1,
        **({"stream": True} if "stream" in ask.__name__ else {}),
    }
    assert (server.requests[0].target, server.requests[0].headers["authorization"]) == (
        "/v1/responses",
        f"Bearer {KEY}",
    )


@pytest.mark.parametrize(
    ("base", "target"),
    [("", "/v1/responses"), ("/v1/", "/v1/responses"), ("/x", "/x/v1/responses"), ("/x/responses", "/x/responses")],
)
def test_a_base_url_works_with_and_without_version_and_path(server: WireServer, base: str, target: str) -> None:
    server.play(answer(200, json.dumps(response(message("Hi"))).encode()))
    ChatOpenAIResponses(model="m", base_url=server.url + base).invoke("Hi")
    assert server.requests[0].target == target


def test_a_row_of_the_table_of_providers_builds_it() -> None:
    path = "agentgraph.models.openai_responses:ChatOpenAIResponses"
    model = Provider("openai_responses", path, ("OPENAI_API_KEY",)).build("gpt-5", {"api_key": KEY})
    assert isinstance(model, ChatOpenAIResponses)
    assert (model.provider, (model.profile or {})["tool_calling"]) == ("openai", True)


# Bad ends


def _error_event(code: str) -> bytes:
    return sse([{"type": "error", "code": code, "message": "no", "param": None}])


def test_a_server_that_falls_silent_amid_an_answer_times_out(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(sse(events_of(TURN)[:6]), Hold(), end=False))
    with pytest.raises(ModelTimeoutError):
        ask_streaming(local(server, timeout=Timeouts(between_events=0.2)), "Hi")


ENDS: dict[str, tuple[list[Step], type[ModelError]]] = {
    "no end": (streamed(sse(events_of(TURN)[:-1])), TruncatedStreamError),
    "cut": (streamed(sse(events_of(TURN)[:-3]), Cut()), TruncatedStreamError),
    "cut within an event": (streamed(sse(events_of(TURN))[:-20]), TruncatedStreamError),
    "nothing": (streamed(), TruncatedStreamError),
    "[DONE] alone": (streamed(b"data: [DONE]\n\n"), TruncatedStreamError),
    "an error at once": (streamed(_error_event("rate_limit_exceeded")), RateLimitError),
    "an error amid": (streamed(sse(events_of(TURN)[:9]), _error_event("server_overloaded")), OverloadedError),
    "failed": (
        streamed(sse(events_of(response(message("Hel"), status="failed", error={"code": "rate_limit_exceeded"})))),
        RateLimitError,
    ),
    "filtered": (
        streamed(sse(events_of(response(status="incomplete", incomplete_details={"reason": "content_filter"})))),
        ContentFilterError,
    ),
    "a page": (answer(200, b"<html>Login</html>", "text/html"), InvalidResponseError),
    "not JSON": (streamed(sse(events_of(TURN)[:5]), b"event: response.x\ndata: {oops\n\n"), InvalidResponseError),
    "Chat Completions": (answer(200, b'{"choices": [{"message": {"content": "Hi"}}]}'), ModelError),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_bad_end_is_a_typed_error_and_never_a_short_answer(
    server: WireServer, ask_streaming: Asking, case: str
) -> None:
    script, kind = ENDS[case]
    server.play(script)
    with pytest.raises(kind) as caught:
        ask_streaming(local(server, api_key=KEY), "Hi")
    assert KEY not in str(caught.value)


def test_of_a_stream_that_was_cut_only_finished_calls_are_shown_as_calls(
    server: WireServer, ask_streaming: Asking
) -> None:
    events = events_of(TURN)
    ended = next(at for at, event in enumerate(events) if event["type"].endswith("arguments.done"))
    found = []
    for until in (ended - 1, ended, ended + 2):
        server.play(streamed(sse(events[:until])))
        with pytest.raises(TruncatedStreamError) as caught:
            ask_streaming(local(server), "Hi")
        partial = caught.value.partial
        found.append((len(partial.tool_calls), len(partial.invalid_tool_calls)))
    assert found == [(0, 1), (0, 1), (1, 0)]


WHOLE_ENDS: dict[str, tuple[list[Step], type[ModelError]]] = {
    "empty": (answer(200, b""), InvalidResponseError),
    "a page": (answer(502, b"<html>Bad gateway</html>", "text/html"), ModelError),
    "half a JSON": (answer(200, b'{"output": ['), InvalidResponseError),
    "Chat Completions": (answer(200, b'{"choices": []}'), InvalidResponseError),
    "failed": (answer(200, json.dumps(response(status="failed", error={"code": "x"})).encode()), ModelError),
    "in the background": (answer(200, json.dumps(response(status="queued")).encode()), InvalidResponseError),
    "too long": (refusal("Your input exceeds the context window of this model."), BadRequestError),
}


@pytest.mark.parametrize("case", WHOLE_ENDS)
@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.__name__)
def test_a_bad_whole_answer_is_a_typed_error(server: WireServer, way: Asking, case: str) -> None:
    script, kind = WHOLE_ENDS[case]
    server.play(script)
    with pytest.raises(kind):
        way(local(server), "Hi")


def test_a_connection_that_breaks_behind_the_end_costs_nothing(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(sse(events_of(TURN)), Cut(), x_request_id="req_1"))
    assert ask_streaming(local(server), "Hi").model_copy(update={"id": None}) == turn()


def test_a_document_and_events_in_each_others_place_are_read(server: WireServer, ask: Asking) -> None:
    other = WAYS[0] if "stream" in ask.__name__ else STREAMING_WAYS[0]
    server.play(played(other, TURN))
    assert ask(local(server), "Hi").model_copy(update={"id": None}) == turn()


def test_what_a_server_refuses_is_left_out_and_remembered(server: WireServer, ask: Asking) -> None:
    server.play(refusal("Unknown parameter: 'store'."), played(ask, response(message("Hi"))))
    model = local(server)
    assert [ask(model, "Hi").text, ask(model, "Hi").text] == ["Hi", "Hi"]
    assert ["store" in body for body in bodies(server)] == [True, False, False]


def test_thoughts_that_a_server_refuses_are_left_out_of_this_call_alone(server: WireServer, ask: Asking) -> None:
    no, yes = refusal("The encrypted content e could not be verified."), played(ask, response(message("Hi")))
    server.play(no, yes, yes)
    model, history = local(server), [HumanMessage("Hi"), turn()]
    thoughtful = history[1].model_copy(update={"tool_calls": []})
    for _ in range(2):
        ask(model, [history[0], thoughtful, HumanMessage("And?")])
    kinds = [[item.get("type", "user") for item in body["input"]] for body in bodies(server)]
    assert kinds == [["user", "reasoning", "message", "user"], ["user", "message", "user"], kinds[0]]


def test_another_refusal_is_raised_at_once(server: WireServer, ask: Asking) -> None:
    server.play(refusal("Unknown parameter: 'seed'."))
    with pytest.raises(BadRequestError):
        ask(local(server), "Hi")
    assert len(server.requests) == 1


async def test_leaving_or_cancelling_a_stream_closes_the_connection(server: WireServer) -> None:
    server.play(streamed(sse(events_of(TURN)[:6]), Hold(), end=False))
    model = local(server)
    async with asyncio.timeout(BOUND), aclosing(model.astream("Hi")) as chunks:
        await anext(chunks)
    assert await asyncio.to_thread(server.requests[0].left.wait, BOUND)
    started = asyncio.Event()

    async def read() -> None:
        async for _ in model.astream("Hi"):
            started.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(started.wait(), BOUND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, BOUND)
    assert await asyncio.to_thread(server.requests[1].left.wait, BOUND)


def test_a_server_that_falls_silent_behind_the_end_breaks_nothing(server: WireServer, ask_streaming: Asking) -> None:
    server.play(streamed(sse(events_of(TURN)), Hold(), end=False, x_request_id="req_1"))
    model = local(server, timeout=Timeouts(between_events=0.2))
    assert ask_streaming(model, "Hi").model_copy(update={"id": None}) == turn()


# Keys


def test_a_missing_key_names_the_variable_at_the_first_call(ask: Asking) -> None:
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY"):
        ask(ChatOpenAIResponses(model="gpt-5"), "Hi")


def test_a_key_is_nowhere_to_be_seen(server: WireServer, ask: Asking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.play(refusal(f"the key {KEY} is wrong", 401))
    model = local(server, api_key=KEY, default_headers={"x-extra": "secret-header"})
    with pytest.raises(AuthenticationError) as caught:
        ask(model, "Hi")
    shown = [repr(model), str(model), dumps(model), str(model._identifying_params), str(model._get_invocation_params())]
    shown += ["".join(traceback.format_exception(caught.value)), repr(vars(caught.value)), caplog.text]
    hidden = [pickle.dumps(model), pickle.dumps(caught.value)]
    assert [text for text in shown if KEY in text or "secret-header" in text] == []
    assert [data for data in hidden if KEY.encode() in data or b"secret-header" in data] == []


def test_a_misspelt_argument_is_told_when_the_model_is_built() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'reasoning"):
        ChatOpenAIResponses(model="m", reasonings={})


def test_stop_sequences_are_told_to_be_unknown_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError, match="no stop sequences"):
        ChatOpenAIResponses(model="gpt-5", api_key=KEY).invoke("Hi", stop=["x"])


def test_the_module_loads_no_other_provider() -> None:
    code = (
        "import sys, agentgraph.models.openai_responses; "
        "print([name for name in sys.modules if name.startswith('agentgraph.models.') "
        "and name.rpartition('.')[2].startswith(('openai_codec', 'anthropic', 'gemini', 'ollama'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 our own interpreter
    assert done.stdout.strip() == "[]"
