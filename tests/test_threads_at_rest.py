"""A process dies after the results of a step are stored, and before the checkpoint that they lead to is.

`snapshot.next` is empty then, as it is for a thread at rest; but the step is not over.
"""

import math

import pytest

from agentgraph.errors import ConfigurationError
from agentgraph.runs import Outcome, outcome
from agentgraph.testing import describe, tool_call
from tests.thread_agents import THREAD, agent_with, do, saver

__all__ = ["do", "saver"]  # fixtures

CONVERSATION = ["human: hi", "ai: -> weather(city='Rome')", "tool weather: sunny in Rome", "ai: Sunny."]


class Killed(BaseException):
    """The process is dead."""


def broken_off(saver, stored):
    """An agent whose thread has `stored` checkpoints, and besides what the step after the last of them came to."""
    agent = agent_with(saver, tool_call("weather", city="Rome"), "Sunny.")
    put, left = saver.put, stored

    def mortal(*args):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return put(*args)

    saver.put = mortal
    with pytest.raises(Killed):
        agent.invoke({"messages": "hi"}, THREAD, durability="sync")
    left = math.inf
    state = agent.get_state(THREAD)
    assert (state.next, len(state.tasks)) == ((), 1)
    return agent


@pytest.fixture(params=[(1, "__start__"), (2, "model"), (3, "tools"), (4, "model")], ids=str)
def unfinished(request, saver):
    """An agent on such a thread, and the node whose step is not over."""
    stored, node = request.param
    return broken_off(saver, stored), node


def test_such_a_thread_is_unfinished(unfinished) -> None:
    agent, node = unfinished
    assert outcome(agent.get_state(THREAD)) == Outcome("unfinished", next=(node,))
    assert describe(agent.invoke(None, THREAD)["messages"]) == CONVERSATION
    assert outcome(agent.get_state(THREAD)) == Outcome("answer", text="Sunny.")


def test_such_a_thread_is_sound_and_is_not_repaired(do, saver, unfinished) -> None:
    agent, node = unfinished
    before, report = agent.get_state(THREAD), do("repair_report", agent, THREAD)
    assert (report.is_sound, report.next) == (True, (node,))
    told = do("repair_report", saver, THREAD)
    assert (told.is_sound, told.next) == (True, (node,))
    with pytest.raises(ConfigurationError, match=f"The thread '1' is not at rest: the step of {node} is not over"):
        do("repair", agent, THREAD)
    assert agent.get_state(THREAD) == before
    assert describe(agent.invoke(None, THREAD)["messages"]) == CONVERSATION


def test_such_a_thread_gets_no_snapshot(do, unfinished) -> None:
    agent, node = unfinished
    before = agent.get_state(THREAD)
    with pytest.raises(ConfigurationError, match=f"The thread '1' is not at rest: the step of {node} is not over"):
        do("prune", agent, "1", keep_last=1, snapshot=True)
    assert agent.get_state(THREAD) == before
    do("prune", agent, "1", keep_last=1)
    assert describe(agent.invoke(None, THREAD)["messages"]) == CONVERSATION


@pytest.mark.parametrize(("stored", "node"), [(2, "model"), (3, "tools"), (4, "model")])
def test_a_rewind_before_a_message_of_such_a_step_has_the_step_run_anew(do, saver, stored, node) -> None:
    agent = broken_off(saver, stored)
    *before, message = do("messages", agent, THREAD)
    back = do("rewind", agent, THREAD, before_message=message.id)
    assert (do("messages", agent, back), agent.get_state(back).next) == (before, (node,))
