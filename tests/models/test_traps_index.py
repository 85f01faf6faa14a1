"""Where each trap of the wire formats is played: a sentence for each, and the tests. A test here holds that they exist.

Rows of the tables in the files `test_traps_*` are named by their sentence; other tests by their function.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

TRAPS: Mapping[str, tuple[str, ...]] = {
    # Transport, all providers
    "lines end in CR, LF or CRLF alone, one mark of the byte order is dropped": (
        "sse: events_are_the_same_for_every_cut_and_line_end",
        "traps_streams: separators of lines within JSON cut nothing",
    ),
    "fields of an event are joined, comments and unknown fields ignored": (
        "traps_streams: an event may come in several lines of data",
        "traps_streams: comments, ids, retries and unknown fields say nothing",
    ),
    "[DONE] is not needed": (
        "traps_openai: the word of the end is not needed",
        "traps_openai: the word of the end alone is no end",
    ),
    "a stream without its end is an error": (
        "traps_streams: a stream without its end is no short answer",
        "traps_answers: a_stream_that_is_cut_anywhere_is_the_whole_answer_or_an_error",
    ),
    "no retry behind the first content": (
        "traps_answers: a_failure_behind_the_first_event_is_not_tried_again",
        "traps_answers: a_failure_before_the_first_event_is_tried_again",
    ),
    "an error in a stream of status 200": (
        "traps_streams: an error amid the text is that of its status",
        "traps_openai: an error beside choices is an error",
    ),
    "an event that is no JSON": ("traps_streams: an event that is no JSON is told with an excerpt",),
    "pages, empty bodies, JSON for events and events for JSON": (
        "traps_answers: a page at status 200 is told",
        "traps_answers: events are read however they were asked for",
    ),
    "the body of a streamed refusal is read": (
        "traps_answers: the body of a refusal is read",
        "transport_errors: the_body_of_an_error_is_read_to_a_bound_and_the_connection_left",
    ),
    "compressed answers, bounds of bodies and events": (
        "traps_answers: compressed events are read",
        "transport: an_event_without_end_is_left_at_its_bound",
    ),
    "what a server asks to wait": (
        "transport_retries: what_a_server_asks_to_wait_is_read_in_the_order_of_its_precision",
        "traps_answers: a wait that is asked for is told",
    ),
    "what is tried again, in one budget": (
        "transport_errors: a_status_and_a_body_make_one_typed_error",
        "transport_retries: one_budget_holds_for_a_call_whatever_fails_in_it",
    ),
    "deadlines that pings do not put off": (
        "traps_answers: a_server_that_says_nothing_is_left",
        "transport_deadlines: a_silent_stream_ends_at_its_limit_whatever_pings_come",
    ),
    "two hundred calls at once": ("transport_clients: two_hundred_calls_at_once_do_not_starve",),
    "one client for each loop, also behind a fork": (
        "transport_clients: one_transport_serves_one_loop_after_another",
        "transport_clients: a_forked_child_uses_no_connection_of_its_parents",
    ),
    "leaving and cancelling close the connection": (
        "transport_deadlines: the_server_sees_an_async_stream_that_is_left",
        "gemini_servers: cancelling_closes_the_connection",
    ),
    "secrets are shown nowhere": (
        "transport_secrets: no_local_variable_of_a_traceback_and_no_log_shows_a_secret",
        "traps_answers: a wrong key is told without it",
    ),
    "a base URL as people write it": (
        "transport: a_base_url_works_as_people_write_it",
        "transport_errors: a_404_shows_the_url_that_was_asked_without_its_secrets",
    ),
    "headers, proxies, certificate authorities": (
        "transport: headers_and_query_of_the_user_win_and_an_empty_key_is_not_sent",
        "transport_clients: proxies_of_the_environment_are_used_and_exceptions_from_them_too",
    ),
    "nothing empty is sent, what is refused is dropped once": (
        "openai_request: nothing_empty_is_sent_and_nothing_that_needs_tools_without_them",
        "openai_servers: a_parameter_that_a_server_refuses_is_dropped_once_and_remembered",
    ),
    # Chat Completions
    "deltas of calls by index and id": (
        "traps_openai: deltas of two calls may be interleaved",
        "traps_openai: a new id on a used index is a new call",
    ),
    "ids and names late, empty, repeated": (
        "traps_openai: id and name may come late",
        "traps_openai: id and name that are repeated are set once",
    ),
    "arguments of every form": (
        "traps_openai: arguments may be an object",
        "traps_openai: arguments that are no JSON do not run",
    ),
    "content of every form, refusal and reasoning apart": (
        "traps_openai: content may be null, missing, empty, or in parts",
        "traps_streams: white space of a delta is kept",
    ),
    "chunks without choices, usage not added": (
        "traps_openai: chunks without choices say nothing and usage is the last one",
    ),
    "the reason of the end is not to be relied on": (
        "traps_openai: calls count although the end says",
        "traps_openai: a call that the limit of tokens cut does not run",
    ),
    "limit and sampling by the model": ("openai_request: limit_and_sampling_follow_the_server_and_the_model",),
    "developers and systems": (
        "openai_request: reasoning_models_of_openai_have_developers_and_no_others",
        "openai_request: system_messages_at_the_head_are_merged_for_compatible_servers_alone",
    ),
    "a result for each call, directly behind it": (
        "traps_threads: calls_that_were_never_answered_are_answered_before_another_provider_is_asked",
    ),
    "ids and names that others do not take": (
        "openai_request: ids_of_other_providers_are_mapped_the_same_way_on_both_sides",
        "openai_request: illegal_tool_names_are_sent_under_legal_ones_everywhere",
    ),
    "reasoning that has to come back": (
        "openai_request: deepseek_gets_its_reasoning_back_with_calls_and_others_do_not",
    ),
    "strict schemas": ("openai_structured: a_schema_is_made_strict_only_where_that_keeps_its_meaning",),
    "tools that a server drops in silence": ("local_formats: a_required_call_that_does_not_come_is_no_call",),
    # Responses
    "ids and deltas of items": (
        "openai_responses_codec: deltas_find_their_item_by_its_place_or_its_id",
        "traps_openai: the end of an item wins over its deltas",
    ),
    "thoughts go back encrypted and in order": (
        "openai_responses_history: thoughts_go_back_encrypted_in_order_before_their_calls_and_without_ids_that_were_not_stored",  # noqa: E501 a test's own name
    ),
    "ends of an answer, unknown events": (
        "traps_openai: a failed answer is a typed error",
        "traps_openai: events of an unknown type say nothing",
    ),
    # Messages
    "results of a turn in one user message, no blank text": (
        "anthropic_request: all_results_of_a_turn_are_one_user_turn_with_the_results_first",
        "anthropic_request: blank_texts_are_left_out_and_the_end_of_a_begun_answer_is_stripped",
    ),
    "orphans are mended before sending": (
        "traps_threads: calls_that_were_never_answered_are_answered_before_another_provider_is_asked",
    ),
    "thoughts go back as they came": (
        "traps_providers: thoughts without words keep their signature",
        "anthropic_request: a_model_that_thinks_is_not_forced",
    ),
    "pings, empty arguments, cumulative usage, reasons of the end": (
        "traps_providers: pings and unknown events say nothing",
        "anthropic: a_turn_that_the_provider_pauses_is_gone_on_with",
    ),
    "errors behind status 200, the limit of an answer": (
        "traps_providers: a failure behind the text is that of its status",
        "anthropic_request: the_limit_of_an_answer_is_the_models_own_where_none_is_set",
    ),
    "marks of the cache and its tokens": (
        "anthropic_request: marks_of_the_cache_are_kept_and_never_more_than_four",
        "traps_providers: usage is replaced and that of the cache is part of the input",
    ),
    # Gemini
    "signatures of parts": (
        "gemini_request: what_the_server_signed_and_named_comes_back_as_it_came",
        "gemini_request: only_newer_models_ask_for_signatures",
    ),
    "calls without ids, results by name": (
        "traps_providers: calls without ids get some and those of one name stay apart",
        "gemini_request: results_of_a_turn_are_one_content_by_name_and_in_order",
    ),
    "roles alternate, one entry of tools": (
        "gemini_request: roles_alternate_and_the_instruction_stands_apart",
        "gemini_request: functions_are_declared_in_one_entry_and_googles_tools_follow",
    ),
    "schemas in OpenAPI's subset": ("gemini_schema: a_schema_is_translated_into_openapis_subset",),
    "ends that are no answers": (
        "traps_providers: a prompt that was blocked is told",
        "gemini_endings: a_bad_ending_is_a_typed_error_that_names_it",
    ),
    "arrays of events, errors in lists, cumulative usage": (
        "traps_providers: an array of events is the answer",
        "traps_providers: an error in a list is an error",
    ),
    # Ollama
    "lines of JSON, calls before an end that says stop": (
        "traps_providers: calls before an end that says stop are calls",
        "traps_providers: an error amid the lines is an error",
    ),
    "a window that truncates in silence": (
        "ollama_codec: a_prompt_that_fills_the_window_is_an_error",
        "ollama_request: an_image_is_sent_as_bare_base64",
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_is_played_where_the_index_says(trap: str) -> None:
    for place in TRAPS[trap]:
        module, _, name = place.partition(": ")
        text = (HERE / f"test_{module}.py").read_text(encoding="utf-8")
        row, function = re.escape(name), f"def test_{re.escape(name)}\\("
        assert re.search(function if " " not in name else f'f?"{row}', text), place


def test_the_index_has_all_fifty() -> None:
    assert len(TRAPS) == 50
