"""`module:agent` and its relatives: what is found, and what is said when it is not."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgraph.cli import CommandError, ExitCode
from agentgraph.cli.targets import load_agent, load_object, load_tools, search_working_directory

SOURCE = '''
"""Agents of a user."""
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

def reply(state):
    return {"messages": [AIMessage("hello")]}

builder = StateGraph(MessagesState)
builder.add_node("reply", reply)
builder.add_edge(START, "reply")
builder.add_edge("reply", END)
agent = builder.compile()

def make_agent():
    return agent

async def make_agent_async():
    return agent

def make_agent_for(customer):
    return agent

def make_nothing():
    return None

def make_trouble():
    raise RuntimeError("the database is down")

def make_an_end():
    raise SystemExit(3)

@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return "sunny"

def clock() -> str:
    """The time."""
    return "noon"

all_tools = [weather, clock]

class Box:
    inner = agent

box = Box()
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the module `my_agents`, forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    for name in ("my_agents", "broken", "leaves"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "my_agents.py").write_text(SOURCE, encoding="utf-8")
    search_working_directory()
    return tmp_path


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


def failure_of(target: str, runner: asyncio.Runner) -> tuple[str, ExitCode]:
    with pytest.raises(CommandError) as caught:
        load_agent(target, runner)
    return str(caught.value), caught.value.code


@pytest.mark.parametrize(
    "target",
    [
        "my_agents:agent",
        "my_agents.py:agent",
        "my_agents:make_agent",
        "my_agents:make_agent_async",
        "my_agents:box.inner",
    ],
)
def test_an_agent_is_found_under_every_form_of_its_name(target: str, runner: asyncio.Runner) -> None:
    assert load_agent(target, runner).invoke({"messages": "hi"})["messages"][-1].text == "hello"


def test_a_file_in_another_folder_finds_its_neighbours(here: Path, runner: asyncio.Runner) -> None:
    (here / "app").mkdir()
    (here / "app" / "neighbour.py").write_text(SOURCE, encoding="utf-8")
    (here / "app" / "service.py").write_text("from neighbour import agent", encoding="utf-8")
    assert "reply" in load_agent("app/service.py:agent", runner).nodes


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("my_agents", "'my_agents' does not name an object; write module:name or path/to/file.py:name"),
        ("my_agents:", "'my_agents:' does not name an object; write module:name or path/to/file.py:name"),
        ("my_agents:agnet", "'my_agents' has no 'agnet'; did you mean 'agent'?"),
        ("my_agents:zzz", "'my_agents' has no 'zzz'; graphs there: agent"),
        ("my_agents.py:make_agents", "'my_agents.py' has no 'make_agents'; did you mean 'make_agent'"),
        ("my_agent:agent", "there is no module 'my_agent', nor in '{here}'; did you mean 'my_agents'?"),
        (".my_agents:agent", "'.my_agents' is a relative name; write the module's whole name, or path/to/file.py:name"),
        ("my_agents.sub:agent", "there is no module 'my_agents.sub', nor in '{here}'"),
        ("my_agent.py:agent", "there is no file 'my_agent.py'; did you mean 'my_agents.py'?"),
        ("my_agents:builder", "'my_agents:builder' is a StateGraph that is not compiled; name the result of its"),
        ("my_agents:all_tools", "'my_agents:all_tools' is of type list; expected a compiled graph"),
        ("my_agents:make_nothing", "'my_agents:make_nothing' is of type NoneType; expected a compiled graph"),
        ("my_agents:Box", "'my_agents:Box' is of type type; expected a compiled graph"),
        (
            "my_agents:make_agent_for",
            "'my_agents:make_agent_for' needs customer; expected a function without parameters that ",
        ),
    ],
)
def test_a_wrong_target_is_answered_with_what_to_write(
    target: str, said: str, here: Path, runner: asyncio.Runner
) -> None:
    message, code = failure_of(target, runner)
    assert (message[: len(said.format(here=here))], code) == (said.format(here=here), ExitCode.USAGE)


@pytest.mark.parametrize(
    ("name", "said"),
    [("make_trouble", "RuntimeError: the database is down"), ("make_an_end", "SystemExit: 3")],
)
def test_a_failing_factory_is_reported_with_its_place(name: str, said: str, runner: asyncio.Runner) -> None:
    message, code = failure_of(f"my_agents:{name}", runner)
    assert message.startswith(f"calling 'my_agents:{name}' failed: {said} (my_agents.py, line ")
    assert code is ExitCode.FAILED


@pytest.mark.parametrize("target", ["broken:agent", "broken.py:agent"])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\nraise KeyError('k')", "failed: KeyError: 'k' (broken.py, line 2)"),
        (
            "import not_there_at_all",
            "failed: ModuleNotFoundError: No module named 'not_there_at_all' (broken.py, line 1)",
        ),
        ("raise SystemExit(3)", "failed: SystemExit: 3 (broken.py, line 1)"),
        ("def f(:", "failed: SyntaxError: invalid syntax (broken.py, line 1)"),
        ("x = '\x00'", "failed: SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_with_the_place(
    target: str, source: str, said: str, here: Path, runner: asyncio.Runner
) -> None:
    (here / "broken.py").write_text(source, encoding="utf-8")
    message, code = failure_of(target, runner)
    assert message.endswith(said)
    assert code is ExitCode.FAILED


def test_tools_are_gathered_from_tools_functions_and_lists() -> None:
    found = load_tools("my_agents:weather, my_agents:clock,my_agents:all_tools,")
    weather, clock = load_object("my_agents:weather"), load_object("my_agents:clock")
    assert found == [weather, clock, weather, clock]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wether", "'my_agents' has no 'wether'; did you mean 'weather'?"),
        ("all_tool", "'my_agents' has no 'all_tool'; did you mean 'all_tools'?"),
        ("agnet", "'my_agents' has no 'agnet'; tools there: all_tools, clock, make_agent, make_agent_async, "),
    ],
)
def test_a_tool_that_is_not_there_is_answered_with_those_that_are(name: str, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        load_tools(f"my_agents:{name}")
    assert str(caught.value).startswith(said)


def test_something_that_is_no_tool_is_refused() -> None:
    with pytest.raises(
        CommandError, match="'my_agents:__doc__' is of type str; expected a tool, a function, or a list"
    ):
        load_tools("my_agents:__doc__")
