"""Standard content blocks: what a stream adds up to, by whatever door, is what the whole answer says."""

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, message_chunk_to_message

from agentgraph import create_agent
from tests.models import anthropic_asking, openai_asking, openai_responses_asking
from tests.models.formats import DONE, FORMATS, KEY, Format, Said, each_format
from tests.models.ollama_asking import END, call, event, ndjson
from tests.models.openai_asking import add
from tests.wire_server import WireServer, answer, streamed

BOUND = 20.0
CALLS = ({"a": 1, "b": 2}, {"a": 3, "b": 4})
SAID = Said(text="Hello", thought="hm so", calls=CALLS)
BLOCKS = [
    {"type": "reasoning", "reasoning": "hm so"},
    {"type": "text", "text": "Hello"},
    {"type": "tool_call", "name": "add", "args": CALLS[0]},
    {"type": "tool_call", "name": "add", "args": CALLS[1]},
]
VERSIONS = pytest.mark.parametrize("version", [None, "v0", "v1"])


def plain(blocks: Any) -> list[dict[str, Any]]:
    """The blocks without what only places them, or is only one provider's."""
    own = {"encrypted_content", "extras", "id", "index"}
    return [{key: value for key, value in one.items() if key not in own} for one in blocks]


def added(chunks: Any) -> AIMessage:
    total: Any = None
    for chunk in chunks:
        total = chunk if total is None else total + chunk
    message = message_chunk_to_message(total)
    assert isinstance(message, AIMessage)
    return message


def by_invoke(model: Any) -> AIMessage:
    said = model.invoke("Hi")
    assert isinstance(said, AIMessage)
    return said


def by_stream(model: Any) -> AIMessage:
    return added(model.stream("Hi"))


def by_astream(model: Any) -> AIMessage:
    async def read() -> list[Any]:
        return [chunk async for chunk in model.astream("Hi")]

    return added(asyncio.run(asyncio.wait_for(read(), BOUND)))


def by_astream_events(model: Any) -> AIMessage:
    async def read() -> list[Any]:
        events = model.astream_events("Hi", version="v2")
        return [one["data"]["chunk"] async for one in events if one["event"] == "on_chat_model_stream"]

    return added(asyncio.run(asyncio.wait_for(read(), BOUND)))


def by_protocol_events(model: Any) -> AIMessage:
    said = model.stream_events("Hi", version="v3").output
    assert isinstance(said, AIMessage)
    return said


def by_agent(model: Any) -> AIMessage:
    agent = create_agent(model, [add], interrupt_before=["tools"])
    parts = agent.stream({"messages": [HumanMessage("Hi")]}, stream_mode="messages")
    return added([message for message, _ in parts if isinstance(message, AIMessageChunk)])


DOORS = [by_invoke, by_stream, by_astream, by_astream_events, by_protocol_events, by_agent]


@pytest.mark.parametrize("door", DOORS, ids=[door.__name__ for door in DOORS])
@VERSIONS
@each_format()
def test_thought_text_and_calls_stay_blocks_of_their_own(
    server: WireServer, wire: Format, version: str | None, door: Any
) -> None:
    server.play(wire.play(SAID, door is not by_invoke))
    model = wire.build(server, output_version=version)
    said = door(model if door is by_agent else model.bind_tools([add]))
    assert plain(said.content_blocks) == BLOCKS
    assert [(one["id"], one["args"]) for one in said.tool_calls] == [("c0", CALLS[0]), ("c1", CALLS[1])]


@VERSIONS
@pytest.mark.parametrize("door", DOORS[1:5], ids=[door.__name__ for door in DOORS[1:5]])
@each_format("anthropic", "gemini", "responses")
def test_an_event_that_brings_words_and_a_call_loses_neither(
    server: WireServer, wire: Format, version: str | None, door: Any
) -> None:
    chat, calls = openai_asking.event, [{"name": "add", "arguments": json.dumps(one)} for one in CALLS]
    halves = [("hm ", "Hel"), ("so", "lo")]
    if wire.name == "ollama":
        told = [event(text, thinking=thought) for thought, text in halves]
        for one, arguments, id_ in zip(told, CALLS, SAID.ids, strict=True):
            one["message"]["tool_calls"] = [call("add", arguments, id=id_)]
        server.play(ndjson(told[0], {**told[1], **END}))
    else:
        events = [
            chat(content=text, reasoning_content=thought, tool_calls=[{"index": at, "id": id_, "function": calls[at]}])
            for at, ((thought, text), id_) in enumerate(zip(halves, SAID.ids, strict=True))
        ]
        server.play(streamed(*events, chat(finish_reason="tool_calls"), DONE))
    said = door(wire.build(server, output_version=version).bind_tools([add]))
    assert plain(said.content_blocks) == BLOCKS
    assert [(one["id"], one["args"]) for one in said.tool_calls] == [("c0", CALLS[0]), ("c1", CALLS[1])]


