"""A thread whose messages are stored as changes is, at every checkpoint, what a thread that stores them whole is.

One conversation with everything that can happen to a list of messages is held twice: on the saver under test, and by
an agent that opts out of storing changes, on langgraph's own saver in memory. What can be seen of the two is compared
after each step, with all of the history.
"""

import asyncio
import functools
from typing import Annotated

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite, interrupt

from agentgraph import AgentState, create_agent
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ScriptedModel, tool_call
from tests.persistence.conftest import postgres_server, postgres_url, sqlite_url  # noqa: F401 - fixtures

SECONDS = 60
THREAD = {"configurable": {"thread_id": "t"}}


class WholeState(AgentState):
    messages: Annotated[list[AnyMessage], add_messages]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def ask(question: str) -> str:
    """Ask the user."""
    return str(interrupt(question))


SCRIPT = (
    [tool_call("add", id="1", a=1, b=2), tool_call("add", id="2", a=3, b=4)],
    "three and seven",
    [tool_call("ask", id="3", question="which?"), tool_call("add", id="4", a=5, b=6)],
    "as you like",
    "on another branch",
    "after all was removed",
    "after all was replaced",
)


class Sync:
    """The agent's sync side, as coroutines that never wait."""

    def __init__(self, agent, durability: str) -> None:
        self._agent = agent
        self._durability = durability

    async def run(self, given, config):
        return self._agent.invoke(given, config, durability=self._durability)

    async def stream(self, given, config):
        return list(self._agent.stream(given, config, stream_mode="updates", durability=self._durability))

    async def state(self, config):
        return self._agent.get_state(config)

    async def update(self, config, messages):
        return self._agent.update_state(config, {"messages": messages}, as_node="model")

    async def history(self, config):
        return list(self._agent.get_state_history(config))


class Async(Sync):
    """The agent's async side."""

    async def run(self, given, config):
        return await self._agent.ainvoke(given, config, durability=self._durability)

    async def stream(self, given, config):
        found = self._agent.astream(given, config, stream_mode="updates", durability=self._durability)
        return [one async for one in found]

    async def state(self, config):
        return await self._agent.aget_state(config)

    async def update(self, config, messages):
        return await self._agent.aupdate_state(config, {"messages": messages}, as_node="model")

    async def history(self, config):
        return [one async for one in self._agent.aget_state_history(config)]


def seen(snapshot) -> tuple:
    """What a user sees of a checkpoint, without ids and times that differ from run to run."""
    messages = [(one.type, one.text) for one in snapshot.values.get("messages", [])]
    asked = [one.value for one in snapshot.interrupts]
    return messages, snapshot.next, asked, snapshot.metadata["source"], snapshot.metadata["step"]


def seen_of_all(history) -> list:
    # With durability "exit", changes need a checkpoint to stand at; langgraph makes one that holds nothing.
    return [seen(one) for one in history if "source" in one.metadata]


async def conversation(agent) -> list:
    """Everything that can happen to the messages of a thread; what is seen after each step."""
    record = []

    async def note(step: str) -> None:
        record.append((step, seen(await agent.state(THREAD)), seen_of_all(await agent.history(THREAD))))

    await agent.run({"messages": "one"}, THREAD)
    await note("append, and two calls at once")
    first, *_, last = (await agent.state(THREAD)).values["messages"]
    await agent.update(THREAD, [HumanMessage("one, corrected", id=first.id)])
    await note("edit by id")
    await agent.update(THREAD, [RemoveMessage(id=last.id)])
    await note("remove")
    before = (await agent.state(THREAD)).config
    await agent.stream({"messages": "two"}, THREAD)
    await note("an interrupt beside a finished call")
    await agent.run(Command(resume="the blue one"), THREAD)
    await note("resume")
    forked = await agent.update(before, [HumanMessage("instead of two")])
    record.append(("fork", seen(await agent.state(forked)), seen(await agent.state(before))))
    await agent.run({"messages": "three"}, forked)
    await note("go on from the fork")
    await agent.update(THREAD, [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("anew")])
    await note("remove all")
    await agent.run({"messages": "four"}, THREAD)
    await note("append after removing all")
    await agent.update(THREAD, Overwrite([HumanMessage("all there is", id="only")]))
    await note("overwrite")
    await agent.run({"messages": "five"}, THREAD)
    await note("append after overwriting")
    return record


def hold(saver, side: type[Sync], durability: str, **options) -> list:
    agent = create_agent(ScriptedModel(*SCRIPT), [add, ask], checkpointer=saver, **options)
    return asyncio.run(asyncio.wait_for(conversation(side(agent, durability)), SECONDS))


@functools.cache
def reference(durability: str) -> list:
    return hold(InMemorySaver(), Sync, durability, state_schema=WholeState)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    """The URL of each kind of checkpointer."""
    return "memory://" if request.param == "memory" else request.getfixturevalue(f"{request.param}_url")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("side", [Sync, Async])
def test_a_thread_is_at_every_checkpoint_what_a_thread_stored_whole_is(place, side, durability):
    with open_checkpointer(place) as saver:
        record = hold(saver, side, durability)

    assert record == reference(durability)


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
def test_a_thread_reads_the_same_after_it_was_opened_again(kind, request):
    url = request.getfixturevalue(kind)
    with open_checkpointer(url) as saver:
        record = hold(saver, Sync, "sync")
    with open_checkpointer(url) as saver:
        agent = create_agent(ScriptedModel(), [add, ask], checkpointer=saver)
        history = seen_of_all(agent.get_state_history(THREAD))

    assert (record[-1][1], record[-1][2]) == (history[0], history)
