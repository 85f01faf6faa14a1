import asyncio
import contextvars
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt

from agentgraph import bridge
from agentgraph.bridge import async_handler, run_blocking, run_coroutine, run_limited, sync_handler

LIMIT = 10.0
user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


async def who() -> str:
    await asyncio.sleep(0)
    return user.get()


def test_a_coroutine_runs_from_sync_code_and_sees_the_context() -> None:
    token = user.set("ann")
    try:
        assert run_coroutine(who) == "ann"
        assert run_coroutine(who()) == "ann"
    finally:
        user.reset(token)


async def test_a_coroutine_runs_from_sync_code_on_a_thread_with_a_running_loop() -> None:
    user.set("bob")
    assert run_coroutine(who) == "bob"


def test_sync_and_async_nest_many_levels_deep() -> None:
    async def down(level: int) -> int:
        if level == 0:
            return 0
        return 1 + await run_blocking(lambda: run_coroutine(lambda: down(level - 1)))

    assert run_coroutine(lambda: down(20)) == 20


async def test_two_hundred_blocking_calls_that_each_nest_do_not_deadlock() -> None:
    all_in = threading.Barrier(200, timeout=LIMIT)

    def nested(n: int) -> int:
        all_in.wait()
        return run_coroutine(lambda: run_blocking(lambda: n))

    async with asyncio.timeout(LIMIT * 2):
        values = await asyncio.gather(*[run_blocking(nested, n) for n in range(200)])
    assert values == list(range(200))


@pytest.mark.parametrize("error", [ValueError("no"), GraphInterrupt(), KeyboardInterrupt(), SystemExit(3)])
def test_what_was_raised_is_raised_again_as_the_same_object(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def afail() -> None:
        raise error

    attempts: list[Callable[[], None]] = [
        lambda: run_coroutine(afail),
        lambda: run_limited(fail, seconds=LIMIT, expired=TimeoutError),
    ]
    for attempt in attempts:
        with pytest.raises(type(error)) as caught:
            attempt()
        assert caught.value is error


async def test_an_exception_of_a_blocking_call_is_raised_again_as_the_same_object() -> None:
    error = ValueError("no")

    def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="no") as caught:
        await run_blocking(fail)
    assert caught.value is error


async def test_a_stop_iteration_arrives_as_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await asyncio.wait_for(run_blocking(next, iter(())), LIMIT)
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_a_blocking_call_leaves_the_loop_free_and_sees_the_context() -> None:
    user.set("eve")
    free = threading.Event()
    asyncio.get_running_loop().call_soon(free.set)
    assert await run_blocking(lambda: (free.wait(LIMIT), user.get())) == (True, "eve")


async def test_cancelling_ends_the_awaiting_at_once_though_the_thread_goes_on() -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait(LIMIT)
        ended.set()

    task = asyncio.create_task(run_blocking(work))
    await run_blocking(started.wait, LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LIMIT)
    assert not ended.is_set()
    release.set()
    assert await run_blocking(ended.wait, LIMIT)


class Endless:
    """An async call that ends only by cancellation, and says so."""

    def __init__(self) -> None:
        self.started, self.cancelled = threading.Event(), threading.Event()

    async def __call__(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def _through_a_private_loop(inner: Endless, _: asyncio.AbstractEventLoop) -> Callable[[], Any]:
    return lambda: run_coroutine(inner)


def _through_the_loop(inner: Endless, loop: asyncio.AbstractEventLoop) -> Callable[[], Any]:
    return sync_handler(inner, loop)


def _through_a_limit(inner: Endless, _: asyncio.AbstractEventLoop) -> Callable[[], Any]:
    return lambda: run_limited(lambda: run_coroutine(inner), seconds=LIMIT, expired=TimeoutError)


@pytest.mark.parametrize("way", [_through_a_private_loop, _through_the_loop, _through_a_limit])
async def test_cancelling_reaches_what_a_thread_is_waiting_for(
    way: Callable[[Endless, asyncio.AbstractEventLoop], Callable[[], Any]],
) -> None:
    inner = Endless()
    unwound: list[type[BaseException]] = []
    call = way(inner, asyncio.get_running_loop())
    over = threading.Event()

    def work() -> None:
        try:
            call()
        except BaseException as error:
            unwound.append(type(error))
            raise
        finally:
            over.set()

    task = asyncio.create_task(run_blocking(work))
    assert await run_blocking(inner.started.wait, LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LIMIT)
    assert await run_blocking(inner.cancelled.wait, LIMIT)
    assert await run_blocking(over.wait, LIMIT)
    assert unwound == [asyncio.CancelledError]


async def test_a_call_that_was_cancelled_cannot_start_another_one() -> None:
    inner = Endless()
    second: list[str] = []
    over = threading.Event()
    loop = asyncio.get_running_loop()

    async def never() -> None:
        second.append("ran")

    def stubborn() -> None:
        attempts: list[Callable[[], None]] = [
            lambda: run_coroutine(inner),
            lambda: run_coroutine(never()),
            sync_handler(never, loop),
        ]
        for attempt in attempts:
            try:
                attempt()
            except asyncio.CancelledError:
                second.append("cancelled")
        over.set()

    task = asyncio.create_task(run_blocking(stubborn))
    assert await run_blocking(inner.started.wait, LIMIT)
    task.cancel()
    await asyncio.wait([task], timeout=LIMIT)
    assert await run_blocking(over.wait, LIMIT)
    assert second == ["cancelled"] * 3


def test_an_interrupted_wait_cancels_the_coroutine_and_lets_it_clean_up() -> None:
    inner = Endless()

    def interrupt_soon() -> None:
        assert inner.started.wait(LIMIT)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt_soon)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        run_coroutine(inner)
    helper.join(LIMIT)
    assert inner.cancelled.is_set()


