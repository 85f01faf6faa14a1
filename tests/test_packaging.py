"""The wheel holds what pyproject.toml promises, and the middleware folder has one name."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = ("agentgraph", "middleware")


def run_python(code: str, cwd: Path, **environment: str) -> str:
    """The output of `code` in a fresh interpreter that does not look for packages in its working directory."""
    done = subprocess.run(  # noqa: S603  the code is this file's own
        [sys.executable, "-P", "-c", code],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, so that neither stale build folders count nor new ones are left behind."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy / file)
    code = "import setuptools.build_meta, sys; print(setuptools.build_meta.build_wheel('dist'))"
    name = run_python(code, copy).splitlines()[-1]
    return copy / "dist" / name


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_package_is_listed() -> None:
    found = {init.parent.relative_to(ROOT).parts for top in SOURCES for init in (ROOT / top).rglob("__init__.py")}
    names = {".".join(parts if parts[0] == "agentgraph" else ("agentgraph", *parts)) for parts in found}
    listed = PYPROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(names)


def test_every_module_is_inside_a_package() -> None:
    folders = {module.parent for top in SOURCES for module in (ROOT / top).rglob("*.py")}
    assert {folder for folder in folders if not (folder / "__init__.py").is_file()} == set()


def test_nothing_in_the_core_takes_the_middleware_folders_name() -> None:
    assert not (ROOT / "agentgraph" / "middleware.py").exists()
    assert not (ROOT / "agentgraph" / "middleware").exists()


def test_the_middleware_folder_is_imported_under_one_name() -> None:
    code = (
        "import importlib, pkgutil, sys\n"
        "import agentgraph.middleware as catalogue\n"
        "for found in pkgutil.walk_packages(catalogue.__path__, catalogue.__name__ + '.'):\n"
        "    importlib.import_module(found.name)\n"
        "print('middleware' in sys.modules)"
    )
    assert run_python(code, ROOT) == "False"


def test_the_wheel_holds_the_catalogue_and_the_typing_marker(wheel: Path) -> None:
    assert {"agentgraph/__init__.py", "agentgraph/middleware/__init__.py", "agentgraph/py.typed"} <= files_of(wheel)


def test_the_wheel_holds_every_module_of_the_checkout(wheel: Path) -> None:
    modules = {path.relative_to(ROOT).as_posix() for top in SOURCES for path in (ROOT / top).rglob("*.py")}
    expected = {f"agentgraph/{name}" if name.startswith("middleware/") else name for name in modules}
    assert {name for name in files_of(wheel) if name.endswith(".py")} == expected


def test_the_wheel_installs_nothing_beside_agentgraph(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in files_of(wheel)}
    assert tops == {"agentgraph", f"agentgraph_runtime-{PYPROJECT['project']['version']}.dist-info"}


def test_the_signpost_stub_stays_in_the_checkout(wheel: Path) -> None:
    assert "agentgraph/middleware.pyi" not in files_of(wheel)


def test_the_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import agentgraph.middleware as m, os; print(os.path.dirname(m.__file__))"
    where = run_python(code, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert Path(where) == tmp_path / "site" / "agentgraph" / "middleware"


def test_the_command_points_at_a_real_function() -> None:
    (target,) = PYPROJECT["project"]["scripts"].values()
    module, function = target.split(":")
    assert run_python(f"import {module} as m; print(callable(m.{function}))", ROOT) == "True"
