"""URLs, proxies and JSON that cannot be: each is one typed error in every format, however it is asked."""

import json
from typing import Any

import pytest

from agentgraph.errors import AgentGraphError, ConfigurationError, InvalidResponseError, ModelConnectionError
from agentgraph.models.json_text import parse_json
from agentgraph.models.openai import ChatOpenAI
from tests.models.openai_asking import WAYS, Asking
from tests.models.test_traps_streams import FORMATS
from tests.wire_server import WireServer, answer, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/\x00",
        "http://127.0.0.1:1/\ud800",
        "http://a..b/",
        "http://.",
        f"http://{'a' * 300}.example",
        "http://" + "\u00e9" * 80 + ".example",
    ],
)
def test_a_base_url_that_cannot_be_is_told(ask: Asking, url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url is"):
        ask(ChatOpenAI(model="m", base_url=url, api_key="key-0123456789"), "Hi")


def test_a_host_that_the_http_library_refuses_is_told(ask: Asking) -> None:
    model = ChatOpenAI(model="m", base_url="http://\u2460\u2461\u2466.0.0.1:1", api_key="key-0123456789")
    with pytest.raises(ModelConnectionError, match="Check base_url") as caught:
        ask(model, "Hi")
    assert (caught.value.retryable, caught.value.attempts) == (False, 1)


def test_a_name_of_a_header_that_cannot_be_sent_is_told(ask: Asking) -> None:
    headers = {"x-\u00e9": "1"}
    model = ChatOpenAI(model="m", base_url="http://127.0.0.1:1", api_key="key-0123456789", default_headers=headers)
    with pytest.raises(AgentGraphError) as caught:
        ask(model, "Hi")
    assert isinstance(caught.value, ConfigurationError | ModelConnectionError)


@pytest.mark.parametrize("proxy", ["ftp://user:word-of-passing@x", "http://user:word-of-passing@[::1", "http://a\nb"])
def test_a_proxy_that_cannot_be_is_told_without_its_password(
    ask: Asking, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ConfigurationError, match="HTTP_PROXY") as caught:
        ask(ChatOpenAI(model="m", base_url="http://example.invalid", api_key="key-0123456789"), "Hi")
    assert "word-of-passing" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("depth", [300, 1000])
def test_an_answer_that_is_nested_too_deep_is_no_answer(server: WireServer, ask: Asking, name: str, depth: int) -> None:
    form = FORMATS[name]
    deep = json.dumps({**form.document("Hello"), "more": "@"}).replace('"@"', "[" * depth + "]" * depth).encode()
    server.play(answer(200, deep))
    with pytest.raises(InvalidResponseError, match="nested more than"):
        ask(form.local(server), "Hi")


def test_what_is_nested_up_to_the_bound_is_read() -> None:
    bound = 200
    assert parse_json("[" * bound + "]" * bound)
    assert parse_json(json.dumps([[]] * 1000)) == [[]] * 1000
    with pytest.raises(ValueError, match="nested"):
        parse_json("[" * (bound + 1) + "]" * (bound + 1))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("said", [["\udc00a"], {"a": 2**70}, [1e400]])
def test_an_error_of_odd_json_is_the_servers(server: WireServer, ask: Asking, name: str, said: Any) -> None:
    form = FORMATS[name]
    body = json.dumps({"detail": said}).encode()
    server.play(streamed(b"data: " + body + b"\n\n") if form.mime == "text/event-stream" else answer(200, body))
    with pytest.raises(AgentGraphError) as caught:
        ask(form.local(server), "Hi")
    assert str(caught.value).encode()
