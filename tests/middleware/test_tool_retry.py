"""Retries of tools: a failed call is made again, and what is left of it at the end is what was asked for."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.errors import AuthenticationError, ConfigurationTypeError, RateLimitError, ResumeError
from agentgraph.flows import adrive, drive
from agentgraph.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware, wrap_tool_call
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, flaky, tool_call
from agentgraph.tools import ToolCallRequest, ToolException, tool
from tests.middleware.approving import THREAD, WAYS

FETCH = tool_call("fetch", page=1, id="f")
OTHER = tool_call("other", id="o")
AGAIN = "the same call is not likely to succeed soon."
ADVICE = "Correct the call, try another way, or say that it did not work."


class Log:
    """A tool that fails as told, another one, and what was run."""

    def __init__(self, *failures):
        self.runs = runs = []

        def fail():
            """The next failure."""

        next_failure = flaky(fail, failures)

        @tool
        def fetch(page: int) -> str:
            """Fetch a page."""
            runs.append(page)
            next_failure()
            return f"page {page}"

        @tool
        def other() -> str:
            """Do something else."""
            runs.append("other")
            raise ValueError("always")

        self.tools = [fetch, other]

    def play(self, run, *middleware, calls=(FETCH,), **options):
        self.model = ScriptedModel(list(calls), "end")
        agent = create_agent(self.model, self.tools, middleware=middleware, **options)
        return run(agent, {"messages": "go"})["messages"][2:-1]


def retry(**settings):
    return ToolRetryMiddleware(**{"initial_delay": 0, **settings})


@WAYS
def test_a_call_that_fails_is_made_again_until_it_succeeds(run):
    log = Log(TimeoutError, ValueError("odd"))
    assert_messages(log.play(run, retry()), [answer(FETCH, "page 1")])
    assert log.runs == [1, 1, 1]


@WAYS
def test_after_the_last_try_the_model_is_told_what_failed_and_how_often(run):
    log = Log(*[TimeoutError("slow")] * 9)
    told = f"Error: the tool 'fetch' failed with TimeoutError: slow\n{ADVICE}\nIt was tried 3 times; {AGAIN}"
    assert_messages(log.play(run, retry()), [answer(FETCH, told, status="error")])
    assert log.runs == [1, 1, 1]


@WAYS
def test_without_retries_there_is_one_try_and_the_plain_text(run):
    log = Log(TimeoutError("slow"))
    told = f"Error: the tool 'fetch' failed with TimeoutError: slow\n{ADVICE}"
    assert_messages(log.play(run, retry(max_retries=0)), [answer(FETCH, told, status="error")])
    assert log.runs == [1]


@WAYS
def test_a_function_gives_the_text_for_the_model(run):
    log = Log(*[TimeoutError("secret")] * 9)
    words = retry(max_retries=1, on_failure=lambda error: f"{type(error).__name__}, sorry")
    assert_messages(log.play(run, words), [answer(FETCH, "TimeoutError, sorry", status="error")])


@WAYS
@pytest.mark.parametrize("policy", ["return", "raise", lambda error, request: "told"], ids=["return", "raise", "own"])
def test_on_failure_error_ends_the_run_whatever_the_agent_does_with_errors(run, policy):
    last = TimeoutError("the last one")
    log = Log(TimeoutError("first"), last)
    with pytest.raises(TimeoutError, match="the last one") as raised:
        log.play(run, retry(max_retries=1, on_failure="error"), on_tool_error=policy)
    assert raised.value is last
    assert log.runs == [1, 1]


@WAYS
@pytest.mark.parametrize("on_failure", ["continue", "error", lambda error: "text"], ids=["continue", "error", "own"])
def test_what_retry_on_leaves_out_ends_the_run_at_once(run, on_failure):
    log = Log(KeyError("a bug"))
    with pytest.raises(KeyError, match="a bug"):
        log.play(run, retry(retry_on=(TimeoutError,), on_failure=on_failure))
    assert log.runs == [1]


@WAYS
def test_what_the_default_leaves_out_goes_the_agents_way(run):
    (told,) = Log(AuthenticationError("no key")).play(run, retry())
    assert told.text == f"Error: the tool 'fetch' failed with AuthenticationError: no key\n{ADVICE}"
    with pytest.raises(AuthenticationError, match="no key"):
        Log(AuthenticationError("no key")).play(run, retry(), on_tool_error="raise")


@WAYS
def test_only_the_named_tools_are_retried(run):
    for named in ("fetch", Log().tools[0]):
        log = Log(TimeoutError)
        told = f"Error: the tool 'other' failed with ValueError: always\n{ADVICE}"
        messages = log.play(run, retry(tools=[named]), calls=[FETCH, OTHER])
        assert_messages(messages, [answer(FETCH, "page 1"), answer(OTHER, told, status="error")])
        assert sorted(log.runs, key=str) == [1, 1, "other"]


@WAYS
def test_a_function_given_as_a_tool_is_named_by_itself(run):
    def fetch(page: int) -> str:
        """Fetch a page."""
        return f"page {page}"

    log = Log()
    log.tools = [flaky(fetch, [TimeoutError])]
    assert_messages(log.play(run, retry(tools=[fetch])), [answer(FETCH, "page 1")])


@WAYS
def test_wrong_arguments_and_errors_told_by_the_tool_itself_are_answers_and_not_retried(run):
    wrong = tool_call("fetch", page="x", id="w")
    log = Log()
    (told,) = log.play(run, retry(), calls=[wrong])
    assert (told.status, log.runs) == ("error", [])
    log = Log(*[ToolException("no such page")] * 9)
    log.tools[0].handle_tool_error = "told by the tool"
    assert_messages(log.play(run, retry()), [answer(FETCH, "told by the tool", status="error")])
    assert log.runs == [1]


@WAYS
def test_a_question_inside_a_tool_passes(run):
    tries = []

    @tool
    def ask(question: str) -> str:
        """Ask the human."""
        tries.append(question)
        return interrupt(question)

    call = tool_call("ask", question="sure?", id="q")
    agent = create_agent(
        ScriptedModel(call, "end"), [ask], middleware=[retry(max_retries=3)], checkpointer=InMemorySaver()
    )
    run(agent, {"messages": "go"}, THREAD)
    assert [one.value for task in agent.get_state(THREAD).tasks for one in task.interrupts] == ["sure?"]
    assert tries == ["sure?"]
    result = run(agent, Command(resume="yes"), THREAD)
    assert_messages(result["messages"], [HumanMessage("go"), ai(call), answer(call, "yes"), AIMessage("end")])
    assert tries == ["sure?", "sure?"]


@WAYS
def test_an_answer_to_a_question_that_does_not_fit_is_refused_once_and_the_question_stays_open(run):
    log = Log()
    guard = HumanInTheLoopMiddleware({"fetch": True}, interrupt_mode="per_call")
    model = ScriptedModel(FETCH, "end")
    agent = create_agent(model, log.tools, middleware=[retry(), guard], checkpointer=InMemorySaver())
    run(agent, {"messages": "go"}, THREAD)
    with pytest.raises(ResumeError):
        run(agent, Command(resume={"type": "perhaps"}), THREAD)
    assert log.runs == []
    result = run(agent, Command(resume={"type": "approve"}), THREAD)
    assert_messages(result["messages"][2:-1], [answer(FETCH, "page 1")])


@WAYS
def test_a_hook_further_in_runs_once_a_try_and_one_further_out_once(run):
    log = []

    def noting(name):
        @wrap_tool_call(name=name)
        def note(request, handler):
            log.append(name)
            return handler(request)

        return note

    Log(TimeoutError).play(run, noting("outside"), retry(), noting("inside"))
    assert log == ["outside", "inside", "inside"]


@WAYS
def test_a_function_that_gives_no_text_ends_the_run(run):
    async def later():
        return "text"

    for given, name in ((lambda error: None, "NoneType"), (lambda error: later(), "coroutine")):
        with pytest.raises(ConfigurationTypeError, match=f"on_failure .* gave {name}; expected was a text"):
            Log(TimeoutError).play(run, retry(max_retries=0, on_failure=given))


def test_an_unfit_answer_passes_at_the_first_try_without_a_wait():
    log = []

    def handler(given):
        log.append("try")
        raise ResumeError("unfit")

    request = ToolCallRequest(FETCH, None, {}, None)
    with pytest.raises(ResumeError, match="unfit"):
        drive(ToolRetryMiddleware().tool_call(request), handler, sleep=log.append)
    assert log == ["try"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_waits_between_the_tries_are_those_of_the_settings(is_async):
    log = []
    request = ToolCallRequest(FETCH, None, {}, None)
    errors = [TimeoutError("1"), RateLimitError("2", retry_after=7), TimeoutError("3"), None]

    def handler(given):
        log.append("try")
        if (error := errors[log.count("try") - 1]) is not None:
            raise error
        return answer(FETCH, "page 1")

    async def ahandler(given):
        return handler(given)

    async def sleep(seconds):
        log.append(seconds)

    flow = ToolRetryMiddleware(max_retries=3, jitter=False).tool_call(request)
    if is_async:
        result = asyncio.run(asyncio.wait_for(adrive(flow, ahandler, sleep=sleep), 10))
    else:
        result = drive(flow, handler, sleep=log.append)
    assert result.text == "page 1"
    assert log == ["try", 1.0, "try", 7.0, "try", 4.0, "try"]


async def test_one_object_serves_many_runs_at_once():
    shared = retry(max_retries=1)

    async def one(number):
        log = Log(*[TimeoutError] * (number % 3))
        model = ScriptedModel(FETCH, "end")
        result = await create_agent(model, log.tools, middleware=[shared]).ainvoke({"messages": "go"})
        return len(log.runs), result["messages"][2].status

    results = await asyncio.wait_for(asyncio.gather(*map(one, range(12))), 60)
    assert results == [(1, "success"), (2, "success"), (2, "error")] * 4
