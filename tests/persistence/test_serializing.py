"""What goes into a checkpoint comes back as what it was, or as a clear error."""

import datetime as dt
import decimal
import ipaddress
import pathlib
import re
import subprocess
import sys
import uuid
import warnings
import zoneinfo
from collections import deque
from dataclasses import make_dataclass

import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item as StoreItem
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel, SecretStr, create_model

from agentgraph.errors import CheckpointError
from agentgraph.persistence import StrictSerializer
from tests.persistence import goods
from tests.persistence.processes import ROOT, SECONDS

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Rome"))
CALL = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}

OF_THE_USERS = [
    goods.Colour.RED,
    goods.Phase.DONE,
    goods.Level.HIGH,
    goods.Right.READ | goods.Right.WRITE,
    goods.Place(3, goods.Colour.BLUE),
    goods.Basket(["a", "b"]),
    goods.Coin(5, goods.Colour.BLUE),
    goods.Parcel(0.0, 8.0),
    goods.Item(kind=goods.Item.Kind.TOY, colour=goods.Colour.RED),
    goods.Item.Kind.BOOK,
    goods.Order(number=1, items=[goods.Item(kind="book")], anything=goods.Coin(1)),
    goods.Open(name="n", more=goods.Level.LOW),
    goods.Renamed(Amount=7),
    goods.Priced(net=2, hidden="kept"),
    goods.Numbers([1, 2]),
    goods.Login(user="u", password="p"),
    ToolMessage("3 items", tool_call_id="1", artifact=goods.Order(number=1)),
    ToolMessage("3 items", tool_call_id="1", artifact={"coin": (goods.Coin(5), {goods.Phase.ASK})}),
    Send("tools", {"level": goods.Level.LOW}),
    Interrupt(value=goods.Order(number=2), id="i"),
    Command(resume={"i": goods.Colour.RED}),
]
OF_OTHERS = [
    HumanMessage("hi", id="1"),
    AIMessage("", tool_calls=[CALL], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    AIMessage([{"type": "text", "text": "a"}], house_style="extra"),
    AIMessageChunk("part"),
    RemoveMessage(id="1"),
    Document("text", metadata={"page": 1}),
    Overwrite([1]),
    Send("tools", 1, timeout=3),
    _DeltaSnapshot([HumanMessage("hi")]),
    NOW,
    NOW.date(),
    NOW.time(),
    dt.timedelta(days=1, seconds=2),
    dt.UTC,
    decimal.Decimal("1.50"),
    uuid.UUID(int=5),
    ipaddress.ip_network("10.0.0.0/8"),
    pathlib.Path("a/b"),
    re.compile("a+", re.IGNORECASE),
    SecretStr("s"),
    (1, (2, "x")),
    {1, 2},
    frozenset({"a"}),
    deque([1, 2]),
    2**200,
    -(2**70),
    {1: "a", "b": None, None: [1.5, True]},
    b"bytes",
    bytearray(b"more"),
    None,
]


@pytest.mark.parametrize("value", [*OF_THE_USERS, *OF_OTHERS], ids=repr)
def test_a_value_comes_back_as_what_it_was(value):
    serde = StrictSerializer([goods])

    back = serde.loads_typed(serde.dumps_typed(value))

    assert (type(back), back) == (type(value), value)


def test_a_computed_field_is_not_computed_again():
    basket = goods.Basket(["a"])
    basket.total = 40
    serde = StrictSerializer([goods])

    assert serde.loads_typed(serde.dumps_typed(basket)).total == 40


def test_an_item_of_a_store_comes_back():
    item = StoreItem(value={"a": 1}, key="k", namespace=("n",), created_at=NOW, updated_at=NOW)
    serde = StrictSerializer()

    assert serde.loads_typed(serde.dumps_typed(item)) == item


def test_a_model_with_fields_of_foreign_types_is_stored_by_its_own_serializers():
    serde = StrictSerializer([goods])

    assert serde.loads_typed(serde.dumps_typed(goods.Letter(text=goods.Text("dear")))) == goods.Letter(text="dear")


def test_an_exception_is_kept_as_its_text():
    serde = StrictSerializer()

    assert serde.loads_typed(serde.dumps_typed(ValueError("no"))) == "ValueError('no')"


@pytest.mark.parametrize("value", OF_OTHERS[:8], ids=repr)
def test_langgraphs_own_serializer_and_ours_read_each_other(value):
    ours, theirs = StrictSerializer(), JsonPlusSerializer(allowed_msgpack_modules=None)

    assert ours.loads_typed(theirs.dumps_typed(value)) == value
    assert theirs.loads_typed(ours.dumps_typed(value)) == value


@pytest.mark.parametrize("value", [goods.Colour.RED, goods.Order(number=1), goods.Item.Kind.TOY], ids=repr)
def test_what_langgraph_wrote_of_a_registered_type_is_read(value):
    assert StrictSerializer([goods]).loads_typed(JsonPlusSerializer().dumps_typed(value)) == value


def test_a_class_of_a_function_comes_back_where_it_is_registered():
    class Local(BaseModel):
        value: int

    serde = StrictSerializer([Local])

    assert serde.loads_typed(serde.dumps_typed(Local(value=1))) == Local(value=1)


@pytest.mark.parametrize("value", OF_THE_USERS, ids=repr)
def test_an_unknown_type_is_an_error_that_names_it_and_the_way_out(value):
    stored = StrictSerializer([goods]).dumps_typed(["deep", {"er": value}])

    with pytest.raises(CheckpointError, match=r"of type tests\.persistence\.goods\.\w+.* types=\[[\w.]+\]"):
        StrictSerializer().loads_typed(stored)


def test_registering_later_reads_what_could_not_be_read():
    stored = StrictSerializer([goods]).dumps_typed(goods.Coin(5))
    serde = StrictSerializer()
    with pytest.raises(CheckpointError):
        serde.loads_typed(stored)

    serde.register(goods.Coin)

    assert serde.loads_typed(stored) == goods.Coin(5)


def test_storing_an_unknown_type_warns_once():
    serde = StrictSerializer()
    with pytest.warns(UserWarning, match=r"tests\.persistence\.goods\.Level .* types=\[Level\]") as caught:
        serde.dumps_typed([goods.Level.LOW, goods.Level.HIGH])
    serde.dumps_typed(goods.Level.LOW)

    assert len(caught) == 1


@pytest.mark.parametrize(
    "value",
    [lambda: 1, object(), {"open": sys.stdout}, [goods.Order(number=1, anything=print)], goods.Text("x")],
    ids=["function", "object", "file", "field", "string"],
)
def test_a_value_that_cannot_be_stored_is_a_clear_error(value):
    with pytest.raises(CheckpointError, match=r"cannot be stored in a checkpoint: .* keep connections"):
        StrictSerializer([goods]).dumps_typed(value)


def extension(code: int, *parts: object) -> tuple[str, bytes]:
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))


