"""Regular expressions in raw JSON schemas: no answer makes them slow, and they mean what they always meant."""

import asyncio
import re
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft3Validator, Draft4Validator, Draft7Validator, Draft201909Validator, Draft202012Validator

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.structured_output import SchemaMismatchError, ToolStrategy
from agentgraph.structured_output.json_schemas import json_mismatches
from agentgraph.structured_output.patterns import matches
from agentgraph.testing import ScriptedModel, tool_call

EXPLODING = "^(a+)+$"
HOSTILE = "a" * 60 + "!"
NO = {"type": "null"}
RECURSIVE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"x": {"pattern": EXPLODING}, "next": {"$ref": "#"}},
}


def mismatches(schema: dict[str, Any], data: Any) -> list[str]:
    (spec,) = ToolStrategy({"type": "object", **schema}).schema_specs
    try:
        spec.parse(data)
    except SchemaMismatchError as error:
        return list(error.problems)
    return []


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("schema", "data", "count"),
    [
        ({"properties": {"x": {"type": "string", "pattern": EXPLODING}}}, {"x": HOSTILE}, 1),
        ({"patternProperties": {EXPLODING: NO}}, {HOSTILE: 1}, 0),
        ({"patternProperties": {EXPLODING: NO}, "additionalProperties": False}, {HOSTILE: 1}, 1),
        ({"patternProperties": {EXPLODING: NO}, "additionalProperties": NO}, {HOSTILE: 1}, 1),
        ({"patternProperties": {EXPLODING: NO}, "unevaluatedProperties": False}, {HOSTILE: 1}, 1),
        ({"allOf": [{"patternProperties": {EXPLODING: NO}}], "unevaluatedProperties": NO}, {HOSTILE: 1}, 1),
        ({"propertyNames": {"pattern": EXPLODING}}, {HOSTILE: 1}, 1),
        (RECURSIVE, {"next": {"next": {"x": HOSTILE}}}, 1),
        (RECURSIVE | {"$schema": "http://json-schema.org/draft-07/schema#"}, {"next": {"x": HOSTILE}}, 1),
        ({"$defs": {"A": RECURSIVE}, "properties": {"a": {"$ref": "#/$defs/A"}}}, {"a": {"x": HOSTILE}}, 1),
    ],
)
def test_a_pattern_that_repeats_a_repetition_is_refuted_at_once(
    schema: dict[str, Any], data: dict[str, Any], count: int
) -> None:
    assert len(mismatches(schema, data)) == count


@pytest.mark.timeout(30)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_hostile_answer_costs_a_run_no_time_and_is_asked_for_again(is_async: bool) -> None:
    schema = {"title": "Named", "type": "object", "properties": {"x": {"type": "string", "pattern": EXPLODING}}}
    model = ScriptedModel(tool_call("Named", x=HOSTILE), tool_call("Named", x="aaa"))
    agent = create_agent(model, response_format=ToolStrategy(schema))
    asked = {"messages": [("user", "go")]}
    result = asyncio.run(agent.ainvoke(asked)) if is_async else agent.invoke(asked)
    assert result["structured_response"] == {"x": "aaa"}


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("b", "abc", True),  # anywhere
        ("^a$", "a\n", False),  # JSON schema's end, and not Python's
        (r"^a\Z", "a", True),
        (r"^[[a&&b~]+$", "[&~ab", True),
        (r"^[]a^]+$", "]^a", True),
        (r"^[^]]$", "]", False),
        (r"\<b\>", "<b>", True),
        (r"[\<\>\]]", ">", True),
        ("a{", "a{", True),
        ("^a{,2}$", "aaa", False),
        ("^(?i:A)b$", "ab", True),
        ("^[+--]$", ",", True),  # a range up to the hyphen
        ("a++a", "aaa", False),  # possessive
        (r"^(?=.*\d)a", "a1", True),
        (r"^(.)\1$", "aa", True),
        (r"^(.)\1$", "ab", False),
        ("(?x) a # b", "a", True),
        ("^.$", "\ud800", True),
        ("^é.$", "é\udfff", True),
    ],
)
def test_a_pattern_means_what_it_means_in_json_schema(pattern: str, text: str, fits: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Python may get sets in sets one day
        assert (mismatches({"properties": {"x": {"pattern": pattern}}}, {"x": text}) == []) is fits


PIECES = [
    *"ab[]{}()-&~^.*+?<>,|",
    r"\<",
    r"\d",
    r"\b",
    r"\[",
    r"\-",
    "{,2}",
    "{1,}",
    "(?:",
    "[^",
    "--",
    "&&",
    "(?=",
    "]",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join))
