"""Answers: each belongs to its question, is checked before it is stored, and is used once."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.errors import ResumeError
from agentgraph.persistence import open_checkpointer
from agentgraph.runs import aresume, pending_questions, resume
from agentgraph.testing import ScriptedModel, describe, tool_call
from agentgraph.tools import tool

SECONDS = 20
THREAD = {"configurable": {"thread_id": "1"}}
GO = {"messages": "go"}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    with open_checkpointer(f"sqlite:///{tmp_path / 'threads.db'}") as opened:
        yield opened


def _bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


def _sync(agent, answers, config=THREAD):
    return resume(agent, config, answers)


def _async(agent, answers, config=THREAD):
    return _bounded(aresume(agent, config, answers))


def _command(agent, answers, config=THREAD):
    return agent.invoke(Command(resume=answers), config)


def _acommand(agent, answers, config=THREAD):
    return _bounded(agent.ainvoke(Command(resume=answers), config))


@pytest.fixture(params=[_sync, _async, _command, _acommand], ids=["resume", "aresume", "command", "acommand"])
def answer(request):
    """Answer and go on, in one of the four ways."""
    return request.param


class Asking:
    """Tools that ask; what they were told is written down."""

    def __init__(self, *crashes):
        self.told: list[str] = []
        self.crashes = list(crashes)

        @tool
        def ask(question: str) -> str:
            """Ask once."""
            reply = interrupt(question)
            self.told.append(f"{question} {reply}")
            return str(reply)

        @tool
        def ask_twice(name: str) -> str:
            """Ask two questions, and crash between them if told to."""
            first = interrupt(f"{name} 1")
            if self.crashes:
                raise self.crashes.pop()
            second = interrupt(f"{name} 2")
            self.told.append(f"{name} {first} {second}")
            return f"{first} {second}"

        self.tools = [ask, ask_twice]

    def agent(self, saver, *calls, **options):
        model = ScriptedModel(replies=[list(calls), *["Done."] * 3])
        return create_agent(model, self.tools, checkpointer=saver, on_tool_error="raise", **options)


def ids(agent):
    return {one.value: one.id for one in pending_questions(agent, THREAD)}


ONE = tool_call("ask", question="Sure?", id="q")
TWO = [tool_call("ask", question=name, id=name) for name in ("A", "B")]
TWICE = tool_call("ask_twice", name="T", id="t")


@pytest.mark.parametrize("by_id", [False, True], ids=["plain", "by id"])
def test_an_answer_reaches_its_question(answer, saver, by_id):
    asking = Asking()
    agent = asking.agent(saver, ONE)
    agent.invoke(GO, THREAD)
    result = answer(agent, {ids(agent)["Sure?"]: "yes"} if by_id else "yes")
    assert describe(result["messages"])[-2:] == ["tool ask: yes", "ai: Done."]
    assert asking.told == ["Sure? yes"]
    assert pending_questions(agent, THREAD) == []


@pytest.mark.parametrize("value", [None, False, 0, "", [], ["a", "b"], {"x": 1}])
def test_any_value_can_be_an_answer_by_id(answer, saver, value):
    asking = Asking()
    agent = asking.agent(saver, ONE)
    agent.invoke(GO, THREAD)
    answer(agent, {ids(agent)["Sure?"]: value})
    assert asking.told == [f"Sure? {value}"]


def test_answers_may_come_one_by_one_in_any_order(answer, saver):
    asking = Asking()
    agent = asking.agent(saver, *TWO)
    agent.invoke(GO, THREAD)
    known = ids(agent)
    answer(agent, {known["B"]: "b"})
    assert ids(agent) == {"A": known["A"]}
    answer(agent, "a")
    assert asking.told == ["B b", "A a"]


def test_a_list_answers_several_questions_in_their_order(saver):
    asking = Asking()
    agent = asking.agent(saver, *TWO)
    agent.invoke(GO, THREAD)
    assert [one.value for one in pending_questions(agent, THREAD)] == ["A", "B"]
    with pytest.raises(ResumeError, match="3 answers were given, but 2 questions are open"):
        resume(agent, THREAD, ["a", "b", "c"])
    resume(agent, THREAD, ["a", "b"])
    assert sorted(asking.told) == ["A a", "B b"]


REFUSED: dict[str, Any] = {
    "one answer for two questions": (lambda _: "yes", "2 questions are open, and nothing says which of them"),
    "an unknown id": (lambda _: {"0" * 32: "yes"}, "not known on this thread"),
    "a known id and an unknown one": (lambda known: {known["A"]: "a", "0" * 32: "yes"}, "not known on this thread"),
    "nothing": (lambda _: {}, "An empty dict answers nothing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_answer_that_fits_no_question_is_refused_and_stores_nothing(answer, saver, name):
    given, text = REFUSED[name]
    asking = Asking()
    agent = asking.agent(saver, *TWO)
    agent.invoke(GO, THREAD)
    known, before = ids(agent), saver.get_tuple(THREAD)
    with pytest.raises(ResumeError, match=text) as caught:
        answer(agent, given(known))
    assert all(key in str(caught.value) for key in known.values())
    assert saver.get_tuple(THREAD) == before
    answer(agent, {known["A"]: "a", known["B"]: "b"})
    assert sorted(asking.told) == ["A a", "B b"]


@pytest.mark.parametrize("finished", [False, True], ids=["a new thread", "a finished one"])
def test_an_answer_where_nothing_was_asked_is_refused(answer, saver, finished):
    model = ScriptedModel(replies=["Hello."])
    agent = create_agent(model, checkpointer=saver)
    if finished:
        agent.invoke(GO, THREAD)
    for given in ("yes", {"0" * 32: "yes"}):
        with pytest.raises(ResumeError, match=r"no question is open|No question is open"):
            answer(agent, given)
    assert len(model.requests) == finished


def test_an_answer_given_twice_is_refused_the_second_time(answer, saver):
    asking = Asking()
    agent = asking.agent(saver, ONE)
    agent.invoke(GO, THREAD)
    given = {ids(agent)["Sure?"]: "yes"}
    answer(agent, given)
    with pytest.raises(ResumeError, match="already answered"):
        answer(agent, given)
    assert asking.told == ["Sure? yes"]


def test_a_repeated_answer_does_not_answer_the_next_question(answer, saver):
    asking = Asking()
    agent = asking.agent(saver, TWICE)
    agent.invoke(GO, THREAD)
    given = {ids(agent)["T 1"]: "a"}
    answer(agent, given)
    with pytest.raises(ResumeError, match="already answered"):
        answer(agent, given)
    assert list(ids(agent)) == ["T 2"]
    answer(agent, "b")
    assert asking.told == ["T a b"]


@pytest.mark.parametrize("by_id", [False, True], ids=["plain", "by id"])
@pytest.mark.parametrize("again", ["the same command", "None"])
def test_after_a_crash_between_two_questions_the_first_answer_is_not_the_seconds(answer, saver, by_id, again):
    asking = Asking(ConnectionError("crash"))
    agent = asking.agent(saver, TWICE)
    agent.invoke(GO, THREAD)
    given = {ids(agent)["T 1"]: "a"} if by_id else "a"
    with pytest.raises(ConnectionError):
        answer(agent, given)
    assert ids(agent) == {}
    if again == "None":
        agent.invoke(None, THREAD)
    else:
        answer(agent, given)
    assert list(ids(agent)) == ["T 2"]
    answer(agent, "b")
    assert asking.told == ["T a b"]


def test_after_a_crash_another_answer_to_the_same_question_is_refused(answer, saver):
    asking = Asking(ConnectionError("crash"))
    agent = asking.agent(saver, TWICE)
    agent.invoke(GO, THREAD)
    known = ids(agent)["T 1"]
    with pytest.raises(ConnectionError):
        answer(agent, "a")
    for other in ("b", {known: "b"}):
        with pytest.raises(ResumeError, match="already answered"):
            answer(agent, other)
    agent.invoke(None, THREAD)
    answer(agent, "c")
    assert asking.told == ["T a c"]


def test_a_crash_with_questions_in_parallel_mixes_nothing_up(answer, saver):
    asking = Asking(ConnectionError("crash"))
    agent = asking.agent(saver, TWICE, *TWO)
    agent.invoke(GO, THREAD)
    known = ids(agent)
    with pytest.raises(ConnectionError):
        answer(agent, {known["T 1"]: "a"})
    assert sorted(ids(agent)) == ["A", "B"]
    answer(agent, {known["T 1"]: "a", known["A"]: "x"})
    assert sorted(ids(agent)) == ["B", "T 2"]
    answer(agent, {ids(agent)["T 2"]: "b", known["B"]: "y"})
    assert sorted(asking.told) == ["A x", "B y", "T a b"]


def nested(asking, saver, *calls):
    worker = create_agent(
        ScriptedModel(replies=[list(calls), "Worker done."]), asking.tools, on_tool_error="raise", name="worker"
    )

    @tool
    def delegate(task: str) -> str:
        """Give a task to the worker."""
        return worker.invoke({"messages": task})["messages"][-1].text

    boss = ScriptedModel(replies=[tool_call("delegate", task="it", id="d"), "Boss done."])
    return create_agent(boss, [delegate], checkpointer=saver, on_tool_error="raise")


def test_a_question_of_a_subagent_is_answered_once(answer, saver):
    asking = Asking(ConnectionError("crash"))
    agent = nested(asking, saver, TWICE, *TWO)
    agent.invoke(GO, THREAD)
    known = ids(agent)
    assert sorted(known) == ["A", "B", "T 1"]
    given = {known["T 1"]: "a"}
    with pytest.raises(ConnectionError):
        answer(agent, given)
    answer(agent, {**given, known["A"]: "x"})
    with pytest.raises(ResumeError, match="already answered"):
        answer(agent, given)
    assert sorted(ids(agent)) == ["B", "T 2"]
    result = answer(agent, {ids(agent)["T 2"]: "b", known["B"]: "y"})
    assert sorted(asking.told) == ["A x", "B y", "T a b"]
    assert describe(result["messages"])[-2:] == ["tool delegate: Worker done.", "ai: Boss done."]


def test_the_second_subagent_of_one_tool_is_answered_too(answer, saver):
    asking = Asking()

    def worker(*replies):
        return create_agent(ScriptedModel(replies=list(replies)), asking.tools, name="worker")

    first, second = worker("Nothing to ask."), worker([ONE], "Asked.")

    @tool
    def delegate(task: str) -> str:
        """Give a task to two workers."""
        return " ".join(one.invoke({"messages": task})["messages"][-1].text for one in (first, second))

    boss = ScriptedModel(replies=[tool_call("delegate", task="it", id="d"), "Boss done."])
    agent = create_agent(boss, [delegate], checkpointer=saver)
    agent.invoke(GO, THREAD)
    result = answer(agent, "yes")
    assert describe(result["messages"])[-2:] == ["tool delegate: Nothing to ask. Asked.", "ai: Boss done."]
    assert asking.told == ["Sure? yes"]
