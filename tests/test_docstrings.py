"""Every example in a docstring runs, and gives what it says."""

import contextlib
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgraph.models.registry import PROVIDERS
from agentgraph.testing import no_network

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Examples that show what no test can have, and why.
CANNOT_RUN = {
    "agentgraph.models.openai.ChatOpenAI": "it asks a server",
}


def modules() -> Iterator[str]:
    """Import names of all modules; those of the catalogue stand beside the package."""
    for top in ("agentgraph", "middleware"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[-1] != "__main__":
                whole = parts if top == "agentgraph" else ("agentgraph", *parts)
                yield ".".join(whole[:-1] if whole[-1] == "__init__" else whole)


def examples() -> Iterator[doctest.DocTest]:
    find = doctest.DocTestFinder(exclude_empty=True)
    for name in modules():
        yield from (found for found in find.find(importlib.import_module(name), name) if found.examples)


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.name not in CANNOT_RUN], ids=lambda one: one.name)
def test_an_example_gives_what_it_says(example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in {name for provider in PROVIDERS.values() for name in provider.key_variables}:
        monkeypatch.delenv(variable, raising=False)
    report: list[str] = []
    # The outer one of two guards refuses first, and the example looks at what its own refused.
    guard = contextlib.nullcontext() if example.name.endswith(".no_network") else no_network()
    with guard:
        doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    assert "".join(report) == ""


def test_every_exemption_is_of_an_example_that_exists() -> None:
    assert set(CANNOT_RUN) - {one.name for one in EXAMPLES} == set()


def test_the_front_doors_show_an_example() -> None:
    shown = {one.name for one in EXAMPLES}
    assert {"agentgraph", "agentgraph.agent.create_agent", "agentgraph.hooks.AgentMiddleware"} <= shown
