"""From the parts of a graph's stream to events, and from events to what is shown."""

import io
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.types import Interrupt, Overwrite
from pydantic import BaseModel

from agentgraph.cli.decisions import decided, is_approval
from agentgraph.cli.events import (
    Done,
    Event,
    EventReader,
    Failed,
    Paused,
    Text,
    ToolAnswered,
    ToolCalled,
    Usage,
    as_json,
)
from agentgraph.cli.screen import JsonScreen, Transcript, visible

CALL = {"name": "weather", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}
ASKS = AIMessage(
    "let me see", id="m1", tool_calls=[CALL], usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
)
TOLD = ToolMessage("sunny", id="t1", tool_call_id="c1", name="weather")


def piece(text: str, node: str = "model", id: str = "m1") -> tuple[str, Any]:  # noqa: A002 the name in a message
    return "messages", (AIMessageChunk(content=text, id=id), {"langgraph_node": node})


def read(*parts: tuple[str, Any], seen: set[str] | None = None) -> list[Event]:
    reader = EventReader(seen if seen is not None else set(), "t")
    return [event for mode, payload in parts for event in reader.read(mode, payload)]


def test_text_comes_from_the_pieces_and_calls_from_the_update() -> None:
    assert read(piece("let me "), piece("see"), ("updates", {"model": {"messages": [ASKS]}})) == [
        Text("m1", "let me "),
        Text("m1", "see"),
        ToolCalled("c1", "weather", {"city": "Rome"}),
    ]


def test_text_that_was_not_streamed_comes_with_the_update() -> None:
    assert read(("updates", {"model": {"messages": ASKS}})) == [
        Text("m1", "let me see"),
        ToolCalled("c1", "weather", {"city": "Rome"}),
    ]


def test_the_text_of_a_model_inside_a_tool_is_not_the_agents() -> None:
    assert read(piece("thinking", node="tools")) == []


@pytest.mark.parametrize(
    "update",
    [
        {"messages": [TOLD]},
        {"messages": TOLD},
        [{"messages": [TOLD]}, None],
        {"messages": Overwrite([TOLD])},
        {"messages": [{"role": "tool", "content": "sunny", "tool_call_id": "c1", "name": "weather"}]},
    ],
    ids=["list", "single", "several updates", "overwrite", "dicts"],
)
def test_a_result_is_read_from_every_form_of_an_update(update: Any) -> None:
    assert read(("updates", {"tools": update})) == [ToolAnswered("c1", "weather", "success", "sunny")]


@pytest.mark.parametrize(
    "update", [None, {}, {"messages": None}, {"messages": [object()]}, {"messages": 3}, {"other": [TOLD]}, "text"]
)
def test_an_update_without_messages_is_no_event(update: Any) -> None:
    assert read(("updates", {"node": update})) == []


def test_a_message_that_is_written_again_is_no_news() -> None:
    again = [RemoveMessage(id="__remove_all__"), HumanMessage("summary", id="h1"), ASKS, TOLD]
    assert read(("updates", {"summary": {"messages": again}}), seen={"m1", "t1"}) == []


def test_usage_is_counted_once_a_message() -> None:
    reader = EventReader(set(), "t")
    for _ in range(2):
        reader.read("updates", {"model": {"messages": [ASKS]}})
    assert reader.usage == Usage(5, 2, 7)


def test_interrupts_are_events_and_open_questions() -> None:
    reader = EventReader(set(), "t")
    events = reader.read("updates", {"__interrupt__": (Interrupt("which city?", id="i1"),)})
    assert events == reader.pending == [Paused("i1", "which city?", "t")]


class Weather(BaseModel):
    """A structured answer."""

    city: str


def test_events_become_json_whatever_they_hold() -> None:
    opaque = object()
    happened = (Done("ok"), Done("ok", Weather(city="Rome")), Paused("i1", {"x": opaque}, "t"))
    assert [as_json(event) for event in happened] == [
        {"type": "done", "status": "ok"},
        {"type": "done", "status": "ok", "structured_response": {"city": "Rome"}},
        {"type": "interrupt", "id": "i1", "value": {"x": repr(opaque)}, "thread": "t"},
    ]


