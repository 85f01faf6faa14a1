"""State schemas: merging, marks, and updates by the rules of the channels."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NotRequired, Required, get_type_hints

import pytest
from langchain.agents.middleware import AgentState as LangChainState
from langchain.agents.middleware.types import OmitFromInput as LangChainOmitFromInput
from langchain.agents.middleware.types import PrivateStateAttr as LangChainPrivate
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel
from typing_extensions import TypedDict

from agentgraph import AgentMiddleware, AgentState, create_agent
from agentgraph.channels import MessagesChannel
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import OmitFromInput, OmitFromOutput, OmitFromSchema, PrivateStateAttr
from agentgraph.state import apply_update, merge_schemas, replaced_messages, shown_fields, unknown_field, visible_state
from agentgraph.testing import ScriptedModel

Messages = Annotated[list, add_messages]
BASE = {"messages", "jump_to", "structured_response"}


def schema_of(**fields):
    """A state schema with these fields and nothing else."""
    return TypedDict("schema", fields)


def fields_of(schemas):
    """The fields of state, input and output beyond those that every agent has."""
    merged = merge_schemas(schemas)
    return tuple(
        sorted(set(get_type_hints(one)) - BASE - {"tool_exits", "ask_again", "run_progress"})
        for one in (merged.state, merged.input, merged.output)
    )


def channels_of(*schemas):
    return StateGraph(merge_schemas(schemas).state).channels


def test_the_bare_state_takes_messages_and_gives_messages_and_the_structured_response():
    merged = merge_schemas([AgentState])
    assert set(get_type_hints(merged.state)) == BASE | {"tool_exits", "ask_again", "run_progress"}
    assert set(get_type_hints(merged.input)) == {"messages"}
    assert set(get_type_hints(merged.output)) == {"messages", "structured_response"}


MARKED = {
    "PrivateStateAttr": (PrivateStateAttr, False, False),
    "OmitFromInput": (OmitFromInput, False, True),
    "OmitFromOutput": (OmitFromOutput, True, False),
    "OmitFromSchema()": (OmitFromSchema(), False, False),
    "OmitFromSchema(False, False)": (OmitFromSchema(input=False, output=False), True, True),
    "LangChain's OmitFromInput": (LangChainOmitFromInput, False, True),
    "LangChain's PrivateStateAttr": (LangChainPrivate, False, False),
}
SHAPES = {
    "Annotated": lambda mark: Annotated[int, mark],
    "NotRequired[Annotated]": lambda mark: NotRequired[Annotated[int, mark]],
    "Required[Annotated]": lambda mark: Required[Annotated[int, mark]],
    "Annotated[NotRequired]": lambda mark: Annotated[NotRequired[int], mark],
    "Annotated[NotRequired[Annotated]]": lambda mark: Annotated[NotRequired[Annotated[int, mark]], "other"],
    "Annotated[Annotated]": lambda mark: Annotated[Annotated[int, "other"], mark],
    "with a channel": lambda mark: NotRequired[Annotated[int, UntrackedValue, mark]],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mark", MARKED)
def test_a_mark_counts_wherever_it_stands(mark, shape):
    given, in_input, in_output = MARKED[mark]
    schema = schema_of(messages=Messages, x=SHAPES[shape](given))
    assert fields_of([schema]) == (["x"], ["x"] * in_input, ["x"] * in_output)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[list, operator.add, PrivateStateAttr],
        Annotated[list, PrivateStateAttr, operator.add],
        NotRequired[Annotated[list, operator.add, OmitFromInput]],
        Annotated[NotRequired[Annotated[list, operator.add]], OmitFromOutput],
        Annotated[NotRequired[list], operator.add],
    ],
)
def test_a_mark_does_not_hide_a_reducer(annotation):
    schema = schema_of(messages=Messages, log=annotation)
    assert isinstance(channels_of(schema)["log"], BinaryOperatorAggregate)


class WithLog(AgentState):
    log: NotRequired[Annotated[list, operator.add]]


class PlainLog(AgentState):
    log: NotRequired[list]


@pytest.mark.parametrize(
    ("schemas", "channel"),
    [
        ([WithLog, PlainLog], LastValue),
        ([PlainLog, WithLog], BinaryOperatorAggregate),
        ([WithLog, PlainLog, WithLog], BinaryOperatorAggregate),
        ([WithLog, AgentState], BinaryOperatorAggregate),
    ],
)
def test_a_later_schema_wins_a_field(schemas, channel):
    assert type(channels_of(*schemas)["log"]) is channel


def test_the_agents_own_messages_win_over_those_of_middleware():
    def keep_last(before, after):
        return after

    odd = schema_of(messages=Annotated[list, keep_last])
    assert isinstance(channels_of(AgentState, odd, AgentState)["messages"], MessagesChannel)
    assert channels_of(AgentState, odd)["messages"].operator is keep_last


def test_a_schema_with_nothing_but_messages_still_gives_what_the_agent_needs():
    bare = schema_of(messages=Messages)
    assert isinstance(channels_of(bare)["jump_to"], EphemeralValue)
    assert "structured_response" in channels_of(bare)


def test_schemas_of_langchain_and_of_other_kinds_are_taken():
    class Model(BaseModel):
        messages: Annotated[list, add_messages]
        count: int = 0
        shared: ClassVar[int] = 1

    @dataclass
    class Data:
        messages: Annotated[list, add_messages]
        count: int = 0

    assert fields_of([LangChainState]) == ([], [], [])
    assert fields_of([AgentState[int]]) == ([], [], [])
    assert fields_of([Model]) == fields_of([Data]) == (["count"], ["count"], ["count"])


@pytest.mark.parametrize("schema", [dict, {"messages": list}, "AgentState", list[int], object(), type("Empty", (), {})])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(ConfigurationTypeError, match="must be a class with annotated fields"):
        merge_schemas([schema])


def test_a_schema_without_messages_or_with_messages_that_replace_each_other_is_refused():
    with pytest.raises(ConfigurationError, match=r"the fields \['count'\], but no `messages`"):
        merge_schemas([schema_of(count=int)])
    with pytest.raises(ConfigurationError, match="`messages` has no reducer"):
        merge_schemas([schema_of(messages=list)])
    with pytest.raises(ConfigurationError, match="`messages` has no reducer"):
        merge_schemas([schema_of(messages=Annotated[list, OmitFromOutput])])


def test_a_schema_that_names_an_unknown_type_is_refused():
    class Lost(AgentState):
        x: "NotRequired[Nowhere]"  # noqa: F821 - the point of the test

    with pytest.raises(ConfigurationError, match=r"'Lost' names a type that cannot be found.*Nowhere"):
        merge_schemas([Lost])


def test_hidden_fields_are_not_seen_and_channels_of_edges_not_shown():
    state = {"messages": [], "jump_to": "end", "ask_again": None, "tool_exits": [], "x": 1}
    assert visible_state(state) == {"messages": [], "x": 1}
    channels = {name: EphemeralValue(int) for name in (*state, "branch:to:model", "__start__")}
    assert shown_fields({**channels, "remaining_steps": RemainingSteps}) == ["messages", "x"]


def test_an_update_follows_the_rules_of_the_channels_and_leaves_the_state_alone():
    channels = channels_of(WithLog)
    before = {"messages": [HumanMessage("a", id="1")], "log": [1]}
    after = apply_update(
        channels,
        before,
        [("log", [2]), ("log", [3]), ("messages", [AIMessage("b", id="2")]), ("structured_response", 5)],
    )
    assert before == {"messages": [HumanMessage("a", id="1")], "log": [1]}
    assert after == {
        "messages": [HumanMessage("a", id="1"), AIMessage("b", id="2")],
        "log": [1, 2, 3],
        "structured_response": 5,
    }
    assert apply_update(channels, {"messages": []}, [("log", [2])]) == {"messages": [], "log": [2]}


def test_replaced_messages_make_the_whole_conversation():
    channels = channels_of(AgentState)
    update = replaced_messages([HumanMessage("new", id="n")])
    assert update[0].id == REMOVE_ALL_MESSAGES
    after = apply_update(channels, {"messages": [HumanMessage("old", id="o")]}, [("messages", update)])
    assert after == {"messages": [HumanMessage("new", id="n")]}


def test_an_unknown_field_is_explained_without_the_runtimes_own_fields():
    known = ["messages", "jump_to", "basket", "tool_exits"]
    assert unknown_field("The hook A", "baskte", known) == (
        "The hook A writes 'baskte', which is no field of the state (did you mean 'basket'?); it has basket, messages. "
        "Declare the field in a `state_schema`."
    )
    assert "did you mean" not in unknown_field("The hook A", 3, known)


class Secrets(AgentState):
    given: NotRequired[Annotated[str, OmitFromOutput]]
    made: NotRequired[Annotated[str, OmitFromInput]]
    secret: NotRequired[Annotated[str, PrivateStateAttr]]
    run_only: NotRequired[Annotated[int, UntrackedValue, PrivateStateAttr]]


class Keep(AgentMiddleware):
    state_schema = Secrets

    def __init__(self):
        self.seen: list[Any] = []

    def before_model(self, state, runtime):
        self.seen.append({key: value for key, value in state.items() if key != "messages"})
        return {"made": "made", "secret": "kept", "run_only": 1}


@pytest.mark.parametrize("way", ["sync", "async"])
def test_marked_fields_are_neither_taken_nor_returned_but_kept(way):
    keep = Keep()
    agent = create_agent(ScriptedModel("Hello."), middleware=[keep], checkpointer=InMemorySaver())
    given = {"messages": "hi", "given": "g", "made": "forged", "secret": "forged"}
    thread = {"configurable": {"thread_id": "t"}}
    result = agent.invoke(given, thread) if way == "sync" else asyncio.run(agent.ainvoke(given, thread))
    assert {key: value for key, value in result.items() if key != "messages"} == {"made": "made"}
    assert keep.seen == [{"given": "g"}]
    kept = agent.get_state(thread).values
    assert {key: value for key, value in kept.items() if key != "messages"} == {
        "given": "g",
        "made": "made",
        "secret": "kept",
    }
