"""Agents of a user, for the tests of the command line: each test finds a copy of this file in its working directory."""

import asyncio
import subprocess
import sys
from typing import Any, TypedDict

from langchain_core.messages import UsageMetadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, tool_call

USAGE: UsageMetadata = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


class SyncOnlySaver(InMemorySaver):
    """As savers over a synchronous database driver are: without an async half."""

    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError

    async def aput(self, *args: Any) -> Any:
        raise NotImplementedError

    async def aput_writes(self, *args: Any) -> None:
        raise NotImplementedError


class BrokenSaver(InMemorySaver):
    """As a database that is gone."""

    async def aget_tuple(self, config: Any) -> Any:
        raise OSError("the disk is gone")


class Weather(BaseModel):
    """A structured answer."""

    city: str


class Counter(TypedDict):
    """A state without messages."""

    x: int


def weather(city: str) -> str:
    """Weather of a city."""
    if city == "Nowhere":
        raise ValueError("there is no such city")
    return f"sunny in {city}"


def ask(question: str) -> Any:
    """Ask the person."""
    return interrupt(question)


def delete(name: str) -> str:
    """Delete something, after an approval."""
    decision = interrupt({"type": "tool_approval", "name": "delete", "args": {"name": name}})
    return f"deleted {name}" if decision["type"] == "approve" else f"kept {name}: {decision['message']}"


def printed() -> str:
    """Say something on standard output, also by a child."""
    print('{"type": "done"}', flush=True)  # noqa: T201  what a tool of a user's may do
    subprocess.run([sys.executable, "-c", "print('from a child process')"], check=True)
    return "done"


def leave() -> str:
    """Leave the process."""
    sys.exit(3)


async def slow(city: str) -> str:
    """Wait for a word from a city that never comes."""
    await asyncio.Event().wait()
    return city


def model(*replies: Any) -> ScriptedModel:
    return ScriptedModel(*replies, usage=USAGE)


def weather_agent(**settings: Any) -> Any:
    script = [tool_call("weather", city="Rome"), "It is sunny.", "As I said: sunny."]
    return create_agent(model(*script), [weather], **settings)


def agent() -> Any:
    return weather_agent()


def saved_agent() -> Any:
    return weather_agent(checkpointer=InMemorySaver())


def sync_agent() -> Any:
    return weather_agent(checkpointer=SyncOnlySaver())


def stopping() -> Any:
    return weather_agent(interrupt_before=["tools"])


def failing_tool() -> Any:
    return create_agent(model(tool_call("weather", city="Nowhere"), "I could not find it."), [weather])


def failing_model() -> Any:
    return create_agent(model(RuntimeError("the model\nbroke"), "Now I can."))


def asking() -> Any:
    return create_agent(model(tool_call("ask", question="Which city?"), "Thanks."), [ask])


def deleting(**settings: Any) -> Any:
    return create_agent(model(tool_call("delete", name="x.txt"), "Well."), [delete], **settings)


def asking_twice() -> Any:
    calls = [tool_call("ask", question="Which city?"), tool_call("ask", question="Which day?")]
    return create_agent(model(calls, "Thanks."), [ask])


def printing() -> Any:
    print("made")  # noqa: T201  what a module of a user's may do
    return create_agent(model(tool_call("printed"), "Printed."), [printed])


def leaving() -> Any:
    return create_agent(model(tool_call("leave"), "Still here."), [leave])


def plain() -> Any:
    return create_agent(model("Hello."))


def foreign() -> Any:
    return create_agent(model("caf\u00e9 \u6771 \ud800 \x1b[31m [red]"))


def unreadable() -> Any:
    return create_agent(model("Hello."), checkpointer=BrokenSaver())


def failing_silently() -> Any:
    return create_agent(model(RuntimeError()))


def slow_agent() -> Any:
    return create_agent(model(tool_call("slow", city="Rome"), "Never mind."), [slow])


def structured() -> Any:
    return create_agent(model(tool_call("Weather", city="Rome")), response_format=ToolStrategy(Weather))


def no_messages() -> Any:
    return StateGraph(Counter).add_node("a", lambda _: {"x": 1}).add_edge(START, "a").compile()


kept = weather_agent(checkpointer=InMemorySaver())
kept_deleting = deleting(checkpointer=InMemorySaver())
