"""`agentgraph graph`, `agentgraph doctor`, the help, and what a missing extra says."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from agentgraph.cli import ExitCode, main
from agentgraph.cli.diagnosis import Finding, diagnose
from agentgraph.cli.drawing import as_dot
from agentgraph.models.registry import PROVIDERS

SOURCE = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    messages: list

def model(state):
    return {"messages": []}

agent = StateGraph(State).add_node("model", model).add_edge(START, "model").add_edge("model", END).compile()
"""
DRAWS = "#!{python}\nimport sys\nopen({output}, 'w').write(open({source}).read())\n"
FAILS = "#!{python}\nimport sys\nsys.exit('cannot draw')\n"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an agent, on a machine without drawing programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "drawn_agents", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "drawn_agents.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(words)
        printed = capsys.readouterr()
        return int(str(left.value.code or 0)), printed.out, printed.err

    return run


def install(folder: Path, name: str, program: str, **places: str) -> None:
    """Put a program called `name` on the PATH."""
    file = folder / "bin" / name
    file.write_text(program.format(python=sys.executable, **places), encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_graph_is_printed_as_mermaid(command: Command) -> None:
    code, out, err = command("graph", "drawn_agents:agent")
    assert (code, err) == (0, "")
    assert "\t__start__ --> model;\n\tmodel --> __end__;\n" in out


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [("g.mmd", "---\nconfig:", "\n"), ("g.md", "```mermaid\n---\n", "\n```\n"), ("g.dot", "digraph agent {", "}\n")],
)
def test_a_graph_is_written_as_text(command: Command, name: str, begins: str, ends: str) -> None:
    assert command("graph", "drawn_agents:agent", "--output", name) == (0, "", f"wrote {name}\n")
    written = Path(name).read_text(encoding="utf-8")
    assert (written[: len(begins)], written[-len(ends) :]) == (begins, ends)


@pytest.mark.parametrize("form", ["png", "svg"])
def test_a_picture_without_a_program_that_draws_is_code_3_and_says_what_to_install(command: Command, form: str) -> None:
    code, out, err = command("graph", "drawn_agents:agent", "--output", f"g.{form}")
    assert (code, out) == (3, "")
    assert err.startswith(f"agentgraph: no program on this machine draws {form.upper()} files; install Graphviz")
    assert not Path(f"g.{form}").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in program is a script with a first line")
@pytest.mark.parametrize(
    ("program", "output", "source", "begins"),
    [("dot", "sys.argv[3]", "sys.argv[4]", "digraph agent {"), ("mmdc", "sys.argv[5]", "sys.argv[3]", "---\nconfig:")],
)
def test_a_picture_is_drawn_by_the_program_that_is_there(
    command: Command, here: Path, program: str, output: str, source: str, begins: str
) -> None:
    install(here, program, DRAWS, output=output, source=source)
    assert command("graph", "drawn_agents:agent", "--output", "g.svg") == (0, "", "wrote g.svg\n")
    assert Path("g.svg").read_text(encoding="utf-8").startswith(begins)
    assert sorted(path.name for path in here.iterdir() if path.name.startswith(".")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in program is a script with a first line")
def test_a_program_that_fails_leaves_the_older_picture(command: Command, here: Path) -> None:
    install(here, "dot", FAILS)
    Path("g.svg").write_text("older", encoding="utf-8")
    assert command("graph", "drawn_agents:agent", "--output", "g.svg") == (
        1,
        "",
        "agentgraph: dot ended with code 1 and said: cannot draw\n",
    )
    assert Path("g.svg").read_text(encoding="utf-8") == "older"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("g.jpg", "cannot write 'g.jpg': expected a name that ends with one of .dot, .md, .mmd, .png, .svg"),
        ("no/g.mmd", "cannot write 'no/g.mmd': there is no directory 'no'"),
    ],
)
def test_an_output_that_is_named_wrongly_is_wrong_usage(command: Command, output: str, said: str) -> None:
    assert command("graph", "drawn_agents:agent", "--output", output) == (2, "", f"agentgraph: {said}\n")


def test_an_output_that_cannot_be_written_is_one_line_and_code_1(command: Command, here: Path) -> None:
    (here / "g.mmd").mkdir()
    code, out, err = command("graph", "drawn_agents:agent", "--output", "g.mmd")
    assert (code, out) == (1, "")
    assert err.startswith("agentgraph: cannot write 'g.mmd': ")


class State(TypedDict):
    """A state."""

    x: int


