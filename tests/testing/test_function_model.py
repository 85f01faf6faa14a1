"""The function model answers by a function, sync or async, and streams by a generator of either kind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage

from agentgraph.errors import ConfigurationTypeError
from agentgraph.testing import FunctionModel, ProviderRejected, ai, tool_call

LIMIT = 10.0

Messages = list[BaseMessage]
Settings = dict[str, Any]


def echo(messages: Messages, settings: Settings) -> Any:
    return f"{messages[-1].content} {settings}"


async def aecho(messages: Messages, settings: Settings) -> Any:
    await asyncio.sleep(0)
    return echo(messages, settings)


def pieces(messages: Messages, settings: Settings) -> Iterator[Any]:
    yield f"{messages[-1].content}"
    yield AIMessageChunk(content=f" {settings}")


async def apieces(messages: Messages, settings: Settings) -> AsyncIterator[Any]:
    for piece in pieces(messages, settings):
        await asyncio.sleep(0)
        yield piece


def streamed(model: Any) -> list[Any]:
    return [chunk.content for chunk in model.stream("hi") if chunk.content]


def astreamed(model: Any) -> list[Any]:
    async def call() -> list[Any]:
        async with asyncio.timeout(LIMIT):
            return [chunk.content async for chunk in model.astream("hi") if chunk.content]

    return asyncio.run(call())


async def _under_a_running_loop(model: Any) -> list[Any]:
    return streamed(model)


@pytest.mark.parametrize("function", [echo, aecho])
def test_the_reply_is_what_the_function_says(function: Any) -> None:
    model = FunctionModel(function)
    assert model.invoke("hi").content == "hi {}"
    assert asyncio.run(model.ainvoke("hi")).content == "hi {}"
    assert model.bind(stop=["{"]).invoke("ho").content == "ho "
    assert streamed(model) == astreamed(model) == ["hi", " {}"]
    assert [request.messages[0].content for request in model.requests] == ["hi", "hi", "ho", "hi", "hi"]


@pytest.mark.parametrize("stream", [pieces, apieces])
def test_the_stream_is_what_the_generator_yields(stream: Any) -> None:
    model = FunctionModel(echo, stream=stream).model_copy()
    assert streamed(model) == ["hi", " {}"]
    assert astreamed(model) == ["hi", " {}"]
    assert asyncio.run(_under_a_running_loop(model)) == ["hi", " {}"]
    assert len(model.requests) == 3


def test_a_blocking_function_does_not_block_the_loop() -> None:
    free = threading.Event()

    def blocking(messages: Messages, settings: Settings) -> str:
        assert free.wait(LIMIT)
        return "done"

    async def run() -> Any:
        call = asyncio.create_task(FunctionModel(blocking).ainvoke("hi"))
        await asyncio.sleep(0)
        free.set()
        return (await asyncio.wait_for(call, LIMIT)).content

    assert asyncio.run(run()) == "done"


def test_an_error_of_the_generator_comes_after_its_pieces() -> None:
    def breaking(messages: Messages, settings: Settings) -> Iterator[str]:
        yield "one"
        raise ConnectionError("lost")

    came: list[Any] = []

    def read(model: FunctionModel) -> None:
        came.extend(chunk.content for chunk in model.stream("hi"))

    with pytest.raises(ConnectionError, match="lost"):
        read(FunctionModel(echo, stream=breaking))
    assert came == ["one"]


@pytest.mark.parametrize("stream", [None, pieces])
def test_a_broken_history_is_refused_in_every_way(stream: Any) -> None:
    model = FunctionModel(echo, stream=stream)
    broken = [HumanMessage("hi"), ai(tool_call("weather"))]
    with pytest.raises(ProviderRejected):
        model.invoke(broken)
    with pytest.raises(ProviderRejected):
        list(model.stream(broken))
    with pytest.raises(ProviderRejected):
        asyncio.run(model.ainvoke(broken))


@pytest.mark.parametrize("function", [None, "hi", lambda: "hi", lambda messages: "hi"])
def test_what_cannot_be_asked_like_a_model_is_refused_when_the_model_is_built(function: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match=r"give a function of two arguments, \(messages, settings\)"):
        FunctionModel(function)
    if function is not None:
        with pytest.raises(ConfigurationTypeError, match=r"give a function of two arguments, \(messages, settings\)"):
            FunctionModel(echo, stream=function)


@pytest.mark.parametrize("function", [lambda *given: "hi", lambda messages, settings, more=1: "hi", print, max])
def test_every_function_that_takes_the_two_will_do(function: Any) -> None:
    assert FunctionModel(function).function is function
