"""What wrap hooks may do with a model call or a tool call, in all four ways of running an agent."""

import contextlib
import operator
from typing import Annotated, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command, interrupt

from agentgraph import AgentMiddleware, AgentState, ToolRuntime, create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    Pause,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from agentgraph.testing import ScriptedModel, ai, assert_valid_history, describe, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}
ROME = tool_call("weather", city="Rome", id="r")
THREAD = {"configurable": {"thread_id": "t"}}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ConnectionError("no route")
    return f"sunny in {city}"


class Logged(AgentState):
    log: Annotated[NotRequired[list[str]], operator.add]
    plain: NotRequired[str]


def model_wrap(around, *, kind="sync", schema=Logged):
    """Middleware whose wrap_model_call is a function of (request, call), sync or async; `call` only in a sync one."""

    class Wrap(AgentMiddleware):
        state_schema = schema

    def wrap(self, request, handler):
        return around(request, handler(request))

    async def awrap(self, request, handler):
        return around(request, await handler(request))

    if kind == "sync":
        Wrap.wrap_model_call = wrap
    else:
        Wrap.awrap_model_call = awrap
    return Wrap()


FORMS = {
    "the response": (lambda request, response: response, "ai: Hello."),
    "an AIMessage": (lambda request, response: AIMessage(f"{response.result[0].text}!"), "ai: Hello.!"),
    "a ModelResponse": (lambda request, response: ModelResponse(result=[AIMessage("Mine.")]), "ai: Mine."),
    "an ExtendedModelResponse": (
        lambda request, response: ExtendedModelResponse(response, Command(update={"log": ["x"]})),
        "ai: Hello.",
    ),
    "an ExtendedModelResponse without a command": (
        lambda request, response: ExtendedModelResponse(model_response=response),
        "ai: Hello.",
    ),
}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("form", FORMS)
def test_a_model_wrap_may_return(run, form, kind):
    around, answer = FORMS[form]
    inner_seen = []

    @wrap_model_call
    def outside(request, handler):
        response = handler(request)
        inner_seen.append(type(response))
        return response

    agent = create_agent(ScriptedModel("Hello."), middleware=[outside, model_wrap(around, kind=kind)])
    assert describe(run(agent, HI)["messages"]) == ["human: hi", answer]
    assert inner_seen == [ModelResponse]


def adding(*words, plain=None):
    update = {"log": list(words)} | ({} if plain is None else {"plain": plain})
    return lambda request, response: ExtendedModelResponse(response, Command(update=update))


def test_commands_of_all_layers_apply_after_the_model_inner_first(run):
    mounted = [model_wrap(adding("outer")), model_wrap(adding("middle"), kind="async"), model_wrap(adding("inner"))]
    result = run(create_agent(ScriptedModel("Hello."), middleware=mounted), {**HI, "log": ["before"]})
    assert result["log"] == ["before", "inner", "middle", "outer"]


def test_messages_of_a_command_come_after_the_models_own(run):
    def note(request, response):
        return ExtendedModelResponse(response, Command(update={"messages": [HumanMessage("noted")]}))

    result = run(create_agent(ScriptedModel("Hello."), middleware=[model_wrap(note)]), HI)
    assert describe(result["messages"]) == ["human: hi", "ai: Hello.", "human: noted"]


def test_commands_of_an_abandoned_try_are_dropped(run):
    @wrap_model_call
    def again(request, handler):
        handler(request)
        return handler(request)

    counts = iter(["first", "second"])

    def count(request, response):
        return ExtendedModelResponse(response, Command(update={"log": [next(counts)]}))

    result = run(create_agent(ScriptedModel("One.", "Two."), middleware=[again, model_wrap(count)]), HI)
    assert result["log"] == ["second"]
    assert describe(result["messages"]) == ["human: hi", "ai: Two."]


def test_two_writers_of_a_field_without_reducer_are_an_error(run):
    mounted = [model_wrap(adding(plain="outer")), model_wrap(adding(plain="inner"))]
    with pytest.raises(InvalidUpdateError, match="'plain'"):
        run(create_agent(ScriptedModel("Hello."), middleware=mounted), HI)
    result = run(create_agent(ScriptedModel("Hello."), middleware=mounted[:1]), HI)
    assert result["plain"] == "outer"


