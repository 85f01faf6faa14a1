"""Threads that break off and go on: finished work is kept, in all four ways to run and with every kind of saver."""

import asyncio
import gc
import threading

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError, is_invalid_resume
from langgraph.types import Command, interrupt

from agentgraph import AgentMiddleware, create_agent
from agentgraph.errors import ConfigurationError, DeadlineError, ResumeError, ThreadBusyError
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.persistence import open_checkpointer
from agentgraph.runs import RunControl
from agentgraph.testing import Gate, ScriptedModel, assert_valid_history, describe, tool_call
from agentgraph.tools import tool

SECONDS = 20
THREAD = {"configurable": {"thread_id": "1"}}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    """A saver that sync and async code can use: langgraph's own, without leases, and ours over a file."""
    if request.param == "memory":
        yield InMemorySaver()
        return
    with open_checkpointer(f"sqlite:///{tmp_path / 'threads.db'}") as opened:
        yield opened


class Works:
    """Tools with side effects that are counted."""

    def __init__(self):
        self.log = []
        self.broken = True
        log = self.log

        # Async, so that also in an async run the first has its result before the second fails and ends the step.
        @tool
        async def good(x: str) -> str:
            """Works."""
            log.append(f"good {x}")
            return f"good {x}"

        @tool
        async def flaky(x: str) -> str:
            """Fails as long as it is broken."""
            log.append(f"flaky {x}")
            if self.broken:
                raise ConnectionError("service down")
            return f"flaky {x}"

        @tool
        def ask(question: str) -> str:
            """Asks a person."""
            reply = interrupt(question)
            log.append(f"told {reply}")
            return str(reply)

        self.tools = [good, flaky, ask]

    def agent(self, saver, *replies, **options):
        model = ScriptedModel(replies=list(replies))
        return create_agent(model, self.tools, checkpointer=saver, on_tool_error="raise", **options), model


@pytest.fixture
def works():
    return Works()


GOOD, FLAKY = tool_call("good", x="1", id="g"), tool_call("flaky", x="1", id="f")
ASK = tool_call("ask", question="Sure?", id="q")


def test_a_new_message_after_a_failed_tool_keeps_its_neighbours_result(run, saver, works):
    agent, model = works.agent(saver, [GOOD, FLAKY], "Good worked, flaky did not.")
    with pytest.raises(ConnectionError):
        run(agent, {"messages": "go"}, THREAD)
    result = run(agent, {"messages": "what happened?"}, THREAD)
    told = describe(result["messages"])
    assert told[:3] == ["human: go", "ai: -> good(x='1') -> flaky(x='1')", "tool good: good 1"]
    assert told[3].startswith("tool flaky error: No result: the call of 'flaky' was not finished")
    assert told[4:] == ["human: what happened?", "ai: Good worked, flaky did not."]
    assert sorted(works.log) == ["flaky 1", "good 1"]
    assert_valid_history(model.requests[-1].messages)


def test_going_on_after_a_failed_tool_runs_that_one_only(run, saver, works):
    agent, _ = works.agent(saver, [GOOD, FLAKY], "Both worked.")
    with pytest.raises(ConnectionError):
        run(agent, {"messages": "go"}, THREAD)
    works.broken = False
    result = run(agent, None, THREAD)
    assert describe(result["messages"])[2:] == ["tool good: good 1", "tool flaky: flaky 1", "ai: Both worked."]
    assert sorted(works.log) == ["flaky 1", "flaky 1", "good 1"]


def test_a_result_that_comes_after_a_neighbours_failure_is_kept(run, saver):
    failed = threading.Event()
    log = []

    @tool
    def late(x: str) -> str:
        """Ends only when its neighbour has failed."""
        assert failed.wait(SECONDS)
        log.append(x)
        return f"late {x}"

    @tool
    def fails(x: str) -> str:
        """Fails at once."""
        failed.set()
        raise ConnectionError(x)

    calls = [tool_call("late", x="1", id="l"), tool_call("fails", x="1", id="f")]
    model = ScriptedModel(replies=[calls, "So it is."])
    options = {"checkpointer": saver, "on_tool_error": "raise"}
    agent = create_agent(model, [late, fails], **options)
    with pytest.raises(ConnectionError) as caught:
        run(agent, {"messages": "go"}, THREAD)
    assert not is_invalid_resume(caught.value)
    assert describe(run(agent, {"messages": "and?"}, THREAD)["messages"])[2] == "tool late: late 1"
    assert log == ["1"]


