"""Tools given as dicts, in whosever form, and the choice among them: what each server is sent."""

import json
from typing import Any

import pytest
from langchain_core.tools import tool

from agentgraph.errors import ConfigurationError
from tests.models.formats import FORMATS, Format, Said, each_format
from tests.wire_server import WireServer

SCHEMA = {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}
FORMS = {
    "chat completions": {"type": "function", "function": {"name": "look", "description": "d", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "look", "description": "d", "parameters": SCHEMA},
    "anthropic": {"name": "look", "description": "d", "input_schema": SCHEMA},
    "anthropic with its type": {"type": "custom", "name": "look", "description": "d", "input_schema": SCHEMA},
    "bare": {"name": "look", "description": "d", "parameters": SCHEMA},
    "a schema": {"title": "look", "description": "d", **SCHEMA},
}
CHOICES = {
    "a name": "look",
    "chat completions": {"type": "function", "function": {"name": "look"}},
    "responses": {"type": "function", "name": "look"},
    "anthropic": {"type": "tool", "name": "look"},
}
NOTE = {"type": "function", "function": {"name": "note", "description": "n", "parameters": SCHEMA}}


def sent(server: WireServer, wire: Format, tools: list[Any], choice: Any) -> dict[str, Any]:
    """What the request says about tools."""
    server.play(wire.play(Said(), False))
    wire.build(server).bind_tools(tools, tool_choice=choice).invoke("Hi")
    body = json.loads(server.requests[-1].body)
    return {key: body[key] for key in ("tools", "tool_choice", "toolConfig") if key in body}


def by_name(name: str) -> Format:
    return next(one for one in FORMATS if one.name == name)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@each_format()
def test_a_function_is_the_same_in_every_form(server: WireServer, wire: Format, form: Any) -> None:
    first = sent(server, wire, [form], None)["tools"]
    if wire.name == "anthropic":
        first = [{key: value for key, value in one.items() if key != "type"} for one in first]
    assert first == sent(server, wire, [FORMS["chat completions"]], None)["tools"]


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@each_format("ollama")
def test_a_choice_is_the_same_in_every_form(server: WireServer, wire: Format, choice: Any) -> None:
    expected = {
        "chat completions": {"tool_choice": {"type": "function", "function": {"name": "look"}}},
        "responses": {"tool_choice": {"type": "function", "name": "look"}},
        "anthropic": {"tool_choice": {"type": "tool", "name": "look"}},
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}},
    }
    told = sent(server, wire, [FORMS["responses"], NOTE], choice)
    assert {key: value for key, value in told.items() if key != "tools"} == expected[wire.name]


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_ollama_is_shown_the_chosen_tool_alone(server: WireServer, choice: Any) -> None:
    told = sent(server, by_name("ollama"), [NOTE, FORMS["responses"]], choice)
    assert told == {"tools": [FORMS["chat completions"]]}


CODE = {"type": "custom", "name": "code", "description": "d"}
GRAMMAR = {"syntax": "lark", "definition": "start: WORD"}
MCP = {"type": "mcp", "server_label": "deep", "server_url": "https://mcp.test"}


@pytest.mark.parametrize(
    ("given", "choice", "expected"),
    [
        (CODE, "code", {"type": "custom", "name": "code"}),
        (CODE, {"type": "custom", "custom": {"name": "code"}}, {"type": "custom", "name": "code"}),
        (CODE, {"type": "custom", "name": "code"}, {"type": "custom", "name": "code"}),
        (MCP, "deep", {"type": "mcp", "server_label": "deep"}),
        (MCP, {"type": "mcp", "server_label": "deep", "name": "ask"}, ...),
        ({"type": "web_search"}, "web_search", {"type": "web_search"}),
        ({"type": "web_search"}, {"type": "web_search"}, ...),
    ],
)
def test_a_tool_of_the_responses_api_can_be_chosen(server: WireServer, given: Any, choice: Any, expected: Any) -> None:
    told = sent(server, by_name("responses"), [given, NOTE], choice)
    assert told["tools"][0] == given
    assert told["tool_choice"] == (choice if expected is ... else expected)


def test_a_custom_tool_in_the_form_of_chat_completions_is_flattened(server: WireServer) -> None:
    nested = {"name": "code", "description": "d", "format": {"type": "grammar", "grammar": GRAMMAR}}
    told = sent(server, by_name("responses"), [{"type": "custom", "custom": nested}], "code")
    assert told == {
        "tools": [{**CODE, "format": {"type": "grammar", **GRAMMAR}}],
        "tool_choice": {"type": "custom", "name": "code"},
    }


@pytest.mark.parametrize("given", [CODE, {"type": "custom", "custom": {"name": "code"}}], ids=["flat", "nested"])
@each_format("responses", "anthropic")
def test_a_custom_tool_is_refused_where_there_are_none(server: WireServer, wire: Format, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="ChatOpenAIResponses"):
        wire.build(server).bind_tools([given])


@each_format()
def test_what_is_no_tool_is_refused_by_name(server: WireServer, wire: Format) -> None:
    with pytest.raises(ConfigurationError, match="is no tool"):
        wire.build(server).bind_tools([{"properties": {}}])


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({"type": "web_search_20250305", "name": "web_search", "max_uses": 2}, "web_search"),
        ({"type": "bash_20250124", "name": "bash"}, "bash"),
    ],
)
def test_a_tool_of_anthropics_can_be_chosen_by_its_name(server: WireServer, given: Any, choice: str) -> None:
    told = sent(server, by_name("anthropic"), [given, NOTE], choice)
    assert (told["tools"][0], told["tool_choice"]) == (given, {"type": "tool", "name": choice})


@pytest.mark.parametrize("key", ["function_declarations", "functionDeclarations"])
def test_a_function_declared_in_geminis_form_can_be_chosen(server: WireServer, key: str) -> None:
    told = sent(server, by_name("gemini"), [{key: [{"name": "look"}]}, {"google_search": {}}, NOTE], "look")
    assert told["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}
    assert [one["name"] for one in told["tools"][0]["functionDeclarations"]] == ["look", "note"]
    assert told["tools"][1] == {"googleSearch": {}}


@each_format()
def test_a_choice_of_what_is_not_bound_names_what_is(server: WireServer, wire: Format) -> None:
    @tool
    def look(where: str) -> str:
        """Look."""
        return where

    with pytest.raises(ConfigurationError, match=r"'loook' is not a bound tool: \['look'\]"):
        wire.build(server).bind_tools([look], tool_choice="loook")
