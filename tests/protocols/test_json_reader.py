"""What the JSON protocol reads out of an answer, however the answer is cut."""

import itertools
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph.protocols import JSONProtocol, Parsed, ToolOffer, parse
from agentgraph.protocols.json_reader import JSONTurnParser
from agentgraph.protocols.reading import TurnReader

PROTOCOL = JSONProtocol()
OFFER = ToolOffer(())
REMINDER = PROTOCOL.reminder


def counted() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"call_{next(numbers)}"


def read(text: str) -> Parsed:
    return parse(PROTOCOL, text, OFFER, counted())


def read_in_pieces(pieces: list[str]) -> Parsed:
    reader = TurnReader(PROTOCOL, OFFER, counted())
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    return reader.parsed


def calls(*named: tuple[str, dict[str, Any]], start: int = 1) -> list[Any]:
    return [
        {"name": name, "args": args, "id": f"call_{number}", "type": "tool_call"}
        for number, (name, args) in enumerate(named, start)
    ]


def broken(name: str, args: str, why: str, number: int = 1) -> list[Any]:
    error = f"{why} {REMINDER}"
    return [{"name": name, "args": args, "id": f"call_{number}", "error": error, "type": "invalid_tool_call"}]


WEATHER = ("weather", {"city": "Oslo"})
ADD = ("add", {"a": 1, "b": 2})

