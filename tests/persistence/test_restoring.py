"""Savers of langgraph's: what their serializer gives up is read back all the same, by their own rules."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Send

from agentgraph import AgentState, create_agent, open_checkpointer
from agentgraph.persistence.restoring import restoring
from agentgraph.testing import ScriptedModel
from tests.persistence import goods

THREAD = {"configurable": {"thread_id": "1"}}


@dataclass(frozen=True, slots=True)
class Sum:
    """A frozen dataclass with a field that no constructor takes."""

    parts: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.parts))


class Shop(AgentState):
    basket: Any


BASKET = goods.Basket(["a", "b"])
VALUES = [
    BASKET,
    Sum([1, 2]),
    {"deep": [{"basket": BASKET}]},
    Send("tools", {"basket": BASKET}),
    _DeltaSnapshot([HumanMessage("hi", id="1")]),
    [ToolMessage("3", tool_call_id="1", id="2")],
    {1, 2},
]
FURTHER = [goods.Order(number=1, items=[goods.Item(kind="book")]), goods.Coin(5)]
NAMES = [(__name__, "Sum"), ("tests.persistence.goods", "Basket")]


def talk(saver):
    agent = create_agent(ScriptedModel("ok"), state_schema=Shop, checkpointer=saver)
    agent.invoke({"messages": "hi", "basket": BASKET}, THREAD)


def basket_in(saver):
    return create_agent(ScriptedModel(), state_schema=Shop, checkpointer=saver).get_state(THREAD).values["basket"]


@pytest.mark.parametrize(
    ("allowed", "value"),
    [*((True, one) for one in (*VALUES, *FURTHER)), *((NAMES, one) for one in VALUES)],
    ids=repr,
)
def test_what_langgraph_wrote_comes_back_as_what_it_was(allowed, value):
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=allowed))

    back = restoring(saver).serde.loads_typed(saver.serde.dumps_typed(value))

    assert (type(back), back) == (type(value), value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_written_is_what_langgraph_writes(value):
    saver = InMemorySaver()

    assert restoring(saver).serde.dumps_typed(value) == saver.serde.dumps_typed(value)


def test_a_computed_field_survives_in_a_file_of_langgraphs(tmp_path):
    with SqliteSaver.from_conn_string(f"{tmp_path}/threads.db") as saver:
        talk(saver)
        assert basket_in(restoring(saver)) == BASKET
        assert type(saver.serde) is JsonPlusSerializer


def test_a_computed_field_survives_in_async_code(tmp_path):
    async def look():
        async with AsyncSqliteSaver.from_conn_string(f"{tmp_path}/threads.db") as saver:
            agent = create_agent(ScriptedModel("ok"), state_schema=Shop, checkpointer=restoring(saver))
            await agent.ainvoke({"messages": "hi", "basket": BASKET}, THREAD)
            return (await agent.aget_state(THREAD)).values["basket"]

    assert asyncio.run(asyncio.wait_for(look(), 30)) == BASKET


def test_a_computed_field_survives_in_postgres(postgres_url):
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
        talk(restoring(saver))
        assert basket_in(restoring(saver)) == BASKET


def test_a_computed_field_survives_encryption():
    cipher = EncryptedSerializer.from_pycryptodome_aes(JsonPlusSerializer(), key=b"k" * 16)
    saver = InMemorySaver(serde=cipher)
    talk(saver)

    assert basket_in(restoring(saver)) == BASKET
    assert b"human" not in saver.serde.dumps_typed([HumanMessage("hi")])[1]


def test_copies_share_what_is_stored_and_where():
    saver = InMemorySaver()
    talk(restoring(saver))

    twin = restoring(saver)
    assert (twin.storage is saver.storage, twin.writes is saver.writes, twin is saver) == (True, True, False)
    assert len(list(saver.list(THREAD))) == 3


def test_a_type_that_the_user_does_not_allow_does_not_come_back():
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    stored = saver.serde.dumps_typed({"basket": BASKET})

    assert restoring(saver).serde.loads_typed(stored) == saver.serde.loads_typed(stored)


def test_a_class_that_went_is_reported_in_langgraphs_way(monkeypatch):
    saver = InMemorySaver()
    stored = saver.serde.dumps_typed([Sum([1])])
    monkeypatch.delitem(globals(), "Sum")

    assert restoring(saver).serde.loads_typed(stored) == [{"parts": [1], "total": 1}]


def test_a_class_that_was_defined_again_is_the_new_one(monkeypatch):
    saver = InMemorySaver()
    stored = saver.serde.dumps_typed(Sum([1]))
    restoring(saver).serde.loads_typed(stored)

    @dataclass
    class New:
        parts: Any
        total: int = 0

    monkeypatch.setitem(globals(), "Sum", New)

    assert restoring(saver).serde.loads_typed(stored) == New([1], 1)


class OwnSaver(InMemorySaver):
    pass


class OwnSerializer(JsonPlusSerializer):
    pass


@pytest.mark.parametrize(
    "given",
    [
        None,
        True,
        open_checkpointer("memory://"),
        OwnSaver(),
        InMemorySaver(serde=OwnSerializer()),
        InMemorySaver(serde=JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: data)),
        restoring(InMemorySaver()),
    ],
    ids=lambda given: type(given).__name__,
)
def test_everything_else_is_left_as_it_is(given):
    assert restoring(given) is given
