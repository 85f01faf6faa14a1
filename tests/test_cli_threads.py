"""`agentgraph threads`: stored conversations on the command line."""

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agentgraph import threads
from agentgraph.cli import main
from agentgraph.nodes.effects import perform
from agentgraph.persistence import open_checkpointer
from agentgraph.runs.leases import take_thread
from agentgraph.testing import tool_call
from agentgraph.threads.access import in_thread
from tests.thread_agents import agent_with, say, told, turn, weather_agent

Command = Callable[..., tuple[int, str, str]]

URL = "sqlite:///threads.db"
ESCAPES = "\x1b[2J\u202ered"

AGENT = """
from tests.thread_agents import agent_with

agent = agent_with(None, "Well.")
number = 7
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module of agents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "stored_agents", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "stored_agents.py").write_text(AGENT, encoding="utf-8")
    return tmp_path


@pytest.fixture
def saver(here: Path):
    """A database with a thread of two turns."""
    with open_checkpointer(URL) as opened:
        say(weather_agent(opened, 2), "hi", "and now?", thread=in_thread("one"))
        yield opened


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["threads", *words])
        printed = capsys.readouterr()
        return int(str(left.value.code or 0)), printed.out, printed.err

    return run


def values(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_threads_are_listed(command: Command, saver) -> None:
    say(agent_with(saver, tool_call("ask", question="Which?")), "hi", thread=in_thread("two"))
    code, out, err = command("list", URL)
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head == "last used (UTC)      checkpoints  state    thread"
    assert [line.split()[2:] for line in lines] == [["3", "waiting", "two"], ["10", "one"]]
    assert {line[: head.index("checkpoints")].count(":") for line in lines} == {2}
    assert [line[head.index("thread") :] for line in lines] == ["two", "one"]
    found = values(command("list", URL, "--json", "--limit", "1")[1])
    assert [(one["thread_id"], one["checkpoints"], one["is_waiting"]) for one in found] == [("two", 3, True)]
    assert values(command("list", URL, "--json", "--before", found[0]["checkpoint_id"])[1])[0]["thread_id"] == "one"


def test_the_messages_of_a_thread_are_shown(command: Command, saver) -> None:
    code, out, err = command("show", URL, "one")
    assert (code, err) == (0, "")
    assert re.sub(r" \([\w-]+\)\n", "\n", out).splitlines()[:8] == [
        "human",
        "  hi",
        "ai",
        '  → weather({"city": "City 0"})',
        "tool weather",
        "  sunny in City 0",
        "ai",
        "  Sunny 0.",
    ]
    found = values(command("show", URL, "one", "--json")[1])
    assert [(one["type"], one["content"]) for one in found] == turn(0) + turn(1, "and now?")
    assert [call["args"] for call in found[1]["tool_calls"]] == [{"city": "City 0"}]
    assert (found[2]["name"], found[2]["status"]) == ("weather", "success")


def test_the_history_of_a_thread_is_shown(command: Command, saver) -> None:
    code, out, _ = command("history", URL, "one", "--agent", "stored_agents:agent", "--limit", "2")
    last = threads.history(saver, in_thread("one"))[-1]
    lines = [re.sub(r" \([\w-]+\)", "", line) for line in out.splitlines()]
    assert code == 0
    assert [line for line in lines if line.startswith("    ")] == [
        "    + tool weather: sunny in City 1",
        '    ran weather({"city": "City 1"}): success',
        "    + ai: Sunny 1.",
        "    5 tokens in, 2 out",
    ]
    assert re.fullmatch(rf"{last.checkpoint_id}  [-\d]+ [:\d]+ +8  model  [.\d]+ s", lines[3])
    found = values(command("history", URL, "one", "--agent", "stored_agents:agent", "--json")[1])
    assert [one["nodes"] for one in found[:5]] == [[], ["__start__"], ["model"], ["tools"], ["model"]]
    assert [one["checkpoint_id"] for one in found][-1] == last.checkpoint_id


def test_checkpoints_are_compared(command: Command, saver) -> None:
    steps = threads.history(saver, in_thread("one"))
    code, out, _ = command("diff", URL, "one", steps[-2].checkpoint_id)
    assert (code, re.sub(r" \([\w-]+\)", "", out)) == (0, "+ ai: Sunny 1.\n")
    back = command("diff", URL, "one", steps[-1].checkpoint_id, steps[-2].checkpoint_id, "--json")[1]
    assert [one["content"] for one in values(back)[0]["messages"]["removed"]] == ["Sunny 1."]
    assert command("diff", URL, "one", steps[-1].checkpoint_id)[1] == "no difference\n"


def test_a_thread_is_rewound_forked_and_copied(command: Command, saver) -> None:
    messages = threads.messages(saver, in_thread("one"))
    middle = threads.history(saver, in_thread("one"))[4].checkpoint_id
    assert command("fork", URL, "one", "--checkpoint", middle, "--new-thread", "two") == (
        0,
        "the branch is the newest checkpoint of 'two'\n",
        "",
    )
    assert told(threads.messages(saver, in_thread("two"))) == turn(0)
    assert command("copy", URL, "one", "three") == (0, "'one' was copied to 'three'\n", "")
    assert command("rewind", URL, "one", "--before-message", str(messages[4].id)) == (
        0,
        "'one' is back at 4 messages\n",
        "",
    )
    assert told(threads.messages(saver, in_thread("one"))) == turn(0)
    assert threads.messages(saver, in_thread("three")) == messages
    assert values(command("rewind", URL, "three", "--checkpoint", middle, "--json")[1]) == [
        {"thread_id": "three", "messages": 4}
    ]


def test_a_thread_is_weighed_and_pruned(command: Command, saver) -> None:
    code, out, _ = command("size", URL, "one")
    assert code == 0
    assert re.fullmatch(r"10 checkpoints, \d+ writes, 0 blobs, [\d,]+ bytes\n", out)
    assert values(command("size", URL, "one", "--json")[1])[0]["checkpoints"] == 10
    assert command("prune", URL, "one", "--max-age", "1") == (0, "0 checkpoints deleted, 10 left\n", "")
    assert command("prune", URL, "one", "--keep-last", "1", "--snapshot")[0] == 2
    assert command("prune", URL, "one", "--keep-last", "3") == (
        0,
        "0 checkpoints deleted, 10 left\n7 of these are left because the messages of newer ones are read from there\n",
        "",
    )
    code, out, _ = command("prune", URL, "one", "--keep-last", "1", "--snapshot", "--agent", "stored_agents:agent")
    assert (code, out.splitlines()[0]) == (0, "10 checkpoints deleted, 2 left")


def test_a_thread_is_deleted_after_a_question(command: Command, saver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: bool(asked.append(text)))
    assert command("delete", URL, "one") == (130, "", "agentgraph: nothing was deleted; --yes deletes without asking\n")
    assert asked == ["Delete the thread 'one' with its 10 checkpoints for good?"]
    assert len(threads.list_threads(saver)) == 1
    assert command("delete", URL, "one", "--yes") == (0, "'one' was deleted\n", "")
    assert threads.list_threads(saver) == []


def test_nobody_to_ask_means_nothing_is_deleted(command: Command, saver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert command("delete", URL, "one")[0] == 130
    assert len(threads.list_threads(saver)) == 1


def broken(saver) -> None:
    agent = agent_with(saver, "Well.")
    call = {"name": "weather", "args": {}, "id": "c1", "type": "tool_call"}
    messages = [HumanMessage("hi"), AIMessage("", tool_calls=[call]), HumanMessage("bye")]
    agent.update_state(in_thread("two"), {"messages": messages}, as_node="model")
    agent.update_state(in_thread("two"), None, as_node="__end__")


def test_a_broken_thread_is_reported_and_repaired(command: Command, saver) -> None:
    assert command("repair", URL, "one") == (0, "the history is sound\n", "")
    broken(saver)
    said = "unanswered_call weather c1: the call has no answer; an error that says so is put after it\n"
    assert command("repair", URL, "two") == (1, f"{said}nothing was written\n", "")
    code, _, err = command("repair", URL, "two", "--write")
    assert (code, "Give the agent: --agent module:agent" in err) == (2, True)
    assert command("repair", URL, "two", "--write", "--agent", "stored_agents:agent") == (0, f"{said}written\n", "")
    found = command("repair", URL, "two", "--json")
    assert (found[0], values(found[1])) == (0, [{"is_sound": True, "is_written": False}])


def test_hostile_text_reaches_the_terminal_as_escapes(command: Command, saver) -> None:
    say(agent_with(saver, ESCAPES), ESCAPES, thread=in_thread(ESCAPES))
    printed = [
        command(*words)[1]
        for words in (
            ("list", URL),
            ("show", URL, ESCAPES),
            ("history", URL, ESCAPES),
            ("diff", URL, ESCAPES, threads.history(saver, in_thread(ESCAPES))[0].checkpoint_id),
            ("copy", URL, ESCAPES, f"{ESCAPES}2"),
            ("list", URL, "--json"),
            ("show", URL, ESCAPES, "--json"),
        )
    ]
    assert ["\\x1b[2J" in out or "\\u001b[2J" in out for out in printed] == [True] * 7
    assert not any({"\x1b", "\u202e"} & set(out) for out in printed)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", URL, "none"), 1, "CheckpointError: There is no thread 'none'"),
        (("show", URL, "none"), 1, "Look with `agentgraph threads list`."),
        (("show", URL, "one", "--checkpoint", "x"), 1, "has no checkpoint 'x'"),
        (("show", URL, "one", "--checkpoint", "x"), 1, "Look with `agentgraph threads history`."),
        (("size", URL, "none"), 1, "There is no thread 'none'"),
        (("delete", URL, "none", "--yes"), 1, "There is no thread 'none'"),
        (("list", "sqlite:///missing.db"), 2, "there is no database 'missing.db'"),
        (("list", "redis://x"), 2, "cannot begin with 'redis'"),
        (("rewind", URL, "one"), 2, "with one of --checkpoint and --before-message"),
        (("rewind", URL, "one", "--checkpoint", "x", "--before-message", "y"), 2, "with one of --checkpoint and"),
        (("rewind", URL, "one", "--before-message", "x"), 1, "Take the id from `agentgraph threads show`."),
        (("fork", URL, "one", "--new-thread", "one"), 2, "--new-thread 'one' is the thread that is forked."),
        (("fork", URL, "one", "--new-thread", ""), 2, "expected the id of a thread; given was ''"),
        (("copy", URL, "one", ""), 2, "expected the id of a thread; given was ''"),
        (("size", URL, ""), 2, "expected the id of a thread; given was ''"),
        (("prune", URL, "one"), 2, "say what is to stay: --keep-last 1, or --max-age with a number of days"),
        (("prune", URL, "one", "--max-age", "1e300"), 2, "--max-age 1e+300 was given; expected a number of days"),
        (("prune", URL, "one", "--keep-last", "1", "--snapshot"), 2, "Give the agent: --agent module:agent."),
        (("show", URL, "one", "--checkpoint", ""), 2, "An empty id of a checkpoint was given"),
        (("diff", URL, "one", ""), 2, "An empty id of a checkpoint was given"),
        (("fork", URL, "one", "--checkpoint", "", "--new-thread", "two"), 2, "An empty id of a checkpoint was given"),
        (("rewind", URL, "one", "--checkpoint", ""), 2, "An empty id of a checkpoint was given"),
        (("list", URL, "--before", ""), 2, "--before '' was given; expected a checkpoint id"),
        (("show", URL, "one", "--agent", "stored_agents:number"), 2, "is of type int; expected a compiled graph"),
        (("show", URL, "one", "--types", "stored_agents:nothing"), 2, "has no 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(command: Command, saver, words, code, said) -> None:
    left, out, err = command(*words)
    assert (left, out, err.count("\n")) == (code, "", 1)
    assert said in err
    left, out, _ = command(*words, "--json")
    assert (left, said in values(out)[0]["message"]) == (code, True)
    assert not Path("missing.db").exists()


def test_a_busy_thread_is_left_alone(command: Command, saver) -> None:
    held = perform(take_thread(saver, "one", wait=False, until=None))
    code, _, err = command("delete", URL, "one", "--yes")
    held.release()
    assert (code, "ThreadBusyError" in err) == (1, True)
    assert len(threads.list_threads(saver)) == 1


def test_a_missing_extra_is_code_3(command: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agentgraph.persistence.sqlite", None)
    (here / "threads.db").touch()
    code, _, err = command("list", URL)
    assert (code, "agentgraph-runtime[sqlite]" in err) == (3, True)


def test_a_file_that_is_no_database_is_left_as_it_is(command: Command, here: Path) -> None:
    shutil.copy(here / "stored_agents.py", here / "threads.db")
    code, _, err = command("list", URL)
    assert (code, "CheckpointError" in err) == (1, True)
    assert (here / "threads.db").read_text(encoding="utf-8") == AGENT
