"""Every entry of the catalogue in what happens to runs: pauses, interrupts of tools, another process, many threads."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.types import Command, interrupt

from agentgraph.persistence import open_checkpointer
from agentgraph.tools import tool
from tests.contract import catalogue, conftest
from tests.contract.catalogue import ENTRIES
from tests.contract.catalogue_trials import Trial, approval, expected, on, shown

THREADS = 20
REJECTED = "tool pay error: The user rejected this call of 'pay'; it did not run. The reason: Not now."
EDIT_NOTICE = "A person changed this call before it ran"
ALONE = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])


@tool("pay")
def pay_after_asking(to: str, note: str) -> str:
    """Pay somebody, if a person says so."""
    assert interrupt(f"pay {to}?") == "yes"
    return catalogue.paid(to, note)


@ALONE
def test_a_run_goes_on_where_it_paused_for_a_person(run, entry, tmp_path):
    trial = Trial(tmp_path, entry, guarded=True)
    trial.say(run, "k00")
    assert len(trial.questions()) == 1
    result, asked = trial.answer(run)
    assert shown(result["messages"]) == expected("k00", entry)
    assert asked == 1 + entry.asks + entry.again
    assert (trial.calls, trial.paid) == (entry.calls, ["k00"])


@pytest.mark.parametrize("run", [conftest._invoke, conftest._astream], ids=["invoke", "astream"])
@ALONE
def test_a_call_that_a_person_rejected_does_not_run(run, entry, tmp_path):
    trial = Trial(tmp_path, entry, guarded=True)
    trial.say(run, "k00")
    result, asked = trial.answer(run, first={"type": "reject", "message": "Not now."})
    wanted = [*expected("k00", entry)[:-2], REJECTED, *expected("k00", entry)[-1:]]
    assert (shown(result["messages"]), asked, trial.paid) == (wanted, 1, [])


@pytest.mark.parametrize("run", [conftest._invoke, conftest._astream], ids=["invoke", "astream"])
@ALONE
def test_a_call_runs_once_as_a_person_has_changed_it(run, entry, tmp_path):
    trial = Trial(tmp_path, entry, guarded=True)
    trial.say(run, "k00")
    changed = {"name": "pay", "args": {"to": "ann", "note": "once"}}
    result, _ = trial.answer(run, first={"type": "edit", "edited_action": changed})
    lines = shown(result["messages"])
    assert lines[:-2] + lines[-1:] == expected("k00", entry)[:-2] + expected("k00", entry)[-1:]
    assert lines[-2].startswith(f"tool pay: {EDIT_NOTICE}")
    assert lines[-2].endswith("paid ann once")
    assert trial.paid == ["ann"]


@ALONE
def test_a_tool_may_ask_through_the_hooks_around_it(run, entry, tmp_path):
    trial = Trial(tmp_path, entry, tools=[catalogue.look, pay_after_asking])
    result, asked = trial.finish(run, "k00")
    assert shown(result["messages"]) == expected("k00", entry)
    assert asked == 1 + entry.asks


@pytest.mark.parametrize("run", [conftest._invoke, conftest._astream], ids=["invoke", "astream"])
@ALONE
def test_a_paused_run_goes_on_in_new_objects_from_a_database(run, entry, tmp_path):
    place = f"sqlite:///{tmp_path}/threads.db"
    with open_checkpointer(place) as saver:
        Trial(tmp_path, entry, guarded=True, saver=saver).say(run, "k00")
    with open_checkpointer(place) as saver:
        trial = Trial(tmp_path, entry, guarded=True, saver=saver)
        result, asked = trial.answer(run)
        assert shown(trial.agent.get_state(on("t")).values["messages"]) == shown(result["messages"])
    assert (shown(result["messages"]), asked) == (expected("k00", entry), 1 + entry.asks + entry.again)
    assert trial.calls <= entry.calls


@ALONE
def test_twenty_threads_of_one_object_do_not_mix(entry, tmp_path, monkeypatch):
    trial = Trial(tmp_path, entry)
    together = threading.Barrier(THREADS)

    def converse(number):
        key = f"k{number:02}"
        together.wait(timeout=30)
        given, asked = {"messages": catalogue.question(key)}, 0
        while given is not None:
            result = trial.agent.invoke(given, on(key))
            asked += len(trial.questions(key))
            given = _answers(trial, key)
        return shown(result["messages"]), asked

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(converse, range(THREADS)))
    finally:
        sys.setswitchinterval(before)
    assert found == [(expected(f"k{number:02}", entry), entry.asks) for number in range(THREADS)]
    assert (trial.calls, sorted(trial.paid)) == (THREADS * entry.calls, [f"k{number:02}" for number in range(THREADS)])


@ALONE
async def test_twenty_tasks_of_one_object_do_not_mix(entry, tmp_path):
    trial = Trial(tmp_path, entry)

    async def converse(number):
        key = f"k{number:02}"
        given, asked = {"messages": catalogue.question(key)}, 0
        while given is not None:
            result = await trial.agent.ainvoke(given, on(key))
            asked += len(trial.questions(key))
            given = _answers(trial, key)
        return shown(result["messages"]), asked

    async with asyncio.timeout(60):
        found = await asyncio.gather(*map(converse, range(THREADS)))
    assert found == [(expected(f"k{number:02}", entry), entry.asks) for number in range(THREADS)]
    assert (trial.calls, sorted(trial.paid)) == (THREADS * entry.calls, [f"k{number:02}" for number in range(THREADS)])


def _answers(trial, key):
    """What resumes a paused thread; None for one that has ended."""
    open_now = trial.questions(key)
    return Command(resume={one.id: approval(one) for one in open_now}) if open_now else None
