"""Savers that are copied, that read more than they can make, and that hold threads which nobody can read."""

import asyncio
import copy
import dataclasses
import enum
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import interrupt

from agentgraph import AgentState, ainbox, create_agent, inbox, pending_questions, resume
from agentgraph.errors import CheckpointError, ThreadBusyError
from agentgraph.persistence import open_checkpointer
from agentgraph.runs.savers import reading_back, shared_by_copies
from agentgraph.testing import ScriptedModel, describe, tool_call

SECONDS = 20
GO = {"messages": "go"}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


async def collected(found):
    return [one async for one in found]


INBOX = {"sync": lambda *a, **k: list(inbox(*a, **k)), "async": lambda *a, **k: bounded(collected(ainbox(*a, **k)))}


def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt(question))


def asking(saver, question="Sure?", **options):
    model = ScriptedModel(tool_call("ask", question=question), "Done.")
    return create_agent(model, [ask], checkpointer=saver, **options)


@pytest.mark.parametrize("url", [None, "memory://", "sqlite"])
def test_two_copies_of_a_saver_let_one_run_at_a_time_work_on_a_thread(url, tmp_path):
    saver = InMemorySaver() if url is None else open_checkpointer(url.replace("sqlite", f"sqlite:///{tmp_path}/t.db"))
    other = create_agent(ScriptedModel("Hello."), checkpointer=copy.copy(saver))

    def inside() -> str:
        """Run another agent on the same thread."""
        return str(other.invoke(GO, thread("1")))

    agent = create_agent(ScriptedModel(tool_call("inside"), "Done."), [inside], checkpointer=copy.copy(saver))
    told = describe(agent.invoke(GO, thread("1"))["messages"])
    assert "ThreadBusyError" in told[2]
    assert "belongs to the run" in told[2]
    stream = create_agent(ScriptedModel("Hello."), checkpointer=copy.copy(saver)).stream(GO, thread("2"))
    next(stream)
    with pytest.raises(ThreadBusyError):
        other.invoke(GO, thread("2"))
    stream.close()


def test_savers_that_share_nothing_keep_their_own_threads():
    one, two = InMemorySaver(), InMemorySaver()
    stream = create_agent(ScriptedModel("Hello."), checkpointer=one).stream(GO, thread("1"))
    next(stream)
    assert create_agent(ScriptedModel("Hi."), checkpointer=two).invoke(GO, thread("1"))["messages"][-1].text == "Hi."
    stream.close()


