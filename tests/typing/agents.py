"""Usage of create_agent, read by mypy and pyright and never run."""

from dataclasses import dataclass
from typing import Any, assert_type

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from agentgraph import AgentState, create_agent
from agentgraph.middleware import InputAgentState, OutputAgentState
from agentgraph.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy


class Weather(BaseModel):
    city: str


@dataclass
class User:
    name: str


class Shop(AgentState[Any]):
    basket: list[str]


def search(query: str) -> str:
    return query


def the_answer_has_the_type_of_its_schema(model: BaseChatModel) -> None:
    by_tool = create_agent(model, response_format=ToolStrategy(Weather))
    by_provider = create_agent(model, response_format=ProviderStrategy(Weather))
    by_class = create_agent("openai:gpt-5", [search], response_format=Weather)
    by_auto = create_agent(model, response_format=AutoStrategy(Weather))
    for agent in (by_tool, by_provider, by_class, by_auto):
        assert_type(agent, CompiledStateGraph[AgentState[Weather], None, InputAgentState, OutputAgentState[Weather]])


def without_a_class_the_answer_has_any_type(model: BaseChatModel) -> None:
    plain = create_agent(model)
    by_json_schema = create_agent(model, response_format={"type": "object"})
    for agent in (plain, by_json_schema):
        assert_type(agent, CompiledStateGraph[AgentState[Any], None, InputAgentState, OutputAgentState[Any]])


def the_context_has_the_type_of_its_schema(model: BaseChatModel) -> None:
    agent = create_agent(model, context_schema=User, response_format=Weather)
    assert_type(agent, CompiledStateGraph[AgentState[Weather], User, InputAgentState, OutputAgentState[Weather]])
    agent.invoke({"messages": []}, context=User("ann"))
    agent.invoke({"messages": []}, context="ann")  # type: ignore[call-overload] # pyright: ignore[reportArgumentType] # must be refused


def every_argument_takes_what_the_contract_says(model: BaseChatModel) -> None:
    create_agent(
        model,
        [search, {"type": "web_search"}],
        system_prompt="Be brief.",
        middleware=[],
        state_schema=Shop,
        interrupt_before="*",
        interrupt_after=["tools"],
        name="clerk",
        tool_protocol="json",
        on_tool_error=lambda error, request: str(error),
        timeout={"model": 3.0},
    )
    create_agent(model, on_tool_error="explode")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType] # must be refused
    create_agent(model, state_schema=Weather)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType] # must be refused


def a_run_takes_messages_in_all_short_forms(model: BaseChatModel) -> None:
    agent = create_agent(model)
    agent.invoke({"messages": "hi"})
    agent.invoke({"messages": [("user", "hi")]})
    agent.invoke({"messages": [{"role": "user", "content": "hi"}]})
    agent.invoke({"messages": [HumanMessage("hi")]})
    agent.invoke({"messages": HumanMessage("hi")})
