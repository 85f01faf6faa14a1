"""Limits of time, and ends that the server must see: close, break, cancel."""

import asyncio
import gc
import time
from contextlib import aclosing

import pytest

from agentgraph.errors import ConfigurationError, ModelError, ModelTimeoutError
from agentgraph.models.transport import Clock, Timeouts, Transport
from tests.models.conftest import Asking, Connect, Streaming
from tests.wire_server import Hold, Pause, Repeat, Step, WireServer, answer, head, streamed

SHORT = 0.15
LONG = 15.0
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
FIRST = b"data: 1\n\n"
UNFRAMED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"  # its end is the end of the connection


def _only(**limits: float) -> Timeouts:
    """Limits that are far away, but for one."""
    return Timeouts(**(dict.fromkeys(("read", "first_event", "between_events"), LONG) | limits))


@pytest.mark.parametrize(
    ("script", "timeouts", "says"),
    [
        ([Hold()], _only(read=SHORT), r"not a byte came within the read limit"),
        ([Hold()], _only(first_event=SHORT), r"not a byte came within the read limit"),
        (streamed(Hold()), _only(first_event=SHORT), r"within 0.15 s \(first_event\)"),
        (streamed(Repeat(b": ping\n\n")), _only(first_event=SHORT), r"within 0.15 s \(first_event\)"),
        (streamed(Repeat(b"\n")), _only(first_event=SHORT), r"within 0.15 s \(first_event\)"),
        (streamed(Repeat(PING)), _only(first_event=SHORT), r"within 0.15 s \(first_event\)"),
        (streamed(FIRST, Hold()), _only(between_events=SHORT), r"within 0.15 s \(between_events\)"),
        (streamed(FIRST, Repeat(PING)), _only(between_events=SHORT), r"within 0.15 s \(between_events\)"),
        (
            streamed(FIRST, Repeat(b"event: heartbeat\ndata: {}\n\n")),
            _only(between_events=SHORT),
            r"\(between_events\)",
        ),
        (streamed(FIRST, Repeat(b":\n", times=5), Hold()), _only(between_events=SHORT), r"\(between_events\)"),
        ([UNFRAMED, FIRST, Hold()], _only(between_events=SHORT), r"\(between_events\)"),
        ([UNFRAMED, Hold()], _only(first_event=SHORT), r"\(first_event\)"),
        (streamed(Repeat(FIRST)), _only(total=SHORT), r"longer than its total limit of 0.15 s"),
        (streamed(FIRST, Hold()), _only(total=SHORT), r"longer than its total limit of 0.15 s"),
        ([Hold()], _only(total=SHORT), r"longer than its total limit of 0.15 s"),
    ],
)
def test_a_silent_stream_ends_at_its_limit_whatever_pings_come(
    server: WireServer, connect: Connect, stream: Streaming, script: list[Step], timeouts: Timeouts, says: str
) -> None:
    server.play(script)
    begun = time.monotonic()

    with pytest.raises(ModelTimeoutError, match=says) as caught:
        stream(connect(timeouts=timeouts, max_retries=0))

    assert SHORT * 0.9 <= time.monotonic() - begun < LONG / 3
    assert (caught.value.retryable, caught.value.__context__) == (True, None)
    assert all(request.left.wait(LONG) for request in server.requests)


@pytest.mark.parametrize(
    ("script", "timeouts"),
    [
        ([Hold()], _only(read=SHORT)),
        ([head(200, "application/json", content_length="10"), b"{", Hold()], _only(read=SHORT)),
        ([head(200, "application/json", content_length="10000"), Repeat(b" ")], _only(total=SHORT)),
    ],
    ids=["no head", "no end", "blanks for ever"],
)
def test_a_whole_answer_that_does_not_come_ends_at_its_limit(
    server: WireServer, connect: Connect, ask: Asking, script: list[Step], timeouts: Timeouts
) -> None:
    server.play(script)
    begun = time.monotonic()

    with pytest.raises(ModelTimeoutError):
        ask(connect(timeouts=timeouts, max_retries=0))

    assert time.monotonic() - begun < LONG / 3
    assert all(request.left.wait(LONG) for request in server.requests)


