"""The README is true: its examples print what it says, its commands exist, its map is the tree, its figures hold.

A `python` block is executed; a `text` block directly after it is what it prints. The blocks of the page share one
namespace, as a reader has it who pastes one after the other. `<!-- needs: the local model -->` before a block has it
run by the integration test alone.
"""

import ast
import contextlib
import importlib
import inspect
import io
import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
from langchain.agents import middleware as catalogue
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command

from agentgraph import AgentGraphError, ConfigurationError, ThreadBusyError, create_agent, outcome
from agentgraph.cli import main
from agentgraph.cli.commands import app
from agentgraph.middleware import AgentMiddleware
from agentgraph.models.local import model_file
from agentgraph.models.registry import PROVIDERS
from agentgraph.nodes.model import MAX_STRUCTURED_ATTEMPTS
from agentgraph.progress import STOP_REPEATING_AFTER, TELL_REPEATING_AFTER
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, no_network, tool_call

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEEDS_LOCAL = "<!-- needs: the local model -->"

APP = """
from agentgraph import create_agent
from agentgraph.testing import ScriptedModel

def weather(city: str) -> str:
    "Get the weather of a city."
    return f"sunny in {city}"

agent = create_agent(ScriptedModel("Sunny.", repeat_last=True), [weather])
"""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the line of its first line, its text, and the line before its fence."""

    language: str
    line: int
    text: str
    mark: str


def read_blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    for start, end in zip(fences[::2], fences[1::2], strict=True):
        yield Block(lines[start][3:], start + 2, "\n".join(lines[start + 1 : end]) + "\n", lines[start - 1])


BLOCKS = tuple(read_blocks(TEXT))
PYTHON = [block for block in BLOCKS if block.language == "python"]
SHELL = [line.split("#")[0].strip() for block in BLOCKS if block.language == "sh" for line in block.text.splitlines()]
PRINTED = {
    block.line: following.text
    for block, following in itertools.pairwise(BLOCKS)
    if (block.language, following.language) == ("python", "text")
}


def execute(block: Block, namespace: dict[str, object]) -> str:
    """Run a block, with line numbers of the page in tracebacks; what it printed."""
    tree = ast.increment_lineno(ast.parse(block.text), block.line - 1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(README), "exec"), namespace)  # noqa: S102 (the examples of our own page)
    return printed.getvalue()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The namespace of the page's examples: without a key, and without a network."""
    for provider in PROVIDERS.values():
        for variable in (*provider.key_variables, "OPENAI_BASE_URL"):
            monkeypatch.delenv(variable, raising=False)
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    with no_network():
        yield vars(module)


def test_every_example_runs_and_prints_what_the_page_says(page: dict[str, object]) -> None:
    runnable = [block for block in PYTHON if block.mark != NEEDS_LOCAL]
    printed = {block.line: execute(block, page) for block in runnable}
    assert {line: text for line, text in printed.items() if text or line in PRINTED} == PRINTED


def test_the_tests_on_the_page_pass(page: dict[str, object]) -> None:
    for block in PYTHON:
        if block.mark != NEEDS_LOCAL:
            execute(block, page)
    tests = [value for name, value in page.items() if name.startswith("test_") and inspect.isfunction(value)]
    assert [test.__name__ for test in tests] == [
        "test_the_weather_is_looked_up",
        "test_a_reply_can_depend_on_what_was_said",
    ]
    for test in tests:
        test()


@pytest.mark.integration
def test_the_local_model_of_the_page_picks_the_tool_and_its_argument(
    page: dict[str, object], local_model: BaseChatModel
) -> None:
    (local,) = [block for block in PYTHON if block.mark == NEEDS_LOCAL]
    for block in PYTHON[: PYTHON.index(local)]:
        execute(block, page)
    assert "sunny in Rome" in execute(local, page)


def test_the_first_example_needs_nothing_but_itself(page: dict[str, object]) -> None:
    assert execute(PYTHON[0], page) == PRINTED[PYTHON[0].line]


def test_each_make_command_is_a_target_with_variables_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [line for line in [*SHELL, *re.findall(r"`(make [^`]+)`", TEXT)] if line.startswith("make ")]
    words = {word.split("=")[0] for command in commands for word in shlex.split(command)[1:]}
    assert {"demo", "test", "MODEL"} <= words
    assert words - set(re.findall(r"^(\w+)(?::| *\?=)", makefile, re.MULTILINE)) == set()


