"""Wrong arguments of create_agent, and hooks that give back wrong things: one typed error that says what to do."""

import operator
from dataclasses import dataclass
from typing import Annotated

import pytest
from langchain_core.language_models import BaseChatModel, FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from agentgraph import AgentMiddleware, AgentState, create_agent
from agentgraph.errors import AgentGraphError, ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import before_model
from agentgraph.structured_output import ProviderStrategy, ToolStrategy
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return city


def another(city: str) -> str:
    """Another tool of the same name."""
    return city


another.__name__ = "weather"


class Weather(BaseModel):
    """The weather."""

    city: str


CLASH = create_model("weather", __doc__="A schema that is called like the tool.", city=(str, ...))


class Plain(AgentMiddleware):
    def before_model(self, state, runtime):
        """Nothing."""


@before_model
def hook(state, runtime):
    """Nothing."""


class Named(AgentMiddleware):
    def __init__(self, name):
        self._name = name

    @property
    def name(self):
        return self._name


class WithTools(AgentMiddleware):
    def __init__(self, tools):
        self.tools = tools


class WithState(AgentMiddleware):
    def __init__(self, state_schema):
        self.state_schema = state_schema


class WithoutMessages(TypedDict):
    count: Annotated[int, operator.add]


@dataclass
class User:
    name: str


def as_function(state, runtime):
    """A function where an object is due."""


SAME = Plain()

TYPE, VALUE = ConfigurationTypeError, ConfigurationError

