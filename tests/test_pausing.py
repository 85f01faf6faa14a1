"""A wait in sync code ends with the run that waits."""

import time
from typing import Any

import pytest

from agentgraph import AgentMiddleware, RunControl, create_agent
from agentgraph.errors import DeadlineError
from agentgraph.middleware import Pause
from agentgraph.pausing import pause
from agentgraph.testing import ScriptedModel, tool_call

LONG = 60.0


class Waiting(AgentMiddleware):
    """Waits for long before a call."""

    def __init__(self, around: str) -> None:
        super().__init__()
        self.around = around

    def model_call(self, request: Any) -> Any:
        if self.around == "model":
            yield Pause(seconds=LONG)
        return (yield request)

    def tool_call(self, request: Any) -> Any:
        if self.around == "tool":
            yield Pause(seconds=LONG)
        return (yield request)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("around", ["model", "tool"])
def test_a_deadline_ends_the_wait_of_a_flow_in_a_sync_run(around: str) -> None:
    agent = create_agent(ScriptedModel(tool_call("weather", city="Rome")), [weather], middleware=[Waiting(around)])
    began = time.monotonic()
    with pytest.raises(DeadlineError):
        agent.invoke({"messages": "hi"}, control=RunControl(deadline=0.5))
    assert time.monotonic() - began < LONG / 2


def test_a_pause_outside_of_a_run_is_a_sleep() -> None:
    began = time.monotonic()
    pause(0.01)
    assert time.monotonic() - began >= 0.01
