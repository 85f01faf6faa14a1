"""When a request is sent again, after how long, and when not."""

import pytest

from agentgraph.errors import (
    ConfigurationError,
    ModelConnectionError,
    ModelError,
    OverloadedError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.retries import RetryBudget, retry_after, should_retry
from agentgraph.models.transport import Clock, Timeouts, Transport
from tests.models.conftest import Asking, Connect, Streaming
from tests.wire_server import Cut, Step, WireServer, answer, head, streamed

NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT
OK = answer(200, b'{"a": 1}')


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 0.25 "}, 0.25),
        ({"retry-after": "-7"}, 0.0),
        ({"retry-after": "+7"}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "-1", "retry-after": "9"}, 0.0),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Sun, 09 Sep 2001 01:46:50 GMT"}, 10.0),
        ({"retry-after": "Sun, 09 Sep 2001 03:46:50 +0200"}, 10.0),
        ({"retry-after": "Sun, 09 Sep 2001 01:46:50"}, 10.0),
        ({"retry-after": "Sun, 09 Sep 2001 01:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 99 Sep 2001 01:00:00 GMT"}, None),
        ({"retry-after": "Sun, 09 Sep 99999999999999 01:00:00 GMT"}, None),
        ({"retry-after": "2026"}, 2026.0),
        ({"retry-after": "20 26"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Infinity"}, None),
        ({"retry-after": "\u0661"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon, please"}, None),
    ],
)
def test_what_a_server_asks_to_wait_is_read_in_the_order_of_its_precision(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, now=NOW) == seconds


@pytest.mark.parametrize(("value", "said"), [("true", True), (" FALSE", False), ("", None), ("maybe", None)])
def test_the_servers_own_word_on_retrying_is_read(value: str, *, said: bool | None) -> None:
    assert should_retry({"x-should-retry": value}) is said


def test_waits_double_up_to_a_bound_and_jitter_goes_upwards_only() -> None:
    error = ServerError("it broke")
    low, high = RetryBudget(99, 60.0, lambda: 0.0), RetryBudget(99, 60.0, lambda: 0.999)

    assert [low.wait_before_next(error, attempt) for attempt in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert [high.wait_before_next(error, attempt) or 0 for attempt in (1, 5)] == pytest.approx([0.625, 10.0], rel=0.01)


@pytest.mark.parametrize("chance", [0.0, 0.999])
@pytest.mark.parametrize("asked", [0.0, 0.1, 1.0, 30.0, 60.0])
def test_a_server_that_said_when_is_never_asked_sooner(asked: float, chance: float) -> None:
    budget = RetryBudget(2, 60.0, lambda: chance)

    wait = budget.wait_before_next(RateLimitError("slow down", retry_after=asked), 1)

    assert wait is not None
    assert asked <= wait <= asked + 5.0


@pytest.mark.parametrize(
    ("error", "attempts", "time_left"),
    [
        (ValueError("no error of a model"), 1, None),
        (ServerError("it broke", retryable=False), 1, None),
        (ServerError("it broke"), 3, None),
        (RateLimitError("slow down", retry_after=60.1), 1, None),
        (RateLimitError("slow down", retry_after=float("inf")), 1, None),
        (ServerError("it broke"), 1, 0.5),
        (ServerError("it broke"), 1, 0.0),
    ],
)
def test_it_is_given_up_when_waiting_is_no_use_or_too_long(
    error: Exception, attempts: int, time_left: float | None
) -> None:
    assert RetryBudget(2, 60.0, lambda: 0.0).wait_before_next(error, attempts, time_left) is None


FAILING: dict[str, list[Step]] = {
    "429": answer(429, b"{}"),
    "503": answer(503, b"{}"),
    "dropped before the first byte": [Cut()],
    "dropped within the head": [b"HTTP/1.1 200 O", Cut()],
    "dropped after the head": [head(200, "text/event-stream", transfer_encoding="chunked"), Cut()],
    "dropped before the first event": streamed(b": comment\n\n", b"data: {", Cut()),
    "dropped after a ping": streamed(b'event: ping\ndata: {"type": "ping"}\n\n', Cut()),
    "ended before the first event": streamed(b": comment\n\n"),
    "ended without a byte": streamed(),
    "half a JSON": [head(200, "application/json", content_length="100"), b'{"a": ', Cut()],
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
def test_what_fails_before_anything_was_handed_on_is_tried_again(
    server: WireServer, connect: Connect, ask: Asking, waits: list[float], failing: list[Step]
) -> None:
    server.play(failing, failing, OK)

    ask(connect())

    assert (len(server.requests), waits) == (3, [0.5, 1.0])


def test_one_budget_holds_for_a_call_whatever_fails_in_it(
    server: WireServer, connect: Connect, ask: Asking, waits: list[float]
) -> None:
    server.play(FAILING["429"], [Cut()], FAILING["503"], OK)

    with pytest.raises(OverloadedError) as caught:
        ask(connect())

    assert (caught.value.attempts, len(server.requests), waits) == (3, 3, [0.5, 1.0])


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_the_number_of_retries_is_the_users(
    server: WireServer, connect: Connect, ask: Asking, waits: list[float], retries: int
) -> None:
    server.play(answer(500, b"{}"))

    with pytest.raises(ServerError):
        ask(connect(max_retries=retries))

    assert (len(server.requests), len(waits)) == (1 + retries, retries)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "Sun, 09 Sep 2001 01:46:50 GMT"}, 10.0),
    ],
)
def test_it_waits_as_long_as_the_server_asks(
    server: WireServer, connect: Connect, ask: Asking, waits: list[float], headers: dict[str, str], seconds: float
) -> None:
    server.play(answer(429, b"{}", **headers), OK)

    ask(connect())

    assert waits == [seconds]


