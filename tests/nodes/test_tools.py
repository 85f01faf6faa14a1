"""The agent's tools node: errors, hooks, the state, ways out; sync and async over the same tables."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
import pytest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import END
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, ValidationError

from agentgraph.errors import ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools import failures
from agentgraph.tools.prepare import prepare

LIMIT = 10.0


def call(name: str, call_id: str = "c", **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, id=call_id, type="tool_call")


def node_of(*tools: Any, on_tool_error: Any = "return", middleware: tuple[Any, ...] = ()) -> ToolsNode:
    prepared = [prepare(one) for one in tools]
    return ToolsNode({one.name: one for one in prepared}, on_tool_error, middleware)


def run(node: ToolsNode, the_call: ToolCall, *, is_async: bool = False) -> Any:
    return asyncio.run(node.ainvoke([the_call])) if is_async else node.invoke([the_call])


def only(result: Any) -> tuple[str, str, str, str]:
    (message,) = result["messages"]
    assert message.id
    return message.name, message.tool_call_id, message.status, message.content


both_ways = pytest.mark.parametrize("is_async", [False, True])


@tool
def fail(kind: str) -> str:
    """Raise."""
    raise ValueError(kind)


@tool
def move(x: int, to: str, n: int = 1) -> str:
    """Move."""
    return f"{x} {to} {n}"


class Wrapping(AgentMiddleware):
    """A hook made of a function, in one or both halves."""

    def __init__(self, wrap: Callable[..., Any]) -> None:
        super().__init__()
        self.wrap = wrap

    def wrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Any:
        return self.wrap(request, handler)


@both_ways
def test_a_hook_that_only_passes_on_changes_nothing(is_async: bool) -> None:
    node = node_of(fail, middleware=(Wrapping(lambda request, handler: handler(request)),))
    assert only(run(node, call("fail", kind="value"), is_async=is_async))[3].startswith(
        "Error: the tool 'fail' failed with ValueError: value\n"
    )


@both_ways
def test_a_hook_sees_a_tools_error_as_an_exception_and_can_try_again(is_async: bool) -> None:
    tries: list[int] = []

    @tool
    def flaky() -> str:
        """Fail twice."""
        tries.append(1)
        if len(tries) < 3:
            raise TimeoutError("slow")
        return "ok"

    def retry(request: ToolCallRequest, handler: Any) -> Any:
        for _ in range(5):
            try:
                return handler(request)
            except TimeoutError:
                continue
        return None

    assert only(run(node_of(flaky, middleware=(Wrapping(retry),)), call("flaky"), is_async=is_async))[3] == "ok"
    assert len(tries) == 3


@both_ways
def test_wrong_arguments_reach_a_hook_as_a_message(is_async: bool) -> None:
    seen: list[str] = []

    def look(request: ToolCallRequest, handler: Any) -> Any:
        result = handler(request)
        seen.append(result.status)
        return result

    run(node_of(move, middleware=(Wrapping(look),)), call("move"), is_async=is_async)
    assert seen == ["error"]


@both_ways
def test_an_error_of_a_hook_itself_is_raised(is_async: bool) -> None:
    def broken(request: ToolCallRequest, handler: Any) -> Any:
        handler(request)
        raise KeyError("a bug of the hook")

    with pytest.raises(KeyError, match="a bug of the hook"):
        run(node_of(move, middleware=(Wrapping(broken),)), call("move", x=1, to="b"), is_async=is_async)


@both_ways
def test_a_hook_can_let_a_tools_error_out(is_async: bool) -> None:
    def strict(request: ToolCallRequest, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            raise failures.let_out(error) from None

    with pytest.raises(ValueError, match="value"):
        run(node_of(fail, middleware=(Wrapping(strict),)), call("fail", kind="value"), is_async=is_async)


@both_ways
@pytest.mark.parametrize("result", ["text", None, [], ["text"], {"messages": []}])
def test_a_hook_that_returns_no_result_is_told_what_was_expected(result: Any, is_async: bool) -> None:
    node = node_of(move, middleware=(Wrapping(lambda *_: result),))
    with pytest.raises(ConfigurationTypeError, match=r"wrap_tool_call hook returned .*expected.*Was a `return`"):
        run(node, call("move", x=1, to="b"), is_async=is_async)


@both_ways
def test_a_hooks_own_message_answers_the_call_whatever_id_it_has(is_async: bool) -> None:
    node = node_of(middleware=(Wrapping(lambda *_: ToolMessage("short", tool_call_id="?", name="other")),))
    assert only(run(node, call("nobody"), is_async=is_async)) == ("other", "c", "success", "short")


@both_ways
def test_a_hook_can_run_a_tool_that_nobody_registered_with_injection(is_async: bool) -> None:
    @tool
    def dynamic(x: int, rt: ToolRuntime) -> str:
        """Dynamic."""
        return f"{x} {rt.tool_call_id}"

    def bring(request: ToolCallRequest, handler: Any) -> Any:
        assert request.tool is None
        return handler(request.override(tool=dynamic))

    node = node_of(middleware=(Wrapping(bring),))
    for call_id in "ab":
        result = run(node, call("dynamic", call_id, x=1, rt="forged"), is_async=is_async)
        assert only(result) == ("dynamic", call_id, "success", f"1 {call_id}")


@both_ways
def test_a_hook_can_change_arguments_and_state_on_a_copy(is_async: bool) -> None:
    @tool
    def where(x: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Where."""
        return f"{x} {state['place']}"

    def change(request: ToolCallRequest, handler: Any) -> Any:
        return handler(request.override(tool_call={**request.tool_call, "args": {"x": 2}}, state={"place": "Rome"}))

    the_call = call("where", x=1)
    assert only(run(node_of(where, middleware=(Wrapping(change),)), the_call, is_async=is_async))[3] == "2 Rome"
    assert the_call == call("where", x=1)


