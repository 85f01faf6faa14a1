"""Requests of the Responses API: what a conversation becomes, and what must not be sent."""

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.openai_responses import ChatOpenAIResponses
from agentgraph.models.responses_request import request_body, responses_dialect, without_refused
from agentgraph.models.responses_tools import names_of
from tests.models.openai_asking import add
from tests.models.openai_responses_asking import call, events_of, message, response, thought
from tests.models.openai_responses_judge import (
    CALLING,
    OPENAI,
    RESULTS,
    SERVED,
    answered,
    body_of,
    input_of,
    judged,
    said,
)


def test_the_judge_refuses_what_the_api_refuses() -> None:
    for bad in (
        {"role": "robot", "content": "x"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": {}},
    ):
        with pytest.raises(ValueError, match="validation error"):
            judged({"model": "m", "input": [bad]})


def test_the_provider_would_say_what_our_scripts_say() -> None:
    judge: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    settings: dict[str, Any] = {"created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    settings |= {"instructions": None, "metadata": {}, "temperature": 1, "top_p": 1}
    output = [*CALLING, message("Hello"), message({"type": "refusal", "refusal": "No."})]
    for number, event in enumerate(events_of(response(*output, **settings))):
        assert judge.validate_python({**event, "sequence_number": number}).type == event["type"]


# Messages


def test_a_conversation_is_a_flat_list_of_items() -> None:
    calls = [{"name": "get", "args": {"city": "Zürich"}, "id": "c1"}, {"name": "get", "args": {}, "id": "c2"}]
    assert input_of(
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        AIMessage("Wait.", tool_calls=calls),
        ToolMessage("sunny", tool_call_id="c1"),
        ToolMessage("Error: no", tool_call_id="c2", status="error"),
        AIMessage("Sunny."),
        ChatMessage("Thanks", role="user"),
    ) == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        said("Wait."),
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"city": "Zürich"}'},
        {"type": "function_call", "call_id": "c2", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": "Error: no"},
        said("Sunny."),
        {"role": "user", "content": "Thanks"},
    ]


def test_system_messages_are_developers_words_only_for_openais_reasoning_models() -> None:
    asked = {("gpt-5", OPENAI): "developer", ("gpt-4o", OPENAI): "system", ("gpt-5", SERVED): "system"}
    for (model, base_url), role in asked.items():
        assert input_of(SystemMessage("x"), model=model, base_url=base_url) == [{"role": role, "content": "x"}]


IMAGE = {"type": "input_image", "detail": "auto"}
BLOCKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "image by url": ({"type": "image", "url": "https://a/b.png"}, {**IMAGE, "image_url": "https://a/b.png"}),
    "image": (
        {"type": "image", "base64": "AA", "mime_type": "image/png"},
        {**IMAGE, "image_url": "data:image/png;base64,AA"},
    ),
    "image by id": ({"type": "image", "file_id": "f"}, {**IMAGE, "file_id": "f"}),
    "elder image": (
        {"type": "image", "source_type": "base64", "data": "AA", "mime_type": "image/png"},
        {**IMAGE, "image_url": "data:image/png;base64,AA"},
    ),
    "elder image by url": (
        {"type": "image", "source_type": "url", "url": "https://a/b.png"},
        {**IMAGE, "image_url": "https://a/b.png"},
    ),
    "elder file by id": ({"type": "file", "source_type": "id", "id": "f"}, {"type": "input_file", "file_id": "f"}),
    "image_url": (
        {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
        {"type": "input_image", "detail": "low", "image_url": "https://a/b.png"},
    ),
    "image_url as text": ({"type": "image_url", "image_url": "https://a/b"}, {**IMAGE, "image_url": "https://a/b"}),
    "Anthropic's image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        {**IMAGE, "image_url": "data:image/png;base64,AA"},
    ),
    "file": (
        {"type": "file", "base64": "AA", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
    ),
    "file without name": (
        {"type": "file", "base64": "AA", "mime_type": "application/pdf"},
        {"type": "input_file", "filename": "file", "file_data": "data:application/pdf;base64,AA"},
    ),
    "file by url": ({"type": "file", "url": "https://a/b.pdf"}, {"type": "input_file", "file_url": "https://a/b.pdf"}),
    "Chat Completions' file": (
        {"type": "file", "file": {"filename": "a", "file_data": "data:x;base64,AA"}},
        {"type": "input_file", "filename": "a", "file_data": "data:x;base64,AA"},
    ),
    "native": ({**IMAGE, "file_id": "f", "index": 3}, {**IMAGE, "file_id": "f"}),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_images_and_files_of_every_form_reach_the_model_from_users_and_tools(case: str) -> None:
    block, part = BLOCKS[case]
    content = [{"type": "text", "text": "Look:"}, block]
    expected = [{"type": "input_text", "text": "Look:"}, part]
    assert input_of(HumanMessage(content)) == [{"role": "user", "content": expected}]
    calling = AIMessage("", tool_calls=[{"name": "see", "args": {}, "id": "c"}])
    assert input_of(calling, ToolMessage(content, tool_call_id="c"))[1]["output"] == expected


def test_sound_of_a_tool_follows_as_a_users_message_behind_the_results_of_its_turn() -> None:
    sound = {"type": "audio", "base64": "AA", "mime_type": "audio/mpeg"}
    calling = AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}, {"name": "b", "args": {}, "id": "2"}])
    given = {"model": "m"}
    sent = request_body(
        [
            calling,
            ToolMessage([sound], tool_call_id="1", name="a"),
            ToolMessage("x", tool_call_id="2"),
            HumanMessage("So?"),
        ],
        given,
        responses_dialect("openai", SERVED, given),
        extra={},
    )["input"]
    assert sent[2:] == [
        {"type": "function_call_output", "call_id": "1", "output": "(see the next message)"},
        {"type": "function_call_output", "call_id": "2", "output": "x"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Result of the tool a:"},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
            ],
        },
        {"role": "user", "content": "So?"},
    ]


