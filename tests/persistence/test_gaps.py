"""What is missing or cannot be named in a database is an error, never a shorter conversation."""

import asyncio

import psycopg
import pytest

from agentgraph import create_agent, open_checkpointer, threads
from agentgraph.errors import CheckpointError
from agentgraph.testing import FunctionModel

THREAD = {"configurable": {"thread_id": "1"}}


def agent_on(saver):
    return create_agent(FunctionModel(lambda messages, settings: f"re: {messages[-1].text}"), checkpointer=saver)


def talk(saver, *texts):
    for text in texts:
        agent_on(saver).invoke({"messages": text}, THREAD)
    return texts_of(saver)


def texts_of(saver):
    return [message.text for message in threads.messages(saver, THREAD)]


def drop(saver, checkpoint_id):
    """Delete a checkpoint in the way of a program that knows nothing of the others."""
    if saver.url == "memory://":
        del saver.storage["1"][""][checkpoint_id]
    elif saver.url.startswith("sqlite"):
        with saver.cursor() as cursor:
            cursor.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (checkpoint_id,))
    else:
        with saver._cursor() as cursor:
            cursor.execute("DELETE FROM checkpoints WHERE checkpoint_id = %s", (checkpoint_id,))


def test_a_checkpoint_that_was_deleted_from_the_middle_is_noticed(url):
    with open_checkpointer(url) as saver:
        talk(saver, "one", "two", "three")
        steps = threads.history(saver, THREAD)
        whole = [message.text for message in threads.messages(saver, steps[2].config)]
        drop(saver, steps[4].checkpoint_id)

        for look in (
            lambda: texts_of(saver),
            lambda: asyncio.run(threads.amessages(saver, THREAD)),
            lambda: agent_on(saver).invoke({"messages": "four"}, THREAD),
            lambda: asyncio.run(agent_on(saver).ainvoke({"messages": "four"}, THREAD)),
        ):
            with pytest.raises(CheckpointError, match=f"{steps[4].checkpoint_id}.* was deleted, but 'messages'"):
                look()

        assert [message.text for message in threads.messages(saver, steps[2].config)] == whole == ["one", "re: one"]


def test_what_is_deleted_before_a_snapshot_is_not_missed(url):
    with open_checkpointer(url) as saver:
        talk(saver, "one", "two")
        first = threads.history(saver, THREAD)[0]
        agent = agent_on(saver)
        threads.prune(agent, "1", keep_last=50, snapshot=True)
        drop(saver, first.checkpoint_id)

        assert talk(saver, "three") == ["one", "re: one", "two", "re: two", "three", "re: three"]


def test_a_thread_that_was_pruned_has_no_gaps(url):
    with open_checkpointer(url) as saver:
        talk(saver, "one", "two", "three")
        before = texts_of(saver)
        threads.prune(agent_on(saver), "1", keep_last=1, snapshot=True)

        assert texts_of(saver) == before
        assert len(talk(saver, "four")) == 8


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_name_that_no_database_takes_is_refused(kind, request):
    with open_checkpointer(request.getfixturevalue(f"{kind}_url")) as saver:
        nameless = {"configurable": {"thread_id": "\ud800"}}
        for use in (
            lambda: agent_on(saver).invoke({"messages": "hi"}, nameless),
            lambda: asyncio.run(agent_on(saver).ainvoke({"messages": "hi"}, nameless)),
            lambda: threads.messages(saver, nameless),
            lambda: threads.size(saver, "\ud800"),
            lambda: threads.delete_thread(saver, "\ud800"),
        ):
            with pytest.raises(CheckpointError, match="is no letter, so no database takes it"):
                use()

        assert talk(saver, "hi") == ["hi", "re: hi"]
        assert [one.thread_id for one in threads.list_threads(saver)] == ["1"]


def test_a_nul_in_a_thread_id_is_refused_by_postgres_alone(postgres_url):
    with open_checkpointer(postgres_url) as saver, pytest.raises(CheckpointError, match="NUL") as refused:
        agent_on(saver).invoke({"messages": "hi"}, {"configurable": {"thread_id": "a\0b"}})

    assert isinstance(refused.value.__cause__, psycopg.DataError)
