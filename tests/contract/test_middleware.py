"""What middleware sees and does during a run, in all four ways of running it."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agentgraph import AgentMiddleware, AgentState, create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import before_agent, before_model, hook_config
from agentgraph.testing import ScriptedModel, describe, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}
ROME = tool_call("weather", city="Rome", id="r")
THREAD = {"configurable": {"thread_id": "t"}}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def probe(label, log, *, inline=False, kind="both"):
    """Middleware with every hook, each of which writes its name to the log."""

    def before_or_after(hook):
        @hook_config(inline=inline)
        def sync(self, state, runtime):
            log.append(f"{label}.{hook}")

        @hook_config(inline=inline)
        async def asynchronous(self, state, runtime):
            await asyncio.sleep(0)
            log.append(f"{label}.{hook}")

        return {hook: sync, f"a{hook}": asynchronous}

    def around(hook):
        def sync(self, request, handler):
            log.append(f"{label}>{hook}")
            result = handler(request)
            log.append(f"{label}<{hook}")
            return result

        async def asynchronous(self, request, handler):
            log.append(f"{label}>{hook}")
            result = await handler(request)
            log.append(f"{label}<{hook}")
            return result

        return {f"wrap_{hook}": sync, f"awrap_{hook}": asynchronous}

    methods = {}
    for hook in ("before_agent", "before_model", "after_model", "after_agent"):
        methods |= before_or_after(hook)
    methods |= around("model_call") | around("tool_call")
    kept = {
        "both": methods,
        "sync": {name: method for name, method in methods.items() if not asyncio.iscoroutinefunction(method)},
        "async": {name: method for name, method in methods.items() if asyncio.iscoroutinefunction(method)},
    }[kind]
    return type(label, (AgentMiddleware,), kept)()


ORDER = """
A.before_agent B.before_agent C.before_agent
A.before_model B.before_model C.before_model
A>model_call B>model_call C>model_call C<model_call B<model_call A<model_call
C.after_model B.after_model A.after_model
A>tool_call B>tool_call C>tool_call C<tool_call B<tool_call A<tool_call
A.before_model B.before_model C.before_model
A>model_call B>model_call C>model_call C<model_call B<model_call A<model_call
C.after_model B.after_model A.after_model
C.after_agent B.after_agent A.after_agent
"""

KINDS = [
    ("both", "both", "both"),
    ("sync", "async", "sync"),
    ("async", "sync", "async"),
    ("async", "async", "sync"),
    ("sync", "sync", "async"),
]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("inline", [(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)], ids=str)
def test_all_hooks_run_in_the_order_of_the_contract(run, kinds, inline):
    log = []
    mounted = [
        probe(label, log, kind=kind, inline=n in inline)
        for n, (label, kind) in enumerate(zip("ABC", kinds, strict=True))
    ]
    result = run(create_agent(ScriptedModel(ROME, "Sunny."), [weather], middleware=mounted), HI)
    assert log == ORDER.split()
    assert describe(result["messages"]) == [
        "human: hi",
        "ai: -> weather(city='Rome')",
        "tool weather: sunny in Rome",
        "ai: Sunny.",
    ]


def jumping(hook, target, *, inline=False, update=None):
    """Middleware whose hook jumps the first time it runs."""

    class Jump(AgentMiddleware):
        def __init__(self):
            self.times = 0

    @hook_config(can_jump_to=[target], inline=inline)
    def method(self, state, runtime):
        self.times += 1
        return {"jump_to": target, **(update or {})} if self.times == 1 else None

    setattr(Jump, hook, method)
    return Jump()


# (hook, target) of the middleware that jumps once: what the one after it in the list then logs, see LETTERS
JUMPS = {
    ("before_agent", "end"): "z",
    ("before_agent", "model"): "bmftbmfz",
    ("before_agent", "tools"): "abmftbmfz",
    ("before_model", "end"): "az",
    ("before_model", "model"): "abmftbmfz",
    ("before_model", "tools"): "abmftbmfz",
    ("after_model", "end"): "abmfz",
    ("after_model", "model"): "abmfbmfz",
    ("after_model", "tools"): "abmftbmfz",
    ("after_agent", "end"): "abmftbmfz",
    ("after_agent", "model"): "abmftbmfzbmfz",
    ("after_agent", "tools"): "abmftbmfz",
}
LETTERS = {"a": "before_agent", "b": "before_model", "f": "after_model", "z": "after_agent"}


def lettered(log):
    """Middleware that logs a letter for each hook: those of LETTERS, m for the model, t for a tool."""

    def hook(letter):
        return lambda self, state, runtime: log.append(letter)

    class Lettered(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            log.append("m")
            return handler(request)

        def wrap_tool_call(self, request, handler):
            log.append("t")
            return handler(request)

    for letter, name in LETTERS.items():
        setattr(Lettered, name, hook(letter))
    return Lettered()


@pytest.mark.parametrize("inline", [False, True], ids=["node", "inline"])
@pytest.mark.parametrize(("hook", "target"), JUMPS, ids="-".join)
def test_a_declared_jump_leads_there(run, hook, target, inline):
    log = []
    mounted = [jumping(hook, target, inline=inline), lettered(log)]
    result = run(create_agent(ScriptedModel(ROME, "Sunny.", "Again."), [weather], middleware=mounted), HI)
    assert "".join(log) == JUMPS[hook, target]
    assert "jump_to" not in result


@pytest.mark.parametrize("inline", [False, True], ids=["node", "inline"])
@pytest.mark.parametrize(
    ("hook", "target", "log_after"),
    [
        ("before_agent", "model", "abmftbmfz"),
        ("before_model", "end", "abz"),
        ("after_model", "end", "abmz"),
        ("after_model", "model", "abmbmfz"),
        ("after_agent", "end", "abmftbmf"),
    ],
)
def test_a_jump_leaves_out_the_hooks_behind_it(run, hook, target, log_after, inline):
    log = []
    mounted = [lettered(log), jumping(hook, target, inline=inline)]
    run(create_agent(ScriptedModel(ROME, "Sunny.", "Again."), [weather], middleware=mounted), HI)
    assert "".join(log) == log_after


def test_a_jump_may_stand_in_a_command(run):
    @before_model(can_jump_to=["end"])
    def closed(state, runtime):
        return Command(update={"jump_to": "end", "messages": [AIMessage("Closed.")]})

    assert describe(run(create_agent(ScriptedModel(), middleware=[closed]), HI)["messages"])[1:] == ["ai: Closed."]


def test_a_jump_to_the_end_takes_its_message_along(run):
    jump = jumping("before_agent", "end", update={"messages": [AIMessage("Closed today.")]})
    model = ScriptedModel()
    assert describe(run(create_agent(model, middleware=[jump]), HI)["messages"]) == ["human: hi", "ai: Closed today."]


def test_a_jump_to_the_tools_runs_only_calls_without_an_answer(run):
    calls = {"messages": [AIMessage("", tool_calls=[ROME, tool_call("weather", city="Oslo", id="o")])]}
    for hook in ("before_agent", "before_model"):
        jump = jumping(hook, "tools", update=calls)
        result = run(create_agent(ScriptedModel("Both sunny."), [weather], middleware=[jump]), HI)
        assert describe(result["messages"])[2:] == [
            "tool weather: sunny in Rome",
            "tool weather: sunny in Oslo",
            "ai: Both sunny.",
        ]


def test_a_jump_to_the_tools_of_an_agent_without_tools_goes_on(run):
    result = run(create_agent(ScriptedModel("Hello."), middleware=[jumping("before_model", "tools")]), HI)
    assert describe(result["messages"]) == ["human: hi", "ai: Hello."]


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
@pytest.mark.parametrize("declared", [[], ["model"]], ids=str)
@pytest.mark.parametrize("inline", [False, True], ids=["node", "inline"])
def test_an_undeclared_jump_is_an_error_that_names_the_mark(run, hook, declared, inline):
    class Jump(AgentMiddleware):
        pass

    @hook_config(can_jump_to=declared, inline=inline)
    def method(self, state, runtime):
        return {"jump_to": "end"}

    setattr(Jump, hook, method)
    with pytest.raises(ConfigurationError, match=rf"Jump\.{hook}.*'end'.*can_jump_to"):
        run(create_agent(ScriptedModel("Hello."), middleware=[Jump()]), HI)


class Counting(AgentState):
    log: Annotated[NotRequired[list[str]], operator.add]
    seen: NotRequired[int]


def counting(label, *, inline):
    class Count(AgentMiddleware):
        state_schema = Counting
        name = label

        @hook_config(inline=inline)
        def before_model(self, state, runtime):
            return {"log": [f"{label} saw {state.get('log', [])}"], "seen": state.get("seen", 0) + 1}

        @hook_config(inline=inline)
        def after_model(self, state, runtime):
            return {"log": [f"{label} after {len(state['messages'])}"], "seen": state["seen"] + 1}

    return Count()


@pytest.mark.parametrize("inline", [(), (0,), (1,), (0, 1)], ids=str)
def test_hooks_see_the_updates_of_the_hooks_before_them(run, inline):
    mounted = [counting(label, inline=n in inline) for n, label in enumerate("AB")]
    result = run(create_agent(ScriptedModel("Hello."), middleware=mounted), HI)
    assert result["log"] == ["A saw []", "B saw ['A saw []']", "B after 2", "A after 2"]
    assert result["seen"] == 4


@pytest.mark.parametrize("inline", [False, True], ids=["node", "inline"])
def test_a_hook_may_return_a_command_with_an_update(run, inline):
    class Note(AgentMiddleware):
        state_schema = Counting

        @hook_config(inline=inline)
        def before_model(self, state, runtime):
            return Command(update={"log": ["noted"], "messages": [HumanMessage("extra")]})

    result = run(create_agent(ScriptedModel("Hello."), middleware=[Note()]), {**HI, "log": ["old"]})
    assert result["log"] == ["old", "noted"]
    assert describe(result["messages"]) == ["human: hi", "human: extra", "ai: Hello."]


def test_hooks_never_see_jumps_or_fields_of_the_runtime(run):
    seen = []

    class Look(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        def before_agent(self, state, runtime):
            seen.append(sorted(state))
            return {"jump_to": "model"}

        @hook_config(inline=True)
        def before_model(self, state, runtime):
            seen.append(sorted(state))

        def wrap_model_call(self, request, handler):
            seen.append(sorted(request.state))
            return handler(request)

        def wrap_tool_call(self, request, handler):
            seen.append(sorted(request.state))
            return handler(request)

        def after_model(self, state, runtime):
            seen.append(sorted(state))

    result = run(create_agent(ScriptedModel("", ROME, "Sunny."), [weather], middleware=[Look()]), HI)
    assert {name for names in seen for name in names} == {"messages"}
    assert set(result) == {"messages"}


@dataclass
class User:
    name: str


def test_hooks_have_context_and_store_and_may_write_to_the_stream():
    class Greet(AgentMiddleware):
        def before_model(self, state, runtime):
            runtime.store.put(("users",), runtime.context.name, {"seen": True})
            runtime.stream_writer({"user": runtime.context.name})

        def wrap_model_call(self, request, handler):
            name = request.runtime.context.name
            return handler(request.override(system_message=SystemMessage(f"You talk to {name}.")))

    model, store = ScriptedModel("Hello."), InMemoryStore()
    agent = create_agent(model, middleware=[Greet()], context_schema=User, store=store)
    assert list(agent.stream(HI, context=User("ann"), stream_mode="custom")) == [{"user": "ann"}]
    assert store.get(("users",), "ann").value == {"seen": True}
    assert model.requests[0].messages[0] == SystemMessage("You talk to ann.")


def test_hooks_before_a_pause_do_not_run_again_after_it(run):
    log = []

    @before_agent
    def once(state, runtime):
        log.append("before_agent")

    @before_model
    def each(state, runtime):
        log.append("before_model")

    agent = create_agent(
        ScriptedModel(ROME, "Sunny."),
        [weather],
        middleware=[once, each],
        interrupt_before=["tools"],
        checkpointer=InMemorySaver(),
    )
    run(agent, HI, THREAD)
    result = run(agent, None, THREAD)
    assert log == ["before_agent", "before_model", "before_model"]
    assert result["messages"][-1].text == "Sunny."


def test_a_hook_that_changes_the_history_changes_what_the_model_is_sent(run):
    @before_model
    def shout(state, runtime):
        last = state["messages"][-1]
        return {"messages": [HumanMessage(last.text.upper(), id=last.id)]}

    model = ScriptedModel("Hello.")
    run(create_agent(model, middleware=[shout]), HI)
    assert describe(model.requests[0].messages) == ["human: HI"]
