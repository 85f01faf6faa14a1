"""Agents whose messages are stored as changes: old threads, savers that forget, and what users see of a run."""

from typing import Annotated, Any

import pytest
from langchain.agents import AgentState as LangChainState
from langchain.agents import create_agent as langchain_create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from agentgraph import AgentState, create_agent
from agentgraph.channels import MessagesChannel
from agentgraph.errors import CheckpointError, ConfigurationError
from agentgraph.middleware import after_model
from agentgraph.persistence import open_checkpointer
from agentgraph.testing import ScriptedModel, tool_call
from tests.persistence.conftest import postgres_server, postgres_url, sqlite_url, url  # noqa: F401 - fixtures

THREAD = {"configurable": {"thread_id": "t"}}


class WholeState(AgentState):
    messages: Annotated[list[AnyMessage], add_messages]


class Forgetful(InMemorySaver):
    """Keeps only the newest checkpoint of a thread, as some caches do."""

    def put(self, config, checkpoint, metadata, new_versions):
        configurable = config["configurable"]
        spaces = self.storage[configurable["thread_id"]]
        spaces[configurable.get("checkpoint_ns", "")].clear()
        return super().put(config, checkpoint, metadata, new_versions)


class Sure(Forgetful):
    """Says that it keeps what it does not keep."""

    keeps_history = True


def double(number: int) -> str:
    """Twice a number."""
    return str(2 * number)


def ask(question: str) -> str:
    """Ask the user."""
    return str(interrupt(question))


def script() -> ScriptedModel:
    return ScriptedModel(replies=[[tool_call("double", id="1", number=2)], "Four.", "Bye."])


def said(messages: list[Any]) -> list[tuple[str, str]]:
    return [(message.type, message.text) for message in messages]


FIRST = [("human", "Twice two?"), ("ai", ""), ("tool", "4"), ("ai", "Four.")]
SECOND = [*FIRST, ("human", "Thanks."), ("ai", "Bye.")]

BUILDERS = {
    "changes": create_agent,
    "whole": lambda *given, **named: create_agent(*given, state_schema=WholeState, **named),
    "langchain": langchain_create_agent,
}


@pytest.mark.parametrize(
    ("before", "after"),
    [("whole", "changes"), ("changes", "whole"), ("langchain", "changes"), ("changes", "langchain")],
)
def test_a_thread_goes_on_under_another_way_of_storing(url, run, before, after):  # noqa: F811 - a fixture
    with open_checkpointer(url) as saver:
        model = script()
        first = BUILDERS[before](model, [double], checkpointer=saver)
        second = BUILDERS[after](model, [double], checkpointer=saver)
        assert said(run(first, {"messages": "Twice two?"}, THREAD)["messages"]) == FIRST
        assert said(second.get_state(THREAD).values["messages"]) == FIRST
        assert said(run(second, {"messages": "Thanks."}, THREAD)["messages"]) == SECOND
        lengths = [len(one.values.get("messages", [])) for one in second.get_state_history(THREAD)]
        assert lengths == [6, 5, 4, 4, 3, 2, 1, 0]
        assert said(first.get_state(THREAD).values["messages"]) == SECOND


def test_a_saver_that_forgets_gets_whole_messages_and_a_warning(run):
    with pytest.warns(UserWarning, match="Forgetful keeps only the newest checkpoint"):
        agent = create_agent(script(), [double], checkpointer=Forgetful())
    run(agent, {"messages": "Twice two?"}, THREAD)
    assert said(run(agent, {"messages": "Thanks."}, THREAD)["messages"]) == SECOND


def test_who_stores_messages_whole_is_not_warned():
    agent = create_agent(script(), [double], state_schema=WholeState, checkpointer=Forgetful())
    assert agent.channels["messages"].operator is add_messages


@pytest.mark.parametrize("schema", [LangChainState, WholeState])
def test_a_schema_that_says_add_messages_opts_out(schema):
    agent = create_agent(script(), state_schema=schema, checkpointer=InMemorySaver())
    assert agent.channels["messages"].operator is add_messages
    assert type(create_agent(script(), checkpointer=InMemorySaver()).channels["messages"]) is MessagesChannel


