"""The five wire formats side by side: one answer, as the server of each format would say it, whole and streamed."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from agentgraph.models.anthropic import ChatAnthropic
from agentgraph.models.gemini import ChatGemini
from agentgraph.models.ollama import ChatOllama
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.openai_responses import ChatOpenAIResponses
from tests.models import anthropic_asking, gemini_asking, ollama_asking, openai_asking, openai_responses_asking
from tests.wire_server import Step, WireServer, answer, streamed

KEY = "key-0123456789"
TAKEN, MADE = 9, 5
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Said:
    """What a model says: a thought, a text, and calls of one tool with these arguments."""

    text: str = "Hello"
    thought: str = ""
    calls: tuple[Any, ...] = ()
    tool: str = "add"

    def halves(self, words: str) -> list[str]:
        middle = len(words) // 2
        return [half for half in (words[:middle], words[middle:]) if half]

    @property
    def ids(self) -> list[str]:
        return [f"c{number}" for number in range(len(self.calls))]


@dataclass(frozen=True)
class Format:
    """A format: its class, and how its server plays an answer, whole or streamed."""

    name: str
    model_class: type[Any]
    model: str
    play: Callable[[Said, bool], list[Step]]

    def build(self, server: WireServer, **settings: Any) -> Any:
        fixed = {"model": self.model, "base_url": server.url, "api_key": KEY, "max_retries": 0}
        return self.model_class(**{**fixed, **settings})


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _chat_calls(said: Said) -> list[dict[str, Any]]:
    return [
        {"id": id_, "type": "function", "function": {"name": said.tool, "arguments": _text(arguments)}}
        for id_, arguments in zip(said.ids, said.calls, strict=True)
    ]


def _chat(said: Said, stream: bool) -> list[Step]:
    calls = _chat_calls(said)
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": TAKEN, "completion_tokens": MADE, "total_tokens": TAKEN + MADE}
    if not stream:
        message = {"content": said.text, "reasoning_content": said.thought, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return answer(200, json.dumps({"id": "c", "model": "m", "choices": [choice], "usage": usage}).encode())
    event = openai_asking.event
    events = [event(reasoning_content=half) for half in said.halves(said.thought)]
    events += [event(content=half) for half in said.halves(said.text)]
    for index, call in enumerate(calls):
        head, tail = said.halves(call["function"]["arguments"])
        events.append(event(tool_calls=[{"index": index, **call, "function": {"name": said.tool, "arguments": head}}]))
        events.append(event(tool_calls=[{"index": index, "function": {"arguments": tail}}]))
    counted = f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()
    return streamed(*events, event(finish_reason=reason), counted, DONE)


def _anthropic(said: Said, stream: bool) -> list[Step]:
    blocks: list[dict[str, Any]] = []
    if said.thought:
        blocks.append({"type": "thinking", "thinking": said.thought, "signature": "c2ln"})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for id_, arguments in zip(said.ids, said.calls, strict=True):
        blocks.append({"type": "tool_use", "id": id_, "name": said.tool, "input": arguments})
    reason = "tool_use" if said.calls else "end_turn"
    usage = {"input_tokens": TAKEN, "output_tokens": MADE}
    body = anthropic_asking.body_of(*blocks, stop_reason=reason, usage=usage)
    return anthropic_asking.sse(body) if stream else answer(200, json.dumps(body).encode())


def _gemini(said: Said, stream: bool) -> list[Step]:
    asking = gemini_asking
    pieces = [asking.piece(asking.text(half, thought=True)) for half in said.halves(said.thought)]
    pieces += [asking.piece(asking.text(half)) for half in said.halves(said.text)]
    for id_, arguments in zip(said.ids, said.calls, strict=True):
        pieces.append(asking.piece(asking.called(said.tool, arguments, id=id_)))
    usage = {"promptTokenCount": TAKEN, "candidatesTokenCount": MADE, "totalTokenCount": TAKEN + MADE}
    pieces.append(asking.piece(reason="STOP", usageMetadata=usage))
    return asking.sse(*pieces) if stream else asking.document(asking.added_up(tuple(pieces)))


def _ollama(said: Said, stream: bool) -> list[Step]:
    asking = ollama_asking
    events = [asking.event(thinking=half) for half in said.halves(said.thought)]
    events += [asking.event(half) for half in said.halves(said.text)]
    for id_, arguments in zip(said.ids, said.calls, strict=True):
        events.append(asking.event(calls=[asking.call(said.tool, arguments, id=id_)]))
    events.append(_ollama_end())
    return asking.ndjson(*events) if stream else asking.played(_whole, *events)


def _ollama_end() -> dict[str, Any]:
    return ollama_asking.event(**{**ollama_asking.END, "prompt_eval_count": TAKEN, "eval_count": MADE})


def _whole() -> None:
    """The name of a way of asking that does not stream."""


def _responses(said: Said, stream: bool) -> list[Step]:
    asking = openai_responses_asking
    items = [asking.thought(said.thought)] if said.thought else []
    items += [asking.message(said.text)] if said.text else []
    for id_, arguments in zip(said.ids, said.calls, strict=True):
        items.append(asking.call(said.tool, _text(arguments), id_))
    body = asking.response(*items)
    body["usage"] = {"input_tokens": TAKEN, "output_tokens": MADE, "total_tokens": TAKEN + MADE}
    return streamed(asking.sse(asking.events_of(body))) if stream else answer(200, json.dumps(body).encode())


FORMATS = [
    Format("chat completions", ChatOpenAI, "gpt-4o", _chat),
    Format("responses", ChatOpenAIResponses, "gpt-5", _responses),
    Format("anthropic", ChatAnthropic, "claude-sonnet-4-5", _anthropic),
    Format("gemini", ChatGemini, "gemini-2.5-flash", _gemini),
    Format("ollama", ChatOllama, "qwen3", _ollama),
]


def each_format(*left_out: str) -> pytest.MarkDecorator:
    """Run a test for each format."""
    rows: Sequence[Format] = [one for one in FORMATS if one.name not in left_out]
    return pytest.mark.parametrize("wire", rows, ids=[one.name for one in rows])