@pytest.mark.parametrize(
    "block", [{"type": "video"}, {"type": "image"}, {"type": "file"}, {"type": "audio", "url": "x"}, {}]
)
def test_a_block_without_a_form_is_a_configuration_error(block: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"content block of type .* that the Responses API has no form for"):
        input_of(HumanMessage([block]))


def test_blocks_that_mean_nothing_to_this_api_are_left_out() -> None:
    content = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Hi"}, {"type": "text"}, "you"]
    assert input_of(HumanMessage(content)) == [{"role": "user", "content": "Hi\nyou"}]


@pytest.mark.parametrize("odd", [FunctionMessage("x", name="f"), ChatMessage("x", role="narrator")])
def test_a_message_without_a_form_is_a_configuration_error(odd: BaseMessage) -> None:
    with pytest.raises(ConfigurationTypeError, match="Responses API cannot be sent"):
        input_of(odd)


# Settings


def test_settings_stand_where_this_api_has_them() -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}, "description": "An a."}}
    body = body_of(
        [HumanMessage("Hi")],
        model="gpt-5",
        temperature=0,
        top_p=0.5,
        max_tokens=50,
        reasoning={"summary": "auto"},
        reasoning_effort="low",
        verbosity="low",
        response_format=shape,
        store=False,
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        truncation="auto",
        tool_choice="auto",
        parallel_tool_calls=True,
        user=None,
        tools=[],
    )
    assert body == {
        "input": [{"role": "user", "content": "Hi"}],
        "model": "gpt-5",
        "reasoning": {"summary": "auto", "effort": "low"},
        "text": {
            "format": {
                "type": "json_schema",
                "name": "a",
                "schema": {"type": "object"},
                "description": "An a.",
                "strict": False,
            },
            "verbosity": "low",
        },
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "max_output_tokens": 50,
        "store": False,
        "top_logprobs": 2,
        "truncation": "auto",
    }
    assert body_of([HumanMessage("Hi")], model="gpt-4o", temperature=0)["temperature"] == 0


def test_stop_sequences_are_refused_for_openai_and_sent_to_others() -> None:
    with pytest.raises(ConfigurationError, match="no stop sequences"):
        body_of([HumanMessage("Hi")], stop=["x"])
    given = {"model": "m", "stop": ["x"]}
    assert request_body([HumanMessage("Hi")], given, responses_dialect("openai", SERVED, given), extra={})["stop"] == [
        "x"
    ]


FLAT = {
    "type": "function",
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "type": "object",
    },
    "strict": False,
}
CHOICES: dict[str, tuple[Any, Any]] = {
    "auto": ("auto", "auto"),
    "any": ("any", "required"),
    "true": (True, "required"),
    "none": ("none", "none"),
    "name": ("add", {"type": "function", "name": "add"}),
    "built-in": ("file_search", {"type": "file_search"}),
    "nested": ({"type": "function", "function": {"name": "add"}}, {"type": "function", "name": "add"}),
    "flat": ({"type": "function", "name": "add"}, {"type": "function", "name": "add"}),
}


