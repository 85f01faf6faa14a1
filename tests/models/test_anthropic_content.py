"""Content of requests of the Messages API: images, documents, and what the assistant said, from all forms."""

import base64
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentgraph.errors import ConfigurationError
from tests.models.anthropic_asking import content_sent, local, turns_sent
from tests.wire_server import WireServer

PDF = base64.b64encode(b"%PDF-1.4").decode()
PNG = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        ({"type": "image", "url": "https://h/i.png"}, {"type": "url", "url": "https://h/i.png"}),
        ({"type": "image", "url": f"data:image/png;base64,{PNG}"}, ("image/png", PNG)),
        ({"type": "image", "base64": PNG, "mime_type": "image/webp"}, ("image/webp", PNG)),
        ({"type": "image", "file_id": "file_1"}, {"type": "file", "file_id": "file_1"}),
        ({"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}, ("image/png", PNG)),
        ({"type": "image", "source_type": "url", "url": "https://h/i"}, {"type": "url", "url": "https://h/i"}),
        ({"type": "image", "source_type": "id", "id": "file_1"}, {"type": "file", "file_id": "file_1"}),
        ({"type": "image_url", "image_url": {"url": "https://h/i"}}, {"type": "url", "url": "https://h/i"}),
        ({"type": "image_url", "image_url": f"data:image/gif;base64,{PNG}"}, ("image/gif", PNG)),
        ({"type": "image_url", "image_url": {"url": f"data:;base64,{PNG}"}}, ("image/jpeg", PNG)),
        ({"type": "file", "base64": PNG, "mime_type": "image/png"}, ("image/png", PNG)),
        ({"type": "image", "source": {"type": "url", "url": "https://h/i"}}, {"type": "url", "url": "https://h/i"}),
    ],
)
def test_an_image_is_sent_in_whatever_form_it_comes(server: WireServer, block: Any, sent: Any) -> None:
    source = {"type": "base64", "media_type": sent[0], "data": sent[1]} if isinstance(sent, tuple) else sent
    assert content_sent(server, block) == [{"type": "image", "source": source}]


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (
            {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "a.pdf"},
            {"source": {"type": "base64", "media_type": "application/pdf", "data": PDF}, "title": "a.pdf"},
        ),
        ({"type": "file", "url": "https://h/a.pdf"}, {"source": {"type": "url", "url": "https://h/a.pdf"}}),
        (
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "b.pdf"}},
            {"source": {"type": "base64", "media_type": "application/pdf", "data": PDF}, "title": "b.pdf"},
        ),
        ({"type": "file", "file": {"file_id": "f"}}, {"source": {"type": "file", "file_id": "f"}}),
        (
            {"type": "text-plain", "text": "Grüße", "mime_type": "text/plain", "title": "T", "context": "C"},
            {
                "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"},
                "title": "T",
                "context": "C",
            },
        ),
        (
            {"type": "file", "base64": base64.b64encode("Grüße".encode()).decode(), "mime_type": "text/markdown"},
            {"source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}},
        ),
        (
            {"type": "file", "url": "https://h/a", "extras": {"citations": {"enabled": True}, "title": "T"}},
            {"source": {"type": "url", "url": "https://h/a"}, "citations": {"enabled": True}, "title": "T"},
        ),
        (
            {"type": "document", "source": {"type": "file", "file_id": "f"}, "citations": {"enabled": True}},
            {"source": {"type": "file", "file_id": "f"}, "citations": {"enabled": True}},
        ),
    ],
)
def test_a_document_is_sent_in_whatever_form_it_comes(server: WireServer, block: Any, sent: Any) -> None:
    assert content_sent(server, block, "Read.") == [{"type": "document", **sent}, {"type": "text", "text": "Read."}]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"type": "audio", "base64": "AA==", "mime_type": "audio/wav"}, "type 'audio', for which"),
        ({"type": "image", "mime_type": "image/png"}, "does not say where its content is"),
        ({"type": "file", "base64": "%%", "mime_type": "text/plain"}, "not base64 of text"),
    ],
)
def test_content_that_has_no_form_here_is_told(server: WireServer, block: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        local(server).invoke([HumanMessage([block])])


def test_search_results_and_new_kinds_of_blocks_are_passed_on(server: WireServer) -> None:
    found = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}
    wrapped = {"type": "non_standard", "value": {"type": "container_upload", "file_id": "f"}}
    assert content_sent(server, found, wrapped, {"type": "cachePoint"}) == [found, wrapped["value"]]


