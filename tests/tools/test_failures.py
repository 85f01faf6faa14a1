"""What a model is told of the errors of tools; sync and async over the same tables."""

import asyncio
from typing import Annotated, Any

import pydantic
import pytest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.types import Send
from pydantic import BaseModel, ValidationError

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools import failures
from agentgraph.tools.prepare import prepare


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


class Inner(BaseModel):
    n: int


class Boom(Exception):  # noqa: N818 - as users write it
    def __str__(self) -> str:
        raise RuntimeError("no text")


@tool
def fail(kind: str, value: Annotated[Any, InjectedState("value")] = "hunter2") -> str:
    """Raise."""
    if kind == "validation":
        Inner.model_validate({"n": value})
    raise {
        "tool": ToolException("no such table: users"),
        "empty": ToolException(),
        "value": ValueError("out of range"),
        "long": ValueError("x" * 10_000),
        "textless": Boom(),
        "assert": AssertionError(),
        "exit": SystemExit(3),
        "interrupt": GraphInterrupt(),
        "cancel": asyncio.CancelledError(),
    }[kind]


AGAIN = "Correct the call, try another way, or say that it did not work."
TOLD = {
    "tool": "Error from the tool 'fail': no such table: users",
    "empty": "Error from the tool 'fail': it gave no reason.",
    "value": f"Error: the tool 'fail' failed with ValueError: out of range\n{AGAIN}",
    "textless": f"Error: the tool 'fail' failed with Boom\n{AGAIN}",
    "assert": f"Error: the tool 'fail' failed with AssertionError\n{AGAIN}",
    "validation": (
        "Error: the tool 'fail' failed with ValidationError: \n- n: Input should be a valid integer, unable to parse "
        f"string as an integer\n{AGAIN}"
    ),
}


@both_ways
@pytest.mark.parametrize("kind", TOLD)
def test_an_error_of_a_tool_is_told_to_the_model(kind: str, is_async: bool) -> None:
    assert only(run(node_of(fail), call("fail", kind=kind), is_async=is_async)) == ("fail", "c", "error", TOLD[kind])


def test_the_text_of_an_error_is_bounded() -> None:
    text = only(run(node_of(fail), call("fail", kind="long")))[3]
    assert len(text) == failures.TEXT_LIMIT


@both_ways
@pytest.mark.parametrize(("kind", "error"), [("exit", SystemExit), ("interrupt", GraphInterrupt)])
def test_control_flow_and_exits_always_pass(kind: str, error: type[BaseException], is_async: bool) -> None:
    with pytest.raises(error):
        run(node_of(fail, on_tool_error=lambda *_: "told"), call("fail", kind=kind), is_async=is_async)


@tool
def move(x: int, to: str, n: int = 1) -> str:
    """Move."""
    return f"{x} {to} {n}"


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "missing": ({"x": 1}, ["- to: Field required"]),
    "wrong": (
        {"x": "one", "to": "b"},
        ["- x: Input should be a valid integer, unable to parse string as an integer (given 'one')"],
    ),
    "long": (
        {"x": "z" * 5000, "to": "b"},
        ["- x: Input should be a valid integer", "(given '" + "z" * 95 + " ...)"],
    ),
    "two": ({"x": []}, ["- x: ", "- to: Field required"]),
}


@both_ways
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_arguments_are_named_with_what_to_do(kind: str, is_async: bool) -> None:
    args, parts = WRONG[kind]
    name, call_id, status, text = only(run(node_of(move), call("move", **args), is_async=is_async))
    assert (name, call_id, status) == ("move", "c", "error")
    assert text.startswith("Error: the arguments of the tool 'move' are wrong; it was not run.\n")
    assert text.endswith("\nCall it again with corrected arguments.")
    assert all(part in text for part in parts), text


