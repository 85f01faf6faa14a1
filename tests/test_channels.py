"""The messages channel by itself: its rules, that replay gives what the run had, that nothing handed out changes."""

import string
from typing import Annotated, Any, NotRequired, Required

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.errors import EmptyChannelError, InvalidUpdateError
from langgraph.graph import StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from agentgraph.channels import LEAST_UPDATES_A_SNAPSHOT, MessagesChannel, store_whole
from agentgraph.errors import AgentGraphError, CheckpointError, ConfigurationError, ConfigurationTypeError
from agentgraph.state import AgentState, InputAgentState, OutputAgentState, apply_update, merge_schemas

SPEC = MessagesChannel()
REMOVE_ALL = RemoveMessage(id=REMOVE_ALL_MESSAGES)


def human(name: str, text: str = "") -> HumanMessage:
    return HumanMessage(text or name, id=name)


def schema_of(**fields: Any) -> Any:
    return TypedDict("schema", fields)


def holding(*messages: Any) -> MessagesChannel:
    return SPEC.from_checkpoint(_DeltaSnapshot(list(messages)))


def after(messages: list[Any], *steps: list[Any]) -> list[Any]:
    """The messages after steps, each a list of writes."""
    channel = holding(*messages)
    for writes in steps:
        channel.update(writes)
    return channel.get()


def replayed(messages: list[Any], writes: list[Any]) -> list[Any]:
    channel = holding(*messages)
    channel.replay_writes([("task", "messages", write) for write in writes])
    return channel.get()


A, B, C = human("a"), human("b"), human("c")