@pytest.fixture
def in_a_folder_with_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        saver.setup()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("command", [line for line in SHELL if line.startswith("agentgraph ")])
def test_each_command_line_of_the_page_works(
    command: str, in_a_folder_with_an_agent: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', command)][1:]
    monkeypatch.delitem(sys.modules, "app", raising=False)
    with pytest.raises(SystemExit) as left, no_network():
        main(words)
    printed = capsys.readouterr()
    assert (left.value.code, printed.err) == (0, "")
    expected = {"run": "Sunny.", "graph": "__start__", "doctor": "agentgraph-runtime"}.get(words[0], "")
    assert expected in printed.out


def test_every_command_is_on_the_page() -> None:
    group = typer.main.get_command(app)
    shown = {line.split()[1] for line in SHELL if line.startswith("agentgraph ")}
    assert shown == set(getattr(group, "commands", {}))


def test_what_the_page_installs_is_what_the_project_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    project = PYPROJECT["project"]
    groups = re.findall(r"(?:agentgraph-runtime|\.)\[([\w,]+)\]", TEXT)
    extras = {extra for group in groups for extra in group.split(",")}
    assert extras == set(project["optional-dependencies"])
    assert f"called `{project['name']}`" in TEXT
    assert f"Python {project['requires-python'].removeprefix('>=')} or later" in TEXT
    assert f"`{next(one for one in project['dependencies'] if one.startswith('langgraph'))}`" in TEXT
    monkeypatch.setattr("agentgraph.models.local.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError) as missing:
        model_file("smollm2")
    lines = [line.strip() for line in str(missing.value).splitlines() if "pip install" in line]
    assert [line for line in lines if line in SHELL] == lines != []


MOVES = re.findall(r"^\| `(langchain\.[\w.]+)` \| `(agentgraph[\w.]*)` \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_what_was_imported_there_is_imported_here(before: str, after: str) -> None:
    there, here = importlib.import_module(before), importlib.import_module(after)
    classes = [name for name, value in vars(there).items() if isinstance(value, type) and value.__module__ == before]
    public = getattr(there, "__all__", [name for name in classes if not name.startswith("_")])
    assert {name for name in public if not hasattr(here, name)} == set()


def test_every_public_module_of_langchains_agents_is_in_the_table() -> None:
    assert {"langchain.agents", "langchain.agents.middleware", "langchain.agents.structured_output"} <= dict(
        MOVES
    ).keys()
    assert len(MOVES) == len(re.findall(r"^\| `langchain\.", TEXT, re.MULTILINE))


def test_the_root_of_a_checkout_has_the_middleware_without_an_editable_install() -> None:
    code = (
        "import sys\n"
        "sys.meta_path = [one for one in sys.meta_path if 'editable' not in getattr(one, '__module__', '')]\n"
        "from agentgraph.middleware import wrap_tool_call\n"
        "print(sys.modules['agentgraph.middleware'].__file__, 'middleware' in sys.modules)"
    )
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout.split(), done.stderr) == ([str(ROOT / "middleware" / "__init__.py"), "False"], "")


def test_the_map_of_rooms_is_the_tree() -> None:
    (rooms,) = [block.text for block in BLOCKS if block.text.startswith("agentgraph/ ")]
    shown = re.findall(r"^( *)([\w.]+)/ ", rooms, re.MULTILINE)
    packages = {init.parent.name for init in (ROOT / "agentgraph").glob("*/__init__.py")}
    assert {name for indent, name in shown if indent} == packages
    tops = [name for indent, name in shown if not indent]
    assert tops == ["agentgraph", "middleware", "tests", "notebooks"]
    assert [name for name in tops if not (ROOT / name).is_dir()] == []


def test_the_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:agentgraph|middleware|tests|notebooks)/[\w./-]+)`", TEXT))
    assert "agentgraph/errors.py" in named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    words = " ".join(TEXT.split())
    assert MAX_STRUCTURED_ATTEMPTS == 5
    assert "asked for again, five times at most, then raised" in words
    assert f"told after the {TELL_REPEATING_AFTER}th round and stopped after the {STOP_REPEATING_AFTER}th" in words


class Watching(AgentMiddleware):
    def before_model(self, state, runtime):
        return None


def test_two_middleware_objects_of_one_class_are_two_nodes() -> None:
    agent = create_agent(ScriptedModel("Hello."), middleware=[Watching(), Watching()])
    assert {"Watching.before_model", "Watching#2.before_model"} <= set(agent.get_graph().nodes)


def forecast(city: str) -> str:
    """The forecast."""
    return city


FORECAST = {"title": "forecast", "type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    "build",
    [
        lambda model, other: create_agent(model, [forecast, other]),
        lambda model, other: create_agent(model, [forecast], response_format=FORECAST),
    ],
    ids=["two tools", "a tool and a schema"],
)
def test_names_that_the_model_could_not_tell_apart_are_refused(build: Callable[..., object]) -> None:
    def other(city: str) -> str:
        """Another forecast."""
        return city

    other.__name__ = "forecast"
    with pytest.raises(ConfigurationError, match="could not tell"):
        build(ScriptedModel("Hello."), other)


def test_a_step_limit_ends_a_run_that_goes_on_and_on() -> None:
    model = ScriptedModel(*(tool_call("forecast", city=f"City {number}") for number in range(9)))
    with pytest.raises(GraphRecursionError) as ended:
        create_agent(model, [forecast]).invoke({"messages": "Hi."}, {"recursion_limit": 4})
    assert (isinstance(ended.value, AgentGraphError), outcome(ended.value).kind) == (False, "limit")
    assert len(model.requests) == 2


@pytest.mark.parametrize("leave", [contextlib.aclosing, contextlib.nullcontext], ids=["aclosing", "break alone"])
async def test_a_stream_that_is_left_early_frees_its_thread_once_it_is_closed(leave: Callable[..., Any]) -> None:
    agent = create_agent(ScriptedModel("Sunny in Rome.", repeat_last=True), checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    stream = agent.astream({"messages": "Rome?"}, thread, stream_mode="messages")
    async with leave(stream) as pieces:
        async for _ in pieces:
            break
    is_busy = leave is contextlib.nullcontext
    with pytest.raises(ThreadBusyError) if is_busy else contextlib.nullcontext():
        await agent.ainvoke({"messages": "And Oslo?"}, thread)
    await stream.aclose()
    assert (await agent.ainvoke({"messages": "Bern?"}, thread))["messages"][-1].text == "Sunny in Rome."


@pytest.mark.parametrize(
    "middleware",
    [
        catalogue.ContextEditingMiddleware(),
        catalogue.ModelCallLimitMiddleware(run_limit=5),
        catalogue.ModelFallbackMiddleware(ScriptedModel()),
        catalogue.ModelRetryMiddleware(),
        catalogue.PIIMiddleware("email"),
        catalogue.SummarizationMiddleware(ScriptedModel(), trigger=("messages", 100)),
        catalogue.TodoListMiddleware(),
        catalogue.ToolCallLimitMiddleware(run_limit=3),
        catalogue.ToolRetryMiddleware(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_catalogue_of_langchain_runs_here(middleware: Any) -> None:
    call = tool_call("forecast", city="Rome")
    agent = create_agent(ScriptedModel(call, "Done."), [forecast], middleware=[middleware])
    result = agent.invoke({"messages": "I am ada@example.org"})
    said = "I am [REDACTED_EMAIL]" if isinstance(middleware, catalogue.PIIMiddleware) else "I am ada@example.org"
    assert_messages(result["messages"], [HumanMessage(said), ai(call), answer(call, "Rome"), AIMessage("Done.")])


@pytest.mark.parametrize(
    ("decision", "status", "ran"),
    [({"type": "approve"}, "success", ["Rome"]), ({"type": "reject", "message": "Not today."}, "error", [])],
    ids=["approve", "reject"],
)
def test_the_approvals_of_langchain_run_here(decision: dict[str, str], status: str, ran: list[str]) -> None:
    reported: list[str] = []

    def report(city: str) -> str:
        """Report the weather of a city."""
        reported.append(city)
        return "reported"

    approvals: Any = catalogue.HumanInTheLoopMiddleware({"report": True})
    agent = create_agent(
        ScriptedModel(tool_call("report", city="Rome"), "Done."),
        [report],
        middleware=[approvals],
        checkpointer=InMemorySaver(),
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    (question,) = agent.invoke({"messages": "Rome?"}, thread)["__interrupt__"]
    assert [action["args"] for action in question.value["action_requests"]] == [{"city": "Rome"}]
    assert reported == []
    result = agent.invoke(Command(resume={"decisions": [decision]}), thread)
    assert (result["messages"][2].status, reported, result["messages"][3].text) == (status, ran, "Done.")
