"""Our chat models before a judge of other people's making: servers that fail on cue, and a verdict on how it is borne.

The judge sees every attempt and its time: whether a wait that was asked for is kept, whether what cannot succeed is
sent again, whether half a stream is taken for a whole one.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from llmock.pytest_plugin import LLMock

from agentgraph import create_agent
from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    TruncatedStreamError,
)
from tests.models.openai_asking import STREAMING_WAYS, WAYS, Asking, add

WAIT = 0.2  # seconds; the judge forgives 0.06 of it
TEXT = "The report is about ducks, geese and the pond that they share with one heron."


@dataclass(frozen=True)
class Spoken:
    """A wire format of ours, and the judge's name for whom it is spoken with."""

    module: str
    name: str
    provider: str
    model: str

    def connected(self, llmock: LLMock, **settings: Any) -> Any:
        kind = getattr(import_module(f"agentgraph.models.{self.module}"), self.name)
        return kind(model=self.model, base_url=llmock.base_url(self.provider), api_key="a-key-0123456789", **settings)


FORMATS = [
    Spoken("openai", "ChatOpenAI", "openai", "gpt-4o"),
    Spoken("openai_responses", "ChatOpenAIResponses", "openai", "gpt-4o"),
    Spoken("anthropic", "ChatAnthropic", "anthropic", "claude-sonnet-4-5"),
    Spoken("gemini", "ChatGemini", "gemini", "gemini-2.5-flash"),
]


@pytest.fixture(
    params=[one for one in FORMATS if find_spec(f"agentgraph.models.{one.module}")], ids=lambda one: one.name
)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    one: Spoken = request.param
    return one


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(params=STREAMING_WAYS, ids=lambda way: way.__name__)
def ask_streaming(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


def attempts(llmock: LLMock) -> list[int]:
    return [record.status for record in llmock.requests]


def test_an_answer_without_faults_is_the_one_that_was_written(llmock: LLMock, spoken: Spoken, ask: Asking) -> None:
    llmock.reply(TEXT)
    message = ask(spoken.connected(llmock), "Report!")
    assert (message.text, message.usage_metadata is not None) == (TEXT, True)
    llmock.assert_resilient(strict=True)


def test_a_wait_that_the_server_asks_for_is_kept(llmock: LLMock, spoken: Spoken, ask: Asking) -> None:
    llmock.rate_limit(times=2, retry_after=WAIT).reply(TEXT)
    assert ask(spoken.connected(llmock), "Report!").text == TEXT
    assert attempts(llmock) == [429, 429, 200]
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [500, 529])
def test_a_server_that_fails_is_asked_again_after_growing_waits(llmock: LLMock, spoken: Spoken, status: int) -> None:
    llmock.fail(status, times=2).reply(TEXT)
    assert spoken.connected(llmock).invoke("Report!").text == TEXT
    assert attempts(llmock) == [status, status, 200]
    llmock.assert_resilient(strict=True)


def test_an_outage_is_given_up_after_a_bounded_number_of_attempts(llmock: LLMock, spoken: Spoken) -> None:
    llmock.outage()
    with pytest.raises(OverloadedError) as caught:
        spoken.connected(llmock).invoke("Report!")
    assert (attempts(llmock), caught.value.attempts) == ([503] * 3, 3)
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize(("status", "kind"), [(400, BadRequestError), (401, AuthenticationError)])
def test_what_cannot_succeed_is_not_sent_again(
    llmock: LLMock, spoken: Spoken, ask: Asking, status: int, kind: type[ModelError]
) -> None:
    llmock.fail(status)
    with pytest.raises(kind) as caught:
        ask(spoken.connected(llmock), "Report!")
    assert (attempts(llmock), caught.value.retryable) == ([status], False)
    llmock.assert_resilient(strict=True)