def test_both_engines_find_the_same(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            compiled = re.compile(pattern)
        except re.error:
            return
        texts = ["", "a", "ab", "aab", "b-a", "[]", "{}", "a{", "<b>", "&&", "~^", "1,|"]
        assert [matches(pattern, text) for text in texts] == [bool(compiled.search(text)) for text in texts]


COVERED: list[dict[str, Any]] = [
    {"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 2}}},
    {"properties": {"x": {}}, "patternProperties": {"^a": {}}, "additionalProperties": False},
    {"patternProperties": {"^a": {}}, "additionalProperties": {"type": "string"}},
    {"properties": {"x": {}}, "unevaluatedProperties": False},
    {"patternProperties": {"^a": {}}, "unevaluatedProperties": {"type": "string"}},
    {"allOf": [{"patternProperties": {"^a": {}}}, {"properties": {"x": {}}}], "unevaluatedProperties": False},
    {
        "anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"properties": {"x": {}}}],
        "unevaluatedProperties": False,
    },
    {"oneOf": [{"required": ["a"], "patternProperties": {"^a": {}}}, NO], "unevaluatedProperties": False},
    {"$defs": {"A": {"patternProperties": {"^a": {}}}}, "$ref": "#/$defs/A", "unevaluatedProperties": False},
    {"$defs": {"A": {"properties": {"a": {}}}}, "allOf": [{"$ref": "#/$defs/A"}], "unevaluatedProperties": False},
    {"dependentSchemas": {"a": {"patternProperties": {"^a": {}, "x": {}}}}, "unevaluatedProperties": False},
    {
        "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
        "then": {"properties": {"ab": {}}},
        "else": {"properties": {"x": {}}},
        "unevaluatedProperties": False,
    },
    {"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False},
    {"properties": {"n": {"unevaluatedProperties": False, "properties": {"x": {}}}}},
]
ANSWERS: list[Any] = [
    {},
    {"a": 1},
    {"a": "1"},
    {"x": 1},
    {"x": "1"},
    {"a": 1, "x": 2},
    {"a": 1, "ab": 1},
    {"b": 1},
    {"z": "s"},
    {"n": {"x": 1}},
    {"n": {"y": 1}},
    {"n": 5},
    [1],
]


@pytest.mark.parametrize("schema", COVERED)
@pytest.mark.parametrize(
    "draft", [Draft202012Validator, Draft201909Validator, Draft7Validator, Draft4Validator, Draft3Validator]
)
def test_the_same_answers_fit_as_under_the_validator_of_the_draft(schema: dict[str, Any], draft: Any) -> None:
    named = {**schema, "$schema": draft.ID_OF(draft.META_SCHEMA)}
    own = [not json_mismatches(named, answer, at_most=1) for answer in ANSWERS]
    assert own == [draft(named).is_valid(answer) for answer in ANSWERS]


def test_what_a_part_allows_as_unevaluated_counts_for_the_whole() -> None:
    schema = {"allOf": [True, {"unevaluatedProperties": {"type": "integer"}}], "unevaluatedProperties": False}
    assert mismatches(schema, {"a": 1}) == []
    assert mismatches(schema, {"a": "s"})[0] == "a: 's' is not of type 'integer'"


def test_a_violation_names_what_was_given_and_the_rule() -> None:
    assert mismatches({"properties": {"x": {"pattern": "^b"}}}, {"x": "a"}) == ["x: 'a' does not match '^b'"]
    assert mismatches({"patternProperties": {"^a": NO}}, {"ab": 1}) == ["ab: 1 is not of type 'null'"]
    assert mismatches({"unevaluatedProperties": False}, {"x": 1, "a": 2}) == [
        "the root: no other properties are allowed, and given were 'a', 'x'"
    ]
    assert mismatches({"unevaluatedProperties": NO}, {"x": 1, "a": None}) == ["x: 1 is not of type 'null'"]
    assert mismatches({"patternProperties": {"^a": NO}, "additionalProperties": False}, {"x": 1}) == [
        "the root: Additional properties are not allowed ('x' was unexpected)"
    ]


def test_data_of_the_schema_is_left_as_it_is() -> None:
    schema = {"properties": {"x": {"const": {"$schema": "s"}}, "$schema": {"type": "string"}}}
    assert mismatches(schema, {"x": {"$schema": "s"}, "$schema": "t"}) == []
    assert mismatches(schema, {"x": {}, "$schema": 1}) != []


LOOP = "applies itself to the same value again"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$ref": "#"}, LOOP),
        ({"type": "object", "$ref": "#"}, LOOP),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, LOOP),
        ({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"$ref": "#"}]}, LOOP),
        ({"type": "object", "not": {"$dynamicRef": "#"}}, LOOP),
        ({"type": "object", "dependentSchemas": {"a": {"$ref": "#"}}}, LOOP),
        ({"type": "object", "if": True, "then": {"$ref": "#"}}, LOOP),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"oneOf": [{"$ref": "#/$defs/A"}]}},
            },
            LOOP,
        ),
    ],
)
def test_a_schema_that_applies_itself_without_end_is_refused_when_it_is_given(schema: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        ToolStrategy(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "null"}]}}},
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}], "$defs": {"A": {"properties": {"b": {"$ref": "#"}}}}},
    ],
)
def test_a_schema_that_applies_itself_to_parts_of_a_value_is_sound(schema: Any) -> None:
    assert mismatches(schema, {"a": None, "b": {}} if "allOf" in schema else {}) == []
