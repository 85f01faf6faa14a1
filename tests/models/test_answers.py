"""What an answer's bytes are, whatever its headers say: lines of JSON, one document, objects in a row."""

import json
from contextlib import closing

import pytest

from agentgraph.errors import InvalidResponseError
from agentgraph.models import answers
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.transport import Reply
from tests.models.conftest import Asking, Connect
from tests.models.formats import FORMATS, Format, Said, each_format
from tests.models.ollama_asking import NDJSON
from tests.wire_server import Hold, WireServer, answer, in_pieces, streamed

LINES = b'{"message": "a"}\n{"message": "b"}\n{"done": true}'
EACH_LINE = ['{"message": "a"}', '{"message": "b"}', '{"done": true}']
AS_SENT = {
    "LF": LINES,
    "CRLF": LINES.replace(b"\n", b"\r\n") + b"\r\n",
    "blanks": LINES.replace(b"\n", b"\n\n") + b"\n",
}


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("sent", AS_SENT.values(), ids=AS_SENT)
@pytest.mark.parametrize("mime", ["application/json", "text/plain", "text/event-stream", "application/x-ndjson", None])
def test_lines_of_json_are_events_whatever_their_content_type(
    server: WireServer, connect: Connect, ask: Asking, mime: str | None, sent: bytes, size: int
) -> None:
    server.play(streamed(*in_pieces(sent, size), content_type=mime))

    got = ask(connect())

    told = got.json if isinstance(got, Reply) else {"__events__": [event.data for event in got]}
    assert told == {"__events__": EACH_LINE}


def test_lines_of_json_under_another_type_are_handed_on_as_they_come(server: WireServer, connect: Connect) -> None:
    server.play(streamed(LINES[:17], Hold(), content_type="application/json"))

    with closing(connect().stream("chat/completions", {})) as events:
        assert next(events) == ServerSentEvent("json", '{"message": "a"}')


@pytest.mark.parametrize("mime", ["application/json", "text/plain", None])
def test_objects_on_one_line_are_events(server: WireServer, connect: Connect, ask: Asking, mime: str | None) -> None:
    server.play(answer(200, b'{"message": "a"}{"message": "b"} {"done": true}', mime))

    got = ask(connect())

    told = got.json if isinstance(got, Reply) else {"__events__": [event.data for event in got]}
    assert told == {"__events__": EACH_LINE}


@pytest.mark.parametrize("body", [b'{\n  "a": [\n    1\n  ]\n}\n', b'{"a": [1]}\n', b'{"a": [1]}\n\n', b'{"a":\n[1]}'])
@pytest.mark.parametrize("mime", ["application/json", "text/plain", None])
def test_a_document_is_one_however_its_lines_are_cut(
    server: WireServer, connect: Connect, ask: Asking, mime: str | None, body: bytes
) -> None:
    server.play(streamed(*in_pieces(body), content_type=mime))

    got = ask(connect())

    assert (got.json if isinstance(got, Reply) else json.loads(got[0].data)) == {"a": [1]}


@pytest.mark.parametrize("body", [b'{"a": [1]}{"b"', b'{"a": [1]} and more', b'{"a": [1]}[2]', b'{"a": 1'])
def test_half_an_answer_behind_a_whole_one_is_none(
    server: WireServer, connect: Connect, ask: Asking, body: bytes
) -> None:
    server.play(answer(200, body))

    with pytest.raises(InvalidResponseError, match="something that is not JSON"):
        ask(connect())


def test_a_line_that_is_too_long_for_an_event_is_a_document(
    server: WireServer, connect: Connect, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_EVENT_BYTES", 8)
    server.play(answer(200, b'{"a": [1, 2, 3]}\n'))

    got = ask(connect())

    assert (got.json if isinstance(got, Reply) else json.loads(got[0].data)) == {"a": [1, 2, 3]}


@pytest.mark.parametrize("mime", ["application/json", "text/plain"])
@each_format("ollama")
def test_a_stream_under_another_type_is_the_same_stream(server: WireServer, wire: Format, mime: str) -> None:
    steps = wire.play(Said("Hello there"), True)
    named = [one.replace(b"text/event-stream", mime.encode()) if isinstance(one, bytes) else one for one in steps]
    server.play(named)

    texts = [chunk.text for chunk in wire.build(server).stream("Hi") if chunk.text]
    assert ("".join(texts), len(texts) > 1) == ("Hello there", True)


@pytest.mark.parametrize("mime", ["application/json", "text/plain", NDJSON])
def test_a_stream_of_ollama_is_one_under_any_type(server: WireServer, mime: str) -> None:
    (wire,) = [one for one in FORMATS if one.name == "ollama"]
    steps = wire.play(Said("Hello there"), True)
    server.play([one.replace(NDJSON.encode(), mime.encode()) if isinstance(one, bytes) else one for one in steps])

    texts = [chunk.text for chunk in wire.build(server).stream("Hi") if chunk.text]
    assert ("".join(texts), len(texts) > 1) == ("Hello there", True)
