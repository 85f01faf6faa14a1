"""Raw JSON schemas: checked when they are given, split at a root union, made strict, and enforced on answers."""

import copy
import socket
from typing import Any, Literal, NoReturn

import pytest
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field
from referencing.exceptions import Unresolvable

from agentgraph.errors import ConfigurationError
from agentgraph.structured_output import (
    OutputToolBinding,
    ProviderStrategy,
    ProviderStrategyBinding,
    SchemaMismatchError,
    ToolStrategy,
)
from agentgraph.structured_output.json_schemas import json_mismatches

PERSON: dict[str, Any] = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
FIRM: dict[str, Any] = {
    "title": "Firm",
    "type": "object",
    "properties": {"site": {"type": "string"}},
    "required": ["site"],
}


def members(schema: Any) -> dict[str, dict[str, Any]]:
    return {spec.name: spec.json_schema for spec in ToolStrategy(schema).schema_specs}


def cyclic() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["self"] = schema
    return schema


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "objekt"}, "at type: 'objekt' is not valid"),
        ({"type": "object", "properties": {"a": {"type": 5}}}, "at properties.a.type"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "at properties.a.pattern"),
        ({"type": "object", "required": "name"}, "at required: 'name' is not of type 'array'"),
        ({"title": 5, "type": "object"}, "at title: 5 is not of type 'string'"),
        ({"$schema": ["odd"], "type": "object"}, "at $schema"),
        ({"type": "object", "oneOf": []}, "at oneOf"),
        ({"type": "object", "properties": {"a": {1, 2}}}, "holds what is not JSON"),
        ({"type": "object", "default": float("nan")}, "holds what is not JSON"),
        (cyclic(), "holds what is not JSON"),
        ({}, "describes 'anything' at its root. Expected an object"),
        ({"type": "array", "items": PERSON}, "describes 'array' at its root"),
        ({"type": "string"}, "describes 'string' at its root"),
        ({"$ref": "#"}, "as '#' applies itself to the same value again"),
        ({"name": "f", "parameters": PERSON}, "describes 'anything' at its root"),
        ({"oneOf": [PERSON, {"type": "null"}]}, "describes 'null' at its root"),
        ({"oneOf": [PERSON, True]}, "A branch of the JSON schema's root is True"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "refers to '#/$defs/A', which is not in it"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}, "which is not in it"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "which is not in it"),
        ({"type": "object", "properties": {"a": {"$ref": "#named"}}}, "which is not in it"),
        ({"type": "object", "properties": {"a": {"$dynamicRef": "https://a.org/b"}}}, "which is not in it"),
        ({"type": "object", "allOf": [{"$ref": "#/allOf/7"}]}, "which is not in it"),
        ({"oneOf": [{"type": "object", "properties": {"a": {"$ref": "#/oneOf/0"}}}]}, "Move the shared part there"),
        ({"type": "object", "title": "x" * 100_000, "required": ["y" * 100_000] * 2}, "at required"),
    ],
)
def test_an_unsound_json_schema_is_refused_when_it_is_given(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ToolStrategy(schema)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {}}}, {"structured_response": {"properties": {"a": {}}, "type": "object"}}),
        ({"type": ["object", "null"]}, {"structured_response": {"type": "object"}}),
        ({"oneOf": [PERSON, FIRM]}, {"Person": PERSON, "Firm": FIRM}),
        ({"anyOf": [PERSON, FIRM], "title": "Either"}, {"Person": PERSON, "Firm": FIRM}),
        ({"oneOf": [PERSON, {"anyOf": [FIRM, PERSON]}]}, {"Person": PERSON, "Firm": FIRM}),
        (
            {"oneOf": [{"$ref": "#/$defs/Man"}, {"$ref": "#/$defs/Firm"}], "$defs": {"Man": PERSON, "Firm": FIRM}},
            {
                "Person": {**PERSON, "$defs": {"Man": PERSON, "Firm": FIRM}},
                "Firm": {**FIRM, "$defs": {"Man": PERSON, "Firm": FIRM}},
            },
        ),
        (
            {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "object"}}},
            {"a_1b": {"type": "object", "definitions": {"a/b": {"type": "object"}}}},
        ),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {
                "structured_response": {
                    "type": "object",
                    "properties": {"a": {}, "b": {}},
                    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                }
            },
        ),
        (
            {"type": "object", "properties": {"$ref": {"type": "string"}}, "default": {"$ref": "plain data"}},
            {
                "structured_response": {
                    "type": "object",
                    "properties": {"$ref": {"type": "string"}},
                    "default": {"$ref": "plain data"},
                }
            },
        ),
    ],
)
def test_each_branch_of_a_root_union_becomes_a_schema(schema: Any, expected: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    assert members(schema) == expected
    assert schema == before


def test_an_answer_is_checked_against_the_draft_that_the_schema_names() -> None:
    draft4 = {"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}}
    with pytest.raises(ConfigurationError, match="exclusiveMinimum"):
        ToolStrategy(draft4)
    (spec,) = ToolStrategy({"$schema": "http://json-schema.org/draft-04/schema#", **draft4}).schema_specs
    assert spec.parse({"a": 2}) == {"a": 2}
    with pytest.raises(SchemaMismatchError, match="a: 1 is less than or equal to the minimum of 1"):
        spec.parse({"a": 1})


def test_nothing_is_fetched_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(Unresolvable):
        json_mismatches({"$ref": "https://example.org/a.json"}, {}, at_most=1)
    (spec,) = ToolStrategy(
        {"$id": "http://example.org/x", "$schema": "http://example.org/draft", **PERSON}
    ).schema_specs
    assert spec.parse({"name": "A"}) == {"name": "A"}


class Node(BaseModel):
    """A node."""

    children: list["Node"] = []


def test_a_recursive_model_is_shown_to_the_provider_with_an_object_at_its_root() -> None:
    binding = OutputToolBinding.from_schema_spec(ToolStrategy(Node).schema_specs[0])
    function = convert_to_openai_tool(binding.tool)["function"]
    assert (function["name"], function["description"]) == ("Node", "A node.")
    assert function["parameters"]["type"] == "object"
    assert binding.parse({"children": [{"children": []}]}) == Node(children=[Node()])


class Leaf(BaseModel):
    kind: Literal["leaf"]
    note: str | None = None


class Fork(BaseModel):
    kind: Literal["fork"]
    size: int = 2
    leaves: list[Leaf] = []


class Tree(BaseModel):
    name: str = "oak"
    age: int | None = None
    root: Leaf | Fork = Field(discriminator="kind")
    main: Leaf = Field(default=Leaf(kind="leaf"), description="The main one.")
    mode: Literal["a", "b"] = "a"


LEAF = {
    "properties": {
        "kind": {"const": "leaf", "title": "Kind", "type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Note"},
    },
    "title": "Leaf",
    "type": "object",
    "required": ["kind", "note"],
    "additionalProperties": False,
}


def test_a_strict_schema_forbids_more_and_requires_all_with_null_for_the_optional() -> None:
    described = ProviderStrategy(Tree, strict=True).to_model_kwargs()["response_format"]["json_schema"]
    null = {"type": "null"}
    assert described == {
        "name": "Tree",
        "strict": True,
        "schema": {
            "title": "Tree",
            "type": "object",
            "required": ["name", "age", "root", "main", "mode"],
            "additionalProperties": False,
            "properties": {
                "name": {"anyOf": [{"title": "Name", "type": "string"}, null]},
                "age": {"anyOf": [{"type": "integer"}, null], "title": "Age"},
                "root": {"anyOf": [{"$ref": "#/$defs/Leaf"}, {"$ref": "#/$defs/Fork"}], "title": "Root"},
                "main": {"anyOf": [{"$ref": "#/$defs/Leaf"}, null]},
                "mode": {"anyOf": [{"enum": ["a", "b"], "title": "Mode", "type": "string"}, null]},
            },
            "$defs": {
                "Leaf": LEAF,
                "Fork": {
                    "title": "Fork",
                    "type": "object",
                    "required": ["kind", "size", "leaves"],
                    "additionalProperties": False,
                    "properties": {
                        "kind": {"const": "fork", "title": "Kind", "type": "string"},
                        "size": {"anyOf": [{"title": "Size", "type": "integer"}, null]},
                        "leaves": {
                            "anyOf": [
                                {"items": {"$ref": "#/$defs/Leaf"}, "title": "Leaves", "type": "array"},
                                null,
                            ]
                        },
                    },
                },
            },
        },
    }


@pytest.mark.parametrize("strict", [None, False])
def test_a_schema_that_need_not_be_strict_is_sent_as_it_is(strict: bool | None) -> None:
    described = ProviderStrategy(PERSON, strict=strict).to_model_kwargs()
    assert described == {
        "response_format": {"type": "json_schema", "json_schema": {"name": "Person", "schema": PERSON}}
    }


def test_an_optional_union_in_a_strict_schema_may_be_null() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}
    described = ProviderStrategy(schema, strict=True).to_model_kwargs()["response_format"]["json_schema"]["schema"]
    options = [{"type": "string"}, {"type": "integer"}, {"type": "null"}]
    assert described["properties"] == {"a": {"anyOf": options}}


def test_a_single_all_of_is_said_strictly() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}], "description": "An A."}},
        "required": ["a"],
        "$defs": {"A": {"type": "string"}},
    }
    described = ProviderStrategy(schema, strict=True).to_model_kwargs()["response_format"]["json_schema"]["schema"]
    assert described["properties"] == {"a": {"anyOf": [{"$ref": "#/$defs/A"}], "description": "An A."}}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Free(BaseModel):
    inner: list[dict[str, int]]