READ = {
    "marks of a chat template": (
        """<tool_call>
{"name": "weather", "arguments": {"city": "Oslo"}}
</tool_call>
<tool_call>
{"name": "add", "arguments": {"a": 1, "b": 2}}
</tool_call><|im_end|>""",
        Parsed("", calls(WEATHER, ADD), []),
    ),
    "a mark before a list": (
        'So: [TOOL_CALLS][{"name": "add", "arguments": {"a": 1, "b": 2}}]',
        Parsed("So:", calls(ADD), []),
    ),
    "a result that the model made up behind a mark": (
        '<tool_call>{"tool": "add", "args": {"a": 1, "b": 2}}</tool_call><|im_start|>{"tool": "weather", "args": {}}',
        Parsed("", calls(ADD), []),
    ),
    "prose with marks": ("1 < 2, [T and <tool_call> too", Parsed("1 < 2, [T and <tool_call> too", [], [])),
    "a call": ('{"tool": "weather", "args": {"city": "Oslo"}}', Parsed("", calls(WEATHER), [])),
    "an answer": ('{"final": "It is cold."}', Parsed("It is cold.", [], [])),
    "an empty text": ("", Parsed("", [], [])),
    "plain prose": ("It is cold, I think.\n", Parsed("It is cold, I think.", [], [])),
    "prose with code": (
        "Try:\n```python\nprint([1, {2: 3}])\n``` and `{x}` [link](y)",
        Parsed("Try:\n```python\nprint([1, {2: 3}])\n``` and `{x}` [link](y)", [], []),
    ),
    "prose with JSON of its own": ('So: {"age": 3, "name": "Ada"}!', Parsed('So: {"age": 3, "name": "Ada"}!', [], [])),
    "an open bracket at the end": ("Use [ ", Parsed("Use [", [], [])),
    "a fence": ('```json\n{"tool": "weather", "args": {"city": "Oslo"}}\n```', Parsed("", calls(WEATHER), [])),
    "text before and after": (
        'I look.\n\n{"tool": "weather", "args": {"city": "Oslo"}} Result: 3 C. {"final": "3 C."}',
        Parsed("I look.", calls(WEATHER), []),
    ),
    "text before an answer": ('Well. {"final": "Cold."}', Parsed("Well.\nCold.", [], [])),
    "an answer and noise": ('{"final": "Cold."} {"tool": "weather", "args": {}} {', Parsed("Cold.", [], [])),
    "name and arguments": ('{"name": "weather", "arguments": {"city": "Oslo"}}', Parsed("", calls(WEATHER), [])),
    "a wrapped call": (
        '{"id": 1, "type": "function", "function": {"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}',
        Parsed("", calls(WEATHER), []),
    ),
    "arguments as text": ('{"tool": "add", "args": "{\\"a\\": 1, \\"b\\": 2}"}', Parsed("", calls(ADD), [])),
    "arguments first": ('{"args": {"a": 1, "b": 2}, "tool": "add"}', Parsed("", calls(ADD), [])),
    "arguments first, as text": ('{"args": "{\\"a\\": 1, \\"b\\": 2}", "tool": "add"}', Parsed("", calls(ADD), [])),
    "no arguments": ('{"tool": "now"}', Parsed("", calls(("now", {})), [])),
    "null arguments": ('{"tool": "now", "args": null}', Parsed("", calls(("now", {})), [])),
    "blank arguments": ('{"tool": "now", "args": ""}', Parsed("", calls(("now", {})), [])),
    "an unknown tool": ('{"tool": "wether", "args": {}}', Parsed("", calls(("wether", {})), [])),
    "two in a row": (
        '{"tool": "weather", "args": {"city": "Oslo"}}\n{"tool": "add", "args": {"a": 1, "b": 2}}',
        Parsed("", calls(WEATHER, ADD), []),
    ),
    "two in fences": (
        '```json\n{"tool": "weather", "args": {"city": "Oslo"}}\n```\n```json\n{"tool": "now"}\n```\nDone.',
        Parsed("", calls(WEATHER, ("now", {})), []),
    ),
    "a list": (
        '[{"tool": "weather", "args": {"city": "Oslo"}}, {"tool": "now"}]',
        Parsed("", calls(WEATHER, ("now", {})), []),
    ),
    "several": (
        '{"calls": [{"tool": "weather", "args": {"city": "Oslo"}}, {"tool": "add", "args": {"a": 1, "b": 2}}]}',
        Parsed("", calls(WEATHER, ADD), []),
    ),
    "several, of which one is an answer": ('{"calls": [{"final": "Cold."}]}', Parsed("Cold.", [], [])),
    "a result made up between calls": (
        '{"tool": "weather", "args": {"city": "Oslo"}}\nObservation: 3 C\n{"tool": "now"}',
        Parsed("", calls(WEATHER), []),
    ),
    "a call and an object of its own": (
        '{"tool": "weather", "args": {"city": "Oslo"}} {"temperature": 3}',
        Parsed("", calls(WEATHER), []),
    ),
    "a call and an answer": ('{"tool": "now"} {"final": "Noon."}', Parsed("", calls(("now", {})), [])),
    "a missing brace": ('{"tool": "weather", "args": {"city": "Oslo"}', Parsed("", calls(WEATHER), [])),
    "junk in the brace": ('{"tool": "weather", "args": {"city": "Oslo"} oops}', Parsed("", calls(WEATHER), [])),
    "a doubled key": ('{"tool": "now", "args": {}, "args": {"a": 1}, "tool": "x"}', Parsed("", calls(("now", {})), [])),
    "marks in arguments": (
        r'{"tool": "say", "args": {"text": "}{\"final\": \"x\"} ``` {\"tool\": 1}", "final": [{"tool": "x"}]}}',
        Parsed("", calls(("say", {"text": '}{"final": "x"} ``` {"tool": 1}', "final": [{"tool": "x"}]})), []),
    ),
    "tools called like keys": (
        '{"tool": "final", "args": {"tool": "args"}}',
        Parsed("", calls(("final", {"tool": "args"})), []),
    ),
    "a line break in a string": (
        '{"tool": "say", "args": {"text": "a\nb"}}',
        Parsed("", calls(("say", {"text": "a\nb"})), []),
    ),
    "escapes in an answer": (
        r'{"final": "a\nb\t\"c\" \\ \/ \u00e4 \ud83d\ude00 \(x\) \u12zz"}',
        Parsed('a\nb\t"c" \\ / ä 😀 \\(x\\) \\u12zz', [], []),
    ),
    "halves of surrogate pairs": (r'{"final": "\ud83d \ude00 \ud83d\ud83d\ude00 \ud83d"}', Parsed("� � �😀 �", [], [])),
    "an answer that is no text": ('{"final": {"a": [1, "x"]}}', Parsed('{"a": [1, "x"]}', [], [])),
    "an answer that is a number": ('{"final": 42}', Parsed("42", [], [])),
    "an answer that is null": ('{"final": null}', Parsed("", [], [])),
    "an answer that is cut": ('{"final": "It is', Parsed("It is", [], [])),
    "an answer that is cut in an escape": ('{"final": "It is\\u00', Parsed("It is", [], [])),
    "an answer that is cut at a backslash": ('{"final": "It is\\', Parsed("It is", [], [])),
    "an answer that has not begun": ('{"final": ', Parsed("", [], [])),
    "the beginning of a mark": ("<thi", Parsed("<thi", [], [])),
    "thinking": ('<think>A {"tool": "x"}?</think>\n\n{"final": "Cold."}', Parsed("Cold.", [], [], 'A {"tool": "x"}?')),
}  # fmt: skip

