"""Cancelling and limiting a run: what is finished, what is not, what the run raises, and that the thread goes on."""

import asyncio
import contextlib
import threading

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, DeadlineError, RunCancelledError
from agentgraph.runs import RunControl
from agentgraph.testing import Gate, ScriptedModel, assert_valid_history, describe, tool_call
from agentgraph.tools import tool

SECONDS = 20
THREAD = {"configurable": {"thread_id": "1"}}
GO = {"messages": "go"}


class Held:
    """Tools of which one stands at a gate; what they did is written down."""

    def __init__(self):
        self.gate = Gate(timeout=SECONDS)
        self.worked = threading.Event()
        self.log = []

        @tool
        async def quick(x: str) -> str:
            """Works."""
            self.log.append(f"quick {x}")
            self.worked.set()
            return f"quick {x}"

        @tool
        async def slow(x: str) -> str:
            """Waits; async."""
            try:
                await self.gate.arun()
            except asyncio.CancelledError:
                self.log.append("slow cancelled")
                raise
            self.log.append(f"slow {x}")
            return f"slow {x}"

        @tool
        def slow_sync(x: str) -> str:
            """Waits; sync."""
            self.gate.run()
            self.log.append(f"slow {x}")
            return f"slow {x}"

        self.tools = [quick, slow, slow_sync]


@pytest.fixture
def held():
    return Held()


QUICK, SLOW, SYNC = (tool_call(name, x="1", id=name) for name in ("quick", "slow", "slow_sync"))


def in_thread(agent, control, given=GO):
    """Run in a thread of its own; gives the thread, and a list that will hold the result or the exception."""
    results = []

    def work():
        try:
            results.append(agent.invoke(given, THREAD, control=control))
        except RunCancelledError as error:
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, results


async def in_task(agent, gate, control, then):
    run = asyncio.create_task(agent.ainvoke(GO, THREAD, control=control))
    await gate.arrived.wait_async()
    then()
    return await run


def bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


def test_now_cancels_async_tools_and_keeps_what_was_finished(held):
    model = ScriptedModel(replies=[[QUICK, SLOW], "Stopped as you wished."])
    agent = create_agent(model, held.tools, checkpointer=InMemorySaver())
    control = RunControl()
    with pytest.raises(RunCancelledError, match="mode 'now'") as caught:
        bounded(in_task(agent, held.gate, control, lambda: control.cancel("now", reason="the user left")))
    assert (caught.value.mode, caught.value.reason, caught.value.finished) == (
        "now",
        "the user left",
        ("model", "tools"),
    )
    result = agent.invoke({"messages": "stop"}, THREAD)
    told = describe(result["messages"])
    assert told[2] == "tool quick: quick 1"
    assert told[3].startswith("tool slow error: No result")
    assert told[4:] == ["human: stop", "ai: Stopped as you wished."]
    assert held.log == ["quick 1", "slow cancelled"]


def test_now_can_be_asked_for_in_another_thread(held):
    agent = create_agent(ScriptedModel(replies=[SLOW]), held.tools, checkpointer=InMemorySaver())
    control = RunControl()

    def cancel():
        threading.Thread(target=control.cancel).start()

    with pytest.raises(RunCancelledError):
        bounded(in_task(agent, held.gate, control, cancel))
    assert held.log == ["slow cancelled"]


def test_now_cancels_a_model_call_in_an_async_run(held):
    agent = create_agent(ScriptedModel(held.gate.hold("late"), "Here."), checkpointer=InMemorySaver())
    control = RunControl()
    with pytest.raises(RunCancelledError):
        bounded(in_task(agent, held.gate, control, control.cancel))
    held.gate.open()
    assert describe(agent.invoke({"messages": "again"}, THREAD)["messages"]) == [
        "human: go",
        "human: again",
        "ai: Here.",
    ]


def test_now_cancels_async_tools_of_a_sync_run(held):
    agent = create_agent(ScriptedModel(replies=[[QUICK, SLOW], "Here."]), held.tools, checkpointer=InMemorySaver())
    control = RunControl()
    thread, results = in_thread(agent, control)
    held.gate.arrived.wait()
    assert held.worked.wait(SECONDS)
    assert control.cancel()
    thread.join(SECONDS)
    assert isinstance(results[0], RunCancelledError)
    assert sorted(held.log) == ["quick 1", "slow cancelled"]
    result = agent.invoke({"messages": "stop"}, THREAD)
    assert describe(result["messages"])[2] == "tool quick: quick 1"


