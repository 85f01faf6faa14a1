"""Assembly: from a plan to the stations, the route between them, and the graph; the only add_node and add_edge.

::

    START -> [before_agent ...] -> [before_model ...] -> model -> [after_model ...] -> tools -> back to the loop's start
                                        ^ loop               exit rules |
                                                                        +-> [after_agent ...] -> END
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph

from agentgraph.channels import store_whole
from agentgraph.composing import has_hook
from agentgraph.edges import (
    AFTER_MODEL_RULES,
    AFTER_TOOLS_RULES,
    JUMP_RULES,
    Edge,
    Exits,
    Route,
    decide,
)
from agentgraph.errors import ConfigurationError
from agentgraph.hooks import HOOKS, is_inline
from agentgraph.nodes.binding import Binder, can_bind_tools, no_native_tools
from agentgraph.nodes.hook import Hook, HookNode, bind_hook
from agentgraph.nodes.model import ModelNode
from agentgraph.nodes.tools import ToolsNode
from agentgraph.persistence import keeps_history, register_types
from agentgraph.plan import MODEL_NODE, TOOLS_NODE, AgentPlan, check_nodes
from agentgraph.state import JumpTo
from agentgraph.structured_output import resolve
from agentgraph.tracing import hook_policy

__all__ = ["Station", "Stations", "build", "collect_stations", "fit_to_saver", "lay_route"]


@dataclass(frozen=True)
class Station:
    """A node of hooks: one hook, or inline hooks that share it.

    Attributes:
        name: of the node.
        hooks: in the order they run.
        owners: the position of each hook's middleware in the user's list.
    """

    name: str
    hooks: tuple[Hook, ...]
    owners: tuple[int, ...]

    @property
    def jumps(self) -> tuple[JumpTo, ...]:
        """Where its hooks may send the run."""
        return tuple(dict.fromkeys(jump for hook in self.hooks for jump in hook.jumps))


@dataclass(frozen=True)
class Stations:
    """All nodes of hooks in the order they run, and the inline hooks that share the model's node."""

    before_agent: tuple[Station, ...] = ()
    before_model: tuple[Station, ...] = ()
    model_before: tuple[Hook, ...] = ()
    model_after: tuple[Hook, ...] = ()
    after_model: tuple[Station, ...] = ()
    after_agent: tuple[Station, ...] = ()

    def all(self) -> list[Station]:
        """Every node of hooks: middleware by middleware, for each in the order of the hooks."""
        rows = (self.before_agent, self.before_model, self.after_model, self.after_agent)
        placed = [(one.owners[0], row, one) for row, stations in enumerate(rows) for one in stations]
        return [one for _, _, one in sorted(placed, key=lambda place: place[:2])]


@dataclass(frozen=True)
class _Bound:
    """A hook with what decides where it runs."""

    hook: Hook
    owner: int
    name: str
    inline: bool


def collect_stations(plan: AgentPlan) -> Stations:
    """Group the before and after hooks of all middleware into nodes."""
    rows = {name: _row(plan, name) for name, spec in HOOKS.items() if spec.direction != "wrap"}
    before, shared_before = _cut_end(rows["before_model"])
    after, shared_after = _cut_end(rows["after_model"][::-1])
    return Stations(
        before_agent=_grouped(rows["before_agent"], "before_agent"),
        before_model=_grouped(before, "before_model"),
        model_before=tuple(one.hook for one in shared_before),
        model_after=tuple(one.hook for one in shared_after[::-1]),
        after_model=_grouped(after[::-1], "after_model"),
        after_agent=_grouped(rows["after_agent"], "after_agent"),
    )


def _row(plan: AgentPlan, hook: str) -> list[_Bound]:
    """All hooks of one kind in the order they run: before hooks first to last, after hooks last to first."""
    spec = HOOKS[hook]
    row = [
        _Bound(bind_hook(one, name, spec), owner, name, is_inline(one, spec))
        for owner, (one, name) in enumerate(zip(plan.middleware, plan.names, strict=True))
        if has_hook(one, spec)
    ]
    return row[::-1] if spec.direction == "after" else row


