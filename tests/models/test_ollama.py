"""ChatOllama as users hold it: against a server on the loopback, whole and streamed, sync and async."""

import asyncio
import copy
import json
import logging
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from langchain_core.load import dumps
from pydantic import BaseModel

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelTimeoutError,
    RateLimitError,
    ServerError,
)
from agentgraph.models.ollama import ChatOllama
from agentgraph.models.transport import Timeouts
from tests.models.ollama_asking import END, NDJSON, call, document, event, lines, local, ndjson, played, refusal
from tests.models.openai_asking import BOUND, WAYS, Asking, add, bodies, invoke
from tests.wire_server import Hold, WireServer, streamed

KEY = "ollama-key-0123456789"
# Servers hand on what their runner said, as a text.
RUNNERS_OWN = json.dumps(
    {
        "error": {
            "code": 400,
            "message": "request (2622 tokens) exceeds the available context size (512 tokens), try increasing it",
            "type": "exceed_context_size_error",
        }
    }
)


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


def hello(way: Callable[..., Any]) -> Any:
    return played(way, event("Hello"), event(**END))


# Where it is


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/v1", "{}/api", "{}/api/chat"])
def test_the_server_is_found_however_it_is_named(server: WireServer, form: str) -> None:
    server.play(hello(invoke))
    for where in (server.url, server.url.removeprefix("http://")):
        assert invoke(ChatOllama(model="m", base_url=form.format(where)), "Hi").content == "Hello"
    assert [request.target for request in server.requests] == ["/api/chat", "/api/chat"]


def test_the_environment_names_the_server(server: WireServer, ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    server.play(hello(ask))
    monkeypatch.setenv("OLLAMA_HOST", server.url.replace("http://127.0.0.1", "0.0.0.0"))  # noqa: S104 it is only read
    model = ChatOllama(model="m")
    monkeypatch.setenv("OLLAMA_HOST", "elsewhere.test")
    assert ask(model, "Hi").content == "Hello"
    assert model.base_url == server.url


def test_without_a_name_it_is_on_this_machine() -> None:
    assert ChatOllama(model="m")._server() == "http://127.0.0.1:11434"


@pytest.mark.parametrize("host", ["http://[broken", "ftp://box", "box:port"])
def test_a_host_that_is_none_is_told_when_the_model_is_built(host: str) -> None:
    with pytest.raises(ConfigurationError, match="Expected an http or https URL"):
        ChatOllama(model="m", base_url=host)


# Keys


def test_no_key_is_needed_and_none_is_sent(server: WireServer, ask: Asking) -> None:
    server.play(hello(ask))
    ask(local(server), "Hi")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_key_is_sent_wherever_it_comes_from(server: WireServer, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    server.play(hello(invoke))
    if how == "environment":
        monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    local(server, api_key=KEY if how == "argument" else None).invoke("Hi")
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_service_of_ollama_itself_needs_one(ask: Asking) -> None:
    with pytest.raises(AuthenticationError, match="OLLAMA_API_KEY"):
        ask(ChatOllama(model="m", base_url="https://ollama.com"), "Hi")


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


def test_copies_and_pickles_go_on_asking_the_same_server(server: WireServer) -> None:
    server.play(hello(invoke))
    model = local(server, num_ctx=100)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 our own
        other.invoke("Hi")
    assert len({request.body for request in server.requests}) == 1
    assert len(server.requests) == 3


# Failures


@pytest.mark.parametrize(
    ("status", "text", "kind", "says"),
    [
        (404, "model 'm' not found", ModelNotFoundError, "ollama pull m"),
        (404, 'model "m" not found, try pulling it first', ModelNotFoundError, "ollama pull m"),
        (404, "page not found", ModelNotFoundError, "without /v1"),
        (400, "registry.ollama.ai/library/m does not support tools", BadRequestError, 'tool_protocol="json"'),
        (400, '"m" does not support thinking', BadRequestError, "Leave `think` out"),
        (400, "the input length exceeds the context length", ContextOverflowError, "num_ctx="),
        (400, RUNNERS_OWN, ContextOverflowError, "num_ctx="),
        (400, "illegal base64 data at input byte 0", BadRequestError, "base64"),
        (400, "invalid options: temperature", BadRequestError, "invalid options"),
        (429, "too many concurrent requests", RateLimitError, "too many"),
        (500, "model requires more system memory (9 GiB) than is available", ServerError, "memory"),
    ],
)
def test_a_refusal_is_a_typed_error_that_says_what_to_do(
    server: WireServer, ask: Asking, status: int, text: str, kind: type[Exception], says: str
) -> None:
    server.play(refusal(text, status))
    with pytest.raises(kind, match=re.escape(says)) as caught:
        ask(local(server), "Hi")
    assert type(caught.value) is kind
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 our own


def test_a_server_that_does_not_run_is_told_with_how_to_start_it(ask: Asking) -> None:
    with pytest.raises(ModelConnectionError, match="ollama serve"):
        ask(ChatOllama(model="m", base_url="127.0.0.1:9", max_retries=0), "Hi")


def test_the_advice_names_the_model_of_the_call(server: WireServer, ask: Asking) -> None:
    server.play(refusal("model 'other' not found", 404))
    with pytest.raises(ModelNotFoundError, match="ollama pull other"):
        ask(local(server).bind(model="other"), "Hi")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"num_context": 5}, "did you mean 'num_ctx'"),
        ({"num_ctx": 0}, "num_ctx: Input should be greater"),
        ({"timeout": -1}, "timeout is -1.0"),
        ({"num_predict": -3}, "num_predict: Input should be greater"),
    ],
)
def test_an_argument_that_cannot_work_is_told_when_the_model_is_built(arguments: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        ChatOllama(model="m", **arguments)


def test_what_belongs_to_the_connection_cannot_be_set_for_one_call(server: WireServer, ask: Asking) -> None:
    with pytest.raises(ConfigurationError, match="base_url: given for one call"):
        ask(local(server).bind(base_url="http://x"), "Hi")
    assert server.requests == []


# Time


def test_a_silent_server_is_given_time_unless_other_limits_are_set(server: WireServer) -> None:
    with httpx.Client(timeout=3) as client:
        models = [ChatOllama(model="m"), ChatOllama(model="m", timeout=5), ChatOllama(model="m", http_client=client)]
    assert [model._limits() for model in models] == [Timeouts(first_event=600, between_events=600), 5, None]


def test_a_server_that_stays_silent_is_left(server: WireServer, ask: Asking) -> None:
    server.play([Hold()])
    with pytest.raises(ModelTimeoutError):
        ask(local(server, timeout=0.2), "Hi")
    assert server.requests[0].left.wait(BOUND)


# Cancelling


async def test_leaving_a_stream_closes_the_connection(server: WireServer, bounded: None) -> None:
    server.play(streamed(*lines(event("Hel")), Hold(), content_type=NDJSON))
    stream: AsyncIterator[Any] = local(server).astream("Hi")
    async with aclosing(stream) as chunks:  # type: ignore[type-var]  # langchain-core types its generator as an iterator
        assert (await anext(aiter(chunks))).text == "Hel"
    assert await asyncio.to_thread(server.requests[0].left.wait, BOUND)


def test_leaving_a_sync_stream_closes_the_connection(server: WireServer) -> None:
    server.play(streamed(*lines(event("Hel")), Hold(), content_type=NDJSON))
    chunks: Any = local(server).stream("Hi")
    first = next(chunks)
    chunks.close()
    assert (first.text, server.requests[0].left.wait(BOUND)) == ("Hel", True)


async def test_cancelling_a_stream_closes_the_connection(server: WireServer, bounded: None) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in local(server).astream("Hi"):
            begun.set()

    server.play(streamed(*lines(event("Hel")), Hold(), content_type=NDJSON))
    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.requests[0].left.wait, BOUND)


