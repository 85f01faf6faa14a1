"""What a stream of an agent shows, in every mode, over sync and async."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.config import get_stream_writer
from langgraph.prebuilt import ToolCallTransformer, ToolRuntime
from langgraph.stream import ProtocolEvent, StreamTransformer
from langgraph.types import interrupt

from agentgraph import AgentMiddleware, create_agent
from agentgraph.subagents import SubagentTransformer
from agentgraph.testing import Gate, ScriptedModel, ai, describe, tool_call

pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")

GO: Any = {"messages": [("user", "go")]}


@dataclass(frozen=True)
class Lane:
    """One way to run an agent, so that sync and async tests are the same text."""

    asynchronous: bool

    def stream(self, agent: Any, mode: str | list[str], **options: Any) -> AsyncIterator[Any]:
        start = agent.astream if self.asynchronous else agent.stream
        return self.each(start(GO, stream_mode=mode, **options))

    async def parts(self, agent: Any, mode: str | list[str], **options: Any) -> list[Any]:
        return [part async for part in self.stream(agent, mode, **options)]

    async def events(self, agent: Any, **options: Any) -> Any:
        if self.asynchronous:
            return await agent.astream_events(GO, version="v3", **options)
        return agent.stream_events(GO, version="v3", **options)

    async def each(self, items: Any) -> AsyncIterator[Any]:
        if self.asynchronous:
            async for item in items:
                yield item
        else:
            for item in items:
                yield item

    async def text(self, message: Any) -> str:
        return str(await message.text if self.asynchronous else message.text)

    async def get(self, run: Any, name: str) -> Any:
        """`output`, `interrupted` or `interrupts`: methods of an async run, properties of a sync one."""
        return await getattr(run, name)() if self.asynchronous else getattr(run, name)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def lane(request: pytest.FixtureRequest) -> Lane:
    return Lane(request.param)


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


@tool
def confirm() -> str:
    """Confirm."""
    return str(interrupt("sure?"))


def asks_for(*cities: str) -> AIMessage:
    return ai(*(tool_call("weather", city=city, id=city) for city in cities))


async def test_tokens_come_one_by_one_with_the_id_of_the_message_in_the_state(lane: Lane) -> None:
    parts = await lane.parts(create_agent(ScriptedModel("one two three four")), ["messages", "values"])
    tokens = [data for mode, data in parts if mode == "messages"]
    assert [message.text for message, _ in tokens if message.text] == ["one", " two", " three", " four"]
    assert {metadata["langgraph_node"] for _, metadata in tokens} == {"model"}
    assert {message.id for message, _ in tokens} == {parts[-1][1]["messages"][-1].id}


async def test_a_tool_call_is_shown_before_the_tool_runs(lane: Lane) -> None:
    order = []

    @tool
    def act(text: str) -> str:
        """Act."""
        order.append("ran")
        return "ok"

    agent = create_agent(ScriptedModel(tool_call("act", text="some longer text"), "end"), [act])
    async for message, _ in lane.stream(agent, "messages"):
        if getattr(message, "tool_call_chunks", None):
            order.append("shown")
    assert set(order[:-1]) == {"shown"}
    assert order[-1] == "ran"


async def test_updates_show_each_parallel_result(lane: Lane) -> None:
    agent = create_agent(ScriptedModel(asks_for("Rome", "Oslo", "Bern"), "ok"), [weather])
    parts = await lane.parts(agent, "updates")
    assert [list(part) for part in parts] == [["model"], ["tools"], ["tools"], ["tools"], ["model"]]
    assert sorted(describe(part["tools"]["messages"])[0] for part in parts if "tools" in part) == [
        "tool weather: sunny in Bern",
        "tool weather: sunny in Oslo",
        "tool weather: sunny in Rome",
    ]


async def test_values_end_with_what_invoke_returns(lane: Lane) -> None:
    def agent() -> Any:
        return create_agent(ScriptedModel(asks_for("Rome", "Oslo"), "ok"), [weather])

    values = await lane.parts(agent(), "values")
    whole = await agent().ainvoke(GO) if lane.asynchronous else agent().invoke(GO)
    assert values[-1].keys() == whole.keys()
    assert describe(values[-1]["messages"]) == describe(whole["messages"])
    assert [len(state["messages"]) for state in values] == [1, 2, 4, 5]


async def test_a_tool_result_is_streamed_once_as_a_message(lane: Lane) -> None:
    agent = create_agent(ScriptedModel(asks_for("Rome", "Oslo"), "ok"), [weather])
    parts = await lane.parts(agent, "messages")
    results = [message.tool_call_id for message, _ in parts if isinstance(message, ToolMessage)]
    assert sorted(results) == ["Oslo", "Rome"]
    assert "".join(m.text for m, _ in parts if isinstance(m, AIMessageChunk)) == "ok"


class Announcing(AgentMiddleware):
    """Writes custom events from every kind of hook."""

    def before_model(self, state: Any, runtime: Any) -> None:
        runtime.stream_writer("before_model")

    def after_agent(self, state: Any, runtime: Any) -> None:
        get_stream_writer()("after_agent")

    def wrap_model_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        request.runtime.stream_writer("wrap_model_call")
        return handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        request.runtime.stream_writer("wrap_tool_call")
        return handler(request)


async def test_tools_and_hooks_write_custom_events(lane: Lane) -> None:
    @tool
    def injected(runtime: ToolRuntime) -> str:
        """Write by the injected runtime."""
        runtime.stream_writer({"from": "runtime"})
        return "ok"

    @tool
    def found() -> str:
        """Write by the writer of the context."""
        get_stream_writer()({"from": "context"})
        return "ok"

    model = ScriptedModel(tool_call("injected"), tool_call("found"), "end")
    agent = create_agent(model, [injected, found], middleware=[Announcing()])
    turn = ["before_model", "wrap_model_call"]
    assert await lane.parts(agent, "custom") == [
        *turn,
        "wrap_tool_call",
        {"from": "runtime"},
        *turn,
        "wrap_tool_call",
        {"from": "context"},
        *turn,
        "after_agent",
    ]


async def test_a_question_to_a_person_is_shown_once_in_a_stream_of_several_modes(lane: Lane) -> None:
    agent = create_agent(ScriptedModel(ai(tool_call("confirm"), text="Let me ask.")), [confirm])
    parts = await lane.parts(agent, ["messages", "updates"])
    asked = [part["__interrupt__"] for mode, part in parts if mode == "updates" and "__interrupt__" in part]
    assert [[question.value for question in questions] for questions in asked] == [["sure?"]]
    assert "".join(part[0].text for mode, part in parts if mode == "messages") == "Let me ask."


async def test_a_failing_model_ends_the_stream_with_its_error(lane: Lane) -> None:
    error = ConnectionError("the line is dead")
    agent = create_agent(ScriptedModel(asks_for("Rome"), error), [weather])
    seen: list[str] = []

    async def read() -> None:
        async for part in lane.stream(agent, "updates"):
            seen.extend(part)

    with pytest.raises(ConnectionError) as raised:
        await read()
    assert raised.value is error
    assert seen == ["model", "tools"]


def asking(expert: Any, *, passes_config: bool) -> BaseTool:
    def ask(question: str, config: RunnableConfig) -> str:
        """Ask the expert."""
        options = {"config": config} if passes_config else {}
        return str(expert.invoke({"messages": [("user", question)]}, **options)["messages"][-1].text)

    async def ask_async(question: str, config: RunnableConfig) -> str:
        options = {"config": config} if passes_config else {}
        return str((await expert.ainvoke({"messages": [("user", question)]}, **options))["messages"][-1].text)

    return StructuredTool.from_function(ask, ask_async, name="ask")


def with_expert(*, passes_config: bool) -> Any:
    expert = create_agent(ScriptedModel("expert words"), name="expert")
    model = ScriptedModel(tool_call("ask", question="why?", id="q"), "done")
    return create_agent(model, [asking(expert, passes_config=passes_config)], name="boss")


@pytest.mark.parametrize("passes_config", [True, False])
async def test_a_subagents_updates_are_shown_under_its_namespace(lane: Lane, passes_config: bool) -> None:
    parts = await lane.parts(with_expert(passes_config=passes_config), "updates", subgraphs=True)
    shown = [([segment.split(":")[0] for segment in namespace], list(part)) for namespace, part in parts]
    assert shown == [([], ["model"]), (["tools"], ["model"]), ([], ["tools"]), ([], ["model"])]
    assert describe(parts[1][1]["model"]["messages"]) == ["ai: expert words"]


@pytest.mark.parametrize("passes_config", [True, False])
async def test_a_subagents_tokens_are_shown_only_to_those_who_ask_for_subgraphs(
    lane: Lane, passes_config: bool
) -> None:
    def text(pairs: list[Any]) -> str:
        return "".join(message.text for message, _ in pairs if isinstance(message, AIMessageChunk))

    assert text(await lane.parts(with_expert(passes_config=passes_config), "messages")) == "done"
    nested = await lane.parts(with_expert(passes_config=passes_config), "messages", subgraphs=True)
    assert text([pair for namespace, pair in nested if namespace]) == "expert words"


async def test_events_have_messages_values_and_output(lane: Lane) -> None:
    def agent() -> Any:
        return create_agent(ScriptedModel(ai(tool_call("weather", city="Rome", id="r"), text="Hm."), "Sun."), [weather])

    run = await lane.events(agent())
    assert [await lane.text(message) async for message in lane.each(run.messages)] == ["Hm.", "Sun."]
    run = await lane.events(agent())
    assert [len(state["messages"]) async for state in lane.each(run.values)] == [1, 2, 3, 4]
    output = await lane.get(await lane.events(agent()), "output")
    assert [(message.type, message.text) for message in output["messages"]] == [
        ("human", "go"),
        ("ai", "Hm."),
        ("tool", "sunny in Rome"),
        ("ai", "Sun."),
    ]


async def test_events_have_each_tool_call_with_its_result_or_its_exceptions_text(lane: Lane) -> None:
    @tool
    def broken(part: str) -> str:
        """Fail."""
        raise ValueError(f"no {part} left")

    calls = ai(tool_call("weather", city="Rome", id="good"), tool_call("broken", part="fuse", id="bad"))
    run = await lane.events(create_agent(ScriptedModel(calls, "end"), [weather, broken]))
    seen = [call async for call in lane.each(run.tool_calls)]
    shown = {call.tool_call_id: (call.tool_name, call.input, call.output, call.error, call.completed) for call in seen}
    assert shown == {
        "good": ("weather", {"city": "Rome"}, "sunny in Rome", None, True),
        "bad": ("broken", {"part": "fuse"}, None, "no fuse left", True),
    }


async def test_a_tool_streams_parts_of_its_output(lane: Lane) -> None:
    @tool
    def count(runtime: ToolRuntime) -> str:
        """Count."""
        for number in ("one", "two"):
            runtime.emit_output_delta(number)
        return "three"

    run = await lane.events(create_agent(ScriptedModel(tool_call("count"), "end"), [count]))
    seen = [
        ([part async for part in lane.each(call.output_deltas)], call.output)
        async for call in lane.each(run.tool_calls)
    ]
    assert seen == [(["one", "two"], "three")]


@pytest.mark.parametrize("passes_config", [True, False])
async def test_events_have_subagents_and_subgraphs(lane: Lane, passes_config: bool) -> None:
    run = await lane.events(with_expert(passes_config=passes_config))
    seen = [
        (one.name, one.cause, [await lane.text(message) async for message in lane.each(one.messages)])
        async for one in lane.each(run.subagents)
    ]
    assert seen == [("expert", {"type": "toolCall", "tool_call_id": "q"}, ["expert words"])]
    run = await lane.events(with_expert(passes_config=passes_config))
    assert [one.graph_name async for one in lane.each(run.subgraphs)] == ["expert"]


async def test_events_tell_of_an_interrupt(lane: Lane) -> None:
    run = await lane.events(create_agent(ScriptedModel(tool_call("confirm")), [confirm]))
    assert await lane.get(run, "interrupted") is True
    assert [question.value for question in await lane.get(run, "interrupts")] == ["sure?"]


async def test_events_end_with_the_error_of_a_failing_model(lane: Lane) -> None:
    error = ConnectionError("the line is dead")
    run = await lane.events(create_agent(ScriptedModel(error)))
    with pytest.raises(ConnectionError) as raised:
        await lane.get(run, "output")
    assert raised.value is error


class Witness(StreamTransformer):
    """Counts what passes, under a name of its own."""

    name = ""

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self.seen: list[str] = []

    def init(self) -> dict[str, Any]:
        return {self.name: self.seen}

    def process(self, event: ProtocolEvent) -> bool:
        self.seen.append(event["method"])
        return True


async def test_transformers_stand_in_order_and_each_factory_once(lane: Lane) -> None:
    brought, given = (type(name, (Witness,), {"name": name}) for name in ("brought", "given"))
    first, second = AgentMiddleware(), Announcing()
    first.transformers = second.transformers = (brought,)
    own = [given, brought, ToolCallTransformer]
    agent = create_agent(ScriptedModel("yes"), middleware=[first, second], transformers=own)
    assert agent.stream_transformers == (ToolCallTransformer, SubagentTransformer, brought, given)
    run = await lane.events(agent)
    await lane.get(run, "output")
    assert run.extensions["brought"] == run.extensions["given"] != []


def slow(gate: Gate, ended: list[str]) -> BaseTool:
    @tool
    async def wait() -> str:
        """Wait for the gate."""
        try:
            get_stream_writer()("begun")
            await gate.arun()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "ok"

    return wait


async def test_leaving_an_async_stream_cancels_the_tools_that_run() -> None:
    gate, ended = Gate(), list[str]()
    agent = create_agent(ScriptedModel([tool_call("wait", id="1"), tool_call("wait", id="2")]), [slow(gate, ended)])
    stream: Any = agent.astream(GO, stream_mode="custom")
    async with asyncio.timeout(10), contextlib.aclosing(stream):
        async for _ in stream:
            await gate.arrived.wait_async()
            break
    assert ended == ["cancelled", "cancelled"]


async def test_aborting_an_async_run_cancels_the_tools_that_run() -> None:
    gate, ended = Gate(), list[str]()
    agent = create_agent(ScriptedModel(tool_call("wait")), [slow(gate, ended)])
    async with asyncio.timeout(10), await agent.astream_events(GO, version="v3") as run:
        async for _ in run.tool_calls:
            break
        reading = asyncio.ensure_future(run.output())
        await gate.arrived.wait_async()
    await asyncio.wait_for(reading, 10)
    assert ended == ["cancelled"]


def test_nothing_new_begins_when_a_sync_stream_is_left() -> None:
    @tool
    def begin() -> str:
        """Begin."""
        get_stream_writer()("begun")
        return "ok"

    model = ScriptedModel(tool_call("begin"), "never asked for")
    stream: Any = create_agent(model, [begin]).stream(GO, stream_mode="custom")
    assert next(stream) == "begun"
    stream.close()
    assert model.remaining == 1