@pytest.mark.parametrize("code", [*range(7), 9, 127])
@pytest.mark.parametrize(
    ("module", "name", "content"),
    [
        ("os", "system", "echo attack"),
        ("builtins", "eval", "1"),
        ("subprocess", "Popen", ["true"]),
        ("agentgraph.cli.__main__", "main", {}),
        ("agentgraph.persistence.sqlite", "sqlite3", {}),
        ("langgraph.types", "interrupt", "x"),
        ("langchain_core.messages", "os", "x"),
        ("langchain_core.load.load", "load", "x"),
        ("pathlib", "os", "x"),
        ("this_module.does_not_exist", "x", 1),
    ],
)
def test_stored_names_call_nothing(code, module, name, content, capfd):
    with pytest.raises(CheckpointError):
        StrictSerializer([goods]).loads_typed(extension(code, module, name, content, "system"))

    assert capfd.readouterr().out == ""


def test_stored_names_import_nothing():
    code = """
import sys
from agentgraph.errors import CheckpointError
from agentgraph.persistence import StrictSerializer
from tests.persistence.test_serializing import extension

for module in ("antigravity", "this", "agentgraph.cli.chat", "langchain_core.tracers.langchain"):
    sys.modules.pop(module, None)
    try:
        StrictSerializer().loads_typed(extension(0, module, "x", 1))
    except CheckpointError:
        print(module in sys.modules)
"""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.split() == ["False"] * 4


@pytest.mark.parametrize(
    "data",
    [("msgpack", b"\xc7\xff"), ("msgpack", b""), ("pickle", b"cos\nsystem\n"), ("msgpack+aes", b"x" * 40), ("", b"")],
    ids=["cut", "empty", "pickle", "encrypted", "nameless"],
)
def test_damaged_and_foreign_bytes_are_clear_errors(data):
    with pytest.raises(CheckpointError, match="Nothing was changed"):
        StrictSerializer().loads_typed(data)


def test_a_class_that_lost_a_field_and_got_one_with_a_default_reads_what_was_stored():
    old = make_dataclass("Coin", [("cents", int), ("land", str)], namespace={"__module__": goods.__name__})
    stored = StrictSerializer([old]).dumps_typed(old(5, "it"))

    assert StrictSerializer([goods]).loads_typed(stored) == goods.Coin(5)


@pytest.mark.parametrize(
    "new",
    [
        create_model("Order", __module__=goods.__name__, number=(int, ...), needed=(str, ...)),
        make_dataclass("Order", [("needed", str)], namespace={"__module__": goods.__name__}),
    ],
    ids=["model", "dataclass"],
)
def test_a_class_that_what_was_stored_does_not_fit_is_a_clear_error(new):
    stored = StrictSerializer([goods]).dumps_typed(goods.Order(number=1))

    with pytest.raises(CheckpointError, match=r"stored tests.persistence.goods.Order does not fit its class any more"):
        StrictSerializer([new]).loads_typed(stored)


def test_a_member_that_an_enum_lost_is_a_clear_error():
    stored = extension(0, goods.__name__, "Colour", "green")

    with pytest.raises(CheckpointError, match=r"goods\.Colour does not fit its class any more: .*green"):
        StrictSerializer([goods]).loads_typed(stored)


def test_the_encrypted_form_hides_the_text_and_comes_back():
    strict = StrictSerializer([goods])
    serde = EncryptedSerializer.from_pycryptodome_aes(strict, key=b"0123456789abcdef")
    value = ToolMessage("a secret", tool_call_id="1", artifact=goods.Coin(5))

    kind, stored = serde.dumps_typed(value)

    assert (kind, b"secret" in stored) == ("msgpack+aes", False)
    assert serde.loads_typed((kind, stored)) == value
    assert serde.loads_typed(strict.dumps_typed(value)) == value, "what was stored before is still read"


def test_langgraphs_allowlist_registers_classes_and_names():
    serde = StrictSerializer()

    same = serde.with_msgpack_allowlist(
        [goods.Coin, (goods.__name__, "Colour"), (goods.__name__, "Item.Kind"), ("no.such", "Name")]
    )

    assert same is serde
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = [goods.Coin(1), goods.Colour.RED, goods.Item.Kind.TOY]
        assert serde.loads_typed(serde.dumps_typed(values)) == values
