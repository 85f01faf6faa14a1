"""The command line and the process's streams: prints of others, closed and full outputs, encodings, early exits."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

AGENTS = Path(__file__).with_name("cli_agents.py")
SECONDS = 60
EMPTY = "agentgraph: the message is empty; nothing was sent to the model\n"

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirections")
full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run the command line in a process of its own; `"$@"` in a shell's `line` stands for it."""
    shutil.copy(AGENTS, tmp_path / "chat_agents.py")
    words = [sys.executable, "-P", "-m", "agentgraph.cli"]

    def run(
        *arguments: str, line: str = '"$@"', typed: str = "", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(  # noqa: S603  the command is this package's own
            ["/bin/sh", "-c", line, "sh", *words, *arguments],
            cwd=tmp_path,
            input=typed,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "TERM": "dumb", "PYTHONIOENCODING": "utf-8"} | environment,
            timeout=SECONDS,
            check=False,
        )

    return run


def types(printed: str) -> list[str]:
    """The types of the events in order; fails where a line is no event."""
    found = [json.loads(line)["type"] for line in printed.splitlines()]
    return [kind for before, kind in zip(["", *found], found, strict=False) if kind != "text" or before != "text"]


@posix
@pytest.mark.parametrize("words", [("run", "chat_agents:printing", "hi"), ("chat", "chat_agents:printing")])
def test_what_tools_and_modules_print_is_no_line_among_the_events(command: Command, words: tuple[str, ...]) -> None:
    done = command(*words, "--json", typed="hi\n")
    assert types(done.stdout) == ["tool_call", "tool_result", "text", "usage", "done"]
    assert done.stderr.splitlines() == ["made", '{"type": "done"}', "from a child process"]
    assert done.returncode == 0


@posix
def test_what_a_tool_prints_is_no_part_of_the_answer(command: Command) -> None:
    done = command("run", "chat_agents:printing", "hi")
    assert (done.returncode, done.stdout) == (0, "Printed.\n")
    assert '{"type": "done"}\nfrom a child process\n' in done.stderr


@posix
def test_a_drawn_graph_holds_no_prints_of_its_module(command: Command) -> None:
    done = command("graph", "chat_agents:printing")
    assert done.stdout.startswith("---\n")
    assert (done.returncode, done.stderr) == (0, "made\n")


@posix
@pytest.mark.parametrize("events", [True, False])
def test_a_tool_that_leaves_the_process_is_a_failed_run(command: Command, events: bool) -> None:
    done = command("run", "chat_agents:leaving", "hi", *(["--json"] if events else []))
    said = "the agent's code left the process with 3"
    assert done.returncode == 1
    if events:
        assert [json.loads(line) for line in done.stdout.splitlines()][1:] == [
            {"type": "error", "error": "SystemExit", "message": said},
            {"type": "done", "status": "failed"},
        ]
    else:
        assert (done.stdout, done.stderr) == ("", f"→ leave()\nerror: SystemExit: {said}\n")


@posix
def test_a_chat_ends_with_the_tool_that_leaves_the_process(command: Command) -> None:
    done = command("chat", "chat_agents:leaving", "--json", typed="hi\nare you there?\n")
    assert (done.returncode, types(done.stdout), done.stderr) == (1, ["tool_call", "error", "done"], "")


@posix
@pytest.mark.parametrize(
    ("words", "closed", "code", "out", "err"),
    [
        (("run", "chat_agents:agent", "hi"), ">&-", 0, "", '→ weather(city="Rome")\n← weather: sunny in Rome\n'),
        (("run", "chat_agents:agent", "hi", "--json"), ">&-", 0, "", ""),
        (("run", "chat_agents:agent", "hi"), "2>&-", 0, "It is sunny.\n", ""),
        (("chat", "chat_agents:agent"), "<&-", 0, "", ""),
        (("run", "chat_agents:agent", "-"), "<&-", 2, "", EMPTY),
        (("nonsense",), ">&- 2>&-", 2, "", ""),
    ],
)  # fmt: skip
def test_a_stream_that_the_caller_closed_is_as_an_empty_one(
    command: Command, words: tuple[str, ...], closed: str, code: int, out: str, err: str
) -> None:
    done = command(*words, line=f'"$@" {closed}')
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


@full_device
@pytest.mark.parametrize(
    "words",
    [("run", "chat_agents:plain", "hi"), ("run", "chat_agents:plain", "hi", "--json"), ("doctor",)],
    ids=["text", "events", "doctor"],
)
def test_an_output_that_cannot_be_written_is_one_line_and_code_1(command: Command, words: tuple[str, ...]) -> None:
    done = command(*words, line='"$@" >/dev/full')
    assert (done.returncode, done.stderr) == (1, "agentgraph: OSError: [Errno 28] No space left on device\n")


@posix
@pytest.mark.parametrize(
    "words",
    [
        ("run", "chat_agents:agent", "hi"),
        ("chat", "chat_agents:agent", "--json"),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)
def test_a_reader_that_is_gone_is_no_traceback(command: Command, words: tuple[str, ...]) -> None:
    done = command(*words, line='{ "$@"; echo "code $?" >&2; } | true', typed="hi\n" * 2000)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("code ")


@posix
@pytest.mark.parametrize(
    ("encoding", "answer"),
    [
        ("utf-8", "caf\u00e9 \u6771 \\ud800 \\x1b[31m [red]\n"),
        ("ascii", "caf\\xe9 \\u6771 \\ud800 \\x1b[31m [red]\n"),
        ("cp1252", "caf\u00e9 \\u6771 \\ud800 \\x1b[31m [red]\n"),
    ],
)
def test_every_encoding_shows_every_answer(command: Command, tmp_path: Path, encoding: str, answer: str) -> None:
    done = command(
        "run", "chat_agents:foreign", "hi", line='"$@" >answer', PYTHONIOENCODING=encoding, COLUMNS="20", NO_COLOR="1"
    )
    assert ((tmp_path / "answer").read_bytes().decode(encoding), done.stderr) == (answer, "")


@posix
def test_events_are_the_same_in_every_encoding(command: Command) -> None:
    events = command("run", "chat_agents:foreign", "hi", "--json", PYTHONIOENCODING="ascii").stdout
    texts = [json.loads(line).get("text", "") for line in events.splitlines()]
    assert "".join(texts) == "caf\u00e9 \u6771 \ud800 \x1b[31m [red]"
