"""From a URL to a checkpointer: what works, what is refused, and what an error never shows."""

import asyncio
import importlib
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentgraph import create_agent
from agentgraph.errors import CheckpointError, ConfigurationError, ConfigurationTypeError
from agentgraph.persistence import StrictSerializer, open_checkpointer
from agentgraph.testing import ScriptedModel
from tests.persistence import goods

CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def talk(saver, *texts: str) -> list[str]:
    """Say something on the thread; all texts of the thread afterwards."""
    agent = create_agent(ScriptedModel(*(f"re: {text}" for text in texts)), checkpointer=saver)
    for text in texts:
        agent.invoke({"messages": text}, CONFIG)
    return [message.text for message in agent.get_state(CONFIG).values["messages"]]


async def atalk(saver, text: str) -> list[str]:
    agent = create_agent(ScriptedModel(f"re: {text}"), checkpointer=saver)
    await agent.ainvoke({"messages": text}, CONFIG)
    return [message.text for message in (await agent.aget_state(CONFIG)).values["messages"]]


def test_one_object_serves_sync_and_async_code(url):
    with open_checkpointer(url) as saver:
        assert isinstance(saver, BaseCheckpointSaver)
        assert talk(saver, "one") == ["one", "re: one"]
        assert asyncio.run(atalk(saver, "two")) == ["one", "re: one", "two", "re: two"]
        assert asyncio.run(atalk(saver, "three"))[-2:] == ["three", "re: three"], "another loop"
        assert talk(saver, "four")[-2:] == ["four", "re: four"]


def test_it_opens_and_closes_in_async_code(url):
    async def run() -> list[str]:
        async with open_checkpointer(url) as saver:
            return await atalk(saver, "one")

    assert asyncio.run(run()) == ["one", "re: one"]


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
def test_what_was_said_is_there_after_opening_again(kind, request):
    place = request.getfixturevalue(kind)
    with open_checkpointer(place) as saver:
        talk(saver, "one")
    with open_checkpointer(place) as saver:
        assert talk(saver, "two") == ["one", "re: one", "two", "re: two"]


def test_nothing_is_made_before_the_first_use(tmp_path):
    with open_checkpointer(f"sqlite:///{tmp_path}/t.db") as saver:
        assert "checkpoints" not in tables(tmp_path / "t.db")
        talk(saver, "one")
        assert "checkpoints" in tables(tmp_path / "t.db")


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return found


def test_closing_twice_is_fine_and_use_afterwards_is_a_clear_error(url):
    saver = open_checkpointer(url)
    talk(saver, "one")
    saver.close()
    saver.close()

    with pytest.raises(CheckpointError, match="was closed and is used again"):
        saver.get_tuple(CONFIG)
    with pytest.raises(CheckpointError, match="was closed and is used again"):
        list(saver.list(CONFIG))
    with pytest.raises(CheckpointError, match="was closed and is used again"):
        asyncio.run(saver.aput(CONFIG, empty_checkpoint(), {}, {}))
    with pytest.raises(CheckpointError, match="was closed and is used again"), saver:
        pass
    assert "closed" in repr(saver)


def test_closing_before_the_first_use_is_fine(url):
    open_checkpointer(url).close()


def test_a_relative_path_is_meant_from_where_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_checkpointer("sqlite:///here.db") as saver:
        monkeypatch.chdir("/")
        talk(saver, "one")

    assert (tmp_path / "here.db").exists()
    assert saver.url == f"sqlite:///{tmp_path}/here.db"


@pytest.mark.parametrize("name", ["with space.db", "ünï.db", "100%.db", "a#b.db", "a&b=c.db"])
def test_a_path_is_taken_as_it_is(tmp_path, name):
    with open_checkpointer(f"sqlite:///{tmp_path}/{name}") as saver:
        talk(saver, "one")

    assert (tmp_path / name).exists()


