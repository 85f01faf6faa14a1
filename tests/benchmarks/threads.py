"""What a long conversation costs: bytes, rows and CPU time of a turn, agentgraph and LangChain, memory and SQLite.

    python -P tests/benchmarks/threads.py [--turns 1000] [--savers sqlite,memory] [--json FILE]

A turn is a question, a tool call, its result and an answer: 4 messages with about 1 KB of text. agentgraph holds the
whole conversation. LangChain stores all of it again after each step, so that a thousand turns would fill gigabytes: it
holds the first hundred, and for the later figures is given a thread that begins with so many turns. CPU time is that
of the whole process, as the median of the turns around the one named.
"""

import argparse
import gc
import importlib
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

sys.path.insert(0, str(Path(__file__).parents[2]))

from agentgraph.persistence import open_checkpointer
from tests.benchmarks.workloads import CountingModel, counting_tool

__all__ = ["Point", "converse", "database_size", "main", "measure", "talking_agent"]

AT = (10, 100, 400, 1000)
"""The turns whose figures are shown."""

AROUND = 5
"""So many turns before and after one are measured with it."""

RIVALS = {"agentgraph": ("agentgraph", 100_000), "langchain": ("langchain.agents", 100)}
"""Who is measured, and how many turns it holds itself."""

CONFIG: Any = {"configurable": {"thread_id": "long"}}


class TalkingModel(CountingModel):
    """Answers each question with one tool call, and its result with a text."""

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        turn = sum(isinstance(message, HumanMessage) for message in messages)
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(content=text(turn, "answer"))
        call = {"name": "double", "args": {"number": turn}, "id": f"call_{turn}", "type": "tool_call"}
        return AIMessage(content="", tool_calls=[call])


def text(turn: int, what: str) -> str:
    """About 500 characters that no compression would spare."""
    return " ".join(f"{what} {turn * 7919 + word * 104729 % 99991}" for word in range(38))


def talking_agent(module: str, saver: Any, **settings: Any) -> Any:
    """An agent of a module's `create_agent`, which answers each question after one tool call."""
    create_agent = importlib.import_module(module).create_agent
    return create_agent(TalkingModel(rounds=1, tools=1), [counting_tool()], checkpointer=saver, **settings)


Size = Callable[[], tuple[int, int]]
"""Gives the bytes and rows that are stored."""


@dataclass(frozen=True)
class Point:
    """What turns around one cost.

    Attributes:
        turn: the one they lie around.
        cpu_ms: median CPU time of a turn, in milliseconds.
        bytes: that the database grew by with a turn, mean; for memory, those of the stored values.
        rows: that were added with a turn, mean.
        mean_bytes: a turn since the beginning of the conversation, so with all snapshots.
    """

    turn: int
    cpu_ms: float
    bytes: float
    rows: float
    mean_bytes: float


def converse(agent: Any, size: Size, turns: int, *, first: int = 1) -> list[Point]:
    """Hold a conversation up to a turn.

    Args:
        agent: made by `talking_agent`.
        size: gives bytes and rows of what is stored.
        turns: the last turn.
        first: the first one; the turns before it are in the thread already.

    Returns:
        The figures of the turns of `AT` that were held.
    """
    costs: dict[int, float] = {}
    sizes: dict[int, tuple[int, int]] = {first - 1: size()}
    for turn in range(first, turns + 1):
        with _no_collector():
            start = time.process_time()
            agent.invoke({"messages": [HumanMessage(text(turn, "question"))]}, CONFIG)
            costs[turn] = (time.process_time() - start) * 1000
        sizes[turn] = size()
    return [_point(turn, costs, sizes) for turn in AT if turn - AROUND >= first - 1 and turn in costs]


