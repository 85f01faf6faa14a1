"""Processes that are killed in the middle of a run: the next one goes on, and nothing is done twice or forgotten."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ResumeError
from agentgraph.persistence import open_checkpointer
from agentgraph.runs import pending_questions
from agentgraph.testing import ScriptedModel, assert_valid_history, describe
from tests.crashing_agent import THREAD, Between, tools
from tests.persistence.conftest import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]  # fixtures

SECONDS = 60
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(params=["sync", "async"])
def way(request):
    return request.param


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A folder with what a killed process left behind in SQLite; each kind of crash happens once and is copied."""
    folders = {}

    def copy(where, way, to):
        if (where, way) not in folders:
            folders[where, way] = tmp_path_factory.mktemp("crash")
            crash(f"sqlite:///{folders[where, way] / 't.db'}", folders[where, way] / "log", where, way)
        shutil.copytree(folders[where, way], to, dirs_exist_ok=True)
        return f"sqlite:///{to / 't.db'}"

    return copy


def crash(url, log, where, way):
    """Let a process work until it is killed."""
    answers = [[], ["yes"]] if where == "between two questions" else [[]]
    codes = [run_crashing(url, log, where, way, *answer) for answer in answers]
    assert codes == [0] * (len(codes) - 1) + [-signal.SIGKILL]


def run_crashing(url, log, where, way, *answer):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **({"CRASH_ASYNC": "1"} if way == "async" else {})}
    command = [sys.executable, "-m", "tests.crashing_agent", url, str(log), where, *answer]
    return subprocess.run(command, env=env, cwd=ROOT, timeout=SECONDS, check=False).returncode  # noqa: S603 - our own module


@pytest.fixture(params=["sqlite", "postgres"])
def left_behind(request, tmp_path, crashed, way):
    """Lets a process be killed; gives the URL of what it left behind."""

    def happen(where):
        if request.param == "sqlite":
            return crashed(where, way, tmp_path)
        url = request.getfixturevalue("postgres_url")
        crash(url, tmp_path / "log", where, way)
        return url

    return happen


@pytest.fixture
def revived(tmp_path, left_behind):
    """The agent in this process, on what the killed one left behind, no longer dying."""
    with contextlib.ExitStack() as stack:

        def revive(where, *replies):
            saver = stack.enter_context(open_checkpointer(left_behind(where)))
            model = ScriptedModel(replies=list(replies))
            alive = tools(tmp_path / "log", saver, dies=False)
            return create_agent(model, alive, middleware=[Between(dies=False)], checkpointer=saver), model

        yield revive


def invoke(way, agent, given):
    if way == "sync":
        return agent.invoke(given, THREAD)
    return asyncio.run(asyncio.wait_for(agent.ainvoke(given, THREAD), SECONDS))


def effects(tmp_path):
    log = tmp_path / "log"
    return sorted(log.read_text(encoding="utf-8").split("\n")[:-1]) if log.exists() else []


def test_killed_in_a_tool_a_new_message_keeps_the_neighbours_result(revived, way, tmp_path):
    agent, model = revived("in a tool", "Here.")
    told = describe(invoke(way, agent, {"messages": "and?"})["messages"])
    assert told[:3] == ["human: go", "ai: -> good(x='1') -> bad(x='1')", "tool good: good 1"]
    assert told[3].startswith("tool bad error: No result: the call of 'bad' was not finished")
    assert told[4:] == ["human: and?", "ai: Here."]
    assert effects(tmp_path) == ["bad", "good"]
    assert_valid_history(model.requests[-1].messages)


def test_killed_in_a_tool_going_on_runs_that_tool_only(revived, way, tmp_path):
    agent, _ = revived("in a tool", "Here.")
    told = describe(invoke(way, agent, None)["messages"])
    assert told[2:] == ["tool good: good 1", "tool bad: bad 1", "ai: Here."]
    assert effects(tmp_path) == ["bad", "bad", "good"]


def test_killed_between_model_and_tools_going_on_runs_each_tool_once(revived, way, tmp_path):
    agent, _ = revived("between model and tools", "Here.")
    told = describe(invoke(way, agent, None)["messages"])
    assert told[1:] == ["ai: -> good(x='1') -> bad(x='1')", "tool good: good 1", "tool bad: bad 1", "ai: Here."]
    assert effects(tmp_path) == ["bad", "good"]


def test_killed_between_model_and_tools_a_new_message_runs_no_tool(revived, way, tmp_path):
    agent, model = revived("between model and tools", "Here.")
    told = describe(invoke(way, agent, {"messages": "and?"})["messages"])
    assert [line.split(":")[0] for line in told] == ["human", "ai", "tool good error", "tool bad error", "human", "ai"]
    assert effects(tmp_path) == []
    assert_valid_history(model.requests[-1].messages)


@pytest.mark.parametrize("again", ["going on", "the same answer", "the same answer by id"])
def test_killed_between_two_questions_the_second_gets_no_answer_of_the_first(revived, way, tmp_path, again):
    agent, _ = revived("between two questions", "Here.")
    first = agent.get_state(THREAD).tasks[0].interrupts[0].id
    given = {"going on": None, "the same answer": Command(resume="yes")}.get(again, Command(resume={first: "yes"}))
    assert pending_questions(agent, THREAD) == []
    invoke(way, agent, given)
    assert [one.value for one in pending_questions(agent, THREAD)] == ["second?"]
    with pytest.raises(ResumeError, match="already answered"):
        invoke(way, agent, Command(resume={first: "yes"}))
    told = describe(invoke(way, agent, Command(resume="no"))["messages"])
    assert told[-2:] == ["tool ask_twice: yes no", "ai: Here."]
    assert effects(tmp_path) == ["first yes"] * 3 + ["second no"]