def test_a_new_message_closes_a_question_and_keeps_the_neighbours_result(run, saver, works):
    agent, model = works.agent(saver, [GOOD, ASK], "As you like.")
    run(agent, {"messages": "go"}, THREAD)
    assert [one.value for one in agent.get_state(THREAD).interrupts] == ["Sure?"]
    result = run(agent, {"messages": "never mind"}, THREAD)
    told = describe(result["messages"])
    assert told[2] == "tool good: good 1"
    assert told[3].startswith("tool ask error: No result: the call of 'ask' was not finished")
    assert told[4:] == ["human: never mind", "ai: As you like."]
    assert works.log == ["good 1"]
    assert_valid_history(model.requests[-1].messages)


def test_a_new_message_instead_of_a_decision_says_that_the_calls_were_not_run(run, saver, works):
    agent, model = works.agent(
        saver, [GOOD, FLAKY], "Fine.", middleware=[HumanInTheLoopMiddleware(interrupt_on={"flaky": True})]
    )
    assert "__interrupt__" in run(agent, {"messages": "go"}, THREAD)
    result = run(agent, {"messages": ["no", "really not"]}, THREAD)
    reason = "a person's decision was awaited, who went on with the conversation instead."
    assert describe(result["messages"])[2:] == [
        f"tool good error: The call of 'good' was not run: {reason}",
        f"tool flaky error: The call of 'flaky' was not run: {reason}",
        "human: no",
        "human: really not",
        "ai: Fine.",
    ]
    assert works.log == []
    assert_valid_history(model.requests[-1].messages)


def test_a_late_answer_after_a_new_message_is_refused(run, saver, works):
    agent, _ = works.agent(saver, [ASK], "As you like.")
    asked = run(agent, {"messages": "go"}, THREAD)["__interrupt__"][0]
    run(agent, {"messages": "never mind"}, THREAD)
    before = agent.get_state(THREAD).config
    for late in (Command(resume="yes"), Command(resume={asked.id: "yes"})):
        with pytest.raises(ResumeError):
            run(agent, late, THREAD)
    assert agent.get_state(THREAD).config == before
    assert works.log == []


@pytest.mark.parametrize("calls_first", [False, True], ids=["first turn", "after tools"])
def test_a_new_message_after_a_model_error_goes_on_with_what_there_is(run, saver, works, calls_first):
    turns = [[GOOD]] if calls_first else []
    agent, model = works.agent(saver, *turns, TimeoutError("model busy"), "Here.")
    with pytest.raises(TimeoutError):
        run(agent, {"messages": "one"}, THREAD)
    result = run(agent, {"messages": "two"}, THREAD)
    tools = ["ai: -> good(x='1')", "tool good: good 1"] if calls_first else []
    assert describe(result["messages"]) == ["human: one", *tools, "human: two", "ai: Here."]
    assert works.log == ["good 1"] * calls_first
    assert_valid_history(model.requests[-1].messages)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [(1, []), (2, ["ai: -> good(x='1')", "tool good error"]), (3, ["ai: -> good(x='1')", "tool good: good 1"])],
)
def test_a_new_message_after_a_step_limit_loses_nothing(run, saver, works, steps, kept):
    agent, model = works.agent(saver, *([[GOOD]] if kept else []), "Here.", middleware=[Steps()])
    with pytest.raises(GraphRecursionError):
        run(agent, {"messages": "one"}, {**THREAD, "recursion_limit": steps})
    result = run(agent, {"messages": "two"}, THREAD)
    told = [
        line if line.startswith("tool good: ") else line.split(": No result")[0]
        for line in describe(result["messages"])
    ]
    assert told == ["human: one", *kept, "human: two", "ai: Here."]
    assert works.log == ["good 1"] * (steps == 3)
    assert_valid_history(model.requests[-1].messages)


class Steps(AgentMiddleware):
    """A step of its own at the start of a run."""

    def before_agent(self, state, runtime):
        return None


def test_a_second_run_on_a_thread_is_refused_and_the_first_is_not_disturbed(saver):
    gate = Gate()
    agent = create_agent(ScriptedModel(gate.hold("one"), "two"), checkpointer=saver)
    results = []
    first = threading.Thread(target=lambda: results.append(agent.invoke({"messages": "a"}, THREAD)))
    first.start()
    gate.arrived.wait()
    with pytest.raises(ThreadBusyError, match="thread '1'"):
        agent.invoke({"messages": "b"}, THREAD)
    other = {"configurable": {"thread_id": "2"}}
    assert describe(agent.invoke({"messages": "c"}, other)["messages"]) == ["human: c", "ai: two"]
    gate.open()
    first.join(SECONDS)
    assert describe(results[0]["messages"]) == ["human: a", "ai: one"]
    assert describe(agent.get_state(THREAD).values["messages"]) == ["human: a", "ai: one"]