def test_sqlite_in_memory_works_and_makes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_checkpointer("sqlite:///:memory:") as saver:
        assert talk(saver, "one") == ["one", "re: one"]
        assert asyncio.run(atalk(saver, "two"))[-1] == "re: two"

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "level"), [("", 1), ("?synchronous=full", 2), ("?timeout=5&synchronous=normal", 1)])
def test_options_of_sqlite_stand_in_the_url(sqlite_url, option, level):
    with open_checkpointer(f"{sqlite_url}{option}") as saver, saver.cursor() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone() == (level,)
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ("sqlit:///a.db", "cannot begin with 'sqlit'. Did you mean sqlite://?"),
        ("postgress://h/d", "Did you mean postgres://?"),
        ("postgresql+asyncpg://h/d", "Did you mean postgresql://?"),
        ("threads.db", "cannot begin with 'threads.db'. Expected for example memory://"),
        ("redis://h", "cannot begin with 'redis'. Expected"),
        ("", "cannot begin with ''"),
        ("sqlite://a.db", "'sqlite://a.db' names no file. Expected three slashes"),
        ("sqlite://", "'sqlite://' names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:////no/such/folder/a.db", "The folder of the database '/no/such/folder/a.db' does not exist"),
        ("sqlite:///a\0b.db", "is none that a file can have: it holds a NUL"),
        ("sqlite:///\ud800.db", "is none that a file can have: 'utf-8' codec"),
        ("sqlite:///~nobody-of-that-name/a.db", "is none that a file can have: Could not determine home"),
        (f"sqlite:////{'x' * 300}/a.db", "is none that a file can have"),
        ("sqlite:///a.db?timeout=soon", "timeout='soon' was given; expected seconds"),
        ("sqlite:///a.db?timeout=-1", "expected seconds"),
        ("sqlite:///a.db?timeout=nan", "expected seconds"),
        ("sqlite:///a.db?synchronous=off", "expected 'normal' or 'full'"),
        ("sqlite:///a.db?cache=shared", "'cache' is no option of SQLite; expected timeout or synchronous"),
        ("memory://x", "Nothing may follow memory://"),
        ("postgresql://me:secret@host:port/db", "The Postgres URL cannot be read"),
        ("postgresql://me:sec%ret@host/db", "percent-encoding"),
        ("postgresql://me:se/cret@host/db", "percent-encoding"),
        ("postgresql://me:1/secret@host/db", "percent-encoding"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_the_way_out(bad, text):
    with pytest.raises(ConfigurationError) as caught:
        open_checkpointer(bad)

    assert text in str(caught.value)
    assert "sec" not in str(caught.value).replace("seconds", "")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_busy": "queue"}, "on_busy='queue' was given; expected 'raise' or 'wait'"),
        ({"max_connections": 0}, "max_connections=0 was given"),
        ({"max_connections": True}, "max_connections=True was given"),
        ({"types": ["Order"]}, "types holds 'Order', a str. Expected classes"),
        ({"types": [3]}, "types holds 3, a int"),
        ({"types": [goods.Coin], "serde": JsonPlusSerializer()}, "Put a StrictSerializer into it"),
    ],
)
def test_an_option_that_cannot_work_is_refused(options, text):
    with pytest.raises(ConfigurationError, match=text.replace("(", r"\(")):
        open_checkpointer("memory://", **options)


def test_a_path_object_is_refused_by_type(tmp_path):
    with pytest.raises(ConfigurationTypeError, match="is a string, not"):
        open_checkpointer(tmp_path)


