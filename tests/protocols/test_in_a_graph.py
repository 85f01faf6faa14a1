"""A protocol inside a run: what the application's stream shows, and that the run is that of any agent."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage

from agentgraph import create_agent
from agentgraph.protocols import JSONProtocol
from agentgraph.testing import ScriptedModel, assert_messages

CALLS = '{"calls": [{"tool": "add", "args": {"a": 1, "b": 2}}, {"tool": "add", "args": {"a": 3, "b": 4}}]}'


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def agent_of(*script: Any) -> Any:
    return create_agent(ScriptedModel(*script), [add], tool_protocol="json")


INPUT: dict[str, Any] = {"messages": [HumanMessage("Add them.", id="h")]}


async def run(agent: Any, way: str) -> list[BaseMessage]:
    if way in {"stream", "astream"}:
        # With "messages" among the modes the model is streamed; the state is what comes last.
        modes = ["messages", "values"]
        parts = list(agent.stream(INPUT, stream_mode=modes)) if way == "stream" else []
        parts += [part async for part in agent.astream(INPUT, stream_mode=modes)] if way == "astream" else []
        result = [payload for mode, payload in parts if mode == "values"][-1]
    else:
        result = await agent.ainvoke(INPUT) if way == "async" else agent.invoke(INPUT)
    messages: list[BaseMessage] = result["messages"]
    return messages


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_an_agent_by_text_has_the_history_of_any_agent(way: str) -> None:
    messages = await run(agent_of(CALLS, '{"final": "3 and 7."}'), way)

    first = messages[1]
    assert isinstance(first, AIMessage)
    ids = [call["id"] or "" for call in first.tool_calls]
    assert len(set(ids)) == 2
    calls: list[Any] = [
        {"name": "add", "args": {"a": 1, "b": 2}, "id": ids[0], "type": "tool_call"},
        {"name": "add", "args": {"a": 3, "b": 4}, "id": ids[1], "type": "tool_call"},
    ]
    assert_messages(
        messages,
        [
            HumanMessage("Add them."),
            AIMessage("", tool_calls=calls),
            ToolMessage("3", tool_call_id=ids[0], name="add"),
            ToolMessage("7", tool_call_id=ids[1], name="add"),
            AIMessage("3 and 7."),
        ],
    )


@pytest.mark.parametrize("way", ["sync", "async", "stream", "astream"])
async def test_a_broken_call_is_told_with_the_format_and_the_run_goes_on(way: str) -> None:
    messages = await run(agent_of('{"tool": "add", "args": {"a": 1', CALLS, '{"final": "3 and 7."}'), way)

    told = messages[2]
    assert isinstance(told, ToolMessage)
    assert told.status == "error"
    assert JSONProtocol.reminder in told.content
    assert """They began with: {"a": 1. Send""" in told.content
    assert messages[-1].content == "3 and 7."


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_the_stream_of_messages_shows_text_and_calls_and_no_protocol(way: str) -> None:
    agent = agent_of("Let me see.\n" + CALLS, '{"final": "That is 3 and 7."}')
    if way == "sync":
        heard = list(agent.stream(INPUT, stream_mode="messages"))
    else:
        heard = [piece async for piece in agent.astream(INPUT, stream_mode="messages")]

    chunks = [message for message, _ in heard if isinstance(message, AIMessageChunk)]
    assert "".join(str(chunk.content) for chunk in chunks) == "Let me see.That is 3 and 7."
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    assert {(piece["index"], piece["name"]) for piece in pieces if piece["name"]} == {(0, "add"), (1, "add")}
    assert "".join(piece["args"] or "" for piece in pieces if piece["index"] == 1) == '{"a": 3, "b": 4}'
    assert len({metadata["langgraph_step"] for _, metadata in heard}) >= 2
