"""Tool calls that were written as text: what is read as a call, what stays text, and that no cut makes a difference."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage

from agentgraph import create_agent
from agentgraph.errors import TruncatedStreamError
from agentgraph.models.leaked_calls import MAX_HELD, LeakedCall, LeakedCallReader, read_leaked_calls
from agentgraph.models.leaked_messages import offered_names
from agentgraph.models.openai import ChatOpenAI
from agentgraph.testing import describe
from tests.models import anthropic_asking, ollama_asking, openai_asking, openai_responses_asking
from tests.models.openai_asking import WAYS, Asking, add, event
from tests.wire_server import Step, WireServer, answer, streamed

NAMES = {"add": "add", "my_find": "my.find"}
LEAKING: dict[str, Any] = {"profile": {"tool_calls_in_text": True}}
ADD = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
FIND = '{"name": "my_find", "arguments": {}}'
ADDED, FOUND = LeakedCall("add", {"a": 1, "b": 2}), LeakedCall("my.find", {})
TAGGED = f"<tool_call>\n{ADD}\n</tool_call>"

CALLS: dict[str, tuple[str, str, list[LeakedCall]]] = {
    "bare": (ADD, "", [ADDED]),
    "with blanks around": (f"\n  {ADD}\n", "", [ADDED]),
    "arguments under another name": ('{"name": "add", "parameters": {"a": 1, "b": 2}}', "", [ADDED]),
    "arguments as a text": (json.dumps({"name": "add", "arguments": '{"a": 1, "b": 2}'}), "", [ADDED]),
    "a type": ('{"type": "function", "name": "add", "parameters": {"a": 1, "b": 2}}', "", [ADDED]),
    "OpenAI's own form": (f'{{"id": "1", "type": "function", "function": {ADD}}}', "", [ADDED]),
    "no arguments": (FIND, "", [FOUND]),
    "a bare line break in a string": (
        '{"name": "add", "arguments": {"a": "x\ny"}}',
        "",
        [LeakedCall("add", {"a": "x\ny"})],
    ),
    "several": (f"{ADD}\n{FIND}", "", [ADDED, FOUND]),
    "a list": (f"[{ADD}, {FIND}]", "", [ADDED, FOUND]),
    "fenced": (f"```json\n{ADD}\n```", "", [ADDED]),
    "fenced without a language": (f"```\n{ADD}\n```\n", "", [ADDED]),
    "several fences": (f"```json\n{ADD}\n```\n```tool_call\n{FIND}\n```", "", [ADDED, FOUND]),
    "an end mark alone": (f"{ADD}\n</tool_call>", "", [ADDED]),
    "a token of the template at the end": (f"{ADD}<|im_end|>", "", [ADDED]),
    "tagged": (TAGGED, "", [ADDED]),
    "tagged without an end": (f"<tool_call>{ADD}", "", [ADDED]),
    "tagged with text around": (f"Let me see.\n{TAGGED}\nSo.", "Let me see.\nSo.", [ADDED]),
    "several tags": (f"{TAGGED}\n{TAGGED.replace(ADD, FIND)}\n", "", [ADDED, FOUND]),
    "fenced in tags": (f"<tool_call>```json\n{ADD}\n```</tool_call>", "", [ADDED]),
    "Mistral's tag": (f"[TOOL_CALLS][{ADD},{FIND}]</s>", "", [ADDED, FOUND]),
    "Mistral's newer form": ('Well. [TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}', "Well.", [ADDED]),
    "Llama's tag": (f"<|python_tag|>{ADD}; {FIND}<|eom_id|>", "", [ADDED, FOUND]),
    "a bad tag before a good one": (f"<tool_call>no</tool_call>{TAGGED}", "<tool_call>no</tool_call>", [ADDED]),
    "behind code": (f"`x` {TAGGED}", "`x`", [ADDED]),
}

TEXTS = {
    "prose": "One and two are three.",
    "nothing": "",
    "blanks": " \n",
    "an unknown name": '{"name": "sub", "arguments": {}}',
    "an unknown name among known ones": f'{ADD}\n{{"name": "sub", "arguments": {{}}}}',
    "an unknown name in tags": '<tool_call>{"name": "sub", "arguments": {}}</tool_call>',
    "the name as it is called, not as it was sent": '{"name": "my.find", "arguments": {}}',
    "prose before": f"I call {ADD}",
    "prose behind": f"{ADD} does it.",
    "prose before a fence": f"Like so:\n```json\n{ADD}\n```",
    "an answer in JSON": '{"answer": 3}',
    "an answer with a name": '{"name": "add"}',
    "arguments that are no object": '{"name": "add", "arguments": [1, 2]}',
    "arguments that are no JSON": '{"name": "add", "arguments": "a=1"}',
    "both kinds of arguments": '{"name": "add", "arguments": {}, "parameters": {}}',
    "another key": '{"name": "add", "arguments": {}, "result": 3}',
    "another type": '{"type": "object", "name": "add", "parameters": {}}',
    "a name that is none": '{"name": ["add"], "arguments": {}}',
    "calls in calls": '{"function": {"function": {"name": "add", "arguments": {}}}}',
    "a number that is no JSON": '{"name": "add", "arguments": {"a": NaN}}',
    "half a character": '{"name": "add", "arguments": {"a": "\\ud83d"}}',
    "half a call": ADD[:-1],
    "half a tagged call": f"<tool_call>{ADD[:-2]}",
    "quoted as code": f"Write `{TAGGED}` to add.",
    "in a block of code": f"Write:\n```\n{TAGGED}\n```\n",
    "another language": f"```python\n{ADD}\n```",
    "an empty list": "[]",
    "a list of no calls": "[1, [2]]",
    "the beginning of a tag": "a <tool_c",
    "the beginning of a fence": "``",
    "nested without end": "[" * 100_000,
    "objects without end": '{"name":' * 50_000,
    "blanks without end": " " * 5000 + ADD,
}


def in_pieces(text: str, size: int) -> tuple[str, list[LeakedCall], list[str]]:
    reader = LeakedCallReader(NAMES)
    shown = [reader.feed(text[at : at + size]) for at in range(0, len(text), size)]
    rest, calls = reader.close()
    return "".join(shown) + rest, calls, shown


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_text_that_can_be_meant_no_other_way_is_a_call(name: str, size: int) -> None:
    text, rest, calls = CALLS[name]
    assert in_pieces(text, size)[:2] == (rest, calls)
    assert read_leaked_calls(text, NAMES) == (rest, calls)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [3, 7, 1_000_000])
def test_every_other_text_stays_what_it_is(name: str, size: int) -> None:
    assert in_pieces(TEXTS[name], size)[:2] == (TEXTS[name], [])


@pytest.mark.parametrize("name", CALLS)
def test_nothing_that_becomes_a_call_is_shown_before(name: str) -> None:
    text, rest, _ = CALLS[name]
    assert rest.startswith("".join(in_pieces(text, 1)[2]))


@pytest.mark.parametrize("text", ['{"answer": 3}', "[1, 2]", "```python\nprint()\n```", "<b>bold</b>", "[1] says so"])
def test_text_that_can_be_no_call_is_not_held_back(text: str) -> None:
    shown = in_pieces(text, 1)[2]
    assert "".join(shown[:12]) == text[: len("".join(shown[:12]))] != ""


MARKS = [
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "```",
    "```json\n",
    "`",
    "<",
    "<tool_",
    "text",
]
SIGNS = [
    "\n",
    " ",
    " " * 70,
    "[",
    "]",
    ",",
    ";",
    "{",
    "}",
    '{"name": "add", ',
    '"arguments": {}',
    "add[ARGS]{}",
    "é\ud83d",
]
PIECES = st.sampled_from([*MARKS, *SIGNS, ADD, FIND])


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join), st.integers(1, 9))
@example("```" + " " * 300 + ADD, 3)
@example(TAGGED + "\n\n", 2)
def test_how_a_text_is_cut_makes_no_difference_and_none_of_it_is_lost(text: str, size: int) -> None:
    shown, calls, _ = in_pieces(text, size)
    assert (shown, calls) == read_leaked_calls(text, NAMES)
    assert len(shown) <= len(text)
    assert calls or shown == text


@pytest.mark.parametrize("size", [1, 1000, MAX_HELD * 3])
@pytest.mark.parametrize("before", ["", "<tool_call>", "[TOOL_CALLS]"])
def test_what_is_too_long_to_be_held_back_is_text(before: str, size: int) -> None:
    long = f'{before}{{"name": "add", "arguments": {{"a": "{"x" * MAX_HELD}"}}}}'
    assert in_pieces(long, size)[:2] == (long, [])


@pytest.mark.parametrize(
    "noise",
    [
        "<tool_call>",
        "<tool_call></tool_call>",
        "<",
        "`",
        " ",
        "[TOOL_CALLS]",
        '{"name": "add", "arguments": ',
        "{}",
        "x",
    ],
)
def test_noise_is_read_in_linear_time(noise: str) -> None:
    text = (noise * 100_000)[:100_000]
    for beginning in ("x", '{"name":', "```json\n{"):
        begun = time.process_time()
        assert in_pieces(beginning + text, 5)[:2] == (beginning + text, [])
        assert time.process_time() - begun < 5  # a square of it would take minutes


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, {}),
        ({"tools": None}, {}),
        ({"tools": [{"type": "function", "function": {"name": "my_find"}}]}, {"my_find": "my.find"}),
        ({"tools": [{"name": "add", "input_schema": {}}, {"type": "web_search_1", "name": "w"}]}, {"add": "add"}),
        ({"tools": [{"type": "function", "name": "add"}, {"type": "function", "function": None}, 7]}, {"add": "add"}),
        ({"tools": [{"functionDeclarations": [{"name": "add"}]}, {"googleSearch": {}}]}, {"add": "add"}),
        ({"tools": [{"name": "add"}], "tool_choice": "none"}, {}),
        ({"tools": [{"name": "add"}], "tool_choice": {"type": "none"}}, {}),
    ],
)
def test_only_calls_of_tools_that_the_request_offers_are_read(body: dict[str, Any], names: dict[str, str]) -> None:
    assert offered_names(body, {"my_find": "my.find"}) == names


# Through the chat models


def openai_says(way: Asking, text: str) -> list[Step]:
    if "stream" not in way.__name__:
        return openai_asking.document(text)
    deltas = [event(content=text[at : at + 3]) for at in range(0, len(text), 3)]
    return streamed(*deltas, event(finish_reason="stop"), b"data: [DONE]\n\n")


def ollama_says(way: Asking, text: str) -> list[Step]:
    pieces = [ollama_asking.event(text[at : at + 3]) for at in range(0, len(text), 3)]
    return ollama_asking.played(way, *pieces, ollama_asking.event(**ollama_asking.END))


def anthropic_says(way: Asking, text: str) -> list[Step]:
    return anthropic_asking.played(way, anthropic_asking.message(text))


def responses_say(way: Asking, text: str) -> list[Step]:
    return openai_responses_asking.played(way, openai_responses_asking.response(openai_responses_asking.message(text)))


FORMATS: dict[str, tuple[Callable[..., Any], Callable[[Asking, str], list[Step]]]] = {
    "openai": (openai_asking.local, openai_says),
    "openai v1": (lambda server, **more: openai_asking.local(server, output_version="v1", **more), openai_says),
    "ollama": (ollama_asking.local, ollama_says),
    "anthropic": (anthropic_asking.local, anthropic_says),
    "responses": (openai_responses_asking.local, responses_say),
}


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(params=FORMATS)
def wire(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], Callable[[Asking, str], list[Step]]]:
    return FORMATS[request.param]


def without_ids(calls: list[Any]) -> list[tuple[str, Any, bool]]:
    return [(call["name"], call["args"], str(call["id"]).startswith("call_")) for call in calls]


def test_a_leaked_call_is_a_call_in_every_format_whole_and_streamed(server: WireServer, ask: Asking, wire: Any) -> None:
    model, says = wire
    server.play(says(ask, f"Let me see.\n{TAGGED}"), says(ask, "Three."))
    bound = model(server, **LEAKING).bind_tools([add])
    message = ask(bound, "1 + 2?")
    assert message.text == "Let me see."
    assert without_ids(message.tool_calls) == [("add", {"a": 1, "b": 2}, True)]
    assert message.invalid_tool_calls == []
    if isinstance(message.content, str) or message.response_metadata.get("output_version") == "v1":
        assert [block["type"] for block in message.content_blocks] == ["text", "tool_call"]
    # It can be sent back as any other call.
    said = ToolMessage("3", tool_call_id=message.tool_calls[0]["id"] or "")
    assert ask(bound, [HumanMessage("1 + 2?"), message, said]).text == "Three."
    assert str(message.tool_calls[0]["id"]) in server.requests[-1].body.decode()


@pytest.mark.parametrize("text", ["Three.", '{"name": "sub", "arguments": {}}', "", "{", f"`{TAGGED}`"])
def test_an_answer_without_a_call_is_the_same_as_without_the_profile(
    server: WireServer, ask: Asking, wire: Any, text: str
) -> None:
    model, says = wire
    server.play(says(ask, text), says(ask, text))
    plain, leaking = (
        ask(model(server, **settings).bind_tools([add]), "Hi").model_dump(exclude={"id"}) for settings in ({}, LEAKING)
    )
    assert leaking == plain


@pytest.mark.parametrize(
    ("settings", "bound"), [({}, {}), (LEAKING, {"tool_choice": "none"})], ids=["no profile", "calls are forbidden"]
)
def test_without_reason_to_expect_one_nothing_is_read(
    server: WireServer, ask: Asking, settings: Any, bound: Any
) -> None:
    server.play(openai_says(ask, ADD))
    message = ask(openai_asking.local(server, **settings).bind_tools([add], **bound), "Hi")
    assert (message.text, message.tool_calls) == (ADD, [])


def test_without_tools_nothing_is_read(server: WireServer, ask: Asking) -> None:
    server.play(openai_says(ask, ADD))
    assert ask(openai_asking.local(server, **LEAKING), "Hi").content == ADD


def test_a_copy_with_another_profile_reads_as_that_says(server: WireServer, ask: Asking) -> None:
    server.play(openai_says(ask, ADD), openai_says(ask, ADD))
    model = openai_asking.local(server)
    assert ask(model.bind_tools([add]), "Hi").tool_calls == []
    assert ask(model.model_copy(update=LEAKING).bind_tools([add]), "Hi").tool_calls != []


def test_beside_native_calls_the_text_stays_text_so_that_nothing_runs_twice(server: WireServer, ask: Asking) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    if "stream" in ask.__name__:
        end = event(finish_reason="tool_calls") + b"data: [DONE]\n\n"
        server.play(streamed(event(content=TAGGED), event(tool_calls=[call]), end))
    else:
        choice = {"message": {"content": TAGGED, "tool_calls": [call]}, "finish_reason": "tool_calls"}
        server.play(answer(200, json.dumps({"choices": [choice]}).encode()))
    message = ask(openai_asking.local(server, **LEAKING).bind_tools([add]), "Hi")
    assert (message.text, [one["id"] for one in message.tool_calls]) == (TAGGED, ["c1"])


def test_a_stream_that_breaks_off_is_an_error_with_what_came(server: WireServer) -> None:
    server.play(streamed(event(content=ADD[:20])))
    with pytest.raises(TruncatedStreamError) as caught:
        list(openai_asking.local(server, **LEAKING).bind_tools([add]).stream("Hi"))
    assert caught.value.partial.text == ADD[:20]


def test_a_stream_shows_no_part_of_a_call(server: WireServer) -> None:
    way: Any = openai_asking.stream
    server.play(openai_says(way, f"Let me see.\n{TAGGED}\nWait."))
    chunks: list[Any] = list(openai_asking.local(server, **LEAKING).bind_tools([add]).stream("Hi"))
    assert "".join(str(chunk.text) for chunk in chunks) == "Let me see.\nWait."
    assert [chunk.chunk_position for chunk in chunks if chunk.chunk_position] == ["last"]
    assert chunks[-1].chunk_position == "last"
    assert len([chunk for chunk in chunks if chunk.text]) > 3


def test_an_agent_works_with_a_model_that_leaks_its_calls(server: WireServer) -> None:
    def says(text: str) -> Iterator[Step]:
        return iter(openai_asking.document(text))

    server.play(says(f"```json\n{ADD}\n```"), says("Three."))
    agent = create_agent(openai_asking.local(server, **LEAKING), [add])
    result = agent.invoke({"messages": "1 + 2?"})
    assert describe(result["messages"]) == ["human: 1 + 2?", "ai: -> add(a=1, b=2)", "tool add: 3", "ai: Three."]


def test_the_key_of_the_profile_is_known_and_no_other_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ChatOpenAI(model="m", **LEAKING).profile == LEAKING["profile"]
        with pytest.raises(UserWarning, match="tool_cals"):
            ChatOpenAI(**{**LEAKING, "model": "m", "profile": {"tool_cals": True}})
