"""What is refused before it is stored, what goes on without an answer, and what resuming costs."""

import asyncio
import functools

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel, field_validator

from agentgraph import create_agent
from agentgraph.errors import MissingCheckpointerError, ResumeError, RunError
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.runs import pending_questions
from agentgraph.testing import ScriptedModel, describe, tool_call
from agentgraph.tools import tool

SECONDS = 20
THREAD = {"configurable": {"thread_id": "1"}}
GO = {"messages": "go"}


def _invoke(agent, given, config=THREAD):
    return agent.invoke(given, config)


def _ainvoke(agent, given, config=THREAD):
    async def run():
        return await asyncio.wait_for(agent.ainvoke(given, config), SECONDS)

    return asyncio.run(run())


@pytest.fixture(params=[_invoke, _ainvoke], ids=["invoke", "ainvoke"])
def run(request):
    return request.param


@pytest.fixture
def log():
    return []


@pytest.fixture
def tools(log):
    @tool
    def pay(to: str) -> str:
        """Pay."""
        log.append(to)
        return f"paid {to}"

    @tool
    def look(at: str) -> str:
        """Look."""
        return f"saw {at}"

    return [pay, look]


def guarded(tools, saver, *replies, mode="batched", **options):
    hitl = HumanInTheLoopMiddleware(interrupt_on={"pay": True}, interrupt_mode=mode)
    return create_agent(ScriptedModel(replies=list(replies)), tools, middleware=[hitl], checkpointer=saver, **options)


PAY = [tool_call("pay", to="ann", id="a"), tool_call("look", at="bob", id="b")]
APPROVE = {"decisions": [{"type": "approve"}]}

