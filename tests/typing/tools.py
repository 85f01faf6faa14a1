"""Usage of the tools' own types, read by mypy and pyright and never run."""

from dataclasses import dataclass
from typing import Annotated, Any, assert_type

from agentgraph import AgentState, ToolRuntime, create_agent, tool
from agentgraph.tools import InjectedState, InjectedToolCallId


@dataclass
class User:
    name: str


class Shop(AgentState[Any]):
    basket: list[str]


@tool
def buy(
    item: str,
    runtime: ToolRuntime[User, Shop],
    basket: Annotated[list[str], InjectedState("basket")],
    call_id: Annotated[str, InjectedToolCallId],
) -> str:
    """Buy an item."""
    assert_type(runtime.context, User)
    assert_type(runtime.state, Shop)
    assert_type(runtime.state["basket"], list[str])
    assert_type(runtime.tool_call_id, str | None)
    return item


@tool
def look(runtime: ToolRuntime) -> str:
    """Look."""
    assert_type(runtime.context, None)
    return "x"


create_agent("openai:gpt-5", [buy, look], state_schema=Shop, context_schema=User)
