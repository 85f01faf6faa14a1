"""The state of a thread written from outside: what tools had finished is kept, and no run is at work meanwhile."""

import asyncio
import contextlib
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, StateUpdate, interrupt

from agentgraph import create_agent, threads
from agentgraph.errors import ThreadBusyError
from agentgraph.persistence import open_checkpointer
from agentgraph.runs import pending_questions, resume
from agentgraph.runs.compiled import AgentGraph
from agentgraph.testing import ScriptedModel, describe, tool_call
from agentgraph.tools import tool

SECONDS = 20
THREAD: Any = {"configurable": {"thread_id": "1"}}
GO = {"messages": "go"}
BY_THE_WAY = {"messages": [{"role": "user", "content": "by the way"}]}


def bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


def _update(agent, config=THREAD, values=BY_THE_WAY, **options):
    return agent.update_state(config, values, **options)


def _aupdate(agent, config=THREAD, values=BY_THE_WAY, **options):
    return bounded(agent.aupdate_state(config, values, **options))


def _bulk(agent, config=THREAD, values=BY_THE_WAY, **options):
    return agent.bulk_update_state(config, [[StateUpdate(values, **options)]])


def _abulk(agent, config=THREAD, values=BY_THE_WAY, **options):
    return bounded(agent.abulk_update_state(config, [[StateUpdate(values, **options)]]))


@pytest.fixture(params=[_update, _aupdate, _bulk, _abulk], ids=["update", "aupdate", "bulk", "abulk"])
def write(request):
    """Write into the state, in one of the four ways."""
    return request.param


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    with open_checkpointer(f"sqlite:///{tmp_path / 'threads.db'}") as opened:
        yield opened


class Works:
    """Two tools of one turn, of which the second fails the first time or asks; what ran is written down."""

    def __init__(self):
        self.log: list[str] = []

        @tool
        def note(x: str) -> str:
            """Works."""
            self.log.append("note")
            return "noted"

        @tool
        def breaks(x: str) -> str:
            """Raises the first time."""
            self.log.append("breaks")
            if self.log.count("breaks") == 1:
                raise ConnectionError(x)
            return "done"

        @tool
        def ask(x: str) -> str:
            """Asks."""
            return str(interrupt(x))

        self.tools = [note, breaks, ask]

    def agent(self, saver, *replies, **options):
        return create_agent(
            ScriptedModel(replies=list(replies)), self.tools, checkpointer=saver, on_tool_error="raise", **options
        )

    def broken_off(self, saver, second="breaks"):
        """An agent whose thread 1 broke off with one tool finished."""
        agent = self.agent(saver, [tool_call("note", x="1"), tool_call(second, x="1")], "Done.")
        with contextlib.suppress(ConnectionError):
            agent.invoke(GO, THREAD)
        assert [task.result is not None for task in agent.get_state(THREAD).tasks] == [True, False]
        return agent


@pytest.fixture
def works():
    return Works()


CALLED = ["human: go", "ai: -> note(x='1') -> breaks(x='1')"]
ENDED = [*CALLED, "tool note: noted", "tool breaks: done", "human: by the way", "ai: Done."]


@pytest.mark.parametrize("named", [False, True], ids=["the thread", "its newest checkpoint"])
def test_an_update_keeps_the_results_of_finished_tools(write, saver, works, named):
    agent = works.broken_off(saver)
    config = agent.get_state(THREAD).config if named else THREAD
    new = write(agent, config)
    snapshot = agent.get_state(THREAD)
    assert new["configurable"]["checkpoint_id"] == snapshot.config["configurable"]["checkpoint_id"]
    assert describe(snapshot.values["messages"]) == [*CALLED, "tool note: noted", "human: by the way"]
    assert snapshot.next == ("tools",)
    assert describe(agent.invoke(None, THREAD)["messages"]) == ENDED
    assert works.log == ["note", "breaks", "breaks"]


def test_an_update_as_a_node_keeps_the_results_of_finished_tools(write, saver, works):
    agent = works.broken_off(saver)
    write(agent, as_node="tools")
    assert agent.get_state(THREAD).next == ("model",)
    told = describe(agent.invoke(None, THREAD)["messages"])
    assert told[:3] == [*CALLED, "tool note: noted"]
    assert told[3].startswith("tool breaks error: No result")
    assert told[4:] == ["human: by the way", "ai: Done."]
    assert works.log == ["note", "breaks"]


