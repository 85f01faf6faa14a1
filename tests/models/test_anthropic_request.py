"""Requests of the Messages API: whole bodies, each of them one that the official client's types take."""

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from pydantic import BaseModel

from agentgraph.errors import ConfigurationError
from agentgraph.models.anthropic import ChatAnthropic
from tests.models.anthropic_asking import body_sent, local, turns_sent
from tests.models.openai_asking import add, invoke, stream
from tests.wire_server import WireServer


def test_the_body_holds_what_was_set_and_nothing_else(server: WireServer) -> None:
    assert body_sent(server, local(server), "Hi") == {
        "model": "claude-test",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "Hi"}],
    }


def test_settings_of_the_model_of_the_binding_and_of_the_call_are_sent(server: WireServer) -> None:
    model = local(
        server, temperature=0.5, top_k=3, effort="low", max_tokens=9, extra_body={"metadata": {"user_id": "u"}}
    )
    bound = model.bind(top_k=4, stop=["x"], service_tier="auto", cache_control={"type": "ephemeral"})
    assert body_sent(server, bound, [SystemMessage("Be brief."), HumanMessage("Hi")], way=stream) == {
        "model": "claude-test",
        "max_tokens": 9,
        "temperature": 0.5,
        "top_k": 4,
        "stop_sequences": ["x"],
        "output_config": {"effort": "low"},
        "service_tier": "auto",
        "cache_control": {"type": "ephemeral"},
        "metadata": {"user_id": "u"},
        "stream": True,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    }


@pytest.mark.parametrize(
    ("model", "thinking", "whole", "streamed"),
    [
        ("claude-sonnet-4-5-20250929", None, 20_000, 64_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", None, 20_000, 32_000),
        ("claude-3-5-haiku-latest", None, 8_192, 8_192),
        ("claude-opus-4-6", {"type": "enabled", "budget_tokens": 30_000}, 50_000, 128_000),
        ("qwen3", None, 4_096, 4_096),
        ("qwen3", {"type": "enabled", "budget_tokens": 2_000}, 6_096, 6_096),
    ],
)
def test_the_limit_of_an_answer_is_the_models_own_where_none_is_set(
    server: WireServer, model: str, thinking: Any, whole: int, streamed: int
) -> None:
    asked = ChatAnthropic(model=model, base_url=server.url, thinking=thinking)
    limits = [body_sent(server, asked, "Hi", way=way)["max_tokens"] for way in (invoke, stream)]
    assert limits == [whole, streamed]


def test_stop_words_of_the_call_win_under_either_name(server: WireServer) -> None:
    model = local(server, stop_sequences=["a"])
    asked = (model, model.bind(stop=["b"]), model.bind(stop_sequences=["c"]))
    assert [body_sent(server, one, "Hi")["stop_sequences"] for one in asked] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"model": "claude-sonnet-4-5"}, {"temperature": 0.0, "top_p": 0.9}),
        ({"model": "claude-opus-4-7"}, {}),
        ({"model": "claude-sonnet-5-5"}, {}),
        ({"model": "claude-sonnet-4-5", "thinking": {"type": "adaptive"}}, {}),
        ({"model": "claude-sonnet-4-5", "anthropic_version": "2026-10-21"}, {}),
    ],
)
def test_sampling_is_not_sent_where_it_is_refused(server: WireServer, settings: Any, sent: Any) -> None:
    body = body_sent(server, local(server, **{"temperature": 0.0, "top_p": 0.9, **settings}), "Hi")
    assert {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body} == sent


# Turns


