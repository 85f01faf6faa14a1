"""What a run does, in all four ways of running it: the answer, the history, the requests."""

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agentgraph import AgentMiddleware, AgentState, ToolRuntime, create_agent
from agentgraph.errors import EmptyTurnError, MalformedToolCallError, RepeatedToolCallError
from agentgraph.middleware import hook_config
from agentgraph.progress import MAX_MALFORMED, STOP_REPEATING_AFTER
from agentgraph.testing import ScriptedModel, ai, answer, assert_valid_history, describe, invalid_call, tool_call
from agentgraph.tools import InjectedState, InjectedStore, InjectedToolCallId, ToolException, tool


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ToolException("no such city")
    return f"sunny in {city}"


@tool
async def news(topic: str) -> str:
    """The news; async only."""
    await asyncio.sleep(0)
    return f"no news of {topic}"


@tool(return_direct=True)
def pay(amount: int) -> str:
    """Pay."""
    if amount < 0:
        raise ValueError("negative amount")
    return f"paid {amount}"


ROME, OSLO = tool_call("weather", city="Rome", id="r"), tool_call("weather", city="Oslo", id="o")
BAD = invalid_call("weather", id="bad", args='{"city": "Ro', error="cut off")

SCENARIOS = {
    "a plain answer": (["Hello."], ["ai: Hello."]),
    "one call": (
        [ROME, "It is sunny."],
        ["ai: -> weather(city='Rome')", "tool weather: sunny in Rome", "ai: It is sunny."],
    ),
    "parallel calls keep their order": (
        [[ROME, OSLO], "Both sunny."],
        [
            "ai: -> weather(city='Rome') -> weather(city='Oslo')",
            "tool weather: sunny in Rome",
            "tool weather: sunny in Oslo",
            "ai: Both sunny.",
        ],
    ),
    "an async-only tool": (
        [tool_call("news", topic="cats"), "None."],
        ["ai: -> news(topic='cats')", "tool news: no news of cats", "ai: None."],
    ),
    "a direct result ends the run": ([tool_call("pay", amount=3)], ["ai: -> pay(amount=3)", "tool pay: paid 3"]),
    "parallel direct results end the run": (
        [[tool_call("pay", amount=1, id="p1"), tool_call("pay", amount=2, id="p2")]],
        ["ai: -> pay(amount=1) -> pay(amount=2)", "tool pay: paid 1", "tool pay: paid 2"],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_gives_the_expected_history(run, name):
    replies, history = SCENARIOS[name]
    model = ScriptedModel(replies=replies)
    result = run(create_agent(model, [weather, news, pay]), {"messages": "hi"})
    assert describe(result["messages"]) == ["human: hi", *history]
    assert set(result) == {"messages"}
    assert_valid_history(result["messages"])


def errors_of(result):
    return [m.text for m in result["messages"] if isinstance(m, ToolMessage) and m.status == "error"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (tool_call("weather", city="Atlantis"), "no such city"),
        (tool_call("weather", town="Rome"), "city"),
        (tool_call("wether", city="Rome"), "'weather'"),
        (tool_call("pay", amount=-1), "negative amount"),
    ],
    ids=["a failing tool", "wrong arguments", "an unknown tool", "a failing direct tool"],
)
def test_what_goes_wrong_with_a_call_is_told_to_the_model(run, call, told):
    result = run(create_agent(ScriptedModel(call, "Sorry."), [weather, news, pay]), {"messages": "hi"})
    (error,) = errors_of(result)
    assert told in error
    assert result["messages"][-1].text == "Sorry."


def test_a_failing_call_does_not_touch_its_neighbours(run):
    calls = [ROME, tool_call("weather", city="Atlantis", id="x"), tool_call("news", topic="cats", id="n")]
    result = run(create_agent(ScriptedModel(calls, "So."), [weather, news]), {"messages": "hi"})
    assert [m.status for m in result["messages"] if isinstance(m, ToolMessage)] == ["success", "error", "success"]


def test_a_failed_one_of_parallel_direct_calls_goes_back_to_the_model(run):
    calls = [tool_call("pay", amount=1, id="p1"), tool_call("pay", amount=-1, id="p2")]
    result = run(create_agent(ScriptedModel(calls, "One failed."), [pay]), {"messages": "hi"})
    assert result["messages"][-1].text == "One failed."


def test_an_unreadable_call_is_answered_and_the_model_is_asked_again(run):
    model = ScriptedModel(AIMessage("", invalid_tool_calls=[BAD]), ROME, "Sunny.")
    result = run(create_agent(model, [weather]), {"messages": "hi"})
    assert ["cut off" in error for error in errors_of(result)] == [True]
    assert result["messages"][-1].text == "Sunny."


def test_an_unreadable_call_beside_a_good_one_does_not_keep_the_good_one_from_running(run):
    model = ScriptedModel(ai(ROME, BAD), "Sunny.")
    result = run(create_agent(model, [weather]), {"messages": "hi"})
    assert [(m.tool_call_id, m.status) for m in result["messages"] if isinstance(m, ToolMessage)] == [
        ("r", "success"),
        ("bad", "error"),
    ]
    assert_valid_history(result["messages"])


def test_a_model_that_cannot_write_a_call_is_given_up_on(run):
    model = ScriptedModel(AIMessage("", invalid_tool_calls=[BAD]), repeat_last=True)
    with pytest.raises(MalformedToolCallError):
        run(create_agent(model, [weather]), {"messages": "hi"})
    assert len(model.requests) == MAX_MALFORMED + 1


def test_an_empty_turn_is_asked_again_and_leaves_no_empty_message(run):
    model = ScriptedModel(ROME, "", "Sunny.")
    result = run(create_agent(model, [weather]), {"messages": "hi"})
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][-1].text == "Sunny."


