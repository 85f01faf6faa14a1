"""Sensitive values stay out of what is sent and stored, and the tools still work."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from agentgraph import create_agent
from agentgraph.middleware import HumanInTheLoopMiddleware, PIIDetectionError, PIIMiddleware
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, assert_valid_history, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import APPROVE, THREAD, WAYS, decide, edit

MAIL, HIDDEN = "ann@example.com", "[REDACTED_EMAIL]"
OUTPUT = {"apply_to_output": True}
RESULTS = {"apply_to_tool_results": True}


class Post:
    """A tool that sends mail; `log` has to whom."""

    def __init__(self):
        self.log = log = []

        @tool
        def send(to: dict, body: str = "") -> str:
            """Send mail."""
            log.append((to, body))
            return f"sent {body}"

        self.tool = send


@WAYS
def test_user_messages_are_replaced_in_the_state_and_in_the_request(run):
    model = ScriptedModel("Noted.")
    given = [HumanMessage([{"type": "text", "text": f"I am {MAIL}"}], id="h"), AIMessage(MAIL), HumanMessage("Hi.")]
    result = run(create_agent(model, middleware=[PIIMiddleware("email")]), {"messages": given})
    clean = [HumanMessage([{"type": "text", "text": f"I am {HIDDEN}"}], id="h"), *given[1:]]
    assert_messages(result["messages"], [*clean, AIMessage("Noted.")])
    assert_messages(model.requests[0].messages, clean)
    assert result["messages"][0].id == "h"


@WAYS
def test_tools_get_the_real_arguments_and_the_state_the_clean_ones(run):
    post, call = Post(), tool_call("send", to={"mail": [MAIL, 4], MAIL: "x"})
    model = ScriptedModel(ai(call, text=f"To {MAIL}."), f"Sent to {MAIL}.")
    agent = create_agent(
        model, [post.tool], middleware=[PIIMiddleware("email", **OUTPUT)], checkpointer=InMemorySaver()
    )
    result = run(agent, {"messages": "hi"}, THREAD)
    assert post.log == [({"mail": [MAIL, 4], MAIL: "x"}, "")]
    clean = {**call, "args": {"to": {"mail": [HIDDEN, 4], HIDDEN: "x"}}}
    assert_messages(
        result["messages"],
        [HumanMessage("hi"), ai(clean, text=f"To {HIDDEN}."), answer(call, "sent "), AIMessage(f"Sent to {HIDDEN}.")],
    )
    assert MAIL not in str(agent.get_state(THREAD))
    assert MAIL not in str(model.requests[1].messages)


@WAYS
def test_an_approved_call_runs_with_the_real_arguments_and_is_shown_clean(run):
    post, call = Post(), tool_call("send", to={"mail": MAIL}, body="hi")
    middleware = [HumanInTheLoopMiddleware({"send": True}), PIIMiddleware("email", **OUTPUT)]
    agent = create_agent(ScriptedModel(call, "Done."), [post.tool], middleware=middleware, checkpointer=InMemorySaver())
    run(agent, {"messages": "hi"}, THREAD)
    (question,) = agent.get_state(THREAD).tasks[0].interrupts
    assert question.value["action_requests"][0]["args"] == {"to": {"mail": HIDDEN}, "body": "hi"}
    run(agent, decide(APPROVE), THREAD)
    assert post.log == [({"mail": MAIL}, "hi")]
    assert_valid_history(agent.get_state(THREAD).values["messages"])


def test_an_edit_keeps_the_real_value_wherever_its_placeholder_is_left():
    post, call = Post(), tool_call("send", to={"mail": MAIL, "cc": MAIL}, body="hi")
    middleware = [HumanInTheLoopMiddleware({"send": True}), PIIMiddleware("email", **OUTPUT)]
    agent = create_agent(ScriptedModel(call, "Done."), [post.tool], middleware=middleware, checkpointer=InMemorySaver())
    agent.invoke({"messages": "hi"}, THREAD)
    agent.invoke(decide(edit("send", to={"mail": HIDDEN, "cc": "bob"}, body="ho")), THREAD)
    assert post.log == [({"mail": MAIL, "cc": "bob"}, "ho")]


@WAYS
def test_tool_results_commands_and_errors_are_clean(run):
    @tool
    def look() -> list:
        """Look."""
        return [{"type": "text", "text": f"owner {MAIL}"}]

    @tool
    def move(x: str) -> Command:
        """Move."""
        return Command(update={"messages": [ToolMessage(f"moved {MAIL}", tool_call_id=x)]})

    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError(f"no {MAIL}")

    calls = [tool_call("look"), tool_call("move", x="m"), tool_call("fail")]
    calls[1] = {**calls[1], "id": "m"}
    model = ScriptedModel(calls, "ok")
    agent = create_agent(model, [look, move, fail], middleware=[PIIMiddleware("email", **RESULTS)])
    result = run(agent, {"messages": "hi"})
    answers = [one.content for one in result["messages"] if isinstance(one, ToolMessage)]
    assert answers[:2] == [[{"type": "text", "text": f"owner {HIDDEN}"}], f"moved {HIDDEN}"]
    assert f"no {HIDDEN}" in answers[2]
    assert MAIL not in str(result) + str(model.requests[1].messages)


@WAYS
def test_a_structured_answer_is_clean_as_well(run):
    class Contact(BaseModel):
        """A contact."""

        mail: str

    agent = create_agent(
        ScriptedModel(tool_call("Contact", mail=MAIL)),
        response_format=ToolStrategy(Contact),
        middleware=[PIIMiddleware("email", **OUTPUT)],
    )
    result = run(agent, {"messages": "hi"})
    assert result["structured_response"] == Contact(mail=HIDDEN)
    assert MAIL not in str(result)


@WAYS
def test_a_blocked_user_message_is_not_sent_and_the_thread_goes_on(run):
    model = ScriptedModel("Fine.")
    agent = create_agent(model, middleware=[PIIMiddleware("email", strategy="block")], checkpointer=InMemorySaver())
    with pytest.raises(PIIDetectionError) as caught:
        run(agent, {"messages": f"I am {MAIL}"}, THREAD)
    assert (MAIL in str(caught.value), caught.value.matches[0]["value"]) == (False, MAIL)
    assert model.requests == []
    run(agent, {"messages": "Hi."}, THREAD)
    assert_messages(model.requests[0].messages, [HumanMessage(f"I am {HIDDEN}"), HumanMessage("Hi.")])


@WAYS
def test_a_blocked_tool_result_is_kept_without_the_value_and_its_tool_does_not_run_again(run):
    ran = []

    @tool
    def look() -> str:
        """Look."""
        ran.append(1)
        return f"owner {MAIL}"

    model = ScriptedModel(tool_call("look"), "Fine.")
    middleware = [PIIMiddleware("email", strategy="block", **RESULTS)]
    agent = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
    with pytest.raises(PIIDetectionError):
        run(agent, {"messages": "hi"}, THREAD)
    assert MAIL not in str(agent.get_state(THREAD))
    result = run(agent, {"messages": "Go on."}, THREAD)
    assert [one.text for one in result["messages"] if isinstance(one, ToolMessage)] == [f"owner {HIDDEN}"]
    assert ran == [1]


@WAYS
def test_a_blocked_answer_is_not_stored(run):
    middleware = [PIIMiddleware("email", strategy="block", **OUTPUT)]
    agent = create_agent(ScriptedModel(f"It is {MAIL}"), middleware=middleware, checkpointer=InMemorySaver())
    with pytest.raises(PIIDetectionError):
        run(agent, {"messages": "hi"}, THREAD)
    assert_messages(agent.get_state(THREAD).values["messages"], [HumanMessage("hi")])


def test_a_text_protocol_still_gives_its_tools_the_real_arguments():
    post = Post()
    replies = ['{"name": "send", "arguments": {"to": {"mail": "ann@example.com"}}}', "Done."]
    written = [f"```json\n{replies[0]}\n```", replies[1]]
    agent = create_agent(
        ScriptedModel(*written), [post.tool], tool_protocol="json", middleware=[PIIMiddleware("email", **OUTPUT)]
    )
    result = agent.invoke({"messages": "hi"})
    assert post.log == [({"mail": MAIL}, "")]
    assert MAIL not in str(result)


def test_several_types_each_have_a_name_of_their_own():
    assert [PIIMiddleware(kind).name for kind in ("email", "ip")] == ["PIIMiddleware[email]", "PIIMiddleware[ip]"]
