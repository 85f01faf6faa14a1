"""Runs seen from outside: what is asked, on one thread and over all, and how a run ended."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command, interrupt

from agentgraph import AgentMiddleware, create_agent
from agentgraph.errors import ConfigurationTypeError, DeadlineError, ResumeError, RunCancelledError
from agentgraph.middleware import HumanInTheLoopMiddleware, hook_config
from agentgraph.persistence import open_checkpointer
from agentgraph.runs import (
    Outcome,
    ainbox,
    apending_questions,
    aresume,
    inbox,
    outcome,
    pending_questions,
    resume,
)
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool

SECONDS = 20


def thread(name):
    return {"configurable": {"thread_id": name}}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    with open_checkpointer(f"sqlite:///{tmp_path / 'threads.db'}") as opened:
        yield opened


def bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


async def collected(threads):
    return [one async for one in threads]


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt(question))


@tool
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


A, B = (tool_call("ask", question=name, id=name) for name in ("A", "B"))


def asking(saver, *calls, **options):
    return create_agent(ScriptedModel(replies=[list(calls), "Done."]), [ask, pay], checkpointer=saver, **options)


PENDING = {"sync": pending_questions, "async": lambda *args: bounded(apending_questions(*args))}
INBOX = {"sync": lambda *a, **k: list(inbox(*a, **k)), "async": lambda *a, **k: bounded(collected(ainbox(*a, **k)))}


@pytest.mark.parametrize("way", PENDING)
def test_open_questions_name_their_call_their_place_and_their_time(saver, way):
    agent = asking(saver, A, B)
    agent.invoke({"messages": "go"}, thread("1"))
    found = PENDING[way](agent, thread("1"))
    snapshot = agent.get_state(thread("1"))
    assert [(one.value, one.tool_call, one.since) for one in found] == [
        (call["args"]["question"], call, snapshot.created_at) for call in (A, B)
    ]
    assert [one.id for one in found] == [one.id for one in snapshot.interrupts]
    assert [one.namespace for one in found] == [(f"tools:{task.id}",) for task in snapshot.tasks]


@pytest.mark.parametrize("way", PENDING)
def test_a_thread_without_questions_has_none_pending(saver, way):
    agent = create_agent(ScriptedModel("Hello."), checkpointer=saver)
    assert PENDING[way](agent, thread("1")) == []
    agent.invoke({"messages": "go"}, thread("1"))
    assert PENDING[way](agent, thread("1")) == []


def test_an_approval_names_the_one_call_it_is_about(saver):
    hitl = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    agent = asking(saver, tool_call("pay", to="ann", id="p"), middleware=[hitl])
    agent.invoke({"messages": "go"}, thread("1"))
    (question,) = pending_questions(agent, thread("1"))
    assert question.tool_call is not None
    assert (question.tool_call["name"], question.tool_call["args"]) == ("pay", {"to": "ann"})


def test_a_question_of_a_subagent_says_where_it_was_asked(saver):
    worker = create_agent(ScriptedModel(replies=[A, "Worker done."]), [ask], name="worker")

    @tool
    def delegate(task: str) -> str:
        """Give a task to the worker."""
        return worker.invoke({"messages": task})["messages"][-1].text

    boss = create_agent(
        ScriptedModel(replies=[tool_call("delegate", task="it", id="d"), "Done."]), [delegate], checkpointer=saver
    )
    boss.invoke({"messages": "go"}, thread("1"))
    (question,) = pending_questions(boss, thread("1"))
    assert [part.split(":")[0] for part in question.namespace] == ["tools", "tools"]
    assert [one.questions for one in inbox(saver)] == [(question,)]


@pytest.mark.parametrize("way", INBOX)
@pytest.mark.parametrize("of", ["agent", "saver"])
def test_the_inbox_lists_the_threads_that_wait_and_no_others(saver, way, of):
    agents = {name: asking(saver, A) for name in ("one", "two", "three")}
    for name, agent in agents.items():
        agent.invoke({"messages": "go"}, {**thread(name), "metadata": {"team": name[0]}})
    resume(agents["two"], thread("two"), "yes")
    source = agents["one"] if of == "agent" else saver
    threads = INBOX[way](source)
    assert sorted((one.thread_id, one.questions[0].value) for one in threads) == [("one", "A"), ("three", "A")]
    assert len(INBOX[way](source, limit=1)) == 1
    assert INBOX[way](source, limit=0) == []
    chosen = INBOX[way](source, where=lambda one: one.metadata.get("team") == "t")
    assert [one.thread_id for one in chosen] == ["three"]
    resume(agents["three"], chosen[0].config, {chosen[0].questions[0].id: "yes"})
    assert [one.thread_id for one in INBOX[way](source)] == ["one"]


def test_a_thread_that_was_talked_on_is_no_longer_in_the_inbox(saver):
    agent = asking(saver, A)
    agent.invoke({"messages": "go"}, thread("1"))
    agent.invoke({"messages": "never mind"}, thread("1"))
    assert list(inbox(saver)) == []


def test_an_agent_without_a_checkpointer_has_no_questions():
    agent = create_agent(ScriptedModel("Hello."))
    with pytest.raises(ConfigurationTypeError, match="AgentGraph has no checkpointer"):
        pending_questions(agent, thread("1"))


def test_no_answer_is_not_an_answer(saver):
    agent = asking(saver, A)
    agent.invoke({"messages": "go"}, thread("1"))
    with pytest.raises(ResumeError, match="The answer None"):
        resume(agent, thread("1"), None)
    with pytest.raises(ResumeError, match="The answer None"):
        bounded(aresume(agent, thread("1"), None))


class Stops(AgentMiddleware):
    """Ends the run with a marked message, as limits do."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state, runtime):
        marked = AIMessage("Enough.", response_metadata={"agentgraph": {"limit": "model calls"}})
        return {"messages": [marked], "jump_to": "end"}


