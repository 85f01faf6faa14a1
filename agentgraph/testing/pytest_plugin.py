"""Fixtures for pytest, registered only where they are asked for.

A `conftest.py` names them::

    pytest_plugins = ["agentgraph.testing.pytest_plugin"]
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import pytest

from agentgraph.testing.models import ScriptedModel
from agentgraph.testing.network import no_network
from agentgraph.testing.replies import Reply

__all__ = ["MakeScriptedModel", "no_network_fixture", "pytest_runtest_makereport", "scripted_model"]

_passed = pytest.StashKey[bool]()


MakeScriptedModel: TypeAlias = Callable[..., ScriptedModel]
"""What the fixture `scripted_model` gives: it takes what `ScriptedModel` takes."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test itself passed: one that failed needs no second complaint about its script."""
    report = yield
    if call.when == "call":
        item.stash[_passed] = report.passed
    return report


@pytest.fixture
def scripted_model(request: pytest.FixtureRequest) -> Iterator[MakeScriptedModel]:
    """Makes scripted models, and fails the test if one was not played to its end or was asked for more.

    Example::

        def test_the_forecast_is_passed_on(scripted_model):
            agent = create_agent(scripted_model(tool_call("weather", city="Rome"), "Sunny."), [weather])
            ...
    """
    made: list[ScriptedModel] = []

    def make(*script: Reply, **fields: Any) -> ScriptedModel:
        model = ScriptedModel(*script, **fields)
        made.append(model)
        return model

    yield make
    if request.node.stash.get(_passed, False):
        for model in made:
            model.assert_played()


@pytest.fixture(name="no_network")
def no_network_fixture() -> Iterator[no_network]:
    """Refuses every connection that leaves this machine, see `agentgraph.testing.no_network`."""
    with no_network() as guard:
        yield guard
