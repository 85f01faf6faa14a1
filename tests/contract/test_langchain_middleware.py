"""Middleware written for LangChain, its own catalogue and classes of users, mounted on our agent."""

from typing import NotRequired

import pytest
from langchain.agents import middleware as lc
from langchain.agents.middleware.types import AgentState as LangChainState
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.testing import FunctionModel, ScriptedModel, assert_valid_history, describe, flaky, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}
THREAD = {"configurable": {"thread_id": "t"}}
ROME = tool_call("weather", city="Rome", id="r")
OSLO = tool_call("weather", city="Oslo", id="o")


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def news(topic: str) -> str:
    """The news of a topic."""
    return f"no news of {topic}"


def shown(result):
    assert_valid_history(result["messages"])
    return describe(result["messages"])[1:]


def agent_of(mounted, *script, tools=(weather, news), **options):
    model = ScriptedModel(*script)
    return create_agent(model, list(tools), middleware=[mounted], **options), model


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ({"type": "approve"}, "tool weather: sunny in Rome"),
        ({"type": "reject", "message": "not now"}, "tool weather error: not now"),
        ({"type": "edit", "edited_action": {"name": "weather", "args": {"city": "Oslo"}}}, "sunny in Oslo"),
    ],
    ids=["approve", "reject", "edit"],
)
def test_human_in_the_loop(run, decision, told):
    mounted = lc.HumanInTheLoopMiddleware(interrupt_on={"weather": True})
    agent, _ = agent_of(mounted, ROME, "Done.", checkpointer=InMemorySaver())
    run(agent, HI, THREAD)
    (question,) = agent.get_state(THREAD).interrupts
    assert question.value["action_requests"][0]["name"] == "weather"
    result = run(agent, Command(resume={"decisions": [decision]}), THREAD)
    assert_valid_history(result["messages"])
    (answer,) = [m for m in result["messages"] if isinstance(m, ToolMessage)]
    assert told.split(": ")[-1] in answer.text
    assert result["messages"][-1].text == "Done."


def test_todo_list(run):
    todos = [{"content": "look", "status": "in_progress"}]
    agent, model = agent_of(lc.TodoListMiddleware(), tool_call("write_todos", todos=todos), "Done.")
    result = run(agent, HI)
    assert result["todos"] == todos
    assert "write_todos" in model.requests[0].tools
    assert "write_todos" in model.requests[0].messages[0].text
    assert shown(result)[-1] == "ai: Done."


def test_summarization(run):
    history = [HumanMessage(f"fact {n}") for n in range(8)]
    mounted = lc.SummarizationMiddleware(ScriptedModel("the summary"), trigger=("messages", 8), keep=("messages", 2))
    agent, model = agent_of(mounted, "Fine.")
    result = run(agent, {"messages": history})
    assert ["the summary" in line for line in describe(model.requests[0].messages)] == [True, False, False]
    assert [m.text for m in result["messages"][1:]] == ["fact 6", "fact 7", "Fine."]


def test_model_call_limit(run):
    mounted = lc.ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")
    agent, model = agent_of(mounted, ROME, "never")
    result = run(agent, HI)
    assert len(model.requests) == 1
    assert "limit" in result["messages"][-1].text
    agent, _ = agent_of(lc.ModelCallLimitMiddleware(run_limit=1, exit_behavior="error"), ROME, "never")
    with pytest.raises(Exception, match="limit"):
        run(agent, HI)


@pytest.mark.parametrize(("behavior", "last"), [("continue", "ai: Done."), ("end", "limit")])
def test_tool_call_limit(run, behavior, last):
    agent, _ = agent_of(lc.ToolCallLimitMiddleware(run_limit=1, exit_behavior=behavior), ROME, OSLO, "Done.")
    result = run(agent, HI)
    assert_valid_history(result["messages"])
    assert last in describe(result["messages"])[-1]
    assert [m.status for m in result["messages"] if isinstance(m, ToolMessage)] == ["success", "error"]


def test_pii(run):
    mounted = lc.PIIMiddleware("email", strategy="redact", apply_to_input=True, apply_to_output=True)
    agent, model = agent_of(mounted, "Wrote to ann@example.com.")
    result = run(agent, {"messages": "I am ann@example.com"})
    assert describe(model.requests[0].messages) == ["human: I am [REDACTED_EMAIL]"]
    assert describe(result["messages"]) == ["human: I am [REDACTED_EMAIL]", "ai: Wrote to [REDACTED_EMAIL]."]


def test_model_fallback(run):
    spare = ScriptedModel("Spare.")
    agent, model = agent_of(lc.ModelFallbackMiddleware(spare), ConnectionError("down"))
    assert shown(run(agent, HI)) == ["ai: Spare."]
    assert (len(model.requests), spare.requests[0].tools) == (1, ["weather", "news"])


def test_model_retry(run):
    mounted = lc.ModelRetryMiddleware(max_retries=2, initial_delay=0.0)
    agent, _ = agent_of(mounted, ConnectionError("down"), "Back.")
    assert shown(run(agent, HI)) == ["ai: Back."]


def test_tool_retry(run):
    mounted = lc.ToolRetryMiddleware(max_retries=2, initial_delay=0.0)
    agent, _ = agent_of(mounted, ROME, "Done.", tools=[flaky(weather, [ConnectionError("x"), ConnectionError("y")])])
    assert shown(run(agent, HI))[1:] == ["tool weather: sunny in Rome", "ai: Done."]


