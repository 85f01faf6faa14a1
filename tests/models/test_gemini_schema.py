"""Schemas for Gemini: JSON Schema as it takes it, and the subset of OpenAPI's of elder servers."""

import itertools
from typing import Any

import pytest

from agentgraph.models.gemini_schema import json_schema, openapi_schema, with_openapi_schemas

TRANSLATIONS: dict[str, tuple[Any, Any]] = {
    "what it does not know is left out": (
        {
            "$schema": "s",
            "type": "object",
            "title": "T",
            "properties": {"a": {"type": "string", "format": "email", "default": "x", "minLength": 1}},
            "required": ["a", "gone"],
            "additionalProperties": False,
            "propertyNames": {"pattern": "a"},
        },
        {
            "type": "object",
            "title": "T",
            "properties": {"a": {"type": "string", "minLength": 1}},
            "required": ["a"],
        },
    ),
    "references are put in their place": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}, "b": {"allOf": [{"$ref": "#/$defs/A"}]}},
            "$defs": {"A": {"type": "integer", "format": "int64", "description": "its"}},
        },
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "format": "int64", "description": "mine"},
                "b": {"type": "integer", "format": "int64", "description": "its"},
            },
        },
    ),
    "a circle ends": (
        {
            "$ref": "#/$defs/Node",
            "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
        },
        {"type": "object", "properties": {"next": {"type": "object"}}},
    ),
    "a lost reference": ({"$ref": "#/$defs/Gone"}, {"type": "object"}),
    "const": ({"const": "a"}, {"type": "string", "enum": ["a"], "format": "enum"}),
    "an enum of numbers": ({"enum": [1, 2]}, {"type": "integer"}),
    "bounds": (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
        {"type": "integer", "minimum": 1, "maximum": 8},
    ),
    "bounds of fractions": ({"type": "number", "exclusiveMinimum": 0.5}, {"type": "number", "minimum": 0.5}),
    "null by a list": ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
    "null by alternatives": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
    "null alone": ({"anyOf": [{"type": "null"}]}, {"type": "string", "nullable": True}),
    "alternatives": (
        {"oneOf": [{"type": "string"}, {"type": "integer"}], "description": "d"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "d"},
    ),
    "several types": (
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    ),
    "a list needs items": ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
    "a list of anything": ({"type": "array", "items": True}, {"type": "array", "items": {"type": "string"}}),
    "a tuple": (
        {"prefixItems": [{"type": "number"}, {"type": "number"}], "minItems": 2},
        {"type": "array", "items": {"type": "number"}, "minItems": 2},
    ),
    "a tuple of several kinds": (
        {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]},
        {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}},
    ),
    "an object of anything": ({"additionalProperties": {"type": "string"}}, {"type": "object"}),
    "all of several": (
        {
            "allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
            ]
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
            "required": ["a", "b"],
        },
    ),
}


@pytest.mark.parametrize("case", TRANSLATIONS)
def test_a_schema_is_translated_into_openapis_subset(case: str) -> None:
    schema, expected = TRANSLATIONS[case]
    assert openapi_schema(schema) == expected


def size(schema: Any) -> int:
    return 1 + sum(map(size, schema.values())) if isinstance(schema, dict) else 1


def test_references_that_multiply_stay_bounded() -> None:
    names = [f"D{number}" for number in range(20)]
    definitions = {
        name: {"type": "object", "properties": {key: {"$ref": f"#/$defs/{below}"} for key in "abc"}}
        for name, below in itertools.pairwise(names)
    }
    assert size(openapi_schema({"$ref": "#/$defs/D0", "$defs": definitions})) < 40_000


def test_a_schema_nested_without_end_is_cut() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    assert size(openapi_schema(schema)) < 200
    assert json_schema(schema) == schema


def test_json_schema_keeps_all_but_what_it_has_another_word_for() -> None:
    schema = {
        "$schema": "s",
        "properties": {
            "const": {"const": 1},
            "flag": {"const": True},
            "a": {"anyOf": [{"const": "x"}, {}]},
        },
        "items": {"const": "y"},
        "default": {"const": 1},
        "additionalProperties": False,
    }
    assert json_schema(schema) == {
        "properties": {"const": {"enum": [1]}, "flag": {"const": True}, "a": {"anyOf": [{"enum": ["x"]}, {}]}},
        "items": {"enum": ["y"]},
        "default": {"const": 1},
        "additionalProperties": False,
    }


def test_only_the_schemas_of_a_request_are_translated() -> None:
    functions = [{"name": "now"}, {"name": "add", "parametersJsonSchema": {"const": 1}}]
    assert with_openapi_schemas({"tools": [{"functionDeclarations": functions}]}) == {
        "tools": [{"functionDeclarations": [{"name": "now"}, {"name": "add", "parameters": {"type": "integer"}}]}]
    }


def test_a_request_without_schemas_stays_as_it_is() -> None:
    for body in ({"contents": []}, {"tools": [{"googleSearch": {}}], "generationConfig": {"topK": 1}}):
        assert with_openapi_schemas(body) == body
