"""From what a server says to one typed error, for the error bodies of every format, in the status and in the stream."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ModelNotFoundError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from tests.models.conftest import Asking, Connect, Streaming
from tests.wire_server import Cut, Hold, Step, WireServer, answer, head, streamed


def _openai(message: str = "said", code: str | None = None, kind: str | None = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _google(message: str, status: str, *details: dict[str, str]) -> Any:
    return {"error": {"code": 400, "message": message, "status": status, "details": list(details)}}


_LLAMA = {"code": 400, "message": "the request exceeds", "type": "exceed_context_size_error", "n_ctx": 4096}
_VLLM = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."

# (status, body) -> (class, code, retried)
TABLE: list[tuple[int, Any, type[ModelError], str | None, bool]] = [
    (400, _openai(code="context_length_exceeded"), ContextOverflowError, "context_length_exceeded", False),
    (400, {"error": _LLAMA}, ContextOverflowError, "exceed_context_size_error", False),
    (
        400,
        {"object": "error", "message": _VLLM, "type": "BadRequestError", "code": 400},
        ContextOverflowError,
        "BadRequestError",
        False,
    ),
    (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1 maximum"}},
        ContextOverflowError,
        "invalid_request_error",
        False,
    ),
    (
        400,
        _google("The input token count (9) exceeds the maximum", "INVALID_ARGUMENT"),
        ContextOverflowError,
        "INVALID_ARGUMENT",
        False,
    ),
    (500, {"error": "the input length exceeds the context length"}, ContextOverflowError, None, False),
    (400, _openai(code="content_filter"), ContentFilterError, "content_filter", False),
    (
        400,
        {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        ContentFilterError,
        "ResponsibleAIPolicyViolation",
        False,
    ),
    (400, _openai("Content Exists Risk"), ContentFilterError, "invalid_request_error", False),
    (400, _openai(), BadRequestError, "invalid_request_error", False),
    (400, [_google("bad", "INVALID_ARGUMENT")], BadRequestError, "INVALID_ARGUMENT", False),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, BadRequestError, None, False),
    (413, {}, BadRequestError, None, False),
    (418, "not an object", BadRequestError, None, False),
    (401, _openai(code="invalid_api_key"), AuthenticationError, "invalid_api_key", False),
    (401, {"detail": "Unauthorized"}, AuthenticationError, None, False),
    (403, {"message": "no"}, AuthenticationError, None, False),
    (
        400,
        _google("API key not valid", "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"}),
        AuthenticationError,
        "INVALID_ARGUMENT",
        False,
    ),
    (404, _openai(code="model_not_found"), ModelNotFoundError, "model_not_found", False),
    (404, {"error": "model 'x' not found"}, ModelNotFoundError, None, False),
    (429, _openai(code="rate_limit_exceeded", kind="requests"), RateLimitError, "rate_limit_exceeded", True),
    (429, _openai(code="insufficient_quota", kind="insufficient_quota"), QuotaError, "insufficient_quota", False),
    (402, {"error": {"message": "Insufficient Balance"}}, QuotaError, None, False),
    (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
        QuotaError,
        "invalid_request_error",
        False,
    ),
    (408, {}, BadRequestError, None, True),
    (409, {}, BadRequestError, None, True),
    (500, _openai(kind="server_error"), ServerError, "server_error", True),
    (501, {}, ServerError, None, False),
    (502, {}, ServerError, None, True),
    (
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        OverloadedError,
        "unavailable_error",
        True,
    ),
    (504, {}, ServerError, None, True),
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        OverloadedError,
        "overloaded_error",
        True,
    ),
]


@pytest.mark.parametrize(("status", "body", "kind", "code", "retried"), TABLE)
def test_a_status_and_a_body_make_one_typed_error(
    server: WireServer,
    connect: Connect,
    ask: Asking,
    status: int,
    body: Any,
    kind: type[ModelError],
    code: str | None,
    *,
    retried: bool,
) -> None:
    server.play(answer(status, json.dumps(body).encode(), x_request_id="req_9"))

    with pytest.raises(ModelError) as caught:
        ask(connect(max_retries=1))

    error = caught.value
    assert (type(error), error.status, error.code, error.request_id) == (kind, status, code, "req_9")
    assert (error.retryable, error.attempts, len(server.requests)) == (retried, 1 + retried, 1 + retried)
    assert (error.provider, error.url) == ("acme", server.url + "/v1/chat/completions")
    assert f"acme: HTTP {status} from {server.url}/v1/chat/completions: " in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


# An error in a stream that has status 200 already, as its first event.
IN_STREAM: list[tuple[bytes, type[ModelError], str | None, bool]] = [
    (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
        OverloadedError,
        "overloaded_error",
        True,
    ),
    (
        b'data: {"error":{"message":"m","type":"invalid_request_error","code":null}}\n\n',
        BadRequestError,
        "invalid_request_error",
        False,
    ),
    (b'data: {"error":{"message":"m","code":429}}\n\n', RateLimitError, None, True),
    (b'data: {"error":"it broke","choices":[]}\n\n', ServerError, None, True),
    (b'data: {"choices":[{"finish_reason":"error"}],"error":{"code":502,"message":"m"}}\n\n', ServerError, None, True),
    (b'error: {"code":500,"message":"m","type":"server_error"}\n\n', ServerError, "server_error", True),
    (
        b'event: error\ndata: {"type":"error","code":"context_length_exceeded","message":"m"}\n\n',
        ContextOverflowError,
        "context_length_exceeded",
        False,
    ),
    (b"event: error\ndata: it broke\n\n", ServerError, None, True),
    (b'[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]', OverloadedError, "UNAVAILABLE", True),
    (b'{"error":{"message":"maximum context length"}}', ContextOverflowError, None, False),
]


@pytest.mark.parametrize(("raw", "kind", "code", "retried"), IN_STREAM)
def test_an_error_at_status_200_is_typed_and_retried_like_one_with_a_status(
    server: WireServer,
    connect: Connect,
    ask: Asking,
    raw: bytes,
    kind: type[ModelError],
    code: str | None,
    *,
    retried: bool,
) -> None:
    server.play(streamed(raw, b"data: 1\n\n" if raw.endswith(b"\n\n") else b""))

    with pytest.raises(ModelError) as caught:
        ask(connect(max_retries=1))

    assert (type(caught.value), caught.value.code) == (kind, code)
    assert (caught.value.retryable, len(server.requests)) == (retried, 1 + retried)


def test_an_error_after_the_first_event_is_handed_to_the_codec_which_can_have_it_typed(
    server: WireServer, connect: Connect, stream: Streaming
) -> None:
    server.play(streamed(b'data: 1\n\ndata: {"error": {"message": "m", "type": "overloaded_error"}}\n\n'))
    transport = connect()

    events = stream(transport)
    error = transport.failure_in(json.loads(events[1].data))

    assert (len(events), type(error), transport.failure_in({"choices": [], "error": None})) == (
        2,
        OverloadedError,
        None,
    )


@pytest.mark.parametrize("payload", [{"error": None}, {"error": {}}, {"error": ""}, {"id": 1}, [], 7, "error", None])
def test_a_payload_without_an_error_is_none(connect: Connect, payload: Any) -> None:
    assert connect().failure_in(payload) is None


@pytest.mark.parametrize(
    ("script", "kind", "says"),
    [
        (
            answer(502, b"<html><b>Bad gateway</b></html>", "text/html"),
            ServerError,
            "a page of HTML instead of JSON, probably a proxy's: Bad gateway",
        ),
        (answer(500, b"", None), ServerError, "an empty body"),
        (answer(400, b"plain words", "text/plain"), BadRequestError, "plain words"),
        (answer(400, b'{"strange": 1}'), BadRequestError, '{"strange": 1}'),
        (answer(400, b'{"error": {"message": {"deep": 1}}}'), BadRequestError, '{"deep":1}'),
        (
            answer(301, b"", None, location="https://u:p@else.where/v1?key=abc"),
            InvalidResponseError,
            "a redirect to https://else.where/v1, which is not followed",
        ),
    ],
)
def test_what_the_server_said_is_told(
    server: WireServer, connect: Connect, ask: Asking, script: list[Step], kind: type[ModelError], says: str
) -> None:
    server.play(script)

    with pytest.raises(kind) as caught:
        ask(connect(max_retries=0))

    assert says in str(caught.value)


def test_hostile_text_is_bounded_on_one_line_and_without_keys(
    server: WireServer, connect: Connect, ask: Asking
) -> None:
    secret = "very-secret-key-1"
    message = f"bad\r\n\x1b[31mkey {secret} and sk-abcdefgh12345678 and Bearer abcdefghijk " + "x" * 5000
    server.play(answer(401, json.dumps(_openai(message, code="c\n" * 500)).encode(), x_request_id="r" * 900))

    with pytest.raises(AuthenticationError) as caught:
        ask(connect(secret_headers={"authorization": SecretStr(f"Bearer {secret}")}))

    text = str(caught.value)
    assert "bad [31mkey *** and *** and *** xxx" in text
    assert len(text) < 1300
    assert not any(char in text for char in "\r\n\x1b")
    assert secret not in repr(caught.value.__dict__)


def test_the_body_of_an_error_is_read_to_a_bound_and_the_connection_left(
    server: WireServer, connect: Connect, ask: Asking
) -> None:
    server.play([head(500, "application/json", content_length="999999999"), b"x" * 200_000, Hold()])

    with pytest.raises(ServerError, match=r"HTTP 500 .* x{100}"):
        ask(connect(max_retries=0))

    assert server.requests[0].left.wait(10)


def test_the_body_of_an_error_counts_as_far_as_it_came(server: WireServer, connect: Connect, ask: Asking) -> None:
    server.play([head(500, "application/json", content_length="100"), b"broken", Cut()])

    with pytest.raises(ServerError, match=r"HTTP 500 .* broken"):
        ask(connect(max_retries=0))


def test_a_404_shows_the_url_that_was_asked_without_its_secrets(
    server: WireServer, connect: Connect, ask: Asking
) -> None:
    server.play(answer(404, b"not here", "text/plain"))
    base = server.url.replace("http://", "http://me:pass-word@") + "/prefix?key=abcdef&api-version=3"

    with pytest.raises(ModelNotFoundError) as caught:
        ask(connect(base_url=base))

    shown = f"{server.url}/prefix/chat/completions?key=***&api-version=3"
    assert shown in str(caught.value)
    assert caught.value.url == shown
