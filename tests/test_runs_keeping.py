"""A run that breaks off while tools are at work: what they had finished is stored, in every place where it can be."""

import asyncio
import contextlib
import operator
import threading
from typing import Annotated

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import AgentState, create_agent
from agentgraph.errors import RunCancelledError, ThreadBusyError
from agentgraph.messages import ToolMessage
from agentgraph.middleware import wrap_tool_call
from agentgraph.runs import RunControl
from agentgraph.testing import Gate, ScriptedModel, describe, tool_call
from agentgraph.tools import tool

SECONDS = 20
THREAD = {"configurable": {"thread_id": "1"}}
GO = {"messages": "go"}
WORK = tool_call("work", x="1", id="work")
OTHER = tool_call("other", x="1", id="other")


class Desk:
    """Sync tools; `work` stands at a gate. What was done is written down."""

    def __init__(self):
        self.gate = Gate(timeout=SECONDS)
        self.log = []

        @tool
        def work(x: str) -> str:
            """Stand at the gate, then work."""
            self.gate.run()
            self.log.append(f"worked {x}")
            return f"worked {x}"

        @tool
        def other(x: str) -> str:
            """Work at once."""
            self.log.append(f"other {x}")
            return f"other {x}"

        self.work, self.other = work, other

    async def cancelled(self, agent, **options):
        """Run up to the gate, cancel the task, open the gate; the run has ended by then."""
        run = asyncio.create_task(agent.ainvoke(GO, THREAD, **options))
        await self.gate.arrived.wait_async()
        run.cancel()
        await asyncio.sleep(0)
        self.gate.open()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, SECONDS)

    async def gone_on(self, agent, given=None):
        result = await asyncio.wait_for(agent.ainvoke(given, THREAD), SECONDS)
        return describe(result["messages"])


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def saver():
    return InMemorySaver()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("calls", [[WORK], [WORK, OTHER]], ids=["alone", "beside another"])
async def test_a_cancelled_task_awaits_its_sync_tool_and_keeps_the_result(desk, saver, durability, calls):
    agent = create_agent(ScriptedModel(replies=[calls, "Done."]), [desk.work, desk.other], checkpointer=saver)
    await desk.cancelled(agent, durability=durability)
    assert desk.log.count("worked 1") == 1
    before = list(desk.log)
    told = await desk.gone_on(agent)
    assert told[2] == "tool work: worked 1"
    assert told[-1] == "ai: Done."
    assert desk.log == before


async def test_without_a_thread_a_cancelled_task_awaits_its_sync_tool_as_well(desk):
    agent = create_agent(ScriptedModel(WORK), [desk.work])
    await desk.cancelled(agent)
    assert desk.log == ["worked 1"]


@pytest.mark.parametrize("calls", [[WORK], [WORK, OTHER]], ids=["alone", "beside another"])
async def test_a_second_cancel_ends_the_waiting_but_the_thread_is_busy_until_the_tool_has_ended(desk, saver, calls):
    agent = create_agent(ScriptedModel(replies=[calls, "Done."]), [desk.work, desk.other], checkpointer=saver)
    run = asyncio.create_task(agent.ainvoke(GO, THREAD))
    await desk.gate.arrived.wait_async()
    run.cancel()
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)
    assert "worked 1" not in desk.log
    with pytest.raises(ThreadBusyError):
        await agent.ainvoke(None, THREAD)
    desk.gate.open()
    going_on = agent.ainvoke(None, THREAD, control=RunControl(on_busy="wait"))
    told = describe((await asyncio.wait_for(going_on, SECONDS))["messages"])
    assert (told[2], told[-1]) == ("tool work: worked 1", "ai: Done.")
    assert desk.log.count("worked 1") == 1


async def test_without_a_thread_a_second_cancel_leaves_the_tool_to_itself(desk):
    agent = create_agent(ScriptedModel(WORK), [desk.work])
    run = asyncio.create_task(agent.ainvoke(GO))
    await desk.gate.arrived.wait_async()
    run.cancel()
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)
    assert desk.log == []
    desk.gate.open()


async def test_a_limit_of_the_node_does_not_lose_what_a_cancelled_run_was_at(desk, saver):
    agent = create_agent(ScriptedModel(replies=[WORK, "Done."]), [desk.work], checkpointer=saver, timeout={"tools": 60})
    await desk.cancelled(agent)
    assert (await desk.gone_on(agent))[2:] == ["tool work: worked 1", "ai: Done."]
    assert desk.log == ["worked 1"]