# what: the wrong arguments, the type of the error, and what its text says
WRONG = {
    "model None": ({"model": None}, TYPE, ["model is of the type NoneType", "expected was a chat model"]),
    "model a number": ({"model": 3}, TYPE, ["of the type int", "'openai:gpt-5'"]),
    "model a class": ({"model": ScriptedModel}, TYPE, ["the class ScriptedModel", "ScriptedModel(...)"]),
    "model a function": ({"model": as_function}, TYPE, ["of the type function"]),
    "model of text": ({"model": FakeListLLM(responses=["x"])}, TYPE, ["FakeListLLM", "a chat model"]),
    "model of settings": ({"model": {"api_key": "sk-secret"}}, TYPE, ["of the type dict"]),
    "provider unknown": ({"model": "opanai:gpt-5"}, VALUE, ["opanai", "openai"]),
    "tools a ToolNode": (
        {"tools": ToolNode([weather])},
        TYPE,
        ["ToolNode", "node.tools_by_name.values()", "on_tool_error"],
    ),
    "tools one tool": ({"tools": weather}, TYPE, ["tools is", "Write tools=[...]"]),
    "tools one function": ({"tools": another}, TYPE, ["tools is", "Write tools=[...]"]),
    "tools one dict": ({"tools": {"type": "mcp", "token": "sk-secret"}}, TYPE, ["['type', 'token']", "tools=[...]"]),
    "tools a name": ({"tools": "weather"}, TYPE, ["tools is 'weather'", "Write tools=[...]"]),
    "tools a number in a list": ({"tools": [3]}, TYPE, ["3 (int) is no tool"]),
    "two tools of one name": ({"tools": [weather, another]}, VALUE, ["Two tools are called 'weather'", "Rename one"]),
    "a provider's tool of one name": (
        {"tools": [weather, {"type": "function", "function": {"name": "weather"}}]},
        VALUE,
        ["Two tools are called 'weather'"],
    ),
    "a middleware's tool of one name": (
        {"tools": [weather], "middleware": [WithTools([another])]},
        VALUE,
        ["Two tools are called 'weather'"],
    ),
    "a middleware's tools one tool": (
        {"middleware": [WithTools(weather)]},
        TYPE,
        ["WithTools.tools is", "tools=[...]"],
    ),
    "tool and schema of one name": (
        {"tools": [weather], "response_format": ToolStrategy(CLASH)},
        VALUE,
        ["The tool 'weather' and the schema 'weather'", "Rename the tool"],
    ),
    "system_prompt a list": ({"system_prompt": ["x"]}, TYPE, ["system_prompt is list", "str or a SystemMessage"]),
    "system_prompt a function": ({"system_prompt": as_function}, TYPE, ["system_prompt is function", "dynamic_prompt"]),
    "middleware one object": ({"middleware": SAME}, TYPE, ["middleware is", "Write middleware=[...]"]),
    "middleware None": ({"middleware": None}, TYPE, ["middleware is None", "expected was a list"]),
    "middleware a name": ({"middleware": "Plain"}, TYPE, ["middleware is 'Plain'", "expected was a list"]),
    "a middleware's class": ({"middleware": [Plain]}, TYPE, ["the class Plain", "Write Plain(...)"]),
    "a function as middleware": ({"middleware": [as_function]}, TYPE, ["no middleware", "decorator", "before_model"]),
    "a name as middleware": ({"middleware": ["Plain"]}, TYPE, ["'Plain', which is no middleware"]),
    "a middleware twice": ({"middleware": [SAME, SAME]}, VALUE, ["'Plain' is mounted twice", "a second object"]),
    "a middleware's name empty": ({"middleware": [Named("")]}, VALUE, ["called ''", "Give it another `name`"]),
    "a middleware's name with a colon": ({"middleware": [Named("a:b")]}, VALUE, ["called 'a:b'", "must not contain"]),
    "a middleware's state_schema": ({"middleware": [WithState({})]}, TYPE, ["given was {}", "agentgraph.AgentState"]),
    "response_format a number": ({"response_format": 3}, TYPE, ["3 is not a schema", "a pydantic class"]),
    "response_format an object": ({"response_format": Weather(city="x")}, TYPE, ["is not a schema"]),
    "response_format a list": ({"response_format": [Weather]}, TYPE, ["is not a schema"]),
    "state_schema an object": ({"state_schema": {"messages": []}}, TYPE, ["must be a class", "agentgraph.AgentState"]),
    "state_schema a plain type": ({"state_schema": dict}, TYPE, ["must be a class with annotated fields"]),
    "state_schema without messages": (
        {"state_schema": WithoutMessages},
        VALUE,
        ["['count']", "no `messages`", "Derive it"],
    ),
    "context_schema an object": ({"context_schema": User("ann")}, TYPE, ["expected was a class", "context=..."]),
    "tool_protocol unknown": ({"tool_protocol": "jsonn"}, VALUE, ["'jsonn'", "json"]),
    "on_tool_error unknown": ({"on_tool_error": "explode"}, VALUE, ["'explode'", "'return'", "'raise'"]),
    "on_tool_error a number": ({"on_tool_error": 3}, VALUE, ["on_tool_error is 3"]),
    "retry_policy a number": ({"retry_policy": 3}, TYPE, ["retry_policy is 3", "RetryPolicy"]),
    "retry_policy of numbers": ({"retry_policy": [3]}, TYPE, ["retry_policy is 3", "RetryPolicy"]),
    "retry_policy a name": ({"retry_policy": {"model": "often"}}, TYPE, ["retry_policy is 'often'"]),
    "retry_policy of an unknown node": ({"timeout": {"modle": 3}}, VALUE, ["'modle'", "did you mean 'model'"]),
    "retry_policy of a missing node": ({"timeout": {"tools": 3}}, VALUE, ["'tools'", "this agent has model"]),
    "timeout a name": ({"timeout": "long"}, TYPE, ["timeout is 'long'", "int or float or timedelta"]),
    "timeout true": ({"timeout": True}, TYPE, ["timeout is True"]),
    "timeout of nothing": ({"timeout": 0}, VALUE, ["timeout is 0", "seconds above 0"]),
    "cache_policy a number": ({"cache_policy": 3}, TYPE, ["cache_policy is 3", "CachePolicy"]),
    "transformers one factory": ({"transformers": as_function}, TYPE, ["transformers is", "a list of factories"]),
    "transformers a number": ({"transformers": [3]}, TYPE, ["transformers is [3]", "a list of factories"]),
    "name empty": ({"name": ""}, VALUE, ["name is ''", "not empty"]),
    "name a number": ({"name": 3}, VALUE, ["name is 3", "expected was a str"]),
    "name with a bar": ({"name": "a|b"}, VALUE, ["name is 'a|b'", "|"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_one_typed_error_when_the_agent_is_built(what):
    arguments, kind, words = WRONG[what]
    with pytest.raises(AgentGraphError) as caught:
        create_agent(**{"model": ScriptedModel(), **arguments})
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError) == (kind is TYPE)
    text = str(caught.value)
    assert [word for word in words if word not in text] == [], text
    assert "sk-secret" not in text
    assert len(text) < 700


class NoTools(BaseChatModel):
    """A chat model without native tools: bind_tools is not overridden."""

    @property
    def _llm_type(self):
        return "no-tools"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("x"))])


