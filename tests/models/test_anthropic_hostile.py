"""Whatever a server of the Messages API sends: a message that can be stored and sent back, or a typed error."""

import json
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks

from agentgraph.errors import ModelError
from agentgraph.models.anthropic_codec import Asked, StreamReader, read_answer
from agentgraph.models.anthropic_request import request_messages
from agentgraph.models.failures import Origin
from agentgraph.models.sse import ServerSentEvent
from tests.models.anthropic_asking import body_of, events

BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "Let me see. 😀"},
    {"type": "text", "text": "It is.", "citations": [{"type": "char_location", "cited_text": "x"}]},
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZW5j"},
    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
]
REASONS = ["end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "model_context_window_exceeded", None]
JUNK: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "",
    "null",
    "\ud83d",
    [],
    [1],
    {},
    {"a": None},
    {"type": 5},
    {"type": "tool_use"},
]
BODIES = st.builds(
    lambda blocks, reason: body_of(*blocks, stop_reason=reason),
    st.lists(st.sampled_from(BLOCKS), max_size=4),
    st.sampled_from([*REASONS, "refusal", "new_reason"]),
)


@st.composite
def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """The value, of which some parts are missing or something else."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(JUNK))
    if isinstance(value, dict):
        return {key: draw(spoiled(inner)) for key, inner in value.items() if draw(st.integers(0, 19))}
    return [draw(spoiled(inner)) for inner in value] if isinstance(value, list) else value


def streamed_answer(made: list[Any], asked: Asked) -> AIMessage:
    reader = StreamReader(asked)
    chunks = []
    for one in made:
        name = str(one.get("type")) if isinstance(one, dict) else "message"
        chunks += reader.feed(ServerSentEvent(name, json.dumps(one)))
    whole = add_ai_message_chunks(*chunks, *reader.finish())
    said = whole if reader.paused else message_chunk_to_message(whole)
    assert isinstance(said, AIMessage)
    return said


def asked_for(*, plain: bool) -> Asked:
    return Asked(Origin("anthropic", "http://localhost"), "claude-test", plain=plain)


def can_be_kept_and_sent(said: AIMessage) -> bool:
    orjson.dumps(said.model_dump())
    assert isinstance(said.content_blocks, list)
    calls = [*said.tool_calls, *said.invalid_tool_calls]
    results = [ToolMessage("x", tool_call_id=call["id"] or "") for call in calls]
    _, turns = request_messages([HumanMessage("Hi"), said, *results])
    json.dumps(turns).encode()
    uses = [block["id"] for turn in turns for block in turn["content"] if block["type"] == "tool_use"]
    found = [block["tool_use_id"] for turn in turns for block in turn["content"] if block["type"] == "tool_result"]
    return len(uses) == len(set(uses)) and sorted(uses) == sorted(found)


@given(body=BODIES, plain=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_whole_answer_and_its_stream_are_the_same_message_or_error(body: dict[str, Any], plain: bool) -> None:
    outcomes = []
    for read in (lambda asked: read_answer(body, asked), lambda asked: streamed_answer(events(body), asked)):
        try:
            said = read(asked_for(plain=plain))
        except ModelError as error:
            outcomes.append(repr(error))
        else:
            for call in (*said.tool_calls, *said.invalid_tool_calls):
                call["id"] = "made" if call["id"] not in {"t1", "t2"} else call["id"]
            outcomes.append(repr((said.text, said.tool_calls, said.usage_metadata, said.response_metadata)))
            outcomes.append(repr([{**b, "id": ""} for b in said.content if isinstance(b, dict)]))
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]


@given(data=st.data(), body=BODIES, plain=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_spoiled_stream_is_a_message_or_a_typed_error(data: st.DataObject, body: dict[str, Any], plain: bool) -> None:
    made = [data.draw(spoiled(one)) for one in events(body)]
    try:
        said = streamed_answer(made, asked_for(plain=plain))
    except ModelError:
        return
    assert can_be_kept_and_sent(said)


@given(data=st.data(), body=BODIES, plain=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_spoiled_answer_is_a_message_or_a_typed_error(data: st.DataObject, body: dict[str, Any], plain: bool) -> None:
    made = data.draw(spoiled(body))
    try:
        said = read_answer(made, asked_for(plain=plain))
    except ModelError:
        return
    assert can_be_kept_and_sent(said)
