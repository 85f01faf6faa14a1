"""Three middleware as teams write them for LangChain's agents: mounted as they are, each does its work in all ways."""

from typing import Annotated, NotRequired

import pytest
from langchain.agents import middleware as lc
from langchain.agents.middleware.types import AgentState as LangChainState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.middleware import ToolRetryMiddleware
from agentgraph.testing import ScriptedModel, assert_valid_history, describe, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}
THREAD = {"configurable": {"thread_id": "t"}}


@tool
def search(text: str) -> str:
    """Search."""
    return f"all about {text}"


@tool
def admin(what: str) -> str:
    """Change a setting."""
    return f"changed {what}"


def described(result):
    assert_valid_history(result["messages"])
    return describe(result["messages"])[1:]


class LedgerState(LangChainState):
    spent: NotRequired[Annotated[int, lambda old, new: (old or 0) + new]]
    last_tool: NotRequired[Annotated[str, PrivateStateAttr, lambda old, new: new]]


class Ledger(lc.AgentMiddleware):
    """Books what each tool call costs by a command, and ends the run when the money is gone."""

    state_schema = LedgerState

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget

    @lc.hook_config(can_jump_to=["end"])
    def before_model(self, state, runtime):
        if (state.get("spent") or 0) < self.budget:
            return None
        return {"jump_to": "end", "messages": [AIMessage(f"Out of money after {state['last_tool']}.")]}

    def wrap_tool_call(self, request, handler):
        return self._booked(request, handler(request))

    async def awrap_tool_call(self, request, handler):
        return self._booked(request, await handler(request))

    def _booked(self, request, result):
        return Command(update={"messages": [result], "spent": 1, "last_tool": request.tool_call["name"]})


def test_a_ledger_adds_up_by_commands_and_ends_the_run(run):
    two = [tool_call("search", text="a", id="a"), tool_call("search", text="b", id="b")]
    agent = create_agent(
        ScriptedModel(two, tool_call("admin", what="x", id="c"), "never"), [search, admin], middleware=[Ledger(3)]
    )
    result = run(agent, HI)
    assert described(result) == [
        "ai: -> search(text='a') -> search(text='b')",
        "tool search: all about a",
        "tool search: all about b",
        "ai: -> admin(what='x')",
        "tool admin: changed x",
        "ai: Out of money after admin.",
    ]
    assert result["spent"] == 3


class Router(lc.AgentMiddleware):
    """Gives guests a small model and no dangerous tool, and tells the model who asks."""

    def __init__(self, small):
        super().__init__()
        self.small = small

    def wrap_model_call(self, request, handler):
        return handler(self._routed(request))

    async def awrap_model_call(self, request, handler):
        return await handler(self._routed(request))

    def _routed(self, request):
        who = request.runtime.context["who"]
        request = request.override(system_prompt=f"You speak with a {who}.")
        if who == "guest":
            harmless = [one for one in request.tools if one.name != "admin"]
            request = request.override(model=self.small, tools=harmless, model_settings={"temperature": 0})
        return request


@pytest.mark.parametrize("who", ["guest", "owner"])
def test_a_router_chooses_model_tools_settings_and_prompt(run, who):
    small, large = ScriptedModel("Small."), ScriptedModel("Large.")
    agent = create_agent(large, [search, admin], middleware=[Router(small)], context_schema=dict)
    result = run(agent, HI, context={"who": who})
    asked, other = (small, large) if who == "guest" else (large, small)
    (request,) = asked.requests
    assert other.requests == []
    assert request.tools == (["search"] if who == "guest" else ["search", "admin"])
    assert request.settings.get("temperature") == (0 if who == "guest" else None)
    assert describe(request.messages) == [f"system: You speak with a {who}.", "human: hi"]
    assert described(result) == ["ai: Small." if who == "guest" else "ai: Large."]


class Gatekeeper(lc.AgentMiddleware):
    """Asks a person in the middle of a tool call, answers in its place when refused, and clears up in the end."""

    def __init__(self):
        super().__init__()
        self.log = []

    def wrap_tool_call(self, request, handler):
        refusal = self._asked(request)
        return refusal or handler(request)

    async def awrap_tool_call(self, request, handler):
        refusal = self._asked(request)
        return refusal or await handler(request)

    def _asked(self, request):
        if request.tool_call["name"] != "admin" or interrupt({"allow": request.tool_call["args"]}) == "yes":
            return None
        return ToolMessage("refused", tool_call_id=request.tool_call["id"], name="admin", status="error")

    def after_agent(self, state: LangChainState, runtime: Runtime):
        self.log.append(len(state["messages"]))
        return {"messages": [RemoveMessage(state["messages"][0].id)]}


@pytest.mark.parametrize(("said", "told"), [("yes", "tool admin: changed x"), ("no", "tool admin error: refused")])
def test_a_gatekeeper_pauses_inside_a_call_and_through_our_retries(run, said, told):
    mounted = Gatekeeper()
    calls = [tool_call("search", text="a", id="a"), tool_call("admin", what="x", id="x")]
    agent = create_agent(
        ScriptedModel(calls, "Done."),
        [search, admin],
        middleware=[ToolRetryMiddleware(initial_delay=0), mounted],
        checkpointer=InMemorySaver(),
    )
    run(agent, HI, THREAD)
    (question,) = agent.get_state(THREAD).interrupts
    assert question.value == {"allow": {"what": "x"}}
    assert mounted.log == []
    result = run(agent, Command(resume=said), THREAD)
    assert_valid_history(result["messages"])
    assert describe(result["messages"])[1:] == ["tool search: all about a", told, "ai: Done."]
    assert mounted.log == [5]
