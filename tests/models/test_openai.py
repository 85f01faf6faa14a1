"""ChatOpenAI as users hold it: against a server on the loopback, whole and streamed, sync and async."""

import asyncio
import copy
import logging
import pickle
import re
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.load import dumps
from pydantic import BaseModel

from agentgraph.errors import AuthenticationError, ConfigurationError
from agentgraph.models.openai import ChatOpenAI
from tests.models.openai_asking import (
    WAYS,
    Asking,
    add,
    ainvoke,
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
from tests.models.openai_peer import KEY, OpenAIPeer
from tests.wire_server import WireServer, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(scope="module")
def peer() -> Iterator[OpenAIPeer]:
    with OpenAIPeer() as running:
        yield running


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def test_all_ways_of_asking_give_the_same_message(peer: OpenAIPeer, ask: Asking) -> None:
    model = ChatOpenAI(model="gpt-4o", base_url=peer.url, api_key=KEY)
    message = ask(model, "Hi")
    assert message.id is not None
    assert message.content == "Hello, you said: Hi"
    usage = message.usage_metadata
    assert usage is not None
    assert usage["input_token_details"] == {"audio": 0, "cache_read": 1}
    assert message.response_metadata == {
        "model_provider": "openai",
        "model_name": "gpt-4o",
        "finish_reason": "stop",
        "id": "chatcmpl-1",
        "request_id": "req_peer",
    }


def test_all_ways_of_asking_call_the_same_tool(peer: OpenAIPeer, ask: Asking) -> None:
    model = ChatOpenAI(model="gpt-4o", base_url=peer.url, api_key=KEY).bind_tools([add], tool_choice="add")
    assert ask(model, "What is 3 and 3?").tool_calls == [
        {"name": "add", "args": {"a": 3, "b": 3}, "id": "call_1", "type": "tool_call"}
    ]


def test_settings_of_the_model_of_the_binding_and_of_the_call_reach_the_server(peer: OpenAIPeer) -> None:
    model = ChatOpenAI(model="gpt-4o", base_url=peer.url, api_key=KEY, temperature=0.5, seed=1, extra_body={"top_k": 5})
    model.bind(seed=2, extra_body={"min_p": 0.1}).invoke("Hi", stop=["x"], temperature=0)
    assert peer.bodies[-1] == {
        "messages": [{"role": "user", "content": "Hi"}],
        "model": "gpt-4o",
        "temperature": 0,
        "seed": 2,
        "stop": ["x"],
        "top_k": 5,
        "min_p": 0.1,
    }


def test_broken_arguments_do_not_become_a_call_for_the_newest_streaming_protocol(server: WireServer) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"a": 1'}}
    server.play(streamed(event(tool_calls=[call]), event(finish_reason="length")))
    message = local(server).stream_events("Hi", version="v3").output
    assert (message.tool_calls, [one["name"] for one in message.invalid_tool_calls]) == ([], ["add"])


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_a_base_url_works_with_and_without_version(server: WireServer, base: str) -> None:
    server.play(document())
    model = ChatOpenAI(model="m", base_url=server.url.removesuffix("/v1") + base)
    assert model.invoke("Hi").content == "Hello"
    assert server.requests[0].target == "/v1/chat/completions"


# Keys


def test_no_key_means_no_authorization_header(server: WireServer, ask: Asking) -> None:
    server.play(played(ask))
    ask(local(server), "Hi")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("how", ["argument", "environment", "after building", "header"])
def test_a_key_is_sent_wherever_it_comes_from(server: WireServer, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    server.play(document())
    if how == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    headers = {"Authorization": f"Bearer {KEY}"} if how == "header" else {}
    model = local(server, api_key=KEY if how == "argument" else None, default_headers=headers)
    if how == "after building":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model.invoke("Hi")
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("provider", "base_url"), [("openai", None), ("deepseek", "https://api.deepseek.com/v1")])
def test_a_missing_key_names_the_variable_at_the_first_call(ask: Asking, provider: str, base_url: str | None) -> None:
    variable = f"{provider.upper()}_API_KEY"
    model = ChatOpenAI(model="m", provider=provider, base_url=base_url, key_variables=(variable,))
    with pytest.raises(AuthenticationError, match=variable):
        ask(model, "Hi")


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


def test_a_password_in_the_base_url_is_not_shown() -> None:
    model = ChatOpenAI(model="m", base_url="https://me:hunter2@host/v1?key=abc123")
    for text in (repr(model), dumps(model), str(model._identifying_params)):
        assert "hunter2" not in text
        assert "abc123" not in text


def test_a_misspelt_argument_is_an_error_that_does_not_show_the_key() -> None:
    for arguments, says in (({"model": "m", "temprature": 0}, "did you mean 'temperature'"), ({}, "model: Field")):
        with pytest.raises(ConfigurationError, match=says) as caught:
            ChatOpenAI(**{"api_key": KEY, **arguments})
        assert KEY not in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"base_url": "localhost:8000"}, "base_url is 'localhost:8000'. Expected an http or https URL"),
        ({"timeout": -1}, "timeout is -1.0. Expected seconds"),
        ({"timeout": "soon"}, "timeout: expected seconds as a number, or agentgraph.models.call.Timeouts"),
        ({"max_retries": -1}, "max_retries: Input should be greater than or equal to 0"),
        ({"mirostat": 2}, "there is no argument 'mirostat'; give parameters of the server in extra_body"),
    ],
)
def test_an_argument_that_cannot_work_is_told_when_the_model_is_built(arguments: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        ChatOpenAI(model="m", **arguments)


@pytest.mark.parametrize("name", ["api_key", "timeout", "extra_headers"])
def test_what_belongs_to_the_connection_cannot_be_set_for_one_call(server: WireServer, ask: Asking, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: given for one call") as caught:
        ask(local(server).bind(**{name: KEY}), "Hi")
    assert (server.requests, KEY in str(caught.value)) == ([], False)


def test_usage_of_a_stream_can_be_declined_for_one_call(server: WireServer) -> None:
    server.play(sse())
    stream(local(server).bind(stream_usage=False), "Hi")
    assert bodies(server) == [{"messages": [{"role": "user", "content": "Hi"}], "model": "m", "stream": True}]


def test_no_secret_of_the_base_url_and_the_query_is_in_a_pickle_or_a_dump() -> None:
    url = "https://me:hunter2-x@host/v1?key=abc123-x&api-version=2"
    model = ChatOpenAI(model="m", base_url=url, default_query={"code": "def456-x", "version": "3"})
    stored = pickle.dumps(model)
    for text in (str(stored), str(model.model_dump()), model.model_dump_json()):
        assert [secret for secret in ("hunter2-x", "abc123-x", "def456-x") if secret in text] == []
    loaded = pickle.loads(stored)  # noqa: S301 our own
    assert (loaded.base_url, loaded.default_query) == ("https://host/v1?api-version=2", {"version": "3"})
    assert model.model_copy().base_url == url


def test_a_base_url_that_is_the_whole_endpoint_is_taken_as_it_is(server: WireServer) -> None:
    for base, target in (
        ("/inference/chat/completions", "/inference/chat/completions"),
        ("/x/", "/x/v1/chat/completions"),
    ):
        server.play(document())
        ChatOpenAI(model="m", base_url=server.url + base).invoke("Hi")
        assert server.requests[-1].target == target


def test_a_pickled_model_takes_its_key_from_the_environment(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(document())
    model = local(server, api_key=KEY)
    model.invoke("Hi")
    loaded = pickle.loads(pickle.dumps(model))  # noqa: S301 our own
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other-key-123")
    loaded.invoke("Hi")
    assert server.requests[1].headers["authorization"] == "Bearer sk-other-key-123"


def test_copies_work_and_follow_their_own_settings(server: WireServer) -> None:
    server.play(document())
    model = local(server, api_key=KEY)
    model.invoke("Hi")
    for other in (copy.copy(model), copy.deepcopy(model), model.model_copy(update={"api_key": None})):
        other.invoke("Hi")
    assert [request.headers.get("authorization") for request in server.requests] == [f"Bearer {KEY}"] * 3 + [None]


# Tools and structured answers


def test_a_model_without_tool_calling_says_which_protocol_to_take() -> None:
    model = ChatOpenAI(model="m", base_url="http://localhost:1", profile={"tool_calling": False})
    with pytest.raises(ConfigurationError, match='tool_protocol="json"'):
        model.bind_tools([add])
    assert model.bind_tools([]) is not None


class City(BaseModel):
    """A city."""

    name: str


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_a_structured_answer_is_an_instance_in_every_way_of_asking(peer: OpenAIPeer, ask: Asking, method: Any) -> None:
    model = ChatOpenAI(model="gpt-4o", base_url=peer.url, api_key=KEY)
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


def test_a_structured_answer_that_cannot_be_read_comes_with_its_error_on_request(server: WireServer) -> None:
    server.play(document("Paris!"))
    answer = local(server).with_structured_output(City, include_raw=True).invoke("Hi")
    assert (answer["raw"].content, answer["parsed"], "not JSON" in str(answer["parsing_error"])) == (
        "Paris!",
        None,
        True,
    )


def test_an_unknown_method_of_structured_answers_is_refused(server: WireServer) -> None:
    with pytest.raises(ConfigurationError, match="json_schema"):
        local(server).with_structured_output(City, method="xml")  # type: ignore[arg-type]  # what is tested


def test_tracing_knows_provider_model_and_settings() -> None:
    model = ChatOpenAI(model="m", base_url="http://localhost:1", temperature=0.5, max_tokens=5, stop="x")
    assert model._get_ls_params() == {
        "ls_provider": "openai",
        "ls_model_name": "m",
        "ls_model_type": "chat",
        "ls_temperature": 0.5,
        "ls_max_tokens": 5,
        "ls_stop": ["x"],
    }


def test_tokens_are_counted_without_a_tokenizer() -> None:
    model = ChatOpenAI(model="m", base_url="http://localhost:1")
    assert [model.get_num_tokens(text) for text in ("", "abc", "abcde", "äöü")] == [0, 1, 2, 2]
