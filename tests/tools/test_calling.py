"""The two ways to run a tool give the same result: the direct one, and BaseTool's with its callbacks."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.globals import set_debug
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException, tool
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import Command
from pydantic import BaseModel, Field, field_validator

from agentgraph.errors import ToolTimeoutError
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools import calling
from agentgraph.tools.prepare import prepare

LIMIT = 10.0


class Shade(Enum):
    LIGHT = "light"


class Line(BaseModel):
    item: str
    count: int = 1


class Strict(BaseModel):
    """Own schema."""

    x: int = Field(default=3, alias="ex", ge=0)
    extra_note: str | None = None
    model_config = {"extra": "allow"}

    @field_validator("x")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2 and value != 3:
            raise ValueError("must be even")
        return value


@tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@tool
def order(lines: list[Line], shade: Shade = Shade.LIGHT, tags: Annotated[list[str], "free"] = []) -> str:  # noqa: B006 - as users write it
    """Order."""
    return f"{[(type(line).__name__, line.item, line.count) for line in lines]} {shade!r} {tags}"


@tool(args_schema=Strict)
def aliased(x: int, **others: Any) -> str:
    """Own schema with an alias, a validator and extra fields."""
    return f"{x} {sorted(others.items())}"


@tool(args_schema={"type": "object", "title": "loose", "properties": {"q": {"type": "string"}}})
def loose(q: str) -> str:
    """A JSON schema."""
    return q


@tool
def nothing() -> None:
    """Return nothing."""


@tool
def many(*args: int, **kwargs: str) -> str:
    """Variadic."""
    return f"{args} {kwargs}"


@tool
def configured(a: int, config: RunnableConfig) -> str:
    """Read the configuration."""
    seen = var_child_runnable_config.get() or {}
    return f"{a} {config['configurable']['user']} {seen['configurable']['user']}"


@tool(response_format="content_and_artifact")
def chart(kind: str) -> Any:
    """Content and artifact."""
    return {
        "pair": ("text", {"rows": [1]}),
        "blocks": ([{"type": "text", "text": "t"}], None),
        "none": "no pair",
        "three": (1, 2, 3),
    }[kind]


@tool
def fail(kind: str) -> Any:
    """Raise."""
    if kind == "validation":
        Line.model_validate({})
    raise {"tool": ToolException("agreed"), "value": ValueError("surprise"), "interrupt": GraphInterrupt()}[kind]


@tool
def message(kind: str) -> Any:
    """Return messages and commands."""
    return {
        "own": ToolMessage("mine", tool_call_id="c", name="other", status="error"),
        "command": Command(update={"n": 1}),
        "list": [ToolMessage("mine", tool_call_id="c"), Command(update={"n": 1})],
        "mixed": [ToolMessage("mine", tool_call_id="c"), "text"],
    }[kind]


@tool
def value(kind: str) -> Any:
    """Return all kinds of values."""
    return {
        "str": "é",
        "int": 1,
        "dict": {"ä": [1, {"b": None}]},
        "list of blocks": [{"type": "text", "text": "t"}],
        "empty": [],
        "list of str": ["a", "b"],
        "set": {2, 1},
        "bytes": b"abc",
        "model": Line(item="cup"),
        "nested model": {"line": Line(item="cüp")},
        "enum": Shade.LIGHT,
        "tuple": (1, 2),
    }[kind]


@tool
async def slow_double(x: str) -> str:
    """An async tool."""
    await asyncio.sleep(0)
    return x * 2


def _both(x: str) -> str:
    return f"sync {x}"


async def _both_async(x: str) -> str:
    return f"async {x}"


both = StructuredTool.from_function(_both, _both_async, name="both", description="Sync and async.")


def settled(**settings: Any) -> BaseTool:
    return fail.model_copy(update=settings)


class OwnRun(BaseTool):
    name: str = "own_run"
    description: str = "A tool class."

    def _run(self, x: str) -> str:
        return f"class {x}"


single = Tool(name="single", description="One text.", func=lambda text: f"<{text}>")

CASES: list[tuple[str, BaseTool, dict[str, Any]]] = [
    ("plain", add, {"a": 1, "b": 5}),
    ("default", add, {"a": 1}),
    ("converted", add, {"a": "1"}),
    ("missing argument", add, {}),
    ("wrong argument", add, {"a": "x", "b": "y"}),
    ("unknown argument", add, {"a": 1, "zzz": 2}),
    ("nested models", order, {"lines": [{"item": "cup"}], "shade": "light"}),
    ("nested wrong", order, {"lines": [{"count": "x"}]}),
    ("alias and extras", aliased, {"ex": 4, "more": 1}),
    ("alias by default", aliased, {}),
    ("validator", aliased, {"ex": 5}),
    ("json schema", loose, {"q": "hi"}),
    ("json schema missing", loose, {}),
    ("no parameters", nothing, {}),
    ("no parameters, but arguments", nothing, {"x": 1}),
    ("variadic", many, {}),
    ("config", configured, {"a": 1}),
    *[(f"artifact {kind}", chart, {"kind": kind}) for kind in ("pair", "blocks", "none", "three")],
    *[(f"raises {kind}", fail, {"kind": kind}) for kind in ("tool", "value", "validation", "interrupt")],
    *[
        (f"raises {kind}, {flag!r}", settled(handle_tool_error=flag, handle_validation_error=flag), {"kind": kind})
        for kind in ("tool", "value", "validation", "interrupt")
        for flag in (True, "calm", repr)
    ],
    ("wrong argument handled", add.model_copy(update={"handle_validation_error": True}), {}),
    *[(f"returns {kind}", message, {"kind": kind}) for kind in ("own", "command", "list", "mixed")],
    *[
        (f"value {kind}", value, {"kind": kind})
        for kind in (
            *("str", "int", "dict", "list of blocks", "empty", "list of str", "set", "bytes"),
            *("model", "nested model", "enum", "tuple"),
        )
    ],
    ("async only", slow_double, {"x": "ab"}),
    ("sync and async", both, {"x": "1"}),
    ("tool class", OwnRun(), {"x": "1"}),
    ("single text", single, {"__arg1": "hi"}),
    ("single text, too many", single, {"a": "hi", "b": "ho"}),
]
# langchain-core gives these another text: its own, or Python's notation where there is a JSON form.
OURS = {
    *("value empty", "value list of str", "value set", "value bytes", "value model", "value nested model"),
    "value enum",
    *("artifact none", "artifact three", "returns mixed", "returns command", "returns list", "raises validation"),
}
ENOUGH = RunnableConfig(configurable={"user": "ann"}, metadata={}, tags=[], callbacks=None)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        result = call()
    except ToolInvocationError as error:
        return "raised", type(error.source), str(error.source)
    except Exception as error:
        return "raised", type(error), str(error)
    if isinstance(result, dict):
        (result,) = result["messages"]
    if isinstance(result, list):
        return [_without_ids(item) for item in result]
    return _without_ids(result)


def _without_ids(item: Any) -> Any:
    if isinstance(item, ToolMessage):
        return item.model_copy(update={"id": None})
    return str(item).split("id='")[0] if isinstance(item, Command) else {"messages": "answer"}


def in_node(the_tool: BaseTool, args: dict[str, Any], config: RunnableConfig, *, is_async: bool) -> Callable[[], Any]:
    node = ToolsNode({the_tool.name: prepare(the_tool)}, "raise")
    call = [ToolCall(name=the_tool.name, args=args, id="c", type="tool_call")]
    if is_async:
        return lambda: asyncio.run(node.ainvoke(call, config))
    return lambda: node.invoke(call, config)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("name", "the_tool", "args"), CASES, ids=[name for name, *_ in CASES])
def test_a_listened_to_call_has_the_result_of_one_nobody_listens_to(
    name: str, the_tool: BaseTool, args: dict[str, Any], is_async: bool
) -> None:
    listened_to: RunnableConfig = {**ENOUGH, "callbacks": [BaseCallbackHandler()]}
    alone = outcome(in_node(the_tool, args, ENOUGH, is_async=is_async))
    assert alone == outcome(in_node(the_tool, args, listened_to, is_async=is_async))


@pytest.mark.parametrize(
    ("name", "the_tool", "args"),
    [case for case in CASES if case[0] not in OURS and case[1] is not slow_double],
    ids=[name for name, *_ in CASES if name not in OURS and name != "async only"],
)
def test_the_result_is_that_of_langchain_cores_own_invoke(name: str, the_tool: BaseTool, args: dict[str, Any]) -> None:
    call = ToolCall(name=the_tool.name, args=args, id="c", type="tool_call")
    theirs = outcome(lambda: the_tool.invoke(call, ENOUGH))
    assert outcome(in_node(the_tool, args, ENOUGH, is_async=False)) == theirs


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        self.seen.append(("start", serialized["name"], kwargs["inputs"], kwargs["tool_call_id"]))

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.seen.append(("end", output.content))

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.seen.append(("error", type(error)))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_listener_is_told_of_start_end_and_error(is_async: bool) -> None:
    recorder = Recorder()
    config: RunnableConfig = {**ENOUGH, "callbacks": CallbackManager([recorder])}
    outcome(in_node(configured, {"a": 1}, config, is_async=is_async))
    outcome(in_node(fail, {"kind": "value"}, config, is_async=is_async))
    assert recorder.seen == [
        ("start", "configured", {"a": 1}, "c"),
        ("end", "1 ann ann"),
        ("start", "fail", {"kind": "value"}, "c"),
        ("error", ValueError),
    ]


def test_every_kind_of_listener_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not calling.listens(add, ensure_config())
    assert calling.listens(add, {"callbacks": [BaseCallbackHandler()]})
    assert calling.listens(add, {"callbacks": CallbackManager([BaseCallbackHandler()])})
    assert not calling.listens(add, {"callbacks": CallbackManager([])})
    assert calling.listens(add.model_copy(update={"callbacks": [BaseCallbackHandler()]}), {})
    assert calling.listens(add.model_copy(update={"verbose": True}), {})
    set_debug(True)
    try:
        assert calling.listens(add, {})
    finally:
        set_debug(False)
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("handler", default=None)
    monkeypatch.setattr(calling, "global_handlers", [(variable, True, None, None)])
    assert not calling.listens(add, {})
    variable.set(BaseCallbackHandler())
    assert calling.listens(add, {})


@pytest.mark.parametrize("callbacks", [None, [BaseCallbackHandler()]])
def test_what_a_tool_sets_in_its_context_is_not_seen_by_the_next_attempt(callbacks: Any) -> None:
    secret: contextvars.ContextVar[str] = contextvars.ContextVar("secret", default="unset")

    @tool
    def leak() -> str:
        """Set a context variable."""
        before = secret.get()
        secret.set("leaked")
        return before

    call = in_node(leak, {}, {**ENOUGH, "callbacks": callbacks}, is_async=False)
    assert [outcome(call).content, outcome(call).content, secret.get()] == ["unset", "unset", "unset"]


def limited(the_tool: BaseTool, seconds: float) -> BaseTool:
    return the_tool.model_copy(update={"metadata": {"timeout": seconds}})


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_tool_beyond_its_time_limit_is_abandoned_and_told(kind: str, is_async: bool) -> None:
    release, cancelled = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        release.wait(LIMIT)
        return "too late"

    @tool("wait")
    async def await_() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    the_tool = limited(wait if kind == "sync" else await_, 0.05)
    node = ToolsNode({"wait": prepare(the_tool)})
    call = [ToolCall(name="wait", args={}, id="c", type="tool_call")]
    started = time.monotonic()
    result = asyncio.run(node.ainvoke(call, ENOUGH)) if is_async else node.invoke(call, ENOUGH)
    assert time.monotonic() - started < LIMIT
    (answer,) = result["messages"]
    assert (answer.status, answer.tool_call_id) == ("error", "c")
    assert "'wait' took longer than its limit of 0.05 seconds" in answer.content
    assert kind == "sync" or cancelled.wait(LIMIT)
    with pytest.raises(ToolTimeoutError, match=r"0\.05 seconds"):
        ToolsNode({"wait": prepare(the_tool)}, "raise").invoke(call, ENOUGH)
    release.set()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tools_own_timeout_error_is_not_taken_for_the_limit(is_async: bool) -> None:
    @tool
    async def fetch() -> str:
        """Fetch."""
        raise TimeoutError("the other server")

    assert outcome(in_node(limited(fetch, LIMIT), {}, ENOUGH, is_async=is_async)) == (
        "raised",
        TimeoutError,
        "the other server",
    )
