"""Structured answers of Chat Completions: schemas as parameters, and answers read by them, strictly."""

import json
from typing import Any, Literal, TypedDict

import pytest
from langchain_core.exceptions import ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field

from agentgraph.errors import ConfigurationError
from agentgraph.models.openai_structured import as_strict, read_call, read_text, response_format_of, tool_of


class City(BaseModel):
    """A city."""

    name: str
    population: int | None = None


class Guess(BaseModel):
    value: int = 5


class CityDict(TypedDict):
    """A city."""

    name: str


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


STRICT: dict[str, tuple[dict[str, Any], bool]] = {
    "an object": (obj(a={"type": "string"}), True),
    "an optional that takes null": (
        {**obj(a={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}), "required": []},
        True,
    ),
    "null among types": ({**obj(a={"type": ["string", "null"]}), "required": []}, True),
    "objects within": (obj(a={"type": "array", "items": obj(b={"enum": ["x"]})}), True),
    "definitions": ({**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": obj(b={"type": "integer"})}}, True),
    "an optional without null": ({**obj(a={"type": "string"}), "required": []}, False),
    "an open object": ({**obj(a={"type": "string"}), "additionalProperties": True}, False),
    "a dict of anything": (obj(a={"type": "object", "additionalProperties": {"type": "integer"}}), False),
    "a root anyOf": ({"anyOf": [obj(a={"type": "string"})]}, False),
    "oneOf": (obj(a={"oneOf": [{"type": "string"}]}), False),
    "a tuple": (obj(a={"type": "array", "prefixItems": [{"type": "string"}]}), False),
    "an unknown format": (obj(a={"type": "string", "format": "uri"}), False),
    "a known format": (obj(a={"type": "string", "format": "date"}), True),
    "a definition that is not strict": ({**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "object"}}}, False),
    "a branch that is not strict": (obj(a={"anyOf": [{"type": "object"}]}), False),
    "an object within that is open": (obj(a=obj(b={"type": "object"})), False),
    "a list of what is not strict": (obj(a={"type": "array", "items": {"type": "object"}}), False),
    "anything, optionally": ({**obj(a=True), "required": []}, False),
    "no properties": ({"type": "object"}, False),
}


@pytest.mark.parametrize("case", STRICT)
def test_a_schema_is_made_strict_only_where_that_keeps_its_meaning(case: str) -> None:
    schema, possible = STRICT[case]
    assert (as_strict(schema) is not None) is possible


def test_a_strict_schema_is_closed_and_requires_everything() -> None:
    schema = obj(a={"type": "array", "items": {**obj(b={"type": ["integer", "null"], "default": 1}), "required": []}})
    assert as_strict(schema) == {
        "type": "object",
        "properties": {
            "a": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"b": {"type": ["integer", "null"]}},
                    "required": ["b"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "strict", "name", "is_strict"),
    [
        (City, None, "City", True),
        (City, False, "City", None),
        (Guess, None, "Guess", None),
        (CityDict, None, "CityDict", True),
        (City.model_json_schema(), None, "City", True),
        (obj(a={"type": "string"}), None, "answer", True),
        ({**obj(a={"type": "string"}), "title": "My answer!"}, None, "My_answer_", True),
    ],
)
def test_any_schema_becomes_a_response_format(
    schema: Any, strict: bool | None, name: str, is_strict: bool | None
) -> None:
    made = response_format_of(schema, strict=strict)
    assert (made["type"], made["json_schema"]["name"], made["json_schema"].get("strict")) == (
        "json_schema",
        name,
        is_strict,
    )


def test_a_ready_response_format_is_left_as_it_is() -> None:
    for ready in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}):
        assert response_format_of(ready, strict=None) == ready


@pytest.mark.parametrize("schema", [7, "City", []])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="schema"):
        response_format_of(schema, strict=None)


def test_a_tool_for_an_answer_is_strict_on_request() -> None:
    assert tool_of(City, strict=True)["function"]["strict"] is True
    assert "strict" not in tool_of(City, strict=None)["function"]


@pytest.mark.parametrize(
    "text",
    ['{"name": "Paris"}', '```json\n{"name": "Paris"}\n```', '\n```\n{"name": "Paris"}```  ', ' {"name":"Paris"}\n'],
)
def test_json_is_read_with_and_without_a_fence(text: str) -> None:
    assert read_text(City, AIMessage(text)) == City(name="Paris")
    assert read_text(CityDict, AIMessage(text)) == {"name": "Paris"}


Finish = Literal["stop", "length"]


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ('{"name": "Par', "stop", "not JSON"),
        ('{"name": "Paris"} and more', "stop", "not JSON"),
        ("Paris", "stop", "not JSON"),
        ('{"name": 7}', "stop", "does not fit City"),
        ('{"name": "Paris"}', "length", "limit of tokens"),
        ("", "stop", "not JSON"),
    ],
)
def test_an_answer_that_is_none_is_an_error(text: str, finish: Finish, reason: str) -> None:
    with pytest.raises(OutputParserException, match=reason):
        read_text(City, AIMessage(text, response_metadata={"finish_reason": finish}))


def test_a_refusal_is_no_parse_error() -> None:
    refusal = AIMessage("", additional_kwargs={"refusal": "I won't."})
    with pytest.raises(ModelRefusalError, match="I won't"):
        read_text(City, refusal)
    with pytest.raises(ModelRefusalError, match="I won't"):
        read_call(City, "City", refusal)


def call(args: dict[str, Any], name: str = "City") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1", "type": "tool_call"}])


def test_a_call_is_the_answer() -> None:
    assert read_call(City, "City", call({"name": "Paris", "population": 2})) == City(name="Paris", population=2)
    assert read_call(CityDict, "City", call({"name": "Paris"})) == {"name": "Paris"}


def test_a_call_that_is_missing_or_broken_is_an_error() -> None:
    broken = AIMessage(
        "", invalid_tool_calls=[{"name": "City", "args": "{", "id": "1", "error": "half", "type": "invalid_tool_call"}]
    )
    for message, reason in ((AIMessage("Paris!"), "Paris!"), (call({}, "Town"), "'City'"), (broken, "half")):
        with pytest.raises(OutputParserException, match=reason):
            read_call(City, "City", message)
    with pytest.raises(OutputParserException, match="does not fit City"):
        read_call(City, "City", call({"population": "many"}))


def test_descriptions_reach_the_server() -> None:
    class Described(BaseModel):
        """What it is."""

        field: str = Field(description="what stands here")

    shape = response_format_of(Described, strict=None)["json_schema"]
    assert shape["description"] == "What it is."
    assert "what stands here" in json.dumps(shape["schema"])
