"""Assembly: the nodes of an agent, and the route between them as a value."""

import pytest
from langgraph.graph import END
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import CachePolicy, RetryPolicy

from agentgraph import AgentMiddleware, create_agent
from agentgraph.edges import AFTER_MODEL_RULES, AFTER_TOOLS_RULES, JUMP_RULES, Edge, Exits, Route
from agentgraph.graph import collect_stations, lay_route
from agentgraph.middleware import hook_config
from agentgraph.plan import make_plan
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel
from agentgraph.tools import tool


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return city


@tool(return_direct=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


def middleware(label, *hooks, inline=False, jumps=()):
    """Middleware with these hooks, which do nothing."""

    def method(self, state, runtime):
        """Nothing."""

    marked = hook_config(inline=inline, can_jump_to=jumps)(method)
    wraps = {"wrap_model_call", "wrap_tool_call"}
    methods = {hook: (lambda self, request, handler: None) if hook in wraps else marked for hook in hooks}
    return type(label, (AgentMiddleware,), methods)()


def route_of(*mounted, tools=(), **options):
    plan = make_plan(ScriptedModel(), tools, middleware=mounted, **options)
    return lay_route(plan, collect_stations(plan))


ALL = ("before_agent", "before_model", "after_model", "after_agent")


def test_without_tools_and_middleware_the_model_is_the_only_station():
    exits = Exits(loop="model", end=END)
    edge = Edge("model", END, exits, AFTER_MODEL_RULES, ("model", END))
    assert route_of() == Route("model", exits, (edge,))


def test_with_tools_the_model_and_the_tools_lead_to_each_other():
    exits = Exits(loop="model", end=END, tools="tools")
    assert route_of(tools=[weather]) == Route(
        "model",
        exits,
        (
            Edge("model", END, exits, AFTER_MODEL_RULES, ("tools", "model", END)),
            Edge("tools", "model", exits),
        ),
    )


def test_tools_that_may_be_the_end_have_a_way_there():
    schema = {"title": "Answer", "type": "object", "properties": {"x": {"type": "integer"}}}
    route = route_of(tools=[weather, pay], response_format=ToolStrategy(schema))
    exits = Exits("model", END, "tools", return_direct=frozenset({"pay"}), structured=frozenset({"Answer"}))
    assert route.exits == exits
    assert route.edges[-1] == Edge("tools", "model", exits, AFTER_TOOLS_RULES, ("model", END))


def test_a_full_route_runs_before_hooks_forwards_and_after_hooks_backwards():
    exits = Exits(loop="A.before_model", end="B.after_agent", tools="tools")
    leaving = Exits(loop="A.before_model", end=END, tools="tools")
    loop_start = ("B.before_model", "B.after_agent")
    assert route_of(middleware("A", *ALL), middleware("B", *ALL), tools=[weather]) == Route(
        "A.before_agent",
        exits,
        (
            Edge("A.before_agent", "B.before_agent", exits),
            Edge("B.before_agent", "A.before_model", exits),
            Edge("A.before_model", "B.before_model", exits, JUMP_RULES, loop_start),
            Edge("B.before_model", "model", exits),
            Edge("model", "B.after_model", exits),
            Edge("B.after_model", "A.after_model", exits),
            Edge(
                "A.after_model", "B.after_agent", exits, AFTER_MODEL_RULES, ("tools", "A.before_model", "B.after_agent")
            ),
            Edge("B.after_agent", "A.after_agent", leaving),
            Edge("A.after_agent", END, leaving),
            Edge("tools", "A.before_model", exits),
        ),
    )


@pytest.mark.parametrize(
    ("hook", "jumps", "default", "destinations"),
    [
        ("before_agent", ["end"], "model", ("model", END)),
        ("before_agent", ["tools", "model"], "model", ("model", "tools")),
        ("before_model", ["model"], "model", ("model", "A.before_model", END)),
        ("after_agent", ["end", "model"], END, (END, "model")),
    ],
)
def test_a_declared_jump_adds_a_way_out_of_its_station(hook, jumps, default, destinations):
    edge = next(
        edge
        for edge in route_of(middleware("A", hook, jumps=jumps), tools=[weather]).edges
        if edge.source == f"A.{hook}"
    )
    assert (edge.default, edge.rules, edge.destinations) == (default, JUMP_RULES, destinations)


def test_jumps_of_inline_hooks_are_ways_out_of_the_model():
    mounted = [middleware("A", "after_model"), middleware("B", "before_model", inline=True, jumps=["end", "tools"])]
    route = route_of(*mounted, tools=[weather])
    edge = next(edge for edge in route.edges if edge.source == "model")
    assert (edge.default, edge.rules, edge.destinations) == (
        "A.after_model",
        JUMP_RULES,
        ("A.after_model", END, "tools"),
    )


NODES = [
    ((), (), ["model"]),
    ((), [weather], ["model", "tools"]),
    ((), [{"type": "web_search"}], ["model"]),
    ((middleware("A", "wrap_tool_call"),), (), ["model", "tools"]),
    ((middleware("A", "wrap_model_call"),), (), ["model"]),
    (
        (middleware("A", *ALL), middleware("B", *ALL)),
        [weather],
        ["model", "tools", *(f"A.{hook}" for hook in ALL), *(f"B.{hook}" for hook in ALL)],
    ),
    (
        (middleware("A", "after_agent"), middleware("B", "before_agent")),
        (),
        ["model", "A.after_agent", "B.before_agent"],
    ),
    (
        (middleware("A", *ALL, inline=True), middleware("B", *ALL, inline=True)),
        (),
        ["model", "A+B.before_agent", "B+A.after_agent"],
    ),
    (
        (middleware("A", "before_model", "after_model", inline=True), middleware("B", "before_model", "after_model")),
        (),
        ["model", "A.before_model", "A.after_model", "B.before_model", "B.after_model"],
    ),
    (
        (middleware("A", "before_model", "after_model"), middleware("B", "before_model", "after_model", inline=True)),
        (),
        ["model", "A.before_model", "A.after_model"],
    ),
    (
        (middleware("A", "before_model"), middleware("A", "before_model"), middleware("A", "after_model")),
        (),
        ["model", "A.before_model", "A#2.before_model", "A#3.after_model"],
    ),
    (
        (middleware("A", "before_model"), middleware("A#2", "before_model"), middleware("A", "before_model")),
        (),
        ["model", "A.before_model", "A#2.before_model", "A#3.before_model"],
    ),
]


@pytest.mark.parametrize(("mounted", "tools", "nodes"), NODES)
def test_the_nodes_of_an_agent_are_exactly_these_in_this_order(mounted, tools, nodes):
    agent = create_agent(ScriptedModel(), tools, middleware=mounted)
    assert list(agent.nodes) == ["__start__", *nodes]


def test_an_agent_is_a_compiled_graph_with_limit_and_metadata():
    agent, named = create_agent(ScriptedModel()), create_agent(ScriptedModel(), name="clerk")
    assert isinstance(agent, CompiledStateGraph)
    assert agent.config["recursion_limit"] == 9999
    assert agent.config["metadata"] == {"ls_integration": "agentgraph"}
    assert named.config["metadata"] == {"ls_integration": "agentgraph", "lc_agent_name": "clerk"}
    assert (agent.name, named.name) == ("LangGraph", "clerk")


def test_policies_go_to_the_model_and_the_tools_or_to_the_named_nodes():
    retry, other, cache = RetryPolicy(max_attempts=2), RetryPolicy(max_attempts=3), CachePolicy(ttl=1)
    mounted = middleware("A", "before_model")
    agent = create_agent(
        ScriptedModel(), [weather], middleware=[mounted], retry_policy=retry, timeout=5, cache_policy=cache
    )
    named = create_agent(
        ScriptedModel(),
        [weather],
        middleware=[mounted],
        retry_policy={"A.before_model": [other], "": retry, "tools": other},
    )
    found = {name: node.retry_policy for name, node in agent.builder.nodes.items()}
    assert found == {"model": retry, "tools": retry, "A.before_model": None}
    assert {name: node.cache_policy for name, node in agent.builder.nodes.items()} == {
        "model": cache,
        "tools": cache,
        "A.before_model": None,
    }
    assert [name for name, node in agent.builder.nodes.items() if node.timeout] == ["model", "tools"]
    assert {name: node.retry_policy for name, node in named.builder.nodes.items()} == {
        "model": retry,
        "tools": other,
        "A.before_model": [other],
    }
