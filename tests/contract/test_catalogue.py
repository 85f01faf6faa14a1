"""Every entry of the catalogue alone: what a run with it has as its messages, and what it costs."""

import pytest

from agentgraph.testing import flaky
from tests.contract import catalogue, conftest
from tests.contract.catalogue import ENTRIES
from tests.contract.catalogue_trials import Trial, expected, on, shown

BASE_STEPS = 5
INVOKED = (conftest._invoke, conftest._ainvoke)
ALONE = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])


def test_every_exported_middleware_class_has_one_row():
    assert [entry.name for entry in ENTRIES] == catalogue.exported()


def test_a_run_without_middleware_is_what_rows_are_compared_with(run, tmp_path):
    trial = Trial(tmp_path)
    result, asked = trial.finish(run, "k00")
    assert (shown(result["messages"]), set(result), asked) == (catalogue.plain("k00"), {"messages"}, 0)
    assert trial.agent.get_state(on("t")).metadata["step"] == BASE_STEPS
    assert [request.tools for request in trial.model.requests] == [["look", "pay"]] * 3


@ALONE
def test_a_run_has_the_same_messages_but_for_what_the_entry_is_for(run, entry, tmp_path):
    trial = Trial(tmp_path, entry)
    result, asked = trial.finish(run, "k00")
    assert shown(result["messages"]) == expected("k00", entry)
    assert asked == entry.asks


@ALONE
def test_an_entry_costs_what_its_row_says(run, entry, tmp_path):
    trial = Trial(tmp_path, entry)
    trial.finish(run, "k00")
    steps = trial.agent.get_state(on("t")).metadata["step"] - BASE_STEPS
    measured = {"steps": steps, "calls": trial.calls, "stored": trial.stored()}
    assert measured == {name: getattr(entry, name) for name in measured}


@ALONE
def test_a_result_has_the_keys_of_the_row_and_a_stream_of_values_the_private_ones_too(run, entry, tmp_path):
    result, _ = Trial(tmp_path, entry).finish(run, "k00")
    keys = entry.result if run in INVOKED else entry.written
    assert set(result) - {"messages"} == keys


@ALONE
def test_a_stream_of_updates_shows_the_keys_of_the_row(entry, tmp_path):
    assert Trial(tmp_path, entry).updates() == entry.written


@ALONE
def test_a_stream_of_messages_shows_no_calls_of_the_entry_itself(entry, tmp_path):
    (last,) = entry.alters(catalogue.plain("k00"))[-1:]
    assert Trial(tmp_path, entry).said() == last.removeprefix("ai: ")


@ALONE
def test_an_entry_brings_the_tools_of_its_row(entry, tmp_path):
    trial = Trial(tmp_path, entry)
    held = trial.agent.nodes["tools"].bound.tools_by_name
    assert set(held) == {*entry.tools, "look", "pay"}


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.mends == "model"], ids=lambda one: one.name)
def test_a_model_call_that_fails_once_is_made_good(run, entry, tmp_path):
    failures = [ConnectionError("no route")]

    def reply(messages, settings):
        if failures:
            raise failures.pop()
        return catalogue.conversation(messages, settings)

    trial = Trial(tmp_path, entry, model=catalogue.Model(reply))
    result, _ = trial.finish(run, "k00")
    assert (shown(result["messages"]), failures) == (catalogue.plain("k00"), [])


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.mends == "tool"], ids=lambda one: one.name)
def test_a_tool_call_that_fails_once_is_made_good(run, entry, tmp_path):
    tools = [catalogue.look, flaky(catalogue.payer([]), [ConnectionError("no route")])]
    result, _ = Trial(tmp_path, entry, tools=tools).finish(run, "k00")
    assert shown(result["messages"]) == catalogue.plain("k00")
