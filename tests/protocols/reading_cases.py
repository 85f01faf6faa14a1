"""What the tests of several readers share: tools, an answer read whole and in pieces, calls as they are expected."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from agentgraph.protocols import Parsed, TextProtocol, ToolOffer, ToolSpec, parse
from agentgraph.protocols.reading import TurnReader

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
WEATHER = ToolSpec("weather", "Tell the weather.", CITY)
ADD = ToolSpec("add", "Add two integers.", PAIR)
NOW = ToolSpec("now", "", {"type": "object", "properties": {}})
OFFER = ToolOffer((WEATHER, ADD, NOW))

OSLO = ("weather", {"city": "Oslo"})
SUM = ("add", {"a": 1, "b": 2})
CLOCK: tuple[str, dict[str, Any]] = ("now", {})


class Read(NamedTuple):
    """An answer as read: text, calls, broken calls (name, arguments as written, why), thinking."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    broken: tuple[tuple[str, str, str], ...] = ()
    reasoning: str = ""


def read(protocol: TextProtocol, text: str, offer: ToolOffer = OFFER) -> Read:
    return told(protocol, parse(protocol, text, offer, counted()))


def read_in_pieces(protocol: TextProtocol, pieces: list[str], offer: ToolOffer = OFFER) -> Read:
    reader = TurnReader(protocol, offer, counted())
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    return told(protocol, reader.parsed)


def told(protocol: TextProtocol, parsed: Parsed) -> Read:
    """Shorten what was read; ids are given in order, and every error ends with the format."""
    everything = [*parsed.calls, *parsed.invalid_calls]
    assert sorted(str(call["id"]) for call in everything) == [f"call_{n:05}" for n in range(len(everything))]
    broken = []
    for call in parsed.invalid_calls:
        assert str(call["error"]).endswith(" " + protocol.reminder)
        why = str(call["error"]).removesuffix(" " + protocol.reminder)
        broken.append((call["name"] or "", call["args"] or "", why))
    calls = tuple((call["name"], call["args"]) for call in parsed.calls)
    return Read(parsed.text, calls, tuple(broken), parsed.reasoning)


def counted() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"call_{next(numbers):05}"


def cuts(text: str) -> list[list[str]]:
    """Every cut of a text in two, and the text letter by letter."""
    return [list(text), *([text[:at], text[at:]] for at in range(len(text)))]
