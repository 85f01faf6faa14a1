"""Subagents in the event stream: their handles, over sync and async."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, interrupt

from agentgraph import create_agent
from agentgraph.subagents import (
    AsyncSubagentRunStream,
    SubagentRunStream,
    _End,
    _end_of_failed_run,
    _nested_run,
    _tool_call_id,
)
from agentgraph.testing import Gate, ScriptedModel, tool_call

pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")

GO = {"messages": [("user", "go")]}


def said(state: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message.type, message.text) for message in state["messages"]]


@dataclass(frozen=True)
class Lane:
    """One way to read a run, so that sync and async tests are the same text."""

    asynchronous: bool

    async def open(self, agent: Any, **options: Any) -> Any:
        if self.asynchronous:
            return await agent.astream_events(GO, version="v3", **options)
        return agent.stream_events(GO, version="v3", **options)

    async def each(self, channel: Any) -> AsyncIterator[Any]:
        if self.asynchronous:
            async for item in channel:
                yield item
        else:
            for item in channel:
                yield item

    async def texts(self, channel: Any) -> list[str]:
        return [await m.text if self.asynchronous else str(m.text) async for m in self.each(channel)]

    async def output(self, run: Any) -> list[tuple[str, str]]:
        state = await run.output() if self.asynchronous else run.output
        return said(state)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def lane(request: pytest.FixtureRequest) -> Lane:
    return Lane(request.param)


def asking(*agents: Any, name: str = "ask") -> BaseTool:
    """A tool that asks agents, one after the other, and passes no config."""

    def ask(question: str) -> str:
        """Ask."""
        return " ".join(agent.invoke({"messages": [("user", question)]})["messages"][-1].text for agent in agents)

    async def ask_async(question: str) -> str:
        """Ask."""
        states = [await agent.ainvoke({"messages": [("user", question)]}) for agent in agents]
        return " ".join(state["messages"][-1].text for state in states)

    return StructuredTool.from_function(ask, ask_async, name=name)


def boss(*tools: BaseTool, name: str | None = "boss", **options: Any) -> Any:
    calls = [tool_call(one.name, question=f"{place}?", id=f"call{place}") for place, one in enumerate(tools)]
    return create_agent(ScriptedModel(calls, "done"), list(tools), name=name, **options)


async def test_a_subagent_shows_its_name_its_cause_and_its_messages(lane: Lane) -> None:
    run = await lane.open(boss(asking(create_agent(ScriptedModel("at last"), name="expert"))))
    shown = []
    async for subagent in lane.each(run.subagents):
        begun = (subagent.name, subagent.graph_name, subagent.cause, subagent.status)
        shown.append((begun, await lane.texts(subagent.messages), subagent.status, subagent.error))
        assert subagent.path == (f"tools:{subagent.trigger_call_id}",)
        assert isinstance(subagent, AsyncSubagentRunStream if lane.asynchronous else SubagentRunStream)
    cause = {"type": "toolCall", "tool_call_id": "call0"}
    assert shown == [(("expert", "expert", cause, "started"), ["at last"], "completed", None)]


async def test_a_subagent_has_the_tool_calls_the_values_and_the_output_of_its_own_run(lane: Lane) -> None:
    @tool
    def look(place: str) -> str:
        """Look."""
        return f"nothing at {place}"

    expert = create_agent(ScriptedModel(tool_call("look", place="home", id="x"), "sorry"), [look], name="expert")
    run = await lane.open(boss(asking(expert)))
    async for subagent in lane.each(run.subagents):
        calls = [(call.tool_name, call.tool_call_id) async for call in lane.each(subagent.tool_calls)]
        assert calls == [("look", "x")]
        assert await lane.output(subagent) == [
            ("human", "0?"),
            ("ai", ""),
            ("tool", "nothing at home"),
            ("ai", "sorry"),
        ]
    run = await lane.open(boss(asking(create_agent(ScriptedModel("yes"), name="expert"))))
    async for subagent in lane.each(run.subagents):
        values = [said(state) async for state in lane.each(subagent.values)]
        assert values == [[("human", "0?"), ("ai", "yes")]]


async def test_an_agent_without_a_name_is_a_subgraph_but_no_subagent(lane: Lane) -> None:
    run = await lane.open(boss(asking(create_agent(ScriptedModel("yes"))), name=None))
    assert [subagent async for subagent in lane.each(run.subagents)] == []
    run = await lane.open(boss(asking(create_agent(ScriptedModel("yes"))), name=None))
    assert len([subgraph async for subgraph in lane.each(run.subgraphs)]) == 1


async def test_every_agent_that_one_tool_call_asks_has_its_own_handle(lane: Lane) -> None:
    first, second = (create_agent(ScriptedModel(text), name=text) for text in ("one", "two"))
    run = await lane.open(boss(asking(first, second)))
    subagents = [subagent async for subagent in lane.each(run.subagents)]
    assert [(one.name, one.cause["tool_call_id"], one.status, one.path[1:]) for one in subagents] == [
        ("one", "call0", "completed", ()),
        ("two", "call0", "completed", ("1",)),
    ]
    assert [await lane.output(one) for one in subagents] == [
        [("human", "0?"), ("ai", "one")],
        [("human", "0?"), ("ai", "two")],
    ]


async def test_a_neighbour_is_not_shown_as_a_subagent_of_the_first(lane: Lane) -> None:
    first, second = (create_agent(ScriptedModel(text), name=text) for text in ("one", "two"))
    run = await lane.open(boss(asking(first, second)))
    async for subagent in lane.each(run.subagents):
        assert [nested.name async for nested in lane.each(subagent.subagents)] == []


async def test_parallel_calls_have_one_handle_each_with_its_own_cause(lane: Lane) -> None:
    tools = [asking(create_agent(ScriptedModel(name), name=name), name=f"ask_{name}") for name in ("one", "two")]
    run = await lane.open(boss(*tools))
    causes = {subagent.name: subagent.cause["tool_call_id"] async for subagent in lane.each(run.subagents)}
    assert causes == {"one": "call0", "two": "call1"}


async def test_a_subagent_of_a_subagent_is_on_its_callers_handle(lane: Lane) -> None:
    leaf = create_agent(ScriptedModel("leaf says"), name="leaf")
    middle = create_agent(ScriptedModel(tool_call("ask", question="deeper", id="m"), "ok"), [asking(leaf)], name="mid")
    run = await lane.open(boss(asking(middle)))
    shown = []
    async for subagent in lane.each(run.subagents):
        async for nested in lane.each(subagent.subagents):
            shown.append((subagent.name, nested.name, nested.cause, await lane.texts(nested.messages), nested.status))
            assert nested.path[:1] == subagent.path
    cause = {"type": "toolCall", "tool_call_id": "m"}
    assert shown == [("mid", "leaf", cause, ["leaf says"], "completed")]


async def test_a_failure_that_the_caller_survives_is_on_the_handle_and_is_not_raised(lane: Lane) -> None:
    expert = create_agent(ScriptedModel(ValueError("no idea")), name="expert")
    run = await lane.open(boss(asking(expert)))
    shown = [(one.status, await lane.texts(one.messages), one) async for one in lane.each(run.subagents)]
    assert [(before, texts, one.status, one.error) for before, texts, one in shown] == [
        ("started", [], "failed", "no idea")
    ]
    assert (await lane.output(run))[-1] == ("ai", "done")


async def test_a_failure_that_ends_the_caller_is_raised_by_both(lane: Lane) -> None:
    error = ValueError("no idea")
    expert = create_agent(ScriptedModel(error), name="expert")
    run = await lane.open(boss(asking(expert), on_tool_error="raise"))
    seen = []

    async def read() -> None:
        async for subagent in lane.each(run.subagents):
            seen.append(subagent)
            await lane.output(subagent)

    with pytest.raises(ValueError, match="no idea") as raised:
        await read()
    assert raised.value is error
    assert [(one.status, one.error) for one in seen] == [("failed", "no idea")]
    with pytest.raises(ValueError, match="no idea"):
        await lane.output(run)


async def test_each_attempt_of_a_task_has_a_handle_of_its_own(lane: Lane) -> None:
    expert = create_agent(ScriptedModel(ValueError("not yet"), "now"), name="expert")
    again = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
    run = await lane.open(boss(asking(expert), on_tool_error="raise", retry_policy=again))
    subagents = [subagent async for subagent in lane.each(run.subagents)]
    assert [(one.status, one.error) for one in subagents] == [("failed", "not yet"), ("completed", None)]
    assert await lane.output(subagents[1]) == [("human", "0?"), ("ai", "now")]


async def test_a_subagent_that_gets_over_an_error_has_not_failed(lane: Lane) -> None:
    def fall(state: MessagesState) -> None:
        raise ValueError("no idea")

    graph = StateGraph(MessagesState)
    graph.add_node("fall", fall, error_handler=lambda state: {"messages": [("ai", "caught")]})
    graph.add_edge(START, "fall")
    expert = graph.compile().with_config(metadata={"lc_agent_name": "expert"})
    run = await lane.open(boss(asking(expert)))
    subagents = [subagent async for subagent in lane.each(run.subagents)]
    assert [(one.status, one.error, await lane.output(one)) for one in subagents] == [
        ("completed", None, [("human", "0?"), ("ai", "caught")])
    ]


async def test_a_subagent_that_asks_a_person_is_interrupted(lane: Lane) -> None:
    @tool
    def confirm(text: str) -> str:
        """Confirm."""
        return str(interrupt(text))

    expert = create_agent(ScriptedModel(tool_call("confirm", text="sure?")), [confirm], name="expert")
    run = await lane.open(boss(asking(expert)))
    subagents = [subagent async for subagent in lane.each(run.subagents)]
    assert [(one.status, one.error) for one in subagents] == [("interrupted", None)]
    asked = [await one.interrupts() if lane.asynchronous else one.interrupts for one in subagents]
    assert [question.value for question in asked[0]] == ["sure?"]


async def test_a_named_agent_that_is_a_node_of_a_graph_has_no_cause(lane: Lane) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("expert", create_agent(ScriptedModel("yes"), name="expert"))
    graph.add_edge(START, "expert")
    graph.add_edge("expert", END)
    outer = create_agent(ScriptedModel("unused"))
    run = await lane.open(graph.compile(transformers=list(outer.stream_transformers)))
    shown = [(one.name, one.cause, await lane.texts(one.messages)) async for one in lane.each(run.subagents)]
    assert shown == [("expert", None, ["yes"])]


async def test_an_agent_that_asks_itself_is_its_own_subagent(lane: Lane) -> None:
    twin = create_agent(ScriptedModel("yes"), name="boss")
    run = await lane.open(boss(asking(twin)))
    assert [subagent.name async for subagent in lane.each(run.subagents)] == ["boss"]


async def test_leaving_the_run_ends_its_open_subagents(lane: Lane) -> None:
    run = await lane.open(boss(asking(create_agent(ScriptedModel("yes"), name="expert"))))
    left = await anext(lane.each(run.subagents))
    before = left.status
    if lane.asynchronous:
        await run.abort()
    else:
        run.abort()
    assert (before, left.status, await lane.texts(left.messages)) == ("started", "completed", [])


async def test_a_failing_neighbour_lets_a_subagent_finish_before_it_ends_the_run() -> None:
    gate = Gate()
    expert = create_agent(ScriptedModel(gate.hold("late")), name="expert")

    @tool
    async def fall(question: str) -> str:
        """Fall."""
        await gate.arrived.wait_async()
        asyncio.get_running_loop().call_soon(gate.open)
        raise KeyError(question)

    run = await Lane(asynchronous=True).open(boss(asking(expert), fall, on_tool_error="raise"))
    subagents = []

    async def read() -> None:
        async for subagent in run.subagents:
            subagents.append(subagent)
            await subagent.output()

    with pytest.raises(KeyError):
        await asyncio.wait_for(read(), 10)
    assert [(one.status, one.error) for one in subagents] == [("completed", None)]


async def test_an_error_of_a_sync_stream_ends_the_open_subagents_with_it() -> None:
    lane = Lane(asynchronous=False)
    run = await lane.open(boss(asking(create_agent(ScriptedModel("yes"), name="expert"))))
    open_one = await anext(lane.each(run.subagents))
    run._mux.fail(KeyError("broken"))  # what langgraph does when the graph raises, here with no thread left to wait for
    assert (open_one.status, open_one.error) == ("failed", "'broken'")
    with pytest.raises(KeyError, match="broken"):
        await lane.output(open_one)
    run.abort()


@pytest.mark.parametrize(
    ("namespace", "scope", "run"),
    [
        ((), (), None),
        (("tools:a",), (), ("tools:a",)),
        (("tools:a", "tools:b"), (), ("tools:a",)),
        (("tools:a", "1"), (), ("tools:a", "1")),
        (("tools:a", "1", "tools:b"), (), ("tools:a", "1")),
        (("tools:a",), ("tools:a",), None),
        (("tools:a", "1"), ("tools:a",), None),
        (("tools:a", "1", "tools:b"), ("tools:a",), None),
        (("tools:a", "1", "tools:b"), ("tools:a", "1"), ("tools:a", "1", "tools:b")),
        (("tools:a", "tools:b", "2", "x:c"), ("tools:a",), ("tools:a", "tools:b", "2")),
        (("other:a", "tools:b"), ("tools:a",), None),
    ],
)
def test_an_event_belongs_to_the_run_directly_below_the_scope(
    namespace: tuple[str, ...], scope: tuple[str, ...], run: tuple[str, ...] | None
) -> None:
    assert _nested_run(namespace, scope) == run


CALL = {"type": "tool_call", "name": "ask", "args": {}, "id": "a"}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (CALL, "a"),
        ([CALL, {**CALL, "id": "b"}], "a"),
        ({"tool_call": CALL, "state": {}}, "a"),
        ({"tool_call": None}, None),
        ({"messages": []}, None),
        ([{"id": "a", "type": "human"}, ("user", "hi")], None),
        ({**CALL, "id": None}, None),
        ("a", None),
        (None, None),
    ],
)
def test_the_tool_call_of_a_task_is_read_from_its_input(payload: Any, expected: str | None) -> None:
    assert _tool_call_id(payload) == expected


def test_the_error_of_a_run_says_how_its_open_subagents_ended() -> None:
    drained, paused, broken = GraphDrained("stop"), GraphInterrupt(), ValueError("no")
    assert _end_of_failed_run(drained) == _End("drained", None, drained)
    assert _end_of_failed_run(paused) == _End("interrupted", None, paused)
    assert _end_of_failed_run(broken) == _End("failed", "no", broken)
