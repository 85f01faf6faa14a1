"""The fault matrix: whatever went wrong, the next turn is one that a provider accepts, and no work is done twice.

Each row is a fault, what must be left in the history, and what the tools may have done, exactly; it runs sync and
async, on every kind of saver. After the fault the conversation goes on against a model that is as strict as a provider.

A process that dies by `kill -9` cannot do so in here. `tests/test_crashes.py` has these rows:

* in a tool: `test_killed_in_a_tool_a_new_message_keeps_the_neighbours_result`,
  `test_killed_in_a_tool_going_on_runs_that_tool_only`
* between model and tools: `test_killed_between_model_and_tools_going_on_runs_each_tool_once`,
  `test_killed_between_model_and_tools_a_new_message_runs_no_tool`
* between two questions: `test_killed_between_two_questions_the_second_gets_no_answer_of_the_first`
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ai, assert_valid_history, describe, invalid_call, tool_call
from tests.contract import faults
from tests.contract.faults import Scene
from tests.persistence.conftest import postgres_server, postgres_url, sqlite_url, url

__all__ = ["postgres_server", "postgres_url", "sqlite_url", "url"]  # fixtures

GOOD, PAY, SLOW, BLOCKING = (tool_call(name, x="1", id=name) for name in ("good", "pay", "slow", "blocking"))
FIRST = tool_call("first", x="1", id="first")
ASK = tool_call("ask", question="Sure?", id="ask")
RAISES = tool_call("raises", x="1", neighbour="first", id="raises")
RAISE_BOTH = [tool_call("raises", x=x, neighbour=other, id=f"raises {x}") for x, other in ("12", "21")]
MALFORMED = ai(GOOD, invalid_call("good", id="broken"))


NOT_RUN = "not run: a person's decision was awaited, who went on with the conversation instead."


@dataclass(frozen=True)
class Row:
    """A fault and what must be left of it.

    Attributes:
        happen: lets it happen.
        replies: what the model says until the next turn.
        left: the history before the next turn; of a tool's message only what its call came to.
        done: the side effects, counted.
        ways: how it can happen.
    """

    happen: Callable[[Scene], None]
    replies: list[Any]
    left: list[str]
    done: dict[str, int]
    ways: tuple[str, ...] = ("sync", "async")


CALLS_FIRST = "ai: -> first(x='1') -> raises(x='1', neighbour='first')"
CALLS_BOTH = "ai: -> raises(x='1', neighbour='2') -> raises(x='2', neighbour='1')"
CALLS_GOOD, CALLS_PAY = "ai: -> good(x='1')", "ai: -> good(x='1') -> pay(x='1')"
CALLS_MALFORMED = "ai: -> good(x='1') -> good(unreadable '{\"city\": \"Rome\"]')"
CALLS_ASK = "ai: -> good(x='1') -> ask(question='Sure?')"
CALLS_SLOW = "ai: -> first(x='1') -> slow(x='1')"
CALLS_BLOCKING = "ai: -> first(x='1') -> blocking(x='1')"
DID_GOOD, DID_FIRST = "tool good: good 1", "tool first: first 1"
STOPPED = ["human: go", CALLS_SLOW, DID_FIRST, "tool slow error: not finished"]
STARTED = {"first 1": 1, "slow 1 began": 1}
AWAITED = ["human: go", CALLS_BLOCKING, DID_FIRST, "tool blocking: blocking 1"]
BOTH = {"first 1": 1, "blocking 1": 1}
PAID = ["human: go", CALLS_PAY, DID_GOOD, "tool pay: paid 1", "ai: Paid."]

FAULTS: dict[str, Row] = {
    "one of two parallel tools raises": Row(
        faults.tool_raises,
        [[FIRST, RAISES]],
        ["human: go", CALLS_FIRST, DID_FIRST, "tool raises error: not finished"],
        {"first 1": 1, "raises 1": 1},
    ),
    "all parallel tools raise": Row(
        faults.tool_raises,
        [RAISE_BOTH],
        ["human: go", CALLS_BOTH, "tool raises error: not finished", "tool raises error: not finished"],
        {"raises 1": 1, "raises 2": 1},
    ),
    "malformed call": Row(
        faults.nothing,
        [MALFORMED, "I see."],
        [
            "human: go",
            CALLS_MALFORMED,
            DID_GOOD,
            "tool good error: not run: its arguments could not be read.",
            "ai: I see.",
        ],
        {"good 1": 1},
    ),
    "task cancelled in an async tool": Row(faults.task_cancelled, [[FIRST, SLOW]], STOPPED, STARTED, ways=("async",)),
    "task cancelled in a sync tool": Row(
        faults.task_cancelled_in_sync_code, [[FIRST, BLOCKING]], AWAITED, BOTH, ways=("async",)
    ),
    "cancelled now in an async tool": Row(faults.cancelled_now, [[FIRST, SLOW]], STOPPED, STARTED),
    "cancelled now in a sync tool": Row(faults.cancelled_now_in_sync_code, [[FIRST, BLOCKING]], AWAITED, BOTH),
    "deadline in an async tool": Row(faults.deadline, [[FIRST, SLOW]], STOPPED, STARTED),
    "deadline in a sync tool": Row(faults.deadline_in_sync_code, [[FIRST, BLOCKING]], AWAITED, BOTH),
    "stream closed in an async tool": Row(faults.stream_closed, [[FIRST, SLOW]], STOPPED, STARTED),
    "stream closed in a sync tool": Row(faults.stream_closed_in_sync_code, [[FIRST, BLOCKING]], AWAITED, BOTH),
    "Ctrl-C in a sync tool": Row(faults.interrupted, [[FIRST, BLOCKING]], AWAITED, BOTH),
    "step limit before the tools": Row(
        faults.step_limit(2), [[GOOD]], ["human: go", CALLS_GOOD, "tool good error: not finished"], {}
    ),
    "step limit after the tools": Row(
        faults.step_limit(3), [[GOOD]], ["human: go", CALLS_GOOD, DID_GOOD], {"good 1": 1}
    ),
    "model error in the first step": Row(faults.model_error, [TimeoutError("busy")], ["human: go"], {}),
    "model error after the tools": Row(
        faults.model_error, [[GOOD], TimeoutError("busy")], ["human: go", CALLS_GOOD, DID_GOOD], {"good 1": 1}
    ),
    "new message while a tool asks": Row(
        faults.pauses,
        [[GOOD, ASK]],
        ["human: go", CALLS_ASK, DID_GOOD, "tool ask error: not finished"],
        {"good 1": 1},
    ),
    "new message while an approval is open": Row(
        faults.pauses,
        [[GOOD, PAY]],
        ["human: go", CALLS_PAY, f"tool good error: {NOT_RUN}", f"tool pay error: {NOT_RUN}"],
        {},
    ),
    "reject": Row(
        faults.answers(faults.REJECT),
        [[GOOD, PAY], "I see."],
        ["human: go", CALLS_PAY, DID_GOOD, "tool pay error: rejected: Too much.", "ai: I see."],
        {"good 1": 1},
    ),
    "edit": Row(
        faults.answers(faults.EDIT),
        [[GOOD, PAY], "Paid."],
        ["human: go", CALLS_PAY, DID_GOOD, "tool pay: edited: paid 2", "ai: Paid."],
        {"good 1": 1, "pay 2": 1},
    ),
    "wrong answer": Row(faults.wrong_answer, [[GOOD, PAY], "Paid."], PAID, {"good 1": 1, "pay 1": 1}),
    "double answer": Row(faults.double_answer, [[GOOD, PAY], "Paid."], PAID, {"good 1": 1, "pay 1": 1}),
    "late answer to an approval": Row(
        faults.late_answer,
        [[GOOD, PAY], "Fine."],
        [
            "human: go",
            CALLS_PAY,
            f"tool good error: {NOT_RUN}",
            f"tool pay error: {NOT_RUN}",
            "human: never mind",
            "ai: Fine.",
        ],
        {},
    ),
    "late answer to a tool's question": Row(
        faults.late_answer,
        [[GOOD, ASK], "Fine."],
        ["human: go", CALLS_ASK, DID_GOOD, "tool ask error: not finished", "human: never mind", "ai: Fine."],
        {"good 1": 1},
    ),
    "summary after a turn": Row(faults.summary(faults.nothing), [[GOOD], "Done."], ["human: Summary."], {"good 1": 1}),
    "summary while a tool asks": Row(faults.summary(faults.pauses), [[GOOD, ASK]], ["human: Summary."], {"good 1": 1}),
    "summary while an approval is open": Row(faults.summary(faults.pauses), [[GOOD, PAY]], ["human: Summary."], {}),
    "summary after a tool raised": Row(
        faults.summary(faults.tool_raises),
        [[FIRST, RAISES]],
        ["human: Summary."],
        {"first 1": 1, "raises 1": 1},
    ),
    "fork before the tools": Row(
        faults.fork, [[GOOD], "Done."], ["human: go", CALLS_GOOD, "tool good error: not finished"], {"good 1": 1}
    ),
    "two runs at once": Row(
        faults.two_runs,
        [[FIRST, SLOW], "Done."],
        ["human: go", CALLS_SLOW, DID_FIRST, "tool slow: slow 1", "ai: Done."],
        {"first 1": 1, "slow 1 began": 1, "slow 1": 1},
    ),
}


# What became of a call, out of the whole text that the model is told.
SHORTER = {
    r"No result: the call of '\w+' was not finished.*": "not finished",
    r"The call of '\w+' was not run: ": "not run: ",
    r"(could not be read\.).*": r"\1",
    r"The user rejected this call of '\w+'; it did not run\. The reason: ": "rejected: ",
    r"A person changed this call before it ran; .*\n\n": "edited: ",
}


def told(messages: list[Any]) -> list[str]:
    """The history, with what became of each call in short."""
    return [_shorter(line) for line in describe(messages)]


def _shorter(line: str) -> str:
    for long, short in SHORTER.items():
        line = re.sub(long, short, line, flags=re.DOTALL)
    return line


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, row in FAULTS.items() for way in row.ways])
def test_after_a_fault_the_next_turn_is_accepted_and_each_effect_happened_once(name: str, way: str, url: str) -> None:
    row = FAULTS[name]
    with open_checkpointer(url) as saver:
        scene = Scene(way, saver, row.replies)
        row.happen(scene)
        assert scene.log == row.done
        messages = scene.say("and now?")["messages"]
        assert told(messages) == [*row.left, "human: and now?", "ai: Here."]
    assert scene.log == row.done
    assert len(scene.model.requests) == len(row.replies) + 1
    assert_valid_history(scene.model.requests[-1].messages)
    assert_valid_history(messages)