def test_an_event_is_one_line_of_ascii_whatever_it_holds() -> None:
    out = io.StringIO()
    JsonScreen(out).show(Text("m1", "a\nb\u2028c\ud800é"))
    assert out.getvalue().isascii()
    (line,) = out.getvalue().splitlines()
    assert json.loads(line) == {"type": "text", "id": "m1", "text": "a\nb\u2028c\ud800é"}


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("plain", "plain"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("over\rwrite\x08", "over\\rwrite\\x08"),
        ("\u202etxet", "\\u202etxet"),
        ("\x9b31m", "\\x9b31m"),
        ("half \ud83d pair", "half \\ud83d pair"),
        ("Ünïcödé 東京 👩\u200d🔬", "Ünïcödé 東京 👩\u200d🔬"),
    ],
)
def test_the_terminal_shows_text_and_obeys_none_of_it(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


def transcript(*events: Event) -> str:
    out = io.StringIO()
    screen = Transcript(out)
    for event in events:
        screen.show(event)
    return out.getvalue()


def test_a_transcript_reads_like_the_conversation() -> None:
    shown = transcript(
        Text("m1", "let me "),
        Text("m1", "see"),
        ToolCalled("c1", "weather", {"city": "Zürich", "days": 2}),
        ToolAnswered("c1", "weather", "success", "sunny\nwarm"),
        ToolAnswered("c2", None, "error", "no such city"),
        Text("m2", "It is "),
        Text("m2", "sunny."),
        Text("m3", "Bye."),
        Usage(5, 2, 7),
        Done("ok"),
    )
    assert shown.splitlines() == [
        "let me see",
        '→ weather(city="Zürich", days=2)',
        "← weather: sunny",
        "  warm",
        "✗ tool: no such city",
        "It is sunny.",
        "Bye.",
    ]


def test_a_long_result_is_cut_with_the_number_of_what_is_missing() -> None:
    assert transcript(ToolAnswered("c1", "read", "success", "x" * 2000)).endswith("x… (800 more characters)\n")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("which city?", "? paused: which city?"),
        ({"action_requests": [{"description": "run it?"}, {"name": "rm"}]}, '? paused: run it?\n  {"name": "rm"}'),
        ({"type": "tool_approval", "description": "really?"}, "? paused: really?"),
        ({"x": 1}, '? paused: {"x": 1}'),
    ],
)
def test_a_pause_shows_what_is_asked(value: Any, shown: str) -> None:
    assert transcript(Paused("i1", value, "t")) == f"{shown}\n"


def test_the_end_of_a_turn_is_shown_where_it_says_something() -> None:
    events: list[Event] = [Text("m1", "I beg"), Failed("ServerError", "broken\npipe"), Done("failed")]
    shown = transcript(*events, Done("cancelled"), Done("ok", {"city": "Rome"}))
    assert shown.splitlines() == [
        "I beg",
        "error: ServerError: broken pipe",
        "[cancelled]",
        '{"city": "Rome"}',
    ]


BATCH = Paused("i1", {"action_requests": [{"name": "a", "args": {}}, {"name": "b", "args": {}}]}, "t")
SINGLE = Paused("i2", {"type": "tool_approval", "name": "a"}, "t")
FREE = Paused("i3", "which city?", "t")
BREAKPOINT = Paused("", "the graph stops here", "t")


class Shy:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not now")


CIRCLE: dict[str, Any] = {"x": 1}
CIRCLE["again"] = CIRCLE
WELL: list[Any] = []
for _ in range(5000):
    WELL = [WELL]


