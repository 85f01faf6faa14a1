"""What servers refuse of a text protocol's settings, and what is done then."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langgraph.errors import GraphInterrupt

from agentgraph.errors import BadRequestError, ContextOverflowError, RateLimitError, TruncatedStreamError
from agentgraph.protocols import ProtocolChatModel
from agentgraph.testing import FunctionModel, ScriptedModel

INTEGERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
ADD = {
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": INTEGERS, "required": ["a", "b"]},
}
NOW = {"name": "now", "description": "Tell the time.", "parameters": {"type": "object", "properties": {}}}
CALL = '{"tool": "add", "args": {"a": 1, "b": 2}}'

Ask = Callable[..., Awaitable[AIMessage]]


def speaking(model: Any, tools: Any = (ADD, NOW), **settings: Any) -> Any:
    return ProtocolChatModel(model=model, protocol="json", new_call_id=lambda: "call_1").bind_tools(tools, **settings)


class RefusalError(Exception):
    def __init__(self, **fields: int) -> None:
        super().__init__("refused")
        self.__dict__.update(fields)


REFUSALS = [
    BadRequestError("response_format is not supported", status=400),
    RefusalError(status_code=400),
    RefusalError(status=422),
    TypeError("create() got an unexpected keyword argument 'response_format'"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=[type(one).__name__ for one in REFUSALS])
async def test_a_server_that_refuses_the_schema_is_asked_without_from_then_on(ask: Ask, refusal: Exception) -> None:
    inner = ScriptedModel(refusal, CALL, '{"final": "3"}')
    model = ProtocolChatModel(model=inner, protocol="json")
    first, second = model.bind_tools([ADD]), model.bind_tools([NOW])

    assert (await ask(first)).tool_calls[0]["args"] == {"a": 1, "b": 2}
    assert (await ask(second)).content == "3"
    assert ["response_format" in request.settings for request in inner.requests] == [True, False, False]


FAILURES = [
    GraphInterrupt(()),
    ContextOverflowError("too long", status=400),
    RateLimitError("slow down", status=429),
    RefusalError(status_code=500),
    TypeError("something else"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=[type(one).__name__ for one in FAILURES])
async def test_every_other_failure_is_passed_on_at_once(ask: Ask, failure: Exception) -> None:
    inner = ScriptedModel(failure)

    with pytest.raises(type(failure)) as caught:
        await ask(speaking(inner))

    assert caught.value is failure
    assert len(inner.requests) == 1


def test_a_server_that_refuses_without_the_schema_too_is_asked_with_it_again() -> None:
    inner = ScriptedModel(RefusalError(status=400), RefusalError(status=400), CALL)
    model = speaking(inner)

    with pytest.raises(RefusalError):
        model.invoke("x")
    model.invoke("x")

    assert ["response_format" in request.settings for request in inner.requests] == [True, False, True]


def test_a_stream_that_breaks_off_is_not_begun_again() -> None:
    def pieces(messages: list[BaseMessage], settings: dict[str, Any]) -> Iterator[str]:
        yield '{"final": "It '
        raise RefusalError(status=400)

    inner = FunctionModel(lambda messages, settings: "", stream=pieces)
    stream = speaking(inner).stream("x")

    assert next(stream).content == "It "
    with pytest.raises(RefusalError):
        list(stream)
    assert len(inner.requests) == 1


@pytest.mark.parametrize("streaming", ["stream", "astream"])
async def test_what_came_before_a_break_is_told_as_it_was_read(streaming: str) -> None:
    def pieces(messages: list[BaseMessage], settings: dict[str, Any]) -> Iterator[str]:
        yield from ('So: {"calls": [', CALL, ', {"tool": "add", "args": {"a": 3')
        raise TruncatedStreamError("broken off", partial=AIMessageChunk(content="raw"))

    model = speaking(FunctionModel(lambda messages, settings: "", stream=pieces))
    with pytest.raises(TruncatedStreamError) as caught:
        list(model.stream("x")) if streaming == "stream" else [chunk async for chunk in model.astream("x")]

    partial = caught.value.partial
    assert (partial.content, [call["args"] for call in partial.tool_calls]) == ("So:", [{"a": 1, "b": 2}])
    assert partial.invalid_tool_calls == []