def test_a_conversation_that_a_saver_lost_is_a_typed_error_and_not_an_empty_one(run):
    agent = create_agent(script(), [double], checkpointer=Sure())
    run(agent, {"messages": "Twice two?"}, THREAD)
    with pytest.raises(CheckpointError, match="neither a snapshot of it nor a single write"):
        run(agent, {"messages": "Thanks."}, THREAD)
    with pytest.raises(CheckpointError, match="neither a snapshot"):
        agent.get_state(THREAD)


def test_a_forgetful_saver_of_a_graph_around_the_agent_is_noticed(run):
    """The agent is built before anybody knows the saver; what it lost is an error when the agent goes on."""
    agent = create_agent(ScriptedModel(replies=[[tool_call("ask", id="1", question="?")], "Done."]), [ask])
    graph = StateGraph(AgentState)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    outer = graph.compile(checkpointer=Forgetful())
    run(outer, {"messages": "hi"}, THREAD)
    with pytest.raises(CheckpointError, match="neither a snapshot"):
        run(outer, Command(resume="yes"), THREAD)


def streamed(agent: Any, run_mode: str) -> list[Any]:
    return [*agent.stream({"messages": "Twice two?"}, THREAD, stream_mode=run_mode)]


def shape(piece: Any) -> Any:
    """Messages without what differs from run to run."""
    if isinstance(piece, AIMessage | HumanMessage | ToolMessage):
        return (piece.type, piece.text, bool(piece.id))
    if isinstance(piece, dict):
        return {key: shape(value) for key, value in piece.items()}
    return [shape(one) for one in piece] if isinstance(piece, list) else piece


@pytest.mark.parametrize("mode", ["values", "updates"])
def test_streams_are_the_same_for_both_ways_of_storing(mode):
    pieces = {}
    for name in ("changes", "whole"):
        agent = BUILDERS[name](script(), [double], checkpointer=InMemorySaver())
        pieces[name] = [shape(piece) for piece in streamed(agent, mode)]
    assert pieces["changes"] == pieces["whole"]
    assert len(pieces["changes"]) == {"values": 4, "updates": 3}[mode]


FORMS = {
    "text": "hi",
    "list of texts": ["hi"],
    "dict": {"role": "user", "content": "hi"},
    "list of dicts": [{"type": "human", "content": "hi"}],
    "tuple": [("user", "hi")],
    "message": HumanMessage("hi"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_is_stored_as_a_message_with_an_id(run, form):
    agent = create_agent(ScriptedModel(replies=["ho"]), checkpointer=InMemorySaver())
    returned = run(agent, {"messages": FORMS[form]}, THREAD)["messages"]
    assert said(returned) == [("human", "hi"), ("ai", "ho")]
    assert agent.get_state(THREAD).values["messages"] == returned
    assert all(message.id for message in returned)


def test_a_list_of_the_state_can_be_used_up_by_a_hook_without_harm(run):
    @after_model
    def greedy(state, runtime):
        state["messages"].clear()

    agent = create_agent(ScriptedModel(replies=["ho"]), middleware=[greedy], checkpointer=InMemorySaver())
    returned = run(agent, {"messages": "hi"}, THREAD)["messages"]
    assert said(returned) == [("human", "hi"), ("ai", "ho")]
    assert agent.get_state(THREAD).values["messages"] == returned


def test_an_update_that_removes_an_unknown_message_is_refused_and_the_thread_goes_on(run):
    agent = create_agent(ScriptedModel(replies=["one", "two"]), checkpointer=InMemorySaver())
    run(agent, {"messages": "hi"}, THREAD)
    with pytest.raises(ConfigurationError, match="RemoveMessage names 'nobody'"):
        agent.update_state(THREAD, {"messages": [RemoveMessage(id="nobody")]}, as_node="model")
    after = run(agent, {"messages": "again"}, THREAD)["messages"]
    assert said(after) == [("human", "hi"), ("ai", "one"), ("human", "again"), ("ai", "two")]
    assert agent.get_state(THREAD).values["messages"] == after


def test_a_graph_of_ones_own_can_use_the_channel(run):
    class Chat(TypedDict):
        talk: Annotated[list[AnyMessage], MessagesChannel()]

    graph = StateGraph(Chat)
    graph.add_node("echo", lambda state: {"talk": AIMessage(state["talk"][-1].text)})
    graph.add_edge(START, "echo")
    compiled = graph.compile(checkpointer=InMemorySaver())
    for turn in (1, 2):
        assert len(run(compiled, {"talk": "hi"}, THREAD)["talk"]) == 2 * turn
