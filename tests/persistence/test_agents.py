"""Agents and their types: what a state, an answer or a tool's artifact holds comes back after a restart."""

from typing import Any, NotRequired

import psycopg
import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from agentgraph import AgentState, create_agent
from agentgraph.errors import CheckpointError
from agentgraph.persistence import StrictSerializer, open_checkpointer
from agentgraph.structured_output import ProviderStrategy, ToolStrategy
from agentgraph.testing import ScriptedModel, tool_call
from tests.persistence import goods

THREAD = {"configurable": {"thread_id": "t"}}


class Shop(AgentState):
    phase: NotRequired[goods.Phase]
    level: NotRequired[goods.Level]
    basket: NotRequired[goods.Basket]
    orders: NotRequired[list[goods.Order]]
    anything: NotRequired[Any]


@pytest.fixture(params=["sqlite", "postgres"])
def kept_url(request: pytest.FixtureRequest) -> str:
    """A place that outlives a process."""
    return str(request.getfixturevalue(f"{request.param}_url"))


def test_the_types_of_a_state_schema_come_back_without_being_registered(kept_url):
    given = {
        "phase": goods.Phase.DONE,
        "level": goods.Level.HIGH,
        "basket": goods.Basket(["a", "b"]),
        "orders": [goods.Order(number=1, items=[goods.Item(kind="toy", colour="red")])],
    }
    with open_checkpointer(kept_url) as saver:
        agent = create_agent(ScriptedModel("ok"), state_schema=Shop, checkpointer=saver)
        agent.invoke({"messages": "hi", **given}, THREAD)
        agent.update_state(THREAD, {"anything": 1})
    with open_checkpointer(kept_url) as saver:
        values = create_agent(ScriptedModel(), state_schema=Shop, checkpointer=saver).get_state(THREAD).values

    assert {name: values[name] for name in given} == given
    assert [type(values[name]) for name in given] == [type(value) for value in given.values()]


@pytest.mark.parametrize("response", [ToolStrategy(goods.Order), ToolStrategy(goods.Order | goods.Coin), goods.Order])
def test_a_structured_response_comes_back_as_its_type(sqlite_url, response):
    with open_checkpointer(sqlite_url) as saver:
        model = ScriptedModel(tool_call("Order", number=7))
        create_agent(model, response_format=response, checkpointer=saver).invoke({"messages": "hi"}, THREAD)
    with open_checkpointer(sqlite_url) as saver:
        agent = create_agent(ScriptedModel(), response_format=response, checkpointer=saver)

        assert agent.get_state(THREAD).values["structured_response"] == goods.Order(number=7)


def test_a_native_structured_response_comes_back_as_its_type(sqlite_url):
    response = ProviderStrategy(goods.Order)
    with open_checkpointer(sqlite_url) as saver:
        agent = create_agent(ScriptedModel('{"number": 7}'), response_format=response, checkpointer=saver)
        agent.invoke({"messages": "hi"}, THREAD)
    with open_checkpointer(sqlite_url) as saver:
        agent = create_agent(ScriptedModel(), response_format=response, checkpointer=saver)

        assert agent.get_state(THREAD).values["structured_response"] == goods.Order(number=7)


@tool(response_format="content_and_artifact")
def fetch(number: int) -> tuple[str, goods.Order]:
    """Fetch an order."""
    return f"order {number}", goods.Order(number=number, anything=goods.Colour.RED)


def test_the_artifact_that_a_tool_says_to_return_comes_back_as_its_type(kept_url):
    order = goods.Order(number=3, anything=goods.Colour.RED)
    with open_checkpointer(kept_url, types=[goods.Colour]) as saver:
        agent = create_agent(ScriptedModel(tool_call("fetch", number=3), "done"), [fetch], checkpointer=saver)
        agent.invoke({"messages": "hi"}, THREAD)
    with open_checkpointer(kept_url, types=[goods.Colour]) as saver:
        messages = create_agent(ScriptedModel(), [fetch], checkpointer=saver).get_state(THREAD).values["messages"]

    assert [one.artifact for one in messages if one.type == "tool"] == [order]


