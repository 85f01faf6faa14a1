"""What goes out and what comes back, over real bytes: requests, framings, content types."""

import gzip
import json
from collections.abc import Callable

import httpx
import pytest
from pydantic import SecretStr

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, InvalidResponseError, TruncatedStreamError
from agentgraph.models import answers
from agentgraph.models.sse import ServerSentEvent, SSEDecoder
from agentgraph.models.transport import Reply, Transport
from tests.models.conftest import Asking, Connect, Streaming
from tests.wire_server import Cut, Pause, Repeat, Step, WireServer, answer, in_pieces, streamed

CHAT = (
    b": OPENROUTER PROCESSING\n\n"
    b'data: {"choices": [{"delta": {"content": "\xc3\xa9\xe2\x80\xa8"}}]}\n\n'
    b'event: ping\ndata: {"type": "ping"}\n\n'
    b'data: {"choices": []}\n\n'
    b"data: [DONE]\n\n"
)
CHAT_EVENTS = [
    ServerSentEvent("message", '{"choices": [{"delta": {"content": "\u00e9\u2028"}}]}'),
    ServerSentEvent("message", '{"choices": []}'),
    ServerSentEvent("message", "[DONE]"),
]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_a_stream_yields_its_events_however_the_bytes_are_cut(
    server: WireServer, connect: Connect, stream: Streaming, end: bytes, size: int
) -> None:
    server.play(streamed(*in_pieces(CHAT.replace(b"\n", end), size)))

    assert stream(connect()) == CHAT_EVENTS


def test_a_stream_needs_no_done_and_no_length(server: WireServer, connect: Connect, stream: Streaming) -> None:
    server.play([b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", b"data: 1\n\n", Cut()])

    assert stream(connect()) == [ServerSentEvent("message", "1")]


@pytest.mark.parametrize("mime", ["text/event-stream; charset=utf-8", "text/plain", "application/json", None])
def test_events_are_read_as_events_whatever_their_content_type(
    server: WireServer, connect: Connect, stream: Streaming, mime: str | None
) -> None:
    server.play(streamed(*in_pieces(b"\n\ndata: 1\n\ndata: 2\n\n"), content_type=mime))

    assert stream(connect()) == [ServerSentEvent("message", "1"), ServerSentEvent("message", "2")]


@pytest.mark.parametrize("mime", ["application/json", "text/event-stream", "text/plain", None])
def test_json_in_place_of_events_is_one_event(
    server: WireServer, connect: Connect, stream: Streaming, mime: str | None
) -> None:
    server.play(answer(200, b'\xef\xbb\xbf {"choices": ["\n"]}'.replace(b"\n", b"\\n"), mime))

    assert stream(connect()) == [ServerSentEvent("json", '{"choices": ["\\n"]}')]


def test_lines_of_json_are_events_as_they_come(server: WireServer, connect: Connect, stream: Streaming) -> None:
    lines = in_pieces(b'{"message": 1}\n{"done": true}\n', 5)
    server.play(streamed(*lines, content_type="application/x-ndjson"))

    assert stream(connect()) == [ServerSentEvent("json", '{"message": 1}'), ServerSentEvent("json", '{"done": true}')]


def test_a_whole_answer_is_parsed_and_keeps_the_request_id(
    server: WireServer, connect: Connect, post: Callable[[Transport], Reply]
) -> None:
    server.play(answer(200, b'\n\n{"id": 1}', x_request_id="req_1", set_cookie="session=secret"))

    assert post(connect()) == Reply(
        json={"id": 1},
        request_id="req_1",
        status=200,
        headers={"content-type": "application/json", "content-length": "11", "x-request-id": "req_1"},
    )


def test_events_in_place_of_a_whole_answer_are_handed_on_as_a_list(
    server: WireServer, connect: Connect, post: Callable[[Transport], Reply]
) -> None:
    server.play(streamed(b"data: 1\n\ndata: [DONE]\n\n"))

    assert post(connect()).json == {"__events__": ["1", "[DONE]"]}


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_compressed_answers_are_decoded(server: WireServer, connect: Connect, ask: Asking, encoding: str) -> None:
    body = gzip.compress(b'{"a": 1}') if encoding == "gzip" else b'{"a": 1}'
    server.play(answer(200, body, content_encoding=encoding))

    got = ask(connect())

    assert (got.json if isinstance(got, Reply) else json.loads(got[0].data)) == {"a": 1}


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (answer(200, b"<html><h1>Sign in</h1></html>", "text/html"), "neither JSON nor events but text/html: <html>"),
        (answer(200, b"  <!doctype html>", "application/json"), "neither JSON nor events"),
        (answer(200, b"OK", "text/plain"), "neither JSON nor events but text/plain: OK"),
        (answer(200, b"hello world", None), "neither JSON nor events but an unnamed type"),
        (answer(200, b"", "application/json"), "an empty body"),
        (answer(204, b"", None), "an empty body"),
        (answer(200, b'{"a": ', "application/json"), "not JSON"),
        (answer(200, b"[1, nil]", "application/json"), "not JSON"),
        (answer(200, b"\x1f\x8bbroken", "application/json", content_encoding="gzip"), "content-encoding is broken"),
    ],
)
def test_an_answer_that_is_none_names_base_url_and_proxy(
    server: WireServer, connect: Connect, ask: Asking, script: list[Step], says: str
) -> None:
    server.play(script)

    with pytest.raises(InvalidResponseError, match=r"Check base_url, and whether a proxy") as caught:
        ask(connect())

    assert says in str(caught.value)
    assert (caught.value.retryable, len(server.requests)) == (False, 1)


