"""Keys stay out of everything that is shown, stored or logged."""

import asyncio
import copy
import logging
import pickle
import traceback
from typing import Any

import httpx
import httpx2
import pytest
from pydantic import SecretStr

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, ModelError
from agentgraph.models.transport import Transport
from tests.models.conftest import Asking, Connect
from tests.wire_server import Cut, Hold, Step, WireServer, answer, streamed

KEY, QUERY_KEY, PASSWORD = "secret-key-0001", "query-key-0002", "pass-word-0003"
SECRETS = (KEY, QUERY_KEY, PASSWORD)


@pytest.fixture
def guarded(server: WireServer, connect: Connect) -> Connect:
    """A transport with a secret in each place where one can be."""

    def make(**settings: Any) -> Transport:
        return connect(
            **{
                "base_url": server.url.replace("//", f"//me:{PASSWORD}@") + f"/v1?key={QUERY_KEY}",
                "secret_headers": {"x-api-key": SecretStr(KEY), "authorization": SecretStr(f"Bearer {KEY}")},
                "max_retries": 1,
            }
            | settings
        )

    return make


def _told(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize(
    "script",
    [
        [Cut()],
        answer(401, f'{{"error": {{"message": "{KEY} {QUERY_KEY} {PASSWORD}", "code": "{KEY}"}}}}'.encode()),
        answer(500, f"{KEY} {QUERY_KEY}".encode(), "text/plain"),
        answer(200, f"<html>{KEY} {QUERY_KEY}".encode(), "text/html"),
        answer(200, f'{{"error": "{KEY} {PASSWORD}"}}'.encode()),
        answer(302, b"", None, location=f"https://me:{PASSWORD}@else.where/?key={QUERY_KEY}"),
        streamed(b"data: {", Cut()),
    ],
    ids=["connection", "status", "text", "page", "at 200", "redirect", "cut"],
)
def test_no_error_shows_a_secret_that_the_server_sends_back(
    server: WireServer, guarded: Connect, ask: Asking, script: list[Step], caplog: pytest.LogCaptureFixture
) -> None:
    server.play(script)

    with caplog.at_level(logging.INFO), pytest.raises(ModelError) as caught:
        ask(guarded())

    assert _told(f"{caught.value!s} {caught.value!r} {vars(caught.value)} {caught.value.__reduce__()}") == []
    assert _told(caplog.text) == []


@pytest.mark.parametrize(
    "script",
    [[Cut()], answer(401, b"{}"), answer(200, b"<html>", "text/html"), streamed(b"data: {", Cut()), streamed(Hold())],
    ids=["connection", "status", "page", "cut", "silence"],
)
def test_no_local_variable_of_a_traceback_and_no_log_shows_a_secret(
    server: WireServer, guarded: Connect, ask: Asking, script: list[Step], caplog: pytest.LogCaptureFixture
) -> None:
    server.play(script)

    with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
        ask(guarded(timeouts=0.2))

    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "agentgraph" in shown
    assert _told(shown + caplog.text) == []
    assert server.requests[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_the_librarys_own_log_line_shows_the_url_without_its_secrets(
    server: WireServer, guarded: Connect, caplog: pytest.LogCaptureFixture, library: Any
) -> None:
    server.play(answer(200, b"{}"))

    with caplog.at_level(logging.INFO, logger=library.__name__), library.Client() as client:
        guarded(http_client=client).post("chat/completions", {})
        client.get(server.url + "/of/others?key=theirs")

    lines = [record.getMessage() for record in caplog.records if record.name == library.__name__]
    assert f"{server.url}/v1/chat/completions?key=***" in lines[0]
    assert f"{server.url}/of/others?key=theirs" in lines[1]


def test_a_transport_shows_no_secret_and_is_not_pickled(guarded: Connect) -> None:
    transport = guarded()

    with pytest.raises(ConfigurationTypeError, match="about to be pickled") as caught:
        pickle.dumps(transport)

    assert _told(repr(transport) + str(caught.value) + repr(vars(transport))) == []
    assert copy.deepcopy({"model": transport})["model"] is transport
    assert copy.copy(transport) is transport


@pytest.mark.parametrize("key", [f"{KEY}\nx-evil: 1", f"{KEY}\u201d", f"{KEY}\x00"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(connect: Connect, key: str) -> None:
    with pytest.raises(ConfigurationError, match="'x-api-key'") as caught:
        connect(secret_headers={"x-api-key": SecretStr(key)})

    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame for frame in frames.stack if "/agentgraph/" in frame.filename]
    assert ours
    assert _told(str(caught.value) + repr([frame.locals for frame in ours])) == []


@pytest.mark.parametrize("key", ["", "   ", "Bearer ", "Bearer None"])
def test_no_key_is_no_header(server: WireServer, connect: Connect, key: str) -> None:
    server.play(answer(200, b"{}"))

    connect(secret_headers={"authorization": SecretStr(key)}).post("chat/completions", {})

    assert "authorization" not in server.requests[0].headers


def test_a_redirect_takes_no_key_to_another_server(server: WireServer, guarded: Connect) -> None:
    with WireServer() as other:
        other.play(answer(200, b"{}"))
        server.play(answer(307, b"", None, location=f"{other.url}/v1/chat/completions"))
        with httpx.Client(follow_redirects=True) as client, pytest.raises(ModelError, match="not followed"):
            guarded(http_client=client).post("chat/completions", {})

        async def ask() -> None:
            await guarded().apost("chat/completions", {})

        with pytest.raises(ModelError, match="not followed"):
            asyncio.run(ask())

        assert other.requests == []
