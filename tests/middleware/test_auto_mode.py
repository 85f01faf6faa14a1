"""Auto mode: what is judged, what runs, and what a classifier that fails leads to."""

import asyncio

import pytest
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse, NoulAnswer, NoulCriteria
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import Field

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, ServerError
from agentgraph.messages import ToolMessage
from agentgraph.middleware import AutoModeMiddleware, ClassificationError, ToolErrorMiddleware, wrap_tool_call
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from agentgraph.tools import ToolRuntime, tool
from tests.middleware.approving import THREAD, WAYS

BETA = pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.beta_decorator.LangChainBetaWarning"
)
DROP, PEEK = tool_call("drop", table="users", id="d"), tool_call("peek", table="users", id="p")
TOLD = (
    "Not run: the call of 'drop' was judged to be risky, or beyond what the user allowed (probability {}). Do not try "
    "to reach the same in another way. Tell the user what you wanted to do, or go on without it."
)


class Database:
    """A tool that does harm and one that looks; `log` has what they did."""

    def __init__(self):
        self.log = log = []

        @tool
        def drop(table: str, runtime: ToolRuntime) -> str:
            """Drop a table."""
            log.append(("drop", table))
            return f"dropped {table}"

        @tool
        def peek(table: str) -> str:
            """Look at a table."""
            log.append(("peek", table))
            return f"{table} is there"

        self.tools = [drop, peek]


class Decisions(BaseDecisionModel):
    """A decision model with one answer, which notes what it was asked."""

    model: str = "decisions"
    risk: float = 0.5
    asked: list = Field(default_factory=list)

    @property
    def _provider(self):
        return "tests"

    def _classify(self, state, questions):
        self.asked.append((state, questions))
        found = NoulAnswer(type="noul", noul=self.risk)
        return ClassifierResponse(model=self.model, answers=dict.fromkeys(questions, found))


class Looks:
    """What only looks like a decision model."""

    def __init__(self, risk):
        self.risk = risk

    def invoke(self, request, config=None):
        response = type("Response", (), {})()
        response.nouls = {"is_risky": type("Answer", (), {"noul": self.risk})()}
        return response

    async def ainvoke(self, request, config=None):
        return self.invoke(request)


def judged(yes):
    return tool_call("Classification", reason="So.", answer=yes)


def soon(value):
    async def judge(request):
        await asyncio.sleep(0)
        return value

    return judge


def auto(classifier, tools=("drop",), **options):
    return AutoModeMiddleware(tools=list(tools), classifier=classifier, **options)


def play(run, classifier, *replies, before=(), after=(), says="Tidy up.", **options):
    """The messages after the user's, and what the tools did."""
    database = Database()
    agent = create_agent(
        ScriptedModel(*(replies or (DROP, "Done."))),
        database.tools,
        middleware=[*before, auto(classifier), *after],
        **options,
    )
    return run(agent, {"messages": says}, options.get("checkpointer") and THREAD)["messages"][1:], database.log


CLASSIFIERS = {
    "a decision model": (lambda risk: Decisions(risk=risk), 0.93, 0.49),
    "what looks like one": (Looks, 1, 0),
    "a chat model": (lambda risk: ScriptedModel(judged(risk)), True, False),
    "a chat model that needs two tries": (lambda risk: ScriptedModel("Hm.", judged(risk)), True, False),
    "a function of yes and no": (lambda risk: lambda request: risk, True, False),
    "a function of probabilities": (lambda risk: lambda request: risk, 0.5, 0.0),
    "an async function": (soon, 0.93, 0.2),
    "a runnable": (lambda risk: RunnableLambda(lambda request: risk), True, False),
}