@pytest.mark.parametrize(
    "command",
    [
        Command(goto="model"),
        Command(resume="x"),
        Command(graph=Command.PARENT, update={"log": ["x"]}),
        Command(update={"jump_to": "end"}),
    ],
    ids=["goto", "resume", "graph", "jump_to"],
)
def test_a_command_of_a_model_wrap_may_only_update(run, command):
    wrap = model_wrap(lambda request, response: ExtendedModelResponse(response, command))
    with pytest.raises(NotImplementedError, match="may only carry an `update`"):
        run(create_agent(ScriptedModel("Hello."), middleware=[wrap]), HI)


@pytest.mark.parametrize(
    "result",
    [None, "text", HumanMessage("x"), ModelResponse(result="text"), ModelResponse(result=[{"role": "ai"}])],
    ids=["forgotten return", "str", "human", "result str", "result dicts"],
)
def test_a_model_wrap_that_returns_something_else_is_an_error(run, result):
    wrap = model_wrap(lambda request, response: result)
    with pytest.raises(ConfigurationTypeError, match="A wrap_model_call hook returned"):
        run(create_agent(ScriptedModel("Hello."), middleware=[wrap]), HI)


def test_an_unknown_field_of_a_command_is_an_error(run):
    wrap = model_wrap(lambda request, response: ExtendedModelResponse(response, Command(update={"lok": ["x"]})))
    with pytest.raises(ConfigurationError, match=r"'lok'.*did you mean 'log'"):
        run(create_agent(ScriptedModel("Hello."), middleware=[wrap]), HI)


def test_a_model_wrap_may_answer_without_the_model(run):
    @wrap_model_call
    def cached(request, handler):
        return AIMessage("From the cache.")

    result = run(create_agent(ScriptedModel(), middleware=[cached]), HI)
    assert describe(result["messages"]) == ["human: hi", "ai: From the cache."]


def test_a_model_wrap_sees_the_request_and_changes_it_for_what_is_inside(run):
    seen = []

    class Change(AgentMiddleware):
        def wrap_model_call(self, request: ModelRequest, handler):
            seen.append(
                (request.system_prompt, [t.name for t in request.tools], request.tool_choice, request.response_format)
            )
            return handler(
                request.override(
                    messages=[*request.messages, HumanMessage("more")],
                    system_prompt="Be brief.",
                    tools=request.tools[:1],
                    tool_choice="any" if len(seen) == 1 else None,
                    model_settings={"temperature": 0.5},
                )
            )

    @tool
    def other() -> str:
        """Other."""
        return ""

    model = ScriptedModel(ROME, "Sunny.")
    run(create_agent(model, [weather, other], system_prompt="Be long.", middleware=[Change()]), HI)
    assert seen == [("Be long.", ["weather", "other"], None, None)] * 2
    request = model.requests[0]
    assert describe(request.messages) == ["system: Be brief.", "human: hi", "human: more"]
    assert (request.tools, request.tool_choice, request.settings) == (["weather"], "any", {"temperature": 0.5})


def test_a_history_that_a_wrap_breaks_is_mended_before_the_model_sees_it(run):
    @wrap_model_call
    def trim(request, handler):
        return handler(request.override(messages=[request.messages[0], request.messages[-1]]))

    @wrap_model_call
    def spoil(request, handler):
        request.messages.append(ToolMessage("orphan", tool_call_id="nobody"))
        return handler(request)

    for wrap in (trim, spoil):
        model = ScriptedModel(ROME, "Sunny.")
        run(create_agent(model, [weather], middleware=[wrap]), HI)
        for request in model.requests:
            assert_valid_history(request.messages)


def test_the_innermost_dynamic_prompt_wins(run):
    @dynamic_prompt
    def outer(request):
        return "outer"

    @dynamic_prompt
    async def inner(request):
        return SystemMessage(f"inner, was {request.system_prompt}")

    model = ScriptedModel("Hello.")
    run(create_agent(model, system_prompt="given", middleware=[outer, inner]), HI)
    assert describe(model.requests[0].messages) == ["system: inner, was outer", "human: hi"]


class Retry(AgentMiddleware):
    def model_call(self, request):
        for _ in range(2):
            try:
                return (yield request)
            except TimeoutError:
                yield Pause(seconds=0)
        return (yield request)

    def tool_call(self, request):
        try:
            return (yield request)
        except ConnectionError:
            return (yield request.override(tool_call={**request.tool_call, "args": {"city": "Rome"}}))


class Fallback(AgentMiddleware):
    def __init__(self, spare):
        self.spare = spare

    def model_call(self, request):
        try:
            return (yield request)
        except TimeoutError:
            return (yield request.override(model=self.spare))


