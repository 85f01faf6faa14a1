"""Asking for a name where it is not: an import statement and an attribute say where it is."""

import importlib
import importlib.util

import langchain.agents.middleware as langchains
import pytest

import agentgraph
from agentgraph import middleware

LISTED = [(name, module) for module, names in agentgraph._ELSEWHERE.items() for name in names]
THERE = [(name, module) for name, module in LISTED if importlib.util.find_spec(module) is not None]


@pytest.mark.parametrize(("name", "module"), [*THERE, ("HumanInTheLoopMiddleware", "agentgraph.middleware")])
def test_a_name_of_another_module_is_told_from_the_top(name: str, module: str) -> None:
    assert hasattr(importlib.import_module(module), name)
    told = f"module 'agentgraph' has no attribute '{name}'; it is in {module}: from {module} import {name}"
    with pytest.raises(ImportError) as imported:
        exec(f"from agentgraph import {name}", {})  # noqa: S102 (an import line, as a reader writes it)
    with pytest.raises(AttributeError) as asked:
        getattr(agentgraph, name)
    assert (str(imported.value), str(asked.value)) == (told, told)


def test_a_builder_that_is_not_here_yet_is_told_with_what_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        ImportError, match="are not here yet, and create_agent does their work: AgentExecutor is in lang"
    ):
        exec("from agentgraph import AgentExecutor", {})  # noqa: S102 (an import line, as a reader writes it)


@pytest.mark.parametrize("name", langchains.__all__)
def test_every_name_of_langchains_middleware_is_here(name: str) -> None:
    assert hasattr(middleware, name)


def test_no_name_is_both_here_and_elsewhere() -> None:
    assert {name for name, _ in LISTED} & set(agentgraph.__all__) == set()


@pytest.mark.parametrize("module", ["agentgraph", "agentgraph.middleware"])
def test_a_slip_is_an_ordinary_error(module: str) -> None:
    with pytest.raises(ImportError, match=f"cannot import name 'nonsense' from '{module}'"):
        exec(f"from {module} import nonsense", {})  # noqa: S102 (an import line, as a reader writes it)
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nonsense'$"):
        _ = importlib.import_module(module).nonsense
    assert getattr(importlib.import_module(module), "nonsense", 1) == 1
