"""What is stored of a turn does not depend on how long the conversation is (I5): rows are counted, bytes bounded."""

import itertools
import sqlite3
from contextlib import closing
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.message import add_messages

from agentgraph import AgentState, create_agent
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import FunctionModel, tool_call

THREAD = {"configurable": {"thread_id": "long"}}
KILOBYTE = "w" * 250
"""A quarter of what a turn brings: question, call, result and answer hold one each."""


class WholeState(AgentState):
    messages: Annotated[list[AnyMessage], add_messages]


def lookup(key: str) -> str:
    """Look something up."""
    return KILOBYTE


def reply(messages, settings):
    """A number in the question says how many calls come before the answer."""
    last = messages[-1]
    if not isinstance(last, HumanMessage):
        return AIMessage(KILOBYTE)
    calls = [tool_call("lookup", key=KILOBYTE) for _ in range(int(last.text[0]))]
    return AIMessage("", tool_calls=calls) if calls else AIMessage(KILOBYTE)


@pytest.fixture
def database(tmp_path):
    """A checkpointer on a file, and a connection to count what it holds."""
    with (
        open_checkpointer(f"sqlite:///{tmp_path}/threads.db") as saver,
        closing(sqlite3.connect(tmp_path / "threads.db")) as connection,
    ):
        saver.setup()
        yield saver, connection


def agent_on(saver: Any, **settings: Any) -> Any:
    return create_agent(FunctionModel(reply), [lookup], checkpointer=saver, **settings)


def turn(run: Any, agent: Any, calls: int = 1) -> Any:
    return run(agent, {"messages": HumanMessage(f"{calls} {KILOBYTE}")}, THREAD)


def rows(connection: sqlite3.Connection) -> dict[str, int]:
    counted = {name: f"SELECT count(*) FROM {name}" for name in ("checkpoints", "writes")}  # noqa: S608 - fixed names
    return {name: connection.execute(query).fetchone()[0] for name, query in counted.items()}


def stored(connection: sqlite3.Connection) -> int:
    """Bytes of all columns, so without what the database adds."""
    columns = {
        "checkpoints": ("checkpoint", "metadata", "checkpoint_id", "parent_checkpoint_id"),
        "writes": ("value", "checkpoint_id", "task_id", "task_path", "channel"),
    }
    sums = {
        name: f"SELECT sum({' + '.join(f'ifnull(length({one}), 0)' for one in of)}) FROM {name}"  # noqa: S608 - fixed names
        for name, of in columns.items()
    }
    return sum(connection.execute(query).fetchone()[0] or 0 for query in sums.values())


def on_disk(connection: sqlite3.Connection) -> int:
    query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    return int(connection.execute(query).fetchone()[0])


# calls: checkpoints (input, its arrival, and one for each step) and writes of a turn
ROWS = {0: (3, 3), 1: (5, 7), 3: (5, 13)}


@pytest.mark.parametrize("calls", ROWS)
def test_a_turn_adds_the_same_rows_however_long_the_conversation_is(run, database, calls):
    saver, connection = database
    agent = agent_on(saver)
    checkpoints, writes = ROWS[calls]
    for number in range(1, 4):
        turn(run, agent, calls)
        assert rows(connection) == {"checkpoints": number * checkpoints, "writes": number * writes}


def held(connection: sqlite3.Connection, agent: Any, turns: int) -> list[int]:
    """What each turn of a conversation added."""
    sizes = [stored(connection)]
    for _ in range(turns):
        agent.invoke({"messages": HumanMessage(f"1 {KILOBYTE}")}, THREAD)
        sizes.append(stored(connection))
    return [after - before for before, after in itertools.pairwise(sizes)]


def past(turns: int) -> list[AnyMessage]:
    messages: list[AnyMessage] = []
    for number in range(turns):
        call = tool_call("lookup", id=f"past {number}", key=KILOBYTE)
        messages += [HumanMessage(f"1 {KILOBYTE}"), AIMessage("", tool_calls=[call]), AIMessage(KILOBYTE)]
    return messages


def test_a_turn_adds_the_same_bytes_at_the_start_and_after_a_thousand_turns(database):
    saver, connection = database
    agent = agent_on(saver)
    first = held(connection, agent, 5)[1:]
    agent.update_state(THREAD, {"messages": past(1000)}, as_node="model")
    late = held(connection, agent, 5)[1:]
    assert max(late) < 1.05 * max(first) < 9_000


def test_with_its_snapshots_a_turn_of_one_kilobyte_costs_less_than_fifteen(database):
    saver, connection = database
    agent = agent_on(saver)
    before = on_disk(connection)
    turns = 60  # 240 messages, with snapshots after 100 and 200 of them
    added = held(connection, agent, turns)
    snapshots = [size for size in added if size > 20_000]
    assert len(snapshots) == 2
    assert (on_disk(connection) - before) / turns < 15_000


def test_a_state_that_is_stored_whole_costs_more_with_each_turn(database):
    saver, connection = database
    added = held(connection, agent_on(saver, state_schema=WholeState), 6)
    assert all(after > before + 2_000 for before, after in itertools.pairwise(added))


def test_memory_holds_no_more_than_a_file_does(database):
    saver, connection = database
    with open_checkpointer("memory://") as memory:
        for place in (saver, memory):
            agent = agent_on(place)
            for _ in range(5):
                agent.invoke({"messages": HumanMessage(f"1 {KILOBYTE}")}, THREAD)
        written = sum(len(one[2][1]) for writes in memory.writes.values() for one in writes.values())
        blobs = sum(len(blob) for _, blob in memory.blobs.values())
    assert written + blobs < stored(connection)