BROKEN = {
    "a result that no tool gave": (
        '{"result_of": "add", "text": "3"} So it is 3.',
        broken("", '{"result_of": "add", "text": "3"}', "it is a result, which only a tool can give."),
    ),
    "a brace": ("{", broken("", "{", "the text ends too early.")),
    "half a key": ('{"to', broken("", '{"to', "the text ends too early.")),
    "half the key of an answer": ('{ "fin', broken("", '{ "fin', "the text ends too early.")),
    "cut in a string": (
        '{"tool": "weather", "args": {"city": "Os',
        broken("weather", '{"city": "Os', "the text ends inside a string."),
    ),
    "cut at a backslash": (
        '{"tool": "weather", "args": {"city": "Os\\',
        broken("weather", '{"city": "Os\\', "the text ends inside a string."),
    ),
    "cut in a list": (
        '{"tool": "sum", "args": {"of": [1, 2',
        broken("sum", '{"of": [1, 2', "the text ends too early."),
    ),
    "cut before the arguments": (
        '{"tool": "weather", "ar',
        broken("weather", '{"tool": "weather", "ar', "the text ends too early."),
    ),
    "cut behind a name": (
        '{"name": "weather", "argum',
        broken("weather", '{"name": "weather", "argum', "the text ends too early."),
    ),
    "cut in arguments without a name": (
        '{"args": {"city": "Oslo"',
        broken("", '{"args": {"city": "Oslo"', "the text ends too early."),
    ),
    "arguments without a name": (
        '{"args": {"city": "Oslo"}}',
        broken("", '{"args": {"city": "Oslo"}}', "it names no tool."),
    ),
    "a name that is no text": ('{"tool": 7}', broken("", '{"tool": 7}', "it names no tool.")),
    "single quotes": ("{'tool': 'now'}", broken("", "{'tool':", "a key does not stand in double quotes.")),
    "no quotes": ("{tool: now}", broken("", "{tool:", "a key does not stand in double quotes.")),
    "no value": ('{"tool": "now", "args": }', broken("now", "", "expected a value and found '}'.")),
    "a bracket too many": (
        '{"tool": "now", "args": {"a": [1}}',
        broken("now", '{"a": [1', "found } where it closes nothing."),
    ),
    "a bare word": (
        '{"tool": "now", "args": today}',
        broken("now", "today", "its arguments are not valid JSON (Expecting value at character 0)."),
    ),
    "a list for arguments": (
        '{"tool": "add", "args": [1, 2]}',
        broken("add", "[1, 2]", "its arguments are a JSON list, not an object."),
    ),
    "a number that is none": (
        '{"tool": "add", "args": {"a": NaN}}',
        broken("add", '{"a": NaN}', "its arguments are not valid JSON (NaN is no JSON)."),
    ),
    "half a surrogate pair": (
        r'{"tool": "say", "args": {"text": "\ud83d"}}',
        broken("say", r'{"text": "\ud83d"}', "its arguments hold half of a surrogate pair."),
    ),
    "an empty list of calls": ('{"calls": []}', broken("", '{"calls": []}', "it names no tool.")),
    "a list of no calls": ('{"calls": ["now"]}', broken("", '{"calls": [', "expected { and found '\"'.")),
    "a list of something": (
        '{"calls": [{"a": 1}]}',
        broken("", '{"calls": [{"a": 1}', "an element of the list is no call."),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_what_can_be_read_in_one_way_is_read(text: str, expected: Parsed) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(("text", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_broken_call_is_told_with_the_format_and_never_completed(text: str, expected: list[Any]) -> None:
    assert read(text) == Parsed("", [], expected)


def test_calls_before_a_broken_one_are_kept() -> None:
    text = '{"calls": [{"tool": "weather", "args": {"city": "Oslo"}}, {"tool": "add", "args": {"a": 1'

    assert read(text) == Parsed("", calls(WEATHER), broken("add", '{"a": 1', "the text ends too early.", 2))


TEXTS = [text for text, _ in [*READ.values(), *BROKEN.values()]]


@pytest.mark.parametrize("text", TEXTS)
def test_one_character_at_a_time_reads_like_the_whole(text: str) -> None:
    assert read_in_pieces(list(text)) == read(text)


@given(st.sampled_from(TEXTS), st.data())
def test_any_cut_reads_like_the_whole(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]

    assert read_in_pieces(pieces) == read(text)


NOISE = st.lists(
    st.sampled_from(
        [
            *'{}[]":,` \n\\x1é\u2028<',
            *("<tool_call>", "</tool_call>", "[TOOL", "_CALLS]", "<|im_end|>"),
            *("```json\n", "\\u", "\\ud83d", "<think>", "</think>", "null"),
            *('"tool"', '"name"', '"args"', '"final"', '"calls"', '"function"'),
        ]
    ),
    max_size=40,
)  # fmt: skip


@given(NOISE)
def test_noise_reads_alike_whole_and_in_pieces_and_never_fails(tokens: list[str]) -> None:
    assert read_in_pieces(tokens) == read("".join(tokens))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)


@given(st.text(), ARGUMENTS, st.booleans())
def test_what_the_protocol_writes_it_reads(name: str, args: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps({"tool": name, "args": args}, ensure_ascii=ascii_only)

    assert read(text) == Parsed("", calls((name, args)), [])


@given(st.text())
def test_an_answer_comes_back_as_it_was(answer: str) -> None:
    assert read(PROTOCOL.answer_text(answer)) == Parsed(answer, [], [])


def test_an_answer_streams_while_it_is_written() -> None:
    reader = TurnReader(PROTOCOL, OFFER)

    seen = [reader.feed(piece).text for piece in ['{"fin', 'al": "It', " is\\", "u00", 'e4"', "}"]]

    assert seen == ["", "It", " is", "", "ä", ""]


def test_arguments_stream_while_they_are_written() -> None:
    reader = TurnReader(PROTOCOL, OFFER, counted())

    deltas = [reader.feed(piece).chunks for piece in ['{"tool": "we', 'ather", "args": {"ci', 'ty": "Os', 'lo"}}']]

    assert [[(c["name"], c["args"], c["id"], c["index"]) for c in chunks] for chunks in deltas] == [
        [],
        [("weather", '{"ci', "call_1", 0)],
        [(None, 'ty": "Os', None, 0)],
        [(None, 'lo"}', None, 0)],
    ]


def lines_run(text: str) -> int:
    """How many lines of Python reading a text takes: a measure of work that no clock disturbs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return trace

    parser = JSONTurnParser()
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        for start in range(0, len(text), 50):
            parser.feed(text[start : start + 50])
        parser.close()
    finally:
        sys.settrace(previous)
    return count


@pytest.mark.parametrize(
    "unit",
    ["{", "[{", '{"tool": ', '{"a": "', '{"function":', "```json\n{", "` [ ", "<tool_call", '{"calls":[', "x {y} "],
)
def test_the_work_grows_with_the_length_of_the_text(unit: str) -> None:
    size = 4000 // len(unit)

    assert lines_run(unit * size * 4) < 5 * lines_run(unit * size)


@pytest.mark.parametrize(
    "unit", ["{", '{"tool": "x", "args": {"a": "', '{"function": ', '{"args": [', '{"tool": "x", "args": {"a": [']
)
def test_a_hundred_kilobytes_of_noise_are_read_to_the_end(unit: str) -> None:
    text = unit * (100_000 // len(unit))

    parsed = read(text)

    assert parsed.calls == []
    assert parsed.text or parsed.invalid_calls
