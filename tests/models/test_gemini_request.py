"""Requests of Gemini: what messages, tools and settings become, compared as whole bodies."""

import base64
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
from agentgraph.models.gemini_codec import read_answer
from agentgraph.models.gemini_request import SIGNATURES, Dialect, contents_of, dialect_of, request_body
from agentgraph.models.gemini_tools import is_own_tool, tool_names
from tests.models.gemini_asking import called, piece, text
from tests.models.gemini_reading import ASKED

OLD, NEW = dialect_of("gemini-2.5-flash"), dialect_of("gemini-3-pro-preview")
SKIP = "skip_thought_signature_validator"
PNG = "iVBORw0KGgoAAA=="


def sent(*messages: BaseMessage, dialect: Dialect = OLD) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = contents_of(messages, dialect)["contents"]
    return contents


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str, id: str | None, **args: Any) -> dict[str, Any]:  # noqa: A002 the field's name
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def body(**settings: Any) -> dict[str, Any]:
    made = request_body([HumanMessage("Hi")], {"model": "gemini-2.5-flash", **settings}, extra={})
    del made["contents"]
    return made


# Roles


def test_roles_alternate_and_the_instruction_stands_apart() -> None:
    messages = [
        SystemMessage("Be brief."),
        SystemMessage([{"type": "text", "text": "Be kind."}]),
        HumanMessage("Hi"),
        HumanMessage("there"),
        AIMessage("Hello"),
        AIMessage(""),
        SystemMessage("Be quick now."),
        HumanMessage(""),
        ChatMessage("And?", role="user"),
        ChatMessage("Well.", role="assistant"),
    ]
    assert contents_of(messages, OLD) == {
        "systemInstruction": {"parts": [text("Be brief."), text("Be kind.")]},
        "contents": [
            user(text("Hi"), text("there")),
            model(text("Hello")),
            user(text("Be quick now."), text("And?")),
            model(text("Well.")),
        ],
    }


def test_an_instruction_alone_is_the_question() -> None:
    assert contents_of([SystemMessage("Say hi.")], OLD) == {"contents": [user(text("Say hi."))]}


@pytest.mark.parametrize("messages", [[], [HumanMessage("")], [AIMessage([{"type": "reasoning", "reasoning": "hm"}])]])
def test_nothing_to_send_is_told(messages: list[BaseMessage]) -> None:
    with pytest.raises(ConfigurationError, match="None of the"):
        contents_of(messages, OLD)


def test_a_message_that_no_model_can_be_sent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="RemoveMessage"):
        sent(RemoveMessage(id="1"))


# Calls and their results


def test_results_of_a_turn_are_one_content_by_name_and_in_order() -> None:
    answer = AIMessage("Let me see.", tool_calls=[call("get", "a", city="Rome"), call("get", "b", city="Oslo")])
    results = [
        ToolMessage("sunny", tool_call_id="a"),
        ToolMessage('{"$ref": 1}', tool_call_id="b", name="other", status="error"),
    ]
    assert sent(HumanMessage("Hi"), answer, *results, HumanMessage("Go on")) == [
        user(text("Hi")),
        model(text("Let me see."), called("get", {"city": "Rome"}), called("get", {"city": "Oslo"})),
        user(
            {"functionResponse": {"name": "get", "response": {"result": "sunny"}}},
            {"functionResponse": {"name": "get", "response": {"error": '{"$ref": 1}'}}},
            text("Go on"),
        ),
    ]


def test_what_the_server_signed_and_named_comes_back_as_it_came() -> None:
    parts = [
        text("hm", thought=True),
        text("ho", thought=True, thoughtSignature="czA="),
        text("Let me see."),
        text("", thoughtSignature="czE="),
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "czI="},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "czM="},
        {"toolCall": {"toolType": "URL_CONTEXT"}, "thoughtSignature": "czQ="},
        called("get", {"city": "Rome"}, id="x", thoughtSignature="czU="),
        called("get", {"city": "Oslo"}, id="y"),
        called("now"),
    ]
    answer = read_answer(piece(*parts, reason="STOP"), ASKED)
    results = [ToolMessage("fine", tool_call_id=one["id"]) for one in answer.tool_calls]
    (wrote, answered) = sent(answer, *results, dialect=NEW)
    assert wrote == model(*parts[1:])
    assert [part["functionResponse"].get("id") for part in answered["parts"]] == ["x", "y", None]