def _point(turn: int, costs: dict[int, float], sizes: dict[int, tuple[int, int]]) -> Point:
    begin, end = turn - AROUND, max(held for held in costs if held <= turn + AROUND)
    grown, added = (now - before for before, now in zip(sizes[begin], sizes[end], strict=True))
    held = [cost for number, cost in costs.items() if begin < number <= end]
    origin = min(sizes)
    return Point(
        turn,
        round(statistics.median(held), 2),
        round(grown / (end - begin)),
        round(added / (end - begin), 1),
        round((sizes[end][0] - sizes[origin][0]) / (end - origin)),
    )


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _sqlite(rival: str) -> Iterator[tuple[Any, Size]]:
    folder = Path(tempfile.mkdtemp(prefix="threads-"))
    with closing(sqlite3.connect(folder / "threads.db", check_same_thread=False)) as connection:
        own = open_checkpointer(f"sqlite:///{folder}/threads.db")
        saver = own if rival == "agentgraph" else SqliteSaver(connection)
        saver.setup()
        try:
            yield saver, lambda: database_size(connection)
        finally:
            own.close()
            shutil.rmtree(folder)


def database_size(connection: sqlite3.Connection) -> tuple[int, int]:
    """Bytes and rows of a database of langgraph's SQLite saver."""
    query = (
        "SELECT (SELECT count(*) FROM checkpoints) + (SELECT count(*) FROM writes), page_count * page_size "
        "FROM pragma_page_count, pragma_page_size"
    )
    rows, size = connection.execute(query).fetchone()
    return size, rows


@contextmanager
def _memory(rival: str) -> Iterator[tuple[Any, Size]]:
    saver: Any = open_checkpointer("memory://") if rival == "agentgraph" else InMemorySaver()

    def size() -> tuple[int, int]:
        blobs = [blob for _, blob in saver.blobs.values()]
        written = [value[2][1] for writes in saver.writes.values() for value in writes.values()]
        kept = [one for spaces in saver.storage.values() for space in spaces.values() for one in space.values()]
        stored = [*blobs, *written, *(one[0][1] for one in kept), *(one[1][1] for one in kept)]
        return sum(map(len, stored)), len(stored)

    yield saver, size


SAVERS = {"sqlite": _sqlite, "memory": _memory}


def measure(saver: str, turns: int) -> dict[str, list[Point]]:
    """Hold the conversation with both rivals, each on its own saver of this kind."""
    figures: dict[str, list[Point]] = {}
    for rival, (module, most) in RIVALS.items():
        with SAVERS[saver](rival) as (store, size):
            figures[rival] = converse(talking_agent(module, store), size, min(turns, most))
        for turn in (turn for turn in AT if most < turn <= turns):
            with SAVERS[saver](rival) as (store, size):
                agent = talking_agent(module, store)
                agent.update_state(CONFIG, {"messages": list(_past(turn - AROUND))}, as_node="model")
                figures[rival] += converse(agent, size, turn, first=turn - AROUND + 1)
    return figures


def _past(turns: int) -> Iterator[BaseMessage]:
    for turn in range(1, turns + 1):
        call = {"name": "double", "args": {"number": turn}, "id": f"call_{turn}", "type": "tool_call"}
        yield HumanMessage(text(turn, "question"))
        yield AIMessage(content="", tool_calls=[call])
        yield ToolMessage(str(2 * turn), name="double", tool_call_id=f"call_{turn}")
        yield AIMessage(content=text(turn, "answer"))


def table(report: dict[str, dict[str, list[Point]]]) -> str:
    """The figures as text."""
    lines = [f"{'':<24}{'turn':>6}{'CPU ms':>10}{'bytes':>12}{'rows':>8}{'mean bytes':>12}"]
    for saver, figures in report.items():
        for rival, points in figures.items():
            lines += [
                f"{f'{saver}, {rival}':<24}{one.turn:>6}{one.cpu_ms:>10.2f}{one.bytes:>12.0f}{one.rows:>8.1f}"
                f"{one.mean_bytes:>12.0f}"
                for one in points
            ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description="What a long conversation costs, compared")
    parser.add_argument("--turns", type=int, default=max(AT), help="the last turn (1000)")
    parser.add_argument("--savers", default=",".join(SAVERS), help="of sqlite, memory; both by default")
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args(arguments)
    report = {saver: measure(saver, given.turns) for saver in given.savers.split(",")}
    sys.stdout.write(table(report) + "\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1, default=asdict) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
