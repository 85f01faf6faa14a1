"""Our ToolNode against langgraph's: the same inputs give the same shapes; only the wording of errors is our own."""

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph._internal._constants import CONF, CONFIG_KEY_RUNTIME
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.prebuilt import ToolNode as TheirNode
from langgraph.runtime import Runtime
from langgraph.types import Command, Send
from pydantic import BaseModel

from agentgraph.errors import ConfigurationError
from agentgraph.tools import ToolNode, tools_condition

LIMIT = 10.0
CONFIG: Any = {CONF: {CONFIG_KEY_RUNTIME: Runtime(context={"user": "ann"})}}


def call(name: str, call_id: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, id=call_id, type="tool_call")


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def where(x: str, runtime: ToolRuntime[Any, Any], state: Annotated[Any, InjectedState]) -> str:
    """Where."""
    kind = type(state).__name__
    return f"{x} {runtime.tool_call_id} {runtime.context['user']} {kind}"


@tool
def here(x: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Here."""
    return f"{x} {runtime.tool_call_id} {runtime.context['user']}"


@tool
def fail(kind: str) -> Any:
    """Raise."""
    raise {"value": ValueError("no"), "tool": ToolException("agreed"), "interrupt": GraphInterrupt()}[kind]


@tool
def command(kind: str, runtime: ToolRuntime[Any, Any]) -> Any:
    """Return commands and messages."""
    own = ToolMessage("mine", tool_call_id=runtime.tool_call_id or "")
    return {
        "dict": Command(update={"messages": [own]}),
        "list": Command(update=[own]),
        "goto": Command(goto="other", update={"messages": [own]}),
        "up": Command(graph=Command.PARENT, goto=[Send("a", 1)]),
        "up by name": Command(graph=Command.PARENT, goto="a", update={"messages": [own]}),
        "several": [own, Command(update={"n": 1})],
        "message": own,
        "blocks": [{"type": "text", "text": "t"}],
        "dict value": {"ä": 1},
    }[kind]


TOOLS: list[BaseTool] = [add, here, fail, command]


class StateModel(BaseModel):
    messages: list[Any]


@dataclasses.dataclass
class StateData:
    messages: list[Any]


def asking(*calls: ToolCall) -> list[Any]:
    return [HumanMessage("hi", id="h"), AIMessage("", id="ai", tool_calls=list(calls))]


PLAIN = (call("add", "1", a=1, b=2), call("here", "2", x="Rome"))
INPUTS: dict[str, Any] = {
    "state": {"messages": asking(*PLAIN)},
    "list of messages": asking(*PLAIN),
    "list of calls": list(PLAIN),
    "model": StateModel(messages=asking(*PLAIN)),
    "dataclass": StateData(messages=asking(*PLAIN)),
    "no calls": {"messages": asking()},
    "call with context": {"__type": "tool_call_with_context", "tool_call": PLAIN[1], "state": {"messages": []}},
    "unknown tool": {"messages": asking(call("nobody", "1"), PLAIN[0])},
    "wrong arguments": {"messages": asking(call("add", "1", a="x"))},
    "earlier calls": {"messages": [*asking(call("add", "0", a=5, b=5)), *asking(*PLAIN)]},
    "after the answer": {"messages": [*asking(*PLAIN), HumanMessage("go on", id="h2")]},
    "interrupt": {"messages": asking(call("fail", "1", kind="interrupt"))},
    "no messages": {"messages": []},
    "no AI message": {"messages": [HumanMessage("hi")]},
    "nothing": {},
    **{
        f"command {kind}": {"messages": asking(call("command", "1", kind=kind), PLAIN[0])}
        for kind in ("dict", "goto", "up", "up by name", "several", "message", "blocks", "dict value")
    },
    "command in a list": asking(call("command", "1", kind="list"), PLAIN[0]),
    "two up": {"messages": asking(call("command", "1", kind="up"), call("command", "2", kind="up"))},
}


def of_value_error(error: ValueError) -> str:
    return f"handled {error}"


def of_two(error: ValueError | ToolException) -> str:
    return f"handled {error}"


def of_any(error: Any) -> str:
    return f"handled {type(error).__name__}"


def of_exception(error) -> str:  # type: ignore[no-untyped-def] # as users write it
    return f"handled {type(error).__name__}"


HANDLING: dict[str, Any] = {
    "True": True,
    "False": False,
    "text": "calm",
    "type": ValueError,
    "types": (KeyError, ToolException),
    "function of ValueError": of_value_error,
    "function of two": of_two,
    "function of all": of_exception,
}
OWN_WORDING = "..."


def shape(result: Any, *, words: bool = True) -> Any:
    """A result without ids and, where the wording is our own, without the text of errors."""
    if isinstance(result, ToolMessage):
        text = result.content if words or result.status != "error" else OWN_WORDING
        return ("message", result.name or "command", result.tool_call_id, result.status, text)
    if isinstance(result, Command):
        return ("command", shape(result.update), result.goto, result.graph)
    if isinstance(result, list):
        return [shape(item, words=words) for item in result]
    return {key: shape(item, words=words) for key, item in result.items()} if isinstance(result, dict) else result


def outcome(node: Any, given: Any, *, is_async: bool, words: bool = True) -> Any:
    try:
        result = asyncio.run(node.ainvoke(given, CONFIG)) if is_async else node.invoke(given, CONFIG)
    except Exception as error:
        return type(error)
    return shape(result, words=words)


both_ways = pytest.mark.parametrize("is_async", [False, True])


@both_ways
@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_gives_the_output_of_langgraphs_node(kind: str, is_async: bool) -> None:
    ours = outcome(ToolNode(TOOLS), INPUTS[kind], is_async=is_async, words=False)
    assert ours == outcome(TheirNode(TOOLS), INPUTS[kind], is_async=is_async, words=False)


@both_ways
@pytest.mark.parametrize("handling", HANDLING)
@pytest.mark.parametrize("kind", ["value", "tool", "interrupt"])
def test_errors_are_told_or_raised_as_by_langgraphs_node(kind: str, handling: str, is_async: bool) -> None:
    given = {"messages": asking(call("fail", "1", kind=kind))}
    words = handling == "text" or "function" in handling
    nodes = [cls(TOOLS, handle_tool_errors=HANDLING[handling]) for cls in (ToolNode, TheirNode)]
    ours, theirs = (outcome(node, given, is_async=is_async, words=words) for node in nodes)
    assert ours == theirs


@both_ways
def test_by_default_only_wrong_arguments_are_told(is_async: bool) -> None:
    node = ToolNode(TOOLS)
    (told,) = node.invoke({"messages": asking(call("add", "1", a=1))})["messages"]
    assert (told.status, "- b: Field required" in told.content) == ("error", True)
    assert outcome(node, {"messages": asking(call("fail", "1", kind="tool"))}, is_async=is_async) is ToolException


@pytest.mark.parametrize("handling", [None, 3, int, (ValueError, "x"), lambda error, b=1: "", KeyboardInterrupt])
def test_a_handling_that_is_none_is_refused_when_the_node_is_built(handling: Any) -> None:
    def wrong(error: int) -> str:
        return ""

    given = wrong if callable(handling) and not isinstance(handling, type) else handling
    with pytest.raises(ConfigurationError, match=r"handle_tool_errors is or names .*expected True, False"):
        ToolNode(TOOLS, handle_tool_errors=given)


def test_a_handler_annotated_with_any_is_told_of_every_error() -> None:
    node = ToolNode(TOOLS, handle_tool_errors=of_any)
    assert node.invoke([call("fail", "1", kind="value")])["messages"][0].content == "handled ValueError"


def passing(request: Any, execute: Callable[[Any], Any]) -> Any:
    return execute(request)


def doubling(request: Any, execute: Callable[[Any], Any]) -> Any:
    changed = {**request.tool_call, "args": {**request.tool_call["args"], "a": 10}}
    return execute(request.override(tool_call=changed))


def answering(request: Any, execute: Callable[[Any], Any]) -> Any:
    return ToolMessage("short", tool_call_id=request.tool_call["id"], name="add")


def breaking(request: Any, execute: Callable[[Any], Any]) -> Any:
    raise ValueError("a bug of the wrapper")


@both_ways
@pytest.mark.parametrize("wrap", [passing, doubling, answering, breaking])
@pytest.mark.parametrize("handling", [True, False])
def test_wrappers_work_as_in_langgraphs_node(wrap: Any, handling: bool, is_async: bool) -> None:
    given = {"messages": asking(*PLAIN[:1], call("add", "2", a="x"))}

    async def awrap(request: Any, execute: Any) -> Any:
        # The same wrapper, written for async runs.
        inner = wrap(request, lambda changed: ("execute", changed))
        return await execute(inner[1]) if isinstance(inner, tuple) else inner

    theirs = outcome(
        TheirNode(TOOLS, wrap_tool_call=wrap, awrap_tool_call=awrap, handle_tool_errors=handling),
        given,
        is_async=is_async,
        words=False,
    )
    for node in (
        ToolNode(TOOLS, wrap_tool_call=wrap, handle_tool_errors=handling),
        ToolNode(TOOLS, wrap_tool_call=wrap, awrap_tool_call=awrap, handle_tool_errors=handling),
    ):
        assert outcome(node, given, is_async=is_async, words=False) == theirs


@both_ways
def test_async_tools_run_in_sync_runs_too_and_get_what_they_ask_for(is_async: bool) -> None:
    for given, kind in ((INPUTS["state"], "dict"), (INPUTS["model"], "StateModel"), (INPUTS["list of calls"], "dict")):
        calls = [call("where", "9", x="Rome")]
        asked = calls if isinstance(given, list) else type(given)(messages=asking(*calls))
        result = outcome(ToolNode([where]), asked, is_async=is_async)
        assert result["messages"] == [("message", "where", "9", "success", f"Rome 9 ann {kind}")]


@both_ways
def test_calls_run_side_by_side(is_async: bool) -> None:
    together = threading.Barrier(3, timeout=LIMIT)

    @tool
    def meet(x: int) -> str:
        """Meet."""
        together.wait()
        return f"met {x}"

    node = ToolNode([meet], messages_key="chat", name="mine", tags=["t"])
    given = {"chat": asking(*[call("meet", f"c{n}", x=n) for n in range(3)])}
    result = asyncio.run(node.ainvoke(given)) if is_async else node.invoke(given)
    assert [message.content for message in result["chat"]] == ["met 0", "met 1", "met 2"]
    assert (node.name, node.tags, node.tools_by_name) == ("mine", ["t"], {"meet": meet})


async def test_a_failed_call_cancels_its_neighbours() -> None:
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

    @tool
    async def fail_then() -> str:
        """Fail."""
        await asyncio.wait_for(started.wait(), LIMIT)
        raise ValueError("no")

    node = ToolNode([wait, fail_then])
    with pytest.raises(ValueError, match="no"):
        await asyncio.wait_for(node.ainvoke({"messages": asking(call("wait", "1"), call("fail_then", "2"))}), LIMIT)
    assert cancelled.is_set()


@both_ways
def test_in_a_graph_a_send_carries_the_call_and_the_tool_sees_the_whole_state(is_async: bool) -> None:
    @tool
    def count(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Count."""
        return f"{len(state['messages'])} messages"

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([count]))
    graph.add_conditional_edges(START, lambda s: [Send("tools", [c]) for c in s["messages"][-1].tool_calls], ["tools"])
    given: Any = {"messages": asking(call("count", "1"))}
    compiled = graph.compile()
    result = asyncio.run(compiled.ainvoke(given)) if is_async else compiled.invoke(given)
    assert result["messages"][-1].content == "2 messages"