BROKEN = {"chat completions": '{"a": 1', "responses": '{"a": 1', "gemini": [1], "anthropic": [1], "ollama": "oops"}


@each_format()
def test_a_call_that_must_not_run_leaves_the_text_as_it_was(server: WireServer, wire: Format) -> None:
    server.play(wire.play(Said(calls=(BROKEN[wire.name],)), True))
    said = by_stream(wire.build(server, output_version="v1").bind_tools([add]))
    assert plain(said.content_blocks)[0] == {"type": "text", "text": "Hello"}
    assert said.text == "Hello"
    assert [one["name"] for one in said.invalid_tool_calls] == ["add"]
    assert said.tool_calls == []


@pytest.mark.parametrize("other", FORMATS, ids=[one.name for one in FORMATS])
@each_format()
def test_a_streamed_message_of_standard_blocks_goes_back_to_every_server(
    server: WireServer, wire: Format, other: Format
) -> None:
    server.play(wire.play(SAID, True), other.play(Said(), False))
    said = by_stream(wire.build(server, output_version="v1").bind_tools([add]))
    results = [ToolMessage("3", tool_call_id=one) for one in SAID.ids]
    told = other.build(server, output_version="v1").bind_tools([add]).invoke([HumanMessage("Hi"), said, *results])
    assert told.text == "Hello"
    sent = json.loads(server.requests[-1].body)
    assert json.dumps(sent).count('"c0"') in {0, 2, 3}
    assert "tool_call_chunk" not in json.dumps(sent)
    assert "lc_" not in json.dumps(sent)


@VERSIONS
def test_a_refusal_behind_several_texts_is_a_block_of_its_own(server: WireServer, version: str | None) -> None:
    body = anthropic_asking.body_of(
        *({"type": "text", "text": text} for text in ("One", "Two", "Three")),
        stop_reason="refusal",
        stop_details={"type": "refusal", "explanation": "Not this.", "category": "cyber"},
    )
    expected = [
        *({"type": "text", "text": text} for text in ("One", "Two", "Three")),
        {"type": "refusal", "refusal": "Not this."},
    ]
    model = anthropic_asking.local(server, output_version=version).bind_tools([add])
    for script, door in ((anthropic_asking.sse(body), by_stream), (answer(200, json.dumps(body).encode()), by_invoke)):
        server.play(script)
        said = door(model)
        assert plain(said.content_blocks) == expected
        assert said.content_blocks[-1].get("extras") == {"category": "cyber"}


@VERSIONS
def test_a_refusal_of_chat_completions_is_a_block(server: WireServer, version: str | None) -> None:
    chat = openai_asking.event
    server.play(streamed(chat(refusal="Not "), chat(refusal="this."), chat(finish_reason="stop"), DONE))
    said = by_stream(openai_asking.local(server, output_version=version))
    assert plain(said.content_blocks) == [{"type": "refusal", "refusal": "Not this."}]


@pytest.mark.parametrize("provider", ["openai", "azure_openai", "vllm"])
@pytest.mark.parametrize("door", [by_invoke, by_stream, by_protocol_events])
def test_answers_of_the_responses_api_are_read_alike_whoever_serves_them(
    server: WireServer, provider: str, door: Any
) -> None:
    asking = openai_responses_asking
    thought = asking.thought("hm so", encrypted_content="c2VjcmV0")
    body = asking.response(thought, asking.message("Hello"), asking.call("add", json.dumps(CALLS[0]), "c0"))
    whole = answer(200, json.dumps(body).encode())
    server.play(whole if door is by_invoke else streamed(asking.sse(asking.events_of(body))), whole)
    model = openai_responses_asking.local(server, api_key=KEY, provider=provider)
    said = door(model.bind_tools([add]))
    assert plain(said.content_blocks) == BLOCKS[:3]
    if door is by_protocol_events:
        return
    model.invoke([HumanMessage("Hi"), said, ToolMessage("3", tool_call_id="c0")])
    kinds = [item.get("type") for item in json.loads(server.requests[-1].body)["input"]]
    assert "reasoning" in kinds
