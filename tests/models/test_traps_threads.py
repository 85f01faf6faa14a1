"""Traps of a thread that changes its provider: what one server said, with thoughts and calls, every other one takes.

Each format's server answers with a thought, words and two calls; an agent runs them, and the thread goes on with
another one, whose request passes the checks that its own server would make. Then it goes back to the first.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import create_agent
from tests.models import anthropic_asking as anthropic
from tests.models import anthropic_peer, gemini_peer, ollama_peer, openai_peer, openai_responses_peer
from tests.models import gemini_asking as gemini
from tests.models import ollama_asking as ollama
from tests.models import openai_responses_asking as responses
from tests.models.openai_asking import add, bodies
from tests.models.test_traps_streams import FORMATS
from tests.wire_server import Step, WireServer, answer

A, B = {"a": 1, "b": 2}, {"a": 3, "b": 4}


def _chat_call(id_: str, args: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "add", "arguments": json.dumps(args)}}


def _tool_use(id_: str, args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "add", "input": args}


CHAT_CALLS = [_chat_call("call_1", A), _chat_call("call_2", B)]
CHAT = {"role": "assistant", "content": "Let me see.", "reasoning_content": "hm", "tool_calls": CHAT_CALLS}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
CALLING: Mapping[str, Any] = {
    "openai": {"choices": [{"index": 0, "message": CHAT, "finish_reason": "tool_calls"}]},
    "openai_responses": responses.response(
        responses.thought("hm", encrypted_content="gAAA"),
        responses.message("Let me see."),
        responses.call("add", json.dumps(A), "call_" + "x" * 55),
        responses.call("add", json.dumps(B), "call_2"),
    ),
    "anthropic": anthropic.body_of(
        THOUGHT,
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "text", "text": "Let me see."},
        _tool_use("toolu_1", A),
        _tool_use("toolu_2", B),
        stop_reason="tool_use",
    ),
    "gemini": gemini.piece(
        gemini.text("hm", thought=True),
        gemini.text("Let me see."),
        gemini.called("add", A, thoughtSignature="c2ln"),
        gemini.called("add", B),
        reason="STOP",
    ),
    "ollama": ollama.event("Let me see.", thinking="hm", calls=[ollama.call(), ollama.call(arguments=B)], **ollama.END),
}


def check_gemini(body: Mapping[str, Any]) -> None:
    gemini_peer.check(body, signed=True)


CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "openai": openai_peer.check,
    "openai_responses": openai_responses_peer.check,
    "anthropic": anthropic_peer.check,
    "gemini": check_gemini,
    "ollama": ollama_peer.check,
}
NEWEST = {"gemini": {"model": "gemini-3-pro-preview"}}
PAIRS = [(first, second) for first in FORMATS for second in FORMATS]


def said(body: Any) -> list[Step]:
    return answer(200, json.dumps(body).encode())


def model_of(server: WireServer, name: str) -> Any:
    return FORMATS[name].local(server, **NEWEST.get(name, {}))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_thread_goes_on_with_another_provider_and_back(server: WireServer, first: str, second: str) -> None:
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    agents = {name: create_agent(model_of(server, name), [add], checkpointer=saver) for name in (first, second)}
    hello = {name: said(FORMATS[name].document("Hello")) for name in (first, second)}
    server.play(said(CALLING[first]), hello[first], hello[second], said(CALLING[second]), hello[second], hello[first])
    asked = [first, first, second, second, second, first]
    agents[first].invoke({"messages": "1+2, 3+4?"}, thread)
    agents[second].invoke({"messages": "And now?"}, thread)
    agents[second].invoke({"messages": "Once more."}, thread)
    messages = agents[first].invoke({"messages": "Thanks."}, thread)["messages"]
    for name, body in zip(asked, bodies(server), strict=True):
        CHECKS[name](body)
    turn = ["human", "ai", "tool", "tool", "ai"]
    assert [message.type for message in messages] == [*turn, "human", "ai", *turn, "human", "ai"]
    assert [message.text for message in messages if message.type == "tool"] == ["3", "7"] * 2
    spoken = [message.text for message in messages if isinstance(message, AIMessage)]
    assert spoken == ["Let me see.", "Hello", "Hello", "Let me see.", "Hello", "Hello"]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_calls_that_were_never_answered_are_answered_before_another_provider_is_asked(
    server: WireServer, first: str, second: str
) -> None:
    server.play(said(CALLING[first]))
    calling = model_of(server, first).bind_tools([add]).invoke("1+2, 3+4?")
    server.play(said(FORMATS[second].document("Hello")))
    history = [("user", "1+2, 3+4?"), calling, ("user", "Never mind.")]
    create_agent(model_of(server, second), [add]).invoke({"messages": history})
    CHECKS[second](bodies(server)[-1])
    assert "never mind" in server.requests[-1].body.decode().lower()
