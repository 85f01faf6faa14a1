"""Context editing: what the model is sent, and what stays in the state."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from agentgraph.testing import ScriptedModel, ai, answer, assert_valid_history, tool_call
from tests.middleware.approving import WAYS
from tests.middleware.test_summarization_sizes import histories

MARK = {"context_editing": {"cleared": True, "strategy": "clear_tool_uses"}}
PATHS = "abcdef"


def read(path: str) -> str:
    """Read a file."""
    return path * 100


def letters(messages):
    """A count in which a result of `read` is 100, a cleared one 9."""
    return sum(len(message.text) for message in messages)


def reading(count, **fields):
    """A conversation with so many calls of `read` and their results."""
    calls = [tool_call("read", path=path) for path in PATHS[:count]]
    pairs = [(ai(call, **fields), answer(call, call["args"]["path"] * 100)) for call in calls]
    return [HumanMessage("go"), *(message for pair in pairs for message in pair)]


def edited(messages, **options):
    given = list(messages)
    ClearToolUsesEdit(**options).apply(given, count_tokens=letters)
    assert_valid_history(given)
    return given


def shown(messages):
    """Which results are still there, by the letter of their file."""
    return "".join(m.text[0] if m.text != "[cleared]" else "-" for m in messages if m.type == "tool")


@WAYS
def test_old_results_are_cleared_in_the_request_and_kept_in_the_state(run):
    model = ScriptedModel(*(tool_call("read", path=path) for path in "abc"), "Read.")
    edit = ClearToolUsesEdit(trigger=250, keep=1)
    middleware = ContextEditingMiddleware(edits=[edit], token_counter=letters)
    result = run(create_agent(model, [read], middleware=[middleware]), {"messages": "Read."})
    assert [shown(request.messages) for request in model.requests] == ["", "a", "ab", "--c"]
    assert shown(result["messages"]) == "abc"
    assert [m.response_metadata for m in result["messages"] if m.type == "tool"] == [{}, {}, {}]


@WAYS
@pytest.mark.parametrize("method", ["approximate", "model"])
def test_tokens_are_counted_by_estimate_or_by_the_model(run, method):
    asked = []

    class Counting(ScriptedModel):
        def get_num_tokens_from_messages(self, messages, tools=None):
            asked.append(([m.type for m in messages], [tool.name for tool in tools]))
            return 1000

    model = Counting(tool_call("read", path="a"), "Read.")
    middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=999, keep=0)], token_count_method=method)
    agent = create_agent(model, [read], middleware=[middleware], system_prompt="Be kind.")
    run(agent, {"messages": "Read."})
    assert shown(model.requests[1].messages) == ("-" if method == "model" else "a")
    by_model = [(["system", "human"], ["read"]), (["system", "human", "ai", "tool"], ["read"])]
    assert asked == (by_model if method == "model" else [])


@WAYS
def test_an_edit_of_the_users_own_cannot_change_the_state(run):
    class Shout:
        def apply(self, messages, *, count_tokens):
            for message in messages:
                message.content = message.content.upper()

    model = ScriptedModel("Hello.")
    agent = create_agent(model, middleware=[ContextEditingMiddleware(edits=[Shout()])])
    result = run(agent, {"messages": "hi"})
    assert [message.text for message in model.requests[0].messages] == ["HI"]
    assert [message.text for message in result["messages"]] == ["hi", "Hello."]


@WAYS
def test_a_request_without_messages_stays_as_it_is(run):
    model = ScriptedModel("Hello.", strict=False)
    edit = ClearToolUsesEdit(trigger=0, keep=0)
    agent = create_agent(model, middleware=[ContextEditingMiddleware(edits=[edit])], system_prompt="Say hello.")
    assert [message.text for message in run(agent, {"messages": []})["messages"]] == ["Hello."]


def test_each_edit_sees_what_the_ones_before_it_left():
    edits = [ClearToolUsesEdit(trigger=299, keep=2), ClearToolUsesEdit(trigger=299, keep=0)]
    model = ScriptedModel("Read.")
    agent = create_agent(model, [read], middleware=[ContextEditingMiddleware(edits=edits, token_counter=letters)])
    agent.invoke({"messages": reading(3)})
    assert shown(model.requests[0].messages) == "-bc"


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"trigger": 602}, "abcdef"),
        ({"trigger": 601}, "---def"),
        ({"trigger": 0, "keep": 0}, "------"),
        ({"trigger": 0, "keep": 6}, "abcdef"),
        ({"trigger": 0, "keep": 99}, "abcdef"),
        ({"trigger": 0, "clear_at_least": 1}, "-bcdef"),
        ({"trigger": 0, "clear_at_least": 91}, "-bcdef"),
        ({"trigger": 0, "clear_at_least": 92}, "--cdef"),
        ({"trigger": 0, "clear_at_least": 273}, "---def"),
        ({"trigger": 0, "clear_at_least": 9999}, "---def"),
        ({"trigger": 0, "exclude_tools": ["read"]}, "abcdef"),
        ({"trigger": 0, "exclude_tools": ["write"]}, "---def"),
    ],
    ids=str,
)
def test_the_oldest_results_are_cleared_as_far_as_it_was_asked(options, left):
    assert shown(edited(reading(6), **options)) == left


def test_a_cleared_result_keeps_its_call_and_says_what_was_done():
    call = tool_call("read", path="a")
    before = answer(call, "long", artifact=b"raw", response_metadata={"by": "disk"}, id="r")
    messages = [ai(call), before]
    after = edited(messages, trigger=0, keep=0, placeholder="(gone)")
    assert after[1] == answer(call, "(gone)", response_metadata={"by": "disk", **MARK}, id="r")
    assert after[0] is messages[0]
    assert before.content == "long"


def test_a_result_is_cleared_once():
    once = edited(reading(2), trigger=0, keep=0)
    assert all(a is b for a, b in zip(once, edited(once, trigger=0, keep=0), strict=True))


def test_the_arguments_are_cleared_in_every_place_that_repeats_them():
    calls = [tool_call("read", path=path) for path in "ab"]
    blocks = [{"type": "tool_use", "id": call["id"], "name": "read", "input": call["args"]} for call in calls]
    written = {"type": "function_call", "call_id": calls[0]["id"], "id": "x", "arguments": '{"path": "a"}'}
    message = AIMessage(["so", *blocks, written], tool_calls=calls, additional_kwargs={"tool_calls": [{"raw": 1}]})
    after = edited([message, *(answer(call, "long") for call in calls)], trigger=0, keep=1, clear_tool_inputs=True)[0]
    assert [call["args"] for call in after.tool_calls] == [{}, {"path": "b"}]
    assert after.content == ["so", blocks[0] | {"input": {}}, blocks[1], written | {"arguments": "{}"}]
    assert after.additional_kwargs == {}
    assert after.response_metadata == {"context_editing": {"cleared_tool_inputs": [calls[0]["id"]]}}
    assert message.tool_calls == calls


def test_an_id_that_is_used_again_belongs_to_the_later_call():
    first, second = tool_call("read", path="a", id="1"), tool_call("look", path="b", id="1")
    messages = [
        ai(first),
        answer(first, "a" * 9),
        ai(second),
        answer(second, "b" * 9).model_copy(update={"name": None}),
    ]
    after = edited(messages, trigger=0, keep=0, exclude_tools=["look"], clear_tool_inputs=True)
    assert [after[0].tool_calls[0]["args"], after[2].tool_calls[0]["args"]] == [{}, {"path": "b"}]
    assert shown(after) == "-b"


@given(
    count=st.integers(0, 6),
    keep=st.integers(0, 7),
    trigger=st.integers(0, 700),
    least=st.integers(0, 700),
    inputs=st.booleans(),
)
def test_whatever_is_cleared_the_history_stays_valid_and_the_newest_stay(count, keep, trigger, least, inputs):
    before = reading(count)
    after = edited(before, trigger=trigger, keep=keep, clear_at_least=least, clear_tool_inputs=inputs)
    cleared = shown(after).count("-")
    may = max(count - keep, 0) if letters(before) > trigger else 0
    need = min(may, max(-(-least // 91), 1)) if least else may
    assert shown(after) == "-" * need + PATHS[need:count]
    assert [m.id for m in after] == [m.id for m in before]
    assert cleared == need


def sent(history, *middleware):
    """What the model is sent of a history, and what the state is afterwards."""
    model = ScriptedModel("Fine.", strict=False)
    result = create_agent(model, middleware=list(middleware)).invoke({"messages": history})
    return model.requests[0].messages, result["messages"][:-1]


@settings(deadline=None)  # two agents are built for each history
@given(
    history=histories(),
    trigger=st.integers(0, 40),
    keep=st.integers(0, 3),
    least=st.integers(0, 40),
    inputs=st.booleans(),
    exclude=st.sampled_from([(), ("look",)]),
)
def test_any_history_comes_out_valid_and_only_old_results_are_cleared(history, trigger, keep, least, inputs, exclude):
    edit = ClearToolUsesEdit(trigger, least, keep, inputs, exclude, placeholder="-")
    # Two of the same: what is cleared already is left alone.
    middleware = ContextEditingMiddleware(edits=[edit, edit], token_counter=letters)
    (plain, stored), (after, kept) = sent(history), sent(history, middleware)
    assert_valid_history(after)
    # Ids that were missing or doubled are drawn anew in each run, so contents are compared.
    assert [(m.type, m.content) for m in kept] == [(m.type, m.content) for m in stored]
    assert [m.type for m in after] == [m.type for m in plain]
    results = [place for place, message in enumerate(plain) if message.type == "tool"]
    may = set(results[: len(results) - keep]) if letters(plain) > trigger and not exclude else set()
    cleared = {place for place in results if after[place].response_metadata.get("context_editing")}
    assert cleared <= may
    assert {after[place].text for place in cleared} <= {"-"}
    edited_too = cleared | {place for place, message in enumerate(plain) if inputs and message.type == "ai"}
    others = sorted(set(range(len(plain))) - edited_too)
    assert [after[place].content for place in others] == [plain[place].content for place in others]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: ClearToolUsesEdit(trigger=-1), "trigger is -1; expected was a whole number"),
        (lambda: ClearToolUsesEdit(keep=1.5), "keep is 1.5; expected"),
        (lambda: ClearToolUsesEdit(clear_at_least=True), "clear_at_least is True; expected"),
        (lambda: ClearToolUsesEdit(exclude_tools="read"), "exclude_tools is the text 'read'"),
        (lambda: ClearToolUsesEdit(placeholder=""), "placeholder is ''; expected"),
        (lambda: ContextEditingMiddleware(edits=[ClearToolUsesEdit]), "edits has <class"),
        (lambda: ContextEditingMiddleware(edits=["clear"]), "edits has 'clear'; expected"),
        (lambda: ContextEditingMiddleware(token_count_method="exact"), "token_count_method is 'exact'"),
        (lambda: ContextEditingMiddleware(token_counter=3), "token_counter is 3; expected"),
    ],
)
def test_what_cannot_work_is_refused(wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        wrong()
