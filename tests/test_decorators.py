"""Middleware from functions: what the decorators make, and the marks on methods."""

import asyncio
import functools

import pytest
from langchain_core.messages import SystemMessage

import agentgraph.middleware as door
from agentgraph import AgentMiddleware, AgentState, create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import HOOKS, can_jump_to, is_inline, overrides
from agentgraph.middleware import before_model, dynamic_prompt, hook_config, wrap_model_call
from agentgraph.testing import ScriptedModel, describe
from agentgraph.tools import tool

HI = {"messages": "hi"}


class Basket(AgentState):
    basket: list[str]


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return city


@pytest.mark.parametrize("hook", HOOKS)
def test_a_decorator_makes_an_object_of_a_new_class_with_one_hook(hook):
    decorate, spec = getattr(door, hook), HOOKS[hook]

    @decorate
    def sync(first, second):
        """What it does."""

    @decorate()
    async def asynchronous(first, second):
        """What it does."""

    for made, method, name in ((sync, spec.name, "sync"), (asynchronous, spec.async_name, "asynchronous")):
        assert isinstance(made, AgentMiddleware)
        assert (type(made).__name__, made.name, type(made).__doc__) == (name, name, "What it does.")
        methods = [one for row in HOOKS.values() for one in row[:3] if one and overrides(made, one)]
        assert methods == [method]
        assert (made.state_schema, made.tools) == (AgentState, [])
    assert type(sync) is not type(decorate(lambda first, second: None))


@pytest.mark.parametrize("hook", HOOKS)
def test_the_options_of_a_decorator_become_those_of_the_middleware(hook):
    spec = HOOKS[hook]
    jumps = {} if spec.direction == "wrap" else {"can_jump_to": ["end"]}
    made = getattr(door, hook)(state_schema=Basket, tools=[weather], name="Shop", **jumps)(lambda first, second: None)
    assert (made.state_schema, made.tools, made.name) == (Basket, [weather], "Shop")
    assert can_jump_to(made, spec) == tuple(jumps.get("can_jump_to", ()))


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
def test_marks_on_the_function_stay_with_the_hook(hook):
    @hook_config(can_jump_to=["end", "model"], inline=True)
    def marked(state, runtime):
        """Nothing."""

    made, again = getattr(door, hook)(marked), getattr(door, hook)(can_jump_to=["tools"])(marked)
    assert can_jump_to(made, HOOKS[hook]) == ("end", "model")
    assert can_jump_to(again, HOOKS[hook]) == ("tools",)
    assert is_inline(made, HOOKS[hook])
    assert is_inline(again, HOOKS[hook])


class Callable:
    async def __call__(self, first, second=None):
        return "Be brief." if second is None else None


async def partly(extra, state, runtime):
    """An async function that partial hides one argument of."""


def test_callable_objects_and_partials_are_functions_too():
    assert overrides(before_model(Callable()), "abefore_model")
    assert overrides(before_model(functools.partial(partly, 1)), "abefore_model")
    assert before_model(Callable()).name == "Callable"
    assert overrides(dynamic_prompt(Callable()), "awrap_model_call")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_function_that_cannot_be_called_so_is_refused_at_once(hook):
    expected = "request, handler" if HOOKS[hook].direction == "wrap" else "state, runtime"
    with pytest.raises(ConfigurationTypeError, match=rf"'lonely'.*takes \(only\); expected was \({expected}\)"):

        @getattr(door, hook)
        def lonely(only):
            """Nothing."""


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda: before_model("name"), "'name', which is no function"),
        (lambda: dynamic_prompt(3), "3, which is no function"),
        (lambda: dynamic_prompt(lambda: "x"), r"expected was \(request\)"),
        (lambda: before_model(tool=[weather]), r"no option 'tool' \(did you mean 'tools'\?\)"),
        (lambda: wrap_model_call(can_jump_to=["end"]), "no option 'can_jump_to'; it has state_schema, tools, name"),
        (lambda: before_model(can_jump_to="end"), r"can_jump_to is 'end'; expected was a list. Write \['end'\]"),
        (lambda: hook_config(can_jump_to="end"), "expected was a list"),
    ],
)
def test_a_wrong_use_of_a_decorator_is_a_type_error_that_says_why(mistake, text):
    with pytest.raises(TypeError, match=text) as caught:
        mistake()
    assert isinstance(caught.value, ConfigurationTypeError)


@pytest.mark.parametrize("mark", [hook_config, before_model])
def test_an_unknown_destination_is_refused(mark):
    with pytest.raises(ConfigurationError, match="names 'stop'; a hook can jump to 'tools', 'model', 'end'"):
        mark(can_jump_to=["stop"])


def test_hook_config_marks_the_method_itself():
    def method(self, state, runtime):
        """Nothing."""

    assert hook_config(can_jump_to=["end"], inline=True)(method) is method
    assert (method.__can_jump_to__, method.__inline__) == (["end"], True)
    assert not hasattr(hook_config()(lambda: None), "__can_jump_to__")


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_dynamic_prompt_is_computed_for_each_call(way):
    @dynamic_prompt
    def counting(request):
        return f"{len(request.messages)} so far"

    @dynamic_prompt()
    async def message(request):
        return SystemMessage(f"{request.system_prompt}!")

    model = ScriptedModel("Hello.")
    agent = create_agent(model, middleware=[counting, message])
    if way == "sync":
        agent.invoke(HI)
    else:
        asyncio.run(agent.ainvoke(HI))
    assert describe(model.requests[0].messages) == ["system: 1 so far!", "human: hi"]
    assert (counting.name, message.name) == ("counting", "message")


def test_a_dynamic_prompt_that_gives_no_prompt_is_an_error():
    agent = create_agent(ScriptedModel("Hello."), middleware=[dynamic_prompt(lambda request: None)])
    with pytest.raises(ConfigurationTypeError, match="returned NoneType; expected was a str or a SystemMessage"):
        agent.invoke(HI)
