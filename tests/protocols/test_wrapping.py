"""The protocol model where no tools are offered, around models of every kind, and what it says of itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableGenerator

from agentgraph.errors import ConfigurationError
from agentgraph.models.openai import ChatOpenAI
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


def call(name: str, args: dict[str, Any]) -> Any:
    return {"name": name, "args": args, "id": "call_1", "type": "tool_call"}


async def test_without_tools_everything_passes_as_it_is(ask: Ask) -> None:
    inner = ScriptedModel('<think>x</think>{"tool": "add"}', profile={"structured_output": True})
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    model = ProtocolChatModel(model=inner, protocol="json").bind(response_format=schema)

    assert await ask(model) == AIMessage('<think>x</think>{"tool": "add"}')
    assert inner.requests[0].messages == [HumanMessage("Hello.")]
    assert inner.requests[0].settings == {"response_format": schema}


async def test_where_no_tool_may_be_called_earlier_calls_are_still_text(ask: Ask) -> None:
    inner = ScriptedModel("Fine.")
    history: list[BaseMessage] = [
        HumanMessage("Add."),
        AIMessage("", tool_calls=[call("add", {"a": 1})]),
        ToolMessage("3", tool_call_id="call_1"),
        AIMessage("It is 3."),
        HumanMessage("Thanks."),
    ]

    assert await ask(speaking(inner, tool_choice="none"), history) == AIMessage("Fine.")
    assert [message.content for message in inner.requests[0].messages] == [
        "Add.",
        '{"tool": "add", "args": {"a": 1}}',
        '{"result_of": "add", "text": "3"}',
        "It is 3.",
        "Thanks.",
    ]
    assert inner.requests[0].settings == {}


async def test_a_model_that_cannot_stream_is_read_all_the_same(ask: Ask) -> None:
    silent = ScriptedModel(CALL, "Hi.", disable_streaming=True)

    assert (await ask(speaking(silent))).tool_calls == [call("add", {"a": 1, "b": 2})]
    assert (await ask(ProtocolChatModel(model=silent, protocol="json"))).content == "Hi."


SCHEMA = {"type": "json_schema", "json_schema": {}}


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.bind_tools([ADD], response_format=SCHEMA),
        lambda model: model.bind_tools([ADD]).invoke("x", response_format=SCHEMA),
    ],
)
def test_a_response_format_together_with_tools_names_the_other_strategy(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"Use ToolStrategy\(schema\)"):
        ask(ProtocolChatModel(model=ScriptedModel(), protocol="json"))


class Ended:
    """A stream of a server that tells when its reader has left."""

    def __init__(self) -> None:
        self.begun, self.left = asyncio.Event(), False

    def pieces(self, messages: list[BaseMessage], settings: dict[str, Any]) -> Iterator[str]:
        try:
            yield from ['{"final": "one', " two", " three", '"}']
        finally:
            self.left = True

    async def endless(self, messages: list[BaseMessage], settings: dict[str, Any]) -> AsyncIterator[str]:
        try:
            yield '{"final": "one'
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            self.left = True


def test_a_stream_that_nobody_reads_on_leaves_the_server() -> None:
    server = Ended()
    stream = speaking(FunctionModel(lambda messages, settings: "", stream=server.pieces)).stream("x")

    assert next(stream).content == "one"
    stream.close()

    assert server.left


async def test_a_cancelled_stream_leaves_the_server() -> None:
    server = Ended()
    model = speaking(FunctionModel(lambda messages, settings: "", stream=server.endless))

    async def read() -> list[Any]:
        return [chunk async for chunk in model.astream("x")]

    reading = asyncio.ensure_future(read())
    await asyncio.wait_for(server.begun.wait(), 10)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading, 10)

    assert server.left


async def test_a_stream_of_nothing_is_an_empty_answer() -> None:
    def nothing(messages: Iterator[Any]) -> Iterator[AIMessage]:
        yield from ()

    async def anothing(messages: AsyncIterator[Any]) -> AsyncIterator[AIMessage]:
        for message in nothing(iter(())):
            yield message

    model = speaking(RunnableGenerator(nothing, anothing))

    assert [chunk.content for chunk in model.stream("x")] == [""]
    assert [chunk.content async for chunk in model.astream("x")] == [""]


def test_a_wrapped_model_may_have_settings_and_fallbacks_bound_around_it() -> None:
    inner = ScriptedModel(RuntimeError("down"), profile={"max_input_tokens": 4096, "tool_calling": False})
    wrapped = inner.with_fallbacks([ScriptedModel(CALL)]).with_config(tags=["x"])
    model = ProtocolChatModel(model=wrapped, protocol="json")

    assert model.bind_tools([ADD]).invoke("1 + 2").tool_calls[0]["name"] == "add"
    assert model.profile == {"max_input_tokens": 4096, "tool_calling": True, "structured_output": False}


def test_it_counts_tokens_and_is_traced_as_the_wrapped_model() -> None:
    class Counting(FakeListChatModel):
        model: str = "small"

        def get_token_ids(self, text: str) -> list[int]:
            return [len(text)]

    model = ProtocolChatModel(model=Counting(responses=[]), protocol="json")

    assert model.get_num_tokens("abc") == 1
    assert model._get_ls_params()["ls_model_name"] == "small"
    assert model._llm_type == "agentgraph-json-protocol"
    assert model._identifying_params == {"protocol": "json", "model": "fake-list-chat-model"}


def test_a_model_that_is_not_known_yet_can_be_wrapped() -> None:
    model = ProtocolChatModel(model=ScriptedModel(CALL) | (lambda message: message), protocol="json")

    assert model.profile == {"tool_calling": True, "structured_output": False}
    assert model._identifying_params == {"protocol": "json", "model": "RunnableSequence"}
    assert model._get_ls_params()["ls_model_type"] == "chat"
    assert model.bind_tools([ADD]).invoke("1 + 2").tool_calls[0]["args"] == {"a": 1, "b": 2}


def test_a_profile_with_a_key_of_our_own_is_taken_over_without_it() -> None:
    inner = ChatOpenAI(model="m", profile={"tool_calls_in_text": True, "max_input_tokens": 9})
    model = ProtocolChatModel(model=inner, protocol="json")
    assert model.profile == {"max_input_tokens": 9, "tool_calling": True, "structured_output": False}
