"""The chat model that speaks a protocol: bound, called whole and streamed, sync and async, and what servers refuse."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel

from agentgraph.protocols import JSONProtocol, ProtocolChatModel, ToolOffer, ToolSpec
from agentgraph.protocols.json import turn_schema
from agentgraph.testing import ScriptedModel

USAGE = UsageMetadata(input_tokens=7, output_tokens=5, total_tokens=12)
INTEGERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
ADD = {
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": INTEGERS, "required": ["a", "b"]},
}
NOW = {"name": "now", "description": "Tell the time.", "parameters": {"type": "object", "properties": {}}}
SPECS = (ToolSpec.of(ADD), ToolSpec.of(NOW))
CALL = '{"tool": "add", "args": {"a": 1, "b": 2}}'

Ask = Callable[..., Awaitable[AIMessage]]


def counted() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"call_{next(numbers)}"


def speaking(model: Any, tools: Any = (ADD, NOW), **settings: Any) -> Any:
    return ProtocolChatModel(model=model, protocol="json", new_call_id=counted()).bind_tools(tools, **settings)


def call(name: str, args: dict[str, Any], number: int = 1) -> Any:
    return {"name": name, "args": args, "id": f"call_{number}", "type": "tool_call"}


async def test_a_call_written_as_text_is_a_tool_call(ask: Ask) -> None:
    model = speaking(ScriptedModel(CALL, usage=USAGE))

    assert await ask(model) == AIMessage("", tool_calls=[call("add", {"a": 1, "b": 2})], usage_metadata=USAGE)


async def test_several_calls_have_ids_of_their_own(ask: Ask) -> None:
    model = speaking(ScriptedModel(f'Both. {{"calls": [{CALL}, {{"tool": "now", "args": {{}}}}]}}'))

    assert await ask(model) == AIMessage("Both.", tool_calls=[call("add", {"a": 1, "b": 2}), call("now", {}, 2)])


async def test_what_the_server_says_beside_the_text_is_kept(ask: Ask) -> None:
    reply = AIMessage(
        '<think>So.</think>{"final": "Good day to you."}',
        additional_kwargs={"refusal": "no"},
        response_metadata={"model_name": "small", "finish_reason": "stop"},
        usage_metadata=USAGE,
        id="chatcmpl-1",
    )

    assert await ask(speaking(ScriptedModel(reply))) == AIMessage(
        "Good day to you.",
        additional_kwargs={"refusal": "no", "reasoning_content": "So."},
        response_metadata={"model_name": "small", "finish_reason": "stop"},
        usage_metadata=USAGE,
    )


async def test_thinking_in_blocks_is_kept_apart(ask: Ask) -> None:
    reply = AIMessage([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": '{"final": "Yes."}'}])

    answer = await ask(speaking(ScriptedModel(reply)))

    assert answer == AIMessage("Yes.", additional_kwargs={"reasoning_content": "Hm."})


async def test_a_broken_call_is_invalid_in_the_whole_and_in_the_stream(ask: Ask) -> None:
    answer = await ask(speaking(ScriptedModel('{"tool": "add", "args": {"a": 1')))

    assert (answer.content, answer.tool_calls) == ("", [])
    closer = "]" if answer.additional_kwargs else ""  # only the chunks of a stream need it, and say so
    (call,) = answer.invalid_tool_calls
    assert (call["name"], call["args"], call["id"]) == ("add", '{"a": 1' + closer, "call_1")


class StreamingCallbacks(BaseCallbackHandler):
    """What a stream of an application hears of a model's run."""

    def __init__(self) -> None:
        self.starts = 0
        self.tokens: list[str] = []

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.starts += 1

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.tokens.append(token)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_broken_call_is_told_why_also_where_the_answer_was_streamed(streaming: bool) -> None:
    settings = {"stream": True} if streaming else {}
    models = [speaking(ScriptedModel('{"tool": "add", "args": [1]}')) for _ in range(2)]

    answers = [models[0].invoke("x", **settings), await models[1].ainvoke("x", **settings)]

    error = f"its arguments are a JSON list, not an object. {JSONProtocol.reminder}"
    for answer in answers:
        assert answer.additional_kwargs == {}
        assert [(call["args"], call["error"]) for call in answer.invalid_tool_calls] == [("[1]", error)]


