"""Requests of Chat Completions: what messages, tools and settings become, server by server."""

import json
import re
from datetime import date
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

from agentgraph.errors import ConfigurationError
from agentgraph.models.openai_profiles import openai_profile
from agentgraph.models.openai_request import (
    Dialect,
    dialect_of,
    is_reasoning_model,
    request_body,
    request_messages,
    tool_choice_of,
    tool_names,
    without_refused,
)

OPENAI = dialect_of("openai", "https://api.openai.com/v1", "gpt-4o")
LOCAL = dialect_of("openai", "http://localhost:8000", "qwen3")
CALL = {"name": "get", "args": {"city": "Zürich"}, "id": "call_1", "type": "tool_call"}
SENT_CALL = {"id": "call_1", "type": "function", "function": {"name": "get", "arguments": '{"city": "Zürich"}'}}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

MESSAGES: dict[str, tuple[BaseMessage, dict[str, Any]]] = {
    "human": (HumanMessage("Hi"), {"role": "user", "content": "Hi"}),
    "human with a name": (HumanMessage("Hi", name="ann"), {"role": "user", "content": "Hi", "name": "ann"}),
    "human with an illegal name": (HumanMessage("Hi", name="Ann Lee"), {"role": "user", "content": "Hi"}),
    "text blocks": (HumanMessage(["a", {"type": "text", "text": "b"}]), {"role": "user", "content": "a\nb"}),
    "text with foreign keys": (
        HumanMessage([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, PNG]),
        {"role": "user", "content": [{"type": "text", "text": "a"}, PNG]},
    ),
    "plain text file": (
        HumanMessage([{"type": "text-plain", "text": "a", "mime_type": "text/plain"}]),
        {"role": "user", "content": "a"},
    ),
    "image v1": (
        HumanMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/png"}]),
        {"role": "user", "content": [PNG]},
    ),
    "image v0": (
        HumanMessage([{"type": "image", "source_type": "base64", "data": "AAAA", "mime_type": "image/png"}]),
        {"role": "user", "content": [PNG]},
    ),
    "image url": (
        HumanMessage([{"type": "image", "url": "https://x/y.png"}]),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
    ),
    "image of Anthropic": (
        HumanMessage([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]),
        {"role": "user", "content": [PNG]},
    ),
    "audio": (
        HumanMessage([{"type": "audio", "base64": "AAAA", "mime_type": "audio/mpeg"}]),
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]},
    ),
    "file": (
        HumanMessage(
            [{"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}}]
        ),
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}
            ],
        },
    ),
    "file without a name": (
        HumanMessage([{"type": "file", "base64": "AAAA", "mime_type": "application/pdf"}]),
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "file"}}
            ],
        },
    ),
    "file of OpenAI": (
        HumanMessage([{"type": "file", "file": {"file_id": "f"}}]),
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]},
    ),
    "system": (SystemMessage("Be kind"), {"role": "system", "content": "Be kind"}),
    "assistant": (AIMessage("Hi"), {"role": "assistant", "content": "Hi"}),
    "assistant of an agent with a name": (AIMessage("Hi", name="my agent"), {"role": "assistant", "content": "Hi"}),
    "assistant with calls": (
        AIMessage("", tool_calls=[CALL]),
        {"role": "assistant", "content": None, "tool_calls": [SENT_CALL]},
    ),
    "assistant with text and calls": (
        AIMessage("Well", tool_calls=[CALL]),
        {"role": "assistant", "content": "Well", "tool_calls": [SENT_CALL]},
    ),
    "blocks of other providers": (
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "We"},
                {"type": "text", "text": "ll", "citations": []},
                {"type": "tool_use", "id": "call_1", "name": "get", "input": {}},
                {"type": "something_new", "x": 1},
            ],
            tool_calls=[CALL],
        ),
        {"role": "assistant", "content": "Well", "tool_calls": [SENT_CALL]},
    ),
    "assistant that said nothing": (AIMessage(""), {"role": "assistant", "content": ""}),
    "refusal": (
        AIMessage("", additional_kwargs={"refusal": "No."}),
        {"role": "assistant", "content": None, "refusal": "No."},
    ),
    "other role": (ChatMessage("Hi", role="critic"), {"role": "critic", "content": "Hi"}),
    "function": (FunctionMessage("3", name="add"), {"role": "function", "content": "3", "name": "add"}),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_message_becomes_the_form_of_the_api(case: str) -> None:
    message, sent = MESSAGES[case]
    assert request_messages([message], OPENAI) == [sent]


def test_a_call_with_broken_arguments_is_sent_back_as_json_with_its_answer() -> None:
    invalid = {"name": "get", "args": '{"city": "Par', "id": "call_1", "error": "cut", "type": "invalid_tool_call"}
    sent = request_messages(
        [AIMessage("", invalid_tool_calls=[invalid]), ToolMessage("no", tool_call_id="call_1")], OPENAI
    )
    assert sent == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get", "arguments": '{"invalid_arguments": "{\\"city\\": \\"Par"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "no"},
    ]


