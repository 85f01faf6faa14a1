"""`chat` and `run` with an agent made of options: `--model`, `--tools`, `--system`, `--protocol`."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentgraph
from agentgraph.cli import main
from agentgraph.testing import ScriptedModel

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


@pytest.mark.parametrize(
    ("words", "typed", "printed"),
    [
        (["chat"], "hi\n", "Hello.\n"),
        (["run", "hi"], "", "Hello.\n"),
        (["run", "-"], "hi", "Hello.\n"),
    ],
)
def test_an_agent_is_made_from_a_model_and_tools(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], typed: str, printed: str
) -> None:
    Path("my_tools.py").write_text(
        "def weather(city: str) -> str:\n    'Weather.'\n    return 'sunny'", encoding="utf-8"
    )
    given: dict[str, Any] = {}
    agent = agentgraph.create_agent(ScriptedModel("Hello."))

    def create_agent(model: str, tools: list[Any], **settings: Any) -> Any:
        given.update(settings, model=model, tools=[tool.__name__ for tool in tools])
        return agent

    monkeypatch.setattr(agentgraph, "create_agent", create_agent)
    options = ["--model", "local:m", "--tools", "my_tools:weather", "--system", "Be brief.", "--protocol", "json"]
    assert command(*words, *options, typed=typed) == (0, printed, "")
    assert given == {"model": "local:m", "tools": ["weather"], "system_prompt": "Be brief.", "tool_protocol": "json"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name an agent (module:agent) or a model (--model provider:name)"),
        (["--tools", "m:f"], "name an agent (module:agent) or a model (--model provider:name)"),
        (["chat_agents:agent", "--model", "m"], "--model, --tools, --system and --protocol make an agent;"),
        (["--model", "nonsense:model"], "ConfigurationError: "),
    ],
)
def test_a_chat_without_an_agent_is_wrong_usage(command: Command, words: list[str], said: str) -> None:
    code, _, err = command("chat", *words)
    assert code == 2
    assert err.startswith(f"agentgraph: {said}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hi"], "only 'hi' was given; expected an agent and a message (module:agent 'message'), or --model"),
        (["chat_agents:agent", "How", "is", "Rome?"], "4 words were given; put the message into quotes"),
        (["--model", "m:m", "How", "is", "Rome?"], "3 words were given; put the message into quotes"),
        (["chat_agents:agent", "hi", "--system", "s"], "--model, --tools, --system and --protocol make an agent;"),
        (["hi", "--tools", "m:f"], "name an agent (module:agent) or a model (--model provider:name)"),
    ],
)
def test_a_run_without_an_agent_and_one_message_is_wrong_usage(command: Command, words: list[str], said: str) -> None:
    code, out, err = command("run", *words, "--json")
    assert (code, err.startswith(f"agentgraph: {said}")) == (2, True)
    assert [event["error"] for event in events(out)] == ["usage"]


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (["--model", "local:smollm2", "--tools", "chat_agents:weather"], " On the command line: --protocol json."),
        (["--model", "groq:x", "--protocol", "jsn"], " On the command line: --protocol json."),
        (["--model", "no-such-model"], " On the command line: --model provider:name."),
    ],
)
def test_an_error_that_speaks_of_parameters_names_the_flag(
    command: Command, options: list[str], flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgraph.models.local.model_file", Path)
    code, _, err = command("run", "hi", *options)
    assert (code, flag in err) == (2, True)


def test_a_model_file_that_is_not_there_is_told_with_its_whole_path(
    command: Command, agents_module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentgraph.models.local.find_spec", lambda _: True)
    place = str(agents_module / "tiny.gguf")
    said = f"The local model 'tiny.gguf' has no file at {place!r}. Give the path of a GGUF file that is there."
    assert command("run", "hi", "--model", "local:tiny.gguf") == (2, "", f"agentgraph: ConfigurationError: {said}\n")
