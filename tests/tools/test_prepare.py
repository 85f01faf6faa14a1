import functools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, Tool, tool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel
from pydantic.v1 import BaseModel as OldModel

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools.prepare import as_tool, model_schema, prepare


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Adder:
    """Adds."""

    def __call__(self, a: int, b: int = 2) -> int:
        return a + b

    def add(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @classmethod
    def of_class(cls, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @staticmethod
    def static(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


class AsyncAdder:
    async def __call__(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b


MAKERS: dict[str, tuple[Any, str, set[str]]] = {
    "function": (add, "add", {"a", "b"}),
    "async function": (aadd, "aadd", {"a", "b"}),
    "method": (Adder().add, "add", {"a", "b"}),
    "class method": (Adder.of_class, "of_class", {"a", "b"}),
    "static method": (Adder.static, "static", {"a", "b"}),
    "callable object": (Adder(), "Adder", {"a", "b"}),
    "async callable object": (AsyncAdder(), "AsyncAdder", {"a", "b"}),
    "partial by position": (functools.partial(add, 1), "add", {"b"}),
    "partial by name": (functools.partial(add, b=5), "add", {"a", "b"}),
    "partial of an async function": (functools.partial(aadd, 1), "aadd", {"b"}),
    "partial of a partial": (functools.partial(functools.partial(add), 1), "add", {"b"}),
    "tool": (tool(add), "add", {"a", "b"}),
}


@pytest.mark.parametrize("form", MAKERS)
def test_a_tool_is_made_of_everything_that_can_be_called(form: str) -> None:
    maker, name, arguments = MAKERS[form]
    prepared = prepare(maker)
    assert prepared.name == name
    function = model_schema(prepared.tool)["function"]
    assert set(function["parameters"]["properties"]) == arguments
    assert function["description"]
    call = {"name": name, "args": dict.fromkeys(arguments, 3), "id": "c", "type": "tool_call"}
    (message,) = ToolsNode({name: prepared}, "raise").invoke([call])["messages"]
    assert message.content == str(sum({"a": 1, **dict.fromkeys(arguments, 3)}.values()))


def silent(a: int) -> int:
    return a


def blank(a: int) -> int:
    """ """
    return a


def steps(a: int) -> Iterator[int]:
    """Yield."""
    yield a


async def asteps(a: int) -> AsyncIterator[int]:
    """Yield."""
    yield a


class Steps:
    """Yield."""

    def __call__(self, a: int) -> Iterator[int]:
        yield a


class Strange:
    """No pydantic type."""


def strange(a: Strange) -> str:
    """Strange."""
    return str(a)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no docstring": (
        silent,
        ConfigurationError,
        r"The tool 'silent' has no description.*docstring.*@tool\(description",
    ),
    "blank docstring": (blank, ConfigurationError, "The tool 'blank' has no description"),
    "partial without docstring": (functools.partial(silent, 1), ConfigurationError, "'silent' has no description"),
    "lambda": (lambda a: a, ConfigurationError, "lambda has no name.*StructuredTool.from_function"),
    "generator": (steps, ConfigurationError, r"'steps' is a generator function.*runtime\.stream_writer"),
    "async generator": (asteps, ConfigurationError, "'asteps' is a generator function"),
    "generator object": (Steps(), ConfigurationError, "'Steps' is a generator function"),
    "generator in a tool": (
        StructuredTool.from_function(steps, name="inside"),
        ConfigurationError,
        "'inside' is a generator function",
    ),
    "no JSON form": (
        strange,
        ConfigurationError,
        "arguments of the tool 'strange' cannot be described.*InjectedToolArg",
    ),
    "class of a tool": (
        StructuredTool,
        ConfigurationTypeError,
        r"is no tool.*This is a class.*StructuredTool\(\.\.\.\)",
    ),
    "runnable": (RunnableLambda(add), ConfigurationTypeError, r"is no tool.*\.as_tool\(name="),
    "string": ("search", ConfigurationTypeError, r"'search' \(str\) is no tool. Expected"),
    "None": (None, ConfigurationTypeError, r"None \(NoneType\) is no tool"),
    "dict": ({"type": "web_search"}, ConfigurationTypeError, "is no tool"),
    "nothing to run": (
        StructuredTool(name="hollow", description="Hollow.", args_schema={"type": "object", "properties": {}}),
        ConfigurationError,
        "The tool 'hollow' has nothing to run",
    ),
    **{
        f"time limit {limit!r}": (
            tool(add).model_copy(update={"metadata": {"timeout": limit}}),
            ConfigurationError,
            "'add' has the time limit .* a number above 0",
        )
        for limit in (0, -1, "5", True, float("inf"), float("nan"))
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_refused_with_the_fix(what: str) -> None:
    candidate, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        prepare(candidate)


def test_annotations_that_are_no_schema_are_refused_with_their_cause() -> None:
    def lost(a: "Missing") -> Any:  # type: ignore[name-defined] # noqa: F821 - the mistake in question
        """Lost."""
        return a

    with pytest.raises(ConfigurationError, match=r"parameters of the tool 'lost' .* name 'Missing' is not defined"):
        as_tool(lost)


class OwnRun(BaseTool):
    name: str = "own"
    description: str = "Own."

    def _run(self, a: int) -> int:
        return a


class OwnCheck(StructuredTool):
    def _parse_input(self, tool_input: Any, tool_call_id: str | None) -> Any:
        return tool_input


class OldArgs(OldModel):
    a: int


def with_callbacks(a: int, callbacks: Any = None) -> int:
    """Take callbacks."""
    return a


DIRECT: dict[str, tuple[Any, tuple[bool, bool, bool]]] = {
    "sync": (tool(add), (True, True, False)),
    "async": (tool(aadd), (True, False, True)),
    "both": (StructuredTool.from_function(add, aadd), (True, True, True)),
    "dict schema": (StructuredTool.from_function(add, args_schema={"type": "object"}), (True, True, False)),
    "tool class": (OwnRun(), (False, True, False)),
    "own check": (OwnCheck.from_function(add), (False, True, False)),
    "takes callbacks": (tool(with_callbacks), (False, True, False)),
    "single text": (Tool(name="t", description="T.", func=str), (False, True, False)),
    "old schema": (StructuredTool.from_function(add, args_schema=OldArgs), (False, True, False)),
}


@pytest.mark.parametrize("kind", DIRECT)
def test_only_a_tool_without_ways_of_its_own_goes_the_direct_way(kind: str) -> None:
    prepared = prepare(DIRECT[kind][0], for_model=False)
    assert (prepared.direct, prepared.runs_sync, prepared.runs_async) == DIRECT[kind][1]


def test_settings_are_read_from_metadata_or_extras() -> None:
    plain = tool(add)
    assert (prepare(plain).timeout, prepare(plain).polling) == (None, False)
    for place in ("metadata", "extras"):
        prepared = prepare(plain.model_copy(update={place: {"timeout": 5, "polling": True}}))
        assert (prepared.timeout, prepared.polling) == (5.0, True)


def test_the_tool_stays_the_object_that_was_given() -> None:
    made = tool(add)
    assert prepare(made).tool is made


@pytest.mark.filterwarnings("ignore:Field name .* shadows:UserWarning")
def test_a_parameter_called_like_a_method_of_pydantic_works() -> None:
    class Where(BaseModel):
        """Where."""

        path: Path
        copy: bool = False  # type: ignore[assignment] # the name of a method of BaseModel

    def where(path: Path, copy: bool = False, runtime: ToolRuntime | None = None) -> str:
        """Where."""
        return f"{path.name} {copy} {runtime is not None}"

    prepared = prepare(StructuredTool.from_function(where, args_schema=Where))
    call = {"name": "where", "args": {"path": "/a/b", "copy": True}, "id": "c", "type": "tool_call"}
    (message,) = ToolsNode({"where": prepared}, "raise").invoke([call])["messages"]
    assert message.content == "b True True"
