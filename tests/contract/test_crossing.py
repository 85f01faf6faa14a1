"""Crossing between sync and async: context, blocking, cancelling."""

import asyncio
from contextvars import ContextVar

import pytest

from agentgraph import AgentMiddleware, create_agent
from agentgraph.testing import Gate, ScriptedModel, Signal, describe, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}
CITY = ContextVar("city", default="nowhere")


@pytest.mark.parametrize("kinds", [("sync", "async"), ("async", "sync"), ("sync", "sync"), ("async", "async")], ids=str)
def test_context_variables_cross_from_a_wrap_to_what_it_wraps(run, kinds):
    def setting(kind, city):
        def wrap_tool_call(self, request, handler):
            CITY.set(f"{CITY.get()} {city}")
            return handler(request)

        async def awrap_tool_call(self, request, handler):
            CITY.set(f"{CITY.get()} {city}")
            return await handler(request)

        chosen = wrap_tool_call if kind == "sync" else awrap_tool_call
        return type(city, (AgentMiddleware,), {chosen.__name__: chosen})()

    @tool
    def where() -> str:
        """Where."""
        return CITY.get()

    mounted = [setting(kind, city) for kind, city in zip(kinds, ("Rome", "Oslo"), strict=True)]
    result = run(create_agent(ScriptedModel(tool_call("where"), "There."), [where], middleware=mounted), HI)
    assert result["messages"][2].text == "nowhere Rome Oslo"


async def test_a_blocking_hook_does_not_block_the_event_loop():
    for hook in ("before_agent", "before_model", "after_model", "after_agent"):
        gate = Gate()
        blocking = type("Blocking", (AgentMiddleware,), {hook: lambda self, state, runtime, gate=gate: gate.run()})()
        task = asyncio.create_task(create_agent(ScriptedModel("Hello."), middleware=[blocking]).ainvoke(HI))
        await gate.arrived.wait_async()
        gate.open()
        assert describe((await asyncio.wait_for(task, 10))["messages"]) == ["human: hi", "ai: Hello."]


async def test_cancelling_a_run_reaches_through_sync_and_async_wraps():
    gate, log = Gate(), []
    unwound = {"sync": Signal(), "async": Signal()}

    class Sync(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            try:
                return handler(request)
            except Exception:
                log.append("swallowed")
                raise
            finally:
                unwound["sync"].set()

    class Async(AgentMiddleware):
        async def awrap_model_call(self, request, handler):
            try:
                return await handler(request)
            finally:
                unwound["async"].set()

    agent = create_agent(ScriptedModel(gate.hold("late")), middleware=[Sync(), Async()])
    task = asyncio.create_task(agent.ainvoke(HI))
    await gate.arrived.wait_async()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    for signal in unwound.values():
        await signal.wait_async()
    assert log == []