def test_a_limit_before_the_first_event_is_tried_again(
    server: WireServer, connect: Connect, stream: Streaming, waits: list[float]
) -> None:
    server.play(streamed(Repeat(PING)), streamed(FIRST))

    assert [event.data for event in stream(connect(timeouts=_only(first_event=SHORT)))] == ["1"]
    assert waits == [0.5]


def test_the_limit_between_events_starts_anew_with_each_event(
    server: WireServer, connect: Connect, stream: Streaming
) -> None:
    server.play(streamed(*[step for _ in range(5) for step in (FIRST, Pause(0.1))]))

    assert len(stream(connect(timeouts=_only(between_events=0.4)))) == 5


def test_the_limit_of_the_first_event_does_not_hold_for_the_others(
    server: WireServer, connect: Connect, stream: Streaming
) -> None:
    server.play(streamed(FIRST, Pause(SHORT * 3), b"data: 2\n\n"))

    events = stream(connect(timeouts=_only(first_event=SHORT), max_retries=0))

    assert [event.data for event in events] == ["1", "2"]


def test_time_that_the_reader_takes_between_two_events_is_not_the_servers(server: WireServer, connect: Connect) -> None:
    server.play(streamed(FIRST, Pause(0.6), FIRST))
    events = connect(timeouts=_only(between_events=0.3)).stream("chat/completions", {})

    next(events)
    Clock().sleep(0.5)

    assert next(events).data == "1"
    assert list(events) == []


def test_whole_answers_have_no_limit_of_events(server: WireServer, connect: Connect) -> None:
    server.play([head(200, "application/json", content_length="4"), b"  ", Pause(0.3), b"{}"])

    assert connect(timeouts=_only(first_event=SHORT, between_events=SHORT)).post("chat/completions", {}).json == {}


@pytest.mark.parametrize("given", [0, -1, True, float("nan"), "5", 0.0])
def test_a_limit_that_is_none_is_refused(connect: Connect, given: float) -> None:
    with pytest.raises(ConfigurationError, match="Expected seconds as a number above 0"):
        connect(timeouts=given)
    with pytest.raises(ConfigurationError, match="The limit 'read' is"):
        Timeouts(read=given)


@pytest.mark.parametrize("given", [float("inf"), 1e12])
def test_a_limit_that_no_clock_can_count_is_none(
    server: WireServer, connect: Connect, ask: Asking, given: float
) -> None:
    server.play(streamed(FIRST, b"data: [DONE]\n\n"))

    ask(connect(timeouts=given))
    ask(connect(timeouts=Timeouts(connect=given, read=given, first_event=given, total=given)))

    assert Timeouts.of(given).read is None


def test_one_number_stands_for_the_limits_of_silence() -> None:
    assert Timeouts.of(30) == Timeouts(connect=5.0, write=30, pool=600.0, read=30, first_event=30, between_events=30)
    assert Timeouts.of(2).connect == 2


@pytest.mark.parametrize("after", [Hold(), Repeat(PING), Repeat(FIRST)], ids=["silence", "pings", "events"])
def test_the_server_sees_a_stream_that_is_closed_early(server: WireServer, connect: Connect, after: Step) -> None:
    server.play(streamed(FIRST, after))
    events = connect().stream("chat/completions", {})

    assert next(events).data == "1"
    assert not server.requests[0].left.is_set()
    events.close()

    assert server.requests[0].left.wait(LONG)


def test_the_server_sees_a_loop_that_is_left_by_break(server: WireServer, connect: Connect) -> None:
    server.play(streamed(FIRST, Hold()))

    for _ in connect().stream("chat/completions", {}):
        break
    gc.collect()

    assert server.requests[0].left.wait(LONG)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("way", ["aclose", "break", "cancel while reading", "cancel before the head", "cancel twice"])
