"""Which hooks a middleware has, and what they declare."""

import asyncio
import re

import pytest
from langchain.agents.middleware import AgentMiddleware as LangChainMiddleware

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.hooks import HOOKS, AgentMiddleware, can_jump_to, is_inline, nearness, overrides
from agentgraph.middleware import Pause, hook_config
from agentgraph.testing import ScriptedModel


def test_the_table_has_every_hook_with_its_twin_and_flow():
    assert [tuple(spec) for spec in HOOKS.values()] == [
        ("before_agent", "abefore_agent", "", "agent", "before"),
        ("before_model", "abefore_model", "", "model", "before"),
        ("wrap_model_call", "awrap_model_call", "model_call", "model", "wrap"),
        ("after_model", "aafter_model", "", "model", "after"),
        ("wrap_tool_call", "awrap_tool_call", "tool_call", "tool", "wrap"),
        ("after_agent", "aafter_agent", "", "agent", "after"),
    ]
    assert list(HOOKS) == [spec.name for spec in HOOKS.values()]


class Sync(AgentMiddleware):
    def before_model(self, state, runtime):
        """Nothing."""


class Async(AgentMiddleware):
    async def abefore_model(self, state, runtime):
        """Nothing."""


class Inherited(Sync):
    """Nothing of its own."""


class Mixin:
    def before_model(self, state, runtime):
        """Nothing."""


class Mixed(Mixin, AgentMiddleware):
    """The hook of a class that is no middleware."""


class FromLangChain(LangChainMiddleware):
    def before_model(self, state, runtime):
        """Nothing."""


class Flow(AgentMiddleware):
    def model_call(self, request):
        response = yield request
        return f"{response} by {type(self).__name__}"


@pytest.mark.parametrize(
    ("middleware", "method", "near"),
    [
        (AgentMiddleware(), "before_model", None),
        (LangChainMiddleware(), "before_model", None),
        (Sync(), "before_model", 0),
        (Sync(), "abefore_model", None),
        (Async(), "abefore_model", 0),
        (Async(), "before_model", None),
        (Inherited(), "before_model", 1),
        (Mixed(), "before_model", 1),
        (FromLangChain(), "before_model", 0),
        (FromLangChain(), "after_model", None),
        (FromLangChain(), "model_call", None),
        (Flow(), "model_call", 0),
        (Flow(), "wrap_model_call", None),
        (Sync(), "no_such_hook", None),
    ],
)
def test_a_hook_is_present_when_a_class_below_the_base_has_it(middleware, method, near):
    assert nearness(middleware, method) == near
    assert overrides(middleware, method) == (near is not None)


def test_where_a_hook_may_jump_is_what_both_halves_declare():
    class Jumps(AgentMiddleware):
        @hook_config(can_jump_to=["end", "model"])
        def before_model(self, state, runtime):
            """Nothing."""

        @hook_config(can_jump_to=["tools", "end"])
        async def abefore_model(self, state, runtime):
            """Nothing."""

        def after_model(self, state, runtime):
            """Nothing."""

    jumps = Jumps()
    assert can_jump_to(jumps, HOOKS["before_model"]) == ("end", "model", "tools")
    assert can_jump_to(jumps, HOOKS["after_model"]) == ()
    assert can_jump_to(jumps, HOOKS["before_agent"]) == ()


def test_a_hook_is_inline_when_all_its_halves_say_so():
    class Both(AgentMiddleware):
        @hook_config(inline=True)
        def before_model(self, state, runtime):
            """Nothing."""

        @hook_config(inline=True)
        async def abefore_model(self, state, runtime):
            """Nothing."""

        @hook_config(inline=True)
        def after_model(self, state, runtime):
            """Nothing."""

        async def aafter_model(self, state, runtime):
            """Nothing."""

    assert [is_inline(Both(), HOOKS[hook]) for hook in ("before_model", "after_model", "before_agent")] == [
        True,
        False,
        False,
    ]


async def test_the_hooks_of_the_base_class_do_nothing_and_hand_calls_on():
    plain = AgentMiddleware()

    async def handler(request):
        return f"answer to {request}"

    assert plain.name == "AgentMiddleware"
    for hook in ("before_agent", "before_model", "after_model", "after_agent"):
        assert getattr(plain, hook)({}, None) is None
        assert await getattr(plain, f"a{hook}")({}, None) is None
    for hook in ("wrap_model_call", "wrap_tool_call"):
        assert getattr(plain, hook)("x", "answer to {}".format) == "answer to x"
        assert await getattr(plain, f"a{hook}")("x", handler) == "answer to x"


def test_a_flow_can_be_called_as_the_hook_it_stands_for():
    class Patient(AgentMiddleware):
        def tool_call(self, request):
            yield Pause(seconds=0)
            return (yield request)

    async def handler(request):
        return request

    assert Flow().wrap_model_call("x", str.upper) == "X by Flow"
    assert asyncio.run(Flow().awrap_model_call("x", handler)) == "x by Flow"
    assert Patient().wrap_tool_call("x", str.upper) == "X"
    assert asyncio.run(Patient().awrap_tool_call("x", handler)) == "x"


def test_a_wrap_over_a_flow_reaches_it_by_super():
    class Over(Flow):
        def wrap_model_call(self, request, handler):
            return f"over {super().wrap_model_call(request, handler)}"

    assert Over().wrap_model_call("x", str.upper) == "over X by Over"


def test_a_middleware_whose_only_hook_is_misspelt_is_refused():
    class Typo(AgentMiddleware):
        def befor_model(self, state, runtime):
            """Never called."""

    text = "The middleware Typo has no hook, but a method 'befor_model'. Did you mean 'before_model'?"
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        create_agent(ScriptedModel("Hi."), middleware=[Typo()])


def test_a_middleware_without_hooks_may_have_methods_of_its_own():
    class Tools(AgentMiddleware):
        def before(self):
            """No hook, and nothing like one."""

        def models(self):
            """Likewise."""

    agent = create_agent(ScriptedModel("Hi."), middleware=[Tools()])
    assert agent.invoke({"messages": "hi"})["messages"][-1].text == "Hi."