# Structured answers


class City(BaseModel):
    """A city."""

    name: str


@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_a_structured_answer_is_an_instance_in_every_way_of_asking(server: WireServer, method: Any) -> None:
    structured = local(server).with_structured_output(City, method=method)
    server.play(document(event('{"name": "Rome"}', **END)))
    assert structured.invoke("Hi") == City(name="Rome")
    assert asyncio.run(structured.ainvoke("Hi")) == City(name="Rome")
    server.play(ndjson(event('{"name": '), event('"Rome"}'), event(**END)))
    assert list(structured.stream("Hi")) == [City(name="Rome")]
    assert asyncio.run(collected(structured.astream("Hi"))) == [City(name="Rome")]


async def collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def test_a_structured_answer_by_a_tool_shows_the_model_that_tool_alone(server: WireServer) -> None:
    server.play(document(event(calls=[call("City", {"name": "Rome"})], **END)))
    structured = local(server).with_structured_output(City, method="function_calling")
    assert structured.invoke("Hi") == City(name="Rome")
    assert [tool["function"]["name"] for tool in bodies(server)[0]["tools"]] == ["City"]


def test_a_structured_answer_that_was_cut_off_is_an_error(server: WireServer) -> None:
    server.play(document(event('{"name": "Ro', **{**END, "done_reason": "length"})))
    answer = local(server).with_structured_output(City, include_raw=True).invoke("Hi")
    assert (answer["parsed"], "limit of tokens" in str(answer["parsing_error"])) == (None, True)


# What it is


def test_the_profile_knows_the_window_that_was_set() -> None:
    known = {"structured_output": True, "tool_choice": False}
    for settings in ({"num_ctx": 8192}, {"options": {"num_ctx": 8192}}):
        assert ChatOllama(model="m", **settings).profile == {**known, "max_input_tokens": 8192}
    assert ChatOllama(model="m").profile == known


def test_a_model_without_tool_calling_says_which_protocol_to_take() -> None:
    with pytest.raises(ConfigurationError, match='tool_protocol="json"'):
        ChatOllama(model="m", profile={"tool_calling": False}).bind_tools([add])


def test_tracing_knows_provider_model_and_settings() -> None:
    assert ChatOllama(model="m", temperature=0.5, max_tokens=5, stop="x")._get_ls_params() == {
        "ls_provider": "ollama",
        "ls_model_name": "m",
        "ls_model_type": "chat",
        "ls_temperature": 0.5,
        "ls_max_tokens": 5,
        "ls_stop": ["x"],
    }


def test_no_other_format_is_loaded_with_it() -> None:
    script = (
        "import sys, agentgraph.models.ollama; print(*sorted(m for m in sys.modules if m.startswith('agentgraph')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 our own script
    loaded = set(done.stdout.split())
    others = ("openai", "openai_call", "openai_codec", "openai_responses", "anthropic", "gemini")
    assert loaded & {f"agentgraph.models.{name}" for name in others} == set()
