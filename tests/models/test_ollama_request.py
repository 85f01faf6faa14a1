"""Requests to Ollama's chat: what reaches the server, body by body, and what cannot be said in its format."""

import json
import re
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from ollama import _types as sdk
from pydantic import BaseModel

from agentgraph.errors import ConfigurationError
from agentgraph.models.ollama_request import host_url, layered
from tests.models.ollama_asking import END, document, event, local, ndjson
from tests.models.openai_asking import add, bodies, invoke, stream
from tests.wire_server import WireServer

PIXEL = "iVBORw0KGgo="
# What the server knows and the SDK's types do not.
NEWER = {"truncate", "shift", "tool_call_id", "id", "type"}
ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


def fits(value: dict[str, Any], kind: type[BaseModel]) -> None:
    """Hold a part of a request against the SDK's type; keys that the type does not know it would pass over."""
    kind.model_validate({**value, "images": [{"value": one} for one in value.get("images", [])]})
    assert value.keys() - kind.model_fields.keys() - NEWER == set()


def body_of(server: WireServer, messages: Any, model: Any = None, **settings: Any) -> dict[str, Any]:
    """Ask, and give what was sent, which the SDK's types take."""
    server.play(document(event("Hello", **END)))
    invoke(model or local(server, **settings), messages)
    body = bodies(server)[-1]
    fits({key: value for key, value in body.items() if key != "messages"}, sdk.ChatRequest)
    fits(body.get("options", {}), sdk.Options)
    for message in body["messages"]:
        fits(message, sdk.Message)
        for call in message.get("tool_calls", []):
            fits(call, sdk.Message.ToolCall)
    return body


def sent(server: WireServer, *messages: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(server, list(messages))["messages"]
    return found


def answered(*calls: dict[str, Any], **fields: Any) -> AIMessage:
    return AIMessage(**{"content": "", "tool_calls": list(calls), **fields})


CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}
OWN = {"model_provider": "ollama"}


def test_a_whole_request_is_what_the_settings_say(server: WireServer) -> None:
    model = local(
        server, num_ctx=8192, temperature=0, top_k=5, max_tokens=9, stop="x", seed=1, think="low", keep_alive="5m"
    ).bind_tools([add])
    assert body_of(server, "Hi", model) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
        "tools": [ADD],
        "think": "low",
        "keep_alive": "5m",
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": 8192, "temperature": 0, "top_k": 5, "num_predict": 9, "stop": ["x"], "seed": 1},
    }


def test_a_streamed_request_says_so_and_is_else_the_same(server: WireServer) -> None:
    plain = body_of(server, "Hi", num_ctx=10)
    server.play(ndjson(event("Hello"), event(**END)))
    stream(local(server, num_ctx=10), "Hi")
    assert bodies(server)[-1] == {**plain, "stream": True}


def test_settings_of_a_call_win_over_those_of_the_model_wherever_they_are_written(server: WireServer) -> None:
    model = local(server, num_ctx=1, temperature=1, think=True, truncate=None, shift=None, options={"top_k": 1})
    bound = model.bind(
        options={"num_ctx": 2, "use_mmap": False}, top_k=2, temperature=None, reasoning=False, stop=["a"]
    )
    body = body_of(server, "Hi", bound)
    assert (body["options"], body["think"]) == ({"num_ctx": 2, "top_k": 2, "use_mmap": False, "stop": ["a"]}, False)


def test_extra_parameters_win_over_all_and_their_options_are_added(server: WireServer) -> None:
    body = body_of(server, "Hi", num_ctx=1, seed=2, extra_body={"options": {"num_ctx": 3}, "keep_alive": 0})
    assert (body["options"], body["keep_alive"]) == ({"num_ctx": 3, "seed": 2}, 0)


def test_nothing_that_is_not_set_is_sent(server: WireServer) -> None:
    assert body_of(server, "Hi", truncate=None, shift=None) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }


def test_settings_are_put_together_in_layers() -> None:
    assert layered({"stop": "a", "format": "json"}, {"stop": [], "format": None, "max_completion_tokens": 1}) == {
        "options": {"num_predict": 1}
    }


# Messages


