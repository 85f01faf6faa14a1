"""Agents and savers for the tests of `agentgraph.threads`."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from agentgraph import create_agent, threads
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ScriptedModel, tool_call

SECONDS = 30
THREAD = {"configurable": {"thread_id": "1"}}
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


def bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


def _sync(name, *args, **kwargs):
    return getattr(threads, name)(*args, **kwargs)


def _async(name, *args, **kwargs):
    return bounded(getattr(threads, f"a{name}")(*args, **kwargs))


@pytest.fixture(params=[_sync, _async], ids=["sync", "async"])
def do(request):
    """Call a function of `agentgraph.threads` by name, in its sync or its async form."""
    return request.param


@contextmanager
def opened(kind, folder, postgres_url=None):
    """An empty saver: one of open_checkpointer, or langgraph's own of the given class."""
    if kind == "InMemorySaver":
        yield InMemorySaver()
    elif kind == "SqliteSaver":
        with closing(sqlite3.connect(folder / "threads.db", check_same_thread=False)) as connection:
            yield SqliteSaver(connection)
    elif kind == "PostgresSaver":
        with PostgresSaver.from_conn_string(postgres_url) as found:
            found.setup()
            yield found
    else:
        urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/threads.db", "postgres": postgres_url}
        with open_checkpointer(urls[kind]) as found:
            yield found


@pytest.fixture(params=["memory", "sqlite", "SqliteSaver"])
def saver(request, tmp_path):
    """Savers that need no server, empty."""
    with opened(request.param, tmp_path) as found:
        yield found


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def ask(question: str) -> str:
    """Ask the person."""
    return str(interrupt(question))


def agent_with(saver, *replies, **settings):
    """An agent that says `replies`, turn by turn, and keeps its threads in `saver`."""
    return create_agent(ScriptedModel(*replies, usage=USAGE), [weather, ask], checkpointer=saver, **settings)


def weather_agent(saver, turns=1):
    """An agent that looks at the weather in each turn, and then answers."""
    script = [reply for turn in range(turns) for reply in (tool_call("weather", city=f"City {turn}"), f"Sunny {turn}.")]
    return agent_with(saver, *script)


def say(agent, *texts, thread=THREAD):
    """Say texts to an agent, each in a turn of its own."""
    for text in texts:
        agent.invoke({"messages": text}, thread)
    return thread


def told(messages):
    """Messages as short pairs."""
    return [(message.type, message.text) for message in messages]


def turn(number, said="hi"):
    """What `told` gives of one turn of a `weather_agent`."""
    return [("human", said), ("ai", ""), ("tool", f"sunny in City {number}"), ("ai", f"Sunny {number}.")]