def test_the_delay_in_googles_error_details_is_waited_for(
    server: WireServer, connect: Connect, ask: Asking, waits: list[float]
) -> None:
    details = b'[{"@type": "x/google.rpc.RetryInfo", "retryDelay": "3.5s"}]'
    server.play(answer(429, b'{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": %b}}' % details), OK)

    ask(connect())

    assert waits == [3.5]


def test_a_wait_over_the_cap_is_not_waited_for_but_told(
    server: WireServer, connect: Connect, ask: Asking, waits: list[float]
) -> None:
    server.play(answer(429, b"{}", retry_after="61"))

    with pytest.raises(RateLimitError, match="retry after 61 s") as caught:
        ask(connect())

    assert (caught.value.retry_after, caught.value.retryable, len(server.requests), waits) == (61.0, True, 1, [])


@pytest.mark.parametrize(
    ("status", "word", "requests"), [(500, "false", 1), (400, "true", 3), (500, "true", 3), (500, "what", 3)]
)
def test_the_servers_own_word_on_retrying_is_taken(
    server: WireServer, connect: Connect, ask: Asking, status: int, word: str, requests: int
) -> None:
    server.play(answer(status, b"{}", x_should_retry=word))

    with pytest.raises(ModelError):
        ask(connect())

    assert len(server.requests) == requests


def test_an_exhausted_quota_is_not_tried_again_even_when_the_server_says_so(
    server: WireServer, connect: Connect, ask: Asking
) -> None:
    server.play(answer(429, b'{"error": {"code": "insufficient_quota"}}', x_should_retry="true", retry_after="1"))

    with pytest.raises(RateLimitError):
        ask(connect())

    assert len(server.requests) == 1


def test_no_server_at_all_is_a_connection_error_after_the_retries(
    server: WireServer, ask: Asking, connect: Connect, waits: list[float]
) -> None:
    transport = connect(base_url="http://127.0.0.1:1")

    with pytest.raises(ModelConnectionError, match=r"http://127\.0\.0\.1:1/v1/chat/completions: no answer: ") as caught:
        ask(transport)

    assert (caught.value.attempts, waits, caught.value.__context__) == (3, [0.5, 1.0], None)


def test_a_stream_is_never_asked_for_again_once_an_event_was_handed_on(
    server: WireServer, connect: Connect, stream: Streaming, waits: list[float]
) -> None:
    server.play(streamed(b"data: 1\n\n", Cut()), streamed(b"data: 2\n\n"))

    with pytest.raises(TruncatedStreamError):
        stream(connect())

    assert (len(server.requests), waits) == (1, [])


def test_a_retry_that_would_end_after_the_total_limit_is_not_begun(
    server: WireServer, ask: Asking, waits: list[float]
) -> None:
    server.play(answer(429, b"{}", retry_after="30"))
    clock = Clock(sleep=waits.append)
    transport = Transport(provider="acme", base_url=server.url, timeouts=Timeouts(total=20.0), clock=clock)

    with pytest.raises(RateLimitError):
        ask(transport)

    assert (len(server.requests), waits) == (1, [])


@pytest.mark.parametrize(
    "settings",
    [
        {"max_retries": -1},
        {"max_retries": 1.5},
        {"max_retries": True},
        {"max_concurrency": 0},
        {"max_concurrency": True},
        {"max_retry_wait": -1},
        {"max_retry_wait": float("nan")},
    ],
)
def test_a_budget_that_is_none_is_refused(connect: Connect, settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"Expected .* number of at least"):
        connect(**settings)