# What the assistant said

THOUGHT = {"type": "thinking", "thinking": " Hm.\n", "signature": "c2ln+/="}
SAID: list[Any] = [
    {**THOUGHT, "index": 0},
    {"type": "redacted_thinking", "data": "x", "index": 1},
    {"type": "thinking", "thinking": "", "signature": "b", "index": 2},
    {"type": "thinking", "thinking": "half", "index": 3},
    {"type": "text", "text": "See.", "citations": [{"type": "char_location", "file_id": None, "cited_text": "c",
     "document_index": 0, "document_title": None, "start_char_index": 0, "end_char_index": 1}], "index": 4},
    {"type": "tool_use", "id": "t1", "name": "add", "input": {}, "index": 5},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}, "index": 6},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [], "index": 7},
    {"type": "tool_use", "id": "gone", "name": "add", "input": {"a": 1}, "index": 8},
]  # fmt: skip
CALLS: list[Any] = [{"name": "add", "args": {"a": 2}, "id": "t1"}, {"name": "add", "args": {}, "id": "t2"}]
BROKEN: list[Any] = [{"name": "add", "args": '{"a', "id": "t3", "error": "cut"}]
RESULTS = [ToolMessage("3", tool_call_id=id_) for id_ in ("t1", "t2", "t3")]


def sent_of_assistant(server: WireServer, said: AIMessage) -> Any:
    return turns_sent(server, HumanMessage("Hi"), said, *RESULTS)[1]["content"]


def test_what_was_said_goes_back_as_it_came_with_the_calls_as_they_are_now(server: WireServer) -> None:
    said = AIMessage(SAID, tool_calls=CALLS, invalid_tool_calls=BROKEN)
    citation = {key: value for key, value in SAID[4]["citations"][0].items() if key != "file_id"}
    assert sent_of_assistant(server, said) == [
        THOUGHT,
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "", "signature": "b"},
        {"type": "text", "text": "See.", "citations": [citation]},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "tool_use", "id": "t2", "name": "add", "input": {}},
        {"type": "tool_use", "id": "t3", "name": "add", "input": {"invalid_arguments": '{"a'}},
    ]


def test_standard_blocks_of_an_answer_go_back_as_what_they_were(server: WireServer) -> None:
    said = AIMessage(SAID, tool_calls=CALLS, response_metadata={"model_provider": "anthropic"})
    again = AIMessage(said.content_blocks, tool_calls=CALLS, response_metadata={"output_version": "v1"})  # type: ignore[arg-type]  # standard blocks
    kinds = [block["type"] for block in sent_of_assistant(server, again)]
    assert kinds == [
        "thinking",
        "redacted_thinking",
        "thinking",
        "text",
        "tool_use",
        "server_tool_use",
        "web_search_tool_result",
        "tool_use",
    ]
    assert sent_of_assistant(server, again)[0] == THOUGHT


def test_thoughts_and_calls_of_another_provider_are_left_out(server: WireServer) -> None:
    foreign = [*SAID[:4], {"type": "text", "text": "See."}, *SAID[5:8], {"type": "reasoning", "reasoning": "Hm."}]
    said = AIMessage(foreign, tool_calls=CALLS, response_metadata={"model_provider": "openai"})
    assert sent_of_assistant(server, said) == [
        {"type": "text", "text": "See."},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2}},
        {"type": "tool_use", "id": "t2", "name": "add", "input": {}},
    ]


def test_a_refusal_is_told_as_what_was_said(server: WireServer) -> None:
    said = AIMessage("", additional_kwargs={"refusal": "Not this."})
    assert turns_sent(server, HumanMessage("Hi"), said, HumanMessage("Why?"))[1]["content"] == "Not this."


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ("", {}),
        (None, {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"invalid_arguments": "[1]"}),
        ("{", {"invalid_arguments": "{"}),
    ],
)
def test_arguments_that_cannot_be_read_are_told_as_they_were(server: WireServer, args: Any, sent: Any) -> None:
    said = AIMessage("", invalid_tool_calls=[{"name": "add", "args": args, "id": "t1", "error": "x"}])
    turns = turns_sent(server, HumanMessage("Hi"), said, RESULTS[0])
    assert turns[1]["content"] == [{"type": "tool_use", "id": "t1", "name": "add", "input": sent}]