def test_a_hostile_node_name_stays_inside_its_quotes() -> None:
    builder = StateGraph(State)
    builder.add_node('a"; b', lambda state: state)
    builder.add_edge(START, 'a"; b')
    builder.add_conditional_edges('a"; b', lambda _: END, [END])
    drawn = as_dot(builder.compile().get_graph())
    assert '  "a\\"; b" [label="a\\"; b"];' in drawn.splitlines()
    assert '  "a\\"; b" -> "__end__" [label="", style=dashed];' in drawn.splitlines()


def found(environment: dict[str, str], topic: str) -> dict[str, str]:
    return {finding.name: finding.value for finding in diagnose(environment) if finding.topic == topic}


def test_the_doctor_tells_of_keys_but_never_tells_them() -> None:
    environment = {
        "OPENAI_API_KEY": "sk-secret",
        "GROQ_API_KEY": " sk-secret\n",
        "OPENAI_BASE_URL": "http://u:p@h",
    }
    keys = {name for provider in PROVIDERS.values() for name in provider.key_variables}
    assert found(environment, "key") == dict.fromkeys(keys, "no") | {
        "OPENAI_API_KEY": "yes",
        "GROQ_API_KEY": "yes, with white space around it",
    }
    assert "secret" not in repr(diagnose(environment))
    assert "u:p" not in repr(diagnose(environment))


def test_the_doctor_reads_versions_dependencies_and_extras_from_the_installation() -> None:
    assert found({}, "version")["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"langgraph", "pydantic", "httpx"} <= set(found({}, "dependency"))
    assert found({}, "extra")["cli"] == "yes"


@pytest.mark.parametrize(
    ("requirement", "finding"),
    [
        ("langgraph>=99", Finding("dependency", "langgraph", "1.2, needs >=99", ok=False)),
        ("langgraph>=1,<2", Finding("dependency", "langgraph", "1.2", ok=True)),
        ("not-there>=1", Finding("dependency", "not-there", "missing, needs >=1", ok=False)),
    ],
)
def test_the_doctor_finds_a_dependency_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, requirement: str, finding: Finding
) -> None:
    versions = {"langgraph": "1.2", "agentgraph-runtime": "0.1.0"}
    monkeypatch.setattr("importlib.metadata.requires", lambda _: [requirement])
    monkeypatch.setattr("agentgraph.cli.diagnosis._version", versions.get)
    assert [each for each in diagnose({}) if each.topic == "dependency"] == [finding]


@pytest.mark.parametrize(("ok", "code"), [(True, ExitCode.OK), (None, ExitCode.OK), (False, ExitCode.FAILED)])
def test_the_doctors_exit_code_says_whether_something_is_wrong(
    command: Command, monkeypatch: pytest.MonkeyPatch, ok: bool | None, code: ExitCode
) -> None:
    monkeypatch.setattr("agentgraph.cli.commands.diagnose", lambda: [Finding("extra", "x", "y", ok=ok)])
    assert command("doctor")[0] == code
    as_json: dict[str, Any] = {"topic": "extra", "name": "x", "value": "y", "ok": ok}
    left, out, _ = command("doctor", "--json")
    assert (left, json.loads(out)) == (code, [as_json])


@pytest.mark.parametrize("words", [["--help"], ["chat", "--help"], ["run", "--help"], ["graph", "--help"]])
def test_the_help_explains_the_exit_codes(command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = command(*words)
    assert code == 0
    assert "0 the agent answered; 1 the run failed; 2 wrong usage; 3 an extra or a program is missing" in out


def test_an_unknown_option_is_wrong_usage(command: Command) -> None:
    assert command("chat", "--modle", "x")[0] == 2


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_one_line_and_code_3(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import agentgraph.cli; agentgraph.cli.main(['doctor'])"
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False, env=os.environ
    )
    said = "the command line needs typer and rich; install them with: pip install 'agentgraph-runtime[cli]'"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"agentgraph: {said}\n")


def test_the_version_is_the_installed_one(command: Command) -> None:
    assert command("--version") == (0, "agentgraph 0.1.0\n", "")


def test_ctrl_c_while_libraries_are_loaded_is_code_130(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    def interrupted(_: str) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgraph.cli._is_importable", interrupted)
    assert command("--version") == (130, "", "")


@pytest.mark.parametrize("module", ["agentgraph", "agentgraph.cli"])
def test_the_module_is_the_command(module: str) -> None:
    done = subprocess.run(  # noqa: S603  the command is this package's own
        [sys.executable, "-P", "-m", module, "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "agentgraph 0.1.0\n"
