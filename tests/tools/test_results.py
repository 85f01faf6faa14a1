import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, RemoveMessage, ToolCall, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite
from pydantic import BaseModel

from agentgraph.tools.results import answered

CALL = ToolCall(name="act", args={}, id="c", type="tool_call")


class Line(BaseModel):
    item: str
    model_config = {"extra": "allow"}


@dataclasses.dataclass
class Point:
    x: int
    lines: list[Line]


class Shade(enum.StrEnum):
    DARK = "dark"


class Level(enum.Enum):
    HIGH = 3


class Pair(NamedTuple):
    a: int
    b: int


class Silent:
    def __str__(self) -> str:
        return "a silent thing"


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

TEXTS: list[tuple[Any, str]] = [
    ("as it is", "as it is"),
    ("", ""),
    (None, "null"),
    ([], "[]"),
    ({}, "{}"),
    (0, "0"),
    (True, "true"),
    (1.5, "1.5"),
    ("größe 日本", "größe 日本"),
    ({"größe": "日本"}, '{"größe": "日本"}'),
    (["a", "b"], '["a", "b"]'),
    (Line(item="cüp", more=1), '{"item": "cüp", "more": 1}'),  # type: ignore[call-arg] # an extra field
    (Point(1, [Line(item="cup")]), '{"x": 1, "lines": [{"item": "cup"}]}'),
    ({3, 1, 2}, "[1, 2, 3]"),
    (frozenset({"a", 1}), "['a', 1]".replace("'", '"')),
    (b"abc", "abc"),
    (b"\xff\xfe", "<2 bytes of binary data>"),
    ({"raw": bytearray(b"x")}, '{"raw": "x"}'),
    (Shade.DARK, "dark"),
    (Level.HIGH, "3"),
    (Pair(1, 2), "[1, 2]"),
    (dt.date(2024, 2, 29), '"2024-02-29"'),
    ({"at": dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)}, '{"at": "2024-01-01T12:00:00+00:00"}'),
    ({"p": Path("a/b"), "d": Decimal("1.10")}, '{"p": "a/b", "d": "1.10"}'),
    (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (MappingProxyType({"a": 1}), '{"a": 1}'),
    ({(1, 2): "tuple key"}, "{(1, 2): 'tuple key'}"),
    (CIRCLE, "[[...]]"),
    (Silent(), '"a silent thing"'),
    (AIMessage("what a subagent said"), "what a subagent said"),
    ([AIMessage("a")], '[{"role": "ai", "content": "a"}]'),
    ("half \ud83d", "half ?"),
    ([{"type": "nonsense", "x": 1}], '[{"type": "nonsense", "x": 1}]'),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[str(n) for n in range(len(TEXTS))])
def test_every_value_becomes_readable_text(value: Any, text: str) -> None:
    message = answered(value, CALL)
    assert isinstance(message, ToolMessage)
    assert (type(message.content), message.content) == (str, text)
    assert (message.name, message.tool_call_id, message.status, bool(message.id)) == ("act", "c", "success", True)


@pytest.mark.parametrize("blocks", [[{"type": "text", "text": "t"}], ({"type": "image", "url": "u"},)])
def test_content_blocks_stay_content_blocks(blocks: Any) -> None:
    message = answered(blocks, CALL)
    assert isinstance(message, ToolMessage)
    assert message.content == list(blocks)


def test_a_tools_own_message_is_completed_on_a_copy() -> None:
    own = ToolMessage("mine", tool_call_id="elsewhere", artifact={"a": 1}, status="error")
    message = answered(own, CALL)
    assert isinstance(message, ToolMessage)
    assert message.id
    assert message == ToolMessage(
        "mine", id=message.id, name="act", tool_call_id="c", artifact={"a": 1}, status="error"
    )
    assert (own.tool_call_id, own.name, own.id) == ("elsewhere", None, None)
    assert answered(message, CALL) is message


@dataclasses.dataclass
class Fields:
    n: int
    messages: list[Any]


def shape(result: Any) -> Any:
    """Results without ids, for comparing wholes."""
    if isinstance(result, list):
        return [shape(item) for item in result]
    if isinstance(result, ToolMessage):
        return (result.name, result.tool_call_id, result.content)
    if isinstance(result, Command):
        return ("command", shape(result.update), result.goto, result.graph)
    return {key: shape(item) for key, item in result.items()} if isinstance(result, dict) else result


