"""Composing wrap hooks, and the two halves of every hook."""

import asyncio
import itertools

import pytest
from langgraph.errors import GraphInterrupt
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agentgraph import AgentMiddleware, create_agent
from agentgraph.composing import Call, Composed, compose, has_hook, hook_pair
from agentgraph.errors import ConfigurationTypeError
from agentgraph.hooks import HOOKS
from agentgraph.testing import ScriptedModel

HI = {"messages": "hi"}
WRAP = HOOKS["wrap_tool_call"]


def layer(kind, label):
    """Middleware around a str: marks the way in and out."""

    def wrap_tool_call(self, request, handler):
        return f"{handler(f'{request}>{label}')}<{label}"

    async def awrap_tool_call(self, request, handler):
        await asyncio.sleep(0)
        return f"{await handler(f'{request}>{label}')}<{label}"

    def tool_call(self, request):
        return f"{(yield f'{request}>{label}')}<{label}"

    methods = {"sync": [wrap_tool_call], "async": [awrap_tool_call], "flow": [tool_call]}
    chosen = methods.get(kind, [wrap_tool_call, awrap_tool_call])
    return type(label, (AgentMiddleware,), {method.__name__: method for method in chosen})()


async def adone(request):
    await asyncio.sleep(0)
    return Composed(f"{request}!")


DONE = Call(lambda request: Composed(f"{request}!"), adone)


def as_it_is(result):
    return result, None


@pytest.mark.parametrize("kinds", [*itertools.product(["sync", "async", "flow", "both"], repeat=3)], ids="-".join)
def test_layers_of_all_kinds_nest_in_every_order_in_both_kinds_of_runs(kinds):
    mounted = [layer(kind, label) for kind, label in zip(kinds, "ABC", strict=True)]
    call = compose([AgentMiddleware(), *mounted], WRAP, DONE, as_it_is)
    assert call.sync("x") == Composed("x>A>B>C!<C<B<A")
    assert asyncio.run(asyncio.wait_for(call.asynchronous("x"), 10)) == Composed("x>A>B>C!<C<B<A")


def test_without_layers_the_call_is_the_base_itself():
    assert compose([AgentMiddleware()], WRAP, DONE, as_it_is) is DONE


@pytest.fixture(params=["sync", "async"])
def perform(request):
    """Make a composed call in one of the two worlds."""

    def asynchronous(call, given):
        return asyncio.run(asyncio.wait_for(call.asynchronous(given), 10))

    return (lambda call, given: call.sync(given)) if request.param == "sync" else asynchronous


def with_command(result):
    return result, Command(update={"seen": result})


