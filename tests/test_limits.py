"""The limits of size, names and exports, over the whole tree."""

import ast
import functools
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = sorted(path for top in ("agentgraph", "middleware") for path in (ROOT / top).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

FUNCTION_LINES = 40
LONGER_FUNCTIONS = {"create_agent": 60}
WIRE_FORMAT = re.compile(r"agentgraph/models/(\w+_codec|openai\w*)\.py")
VAGUE_FILES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}
VAGUE_CLASS = re.compile(r".*(Manager|Processor|Helper|Utils?)$")

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def identity(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def line_limit(path: Path) -> int:
    if WIRE_FORMAT.fullmatch(identity(path)):
        return 500
    entry = path.is_relative_to(ROOT / "middleware") and path.name != "__init__.py"  # which is a table of names
    return 300 if entry else 400


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions_in(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the end."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return int(function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def nesting(function: Function) -> int:
    """How deep functions are defined within functions: 0 for a flat one."""
    inner = [node for node in functions_in(function) if node is not function]
    return 1 + max(map(nesting, inner)) if inner else 0


def module_of(path: Path) -> ModuleType:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "agentgraph" else ("agentgraph", *parts)
    return importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def exported(path: Path) -> list[str]:
    """The module's `__all__`, which only a package that holds nothing but a docstring may do without."""
    module = module_of(path)
    is_empty = path.name == "__init__.py" and len(tree_of(path).body) == 1
    names: list[str] = getattr(module, "__all__", []) if is_empty else module.__all__
    return names


def is_documented(value: object) -> bool:
    """True for every value but a class or function of ours without a docstring of its own."""
    ours = getattr(value, "__module__", "").split(".")[0] == "agentgraph"
    if not ours or not (inspect.isclass(value) or inspect.isfunction(value)):
        return True
    return bool((value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__) or "")


@pytest.mark.parametrize("path", PRODUCT, ids=identity)
def test_a_file_of_the_product_fits_its_limit(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= line_limit(path)


@pytest.mark.parametrize("path", TESTS, ids=identity)
def test_a_test_file_fits_its_limit(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", PRODUCT, ids=identity)
def test_function_bodies_fit_a_screen(path: Path) -> None:
    sizes = {function.name: body_lines(function) for function in functions_in(tree_of(path))}
    assert {n: size for n, size in sizes.items() if size > LONGER_FUNCTIONS.get(n, FUNCTION_LINES)} == {}


@pytest.mark.parametrize("path", PRODUCT, ids=identity)
def test_functions_are_nested_at_most_one_level(path: Path) -> None:
    assert [function.name for function in functions_in(tree_of(path)) if nesting(function) > 1] == []


@pytest.mark.parametrize("path", [*PRODUCT, *TESTS], ids=identity)
def test_a_file_is_named_after_what_it_holds(path: Path) -> None:
    assert VAGUE_FILES.isdisjoint(path.stem.lower().split("_"))


@pytest.mark.parametrize("path", PRODUCT, ids=identity)
def test_a_class_is_named_with_a_noun_of_the_field(path: Path) -> None:
    classes = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    assert [name for name in classes if VAGUE_CLASS.fullmatch(name)] == []


@pytest.mark.parametrize("path", PRODUCT, ids=identity)
def test_exports_are_declared_once_and_exist(path: Path) -> None:
    names, module = exported(path), module_of(path)
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("path", PRODUCT, ids=identity)
def test_exported_names_are_documented(path: Path) -> None:
    module = module_of(path)
    assert module.__doc__
    assert [name for name in exported(path) if not is_documented(getattr(module, name))] == []


@pytest.mark.parametrize("path", [*PRODUCT, *TESTS], ids=identity)
def test_an_exemption_from_a_checker_names_its_code_and_reason(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    marks = [line for line in lines if re.search(r"#\s*(noqa|type:\s*ignore|pyright:\s*ignore|pragma:)", line)]
    reasoned = re.compile(r"#\s*(noqa: [A-Z0-9, ]+|(type|pyright): ignore\[[\w, -]+\]|pragma: no \w+)\W+\w+")
    assert [line.strip() for line in marks if not reasoned.search(line)] == []


def test_every_rule_that_is_switched_off_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ignored = tomllib.loads(text)["tool"]["ruff"]["lint"]["ignore"]
    assert [rule for rule in ignored if not re.search(rf'^\s*"{rule}",\s*# \w+', text, re.MULTILINE)] == []