def test_injected_values_never_show_in_an_error_about_arguments() -> None:
    class Basket(MessagesState):
        secret: str

    class Checked(BaseModel):
        """Checked as a whole."""

        x: int
        secret: Annotated[int, InjectedState("secret")]

        @pydantic.model_validator(mode="before")
        @classmethod
        def whole(cls, given: Any) -> Any:
            if given.get("x") == 3:
                raise ValueError("x must not be 3")
            return given

    @tool(args_schema=Checked)
    def act(x: int, secret: int) -> str:
        """Act."""
        return f"{x} {secret}"

    graph = StateGraph(Basket)
    graph.add_node("tools", node_of(act))
    graph.add_conditional_edges(START, lambda s: [Send("tools", [c]) for c in s["messages"][-1].tool_calls], ["tools"])
    calls = [call("act", "a", x="q", secret="forged"), call("act", "b", x=1), call("act", "c", x=3)]
    result = graph.compile().invoke({"messages": [AIMessage("", tool_calls=calls)], "secret": "hunter2"})
    texts = [message.content for message in result["messages"][1:]]
    assert not any("hunter2" in text or "forged" in text for text in texts)
    assert "(given 'q')" in texts[0]
    assert texts[1] == (
        "Error: the tool 'act' was not run, because what the runtime adds to its arguments does not fit. "
        "Your arguments are not the reason; go on without this tool."
    )
    assert "- all arguments together: Value error, x must not be 3\n" in texts[2]


@both_ways
def test_an_unknown_tool_is_answered_with_the_names(is_async: bool) -> None:
    assert only(run(node_of(move, fail), call("moove"), is_async=is_async)) == (
        "moove",
        "c",
        "error",
        "Error: there is no tool named 'moove'. Did you mean 'move'? The tools are: move, fail.",
    )
    assert only(run(node_of(), call("x" * 999)))[3].endswith("The tools are: none.")


@both_ways
def test_raise_lets_the_tools_error_out(is_async: bool) -> None:
    node = node_of(fail, move, on_tool_error="raise")
    with pytest.raises(ValueError, match="out of range"):
        run(node, call("fail", kind="value"), is_async=is_async)
    with pytest.raises(ToolInvocationError) as caught:
        run(node, call("move"), is_async=is_async)
    assert isinstance(caught.value.source, ValidationError)
    assert caught.value.__cause__ is caught.value.source


@both_ways
@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("calm", ("fail", "c", "error", "calm")),
        (ToolMessage("own", tool_call_id="", status="success"), ("fail", "c", "success", "own")),
        (None, None),
    ],
)
def test_a_function_decides_what_is_told_of_an_error(said: Any, answer: Any, is_async: bool) -> None:
    seen: list[Any] = []

    def decide(error: Exception, request: ToolCallRequest) -> Any:
        seen.append((type(error), request.tool_call["args"]))
        return said

    node = node_of(fail, move, on_tool_error=decide)
    if answer is None:
        with pytest.raises(ValueError, match="out of range"):
            run(node, call("fail", kind="value"), is_async=is_async)
    else:
        assert only(run(node, call("fail", kind="value"), is_async=is_async)) == answer
        run(node, call("move"), is_async=is_async)
        assert seen == [(ValueError, {"kind": "value"}), (ToolInvocationError, {})]


def test_every_policy_is_taken_as_it_is() -> None:
    def decide(error: Exception, request: ToolCallRequest) -> None:
        """Raise."""

    policies: list[Any] = ["return", "raise", decide]
    assert [failures.check_policy(policy) for policy in policies] == policies


def test_only_the_first_wrong_arguments_are_listed() -> None:
    @tool
    def add(numbers: list[int]) -> int:
        """Add."""
        return sum(numbers)

    text = only(run(node_of(add), call("add", numbers=["x"] * 50)))[3]
    assert text.count("- numbers.") == 10
    assert "\n- and 40 more\n" in text


@pytest.mark.parametrize("policy", ["retrun", None, 3, ValueError, True])
def test_a_policy_that_is_none_is_refused(policy: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"on_tool_error is .*'return'.*'raise', or a function"):
        failures.check_policy(policy)
