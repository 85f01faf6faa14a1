"""What was looked at and has nothing is not searched again; what may have changed is."""

import copy
import gc
import pickle
from collections import Counter

import pytest
from agentgraph.middleware._pii_rules import ResolvedRule
from agentgraph.middleware._pii_seen import SeenMessages
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage

from agentgraph import create_agent
from agentgraph.middleware import PIIMiddleware
from agentgraph.testing import ScriptedModel, tool_call
from tests.middleware.approving import WAYS

MAIL = "ann@example.com"
CLEAN = "[REDACTED_EMAIL]"


def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing at {place}"


@pytest.fixture
def searched(monkeypatch):
    """How often each text was searched."""
    counts, matches = Counter(), ResolvedRule.matches

    def counting(self, text):
        counts[text] += 1
        return matches(self, text)

    monkeypatch.setattr(ResolvedRule, "matches", counting)
    return counts


def rounds(number):
    return [*(tool_call("look", place=f"place {n}", id=f"c{n}") for n in range(number)), "Done."]


@WAYS
@pytest.mark.parametrize("strategy", ["redact", "mask", "hash"])
def test_a_text_of_the_history_is_searched_once_however_many_rounds_there_are(run, searched, strategy):
    mounted = PIIMiddleware("email", strategy=strategy, apply_to_tool_results=True)
    history = [HumanMessage("An old question."), AIMessage("An old answer."), HumanMessage("Look around.")]
    agent = create_agent(ScriptedModel(*rounds(4)), [look], middleware=[mounted])
    run(agent, {"messages": history})
    texts = ["An old question.", "Look around."]
    assert {text: searched[text] for text in texts} == dict.fromkeys(texts, 1)
    assert searched["An old answer."] == 0


def looks(mounted, message):
    """The conversation of one message as it is stored, None where it stays."""
    return mounted.before_model({"messages": [message]}, None)


def cleaned(mounted, message):
    return looks(mounted, message)["messages"][0]


@pytest.mark.parametrize("strategy", ["redact", "block"])
@pytest.mark.parametrize("make", [HumanMessage, AIMessage, lambda text: ToolMessage(text, tool_call_id="c")])
def test_a_text_that_is_replaced_in_place_is_searched_again(make, strategy):
    mounted = PIIMiddleware("email", strategy=strategy, apply_to_output=True, apply_to_tool_results=True)
    message, later = make("nobody"), HumanMessage("later")
    state = {"messages": [message, later]}
    assert [mounted.before_model(state, None) for _ in range(2)] == [None, None]
    message.content = MAIL
    assert [one.text for one in mounted.before_model(state, None)["messages"]] == [CLEAN]


def test_what_is_added_to_an_answer_in_place_is_found():
    mounted = PIIMiddleware("email", apply_to_output=True)
    message = AIMessage("so")
    assert looks(mounted, message) is None
    message.tool_calls = [tool_call("look", place=MAIL, id="c")]
    assert cleaned(mounted, message).tool_calls[0]["args"] == {"place": CLEAN}
    message.tool_calls = []
    assert looks(mounted, message) is None
    message.additional_kwargs["reasoning_content"] = MAIL
    assert cleaned(mounted, message).additional_kwargs == {"reasoning_content": CLEAN}


def test_blocks_and_arguments_that_are_changed_in_place_are_found():
    mounted = PIIMiddleware("email", apply_to_output=True)
    blocks = HumanMessage([{"type": "text", "text": "nobody"}])
    call = AIMessage("", tool_calls=[tool_call("look", place="nobody", id="c")])
    assert (looks(mounted, blocks), looks(mounted, call)) == (None, None)
    blocks.content[0]["text"] = MAIL
    call.tool_calls[0]["args"]["place"] = MAIL
    assert cleaned(mounted, blocks).content == [{"type": "text", "text": CLEAN}]
    assert cleaned(mounted, call).tool_calls[0]["args"] == {"place": CLEAN}


def test_a_function_of_the_users_is_asked_each_time():
    asked = []
    mounted = PIIMiddleware("word", detector=lambda text: asked.append(text) or [])
    message = HumanMessage("nobody")
    assert [looks(mounted, message) for _ in range(3)] == [None] * 3
    assert asked == ["nobody"] * 3


def test_a_message_that_is_gone_is_forgotten_and_its_successor_not_taken_for_it():
    seen = SeenMessages()
    for number in range(100):
        message = HumanMessage(f"text {number}")
        assert not seen.has(message)
        seen.add(message)
        assert seen.has(message)
        assert not seen.has(message.model_copy())
    del message
    gc.collect()
    assert seen._texts == {}


def test_what_is_more_than_a_text_is_not_remembered():
    seen = SeenMessages()
    several = [
        HumanMessage([{"type": "text", "text": "so"}]),
        AIMessage("", tool_calls=[tool_call("look", place="here", id="c")]),
        AIMessage("so", additional_kwargs={"reasoning_content": "so"}),
        AIMessageChunk("", tool_call_chunks=[{"name": None, "args": "{", "id": None, "index": 0}]),
    ]
    for message in several:
        seen.add(message)
    assert [seen.has(message) for message in several] == [False] * 4


def pickled(one):
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - made here


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_of_the_middleware_works(copied):
    mounted = PIIMiddleware("email")
    message = HumanMessage("nobody")
    assert looks(mounted, message) is None
    again = copied(mounted)
    assert looks(again, message) is None
    assert cleaned(again, HumanMessage(MAIL)).text == CLEAN