@pytest.mark.parametrize(
    "script",
    [
        streamed(b"data: 1\n\n", Cut()),
        streamed(b"data: 1\n\ndata: {", Cut()),
        streamed(b"data: 1\n\ndata: {"),
        streamed(b"data: 1\n\n", Pause(0.01), b"data: 2\n"),
        [*answer(200, b"data: 1\n\n", "text/event-stream", x=" " * 0)[:1], b"data: 1\n", Cut()],
    ],
    ids=["cut between", "cut within", "ended within", "ended before the blank line", "cut before its length"],
)
def test_a_stream_cut_after_its_first_event_is_truncated_and_not_asked_for_again(
    server: WireServer, connect: Connect, stream: Streaming, script: list[Step]
) -> None:
    server.play(script)

    with pytest.raises(TruncatedStreamError) as caught:
        stream(connect(max_retries=0))

    assert (caught.value.partial, caught.value.retryable, len(server.requests)) == (None, True, 1)


def test_what_came_before_the_cut_was_handed_on(server: WireServer, connect: Connect) -> None:
    server.play(streamed(b"data: 1\n\ndata: 2\n\n", Cut()))
    got: list[str] = []

    with pytest.raises(TruncatedStreamError):
        got.extend(event.data for event in connect().stream("chat/completions", {}))
    for_loop = connect().stream("chat/completions", {})

    assert [next(for_loop).data, next(for_loop).data] == ["1", "2"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "chat/completions", "/v1/chat/completions"),
        ("/", "/chat/completions", "/v1/chat/completions"),
        ("/v1", "chat/completions", "/v1/chat/completions"),
        ("/v1/", "chat/completions", "/v1/chat/completions"),
        ("/v1/", "v1/messages", "/v1/messages"),
        ("/v1beta", "models/m:generateContent?alt=sse", "/v1beta/models/m:generateContent?alt=sse"),
        ("/gateway/openai", "chat/completions", "/gateway/openai/v1/chat/completions"),
        ("/gateway/v2/openai/", "chat/completions", "/gateway/v2/openai/chat/completions"),
        ("/v1/chat/completions", "chat/completions", "/v1/chat/completions"),
        (
            "/openai/deployments/m?api-version=2",
            "chat/completions",
            "/openai/deployments/m/chat/completions?api-version=2",
        ),
        ("/v1?tenant=a%20b#x", "chat/completions", "/v1/chat/completions?tenant=a+b"),
    ],
)
def test_a_base_url_works_as_people_write_it(
    server: WireServer, connect: Connect, base: str, path: str, target: str
) -> None:
    server.play(answer(200, b"{}"))
    transport = connect(base_url=server.url + base)

    transport.post(path, {})

    assert server.requests[0].target == target
    assert transport.url(path) == server.url + target


@pytest.mark.parametrize("prefix", [None, ""])
def test_no_version_is_added_where_none_is_wanted(server: WireServer, connect: Connect, prefix: str | None) -> None:
    assert connect(version_prefix=prefix, base_url="http://h/").url("api/chat") == "http://h/api/chat"


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://host/v1", "http://", "http://host:port/", "http://[::1", "x"]
)
def test_a_base_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Expected an http or https URL with a host"):
        Transport(provider="acme", base_url=url)