async def test_a_control_counts_a_sync_tool_that_it_awaited_as_finished(desk, saver):
    agent = create_agent(ScriptedModel(WORK), [desk.work], checkpointer=saver)
    control = RunControl()
    run = asyncio.create_task(agent.ainvoke(GO, THREAD, control=control))
    await desk.gate.arrived.wait_async()
    control.cancel("now")
    desk.gate.open()
    with pytest.raises(RunCancelledError) as caught:
        await asyncio.wait_for(run, SECONDS)
    assert caught.value.finished == ("model", "tools")


def loud(request, handler):
    answer = handler(request)
    return answer.model_copy(update={"content": answer.text.upper()})


async def aloud(request, handler):
    answer = await handler(request)
    await asyncio.sleep(0)
    return answer.model_copy(update={"content": answer.text.upper()})


@pytest.mark.parametrize("hook", [loud, aloud])
async def test_what_is_kept_is_what_the_hooks_made_of_it(desk, saver, hook):
    model = ScriptedModel(replies=[WORK, "Done."])
    agent = create_agent(model, [desk.work], middleware=[wrap_tool_call(hook)], checkpointer=saver)
    await desk.cancelled(agent)
    assert (await desk.gone_on(agent))[2:] == ["tool work: WORKED 1", "ai: Done."]
    assert desk.log == ["worked 1"]


def again(request, handler):
    with contextlib.suppress(ValueError):
        handler(request)
    return handler(request)


async def aagain(request, handler):
    with contextlib.suppress(ValueError):
        await handler(request)
    return await handler(request)


@pytest.mark.parametrize("hook", [again, aagain])
async def test_a_hook_begins_no_new_attempt_once_the_run_is_cancelled(desk, saver, hook):
    @tool
    def fails(x: str) -> str:
        """Stand at the gate, then fail."""
        desk.gate.run()
        desk.log.append(f"failed {x}")
        raise ValueError(x)

    call = tool_call("fails", x="1", id="fails")
    agent = create_agent(ScriptedModel(call), [fails], middleware=[wrap_tool_call(hook)], checkpointer=saver)
    await desk.cancelled(agent)
    assert desk.log == ["failed 1"]
    assert (await agent.aget_state(THREAD)).next == ("tools",)


async def test_a_sync_hook_that_waits_for_an_async_tool_is_unwound(desk, saver):
    @tool
    async def endless(x: str) -> str:
        """Never come to an end."""
        desk.gate.arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            desk.log.append("cancelled")
        return x

    call = tool_call("endless", x="1", id="endless")
    agent = create_agent(ScriptedModel(call), [endless], middleware=[wrap_tool_call(loud)], checkpointer=saver)
    await desk.cancelled(agent)
    assert desk.log == ["cancelled"]


async def test_a_sync_tool_that_waits_for_async_code_is_unwound(desk, saver):
    async def endless():
        desk.gate.arrived.set()
        await asyncio.Event().wait()

    @tool
    def waits(x: str) -> str:
        """Wait for a subagent that never answers."""
        return helper.invoke({"messages": x})["messages"][-1].text

    @tool
    async def stuck(x: str) -> str:
        """Never come to an end."""
        await endless()
        return x

    helper = create_agent(ScriptedModel(tool_call("stuck", x="1", id="stuck")), [stuck])
    agent = create_agent(ScriptedModel(tool_call("waits", x="1", id="waits")), [waits], checkpointer=saver)
    await desk.cancelled(agent)
    assert (await agent.aget_state(THREAD)).next == ("tools",)


async def test_a_tools_own_time_limit_ends_the_waiting_for_it_also_when_the_run_is_cancelled(desk, saver):
    @tool
    def late(x: str) -> str:
        """Stand at the gate for too long."""
        desk.gate.run()
        return x

    late.metadata = {"timeout": 0.05}
    agent = create_agent(
        ScriptedModel(replies=[tool_call("late", x="1", id="late"), "Done."]), [late], checkpointer=saver
    )
    run = asyncio.create_task(agent.ainvoke(GO, THREAD))
    await desk.gate.arrived.wait_async()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)
    desk.gate.open()
    assert (await desk.gone_on(agent))[2].startswith(
        "tool late error: Error: The tool 'late' took longer than its limit"
    )


class Counted(AgentState):
    count: Annotated[int, operator.add]


