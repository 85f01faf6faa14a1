"""Imports point down only: the picture of the layers, as a table, held against every import statement."""

import ast
import functools
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# From the ways in down to the bottom. A room may import its own row and the rows below it.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__main__", "cli", "classic", "threads", "demo"}),
    frozenset({"agent"}),
    frozenset({"runs"}),
    frozenset({"graph"}),
    frozenset({"nodes", "edges", "protocols", "progress"}),
    frozenset(
        {
            "approvals",
            "composing",
            "decorators",
            "flows",
            "guards",
            "hooks",
            "pausing",
            "plan",
            "requests",
            "structured_output",
            "subagents",
            "tracing",
        }
    ),
    frozenset(
        {
            "bridge",
            "channels",
            "history",
            "messages",
            "models",
            "neighbours",
            "persistence",
            "rate_limiters",
            "state",
            "testing",
            "tools",
        }
    ),
    frozenset({"errors"}),
)
DEPTH = {room: depth for depth, layer in enumerate(LAYERS) for room in layer}
CONTRACT = 5  # the row from which on the catalogue may import


def name_of(path: Path) -> str:
    """The module's full name; the catalogue's under its import name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "agentgraph" else ("agentgraph", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Full names of all that is imported anywhere in the file, also in functions and under TYPE_CHECKING."""
    return tuple(read_imports(path))


def read_imports(path: Path) -> Iterator[str]:
    package = name_of(path).split(".") if path.stem == "__init__" else name_of(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room(name: str) -> str | None:
    """`hooks` of `agentgraph.hooks.AgentMiddleware`; None for what is not agentgraph's."""
    parts = name.split(".")
    return parts[1] if parts[0] == "agentgraph" and len(parts) > 1 else None


def rooms_imported_by(path: Path) -> set[str]:
    return {found for name in imports_of(path) if (found := room(name)) is not None}


CORE = sorted((ROOT / "agentgraph").rglob("*.py"))
CATALOGUE = sorted((ROOT / "middleware").rglob("*.py"))
ROOMS = [path for path in CORE if path != ROOT / "agentgraph" / "__init__.py"]


def identity(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", ROOMS, ids=identity)
def test_a_room_of_the_core_has_a_place_in_the_picture(path: Path) -> None:
    assert room(name_of(path)) in DEPTH


@pytest.mark.parametrize("path", ROOMS, ids=identity)
def test_imports_point_down_only(path: Path) -> None:
    depth = DEPTH.get(str(room(name_of(path))), 0)
    assert {found for found in rooms_imported_by(path) if DEPTH.get(found, 0) < depth} == set()


@pytest.mark.parametrize("path", CORE, ids=identity)
def test_the_core_does_not_know_the_catalogue(path: Path) -> None:
    assert "middleware" not in rooms_imported_by(path)


@pytest.mark.parametrize("path", CATALOGUE, ids=identity)
def test_the_catalogue_stands_on_the_contract_and_the_words_alone(path: Path) -> None:
    allowed = {found for found, depth in DEPTH.items() if depth >= CONTRACT} | {"middleware"}
    assert rooms_imported_by(path) - allowed == set()


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {found: set() for found in DEPTH}
    for path in ROOMS:
        here = str(room(name_of(path)))
        graph.setdefault(here, set()).update(rooms_imported_by(path) - {here})
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("path", [*CORE, *CATALOGUE], ids=identity)
def test_the_transport_is_the_only_user_of_the_http_library(path: Path) -> None:
    libraries = {name.split(".")[0] for name in imports_of(path)} & {"httpx", "httpx2", "requests", "aiohttp"}
    assert libraries == ({"httpx"} if name_of(path) == "agentgraph.models.transport" else set())


@pytest.mark.parametrize("path", [*CORE, *CATALOGUE], ids=identity)
def test_the_catalogues_folder_is_never_imported_by_its_bare_name(path: Path) -> None:
    assert "middleware" not in {name.split(".")[0] for name in imports_of(path)}