def test_an_update_as_an_input_keeps_the_results_of_finished_tools(write, saver, works):
    agent = works.broken_off(saver)
    write(agent, as_node="__input__")
    told = describe(agent.invoke(None, THREAD)["messages"])
    assert told[:3] == [*CALLED, "tool note: noted"]
    assert told[3].startswith("tool breaks error: No result")
    assert told[4:] == ["human: by the way", "ai: Done."]
    assert works.log == ["note", "breaks"]


def test_an_update_beside_an_open_question_has_it_asked_again_and_runs_nothing_twice(write, saver, works):
    agent = works.broken_off(saver, "ask")
    write(agent)
    agent.invoke(None, THREAD)
    assert [one.value for one in pending_questions(agent, THREAD)] == ["1"]
    told = describe(resume(agent, THREAD, "yes")["messages"])
    assert told[2:] == ["tool note: noted", "tool ask: yes", "human: by the way", "ai: Done."]
    assert works.log == ["note"]


def test_a_step_that_was_over_but_for_its_checkpoint_goes_on_after_an_update(write, saver, works):
    agent = works.agent(saver, tool_call("note", x="1"), "Done.")
    agent.invoke(GO, THREAD)
    before = next(one for one in agent.get_state_history(THREAD) if one.next == ("tools",))
    (task,) = before.tasks
    other: Any = {"configurable": {"thread_id": "2"}}
    agent = works.agent(saver, tool_call("note", x="1"), "Done.", interrupt_before=["tools"])
    agent.invoke(GO, other)
    newest = agent.get_state(other)
    messages = task.result["messages"]
    writes = [("messages", messages), ("branch:to:model", None)]
    saver.put_writes(newest.config, writes, newest.tasks[0].id)
    write(agent, other)
    assert agent.get_state(other).next == ("model",)
    told = describe(agent.invoke(None, other)["messages"])
    assert told == ["human: go", "ai: -> note(x='1')", "tool note: noted", "human: by the way", "ai: Done."]
    assert works.log == ["note"]


WRONG: dict[str, Any] = {
    "an unknown node": ({"as_node": "nobody"}, InvalidUpdateError),
    "values that do not fit": ({"values": {"messages": object()}}, NotImplementedError),
}


@pytest.mark.parametrize("name", WRONG)
def test_after_an_update_that_was_refused_only_the_unfinished_call_runs(write, saver, works, name):
    options, error = WRONG[name]
    agent = works.broken_off(saver)
    with pytest.raises(error):
        write(agent, **options)
    assert agent.get_state(THREAD).next == ("tools",)
    told = describe(agent.invoke(None, THREAD)["messages"])
    assert told == [one for one in ENDED if one != "human: by the way"]
    assert works.log == ["note", "breaks", "breaks"]


def test_an_update_of_an_earlier_checkpoint_branches_off_there(write, saver, works):
    agent = works.broken_off(saver)
    earlier = next(one for one in agent.get_state_history(THREAD) if one.next == ("model",))
    write(agent, earlier.config)
    assert describe(agent.get_state(THREAD).values["messages"]) == ["human: go", "human: by the way"]


@pytest.mark.parametrize("values", [None, [(BY_THE_WAY, "model")]])
def test_a_copy_of_a_checkpoint_is_one_as_nothing_had_run(write, saver, works, values):
    agent = works.broken_off(saver)
    write(agent, values=values, as_node="__copy__")
    assert "tool note: noted" not in describe(agent.get_state(THREAD).values["messages"])


def test_a_thread_that_is_cleared_keeps_what_was_finished(write, saver, works):
    agent = works.broken_off(saver)
    write(agent, values=None, as_node=END)
    assert describe(agent.get_state(THREAD).values["messages"]) == [*CALLED, "tool note: noted"]


