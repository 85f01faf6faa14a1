from typing import Annotated, NotRequired

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.types import Command, Overwrite

from agentgraph import AgentMiddleware, AgentState, ConfigurationError, create_agent
from agentgraph.middleware import hook_config
from agentgraph.testing import ScriptedModel, describe


class Logged(AgentState):
    log: NotRequired[Annotated[list[str], lambda old, new: (old or []) + new]]


def inline(name, function):
    """A middleware whose only hook runs inside the model's node."""

    @hook_config(inline=True)
    def before_model(self, state, runtime):
        return function(state)

    return type(name, (AgentMiddleware,), {"before_model": before_model, "state_schema": Logged})()


def run(*functions, **given):
    middleware = [inline(f"Hook{number}", function) for number, function in enumerate(functions)]
    return create_agent(ScriptedModel("ok"), middleware=middleware).invoke({"messages": "hi", **given})


def test_what_stands_beside_an_overwrite_of_an_inline_hook_is_kept_if_it_came_later():
    result = run(
        lambda state: {"log": ["before"]},
        lambda state: {"log": Overwrite(["reset"])},
        lambda state: {"log": [f"saw {state['log']}"]},
        log=["old"],
    )
    assert result["log"] == ["reset", "saw ['reset']"]


def test_messages_of_an_inline_hook_have_the_id_that_the_state_will_have():
    def add(state):
        return {"messages": [{"role": "user", "content": "added"}, ("user", "too")]}

    def remove(state):
        return {"messages": [RemoveMessage(id=state["messages"][-1].id)]}

    assert describe(run(add, remove)["messages"]) == ["human: hi", "human: added", "ai: ok"]


def test_an_overwrite_of_messages_is_taken_as_it_is():
    result = run(lambda state: {"messages": Overwrite([HumanMessage("only", id="o")])})
    assert describe(result["messages"]) == ["human: only", "ai: ok"]


def test_a_goto_of_a_hook_is_refused_because_its_edge_would_be_taken_too():
    with pytest.raises(ConfigurationError, match="jump_to"):
        run(lambda state: Command(goto="__end__"))


def test_a_command_to_the_parent_graph_leaves_the_row():
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415 - only this test builds a graph by hand

    seen = []
    leave = inline("Leave", lambda state: Command(graph=Command.PARENT, goto="next"))
    after = inline("After", lambda state: seen.append("after"))
    graph = StateGraph(AgentState)
    graph.add_node("agent", create_agent(ScriptedModel("never"), middleware=[leave, after]))
    graph.add_node("next", lambda state: {"messages": [HumanMessage("left", id="l")]})
    graph.add_edge(START, "agent")
    graph.add_edge("next", END)
    assert describe(graph.compile().invoke({"messages": [HumanMessage("hi", id="h")]})["messages"])[-1] == "human: left"
    assert seen == []