@pytest.mark.parametrize(
    ("module", "extra"), [("langgraph.checkpoint.sqlite", "sqlite"), ("langgraph.checkpoint.postgres", "postgres")]
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"agentgraph.persistence.{extra}", raising=False)
    url = "sqlite:///a.db" if extra == "sqlite" else "postgresql://h/d"

    with pytest.raises(ConfigurationError, match=rf'pip install "agentgraph-runtime\[{extra}\]"'):
        open_checkpointer(url)


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me:secret@127.0.0.1:1/db?connect_timeout=2",
        "postgres://127.0.0.1:1/db?password=secret&user=me&connect_timeout=2",
    ],
)
def test_a_password_is_never_shown(given):
    with open_checkpointer(given) as saver, pytest.raises(CheckpointError) as caught:
        saver.get_tuple(CONFIG)

    shown = [repr(saver), str(caught.value), repr(caught.value.__cause__)]
    assert saver.url == "postgresql://127.0.0.1:1/db"
    assert [text for text in shown if "secret" in text] == []


def test_a_file_that_is_no_database_is_a_clear_error_and_stays_as_it_was(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 100)

    with pytest.raises(CheckpointError, match="is something else"):
        open_checkpointer(f"sqlite:///{path}")

    assert path.read_text() == "Dear reader, " * 100


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_file_that_goes_while_it_is_open_is_noticed_before_a_run_writes(tmp_path, what):
    path = tmp_path / "threads.db"
    with open_checkpointer(f"sqlite:///{path}") as saver:
        talk(saver, "one")
        path.rename(tmp_path / "moved.db")
        if what == "replaced":
            path.touch()

        for say in (talk, lambda *words: asyncio.run(atalk(*words))):
            with pytest.raises(CheckpointError, match="was deleted or replaced while it was open"):
                say(saver, "two")

    with pytest.raises(CheckpointError, match="was closed and is used again"):
        talk(saver, "three")


def test_a_table_of_another_program_is_named_as_the_reason(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE checkpoints (number INTEGER)")

    with (
        open_checkpointer(f"sqlite:///{tmp_path}/other.db") as saver,
        pytest.raises(CheckpointError, match="a table of another program's under the name of one of ours"),
    ):
        talk(saver, "one")


def test_the_types_of_a_module_and_of_annotations_are_registered():
    with open_checkpointer("memory://", types=[goods]) as all_of_them:
        value = [goods.Coin(1), goods.Item.Kind.TOY]
        assert all_of_them.serde.loads_typed(all_of_them.serde.dumps_typed(value)) == value
    with open_checkpointer("memory://", types=[list[goods.Order] | None]) as some:
        order = goods.Order(number=1, items=[goods.Item(kind="toy", colour="red")])
        assert some.serde.loads_typed(some.serde.dumps_typed(order)) == order
        with pytest.raises(CheckpointError):
            some.serde.loads_typed(all_of_them.serde.dumps_typed(goods.Coin(1)))


def test_an_encrypting_serializer_keeps_the_text_out_of_the_file(sqlite_url, tmp_path):
    pytest.importorskip("Crypto")

    def opened():
        serde = EncryptedSerializer.from_pycryptodome_aes(StrictSerializer(), key=b"0123456789abcdef")
        return open_checkpointer(sqlite_url, serde=serde, types=[goods.Coin])

    with opened() as saver:
        talk(saver, "a very secret word")
    with opened() as saver:
        assert talk(saver, "more")[:1] == ["a very secret word"]
        assert saver.serde.loads_typed(saver.serde.dumps_typed(goods.Coin(1))) == goods.Coin(1)
    assert not [path.name for path in tmp_path.iterdir() if b"very secret" in path.read_bytes()]


def test_langgraphs_copies_share_the_life_of_the_original(url):
    with open_checkpointer(url) as saver:
        copy = saver.with_allowlist({(goods.__name__, "Coin")})
        assert copy is saver
    with pytest.raises(CheckpointError, match="was closed"):
        copy.get_tuple(CONFIG)


def test_the_package_of_a_database_is_loaded_only_for_it():
    assert importlib.import_module("agentgraph.persistence").open_checkpointer is open_checkpointer
    assert isinstance(open_checkpointer("memory://"), InMemorySaver)