def test_an_interrupts_value_of_a_registered_type_comes_back(kept_url):
    def ask() -> str:
        """Ask."""
        return str(interrupt(goods.Coin(5)))

    with open_checkpointer(kept_url, types=[goods]) as saver:
        agent = create_agent(ScriptedModel(tool_call("ask")), [ask], checkpointer=saver)
        agent.invoke({"messages": "hi"}, THREAD)
    with open_checkpointer(kept_url, types=[goods]) as saver:
        agent = create_agent(ScriptedModel(), [ask], checkpointer=saver)

        assert [one.value for one in agent.get_state(THREAD).interrupts] == [goods.Coin(5)]


def test_an_unknown_type_in_a_thread_is_a_clear_error_that_loses_nothing(kept_url):
    with open_checkpointer(kept_url, types=[goods]) as saver:
        agent = create_agent(ScriptedModel("ok"), state_schema=Shop, checkpointer=saver)
        agent.invoke({"messages": "hi", "anything": goods.Coin(5)}, THREAD)
    with open_checkpointer(kept_url) as saver:
        agent = create_agent(ScriptedModel("never"), state_schema=Shop, checkpointer=saver)
        with pytest.raises(CheckpointError, match=r"goods\.Coin, which .* Nothing was changed.* types=\[Coin\]"):
            agent.invoke({"messages": "again"}, THREAD)
    with open_checkpointer(kept_url, types=[goods.Coin]) as saver:
        agent = create_agent(ScriptedModel("ok again"), state_schema=Shop, checkpointer=saver)
        values = agent.invoke({"messages": "again"}, THREAD)

    assert values["anything"] == goods.Coin(5)
    assert [one.text for one in values["messages"]] == ["hi", "ok", "again", "ok again"]


def test_a_thread_that_langgraphs_own_saver_wrote_goes_on(sqlite_url, tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        agent = create_agent(ScriptedModel("one"), state_schema=Shop, checkpointer=saver)
        agent.invoke({"messages": "hi", "phase": goods.Phase.ASK}, THREAD)
    with open_checkpointer(sqlite_url) as saver:
        agent = create_agent(ScriptedModel("two"), state_schema=Shop, checkpointer=saver)
        values = agent.invoke({"messages": "and"}, THREAD)

    assert values["phase"] is goods.Phase.ASK
    assert [one.text for one in values["messages"]] == ["hi", "one", "and", "two"]


@pytest.mark.parametrize(
    "value", ["nul \0 byte", "ordinary", "", 7, 2.5, float("inf"), True, None, ("a", 1), 2**70], ids=repr
)
def test_a_plain_value_of_the_state_comes_back(kept_url, value):
    with open_checkpointer(kept_url) as saver:
        agent = create_agent(ScriptedModel("ok"), state_schema=Shop, checkpointer=saver)
        agent.invoke({"messages": "hi", "anything": value}, THREAD)
        found = agent.get_state(THREAD).values["anything"]

    assert (type(found), found) == (type(value), value)


def test_an_encrypted_database_holds_no_text_of_the_state(postgres_url):
    serde = EncryptedSerializer.from_pycryptodome_aes(StrictSerializer(), key=b"0123456789abcdef")
    with open_checkpointer(postgres_url, serde=serde) as saver:
        agent = create_agent(ScriptedModel("reply_word"), state_schema=Shop, checkpointer=saver)
        agent.invoke({"messages": "input_word", "anything": "field_word"}, THREAD)
        assert agent.get_state(THREAD).values["anything"] == "field_word"
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute(
            "SELECT c::text FROM checkpoints c UNION ALL SELECT encode(blob, 'escape') FROM checkpoint_blobs"
            " UNION ALL SELECT encode(blob, 'escape') FROM checkpoint_writes"
        ).fetchall()

    assert len(rows) > 5
    assert [text for (text,) in rows if text and "_word" in text] == []
