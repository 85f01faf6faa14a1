"""What an answer of the Responses API brings back into later requests, and what of it must not go back."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.models.openai_responses_asking import call, message, thought
from tests.models.openai_responses_judge import CALLING, RESULTS, SERVED, answered, body_of, input_of, said


def test_thoughts_go_back_encrypted_in_order_before_their_calls_and_without_ids_that_were_not_stored() -> None:
    body = body_of([HumanMessage("Hi"), answered(*CALLING), *RESULTS], store=False)
    assert body["input"][1:6] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e1"},
        said("Let me see.", phase="commentary"),
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"city": "Paris"}'},
        {"type": "reasoning", "summary": [], "encrypted_content": "e2"},
        {"type": "function_call", "call_id": "c2", "name": "get", "arguments": '{"city": "Rome"}'},
    ]
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


def test_a_stored_answer_goes_back_with_the_ids_of_its_items() -> None:
    output = [thought("hm"), message("Let me see."), call("get", "{}", "c1")]
    body = body_of([answered(*output, store=True), ToolMessage("x", tool_call_id="c1")], store=True)
    assert body["input"][:3] == [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{}", "id": "fc_c1"},
    ]
    assert "include" not in body


def test_other_servers_get_thoughts_as_they_showed_them() -> None:
    output = [thought(content=[{"type": "reasoning_text", "text": "Hm"}]), call("get", "{}", "c1")]
    sent = input_of(answered(*output), ToolMessage("x", tool_call_id="c1"), base_url=SERVED)
    assert sent[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }


@pytest.mark.parametrize(
    "output",
    [[thought("hm")], [thought("hm"), message("Hi")], [message("Hi"), thought("hm", encrypted_content="e")]],
    ids=["alone", "neither stored nor encrypted", "nothing behind it"],
)
def test_thoughts_that_would_be_refused_are_left_out(output: list[dict[str, Any]]) -> None:
    kinds = [item.get("type") for item in input_of(answered(*output), HumanMessage("Go on"))]
    assert "reasoning" not in kinds


def test_a_model_that_does_not_reason_is_sent_no_thoughts() -> None:
    sent = body_of([answered(*CALLING), *RESULTS], model="gpt-4o", store=False)
    assert "include" not in sent
    assert [item["type"] for item in sent["input"]] == [
        "message",
        *["function_call"] * 2,
        *["function_call_output"] * 2,
    ]
    deployed = body_of([answered(*CALLING), *RESULTS], model="my-deployment", reasoning={"effort": "low"}, store=False)
    assert deployed["include"] == ["reasoning.encrypted_content"]
    assert deployed["input"][0]["type"] == "reasoning"


def test_calls_that_a_hook_changed_are_sent_as_they_are_now() -> None:
    before = answered(*CALLING)
    edited = {"name": "get", "args": {"city": "Oslo"}, "id": "c2", "type": "tool_call"}
    added = {"name": "put", "args": {}, "id": "c3", "type": "tool_call"}
    now = before.model_copy(update={"tool_calls": [edited, added]})
    results = [ToolMessage("x", tool_call_id="c2"), ToolMessage("y", tool_call_id="c3")]
    calls = [
        (item["call_id"], item["arguments"]) for item in input_of(now, *results) if item["type"] == "function_call"
    ]
    assert calls == [("c2", '{"city": "Oslo"}'), ("c3", "{}")]


def test_records_of_built_in_tools_go_back_and_unknown_items_do_not() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    dream = {"type": "dreaming_call", "id": "dr_1"}
    sent = input_of(answered(thought(encrypted_content="e"), search, dream, message("Hi")))
    assert sent == [{"type": "reasoning", "summary": [], "encrypted_content": "e"}, search, said("Hi")]


def test_a_refusal_goes_back_as_what_was_said() -> None:
    assert input_of(answered(message({"type": "refusal", "refusal": "No."}))) == [said("No.")]
    assert input_of(AIMessage("", additional_kwargs={"refusal": "No."})) == [said("No.")]


def test_standard_blocks_of_this_provider_go_back_as_items() -> None:
    standard = answered(thought("a", "b", encrypted_content="e"), message("Hi"), call("get", "{}", "c1"))
    kept = standard.model_copy(update={"content": standard.content_blocks})
    assert input_of(kept, ToolMessage("x", tool_call_id="c1"))[:3] == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "encrypted_content": "e",
        },
        said("Hi"),
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{}"},
    ]


def test_another_providers_answer_is_what_it_said_and_called() -> None:
    foreign = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "reasoning", "reasoning": "hm", "id": "rs_9", "encrypted_content": "e"},
            {"type": "text", "text": "Hi", "id": "x"},
            {"type": "web_search_call", "id": "ws"},
            {"type": "tool_use", "id": "toolu_" + "1" * 90, "name": "a.b", "input": {}},
        ],
        tool_calls=[{"name": "a.b", "args": {}, "id": "toolu_" + "1" * 90}],
        response_metadata={"model_provider": "anthropic"},
    )
    text, called, result = input_of(foreign, ToolMessage("x", tool_call_id="toolu_" + "1" * 90))
    assert text == said("Hi")
    assert called["call_id"] == result["call_id"]
    assert len(called["call_id"]) <= 64
    assert called["name"].startswith("a_b_")


def test_a_broken_call_goes_back_as_json_of_an_object() -> None:
    broken = answered(call("get", '{"city": "Par', "c1"))
    sent = input_of(broken, ToolMessage("Error", tool_call_id="c1"))
    assert json.loads(sent[0]["arguments"]) == {"invalid_arguments": '{"city": "Par'}


def test_a_custom_tools_call_and_output_have_their_own_types() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "shell", "input": "ls"}
    assert input_of(answered(item), ToolMessage("a.txt", tool_call_id="c1")) == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "shell", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "a.txt"},
    ]


def test_only_what_comes_behind_the_previous_response_is_sent() -> None:
    history = [HumanMessage("Hi"), answered(message("Hello")), HumanMessage("And?")]
    assert input_of(*history, previous_response_id="resp_1") == [{"role": "user", "content": "And?"}]
    assert len(input_of(*history, previous_response_id="resp_of_another_thread")) == 3


def test_arguments_without_a_form_in_json_are_told_as_text() -> None:
    odd = AIMessage("", tool_calls=[{"name": "get", "args": {"a": float("nan")}, "id": "c1"}])
    assert json.loads(input_of(odd, ToolMessage("x", tool_call_id="c1"))[0]["arguments"]) == {"a": "NaN"}


def test_pieces_of_one_message_stay_one_and_two_messages_stay_two() -> None:
    pieces = answered(message("Well, ", "yes", phase="commentary"), message("No.", id="msg_2", phase="final_answer"))
    assert input_of(pieces) == [said("Well, yes", phase="commentary"), said("No.", phase="final_answer")]


def test_a_user_answers_a_built_in_tool_with_an_item() -> None:
    asks = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "pay", "arguments": "{}", "server_label": "shop"}
    yes = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert input_of(answered(asks), HumanMessage([yes])) == [asks, yes]
    spoken = HumanMessage([yes, {"type": "text", "text": "Do it."}])
    assert input_of(answered(asks), spoken) == [asks, yes, {"role": "user", "content": "Do it."}]
