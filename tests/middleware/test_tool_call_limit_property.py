"""Whatever a model calls, under whichever limits: no more of it runs than they let through, and all is answered."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import create_agent
from agentgraph.middleware import ToolCallLimitExceededError, ToolCallLimitMiddleware
from agentgraph.runs import outcome
from agentgraph.testing import ScriptedModel, assert_valid_history, tool_call
from agentgraph.tools import tool
from tests.contract import conftest
from tests.middleware.approving import THREAD

FEW = st.integers(0, 3)
TURNS = st.lists(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3), max_size=3)


@st.composite
def limits(draw):
    thread, run = draw(st.none() | FEW), draw(FEW)
    return {
        "tool_name": draw(st.sampled_from([None, "a", "b"])),
        "thread_limit": thread,
        "run_limit": run if thread is None else min(run, thread),
        "exit_behavior": draw(st.sampled_from(["continue", "continue", "end", "error"])),
    }


class Desk:
    """An agent with limits on one thread; `ran` has the tools that ran."""

    def __init__(self, stack):
        self.ran = ran = []
        self.saver = InMemorySaver()
        self.stack = [ToolCallLimitMiddleware(**one) for one in stack]

        @tool
        def a(n: int) -> str:
            """One tool."""
            ran.append("a")
            return f"a{n}"

        @tool
        def b(n: int) -> str:
            """Another tool."""
            ran.append("b")
            return f"b{n}"

        self.tools = [a, b]

    def say(self, run, script):
        """One run; gives how it ended, and the state it left."""
        agent = create_agent(
            ScriptedModel(*script), self.tools, middleware=self.stack, checkpointer=self.saver, on_tool_error="raise"
        )
        try:
            end = outcome(run(agent, {"messages": "go"}, THREAD))
        except ToolCallLimitExceededError as error:
            end = outcome(error)
        return end, agent.get_state(THREAD).values


def counted(limit, ran):
    return len(ran) if limit["tool_name"] is None else Counter(ran)[limit["tool_name"]]


@settings(max_examples=60, deadline=None)
@given(runs=st.lists(st.tuples(TURNS, st.booleans()), min_size=1, max_size=3), stack=st.lists(limits(), max_size=3))
def test_limits_hold_in_every_run_and_over_the_thread(runs, stack):
    desk, number = Desk(stack), 0
    for wanted, is_async in runs:
        script, before = [], len(desk.ran)
        for names in wanted:
            script.append([tool_call(name, n=number + place) for place, name in enumerate(names)])
            number += len(names)
        end, state = desk.say(conftest._ainvoke if is_async else conftest._invoke, [*script, "Done."])
        assert_valid_history(state["messages"])
        assert end.kind == "limit" or end.text == "Done."
        for limit in stack:
            assert counted(limit, desk.ran[before:]) <= limit["run_limit"]
            assert limit["thread_limit"] is None or counted(limit, desk.ran) <= limit["thread_limit"]
            key = limit["tool_name"] or "__all__"
            assert state.get("thread_tool_call_count", {}).get(key, 0) == counted(limit, desk.ran)
