"""The ways of asking a chat model, and what a compatible server says, for the tests of ChatOpenAI."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, message_chunk_to_message
from langchain_core.tools import tool

from agentgraph.models.openai import ChatOpenAI
from tests.wire_server import Step, WireServer, answer, streamed

Asking = Callable[..., AIMessage]

BOUND = 20.0


def invoke(model: Any, prompt: Any) -> BaseMessage:
    message: BaseMessage = model.invoke(prompt)
    return message


def ainvoke(model: Any, prompt: Any) -> BaseMessage:
    message: BaseMessage = asyncio.run(asyncio.wait_for(model.ainvoke(prompt), BOUND))
    return message


def stream(model: Any, prompt: Any) -> BaseMessage:
    total = None
    for chunk in model.stream(prompt):
        total = chunk if total is None else total + chunk
    return message_chunk_to_message(total)


async def _added(chunks: AsyncIterator[Any]) -> BaseMessage:
    total = None
    async for chunk in chunks:
        total = chunk if total is None else total + chunk
    return message_chunk_to_message(total)


def astream(model: Any, prompt: Any) -> BaseMessage:
    return asyncio.run(asyncio.wait_for(_added(model.astream(prompt)), BOUND))


WAYS = [invoke, ainvoke, stream, astream]
STREAMING_WAYS = [stream, astream]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def event(*, finish_reason: str | None = None, **delta: Any) -> bytes:
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}
    return f"data: {json.dumps(body)}\n\n".encode()


def document(text: str = "Hello") -> list[Step]:
    body = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
    return answer(200, json.dumps(body).encode(), x_request_id="req_1")


def sse(text: str = "Hello") -> list[Step]:
    return streamed(event(content=text), event(finish_reason="stop"), b"data: [DONE]\n\n", x_request_id="req_1")


def played(way: Asking, text: str = "Hello") -> list[Step]:
    return sse(text) if "stream" in way.__name__ else document(text)


def refusal(text: str, status: int = 400) -> list[Step]:
    return answer(status, json.dumps({"error": {"message": text, "type": "invalid_request_error"}}).encode())


def local(server: WireServer, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=server.url, **{"max_retries": 0, **settings})


def bodies(server: WireServer) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in server.requests]