def test_a_run_can_wait_for_the_one_before_it(saver):
    gate = Gate()
    agent = create_agent(ScriptedModel(gate.hold("one"), "two"), checkpointer=saver)

    async def both():
        first = asyncio.create_task(agent.ainvoke({"messages": "a"}, THREAD))
        await gate.arrived.wait_async()
        second = asyncio.create_task(agent.ainvoke({"messages": "b"}, THREAD, control=RunControl(on_busy="wait")))
        await asyncio.sleep(0)
        gate.open()
        return await asyncio.gather(first, second)

    results = asyncio.run(asyncio.wait_for(both(), SECONDS))
    assert [describe(result["messages"]) for result in results] == [
        ["human: a", "ai: one"],
        ["human: a", "ai: one", "human: b", "ai: two"],
    ]


def test_waiting_for_a_thread_ends_at_the_deadline(saver):
    gate = Gate()
    agent = create_agent(ScriptedModel(gate.hold("one")), checkpointer=saver)
    first = threading.Thread(target=lambda: agent.invoke({"messages": "a"}, THREAD))
    first.start()
    gate.arrived.wait()
    with pytest.raises((ThreadBusyError, DeadlineError)):
        agent.invoke({"messages": "b"}, THREAD, control=RunControl(deadline=0.05, on_busy="wait"))
    gate.open()
    first.join(SECONDS)


def test_a_tool_cannot_wait_for_the_thread_of_its_own_run(run, saver):
    @tool
    def again(x: str) -> str:
        """Call the agent on its own thread."""
        return str(agent.invoke({"messages": x}, THREAD, control=RunControl(on_busy="wait")))

    agent = create_agent(ScriptedModel(tool_call("again", x="1", id="a"), "I see."), [again], checkpointer=saver)
    told = describe(run(agent, {"messages": "go"}, THREAD)["messages"])
    assert "belongs to the run that this call is part of" in told[2]
    assert told[3] == "ai: I see."


def _fails(agent, run):
    with pytest.raises(ConnectionError):
        run(agent, {"messages": "go"}, THREAD)


def _pauses(agent, run):
    assert "__interrupt__" in run(agent, {"messages": "go"}, THREAD)


def _is_refused(agent, run):
    with pytest.raises(ResumeError):
        run(agent, Command(resume="yes"), THREAD)


def _is_closed(agent, run):
    stream = agent.stream({"messages": "go"}, THREAD)
    next(stream)
    stream.close()


def _is_forgotten(agent, run):
    stream = agent.stream({"messages": "go"}, THREAD)
    next(stream)
    del stream
    gc.collect()


def _is_closed_async(agent, run):
    async def go():
        stream = agent.astream({"messages": "go"}, THREAD)
        await anext(stream)
        await stream.aclose()

    asyncio.run(asyncio.wait_for(go(), SECONDS))


def _is_forgotten_async(agent, run):
    async def go():
        stream = agent.astream({"messages": "go"}, THREAD)
        await anext(stream)

    asyncio.run(asyncio.wait_for(go(), SECONDS))


@pytest.mark.parametrize(
    ("calls", "ends"),
    [
        ([FLAKY], _fails),
        ([ASK], _pauses),
        ([ASK], _is_refused),
        ([GOOD], _is_closed),
        ([GOOD], _is_forgotten),
        ([GOOD], _is_closed_async),
        ([GOOD], _is_forgotten_async),
    ],
)
def test_a_thread_is_free_again_however_its_run_ended(run, saver, works, calls, ends):
    agent, _ = works.agent(saver, calls)
    ends(agent, run)
    free, model = works.agent(saver, "Here.")
    result = run(free, {"messages": "and now?"}, THREAD)
    assert describe(result["messages"])[-2:] == ["human: and now?", "ai: Here."]
    assert_valid_history(model.requests[-1].messages)


def test_an_input_that_does_not_fit_the_state_does_not_spoil_the_thread(run, saver):
    agent = create_agent(ScriptedModel("one", "two"), checkpointer=saver)
    run(agent, {"messages": "a"}, THREAD)
    with pytest.raises(ConfigurationError, match="nobody"):
        run(agent, {"messages": [RemoveMessage(id="nobody")]}, THREAD)
    with pytest.warns(UserWarning, match="cannot be taken over"):
        result = run(agent, {"messages": "b"}, THREAD)
    assert describe(result["messages"]) == ["human: a", "ai: one", "human: b", "ai: two"]
