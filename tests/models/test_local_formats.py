"""One real model behind three wire formats: what a server of its own making says, whole and streamed, is understood."""

import asyncio
from contextlib import aclosing
from importlib import import_module
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph import create_agent
from agentgraph.errors import AuthenticationError, ContextOverflowError, ModelNotFoundError
from agentgraph.models.local import ChatLocal
from agentgraph.structured_output import MissingStructuredOutputError, ToolStrategy
from tests.models.openai_asking import WAYS, Asking, add

pytestmark = pytest.mark.integration

FORMATS = {
    "chat/completions": ("openai", "ChatOpenAI"),
    "responses": ("openai_responses", "ChatOpenAIResponses"),
    "messages": ("anthropic", "ChatAnthropic"),
}
PROMPT = "Say hello in three words."
STORY = "Tell me a long story."
WINDOW = 4096


@pytest.fixture(params=FORMATS)
def speak(request: pytest.FixtureRequest, local_model: BaseChatModel) -> Any:
    """Make a chat model of one format that asks the local model's server."""
    assert isinstance(local_model, ChatLocal)
    module, name = FORMATS[request.param]
    made: dict[str, Any] = {"model": "smollm2", "base_url": local_model._server(), "api_key": local_model._key()}
    made |= {"temperature": 0, "max_retries": 0, "timeout": 600, "max_tokens": 40}
    kind = getattr(import_module(f"agentgraph.models.{module}"), name)
    return lambda **settings: kind(**made | settings)


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def ending(message: BaseMessage) -> str:
    """Why the answer ended, in the word that all formats have in common."""
    reason: str = message.response_metadata["finish_reason"]
    return reason


def test_an_answer_is_the_same_text_with_the_same_usage_in_every_way_of_asking(speak: Any) -> None:
    said = [way(speak(), PROMPT) for way in WAYS]
    usages: list[Any] = [getattr(one, "usage_metadata", None) for one in said]
    texts = {one.text for one in said}
    assert (len(texts), texts != {""}) == (1, True)
    assert [ending(one) for one in said] == ["stop"] * 4
    assert {one.response_metadata["model_name"] for one in said} == {"smollm2"}
    counted = {(one["input_tokens"], one["output_tokens"], one["total_tokens"]) for one in usages}
    ((prompt, answer, both),) = counted
    assert (min(prompt, answer) > 0, both) == (True, prompt + answer)


def test_all_formats_hear_the_same_words(local_model: BaseChatModel, speak: Any) -> None:
    assert speak().invoke(PROMPT).text == local_model.bind(max_tokens=40).invoke(PROMPT).text


def test_the_pieces_of_a_stream_come_one_by_one_and_the_last_says_so(speak: Any) -> None:
    chunks = [chunk for chunk in speak().stream(PROMPT) if isinstance(chunk, AIMessageChunk)]
    assert len([chunk for chunk in chunks if chunk.text]) > 3
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    assert [chunk.usage_metadata is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_an_answer_that_its_limit_cut_says_so(speak: Any, ask: Asking) -> None:
    message = ask(speak(max_tokens=5), STORY)
    assert isinstance(message, AIMessage)
    assert (ending(message), bool(message.text)) == ("length", True)
    assert message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == 5


def test_a_prompt_beyond_the_window_is_a_typed_error(speak: Any, ask: Asking) -> None:
    with pytest.raises(ContextOverflowError, match=str(WINDOW)) as caught:
        ask(speak(), "word " * 5000)
    assert (caught.value.status, caught.value.code) == (400, "exceed_context_size_error")
    assert (caught.value.retryable, caught.value.attempts) == (False, 1)


def test_a_wrong_key_is_told_without_showing_it(speak: Any, ask: Asking) -> None:
    with pytest.raises(AuthenticationError) as caught:
        ask(speak(api_key="wrong-key-0123456789"), PROMPT)
    assert (caught.value.status, caught.value.attempts, "wrong-key" in str(caught.value)) == (401, 1, False)


def test_a_path_that_is_not_there_is_told_with_the_url(speak: Any) -> None:
    model = speak()
    with pytest.raises(ModelNotFoundError, match="/nowhere/"):
        speak(base_url=model.base_url.removesuffix("/v1") + "/nowhere/v1").invoke(PROMPT)


async def test_a_stream_that_is_left_leaves_the_server_free(speak: Any) -> None:
    async with asyncio.timeout(60):
        async with aclosing(speak(max_tokens=WINDOW).astream(STORY)) as chunks:
            assert isinstance(await anext(chunks), AIMessageChunk)
        assert (await speak(max_tokens=4).ainvoke(PROMPT)).text


async def test_a_whole_call_that_is_cancelled_leaves_the_server_free(speak: Any) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(speak(max_tokens=WINDOW).ainvoke(STORY), 0.5)
        assert (await speak(max_tokens=4).ainvoke(PROMPT)).text


def test_a_conversation_with_calls_and_results_is_taken(speak: Any, ask: Asking) -> None:
    calls = [{"name": "add", "args": {"a": number, "b": 2}, "id": f"c{number}"} for number in (1, 2)]
    history = [
        SystemMessage("Be brief."),
        HumanMessage("What are 1+2 and 2+2?"),
        AIMessage("Let me see.", tool_calls=calls),
        ToolMessage("3", tool_call_id="c1"),
        ToolMessage("4", tool_call_id="c2", status="error"),
        HumanMessage([{"type": "text", "text": "Thanks. And now?"}]),
    ]
    assert ask(speak(max_tokens=6).bind_tools([add]), history).text


def test_an_answer_of_one_format_goes_on_in_every_other(speak: Any, local_model: BaseChatModel) -> None:
    first = speak(max_tokens=6).invoke(PROMPT)
    history = [HumanMessage(PROMPT), first, HumanMessage("And once more.")]
    assert local_model.bind(max_tokens=6).invoke(history).text
    assert speak(max_tokens=6).invoke([*history[:1], local_model.bind(max_tokens=6).invoke(PROMPT), history[2]]).text


def test_a_required_call_that_does_not_come_is_no_call(speak: Any, ask: Asking) -> None:
    message = ask(speak(max_tokens=16).bind_tools([add], tool_choice="any"), "What is 1 and 2?")
    assert isinstance(message, AIMessage)
    assert (message.tool_calls, message.invalid_tool_calls, bool(message.text)) == ([], [], True)


def test_an_agent_asks_again_for_a_call_that_it_needs_and_then_raises(speak: Any) -> None:
    schema = {"title": "City", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    agent = create_agent(speak(max_tokens=8), response_format=ToolStrategy(schema))
    with pytest.raises(MissingStructuredOutputError, match="City"):
        agent.invoke({"messages": "Name a city."})