def test_now_awaits_a_sync_tool_and_keeps_its_result(held):
    model = ScriptedModel(replies=[SYNC, "Here."])
    agent = create_agent(model, held.tools, checkpointer=InMemorySaver())
    control = RunControl()
    thread, results = in_thread(agent, control)
    held.gate.arrived.wait()
    control.cancel()
    held.gate.open()
    thread.join(SECONDS)
    assert isinstance(results[0], RunCancelledError)
    assert results[0].finished == ("model", "tools")
    assert describe(agent.get_state(THREAD).values["messages"])[2:] == ["tool slow_sync: slow 1"]
    assert describe(agent.invoke(None, THREAD)["messages"])[3:] == ["ai: Here."]


@pytest.mark.parametrize("mode", ["after_tools", "after_turn"])
def test_running_tools_are_finished_and_no_model_call_follows(held, mode):
    model = ScriptedModel(replies=[[QUICK, SLOW], "Here."])
    agent = create_agent(model, held.tools, checkpointer=InMemorySaver())
    control = RunControl()

    def cancel():
        control.cancel(mode)
        held.gate.open()

    with pytest.raises(RunCancelledError, match=f"mode '{mode}'"):
        bounded(in_task(agent, held.gate, control, cancel))
    assert describe(agent.get_state(THREAD).values["messages"])[2:] == ["tool quick: quick 1", "tool slow: slow 1"]
    assert len(model.requests) == 1
    result = agent.invoke({"messages": "and?"}, THREAD)
    assert describe(result["messages"])[4:] == ["human: and?", "ai: Here."]
    assert_valid_history(model.requests[-1].messages)


@pytest.mark.parametrize(("mode", "ran"), [("after_tools", []), ("after_turn", ["quick 1"])])
def test_during_a_model_call_the_modes_differ_in_whether_its_tools_run(held, mode, ran):
    model = ScriptedModel(held.gate.hold(QUICK), "Here.")
    agent = create_agent(model, held.tools, checkpointer=InMemorySaver())
    control = RunControl()

    def cancel():
        control.cancel(mode)
        held.gate.open()

    with pytest.raises(RunCancelledError):
        bounded(in_task(agent, held.gate, control, cancel))
    assert held.log == ran
    assert len(model.requests) == 1
    agent.invoke({"messages": "and?"}, THREAD)
    assert held.log == ran
    assert_valid_history(model.requests[-1].messages)


def test_a_run_that_ends_by_itself_gives_its_answer(held):
    agent = create_agent(ScriptedModel(held.gate.hold("The answer.")), checkpointer=InMemorySaver())
    control = RunControl()

    def cancel():
        control.cancel("after_turn")
        held.gate.open()

    result = bounded(in_task(agent, held.gate, control, cancel))
    assert describe(result["messages"])[-1] == "ai: The answer."
    assert control.cancel() is False


def test_a_run_that_was_cancelled_before_it_began_stores_nothing(held):
    agent = create_agent(ScriptedModel("Never."), checkpointer=InMemorySaver())
    for start in (
        lambda c: agent.invoke(GO, THREAD, control=c),
        lambda c: bounded(agent.ainvoke(GO, THREAD, control=c)),
    ):
        control = RunControl()
        assert control.cancel("after_turn")
        with pytest.raises(RunCancelledError, match="Nothing had been finished"):
            start(control)
    assert agent.get_state(THREAD).values == {}


def test_a_subagent_is_finished_by_after_tools_and_ended_by_now(held):
    def boss(saver):
        worker = create_agent(ScriptedModel(replies=[[QUICK], [SLOW], "Worker done."]), held.tools, name="worker")

        @tool
        async def delegate(task: str) -> str:
            """Give a task to the worker."""
            return (await worker.ainvoke({"messages": task}))["messages"][-1].text

        model = ScriptedModel(replies=[tool_call("delegate", task="it", id="d"), "Boss done."])
        return create_agent(model, [delegate], checkpointer=saver)

    control, saver = RunControl(), InMemorySaver()

    def cancel():
        control.cancel("after_tools")
        held.gate.open()

    with pytest.raises(RunCancelledError) as caught:
        bounded(in_task(boss(saver), held.gate, control, cancel))
    assert caught.value.finished == ("model", "tools")
    assert describe(boss(saver).get_state(THREAD).values["messages"])[2:] == ["tool delegate: Worker done."]
    held.gate.__init__(timeout=SECONDS)
    now, other = RunControl(), InMemorySaver()
    with pytest.raises(RunCancelledError):
        bounded(in_task(boss(other), held.gate, now, now.cancel))
    assert held.log == ["quick 1", "slow 1", "quick 1", "slow cancelled"]


