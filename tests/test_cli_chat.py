"""`agentgraph chat` and `agentgraph run`, from the words of the command line to what is printed and the exit code."""

import io
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgraph.cli import main

AGENTS = Path(__file__).with_name("cli_agents.py")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def agents_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "chat_agents", raising=False)
    shutil.copy(AGENTS, tmp_path / "chat_agents.py")
    return tmp_path


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


def types(printed: str) -> list[str]:
    """The types of the events in order, a run of `text` counted once."""
    found = [event["type"] for event in events(printed)]
    return [kind for before, kind in zip(["", *found], found, strict=False) if kind != "text" or before != "text"]


@pytest.mark.parametrize("name", ["agent", "saved_agent", "sync_agent"])
def test_run_prints_the_answer_and_keeps_the_rest_aside(command: Command, name: str) -> None:
    assert command("run", f"chat_agents:{name}", "How is Rome?") == (
        0,
        "It is sunny.\n",
        '→ weather(city="Rome")\n← weather: sunny in Rome\n',
    )


def test_run_reads_the_message_from_standard_input(command: Command) -> None:
    assert command("run", "chat_agents:agent", "-", typed="How is\nRome?")[:2] == (0, "It is sunny.\n")


def test_run_writes_one_json_event_a_line(command: Command) -> None:
    code, out, err = command("run", "chat_agents:agent", "How is Rome?", "--json")
    assert (code, err) == (0, "")
    call, result, *text, usage, done = events(out)
    assert call | {"id": ""} == {"type": "tool_call", "id": "", "name": "weather", "args": {"city": "Rome"}}
    assert result == {
        "type": "tool_result",
        "id": call["id"],
        "name": "weather",
        "status": "success",
        "content": "sunny in Rome",
    }
    assert "".join(piece["text"] for piece in text) == "It is sunny."
    assert usage == {"type": "usage", "input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    assert done == {"type": "done", "status": "ok"}


def test_the_answer_streams_in_pieces(command: Command) -> None:
    _, out, _ = command("run", "chat_agents:agent", "How is Rome?", "--json")
    assert sum(event["type"] == "text" for event in events(out)) > 1


def test_a_failing_tool_is_an_error_card_and_the_run_goes_on(command: Command) -> None:
    code, out, err = command("run", "chat_agents:failing_tool", "hi")
    assert (code, out) == (0, "I could not find it.\n")
    assert "✗ weather: " in err
    assert "there is no such city" in err


def test_a_failing_run_is_one_line_and_code_1(command: Command) -> None:
    assert command("run", "chat_agents:failing_model", "hi") == (1, "", "error: RuntimeError: the model broke\n")


def test_a_failing_run_shows_its_traceback_on_request(command: Command) -> None:
    code, _, err = command("run", "chat_agents:failing_model", "hi", "--traceback")
    assert code == 1
    assert "Traceback (most recent call last)" in err


def test_a_failing_run_is_an_event_too(command: Command) -> None:
    code, out, _ = command("run", "chat_agents:failing_model", "hi", "--json")
    error = {"type": "error", "error": "RuntimeError", "message": "the model\nbroke"}
    usage = {"type": "usage", "input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert (code, events(out)) == (1, [error, usage, {"type": "done", "status": "failed"}])


def test_a_structured_answer_goes_where_answers_go(command: Command) -> None:
    assert command("run", "chat_agents:structured", "hi")[:2] == (0, '{"city": "Rome"}\n')
    _, out, _ = command("run", "chat_agents:structured", "hi", "--json")
    assert events(out)[-1] == {"type": "done", "status": "ok", "structured_response": {"city": "Rome"}}


def test_a_thread_goes_on_in_the_next_run(command: Command) -> None:
    assert command("run", "chat_agents:kept", "How is Rome?", "--thread", "t")[:2] == (0, "It is sunny.\n")
    assert command("run", "chat_agents:kept", "Again?", "--thread", "t") == (0, "As I said: sunny.\n", "")


def test_a_wrong_target_is_code_2_and_an_event_for_programs(command: Command) -> None:
    code, out, err = command("run", "chat_agents:agnt", "hi", "--json")
    message = "'chat_agents' has no 'agnt'; did you mean 'agent'?"
    assert (code, err) == (2, f"agentgraph: {message}\n")
    assert events(out) == [{"type": "error", "error": "usage", "message": message}]


@pytest.mark.parametrize("message", ["", " \n"])
def test_an_empty_message_is_not_sent(command: Command, message: str) -> None:
    said = "the message is empty; nothing was sent to the model"
    assert command("run", "chat_agents:agent", message) == (2, "", f"agentgraph: {said}\n")
    code, out, _ = command("run", "chat_agents:agent", "-", "--json", typed=message)
    assert (code, events(out)) == (2, [{"type": "error", "error": "usage", "message": said}])


@pytest.mark.parametrize("words", [("run", "hi"), ("chat",)], ids=["run", "chat"])
def test_a_thread_that_cannot_be_read_is_one_line_and_code_1(command: Command, words: tuple[str, ...]) -> None:
    verb, *message = words
    said = "the thread cannot be read: OSError: the disk is gone"
    code, out, err = command(verb, "chat_agents:unreadable", *message, "--json")
    assert (code, err) == (1, f"agentgraph: {said}\n")
    assert events(out) == [{"type": "error", "error": "failed", "message": said}]


def test_an_error_without_a_text_is_its_type(command: Command) -> None:
    assert command("run", "chat_agents:failing_silently", "hi") == (1, "", "error: RuntimeError\n")


def test_a_graph_without_messages_is_refused(command: Command) -> None:
    code, out, err = command("run", "chat_agents:no_messages", "hi")
    assert (code, out) == (2, "")
    assert err == "agentgraph: the graph has no `messages` in its state; expected one that answers messages\n"


@pytest.mark.parametrize("name", ["agent", "saved_agent", "sync_agent"])
def test_a_chat_over_a_pipe_keeps_the_history_from_line_to_line(command: Command, name: str) -> None:
    code, out, err = command("chat", f"chat_agents:{name}", typed="How is Rome?\n\nAgain?\n/usage\n/exit\nnot read\n")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        '→ weather(city="Rome")',
        "← weather: sunny in Rome",
        "It is sunny.",
        "As I said: sunny.",
        "15 tokens in, 6 out, 21 together",
    ]


def test_a_chat_with_json_events_reports_each_turn(command: Command) -> None:
    code, out, _ = command("chat", "chat_agents:agent", "--json", typed="How is Rome?\nAgain?\n/usage\n")
    assert code == 0
    first = ["tool_call", "tool_result", "text", "usage", "done"]
    assert types(out) == [*first, "text", "usage", "done", "usage"]
    assert events(out)[-1] == {"type": "usage", "input_tokens": 15, "output_tokens": 6, "total_tokens": 21}


def test_a_chat_goes_on_after_a_failed_turn_and_its_code_tells_of_it(command: Command) -> None:
    code, out, _ = command("chat", "chat_agents:failing_model", typed="hi\nagain\n")
    assert (code, out) == (1, "error: RuntimeError: the model broke\nNow I can.\n")


@pytest.mark.parametrize(
    ("agent", "typed", "said"),
    [
        ("agent", "/exti", "there is no command /exti; did you mean /exit?"),
        ("agent", "/qiut", "there is no command /qiut; did you mean /quit?"),
        ("agent", "/model", "there is no command /model; /help lists those there are"),
        ("asking", "hi\n/model", "there is no command /model; /help lists those there are"),
        ("agent", "/approve", "/approve: the agent is not paused"),
        ("asking", "hi\n/approve", "/approve: the question is not about tool calls; answer with /resume JSON"),
        (
            "asking",
            "hi\n/resume Rome, please",
            "/resume: 'Rome, please' is not JSON; expected the answer as JSON, for example \"a text\"",
        ),
        (
            "deleting",
            "hi\n/resume",
            '/resume: \'\' is not JSON; expected the answer as JSON, for example {"type": "approve"}',
        ),
        (
            "asking_twice",
            "hi\n/resume {",
            '/resume: \'{\' is not JSON; expected the answer as JSON, for example ["a text", "a text"]',
        ),
        ("agent", "/EXTI", "there is no command /EXTI; did you mean /exit?"),
        ("agent", "/exit now", "/exit takes nothing after it; write /exit alone to leave"),
        ("agent", "/q it", "/q takes nothing after it; write /q alone to leave"),
        (
            "asking_twice",
            "hi\nRome",
            "the agent is paused; answer with /resume [JSON, ...]: its 2 questions in their order",
        ),
    ],
)
def test_a_slash_command_out_of_place_gets_a_hint(command: Command, agent: str, typed: str, said: str) -> None:
    _, out, _ = command("chat", f"chat_agents:{agent}", typed=f"{typed}\n")
    assert out.splitlines()[-1].startswith(said)


@pytest.mark.parametrize("word", ["/exit", "/quit", "/q"])
def test_each_word_for_leaving_leaves(command: Command, word: str) -> None:
    assert command("chat", "chat_agents:agent", typed=f"{word}\nHow is Rome?\n") == (0, "", "")


@pytest.mark.parametrize("typed", ["/tmp/report.txt", "/model what is that?", "/"])
def test_what_is_more_than_a_slash_and_a_word_is_a_message(command: Command, typed: str) -> None:
    _, out, _ = command("chat", "chat_agents:agent", typed=f"{typed}\n")
    assert out.splitlines()[-1] == "It is sunny."


def test_help_lists_the_slash_commands(command: Command) -> None:
    _, out, _ = command("chat", "chat_agents:agent", typed="/help\n")
    assert [line.split()[0] for line in out.splitlines()] == [
        "/exit", "/usage", "/approve", "/reject", "/resume", "/help",
    ]  # fmt: skip


def test_a_program_that_stops_reading_ends_the_run_quietly(agents_module: Path) -> None:
    words = [sys.executable, "-P", "-m", "agentgraph.cli", "run", "chat_agents:agent", "hi", "--json"]
    process = subprocess.Popen(  # noqa: S603  the command is this package's own
        words, cwd=agents_module, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(60) != 0
    process.stderr.close()
    assert "Traceback" not in said


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, agent: str, *typed: str | type[BaseException]) -> tuple[int, str]:
    """Chat as a person does: lines at the prompt, or Ctrl-D and Ctrl-C; the exit code and what the terminal shows."""
    script, screen = iter(typed), Terminal()

    def read_line(prompt: str) -> str:
        line = next(script, EOFError)
        if isinstance(line, str):
            screen.write(f"{prompt}{line}\n")
            return line
        raise line

    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "dumb")  # cards without colours, 80 columns
    with pytest.raises(SystemExit) as left:
        main(["chat", f"chat_agents:{agent}"])
    return int(str(left.value.code or 0)), screen.getvalue()


