"""Example dialogues: made of the schemas of tools, plausible, and always the same."""

from typing import Any

import jsonschema
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentgraph.protocols import ToolSpec
from agentgraph.protocols.examples import example_arguments, example_dialogues


def tool(title: str = "t", about: str = "", **properties: Any) -> ToolSpec:
    return ToolSpec(title, about, {"type": "object", "properties": properties, "required": list(properties)})


VALUES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "by name": ("home_city", {"type": "string"}, "Lisbon"),
    "by format": ("when", {"type": "string", "format": "date"}, "2025-03-14"),
    "unknown name": ("zzz", {"type": "string"}, "example"),
    "short": ("city", {"type": "string", "maxLength": 3}, "Lis"),
    "integer": ("n", {"type": "integer"}, 2),
    "integer above": ("n", {"type": "integer", "minimum": 10}, 10),
    "integer below": ("n", {"type": "integer", "maximum": 1}, 1),
    "boolean": ("flag", {"type": "boolean"}, True),
    "list": ("cities", {"type": "array", "items": {"type": "string"}}, ["example"]),
    "object": (
        "p",
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"city": "Lisbon"},
    ),
    "constant": ("c", {"const": "k"}, "k"),
    "choice": ("c", {"enum": ["b", "a"]}, "b"),
    "example": ("c", {"type": "string", "examples": ["e"]}, "e"),
    "default": ("c", {"type": "string", "default": "d"}, "d"),
    "alternatives": ("c", {"anyOf": [{"type": "null"}, {"type": "integer"}]}, 2),
    "only null": ("c", {"anyOf": [{"type": "null"}]}, None),
    "several types": ("c", {"type": ["null", "boolean"]}, True),
    "null": ("c", {"type": "null"}, None),
    "anything": ("c", {}, "example"),
}


@pytest.mark.parametrize(("name", "schema", "value"), VALUES.values(), ids=VALUES)
def test_a_value_fits_its_schema_and_name(name: str, schema: dict[str, Any], value: Any) -> None:
    properties: Any = {name: schema}

    made = example_arguments(tool(**properties))

    assert made == {name: value}
    jsonschema.validate(made[name], schema)


def test_only_required_arguments_are_shown_or_the_first() -> None:
    city, day = {"type": "string"}, {"type": "integer"}
    optional = ToolSpec("t", "", {"type": "object", "properties": {"city": city, "day": day}})

    assert example_arguments(optional) == {"city": "Lisbon"}
    assert example_arguments(ToolSpec("t", "", {**optional.parameters, "required": ["day"]})) == {"day": 2}
    assert example_arguments(tool()) == {}


def test_a_value_without_a_schema_is_a_text() -> None:
    assert example_arguments(tool(a=True)) == {"a": "x"}


def test_schemas_that_contain_themselves_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}, "required": ["next"]}
    lists: dict[str, Any] = {"type": "array"}
    for _ in range(30):
        lists = {"type": "array", "items": lists}
    spec = ToolSpec("t", "", {"$defs": {"N": node}, "type": "object", "properties": {"a": {"$ref": "#/$defs/N"}}})

    assert example_arguments(spec) == {"a": {"next": "example"}}
    assert example_arguments(tool(a=lists, b={"type": "array"})) == {"a": [[[[[]]]]], "b": ["example"]}


def deep(levels: int) -> dict[str, Any]:
    inner = deep(levels - 1) if levels else {"type": "string"}
    return {"type": "object", "properties": {"a": inner}, "required": ["a"]}


def test_deep_objects_are_cut_off() -> None:
    assert example_arguments(ToolSpec("t", "", deep(30))) == {"a": {"a": {"a": {"a": {"a": {}}}}}}


def call(name: str, args: dict[str, Any], call_id: str) -> Any:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def test_dialogues_go_from_the_question_to_the_answer() -> None:
    tools = [tool("weather", "Tell the weather. In a city.", city={"type": "string"}), tool("time_now")]

    assert example_dialogues(tools) == [
        HumanMessage("Tell the weather: Lisbon"),
        AIMessage("", tool_calls=[call("weather", {"city": "Lisbon"}, "example_0")]),
        ToolMessage("RESULT 1", name="weather", tool_call_id="example_0"),
        AIMessage("The answer is: RESULT 1"),
        HumanMessage("Hello!"),
        AIMessage("Hello! How can I help you?"),
        HumanMessage("time now."),
        AIMessage("", tool_calls=[call("time_now", {}, "example_1")]),
        ToolMessage("RESULT 2", name="time_now", tool_call_id="example_1"),
        AIMessage("The answer is: RESULT 2"),
    ]


def test_the_answer_without_a_call_is_never_shown_last() -> None:
    assert [message.content for message in example_dialogues([tool("now", "Tell the time.")])] == [
        "Hello!",
        "Hello! How can I help you?",
        "Tell the time.",
        "",
        "RESULT 1",
        "The answer is: RESULT 1",
    ]


def test_a_tool_that_is_alone_is_shown_with_different_values() -> None:
    one = tool("move", "Move.", city={"type": "string"}, days={"type": "integer"}, by={"enum": ["car", "train"]})

    calls = [call for m in example_dialogues([one]) if isinstance(m, AIMessage) for call in m.tool_calls]

    assert [call["args"] for call in calls] == [
        {"city": "Lisbon", "days": 5, "by": "car"},
        {"city": "Nairobi", "days": 4, "by": "train"},
    ]


def test_dialogues_are_few_and_end_with_the_call_where_one_is_required() -> None:
    tools = [tool(f"t{number}", a={"type": "array", "items": {"type": "integer"}}) for number in range(9)]

    assert example_dialogues(tools, count=2, answers=False) == [
        HumanMessage("t0: [2]"),
        AIMessage("", tool_calls=[call("t0", {"a": [2]}, "example_0")]),
        HumanMessage("t1: [2]"),
        AIMessage("", tool_calls=[call("t1", {"a": [2]}, "example_1")]),
    ]
    assert example_dialogues(tools) == example_dialogues(tools)