def test_several_supersteps_follow_each_other(saver, works):
    steps = [[StateUpdate({"messages": HumanMessage(text)}, "model")] for text in ("one", "two")]
    agent = works.broken_off(saver)
    agent.bulk_update_state(THREAD, steps)
    told = describe(agent.get_state(THREAD).values["messages"])
    assert told == [*CALLED, "tool note: noted", "human: one", "human: two"]


def test_a_thread_at_rest_and_a_new_one_are_written_as_by_langgraph(write, saver, works):
    agent = works.agent(saver, "Hello.")
    write(agent, {"configurable": {"thread_id": "new"}}, as_node="model")
    agent.invoke(GO, THREAD)
    write(agent)
    read = [agent.get_state({"configurable": {"thread_id": name}}).values["messages"] for name in ("new", "1")]
    assert [describe(one) for one in read] == [["human: by the way"], ["human: go", "ai: Hello.", "human: by the way"]]


def test_without_a_checkpointer_langgraph_says_what_is_missing(write, works):
    with pytest.raises(ValueError, match="No checkpointer set"):
        write(works.agent(None, "Hello."))


def test_while_a_run_is_at_work_an_update_is_refused_and_nothing_is_written(write, saver, works):
    agent = works.agent(saver, "Hello.")
    stream = agent.stream(GO, THREAD)
    next(stream)
    before = saver.get_tuple(THREAD)
    with pytest.raises(ThreadBusyError):
        write(agent)
    assert saver.get_tuple(THREAD) == before
    stream.close()
    write(agent, as_node="model")
    assert describe(agent.get_state(THREAD).values["messages"])[-1] == "human: by the way"


def test_a_tool_cannot_write_the_state_of_its_own_run_from_outside(saver):
    def inside() -> str:
        """Write beside the run."""
        agent.update_state(THREAD, BY_THE_WAY)
        return "written"

    agent = create_agent(ScriptedModel(tool_call("inside"), "Done."), [inside], checkpointer=saver)
    told = describe(agent.invoke(GO, THREAD)["messages"])
    assert "ThreadBusyError" in told[2]
    assert "belongs to the run" in told[2]


def test_a_tool_can_write_the_state_of_another_thread(saver):
    def inside() -> str:
        """Write to the thread 2."""
        agent.update_state({"configurable": {"thread_id": "2"}}, BY_THE_WAY, as_node="model")
        return "written"

    agent = create_agent(ScriptedModel(tool_call("inside"), "Done."), [inside], checkpointer=saver)
    assert describe(agent.invoke(GO, THREAD)["messages"])[2] == "tool inside: written"


def test_the_state_of_an_agent_inside_a_graph_is_written_alone_and_keeps_what_was_finished(write, saver, works):
    script = [[tool_call("note", x="1"), tool_call("ask", x="1")], "Done."]
    inner = works.agent(None, *script, *script, name="inner")
    builder = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")
    for graph in (builder.compile(checkpointer=saver), AgentGraph.of(builder.compile(checkpointer=saver))):
        works.log.clear()
        name: Any = {"configurable": {"thread_id": type(graph).__name__}}
        graph.invoke({"messages": [("user", "go")]}, name)
        (task,) = graph.get_state(name, subgraphs=True).tasks
        write(graph, task.state.config)
        graph.invoke(None, name)
        (question,) = graph.get_state(name).interrupts
        told = describe(graph.invoke(Command(resume={question.id: "yes"}), name)["messages"])
        assert told[2:] == ["tool note: noted", "tool ask: yes", "human: by the way", "ai: Done."]
        assert works.log == ["note"]


@pytest.mark.parametrize("second", ["breaks", "ask"])
def test_what_is_done_with_a_thread_writes_to_it_while_it_holds_it(saver, works, second):
    agent = works.broken_off(saver, second)
    (earlier,) = [one for one in threads.history(agent, THREAD) if one.next == ("model",)]
    threads.rewind(agent, THREAD, to=earlier.checkpoint_id)
    bounded(threads.afork(agent, THREAD, update=BY_THE_WAY, as_node="model"))
    threads.fork(agent, THREAD, update=BY_THE_WAY, as_node="model")
    told = describe(agent.get_state(THREAD).values["messages"])
    assert told == ["human: go", "human: by the way", "human: by the way"]
    assert describe(agent.invoke(GO, THREAD)["messages"])[-1] == "ai: Done."
