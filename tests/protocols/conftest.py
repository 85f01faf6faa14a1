"""The four ways to ask a chat model, so that no test of an answer sees only one."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.utils import message_chunk_to_message

HELLO: list[BaseMessage] = [HumanMessage("Hello.")]


async def whole(model: Any, messages: list[BaseMessage]) -> Any:
    return model.invoke(messages)


async def awaited(model: Any, messages: list[BaseMessage]) -> Any:
    return await model.ainvoke(messages)


async def streamed(model: Any, messages: list[BaseMessage]) -> Any:
    return added_up(list(model.stream(messages)))


async def astreamed(model: Any, messages: list[BaseMessage]) -> Any:
    return added_up([chunk async for chunk in model.astream(messages)])


def added_up(chunks: list[AIMessageChunk]) -> Any:
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    return message_chunk_to_message(chunks[0] + chunks[1:])


@pytest.fixture(params=[whole, awaited, streamed, astreamed])
def ask(request: pytest.FixtureRequest) -> Callable[..., Awaitable[AIMessage]]:
    """Ask a model in one of the four ways; the answer comes without its id, which is new in each run."""

    async def asked(model: Any, messages: list[BaseMessage] = HELLO) -> AIMessage:
        answer: AIMessage = await request.param(model, messages)
        return answer.model_copy(update={"id": None})

    return asked