async def test_a_command_is_kept_with_all_that_it_writes(desk, saver):
    @tool
    def count(x: str) -> Command:
        """Stand at the gate, then count."""
        desk.gate.run()
        desk.log.append("counted")
        return Command(update={"count": int(x), "messages": [ToolMessage("counted", tool_call_id="count")]})

    model = ScriptedModel(replies=[tool_call("count", x="3", id="count"), "Done."])
    agent = create_agent(model, [count], state_schema=Counted, checkpointer=saver)
    await desk.cancelled(agent)
    result = await agent.ainvoke(None, THREAD)
    assert (result["count"], describe(result["messages"])[2:]) == (3, ["tool count: counted", "ai: Done."])
    assert desk.log == ["counted"]


async def test_a_kept_result_that_is_the_answer_ends_the_run(desk, saver):
    desk.work.return_direct = True
    agent = create_agent(ScriptedModel(WORK), [desk.work], checkpointer=saver)
    await desk.cancelled(agent)
    assert (await desk.gone_on(agent))[2:] == ["tool work: worked 1"]
    assert desk.log == ["worked 1"]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_what_the_tools_of_a_subagent_finished_is_kept_as_well(desk, saver, way):
    worker = create_agent(ScriptedModel(replies=[[WORK, OTHER], "Worker done."]), [desk.work, desk.other])

    @tool
    def delegate(task: str) -> str:
        """Give a task to the worker."""
        return worker.invoke({"messages": task})["messages"][-1].text

    @tool
    async def adelegate(task: str) -> str:
        """Give a task to the worker."""
        return (await worker.ainvoke({"messages": task}))["messages"][-1].text

    given = {"sync": delegate, "async": adelegate}[way]
    model = ScriptedModel(replies=[tool_call(given.name, task="it", id="d"), "Boss done."])
    agent = create_agent(model, [given], checkpointer=saver)
    await desk.cancelled(agent)
    assert sorted(desk.log) == ["other 1", "worked 1"]
    assert (await desk.gone_on(agent))[2:] == [f"tool {given.name}: Worker done.", "ai: Boss done."]
    assert sorted(desk.log) == ["other 1", "worked 1"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_closed_sync_stream_awaits_its_sync_tool_and_keeps_the_result(desk, saver, durability):
    model = ScriptedModel(replies=[[OTHER, WORK], "Done."])
    agent = create_agent(model, [desk.work, desk.other], checkpointer=saver)
    pieces = agent.stream(GO, THREAD, stream_mode=["updates", "custom"], durability=durability)
    with contextlib.closing(pieces):
        assert next(piece for _, piece in pieces if "tools" in piece)
        desk.gate.arrived.wait()
        desk.gate.open()
    assert desk.log == ["other 1", "worked 1"]
    told = describe(agent.invoke(None, THREAD)["messages"])
    assert told[2:] == ["tool other: other 1", "tool work: worked 1", "ai: Done."]
    assert desk.log == ["other 1", "worked 1"]


def test_ctrl_c_in_a_tool_keeps_its_neighbours_result(desk, saver):
    came = threading.Event()

    @tool
    def stop(x: str) -> str:
        """Interrupt the run as soon as the neighbour is at work."""
        desk.gate.arrived.wait()
        desk.gate.open()
        came.set()
        raise KeyboardInterrupt(x)

    model = ScriptedModel(replies=[[WORK, tool_call("stop", x="1", id="stop")], "Here."])
    agent = create_agent(model, [desk.work, stop], checkpointer=saver)
    with pytest.raises(KeyboardInterrupt) as caught:
        agent.invoke(GO, THREAD)
    assert came.is_set()
    assert vars(caught.value) == {}
    told = describe(agent.invoke({"messages": "and?"}, THREAD)["messages"])
    assert told[2] == "tool work: worked 1"
    assert desk.log == ["worked 1"]


class Broken(InMemorySaver):
    """A saver whose connection is lost when the run has ended."""

    broken = False

    async def aput_writes(self, *args, **options):
        if self.broken:
            raise ConnectionError("no route to the database")
        await super().aput_writes(*args, **options)


async def test_a_saver_that_fails_at_the_end_is_noted_on_what_ended_the_run(desk):
    saver = Broken()
    agent = create_agent(ScriptedModel(WORK), [desk.work], checkpointer=saver)
    run = asyncio.create_task(agent.ainvoke(GO, THREAD))
    await desk.gate.arrived.wait_async()
    saver.broken = True
    run.cancel()
    await asyncio.sleep(0)
    desk.gate.open()
    with pytest.raises(asyncio.CancelledError) as caught:
        await asyncio.wait_for(run, SECONDS)
    (note,) = caught.value.__notes__
    assert note == (
        "Besides, results of finished tool calls could not be stored, so that these calls run again when the thread "
        "goes on: ConnectionError: no route to the database"
    )