def test_commands_are_kept_from_the_last_try_only_the_innermost_first(perform):
    class Twice(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            handler("first")
            return handler(request)

    call = compose([Twice(), layer("async", "B")], WRAP, DONE, with_command)
    assert perform(call, "x").commands == tuple(Command(update={"seen": "x>B!<B"}) for _ in "AB")


def test_a_layer_that_gives_no_command_keeps_those_from_inside(perform):
    outer = compose([layer("sync", "A")], WRAP, compose([layer("sync", "B")], WRAP, DONE, with_command), as_it_is)
    assert perform(outer, "x") == Composed("x>A>B!<B<A", (Command(update={"seen": "x>A>B!<B"}),))


class Swallow(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        try:
            return handler(request)
        except Exception:
            return "swallowed"


class SwallowAsync(AgentMiddleware):
    async def awrap_tool_call(self, request, handler):
        try:
            return await handler(request)
        except Exception:
            raise RuntimeError("something else") from None


class RetryForEver(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        while True:
            try:
                return handler(request)
            except Exception as error:
                if isinstance(error, GraphInterrupt) and self.count():
                    raise AssertionError from error

    times = 0

    def count(self):
        self.times += 1
        return self.times > 3


def raising(error):
    def call(request):
        raise error

    async def acall(request):
        raise error

    return Call(call, acall)


@pytest.mark.parametrize("outer", [Swallow, SwallowAsync])
@pytest.mark.parametrize("inner", [Swallow, SwallowAsync])
def test_an_interrupt_passes_whatever_a_layer_does_with_it(perform, outer, inner):
    bubble = GraphInterrupt()
    with pytest.raises(GraphInterrupt) as caught:
        perform(compose([outer(), inner()], WRAP, raising(bubble), as_it_is), "x")
    assert caught.value is bubble


def test_a_retry_does_not_run_past_an_interrupt():
    tries = []

    def call(request):
        tries.append(request)
        raise GraphInterrupt

    # What the second try raises is the first try's interrupt, without another call.
    with pytest.raises(GraphInterrupt):
        compose([RetryForEver()], WRAP, Call(call, adone), as_it_is).sync("x")
    assert tries == ["x"]


def test_an_ordinary_error_is_the_layers_to_treat(perform):
    call = compose([Swallow(), layer("async", "B")], WRAP, raising(KeyError("x")), as_it_is)
    assert perform(call, "x") == Composed("swallowed")


def test_a_flow_in_a_derived_class_counts_more_than_the_halves_of_its_base(perform):
    class Base(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return "base"

    class Derived(Base):
        def tool_call(self, request):
            return f"derived {(yield request)}"

    class Both(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return "half"

        tool_call = Derived.tool_call

    class Last(Derived):
        def wrap_tool_call(self, request, handler):
            return "last"

    values = [perform(compose([made()], WRAP, DONE, as_it_is), "x").value for made in (Derived, Both, Last)]
    assert values == ["derived x!", "half", "last"]


def test_whether_a_hook_is_there_does_not_depend_on_its_form():
    present = [has_hook(layer(kind, "A"), WRAP) for kind in ("sync", "async", "flow", "both")]
    assert present == [True] * 4
    assert not has_hook(AgentMiddleware(), WRAP)
    assert not has_hook(AgentMiddleware(), HOOKS["before_model"])


STORE = InMemoryStore()

HOOK_FORMS = {
    "(state, runtime)": (lambda self, state, runtime: self.see(runtime.store), STORE),
    "(state, other)": (lambda self, state, other: self.see(other.store), STORE),
    "(state)": (lambda self, state: self.see("called"), "called"),
    "(state, store)": (lambda self, state, store: self.see(store), STORE),
    "(state, runtime, config)": (lambda self, state, runtime, config: self.see(config["tags"]), ["x"]),
    "(state, *, writer)": (lambda self, state, *, writer: self.see(writer("written")), None),
    "(*any)": (lambda self, *any: self.see(len(any)), 2),
}


@pytest.mark.parametrize("form", HOOK_FORMS)
def test_a_hook_may_take_what_langgraph_passes_to_nodes(form):
    hook, expected = HOOK_FORMS[form]

    class Look(AgentMiddleware):
        before_model = hook

        def __init__(self):
            self.seen = []

        def see(self, value):
            self.seen.append(value)

    look = Look()
    agent = create_agent(ScriptedModel("Hello."), middleware=[look], store=STORE)
    written = list(agent.stream(HI, {"tags": ["x"]}, stream_mode="custom"))
    assert look.seen == [expected]
    assert written == (["written"] if "writer" in form else [])


async def nothing(*args):
    """Nothing."""


def lonely(self):
    """Nothing."""


WRONG = {
    "an async before_model": ("before_model", nothing, "async function under a sync name.*abefore_model"),
    "an async wrap_model_call": ("wrap_model_call", nothing, "async function under a sync name.*awrap_model_call"),
    "an async flow": ("model_call", nothing, "async function under a sync name.*plain generator"),
    "a hook without parameters": ("before_agent", lonely, r"takes \(\); expected was \(state, runtime\)"),
    "a hook with a strange one": (
        "after_model",
        lambda self, state, runtime, strange: None,
        r"takes \(state, runtime, strange\); expected was \(state, runtime\)",
    ),
    "a wrap without parameters": ("awrap_tool_call", lonely, r"takes \(\); expected was \(request, handler\)"),
    "a flow without parameters": ("tool_call", lonely, r"takes \(\); expected was \(request\)"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_method_that_can_never_be_called_is_refused_when_the_agent_is_built(mistake):
    name, method, text = WRONG[mistake]
    wrong = type("Wrong", (AgentMiddleware,), {name: method})()
    with pytest.raises(ConfigurationTypeError, match=rf"Wrong\.{name} .*{text}"):
        create_agent(ScriptedModel("Hello."), middleware=[wrong])


async def test_each_half_of_a_hook_is_there():
    class Sync(AgentMiddleware):
        def before_model(self, state, runtime):
            return "sync"

    class Async(AgentMiddleware):
        async def abefore_model(self, state, runtime):
            return "async"

    class Both(Sync, Async):
        """Both halves."""

    for made, values in ((Sync, ["sync", "sync"]), (Async, ["async", "async"]), (Both, ["sync", "async"])):
        sync, asynchronous = hook_pair(made(), HOOKS["before_model"])
        assert [sync({}, None), await asynchronous({}, None)] == values