def test_two_empty_turns_are_a_typed_error(run):
    with pytest.raises(EmptyTurnError):
        run(create_agent(ScriptedModel("", ""), []), {"messages": "hi"})


def test_one_call_without_end_is_told_and_then_stopped(run):
    model = ScriptedModel(lambda messages, settings: tool_call("weather", city="Rome"), repeat_last=True)
    with pytest.raises(RepeatedToolCallError):
        run(create_agent(model, [weather]), {"messages": "hi"})
    assert len(model.requests) == STOP_REPEATING_AFTER


def test_a_polling_tool_may_be_called_without_end(run):
    @tool
    def job(name: str) -> str:
        """Whether a job is done."""
        return "running"

    job.metadata = {"polling": True}
    script = [tool_call("job", name="x", id=f"j{n}") for n in range(20)]
    result = run(create_agent(ScriptedModel(*script, "Done."), [job]), {"messages": "hi"})
    assert result["messages"][-1].text == "Done."


@pytest.mark.parametrize(
    "history",
    [
        [HumanMessage("a"), ai(ROME), HumanMessage("b")],
        [answer(ROME, "late"), HumanMessage("a")],
        [HumanMessage("a"), AIMessage(""), HumanMessage("b")],
        [HumanMessage("a"), ai(ROME, OSLO), answer(OSLO, "o"), HumanMessage("b"), answer(ROME, "r")],
        [HumanMessage("a"), AIMessage("", invalid_tool_calls=[BAD])],
    ],
    ids=["open call", "orphan answer", "empty message", "scattered answers", "unreadable call"],
)
def test_a_broken_history_given_as_input_is_repaired_in_request_and_state(run, history):
    model = ScriptedModel("Fine.")
    result = run(create_agent(model, [weather]), {"messages": history})
    assert_valid_history(model.requests[0].messages)
    assert_valid_history(result["messages"])
    assert describe(result["messages"]) == [*describe(model.requests[0].messages), "ai: Fine."]


def test_the_system_prompt_goes_before_every_request_and_not_into_the_state(run):
    model = ScriptedModel(ROME, "Sunny.")
    result = run(create_agent(model, [weather], system_prompt="Be brief."), {"messages": "hi"})
    assert [request.messages[0] for request in model.requests] == [SystemMessage("Be brief.")] * 2
    assert not any(isinstance(m, SystemMessage) for m in result["messages"])


def test_an_agents_name_is_on_its_messages_and_on_nobody_elses(run):
    result = run(create_agent(ScriptedModel(ROME, "Sunny."), [weather], name="forecaster"), {"messages": "hi"})
    assert [m.name for m in result["messages"]] == [None, "forecaster", "weather", "forecaster"]


