"""An agent that waits for a person, on the command line: what `run` says of it, and how `chat` takes the answer."""

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgraph.cli import main

AGENTS = Path(__file__).with_name("cli_agents.py")
IN_MEMORY = (
    "the agent is paused, and its thread is in memory, so it ends with this process; use `agentgraph chat`, or an "
    "agent with a checkpointer that lasts"
)

STORED = """
from agentgraph import create_agent, open_checkpointer
from agentgraph.testing import ScriptedModel, tool_call
from chat_agents import ask, delete

saver = open_checkpointer("sqlite:///threads.db")
deletion, question = tool_call("delete", name="x.txt"), tool_call("ask", question="Which city?")
deleting = create_agent(ScriptedModel(deletion, "Well."), [delete], checkpointer=saver)
asking = create_agent(ScriptedModel(question, "Thanks."), [ask], checkpointer=saver)
"""

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def agents_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    for name in ("chat_agents", "stored_agents"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    shutil.copy(AGENTS, tmp_path / "chat_agents.py")
    (tmp_path / "stored_agents.py").write_text(STORED, encoding="utf-8")
    yield
    if "stored_agents" in sys.modules:
        sys.modules["stored_agents"].saver.close()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command line in this process: its exit code, standard output and standard error."""

    def run(*words: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as left:
            main(words)
        printed = capsys.readouterr()
        return int(str(left.value.code or 0)), printed.out, printed.err

    return run


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def test_a_paused_run_says_what_it_waits_for_and_ends_with_code_4(command: Command) -> None:
    code, out, err = command("run", "chat_agents:asking", "hi")
    assert (code, out) == (4, "")
    assert err.splitlines()[-2:] == ["? paused: Which city?", IN_MEMORY]


def test_a_paused_run_names_its_thread_also_in_the_event(command: Command) -> None:
    code, out, err = command("run", "stored_agents:deleting", "hi", "--json", "--thread", "t2")
    value = {"type": "tool_approval", "name": "delete", "args": {"name": "x.txt"}}
    asked = [event | {"id": ""} for event in events(out) if event["type"] == "interrupt"]
    assert (code, asked) == (4, [{"type": "interrupt", "id": "", "value": value, "thread": "t2"}])
    assert err == (
        "the agent is paused; answer with: agentgraph chat stored_agents:deleting --thread t2, then /approve, "
        "/reject why, or /resume JSON\n"
    )


def test_a_paused_run_of_a_tools_question_asks_for_a_line(command: Command) -> None:
    code, _, err = command("run", "stored_agents:asking", "hi", "--thread", "t")
    assert (code, err.splitlines()[-1].partition(" --thread t, then ")[2]) == (4, "a line of text, or /resume JSON")
    assert command("chat", "stored_agents:asking", "--thread", "t", typed="Rome\n")[1].splitlines()[-1] == "Thanks."


def test_a_pause_of_one_run_is_decided_in_a_later_chat(command: Command) -> None:
    thread = ("stored_agents:deleting", "--thread", "t 1")
    said = (
        "the agent is paused; answer with: agentgraph chat stored_agents:deleting --thread 't 1', then /approve, "
        "/reject why, or /resume JSON\n"
    )
    code, _, err = command("run", thread[0], "hi", *thread[1:])
    assert (code, err.splitlines(keepends=True)[-1]) == (4, said)
    code, out, err = command("run", thread[0], "hi", *thread[1:], "--json")
    assert (code, err) == (4, f"agentgraph: {said}")
    assert events(out) == [{"type": "error", "error": "paused", "message": said.rstrip()}]
    code, out, _ = command("chat", *thread, typed="/approve\n")
    assert (code, out.splitlines()[1:]) == (0, ["← delete: deleted x.txt", "Well."])


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
def test_a_chat_that_ends_during_a_pause_says_how_it_is_answered(command: Command, words: tuple[str, ...]) -> None:
    code, out, err = command("chat", "stored_agents:deleting", "--thread", "t", *words, typed="hi\n")
    said = "the agent is paused; answer with: agentgraph chat stored_agents:deleting --thread t, then /approve, "
    assert (code, f"{out}{err}".splitlines()[-1]) == (4, f"{said}/reject why, or /resume JSON")
    assert (err == "") == (words == ())


def test_a_breakpoint_of_the_graph_waits_for_a_yes(command: Command) -> None:
    code, out, _ = command("chat", "chat_agents:stopping", typed="hi\nwhat?\n")
    assert (code, "sunny" in out) == (4, False)
    code, out, _ = command("chat", "chat_agents:stopping", typed="hi\n/approve\n")
    assert (code, out.splitlines()[2:]) == (0, ["← weather: sunny in Rome", "It is sunny."])


def test_the_next_line_answers_the_question_of_a_tool(command: Command) -> None:
    code, out, _ = command("chat", "chat_agents:asking", typed="hi\nRome\n")
    assert code == 0
    assert out.splitlines()[1:] == ["? paused: Which city?", "← ask: Rome", "Thanks."]


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        ("/approve", "deleted x.txt"),
        ("/reject I need it", "kept x.txt: I need it"),
        ('/resume {"type": "approve"}', "deleted x.txt"),
    ],
)
def test_an_approval_is_given_with_a_slash_command(command: Command, decision: str, result: str) -> None:
    code, out, _ = command("chat", "chat_agents:deleting", typed=f"hi\n{decision}\n")
    assert code == 0
    assert out.splitlines()[2:] == [f"← delete: {result}", "Well."]


def test_several_questions_are_answered_by_a_list_in_their_order(command: Command) -> None:
    code, out, _ = command("chat", "chat_agents:asking_twice", "--json", typed='hi\n/resume ["first", "second"]\n')
    found = events(out)
    asked = [event["value"] for event in found if event["type"] == "interrupt"]
    calls = {event["id"]: event["args"]["question"] for event in found if event["type"] == "tool_call"}
    answered = {calls[event["id"]]: event["content"] for event in found if event["type"] == "tool_result"}
    assert (code, answered) == (0, {asked[0]: "first", asked[1]: "second"})


def test_a_pipe_that_does_not_decide_ends_with_code_4_and_runs_nothing(command: Command) -> None:
    code, out, _ = command("chat", "chat_agents:deleting", typed="hi\nsomething else\n")
    assert code == 4
    assert out.splitlines()[-1] == "the agent is paused; answer with /approve, /reject why, or /resume JSON"
    assert "deleted" not in out


def test_a_pipe_that_ends_during_a_pause_ends_with_code_4(command: Command) -> None:
    assert command("chat", "chat_agents:deleting", typed="hi\n")[0] == 4
