"""The scripted model plays its replies in every way of calling, and records the requests."""

import asyncio
import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import tool
from pydantic import BaseModel

from agentgraph.errors import ConfigurationTypeError
from agentgraph.testing import (
    Gate,
    ProviderRejected,
    Request,
    ScriptedModel,
    ScriptExhausted,
    ai,
    answer,
    cut,
    invalid_call,
    tool_call,
)

LIMIT = 10.0


def _join(chunks: list[Any]) -> AIMessage:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert isinstance(whole, AIMessageChunk)
    return AIMessage(
        content=whole.content,
        tool_calls=whole.tool_calls,
        invalid_tool_calls=whole.invalid_tool_calls,
        usage_metadata=whole.usage_metadata,
        response_metadata=whole.response_metadata,
    )


def invoke(model: Any, messages: Any = "hi") -> AIMessage:
    reply = model.invoke(messages)
    assert type(reply) is AIMessage
    return reply


def ainvoke(model: Any, messages: Any = "hi") -> AIMessage:
    async def call() -> AIMessage:
        reply = await asyncio.wait_for(model.ainvoke(messages), LIMIT)
        assert type(reply) is AIMessage
        return reply

    return asyncio.run(call())


def stream(model: Any, messages: Any = "hi") -> AIMessage:
    return _join(list(model.stream(messages)))


def astream(model: Any, messages: Any = "hi") -> AIMessage:
    async def call() -> AIMessage:
        async with asyncio.timeout(LIMIT):
            return _join([chunk async for chunk in model.astream(messages)])

    return asyncio.run(call())


Way = Callable[..., AIMessage]
ways = pytest.mark.parametrize("way", [invoke, ainvoke, stream, astream])


def said(message: AIMessage) -> tuple[Any, ...]:
    return message.content, message.tool_calls, message.invalid_tool_calls, message.usage_metadata


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


async def _async_reply(messages: list[BaseMessage], settings: dict[str, Any]) -> str:
    await asyncio.sleep(0)
    return f"{len(messages)} {settings}"


USAGE = UsageMetadata(input_tokens=3, output_tokens=2, total_tokens=5)
ROME = tool_call("weather", city="Rome")
BLOCKS: list[str | dict[Any, Any]] = [
    {"type": "reasoning", "reasoning": "hm"},
    {"type": "text", "text": "It is sunny."},
]


@ways
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param("It is  sunny.\n", AIMessage("It is  sunny.\n"), id="text"),
        pytest.param("   ", AIMessage("   "), id="blank text"),
        pytest.param("", AIMessage(""), id="no text"),
        pytest.param(AIMessage(BLOCKS), AIMessage(BLOCKS), id="content blocks"),
        pytest.param(ROME, AIMessage("", tool_calls=[ROME]), id="one call"),
        pytest.param([ROME, tool_call("now")], AIMessage("", tool_calls=[ROME, tool_call("now")]), id="two calls"),
        pytest.param(
            tool_call("a", {"name": "é", "id": None}, id="x"),
            AIMessage("", tool_calls=[tool_call("a", {"name": "é", "id": None}, id="x")]),
            id="arguments of any name",
        ),
        pytest.param(
            tool_call("a", id=None), AIMessage("", tool_calls=[tool_call("a", id=None)]), id="call without id"
        ),
        pytest.param(
            ai(ROME, invalid_call("pay"), text="Both."),
            AIMessage("Both.", tool_calls=[ROME], invalid_tool_calls=[invalid_call("pay")]),
            id="unreadable call",
        ),
        pytest.param(AIMessage("x", usage_metadata=USAGE), AIMessage("x", usage_metadata=USAGE), id="usage"),
        pytest.param(lambda messages, settings: messages[-1].content, AIMessage("hi"), id="function"),
        pytest.param(_async_reply, AIMessage("1 {}"), id="async function"),
        pytest.param(lambda messages, settings: _async_reply, AIMessage("1 {}"), id="function of a function"),
    ],
)
def test_a_reply_is_the_same_whole_and_streamed(way: Way, reply: Any, expected: AIMessage) -> None:
    assert said(way(ScriptedModel(reply))) == said(expected)