def refused(constant: str) -> None:
    raise ValueError(constant)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"x": float("nan"), "y": (float("inf"), 1.5)}, {"x": "nan", "y": ["inf", 1.5]}),
        ({"\ud800": "\ud800"}, {"\ud800": "\ud800"}),
        ({1: b"\xff", "x": {2}, "y": float("nan")}, {"1": r"b'\xff'", "x": "{2}", "y": "nan"}),
        ([10**5000, True, None, 3], ["<int>", True, None, 3]),
        ({"x": Shy()}, {"x": "<Shy>"}),
        ({"x": "[red]\x1b[31m\x00\u2028\r\n"}, {"x": "[red]\x1b[31m\x00\u2028\r\n"}),
        (CIRCLE, {"x": 1, "again": "{'x': 1, 'again': {...}}"}),
    ],
    ids=["not finite", "surrogates", "bytes and keys", "huge number", "no repr", "hostile text", "circle"],
)
def test_whatever_an_event_holds_is_one_line_of_strict_json(value: Any, written: Any) -> None:
    for event in (Paused("i1", value, "t"), ToolCalled("c1", "t", {"v": value}), Done("ok", value)):
        out = io.StringIO()
        JsonScreen(out).show(event)
        assert out.getvalue().count("\n") == 1
        found = json.loads(out.getvalue(), parse_constant=refused)
        assert written in (found.get("value"), found.get("args", {}).get("v"), found.get("structured_response"))
        Transcript(io.StringIO()).show(event)


def test_a_value_without_a_bottom_is_cut() -> None:
    out = io.StringIO()
    JsonScreen(out).show(Paused("i1", WELL, "t"))
    depth = out.getvalue().count("[")
    assert 10 < depth < 2000


def test_line_breaks_that_only_unicode_knows_are_shown_as_escapes() -> None:
    assert visible("a\u2028b\u2029c") == "a\\u2028b\\u2029c"


@pytest.mark.parametrize(
    ("command", "questions", "rest", "answers"),
    [
        ("/approve", [BATCH], "", {"i1": {"decisions": [{"type": "approve"}, {"type": "approve"}]}}),
        ("/approve", [SINGLE], "", {"i2": {"type": "approve"}}),
        ("/reject", [SINGLE], "", {"i2": {"type": "reject"}}),
        ("/reject", [SINGLE], "too dear", {"i2": {"type": "reject", "message": "too dear"}}),
        ("/resume", [FREE], '"Rome"', {"i3": "Rome"}),
        ("/resume", [FREE], '{"city": "Rome"}', {"i3": {"city": "Rome"}}),
        ("/resume", [SINGLE, FREE], '[{"type": "approve"}, 1]', {"i2": {"type": "approve"}, "i3": 1}),
        ("/resume", [FREE], "[1, 2]", {"i3": [1, 2]}),
        ("/resume", [SINGLE, FREE], '{"i2": {"type": "approve"}, "i3": 1}', {"i2": {"type": "approve"}, "i3": 1}),
    ],
)
def test_a_decision_takes_the_form_that_its_question_asks_for(
    command: str, questions: list[Paused], rest: str, answers: dict[str, Any]
) -> None:
    assert decided(command, questions, rest) == answers


@pytest.mark.parametrize("answer", ['"Rome"', '["Rome"]', '["Rome", 1, 2]', '{"i2": "Rome"}'])
def test_one_answer_to_two_questions_is_refused(answer: str) -> None:
    said = "2 questions are open; expected a list with an answer for each, in their order, or .* the keys i2, i3"
    with pytest.raises(ValueError, match=said):
        decided("/resume", [SINGLE, FREE], answer)


@pytest.mark.parametrize("command", ["/reject", "/resume"])
def test_a_breakpoint_takes_nothing_but_yes(command: str) -> None:
    with pytest.raises(ValueError, match="a breakpoint takes nothing but /approve"):
        decided(command, [BREAKPOINT], "no")


def test_only_questions_about_going_on_take_yes_and_no() -> None:
    assert [is_approval(question) for question in (BATCH, SINGLE, BREAKPOINT, FREE)] == [True, True, True, False]
