"""What importing costs and drags in: each case in a fresh interpreter, since sys.modules remembers."""

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import agentgraph

HEAVY = ("langgraph", "langsmith", "langchain_core", "httpx", "pydantic")


def loaded_by(code: str) -> set[str]:
    """The top-level names in sys.modules after `code` ran."""
    program = f"{code}\nimport json, sys; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    return set(json.loads(done.stdout))


def modules_of(package: str) -> list[str]:
    root = Path(str(agentgraph.__file__)).parent
    return sorted(found.name for found in pkgutil.walk_packages([str(root)], f"{package}."))


def test_importing_agentgraph_loads_no_dependency() -> None:
    assert loaded_by("import agentgraph") & set(HEAVY) == set()


def test_importing_the_errors_loads_no_dependency() -> None:
    assert loaded_by("from agentgraph import errors") & set(HEAVY) == set()


def test_importing_the_command_line_loads_no_dependency() -> None:
    assert loaded_by("import agentgraph.cli") & {*HEAVY, "typer", "rich"} == set()


def test_importing_the_testing_kit_does_not_load_pytest() -> None:
    assert loaded_by("import agentgraph.testing") & {"pytest", "_pytest"} == set()


def test_importing_the_agent_does_not_load_a_wire_format_or_its_transport() -> None:
    code = "from agentgraph import create_agent\nimport sys\nassert 'agentgraph.models.openai' not in sys.modules"
    assert "agentgraph" in loaded_by(f"{code}\nassert 'agentgraph.models.transport' not in sys.modules")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process a module would be too slow without fork")
def test_every_module_can_be_the_first_one_imported() -> None:
    """Finds circular imports, which hide as long as another module happens to be imported before."""
    names = [name for name in modules_of("agentgraph") if "pytest_plugin" not in name and not name.endswith("__main__")]
    program = (
        "import importlib, os, sys\n"
        "import langgraph.graph, langgraph.prebuilt, langchain_core.language_models\n"
        "import httpx, jsonschema, rich.console, typer\n"
        f"for name in {names!r}:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try:\n"
        "            importlib.import_module(name)\n"
        "        except BaseException as error:\n"
        "            print(name, repr(error), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-P", "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    assert done.stdout == ""


def test_every_error_and_every_listed_name_is_reachable_from_the_top() -> None:
    from agentgraph import errors, structured_output  # noqa: PLC0415 - read only here

    raised = {name for module in (errors, structured_output) for name in module.__all__ if name.endswith("Error")}
    assert raised - {"SchemaMismatchError"} <= set(agentgraph.__all__)
    assert set(agentgraph.__all__) == set(agentgraph._WHERE)
    assert all(getattr(agentgraph, name) is not None for name in agentgraph.__all__)