def test_content_in_langchains_standard_form_is_sent_likewise() -> None:
    parts = [
        text("ho", thought=True, thoughtSignature="czA="),
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        text("one", thoughtSignature="czE="),
        {"toolCall": {"toolType": "URL_CONTEXT"}},
    ]
    answer = read_answer(piece(*parts, called("get", id="x", thoughtSignature="czI="), reason="STOP"), ASKED)
    standard = answer.model_copy(update={"content": answer.content_blocks})
    assert sent(standard) == [model(*parts, called("get", id="x", thoughtSignature="czI="))]


@pytest.mark.parametrize(("dialect", "signature"), [(OLD, {}), (NEW, {"thoughtSignature": SKIP})])
def test_another_providers_turn_is_sent_without_what_only_it_understands(
    dialect: Dialect, signature: dict[str, str]
) -> None:
    foreign = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "anthropic's"},
            {"type": "text", "text": "Let me see.", "extras": {"signature": "x"}},
            {"type": "tool_use", "id": "a", "name": "get", "input": {}},
            {"type": "image", "base64": PNG, "mime_type": "image/png"},
            {"type": "reasoning", "id": "rs_1"},
        ],
        tool_calls=[call("get", "a"), call("get", "b")],
        additional_kwargs={SIGNATURES: {"a": "x"}},
        response_metadata={"model_provider": "anthropic"},
    )
    assert sent(foreign, ToolMessage("1", tool_call_id="a"), dialect=dialect) == [
        model(text("Let me see."), {**called("get"), **signature}, called("get")),
        user({"functionResponse": {"name": "get", "response": {"result": "1"}}}),
    ]


@pytest.mark.parametrize(
    ("name", "signed"),
    [
        ("gemini-1.5-pro", False),
        ("models/gemini-2.5-pro", False),
        ("gemini-3-flash", True),
        ("gemini-10-x", True),
        ("gemini-flash-latest", True),
        ("gemma-3-27b-it", False),
        ("", False),
    ],
)
def test_only_newer_models_ask_for_signatures(name: str, signed: bool) -> None:
    dialect = dialect_of(name)
    assert (dialect.signed, dialect.media_in_results) == (signed, signed)


def test_calls_that_could_not_be_read_are_told_as_they_were() -> None:
    invalid = {"name": None, "args": '{"city": "Ro', "id": "a", "error": "cut", "type": "invalid_tool_call"}
    answer = AIMessage("", tool_calls=[], invalid_tool_calls=[invalid])
    assert sent(answer, ToolMessage("cut", tool_call_id="a", status="error")) == [
        model(called("unknown", {"invalid_arguments": '{"city": "Ro'})),
        user({"functionResponse": {"name": "unknown", "response": {"error": "cut"}}}),
    ]


def test_arguments_that_json_has_no_form_for_are_told_as_text() -> None:
    args = {"at": base64, "n": float("nan")}
    (answer,) = sent(AIMessage("", tool_calls=[call("get", "a", **args)]))
    assert answer["parts"][0]["functionCall"]["args"] == {"at": str(base64), "n": "NaN"}


def test_results_without_their_call_keep_the_name_that_they_have() -> None:
    lone = [ToolMessage("1", tool_call_id="z", name="get"), FunctionMessage("2", name="set it")]
    assert [part["functionResponse"]["name"] for part in sent(*lone)[0]["parts"]] == ["get", "_set_it_b9b52080"]


def test_images_of_results_stand_in_them_or_behind_the_last() -> None:
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    answer = AIMessage("", tool_calls=[call("look", "a"), call("get", "b")])
    results = [
        ToolMessage([{"type": "text", "text": "seen"}, image], tool_call_id="a"),
        ToolMessage("2", tool_call_id="b"),
    ]
    part = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    seen = {"name": "look", "response": {"result": "seen"}}
    second = {"functionResponse": {"name": "get", "response": {"result": "2"}}}
    assert sent(answer, *results, dialect=NEW)[1] == user({"functionResponse": {**seen, "parts": [part]}}, second)
    assert sent(answer, *results, dialect=OLD)[1] == user(
        {"functionResponse": seen}, second, text("Result of the tool look:"), part
    )