@ways
@pytest.mark.parametrize("error", [ValueError("broken"), TimeoutError, KeyboardInterrupt])
def test_an_exception_in_the_script_is_raised(way: Way, error: Any) -> None:
    kind = error if isinstance(error, type) else type(error)
    model = ScriptedModel(error, "after")
    with pytest.raises(kind):
        way(model)
    assert way(model).content == "after"


def test_a_stream_comes_word_by_word_and_calls_in_pieces_with_an_index() -> None:
    chunks: list[Any] = list(ScriptedModel([ROME, tool_call("now")]).stream("hi"))
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    assert [piece["index"] for piece in pieces] == [0, 0, 0, 0, 1, 1, 1]
    assert [piece["name"] for piece in pieces if piece["name"]] == ["weather", "now"]
    assert [chunk.chunk_position for chunk in chunks] == [None] * 7 + ["last"]
    assert [chunk.content for chunk in ScriptedModel("one two").stream("hi")] == ["one", " two", ""]


@pytest.mark.parametrize("args", ['{"city": "Par', "{", '{"city": "a\\', "", "[1]", "no json", '{"a": 1', '{"a": ["'])
def test_an_unreadable_call_stays_unreadable_when_streamed(args: str) -> None:
    streamed = stream(ScriptedModel(ai(invalid_call("weather", args, id="x"))))
    assert streamed.tool_calls == []
    assert [call["id"] for call in streamed.invalid_tool_calls] == ["x"]
    assert (streamed.invalid_tool_calls[0]["args"] or "").startswith(args)


@ways
def test_usage_of_the_model_is_reported_with_every_reply_that_has_none(way: Way) -> None:
    own = UsageMetadata(input_tokens=1, output_tokens=1, total_tokens=2)
    model = ScriptedModel("a", AIMessage("b", usage_metadata=own), usage=USAGE)
    assert [way(model).usage_metadata, way(model).usage_metadata] == [USAGE, own]


@ways
def test_response_metadata_of_a_reply_arrives(way: Way) -> None:
    model = ScriptedModel(AIMessage("x", response_metadata={"finish_reason": "length"}))
    assert way(model).response_metadata["finish_reason"] == "length"


@ways
def test_text_ends_before_a_stop_word(way: Way) -> None:
    model = ScriptedModel("Action: look\nObservation: made up")
    assert way(model.bind(stop=["\nObservation:", "never"])).content == "Action: look"
    assert model.requests[0].settings == {"stop": ["\nObservation:", "never"]}


@ways
def test_a_script_that_is_over_says_so(way: Way) -> None:
    model = ScriptedModel("only one")
    way(model)
    with pytest.raises(ScriptExhausted, match=r"call 2 of a scripted model that has 1 replies"):
        way(model)
    assert len(model.requests) == 2


@pytest.mark.parametrize(("repeat_last", "calls"), [(0, 2), (1, 3), (3, 5)])
def test_the_last_reply_is_repeated_as_often_as_allowed(repeat_last: int, calls: int) -> None:
    model = ScriptedModel("a", "b", repeat_last=repeat_last)
    assert [invoke(model).content for _ in range(calls)] == ["a", *["b"] * (calls - 1)]
    with pytest.raises(ScriptExhausted):
        invoke(model)


def test_the_last_reply_is_repeated_for_ever_if_so_asked() -> None:
    model = ScriptedModel(AIMessage("a", id="mine"), repeat_last=True)
    ids = [invoke(model).id for _ in range(5)]
    assert ids[0] == "mine"
    assert len(set(ids)) == 5
    with pytest.raises(ScriptExhausted):
        invoke(ScriptedModel(repeat_last=True))


