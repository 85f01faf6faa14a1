"""Endings that no format has a name for, failures without a reason, keys that are missing: what is said of them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agentgraph.errors import AuthenticationError, ContentFilterError, ModelError, ServerError
from agentgraph.models.anthropic import ChatAnthropic
from agentgraph.models.azure_openai import ChatAzureOpenAI
from agentgraph.models.openai import ChatOpenAI
from tests.models import anthropic_asking as anthropic
from tests.models import gemini_asking as gemini
from tests.models import ollama_asking as ollama
from tests.models import openai_asking as openai
from tests.models import openai_responses_asking as responses
from tests.models.openai_asking import WAYS, Asking, add
from tests.wire_server import Step, WireServer, answer, streamed


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


# What ends for a reason that is not known

Script = Callable[[Asking, str, bool], list[Step]]


def _chat(way: Asking, reason: str, says: bool) -> list[Step]:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    said = {"content": "Hi", "tool_calls": [call]} if says else {"content": ""}
    if "stream" in way.__name__:
        return streamed(openai.event(**said), openai.event(finish_reason=reason), b"data: [DONE]\n\n")
    choice = {"index": 0, "message": said, "finish_reason": reason}
    return answer(200, json.dumps({"id": "c", "choices": [choice]}).encode())


def _anthropic(way: Asking, reason: str, says: bool) -> list[Step]:
    call = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "Hi"}, call] if says else []
    return anthropic.played(way, anthropic.body_of(*blocks, stop_reason=reason))


def _gemini(way: Asking, reason: str, says: bool) -> list[Step]:
    parts = [gemini.text("Hi"), gemini.called("add", {"a": 1, "b": 2})] if says else []
    piece = gemini.piece(*parts, reason=reason)
    return gemini.sse(piece) if "stream" in way.__name__ else gemini.document(piece)


def _ollama(way: Asking, reason: str, says: bool) -> list[Step]:
    said = [ollama.event("Hi", calls=[ollama.call()])] if says else []
    return ollama.played(way, *said, ollama.event(**{**ollama.END, "done_reason": reason}))


SERVERS: Mapping[str, tuple[Callable[..., Any], Script]] = {
    "openai": (openai.local, _chat),
    "anthropic": (anthropic.local, _anthropic),
    "gemini": (gemini.local, _gemini),
    "ollama": (ollama.local, _ollama),
}


@pytest.mark.parametrize("name", SERVERS)
def test_what_ends_for_an_unknown_reason_is_taken_for_what_it_holds(server: WireServer, ask: Asking, name: str) -> None:
    local, script = SERVERS[name]
    server.play(script(ask, "something_new", True))
    message = ask(local(server).bind_tools([add]), "Hi")
    assert isinstance(message, AIMessage)
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    assert (message.text, calls, message.invalid_tool_calls) == ("Hi", [("add", {"a": 1, "b": 2})], [])
    assert message.response_metadata["finish_reason"] == "something_new"


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_what_ends_for_an_unknown_reason_with_nothing_is_an_error(server: WireServer, ask: Asking, name: str) -> None:
    local, script = SERVERS[name]
    server.play(script(ask, "something_new", False))
    with pytest.raises(ServerError, match="'something_new'") as caught:
        ask(local(server), "Hi")
    assert (caught.value.code, caught.value.retryable, server.url in str(caught.value)) == (
        "something_new",
        False,
        True,
    )


@pytest.mark.parametrize("reason", ["NEW_SAFETY", "content_filtered", "RECITATION"])
@pytest.mark.parametrize("says", [True, False], ids=["with content", "without"])
@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])
def test_a_filter_of_any_name_is_no_short_answer(
    server: WireServer, ask: Asking, name: str, says: bool, reason: str
) -> None:
    local, script = SERVERS[name]
    server.play(script(ask, reason, says))
    with pytest.raises(ContentFilterError, match=reason) as caught:
        ask(local(server).bind_tools([add]), "Hi")
    assert caught.value.code == reason


# Failures without a reason


def test_an_answer_that_failed_without_a_reason_says_so(server: WireServer, ask: Asking) -> None:
    server.play(responses.played(ask, responses.response(status="failed")))
    with pytest.raises(ServerError, match="status is 'failed', and it does not say why") as caught:
        ask(responses.local(server), "Hi")
    assert caught.value.url == f"{server.url}/v1/responses"


FAILURES: Mapping[str, tuple[Callable[..., Any], bytes, str]] = {
    "openai": (
        openai.local,
        openai.event(content="Hi") + b'data: {"error": {"message": "sick"}}\n\n',
        "/chat/completions",
    ),
    "openai_responses": (
        responses.local,
        b'data: {"type": "response.created", "response": {}}\n\ndata: {"type": "error", "message": "sick"}\n\n',
        "/responses",
    ),
    "anthropic": (
        anthropic.local,
        b'data: {"type": "ping"}\n\ndata: {"type": "error", "error": {"type": "api_error", "message": "sick"}}\n\n',
        "/messages",
    ),
    "gemini": (
        gemini.local,
        b'data: {"candidates": []}\n\ndata: {"error": {"message": "sick"}}\n\n',
        ":streamGenerateContent",
    ),
    "ollama": (ollama.local, b'{"message": {"content": "Hi"}}\n{"error": "sick"}\n', "/api/chat"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_within_an_answer_names_what_was_asked(server: WireServer, name: str) -> None:
    local, data, path = FAILURES[name]
    server.play(streamed(data, content_type="application/x-ndjson" if name == "ollama" else "text/event-stream"))
    with pytest.raises(ModelError, match="sick") as caught:
        openai.stream(local(server), "Hi")
    assert str(caught.value.url).startswith(server.url)
    assert path in str(caught.value.url)
    assert str(caught.value.url) in str(caught.value)


# Keys


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: ChatOpenAI(model="gpt-5"), "OPENAI_API_KEY, or give api_key=."),
        (
            lambda: ChatAnthropic(model="claude-sonnet-4-5"),
            "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or give api_key= or auth_token=.",
        ),
        (
            lambda: ChatAzureOpenAI(model="gpt-5", base_url="https://acme.openai.azure.com"),
            "AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN, or give api_key= or auth_token=.",
        ),
    ],
    ids=["openai", "anthropic", "azure_openai"],
)
def test_a_missing_key_is_told_with_all_that_would_do(
    build: Callable[[], Any], says: str, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI", "ANTHROPIC", "AZURE_OPENAI"):
        for kind in ("API_KEY", "AUTH_TOKEN", "AD_TOKEN", "BASE_URL", "API_BASE"):
            monkeypatch.delenv(f"{name}_{kind}", raising=False)
    with pytest.raises(AuthenticationError, match="no API key") as caught:
        ask(build(), "Hi")
    assert says in str(caught.value)
