"""How a run ended, read from what its thread shows: what a task came to counts, and not that it was cancelled."""

import asyncio
import threading

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agentgraph import create_agent
from agentgraph.errors import DeadlineError, RunCancelledError
from agentgraph.runs import Outcome, RunControl, outcome
from agentgraph.testing import ScriptedModel, describe, tool_call

SECONDS = 30
THREAD = {"configurable": {"thread_id": "1"}}
GO = {"messages": "go"}


def bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


def invoke(agent, given, **options):
    return agent.invoke(given, THREAD, **options)


def ainvoke(agent, given, **options):
    return bounded(agent.ainvoke(given, THREAD, **options))


both_ways = pytest.mark.parametrize("run", [invoke, ainvoke])
ends = pytest.mark.parametrize(
    ("end", "error"),
    [(lambda control: control.cancel("now"), RunCancelledError), (RunControl.expire, DeadlineError)],
    ids=["cancelled", "out of time"],
)


def agent_that_calls(*tools, **settings):
    calls = [tool_call(tool.__name__) for tool in tools]
    return create_agent(
        ScriptedModel(calls, "Done."), list(dict.fromkeys(tools)), checkpointer=InMemorySaver(), **settings
    )


def snapshot_of(agent):
    return agent.get_state(THREAD)


@ends
def test_tools_that_finish_while_they_are_cancelled_leave_an_unfinished_run(end, error) -> None:
    control, told, ran = RunControl(), threading.Event(), []

    async def saves() -> str:
        """Save, also when cancelled."""
        end(control)
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            told.set()
        ran.append("saves")
        return "saved"

    def blocks() -> str:
        """Work in a thread, which nobody can cancel."""
        assert told.wait(SECONDS)
        ran.append("blocks")
        return "blocked"

    agent = agent_that_calls(saves, blocks)
    with pytest.raises(error):
        ainvoke(agent, GO, control=control)
    snapshot = snapshot_of(agent)
    assert [task.result is not None for task in snapshot.tasks] == [True, True]
    assert any(task.error for task in snapshot.tasks)
    assert outcome(snapshot) == Outcome("unfinished", next=("tools", "tools"))
    assert describe(ainvoke(agent, None)["messages"])[2:] == ["tool saves: saved", "tool blocks: blocked", "ai: Done."]
    assert sorted(ran) == ["blocks", "saves"]


@ends
def test_a_stored_result_is_not_taken_for_the_final_answer(end, error) -> None:
    control = RunControl()

    async def saves() -> str:
        """Save, also when cancelled."""
        end(control)
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            return "saved"
        return "late"

    agent = agent_that_calls(saves, saves)
    with pytest.raises(error):
        ainvoke(agent, GO, control=control)
    assert [task.error for task in snapshot_of(agent).tasks] == [None, None]
    assert outcome(snapshot_of(agent)) == Outcome("unfinished", next=("tools", "tools"))


@both_ways
@ends
def test_a_tool_that_was_cancelled_did_not_fail(run, end, error) -> None:
    control = RunControl()

    async def waits() -> str:
        """Wait."""
        end(control)
        await asyncio.sleep(SECONDS)
        return "late"

    agent = agent_that_calls(waits, waits)
    with pytest.raises(error):
        run(agent, GO, control=control)
    found = outcome(snapshot_of(agent))
    assert (found.kind, found.next) == ("unfinished", ("tools", "tools"))
    assert "CancelledError" in found.reason


def test_a_program_that_was_stopped_did_not_fail() -> None:
    def stops() -> str:
        """Stop."""
        raise KeyboardInterrupt

    agent = agent_that_calls(stops, stops)
    with pytest.raises(KeyboardInterrupt):
        invoke(agent, GO)
    expected = Outcome("unfinished", reason="tools: KeyboardInterrupt()", next=("tools", "tools"))
    assert outcome(snapshot_of(agent)) == expected


def test_a_failure_is_told_and_not_the_cancelling_of_its_neighbours() -> None:
    begun = asyncio.Event()

    async def waits(_: MessagesState) -> None:
        begun.set()
        await asyncio.sleep(SECONDS)

    async def fails(_: MessagesState) -> None:
        await begun.wait()
        raise ConnectionError("down")

    builder = StateGraph(MessagesState).add_node("waits", waits).add_node("fails", fails)
    graph = builder.add_edge(START, "waits").add_edge(START, "fails").compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        ainvoke(graph, GO)
    snapshot = snapshot_of(graph)
    assert {task.name: task.error for task in snapshot.tasks} == {
        "waits": "CancelledError()",
        "fails": "ConnectionError('down')",
    }
    found = outcome(snapshot)
    assert (found.kind, found.reason) == ("error", "fails: ConnectionError('down')")


@both_ways
def test_a_step_that_failed_at_first_and_then_finished_is_unfinished_and_not_failed(run) -> None:
    tries = []

    def breaks() -> str:
        """Fail, and work the second time."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    agent = agent_that_calls(breaks, on_tool_error="raise")
    with pytest.raises(ConnectionError):
        run(agent, GO)
    failed = snapshot_of(agent)
    expected = Outcome("error", reason="tools: ConnectionError('down')", next=("tools",))
    assert outcome(failed) == expected
    run(agent, None)
    assert outcome(agent.get_state(failed.config)) == Outcome("unfinished", next=("tools",))
    assert outcome(snapshot_of(agent)) == Outcome("answer", text="Done.")