MINE = ToolMessage("mine", tool_call_id="c")
OTHER = ToolMessage("other", tool_call_id="d")
DONE, NAMED = ("act", "c", "Done."), ("act", "c", "mine")
UNNAMED_OTHER = (None, "d", "other")
GONE = RemoveMessage(id=REMOVE_ALL_MESSAGES)
OVERWRITE = Overwrite([AIMessage("x")])

OUTPUTS: dict[str, tuple[Any, Any]] = {
    "command without update": (Command(goto="x"), ("command", {"messages": [DONE]}, "x", None)),
    "command without messages": (Command(update={"n": 1}), ("command", {"n": 1, "messages": [DONE]}, (), None)),
    "messages None": (Command(update={"messages": None}), ("command", {"messages": [DONE]}, (), None)),
    "one message": (Command(update={"messages": MINE}), ("command", {"messages": [NAMED]}, (), None)),
    "answering command": (Command(update={"messages": [MINE]}), ("command", {"messages": [NAMED]}, (), None)),
    "dicts as messages": (
        Command(update={"messages": [{"role": "tool", "content": "mine", "tool_call_id": "c"}]}),
        ("command", {"messages": [NAMED]}, (), None),
    ),
    "command for another call": (
        Command(update={"messages": [OTHER]}),
        ("command", {"messages": [UNNAMED_OTHER, DONE]}, (), None),
    ),
    "history removed": (Command(update={"messages": [GONE]}), ("command", {"messages": [GONE]}, (), None)),
    "to the parent": (Command(graph=Command.PARENT, goto="x"), ("command", None, "x", Command.PARENT)),
    "to the parent with the answer": (
        Command(graph=Command.PARENT, update={"messages": [MINE]}),
        ("command", {"messages": [NAMED]}, (), Command.PARENT),
    ),
    "pairs": (Command(update=[("n", 1)]), ("command", {"n": 1, "messages": [DONE]}, (), None)),
    "pairs with the answer": (
        Command(update=[("n", 1), ("messages", [MINE])]),
        ("command", {"n": 1, "messages": [NAMED]}, (), None),
    ),
    "pairs in a list": ([Command(update=[("messages", [MINE])])], [("command", {"messages": [NAMED]}, (), None)]),
    "pairs that write twice": (
        Command(update=[("n", 1), ("n", 2)]),
        [("command", [("n", 1), ("n", 2)], (), None), DONE],
    ),
    "an object of fields": (
        Command(update=Fields(n=1, messages=[MINE])),
        ("command", {"n": 1, "messages": [NAMED]}, (), None),
    ),
    "overwrite": (
        Command(update={"messages": OVERWRITE}),
        [("command", {"messages": OVERWRITE}, (), None), DONE],
    ),
    "a list of messages as update": (Command(update=[MINE]), ("command", [NAMED], (), None)),
    "list": ([MINE, Command(update={"n": 1})], [NAMED, ("command", {"n": 1}, (), None)]),
    "list with the answer in a command": (
        [Command(update={"messages": [MINE]}), Command(update={"n": 1})],
        [("command", {"messages": [NAMED]}, (), None), ("command", {"n": 1}, (), None)],
    ),
    "list without an answer": ([Command(update={"n": 1})], [("command", {"n": 1}, (), None), DONE]),
    "list with a message for another call": ([OTHER], [UNNAMED_OTHER, DONE]),
    "list that leaves": ([Command(graph=Command.PARENT)], [("command", None, (), Command.PARENT)]),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_messages_and_commands_answer_their_call_exactly_once(kind: str) -> None:
    given, expected = OUTPUTS[kind]
    before = repr(given)
    result = answered(given, CALL)
    assert shape(result) == expected
    assert repr(given) == before, "what the tool returned was changed"
    assert shape(answered(result, CALL)) == expected


@pytest.mark.parametrize(
    "twice", [[MINE, MINE], [MINE, Command(update={"messages": [MINE]})], Command(update={"messages": [MINE, MINE]})]
)
def test_two_answers_to_one_call_are_an_error(twice: Any) -> None:
    with pytest.raises(ValueError, match="'act' returned 2 messages that answer the call 'c'; return exactly one"):
        answered(twice, CALL)


def test_a_list_that_mixes_commands_and_values_is_an_error() -> None:
    with pytest.raises(TypeError, match="mixes messages or commands with 'str'"):
        answered([Command(update={"n": 1}), "text"], CALL)