def test_all_results_of_a_turn_are_one_user_turn_with_the_results_first(server: WireServer) -> None:
    calls = [{"name": "add", "args": {"a": 1}, "id": "toolu_1"}, {"name": "add", "args": {}, "id": "a|b"}]
    asked = [
        SystemMessage("One."),
        SystemMessage("Two."),
        HumanMessage("Hi"),
        HumanMessage("there"),
        AIMessage("", tool_calls=calls),
        ToolMessage("3", tool_call_id="toolu_1"),
        HumanMessage("Well?"),
        ToolMessage("no", tool_call_id="a|b", status="error"),
        AIMessage([]),
        HumanMessage("Go on."),
        SystemMessage("Three."),
    ]
    body = body_sent(server, local(server), asked)
    other = body["messages"][1]["content"][1]["id"]
    assert (other.startswith("call_"), body["system"]) == (
        True,
        [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}, {"type": "text", "text": "Three."}],
    )
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": other, "name": "add", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"},
                {"type": "tool_result", "tool_use_id": other, "content": "no", "is_error": True},
                {"type": "text", "text": "Well?"},
                {"type": "text", "text": "Go on."},
            ],
        },
    ]


def test_results_of_tools_may_be_empty_or_hold_images_and_documents(server: WireServer) -> None:
    calls = [{"name": "look", "args": {}, "id": id_} for id_ in ("t1", "t2")]
    image = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    results = [ToolMessage("", tool_call_id="t1"), ToolMessage(["Here:", image], tool_call_id="t2")]
    assert turns_sent(server, HumanMessage("Hi"), AIMessage("", tool_calls=calls), *results)[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1"},
        {
            "type": "tool_result",
            "tool_use_id": "t2",
            "content": [
                {"type": "text", "text": "Here:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ],
        },
    ]


def test_blank_texts_are_left_out_and_the_end_of_a_begun_answer_is_stripped(server: WireServer) -> None:
    asked = [HumanMessage(["", {"type": "text", "text": "  \n"}, "Hi"]), AIMessage("The answer is \n")]
    assert turns_sent(server, *asked) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "The answer is"},
    ]


def test_roles_of_chat_messages_are_taken_and_other_messages_refused(server: WireServer) -> None:
    asked = [ChatMessage("Hi", role="user"), ChatMessage("Hello.", role="assistant"), HumanMessage("Bye")]
    assert [turn["role"] for turn in turns_sent(server, *asked)] == ["user", "assistant", "user"]
    for wrong in (FunctionMessage("x", name="f"), RemoveMessage(id="1"), ChatMessage("x", role="critic")):
        with pytest.raises(ConfigurationError, match="Expected system, human, AI and tool messages"):
            local(server).invoke([wrong])


# The cache


def test_marks_of_the_cache_are_kept_and_never_more_than_four(server: WireServer) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    asked: list[BaseMessage] = [SystemMessage([{"type": "text", "text": "Be brief.", **mark}])]
    for number in range(4):
        asked += [HumanMessage([{"type": "text", "text": f"{number}", **mark}]), AIMessage("Yes.")]
    blank = {"type": "text", "text": " ", **mark}
    asked.append(HumanMessage([{"type": "text", "text": "Now?", "extras": mark}, blank]))
    body = body_sent(server, local(server).bind_tools([{**TOOL, **mark}]), asked)
    marked = [turn["content"][0]["text"] for turn in body["messages"] if isinstance(turn["content"], list)
              and "cache_control" in turn["content"][0]]  # fmt: skip
    assert (body["system"], marked) == ([{"type": "text", "text": "Be brief.", **mark}], ["3", "Now?"])
    assert body["tools"] == [{**TOOL, **mark}]
    first = asked[1].content[0]
    assert isinstance(first, dict)
    assert "cache_control" in first


# Tools

TOOL: dict[str, Any] = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


