import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Send

from agentgraph.edges import (
    AFTER_MODEL_RULES,
    AFTER_TOOLS_RULES,
    JUMP_RULES,
    Edge,
    Exits,
    decide,
    settle_tools,
)
from agentgraph.testing import ai, invalid_call, tool_call

EXITS = Exits(
    loop="start", end="stop", tools="tools", return_direct=frozenset({"pay"}), structured=frozenset({"Answer"})
)
ONE, TWO = tool_call("look", id="1"), tool_call("look", id="2")
PAY, PAY_TOO = tool_call("pay", id="1"), tool_call("pay", id="2")
ANSWER = tool_call("Answer", id="9")


def answer(call, *, status="success"):
    return ToolMessage("r", tool_call_id=call["id"], name=call["name"], status=status)


def after_model(*messages, **state):
    edge = Edge("model", EXITS.end, EXITS, AFTER_MODEL_RULES)
    return decide(edge, {"messages": [HumanMessage("hi"), *messages], **state})


def after_tools(*messages, **state):
    return decide(Edge("tools", EXITS.loop, EXITS, AFTER_TOOLS_RULES), {"messages": list(messages), **state})


@pytest.mark.parametrize(
    ("messages", "state", "where"),
    [
        ([AIMessage("done")], {}, "stop"),
        ([], {}, "stop"),
        ([ai(ONE, TWO)], {}, [Send("tools", [ONE]), Send("tools", [TWO])]),
        ([ai(ONE, TWO), answer(ONE)], {}, [Send("tools", [TWO])]),
        ([ai(ONE), answer(ONE)], {}, "start"),
        ([ai(ONE), answer(ONE)], {"structured_response": {"a": 1}}, "stop"),
        ([ai(ONE, ANSWER), answer(ANSWER)], {"structured_response": {"a": 1}}, [Send("tools", [ONE])]),
        ([ai(ANSWER), answer(ANSWER, status="error")], {}, "start"),
        ([AIMessage("", invalid_tool_calls=[invalid_call("look")])], {}, "start"),
        ([ai(ONE)], {"jump_to": "end"}, "stop"),
        ([ai(ONE)], {"jump_to": "model"}, "start"),
        ([ai(ONE), answer(ONE, status="error")], {"jump_to": "tools"}, "start"),
        ([ai(ONE)], {"jump_to": "tools"}, [Send("tools", [ONE])]),
        ([AIMessage("prose", id="p")], {"ask_again": {"message_id": "p"}}, "start"),
        ([AIMessage("prose", id="q")], {"ask_again": {"message_id": "p"}}, "stop"),
        ([AIMessage("prose", id="q")], {"ask_again": None}, "stop"),
    ],
)
def test_where_a_run_goes_after_the_model(messages, state, where):
    assert after_model(*messages, **state) == where


def test_without_a_tools_node_pending_calls_are_no_way_out():
    edge = Edge("model", "stop", Exits("start", "stop"), AFTER_MODEL_RULES)
    assert decide(edge, {"messages": [ai(ONE)]}) == "start"


@pytest.mark.parametrize(
    ("jump", "where"), [(None, "next"), ("end", "stop"), ("model", "start"), ("tools", [Send("tools", [ONE])])]
)
def test_a_hook_goes_on_to_the_next_unless_it_jumps(jump, where):
    assert decide(Edge("hook", "next", EXITS, JUMP_RULES), {"messages": [ai(ONE)], "jump_to": jump}) == where


DIRECT = [{"kind": "return_direct"}]


@pytest.mark.parametrize(
    ("messages", "state", "where"),
    [
        ([ai(ONE), answer(ONE)], {}, "start"),
        ([ai(PAY), answer(PAY)], {"tool_exits": DIRECT}, "stop"),
        ([ai(PAY), answer(PAY, status="error")], {"tool_exits": DIRECT}, "start"),
        ([ai(PAY, PAY_TOO), answer(PAY)], {"tool_exits": DIRECT}, "start"),
        ([ai(PAY, TWO), answer(PAY), answer(TWO)], {"tool_exits": DIRECT}, "start"),
        ([ai(ONE), answer(ONE)], {"tool_exits": [{"kind": "end"}]}, "stop"),
        ([ai(ONE, ANSWER), answer(ANSWER), answer(ONE)], {"structured_response": 1}, "stop"),
        ([], {"tool_exits": DIRECT}, "start"),
    ],
)
def test_where_a_run_goes_after_the_tools(messages, state, where):
    assert after_tools(*messages, **state) == where


def parent(goto, **update):
    return {"kind": "parent", "command": Command(graph=Command.PARENT, goto=goto, update=update)}


def test_tools_that_leave_for_the_parent_graph_leave_together_in_one_command():
    state = {"messages": [], "tool_exits": [parent("next", a=1), parent("next", a=2), parent([Send("x", 1)])]}
    settled = settle_tools(state, EXITS)
    assert settled == Command(graph=Command.PARENT, goto=["next", Send("x", 1)], update=[("a", 1), ("a", 2)])


def test_one_tool_that_leaves_for_the_parent_graph_keeps_its_command():
    wish = parent("next", a=1)
    assert settle_tools({"messages": [], "tool_exits": [wish]}, EXITS) is wish["command"]


def test_parallel_direct_results_end_the_run_once_all_are_there():
    messages = [ai(PAY, PAY_TOO), answer(PAY), answer(PAY_TOO)]
    assert settle_tools({"messages": messages, "tool_exits": DIRECT * 2}, EXITS) == "end"
    failed = [ai(PAY, PAY_TOO), answer(PAY), answer(PAY_TOO, status="error")]
    assert settle_tools({"messages": failed, "tool_exits": DIRECT}, EXITS) is None
    assert settle_tools({"messages": messages}, EXITS) is None
    assert settle_tools({"messages": [], "tool_exits": DIRECT}, EXITS) is None
