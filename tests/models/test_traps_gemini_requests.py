"""Requests of Gemini as the provider's own types judge them: no field that they do not know, at any depth."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError

from tests.models.gemini_asking import bodies, hello, local
from tests.models.openai_asking import add, invoke
from tests.models.test_traps_streams import FORMATS
from tests.models.test_traps_threads import CALLING
from tests.wire_server import WireServer, answer

# They forbid unknown fields, so that a name that is misspelt is refused wherever it stands.
JUDGES: Mapping[str, TypeAdapter[Any]] = {
    "contents": TypeAdapter(list[types.Content]),
    "systemInstruction": TypeAdapter(types.Content),
    "tools": TypeAdapter(list[types.Tool]),
    "toolConfig": TypeAdapter(types.ToolConfig),
    "generationConfig": TypeAdapter(types.GenerationConfig),
    "safetySettings": TypeAdapter(list[types.SafetySetting]),
    "cachedContent": TypeAdapter(str),
}
PNG = "iVBORw0KGgoAAA=="
IMAGE = {"type": "image", "base64": PNG, "mime_type": "image/png"}
CALLS = [{"name": "add", "args": {"a": number, "b": 2}, "id": f"c{number}"} for number in (1, 2)]
RESULTS = [ToolMessage("3", tool_call_id="c1"), ToolMessage([IMAGE], tool_call_id="c2", status="error")]
SCHEMA = {
    "title": "City",
    "type": "object",
    "properties": {"name": {"type": "string", "enum": ["Rome"]}, "people": {"type": ["integer", "null"]}},
    "required": ["name"],
    "additionalProperties": False,
}
SHAPE = {"type": "json_schema", "json_schema": {"name": "City", "schema": SCHEMA}}
ASKED: Mapping[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "a text": ([HumanMessage("Hi")], {}, {}),
    "an instruction and an image": ([SystemMessage("Be brief."), HumanMessage(["What is it?", IMAGE])], {}, {}),
    "a file by its address": (
        [HumanMessage([{"type": "file", "url": "gs://bucket/a.pdf", "mime_type": "application/pdf"}])],
        {},
        {},
    ),
    "calls and results": ([HumanMessage("1+2?"), AIMessage("Hm.", tool_calls=CALLS), *RESULTS], {}, {}),
    "settings": ([HumanMessage("Hi")], {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9, "stop": ["x"]}, {}),
    "a schema of the answer": ([HumanMessage("Hi")], {}, {"response_format": SHAPE}),
    "any JSON": ([HumanMessage("Hi")], {}, {"response_format": {"type": "json_object"}}),
}


def judge(body: Mapping[str, Any]) -> None:
    assert body.keys() <= JUDGES.keys()
    for name, value in body.items():
        JUDGES[name].validate_python(value)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_request_is_one_to_the_providers_types(server: WireServer, asked: str, model: str) -> None:
    messages, settings, bound = ASKED[asked]
    server.play(hello(invoke))
    local(server, model=model, **settings).bind(**bound).invoke(messages)
    judge(bodies(server)[0])


@pytest.mark.parametrize("choice", ["auto", "any", "none", "add"])
def test_tools_and_their_choice_are_such_to_the_providers_types(server: WireServer, choice: str) -> None:
    server.play(hello(invoke))
    tools = [add, {"google_search": {}}, {"name": "find", "description": "Find.", "parameters": SCHEMA}]
    local(server).bind_tools(tools, tool_choice=choice).invoke("Hi")
    body = bodies(server)[0]
    assert {"tools", "toolConfig"} - body.keys() <= ({"toolConfig"} if choice == "auto" else set())
    judge(body)


@pytest.mark.parametrize("other", CALLING)
def test_another_providers_turn_is_one_to_the_providers_types(server: WireServer, other: str) -> None:
    server.play(answer(200, json.dumps(CALLING[other]).encode()), hello(invoke))
    turn = FORMATS[other].local(server).bind_tools([add]).invoke("1+2, 3+4?")
    results = [ToolMessage("3", tool_call_id=call["id"]) for call in turn.tool_calls]
    local(server, model="gemini-3-pro-preview").invoke([HumanMessage("1+2, 3+4?"), turn, *results])
    judge(bodies(server)[1])


@pytest.mark.parametrize(
    "body",
    [
        {"contents": [{"role": "user", "parts": [{"txt": "Hi"}]}]},
        {"contents": [{"role": "user", "parts": [{"functionCall": {"name": "add", "args": "1"}}]}]},
        {"generationConfig": {"maxTokens": 3}},
        {"tools": [{"functionDeclarations": [{"name": "add", "params": {}}]}]},
    ],
)
def test_the_judge_refuses_what_the_api_refuses(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        judge(body)
