"""Dialogues with aimock: whose wire formats, the ways of running an agent, what is said, and what was understood."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from langchain_core.messages import BaseMessage

from tests.models.aimock_server import Aimock
from tests.models.openai_asking import BOUND

__all__ = [
    "DIALOGUES",
    "FORMATS",
    "STREAMING",
    "WAYS",
    "Dialogue",
    "Running",
    "Spoken",
    "answers_belong_to_calls",
    "bare",
    "by_invoke",
    "by_stream",
    "on",
    "told",
    "understood",
]

Running = Callable[..., dict[str, Any]]
Told = tuple[Any, ...]


@dataclass(frozen=True)
class Spoken:
    """A wire format of ours, and where the mock is not like those who speak it.

    Attributes:
        reasons: whether the mock says its thoughts where the provider says them.
        counts: whether it can be told how many tokens to count.
        judges: whether it looks at the schema that is asked for.
        cut: after how many of its events it is amid the arguments of a call; None where calls come whole.
        fields: what every answer with calls has to be told, else it ends for a reason that does not exist.
    """

    module: str
    name: str
    model: str
    reasons: bool = True
    counts: bool = True
    judges: bool = False
    cut: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def connected(self, aimock: Aimock, **settings: Any) -> Any:
        kind = getattr(import_module(f"agentgraph.models.{self.module}"), self.name)
        given = {"max_retries": 0, "api_key": "a-key-0123456789", **settings}
        return kind(model=self.model, base_url=aimock.url, **given)

    def calls(self, *cities: str, **more: Any) -> dict[str, Any]:
        """An answer that asks for the weather of these cities."""
        named = {f"call_{''.join(filter(str.isalnum, city))}": city for city in cities}
        asked = [{"name": "weather", "arguments": {"city": city}, "id": one} for one, city in named.items()]
        return {"toolCalls": asked, **self.fields, **more}


FORMATS = [
    Spoken("openai", "ChatOpenAI", "gpt-5-mini", judges=True, cut=3),
    Spoken("openai_responses", "ChatOpenAIResponses", "gpt-5-mini", cut=5),
    Spoken("anthropic", "ChatAnthropic", "claude-sonnet-4-5", cut=4),
    Spoken("gemini", "ChatGemini", "gemini-2.5-flash", fields={"finishReason": "stop"}),
    Spoken("ollama", "ChatOllama", "qwen3", reasons=False, counts=False),
]


def by_invoke(agent: Any, given: Any, **config: Any) -> dict[str, Any]:
    return dict(agent.invoke(given, config))


def by_ainvoke(agent: Any, given: Any, **config: Any) -> dict[str, Any]:
    return dict(asyncio.run(asyncio.wait_for(agent.ainvoke(given, config), BOUND)))


def by_stream(agent: Any, given: Any, **config: Any) -> dict[str, Any]:
    pieces = agent.stream(given, config, stream_mode=["messages", "values"])
    return dict([state for mode, state in pieces if mode == "values"][-1])


def by_astream(agent: Any, given: Any, **config: Any) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        pieces = agent.astream(given, config, stream_mode=["messages", "values"])
        return dict([state async for mode, state in pieces if mode == "values"][-1])

    return asyncio.run(asyncio.wait_for(read(), BOUND))


WAYS = (by_invoke, by_ainvoke, by_stream, by_astream)
STREAMING = (by_stream, by_astream)


# What was said, in words that are the same for all formats


def told(messages: list[BaseMessage]) -> list[Told]:
    """What the messages of a state say."""
    return [
        (message.type, message.text, *((call["name"], call["args"]) for call in getattr(message, "tool_calls", ())))
        for message in messages
    ]


def understood(entry: dict[str, Any]) -> list[Told]:
    """What the mock understood of a request; it takes each call of the Responses API for a turn of its own."""
    heard: list[Told] = []
    for message in entry["body"]["messages"]:
        calls = [one["function"] for one in message.get("tool_calls", ())]
        called = tuple((one["name"], json.loads(one["arguments"])) for one in calls)
        role = {"user": "human", "assistant": "ai"}.get(message["role"], message["role"])
        words = _result(message["content"]) if role == "tool" else message["content"] or ""
        before = heard.pop()[1:] if role == "ai" and heard and heard[-1][0] == "ai" else ("",)
        heard.append((role, before[0] + words, *before[1:], *called))
    return heard


def _result(content: str) -> str:
    """The text of a result; Gemini puts it into an object."""
    if not content.startswith("{"):
        return content
    ((_, text),) = json.loads(content).items()
    return str(text)


def answers_belong_to_calls(entry: dict[str, Any]) -> bool:
    messages = entry["body"]["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answers = [message["tool_call_id"] for message in messages if "tool_call_id" in message]
    return calls == answers or not answers  # Ollama's have no ids


_CHANCE = {"id", "tool_call_id", "call_id", "request_id", "created_at", "encrypted_content"}


def bare(value: Any) -> Any:
    """The same without what is made up anew in each answer."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key not in _CHANCE}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def on(words: str, response: dict[str, Any], *, result: str | None = None, **more: Any) -> dict[str, Any]:
    """Answer so when these are the user's last words; with `result` when a result of a tool with it stands last."""
    match = {"hasToolResult": False} if result is None else {"toolResultContains": result}
    return {"match": {"userMessage": words, **match}, "response": response, **more}