def test_what_was_not_played_is_told() -> None:
    model = ScriptedModel("a", replies=["b"])
    invoke(model)
    assert model.remaining == 1
    with pytest.raises(ScriptExhausted, match="2 replies and the model was asked for 1"):
        model.assert_played()
    invoke(model)
    model.assert_played()
    with pytest.raises(ScriptExhausted):
        invoke(model)
    with pytest.raises(ScriptExhausted, match="2 replies and the model was asked for 3"):
        model.assert_played()


@pytest.mark.parametrize("reply", [None, 7, ["a", "b"], {"name": "x"}, HumanMessage("hi"), [HumanMessage("hi")]])
def test_what_is_no_reply_is_refused_when_the_script_is_written(reply: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match="is no reply of a model"):
        ScriptedModel(reply)
    with pytest.raises(ConfigurationTypeError, match="is no reply of a model"):
        ScriptedModel(cut(reply, ValueError()))
    with pytest.raises(ConfigurationTypeError, match="is no reply of a model"):
        invoke(ScriptedModel(lambda messages, settings: reply))


@pytest.mark.parametrize("reply", [lambda: "hi", lambda messages: "hi", lambda messages, settings, more: "hi"])
def test_a_function_of_other_arguments_is_refused_when_the_script_is_written(reply: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match=r"give a function of two arguments, \(messages, settings\)"):
        ScriptedModel(reply)
    with pytest.raises(ConfigurationTypeError, match=r"give a function of two arguments, \(messages, settings\)"):
        ScriptedModel("hello", Gate().hold(reply))


def test_derived_ids_of_equal_calls_are_told_apart_and_chosen_ids_are_kept() -> None:
    model = ScriptedModel([ROME, ROME], ROME, [tool_call("a", id="same"), tool_call("a", id="same")])
    ids = [[call["id"] for call in invoke(model).tool_calls] for _ in range(3)]
    stem = ROME["id"]
    assert ids == [[stem, f"{stem}_2"], [f"{stem}_3"], ["same", "same"]]


def test_a_derived_id_does_not_repeat_one_of_the_history() -> None:
    history = [HumanMessage("hi"), ai(ROME), answer(ROME, "sunny")]
    assert invoke(ScriptedModel(ROME), history).tool_calls[0]["id"] == f"{ROME['id']}_2"


def test_a_reply_is_not_changed_by_who_receives_it() -> None:
    reply = ai(ROME)
    model = ScriptedModel(reply, repeat_last=True)
    invoke(model).tool_calls[0]["args"]["city"] = "changed"
    assert invoke(model).tool_calls[0]["args"] == {"city": "Rome"}
    assert reply.tool_calls[0]["args"] == {"city": "Rome"}


@ways
def test_requests_are_recorded_as_they_were_sent(way: Way) -> None:
    model = ScriptedModel("a")
    message = HumanMessage("hi")
    way(model.bind_tools([weather, {"type": "web_search"}], tool_choice="weather", temperature=0.5), [message])
    message.content = "changed later"
    assert model.binds == 1
    (request,) = model.requests
    assert isinstance(request, Request)
    assert [m.content for m in request.messages] == ["hi"]
    assert (request.tools, request.tool_choice) == (["weather", "web_search"], "weather")
    assert request.settings == {"temperature": 0.5}
    assert request.tool_schemas[0]["function"]["parameters"]["required"] == ["city"]


@pytest.mark.parametrize(
    ("tool_like", "name", "schema"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search", None),
        ({"type": "web_search"}, "web_search", None),
        ({"google_search": {}}, "google_search", None),
        (
            {"title": "Find", "description": "d", "type": "object", "properties": {}},
            "Find",
            {
                "type": "function",
                "function": {"name": "Find", "description": "d", "parameters": {"type": "object", "properties": {}}},
            },
        ),
    ],
)
def test_a_providers_own_tool_stays_as_it_is(tool_like: Any, name: str, schema: Any) -> None:
    model = ScriptedModel("a")
    invoke(model.bind_tools([tool_like]))
    assert (model.requests[0].tools, model.requests[0].tool_schemas) == ([name], [schema or tool_like])