RULES = {
    "a new message is added": ([A], [[B]], [A, B]),
    "one message needs no list": ([A], [B], [A, B]),
    "a known id is replaced in its place": ([A, B], [[human("a", "new")]], [human("a", "new"), B]),
    "the last of two with one id stays": ([], [[A, human("a", "new")]], [human("a", "new")]),
    "a removed message is gone": ([A, B, C], [[RemoveMessage(id="b")]], [A, C]),
    "what is written in the same list can be removed": ([A], [[B, RemoveMessage(id="b"), C]], [A, C]),
    "removed and written again stands at the end": ([A, B], [[RemoveMessage(id="a"), A]], [B, A]),
    "after a removal the others are found": (
        [A, B, C],
        [[RemoveMessage(id="a"), human("c", "new")]],
        [B, human("c", "new")],
    ),
    "two tasks may remove one message": ([A, B], [[RemoveMessage(id="a")], [RemoveMessage(id="a")]], [B]),
    "all are removed": ([A, B], [[REMOVE_ALL]], []),
    "what follows the removal of all stays": ([A, B], [[C, REMOVE_ALL, B, human("b", "new")]], [human("b", "new")]),
    "nothing to add": ([A], [[]], [A]),
    "several tasks in order": ([], [[A], B, [C]], [A, B, C]),
    "Overwrite takes the place of all": ([A, B], [Overwrite([C])], [C]),
    "Overwrite wins over the others of its step": ([A], [[B], Overwrite([C]), [A]], [C]),
    "Overwrite as JSON": ([A], [{"__overwrite__": [C]}], [C]),
    "Overwrite as a plain dict": ([A], [{"type": "__overwrite__", "value": [C]}], [C]),
    "Overwrite with nothing": ([A], [Overwrite(None)], []),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_of_merging(rule):
    before, writes, expected = RULES[rule]
    assert after(before, writes) == expected


FORMS = {
    "text": "hi",
    "tuple": ("user", "hi"),
    "dict": {"role": "user", "content": "hi"},
    "dict with type": {"type": "human", "content": "hi"},
    "message without an id": HumanMessage("hi"),
}


@pytest.mark.parametrize("wrap", [lambda one: [[one]], lambda one: [one], lambda one: [Overwrite([one])]])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_becomes_a_message_with_an_id(form, wrap):
    given_form = FORMS[form]
    (message,) = after([], wrap(given_form.model_copy() if isinstance(given_form, HumanMessage) else given_form))
    assert message == HumanMessage("hi", id=message.id)
    assert message.id


def test_an_id_is_put_on_the_senders_own_message():
    message = HumanMessage("hi")
    assert after([], [[message]])[0] is message
    assert message.id


def test_chunks_become_whole_messages():
    (message,) = after([], [[AIMessageChunk("hi", id="1")]])
    assert (type(message), message) == (AIMessage, AIMessage("hi", id="1"))


def test_messages_whose_id_is_empty_stay_apart():
    empty = [HumanMessage("one", id=""), HumanMessage("two", id="")]
    assert after([A], [empty], [[B]]) == [A, *empty, B] == replayed([A], [empty, [B]])


@pytest.mark.parametrize("before", [[], [A]])
def test_removing_what_is_not_there_is_refused_and_changes_nothing(before):
    channel = holding(*before)
    with pytest.raises(ConfigurationError, match="names 'x', which is the id of no message"):
        channel.update([[B, RemoveMessage(id="x")]])
    assert channel.get() == before
    channel.update([[C]])
    assert channel.get() == [*before, C]
    assert issubclass(ConfigurationError, ValueError)


def test_only_one_write_of_a_step_may_replace_everything():
    with pytest.raises(InvalidUpdateError, match="2 writes of one step replace the whole of"):
        after([], [Overwrite([A]), Overwrite([B])])


@pytest.mark.parametrize("wrong", [3, None, object(), {"no": "message"}])
def test_what_is_no_message_is_refused(wrong):
    with pytest.raises((ValueError, NotImplementedError)):
        after([A], [[wrong]])


def test_no_writes_are_no_update():
    channel = holding(A)
    assert (channel.update([]), channel.update([[]])) == (False, True)


def test_a_channel_is_empty_until_it_is_begun():
    assert not SPEC.is_available()
    with pytest.raises(EmptyChannelError):
        SPEC.get()
    assert SPEC.from_checkpoint(None).get() == []


# --- live and replayed


NAMES = st.sampled_from(string.ascii_lowercase[:6])
MESSAGES = st.builds(human, NAMES, st.text("xyz", min_size=1, max_size=2))
ITEMS = st.one_of(MESSAGES, MESSAGES, NAMES.map(lambda name: RemoveMessage(id=name)), st.just(REMOVE_ALL))
WRITES = st.lists(st.one_of(st.lists(ITEMS, max_size=4), MESSAGES), max_size=6)


def applied(channel: MessagesChannel, steps: list[Any]) -> list[Any]:
    """The steps that a run would get through: one that removes what is not there ends it."""
    done = []
    for writes in steps:
        try:
            channel.update(writes)
        except AgentGraphError:
            continue
        done += writes
    return done


@given(st.lists(MESSAGES, unique_by=lambda one: one.id), st.lists(WRITES.filter(bool), max_size=5))
def test_replay_gives_what_the_run_had(before, steps):
    live = holding(*before)
    writes = applied(live, steps)
    assert replayed(before, writes) == live.get()


@given(st.lists(MESSAGES, unique_by=lambda one: one.id), WRITES, WRITES)
def test_writes_in_two_batches_give_what_they_give_in_one(before, first, second):
    assert replayed(replayed(before, first), second) == replayed(before, first + second)


@given(st.lists(MESSAGES, unique_by=lambda one: one.id), st.lists(st.lists(MESSAGES, max_size=4), max_size=6))
def test_adding_and_editing_give_what_add_messages_gives(before, writes):
    expected: Any = before
    for write in writes:
        expected = add_messages(expected, write)
    assert after(before, *([write] for write in writes)) == expected


@given(st.lists(MESSAGES, unique_by=lambda one: one.id), st.lists(WRITES.filter(bool), max_size=5))
def test_the_rules_are_those_of_langgraphs_own_reducer(before, steps):
    writes = applied(holding(*before), steps)
    assert replayed(before, writes) == _messages_delta_reducer(before, writes)


@pytest.mark.parametrize("length", range(4))
def test_the_last_overwrite_is_where_replay_begins(length):
    writes = [[A], Overwrite([B]), [C], {"__overwrite__": []}, [A], [B]]
    expected = [[A], [B], [B, C], [], [A], [A, B]]
    assert replayed([C], writes[: length + 1]) == ([C] if length == 0 else []) + expected[length]


# --- nothing handed out changes, copies go their own way


@given(st.lists(WRITES.filter(bool), max_size=6))
def test_a_list_that_was_handed_out_never_changes(steps):
    channel = holding(A, B)
    seen = []
    for writes in steps:
        applied(channel, [writes])
        seen.append((channel.get(), list(channel.get())))
    assert all(handed_out == at_the_time for handed_out, at_the_time in seen)


def test_appending_to_a_list_of_the_state_does_not_change_the_conversation():
    channel = holding(A)
    channel.get().append(B)
    assert channel.get() == [A]


@given(WRITES, WRITES.filter(bool), WRITES.filter(bool), WRITES.filter(bool))
def test_a_copy_and_its_original_go_their_own_ways(before, one, other, later):
    def alone(*steps):
        channel = SPEC.from_checkpoint(None)
        applied(channel, [writes for writes in steps if writes])
        return channel.get()

    original = SPEC.from_checkpoint(None)
    applied(original, [before] if before else [])
    copy = original.copy()
    second = copy.copy()
    applied(original, [one])
    applied(copy, [other, later])
    applied(original, [later])
    applied(second, [one, other])
    assert (original.get(), copy.get(), second.get()) == (
        alone(before, one, later),
        alone(before, other, later),
        alone(before, one, other),
    )


def test_adding_does_not_build_the_places_anew():
    channel = holding(*(human(str(number)) for number in range(50)))
    channel.update([[A]])
    places = channel.places
    channel.update([[B], [human("a", "new")]])
    assert channel.places is places
    assert channel.copy().places is places


# --- what checkpoints hold


def test_an_old_thread_with_whole_lists_is_read_on():
    twice = [A, B, human("a", "new")]
    assert SPEC.from_checkpoint([A, B]).get() == [A, B]
    assert SPEC.from_checkpoint(twice).get() == [human("a", "new"), B]
    assert SPEC.from_checkpoint([{"role": "user", "content": "hi", "id": "1"}]).get() == [HumanMessage("hi", id="1")]


def test_a_conversation_that_the_checkpointer_lost_is_an_error_and_not_an_empty_one():
    lost = SPEC.from_checkpoint(None)
    lost.key = "messages"
    with pytest.raises(CheckpointError, match="neither a snapshot of it nor a single write"):
        lost.replay_writes([])


def test_an_emptied_conversation_is_not_a_lost_one():
    assert replayed([], []) == []


def test_a_checkpoint_holds_none_of_it():
    assert holding(A).checkpoint() is SPEC.checkpoint()


LENGTHS = [(0, 100), (1, 100), (200, 100), (202, 101), (4000, 2000)]


@pytest.mark.parametrize(("length", "updates"), LENGTHS)
def test_snapshots_lie_further_apart_the_longer_the_conversation_is(length, updates):
    channel = holding(*(human(str(number)) for number in range(length)))
    assert channel.snapshot_frequency == updates == channel.copy().snapshot_frequency
    assert channel.from_checkpoint(None).snapshot_frequency == LEAST_UPDATES_A_SNAPSHOT == 100


def test_all_snapshots_together_hold_at_most_twice_the_conversation():
    held, since = 0, 0
    for length in range(1, 1500):
        since += 1
        if since >= holding(*[A] * length).snapshot_frequency:
            held, since = held + length, 0
        assert held <= 2 * length


# --- as an annotation


ANNOTATIONS = {
    "plain": Annotated[list, MessagesChannel(snapshot_frequency=7)],
    "required": Required[Annotated[list[Any], MessagesChannel(snapshot_frequency=7)]],
    "inside": Annotated[NotRequired[list[Any]], MessagesChannel(snapshot_frequency=7)],
}


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_langgraph_makes_the_channel_anew_from_its_annotation(annotation):
    channel = StateGraph(schema_of(talk=ANNOTATIONS[annotation])).channels["talk"]
    assert (type(channel), channel.key, channel.snapshot_frequency) == (MessagesChannel, "talk", 7)
    assert channel.from_checkpoint(None).get() == []


def test_two_channels_are_equal_where_they_store_alike():
    assert MessagesChannel() == MessagesChannel()
    assert MessagesChannel() != MessagesChannel(snapshot_frequency=7)
    assert MessagesChannel() != DeltaChannel(_messages_delta_reducer)
    assert len({MessagesChannel(), MessagesChannel(), MessagesChannel(snapshot_frequency=7)}) == 2


def test_the_three_schemas_of_an_agent_can_stand_in_one_graph():
    graph = StateGraph(AgentState, input_schema=InputAgentState, output_schema=OutputAgentState)
    assert type(graph.channels["messages"]) is MessagesChannel
    assert Annotated[list, MessagesChannel()] | None


@pytest.mark.parametrize("wrong", [add_messages, list, lambda before, writes: before])
def test_another_reducer_is_refused(wrong):
    with pytest.raises(ConfigurationTypeError, match="merges messages by rules of its own"):
        MessagesChannel(wrong)


def test_a_snapshot_distance_below_one_is_refused():
    with pytest.raises(ValueError, match="positive"):
        MessagesChannel(snapshot_frequency=0)


# --- in the state


class Whole(AgentState):
    messages: Required[Annotated[list[Any], add_messages]]


def test_a_schema_with_add_messages_opts_out():
    channels = StateGraph(merge_schemas([AgentState, Whole]).state).channels
    assert channels["messages"].operator is add_messages


def test_where_checkpoints_do_not_stay_each_holds_all_messages():
    class Mine(AgentState):
        notes: NotRequired[Annotated[list[Any], MessagesChannel(snapshot_frequency=7)]]

    channels = StateGraph(merge_schemas([Mine]).state).channels
    others = {name: channel for name, channel in channels.items() if name not in {"messages", "notes"}}
    with pytest.warns(UserWarning, match="object keeps only the newest checkpoint .* the whole of 'messages', 'notes'"):
        store_whole(channels, object())
    for name in ("messages", "notes"):
        channel = channels.pop(name)
        assert (channel.operator, channel.key) == (add_messages, name)
    assert channels == others


def test_a_state_without_such_channels_is_left_alone_and_nobody_is_warned():
    channels = StateGraph(merge_schemas([Whole]).state).channels
    before = dict(channels)
    store_whole(channels, object())
    assert channels == before


def test_hooks_that_share_a_node_see_each_others_messages():
    channels = StateGraph(merge_schemas([AgentState]).state).channels
    call = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}], id="b")
    answer = ToolMessage("done", tool_call_id="1", id="c")
    state = {"messages": [A]}
    updated = apply_update(channels, state, [("messages", [call]), ("messages", [answer, RemoveMessage(id="a")])])
    assert updated == {"messages": [call, answer]}
    assert state == {"messages": [A]}
    assert apply_update(channels, {}, [("messages", [A])]) == {"messages": [A]}