# Tools and settings

ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
NOW = {"name": "now", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": ADD}, {"code_execution": {}}, {"type": "function", "function": NOW}]


def test_functions_are_declared_in_one_entry_and_googles_tools_follow() -> None:
    own = {"functionDeclarations": [{"name": "mine", "parameters": {"type": "STRING"}}]}
    assert body(tools=[*TOOLS, own, {"type": "url_context"}]) == {
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "add", "description": "Add.", "parametersJsonSchema": ADD["parameters"]},
                    {"name": "now"},
                    {"name": "mine", "parameters": {"type": "STRING"}},
                ]
            },
            {"codeExecution": {}},
            {"urlContext": {}},
        ]
    }


@pytest.mark.parametrize(
    ("tool", "own"),
    [
        ({"google_search": {}}, True),
        ({"googleSearch": {}, "urlContext": {}}, True),
        ({"functionDeclarations": [{"name": "mine"}]}, True),
        ({"type": "url_context"}, True),
        ({"type": "function", "function": ADD}, False),
        (ADD, False),
        ({"title": "Add", "type": "object", "properties": {}}, False),
        ({"properties": {}}, False),
        ({}, False),
        (len, False),
    ],
)
def test_googles_own_tools_are_told_from_functions(tool: Any, own: bool) -> None:
    assert is_own_tool(tool) is own


CHOICES = {
    "auto": ("auto", {"mode": "AUTO"}),
    "any": ("any", {"mode": "ANY"}),
    "required": ("required", {"mode": "ANY"}),
    "true": (True, {"mode": "ANY"}),
    "none": ("none", {"mode": "NONE"}),
    "a name": ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    "OpenAI's": (
        {"type": "function", "function": {"name": "a b"}},
        {"mode": "ANY", "allowedFunctionNames": ["_a_b_c8687a08"]},
    ),
    "Anthropic's": ({"type": "tool", "name": "add"}, {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    "Anthropic's any": ({"type": "any"}, {"mode": "ANY"}),
    "Gemini's": ({"function_calling_config": {"mode": "VALIDATED"}}, {"mode": "VALIDATED"}),
    "the inner one": ({"mode": "AUTO"}, {"mode": "AUTO"}),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_choice_of_a_tool_is_translated(case: str) -> None:
    choice, config = CHOICES[case]
    assert body(tools=TOOLS, tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}
    assert body(tool_choice=choice) == {}
    assert "toolConfig" not in body(tools=[{"google_search": {}}], tool_choice=choice)


def test_a_choice_that_is_none_is_told() -> None:
    with pytest.raises(ConfigurationError, match="tool_choice=7"):
        body(tools=TOOLS, tool_choice=7)


def test_names_that_may_not_be_sent_are_changed_and_can_be_changed_back() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("a.b:c-d", "7up", "ä" * 70)]
    names = [one["name"] for one in body(tools=tools)["tools"][0]["functionDeclarations"]]
    assert names[0] == "a.b:c-d"
    assert [len(name) for name in names[1:]] == [13, 64]
    assert tool_names(tools) == {names[1]: "7up", names[2]: "ä" * 70}


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"responseMimeType": "application/json"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": "a"}, "strict": True}},
            {"responseMimeType": "application/json", "responseJsonSchema": {"enum": ["a"]}},
        ),
    ],
)
def test_the_form_of_the_answer_is_translated(given: Any, config: Any) -> None:
    assert body(response_format=given).get("generationConfig") == config


def test_a_form_that_is_none_is_told() -> None:
    with pytest.raises(ConfigurationError, match="response_format="):
        body(response_format={"type": "xml"})


def test_settings_that_are_none_or_empty_are_not_sent() -> None:
    assert body(temperature=None, stop=[], tools=[], safety_settings={}, response_format={}) == {}
    assert body(stop="x", safety_settings=[{"category": "C", "threshold": "T"}]) == {
        "generationConfig": {"stopSequences": ["x"]},
        "safetySettings": [{"category": "C", "threshold": "T"}],
    }