class Counted(AgentState):
    count: NotRequired[int]


@dataclass
class User:
    name: str


@tool
def everything(
    word: str,
    runtime: ToolRuntime[User, Counted],
    state: Annotated[Any, InjectedState],
    count: Annotated[int, InjectedState("count")],
    store: Annotated[Any, InjectedStore()],
    call_id: Annotated[str, InjectedToolCallId],
) -> str:
    """Everything that can be injected."""
    store.put(("words",), call_id, {"word": word})
    return json.dumps([word, runtime.context.name, len(state["messages"]), count, call_id, runtime.tool_call_id])


def test_what_a_tool_asks_for_is_injected_and_hidden_from_the_model(run):
    model = ScriptedModel(tool_call("everything", word="w", count=99, call_id="forged", id="e"), "Done.")
    store = InMemoryStore()
    agent = create_agent(model, [everything], state_schema=Counted, context_schema=User, store=store)
    result = run(agent, {"messages": "hi", "count": 7}, context=User("ann"))
    assert json.loads(result["messages"][2].text) == ["w", "ann", 2, 7, "e", "e"]
    assert store.get(("words",), "e").value == {"word": "w"}
    (shown,) = model.requests[0].tools
    assert shown == "everything"


def test_commands_of_tools_update_the_state_and_answer_their_call(run):
    @tool
    def mark(x: int) -> Command:
        """Mark."""
        return Command(update={"count": x})

    model = ScriptedModel(tool_call("mark", x=3), "Done.")
    result = run(create_agent(model, [mark], state_schema=Counted), {"messages": "hi"})
    assert result["count"] == 3
    assert_valid_history(result["messages"])


def test_a_command_to_the_end_ends_the_run_also_beside_other_calls(run):
    @tool
    def stop(x: int) -> Command:
        """Stop."""
        return Command(goto="__end__")

    for calls in ([tool_call("stop", x=1)], [ROME, tool_call("stop", x=1, id="s")]):
        model = ScriptedModel(calls)
        result = run(create_agent(model, [weather, stop]), {"messages": "hi"})
        assert len(model.requests) == 1
        assert_valid_history(result["messages"])


def test_after_agent_runs_once_when_parallel_direct_results_are_mixed(run):
    log = []

    class Log(AgentMiddleware):
        def before_model(self, state, runtime):
            log.append("before_model")

        def after_agent(self, state, runtime):
            log.append("after_agent")

    calls = [tool_call("pay", amount=1, id="p1"), tool_call("pay", amount=-1, id="p2")]
    run(create_agent(ScriptedModel(calls, "One failed."), [pay], middleware=[Log()]), {"messages": "hi"})
    assert log == ["before_model", "before_model", "after_agent"]


def test_a_thread_goes_on_where_it_was(run):
    agent = create_agent(ScriptedModel("One.", "Two."), [], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    run(agent, {"messages": "a"}, config)
    assert describe(run(agent, {"messages": "b"}, config)["messages"]) == [
        "human: a",
        "ai: One.",
        "human: b",
        "ai: Two.",
    ]


def test_interrupt_before_and_after_pause_at_the_named_nodes(run):
    for option in ({"interrupt_before": ["tools"]}, {"interrupt_after": ["model"]}):
        agent = create_agent(ScriptedModel(ROME, "Sunny."), [weather], checkpointer=InMemorySaver(), **option)
        config = {"configurable": {"thread_id": "t"}}
        paused = run(agent, {"messages": "hi"}, config)
        assert describe(paused["messages"])[-1].startswith("ai: -> weather")
        assert agent.get_state(config).next == ("tools",)
    assert run(agent, None, config)["messages"][-1].text in {"sunny in Rome", "Sunny."}


def test_a_jump_to_the_loops_start_from_the_first_hook_runs_the_hooks_again(run):
    class Clean(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        def before_model(self, state, runtime):
            last = state["messages"][-1]
            if last.text != "dirty":
                return None
            return {"jump_to": "model", "messages": [HumanMessage("clean", id=last.id)]}

    model = ScriptedModel("ok")
    result = run(create_agent(model, [weather], middleware=[Clean()]), {"messages": "dirty"})
    assert describe(result["messages"]) == ["human: clean", "ai: ok"]
    assert "jump_to" not in result