def test_context_editing(run):
    mounted = lc.ContextEditingMiddleware(edits=[lc.ClearToolUsesEdit(trigger=1, keep=1)])
    agent, model = agent_of(mounted, ROME, OSLO, "Done.")
    result = run(agent, HI)
    cleared = ["tool weather: [cleared]", "tool weather: sunny in Oslo"]
    assert [line for line in describe(model.requests[2].messages) if line.startswith("tool")] == cleared
    assert shown(result)[1] == "tool weather: sunny in Rome"


def test_llm_tool_selector(run):
    chooser = FunctionModel(
        lambda messages, settings: tool_call(settings["tools"][0]["function"]["name"], tools=["news"])
    )
    agent, model = agent_of(lc.LLMToolSelectorMiddleware(model=chooser, max_tools=1), "Done.")
    run(agent, HI)
    assert model.requests[0].tools == ["news"]


def test_llm_tool_emulator(run):
    mounted = lc.LLMToolEmulator(model=ScriptedModel("imagined"), tools=["weather"])
    agent, _ = agent_of(mounted, [ROME, tool_call("news", topic="cats", id="n")], "Done.")
    assert shown(run(agent, HI))[1:] == ["tool weather: imagined", "tool news: no news of cats", "ai: Done."]


class Counts(LangChainState):
    calls: NotRequired[int]


class Hooked(lc.AgentMiddleware):
    state_schema = Counts
    tools = (news,)

    def __init__(self):
        super().__init__()
        self.log = []

    def before_agent(self, state, runtime):
        self.log.append("before_agent")

    async def abefore_model(self, state, runtime):
        self.log.append("before_model")
        return {"calls": state.get("calls", 0) + 1}

    def wrap_model_call(self, request, handler):
        self.log.append(f"model {request.system_prompt}")
        response = handler(request.override(system_message=SystemMessage("from the wrap")))
        return lc.ModelResponse(result=response.result, structured_response=response.structured_response)

    async def awrap_tool_call(self, request, handler):
        self.log.append(f"tool {request.tool.name}")
        return await handler(request)

    @lc.hook_config(can_jump_to=["end"])
    def after_model(self, state, runtime):
        self.log.append("after_model")
        return {"jump_to": "end"} if state["calls"] == 2 else None

    def after_agent(self, state):
        self.log.append("after_agent")


def test_a_users_own_subclass(run):
    mounted = Hooked()
    agent, model = agent_of(mounted, tool_call("news", topic="cats"), ROME, tools=[weather], system_prompt="given")
    result = run(agent, HI)
    turn = ["before_model", "model given", "after_model"]
    assert mounted.log == ["before_agent", *turn, "tool news", *turn, "after_agent"]
    assert result["calls"] == 2
    assert describe(model.requests[0].messages) == ["system: from the wrap", "human: hi"]


@lc.before_model(can_jump_to=["end"])
def stop(state, runtime):
    return {"jump_to": "end", "messages": [AIMessage("Stopped.")]} if len(state["messages"]) > 2 else None


@lc.after_model
async def shout(state, runtime):
    last = state["messages"][-1]
    return {"messages": [last.model_copy(update={"content": f"{last.text}!"})]}


@lc.wrap_model_call
def extended(request, handler):
    response = handler(request)
    command = Command(update={"messages": [HumanMessage("noted")]})
    return lc.ExtendedModelResponse(model_response=response, command=command)


@lc.wrap_model_call
async def message(request, handler):
    response = await handler(request)
    return AIMessage(f"<{response.result[0].text}>")


@lc.wrap_tool_call
def cached(request, handler):
    return ToolMessage("cached", tool_call_id=request.tool_call["id"], name=request.tool_call["name"])


@lc.dynamic_prompt
def prompted(request):
    return f"{len(request.messages)} messages"


DECORATED = {
    "before_model": (stop, [ROME], ["ai: -> weather(city='Rome')", "tool weather: sunny in Rome", "ai: Stopped."]),
    "after_model": (shout, ["Hello"], ["ai: Hello!"]),
    "wrap_model_call, extended": (extended, ["Hello"], ["ai: Hello", "human: noted"]),
    "wrap_model_call, message": (message, ["Hello"], ["ai: <Hello>"]),
    "wrap_tool_call": (cached, [ROME, "Done."], ["ai: -> weather(city='Rome')", "tool weather: cached", "ai: Done."]),
    "dynamic_prompt": (prompted, ["Hello"], ["ai: Hello"]),
}


@pytest.mark.parametrize("decorated", DECORATED)
def test_langchains_decorators(run, decorated):
    mounted, script, expected = DECORATED[decorated]
    agent, model = agent_of(mounted, *script)
    result = run(agent, HI)
    assert describe(result["messages"])[1:] == expected
    if mounted is prompted:
        assert describe(model.requests[0].messages) == ["system: 1 messages", "human: hi"]


def test_several_of_them_together(run):
    mounted = [
        lc.TodoListMiddleware(),
        lc.ModelCallLimitMiddleware(run_limit=5),
        lc.ToolRetryMiddleware(initial_delay=0.0),
        lc.PIIMiddleware("email"),
        lc.PIIMiddleware("ip"),
        lc.ModelFallbackMiddleware(ScriptedModel("Spare.")),
        Hooked(),
    ]
    agent = create_agent(ScriptedModel(ROME, "Done."), [weather], middleware=mounted)
    result = run(agent, {"messages": "I am ann@example.com at 10.0.0.1"})
    assert describe(result["messages"]) == [
        "human: I am [REDACTED_EMAIL] at [REDACTED_IP]",
        "ai: -> weather(city='Rome')",
        "tool weather: sunny in Rome",
        "ai: Done.",
    ]
