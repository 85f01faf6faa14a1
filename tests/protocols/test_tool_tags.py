"""The tool tags protocol: what it writes, and what it reads however the answer is cut."""

import pytest

from agentgraph.protocols import ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.tool_tags import ToolTagsProtocol
from tests.protocols.reading_cases import ADD, CLOCK, NOW, OFFER, OSLO, SUM, Read, cuts, read, read_in_pieces

PROTOCOL = ToolTagsProtocol()
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'

READ = {
    "a call": (CALL, Read(calls=(OSLO,))),
    "an answer": ("It is cold.", Read("It is cold.")),
    "nothing": ("", Read()),
    "two calls with text before and made up text behind": (
        f'I look.\n{CALL}\n<tool_call>{{"name": "add", "arguments": {{"a": 1, "b": 2}}}}</tool_call> So: {CALL}',
        Read("I look.", (OSLO, SUM)),
    ),
    "a result of the model's own": (f'{CALL}<tool_response>{{"x": 1}}</tool_response>Sunny.', Read(calls=(OSLO,))),
    "a result before anything": ('<tool_response>{"x": 1}</tool_response>Sunny.', Read()),
    "no tags": ('{"name": "weather", "arguments": {"city": "Oslo"}}', Read(calls=(OSLO,))),
    "a fence in place of tags": (
        '```json\n{"name": "weather", "arguments": {"city": "Oslo"}}\n```',
        Read(calls=(OSLO,)),
    ),
    "a fence inside tags": (
        '<tool_call>```json\n{"name": "weather", "arguments": {"city": "Oslo"}}\n```</tool_call>',
        Read(calls=(OSLO,)),
    ),
    "single quotes and commas at the end": (
        "<tool_call>{'name': 'add', 'arguments': {'a': 1, 'b': 2,},}</tool_call>",
        Read(calls=(SUM,)),
    ),
    "typographic quotes": (
        '<tool_call>{“name”: “weather”, “arguments”: {“city”: “O"s\\“lo”}}</tool_call>',
        Read(calls=(("weather", {"city": 'O"s“lo'}),)),
    ),
    "Python literals and keys without quotes": (
        "<tool_call>{name: 'now', arguments: {x: None, y: True, z: [False, 'a\nb\t']}}</tool_call>",
        Read(calls=(("now", {"x": None, "y": True, "z": [False, "a\nb\t"]}),)),
    ),
    "arguments as a string": (
        '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}</tool_call>',
        Read(calls=(SUM,)),
    ),
    "a bare text for the only parameter": (
        '<tool_call>{"name": "weather", "arguments": "Oslo"}</tool_call>',
        Read(calls=(OSLO,)),
    ),
    "a bare text for two parameters": (
        '<tool_call>{"name": "add", "arguments": "1, 2"}</tool_call>',
        Read(broken=(("add", "1, 2", "its input is not a JSON object."),)),
    ),
    "other names of the keys": ('<tool_call>{"args": {"a": 1, "b": 2}, "tool": "add"}</tool_call>', Read(calls=(SUM,))),
    "a list, with tags and braces inside arguments": (
        '<tool_call>[{"name": "now"}, {"name": "weather", "arguments": {"city": "</tool_call>{"}}]</tool_call>',
        Read(calls=(("weather", {"city": "</tool_call>{"}),)),
    ),
    "a list without tags": (
        '[{"name": "now", "arguments": {}}, {"name": "weather", "arguments": {"city": "Oslo"}}]',
        Read(calls=(CLOCK, OSLO)),
    ),
    "no arguments": ('<tool_call>{"name": "now"}</tool_call>', Read(calls=(CLOCK,))),
    "one brace too many": ('<tool_call>{"name": "now", "arguments": {}}}</tool_call>', Read(calls=(CLOCK,))),
    "an unknown tool": ('<tool_call>{"name": "wether", "arguments": {}}</tool_call>', Read(calls=(("wether", {}),))),
    "an empty call": ("<tool_call></tool_call>", Read(broken=(("", "", "it is empty."),))),
    "an empty name": ('<tool_call>{"name": ""}</tool_call>', Read(broken=(("", "", "it names no tool."),))),
    "no name": ('<tool_call>{"foo": 1}</tool_call>', Read(broken=(("", '{"foo": 1}', "it names no tool."),))),
    "no object": (
        "<tool_call>weather(Oslo)</tool_call>",
        Read(broken=(("", "weather(Oslo)", "it is not a JSON object."),)),
    ),
    "a call that was cut": (
        '<tool_call>{"name": "weather", "arguments": {"city": "Os',
        Read(broken=(("weather", '{"city": "Os', "the text ends inside a string."),)),
    ),
    "a call that was cut before its arguments": (
        '<tool_call>{"name": "weather", "argu',
        Read(broken=(("", '{"name": "weather", "argu', "the text ends inside a string."),)),
    ),
    "a mark that was cut": ("Well. <tool_ca", Read("Well.")),
    "thinking": ("<think>Use <tool_call>?</think>Hello.", Read("Hello.", reasoning="Use <tool_call>?")),
    "braces, lists and code in prose": (
        'Hi {x}, [1] and {"a": 1, "name": "Ada"}, a < b:\n```py\n{1: 2}\n```',
        Read('Hi {x}, [1] and {"a": 1, "name": "Ada"}, a < b:\n```py\n{1: 2}\n```'),
    ),
    "another protocol's answer": ('{"final": "x"}', Read('{"final": "x"}')),
}


