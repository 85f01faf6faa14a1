"""What a run costs, counted exactly: supersteps, checkpoints, and analyses that belong into building."""

import asyncio
import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import langchain_core.tools.base
import langchain_core.utils.function_calling
import pydantic
import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import AgentMiddleware, ToolRuntime, create_agent
from agentgraph.middleware import dynamic_prompt, hook_config
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import InjectedState, tool

HI = {"messages": "hi"}
THREAD = {"configurable": {"thread_id": "t"}}


@tool
def weather(city: str, runtime: ToolRuntime, state: Annotated[dict, InjectedState]) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def rounds(count):
    return [*(tool_call("weather", city=str(n), id=f"r{n}") for n in range(count)), "Done."]


def steps_of(agent, way):
    """The nodes of each superstep, by langgraph's own account."""

    async def astream():
        return [event async for event in agent.astream(HI, THREAD, stream_mode="debug")]

    events = list(agent.stream(HI, THREAD, stream_mode="debug")) if way == "sync" else asyncio.run(astream())
    steps = {}
    for event in events:
        if event["type"] == "task":
            steps.setdefault(event["step"], []).append(event["payload"]["name"])
    return list(steps.values())


def noop(label, *, inline):
    class Noop(AgentMiddleware):
        name = label

        @hook_config(inline=inline)
        def before_model(self, state, runtime):
            """Nothing."""

        @hook_config(inline=inline)
        def after_model(self, state, runtime):
            """Nothing."""

    return Noop()


@pytest.fixture(params=["sync", "async"])
def way(request):
    """Which of the two kinds of runs."""
    return request.param


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_round_of_a_plain_agent_is_two_supersteps(way, count):
    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(*rounds(count)), [weather], checkpointer=saver)
    assert steps_of(agent, way) == [["model"], ["tools"]] * count + [["model"]]
    # One for the input, one for the start, one for each superstep.
    assert len(list(saver.list(THREAD))) == 2 + 2 * count + 1


def test_parallel_calls_share_a_superstep(way):
    calls = [tool_call("weather", city=str(n), id=f"r{n}") for n in range(3)]
    assert steps_of(create_agent(ScriptedModel(calls, "Done."), [weather]), way) == [
        ["model"],
        ["tools"] * 3,
        ["model"],
    ]


def test_five_middleware_as_nodes_cost_a_superstep_a_hook(way):
    mounted = [noop(label, inline=False) for label in "ABCDE"]
    before = [[f"{label}.before_model"] for label in "ABCDE"]
    after = [[f"{label}.after_model"] for label in "EDCBA"]
    assert steps_of(create_agent(ScriptedModel(*rounds(1)), [weather], middleware=mounted), way) == [
        *before,
        ["model"],
        *after,
        ["tools"],
        *before,
        ["model"],
        *after,
    ]


def test_five_inline_middleware_cost_no_superstep(way):
    mounted = [noop(label, inline=True) for label in "ABCDE"]
    agent = create_agent(ScriptedModel(*rounds(2)), [weather], middleware=mounted)
    assert steps_of(agent, way) == [["model"], ["tools"], ["model"], ["tools"], ["model"]]


def test_inline_hooks_that_are_not_next_to_the_model_share_one_superstep(way):
    mounted = [*(noop(label, inline=True) for label in "ABCD"), noop("E", inline=False)]
    assert steps_of(create_agent(ScriptedModel("Done."), [weather], middleware=mounted), way) == [
        ["A+B+C+D.before_model"],
        ["E.before_model"],
        ["model"],
        ["E.after_model"],
        ["D+C+B+A.after_model"],
    ]


class Counted:
    """Counts calls of functions that come straight from agentgraph's own code."""

    def __init__(self, monkeypatch):
        self.calls = Counter()
        self._monkeypatch = monkeypatch

    def watch(self, module, name):
        original = getattr(module, name)

        def counting(*args, **kwargs):
            if sys._getframe(1).f_globals.get("__name__", "").startswith("agentgraph.") and not self._is_testing():
                self.calls[name] += 1
            return original(*args, **kwargs)

        self._monkeypatch.setattr(module, name, counting)
        # Also where it was imported by name.
        for loaded in [one for key, one in sys.modules.items() if key.startswith("agentgraph.")]:
            if getattr(loaded, name, None) is original:
                self._monkeypatch.setattr(loaded, name, counting)

    @staticmethod
    def _is_testing():
        return sys._getframe(2).f_globals["__name__"].startswith("agentgraph.testing")


@dataclass
class Answer:
    """The answer."""

    text: str


@dynamic_prompt
def prompt(request):
    return f"{len(request.messages)} messages"


class Wrapping(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request.override(model_settings={"temperature": 0}))

    def wrap_tool_call(self, request, handler):
        return handler(request)

    def before_agent(self, state, runtime):
        """Nothing."""


OPTIONS = {
    "plain": {},
    "structured": {"response_format": ToolStrategy(Answer)},
    "a raw schema": {"response_format": Answer},
    "middleware": {"middleware": [prompt, Wrapping(), noop("A", inline=True), noop("B", inline=False)]},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_nothing_is_analysed_in_a_call_after_the_first(monkeypatch, way, options):
    last = "Done." if "response_format" not in OPTIONS[options] else tool_call("Answer", text="Done.")
    script = [*rounds(3)[:-1], last]
    model = ScriptedModel(*script, *script)
    agent = create_agent(model, [weather], **OPTIONS[options])

    def run():
        return agent.invoke(HI) if way == "sync" else asyncio.run(agent.ainvoke(HI))

    run()
    binds = model.binds
    counted = Counted(monkeypatch)
    for module, name in [
        (inspect, "signature"),
        (inspect, "getsource"),
        (langchain_core.utils.function_calling, "convert_to_openai_tool"),
        (pydantic, "create_model"),
        (pydantic, "TypeAdapter"),
        (langchain_core.tools.base, "create_schema_from_function"),
    ]:
        counted.watch(module, name)
    converted = []
    monkeypatch.setattr(StructuredTool, "tool_call_schema", property(lambda self: converted.append(self.name)))
    run()
    assert counted.calls == {}
    assert converted == []
    assert model.binds == binds


def test_the_counting_itself_counts(monkeypatch):
    counted = Counted(monkeypatch)
    counted.watch(inspect, "signature")
    create_agent(ScriptedModel(), [weather], middleware=[noop("A", inline=True)])
    assert counted.calls["signature"] > 0


def test_tools_are_bound_once_for_each_set_of_them(way):
    class Alternate(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=request.tools[: len(request.messages) % 2 + 1]))

    @tool
    def other() -> str:
        """Other."""
        return ""

    calls = [tool_call("weather", city=str(n), id=f"w{n}") for n in range(3)]
    model = ScriptedModel(*calls, "Done.", *calls, "Done.")
    agent = create_agent(model, [weather, other], middleware=[Alternate()])
    for given in ("hi", ["hi", "again"]):
        state = {"messages": given if isinstance(given, str) else [("user", text) for text in given]}
        _ = agent.invoke(state) if way == "sync" else asyncio.run(agent.ainvoke(state))
    assert {tuple(request.tools) for request in model.requests} == {("weather",), ("weather", "other")}
    assert model.binds == 2
