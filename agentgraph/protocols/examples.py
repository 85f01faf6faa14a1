"""Example dialogues from the schemas of tools: pure, and the same for the same tools.

Shown to the model as earlier turns, in the protocol's own text. Small models go from no readable call to ten of ten by
them; what matters is that every dialogue goes the whole way from question to answer, and that one of them needs no
tool. Nobody knows what the tools would say, so the results are no values ("RESULT 1"): a small model repeats what it
has seen, and an invented one would pass for a finding. Where a call is required the dialogues end with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from agentgraph.protocols.base import ToolSpec
from agentgraph.protocols.schemas import inlined

__all__ = ["example_arguments", "example_dialogues"]

_DEPTH = 4

# Part of a property's name -> values for it, for one dialogue after the other. The first that is contained wins.
_STRINGS = {
    "city": ("Lisbon", "Nairobi"),
    "location": ("Lisbon", "Nairobi"),
    "place": ("Lisbon", "Nairobi"),
    "country": ("Portugal", "Kenya"),
    "query": ("green tea", "solar system"),
    "question": ("What is green tea?", "What is a comet?"),
    "topic": ("green tea", "comets"),
    "keyword": ("tea", "comet"),
    "email": ("ada@example.com", "bob@example.com"),
    "url": ("https://example.com",),
    "link": ("https://example.com",),
    "path": ("notes.txt", "plan.txt"),
    "file": ("notes.txt", "plan.txt"),
    "date": ("2025-03-14", "2025-07-02"),
    "time": ("09:30", "18:15"),
    "expression": ("2 + 5", "6 * 4"),
    "formula": ("2 + 5", "6 * 4"),
    "language": ("en",),
    "currency": ("EUR",),
    "unit": ("m",),
    "title": ("Plans", "Notes"),
    "name": ("Ada", "Bob"),
    "user": ("Ada", "Bob"),
    "person": ("Ada", "Bob"),
    "_id": ("A17", "B52"),
    "code": ("A17", "B52"),
    "text": ("Good morning", "See you soon"),
    "message": ("Good morning", "See you soon"),
    "content": ("Good morning", "See you soon"),
}
_FORMATS = {
    "date": "2025-03-14",
    "date-time": "2025-03-14T09:30:00Z",
    "time": "09:30:00",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "3f2c8a52-6d0f-4c57-9a63-3c0f5d1f2b11",
}
_INTEGERS = (2, 5, 3, 4, 6)


def example_dialogues(tools: Sequence[ToolSpec], *, count: int = 3, answers: bool = True) -> list[BaseMessage]:
    """Make dialogues that show calls of the first tools, and one that shows an answer without a call.

    Args:
        tools: the tools, in the order in which they are offered.
        count: how many tools to show; a tool that is alone is shown twice, with other values.
        answers: whether to show answers: one without a call, and what follows a result; not where a call is required.

    Returns:
        Messages with ordinary tool calls, to be rewritten by a protocol like any history.
    """
    shown = [_dialogue(tool, position, answers=answers) for position, tool in enumerate(tools[:count])]
    if count > 1 and len(tools) == 1 and example_arguments(tools[0]) != example_arguments(tools[0], 1):
        # Of a single example a small model copies the values too.
        shown.append(_dialogue(tools[0], 1, variant=1, answers=answers))
    if answers:
        # Never last: what a small model has just seen, it does again, and calls are what it finds harder.
        shown.insert(1 if len(shown) > 1 else 0, [HumanMessage("Hello!"), AIMessage("Hello! How can I help you?")])
    return [message for dialogue in shown for message in dialogue]


def _dialogue(tool: ToolSpec, position: int, variant: int = 0, *, answers: bool) -> list[BaseMessage]:
    args = example_arguments(tool, variant)
    call_id = f"example_{position}"
    asked = HumanMessage(_request(tool, args))
    called = AIMessage("", tool_calls=[tool_call(name=tool.name, args=args, id=call_id)])
    if not answers:
        return [asked, called]
    result = f"RESULT {position + 1}"
    told = ToolMessage(result, name=tool.name, tool_call_id=call_id)
    return [asked, called, told, AIMessage(f"The answer is: {result}")]


def _request(tool: ToolSpec, args: Mapping[str, Any]) -> str:
    about = " ".join(tool.description.split()).split(". ")[0].rstrip(".") or tool.name.replace("_", " ")
    values = ", ".join(
        str(value) if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False, default=str)
        for value in args.values()
    )
    return f"{about}: {values}" if values else f"{about}."


def example_arguments(tool: ToolSpec, variant: int = 0) -> dict[str, Any]:
    """Make plausible arguments for a tool: the required ones, or the first where none is required.

    Args:
        tool: the tool.
        variant: 0, or 1 for other values.

    Example:
        >>> city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        >>> example_arguments(ToolSpec("weather", "", city))
        {'city': 'Lisbon'}
    """
    return _object(inlined(tool.parameters), _Place("", 0, 0, variant))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value goes: the property's name and index among its neighbours, and how deep; and which variant."""

    name: str
    index: int
    depth: int
    variant: int

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.variant % len(values)]


def _object(schema: Mapping[str, Any], place: _Place) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or place.depth > _DEPTH:
        return {}
    listed = schema.get("required")
    required = [name for name in listed if name in properties] if isinstance(listed, list) else []
    shown = required or ([] if place.depth else list(properties)[:1])
    return {
        name: _value(properties[name], replace(place, name=str(name), index=index)) for index, name in enumerate(shown)
    }


def _value(schema: Any, place: _Place) -> Any:
    if not isinstance(schema, Mapping):
        return "x"
    given = _given(schema, place)
    if given is not None:
        return given
    branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if isinstance(branches, list):
        real = [branch for branch in branches if isinstance(branch, Mapping) and branch.get("type") != "null"]
        return _value(real[0], place) if real else None
    kinds = schema.get("type", "string")
    kind = next((k for k in kinds if k != "null"), "null") if isinstance(kinds, list) else kinds
    return _of_kind(kind, schema, place)


def _given(schema: Mapping[str, Any], place: _Place) -> Any:
    """What the schema itself proposes: a constant, an example, a choice, a default."""
    if "const" in schema:
        return schema["const"]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return place.pick(schema[key])
    return schema.get("example", schema.get("default"))


def _of_kind(kind: object, schema: Mapping[str, Any], place: _Place) -> Any:
    deeper = replace(place, depth=place.depth + 1)
    match kind:
        case "integer" | "number":
            return _number(schema, _INTEGERS[(place.index + 2 * place.variant) % len(_INTEGERS)])
        case "boolean":
            return True
        case "array":
            return [_value(schema.get("items", {}), deeper)] if place.depth < _DEPTH else []
        case "object":
            return _object(schema, deeper)
        case "null":
            return None
    return _string(schema, place)


def _number(schema: Mapping[str, Any], wanted: int) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float) and wanted < low:
        return low
    return high if isinstance(high, int | float) and wanted > high else wanted


def _string(schema: Mapping[str, Any], place: _Place) -> str:
    wanted = _FORMATS.get(str(schema.get("format")))
    if wanted is None:
        lowered = place.name.lower()
        wanted = place.pick(next((values for part, values in _STRINGS.items() if part in lowered), ("example",)))
    longest = schema.get("maxLength")
    return wanted[:longest] if isinstance(longest, int) and longest >= 0 else wanted
