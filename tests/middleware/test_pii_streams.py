"""Streams show no sensitive values, also where one arrives in pieces."""

import json
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import ModelRetryMiddleware, PIIDetectionError, PIIMiddleware
from agentgraph.tools import ToolRuntime, tool

MAIL, CARD = "ann@example.com", "4111 1111 1111 1111"
USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
THREAD = {"configurable": {"thread_id": "t"}}
SECRETS = ("ann@", "4111")


class Pieces(BaseChatModel):
    """Streams its replies cut into pieces of a size, texts and arguments alike."""

    replies: list[Any]
    size: int = 1

    @property
    def _llm_type(self):
        return "pieces"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        message = self._generate(messages).generations[0].message
        for chunk in self._chunks(message):
            generation = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(generation.text, chunk=generation)
            yield generation

    def _chunks(self, message):
        for block in [message.content] if isinstance(message.content, str) else message.content:
            for piece in self._cut(block if isinstance(block, str) else block["text"]):
                yield AIMessageChunk(piece if isinstance(block, str) else [{**block, "text": piece}])
        for index, call in enumerate(message.tool_calls):
            yield _part(index, call["name"], call["id"], "")
            for piece in self._cut(json.dumps(call["args"])):
                yield _part(index, None, None, piece)
        yield AIMessageChunk("", usage_metadata=USAGE, chunk_position="last")

    def _cut(self, text):
        return [text[place : place + self.size] for place in range(0, len(text), self.size)]