def test_a_deadline_ends_an_async_run_and_the_thread_goes_on(held):
    agent = create_agent(ScriptedModel(replies=[[QUICK, SLOW], "Here."]), held.tools, checkpointer=InMemorySaver())
    with pytest.raises(DeadlineError, match=r"deadline of 1 s"):
        bounded(agent.ainvoke(GO, THREAD, control=RunControl(deadline=1)))
    assert held.log == ["quick 1", "slow cancelled"]
    assert describe(agent.invoke({"messages": "and?"}, THREAD)["messages"])[-1] == "ai: Here."


def test_a_deadline_ends_the_async_tools_of_a_sync_run(held):
    agent = create_agent(ScriptedModel(replies=[[SLOW], "Here."]), held.tools, checkpointer=InMemorySaver())
    with pytest.raises(DeadlineError):
        agent.invoke(GO, control=RunControl(deadline=1), config=THREAD)
    assert held.log == ["slow cancelled"]
    assert describe(agent.invoke({"messages": "and?"}, THREAD)["messages"])[-1] == "ai: Here."


def test_a_run_within_its_deadline_is_left_alone():
    agent = create_agent(ScriptedModel(replies=["One.", "Two."]))
    assert describe(agent.invoke(GO, control=RunControl(deadline=60))["messages"])[-1] == "ai: One."
    assert describe(bounded(agent.ainvoke(GO, control=RunControl(deadline=60)))["messages"])[-1] == "ai: Two."


def test_a_control_in_the_config_works_like_one_given_with_the_call(held):
    agent = create_agent(ScriptedModel(replies=[[SLOW]]), held.tools, checkpointer=InMemorySaver())
    control = RunControl(deadline=0.1)
    with pytest.raises(DeadlineError):
        bounded(agent.ainvoke(GO, control.config(THREAD)))


def test_cancelling_the_task_itself_stays_a_cancellation(held):
    agent = create_agent(ScriptedModel(replies=[[QUICK, SLOW], "Here."]), held.tools, checkpointer=InMemorySaver())

    async def go():
        run = asyncio.create_task(agent.ainvoke(GO, THREAD, control=RunControl(deadline=60)))
        await held.gate.arrived.wait_async()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    bounded(go())
    assert held.log == ["quick 1", "slow cancelled"]
    assert describe(agent.invoke({"messages": "and?"}, THREAD)["messages"])[2] == "tool quick: quick 1"


def test_closing_a_sync_stream_cancels_the_async_tools_it_waits_for(held):
    agent = create_agent(ScriptedModel(replies=[[QUICK, SLOW], "Here."]), held.tools, checkpointer=InMemorySaver())
    # With the mode "custom" langgraph wakes up for each piece; else, in sync runs, only when the next tool has ended.
    stream = agent.stream(GO, THREAD, stream_mode=["updates", "custom"])
    with contextlib.closing(stream):
        pieces = [next(stream), next(stream)]
        held.gate.arrived.wait()
    assert [list(piece) for _, piece in pieces] == [["model"], ["tools"]]
    assert held.log == ["quick 1", "slow cancelled"]
    assert describe(agent.invoke({"messages": "and?"}, THREAD)["messages"])[2] == "tool quick: quick 1"


def test_a_control_is_for_one_run():
    control = RunControl()
    agent = create_agent(ScriptedModel(replies=["One."]))
    agent.invoke(GO, control=control)
    with pytest.raises(ConfigurationError, match="make a new one for each run"):
        agent.invoke(GO, control=control)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RunControl(deadline=0), "deadline=0"),
        (lambda: RunControl(on_busy="queue"), "on_busy='queue'"),
        (lambda: RunControl().cancel("later"), "mode='later'"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(make, text):
    with pytest.raises(ConfigurationError, match=text):
        make()