def test_a_conversation_with_calls_and_results_is_sent_in_its_order(server: WireServer) -> None:
    other = {**CALL, "id": "c2", "name": "unit", "args": {}}
    turn = answered(CALL, other, content="Well", additional_kwargs={"reasoning_content": "hm"}, response_metadata=OWN)
    assert sent(
        server,
        SystemMessage("Be brief."),
        HumanMessage("1 and 2?"),
        turn,
        ToolMessage("3", tool_call_id="c1"),
        ToolMessage("cm", tool_call_id="c2", name="unit", status="error"),
        AIMessage("3 cm"),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 and 2?"},
        {
            "role": "assistant",
            "content": "Well",
            "thinking": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}},
                {"id": "c2", "type": "function", "function": {"name": "unit", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "3", "tool_call_id": "c1", "tool_name": "add"},
        {"role": "tool", "content": "cm", "tool_call_id": "c2", "tool_name": "unit"},
        {"role": "assistant", "content": "3 cm"},
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": 1', {"invalid_arguments": '{"a": 1'}), ("[1]", {"invalid_arguments": "[1]"}), (None, {}), ("{}", {})],
)
def test_arguments_of_invalid_calls_are_objects_too(server: WireServer, arguments: Any, expected: Any) -> None:
    broken = {"name": "add", "args": arguments, "id": "c1", "error": "broken", "type": "invalid_tool_call"}
    message = AIMessage(content="", invalid_tool_calls=[broken])
    calls = sent(server, message, ToolMessage("wrong", tool_call_id="c1"))[0]["tool_calls"]
    assert calls == [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": expected}}]


def test_arguments_that_json_has_no_form_for_are_told_as_text(server: WireServer) -> None:
    odd = {**CALL, "args": {"a": float("nan"), "b": {1}}}
    calls = sent(server, answered(odd), ToolMessage("3", tool_call_id="c1"))[0]["tool_calls"]
    assert calls[0]["function"]["arguments"] == {"a": "NaN", "b": "{1}"}


def test_what_other_providers_put_into_their_answers_is_left_out(server: WireServer) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "It is "},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
        {"type": "brand_new"},
        "3.",
    ]
    foreign = answered(CALL, content=blocks, additional_kwargs={"reasoning_content": "hm"}, response_metadata={})
    assert sent(server, foreign, ToolMessage("3", tool_call_id="c1"))[0] == {
        "role": "assistant",
        "content": "It is 3.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}],
    }


def test_reasoning_that_stands_in_blocks_goes_back_too(server: WireServer) -> None:
    blocks: Any = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "3"}]
    message = AIMessage(content=blocks, response_metadata=OWN)
    assert sent(server, message) == [{"role": "assistant", "content": "3", "thinking": "hm"}]


def test_a_refusal_is_what_was_said(server: WireServer) -> None:
    message = AIMessage("", additional_kwargs={"refusal": "I will not."})
    assert sent(server, message) == [{"role": "assistant", "content": "I will not."}]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (ChatMessage(content="Hi", role="developer"), {"role": "system", "content": "Hi"}),
        (ChatMessage(content="Hi", role="user"), {"role": "user", "content": "Hi"}),
        (FunctionMessage(content="3", name="add"), {"role": "tool", "content": "3", "tool_name": "add"}),
        (ToolMessage("3", tool_call_id="gone"), {"role": "tool", "content": "3", "tool_call_id": "gone"}),
        (HumanMessage(["a", {"type": "text", "text": "b"}]), {"role": "user", "content": "a\nb"}),
        (HumanMessage([{"type": "text-plain", "text": "a", "mime_type": "x"}]), {"role": "user", "content": "a"}),
    ],
)
def test_every_kind_of_message_has_a_form(server: WireServer, message: Any, expected: dict[str, str]) -> None:
    assert sent(server, message) == [expected]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "image", "base64": f"{PIXEL[:4]}\n{PIXEL[4:]}\n", "mime_type": "image/png"},
        {"type": "image", "url": f"data:image/png;base64,{PIXEL}"},
        {"type": "image", "source_type": "base64", "data": PIXEL, "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "file", "base64": PIXEL, "mime_type": "image/png"},
    ],
)
def test_an_image_is_sent_as_bare_base64(server: WireServer, block: dict[str, Any]) -> None:
    said = {"type": "text", "text": "What is it?"}
    assert sent(server, HumanMessage([said, block])) == [{"role": "user", "content": "What is it?", "images": [PIXEL]}]