class AnyValue(BaseModel):
    value: Any


class Couple(BaseModel):
    pair: tuple[int, str]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (Open, "Schema 'Open' cannot be strict: Open has an object with free keys"),
        (Free, "Free.inner.[] has an object with free keys"),
        (AnyValue, "AnyValue.value has a value of any type"),
        (Couple, "Couple.pair has the keyword"),
        ({"type": "object", "title": "O"}, "O has an object without properties"),
        ({"type": "object", "title": "O", "properties": {"a": {"not": {}}}}, "O.a has the keyword 'not'"),
        ({"type": "object", "title": "O", "properties": {"a": True}}, "O.a has the schema True"),
        ({"type": "object", "title": "O", "properties": {"a": {"type": "array"}}}, "O.a.[] has a value of any type"),
    ],
)
def test_what_cannot_be_strict_is_refused_with_the_place(schema: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match="or leave `strict` out") as caught:
        ProviderStrategy(schema, strict=True)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"name": null, "age": null, "root": {"kind": "leaf", "note": null}, "main": null, "mode": null}',
            Tree(root=Leaf(kind="leaf")),
        ),
        (
            '{"root": {"kind": "fork", "size": null, "leaves": [{"kind": "leaf", "note": null}]}, "mode": "b"}',
            Tree(root=Fork(kind="fork", leaves=[Leaf(kind="leaf")]), mode="b"),
        ),
    ],
)
def test_null_for_an_optional_property_of_a_strict_schema_means_that_it_is_absent(text: str, value: Tree) -> None:
    spec = ProviderStrategy(Tree, strict=True).schema_spec
    assert ProviderStrategyBinding.from_schema_spec(spec).parse(AIMessage(text)) == value


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, '{"a": null}'),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, '{"b": null}'),
    ],
)
def test_null_where_it_does_not_stand_for_absence_is_a_misfit(schema: dict[str, Any], data: str) -> None:
    spec = ProviderStrategy(schema, strict=True).schema_spec
    with pytest.raises(SchemaMismatchError):
        ProviderStrategyBinding.from_schema_spec(spec).parse(AIMessage(data))


def test_nulls_of_recursive_and_of_boolean_schemas_are_left_to_the_validation() -> None:
    schema = {
        "type": "object",
        "properties": {
            "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "rows": {"type": "array", "items": {"type": "null"}},
        },
        "required": ["next", "rows"],
    }
    spec = ProviderStrategy(schema, strict=True).schema_spec
    text = '{"next": {"next": null, "rows": []}, "rows": [null]}'
    assert ProviderStrategyBinding.from_schema_spec(spec).parse(AIMessage(text)) == {
        "next": {"next": None, "rows": []},
        "rows": [None],
    }