# Dialogues


@dataclass(frozen=True)
class Dialogue:
    """What the mock answers with, what the user says turn by turn, and all that is said in the end."""

    fixtures: Callable[[Spoken], list[dict[str, Any]]]
    asks: tuple[str, ...]
    said: list[Told]


def call(city: str) -> tuple[str, dict[str, str]]:
    return "weather", {"city": city}


def _block(city: str) -> dict[str, Any]:
    name, arguments = call(city)
    return {"type": "toolCall", "name": name, "arguments": arguments, "id": "call_0"}


HARD = 'a\u2028b\u0085c\ufeffd "\\" {} \r\n\t</tool_call> 🌞'

DIALOGUES = {
    "one call, then an answer": Dialogue(
        lambda spoken: [
            on("How is Rome?", spoken.calls("Rome")),
            on("How is Rome?", {"content": "It is sunny in Rome.\nEnjoy it — “ciao” 🌞!"}, result="sunny in Rome"),
        ],
        ("How is Rome?",),
        [
            ("human", "How is Rome?"),
            ("ai", "", call("Rome")),
            ("tool", "sunny in Rome"),
            ("ai", "It is sunny in Rome.\nEnjoy it — “ciao” 🌞!"),
        ],
    ),
    "two calls at once, after a word": Dialogue(
        lambda spoken: [
            on("Rome and Oslo?", spoken.calls("Rome", "Oslo", content="Let me look at both.")),
            on("Rome and Oslo?", {"content": "Sunny in both."}, result="sunny in Oslo"),
        ],
        ("Rome and Oslo?",),
        [
            ("human", "Rome and Oslo?"),
            ("ai", "Let me look at both.", call("Rome"), call("Oslo")),
            ("tool", "sunny in Rome"),
            ("tool", "sunny in Oslo"),
            ("ai", "Sunny in both."),
        ],
    ),
    "two rounds of calls": Dialogue(
        lambda spoken: [
            on("The warmer one?", spoken.calls("Rome")),
            on("The warmer one?", spoken.calls("Oslo"), result="sunny in Rome"),
            on("The warmer one?", {"content": "Both alike."}, result="sunny in Oslo"),
        ],
        ("The warmer one?",),
        [
            ("human", "The warmer one?"),
            ("ai", "", call("Rome")),
            ("tool", "sunny in Rome"),
            ("ai", "", call("Oslo")),
            ("tool", "sunny in Oslo"),
            ("ai", "Both alike."),
        ],
    ),
    "a call before the words": Dialogue(
        lambda spoken: [
            on("How is Rome?", {"blocks": [_block("Rome"), {"type": "text", "text": "A moment."}], **spoken.fields}),
            on("How is Rome?", {"content": "Sunny."}, result="sunny in Rome"),
        ],
        ("How is Rome?",),
        [
            ("human", "How is Rome?"),
            ("ai", "A moment.", call("Rome")),
            ("tool", "sunny in Rome"),
            ("ai", "Sunny."),
        ],
    ),
    "what breaks lines and quotes": Dialogue(
        lambda spoken: [
            on("How is", spoken.calls(HARD, content=HARD)),
            on("How is", {"content": HARD}, result="sunny in a"),
        ],
        (f"How is {HARD}?",),
        [
            ("human", f"How is {HARD}?"),
            ("ai", HARD, call(HARD)),
            ("tool", f"sunny in {HARD}"),
            ("ai", HARD),
        ],
    ),
    "three turns of a user": Dialogue(
        lambda spoken: [
            on("I am Ada", {"content": "Hello, Ada."}),
            on("How is Rome?", spoken.calls("Rome")),
            on("How is Rome?", {"content": "Sunny."}, result="sunny in Rome"),
            on("Who am I?", {"content": "You are Ada."}),
        ],
        ("I am Ada.", "How is Rome?", "Who am I?"),
        [
            ("human", "I am Ada."),
            ("ai", "Hello, Ada."),
            ("human", "How is Rome?"),
            ("ai", "", call("Rome")),
            ("tool", "sunny in Rome"),
            ("ai", "Sunny."),
            ("human", "Who am I?"),
            ("ai", "You are Ada."),
        ],
    ),
}
