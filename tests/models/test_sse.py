"""Framing on bytes: the same events, however the bytes are cut and whichever line end they have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph.errors import InvalidResponseError
from agentgraph.models.sse import EventDecoder, JSONLinesDecoder, ServerSentEvent, SSEDecoder
from tests.wire_server import in_pieces

SCRIPTS: dict[str, tuple[bytes, list[ServerSentEvent]]] = {
    "one line": (b"data: {}\n\n", [ServerSentEvent("message", "{}")]),
    "no space": (b"data:{}\n\n", [ServerSentEvent("message", "{}")]),
    "one space only is dropped": (b"data:  a \n\n", [ServerSentEvent("message", " a ")]),
    "several data lines": (b"data: a\ndata:\ndata: b\n\n", [ServerSentEvent("message", "a\n\nb")]),
    "named": (
        b"event: delta\ndata: 1\n\ndata: 2\n\n",
        [ServerSentEvent("delta", "1"), ServerSentEvent("message", "2")],
    ),
    "id stays": (
        b"id: 7\ndata: 1\n\ndata: 2\n\n",
        [ServerSentEvent("message", "1", "7"), ServerSentEvent("message", "2", "7")],
    ),
    "id with a zero is ignored": (b"id: a\0b\ndata: 1\n\n", [ServerSentEvent("message", "1")]),
    "comments": (b": OPENROUTER PROCESSING\n\ndata: 1\n\n:\n\n", [ServerSentEvent("message", "1")]),
    "unknown fields": (b"retry: 10\nfoo: bar\nbaz\ndata: 1\n\n", [ServerSentEvent("message", "1")]),
    "event without data": (b"event: ping\n\ndata: 1\n\n", [ServerSentEvent("message", "1")]),
    "empty data": (b"data:\n\ndata: 1\n\n", [ServerSentEvent("message", "1")]),
    "done": (b"data: 1\n\ndata: [DONE]\n\n", [ServerSentEvent("message", "1"), ServerSentEvent("message", "[DONE]")]),
    "byte order mark": (b"\xef\xbb\xbfdata: 1\n\n", [ServerSentEvent("message", "1")]),
    "only the first mark is dropped": (
        b"\xef\xbb\xbfdata: \xef\xbb\xbf1\n\n",
        [ServerSentEvent("message", "\ufeff1")],
    ),
    "line ends of other alphabets": (
        'data: "\u2028\u2029\x85\x0b\x0c\x1c"\n\n'.encode(),
        [ServerSentEvent("message", '"\u2028\u2029\x85\x0b\x0c\x1c"')],
    ),
    "letters of several bytes": (
        "data: \u00e9\u4e2d\U0001f600\n\n".encode(),
        [ServerSentEvent("message", "\u00e9\u4e2d\U0001f600")],
    ),
    "broken letters": (b"data: a\xffb\n\n", [ServerSentEvent("message", "a\ufffdb")]),
    "the error field of elder servers": (b'error: {"code": 500}\n\n', [ServerSentEvent("error", '{"code": 500}')]),
    "blank lines": (b"\n\n\ndata: 1\n\n\n\n", [ServerSentEvent("message", "1")]),
}


def _decode(decoder: EventDecoder, pieces: list[bytes]) -> list[ServerSentEvent]:
    return [event for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(("raw", "events"), SCRIPTS.values(), ids=SCRIPTS)
def test_events_are_the_same_for_every_cut_and_line_end(
    raw: bytes, events: list[ServerSentEvent], end: bytes, size: int
) -> None:
    decoder = SSEDecoder()

    assert _decode(decoder, in_pieces(raw.replace(b"\n", end), size)) == events
    assert decoder.close() is False


@given(
    payloads=st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")), min_size=1
    ),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1),
    cuts=st.lists(st.integers(1, 7), min_size=1),
)
def test_any_payload_survives_any_cut_and_any_mix_of_line_ends(
    payloads: list[str], ends: list[bytes], cuts: list[int]
) -> None:
    raw, decoder, events = b"", SSEDecoder(), []
    for number, payload in enumerate(payloads):
        end = ends[number % len(ends)]
        raw += b"data: " + payload.encode() + end + end

    number = 0
    while raw:
        size = cuts[number % len(cuts)]
        events += decoder.feed(raw[:size])
        raw, number = raw[size:], number + 1

    assert [event.data for event in events] == [payload for payload in payloads if payload]
    assert decoder.close() is False


@pytest.mark.parametrize(
    ("raw", "cut"),
    [
        (b"", False),
        (b"data: 1\n\n", False),
        (b"data: 1\n", True),
        (b"data: 1", True),
        (b"data: 1\n\ndat", True),
        (b"data: 1\n\ndata: {", True),
        (b"data: 1\n\n: a comment", False),
        (b"data: 1\n\ndata: [DONE]", False),
        (b"data: 1\n\ndata: [DONE]\n", False),
        (b"data: 1\n\nevent: done", True),
        (b"data: 1\n\nevent: done\n", False),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_stream_that_ends_within_an_event_was_cut(raw: bytes, *, cut: bool, size: int) -> None:
    decoder = SSEDecoder()
    _decode(decoder, in_pieces(raw, size))

    assert decoder.close() is cut


@pytest.mark.parametrize("size", [7, 1000])
@pytest.mark.parametrize(
    "raw",
    [b"data: " + b"x" * 100, b"data: x\n" * 20, b": " + b"x" * 100, b"data: " + b"x" * 100 + b"\n\n"],
    ids=["one line without end", "many lines", "a comment", "a whole event"],
)
def test_an_event_over_the_bound_is_refused_however_it_comes(raw: bytes, size: int) -> None:
    decoder = SSEDecoder(max_event_bytes=80)

    with pytest.raises(InvalidResponseError, match="more than 80 bytes"):
        _decode(decoder, in_pieces(raw, size))


def test_the_bound_is_for_one_event_and_not_for_the_stream() -> None:
    decoder = SSEDecoder(max_event_bytes=80)

    assert len(_decode(decoder, [b"data: " + b"x" * 60 + b"\n\n"] * 50)) == 50


def test_an_event_is_handed_out_when_its_line_end_is_there_although_a_line_feed_may_follow() -> None:
    decoder = SSEDecoder()

    assert decoder.feed(b"data: 1\r\r") == [ServerSentEvent("message", "1")]
    assert decoder.feed(b"\ndata: 2\r\n\r") == [ServerSentEvent("message", "2")]
    assert decoder.feed(b"\n") == []


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_each_line_of_json_is_an_event(end: bytes, size: int) -> None:
    raw = '{"a": "\u2028"}\n\n  \n{"done": true}\n'.encode().replace(b"\n", end)
    decoder = JSONLinesDecoder()

    assert _decode(decoder, in_pieces(raw, size)) == [
        ServerSentEvent("json", '{"a": "\u2028"}'),
        ServerSentEvent("json", '{"done": true}'),
    ]
    assert decoder.close() is False


def test_lines_of_json_that_end_within_a_line_were_cut_and_long_ones_are_refused() -> None:
    decoder = JSONLinesDecoder(max_event_bytes=20)
    assert decoder.feed(b'{"a": 1}\n{"b"') == [ServerSentEvent("json", '{"a": 1}')]
    assert decoder.close() is True

    with pytest.raises(InvalidResponseError, match="more than 20 bytes"):
        decoder.feed(b"x" * 30)


@pytest.mark.parametrize(
    ("rest", "whole"),
    [(b"", False), (b'{"done": true}', True), (b'{"done": tr', False), (b'"half', False), (b"\xff", False)],
)
def test_a_last_line_of_json_may_lack_its_end(rest: bytes, whole: bool) -> None:
    decoder = JSONLinesDecoder()
    decoder.feed(b'{"done": false}\n' + rest)
    assert decoder.ends_whole() is whole
