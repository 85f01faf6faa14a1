"""The one door to the catalogue: each entry is loaded when it is asked for, and checkers see the same names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentgraph.middleware as door

ENTRIES = door._ENTRIES


def loaded_by(code: str) -> set[str]:
    """The catalogue's own modules that `code` loads in a fresh interpreter."""
    program = f"{code}\nimport sys; print(*(m for m in sys.modules if m.startswith('agentgraph.middleware.')))"
    done = subprocess.run(  # noqa: S603 - the code is this file's own
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return {name.rpartition(".")[2] for name in done.stdout.split()}


def imported_for_checkers() -> dict[str, tuple[str, ...]]:
    tree = ast.parse(Path(str(door.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {str(node.module): tuple(alias.name for alias in node.names) for node in imports}


def test_importing_the_door_loads_no_entry() -> None:
    assert loaded_by("import agentgraph.middleware") == set()


def test_an_entry_loads_only_what_it_stands_on() -> None:
    assert loaded_by("from agentgraph.middleware import ToolRetryMiddleware") == {"tool_retry", "_retrying"}


def test_checkers_and_the_running_program_see_the_same_entries() -> None:
    assert imported_for_checkers() == ENTRIES


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in ENTRIES.items() for name in names])
def test_every_entry_is_public_and_lies_where_the_table_says(module: str, name: str) -> None:
    assert name in door.__all__
    assert name in dir(door)
    value = getattr(door, name)
    assert value is getattr(door, name)


def test_a_star_import_brings_every_name() -> None:
    space: dict[str, object] = {}
    exec("from agentgraph.middleware import *", space)  # noqa: S102 - the statement is what is tested
    assert set(door.__all__) <= set(space)


def test_a_name_that_is_nowhere_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = door.Nothing