def test_tools_of_all_forms_are_sent_and_the_providers_own_are_passed_on(server: WireServer) -> None:
    @tool(extras={"defer_loading": True, "else": 1})
    def now() -> str:
        """Say the time."""
        return ""

    openai = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"type": "string"}}}}}
    bound = local(server).bind_tools([add, now, TOOL, SEARCH, openai])
    assert body_sent(server, bound, "Hi")["tools"] == [
        ADD,
        {"name": "now", "description": "Say the time.", "input_schema": TOOL["input_schema"], "defer_loading": True},
        TOOL,
        SEARCH,
        {"name": "f", "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}}},
    ]


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "any"}, {"type": "any"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": True}, {"type": "any"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "add"}, {"type": "tool", "name": "add"}),
        ({"tool_choice": "look"}, {"type": "tool", "name": "look"}),
        ({"tool_choice": {"type": "function", "function": {"name": "add"}}}, {"type": "tool", "name": "add"}),
        ({"tool_choice": {"type": "tool", "name": "add"}}, {"type": "tool", "name": "add"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": True}, None),
        ({"tool_choice": "any", "parallel_tool_calls": False}, {"type": "any", "disable_parallel_tool_use": True}),
    ],
)
def test_a_choice_of_tools_is_sent_in_anthropics_words(server: WireServer, settings: Any, sent: Any) -> None:
    assert body_sent(server, local(server).bind_tools([add, TOOL], **settings), "Hi").get("tool_choice") == sent


def test_a_model_that_thinks_is_not_forced(server: WireServer) -> None:
    model = local(server, thinking={"type": "enabled", "budget_tokens": 1024})
    bound = model.bind_tools([add], tool_choice="add", parallel_tool_calls=False)
    assert body_sent(server, bound, "Hi")["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_a_choice_without_tools_is_not_sent_and_an_unknown_one_refused(server: WireServer) -> None:
    assert "tool_choice" not in body_sent(server, local(server).bind(tool_choice="any", tools=[]), "Hi")
    with pytest.raises(ConfigurationError, match="'sub' is not a bound tool"):
        local(server).bind_tools([add], tool_choice="sub")


# Structured answers


class Size(BaseModel):
    """A size."""

    metres: int
    unit: str | None = None


SCHEMA = {
    "title": "Answer",
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9, "description": "A number."},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3, "format": "color"}, "minItems": 1},
        "any": {"type": "array", "items": True},
        "day": {"type": "string", "format": "date"},
        "size": {"$ref": "#/$defs/Size"},
        "kind": {"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]},
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {"Size": {"type": "object", "properties": {"m": {"type": "number"}}, "required": ["m"]}},
    "required": ["n"],
}
CLOSED = {
    "title": "Answer",
    "type": "object",
    "properties": {
        "n": {"type": "integer", "description": "A number. (minimum: 1, maximum: 9)"},
        "tags": {
            "type": "array",
            "items": {"type": "string", "description": 'maxLength: 3, format: "color"'},
            "minItems": 1,
        },
        "any": {"type": "array", "items": True},
        "day": {"type": "string", "format": "date"},
        "size": {"$ref": "#/$defs/Size"},
        "kind": {"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]},
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {
        "Size": {
            "type": "object",
            "properties": {"m": {"type": "number"}},
            "required": ["m"],
            "additionalProperties": False,
        }
    },
    "required": ["n"],
    "additionalProperties": False,
}


def test_a_schema_of_the_answer_is_sent_closed_with_unknown_rules_as_words(server: WireServer) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    body = body_sent(server, local(server, effort="high").bind(response_format=shape), "Hi")
    assert body["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": CLOSED}}


def test_strict_tools_are_sent_closed(server: WireServer) -> None:
    sent = body_sent(server, local(server).bind_tools([Size], strict=True), "Hi")["tools"][0]
    assert (sent["strict"], sent["input_schema"]["additionalProperties"]) == (True, False)


def test_a_mode_for_any_json_is_refused(server: WireServer) -> None:
    assert "output_config" not in body_sent(server, local(server).bind(response_format={"type": "text"}), "Hi")
    with pytest.raises(ConfigurationError, match="give the schema of the answer"):
        local(server).with_structured_output(None, method="json_mode").invoke("Hi")  # type: ignore[arg-type]  # no schema