def test_a_coroutine_that_was_cancelled_before_it_began_never_runs() -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("ran")

    for given in (work, work()):
        early = bridge._PrivateRun[None](given)
        early.cancel()
        early.run()
        with pytest.raises(asyncio.CancelledError):
            early.done.result(LIMIT)
    assert ran == []


def test_an_interrupted_limited_call_tells_what_it_waits_for() -> None:
    inner = Endless()

    def interrupt_soon() -> None:
        assert inner.started.wait(LIMIT)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt_soon)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        run_limited(lambda: run_coroutine(inner), seconds=LIMIT, expired=TimeoutError)
    helper.join(LIMIT)
    assert inner.cancelled.wait(LIMIT)


async def test_a_sync_wrapper_calls_an_async_handler_on_its_own_loop() -> None:
    loop = asyncio.get_running_loop()

    async def inner(x: int, *, y: int) -> tuple[bool, int, str]:
        return asyncio.get_running_loop() is loop, x + y, user.get()

    def wrap(call: Callable[..., Any]) -> Any:
        user.set("from the wrapper")
        return call(1, y=2)

    assert await run_blocking(wrap, sync_handler(inner, loop)) == (True, 3, "from the wrapper")


async def test_a_sync_handler_on_the_thread_of_its_loop_is_an_error_and_no_deadlock() -> None:
    with pytest.raises(RuntimeError, match="own event loop"):
        sync_handler(who, asyncio.get_running_loop())()


def test_a_sync_handler_of_a_closed_loop_is_an_error() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        sync_handler(who, loop)()


async def test_an_async_wrapper_awaits_a_sync_handler() -> None:
    threads = []

    def inner(x: int) -> int:
        threads.append(threading.current_thread())
        return x + 1

    assert await async_handler(inner)(1) == 2
    assert threads != [threading.current_thread()]


def test_a_limited_call_raises_at_its_limit_and_tells_what_it_waits_for() -> None:
    inner = Endless()
    with pytest.raises(TimeoutError, match="too long"):
        run_limited(lambda: run_coroutine(inner), seconds=0.05, expired=lambda: TimeoutError("too long"))
    if inner.started.is_set():
        assert inner.cancelled.wait(LIMIT)


def test_a_limited_call_passes_on_its_own_timeout_error() -> None:
    def fail() -> None:
        raise TimeoutError("of the tool itself")

    with pytest.raises(TimeoutError, match="of the tool itself"):
        run_limited(fail, seconds=LIMIT, expired=lambda: TimeoutError("too long"))


async def test_threads_are_reused_and_end_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_threads", bridge._Threads())
    monkeypatch.setattr(bridge, "IDLE_SECONDS", 0.2)
    names = {await run_blocking(threading.current_thread) for _ in range(20)}
    # The thread tells its result just before it is idle again, so a second one may start.
    assert len(names) <= 3
    for worker in names:
        await asyncio.to_thread(worker.join, LIMIT)
        assert not worker.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_threads_of_its_own() -> None:
    assert run_coroutine(who) == "nobody"
    child = os.fork()
    if child == 0:
        os._exit(7 if run_coroutine(who) == "nobody" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
