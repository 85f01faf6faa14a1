"""The to-do list: the tool, the prompt, and several updates at once."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRequest,
    PlanningState,
    TodoListMiddleware,
    after_model,
    before_model,
    write_todos,
)
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, assert_valid_history, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import THREAD, WAYS

A = [{"content": "a", "status": "pending"}]
B = [{"content": "b", "status": "in_progress"}]
MIXED = [*A, *B, {"content": "c", "status": "completed"}, {"content": "d", "status": "pending"}]
SHORT = TodoListMiddleware(system_prompt="Plan.")


def weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


@WAYS
def test_the_plan_is_in_the_result_and_the_model_is_told_how_it_stands(run):
    call = tool_call("write_todos", todos=MIXED)
    model = ScriptedModel(call, "Done.")
    agent = create_agent(model, middleware=[TodoListMiddleware()])

    result = run(agent, {"messages": "hi"})

    told = answer(call, "The list is saved: 1 completed, 1 in_progress, 2 pending.")
    assert_messages(result["messages"], [HumanMessage("hi"), ai(call), told, AIMessage("Done.")])
    assert result["todos"] == MIXED
    assert model.requests[0].tools == ["write_todos"]


@WAYS
def test_an_empty_list_clears_the_plan(run):
    model = ScriptedModel(tool_call("write_todos", todos=A), tool_call("write_todos", todos=[]), "Done.")
    result = run(create_agent(model, middleware=[TodoListMiddleware()]), {"messages": "hi"})
    assert result["todos"] == []
    assert result["messages"][-2].text == "The list is saved; it has no steps."


@WAYS
def test_two_updates_of_one_turn_are_both_refused_and_the_model_is_asked_again(run):
    first, second = tool_call("write_todos", todos=A), tool_call("write_todos", todos=B)
    other, once = tool_call("weather", city="Rome"), tool_call("write_todos", todos=B)
    model = ScriptedModel([first, other, second], once, "Done.")
    agent = create_agent(model, [weather], middleware=[TodoListMiddleware()])

    result = run(agent, {"messages": "hi"})

    refused = (
        "Error: write_todos was called 2 times in one turn. Each call replaces the whole list, so none of them was "
        "done, and the list is as it was. Call it again, once, with all steps."
    )
    asked = model.requests[1].messages
    assert_messages(
        [message for message in asked if not isinstance(message, SystemMessage)],
        [
            HumanMessage("hi"),
            ai(first, other, second),
            answer(first, refused, status="error"),
            answer(other, "sunny in Rome"),
            answer(second, refused, status="error"),
        ],
    )
    assert result["todos"] == B


@WAYS
def test_only_refused_updates_lead_straight_back_to_the_model(run):
    model = ScriptedModel([tool_call("write_todos", todos=A), tool_call("write_todos", todos=B)], "Done.")
    result = run(create_agent(model, middleware=[TodoListMiddleware()]), {"messages": "hi"})
    assert [one.type for one in result["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert "todos" not in result
    assert_valid_history(result["messages"])


@WAYS
def test_wrong_steps_are_told_to_the_model_and_leave_the_plan_alone(run):
    bad = tool_call("write_todos", todos=[{"content": "a", "status": "someday"}])
    model = ScriptedModel(tool_call("write_todos", todos=A), bad, "Done.")
    result = run(create_agent(model, middleware=[TodoListMiddleware()]), {"messages": "hi"})
    assert result["todos"] == A
    assert result["messages"][-2].status == "error"
    assert "todos.0.status" in result["messages"][-2].text


@WAYS
def test_two_tools_that_write_the_plan_in_one_step_do_not_end_the_run(run):
    @tool
    def delegate(task: str) -> Command:
        """Let somebody else do it."""
        return Command(update={"todos": B})

    model = ScriptedModel([tool_call("write_todos", todos=A), tool_call("delegate", task="x")], "Done.")
    result = run(create_agent(model, [delegate], middleware=[TodoListMiddleware()]), {"messages": "hi"})
    assert result["todos"] == B
    assert result["messages"][-1].text == "Done."


@WAYS
def test_two_updates_that_reach_the_tools_by_a_jump_do_not_end_the_run(run):
    @before_model(can_jump_to=["tools"])
    def jump(state, runtime):
        return {"jump_to": "tools"} if isinstance(state["messages"][-1], AIMessage) else None

    calls = ai(tool_call("write_todos", todos=A), tool_call("write_todos", todos=B))
    agent = create_agent(ScriptedModel("Done."), middleware=[jump, TodoListMiddleware()])
    result = run(agent, {"messages": [HumanMessage("hi"), calls]})
    assert result["todos"] == B
    assert_valid_history(result["messages"])


@WAYS
def test_the_plan_is_kept_with_its_thread_and_cannot_be_set_from_outside(run):
    saver = InMemorySaver()
    model = ScriptedModel(tool_call("write_todos", todos=A), "Done.", "Still there.")
    agent = create_agent(model, middleware=[TodoListMiddleware()], checkpointer=saver)
    assert run(agent, {"messages": "hi", "todos": B}, THREAD)["todos"] == A
    assert run(agent, {"messages": "and now?", "todos": B}, THREAD)["todos"] == A


@WAYS
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, SystemMessage("Plan.")),
        ("Be brief.", SystemMessage("Be brief.\n\nPlan.")),
        (
            SystemMessage([{"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral"}}]),
            SystemMessage(
                [
                    {"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": "\n\nPlan."},
                ]
            ),
        ),
    ],
    ids=["none", "text", "blocks"],
)
def test_the_prompt_stands_after_the_system_message(run, given, expected):
    model = ScriptedModel("Hello.")
    run(create_agent(model, system_prompt=given, middleware=[SHORT]), {"messages": "hi"})
    assert_messages(model.requests[0].messages, [expected, HumanMessage("hi")])


@WAYS
def test_an_empty_prompt_adds_nothing(run):
    model = ScriptedModel("Hello.")
    run(create_agent(model, middleware=[TodoListMiddleware(system_prompt="")]), {"messages": "hi"})
    assert_messages(model.requests[0].messages, [HumanMessage("hi")])


@WAYS
def test_the_prompt_is_left_out_where_another_hook_has_taken_the_tool_away(run):
    class Without(AgentMiddleware):
        def model_call(self, request):
            return (yield request.override(tools=[one for one in request.tools if one.name != "write_todos"]))

    model = ScriptedModel("Hello.")
    run(create_agent(model, [weather], middleware=[Without(), SHORT]), {"messages": "hi"})
    assert_messages(model.requests[0].messages, [HumanMessage("hi")])


def test_it_takes_no_node_of_its_own():
    agent = create_agent(ScriptedModel(), middleware=[TodoListMiddleware()])
    assert set(agent.get_graph().nodes) == {"__start__", "model", "tools", "__end__"}


def test_the_schema_of_the_result_shows_the_plan_and_that_of_the_input_does_not():
    agent = create_agent(ScriptedModel(), middleware=[TodoListMiddleware()])
    assert agent.get_output_jsonschema()["properties"]["todos"]["items"] == {"$ref": "#/$defs/Todo"}
    assert "todos" not in agent.get_input_jsonschema()["properties"]


def test_a_person_can_change_the_plan_of_a_thread():
    model = ScriptedModel(tool_call("write_todos", todos=A), "Done.")
    agent = create_agent(model, middleware=[TodoListMiddleware()], checkpointer=InMemorySaver())
    agent.invoke({"messages": "hi"}, THREAD)
    agent.update_state(THREAD, {"todos": B})
    assert agent.get_state(THREAD).values["todos"] == B


@WAYS
def test_a_person_is_not_asked_about_updates_that_are_refused(run):
    model = ScriptedModel([tool_call("write_todos", todos=A), tool_call("write_todos", todos=B)], "Done.")
    guard = HumanInTheLoopMiddleware({"write_todos": True})
    agent = create_agent(model, middleware=[guard, TodoListMiddleware()], checkpointer=InMemorySaver())
    result = run(agent, {"messages": "hi"}, THREAD)
    assert result["messages"][-1].text == "Done."


@WAYS
def test_an_update_that_was_answered_already_does_not_count(run):
    @after_model
    def answered(state, runtime):
        calls = getattr(state["messages"][-1], "tool_calls", [])
        return {"messages": [ToolMessage("no", tool_call_id=calls[0]["id"], name="write_todos")]} if calls else None

    model = ScriptedModel([tool_call("write_todos", todos=A), tool_call("write_todos", todos=B)], "Done.")
    result = run(create_agent(model, middleware=[TodoListMiddleware(), answered]), {"messages": "hi"})
    assert result["todos"] == B


def test_the_tool_alone_gives_the_update_of_the_state():
    call = {"type": "tool_call", "name": "write_todos", "id": "1", "args": {"todos": A}}
    told = ToolMessage("The list is saved: 1 pending.", name="write_todos", tool_call_id="1")
    assert write_todos.invoke(call).update == {"todos": A, "messages": [told]}
    assert "todos" in PlanningState.__annotations__


def test_the_description_of_the_tool_can_be_chosen():
    (brought,) = TodoListMiddleware(tool_description="Mine.").tools
    assert (brought.name, brought.description) == ("write_todos", "Mine.")
    assert list(brought.tool_call_schema.model_json_schema()["properties"]) == ["todos"]


def test_it_works_on_a_request_made_by_hand():
    request = ModelRequest(model=ScriptedModel(), messages=[HumanMessage("hi")], system_prompt="Be brief.")
    seen = SHORT.wrap_model_call(request, lambda asked: AIMessage(asked.system_prompt))
    assert seen.text == "Be brief.\n\nPlan."


@pytest.mark.parametrize("name", ["system_prompt", "tool_description"])
def test_what_is_no_text_is_refused(name):
    with pytest.raises(ConfigurationError, match=f"{name} is 3; expected was a text"):
        TodoListMiddleware(**{name: 3})