WRONG = {
    "too many decisions": {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    "too few": {"decisions": []},
    "an unknown kind": {"decisions": [{"type": "agree"}]},
    "another shape": "yes",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_decision_is_refused_before_it_is_stored_and_the_right_one_still_works(run, tools, log, name):
    saver = InMemorySaver()
    agent = guarded(tools, saver, PAY, "Done.")
    run(agent, GO)
    before = saver.get_tuple(THREAD)
    with pytest.raises(ResumeError):
        run(agent, Command(resume=WRONG[name]))
    assert saver.get_tuple(THREAD) == before
    assert log == []
    run(agent, Command(resume=APPROVE))
    assert log == ["ann"]


def test_an_approval_of_one_call_is_checked_and_answered_by_id(run, tools, log):
    agent = guarded(tools, InMemorySaver(), PAY, "Done.", mode="per_call")
    run(agent, GO)
    (question,) = pending_questions(agent, THREAD)
    assert question.tool_call == {"name": "pay", "args": {"to": "ann"}, "id": "a"}
    with pytest.raises(ResumeError):
        run(agent, Command(resume={question.id: {"type": "agree"}}))
    result = run(agent, Command(resume={question.id: {"type": "approve"}}))
    assert log == ["ann"]
    assert describe(result["messages"])[-3:] == ["tool pay: paid ann", "tool look: saw bob", "ai: Done."]


class Amount(BaseModel):
    """An answer with a rule that no JSON schema tells."""

    euros: int

    @field_validator("euros")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def test_an_answer_that_only_the_asking_code_can_refuse_is_taken_back(run):
    @tool
    def ask(what: str) -> str:
        """Ask."""
        return f"{interrupt(what, response_schema=Amount).euros} euros"

    agent = create_agent(
        ScriptedModel(tool_call("ask", what="How much?", id="q"), "Done."), [ask], checkpointer=InMemorySaver()
    )
    run(agent, GO)
    for refused in (3, 5):
        with pytest.raises(ResumeError, match="must be even"):
            run(agent, Command(resume={"euros": refused}))
    assert [one.value for one in pending_questions(agent, THREAD)] == ["How much?"]
    result = run(agent, Command(resume={"euros": 4}))
    assert describe(result["messages"])[-2:] == ["tool ask: 4 euros", "ai: Done."]


def test_what_a_command_holds_besides_the_answer_is_done_too(run, tools):
    agent = guarded(tools, InMemorySaver(), PAY, "Done.")
    run(agent, GO)
    result = run(agent, Command(resume=APPROVE, update={"messages": [HumanMessage("(noted)", id="n")]}))
    assert describe(result["messages"])[-1] == "ai: Done."
    assert "human: (noted)" in describe(result["messages"])


def test_a_run_that_pauses_at_a_node_goes_on_with_any_answer_or_none(run, tools, log):
    for number, given in enumerate([None, Command(resume="go on")]):
        thread = {"configurable": {"thread_id": str(number)}}
        model = ScriptedModel(replies=[PAY, "Done."])
        agent = create_agent(model, tools, checkpointer=InMemorySaver(), interrupt_before=["tools"])
        run(agent, GO, thread)
        assert describe(run(agent, given, thread)["messages"])[-1] == "ai: Done."
    assert log == ["ann", "ann"]


def test_an_answer_with_the_config_of_the_paused_checkpoint_works_as_long_as_it_is_the_newest(run, tools, log):
    agent = guarded(tools, InMemorySaver(), PAY, "Done.", "Done again.")
    run(agent, GO)
    paused = agent.get_state(THREAD).config
    run(agent, Command(resume=APPROVE), paused)
    assert log == ["ann"]
    with pytest.raises(ResumeError, match="the thread has gone on since"):
        run(agent, Command(resume=APPROVE), paused)
    assert log == ["ann"]


def test_going_back_asks_again_and_the_new_question_can_be_answered(run, tools, log):
    agent = guarded(tools, InMemorySaver(), PAY, "Done.", "Rejected.")
    run(agent, GO)
    paused = agent.get_state(THREAD).config
    run(agent, Command(resume=APPROVE))
    assert "__interrupt__" in run(agent, None, paused)
    run(agent, Command(resume={"decisions": [{"type": "reject", "message": "no"}]}))
    assert log == ["ann"]
    assert describe(agent.get_state(THREAD).values["messages"])[-1] == "ai: Rejected."


def test_a_new_message_at_the_config_of_the_newest_checkpoint_keeps_finished_work(run, log):
    @tool
    async def good(x: str) -> str:
        """Works."""
        log.append(x)
        return "good"

    @tool
    async def bad(x: str) -> str:
        """Fails."""
        raise ConnectionError(x)

    calls = [tool_call("good", x="1", id="g"), tool_call("bad", x="1", id="b")]
    agent = create_agent(
        ScriptedModel(replies=[calls, "Here."]), [good, bad], checkpointer=InMemorySaver(), on_tool_error="raise"
    )
    with pytest.raises(ConnectionError):
        run(agent, GO)
    result = run(agent, {"messages": "and?"}, agent.get_state(THREAD).config)
    assert describe(result["messages"])[2] == "tool good: good"


def test_a_new_message_at_an_older_checkpoint_takes_another_way(run, tools, log):
    agent = guarded(tools, InMemorySaver(), PAY, "Done.", "Another way.")
    run(agent, GO)
    paused = agent.get_state(THREAD).config
    run(agent, Command(resume=APPROVE))
    result = run(agent, {"messages": "instead"}, paused)
    assert describe(result["messages"])[-2:] == ["human: instead", "ai: Another way."]


class CountingSaver(InMemorySaver):
    """Counts what is read and written."""

    def __init__(self):
        super().__init__()
        self.counts = {"get_tuple": 0, "put": 0, "put_writes": 0, "list": 0}

    def get_tuple(self, config):
        self.counts["get_tuple"] += 1
        return super().get_tuple(config)

    def put(self, *args, **kwargs):
        self.counts["put"] += 1
        return super().put(*args, **kwargs)

    def put_writes(self, *args, **kwargs):
        self.counts["put_writes"] += 1
        return super().put_writes(*args, **kwargs)

    def list(self, *args, **kwargs):
        self.counts["list"] += 1
        return super().list(*args, **kwargs)

    def counted(self, work):
        before = dict(self.counts)
        work()
        return {key: self.counts[key] - before[key] for key in before}


def plain_copy(agent):
    """The same graph as langgraph's own class runs it."""
    fields = {key: value for key, value in vars(agent).items() if key not in {"approves", "__orig_class__"}}
    return type(agent).__mro__[1](**fields)


def test_a_run_costs_at_most_one_more_read_of_the_saver(run, tools):
    def costs(make):
        saver = CountingSaver()
        agent = make(guarded(tools, saver, PAY, "Done.", "Again."))
        inputs = (GO, Command(resume=APPROVE), {"messages": "more"})
        return [saver.counted(functools.partial(run, agent, given)) for given in inputs]

    ours, theirs = costs(lambda agent: agent), costs(plain_copy)
    extra = [{key: mine[key] - its[key] for key in mine} for mine, its in zip(ours, theirs, strict=True)]
    nothing = {"get_tuple": 0, "put": 0, "put_writes": 0, "list": 0}
    assert extra == [{**nothing, "get_tuple": 1}] * 3


def test_an_agent_with_approvals_and_no_checkpointer_is_refused_before_the_model_is_asked(run, tools):
    model = ScriptedModel(replies=["Never sent."])
    agent = create_agent(model, tools, middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})])
    with pytest.raises(MissingCheckpointerError, match=r"HumanInTheLoopMiddleware.*checkpointer="):
        run(agent, GO)
    assert model.requests == []


