"""Tool calls of the Responses API: which of them may run, in which order they stand, and by which ids."""

from typing import Any

import pytest

from agentgraph.models.responses_codec import Asked, read_answer
from tests.models.openai_responses_asking import (
    ASKED,
    call,
    events_of,
    item_events,
    message,
    read_stream,
    response,
    thought,
    total,
)


def test_calls_between_thoughts_keep_their_order_and_their_ids() -> None:
    output = [
        thought("a", encrypted_content="e1"),
        call("get", '{"city": "Paris"}', "call_1"),
        thought("b", id="rs_2", encrypted_content="e2"),
        call("get", '{"city": "Rome"}', "call_2"),
    ]
    streamed = total(read_stream(events_of(response(*output))))
    assert read_answer(response(*output), ASKED) == streamed
    assert [block.get("call_id") or block["id"] for block in streamed.content] == ["rs_1", "call_1", "rs_2", "call_2"]
    assert streamed.content[1] == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "get",
        "id": "fc_call_1",
        "index": 1,
    }
    assert streamed.tool_calls == [
        {"name": "get", "args": {"city": "Paris"}, "id": "call_1", "type": "tool_call"},
        {"name": "get", "args": {"city": "Rome"}, "id": "call_2", "type": "tool_call"},
    ]
    assert streamed.response_metadata["finish_reason"] == "tool_calls"


def test_interleaved_deltas_go_to_their_own_items() -> None:
    first, second = item_events(0, call("a", '{"x": 111}', "c0")), item_events(1, call("b", '{"y": 222}', "c1"))
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    end = events_of(response(call("a", '{"x": 111}', "c0"), call("b", '{"y": 222}', "c1")))[-1]
    assert [(one["name"], one["args"]) for one in total(read_stream([*mixed, end])).tool_calls] == [
        ("a", {"x": 111}),
        ("b", {"y": 222}),
    ]


def test_a_lost_piece_of_arguments_makes_a_call_invalid() -> None:
    events = events_of(response(call("pay", '{"amount": 500, "to": "Ada"}', "c1")))
    deltas = [event for event in events if event["type"].endswith("delta")]
    read = total(read_stream([event for event in events if event is not deltas[1]]))
    assert (read.tool_calls, [one["name"] for one in read.invalid_tool_calls]) == ([], ["pay"])


@pytest.mark.parametrize(
    ("arguments", "args"), [("", {}), ("null", {}), ('{"a": 1}', {"a": 1}), ('{"a": "é\\n"}', {"a": "é\n"})]
)
def test_arguments_are_one_object(arguments: str, args: dict[str, Any]) -> None:
    output = response(call("get", arguments, "c1"))
    for read in (read_answer(output, ASKED), total(read_stream(events_of(output)))):
        assert read.tool_calls == [{"name": "get", "args": args, "id": "c1", "type": "tool_call"}]


@pytest.mark.parametrize("arguments", ["{", '{"a": 1', "[1]", '"x"', '{"a": NaN}', "7", '{"a": 1} x'])
def test_arguments_that_are_no_object_are_an_invalid_call(arguments: str) -> None:
    output = response(call("get", arguments, "c1"))
    for read in (read_answer(output, ASKED), total(read_stream(events_of(output)))):
        assert (read.tool_calls, [one["id"] for one in read.invalid_tool_calls]) == ([], ["c1"])
        assert read.content[0]["call_id"] == "c1"


def test_a_call_without_id_gets_one_and_its_block_has_it_too() -> None:
    output = response(call("get", "{}", "", id=None))
    for read in (read_answer(output, ASKED), total(read_stream(events_of(output)))):
        assert read.content[0]["call_id"] == read.tool_calls[0]["id"] != ""


def test_calls_of_one_id_get_ids_of_their_own() -> None:
    output = response(call("get", '{"a": 1}', "c"), call("get", '{"a": 2}', "c", id="fc_2"))
    for read in (read_answer(output, ASKED), total(read_stream(events_of(output)))):
        ids = [one["id"] for one in read.tool_calls]
        assert ids == [block["call_id"] for block in read.content]
        assert len(set(ids)) == 2


def test_a_custom_tools_text_is_the_argument_of_its_call() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "shell", "input": 'say "hi"\n'}
    for read in (read_answer(response(item), ASKED), total(read_stream(events_of(response(item))))):
        assert read.tool_calls == [{"name": "shell", "args": {"__arg1": 'say "hi"\n'}, "id": "c1", "type": "tool_call"}]
        assert read.content == [
            {"type": "custom_tool_call", "call_id": "c1", "name": "shell", "id": "ctc_1", "index": 0}
        ]


def test_names_that_were_changed_for_the_wire_are_changed_back() -> None:
    asked = Asked(ASKED.origin, "m", {"a_b_1": "a.b"})
    output = response(call("a_b_1", "{}", "c1"))
    for read in (read_answer(output, asked), total(read_stream(events_of(output), asked))):
        assert (read.tool_calls[0]["name"], read.content[0]["name"]) == ("a.b", "a.b")


def test_an_answer_that_was_cut_at_its_limit_says_so_and_its_open_call_does_not_run() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    for half in ('{"city": "Par', "", '{"city": "Paris"}'):
        output = response(message("Well"), call("get", half, "c1", status="incomplete"), **cut)
        for read in (read_answer(output, ASKED), total(read_stream(events_of(output)))):
            assert (read.tool_calls, len(read.invalid_tool_calls)) == ([], 1)
            metadata = read.response_metadata
            assert (read.text, metadata["finish_reason"], metadata["status"]) == ("Well", "length", "incomplete")


def test_no_call_of_a_cut_answer_runs_that_did_not_come_to_its_end() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    begun = [item_events(place, call("get", "", f"c{place}"))[0] for place in (0, 1)]
    end = {"type": "response.incomplete", "response": response(**cut)}
    read = total(read_stream([*begun, end]))
    assert (read.tool_calls, len(read.invalid_tool_calls)) == ([], 2)


def test_an_end_with_no_or_other_white_space_in_its_arguments_changes_nothing() -> None:
    output = response(call("get", '{"a": 1}', "c1"))
    for final in ("", '{"a":1}', '{ "a": 1 }'):
        events = [
            {**event, "item": {**event["item"], "arguments": final}} if event["type"].endswith("item.done") else event
            for event in events_of(output)
        ]
        assert total(read_stream(events)).tool_calls == read_answer(output, ASKED).tool_calls


def test_a_name_may_come_late() -> None:
    output = response(call("get", '{"a": 1}', "c1"))
    added, *others = item_events(0, output["output"][0])
    late = {**added, "item": {**added["item"], "name": "", "call_id": ""}}
    read = total(read_stream([late, *others, events_of(output)[-1]]))
    assert [(one["name"], one["args"]) for one in read.tool_calls] == [("get", {"a": 1})]