def test_headers_and_query_of_the_user_win_and_an_empty_key_is_not_sent(
    server: WireServer, connect: Connect, ask: Asking
) -> None:
    server.play(answer(200, b"{}"))

    ask(
        connect(
            base_url=server.url + "?a=1&b=1",
            query={"b": "2"},
            headers={"Accept": "text/plain", "X-Tenant": "t"},
            secret_headers={"Authorization": SecretStr("Bearer "), "x-api-key": SecretStr(" key-1\n")},
        )
    )

    sent = server.requests[0]
    assert sent.target == "/v1/chat/completions?a=1&b=2"
    assert {name: sent.headers.get(name) for name in ("accept", "x-tenant", "x-api-key", "authorization")} == {
        "accept": "text/plain",
        "x-tenant": "t",
        "x-api-key": "key-1",
        "authorization": None,
    }
    assert sent.headers["content-type"] == "application/json"


def test_streams_ask_for_events_that_no_proxy_buffers(server: WireServer, connect: Connect, stream: Streaming) -> None:
    server.play(streamed(b"data: 1\n\n"))

    stream(connect())

    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert server.requests[0].headers["accept"] == "text/event-stream, application/json"


def test_the_body_is_sent_as_it_is_without_what_utf_8_cannot_hold(server: WireServer, connect: Connect) -> None:
    server.play(answer(200, b"{}"))
    transport = connect()
    bodies: list[dict[str, object]] = [{"a": "\u00e9", "n": None}, {"a": "x\ud800y", "big": 2**70}]

    for body in bodies:
        transport.post("chat/completions", body)

    assert [json.loads(request.body) for request in server.requests] == [bodies[0], {"a": "x?y", "big": 2**70}]


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["an object", "no number"])
def test_a_body_that_json_cannot_hold_is_refused(server: WireServer, connect: Connect, value: object) -> None:
    if isinstance(value, float):
        value = {2**70: value, "b": 2**70}  # what the fast writer refuses and the exact one must not let pass

    with pytest.raises(ConfigurationTypeError, match="cannot be written as JSON"):
        connect().post("chat/completions", {"a": value})


def test_a_stream_tells_status_and_request_id_before_its_first_event(server: WireServer, connect: Connect) -> None:
    server.play(streamed(b"data: 1\n\n", x_request_id="req_1"))
    told: list[Reply] = []

    events = connect().stream("chat/completions", {}, on_reply=told.append)
    next(events)

    assert [(reply.status, reply.request_id, reply.json) for reply in told] == [(200, "req_1", {})]
    events.close()


@pytest.mark.parametrize(
    ("bound", "script", "says"),
    [
        (
            "MAX_JSON_BYTES",
            streamed(b'{"a": "', Repeat(b"x" * 50), content_type="application/json"),
            "more than 300 bytes",
        ),
        ("_SHOWN_OF_PAGE", streamed(b"<html>", Repeat(b"x" * 50), content_type="text/html"), "neither JSON nor events"),
    ],
)
def test_an_answer_without_end_is_left_at_its_bound(
    server: WireServer,
    connect: Connect,
    ask: Asking,
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    script: list[Step],
    says: str,
) -> None:
    monkeypatch.setattr(answers, bound, 300)
    server.play(script)

    with pytest.raises(InvalidResponseError, match=says):
        ask(connect())

    assert server.requests[0].left.wait(10)


def test_an_event_without_end_is_left_at_its_bound(
    server: WireServer, connect: Connect, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "SSEDecoder", lambda: SSEDecoder(max_event_bytes=300))
    server.play(streamed(b"data: ", Repeat(b"x" * 50)))

    with pytest.raises(InvalidResponseError, match=r"acme: HTTP 200 from .*more than 300 bytes"):
        ask(connect())

    assert server.requests[0].left.wait(10)


def test_what_the_users_own_hooks_raise_is_raised(server: WireServer, connect: Connect, ask: Asking) -> None:
    server.play(answer(200, b"{}"))

    def refuse(request: httpx.Request) -> None:
        raise RuntimeError("not today")

    async def arefuse(request: httpx.Request) -> None:
        refuse(request)

    transport = connect(
        http_client=httpx.Client(event_hooks={"request": [refuse]}),
        http_async_client=httpx.AsyncClient(event_hooks={"request": [arefuse]}),
    )

    with pytest.raises(RuntimeError, match="not today"):
        ask(transport)
    assert server.requests == []