def test_arguments_that_json_has_no_form_for_are_sent_as_text() -> None:
    args = {"a": float("nan"), "b": [float("-inf")], "c": date(2026, 1, 2), "d": 1.5}
    [sent] = request_messages([AIMessage("", tool_calls=[{"name": "f", "args": args, "id": "a"}])], Dialect())
    assert json.loads(sent["tool_calls"][0]["function"]["arguments"], parse_constant=pytest.fail) == {
        "a": "NaN",
        "b": ["-Infinity"],
        "c": "2026-01-02",
        "d": 1.5,
    }


def test_images_of_tools_follow_as_a_user_message_behind_all_results() -> None:
    calls = [{**CALL, "id": "1"}, {**CALL, "id": "2"}]
    image = ToolMessage([{"type": "text", "text": "seen"}, PNG], tool_call_id="1", name="get")
    only_image = ToolMessage([PNG], tool_call_id="2", name="get")
    sent = request_messages([AIMessage("", tool_calls=calls), image, only_image, HumanMessage("and?")], OPENAI)
    label = {"type": "text", "text": "Result of the tool get:"}
    assert sent[1:] == [
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
        {"role": "tool", "tool_call_id": "2", "content": "(see the next message)"},
        {"role": "user", "content": [label, PNG, label, PNG]},
        {"role": "user", "content": "and?"},
    ]


def test_an_image_of_the_last_tool_follows_it() -> None:
    sent = request_messages([AIMessage("", tool_calls=[CALL]), ToolMessage([PNG], tool_call_id="call_1")], OPENAI)
    label = {"type": "text", "text": "Result of the tool call_1:"}
    assert sent[-1] == {"role": "user", "content": [label, PNG]}


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage([{"type": "video", "url": "https://x/y.mp4"}]),
        HumanMessage([{"type": "file", "url": "https://x/y.pdf"}]),
        HumanMessage([{"type": "image", "base64": "AAAA"}]),
        SystemMessage([{"type": "hologram"}]),
        RemoveMessage(id="1"),
    ],
)
def test_what_the_api_has_no_form_for_is_refused(message: BaseMessage) -> None:
    with pytest.raises(ConfigurationError):
        request_messages([message], OPENAI)


def test_system_messages_at_the_head_are_merged_for_compatible_servers_alone() -> None:
    messages = [SystemMessage("a"), SystemMessage("b"), HumanMessage("c"), SystemMessage("d")]
    assert [one["content"] for one in request_messages(messages, LOCAL)] == ["a\n\nb", "c", "d"]
    assert [one["content"] for one in request_messages(messages, OPENAI)] == ["a", "b", "c", "d"]


def test_ids_of_other_providers_are_mapped_the_same_way_on_both_sides() -> None:
    long_id = "toolu_" + "x" * 60
    messages = [AIMessage("", tool_calls=[{**CALL, "id": long_id}]), ToolMessage("ok", tool_call_id=long_id)]
    for dialect, legal in (
        (OPENAI, r"[a-zA-Z0-9_-]{1,40}"),
        (dialect_of("mistralai", "https://x", "m"), r"[a-zA-Z0-9]{9}"),
    ):
        assistant, result = request_messages(messages, dialect)
        assert assistant["tool_calls"][0]["id"] == result["tool_call_id"]
        assert re.fullmatch(legal, result["tool_call_id"])


def test_deepseek_gets_its_reasoning_back_with_calls_and_others_do_not() -> None:
    thought = AIMessage("", tool_calls=[CALL], additional_kwargs={"reasoning_content": "hm"})
    plain = AIMessage("", tool_calls=[CALL])
    deepseek = dialect_of("deepseek", "https://api.deepseek.com/v1", "deepseek-reasoner")
    assert [one.get("reasoning_content") for one in request_messages([thought, plain], deepseek)] == ["hm", ""]
    assert [one.get("reasoning_content") for one in request_messages([thought, plain], LOCAL)] == [None, None]


def body(settings: dict[str, Any], dialect: Dialect = OPENAI, **extra: Any) -> dict[str, Any]:
    made = request_body([HumanMessage("Hi")], settings, dialect, extra=extra)
    assert made.pop("messages") == [{"role": "user", "content": "Hi"}]
    return made


def test_nothing_empty_is_sent_and_nothing_that_needs_tools_without_them() -> None:
    settings = {
        "model": "m",
        "tools": [],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": [],
        "seed": None,
    }
    assert body(settings) == {"model": "m"}


def test_zero_and_false_are_sent() -> None:
    assert body({"temperature": 0.0, "logprobs": False, "seed": 0}) == {
        "temperature": 0.0,
        "logprobs": False,
        "seed": 0,
    }


def test_extra_parameters_win() -> None:
    assert body({"temperature": 0.0}, temperature=1, top_k=5) == {"temperature": 1, "top_k": 5}


