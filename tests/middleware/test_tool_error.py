"""Errors of tools: what the function has words for is told, everything else ends the run."""

import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import ToolErrorMiddleware, ToolRetryMiddleware
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import THREAD, WAYS

FETCH = tool_call("fetch", kind="value", id="f")
BUG = tool_call("fetch", kind="bug", id="b")
FINE = tool_call("fetch", kind="fine", id="c")
ERRORS = {"value": ValueError, "bug": KeyError}


def fetch(kind: str) -> str:
    """Fetch."""
    if kind in ERRORS:
        raise ERRORS[kind]("host 10.0.0.7 is down")
    return f"fetched {kind}"


def words(error, request):
    if isinstance(error, ValueError):
        return f"{request.tool_call['name']} is away: {type(error).__name__}"
    return None


async def awords(error, request):
    said = words(error, request)
    return said and f"async {said}"


def play(run, *middleware, calls=(FETCH,), tools=(fetch,), **options):
    agent = create_agent(ScriptedModel(list(calls), "end"), list(tools), middleware=middleware, **options)
    return run(agent, {"messages": "go"})["messages"]


@WAYS
@pytest.mark.parametrize("policy", ["return", "raise"])
def test_what_the_function_has_words_for_is_told_and_what_went_well_stays(run, policy):
    messages = play(run, ToolErrorMiddleware(words), calls=[FETCH, FINE], on_tool_error=policy)
    told = answer(FETCH, "fetch is away: ValueError", status="error")
    expected = [HumanMessage("go"), ai(FETCH, FINE), told, answer(FINE, "fetched fine"), AIMessage("end")]
    assert_messages(messages, expected)


@WAYS
@pytest.mark.parametrize("policy", ["return", "raise", lambda error, request: "told"], ids=["return", "raise", "own"])
@pytest.mark.parametrize("entry", [ToolErrorMiddleware(words), ToolErrorMiddleware(aon_error=awords)], ids=["s", "a"])
def test_what_it_has_no_words_for_ends_the_run_whatever_the_agent_does_with_errors(run, entry, policy):
    with pytest.raises(KeyError, match="is down"):
        play(run, entry, calls=[BUG], on_tool_error=policy)


@WAYS
def test_the_async_function_serves_async_runs_and_alone_all_runs(run):
    both = play(run, ToolErrorMiddleware(words, aon_error=awords))[2].text
    alone = play(run, ToolErrorMiddleware(aon_error=awords))[2].text
    in_async_runs = "async fetch is away: ValueError"
    assert alone == in_async_runs
    assert both == (in_async_runs if run.__name__.startswith("_a") else "fetch is away: ValueError")


async def test_a_sync_function_does_not_block_the_loop():
    threads = []

    def noting(error, request):
        threads.append(threading.current_thread())
        return "told"

    agent = create_agent(ScriptedModel(FETCH, "end"), [fetch], middleware=[ToolErrorMiddleware(noting)])
    await agent.ainvoke({"messages": "go"})
    assert threads != [threading.current_thread()]
    assert len(threads) == 1


@WAYS
def test_content_blocks_are_told_as_they_are_and_an_empty_text_is_a_text(run):
    blocks = [{"type": "text", "text": "away"}]
    assert play(run, ToolErrorMiddleware(lambda error, request: blocks))[2].content == blocks
    assert play(run, ToolErrorMiddleware(lambda error, request: ""))[2].content == ""


@WAYS
def test_only_the_named_tools_are_looked_after(run):
    for named in ("fetch", fetch, tool(fetch)):
        assert play(run, ToolErrorMiddleware(words, tools=[named]))[2].text == "fetch is away: ValueError"
    (told,) = (m for m in play(run, ToolErrorMiddleware(words, tools=["other"]), calls=[BUG]) if m.type == "tool")
    assert told.text.startswith("Error: the tool 'fetch' failed with KeyError")


@WAYS
def test_a_retry_further_in_comes_first(run):
    tries = []

    def slow() -> str:
        """Be slow."""
        tries.append("try")
        raise TimeoutError

    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error")
    asked = []
    entry = ToolErrorMiddleware(lambda error, request: asked.append(error) or "gave up")
    call = tool_call("slow", id="s")
    assert_messages(play(run, entry, retry, calls=[call], tools=[slow])[2:3], [answer(call, "gave up", status="error")])
    assert (tries, len(asked)) == (["try", "try"], 1)


@WAYS
def test_a_question_inside_a_tool_and_wrong_arguments_do_not_reach_the_function(run):
    asked = []

    @tool
    def ask(question: str) -> str:
        """Ask the human."""
        return interrupt(question)

    call, wrong = tool_call("ask", question="sure?", id="q"), tool_call("ask", id="w")
    entry = ToolErrorMiddleware(lambda error, request: asked.append(error) or "swallowed")
    agent = create_agent(ScriptedModel([call, wrong], "end"), [ask], middleware=[entry], checkpointer=InMemorySaver())
    run(agent, {"messages": "go"}, THREAD)
    assert [one.value for task in agent.get_state(THREAD).tasks for one in task.interrupts] == ["sure?"]
    result = run(agent, Command(resume="yes"), THREAD)["messages"]
    assert_messages(result[2:3], [answer(call, "yes")])
    assert (result[3].status, asked) == ("error", [])


@WAYS
@pytest.mark.parametrize("policy", ["return", "raise"])
def test_a_function_that_gives_no_text_ends_the_run(run, policy):
    with pytest.raises(ConfigurationTypeError, match=r"gave int; expected was a text") as raised:
        play(run, ToolErrorMiddleware(lambda error, request: 3), on_tool_error=policy)
    assert type(raised.value.__cause__) is ValueError


def test_what_cannot_work_is_refused_at_once():
    with pytest.raises(ConfigurationError, match="neither on_error nor aon_error"):
        ToolErrorMiddleware()
    for given in ({"on_error": "text"}, {"aon_error": 3}, {"on_error": ValueError}):
        with pytest.raises(ConfigurationTypeError, match=f"^{next(iter(given))} is .*expected was a function"):
            ToolErrorMiddleware(**given)