DECLARED = ScriptedModel("x", profile={"tool_calling": False})


@pytest.mark.parametrize("model", [NoTools(), DECLARED], ids=["bind_tools missing", "profile"])
@pytest.mark.parametrize(
    "needs",
    [{"tools": [weather]}, {"tools": [{"type": "web_search"}]}, {"response_format": ToolStrategy(Weather)}],
    ids=["a tool", "a provider's tool", "a schema"],
)
def test_a_model_without_native_tools_is_refused_with_the_way_out(model, needs):
    with pytest.raises(ConfigurationError, match=r'no native tool calling.*tool_protocol="json"'):
        create_agent(model, **needs)


def test_a_model_without_native_tools_is_fine_where_none_are_needed(run):
    assert run(create_agent(NoTools()), HI)["messages"][-1].text == "x"
    create_agent(NoTools(), [weather], tool_protocol="json")
    create_agent(DECLARED, response_format=ProviderStrategy(Weather))


def test_where_a_wrap_may_change_the_model_the_way_out_is_told_at_the_call(run):
    class Wrap(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request)

    agent = create_agent(NoTools(), [weather], middleware=[Wrap()])
    with pytest.raises(ConfigurationError, match="NoTools has no native tool calling"):
        run(agent, HI)


def test_a_model_that_answers_with_a_str_is_a_typed_error(run):
    with pytest.raises(ConfigurationTypeError, match="answered with str; expected was an AIMessage"):
        run(create_agent(RunnableLambda(lambda messages: "text")), HI)


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
@pytest.mark.parametrize("result", ["text", 3, [AIMessage("x")], True], ids=repr)
def test_a_hook_that_returns_a_wrong_type_is_named(run, hook, result):
    wrong = type("Wrong", (AgentMiddleware,), {hook: lambda self, state, runtime: result})()
    text = rf"Wrong\.{hook} returned {type(result).__name__}; expected was a dict"
    with pytest.raises(ConfigurationTypeError, match=text):
        run(create_agent(ScriptedModel("Hello."), middleware=[wrong]), HI)


class Basket(AgentState):
    basket: list[str]


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
def test_an_update_of_an_unknown_field_is_an_error_that_names_the_nearest(run, hook):
    wrong = type("Wrong", (AgentMiddleware,), {hook: lambda self, state, runtime: {"baskte": []}})()
    text = rf"Wrong\.{hook} writes 'baskte'.*did you mean 'basket'.*state_schema"
    with pytest.raises(ConfigurationError, match=text):
        run(create_agent(ScriptedModel("Hello."), middleware=[wrong], state_schema=Basket), HI)


def test_a_schema_that_was_not_declared_is_an_error_of_the_request(run):
    class Narrow(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(response_format=ToolStrategy(Weather)))

    for declared in ({}, {"response_format": ToolStrategy(CLASH)}):
        with pytest.raises(ConfigurationError, match="'Weather', which the agent did not declare"):
            run(create_agent(ScriptedModel(tool_call("Weather", city="x")), middleware=[Narrow()], **declared), HI)


@pytest.mark.parametrize("given", [{}, {"message": "hi"}, {"messages": []}])
def test_a_run_without_a_message_is_refused_before_the_model_is_called(run, given):
    model = ScriptedModel("invented")
    with pytest.raises(ConfigurationError, match=r'\{"messages": "\.\.\."\}'):
        run(create_agent(model), given)
    assert model.requests == []


def test_a_model_that_has_tools_bound_already_is_refused_with_the_fix(run):
    model = ScriptedModel("x")
    with pytest.raises(ConfigurationError, match="without bind_tools"):
        run(create_agent(model.bind_tools([weather]), [weather]), {"messages": "hi"})
