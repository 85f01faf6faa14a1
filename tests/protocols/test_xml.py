"""The XML protocol: what it writes, and what it reads however the answer is cut."""

import pytest

from agentgraph.protocols import ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.xml import XMLProtocol
from tests.protocols.reading_cases import CLOCK, NOW, OFFER, OSLO, SUM, Read, cuts, read, read_in_pieces

PROTOCOL = XMLProtocol()
CALL = '<tool>weather</tool><tool_input>{"city": "Oslo"}</tool_input>'
MADE_UP = "<observation>3</observation><final_answer>x</final_answer>"
OPEN = "the answer ends in the middle of its input."

READ = {
    "a call": (CALL, Read(calls=(OSLO,))),
    "an answer": ("<final_answer>Hi <b>you</b></final_answer> and more", Read("Hi <b>you</b>")),
    "an answer without its tags": ("It is cold, -3 < 0.", Read("It is cold, -3 < 0.")),
    "an empty answer": ("<final_answer></final_answer>", Read()),
    "nothing": ("", Read()),
    "an answer whose end was cut": ("<final_answer>Hello.</final_ans", Read("Hello.")),
    "three calls, text before, and a made up result": (
        f'I look.\n{CALL}\n<tool>now</tool><tool>add</tool><tool_input>{{"a": 1, "b": 2}}</tool_input>{MADE_UP}',
        Read("I look.", (OSLO, CLOCK, SUM)),
    ),
    "a made up result before anything": ("Well. <observation>3</observation>x", Read("Well.")),
    "calls with prose between": (f"{CALL} and then {CALL}", Read(calls=(OSLO,))),
    "an outer tag": (f"<tool_call>{CALL}</tool_call>", Read(calls=(OSLO,))),
    "a bare text for the only parameter": (
        "<tool>weather</tool>\n<tool_input>\nOslo\n</tool_input>",
        Read(calls=(OSLO,)),
    ),
    "a bare text for two parameters": (
        "<tool>add</tool><tool_input>1, 2</tool_input>",
        Read(broken=(("add", "1, 2", "its input is not a JSON object."),)),
    ),
    "a fence and loose JSON": (
        "<tool>add</tool><tool_input>```json\n{a: 1, 'b': 2,}\n```</tool_input>",
        Read(calls=(SUM,)),
    ),
    "tags inside arguments": (
        '<tool>weather<tool_input>{"city": "</tool_input><tool>"}',
        Read(calls=(("weather", {"city": "</tool_input><tool>"}),)),
    ),
    "no input for a tool without parameters": ("<tool>now</tool>", Read(calls=(CLOCK,))),
    "an empty input": ("<tool>now</tool><tool_input></tool_input>", Read(calls=(CLOCK,))),
    "no input": ("<tool>weather</tool> is it", Read(broken=(("weather", "", "it has no <tool_input>."),))),
    "a text that was cut": ("<tool>weather</tool><tool_input>Os", Read(broken=(("weather", "Os", OPEN),))),
    "an object that was cut": (
        '<tool>weather</tool><tool_input>{"city": "Os',
        Read(broken=(("weather", '{"city": "Os', "its input cannot be read: the text ends inside a string."),)),
    ),
    "no name": ('<tool_input>{"city": 1}</tool_input>', Read(broken=(("", "", "it names no tool."),))),
    "an empty name": ("<tool></tool><tool_input></tool_input>", Read(broken=(("", "", "it names no tool."),))),
    "an unknown tool": ("<tool>wether</tool><tool_input>{}</tool_input>", Read(calls=(("wether", {}),))),
    "thinking": (f"<think>Use <tool>?</think>{CALL}", Read(calls=(OSLO,), reasoning="Use <tool>?")),
}


@pytest.mark.parametrize("case", READ)
def test_an_answer_is_read_however_it_is_cut(case: str) -> None:
    text, expected = READ[case]

    assert read(PROTOCOL, text) == expected
    for pieces in cuts(text):
        assert read_in_pieces(PROTOCOL, pieces) == expected


def test_a_server_that_stopped_at_the_closing_tag_leaves_a_whole_call() -> None:
    alone = ToolOffer(OFFER.tools, parallel=False)

    assert PROTOCOL.settings(alone)["stop"] == ["</tool_input>", "<observation>"]
    assert read(PROTOCOL, "<tool>weather</tool><tool_input>Oslo", alone) == Read(calls=(OSLO,))


def test_the_prompt_says_the_format_and_lists_the_tools() -> None:
    assert PROTOCOL.render(ToolOffer((NOW,), parallel=False)) == (
        "To use a tool, write <tool>NAME</tool><tool_input>{...}</tool_input>, its arguments as a JSON object. "
        "To answer the user: <final_answer>...</final_answer>. Use a tool whenever one fits.\n\nTools:\n- now()"
    )
    assert "Use a tool now." in PROTOCOL.render(ToolOffer((NOW,), required=True))
    assert "several tools at once" in PROTOCOL.render(OFFER)


def test_what_is_written_is_read_back() -> None:
    calls = [WrittenCall("weather", {"city": "</tool_input>\"'{“"}), WrittenCall("add", {"a": 1, "b": 2})]

    written = PROTOCOL.call_text(calls, "I look.")

    assert read(PROTOCOL, written) == Read("I look.", (("weather", {"city": "</tool_input>\"'{“"}), SUM))
    assert read(PROTOCOL, PROTOCOL.answer_text("Cold.")) == Read("Cold.")


def test_a_result_cannot_leave_its_element() -> None:
    results = [ToolResult("now", "</observation>x", failed=False), ToolResult("add", "no", failed=True)]

    assert PROTOCOL.result_text(results) == (
        "<observation>&lt;/observation>x</observation>\n<observation>Error: no</observation>"
    )


def test_the_grammar_allows_what_the_offer_allows() -> None:
    free = PROTOCOL.settings(ToolOffer((NOW,)))["grammar"].splitlines()
    required = PROTOCOL.settings(ToolOffer((NOW,), required=True, parallel=False))["grammar"].splitlines()

    assert free[:4] == [
        r'root ::= r2 ("\n" r2){0,7} | r3',
        'r0 ::= "{" "}"',
        'r1 ::= "<tool>now</tool><tool_input>" r0 "</tool_input>"',
        "r2 ::= r1",
    ]
    assert required[0] == "root ::= r2"
    assert XMLProtocol(constrain=False).settings(OFFER) == {"stop": ["<observation>"]}
