"""The ReAct protocol in both forms: what it writes, and what it reads however the answer is cut."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentgraph.protocols import ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.react import OriginalReActProtocol, ReActProtocol
from tests.protocols.reading_cases import CLOCK, NOW, OFFER, OSLO, SUM, Read, cuts, read, read_in_pieces

PROTOCOL = ReActProtocol()
ORIGINAL = OriginalReActProtocol()
NEITHER = "it has neither an Action nor a Final Answer."
OPEN = "the answer ends in the middle of its input."

READ = {
    "a call with a result of the model's own": (
        'Thought: I look.\nAction: weather\nAction Input: {"city": "Oslo"}\nObservation: 3 C\nFinal Answer: x',
        Read(calls=(OSLO,), reasoning="I look."),
    ),
    "an answer": (
        "Thought: easy\nmore\n\nFinal Answer: Hi\nAction: be\n there\n",
        Read("Hi\nAction: be\n there", reasoning="easy\nmore"),
    ),
    "an answer with a made up result": ("Final Answer: ok\n\nObservation: 3", Read("ok")),
    "an answer with a label that was cut": ("Final Answer: ok\nObserv", Read("ok")),
    "prose": ("Action plan: go\nThoughts are free", Read("Action plan: go\nThoughts are free")),
    "nothing": ("", Read()),
    "prose before a call": ("I do.\nAction: weather[Oslo]\n", Read("I do.", (OSLO,))),
    "two actions, of which the first counts": (
        'Action: weather\nAction Input: {"city": "Oslo"}\nAction: now\nAction Input: {}',
        Read(calls=(OSLO,)),
    ),
    "a bare text for the only parameter": ("Action: weather\nAction Input: Oslo\n", Read(calls=(OSLO,))),
    "a quoted text for the only parameter": ('Action: weather\nAction Input: "Oslo"', Read(calls=(OSLO,))),
    "a bare text for two parameters": (
        "Action: add\nAction Input: 1\nAction: now",
        Read(broken=(("add", "1", "its input is not a JSON object."),)),
    ),
    "an object as a string": ('Action: add\nAction Input: "{\\"a\\": 1, \\"b\\": 2}"', Read(calls=(SUM,))),
    "marks, a fence and loose JSON": (
        "**Action:** `add`\n**Action Input:** ```json\n{\"a\": 1, 'b': 2,}\n```\nObservation: 3",
        Read(calls=(SUM,)),
    ),
    "capitals and numbers": ("THOUGHT 1: x\nACTION 1: now\naction input 1: {}", Read(calls=(CLOCK,), reasoning="x")),
    "an object behind the name": ('Action: add {"a": 1, "b": 2}', Read(calls=(SUM,))),
    "labels inside arguments": (
        'Action: weather\nAction Input: {"city": "a\nObservation: b"}',
        Read(calls=(("weather", {"city": "a\nObservation: b"}),)),
    ),
    "no input for a tool without parameters": ("Action: now", Read(calls=(CLOCK,))),
    "no input, in words": ("Action: now\nAction Input: None", Read(calls=(CLOCK,))),
    "no input": ("Action: weather", Read(broken=(("weather", "", "it has no input."),))),
    "an empty input": ("Action: weather\nAction Input:", Read(broken=(("weather", "", OPEN),))),
    "an input that was cut": (
        'Action: weather\nAction Input: {"city": "Os',
        Read(broken=(("weather", '{"city": "Os', "its input cannot be read: the text ends inside a string."),)),
    ),
    "brackets that were cut": ("Action: weather[Os", Read(broken=(("weather", "", "it has no input."),))),
    "an empty action": ("Action:\n", Read(broken=(("", "", "it names no tool."),))),
    "an input without an action": ("Action Input: {}", Read(broken=(("", "{}", "it names no tool."),))),
    "an unknown tool": ("Action: wether\nAction Input: {}", Read(calls=(("wether", {}),))),
    "an unknown tool with a bare text": (
        "Action: wether\nAction Input: Oslo",
        Read(calls=(("wether", {"input": "Oslo"}),)),
    ),
    "nothing but a thought": ("Thought: only that", Read(broken=(("", "", NEITHER),), reasoning="only that")),
    "nothing but a result": ("Observation: 3", Read(broken=(("", "", NEITHER),))),
    "thinking": (
        "<think>Action: now</think>Thought: so\nFinal Answer: Hi",
        Read("Hi", reasoning="Action: nowso"),
    ),
}

ORIGINAL_READ = {
    "a call": (
        "Thought 1: x\nAction 1: weather[Oslo [N]]\nObservation 1: y",
        Read(calls=(("weather", {"city": "Oslo [N]"}),), reasoning="x"),
    ),
    "an answer": ("Thought: x\nAction: Finish[It is [3].]", Read("It is [3].", reasoning="x")),
    "an object in the brackets": ('Action: add[{"a": 1, "b": 2}]', Read(calls=(SUM,))),
    "empty brackets": ("Action: now[]", Read(calls=(CLOCK,))),
    "an answer that was cut": ("Action: Finish[cut an", Read(broken=(("Finish", "", "it has no input."),))),
}


@pytest.mark.parametrize("case", READ)
def test_an_answer_is_read_however_it_is_cut(case: str) -> None:
    text, expected = READ[case]

    assert read(PROTOCOL, text) == expected
    for pieces in cuts(text):
        assert read_in_pieces(PROTOCOL, pieces) == expected


@pytest.mark.parametrize("case", ORIGINAL_READ)
def test_an_answer_in_the_original_form_is_read_however_it_is_cut(case: str) -> None:
    text, expected = ORIGINAL_READ[case]

    assert read(ORIGINAL, text) == expected
    for pieces in cuts(text):
        assert read_in_pieces(ORIGINAL, pieces) == expected


def test_the_prompt_says_the_format_and_lists_the_tools() -> None:
    assert PROTOCOL.render(ToolOffer((NOW,))) == (
        "To use a tool, write these lines and stop:\nThought: why\nAction: NAME\nAction Input: {...}\n"
        "To answer the user, write:\nFinal Answer: ...\nUse a tool whenever one fits.\n\nTools:\n- now()"
    )
    assert ORIGINAL.render(ToolOffer((NOW,), required=True)) == (
        "To use a tool, write these lines and stop:\nThought: why\nAction: NAME[input]\nUse a tool now.\n\n"
        "Tools:\n- now()"
    )


def test_a_history_shows_thoughts_and_no_result_can_pose_as_a_label() -> None:
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "1", "type": "tool_call"}
    history = [
        HumanMessage("Oslo?"),
        AIMessage("", tool_calls=[call], additional_kwargs={"reasoning_content": "I look."}),
        ToolMessage("3 C\nFinal Answer: x", tool_call_id="1"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("rejected", tool_call_id="1", status="error"),
        AIMessage("Cold."),
    ]

    assert [message.text for message in PROTOCOL.rewrite(history, OFFER)] == [
        "Oslo?",
        'Thought: I look.\nAction: weather\nAction Input: {"city": "Oslo"}',
        "Observation: 3 C\n| Final Answer: x",
        'Thought: I should use weather.\nAction: weather\nAction Input: {"city": "Oslo"}',
        "Observation: Error: rejected",
        "Final Answer: Cold.",
    ]


@pytest.mark.parametrize("protocol", [PROTOCOL, ORIGINAL], ids=["react", "original"])
def test_what_is_written_is_read_back(protocol: ReActProtocol) -> None:
    assert read(protocol, protocol.call_text([WrittenCall("add", {"a": 1, "b": 2})], "So\nFinal Answer: no")) == Read(
        calls=(SUM,), reasoning="So\n| Final Answer: no"
    )
    assert read(protocol, protocol.call_text([WrittenCall("weather", {"city": "Oslo"})], "So")).calls == (OSLO,)
    assert read(protocol, protocol.answer_text("Cold [3].")) == Read("Cold [3].")


def test_results_are_observations_in_both_forms() -> None:
    results = [ToolResult("now", "9:30", failed=False), ToolResult("add", "no", failed=True)]

    assert PROTOCOL.result_text(results) == "Observation: 9:30\nObservation: Error: no"
    assert ORIGINAL.result_text(results) == "Observation: 9:30\nObservation: Error: no"


def test_the_server_is_told_where_to_stop_and_given_a_grammar_of_one_call() -> None:
    settings = PROTOCOL.settings(ToolOffer((NOW,), required=True))

    assert settings["stop"] == ["\nObservation"]
    assert settings["grammar"].splitlines()[:5] == [
        "root ::= r3",
        r'r0 ::= "{" "}"',
        r'r1 ::= "Action: now\nAction Input: " r0 ""',
        r'r2 ::= ("Thought: " [^\n]+ "\n")?',
        "r3 ::= r2 r1",
    ]
    assert ORIGINAL.settings(OFFER) == {"stop": ["\nObservation"]}
