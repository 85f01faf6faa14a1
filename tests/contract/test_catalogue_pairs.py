"""Every two entries of the catalogue in one agent, in both orders, with an approval in the middle of the run."""

import pytest

from tests.contract import conftest
from tests.contract.catalogue import APPROVALS, ENTRIES
from tests.contract.catalogue_trials import Trial, expected, shown

PAIRS = [(first, second) for first in ENTRIES for second in ENTRIES if first is not second]
WAYS = {"sync": conftest._invoke, "async": conftest._ainvoke}

# Rules judge every call for themselves, so they ask again where a person has just approved the real arguments.
ASKED_AGAIN_TOO = {("PIIMiddleware", "ApprovalPolicyMiddleware")}


def test_the_pairs_are_all_that_there_are():
    assert len(PAIRS) == len(ENTRIES) * (len(ENTRIES) - 1) == 462


@pytest.mark.parametrize("first", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_an_entry_before_each_other_one_keeps_what_both_do(first, tmp_path):
    differing = {}
    for _, second in [pair for pair in PAIRS if pair[0] is first]:
        folder = tmp_path / second.name
        folder.mkdir()
        wanted = dict.fromkeys(WAYS, outcome_of(first, second))
        found = outcomes(folder, first, second)
        if found != wanted:
            differing[second.name] = {"found": found, "wanted": wanted}
    assert differing == {}, f"{first.name} before {', '.join(differing)}"


def outcome_of(first, second):
    """What a run of the two comes to, as the rows have it; a person is asked by the guard and by what asks itself."""
    again = first.again + ((first.name, second.name) in ASKED_AGAIN_TOO)
    return {
        "messages": expected("k00", first, second),
        "asked": 1 + first.asks + second.asks + again,
        "calls": first.calls + second.calls,
        "stored": first.stored | second.stored | APPROVALS,
        "paid": ["k00"],
    }


def outcomes(folder, first, second):
    """What runs of the two came to, by the way in which they were run; or the error that ended one."""
    trial, found = Trial(folder, first, second, guarded=True), {}
    for way, run in WAYS.items():
        calls = trial.calls
        trial.paid.clear()
        try:
            trial.say(run, "k00", way)
            assert trial.questions(way), "the run did not pause"
            result, asked = trial.answer(run, way)
        except Exception as error:
            found[way] = repr(error)
            continue
        found[way] = {
            "messages": shown(result["messages"]),
            "asked": asked,
            "calls": trial.calls - calls,
            "stored": trial.stored(way),
            "paid": list(trial.paid),
        }
    return found