def test_the_condition_leads_to_the_tools_while_there_are_calls() -> None:
    assert tools_condition({"messages": asking(*PLAIN)}) == "tools"
    assert tools_condition({"messages": asking()}) == "__end__"


@both_ways
def test_a_call_that_cannot_be_read_is_answered_beside_the_others(is_async: bool) -> None:
    calls: list[Any] = [{"name": "add", "args": ["1"], "id": "x"}, {"name": "add", "args": {"a": 1, "b": 2}, "id": "y"}]
    message = AIMessage.model_construct(content="", tool_calls=calls)
    node = ToolNode([add], wrap_tool_call=lambda request, execute: execute(request))
    given = {"messages": [message]}
    result = asyncio.run(node.ainvoke(given)) if is_async else node.invoke(given)
    assert [(one.tool_call_id, one.status) for one in result["messages"]] == [("x", "error"), ("y", "success")]
    assert "its arguments are list ['1']" in result["messages"][0].content


@both_ways
def test_a_wrapper_that_answers_a_call_twice_is_blamed_itself(is_async: bool) -> None:
    def twice(request: Any, execute: Any) -> Any:
        return [execute(request), execute(request)]

    node = ToolNode([add], wrap_tool_call=twice)
    given = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "y", "type": "tool_call"}]
    with pytest.raises(
        ValueError, match=r"^The wrapper of the tool 'add' returned 2 messages that answer the call 'y'"
    ):
        asyncio.run(node.ainvoke(given)) if is_async else node.invoke(given)
