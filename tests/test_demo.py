"""The demo: its tools against a hostile model, and the whole of it with a script in place of the model."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agentgraph.demo import LOCAL_ANSWER, QUESTIONS, Outcome, Question, calculate, demonstrate, main, repository_tools
from agentgraph.testing import ScriptedModel, tool_call

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("127 * 49", 6223),
        (" 2 + 3*(4 - 1) ", 11),
        ("-7 // 2", -4),
        ("+7 % 4", 3),
        ("1 / 4", 0.25),
        ("2 ** 10", 1024),
        ("1e3", 1000.0),
    ],
)
def test_arithmetic_is_calculated(expression: str, value: float) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("__import__('os').system('x')", "is no arithmetic"),
        ("a + 1", "'a' is no arithmetic"),
        ("'a' * 3", "is no arithmetic"),
        ("True + 1", "is no arithmetic"),
        ("1 < 2", "is no arithmetic"),
        ("~1", "is no arithmetic"),
        ("1 << 9", "is no arithmetic"),
        ("2 +", "cannot calculate '2 \\+'"),
        ("", "cannot calculate ''"),
        ("1 / 0", "cannot calculate '1 / 0': division by zero"),
        ("9 ** 999999999", "is too large"),
        ("9 ** 99 ** 9", "is too large"),
        ("1e300 * 1e300 ** 2", "is too large"),
        ("(-8) ** 0.5", "is not a real number"),
        ("1" * 201, "an expression of 201 characters; expected at most 200"),
        ("(" * 190 + "1", "cannot calculate"),
    ],
)
def test_what_is_no_arithmetic_is_refused(expression: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        calculate(expression)


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, BaseTool]:
    """The demo's tools over a small folder with a secret next to it."""
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "empty").mkdir()
    (root / "docs" / "a.txt").write_text("x" * 1000, encoding="utf-8")
    (root / "README.md").write_text("# Hello", encoding="utf-8")
    (root / ".env").write_text("KEY=secret", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    return {tool.name: tool for tool in repository_tools(root)}


def test_the_tools_read_the_repository(tools: dict[str, BaseTool]) -> None:
    assert [
        tools["list_files"].invoke({"folder": "."}),
        tools["list_files"].invoke({"folder": "/docs"}),
        tools["list_files"].invoke({"folder": "empty"}),
        tools["read_file"].invoke({"path": "README.md"}),
        len(tools["read_file"].invoke({"path": "docs/a.txt"})),
        tools["calculator"].invoke({"expression": "2 + 3"}),
    ] == [
        "The files are: README.md, docs/, empty/, link.txt",
        "The files are: a.txt",
        "The folder is empty.",
        "# Hello",
        400,
        "2 + 3 = 5",
    ]


@pytest.mark.parametrize("path", ["../secret.txt", "docs/../../secret.txt", "link.txt", ".env", ".git", "//etc/passwd"])
def test_nothing_outside_of_the_repository_is_read(tools: dict[str, BaseTool], path: str) -> None:
    with pytest.raises(ValueError, match=r"is outside of what can be read|there is no"):
        tools["read_file"].invoke({"path": path})


def test_the_demo_shows_every_step_and_measures_the_outcome() -> None:
    question = QUESTIONS[0]
    model = ScriptedModel(
        tool_call("calculator", expression="127 * 49"),
        "127 * 49 is 6223.",
        tool_call("calculator", expression="127 + 49"),
        "It is 6223.",
        "I do not know.",
        RuntimeError("broken"),
    )
    out = io.StringIO()
    outcomes = demonstrate(model, protocol=None, root=ROOT, out=out, questions=[question] * 4)
    assert [(each.called, each.answered, each.failed) for each in outcomes] == [
        (True, True, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    ]
    shown = out.getvalue()
    assert shown.startswith("an agent with the tools list_files, read_file, calculator\n")
    assert '→ calculator(expression="127 * 49")\n← calculator: 127 * 49 = 6223\n127 * 49 is 6223.\n' in shown
    assert "error: RuntimeError: broken" in shown


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.tool)
def test_each_question_has_its_answer_in_this_repository(question: Question) -> None:
    arguments = {
        "calculator": {"expression": "127 * 49"},
        "list_files": {"folder": "notebooks"},
        "read_file": {"path": "pyproject.toml"},
    }
    tools = {tool.name: tool for tool in repository_tools(ROOT)}
    assert question.holds in tools[question.tool].invoke(arguments[question.tool])


@pytest.mark.parametrize(("failed", "code"), [(False, 0), (True, 1)])
def test_the_exit_code_says_whether_a_run_failed(
    failed: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = [Outcome(called=True, answered=False, failed=failed, seconds=2.4)]
    monkeypatch.setattr("agentgraph.demo.demonstrate", lambda *_, **__: outcomes)
    assert main([]) == code
    shown = " ".join(capsys.readouterr().out.split())
    assert "right tool with right arguments: 1 of 1; final answer holds the tool's result: 0 of 1; 2 seconds" in shown
    assert "cannot plan" in shown


def test_a_provider_is_asked_with_its_own_tool_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, str | None]] = []

    def demonstrate(model: Any, *, protocol: str | None, **_: Any) -> list[Outcome]:
        given.append((model, protocol))
        return []

    monkeypatch.setattr("agentgraph.demo.init_chat_model", lambda name, **settings: (name, settings))
    monkeypatch.setattr("agentgraph.demo.demonstrate", demonstrate)
    main(["--model", "openai:gpt-5"])
    main(["--model", "local:smollm2"])
    assert given == [(("openai:gpt-5", {}), None), (("local:smollm2", {"max_tokens": 120}), "json")]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left on device"), 1, "agentgraph: OSError: [Errno 28] No space left on device\n"),
    ],
)
def test_a_demo_that_is_broken_off_is_no_traceback(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def demonstrate(*_: Any, **__: Any) -> list[Outcome]:
        raise error

    monkeypatch.setattr("agentgraph.demo.demonstrate", demonstrate)
    assert main([]) == code
    assert capsys.readouterr().err == said


def test_who_cancels_a_question_does_not_wait_for_the_next() -> None:
    model = ScriptedModel(KeyboardInterrupt(), "Never asked.")
    with pytest.raises(KeyboardInterrupt):
        demonstrate(model, protocol=None, root=ROOT, out=io.StringIO())
    assert model.remaining == 1


def test_the_demo_is_shown_in_every_encoding() -> None:
    code = (
        "import sys; from agentgraph import demo; from agentgraph.testing import ScriptedModel, tool_call; "
        "script = tool_call('calculator', expression='1 + 1'), 'Two.'; "
        "demo.init_chat_model = lambda *_: ScriptedModel(*script, repeat_last=True); "
        "sys.exit(demo.main(['--model', 'openai:gpt-5']))"
    )
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2192 calculator" in done.stdout


def test_a_model_that_cannot_be_had_is_one_typed_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "nonsense:model"]) == 1
    assert capsys.readouterr().out.startswith("ConfigurationError: ")


def test_without_rich_the_demo_says_what_to_install_and_ends_with_code_3() -> None:
    code = (
        "import runpy, sys; sys.modules['rich.console'] = None; "
        "runpy.run_module('agentgraph.demo', run_name='__main__')"
    )
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    said = "the command line needs typer and rich; install them with: pip install 'agentgraph-runtime[cli]'"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"agentgraph: {said}\n")


@pytest.mark.integration
def test_the_smallest_model_calls_the_right_tool_for_each_question(local_model: BaseChatModel) -> None:
    bounded = local_model.model_copy(update={"max_tokens": LOCAL_ANSWER})
    outcomes = demonstrate(bounded, protocol="json", root=ROOT, out=io.StringIO())
    assert [(each.called, each.failed) for each in outcomes] == [(True, False)] * 3