class Named:
    """Stands for a saver whose place is a name."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage


def test_what_copies_share_is_never_a_mere_value():
    named, unnamed = Named("a name"), object()
    assert shared_by_copies(named) is named
    assert shared_by_copies(unnamed) is unnamed
    rows: dict[str, Any] = {}
    assert shared_by_copies(Named(rows)) is rows


@dataclasses.dataclass
class Basket:
    """Goods with a computed field, which langgraph stores and cannot read."""

    goods: list[str]
    count: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.count = len(self.goods)


class Shop(AgentState[Any]):
    """A state with a basket."""

    basket: Basket


BASKET = Basket(["a", "b"])


def test_stored_objects_come_back_by_every_way_to_read_a_state():
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[Basket]))
    seen: list[Any] = []

    def look() -> str:
        """Look."""
        seen.append(agent.get_state(thread("1")).values["basket"])
        return "seen"

    agent: Any = create_agent(
        ScriptedModel("Hello.", tool_call("look"), "Done."), [look], state_schema=Shop, checkpointer=saver
    )
    agent.invoke({**GO, "basket": BASKET}, thread("1"))
    assert agent.invoke(GO, thread("1"))["basket"] == BASKET
    agent.update_state(thread("1"), {"messages": HumanMessage("more")})
    bounded(agent.aupdate_state(thread("1"), {"messages": HumanMessage("more")}))
    read = [
        *seen,
        agent.get_state(thread("1")).values["basket"],
        bounded(agent.aget_state(thread("1"))).values["basket"],
        next(agent.get_state_history(thread("1"))).values["basket"],
    ]
    assert read == [BASKET] * 4
    assert agent.checkpointer is saver


def test_questions_come_back_as_what_they_were():
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[Basket]))

    def buy() -> str:
        """Ask about a basket."""
        return str(interrupt(BASKET))

    agent = create_agent(ScriptedModel(tool_call("buy"), "Done."), [buy], checkpointer=saver)
    agent.invoke(GO, thread("1"))
    assert [one.value for one in pending_questions(agent, thread("1"))] == [BASKET]
    assert [one.questions[0].value for one in inbox(saver)] == [BASKET]


def test_the_saver_to_read_with_is_made_once_and_anew_when_the_saver_is_changed():
    saver = InMemorySaver()
    twin = reading_back(saver)
    assert twin is not saver
    assert reading_back(saver) is twin
    assert reading_back(twin) is twin
    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=[Basket])
    other = reading_back(saver)
    assert other is not twin
    assert other.serde.loads_typed(saver.serde.dumps_typed(BASKET)) == BASKET
    assert [reading_back(given) for given in (None, False, True)] == [None, False, True]


class Colour(enum.Enum):
    """A type that a checkpointer is not told of."""

    RED = 1


class Painted(AgentState[Any]):
    """A state that hides its type from the checkpointer."""

    colour: object


@pytest.fixture(params=["memory", "sqlite"])
def unreadable(request, tmp_path):
    """A saver with two threads that wait, and between them two that it cannot read: a state, and a question."""
    known = open_checkpointer(
        "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/t.db", types=[Colour]
    )
    unknown = known
    if request.param == "memory":
        unknown = copy.copy(known)
        unknown.serde = open_checkpointer("memory://").serde
    else:
        unknown = open_checkpointer(f"sqlite:///{tmp_path}/t.db")

    def colour() -> str:
        """Ask about a colour."""
        return str(interrupt(Colour.RED))

    asking(known, "one").invoke(GO, thread("one"))
    asking(known, state_schema=Painted).invoke({**GO, "colour": Colour.RED}, {**thread("state"), "metadata": {"a": 1}})
    create_agent(ScriptedModel(tool_call("colour")), [colour], checkpointer=known).invoke(GO, thread("question"))
    asking(known, "two").invoke(GO, thread("two"))
    yield unknown
    known.close()
    unknown.close()


@pytest.mark.parametrize("way", INBOX)
def test_the_inbox_gives_the_readable_threads_and_says_which_cannot_be_read(unreadable, way):
    found = {one.thread_id: one for one in INBOX[way](unreadable)}
    assert {name: [each.value for each in one.questions] for name, one in found.items()} == {
        "one": ["one"],
        "two": ["two"],
        "state": [],
        "question": [],
    }
    assert [found[name].error for name in ("one", "two")] == [None, None]
    for name in ("state", "question"):
        assert isinstance(found[name].error, CheckpointError)
        assert "Colour" in str(found[name].error)
    assert found["state"].metadata["a"] == 1
    assert found["state"].config == thread("state")
    assert len(INBOX[way](unreadable, limit=3)) == 3
    assert [one.thread_id for one in INBOX[way](unreadable, where=lambda one: "a" in one.metadata)] == ["state"]
    agent = create_agent(ScriptedModel("Done."), [ask], checkpointer=unreadable)
    done = resume(agent, found["two"].config, "yes")
    assert describe(done["messages"])[-2:] == ["tool ask: yes", "ai: Done."]


@pytest.mark.parametrize("way", INBOX)
def test_a_question_inside_a_tool_that_cannot_be_read_is_told_too(way):
    known = open_checkpointer("memory://", types=[Colour])
    unknown = copy.copy(known)
    unknown.serde = open_checkpointer("memory://").serde
    worker = asking(None, state_schema=Painted, name="worker")

    def delegate() -> str:
        """Let a worker ask."""
        return str(worker.invoke({**GO, "colour": Colour.RED})["messages"][-1].text)

    create_agent(ScriptedModel(tool_call("delegate")), [delegate], checkpointer=known).invoke(GO, thread("1"))
    (found,) = INBOX[way](unknown)
    assert (found.thread_id, found.questions) == ("1", ())
    assert isinstance(found.error, CheckpointError)
