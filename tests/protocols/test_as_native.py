"""Every protocol in an agent comes to the outcome of native tool calls."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.protocols import JSONProtocol, TextProtocol, WrittenCall
from agentgraph.protocols.react import OriginalReActProtocol, ReActProtocol
from agentgraph.protocols.structured_chat import StructuredChatProtocol
from agentgraph.protocols.tool_tags import ToolTagsProtocol
from agentgraph.protocols.xml import XMLProtocol
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, assert_valid_history

SEVERAL: list[type[TextProtocol]] = [JSONProtocol, ToolTagsProtocol, XMLProtocol]
ALL: list[type[TextProtocol]] = [*SEVERAL, ReActProtocol, OriginalReActProtocol, StructuredChatProtocol]
THREAD: Any = {"configurable": {"thread_id": "t"}}
CRASH = RuntimeError("the process was killed")

Turn = str | RuntimeError | Sequence[tuple[str, dict[str, Any]]]
OSLO = ("weather", {"city": "Oslo"})
SUM = ("add", {"a": 1, "b": 2})
REJECT = {"type": "reject", "message": "not now"}
EDIT = {"type": "edit", "edited_action": {"name": "add", "args": {"a": 5, "b": 6}}}


class Forecast(BaseModel):
    """A forecast."""

    degrees: int


def weather(city: str) -> str:
    """Tell the weather."""
    return f"3 C in {city}"


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


# Turns of the model, then the decision about calls of add if they are to be decided upon.
SCENES: dict[str, tuple[list[Turn], Any]] = {
    "an answer": (["Hello."], None),
    "one call": ([[OSLO], "3 C."], None),
    "one call after the other": ([[OSLO], [SUM], "3."], None),
    "a call that fails": ([[("add", {"a": "x", "b": 2})], "It cannot be."], None),
    "an unknown tool": ([[("wether", {})], [OSLO], "3 C."], None),
    "a rejection": ([[SUM], "As you like."], REJECT),
    "an edit": ([[SUM], "It is 11."], EDIT),
    "a crash": ([[OSLO], CRASH, "3 C."], None),
    "structured output": ([[OSLO], [("Forecast", {"degrees": 3})]], None),
    "two calls": ([[OSLO, SUM], "3 C and 3."], None),
}


def written(protocol: TextProtocol | None, turn: Turn) -> Any:
    if isinstance(turn, RuntimeError):
        return turn
    if protocol is None:
        return turn if isinstance(turn, str) else [tool_call(name=n, args=a, id=f"c_{n}") for n, a in turn]
    return (
        protocol.answer_text(turn) if isinstance(turn, str) else protocol.call_text([WrittenCall(*c) for c in turn], "")
    )


def plain(messages: list[BaseMessage]) -> list[Any]:
    """A history without ids and without thoughts."""
    assert_valid_history(messages)
    return [
        (
            message.type,
            message.text,
            [(call["name"], call["args"]) for call in message.tool_calls] if isinstance(message, AIMessage) else [],
            (message.name, message.status) if isinstance(message, ToolMessage) else None,
        )
        for message in messages
    ]


async def outcome(protocol: TextProtocol | None, scene: str, way: str) -> Any:
    turns, decision = SCENES[scene]
    shape: Any = ToolStrategy(Forecast) if scene == "structured output" else None
    agent: Any = create_agent(
        ScriptedModel(*(written(protocol, turn) for turn in turns)),
        [weather, add],
        tool_protocol=protocol,
        middleware=[HumanInTheLoopMiddleware({"add": True})] if decision else [],
        response_format=shape,
        checkpointer=InMemorySaver(),
    )
    given: Any = {"messages": [("user", "Go.")]}
    if CRASH in turns:
        with pytest.raises(RuntimeError, match="killed"):
            await ran(agent, given, way)
        given = None
    await ran(agent, given, way)
    if decision:
        await ran(agent, Command(resume={"decisions": [decision]}), way)
    state = agent.get_state(THREAD)
    assert state.next == ()
    return plain(state.values["messages"]), state.values.get("structured_response")


async def ran(agent: Any, given: Any, way: str) -> None:
    run: dict[str, Callable[[], Any]] = {
        "invoke": lambda: agent.invoke(given, THREAD),
        "stream": lambda: list(agent.stream(given, THREAD, stream_mode=["messages", "values"])),
    }
    if way in run:
        run[way]()
    elif way == "ainvoke":
        await agent.ainvoke(given, THREAD)
    else:
        [part async for part in agent.astream(given, THREAD, stream_mode=["messages", "values"])]


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene != "two calls"])
@pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.name)
async def test_the_outcome_is_that_of_native_calls(protocol: type[TextProtocol], scene: str, way: str) -> None:
    assert await outcome(protocol(), scene, way) == await outcome(None, scene, way)


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("protocol", SEVERAL, ids=lambda protocol: protocol.name)
async def test_two_calls_in_a_turn_come_to_the_same(protocol: type[TextProtocol], way: str) -> None:
    assert await outcome(protocol(), "two calls", way) == await outcome(None, "two calls", way)
