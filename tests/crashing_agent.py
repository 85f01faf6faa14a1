"""An agent that is killed in the middle of its work; the tests of crashes start it as a process of its own.

::

    python -m tests.crashing_agent <URL of the database> <log of side effects> <where it dies> [answer]
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from langgraph.types import Command, interrupt

from agentgraph import AgentMiddleware, create_agent
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool

THREAD = {"configurable": {"thread_id": "1"}}
SECONDS = 20

GOOD, BAD = tool_call("good", x="1", id="good"), tool_call("bad", x="1", id="bad")
TWICE = tool_call("ask_twice", x="1", id="twice")

CALLS = {"in a tool": [GOOD, BAD], "between model and tools": [GOOD, BAD], "between two questions": [TWICE]}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Between(AgentMiddleware):
    """A step after the model's answer was stored, before its tools begin."""

    def __init__(self, *, dies: bool) -> None:
        super().__init__()
        self.dies = dies

    def after_model(self, state: Any, runtime: Any) -> None:
        if self.dies:
            die()


def die_when_stored(saver: Any, text: str) -> None:
    """Die as soon as the saver has a result with this text."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if any(text in repr(value) for _, _, value in saver.get_tuple(THREAD).pending_writes):
            die()


def tools(log: Path, saver: Any, *, dies: bool) -> list[Any]:
    """Tools whose side effects are lines of a file."""

    def note(line: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    @tool
    def good(x: str) -> str:
        """Works."""
        note("good")
        return f"good {x}"

    @tool
    def bad(x: str) -> str:
        """Dies, once its neighbour's result is stored."""
        note("bad")
        if dies:
            die_when_stored(saver, "good 1")
        return f"bad {x}"

    @tool
    def ask_twice(x: str) -> str:
        """Asks two questions; dies between them."""
        first = interrupt("first?")
        note(f"first {first}")
        if dies:
            die()
        second = interrupt("second?")
        note(f"second {second}")
        return f"{first} {second}"

    return [good, bad, ask_twice]


def main(url: str, log: str, where: str, *answer: str) -> None:
    """Run until it dies, or until the first question."""
    with open_checkpointer(url) as saver:
        agent = create_agent(
            ScriptedModel(replies=[CALLS[where]]),
            tools(Path(log), saver, dies=True),
            middleware=[Between(dies=where == "between model and tools")],
            checkpointer=saver,
        )
        given: Any = Command(resume=answer[0]) if answer else {"messages": "go"}
        # "sync": each step is stored before the next begins, so that it is known what a killed process leaves behind.
        if os.environ.get("CRASH_ASYNC"):
            asyncio.run(agent.ainvoke(given, THREAD, durability="sync"))
        else:
            agent.invoke(given, THREAD, durability="sync")


if __name__ == "__main__":
    main(*sys.argv[1:])
