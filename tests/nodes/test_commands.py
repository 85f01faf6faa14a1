"""What a command of a tool, or of a hook around it, may do; all else is a typed error out of the run."""

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import tool
from langgraph.channels import LastValue
from langgraph.constants import END
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools.prepare import prepare

both_ways = pytest.mark.parametrize("is_async", [False, True])
from_both = pytest.mark.parametrize("by_hook", [False, True])

CALL = ToolCall(name="act", args={}, id="c", type="tool_call")
FIELDS = {name: LastValue(Any) for name in ("messages", "city", "jump_to", "tool_exits", "ask_again")}


class Answering(AgentMiddleware):
    """Answers each call with what it was given."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        handler(request)
        return self.answer


def node_giving(answer: Any, *, by_hook: bool, channels: Any = FIELDS) -> ToolsNode:
    @tool
    def act() -> Any:
        """Act."""
        return "" if by_hook else answer

    return ToolsNode({"act": prepare(act)}, "return", (Answering(answer),) if by_hook else (), channels)


def run(node: ToolsNode, is_async: bool, given: Any = None) -> Any:
    given = [CALL] if given is None else given
    return asyncio.run(node.ainvoke(given)) if is_async else node.invoke(given)


REFUSED: dict[str, tuple[Command[Any], str]] = {
    "unknown field": (Command(update={"citty": "Rome"}), r"writes 'citty', which is no field .*did you mean 'city'"),
    "pairs": (Command(update=[("citty", "Rome")]), r"writes 'citty', which is no field"),
    "runtime's field": (Command(update={"tool_exits": []}), r"writes 'tool_exits', which is no field"),
    "text": (Command(update="zzz"), r"Command with update='zzz'; expected was a dict of state fields"),
    "messages": (Command(update=[HumanMessage("hi")]), r"Command with update=\[HumanMessage.*; expected was a dict"),
    "long": (Command(update="z" * 9999), r"update='z{95} \.\.\.; expected"),
    "model": (Command(goto="model"), r"goto='model'\. The edge out of the tools .*Command\.PARENT.*goto=END"),
    "nowhere": (Command(goto=[END, "nowhere"]), r"goto=\['__end__', 'nowhere'\]"),
    "send": (Command(goto=Send("tools", [CALL])), r"goto=Send\("),
    "graph": (Command(graph="other", goto="x"), r"graph='other'; expected Command\.PARENT"),
    "jump": (Command(update={"jump_to": "model"}), r"sets jump_to to 'model'.*\"end\" or goto=END"),
    "odd jump": (Command(update={"jump_to": ["end"]}), r"sets jump_to to \['end'\]"),
    "resume": (Command(resume="yes"), r"resume='yes', which only the caller"),
}


@both_ways
@from_both
@pytest.mark.parametrize("kind", REFUSED)
def test_a_command_of_which_a_part_would_vanish_is_an_error_of_the_run(
    kind: str, by_hook: bool, is_async: bool
) -> None:
    command, said = REFUSED[kind]
    blamed = "^The tool 'act', or a wrap_tool_call hook around it, " if by_hook else "^The tool 'act' "
    with pytest.raises(ConfigurationError, match=blamed + ".*" + said):
        run(node_giving(command, by_hook=by_hook), is_async)


@both_ways
@from_both
def test_an_update_without_a_field_is_an_error_of_type(by_hook: bool, is_async: bool) -> None:
    with pytest.raises(ConfigurationTypeError):
        run(node_giving(Command(update="zzz"), by_hook=by_hook), is_async)


@both_ways
@from_both
def test_such_a_command_in_a_list_is_an_error_as_well(by_hook: bool, is_async: bool) -> None:
    answer = [ToolMessage("ok", tool_call_id="c"), Command(update={"citty": "Rome"})]
    with pytest.raises(ConfigurationError, match="citty"):
        run(node_giving(answer, by_hook=by_hook), is_async)


@both_ways
@from_both
def test_a_command_may_write_fields_and_go_to_the_parent_with_fields_of_its_own(by_hook: bool, is_async: bool) -> None:
    written = run(node_giving(Command(update={"city": "Rome"}), by_hook=by_hook), is_async)
    assert [(one.update["city"], one.goto) for one in written] == [("Rome", ())]
    up = Command(graph=Command.PARENT, goto="next", update={"theirs": 1})
    assert run(node_giving(up, by_hook=by_hook), is_async)["tool_exits"] == [
        {"kind": "parent", "command": Command(graph=Command.PARENT, goto="next", update={"theirs": 1})}
    ]


@both_ways
def test_without_knowledge_of_the_state_every_field_may_be_written(is_async: bool) -> None:
    node = node_giving(Command(update={"any": 1}), by_hook=False, channels=None)
    assert run(node, is_async)[0].update["any"] == 1


@both_ways
@pytest.mark.parametrize(
    "twice",
    [
        [ToolMessage("a", tool_call_id="c"), ToolMessage("b", tool_call_id="c")],
        Command(update={"messages": [ToolMessage("a", tool_call_id="c"), ToolMessage("b", tool_call_id="c")]}),
    ],
)
def test_a_hook_that_answers_a_call_twice_is_blamed_itself(twice: Any, is_async: bool) -> None:
    said = "^A wrap_tool_call hook around the tool 'act' returned 2 messages that answer the call 'c'"
    with pytest.raises(ConfigurationError, match=said):
        run(node_giving(twice, by_hook=True), is_async)
    (told,) = run(node_giving(twice, by_hook=False), is_async)["messages"]
    assert (told.status, "The tool 'act' returned 2 messages" in told.content) == ("error", True)


ARGS: list[Any] = [["a"], "Rome", 5, ("a",)]


@both_ways
@pytest.mark.parametrize(
    ("given", "name", "said"),
    [
        *[
            ({"name": "act", "args": args, "id": "c"}, "act", f"its arguments are {type(args).__name__} ")
            for args in ARGS
        ],
        ({"name": "act", "id": "c"}, "act", "it has no arguments"),
        ({"name": ["act"], "args": {}, "id": "c"}, "?", "its name is list ['act'], and must be"),
        ({"name": None, "args": {}, "id": "c"}, "?", "its name is NoneType None"),
        ({"args": {}, "id": "c"}, "?", "its name is NoneType None"),
        ({"name": "act", "args": "z" * 9999, "id": "c"}, "act", "z ..., and must be an object"),
    ],
)
def test_a_call_that_cannot_be_read_is_answered_with_an_error(given: Any, name: str, said: str, is_async: bool) -> None:
    (message,) = run(node_giving("never", by_hook=True), is_async, [given])["messages"]
    assert (message.name, message.tool_call_id, message.status) == (name, "c", "error")
    assert message.content.startswith("Error: this call cannot be read: ")
    assert said in message.content
    assert len(message.content) < 400


@both_ways
def test_arguments_that_are_nested_without_end_are_answered_with_an_error(is_async: bool) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    (message,) = run(node_giving("never", by_hook=False), is_async, [{**CALL, "args": {"x": deep}}])["messages"]
    assert message.content.startswith("Error: this call cannot be read: its arguments are nested too deeply.")
    while deep:
        (deep,) = deep  # taken apart, since freeing so deep a list at once costs the interpreter its stack


@both_ways
def test_a_call_without_an_id_or_with_arguments_of_none_is_run(is_async: bool) -> None:
    (message,) = run(node_giving("ran", by_hook=False), is_async, [{"name": "act", "args": None}])["messages"]
    assert (message.content, message.tool_call_id) == ("ran", "")


class Changing(AgentMiddleware):
    """Changes the arguments of each call in place."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        request.tool_call["args"]["city"] += "!"
        request.tool_call["args"]["stops"].append("hook")
        handler(request)
        return handler(request)


