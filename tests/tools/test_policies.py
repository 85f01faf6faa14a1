"""Users' functions that decide what is told of an error: sync and async, in both kinds of runs, and marks of errors."""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from agentgraph.errors import ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools import ToolNode, failures
from agentgraph.tools.prepare import prepare

LIMIT = 10.0
both_ways = pytest.mark.parametrize("is_async", [False, True])

CALL = ToolCall(name="fail", args={}, id="c", type="tool_call")


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


def node_of(policy: Any, *middleware: Any, of: Any = fail) -> ToolsNode:
    return ToolsNode({"fail": prepare(of)}, failures.check_policy(policy), middleware)


def run(node: Any, is_async: bool) -> Any:
    return asyncio.run(node.ainvoke([CALL])) if is_async else node.invoke([CALL])


def only(result: Any) -> tuple[str, str]:
    (message,) = result["messages"]
    return message.status, message.content


def plain(error: Exception, *_: Any) -> str:
    return f"told {error}"


async def coroutine(error: Exception, *_: Any) -> str:
    await asyncio.sleep(0)
    return f"told {error}"


class Plain:
    def __call__(self, error: Exception, *_: Any) -> str:
        return f"told {error}"


class Asynchronous:
    async def __call__(self, error: Exception, *_: Any) -> str:
        await asyncio.sleep(0)
        return f"told {error}"


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "function": plain,
    "async function": coroutine,
    "object": Plain(),
    "async object": Asynchronous(),
    "method": Plain().__call__,
    "async method": Asynchronous().__call__,
    "partial": functools.partial(plain),
    "async partial": functools.partial(coroutine),
    "async in a lambda": lambda error, *_: coroutine(error),
}


@both_ways
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_form_of_function_tells_the_model(kind: str, is_async: bool) -> None:
    assert only(run(node_of(FUNCTIONS[kind]), is_async)) == ("error", "told broken")


@both_ways
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_form_of_function_tells_the_model_in_a_tool_node(kind: str, is_async: bool) -> None:
    node = ToolNode([fail], handle_tool_errors=FUNCTIONS[kind])
    assert only(run(node, is_async)) == ("error", "told broken")


@both_ways
def test_an_async_function_may_raise_the_error_or_give_a_message(is_async: bool) -> None:
    async def decide(error: Exception, request: Any) -> Any:
        await asyncio.sleep(0)
        return given

    given: Any = None
    with pytest.raises(ValueError, match="broken"):
        run(node_of(decide), is_async)
    given = ToolMessage("own", tool_call_id="")
    assert only(run(node_of(decide), is_async)) == ("success", "own")


@both_ways
@pytest.mark.parametrize("odd", [5, b"text", ["text"], Command(), object, {"content": "x"}])
def test_a_function_that_returns_neither_text_nor_message_is_an_error_of_the_run(odd: Any, is_async: bool) -> None:
    said = r"on_tool_error <function .* returned .*; expected the text for the model, a ToolMessage, or None"
    with pytest.raises(ConfigurationTypeError, match=said) as caught:
        run(node_of(lambda *_: odd), is_async)
    assert isinstance(caught.value.__context__, ValueError)


@both_ways
def test_a_function_of_a_tool_node_that_returns_no_text_is_an_error(is_async: bool) -> None:
    node = ToolNode([fail], handle_tool_errors=lambda _: 5)  # type: ignore[arg-type, return-value] # given on purpose
    with pytest.raises(ConfigurationTypeError, match=r"handle_tool_errors <function .* returned 5; expected the text"):
        run(node, is_async)


MAKERS: list[Callable[[Any], Any]] = [
    lambda policy: ToolsNode({"fail": prepare(fail)}, policy),
    lambda policy: ToolNode([fail], handle_tool_errors=policy),
    # Wrong arguments are told within the hooks, by another way than the tool's own errors.
    lambda policy: ToolsNode({"fail": prepare(picky)}, policy),
]


@tool("fail")
def picky(x: int) -> str:
    """Need an argument."""
    return f"{x}"


@pytest.mark.parametrize("make", MAKERS)
async def test_a_blocking_function_does_not_block_the_event_loop(make: Callable[[Any], Any]) -> None:
    entered, free = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("seen")

    def block(error: Exception, *_: Any) -> str:
        loop.call_soon_threadsafe(entered.set)
        assert free.wait(LIMIT)
        return variable.get()

    running = asyncio.create_task(make(block).ainvoke([CALL]))
    await asyncio.wait_for(entered.wait(), LIMIT)
    free.set()
    result = await asyncio.wait_for(running, LIMIT)
    assert only(result) == ("error", "seen")


@both_ways
def test_a_function_may_ask_a_person(is_async: bool) -> None:
    def ask(error: Exception, request: Any) -> str:
        return f"a person said {interrupt(str(error))}"

    graph = StateGraph(MessagesState)
    graph.add_node("tools", node_of(ask))
    graph.add_conditional_edges(START, lambda s: [Send("tools", [c]) for c in s["messages"][-1].tool_calls], ["tools"])
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}

    def step(given: Any) -> Any:
        return asyncio.run(compiled.ainvoke(given, config)) if is_async else compiled.invoke(given, config)

    paused = step({"messages": [AIMessage("", id="ai", tool_calls=[CALL])]})
    assert [one.value for one in paused["__interrupt__"]] == ["broken"]
    assert step(Command(resume="go on"))["messages"][-1].content == "a person said go on"


class Permissive(Exception):  # noqa: N818 - as mocks are
    """Has every attribute one asks for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return True


@tool("fail")
def mocked() -> str:
    """Fail with a mock."""
    raise Permissive("mock")


@both_ways
def test_an_error_with_every_attribute_is_still_told_to_the_model(is_async: bool) -> None:
    status, text = only(run(node_of("return", of=mocked), is_async))
    assert (status, text.splitlines()[0]) == ("error", "Error: the tool 'fail' failed with Permissive: mock")
    assert only(run(ToolNode([mocked], handle_tool_errors="told"), is_async)) == ("error", "told")


class Raising(AgentMiddleware):
    """Raises what it was given, the sync way."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        raise self.error


@both_ways
def test_a_hooks_error_with_every_attribute_is_not_taken_for_the_tools(is_async: bool) -> None:
    with pytest.raises(Permissive, match="hook"):
        run(node_of("return", Raising(Permissive("hook"))), is_async)


class Passing(AgentMiddleware):
    """Lets a tool's errors out, or not."""

    def __init__(self, treat: Callable[[Exception], Exception]) -> None:
        super().__init__()
        self.treat = treat

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        try:
            return await handler(request)
        except Exception as error:
            raise self.treat(error) from None


@both_ways
def test_an_error_is_let_out_only_by_its_mark(is_async: bool) -> None:
    with pytest.raises(Permissive, match="mock"):
        run(node_of("return", Passing(failures.let_out), of=mocked), is_async)
    assert only(run(node_of("return", Passing(lambda error: error), of=mocked), is_async))[0] == "error"