def _cut_end(row: list[_Bound]) -> tuple[list[_Bound], list[_Bound]]:
    """The row without its last inline hooks, and these: they stand next to the model and share its node."""
    cut = len(row)
    while cut and row[cut - 1].inline:
        cut -= 1
    return row[:cut], row[cut:]


def _grouped(row: list[_Bound], hook: str) -> tuple[Station, ...]:
    groups: list[list[_Bound]] = []
    for one in row:
        if groups and one.inline and groups[-1][-1].inline:
            groups[-1].append(one)
        else:
            groups.append([one])
    return tuple(
        Station(
            name=f"{'+'.join(one.name for one in group)}.{hook}",
            hooks=tuple(one.hook for one in group),
            owners=tuple(one.owner for one in group),
        )
        for group in groups
    )


def lay_route(plan: AgentPlan, stations: Stations) -> Route:
    """Connect the stations: a value that says where every node may lead."""
    loop = stations.before_model[0].name if stations.before_model else MODEL_NODE
    end = stations.after_agent[0].name if stations.after_agent else END
    has_tools = bool(plan.tools) or plan.wraps_tools
    exits = Exits(
        loop=loop,
        end=end,
        tools=TOOLS_NODE if has_tools else None,
        return_direct=frozenset(name for name, one in plan.tools.items() if one.tool.return_direct),
        structured=frozenset(plan.response.declared if plan.response else ()),
    )
    edges = [
        *_chain(stations.before_agent, loop, exits),
        *_chain(stations.before_model, MODEL_NODE, exits),
        _out_of_model(stations, exits),
        *_chain(stations.after_model, end, exits),
        *_chain(stations.after_agent, END, replace(exits, end=END)),
    ]
    if has_tools:
        edges.append(_out_of_tools(exits))
    entry = stations.before_agent[0].name if stations.before_agent else loop
    return Route(entry, exits, tuple(_with_exit_rules(edge, stations, exits) for edge in edges))


def _chain(stations: Sequence[Station], then: str, exits: Exits) -> list[Edge]:
    """One edge out of each station of a row, to the next one or to what follows the row."""
    names = [one.name for one in stations]
    following = [*names[1:], then] if names else []
    return [_hook_edge(one.name, default, one.jumps, exits) for one, default in zip(stations, following, strict=True)]


def _hook_edge(source: str, default: str, jumps: Sequence[JumpTo], exits: Exits) -> Edge:
    # The loop's start settles what the tools decided, so it may lead to the end where there are tools.
    settles: list[JumpTo] = ["end"] if source == exits.loop and exits.tools else []
    targets = {"model": exits.loop, "end": exits.end, "tools": exits.tools}
    ways = [targets[jump] for jump in (*jumps, *settles)]
    return Edge(source, default, exits, JUMP_RULES, _unique(default, *ways)) if ways else Edge(source, default, exits)


def _out_of_model(stations: Stations, exits: Exits) -> Edge:
    then = stations.after_model[0].name if stations.after_model else exits.end
    jumps: list[JumpTo] = [jump for hook in (*stations.model_before, *stations.model_after) for jump in hook.jumps]
    return _hook_edge(MODEL_NODE, then, jumps, exits)


def _out_of_tools(exits: Exits) -> Edge:
    """Rules only where a result may be the end by itself; a command to end the run is settled at the loop's start."""
    if not exits.return_direct and not exits.structured:
        return Edge(TOOLS_NODE, exits.loop, exits)
    return Edge(TOOLS_NODE, exits.loop, exits, AFTER_TOOLS_RULES, _unique(exits.loop, exits.end))


def _with_exit_rules(edge: Edge, stations: Stations, exits: Exits) -> Edge:
    """The exit rules stand at the last station before the tools: the last after_model hook, or the model."""
    last = stations.after_model[-1].name if stations.after_model else MODEL_NODE
    if edge.source != last:
        return edge
    return Edge(last, exits.end, exits, AFTER_MODEL_RULES, _unique(exits.tools, exits.loop, exits.end))


def _unique(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))