async def test_the_server_sees_an_async_stream_that_is_left(server: WireServer, connect: Connect, way: str) -> None:
    server.play([Hold()] if way == "cancel before the head" else streamed(FIRST, Hold()))
    transport, seen = connect(), asyncio.Event()

    async def read() -> None:
        async with aclosing(transport.astream("chat/completions", {})) as events:
            async for _ in events:
                seen.set()
                if way in {"aclose", "break"}:
                    break

    task = asyncio.create_task(read())
    if way == "cancel before the head":
        await asyncio.to_thread(_wait_for_request, server)
    else:
        await seen.wait()
    if way.startswith("cancel"):
        task.cancel()
    if way == "cancel twice":
        asyncio.get_running_loop().call_soon(task.cancel)
    result = (await asyncio.gather(task, return_exceptions=True))[0]

    assert isinstance(result, asyncio.CancelledError) is way.startswith("cancel")
    assert await asyncio.to_thread(server.requests[0].left.wait, LONG)


def _wait_for_request(server: WireServer) -> None:
    end = time.monotonic() + LONG
    while not server.requests and time.monotonic() < end:
        time.sleep(0.005)  # the server tells of a request by its list alone


@pytest.mark.usefixtures("bounded")
async def test_the_server_sees_a_whole_call_that_is_cancelled(server: WireServer, connect: Connect) -> None:
    server.play([head(200, "application/json", content_length="10"), Hold()])
    task = asyncio.create_task(connect().apost("chat/completions", {}))
    await asyncio.to_thread(_wait_for_request, server)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await asyncio.to_thread(server.requests[0].left.wait, LONG)


@pytest.mark.usefixtures("bounded")
async def test_a_wait_between_attempts_ends_with_its_cancel(server: WireServer) -> None:
    server.play(answer(503, b"{}", retry_after="50"))
    waiting = asyncio.Event()

    async def asleep(seconds: float) -> None:
        waiting.set()
        await asyncio.sleep(seconds)

    transport = Transport(provider="acme", base_url=server.url, clock=Clock(asleep=asleep))
    task = asyncio.create_task(transport.apost("chat/completions", {}))
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_wait_between_attempts_ends_with_an_exception(server: WireServer) -> None:
    server.play(answer(503, b"{}"))

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    transport = Transport(provider="acme", base_url=server.url, clock=Clock(sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        transport.post("chat/completions", {})


@pytest.mark.parametrize("after", [[], [Hold()]], ids=["ended", "left open"])
def test_a_stream_read_to_its_done_ends_although_the_server_leaves_it_open(
    server: WireServer, connect: Connect, stream: Streaming, after: list[Step]
) -> None:
    server.play(streamed(FIRST, b"data: [DONE]\n\n", *after))
    begun = time.monotonic()

    assert [event.data for event in stream(connect(timeouts=LONG))] == ["1", "[DONE]"]
    assert time.monotonic() - begun < LONG / 3


def test_connections_of_whole_streams_are_kept_and_those_of_others_not(server: WireServer, connect: Connect) -> None:
    transport = connect()
    server.play(streamed(FIRST, b"data: [DONE]\n\n", Pause(0.05)))
    for _ in range(3):
        assert len(list(transport.stream("chat/completions", {}))) == 2
    assert server.connections == 1

    server.play(streamed(FIRST, Hold()), answer(200, b"{}"))
    events = transport.stream("chat/completions", {})
    next(events)
    events.close()
    transport.post("chat/completions", {})
    assert server.connections == 2


def test_the_connection_of_an_error_that_was_read_whole_is_kept(server: WireServer, connect: Connect) -> None:
    transport = connect(max_retries=0)
    server.play(answer(400, b'{"error": {"message": "no"}}'))

    for _ in range(3):
        with pytest.raises(ModelError):
            transport.post("chat/completions", {})

    assert server.connections == 1