@pytest.mark.parametrize("case", CHOICES)
def test_tools_are_flat_and_say_whether_they_are_strict(case: str) -> None:
    choice, sent_choice = CHOICES[case]
    search = {"type": "file_search", "vector_store_ids": ["vs_1"]}
    shell = {"type": "shell", "environment": {"type": "container_auto"}}
    bound: Any = ChatOpenAIResponses(model="gpt-5").bind_tools([add, search, shell], tool_choice=choice)
    assert bound.kwargs["tools"] == [FLAT, search, shell]
    body = body_of([HumanMessage("Hi")], **bound.kwargs)
    assert (body["tools"], body["tool_choice"]) == ([FLAT, search, shell], sent_choice)


def test_strict_is_sent_where_it_was_asked_for() -> None:
    bound: Any = ChatOpenAIResponses(model="gpt-5").bind_tools([add], strict=True, parallel_tool_calls=False)
    body = body_of([HumanMessage("Hi")], **bound.kwargs)
    assert (body["tools"][0]["strict"], body["parallel_tool_calls"]) == (True, False)
    assert body["tools"][0]["parameters"]["additionalProperties"] is False


def test_tools_in_the_forms_of_others_are_functions() -> None:
    anthropic = {"name": "get", "description": "Get.", "input_schema": {"type": "object", "properties": {}}}
    schema = {"title": "get", "description": "Get.", "type": "object", "properties": {}}
    for tool in (anthropic, schema):
        bound: Any = ChatOpenAIResponses(model="gpt-5").bind_tools([tool])
        (sent,) = body_of([HumanMessage("Hi")], **bound.kwargs)["tools"]
        assert (sent["type"], sent["name"], sent["strict"]) == ("function", "get", False)


def test_a_name_that_is_not_allowed_is_changed_in_the_tool_and_in_the_choice() -> None:
    odd = {"type": "function", "function": {"name": "wetter.für", "parameters": {"type": "object", "properties": {}}}}
    bound: Any = ChatOpenAIResponses(model="gpt-5").bind_tools([odd], tool_choice="wetter.für")
    body = body_of([HumanMessage("Hi")], **bound.kwargs)
    name = body["tools"][0]["name"]
    assert name == body["tool_choice"]["name"]
    assert name.startswith("wetter_f_r_")
    assert names_of(bound.kwargs["tools"]) == {name: "wetter.für"}


def test_a_tool_in_the_flat_form_can_be_given_and_chosen() -> None:
    bound: Any = ChatOpenAIResponses(model="gpt-5").bind_tools([FLAT], tool_choice="add")
    assert bound.kwargs == {"tools": [FLAT], "tool_choice": {"type": "function", "function": {"name": "add"}}}


GET = [{"name": "get", "args": {}, "id": "c1"}]
REFUSALS: dict[str, tuple[str, str | None]] = {
    "a parameter": ("Unknown parameter: 'store'.", "store"),
    "include": ("Unsupported parameter: 'include'", "include"),
    "include by what it asks": ("Encrypted content is not supported with this model.", "include"),
    "thoughts of another account": ("The encrypted content gAAA could not be verified.", "reasoning items"),
    "a thought that is not there": ("Item with id 'rs_1' not found.", "reasoning items"),
    "something else": ("Invalid value: 'robot'.", None),
    "a needed parameter": ("Unknown parameter: 'model'.", None),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_a_server_refuses_is_left_out(case: str) -> None:
    text, refused = REFUSALS[case]
    body = body_of([answered(*CALLING), *RESULTS], store=False)
    mended = without_refused(body, text)
    if refused is None:
        assert mended is None
    elif refused == "reasoning items":
        kept = [item for item in body["input"] if item["type"] != "reasoning"]
        assert mended == ({**body, "input": kept}, refused)
    else:
        assert mended == ({key: value for key, value in body.items() if key != refused}, refused)


def test_an_answer_that_the_server_has_lost_is_told_again_without_ids() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    output = [thought("hm"), search, message("Let me see."), call("get", "{}", "c1")]
    body = body_of([answered(*output, store=True), RESULTS[0]], store=True)
    mended = without_refused(body, "Item with id 'msg_1' not found.")
    assert mended is not None
    assert judged(mended[0])["input"] == input_of(AIMessage("Let me see.", tool_calls=GET), RESULTS[0])
