"""An entry that makes a failed call good does so beside every other entry, before it and after it in the list."""

import pytest

from agentgraph.testing import flaky
from tests.contract import catalogue, conftest
from tests.contract.catalogue import ENTRIES
from tests.contract.catalogue_trials import Trial, expected, shown

MENDING = [entry for entry in ENTRIES if entry.mends]

# What stands nearer to the tool has the first word: here it answers the call, and there is nothing to try again.
ANSWERED_BEFORE = {("ToolRetryMiddleware", "ToolErrorMiddleware")}


@pytest.mark.parametrize("run", [conftest._invoke, conftest._astream], ids=["invoke", "astream"])
@pytest.mark.parametrize("mending", MENDING, ids=[entry.name for entry in MENDING])
def test_a_call_that_fails_once_is_made_good_beside_each_other_entry(mending, run, tmp_path):
    pairs = [pair for other in ENTRIES if other is not mending for pair in ((mending, other), (other, mending))]
    pairs = [(first, second) for first, second in pairs if (first.name, second.name) not in ANSWERED_BEFORE]
    differing = {}
    for number, (first, second) in enumerate(pairs):
        folder = tmp_path / str(number)
        folder.mkdir()
        wanted, found = expected("k00", first, second), outcome(run, folder, first, second, mending.mends)
        if found != wanted:
            differing[first.name, second.name] = {"found": found, "wanted": wanted}
    assert differing == {}, f"{mending.name}: {', '.join(' before '.join(pair) for pair in differing)}"


def outcome(run, folder, first, second, failing):
    """The lines of a run in which the first call of the model or the guarded tool fails; or the error that ended it."""
    pay = catalogue.payer([])
    tools = [catalogue.look, flaky(pay, [ConnectionError("no route")]) if failing == "tool" else pay]
    failures = [ConnectionError("no route")] if failing == "model" else []

    def reply(messages, settings):
        if failures:
            raise failures.pop()
        return catalogue.conversation(messages, settings)

    try:
        trial = Trial(folder, first, second, guarded=True, tools=tools, model=catalogue.Model(reply))
        trial.say(run, "k00")
        result, _ = trial.answer(run)
        return shown(result["messages"])
    except Exception as error:
        return repr(error)
