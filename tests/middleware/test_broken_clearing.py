"""Results and settings that a first look misses: answers to unreadable calls, settings of the model before."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call

from agentgraph import create_agent
from agentgraph.decorators import wrap_model_call
from agentgraph.middleware import Budget, BudgetMiddleware, ClearToolUsesEdit, Degrade
from agentgraph.testing import ScriptedModel, tool_call


def read(path: str) -> str:
    """Read a file."""
    return path


def unreadable(name):
    call = invalid_tool_call(name=name, args="{", id="1", error="no JSON")
    result = ToolMessage("long " * 100, tool_call_id="1", status="error")
    return [HumanMessage("go"), AIMessage("", invalid_tool_calls=[call]), result]


def cleared(messages, **options):
    ClearToolUsesEdit(trigger=0, keep=0, clear_at_least=0, **options).apply(
        messages, count_tokens=lambda given: sum(len(one.text) for one in given)
    )
    return [one.text for one in messages if isinstance(one, ToolMessage)]


def test_the_answer_to_an_unreadable_call_is_cleared_and_its_call_stays():
    for name in ("read", None):
        messages = unreadable(name)
        call = messages[1]
        assert cleared(messages, clear_tool_inputs=True) == ["[cleared]"]
        assert messages[1].invalid_tool_calls == call.invalid_tool_calls


def test_the_answer_to_an_unreadable_call_of_an_excluded_tool_stays():
    assert cleared(unreadable("read"), exclude_tools=("read",)) == ["long " * 100]


class Claude(ScriptedModel):
    """One that takes the settings of its kind."""

    @property
    def _llm_type(self) -> str:
        return "anthropic"


def test_degrade_leaves_out_the_settings_that_the_other_model_refuses():
    seen = []

    @wrap_model_call
    def setting(request, handler):
        return handler(request.override(model_settings={"thinking": {"type": "enabled"}, "temperature": 0}))

    @wrap_model_call
    def noting(request, handler):
        seen.append(request.model_settings)
        return handler(request.override(model_settings={}))

    budget = BudgetMiddleware(Budget(model_calls=1, on_exceeded=Degrade(ScriptedModel("Cheap."))))
    model = Claude(tool_call("read", path="a"))
    result = create_agent(model, [read], middleware=[setting, budget, noting]).invoke({"messages": "go"})
    assert result["messages"][-1].text == "Cheap."
    assert seen == [{"thinking": {"type": "enabled"}, "temperature": 0}, {"temperature": 0}]