def test_a_person_sees_cards_and_is_asked_again_until_there_is_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = at_a_terminal(monkeypatch, "deleting", "hi", "what?", "/approve")
    assert code == 0
    assert [line.strip("─╭╮╰╯│ ") for line in shown.splitlines() if line.strip("─╭╮╰╯│ ")] == [
        "you> hi",
        "→ delete",
        'delete(name="x.txt")',
        "? paused",
        '{"type": "tool_approval", "name": "delete", "args": {"name": "x.txt"}}',
        "you> what?",
        "the agent is paused; answer with /approve, /reject why, or /resume JSON",
        "you> /approve",
        "← delete",
        "deleted x.txt",
        "Well.",
    ]


def test_a_person_who_saw_a_turn_fail_leaves_with_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = at_a_terminal(monkeypatch, "failing_model", "hi", "again", "/exit")
    assert code == 0
    assert shown.splitlines()[1:] == ["error: RuntimeError: the model broke", "you> again", "Now I can.", "you> /exit"]


def test_ctrl_c_at_the_prompt_leaves_with_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert at_a_terminal(monkeypatch, "agent", KeyboardInterrupt)[0] == 130


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_ctrl_c_ends_a_run_with_code_130(agents_module: Path) -> None:
    words = [sys.executable, "-P", "-m", "agentgraph.cli", "run", "chat_agents:slow_agent", "hi", "--json"]
    with subprocess.Popen(  # noqa: S603  the command is this package's own
        words, cwd=agents_module, stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "tool_call"
        process.send_signal(signal.SIGINT)
        rest, code = process.stdout.read(), process.wait(60)
        watchdog.cancel()
    assert (events(rest), code) == ([{"type": "done", "status": "cancelled"}], 130)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_ctrl_c_cancels_the_answer_and_the_conversation_goes_on(agents_module: Path) -> None:
    words = [sys.executable, "-P", "-m", "agentgraph.cli", "chat", "chat_agents:slow_agent", "--json"]
    with subprocess.Popen(  # noqa: S603  the command is this package's own
        words, cwd=agents_module, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("hi\n")
        process.stdin.flush()
        # Once the call is shown, the tool is what the run waits for.
        assert json.loads(process.stdout.readline())["type"] == "tool_call"
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stdout.readline()) == {"type": "done", "status": "cancelled"}
        process.stdin.write("again\n")
        process.stdin.close()
        rest = process.stdout.read()
        code = process.wait(60)
        watchdog.cancel()
    assert "".join(event["text"] for event in events(rest) if event["type"] == "text") == "Never mind."
    assert (events(rest)[-1], code) == ({"type": "done", "status": "ok"}, 130)
