"""Hooks and models that behave badly: the run still ends, and the history still holds."""

from typing import Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.managed import RemainingSteps
from pydantic import BaseModel

from agentgraph import (  # all errors are reachable from the top
    AgentGraphError,
    AgentState,
    ConfigurationError,
    EmptyTurnError,
    MalformedToolCallError,
    MissingStructuredOutputError,
    RepeatedToolCallError,
    StructuredOutputError,
    create_agent,
)
from agentgraph.middleware import ModelResponse, after_model, before_model, wrap_model_call
from agentgraph.nodes.model import MAX_STRUCTURED_ATTEMPTS
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import (
    FunctionModel,
    ScriptedModel,
    ai,
    assert_valid_history,
    describe,
    invalid_call,
    tool_call,
)
from agentgraph.tools import tool


class Verdict(BaseModel):
    """The verdict."""

    good: bool


@tool
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


@before_model
def nagging(state, runtime):
    return {"messages": [HumanMessage("Be brief.")]}


@wrap_model_call
def forgetful(request, handler):
    return handler(request.override(messages=request.messages[-2:]))


ENDLESS: dict[str, tuple[Any, type[AgentGraphError], dict[str, Any]]] = {
    "empty turns": ("", EmptyTurnError, {}),
    "unreadable calls": (AIMessage("", invalid_tool_calls=[invalid_call("look")]), MalformedToolCallError, {}),
    "one call": (tool_call("look", at="x"), RepeatedToolCallError, {}),
    "prose": ("I prefer prose.", MissingStructuredOutputError, {"response_format": ToolStrategy(Verdict)}),
    "bad answers": (tool_call("Verdict", good="?"), StructuredOutputError, {"response_format": ToolStrategy(Verdict)}),
}


@pytest.mark.parametrize(
    "middleware", [[], [nagging], [forgetful], [nagging, forgetful]], ids=["", "adds", "trims", "both"]
)
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_model_that_never_gets_on_is_stopped_whatever_hooks_add_or_trim(run, kind, middleware):
    reply, error, options = ENDLESS[kind]
    model = ScriptedModel(reply, repeat_last=True, strict=False)
    with pytest.raises(error):
        run(create_agent(model, [look], middleware=middleware, **options), {"messages": "hi"})
    assert len(model.requests) <= 1 + max(8, MAX_STRUCTURED_ATTEMPTS)


@pytest.mark.parametrize("hook", [before_model, after_model])
def test_a_forgotten_next_in_a_hook_is_an_error_and_no_silent_end(run, hook):
    @hook
    def guard(state, runtime):
        return {"messages": [next(message for message in state["messages"] if message.type == "nope")]}

    with pytest.raises(RuntimeError, match="StopIteration"):
        run(create_agent(ScriptedModel("answer"), middleware=[guard]), {"messages": "hi"})


def test_a_forgotten_next_in_a_wrap_is_an_error_and_no_silent_end(run):
    @wrap_model_call
    def pick(request, handler):
        return handler(request.override(tools=[next(iter([]))]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        run(create_agent(ScriptedModel("answer"), [look], middleware=[pick]), {"messages": "hi"})


@pytest.mark.parametrize("call_id", [None, ""])
def test_calls_without_an_id_that_a_hook_writes_are_run_once_and_their_result_is_kept(run, call_id):
    ran = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    @after_model
    def force(state, runtime):
        if any(isinstance(message, ToolMessage) for message in state["messages"]):
            return None
        return {"messages": [AIMessage("", tool_calls=[{**tool_call("pay", amount=1), "id": call_id}])]}

    result = run(create_agent(ScriptedModel("first", "end"), [pay], middleware=[force]), {"messages": "hi"})
    assert ran == [1]
    assert [m.text for m in result["messages"] if isinstance(m, ToolMessage)] == ["paid"]
    assert_valid_history(result["messages"])


def test_calls_that_a_hook_takes_away_are_taken_out_of_the_content_too(run):
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    raw = {"tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]}
    asking = AIMessage([block], tool_calls=[tool_call("look", id="c1", at="x")], additional_kwargs=raw)

    @after_model
    def strip(state, runtime):
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"tool_calls": []})]} if last.tool_calls else None

    saver = InMemorySaver()
    model = ScriptedModel(asking, "fine", "more")
    agent = create_agent(model, [look], middleware=[strip], checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    run(agent, {"messages": "hi"}, config)
    run(agent, {"messages": "more"}, config)
    assert all("tool_calls" not in m.additional_kwargs for m in model.requests[-1].messages)


def test_an_answer_with_an_id_that_the_history_has_is_a_message_of_its_own(run):
    def reply(messages, settings):
        done = messages[-1].type == "tool"
        return AIMessage("done", id="x") if done else ai(tool_call("look", at="r")).model_copy(update={"id": "x"})

    result = run(create_agent(FunctionModel(reply), [look]), {"messages": "hi"})
    assert describe(result["messages"]) == ["human: hi", "ai: -> look(at='r')", "tool look: seen r", "ai: done"]


def test_a_wrap_that_gives_no_answer_is_an_error_that_names_the_fix(run):
    @wrap_model_call
    def nothing(request, handler):
        return ModelResponse(result=[])

    with pytest.raises(ConfigurationError, match="AIMessage"):
        run(create_agent(ScriptedModel("x"), middleware=[nothing]), {"messages": "hi"})


def test_messages_that_a_wrap_gives_in_short_forms_are_sent_as_messages(run):
    @wrap_model_call
    def short(request, handler):
        return handler(request.override(messages=[{"role": "user", "content": "a"}, ("user", "b"), "c"]))

    model = ScriptedModel("ok")
    run(create_agent(model, middleware=[short]), {"messages": "hi"})
    assert describe(model.requests[0].messages) == ["human: a", "human: b", "human: c"]


def test_a_model_that_is_no_model_and_tools_that_nobody_registered_are_named(run):
    @wrap_model_call
    def by_name(request, handler):
        return handler(request.override(model="openai:gpt-5"))

    @wrap_model_call
    def plain(request, handler):
        return handler(request.override(tools=[len]))

    for wrap, expected in ((by_name, "init_chat_model"), (plain, "len")):
        with pytest.raises(ConfigurationError, match=expected):
            run(create_agent(ScriptedModel("x"), [look], middleware=[wrap]), {"messages": "hi"})


def test_a_state_with_a_field_that_the_runtime_uses_is_refused():
    for name in ("ask_again", "tool_exits", "run_progress", "__interrupt__"):
        schema = type("S", (), {"__annotations__": {**AgentState.__annotations__, name: int}})
        with pytest.raises(ConfigurationError, match=name):
            create_agent(ScriptedModel("x"), state_schema=schema)


class Limited(AgentState):
    remaining_steps: NotRequired[RemainingSteps]


def test_a_managed_value_in_the_state_can_be_read_by_hooks(run):
    seen = []

    @before_model(state_schema=Limited)
    def steps(state, runtime):
        seen.append(state["remaining_steps"])

    result = run(create_agent(ScriptedModel("x"), middleware=[steps], state_schema=Limited), {"messages": "hi"})
    assert seen[0] > 0
    assert set(result) == {"messages"}
