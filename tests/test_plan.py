"""From the arguments of create_agent to a plan."""

import operator

import pytest
from langchain_core.messages import SystemMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolCallTransformer
from langgraph.store.memory import InMemoryStore

from agentgraph import AgentMiddleware
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import HOOKS
from agentgraph.plan import NodePolicies, check_surroundings, make_plan
from agentgraph.subagents import SubagentTransformer
from agentgraph.testing import ScriptedModel
from agentgraph.tools import tool

MODEL = ScriptedModel()


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return city


@tool
def news(topic: str) -> str:
    """The news."""
    return topic


def test_a_plan_of_nothing_but_a_model_has_the_defaults():
    plan = make_plan(MODEL, None)
    assert plan.model is MODEL
    assert (plan.system_message, dict(plan.tools), plan.provider_tools, plan.middleware, plan.names) == (
        None,
        {},
        (),
        (),
        (),
    )
    assert (plan.context_schema, plan.response, plan.tool_protocol, plan.on_tool_error, plan.name) == (
        None,
        None,
        None,
        "return",
        None,
    )
    assert plan.policies == NodePolicies({}, {}, {})
    assert plan.transformers == (ToolCallTransformer, SubagentTransformer)
    assert not plan.wraps_model
    assert not plan.wraps_tools


@pytest.mark.parametrize(
    ("prompt", "message"),
    [(None, None), ("Be brief.", SystemMessage("Be brief.")), (SystemMessage("x"), SystemMessage("x"))],
)
def test_a_system_prompt_becomes_a_message(prompt, message):
    assert make_plan(MODEL, None, system_prompt=prompt).system_message == message


def test_tools_are_those_of_the_middleware_then_the_users_then_the_providers():
    search, shop = {"type": "web_search"}, {"type": "shop"}

    class Brings(AgentMiddleware):
        tools = (news, shop)

    class BringsNothing(AgentMiddleware):
        tools = None

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    plan = make_plan(MODEL, (tool for tool in [weather, search, add, news]), middleware=[Brings(), BringsNothing()])
    assert list(plan.tools) == ["news", "weather", "add"]
    assert plan.tools["weather"].tool is weather
    assert plan.provider_tools == (shop, search)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    "form", [operator.attrgetter("name"), operator.attrgetter("async_name"), operator.attrgetter("flow")]
)
def test_a_plan_knows_whether_a_middleware_stands_around_calls(hook, form):
    name = form(HOOKS[hook])
    if not name:
        assert HOOKS[hook].direction != "wrap"
        return
    plan = make_plan(MODEL, None, middleware=[type("M", (AgentMiddleware,), {name: lambda self, *args: None})()])
    assert (plan.wraps_model, plan.wraps_tools) == (hook == "wrap_model_call", hook == "wrap_tool_call")


def test_transformers_come_each_once_in_the_order_of_the_contract():
    def one(scope):
        """A factory."""

    def two(scope):
        """A factory."""

    class Brings(AgentMiddleware):
        transformers = (one,)

    given = (factory for factory in [two, one, ToolCallTransformer])
    plan = make_plan(MODEL, None, middleware=[Brings(), Brings()], transformers=given)
    assert plan.transformers == (ToolCallTransformer, SubagentTransformer, one, two)


def test_the_policy_of_a_node_is_its_own_else_that_of_the_model_and_the_tools():
    policies = NodePolicies(retry={"": 1, "tools": 2}, timeout={"A.before_model": 3}, cache={"tools": None, "": 4})
    assert policies.of("model") == {"retry_policy": 1, "cache_policy": 4}
    assert policies.of("tools") == {"retry_policy": 2}
    assert policies.of("A.before_model") == {"timeout": 3}
    assert policies.of("B.before_model") == {}


def test_what_surrounds_the_graph_is_accepted_in_its_own_types():
    for checkpointer in (None, True, False, InMemorySaver()):
        check_surroundings(
            ["model", "tools"],
            checkpointer=checkpointer,
            store=InMemoryStore(),
            cache=InMemoryCache(),
            interrupt_before="*",
            interrupt_after=["tools"],
        )


@pytest.mark.parametrize(
    ("argument", "value", "error", "text"),
    [
        (
            "checkpointer",
            "sqlite:///x",
            ConfigurationTypeError,
            "checkpointer is 'sqlite:///x'; expected was bool or BaseCheckpointSaver",
        ),
        ("store", {}, ConfigurationTypeError, "store is {}; expected was BaseStore"),
        ("cache", 3, ConfigurationTypeError, "cache is 3; expected was BaseCache"),
        ("interrupt_before", "tools", ConfigurationTypeError, r"Write interrupt_before=\['tools'\]"),
        ("interrupt_after", 3, ConfigurationTypeError, "expected was a list of node names"),
        (
            "interrupt_before",
            ["tool"],
            ConfigurationError,
            r"node 'tool' \(did you mean 'tools'\?\).* has model, tools",
        ),
        ("interrupt_after", ["xyz"], ConfigurationError, "An interrupt is given for the node 'xyz'; this agent has"),
    ],
)
def test_wrong_surroundings_are_refused_with_the_fix(argument, value, error, text):
    with pytest.raises(ConfigurationError, match=text) as caught:
        check_surroundings(["model", "tools"], **{argument: value})
    assert type(caught.value) is error
