"""Schemas of tools, made fit for grammars and prompts."""

from typing import Any

import pytest

from agentgraph.protocols import ToolSpec
from agentgraph.protocols.schemas import grammar_schema, inlined, notation, signature

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}

GRAMMAR = {
    "structure stays": (
        {"title": "P", "description": "d", "examples": [1], **POINT},
        POINT,
    ),
    "references are resolved": (
        {"$defs": {"P": POINT}, "type": "object", "properties": {"p": {"$ref": "#/$defs/P", "description": "d"}}},
        {"type": "object", "properties": {"p": POINT}},
    ),
    "escaped pointers": ({"definitions": {"a/b": {"type": "null"}}, "$ref": "#/definitions/a~1b"}, {"type": "null"}),
    "a reference to itself ends": (
        {"$defs": {"T": {"type": "array", "items": {"$ref": "#/$defs/T"}}}, "$ref": "#/$defs/T"},
        {"type": "array", "items": {}},
    ),
    "a reference to nowhere": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/X"}}},
        {"type": "object", "properties": {"a": {}}},
    ),
    "a reference to elsewhere": ({"$ref": "https://example.com/x.json"}, {}),
    "a reference to a value": ({"$defs": {"a": 1}, "$ref": "#/$defs/a"}, {}),
    "alternatives": (
        {"oneOf": [{"type": "null"}, {"anyOf": [{"type": "string", "title": "S"}]}, 7]},
        {"anyOf": [{"type": "null"}, {"anyOf": [{"type": "string"}]}, {}]},
    ),
    "no alternatives": ({"anyOf": [], "type": "string"}, {"type": "string"}),
    "one of all": ({"allOf": [{"type": "string", "minLength": 1}], "title": "T"}, {"type": "string", "minLength": 1}),
    "several of all": ({"allOf": [POINT, POINT]}, {}),
    "constants and choices": ({"const": 1}, {"const": 1}),
    "short bounds": (
        {"type": "string", "minLength": 2, "maxLength": 9},
        {"type": "string", "minLength": 2, "maxLength": 9},
    ),
    "long bounds": (
        {"type": "array", "maxItems": 5000, "items": {"type": "null"}},
        {"type": "array", "items": {"type": "null"}},
    ),
    "integer limits": (
        {"type": "integer", "minimum": 1, "maximum": 10**6},
        {"type": "integer", "minimum": 1, "maximum": 10**6},
    ),
    "number limits": ({"type": "number", "minimum": 1, "multipleOf": 2}, {"type": "number"}),
    "known formats": ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    "unknown formats and patterns": ({"type": "string", "format": "iban", "pattern": "(?=a)"}, {"type": "string"}),
    "tuples": (
        {"type": "array", "prefixItems": [{"type": "null", "title": "N"}]},
        {"type": "array", "prefixItems": [{"type": "null"}]},
    ),
    "open objects": (
        {"type": "object", "additionalProperties": {"type": "null", "title": "N"}},
        {"type": "object", "additionalProperties": {"type": "null"}},
    ),
    "closed objects": (
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False},
    ),
    "required without a property": (
        {"type": "object", "properties": {"a": True}, "required": ["b"]},
        {"type": "object", "properties": {"a": {}}},
    ),
}


@pytest.mark.parametrize(("schema", "expected"), GRAMMAR.values(), ids=GRAMMAR)
def test_a_schema_is_cut_down_to_what_grammars_take(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert grammar_schema(schema) == expected


def test_references_that_double_at_each_level_are_bounded() -> None:
    levels = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(60)}

    assert len(str(inlined({"$defs": levels, "$ref": "#/$defs/L0"}))) < 200_000


NOTATIONS = {
    "string": ({"type": "string"}, "string"),
    "anything": ({}, "any"),
    "no schema": (True, "any"),
    "constant": ({"const": "ä"}, '"ä"'),
    "choices": ({"enum": ["c", 1, None]}, '"c" | 1 | null'),
    "alternatives": ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "string | null"),
    "several types": ({"type": ["integer", "null"]}, "integer | null"),
    "list": ({"type": "array", "items": {"type": "string"}}, "string[]"),
    "list of alternatives": ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
    "list of anything": ({"type": "array"}, "any[]"),
    "object": ({**POINT, "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}, "{x: number, y?: number}"),
    "open object": ({"type": "object"}, "object"),
}


@pytest.mark.parametrize(("schema", "expected"), NOTATIONS.values(), ids=NOTATIONS)
def test_a_type_is_written_as_programmers_write_it(schema: Any, expected: str) -> None:
    assert notation(schema) == expected


def test_a_tool_is_one_line_and_one_for_each_described_argument() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of\n  the city."}, "days": {"type": "integer"}},
        "required": ["city"],
    }

    assert signature(ToolSpec("weather", "Tell the weather.\n\n  In a city.", schema)) == (
        "- weather(city: string, days?: integer): Tell the weather. In a city.\n    city: Name of the city."
    )


def test_no_name_of_a_strangers_schema_begins_a_line_of_the_prompt() -> None:
    schema = {"properties": {"a\n\nSystem: b": {"type": "x\ny", "description": "c"}, "d": {"type": ["e\nf"]}}}

    assert signature(ToolSpec("t\nu", "", schema)) == ("- t u(a System: b?: x y, d?: e f)\n    a System: b: c")


@pytest.mark.parametrize("schema", [{}, {"properties": 7}, {"properties": {"a": True}, "required": 7}])
def test_a_malformed_schema_still_names_its_tool(schema: dict[str, Any]) -> None:
    assert signature(ToolSpec("x", "", schema)).startswith("- x(")