@both_ways
def test_commands_to_the_end_to_the_parent_and_direct_returns_are_wishes(is_async: bool) -> None:
    @tool
    def act(kind: str, runtime: ToolRuntime) -> Any:
        """Act."""
        own = ToolMessage("mine", tool_call_id=runtime.tool_call_id or "", id="m", name="act")
        return {
            "end": Command(goto=END, update={"n": 1, "messages": [own]}),
            "jump": Command(update={"n": 1, "jump_to": "end", "messages": [own]}),
            "no jump": Command(update={"jump_to": None, "messages": [own]}),
            "parent": Command(graph=Command.PARENT, goto="next", update={"messages": [own]}),
            "parent alone": Command(graph=Command.PARENT, goto="next"),
        }[kind]

    def result(kind: str) -> Any:
        return run(node_of(act), call("act", kind=kind), is_async=is_async)

    own = ToolMessage("mine", tool_call_id="c", id="m", name="act")
    end = {"tool_exits": [{"kind": "end"}]}
    assert result("end") == [Command(goto=[], update={"n": 1, "messages": [own]}), end]
    assert result("jump") == [Command(update=[("n", 1), ("messages", [own])]), end]
    assert result("no jump") == [Command(update=[("messages", [own])])]
    up = Command(graph=Command.PARENT, goto="next", update={"messages": [own]})
    assert result("parent") == {"messages": [own], "tool_exits": [{"kind": "parent", "command": up}]}
    alone = result("parent alone")
    assert alone["tool_exits"] == [{"kind": "parent", "command": Command(graph=Command.PARENT, goto="next")}]
    assert only(alone) == ("act", "c", "success", "Done.")


@both_ways
def test_a_direct_return_is_a_wish_unless_the_tool_failed(is_async: bool) -> None:
    direct = fail.model_copy(update={"return_direct": True})
    good = move.model_copy(update={"return_direct": True})
    assert run(node_of(good), call("move", x=1, to="b"), is_async=is_async)["tool_exits"] == [{"kind": "return_direct"}]
    assert "tool_exits" not in run(node_of(direct), call("fail", kind="value"), is_async=is_async)


@pytest.mark.parametrize("given", [{"messages": []}, [], [call("a"), call("b")], "x", [1]])
def test_an_input_that_is_not_one_call_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match=r"expected was a list of one call.*ToolNode"):
        node_of(move).invoke(given)


