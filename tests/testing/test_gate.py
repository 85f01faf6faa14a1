"""A gate holds a reply, in any thread or on any loop, and gives up after its time."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from agentgraph.testing import Gate, ScriptedModel, Signal

LIMIT = 10.0


def test_a_held_reply_waits_until_the_gate_opens() -> None:
    gate = Gate()
    model = ScriptedModel(gate.hold("late"), gate.hold("at once"))
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(model.invoke("hi").content))
    thread.start()
    gate.arrived.wait()
    assert (came, len(model.requests)) == ([], 1)
    gate.open()
    thread.join(LIMIT)
    assert came == ["late"]
    assert model.invoke("hi").content == "at once"


async def test_a_held_reply_leaves_the_loop_free() -> None:
    gate = Gate()
    call = asyncio.create_task(ScriptedModel(gate.hold("late")).ainvoke("hi"))
    await gate.arrived.wait_async()
    assert not call.done()
    gate.open()
    assert (await asyncio.wait_for(call, LIMIT)).content == "late"


@pytest.mark.parametrize("after", [0, 1, 2, 99])
async def test_a_stream_is_held_in_its_midst(after: int) -> None:
    gate = Gate()
    came: list[Any] = []

    async def read() -> None:
        async for chunk in ScriptedModel(gate.hold("one two", after=after)).astream("hi"):
            came.append(chunk.content)  # noqa: PERF401 (each piece must be there at once)

    call = asyncio.create_task(read())
    await gate.arrived.wait_async()
    assert came == ["one", " two"][:after]
    gate.open()
    await asyncio.wait_for(call, LIMIT)
    assert came == ["one", " two", ""]


async def test_a_held_call_can_be_cancelled() -> None:
    gate = Gate()
    call = asyncio.create_task(ScriptedModel(gate.hold("never")).ainvoke("hi"))
    await gate.arrived.wait_async()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, LIMIT)
    gate.open()


def test_a_gate_that_nobody_opens_gives_up() -> None:
    model = ScriptedModel(Gate(timeout=0.01).hold("never"), repeat_last=True)
    with pytest.raises(TimeoutError, match="the gate was not opened"):
        model.invoke("hi")
    with pytest.raises(TimeoutError, match="the gate was not opened"):
        asyncio.run(model.ainvoke("hi"))
    with pytest.raises(TimeoutError, match="nobody arrived at the gate"):
        Gate().arrived.wait(0.01)


async def test_a_signal_reaches_waiters_on_other_loops_and_in_threads() -> None:
    signal = Signal("start")
    came: list[str] = []

    def in_a_thread() -> None:
        signal.wait()
        came.append("thread")

    def on_a_loop() -> None:
        asyncio.run(signal.wait_async())
        came.append("loop")

    threads = [threading.Thread(target=target) for target in (in_a_thread, on_a_loop)]
    for thread in threads:
        thread.start()
    here = asyncio.create_task(signal.wait_async())
    await asyncio.sleep(0)
    assert (came, repr(signal)) == ([], "Signal('start', not set)")
    signal.set()
    await asyncio.wait_for(here, LIMIT)
    for thread in threads:
        await asyncio.to_thread(thread.join, LIMIT)
    assert (sorted(came), repr(signal)) == (["loop", "thread"], "Signal('start', set)")
    await signal.wait_async(0)


def test_a_waiter_whose_loop_was_closed_does_no_harm() -> None:
    signal = Signal()

    async def leave() -> None:
        with contextlib.suppress(TimeoutError):
            await signal.wait_async(0.01)

    asyncio.run(leave())
    signal.set()
    assert signal.is_set()