@pytest.mark.parametrize(
    ("provider", "base_url", "model", "expected"),
    [
        ("openai", "https://api.openai.com/v1", "gpt-4o", {"max_completion_tokens": 9, "temperature": 0.5}),
        ("openai", "https://api.openai.com/v1", "o3-mini", {"max_completion_tokens": 9}),
        ("openai", "https://api.openai.com/v1", "gpt-5-mini", {"max_completion_tokens": 9}),
        ("openai", "https://x.openai.azure.com/openai/deployments/d", "gpt-5", {"max_completion_tokens": 9}),
        ("openai", "http://localhost:8000", "gpt-5", {"max_tokens": 9, "temperature": 0.5}),
        ("mistralai", "https://api.mistral.ai/v1", "mistral-large", {"max_tokens": 9, "temperature": 0.5}),
    ],
)
def test_limit_and_sampling_follow_the_server_and_the_model(
    provider: str, base_url: str, model: str, expected: dict[str, Any]
) -> None:
    assert body({"max_tokens": 9, "temperature": 0.5}, dialect_of(provider, base_url, model)) == expected


def test_reasoning_models_of_openai_have_developers_and_no_others() -> None:
    roles = {
        (base_url, model): dialect_of("openai", base_url, model).system_role
        for base_url in ("https://api.openai.com/v1", "http://localhost:8000")
        for model in ("o4-mini", "gpt-4o")
    }
    assert [model for model, role in roles.items() if role == "developer"] == [("https://api.openai.com/v1", "o4-mini")]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("o1", True),
        ("o3-mini", True),
        ("gpt-5", True),
        ("ft:o4-mini:x", True),
        ("openai/o3", True),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False),
        ("o", False),
        ("olmo-1", False),
        ("solo1", False),
    ],
)
def test_reasoning_models_are_known_by_their_names(model: str, expected: bool) -> None:
    assert is_reasoning_model(model) is expected


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


def test_illegal_tool_names_are_sent_under_legal_ones_everywhere() -> None:
    name = "files.read/all"
    made = request_body(
        [AIMessage("", tool_calls=[{**CALL, "name": name}])],
        {
            "tools": [function(name), function("ok"), {"type": "web_search"}],
            "tool_choice": tool_choice_of(name, [function(name)]),
        },
        OPENAI,
        extra={},
    )
    [(sent, called)] = tool_names([function(name), function("ok")]).items()
    assert (called, bool(re.fullmatch(r"files_read_all_[0-9a-f]{8}", sent))) == (name, True)
    assert made["tools"] == [function(sent), function("ok"), {"type": "web_search"}]
    assert made["tool_choice"] == {"type": "function", "function": {"name": sent}}
    assert made["messages"][0]["tool_calls"][0]["function"]["name"] == sent


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        (False, None),
        ("", None),
        ("auto", "auto"),
        ("none", "none"),
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ("get", {"type": "function", "function": {"name": "get"}}),
        ("web_search", {"type": "web_search"}),
        ({"type": "function", "function": {"name": "x"}}, {"type": "function", "function": {"name": "x"}}),
    ],
)
def test_a_tool_choice_has_many_spellings(choice: Any, expected: Any) -> None:
    assert tool_choice_of(choice, [function("get"), {"type": "web_search"}]) == expected


def test_a_tool_choice_that_is_no_tool_is_refused_with_the_tools_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'gte'.*'get'"):
        tool_choice_of("gte", [function("get")])


REFUSALS = {
    "Unknown parameter: 'stream_options'.": "stream_options",
    "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.": "max_tokens",
    "[{'type': 'extra_forbidden', 'loc': ('body', 'parallel_tool_calls'), 'msg': 'Extra inputs are not permitted'}]": (
        "parallel_tool_calls"
    ),
    "tool_choice is not supported by this server": "tool_choice",
    "tool_choice names a function that is missing": None,
    "Unknown parameter: 'seed'.": None,
    "messages: unexpected role": None,
}


@pytest.mark.parametrize("text", REFUSALS)
def test_only_an_optional_parameter_that_the_server_names_as_unknown_is_dropped(text: str) -> None:
    sent = {
        "model": "m",
        "stream_options": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "max_tokens": 5,
        "seed": 1,
    }
    mended = without_refused(sent, text)
    assert (mended and mended[1]) == REFUSALS[text]
    if mended:
        body, refused = mended
        renamed = {"max_completion_tokens": 5} if refused == "max_tokens" else {}
        assert body == {key: value for key, value in sent.items() if key != refused} | renamed


def test_profiles_are_those_of_openai() -> None:
    mini, reasoning = openai_profile("ft:gpt-4o-mini:acme"), openai_profile("o3-mini")
    assert mini is not None
    assert reasoning is not None
    assert (mini["tool_calling"], mini["structured_output"], mini["image_inputs"], mini["temperature"]) == (True,) * 4
    assert (reasoning["image_inputs"], reasoning["temperature"], reasoning["reasoning_output"]) == (False, False, True)
    assert openai_profile("qwen3") is None