def test_a_prompt_that_is_too_long_is_told_as_that(llmock: LLMock, spoken: Spoken, ask: Asking) -> None:
    llmock.context_overflow()
    with pytest.raises(ContextOverflowError):
        ask(spoken.connected(llmock), "Report!")
    assert attempts(llmock) == [400]
    llmock.assert_resilient(strict=True)


def test_a_quota_of_requests_is_waited_for_as_long_as_it_says(llmock: LLMock, spoken: Spoken) -> None:
    llmock.limits(rpm=1)
    model = spoken.connected(llmock, max_retries=0)
    model.invoke("Report!")
    with pytest.raises(RateLimitError) as caught:
        model.invoke("Once more!")
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 1


# Streams that break


FAULTS: Mapping[str, tuple[Callable[[LLMock], Any], tuple[type[ModelError], ...]]] = {
    "truncated": (lambda llmock: llmock.truncate(after_chunks=5), (TruncatedStreamError,)),
    "dropped": (lambda llmock: llmock.disconnect(after_chunks=5), (TruncatedStreamError,)),
    # At a pace at which the server has something left to say when it is left: the judge looks at that.
    "corrupt": (lambda llmock: llmock.pace(30).corrupt(after_chunks=5), (InvalidResponseError,)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_that_breaks_is_a_typed_error_and_can_be_asked_for_again(
    llmock: LLMock, spoken: Spoken, ask_streaming: Asking, fault: str
) -> None:
    break_it, kinds = FAULTS[fault]
    break_it(llmock.reply(TEXT, times=2))
    model = spoken.connected(llmock)
    with pytest.raises(kinds) as caught:
        ask_streaming(model, "Report!")
    if isinstance(caught.value, TruncatedStreamError):
        assert caught.value.retryable
        assert TEXT.startswith(caught.value.partial.text)
    # Read while an attempt is under way, they wait for its end: a second one before that is no retry to the judge.
    assert len(attempts(llmock)) == 1
    assert ask_streaming(model, "Report!").text == TEXT
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("fault", FAULTS)
def test_no_call_of_a_stream_that_breaks_is_run(
    llmock: LLMock, spoken: Spoken, ask_streaming: Asking, fault: str
) -> None:
    break_it, kinds = FAULTS[fault]
    break_it(llmock.call_tool("add", {"a": 1, "b": 2}, text=TEXT))
    with pytest.raises(kinds) as caught:
        ask_streaming(spoken.connected(llmock).bind_tools([add]), "Report!")
    partial = getattr(caught.value, "partial", None)
    assert partial is None or partial.tool_calls == []


def test_a_stream_that_falls_silent_is_left(llmock: LLMock, spoken: Spoken, ask_streaming: Asking) -> None:
    llmock.reply(TEXT, times=2).stall(after_chunks=5, seconds=20)
    model = spoken.connected(llmock, timeout=0.5, max_retries=0)
    with pytest.raises(ModelTimeoutError):
        ask_streaming(model, "Report!")
    assert len(attempts(llmock)) == 1
    assert ask_streaming(model, "Report!").text == TEXT
    llmock.assert_resilient(strict=True)


# Tools


def test_an_agent_calls_its_tools_through_faults(llmock: LLMock, spoken: Spoken) -> None:
    llmock.rate_limit(times=1, retry_after=WAIT).call_tool("add", {"a": 1, "b": 2})
    agent = create_agent(spoken.connected(llmock), [add])
    messages = asyncio.run(agent.ainvoke({"messages": "What is 1 and 2?"}))["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[2].content == "3"
    llmock.assert_resilient(strict=True)


def test_arguments_that_are_no_json_become_an_invalid_call(llmock: LLMock, ask: Asking) -> None:
    llmock.break_tool_call("malformed_arguments")
    message = ask(FORMATS[0].connected(llmock).bind_tools([add]), "Please add!")
    assert isinstance(message, AIMessage)
    assert (message.tool_calls, len(message.invalid_tool_calls)) == ([], 1)
