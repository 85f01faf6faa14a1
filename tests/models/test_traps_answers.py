"""Traps around an answer, for every wire format: what is no answer is told, half of one is none, and none hangs.

A row of `TRAPS` is a trap, as a sentence; the script of what a server then writes is played to all four ways of asking.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.transport import Timeouts
from tests.models.openai_asking import STREAMING_WAYS, WAYS, Asking, stream
from tests.models.test_traps_streams import FORMATS, Fails, Format, Outcome, Said, amid_text, hello, outcome, settled
from tests.wire_server import Cut, Hold, Pause, Repeat, Step, WireServer, answer, head, streamed

KEY = "a-key-0123456789"
PAGE = b"<!DOCTYPE html><html><title>502</title><body>Bad gateway: ask the <b>proxy</b>.</body></html>"


def document(form: Format, text: str = "Hello") -> bytes:
    return json.dumps(form.document(text)).encode()


def refused(status: int, body: Any, **headers: str) -> Callable[[Format], list[Step]]:
    return lambda form: answer(status, json.dumps(body).encode(), **headers)


def events_of(form: Format) -> list[Step]:
    return streamed(hello(form), content_type=form.mime)


def cut_short(form: Format) -> list[Step]:
    whole = document(form)
    return [head(200, "application/json", content_length=str(len(whole))), whole[: len(whole) // 2], Cut()]


@dataclass(frozen=True)
class Trap:
    """What a server does in a format, and what comes of it."""

    script: Callable[[Format], Sequence[Step]]
    expected: Outcome
    only: Sequence[str] = tuple(FORMATS)


_BUSY = {"error": {"type": "overloaded_error", "message": "busy for now"}}
_LONG = {"error": {"code": "context_length_exceeded", "message": "too many tokens"}}
_SPENT = {"error": {"code": "insufficient_quota", "message": "no money left"}}

TRAPS: Mapping[str, Trap] = {
    "a whole answer is read however it was asked for": Trap(lambda form: answer(200, document(form)), Said("Hello")),
    "events are read however they were asked for": Trap(events_of, Said("Hello")),
    "a compressed answer is read": Trap(
        lambda form: answer(200, gzip.compress(document(form)), content_encoding="gzip"), Said("Hello")
    ),
    "compressed events are read": Trap(
        lambda form: streamed(gzip.compress(hello(form)), content_type=form.mime, content_encoding="gzip"),
        Said("Hello"),
    ),
    "a wrong content type of an answer is no matter": Trap(
        lambda form: answer(200, document(form), "text/plain"), Said("Hello")
    ),
    "a page at status 200 is told": Trap(
        lambda form: answer(200, PAGE, "text/html"), Fails(InvalidResponseError, "base_url", retryable=False)
    ),
    "a page of a proxy that fails is told": Trap(
        lambda form: answer(502, PAGE, "text/html"), Fails(ServerError, "Bad gateway: ask the proxy", retryable=True)
    ),
    "an empty body is told": Trap(lambda form: answer(200, b""), Fails(InvalidResponseError, "base_url")),
    "a word in place of an answer is told": Trap(lambda form: answer(200, b"ok"), Fails(InvalidResponseError, "ok")),
    "a number in place of an answer is told": Trap(lambda form: answer(200, b"7"), Fails(InvalidResponseError)),
    "half a document is no answer": Trap(
        cut_short, Fails(TruncatedStreamError, "the connection broke", retryable=True)
    ),
    "the body of a refusal is read": Trap(
        refused(400, _LONG), Fails(ContextOverflowError, "too many tokens", retryable=False)
    ),
    "an error in an answer of status 200 is that of its status": Trap(
        refused(200, _BUSY), Fails(OverloadedError, "busy for now", retryable=True)
    ),
    "a wait that is asked for is told": Trap(
        refused(429, {"error": {"message": "slow down"}}, retry_after="7"),
        Fails(RateLimitError, "retry after 7 s", retryable=True),
    ),
    "a quota that is spent is not waited for": Trap(
        refused(429, _SPENT, retry_after="1"), Fails(QuotaError, "no money left", retryable=False)
    ),
    "a wrong key is told without it": Trap(
        refused(401, {"error": {"message": f"wrong key {KEY}"}}), Fails(AuthenticationError, "wrong key ***")
    ),
    "a refusal of words alone is told": Trap(
        lambda form: answer(400, b"no such thing", "text/plain"), Fails(BadRequestError, "no such thing")
    ),
}
ROWS = [(name, trap) for trap in TRAPS for name in TRAPS[trap].only]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.mark.parametrize(("name", "trap"), ROWS, ids=lambda value: value)
def test_an_answer_comes_to_the_right_message_or_error(server: WireServer, ask: Asking, name: str, trap: str) -> None:
    row = TRAPS[trap]
    server.play(row.script(FORMATS[name]))
    expected = settled(row.expected)
    assert outcome(FORMATS[name].local(server, api_key=KEY), ask, expected) == expected
    assert len(server.requests) == 1


# What is cut


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("what", ["text", "call"])
def test_a_stream_that_is_cut_anywhere_is_the_whole_answer_or_an_error(name: str, what: str) -> None:
    form = FORMATS[name]
    data = hello(form) if what == "text" else form.frame(*form.call)
    whole = settled(Said("Hello") if what == "text" else Said(calls=[("add", {"a": 1, "b": 2})]))
    sizes = [*range(0, len(data) - 3, len(data) // CUTS + 1), *range(len(data) - 3, len(data) + 1)]
    ends = [cut_at(form, data[:size], whole) for size in sizes]
    assert ends[-1] == "whole"
    assert set(ends) <= {"whole", "truncated", "nothing"}
    assert ends == sorted(ends, key=["nothing", "truncated", "whole"].index)


def cut_at(form: Format, data: bytes, whole: Outcome) -> str:
    """What becomes of a stream of which only this came."""
    sent = httpx.MockTransport(lambda request: httpx.Response(200, headers={"content-type": form.mime}, content=data))
    with httpx.Client(transport=sent) as client:
        model = form.local(NOWHERE, api_key=KEY, http_client=client)
        try:
            return "whole" if outcome(model, stream, whole) == whole else "short"
        except TruncatedStreamError as error:
            partial = error.partial
            assert partial is None or [one["args"] for one in partial.tool_calls] in ([], [{"a": 1, "b": 2}])
            return "truncated"
        except (ModelError, ValueError) as error:
            return "nothing" if isinstance(error, ModelError) and not data.strip() else repr(error)


class _Nowhere:
    url = "http://127.0.0.1:9"


NOWHERE: Any = _Nowhere()
CUTS = 100


# What does not come


@pytest.mark.parametrize("name", FORMATS)
def test_a_failure_before_the_first_event_is_tried_again(server: WireServer, ask: Asking, name: str) -> None:
    form = FORMATS[name]
    busy = answer(503, b'{"error": {"message": "busy"}}', retry_after="0")
    server.play(busy, events_of(form) if "stream" in ask.__name__ else answer(200, document(form)))
    assert ask(form.local(server, api_key=KEY, max_retries=1), "Hi").text == "Hello"
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("silence", ["nothing at all", "pings without end"])
def test_a_server_that_says_nothing_is_left(server: WireServer, ask: Asking, name: str, silence: str) -> None:
    form = FORMATS[name]
    ping = b": ping\n\n" if form.mime == "text/event-stream" else b"\n"
    scripts: dict[str, list[Step]] = {
        "nothing at all": [Hold()],
        "pings without end": streamed(Repeat(ping), content_type=form.mime, end=False),
    }
    server.play(scripts[silence])
    limits = Timeouts(read=0.15, first_event=0.15, between_events=0.15, total=0.3)
    with pytest.raises(ModelTimeoutError):
        ask(form.local(server, api_key=KEY, timeout=limits), "Hi")
    assert server.requests[0].left.wait(5)


@pytest.mark.parametrize("name", FORMATS)
def test_a_slow_server_is_waited_for(server: WireServer, ask: Asking, name: str) -> None:
    form = FORMATS[name]
    data = hello(form)
    pieces = [data[: len(data) // 2], Pause(0.1), data[len(data) // 2 :]]
    server.play(streamed(*pieces, content_type=form.mime))
    message = ask(form.local(server, api_key=KEY), "Hi")
    assert isinstance(message, AIMessage)
    assert message.text == "Hello"


@pytest.mark.parametrize("name", FORMATS)
def test_a_failure_behind_the_first_event_is_not_tried_again(
    server: WireServer, ask_streaming: Asking, name: str
) -> None:
    form = FORMATS[name]
    server.play(streamed(amid_text(form), Cut(), content_type=form.mime, end=False), events_of(form))
    expected = Fails(TruncatedStreamError, partial="Hel", retryable=True)
    assert outcome(form.local(server, api_key=KEY, max_retries=2), ask_streaming, expected) == expected
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_a_stream_of_another_api_is_no_answer(server: WireServer, ask_streaming: Asking, name: str, other: str) -> None:
    form, spoken = FORMATS[name], FORMATS[other]
    server.play(streamed(hello(spoken), content_type=spoken.mime))
    if name == other:
        assert ask_streaming(form.local(server, api_key=KEY), "Hi").text == "Hello"
        return
    with pytest.raises(InvalidResponseError, match="base_url") as caught:
        ask_streaming(form.local(server, api_key=KEY), "Hi")
    assert (caught.value.retryable, len(server.requests)) == (False, 1)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_an_answer_of_another_api_is_none(server: WireServer, ask: Asking, name: str, other: str) -> None:
    server.play(answer(200, document(FORMATS[other])))
    model = FORMATS[name].local(server, api_key=KEY)
    if name == other:
        assert ask(model, "Hi").text == "Hello"
        return
    with pytest.raises(InvalidResponseError, match="base_url") as caught:
        ask(model, "Hi")
    assert (caught.value.retryable, len(server.requests)) == (False, 1)
