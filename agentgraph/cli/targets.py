"""From words of the command line to objects: `module:agent`, `path/to/file.py:agent`, lists of tools."""

import asyncio
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agentgraph.cli.exits import CommandError, ExitCode
from agentgraph.cli.streams import own_output

__all__ = ["Graph", "load_agent", "load_object", "load_tools", "search_working_directory"]

Graph = Pregel[Any, Any, Any, Any]
SHOWN_NAMES = 8


def search_working_directory() -> None:
    """Make modules of the working directory importable, before all others, as `python` itself does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def load_agent(target: str, runner: asyncio.Runner) -> Graph:
    """The compiled graph that `target` names.

    Args:
        target: `module:name` or `path/to/file.py:name`, of a compiled graph or of a function without parameters
            (async or not) that returns one.
        runner: the loop on which an async function runs, the one that the agent will later run on.

    Returns:
        The compiled graph.

    Raises:
        CommandError: the target cannot be found (code 2), is something else (2), or raised (1).
    """
    found = load_object(target)
    if callable(found) and not isinstance(found, Pregel | StateGraph | type):
        with own_output():
            found = _call_factory(found, target, runner)
    if isinstance(found, StateGraph):
        raise CommandError(f"{target!r} is a StateGraph that is not compiled; name the result of its .compile()")
    if not isinstance(found, Pregel):
        expected = "a compiled graph (create_agent returns one) or a function without parameters that returns one"
        raise CommandError(f"{target!r} is of type {type(found).__name__}; expected {expected}")
    return found


def load_tools(targets: str) -> list[Any]:
    """The tools that a comma-separated list of `module:name` names; a name may hold a list of tools itself."""
    tools: list[Any] = []
    for target in filter(None, (part.strip() for part in targets.split(","))):
        found = load_object(target, kind="tools", is_one=_is_tool)
        if isinstance(found, BaseTool | dict) or callable(found):
            tools.append(found)
        elif isinstance(found, list | tuple):
            tools.extend(found)
        else:
            kinds = "a tool, a function, or a list of these"
            raise CommandError(f"{target!r} is of type {type(found).__name__}; expected {kinds}")
    return tools


def _is_graph(found: Any, _: Any) -> bool:
    return isinstance(found, Pregel)


def _is_tool(found: Any, holder: Any) -> bool:
    """A tool, a list of tools, or a function of the holder's own: what it imported is no tool of the user's."""
    if isinstance(found, list | tuple):
        return bool(found) and all(_is_tool(one, holder) for one in found)
    own = inspect.isfunction(found) and found.__module__ == getattr(holder, "__name__", None)
    return own or isinstance(found, BaseTool)


def load_object(target: str, *, kind: str = "graphs", is_one: Callable[[Any, Any], bool] = _is_graph) -> Any:
    """The object that `module:name`, `module:object.attribute` or `path/to/file.py:name` stands for.

    Args:
        target: its name.
        kind: what is wanted, for the list of those that there are where there is none of that name.
        is_one: whether an object, found in a holder, is one of the kind.

    Raises:
        CommandError: the target cannot be found (code 2), or its module raised (1).
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise CommandError(f"{target!r} does not name an object; write module:name or path/to/file.py:name")
    with own_output():
        found: Any = _load_module(place)
    for attribute in name.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            raise CommandError(f"{place!r} has no {name!r}{_nearest(attribute, found, kind, is_one)}") from None
    return found


def _load_module(place: str) -> ModuleType:
    if place.endswith(".py") or os.sep in place:
        return _load_file(Path(place))
    if place.startswith("."):
        raise CommandError(f"{place!r} is a relative name; write the module's whole name, or path/to/file.py:name")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise CommandError(f"importing {place!r} failed: {_described(error)}", ExitCode.FAILED) from error
        near = _suggestion(place, (path.stem for path in Path.cwd().glob("*.py")))
        raise CommandError(f"there is no module {place!r}, nor in {str(Path.cwd())!r}{near}") from error
    except (Exception, SystemExit) as error:  # whatever a module raises while it is imported
        raise CommandError(f"importing {place!r} failed: {_described(error)}", ExitCode.FAILED) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        near = _suggestion(path.name, (other.name for other in path.parent.glob("*.py")))
        raise CommandError(f"there is no file {str(path)!r}{near}")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{str(path)!r} is not a Python file; expected a name that ends with .py")
    module = importlib.util.module_from_spec(spec)
    # Pickling and annotations look a module up by its name.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a module raises while it is imported
        raise CommandError(f"importing {str(path)!r} failed: {_described(error)}", ExitCode.FAILED) from error
    return module


def _call_factory(factory: Any, target: str, runner: asyncio.Runner) -> Any:
    needed = [
        name
        for name, parameter in _parameters(factory).items()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if needed:
        raise CommandError(
            f"{target!r} needs {', '.join(needed)}; expected a function without parameters that returns a graph"
        )
    try:
        made = factory()
        return runner.run(_awaited(made)) if inspect.isawaitable(made) else made
    except (Exception, SystemExit) as error:
        raise CommandError(f"calling {target!r} failed: {_described(error)}", ExitCode.FAILED) from error


def _parameters(factory: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        return {}


async def _awaited(made: Any) -> Any:
    return await made


def _described(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen ")]
    # A SyntaxError names its place itself; the frames are those that read the file.
    is_told = isinstance(error, SyntaxError) or not frames
    place = "" if is_told else f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return f"{type(error).__name__}: {error}{place}"


def _nearest(name: str, holder: Any, kind: str, is_one: Callable[[Any, Any], bool]) -> str:
    public = [other for other in dir(holder) if not other.startswith("_")]
    known = [other for other in public if is_one(getattr(holder, other, None), holder)]
    listed = f"; {kind} there: {', '.join(known[:SHOWN_NAMES])}" if known else ""
    # A graph may come from any function; what is no tool is no help where a tool is wanted.
    return _suggestion(name, public if is_one is _is_graph else known) or listed


def _suggestion(name: str, others: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(set(others)), n=3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