def test_images_in_tool_results_follow_behind_the_results_of_their_turn(server: WireServer) -> None:
    image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    results = [ToolMessage([image], tool_call_id="c1"), ToolMessage("b", tool_call_id="c2")]
    shown = {"role": "user", "content": "Images of the tool results:", "images": [PIXEL]}
    for rest in ([], [HumanMessage("Well?")]):
        messages = sent(server, answered(CALL, {**CALL, "id": "c2"}), *results, *rest)
        assert [one["content"] for one in messages[1:3]] == ["(see the next message)", "b"]
        assert messages[3] == shown


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (HumanMessage([{"type": "image", "url": "https://x.test/a.png"}]), "Ollama fetches no URLs"),
        (HumanMessage([{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]), "fetches no URLs"),
        (HumanMessage([{"type": "image", "file_id": "f"}]), "no base64 data"),
        (HumanMessage([{"type": "audio", "base64": "x", "mime_type": "audio/wav"}]), "content block of type 'audio'"),
        (SystemMessage([{"type": "file", "base64": "x", "mime_type": "application/pdf"}]), "block of type 'file'"),
        (RemoveMessage("x"), "RemoveMessage"),
    ],
)
def test_what_the_format_cannot_say_is_told_before_anything_is_sent(
    server: WireServer, message: Any, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        invoke(local(server), [message])
    assert server.requests == []


def test_no_messages_are_told_before_they_only_load_a_model(server: WireServer) -> None:
    with pytest.raises(ConfigurationError, match="There are no messages"):
        invoke(local(server), [])
    assert server.requests == []


# Tools and schemas


@pytest.mark.parametrize(
    ("choice", "names"),
    [(None, "ab"), ("auto", "ab"), ("any", "ab"), (True, "ab"), ("required", "ab"), ("none", ""), ("b", "b")],
)
def test_a_tool_choice_is_what_the_model_is_shown(server: WireServer, choice: Any, names: str) -> None:
    tools = [{**ADD, "function": {**ADD["function"], "name": name}} for name in "ab"]
    model = local(server).bind_tools(tools, tool_choice=choice, parallel_tool_calls=False)
    body = body_of(server, "Hi", model)
    assert "".join(tool["function"]["name"] for tool in body.get("tools", [])) == names
    assert {"tool_choice", "parallel_tool_calls"} & body.keys() == set()
    assert "tools" in body or not names


class Point(BaseModel):
    """A point."""

    x: int


SCHEMA = {"properties": {"x": {"type": "integer"}}, "required": ["x"], "type": "object"}


@pytest.mark.parametrize(
    ("response_format", "expected"),
    [
        ({"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA, "strict": True}}, SCHEMA),
        ({"type": "json_object"}, "json"),
        ({"type": "text"}, None),
        (Point, {**SCHEMA, "additionalProperties": False}),
    ],
)
def test_a_response_format_becomes_a_format(server: WireServer, response_format: Any, expected: Any) -> None:
    body = body_of(server, "Hi", local(server).bind(response_format=response_format))
    assert (body.get("format"), "response_format" in body) == (expected, False)


@pytest.mark.parametrize("settings", [{"format": "json"}, {"format": SCHEMA}])
def test_a_format_beside_tools_is_refused_because_no_tool_could_be_called(server: WireServer, settings: Any) -> None:
    with pytest.raises(ConfigurationError, match="ToolStrategy"):
        invoke(local(server, **settings).bind_tools([add]), "Hi")
    assert body_of(server, "Hi", local(server, **settings).bind_tools([add], tool_choice="none"))["format"]


# Hosts


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 it is read, not bound
        ("http://0.0.0.0:11434/", "http://127.0.0.1:11434"),
        ("[::]:8080", "http://[::1]:8080"),
        ("[::1]", "http://[::1]:11434"),
        ("box/ollama/", "http://box:11434/ollama"),
        ("http://box", "http://box"),
        ("https://box:1/a/v1/", "https://box:1/a"),
        ("http://me:pw@box:1", "http://me:pw@box:1"),
        ("ollama.com", "https://ollama.com"),
        (" 127.0.0.1:11434 ", "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
    ],
)
def test_a_host_is_read_as_its_variable_is_written(host: str, url: str) -> None:
    assert host_url(host) == url


def test_bodies_are_json_of_the_characters_themselves(server: WireServer) -> None:
    body_of(server, "Grüße 😀")
    assert "Grüße 😀" in server.requests[-1].body.decode()
    assert json.loads(server.requests[-1].body)["messages"][0]["content"] == "Grüße 😀"
