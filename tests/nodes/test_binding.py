import threading

import pytest
from langchain_core.language_models import GenericFakeChatModel

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import wrap_model_call
from agentgraph.nodes.binding import KEPT_BINDINGS, Binder, can_bind_tools
from agentgraph.requests import ModelRequest
from agentgraph.structured_output import Binding
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool


@tool
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def bind(binder, model, tools=(look,), **request):
    return binder.bind(ModelRequest(model=model, messages=[], tools=list(tools), **request), Binding())


def test_one_set_of_tools_and_settings_is_bound_once():
    model, binder = ScriptedModel("x", repeat_last=True), Binder(None)
    first = bind(binder, model, tool_choice="any", model_settings={"temperature": 0})
    assert bind(binder, model, tool_choice="any", model_settings={"temperature": 0}) is first
    assert bind(binder, model, tool_choice="auto", model_settings={"temperature": 0}) is not first
    assert bind(binder, model, tool_choice="any") is not first
    assert model.binds == 3


def test_settings_that_cannot_be_compared_are_bound_anew_each_time():
    model, binder = ScriptedModel("x"), Binder(None)
    settings = {"stop": threading.Lock()}
    assert bind(binder, model, model_settings=settings) is not bind(binder, model, model_settings=settings)


def test_bindings_are_kept_up_to_a_bound():
    model, binder = ScriptedModel("x"), Binder(None)
    first = bind(binder, model, model_settings={"seed": 0})
    for seed in range(1, KEPT_BINDINGS + 1):
        bind(binder, model, model_settings={"seed": seed})
    assert bind(binder, model, model_settings={"seed": 0}) is not first


@pytest.mark.parametrize("tools", [[], [look]])
def test_what_a_model_was_bound_to_before_holds_with_and_without_tools(tools):
    model = ScriptedModel("x")
    create_agent(model.bind(temperature=0), tools).invoke({"messages": "hi"})
    assert model.requests[0].settings == {"temperature": 0}


def test_a_bound_config_holds_with_tools():
    model = ScriptedModel("x")
    tagged = model.bind(temperature=0).with_config(tags=["mine"])
    seen = []

    class Tags(ScriptedModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            seen.extend(run_manager.tags)
            return super()._generate(messages, stop, run_manager, **kwargs)

    create_agent(Tags("x").bind(temperature=0).with_config(tags=["mine"]), [look]).invoke({"messages": "hi"})
    assert "mine" in seen
    assert can_bind_tools(tagged)


def test_a_model_without_tools_is_known_behind_a_binding():
    assert not can_bind_tools(GenericFakeChatModel(messages=iter([])).bind(temperature=0))
    assert not can_bind_tools(ScriptedModel("x", profile={"tool_calling": False}))


def test_a_model_that_a_hook_puts_in_is_refused_when_it_takes_no_tools():
    @wrap_model_call
    def other(request, handler):
        return handler(request.override(model=GenericFakeChatModel(messages=iter([]))))

    with pytest.raises(ConfigurationError, match="tool_protocol"):
        create_agent(ScriptedModel("x"), [look], middleware=[other]).invoke({"messages": "hi"})


def test_a_protocol_rewrites_earlier_calls_also_in_a_request_without_tools():
    @wrap_model_call
    def no_tools_at_the_end(request, handler):
        last = request.messages[-1]
        return handler(request.override(tools=[]) if last.type == "tool" else request)

    model = ScriptedModel('{"tool": "look", "args": {"at": "it"}}', "Seen.")
    agent = create_agent(model, [look], tool_protocol="json", middleware=[no_tools_at_the_end])
    assert agent.invoke({"messages": "hi"})["messages"][-1].text == "Seen."
    assert all(not getattr(m, "tool_calls", None) and m.type != "tool" for m in model.requests[-1].messages)


def test_a_tool_that_nobody_can_run_is_refused_before_the_model_is_called():
    model = ScriptedModel(tool_call("look", at="it"))

    @wrap_model_call
    def more(request, handler):
        return handler(request.override(tools=[look]))

    with pytest.raises(ConfigurationError, match="look"):
        create_agent(model, [], middleware=[more]).invoke({"messages": "hi"})
    assert model.requests == []
