"""Whatever a conversation is made of: no planted value comes out, and what has none is not changed."""

import itertools

from agentgraph.middleware._pii_streams import TextStream
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import create_agent
from agentgraph.middleware import PIIMiddleware, RedactionRule
from agentgraph.testing import ScriptedModel, assert_messages, assert_valid_history, tool_call
from tests.middleware.test_pii_streams import THREAD, Pieces, called, send, summed

PLANTED = {
    "email": "ann.lee@example.com",
    "credit_card": "4111-1111-1111-1111",
    "ip": "192.168.7.31",
    "mac_address": "00:1a:2b:3c:4d:5e",
    "url": "https://example.com/secret",
}
WORDS = st.text(alphabet="abc xyz,.!?\n\u4e2d\u0444", max_size=12)
PLAIN = st.text(alphabet="abc xyz,!?\n\u4e2d\u0444-", max_size=60)


@st.composite
def planted(draw, kind):
    # A space around: what touches a value may make it another one.
    parts = draw(st.lists(st.one_of(WORDS, st.just(f" {PLANTED[kind]} ")), min_size=1, max_size=5))
    return "".join(parts)


def content(kind):
    text = planted(kind)
    return st.one_of(text, st.lists(st.builds(lambda one: {"type": "text", "text": one}, text), min_size=1, max_size=3))


@st.composite
def histories(draw, kind):
    """Turns of a conversation, each with a call that is answered."""
    messages = []
    for number in range(draw(st.integers(0, 3))):
        call = {"name": "send", "id": f"h{number}", "args": {"to": draw(planted(kind))}, "type": "tool_call"}
        messages += [
            HumanMessage(draw(content(kind))),
            AIMessage(draw(content(kind)), tool_calls=[call]),
            ToolMessage(draw(content(kind)), tool_call_id=f"h{number}"),
            AIMessage(f"Yes. {draw(planted(kind))}"),
        ]
    return [*messages, HumanMessage(draw(content(kind)))]


@st.composite
def conversations(draw):
    kind = draw(st.sampled_from(sorted(PLANTED)))
    reply = AIMessage(f"So: {draw(planted(kind))}", tool_calls=called(to=draw(planted(kind))))
    last = AIMessage(f"Done. {draw(planted(kind))}")
    return kind, draw(histories(kind)), [reply, last], draw(st.integers(1, 9))


@settings(max_examples=40, deadline=None)
@given(conversations())
def test_no_planted_value_comes_out(conversation):
    kind, history, replies, size = conversation
    requests = []

    class Listening(Pieces):
        def _generate(self, messages, **kwargs):
            requests.append(messages)
            return super()._generate(messages, **kwargs)

    middleware = PIIMiddleware(kind, apply_to_output=True, apply_to_tool_results=True)
    model = Listening(replies=list(replies), size=size)
    agent = create_agent(model, [send], middleware=[middleware], checkpointer=InMemorySaver())
    modes = ["messages", "updates", "tools"]
    parts = list(agent.stream({"messages": history}, THREAD, stream_mode=modes))
    state = agent.get_state(THREAD)
    assert PLANTED[kind] not in str(parts) + str(state) + str(requests)
    assert_valid_history(state.values["messages"])
    tokens = summed(part for mode, part in parts if mode == "messages")
    stored = [one for one in state.values["messages"] if isinstance(one, AIMessage)][-2:]
    assert [(one.content, one.tool_calls) for one in tokens] == [(one.content, one.tool_calls) for one in stored]


@settings(max_examples=30, deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=4), PLAIN)
def test_a_conversation_without_values_is_not_changed(texts, reply):
    history = [HumanMessage(text, id=str(number)) for number, text in enumerate(texts)]
    model = ScriptedModel(tool_call("send", to=reply), f"Yes. {reply}")
    bare = create_agent(ScriptedModel(tool_call("send", to=reply), f"Yes. {reply}"), [send])
    kinds = [PIIMiddleware(kind, apply_to_output=True) for kind in PLANTED]
    result = create_agent(model, [send], middleware=kinds).invoke({"messages": history})
    assert_messages(result["messages"], bare.invoke({"messages": history})["messages"])


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab1.@-_ :/4\u200b\uff20\u4e2d", max_size=40), st.sampled_from(sorted(PLANTED)), st.data())
def test_a_text_in_pieces_is_cleaned_as_the_whole(text, kind, data):
    whole = RedactionRule(kind).resolve().text(text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    places = [0, *cuts, len(text)]
    stream = TextStream(RedactionRule(kind).resolve())
    shown = [stream.feed(text[start:end]) for start, end in itertools.pairwise(places)]
    assert "".join([*shown, stream.end()]) == whole