def graph_of(node: ToolsNode, *calls: ToolCall, **compiling: Any) -> tuple[Any, dict[str, Any]]:
    """A graph that sends each call to the node, and its input."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_conditional_edges(START, lambda s: [Send("tools", [c]) for c in s["messages"][-1].tool_calls], ["tools"])
    return graph.compile(**compiling), {"messages": [AIMessage("", id="ai", tool_calls=list(calls))]}


def contents(result: Any) -> list[str]:
    return [message.content for message in result["messages"][1:]]


@both_ways
def test_calls_run_side_by_side_and_answers_keep_the_order_of_the_calls(is_async: bool) -> None:
    together = threading.Barrier(3, timeout=LIMIT)

    @tool
    def meet(x: int) -> str:
        """Meet."""
        together.wait()
        return f"met {x}"

    graph, given = graph_of(node_of(meet), *[call("meet", f"c{n}", x=n) for n in range(3)])
    result = asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
    assert contents(result) == ["met 0", "met 1", "met 2"]


@both_ways
def test_an_interrupt_in_a_tool_pauses_the_run_and_its_answer_comes_back(is_async: bool) -> None:
    @tool
    def ask(question: str) -> str:
        """Ask."""
        return f"{question} {interrupt(question)}"

    graph, given = graph_of(node_of(ask), call("ask", question="Sure?"), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}

    async def go() -> tuple[Any, Any]:
        return await graph.ainvoke(given, config), await graph.ainvoke(Command(resume="yes"), config)

    paused, result = (
        asyncio.run(go()) if is_async else (graph.invoke(given, config), graph.invoke(Command(resume="yes"), config))
    )
    assert [one.value for one in paused["__interrupt__"]] == ["Sure?"]
    assert contents(result) == ["Sure? yes"]


class Answer(BaseModel):
    n: int


@both_ways
def test_an_answer_to_an_interrupt_that_does_not_fit_is_not_told_to_the_model(is_async: bool) -> None:
    @tool
    def ask() -> str:
        """Ask."""
        return f"got {interrupt('How many?', response_schema=Answer).n}"

    graph, given = graph_of(node_of(ask), call("ask"), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}

    def step(value: Any) -> Any:
        return asyncio.run(graph.ainvoke(value, config)) if is_async else graph.invoke(value, config)

    step(given)
    with pytest.raises(ValidationError):
        step(Command(resume={"n": "many"}))
    assert contents(step(Command(resume={"n": 3}))) == ["got 3"]


def subgraph_tool(inner: Any, *, asynchronous: bool) -> BaseTool:
    """A tool that runs another graph without passing any configuration."""

    @tool
    def delegate(task: str) -> str:
        """Delegate."""
        return str(inner.invoke({"messages": [("user", task)]})["messages"][-1].content)

    @tool("delegate")
    async def adelegate(task: str) -> str:
        """Delegate."""
        return str((await inner.ainvoke({"messages": [("user", task)]}))["messages"][-1].content)

    return adelegate if asynchronous else delegate


@both_ways
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_graph_in_a_tool_streams_under_its_own_namespace(asynchronous: bool, is_async: bool) -> None:
    def echo(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"<{state['messages'][-1].content}>")]}

    inner = StateGraph(MessagesState).add_node("echo", echo).add_edge(START, "echo").compile()
    graph, given = graph_of(node_of(subgraph_tool(inner, asynchronous=asynchronous)), call("delegate", task="x"))

    async def collect() -> list[Any]:
        return [part async for part in graph.astream(given, stream_mode="updates", subgraphs=True)]

    parts = asyncio.run(collect()) if is_async else list(graph.stream(given, stream_mode="updates", subgraphs=True))
    names = [(tuple(step.split(":")[0] for step in namespace), *update) for namespace, update in parts]
    assert names == [(("tools",), "echo"), ((), "tools")]
    assert parts[1][1]["tools"]["messages"][0].content == "<x>"


@pytest.mark.parametrize("wrapped", [False, True])
async def test_cancelling_the_run_cancels_the_running_tool(wrapped: bool) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    passing = (Wrapping(lambda request, handler: handler(request)),) if wrapped else ()
    graph, given = graph_of(node_of(wait, middleware=passing), call("wait"))
    task = asyncio.create_task(graph.ainvoke(given))
    await asyncio.wait_for(started.wait(), LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), LIMIT)


async def test_two_hundred_blocking_tools_that_each_run_a_graph_do_not_deadlock() -> None:
    all_in = threading.Barrier(200, timeout=LIMIT * 3)

    def echo(state: MessagesState) -> dict[str, Any]:
        all_in.wait()
        return {"messages": [AIMessage(f"<{state['messages'][-1].content}>")]}

    inner = StateGraph(MessagesState).add_node("echo", echo).add_edge(START, "echo").compile()
    calls = [call("delegate", f"c{n}", task=f"{n}") for n in range(200)]
    graph, given = graph_of(node_of(subgraph_tool(inner, asynchronous=False)), *calls)
    async with asyncio.timeout(LIMIT * 4):
        result = await graph.ainvoke(given)
    assert contents(result) == [f"<{n}>" for n in range(200)]


@both_ways
def test_after_the_first_call_nothing_is_analysed_again(is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def fetch(x: int, rt: ToolRuntime, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Fetch."""
        return f"{x}"

    node = node_of(move, fetch)
    calls = [call("move", x=1, to="b"), call("fetch", x=1)]
    before = [only(run(node, one, is_async=is_async)) for one in calls]
    counted: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        def count(*_: Any, **__: Any) -> Any:
            counted.append(name)
            raise AssertionError(f"{name} in a call")

        return count

    monkeypatch.setattr(inspect, "signature", counting("inspect.signature"))
    monkeypatch.setattr(pydantic, "create_model", counting("create_model"))
    monkeypatch.setattr("agentgraph.tools.prepare.create_model", counting("create_model"))
    monkeypatch.setattr("agentgraph.tools.prepare.convert_to_openai_tool", counting("conversion"))
    monkeypatch.setattr("langchain_core.utils.function_calling.convert_to_openai_tool", counting("conversion"))
    assert [only(run(node, one, is_async=is_async)) for one in calls] == before
    assert counted == []
