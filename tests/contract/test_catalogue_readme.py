"""The README's table of the ready-made middleware tells the truth: hooks, state, and the costs that were measured."""

import re
from pathlib import Path

import pytest

from agentgraph.hooks import HOOKS, is_inline, overrides
from agentgraph.middleware import AgentState
from tests.contract.catalogue import ENTRIES
from tests.contract.catalogue_trials import Trial

README = Path(__file__).parents[2] / "README.md"
HEADER = "| middleware | what it does | hooks | state | cost |"

# How often what the README counts by happens in the conversation of the rows.
OFTEN = {
    "run": 1,
    "turn": 3,
    "guarded call": 1,
    "emulated call": 2,
    "summary": 1,
    "retry": 0,
    "model tried": 0,
}


def table():
    text = README.read_text(encoding="utf-8")
    assert text.count(HEADER) == 1, "the README has no table of the ready-made middleware with these columns"
    lines = text.split(HEADER)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def row_of(entry):
    (row,) = [row for row in table() if row[0] == f"`{entry.name}`"]
    return row


def listed(cell):
    """The parts of a cell, without marks of code; none where it says so."""
    return set() if cell == "none" else set(cell.replace("`", "").split(", "))


def costs(cell):
    """Further steps and own model calls in the conversation of the rows, from the words of the README."""
    first = cell.split(";")[0]
    if first == "none":
        return {"steps": 0, "calls": 0}
    words = re.fullmatch(r"(\d.*?) (?:an?|for each) ([a-z ]+)", first)
    found = {"steps": 0, "calls": 0}
    for number, what in re.findall(r"(\d+) (steps?|(?:model|classifier) calls?)(?= and |$)", words[1]):
        found["steps" if what.startswith("step") else "calls"] += int(number) * OFTEN[words[2]]
    return found


ALONE = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])


def test_the_table_has_one_line_for_each_entry():
    assert sorted(row[0].strip("`") for row in table()) == [entry.name for entry in ENTRIES]


@ALONE
def test_the_table_has_the_hooks_of_an_entry(entry, tmp_path):
    built = entry.build(tmp_path, entry.model())
    present = {
        f"inline {spec.name}" if is_inline(built, spec) else spec.name
        for spec in HOOKS.values()
        if any(name and overrides(built, name) for name in (spec.name, spec.async_name, spec.flow))
    }
    assert listed(row_of(entry)[2]) == present


@ALONE
def test_the_table_has_the_state_of_an_entry_with_what_is_part_of_the_result_in_bold(entry, tmp_path):
    trial = Trial(tmp_path, entry)
    (built,) = trial.built
    added = set(built.state_schema.__annotations__) - set(AgentState.__annotations__)
    said = {name.replace("<type>", "email") for name in listed(row_of(entry)[3])}
    assert {name.strip("*") for name in said} == added
    assert added >= entry.stored | entry.written
    shown = set(trial.agent.get_output_jsonschema()["properties"]) - {"messages", "structured_response"}
    assert {name.strip("*") for name in said if name.startswith("**")} == shown
    assert shown >= entry.result


@ALONE
def test_the_costs_that_the_table_says_are_those_that_were_measured(entry):
    assert costs(row_of(entry)[4]) == {"steps": entry.steps, "calls": entry.calls}
