"""Who is measured: agentgraph, LangChain, and the graph that one writes by hand."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from tests.benchmarks.stacks import ready_made, saver_of, tools_beside
from tests.benchmarks.workloads import CountingModel, Workload, counting_tool

__all__ = ["BASE", "RIVALS", "Rival"]

BASE = "handwritten"
"""The rival that the others are compared with."""


@dataclass(frozen=True)
class Rival:
    """One way of building an agent.

    `build` gives a compiled graph, or None for a workload that is not for this rival. The base has no middleware: there
    it is measured without, to show what a stack costs.
    """

    name: str
    build: Callable[[Workload], Any]


class _State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def _handwritten(workload: Workload) -> Any:
    tool = counting_tool()
    model = CountingModel(rounds=workload.rounds, tools=workload.tools).bind_tools([tool])

    def call_model(state: _State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    async def acall_model(state: _State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def call_tool(call: Any) -> dict[str, Any]:
        return {"messages": [tool.invoke(call)]}

    async def acall_tool(call: Any) -> dict[str, Any]:
        return {"messages": [await tool.ainvoke(call)]}

    def route(state: _State) -> Any:
        calls = getattr(state["messages"][-1], "tool_calls", [])
        return [Send("tools", call) for call in calls] or END

    graph = StateGraph(_State)
    nodes: tuple[Any, Any] = (acall_model, acall_tool) if workload.asynchronous else (call_model, call_tool)
    graph.add_node("model", nodes[0])
    graph.add_node("tools", nodes[1])
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver_of(workload))


def _idle_stack(base: type[Any], count: int, mark: Callable[[Any], Any]) -> list[Any]:
    """So many middleware that do nothing before and after each model call."""

    def hook(self: Any, state: Any, runtime: Any) -> None:
        return None

    async def ahook(self: Any, state: Any, runtime: Any) -> None:
        return None

    names = {"before_model": hook, "abefore_model": ahook, "after_model": hook, "aafter_model": ahook}
    body = {name: mark(function) for name, function in names.items()}
    return [type(f"Idle{number}", (base,), dict(body))() for number in range(count)]


def _agent(module: str, catalogue: str, base: str, mark: Callable[[Any], Any]) -> Callable[[Workload], Any]:
    """Builds with the `create_agent` of a module, imported when it is first needed.

    Args:
        module: of `create_agent`.
        catalogue: of its ready-made middleware.
        base: the class that idle middleware is made from.
        mark: is applied to each of its hooks.
    """

    def build(workload: Workload) -> Any:
        create_agent = importlib.import_module(module).create_agent
        owner, _, name = base.rpartition(".")
        model = CountingModel(rounds=workload.rounds, tools=workload.tools)
        if workload.catalogue:
            stack = ready_made(catalogue, model)
        else:
            stack = _idle_stack(getattr(importlib.import_module(owner), name), workload.middleware, mark)
        tools = [counting_tool(), *tools_beside(workload)]
        return create_agent(model, tools, middleware=stack, checkpointer=saver_of(workload))

    return build


def _as_it_is(function: Any) -> Any:
    return function


def _inline(function: Any) -> Any:
    return importlib.import_module("agentgraph.decorators").hook_config(inline=True)(function)


_OURS = "agentgraph.middleware"
_THEIRS = "langchain.agents.middleware"
_agentgraph_inline = _agent("agentgraph", _OURS, "agentgraph.hooks.AgentMiddleware", _inline)

RIVALS = (
    Rival(BASE, _handwritten),
    Rival("langchain", _agent("langchain.agents", _THEIRS, f"{_THEIRS}.AgentMiddleware", _as_it_is)),
    Rival("agentgraph", _agent("agentgraph", _OURS, "agentgraph.hooks.AgentMiddleware", _as_it_is)),
    Rival("agentgraph inline", lambda workload: _agentgraph_inline(workload) if workload.middleware else None),
)
