"""JSON that is not quite JSON: read where it can mean one thing only, refused where it cannot be sent again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph.models.json_text import SplitText, parse_json, parse_sendable, whole_text, without_halves

_UNITS = st.text(alphabet=[*"aé\ufffd😀", *map(chr, (0xD83D, 0xDE00, 0xDBFF, 0xDC00))], max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": -Infinity}', {"a": float("-inf")}),
        ('{"a": "x\ny"}', {"a": "x\ny"}),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}),
        ("[1]", [1]),
    ],
)
def test_what_servers_write_is_read(text: str, expected: Any) -> None:
    assert parse_json(text) == expected


@pytest.mark.parametrize("text", ["", "{", "nil", "{'a': 1}", "[" * 100_000, '{"a": 1} {"a": 1}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_json(text)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": [1e999]}', '{"a": "\\ud83d"}', '{"\\ude00": 1}', "{"])
def test_what_could_not_be_sent_again_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_sendable(text)


@given(_UNITS)
def test_a_whole_text_can_be_sent_and_a_sound_one_stays_as_it_is(text: str) -> None:
    whole = whole_text(text)

    assert whole.encode().decode() == whole
    assert whole_text(whole) == whole
    if not any(0xD800 <= ord(char) < 0xE000 for char in text):
        assert whole == text


@given(st.lists(_UNITS, max_size=6))
def test_pieces_add_up_to_the_whole_wherever_they_were_cut(pieces: list[str]) -> None:
    split = SplitText()

    assert "".join([*map(split.feed, pieces), split.rest()]) == whole_text("".join(pieces))


def test_every_string_of_a_value_is_made_whole_however_deep_it_lies() -> None:
    deep: Any = "\ud83d"
    for _ in range(5000):
        deep = {"\ude00": [deep]}
    value = without_halves({"a": ["x", {"b\ud83d": "\ud83d\ude00", "c": 1}], "d": None})

    assert json.dumps(value, ensure_ascii=False) == '{"a": ["x", {"b\ufffd": "😀", "c": 1}], "d": null}'
    assert list(without_halves(deep)) == ["\ufffd"]
    assert [without_halves(value) for value in ("\ud83d", 1, None)] == ["\ufffd", 1, None]