def test_langchains_approvals_need_a_checkpointer_too(run, tools):
    module = pytest.importorskip("langchain.agents.middleware")
    model = ScriptedModel(replies=["Never sent."])
    agent = create_agent(model, tools, middleware=[module.HumanInTheLoopMiddleware(interrupt_on={"pay": True})])
    with pytest.raises(MissingCheckpointerError):
        run(agent, GO)
    assert model.requests == []


NOTHING = {
    "the answer None": Command(resume=None),
    "nothing": Command(),
    "an empty update": Command(update={}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_command_that_holds_nothing_is_refused_and_the_question_stays_open(run, tools, log, name):
    saver = InMemorySaver()
    agent = guarded(tools, saver, PAY, "Done.")
    run(agent, GO)
    before = saver.get_tuple(THREAD)
    with pytest.raises(ResumeError, match="holds neither an answer nor an update nor a goto"):
        run(agent, NOTHING[name])
    assert saver.get_tuple(THREAD) == before
    run(agent, Command(resume=APPROVE, update={}))
    assert log == ["ann"]


LEFT = {
    "batched": (APPROVE, "'HumanInTheLoopMiddleware.after_model', which this agent has not got"),
    "per_call": ({"type": "reject"}, "a middleware for approvals, and this agent has none"),
}


@pytest.mark.parametrize("mode", LEFT)
@pytest.mark.parametrize("by_id", [False, True], ids=["plain", "by id"])
def test_an_answer_for_a_middleware_that_is_gone_is_refused_and_a_new_message_closes_the_call(
    run, tools, log, mode, by_id
):
    saver = InMemorySaver()
    answer, why = LEFT[mode]
    asked = guarded(tools, saver, tool_call("pay", to="ann"), mode=mode)
    run(asked, GO)
    (question,) = pending_questions(asked, THREAD)
    agent = create_agent(ScriptedModel("Never mind."), tools, checkpointer=saver)
    before = saver.get_tuple(THREAD)
    with pytest.raises(ResumeError, match=why) as caught:
        run(agent, Command(resume={question.id: answer} if by_id else answer))
    assert question.id in str(caught.value)
    assert saver.get_tuple(THREAD) == before
    told = describe(run(agent, {"messages": "well?"})["messages"])
    assert told[2].startswith("tool pay error: The call of 'pay' was not run: a person's decision was awaited")
    assert told[3:] == ["human: well?", "ai: Never mind."]
    assert log == []
    # Nothing is to run next any more, so going on is no mistake.
    assert describe(run(agent, None)["messages"]) == told


def test_a_tool_that_asks_as_approvals_do_needs_no_middleware(run):
    @tool
    def ask(what: str) -> str:
        """Ask."""
        return str(interrupt({"type": "tool_approval", "name": "ask", "args": {}})["type"])

    agent = create_agent(ScriptedModel(tool_call("ask", what="x"), "Done."), [ask], checkpointer=InMemorySaver())
    run(agent, GO)
    told = describe(run(agent, Command(resume={"type": "approve"}))["messages"])
    assert told[-2:] == ["tool ask: approve", "ai: Done."]


GONE = {
    "the middleware": ([], lambda tools: tools, "HumanInTheLoopMiddleware.after_model"),
    "the tools": ([tool_call("look", at="x")], lambda _: [], "tools"),
}


@pytest.mark.parametrize("name", GONE)
def test_a_run_cannot_go_on_with_a_node_that_is_gone(run, tools, name):
    calls, kept, node = GONE[name]
    saver = InMemorySaver()
    if calls:
        before = create_agent(ScriptedModel(calls), tools, checkpointer=saver, interrupt_before=["tools"])
    else:
        before = guarded(tools, saver, PAY)
    run(before, GO)
    stored = saver.get_tuple(THREAD)
    agent = create_agent(ScriptedModel("Well."), kept(tools), checkpointer=saver)
    with pytest.raises(RunError, match=f"goes on with '{node}', which this agent has not got"):
        run(agent, None)
    assert saver.get_tuple(THREAD) == stored
    assert run(agent, {"messages": "well?"})["messages"][-1].text == "Well."


def test_a_worker_whose_approvals_are_gone_says_so_instead_of_ending_with_nothing(run, tools, log):
    saver = InMemorySaver()

    def boss(worker, *replies):
        def delegate() -> str:
            """Give a task to the worker."""
            return str(worker.invoke(GO)["messages"][-1].text)

        return create_agent(ScriptedModel(replies=list(replies)), [delegate], checkpointer=saver)

    run(boss(guarded(tools, None, PAY), tool_call("delegate")), GO)
    (question,) = pending_questions(saver, THREAD)
    agent = boss(create_agent(ScriptedModel("Well."), tools), "Done.")
    told = describe(run(agent, Command(resume={question.id: APPROVE}))["messages"])
    assert "goes on with 'HumanInTheLoopMiddleware.after_model', which this agent has not got" in told[2]
    assert told[-1] == "ai: Done."
    assert log == []
