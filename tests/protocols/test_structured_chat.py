"""The structured chat protocol: what it writes, and what it reads however the answer is cut."""

import pytest

from agentgraph.protocols import ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.structured_chat import StructuredChatProtocol
from tests.protocols.reading_cases import CLOCK, NOW, OFFER, OSLO, SUM, Read, cuts, read, read_in_pieces

PROTOCOL = StructuredChatProtocol()
CALL = '```json\n{"action": "weather", "action_input": {"city": "Oslo"}}\n```'

READ = {
    "a call": (CALL, Read(calls=(OSLO,))),
    "an answer": (
        '```\n{"action": "Final Answer", "action_input": "Hi \\n you \\u00e9"}\n```',
        Read("Hi \n you é"),
    ),
    "an answer that is an object": ('{"action": "final_answer", "action_input": {"a": 1}}', Read('{"a": 1}')),
    "an answer whose input comes first": ('{"action_input": "Hi", "action": "Final Answer"}', Read("Hi")),
    "an answer that was cut": ('{"action": "Final Answer", "action_input": "Hi, yo', Read("Hi, yo")),
    "prose": ("It is cold. Action: none", Read("It is cold. Action: none")),
    "prose with code": ("So:\n```py\nx={}\n```", Read("So:\n```py\nx={}\n```")),
    "nothing": ("", Read()),
    "a label, text before, and a made up result": (
        f"I look.\nAction:\n{CALL}\nObservation: 3 C",
        Read("I look.", (OSLO,)),
    ),
    "a label and a fence that were cut": ("I look.\nAction:\n```js", Read("I look.")),
    "a made up result before anything": ("Well.\nObservation: 3\nx", Read("Well.")),
    "two blobs, of which the first counts": (f"{CALL}\n{CALL}", Read(calls=(OSLO,))),
    "loose JSON without a fence": ("{'action': 'add', 'action_input': {a: 1, 'b': 2,},}", Read(calls=(SUM,))),
    "a list": ('[{"tool": "now", "args": {}}]', Read(calls=(CLOCK,))),
    "a bare text for the only parameter": ('{"action": "weather", "action_input": "Oslo"}', Read(calls=(OSLO,))),
    "a fence inside arguments": (
        '```json\n{"action": "weather", "action_input": {"city": "```{}"}}\n```',
        Read(calls=(("weather", {"city": "```{}"}),)),
    ),
    "no input": ('{"action": "now"}', Read(calls=(CLOCK,))),
    "an empty action": (
        '{"action": "", "action_input": {}}',
        Read(broken=(("", "{}", "it names no tool."),)),
    ),
    "no name": ('{"action": null}', Read(broken=(("", '{"tool": null}', "it names no tool."),))),
    "an unknown tool": ('{"action": "wether", "action_input": {}}', Read(calls=(("wether", {}),))),
    "a call that was cut": (
        "```json\n{'action': 'weather', 'action_input': {'city': 'Os",
        Read(broken=(("weather", '{"city": "Os', "the text ends inside a string."),)),
    ),
    "a blob that is no JSON": (
        "Thus {'action': oops}",
        Read("Thus", broken=(("", "{'action': oops", "expected a value and found 'oops'."),)),
    ),
    "thinking": (f"<think>{CALL}</think>Hello.", Read("Hello.", reasoning=CALL)),
}


@pytest.mark.parametrize("case", READ)
def test_an_answer_is_read_however_it_is_cut(case: str) -> None:
    text, expected = READ[case]

    assert read(PROTOCOL, text) == expected
    for pieces in cuts(text):
        assert read_in_pieces(PROTOCOL, pieces) == expected


def test_the_prompt_says_the_format_and_lists_the_tools() -> None:
    assert PROTOCOL.render(ToolOffer((NOW,))) == (
        "Write one JSON object in a fence and nothing else. To use a tool:\n"
        '```json\n{"action": "NAME", "action_input": {...}}\n```\nTo answer the user:\n'
        '```json\n{"action": "Final Answer", "action_input": "..."}\n```\nUse a tool whenever one fits.\n\n'
        "Tools:\n- now()"
    )
    assert "Use a tool now." in PROTOCOL.render(ToolOffer((NOW,), required=True))


def test_what_is_written_is_read_back() -> None:
    city = {"city": "```\n\"'{“"}

    assert read(PROTOCOL, PROTOCOL.call_text([WrittenCall("weather", city)], "I look.")) == Read(
        "I look.", (("weather", city),)
    )
    assert read(PROTOCOL, PROTOCOL.answer_text('Cold "[3]".')) == Read('Cold "[3]".')


def test_a_result_is_a_line_of_its_own() -> None:
    results = [ToolResult("now", "9\n```", failed=False), ToolResult("add", "no", failed=True)]

    assert PROTOCOL.result_text(results) == (
        'Observation: {"result_of": "now", "text": "9\\n```"}\nObservation: {"error_of": "add", "text": "no"}'
    )


def test_the_server_is_told_where_to_stop_and_given_a_grammar_of_one_blob() -> None:
    settings = PROTOCOL.settings(ToolOffer((NOW,)))

    assert settings["stop"] == ["\nObservation:"]
    assert settings["grammar"].splitlines()[:5] == [
        "root ::= r2 | r3",
        'r0 ::= "{" "}"',
        r'r1 ::= "```json\n{\"action\": \"now\", \"action_input\": " r0 "}\n```"',
        "r2 ::= r1",
        r'r3 ::= "```json\n{\"action\": \"Final Answer\", \"action_input\": " string "}\n```"',
    ]
    assert StructuredChatProtocol(constrain=False).settings(OFFER) == {"stop": ["\nObservation:"]}