def test_functions_bound_without_bind_tools_are_named_too() -> None:
    model = ScriptedModel("a")
    invoke(model.bind(tools=[weather, _async_reply]))
    assert model.requests[0].tools == ["weather", "_async_reply"]


def test_something_that_cannot_be_a_tool_is_refused_at_binding() -> None:
    with pytest.raises(ValueError, match="Unsupported"):
        ScriptedModel("a").bind_tools([object()])


def test_copies_play_on_in_the_same_script_and_write_to_the_same_record() -> None:
    model = ScriptedModel("a", "b", "c", "d")
    copies: list[Any] = [model, model.model_copy(), model.model_copy(deep=True), copy.copy(model)]
    assert [invoke(one).content for one in copies] == ["a", "b", "c", "d"]
    assert len(model.requests) == 4


def test_threads_play_each_reply_once() -> None:
    model = ScriptedModel(replies=[str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: invoke(model).content, range(200)))
    assert sorted(texts, key=lambda text: int(str(text))) == [str(number) for number in range(200)]
    assert len(model.requests) == 200


class Verdict(BaseModel):
    good: bool


@pytest.mark.parametrize(
    ("profile", "method", "reply"),
    [
        (None, None, tool_call("Verdict", good=True)),
        ({"structured_output": True}, None, '{"good": true}'),
        ({"structured_output": True}, "function_calling", tool_call("Verdict", good=True)),
        (None, "json_schema", '{"good": true}'),
    ],
)
def test_structured_output_comes_by_a_call_or_as_json(profile: Any, method: str | None, reply: Any) -> None:
    model = ScriptedModel(reply, repeat_last=True, profile=profile)
    assert model.with_structured_output(Verdict, method=method).invoke("hi") == Verdict(good=True)
    raw = model.with_structured_output(Verdict, method=method, include_raw=True).invoke("hi")
    assert (raw["parsed"], raw["parsing_error"]) == (Verdict(good=True), None)
    schema = {"title": "Verdict", "description": "", "type": "object", "properties": {"good": {"type": "boolean"}}}
    assert model.with_structured_output(schema, method=method).invoke("hi") == {"good": True}


def test_json_that_does_not_fit_the_schema_is_told_in_the_raw_form() -> None:
    model = ScriptedModel("no json").with_structured_output(Verdict, method="json_schema", include_raw=True)
    raw = model.invoke("hi")
    assert (raw["raw"].content, raw["parsed"]) == ("no json", None)
    assert "no json" in str(raw["parsing_error"])


def test_a_strict_model_refuses_what_a_provider_refuses_and_keeps_the_reply() -> None:
    model = ScriptedModel("a")
    broken = [HumanMessage("hi"), ai(tool_call("weather", id="x")), HumanMessage("well?")]
    with pytest.raises(ProviderRejected) as refused:
        invoke(model.bind(tool_choice="any"), broken)
    assert refused.value.faults == [
        "#1: no answer to call 'x' (weather) directly after it",
        "tool_choice 'any' without tools",
    ]
    assert (refused.value.status, refused.value.retryable) == (400, False)
    assert invoke(model).content == "a"


def test_an_empty_request_is_refused() -> None:
    with pytest.raises(ProviderRejected, match="no messages"):
        invoke(ScriptedModel("a"), [])


def test_a_lenient_model_takes_everything() -> None:
    model = ScriptedModel("a", strict=False)
    assert invoke(model.bind(tool_choice="any"), [ai(ROME)]).content == "a"


@pytest.mark.parametrize("after", [0, 1, 99])
def test_a_cut_stream_gives_its_pieces_and_then_the_error(after: int) -> None:
    model = ScriptedModel(cut("one two", ConnectionError("lost"), after=after), repeat_last=True)
    came: list[Any] = []
    with pytest.raises(ConnectionError, match="lost"):
        came.extend(chunk.content for chunk in model.stream("hi"))
    assert came == ["one", " two"][:after]
    with pytest.raises(ConnectionError, match="lost"):
        invoke(model)