def build(plan: AgentPlan, stations: Stations, route: Route) -> StateGraph[Any, Any, Any, Any]:
    """Make the graph: every node, then every edge."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        state_schema=plan.schemas.state,
        context_schema=plan.context_schema,
        input_schema=plan.schemas.input,
        output_schema=plan.schemas.output,
    )
    nodes = _nodes(plan, stations, route, graph.channels)
    check_nodes(plan, nodes)
    traced = {one.name: hook_policy(*(plan.middleware[owner] for owner in one.owners)) for one in stations.all()}
    # Also on the nodes, because a tool that hands its config on to a subagent hands on its own agent's name with it.
    metadata = {"lc_agent_name": plan.name}
    for name, node in nodes.items():
        graph.add_node(name, node, metadata=metadata, trace_policy=traced.get(name), **plan.policies.of(name))
    graph.add_edge(START, route.entry)
    for edge in route.edges:
        if edge.rules:
            graph.add_conditional_edges(edge.source, Crossing(edge), list(edge.destinations))
        else:
            graph.add_edge(edge.source, edge.default)
    return graph


def fit_to_saver(graph: StateGraph[Any, Any, Any, Any], plan: AgentPlan, checkpointer: Any) -> None:
    """Let a saver that reads strictly know the agent's types; store all messages each time where it keeps no past.

    Args:
        graph: the agent's graph, before it is compiled.
        plan: names the types.
        checkpointer: what create_agent was given, None for none.
    """
    answer = plan.response.initial.schema if plan.response else None
    register_types(checkpointer, plan.schemas.state, answer, *(one.tool for one in plan.tools.values()))
    if not keeps_history(checkpointer):
        store_whole(graph.channels, checkpointer)


def _nodes(
    plan: AgentPlan, stations: Stations, route: Route, channels: Mapping[str, Any]
) -> dict[str, Runnable[Any, Any]]:
    nodes: dict[str, Runnable[Any, Any]] = {MODEL_NODE: _model_node(plan, stations, route, channels)}
    if route.exits.tools:
        nodes[TOOLS_NODE] = ToolsNode(plan.tools, plan.on_tool_error, plan.middleware, channels)
    for one in stations.all():
        settles = route.exits if one.name == route.exits.loop else None
        nodes[one.name] = HookNode(one.hooks, channels, settles)
    return nodes


def _model_node(plan: AgentPlan, stations: Stations, route: Route, channels: Mapping[str, Any]) -> ModelNode:
    return ModelNode(
        model=plan.model,
        tools=(*(one.tool for one in plan.tools.values()), *plan.provider_tools),
        system_message=plan.system_message,
        response=plan.response,
        binder=_binder(plan),
        middleware=plan.middleware,
        before=stations.model_before,
        after=stations.model_after,
        channels=channels,
        polling=frozenset(name for name, one in plan.tools.items() if one.polling),
        name=plan.name,
        settles=route.exits if route.exits.loop == MODEL_NODE else None,
    )


def _binder(plan: AgentPlan) -> Binder:
    """How tools reach the model; a model that cannot take them is refused here, before the first call is paid for."""
    known = None if plan.wraps_tools else {name: one.tool for name, one in plan.tools.items()}
    if plan.tool_protocol is not None:
        from agentgraph.protocols import ProtocolChatModel, resolve_protocol  # noqa: PLC0415 - few agents need it

        protocol = resolve_protocol(plan.tool_protocol)
        return Binder(known, lambda model: ProtocolChatModel(model=model, protocol=protocol))
    if _needs_tools(plan) and not plan.wraps_model and not can_bind_tools(plan.model):
        raise ConfigurationError(no_native_tools(plan.model))
    return Binder(known)


def _needs_tools(plan: AgentPlan) -> bool:
    if plan.tools or plan.provider_tools or plan.response is None:
        return bool(plan.tools or plan.provider_tools)
    answer = resolve(plan.response.initial, model=plan.model, tools_bound=False, declared=plan.response.declared)
    return bool(answer.bind().tools)


@dataclass(frozen=True, eq=False)
class Crossing(Runnable[Any, Any]):
    """A conditional edge. A light Runnable, because langgraph would open a callback run for a plain function."""

    edge: Edge
    name: str | None = field(default="exit rules", init=False)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Where the run goes from this state."""
        return decide(self.edge, input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """The same; nothing here waits."""
        return decide(self.edge, input)