def result_of(agent):
    return agent.invoke({"messages": "go"}, thread("1"))


def error_of(agent, config=None):
    try:
        return agent.invoke({"messages": "go"}, {**thread("1"), **(config or {})})
    except Exception as error:
        return error


def test_an_answer_is_an_answer():
    agent = create_agent(ScriptedModel("Hello.", "Hello again."), checkpointer=InMemorySaver())
    assert outcome(result_of(agent)) == Outcome("answer", text="Hello.")
    assert outcome(agent.get_state(thread("1"))) == Outcome("answer", text="Hello.")
    again = agent.invoke({"messages": "go"}, thread("1"), version="v2")
    assert outcome(again) == Outcome("answer", text="Hello again.")


def test_a_direct_result_of_a_tool_is_an_answer():
    @tool(return_direct=True)
    def direct(x: str) -> str:
        """Answer."""
        return f"direct {x}"

    agent = create_agent(ScriptedModel(tool_call("direct", x="1")), [direct])
    assert outcome(agent.invoke({"messages": "go"})) == Outcome("answer", text="direct 1")


def test_a_question_is_an_interrupt_in_the_result_and_in_the_state():
    agent = asking(InMemorySaver(), A)
    found = outcome(result_of(agent))
    assert (found.kind, [one.value for one in found.questions]) == ("interrupt", ["A"])
    state = outcome(agent.get_state(thread("1")))
    assert (state.kind, state.questions, state.next) == ("interrupt", found.questions, ("tools",))


def test_limits_are_told_by_their_marks_and_types():
    marked = create_agent(ScriptedModel("Never."), middleware=[Stops()])
    assert outcome(marked.invoke({"messages": "go"})) == Outcome("limit", text="Enough.", reason="model calls")
    agent = asking(InMemorySaver(), A)
    steps = error_of(agent, {"recursion_limit": 1})
    assert isinstance(steps, GraphRecursionError)
    assert outcome(steps).kind == "limit"
    assert outcome(agent.get_state(thread("1"))) == Outcome("unfinished", next=("tools",))
    assert outcome(DeadlineError("too late")).kind == "limit"


def test_errors_and_cancellations_are_told_apart():
    agent = create_agent(ScriptedModel(ConnectionError("down")), checkpointer=InMemorySaver())
    error = error_of(agent)
    assert outcome(error) == Outcome("error", reason="ConnectionError: down", error=error)
    assert outcome(agent.get_state(thread("1"))).kind == "error"
    asked = RunCancelledError("stop", mode="now", reason="the user left")
    assert outcome(asked) == Outcome("cancelled", reason="the user left", error=asked)
    assert outcome(asyncio.CancelledError()).kind == "cancelled"


def test_a_conversation_that_stops_at_a_message_or_a_call_is_unfinished():
    assert outcome({"messages": [HumanMessage("hi")]}).kind == "unfinished"
    assert outcome({"messages": [AIMessage("", tool_calls=[A])]}).kind == "unfinished"
    assert outcome({"messages": []}).kind == "unfinished"


def test_what_is_no_result_is_refused():
    with pytest.raises(ConfigurationTypeError, match="str says nothing about how a run ended"):
        outcome("done")


def test_resuming_by_command_and_by_name_is_the_same():
    results = []
    for go_on in (
        lambda agent: agent.invoke(Command(resume="yes"), thread("1")),
        lambda agent: resume(agent, thread("1"), "yes"),
    ):
        agent = asking(InMemorySaver(), A)
        result_of(agent)
        results.append([message.text for message in go_on(agent)["messages"]])
    assert results[0] == results[1]
