"""What langchain-core promises of every chat model, over all wire formats: batches, limits, callbacks, counts."""

import asyncio
import json
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.rate_limiters import BaseRateLimiter
from pydantic import BaseModel

from agentgraph.errors import ConfigurationError
from tests.models.formats import MADE, TAKEN, Format, Said, each_format
from tests.models.openai_asking import BOUND, STREAMING_WAYS, WAYS, Asking
from tests.wire_server import WireServer

EACH_WAY = pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
EACH_STREAM = pytest.mark.parametrize("way", STREAMING_WAYS, ids=[way.__name__ for way in STREAMING_WAYS])
USAGE = {"input_tokens": TAKEN, "output_tokens": MADE, "total_tokens": TAKEN + MADE}


def streams(way: Asking) -> bool:
    return "stream" in way.__name__


def counted(usage: Any) -> dict[str, int]:
    return {key: usage[key] for key in USAGE}


class City(BaseModel):
    """A city."""

    name: str


class Gate(BaseRateLimiter):
    """Notes when it is asked, and how many requests had gone out by then."""

    def __init__(self, server: WireServer) -> None:
        self.server = server
        self.seen: list[int] = []

    def acquire(self, *, blocking: bool = True) -> bool:
        assert blocking
        self.seen.append(len(self.server.requests))
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return self.acquire(blocking=blocking)


class Watching(BaseCallbackHandler):
    """Keeps what callbacks are told."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}
        self.tokens: list[Any] = []
        self.chunks: list[Any] = []

    def on_chat_model_start(self, *_: Any, metadata: dict[str, Any] | None = None, **__: Any) -> None:
        self.metadata = metadata or {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        self.tokens.append(token)
        self.chunks.append(chunk)


@each_format()
def test_a_batch_answers_each_in_its_place(server: WireServer, wire: Format) -> None:
    server.play(wire.play(Said(), False))
    model = wire.build(server)

    said = model.batch(["a", "b", "c"], {"max_concurrency": 2})
    asaid = asyncio.run(asyncio.wait_for(model.abatch(["a", "b", "c"], {"max_concurrency": 2}), BOUND))

    assert [one.text for one in (*said, *asaid)] == ["Hello"] * 6
    assert len(server.requests) == 6


@each_format()
def test_a_failure_of_a_batch_can_be_given_back_in_its_place(server: WireServer, wire: Format) -> None:
    server.play(wire.play(Said(), False), [b"HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\n{}"])

    said = wire.build(server).batch(["a", "b"], {"max_concurrency": 1}, return_exceptions=True)

    assert [type(one).__name__ for one in said] == ["AIMessage", "BadRequestError"]


@EACH_WAY
@each_format()
def test_a_rate_limiter_is_asked_before_each_request(server: WireServer, wire: Format, way: Asking) -> None:
    server.play(wire.play(Said(), streams(way)))
    gate = Gate(server)
    model = wire.build(server, rate_limiter=gate)

    said = [way(model, "Hi").text, way(model, "Hi").text]

    assert (said, gate.seen) == (["Hello", "Hello"], [0, 1])


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize("include_raw", [False, True])
@each_format()
def test_answers_come_in_the_form_of_a_schema(
    server: WireServer, wire: Format, method: str, *, include_raw: bool
) -> None:
    called = Said("", calls=({"name": "Rome"},), tool="City")
    server.play(wire.play(called if method == "function_calling" else Said(json.dumps({"name": "Rome"})), False))
    model = wire.build(server)
    asked = model.with_structured_output(City, method=method, include_raw=include_raw)
    if wire.name == "anthropic" and method == "json_mode":
        with pytest.raises(ConfigurationError, match="has no form in the Messages API"):
            asked.invoke("Which city?")
        return

    said: Any = asked.invoke("Which city?")

    assert (said["parsed"] if include_raw else said) == City(name="Rome")


@pytest.mark.filterwarnings("error")
@each_format()
def test_tokens_are_counted_without_a_tokenizer(server: WireServer, wire: Format) -> None:
    model = wire.build(server)

    counts = [model.get_num_tokens_from_messages([HumanMessage("word " * times)]) for times in (1, 100)]

    assert 1 <= counts[0] < 20
    assert 100 <= counts[1] <= 300
    assert model.get_num_tokens("") == 0
    assert server.requests == []


@EACH_WAY
@each_format()
def test_usage_is_counted_once(server: WireServer, wire: Format, way: Asking) -> None:
    server.play(wire.play(Said(), streams(way)))
    with get_usage_metadata_callback() as told:
        said = way(wire.build(server), "Hi")

    assert counted(said.usage_metadata) == USAGE
    assert [counted(usage) for usage in told.usage_metadata.values()] == [USAGE]


PROVIDERS = {"anthropic": "anthropic", "gemini": "google_genai", "ollama": "ollama"}


@EACH_WAY
@each_format()
def test_callbacks_are_told_whom_and_how_it_asks(server: WireServer, wire: Format, way: Asking) -> None:
    server.play(wire.play(Said(), streams(way)))
    watching = Watching()

    way(wire.build(server, temperature=0.5, max_tokens=99, callbacks=[watching]), "Hi")

    told = {key: watching.metadata.get(key) for key in ("ls_provider", "ls_model_name", "ls_temperature")}
    told |= {key: watching.metadata.get(key) for key in ("ls_model_type", "ls_max_tokens")}
    assert told == {
        "ls_provider": PROVIDERS.get(wire.name, "openai"),
        "ls_model_name": wire.model,
        "ls_temperature": 0.5,
        "ls_model_type": "chat",
        "ls_max_tokens": 99,
    }


@EACH_STREAM
@each_format()
def test_callbacks_are_told_of_each_piece_with_its_chunk(server: WireServer, wire: Format, way: Asking) -> None:
    server.play(wire.play(Said("Hello there"), True))
    watching = Watching()

    said = way(wire.build(server, callbacks=[watching]), "Hi")

    assert all(isinstance(chunk.message, AIMessageChunk) for chunk in watching.chunks)
    assert [chunk.message.content for chunk in watching.chunks] == watching.tokens
    assert "".join(chunk.message.text for chunk in watching.chunks) == said.text == "Hello there"


@each_format()
def test_a_model_that_streams_by_itself_gives_the_whole(server: WireServer, wire: Format) -> None:
    server.play(wire.play(Said("Hello there"), True))
    watching = Watching()

    said = wire.build(server, streaming=True, callbacks=[watching]).invoke("Hi")

    assert type(said) is AIMessage
    assert (said.text, counted(said.usage_metadata)) == ("Hello there", USAGE)
    assert len(watching.chunks) > 1
