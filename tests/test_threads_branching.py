"""Forks and rewinds."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from agentgraph.errors import CheckpointError, ConfigurationError, ThreadBusyError
from agentgraph.nodes.effects import perform
from agentgraph.runs.leases import take_thread
from agentgraph.testing import assert_valid_history, tool_call
from tests.thread_agents import THREAD, agent_with, do, saver, say, told, turn, weather_agent

__all__ = ["do", "saver"]  # fixtures

OTHER = {"configurable": {"thread_id": "2"}}


def ends(do, agent, thread=THREAD):
    """The steps of a thread that ended a turn."""
    return [step for step in do("history", agent, thread, limit=None) if not step.next]


@pytest.mark.parametrize("new_thread", [None, "2"])
def test_a_fork_goes_on_from_its_checkpoint_and_leaves_the_rest_alone(do, saver, new_thread) -> None:
    agent = weather_agent(saver, 4)
    say(agent, "hi", "and now?", "and then?")
    checkpoint = ends(do, agent)[0].config
    tip = ends(do, agent)[-1].config
    branch = do("fork", agent, checkpoint, thread_id=new_thread)
    assert branch == {"configurable": {"thread_id": new_thread or "1"}}
    assert told(do("messages", agent, branch)) == turn(0)
    say(agent, "or so?", thread=branch)
    assert told(do("messages", agent, branch)) == turn(0) + turn(3, "or so?")
    assert_valid_history(do("messages", agent, branch))
    left = THREAD if new_thread else tip
    assert told(do("messages", agent, left)) == turn(0) + turn(1, "and now?") + turn(2, "and then?")


@pytest.mark.parametrize("new_thread", [None, "2"])
def test_a_fork_in_the_middle_of_a_turn_runs_what_was_next_there(do, saver, new_thread) -> None:
    agent = agent_with(saver, tool_call("weather", city="Rome"), "Sunny.", "Sunny indeed.")
    say(agent, "hi")
    (before_tools,) = [step for step in do("history", agent, THREAD) if step.next == ("tools",)]
    branch = do("fork", agent, before_tools.config, thread_id=new_thread)
    assert agent.get_state(branch).next == ("tools",)
    assert told(agent.invoke(None, branch)["messages"]) == [
        ("human", "hi"),
        ("ai", ""),
        ("tool", "sunny in Rome"),
        ("ai", "Sunny indeed."),
    ]


@pytest.mark.parametrize("new_thread", [None, "2"])
def test_a_fork_may_begin_with_an_update(do, saver, new_thread) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    said = do("messages", agent, THREAD)[0]
    update = {"messages": [HumanMessage("hello", id=said.id)]}
    checkpoint = ends(do, agent)[0].config
    branch = do("fork", agent, checkpoint, update=update, thread_id=new_thread)
    assert told(do("messages", agent, branch)) == turn(0, "hello")
    assert told(do("messages", agent, checkpoint)) == turn(0)


def test_a_fork_of_a_paused_thread_asks_again_and_leaves_the_question_open(do, saver) -> None:
    agent = agent_with(saver, tool_call("ask", question="Which city?"), "Thanks.", "Thank you.")
    say(agent, "hi")
    branch = do("fork", agent, THREAD, thread_id="2")
    assert [asked.value for asked in agent.invoke(None, branch)["__interrupt__"]] == ["Which city?"]
    assert told(agent.invoke(Command(resume="Oslo"), branch)["messages"])[-2] == ("tool", "Oslo")
    assert told(agent.invoke(Command(resume="Rome"), THREAD)["messages"])[-2] == ("tool", "Rome")


def test_a_fork_keeps_other_settings_of_the_config_and_no_checkpoint(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    checkpoint = ends(do, agent)[0].checkpoint_id
    config = {
        "tags": ["mine"],
        "configurable": {"thread_id": "1", "user": "ada", "checkpoint_id": checkpoint, "checkpoint_ns": ""},
    }
    branch = do("fork", agent, config, thread_id="2")
    assert branch == {"tags": ["mine"], "configurable": {"thread_id": "2", "user": "ada"}}


def test_a_fork_into_a_thread_that_exists_is_refused(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    say(agent, "hello", thread=OTHER)
    with pytest.raises(CheckpointError, match="There is a thread '2' already"):
        do("fork", agent, THREAD, thread_id="2")
    assert told(do("messages", agent, OTHER)) == turn(1, "hello")
    with pytest.raises(ConfigurationError, match="is the thread that is forked"):
        do("fork", agent, THREAD, thread_id="1")


def test_a_fork_can_be_made_with_the_saver_alone_but_not_updated(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi")
    branch = do("fork", saver, THREAD, thread_id="2")
    assert told(say_and_read(agent, do, branch)) == turn(0) + turn(1, "and?")
    with pytest.raises(ConfigurationError, match="Give the agent instead"):
        do("fork", saver, THREAD, update={"messages": []})


def say_and_read(agent, do, thread):
    say(agent, "and?", thread=thread)
    return do("messages", agent, thread)


def test_an_update_that_langgraph_refuses_says_what_to_name(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    with pytest.raises(ConfigurationError, match=r"as_node='nobody'.*one of 'model', 'tools'"):
        do("fork", agent, THREAD, update={"messages": []}, as_node="nobody")


def test_a_rewind_takes_a_thread_back_to_a_checkpoint(do, saver) -> None:
    agent = weather_agent(saver, 4)
    say(agent, "hi", "and now?")
    first, second = ends(do, agent)
    back = do("rewind", agent, THREAD, to=first.config)
    assert told(do("messages", agent, back)) == turn(0)
    say(agent, "or so?", thread=back)
    assert told(do("messages", agent, THREAD)) == turn(0) + turn(2, "or so?")
    do("rewind", agent, THREAD, to=second.checkpoint_id)
    assert told(do("messages", agent, THREAD)) == turn(0) + turn(1, "and now?")
    say(agent, "and then?")
    assert told(do("messages", agent, THREAD))[8:] == turn(3, "and then?")


def test_a_rewind_before_what_a_person_said_lets_it_be_said_anew(do, saver) -> None:
    agent = weather_agent(saver, 3)
    say(agent, "hi", "and now?")
    second = do("messages", agent, THREAD)[4]
    back = do("rewind", agent, THREAD, before_message=second.id)
    assert (told(do("messages", agent, back)), agent.get_state(back).next) == (turn(0), ())
    say(agent, "and here?", thread=back)
    assert told(do("messages", agent, THREAD)) == turn(0) + turn(2, "and here?")


def test_a_rewind_before_an_answer_of_the_model_has_it_answer_anew(do, saver) -> None:
    agent = agent_with(saver, "Hello!", "Good day!")
    say(agent, "hi")
    answer = do("messages", agent, THREAD)[-1]
    back = do("rewind", agent, THREAD, before_message=answer.id)
    assert told(agent.invoke(None, back)["messages"]) == [("human", "hi"), ("ai", "Good day!")]


def test_a_rewind_works_with_the_saver_alone(do, saver) -> None:
    agent = weather_agent(saver, 2)
    say(agent, "hi", "and now?")
    second = do("messages", saver, THREAD)[4]
    do("rewind", saver, THREAD, before_message=second.id)
    assert told(do("messages", agent, THREAD)) == turn(0)


def test_a_rewind_to_where_nothing_is_says_so(do, saver) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    first = do("messages", agent, THREAD)[0]
    with pytest.raises(CheckpointError, match="begins with the message"):
        do("rewind", agent, THREAD, before_message=first.id)
    with pytest.raises(CheckpointError, match="no message 'nothing'"):
        do("rewind", agent, THREAD, before_message="nothing")
    with pytest.raises(CheckpointError, match="no checkpoint 'nothing'"):
        do("rewind", agent, THREAD, to="nothing")
    assert told(do("messages", agent, THREAD)) == turn(0)


@pytest.mark.parametrize("where", [{}, {"to": "a", "before_message": "b"}])
def test_a_rewind_needs_one_place_to_go_to(do, saver, where) -> None:
    with pytest.raises(ConfigurationError, match="Expected either a checkpoint or a message"):
        do("rewind", weather_agent(saver), THREAD, **where)


@pytest.mark.parametrize("to", [THREAD, {"configurable": {"thread_id": "2", "checkpoint_id": "x"}}])
def test_a_rewind_goes_to_a_checkpoint_of_its_own_thread(do, saver, to) -> None:
    with pytest.raises(ConfigurationError, match="to must be a checkpoint of the thread '1'"):
        do("rewind", weather_agent(saver), THREAD, to=to)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("rewind", (THREAD,), {"to": "x"}),
        ("fork", (THREAD,), {}),
        ("repair", (THREAD,), {}),
        ("delete_thread", ("1",), {}),
        ("prune", ("1",), {"keep_last": 1}),
        ("copy_thread", ("2", "1"), {}),
    ],
)
def test_a_thread_on_which_a_run_is_at_work_is_not_changed(do, saver, name, args, kwargs) -> None:
    agent = weather_agent(saver)
    say(agent, "hi")
    held = perform(take_thread(saver, "1", wait=False, until=None))
    with pytest.raises(ThreadBusyError, match="'1'"):
        do(name, agent, *args, **kwargs)
    held.release()
    assert told(do("messages", agent, THREAD)) == turn(0)


def test_what_subgraphs_did_before_the_checkpoint_comes_along(do, saver) -> None:
    inner = StateGraph(MessagesState).add_node("echo", lambda state: {"messages": [HumanMessage("echo")]})
    graph = StateGraph(MessagesState).add_node("child", inner.add_edge(START, "echo").compile())
    agent = graph.add_edge(START, "child").compile(checkpointer=saver)
    agent.invoke({"messages": "one"}, THREAD)
    first = ends(do, agent)[-1]
    agent.invoke({"messages": "two"}, THREAD)
    spaces = namespaces(saver, "1")
    do("fork", agent, first.config, thread_id="2")
    assert (len(spaces), len(namespaces(saver, "2"))) == (2, 1)
    assert namespaces(saver, "2") < spaces


def namespaces(saver: BaseCheckpointSaver[str], thread_id: str) -> set[str]:
    """The namespaces of a thread's subgraphs."""
    found = saver.list({"configurable": {"thread_id": thread_id}})
    return {one.config["configurable"]["checkpoint_ns"] for one in found} - {""}
