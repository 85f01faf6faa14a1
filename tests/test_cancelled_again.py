"""Runs that are cancelled at every await, as anyio's scopes do and web servers whose client has gone."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentgraph import RunControl, create_agent
from agentgraph.errors import RunCancelledError
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import FunctionModel, ScriptedModel, describe, tool_call

THREAD = {"configurable": {"thread_id": "t"}}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a checkpointer."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'threads.db'}"


class Waiting:
    """A tool that waits for ever, and notes when it began and that it was ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def research(self, topic: str) -> str:
        """Research a topic."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return topic


async def cancelled_at_each_await(run: Callable[[], Any], when: asyncio.Event) -> None:
    """Start the run in a scope, and cancel the scope when the event is set."""
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await asyncio.wait_for(when.wait(), 30)
        group.cancel_scope.cancel()


@pytest.mark.parametrize("control", [None, 60.0])
@pytest.mark.parametrize("mode", ["values", ["messages", "updates"]])
def test_its_tools_are_ended_and_its_thread_is_free_at_once(url: str, mode: Any, control: float | None) -> None:
    async def main() -> list[str]:
        waiting = Waiting()
        both = [tool_call("weather", city="Rome"), tool_call("research", topic="Rome")]
        async with open_checkpointer(url) as saver:
            agent = create_agent(ScriptedModel(both, "Hi."), [weather, waiting.research], checkpointer=saver)

            async def run() -> None:
                options = {"control": RunControl(deadline=control)} if control else {}
                async for _ in agent.astream({"messages": "go"}, THREAD, stream_mode=mode, **options):
                    pass

            await cancelled_at_each_await(run, waiting.began)
            assert waiting.ended.is_set()
            done = await agent.ainvoke({"messages": "again"}, THREAD)
        return [f"{message.type}: {message.text[:9]}" for message in done["messages"]]

    async def weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    told = asyncio.run(asyncio.wait_for(main(), 60))
    assert told == ["human: go", "ai: ", "tool: sunny in ", "tool: No result", "human: again", "ai: Hi."]


def test_without_a_checkpointer_its_tools_are_ended_as_well() -> None:
    async def main() -> None:
        waiting = Waiting()
        agent = create_agent(
            ScriptedModel([tool_call("research", topic="a"), tool_call("research", topic="b")]), [waiting.research]
        )
        await cancelled_at_each_await(lambda: agent.ainvoke({"messages": "go"}), waiting.began)
        await asyncio.wait_for(waiting.ended.wait(), 30)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_model_call_of_a_stream_of_messages_is_ended() -> None:
    async def main() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def reply(messages: Any, settings: Any) -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return "never"

        agent = create_agent(FunctionModel(reply))

        async def run() -> None:
            async for _ in agent.astream({"messages": "go"}, stream_mode="messages"):
                pass

        await cancelled_at_each_await(run, began)
        await asyncio.wait_for(ended.wait(), 30)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_task_that_is_cancelled_twice_leaves_no_tool_at_work(url: str) -> None:
    async def main() -> None:
        waiting = Waiting()
        async with open_checkpointer(url) as saver:
            model = ScriptedModel([tool_call("research", topic="a"), tool_call("research", topic="b")], "Hi.")
            agent = create_agent(model, [waiting.research], checkpointer=saver)
            task = asyncio.create_task(agent.ainvoke({"messages": "go"}, THREAD))
            await asyncio.wait_for(waiting.began.wait(), 30)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 30)
            assert waiting.ended.is_set()
            assert (await agent.ainvoke({"messages": "again"}, THREAD))["messages"][-1].text == "Hi."

    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_a_failing_sync_tool_came_to_is_told_and_kept_although_its_run_was_cancelled(url: str) -> None:
    runs: list[str] = []

    def fails(x: str) -> str:
        """Fails while its run is being cancelled."""
        runs.append(x)
        control.cancel("now")
        raise ValueError(f"{x} is wrong")

    async def main() -> list[str]:
        async with open_checkpointer(url) as saver:
            model = ScriptedModel(tool_call("fails", x="1"), "Hi.")
            agent = create_agent(model, [fails], checkpointer=saver, on_tool_error=lambda error, request: str(error))
            with pytest.raises(RunCancelledError):
                await agent.ainvoke({"messages": "go"}, THREAD, control=control)
            return describe((await agent.ainvoke(None, THREAD))["messages"])

    control = RunControl()
    told = asyncio.run(asyncio.wait_for(main(), 60))
    assert told == ["human: go", "ai: -> fails(x='1')", "tool fails error: 1 is wrong", "ai: Hi."]
    assert runs == ["1"]
