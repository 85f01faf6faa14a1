"""Every protocol over noise: no exception of any kind, the same however the text is cut, and linear time."""

import random
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgraph.protocols import JSONProtocol, TextProtocol, WrittenCall
from agentgraph.protocols.react import OriginalReActProtocol, ReActProtocol
from agentgraph.protocols.structured_chat import StructuredChatProtocol
from agentgraph.protocols.tool_tags import ToolTagsProtocol
from agentgraph.protocols.xml import XMLProtocol
from tests.protocols.reading_cases import read, read_in_pieces

PROTOCOLS: list[TextProtocol] = [
    JSONProtocol(),
    ToolTagsProtocol(),
    XMLProtocol(),
    ReActProtocol(),
    OriginalReActProtocol(),
    StructuredChatProtocol(),
]
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=[protocol.name for protocol in PROTOCOLS])

# What answers are made of, whole and broken, of all protocols at once.
SHARDS = [
    *"{}[]\"'`,:\\<>/| \n\t*#“”\u2018\u2019é😀\0\ud83d0-",
    *("<tool_call>", "</tool_call>", "<tool_response>", "<tool>", "</tool>", "<tool_input>", "</tool_input>"),
    *("<final_answer>", "</final_answer>", "<observation>", "<think>", "</think>", "<|im_end|>", "```json\n", "```"),
    *("\nThought: ", "\nAction: ", "\nAction Input: ", "\nObservation: ", "\nFinal Answer: ", "Finish["),
    *("weather", "add", "now", '"name": ', '"arguments": ', '"tool": ', '"args": ', '"action": ', '"action_input": '),
    *(
        '{"city": "Oslo"}',
        '{"a": 1, "b": 2}',
        '"Final Answer"',
        '{"final": "x"}',
        "null",
        "None",
        "true",
        "1e5",
        "text",
    ),
]
SAMPLES = 150

texts = st.lists(st.sampled_from(SHARDS), max_size=30).map("".join)


def cut(text: str, source: random.Random) -> list[str]:
    at = sorted(source.randrange(len(text) + 1) for _ in range(source.randrange(6)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]


@each_protocol
def test_four_hundred_heaps_of_shards_read_the_same_however_they_are_cut(protocol: TextProtocol) -> None:
    source = random.Random(protocol.name)  # noqa: S311 -- the same heaps in each run
    for _ in range(SAMPLES):
        text = "".join(source.choices(SHARDS, k=source.randrange(1, 40)))
        assert read_in_pieces(protocol, cut(text, source)) == read_in_pieces(protocol, list(text)), text


@each_protocol
@given(text=st.one_of(texts, st.text(max_size=60)), at=st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_any_text_is_read_and_reads_the_same_in_two_pieces(protocol: TextProtocol, text: str, at: int) -> None:
    assert read(protocol, text) == read_in_pieces(protocol, [text[:at], text[at:]])


WRITABLE = [shard for shard in SHARDS if shard != "\ud83d"]

names = st.text(st.characters(codec="utf-8"), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | names | st.sampled_from(WRITABLE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if p.name != "react-original"], ids=lambda p: p.name)
@given(args=st.dictionaries(names, values, max_size=4))
@settings(max_examples=30, deadline=None)
def test_arguments_are_read_back_as_they_were_written(protocol: TextProtocol, args: dict[str, Any]) -> None:
    assert read(protocol, protocol.call_text([WrittenCall("tool", args)], "")).calls == (("tool", args),)


NOISE = {
    "braces": "{",
    "brackets": "[",
    "marks": "<tool_",
    "calls": "<tool_call>",
    "tools": "<tool>now</tool>",
    "quotes": '"',
    "labels": "\nThought: ",
    "actions": "\nAction: ",
    "spaces": " ",
    "lines": "\n",
    "fences": "```",
    "nested objects": '{"a": ',
    "call objects": '{"tool": {"tool": ',
    "prose": "It is {cold} < [here]. ",
}


def steps(protocol: TextProtocol, text: str, *, single: bool) -> int:
    """Count the calls of Python functions that reading takes."""
    seen: Counter[str] = Counter()

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        seen[event] += 1

    sys.setprofile(count)
    try:
        read_in_pieces(protocol, list(text) if single else [text])
    finally:
        sys.setprofile(None)
    return seen["call"] + seen["c_call"]


@each_protocol
@pytest.mark.parametrize("noise", NOISE)
def test_the_work_grows_as_the_text_does(protocol: TextProtocol, noise: str) -> None:
    short, long = (NOISE[noise] * (size // len(NOISE[noise])) for size in (1_000, 4_000))

    for single in (False, True):
        assert steps(protocol, long, single=single) < 5 * steps(protocol, short, single=single) + 500


@each_protocol
@pytest.mark.parametrize("noise", ["braces", "nested objects", "prose", "spaces", "labels"])
@pytest.mark.timeout(60)
def test_a_hundred_kilobytes_of_noise_are_read(protocol: TextProtocol, noise: str) -> None:
    text = NOISE[noise] * (100_000 // len(NOISE[noise]))

    found = read(protocol, text)

    assert all(not args for _, args in found.calls)
    assert len(found.text) <= len(text)