@WAYS
@pytest.mark.parametrize(("classifier", "risky", "safe"), CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_risky_call_does_not_run_and_a_safe_one_does(run, classifier, risky, safe):
    messages, log = play(run, classifier(risky))
    told = answer(DROP, TOLD.format(f"{float(risky):.2f}"), status="error")
    assert_messages(messages[:2], [ai(DROP), told])
    assert log == []
    messages, log = play(run, classifier(safe))
    assert_messages(messages[:2], [ai(DROP), answer(DROP, "dropped users")])
    assert log == [("drop", "users")]


@WAYS
def test_only_guarded_tools_are_judged_and_one_block_leaves_the_others(run):
    decisions = Decisions(risk=1)
    messages, log = play(run, decisions, [DROP, PEEK], "Done.")
    assert [(one.name, one.status) for one in messages[1:3]] == [("drop", "error"), ("peek", "success")]
    assert log == [("peek", "users")]
    assert [state["tool_call"]["name"] for state, _ in decisions.asked] == ["drop"]


@WAYS
def test_the_classifier_is_given_the_call_and_the_last_messages_and_nothing_injected(run):
    decisions = Decisions(risk=0)
    says = [HumanMessage(f"m{number}") for number in range(40)]
    play(run, decisions, says=says)
    ((state, questions),) = decisions.asked
    assert_messages(state.pop("messages"), [*says[11:], ai(DROP)])
    assert state == {
        "tool_call": {"id": "d", "name": "drop", "args": {"table": "users"}},
        "tool_description": "Drop a table.",
    }
    assert list(questions) == ["is_risky"]
    assert questions["is_risky"].criteria.true.startswith("It could do harm")


@WAYS
def test_a_chat_model_reads_the_case_as_json(run):
    chat = ScriptedModel(judged(yes=False))
    database = Database()
    criteria = NoulCriteria(true="It deletes.", false=["reads", "looks"])
    guard = auto(chat, instructions="Risky?", criteria=criteria)
    run(create_agent(ScriptedModel(DROP, "Done."), database.tools, middleware=[guard]), {"messages": 'Say "no".'})
    system, human = chat.requests[0].messages
    assert system.text.endswith('The question:\nRisky?\n\nThe answers:\n- yes: It deletes.\n- no: ["reads", "looks"]')
    call = '{"name": "drop", "args": {"table": "users"}}'
    assert human.text == (
        '{"messages": [{"from": "human", "text": "Say \\"no\\"."}, {"from": "ai", "text": "", "tool_calls": '
        f'[{call}]}}], "tool_call": {{"id": "d", "name": "drop", "args": {{"table": "users"}}}}, "tool_description": '
        '"Drop a table."}'
    )
    assert (type(system), type(human)) == (SystemMessage, HumanMessage)


@WAYS
@pytest.mark.parametrize("policy", ["return", "raise"])
def test_a_classifier_that_fails_ends_the_run_and_the_call_does_not_run(run, policy):
    database, down = Database(), ServerError("down")
    guard = auto(ScriptedModel(down))
    agent = create_agent(ScriptedModel(DROP), database.tools, middleware=[guard], on_tool_error=policy)
    with pytest.raises(ServerError, match="down"):
        run(agent, {"messages": "Tidy up."})
    assert database.log == []


@WAYS
def test_a_run_that_a_failed_classifier_ended_goes_on_with_another_judgement(run):
    database, saver = Database(), InMemorySaver()
    guard = auto(ScriptedModel(ServerError("down"), judged(yes=False)))
    agent = create_agent(ScriptedModel(DROP, "Done."), database.tools, middleware=[guard], checkpointer=saver)
    with pytest.raises(ServerError):
        run(agent, {"messages": "Tidy up."}, THREAD)
    assert run(agent, None, THREAD)["messages"][-1].text == "Done."
    assert database.log == [("drop", "users")]


@WAYS
@pytest.mark.parametrize("given", [None, "no", 1.5, -0.1, float("nan"), {"noul": "0"}, {}])
def test_what_is_no_answer_ends_the_run_and_the_call_does_not_run(run, given):
    database = Database()
    agent = create_agent(ScriptedModel(DROP), database.tools, middleware=[auto(lambda request: given)])
    with pytest.raises(ClassificationError, match="'is_risky'; expected was True, False, or a probability from 0 to 1"):
        run(agent, {"messages": "Tidy up."})
    assert database.log == []


@WAYS
def test_a_hook_around_it_may_treat_the_error_of_the_classifier(run):
    told = ToolErrorMiddleware(lambda error, request: "Nobody could judge it.")
    messages, log = play(run, ScriptedModel(ServerError("down")), before=[told])
    assert (messages[1].text, messages[1].status, log) == ("Nobody could judge it.", "error", [])


@WAYS
def test_it_judges_the_call_that_a_hook_before_it_rewrote(run):
    @wrap_tool_call
    def rewriting(request, handler):
        return handler(request.override(tool_call={**request.tool_call, "args": {"table": "logs"}}))

    decisions = Decisions(risk=0)
    _, log = play(run, decisions, before=[rewriting])
    assert [state["tool_call"]["args"] for state, _ in decisions.asked] == [{"table": "logs"}]
    assert log == [("drop", "logs")]


@WAYS
def test_a_pause_within_a_tool_passes_and_the_call_is_judged_again(run):
    @tool
    def ask(what: str) -> str:
        """Ask."""
        return interrupt(what)

    call = tool_call("ask", what="Sure?", id="a")
    decisions = Decisions(risk=0)
    guard = auto(decisions, tools=[ask])
    agent = create_agent(ScriptedModel(call, "Done."), [ask], middleware=[guard], checkpointer=InMemorySaver())
    run(agent, {"messages": "Go."}, THREAD)
    result = run(agent, Command(resume="yes"), THREAD)
    assert [one.text for one in result["messages"] if isinstance(one, ToolMessage)] == ["yes"]
    assert len(decisions.asked) == 2


@WAYS
def test_a_call_of_a_tool_that_is_not_there_is_judged_by_its_name(run):
    messages, _ = play(run, lambda request: "tool_description" not in request["state"], tool_call("drop", id="d"), "A.")
    assert messages[1].name == "drop"
    gone = tool_call("gone", id="g")
    database = Database()
    guard = auto(lambda request: "tool_description" not in request["state"], tools=["gone"])
    result = run(create_agent(ScriptedModel(gone, "Done."), database.tools, middleware=[guard]), {"messages": "Go."})
    assert result["messages"][2].text == TOLD.format("1.00").replace("'drop'", "'gone'")


def test_it_costs_no_step_and_no_field():
    def cost(*middleware):
        database = Database()
        agent = create_agent(
            ScriptedModel(DROP, "Done."), database.tools, middleware=middleware, checkpointer=InMemorySaver()
        )
        pieces = list(agent.stream({"messages": "Go."}, THREAD, stream_mode="updates"))
        return [sorted(piece) for piece in pieces], sorted(agent.get_state(THREAD).values)

    assert cost(auto(lambda request: True)) == cost()


def test_the_judgement_is_not_streamed():
    database = Database()
    guard = auto(ScriptedModel(judged(yes=True)))
    agent = create_agent(ScriptedModel(DROP, "Done."), database.tools, middleware=[guard])
    pieces = [piece for piece, _ in agent.stream({"messages": "Go."}, stream_mode="messages")]
    assert [piece.text for piece in pieces if piece.text] == [TOLD.format("1.00"), "Done."]


@BETA
def test_the_judgement_is_in_no_event_of_the_run():
    database = Database()
    guard = auto(ScriptedModel(judged(yes=True)))
    agent = create_agent(ScriptedModel(DROP, "Done."), database.tools, middleware=[guard])
    run = agent.stream_events({"messages": "Go."}, version="v3")
    assert [str(message.text) for message in run.messages] == ["", "Done."]


def test_tracers_see_why_the_classifier_was_called():
    seen = []
    play(
        lambda agent, given, config: agent.invoke(given, config),
        RunnableLambda(lambda _, config: seen.append(config) or 0),
    )
    assert (seen[0]["tags"], seen[0]["metadata"]["lc_source"]) == (["nostream"], "auto_mode")


def test_tools_are_named_by_themselves_too():
    drop, peek = Database().tools
    assert auto(soon(0), tools=[drop, " peek ", len]).tool_names == {"drop", "peek", "len"}
    assert peek.name == "peek"


@pytest.mark.parametrize(
    ("changed", "kind", "told"),
    [
        ({"tools": []}, ConfigurationError, r"tools is \[\], so nothing would be guarded"),
        ({"tools": None}, ConfigurationError, "tools is None, so nothing would be guarded"),
        ({"tools": "drop"}, ConfigurationTypeError, "tools is 'drop'"),
        ({"tools": [3]}, ConfigurationTypeError, "tools holds 3"),
        ({"criteria": "harm"}, ConfigurationTypeError, "criteria is 'harm'; expected was NoulCriteria"),
        ({"instructions": object()}, ConfigurationTypeError, "instructions is <object"),
        ({"classifier": None}, ConfigurationTypeError, "classifier is None; expected was a decision model"),
        ({"classifier": "openia:gpt-5"}, ConfigurationError, "Did you mean 'openai'"),
    ],
)
def test_what_cannot_work_is_refused_at_once(changed, kind, told):
    with pytest.raises(kind, match=told):
        AutoModeMiddleware(**{"tools": ["drop"], "classifier": soon(0), **changed})
