"""The kit as a whole: its examples run, it needs no pytest, its fixtures work where they are asked for."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import agentgraph.testing

pytest_plugins = ["pytester"]

ROOT = str(Path(__file__).parents[2])
MODULES = [module.name for module in pkgutil.iter_modules(agentgraph.testing.__path__, "agentgraph.testing.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_documentation_run(name: str) -> None:
    module = importlib.import_module(name)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_every_public_function_and_class_has_an_example_or_belongs_to_one() -> None:
    without = {
        name
        for name in agentgraph.testing.__all__
        if callable(value := getattr(agentgraph.testing, name)) and ">>>" not in (value.__doc__ or "")
    }
    assert without == {"NetworkRefused", "ProviderRejected", "Request", "ScriptExhausted", "Signal"}


def test_the_kit_does_not_need_pytest() -> None:
    code = (
        "import sys, agentgraph.testing; sys.exit(sorted(n for n in sys.modules if n.split('.')[0] == 'pytest') or 0)"
    )
    done = subprocess.run(  # noqa: S603 (our own interpreter)
        [sys.executable, "-P", "-c", code], env={"PYTHONPATH": ROOT}, timeout=60, check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


SUITE = """
import socket
import pytest
from agentgraph.testing import NetworkRefused

def test_played(scripted_model):
    assert scripted_model("a").invoke("hi").content == "a"

def test_not_played(scripted_model):
    scripted_model("a", strict=False)

def test_failed_by_itself(scripted_model):
    scripted_model("a")
    assert False

def test_network(no_network):
    with pytest.raises(NetworkRefused):
        socket.create_connection(("192.0.2.1", 443))
    assert no_network.refused == ["192.0.2.1:443"]
"""


def test_the_fixtures_work_and_an_unplayed_script_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["agentgraph.testing.pytest_plugin"]')
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*ScriptExhausted: the script has 1 replies and the model was asked for 0"])


FAILING = """
import urllib.request
from langchain_core.messages import AIMessage
from agentgraph.testing import ScriptedModel, assert_messages, no_network

def test_compared():
    assert_messages([AIMessage("yes")], [AIMessage("no")])  # the line to show

def test_connected():
    with no_network():
        urllib.request.urlopen("http://192.0.2.1")  # the line to show
"""


def test_a_failure_is_shown_where_the_test_stands_and_not_inside_the_kit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*the line to show", "*the line to show"])
    result.stdout.no_fnmatch_line("*comparing.py*")
    result.stdout.no_fnmatch_line("*network.py*")


def test_the_frame_that_ends_a_script_is_hidden_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "from agentgraph.testing import ScriptedModel\ndef test_it():\n    ScriptedModel().invoke('hi')\n"
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*def _reply(self)*")