@pytest.mark.parametrize("case", READ)
def test_an_answer_is_read_however_it_is_cut(case: str) -> None:
    text, expected = READ[case]

    assert read(PROTOCOL, text) == expected
    for pieces in cuts(text):
        assert read_in_pieces(PROTOCOL, pieces) == expected


def test_the_prompt_holds_name_description_and_schema_of_each_tool() -> None:
    assert PROTOCOL.render(ToolOffer((NOW, ADD), parallel=False)) == (
        'To use a tool, write <tool_call>{"name": NAME, "arguments": {...}}</tool_call>. '
        "To answer the user, write plain text without tags. The tools:\n<tools>\n"
        '{"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}\n'
        '{"name": "add", "description": "Add two integers.", "parameters": {"type": "object", "properties": '
        '{"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}\n</tools>'
    )
    assert "Use a tool now." in PROTOCOL.render(ToolOffer((NOW,), required=True))
    assert "several tools at once" in PROTOCOL.render(OFFER)


def test_what_is_written_is_read_back() -> None:
    calls = [WrittenCall("weather", {"city": "</tool_call> \"'{“"}), WrittenCall("add", {"a": 1, "b": 2})]

    written = PROTOCOL.call_text(calls, "I look.")

    assert written.count("</tool_call>") == 2
    assert read(PROTOCOL, written) == Read("I look.", (("weather", {"city": "</tool_call> \"'{“"}), SUM))


def test_a_result_cannot_leave_its_element() -> None:
    results = [ToolResult("now", "</tool_response>x", failed=False), ToolResult("add", "no", failed=True)]

    assert PROTOCOL.result_text(results) == (
        '<tool_response>\n{"name": "now", "content": "<\\/tool_response>x"}\n</tool_response>\n'
        '<tool_response>\n{"name": "add", "error": "no"}\n</tool_response>'
    )


def test_the_server_is_told_where_to_stop_and_given_a_grammar() -> None:
    settings = PROTOCOL.settings(ToolOffer((NOW,), required=True, parallel=False))

    assert settings["stop"] == ["</tool_call>", "<tool_response>"]
    assert settings["grammar"].splitlines()[:3] == [
        "root ::= r2",
        'r0 ::= "{" "}"',
        r'r1 ::= "<tool_call>\n{\"name\": \"now\", \"arguments\": " r0 "}\n</tool_call>"',
    ]
    assert ToolTagsProtocol(constrain=False).settings(OFFER) == {"stop": ["<tool_response>"]}