@both_ways
def test_what_hooks_and_tools_change_in_arguments_does_not_reach_the_history(is_async: bool) -> None:
    seen: list[Any] = []

    @tool
    def travel(city: str, stops: Any, notes: Annotated[dict[str, Any], "Notes."]) -> str:
        """Travel."""
        seen.append((city, list(stops), dict(notes)))
        stops.append("tool")
        notes["by"] = "tool"
        return "there"

    call = ToolCall(name="travel", args={"city": "Rome", "stops": ["a"], "notes": {}}, id="c", type="tool_call")
    message = AIMessage("", id="ai", tool_calls=[call])
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolsNode({"travel": prepare(travel)}, "return", (Changing(),)))
    graph.add_conditional_edges(START, lambda s: [Send("tools", [c]) for c in s["messages"][-1].tool_calls], ["tools"])
    compiled = graph.compile()
    given = {"messages": [message]}
    result = asyncio.run(compiled.ainvoke(given)) if is_async else compiled.invoke(given)
    kept = {"city": "Rome", "stops": ["a"], "notes": {}}
    assert (result["messages"][0].tool_calls[0]["args"], message.tool_calls[0]["args"]) == (kept, kept)
    assert seen == [("Rome!", ["a", "hook"], {})] * 2


class Taking(AgentMiddleware):
    """Takes the tool away from each call."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(tool=None))


@both_ways
def test_a_tool_that_a_hook_took_away_is_not_said_to_be_unknown(is_async: bool) -> None:
    @tool
    def act() -> str:
        """Act."""
        raise AssertionError

    node = ToolsNode({"act": prepare(act)}, "return", (Taking(),))
    (message,) = run(node, is_async)["messages"]
    assert (message.status, message.content) == (
        "error",
        "Error: the tool 'act' was taken away from this call by a hook; it was not run. Go on without it.",
    )
