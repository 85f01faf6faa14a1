"""Random stories of a thread: stored as changes, it has the messages that it would have if it were stored whole.

Each act is done to a graph whose channel stores changes (with a snapshot every three updates, so that stories cross
several) and to one that stores all messages at each step. After each act, what the run returned and what is read back
must be the same in both.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite, Send, interrupt
from typing_extensions import TypedDict

from agentgraph.channels import MessagesChannel
from agentgraph.persistence import open_checkpointer
from tests.persistence.conftest import postgres_server, postgres_url, sqlite_url, url  # noqa: F401 - fixtures

SECONDS = 30
SEEDS = range(3)
ACTS = 14
ANNOTATIONS = {"changes": MessagesChannel(snapshot_frequency=3), "whole": add_messages}
DURABILITIES = ("sync", "async", "exit")
KINDS = ("write", "write", "write", "parts", "half", "halt", "ask", "crash", "update", "fork")


class Crash(Exception):  # noqa: N818 (what happened, as a story tells it)
    """A node that fails."""


class Talk:
    """One of the two graphs with a thread of its own.

    Attributes:
        act: what its nodes do next.
        place: the thread, and for one run the checkpoint that a fork begins at.
    """

    def __init__(self, kind: str, saver: Any, durability: str, *, asynchronous: bool) -> None:
        self.act: Any = None
        self.kind, self.durability, self.asynchronous = kind, durability, asynchronous
        self.place: dict[str, Any] = {"thread_id": kind}
        schema: Any = TypedDict("schema", {"messages": Annotated[list, ANNOTATIONS[kind]]})
        graph = StateGraph(schema)
        graph.add_node("act", self._act)
        graph.add_node("part", self._part)
        graph.add_node("join", lambda state: {})
        graph.add_edge(START, "act")
        graph.add_conditional_edges("act", self._parts, ["part", "join"])
        graph.add_edge("part", "join")
        graph.add_edge("join", END)
        self.graph = graph.compile(checkpointer=saver)

    def _act(self, state: Any) -> Any:
        act = self.act
        if act["kind"] == "ask":
            return {"messages": [AIMessage(interrupt("?"), id=act["id"])]}
        if act["kind"] == "crash":
            raise Crash
        return {"messages": act["write"](state["messages"])} if act["kind"] == "write" else {}

    def _parts(self, state: Any) -> Any:
        if self.act["kind"] not in {"parts", "half", "halt"}:
            return "join"
        return [Send("part", AIMessage(f"part {number}", id=f"{self.act['id']}.{number}")) for number in range(3)]

    def _part(self, message: Any) -> Any:
        # The last of the three fails, so that the others have surely finished.
        if message.id.endswith(".2") and self.act["kind"] == "half":
            raise Crash
        if message.id.endswith(".1") and self.act["kind"] == "halt":
            return {"messages": [message, AIMessage(interrupt("?"), id=f"{message.id}!")]}
        return {"messages": message}

    @property
    def config(self) -> Any:
        return {"configurable": self.place, "max_concurrency": 1}

    def run(self, given: Any) -> Any:
        """Invoke; the messages, or None where the run broke."""
        try:
            if self.asynchronous:
                call = self.graph.ainvoke(given, self.config, durability=self.durability)
                result = asyncio.run(asyncio.wait_for(call, SECONDS))
            else:
                result = self.graph.invoke(given, self.config, durability=self.durability)
        except Crash:
            return None
        finally:
            self.place = {"thread_id": self.kind}
        return result["messages"]

    def update(self, write: Any) -> str:
        """Update the state; refused where it removes a message of a task whose step never ended."""
        try:
            self.graph.update_state(self.config, {"messages": write}, as_node="join")
        except ValueError:
            return "refused"
        finally:
            self.place = {"thread_id": self.kind}
        return "updated"

    def stored(self) -> Any:
        return self.graph.get_state(self.config).values.get("messages", [])

    def past(self) -> list[Any]:
        """All checkpoints, newest first, without the empty one that a first run may begin with."""
        return [one for one in self.graph.get_state_history(self.config) if one.metadata["step"] > -2]


def writes(rng: random.Random, name: str) -> Callable[[list[Any]], Any]:
    """A write that depends on the messages there are."""
    new = AIMessage(f"new {name}", id=name)

    def removal(messages: list[Any]) -> Any:
        return RemoveMessage(id=messages[len(messages) // 2].id) if messages else new

    def edit(messages: list[Any]) -> Any:
        return [AIMessage(f"edited {name}", id=messages[0].id), new] if messages else new

    return rng.choice(
        [
            lambda messages: new,
            lambda messages: [new, HumanMessage(f"and {name}", id=f"{name}+")],
            removal,
            edit,
            lambda messages: [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages[-2:], new],
            lambda messages: RemoveMessage(id=REMOVE_ALL_MESSAGES),
            lambda messages: Overwrite([*messages[-3:], new]),
            lambda messages: [],
        ]
    )


def story(seed: int) -> Iterator[dict[str, Any]]:
    """The acts of a thread."""
    rng = random.Random(seed)  # noqa: S311 (a story, no secret)
    for number in range(ACTS):
        name = f"{seed}.{number}"
        kind = rng.choice(KINDS)
        yield {"kind": kind, "id": name, "write": writes(rng, name), "at": rng.random(), "again": rng.random() < 0.5}


def perform(talk: Talk, act: dict[str, Any]) -> Any:
    """Do an act; what the run returned. `again`: a broken or paused run is gone on with, else left."""
    talk.act = act
    if act["kind"] == "update":
        return talk.update(act["write"](talk.stored()))
    if act["kind"] == "fork":
        past = talk.past()
        talk.place = dict(past[int(act["at"] * len(past))].config["configurable"]) if past else talk.place
        talk.act = {**act, "kind": "write"}
        if act["again"]:
            return talk.update(AIMessage("forked", id=act["id"]))
    result = talk.run({"messages": HumanMessage(f"say {act['id']}", id=f"say {act['id']}")})
    if act["kind"] in {"ask", "halt"} and act["again"]:
        return talk.run(Command(resume="answered"))
    if act["kind"] in {"crash", "half"} and act["again"]:
        talk.act = {**act, "kind": "parts"}
        return talk.run(None)
    return result


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_thread_stored_as_changes_is_the_thread_stored_whole(url, durability, asynchronous, seed):  # noqa: F811 - a fixture
    with open_checkpointer(url) as saver, open_checkpointer("memory://") as plain:
        changes = Talk("changes", saver, durability, asynchronous=asynchronous)
        whole = Talk("whole", plain, durability, asynchronous=asynchronous)
        for act in story(seed):
            results = perform(changes, act), perform(whole, act)
            assert results[0] == results[1], act
            assert changes.stored() == whole.stored(), act
        read = [[one.values.get("messages", []) for one in talk.past()] for talk in (changes, whole)]
        assert read[0] == read[1]