def test_text_streams_as_it_comes_and_no_mark_of_the_protocol_is_heard() -> None:
    listener = StreamingCallbacks()
    model = speaking(ScriptedModel('{"final": "It is a fine day."}', CALL))

    texts = [chunk.content for chunk in model.stream("x", {"callbacks": [listener]})]
    calls = [c["args"] for chunk in model.stream("x", {"callbacks": [listener]}) for c in chunk.tool_call_chunks]

    assert [text for text in texts if text] == ["It", " is", " a", " fine", " day."]
    assert "".join(str(args) for args in calls) == '{"a": 1, "b": 2}'
    assert "".join(listener.tokens) == "It is a fine day."
    assert listener.starts == 2


async def test_usage_is_counted_once(ask: Ask) -> None:
    model = speaking(ScriptedModel(AIMessage(CALL, usage_metadata=USAGE, response_metadata={"model_name": "small"})))

    with get_usage_metadata_callback() as counter:
        await ask(model)

    assert counter.usage_metadata == {"small": USAGE}


def test_the_prompt_describes_the_tools_and_shows_them_in_use() -> None:
    inner = ScriptedModel('{"final": "Hi."}')

    speaking(inner).invoke([SystemMessage("Be kind."), HumanMessage("Hello.")])

    system, *turns = inner.requests[0].messages
    assert system.text.startswith("Be kind.\n\nWrite one JSON object")
    assert system.text.endswith(
        "Tools:\n- add(a: integer, b: integer): Add.\n- now(): Tell the time."
        "\n\nExamples come first, then the conversation."
    )
    assert [(message.type, message.content) for message in turns] == [
        ("human", "Add: 2, 5"),
        ("ai", '{"tool": "add", "args": {"a": 2, "b": 5}}'),
        ("human", '{"result_of": "add", "text": "RESULT 1"}'),
        ("ai", '{"final": "The answer is: RESULT 1"}'),
        ("human", "Hello!"),
        ("ai", '{"final": "Hello! How can I help you?"}'),
        ("human", "Tell the time."),
        ("ai", '{"tool": "now", "args": {}}'),
        ("human", '{"result_of": "now", "text": "RESULT 2"}'),
        ("ai", '{"final": "The answer is: RESULT 2"}'),
        ("human", "Hello."),
    ]


@pytest.mark.parametrize("tool_choice", ["any", "add"])
def test_where_a_call_is_required_no_answer_is_shown(tool_choice: str) -> None:
    inner = ScriptedModel('{"tool": "add", "args": {"a": 1, "b": 2}}')

    speaking(inner, tool_choice=tool_choice).invoke("Hello.")

    system, *turns = inner.requests[0].messages
    assert [text for text in map(str, [system, *turns]) if "final" in text or "answer" in text.lower()] == []
    assert [turn.type for turn in turns] == ["human", "ai"] * (len(turns) // 2) + ["human"]


def test_the_server_is_given_the_schema_of_a_turn_and_the_stop_words_of_the_caller() -> None:
    inner = ScriptedModel('{"final": "Hi."}')

    speaking(inner, temperature=0.5).invoke("Hello.", stop=["END"])

    assert inner.requests[0].settings == {
        "temperature": 0.5,
        "stop": ["END"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "turn", "schema": turn_schema(ToolOffer(SPECS))},
        },
    }


def test_examples_can_be_left_out() -> None:
    inner = ScriptedModel('{"final": "Hi."}')

    ProtocolChatModel(model=inner, protocol=JSONProtocol, examples=0).bind_tools([ADD]).invoke("Hello.")

    assert [message.type for message in inner.requests[0].messages] == ["system", "human"]
    assert "Examples" not in inner.requests[0].messages[0].text


def test_a_system_message_of_parts_keeps_its_parts() -> None:
    inner = ScriptedModel('{"final": "Hi."}')

    speaking(inner).invoke([SystemMessage([{"type": "text", "text": "Be kind."}]), HumanMessage("Hello.")])

    content = inner.requests[0].messages[0].content
    assert content[0] == {"type": "text", "text": "Be kind."}
    assert len(content) == 2


@pytest.mark.parametrize("system", [[], [SystemMessage("")]])
def test_the_prompt_stands_alone_where_there_is_no_system_message(system: list[BaseMessage]) -> None:
    inner = ScriptedModel('{"final": "Hi."}')

    speaking(inner).invoke([*system, HumanMessage("Hello.")])

    assert inner.requests[0].messages[0].text.startswith("Write one JSON object")


class City(BaseModel):
    """A city."""

    name: str


def test_structured_output_works_by_the_protocol() -> None:
    model = ProtocolChatModel(model=ScriptedModel('{"tool": "City", "args": {"name": "Oslo"}}'), protocol="json")

    assert model.with_structured_output(City).invoke("Which?") == City(name="Oslo")