def _part(index, name, call_id, args):
    part = {"name": name, "id": call_id, "args": args, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk("", tool_call_chunks=[part])


@tool
def send(to: str, runtime: ToolRuntime) -> str:
    """Send mail."""
    for piece in ("sending to ann@ex", "ample.com", " now"):
        runtime.emit_output_delta(piece)
    return f"sent to {to}, paid by {CARD}"


def called(**args):
    return [{"name": "send", "id": "c1", "args": args, "type": "tool_call"}]


def replies():
    return [AIMessage(f"To {MAIL}, by {CARD}.", tool_calls=called(to=MAIL)), AIMessage(f"Done: {MAIL}")]


def mounted(**options):
    everywhere = {"apply_to_output": True, "apply_to_tool_results": True, **options}
    return [PIIMiddleware("email", **everywhere), PIIMiddleware("credit_card", **everywhere)]


def agent_of(given=None, size=1, middleware=None, tools=(send,), **options):
    model = Pieces(replies=replies() if given is None else given, size=size)
    return create_agent(model, tools, middleware=mounted() if middleware is None else middleware, **options)


def summed(parts):
    """The messages of a stream of tokens, put together."""
    messages: dict[str, Any] = {}
    for message, _ in parts:
        known = messages.get(message.id)
        messages[message.id] = message if known is None else known + message
    return [one for one in messages.values() if isinstance(one, AIMessageChunk)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("mode", ["messages", "updates", "values", "tools", "debug", "checkpoints", "tasks"])
def test_no_stream_shows_a_value(mode, size):
    agent = agent_of(size=size, checkpointer=InMemorySaver())
    parts = list(agent.stream({"messages": "hi"}, THREAD, stream_mode=mode))
    assert parts
    assert not [part for part in parts if any(secret in str(part) for secret in SECRETS)]


@pytest.mark.parametrize("mode", ["messages", "updates", "values", "tools"])
async def test_no_async_stream_shows_a_value(mode):
    parts = [part async for part in agent_of().astream({"messages": "hi"}, stream_mode=mode)]
    assert parts
    assert not [part for part in parts if any(secret in str(part) for secret in SECRETS)]


async def test_no_callback_event_shows_a_value():
    events = [event async for event in agent_of().astream_events({"messages": "hi"}, version="v2")]
    assert [one["event"] for one in events].count("on_chat_model_end") == 2
    assert not [event for event in events if any(secret in str(event) for secret in SECRETS)]


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_no_protocol_event_shows_a_value_and_text_still_comes_in_pieces():
    events = list(agent_of(size=3).stream_events({"messages": "hi"}, version="v3"))
    deltas = [
        event["params"]["data"][0]["delta"].get("text")
        for event in events
        if event["method"] == "messages" and event["params"]["data"][0]["event"] == "content-block-delta"
    ]
    assert "".join(filter(None, deltas)) == "To [REDACTED_EMAIL], by [REDACTED_CREDIT_CARD].Done: [REDACTED_EMAIL]"
    assert len(deltas) > 3
    assert not [event for event in events if any(secret in str(event) for secret in SECRETS)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_sum_of_the_stream_is_the_stored_message(size):
    agent = agent_of(size=size, checkpointer=InMemorySaver())
    first, last = summed(agent.stream({"messages": "hi"}, THREAD, stream_mode="messages"))
    stored = [one for one in agent.get_state(THREAD).values["messages"] if isinstance(one, AIMessage)]
    assert [(one.id, one.content, one.tool_calls, one.usage_metadata) for one in (first, last)] == [
        (one.id, one.content, one.tool_calls, one.usage_metadata) for one in stored
    ]
    assert first.content == "To [REDACTED_EMAIL], by [REDACTED_CREDIT_CARD]."
    assert first.tool_calls == called(to="[REDACTED_EMAIL]")
    assert first.usage_metadata == USAGE


def test_a_value_is_found_across_the_blocks_of_a_text():
    blocks = [{"type": "text", "text": "ask ann@ex", "index": 0}, {"type": "text", "text": "ample.com now", "index": 1}]
    clean = [{**blocks[0], "text": "ask [REDACTED_EMAIL]"}, {**blocks[1], "text": " now"}]
    (message,) = summed(agent_of([AIMessage(blocks)], 4).stream({"messages": "hi"}, stream_mode="messages"))
    assert message.content == clean
    assert agent_of([AIMessage(blocks)]).invoke({"messages": "hi"})["messages"][-1].content == clean


def test_text_is_shown_as_soon_as_it_is_decided():
    parts = agent_of([AIMessage("one two three")], middleware=mounted()[:1]).stream(
        {"messages": "hi"}, stream_mode="messages"
    )
    assert [message.content for message, _ in parts if message.content] == ["one ", "two ", "three"]


def test_with_an_own_detector_the_message_is_held_back_to_its_end():
    own = PIIMiddleware("ticket", detector=r"T-\d+ \d+", apply_to_output=True)
    parts = agent_of([AIMessage("see T-1 2 there")], middleware=[own]).stream(
        {"messages": "hi"}, stream_mode="messages"
    )
    assert [message.content for message, _ in parts if message.content] == ["see [REDACTED_TICKET] there"]


def test_escapes_in_arguments_hide_nothing():
    class Escaped(Pieces):
        def _chunks(self, message):
            yield _part(0, "send", "c1", "")
            for piece in ('{"to": "ann\\u0040exam', 'ple.com\\nann@example.com"}'):
                yield _part(0, None, None, piece)

    model = Escaped(replies=replies())
    agent = create_agent(model, [send], middleware=mounted(), interrupt_before=["tools"], checkpointer=InMemorySaver())
    (message,) = summed(agent.stream({"messages": "hi"}, THREAD, stream_mode="messages"))
    assert message.tool_calls == called(to="[REDACTED_EMAIL]\n[REDACTED_EMAIL]")


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_block_ends_the_run_before_anything_of_the_value_is_shown(size):
    parts = []
    agent = agent_of(
        [AIMessage(f"Well: {MAIL} is it.")], size, [PIIMiddleware("email", strategy="block", apply_to_output=True)]
    )
    with pytest.raises(PIIDetectionError):
        parts.extend(agent.stream({"messages": "hi"}, stream_mode=["messages", "updates"]))
    shown = "".join(part[0].content for mode, part in parts if mode == "messages")
    assert shown in {"Well: ", "", "Well:"}


def test_a_retried_model_inside_streams_clean_text():
    given = [ConnectionError("lost"), *replies()]
    middleware = [*mounted(), ModelRetryMiddleware(initial_delay=0)]
    parts = list(agent_of(given, middleware=middleware).stream({"messages": "hi"}, stream_mode="messages"))
    assert summed(parts)[-1].text == "Done: [REDACTED_EMAIL]"
    assert not [part for part in parts if any(secret in str(part) for secret in SECRETS)]


def test_what_a_tool_shows_while_it_runs_is_clean():
    parts = agent_of().stream({"messages": "hi"}, stream_mode="tools")
    deltas = [part["delta"] for part in parts if part["event"] == "tool-output-delta"]
    assert "".join(deltas) == "sending to [REDACTED_EMAIL] now"


def test_an_unknown_type_is_refused_when_the_middleware_is_made():
    with pytest.raises(ConfigurationError, match="no detector for the type 'passport'"):
        PIIMiddleware("passport")


def test_a_run_without_a_listener_costs_no_handlers():
    result = agent_of().invoke({"messages": [HumanMessage("hi")]})
    assert result["messages"][-1].text == "Done: [REDACTED_EMAIL]"