def test_a_flow_retries_inside_a_fallback(run):
    broken = ScriptedModel(TimeoutError("1"), TimeoutError("2"), TimeoutError("3"))
    spare = ScriptedModel("Spare.")
    result = run(create_agent(broken, middleware=[Fallback(spare), Retry()]), HI)
    assert describe(result["messages"]) == ["human: hi", "ai: Spare."]
    assert (len(broken.requests), len(spare.requests)) == (3, 1)


def test_a_flow_around_a_tool_call_retries_it(run):
    atlantis = tool_call("weather", city="Atlantis")
    result = run(create_agent(ScriptedModel(atlantis, "Sunny."), [weather], middleware=[Retry()]), HI)
    assert describe(result["messages"])[2] == "tool weather: sunny in Rome"


def test_an_unknown_tool_reaches_the_wraps_as_none_and_runs_when_they_bring_it(run):
    seen = []

    @tool
    def hidden(x: int, runtime: ToolRuntime) -> str:
        """Hidden."""
        return f"{x} of {len(runtime.state['messages'])} for {runtime.tool_call_id}"

    @wrap_tool_call
    def bring(request, handler):
        seen.append(request.tool)
        return handler(request.override(tool=hidden)) if request.tool_call["name"] == "hidden" else handler(request)

    model = ScriptedModel([tool_call("hidden", x=1, id="h"), tool_call("nothing", id="n")], "Done.")
    result = run(create_agent(model, middleware=[bring]), HI)
    assert seen == [None, None]
    found = {m.tool_call_id: (m.status, m.text) for m in result["messages"] if isinstance(m, ToolMessage)}
    assert found["h"] == ("success", "1 of 2 for h")
    assert found["n"][0] == "error"


def test_without_a_tool_wrap_an_unknown_tool_in_a_request_is_an_error_that_lists_both(run):
    @tool
    def hidden() -> str:
        """Hidden."""
        return ""

    @wrap_model_call
    def offer(request, handler):
        return handler(request.override(tools=[*request.tools, hidden]))

    with pytest.raises(ValueError, match=r"'hidden'.*'weather'"):
        run(create_agent(ScriptedModel("Hello."), [weather], middleware=[offer]), HI)


def test_a_tool_wrap_may_answer_a_call_itself_or_with_a_command(run):
    @wrap_tool_call(state_schema=Logged)
    def cached(request, handler):
        answer = ToolMessage("cached", tool_call_id=request.tool_call["id"], name="weather")
        return answer if request.tool_call["id"] == "r" else Command(update={"messages": [answer], "log": ["x"]})

    model = ScriptedModel([ROME, tool_call("weather", city="Oslo", id="o")], "Done.")
    result = run(create_agent(model, [weather], middleware=[cached]), HI)
    assert [m.text for m in result["messages"] if isinstance(m, ToolMessage)] == ["cached", "cached"]
    assert result["log"] == ["x"]


@pytest.mark.parametrize("result", [None, "text", {"messages": []}], ids=["forgotten return", "str", "dict"])
def test_a_tool_wrap_that_returns_something_else_is_an_error(run, result):
    @wrap_tool_call
    def wrong(request, handler):
        handler(request)
        return result

    with pytest.raises(ConfigurationTypeError, match="A wrap_tool_call hook returned"):
        run(create_agent(ScriptedModel(ROME), [weather], middleware=[wrong]), HI)


class CatchAll(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        for _ in range(3):
            with contextlib.suppress(Exception):
                return handler(request)
        return ToolMessage("gave up", tool_call_id=request.tool_call["id"])

    def wrap_model_call(self, request, handler):
        try:
            return handler(request)
        except Exception:
            return AIMessage("gave up")


class CatchAllAsync(AgentMiddleware):
    async def awrap_tool_call(self, request, handler):
        try:
            return await handler(request)
        except Exception:
            return await handler(request)


class CatchAllFlow(AgentMiddleware):
    def tool_call(self, request):
        try:
            return (yield request)
        except Exception:
            return (yield request)


@pytest.mark.parametrize("caught", [CatchAll, CatchAllAsync, CatchAllFlow])
def test_an_interrupt_passes_through_every_catch_all_and_retry(run, caught):
    asked = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        asked.append(amount)
        return f"paid: {interrupt('really?')}"

    model = ScriptedModel(ai(tool_call("pay", amount=3)), "Done.")
    agent = create_agent(model, [pay], middleware=[caught(), CatchAll()], checkpointer=InMemorySaver())
    run(agent, HI, THREAD)
    assert [one.value for one in agent.get_state(THREAD).interrupts] == ["really?"]
    assert asked == [3]
    assert run(agent, Command(resume="yes"), THREAD)["messages"][2].text == "paid: yes"
