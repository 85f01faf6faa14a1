"""What an approval is configured with: refused where it would guard nothing, used where it is asked."""

import asyncio
import threading
from dataclasses import dataclass

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.runtime import Runtime

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, ResumeError
from agentgraph.middleware import HumanInTheLoopMiddleware, ToolCallRequest
from agentgraph.testing import ai, tool_call
from tests.middleware.approving import APPROVE, WAYS, Desk, decide, edit

BOB = tool_call("transfer", to="bob", amount=500, id="t")


async def later(request):
    return True


MISTAKES = {
    "no dict": (["transfer"], {}, "expected was a dict of tool names"),
    "no name": ({7: True}, {}, "interrupt_on[7] is True"),
    "no config": ({"transfer": ["approve"]}, {}, "interrupt_on['transfer'] is ['approve']"),
    "none allowed": ({"transfer": {"allowed_decisions": []}}, {}, "allowed_decisions=[]"),
    "none said": ({"transfer": {"description": "x"}}, {}, "allowed_decisions=None"),
    "a word": ({"transfer": {"allowed_decisions": "approve"}}, {}, "allowed_decisions='approve'"),
    "unknown decision": ({"transfer": {"allowed_decisions": ["accept"]}}, {}, "allowed_decisions=['accept']"),
    "unknown key": ({"transfer": {"allowed_decisions": ["approve"], "if": 1}}, {}, "has ['if']"),
    "no function": ({"transfer": {"allowed_decisions": ["approve"], "when": True}}, {}, "when=True"),
    "async when": ({"transfer": {"allowed_decisions": ["approve"], "when": later}}, {}, "when=<function later"),
    "no text": ({"transfer": {"allowed_decisions": ["approve"], "description": 7}}, {}, "description=7"),
    "no schema": ({"transfer": {"allowed_decisions": ["edit"], "args_schema": {"type": 7}}}, {}, "JSON schema"),
    "unknown mode": ({}, {"interrupt_mode": "single"}, "interrupt_mode is 'single'"),
    "no notice": ({}, {"edit_notice": 7}, "edit_notice is 7"),
}


@pytest.mark.parametrize(("guards", "options", "why"), MISTAKES.values(), ids=MISTAKES)
def test_what_could_not_guard_is_refused(guards, options, why):
    with pytest.raises(ConfigurationError) as refused:
        HumanInTheLoopMiddleware(guards, **options)
    assert why in str(refused.value)


def test_a_wrong_type_is_a_type_error_as_well():
    with pytest.raises(ConfigurationTypeError):
        HumanInTheLoopMiddleware(None)


def test_a_later_change_of_the_users_dict_opens_no_guard():
    config = {"allowed_decisions": ["reject"]}
    guards = {"transfer": config, "close": False}
    middleware = HumanInTheLoopMiddleware(guards)
    config["allowed_decisions"].append("approve")
    guards.clear()
    assert middleware.interrupt_on == {"transfer": {"allowed_decisions": ["reject"]}}


@dataclass
class Office:
    opens: int


@WAYS
def test_descriptions_and_conditions_see_the_call_the_state_and_the_context(run):
    seen = []

    def describe(call, state, runtime):
        seen.append((call["id"], state["messages"][-1].tool_calls[0]["id"], runtime.context, type(runtime)))
        return f"Move {call['args']['amount']}?"

    def when(request):
        seen.append((request.tool_call["id"], len(request.state["messages"]), request.runtime.context, request.tool))
        return True

    guards = {"transfer": {"allowed_decisions": ["approve"], "description": describe, "when": when}}
    desk = Desk(run, BOB, "ok", guards=guards, context_schema=Office)
    desk.say(context=Office(opens=9))
    assert desk.question.value["action_requests"][0]["description"] == "Move 500?"
    assert seen == [("t", 2, Office(opens=9), None), ("t", "t", Office(opens=9), Runtime)]


@WAYS
def test_a_fixed_description_and_a_prefix_stand_in_the_question(run):
    guards = {"transfer": {"allowed_decisions": ["approve"], "description": "Money moves."}, "close": True}
    close = tool_call("close", account="müller", id="c")
    desk = Desk(run, [BOB, close], "ok", guards=guards, description_prefix="Look here")
    desk.say()
    assert [one["description"] for one in desk.question.value["action_requests"]] == [
        "Money moves.",
        'Look here\n\nTool: close\nArguments: {"account": "müller"}',
    ]


@WAYS
def test_edited_arguments_must_fit_the_schema_that_was_given_for_them(run):
    small = {"type": "object", "properties": {"amount": {"maximum": 10}}}
    guards = {"transfer": {"allowed_decisions": ["edit"], "args_schema": small}}
    desk = Desk(run, BOB, "ok", guards=guards)
    desk.say()
    assert desk.question.value["review_configs"] == [
        {"action_name": "transfer", "allowed_decisions": ["edit"], "args_schema": small}
    ]
    with pytest.raises(ResumeError, match="11 is greater than the maximum of 10"):
        desk.resume(decide(edit("transfer", to="bob", amount=11)))
    desk.resume(decide(edit("transfer", to="bob", amount=10)))
    assert desk.log == [("transfer", "bob", 10)]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_functions_of_the_user_do_not_block_the_event_loop(mode):
    loop_thread, threads = threading.get_ident(), set()

    def when(request):
        threads.add(threading.get_ident())
        return True

    guards = {"transfer": {"allowed_decisions": ["approve"], "when": when}}
    desk = Desk(None, BOB, "ok", guards=guards, interrupt_mode=mode)
    thread = {"configurable": {"thread_id": "t"}}
    await asyncio.wait_for(desk.agent.ainvoke({"messages": "hi"}, thread), 30)
    assert threads
    assert loop_thread not in threads
    answer = decide(APPROVE) if mode == "batched" else type(decide())(resume=APPROVE)
    await asyncio.wait_for(desk.agent.ainvoke(answer, thread), 30)
    assert desk.log == [("transfer", "bob", 500)]


def test_the_hooks_can_be_tried_outside_of_a_run():
    guards = {"transfer": {"allowed_decisions": ["approve"], "when": lambda request: False}}
    middleware = HumanInTheLoopMiddleware(guards)
    state = {"messages": [ai(BOB, id="m")]}
    update = middleware.after_model(state, Runtime())
    # In a runnable that is no graph there is a config, but nobody who could be asked.
    assert RunnableLambda(lambda _: middleware.after_model(state, Runtime())).invoke(None) == update
    for known in (state, {**state, **update}, [*state["messages"]]):
        request = ToolCallRequest(tool_call=BOB, tool=None, state=known, runtime=None)
        assert middleware.wrap_tool_call(request, lambda given: given) is request
