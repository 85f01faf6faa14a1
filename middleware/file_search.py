"""Searching the files of a folder: by their names, and by what stands in them."""

import math
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from langchain_core.tools import StructuredTool
from langgraph.typing import ContextT
from pydantic import Field

from agentgraph import bridge
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.state import ResponseT, StateT

from ._file_search_patterns import ANY_DEPTH, alternatives, components
from ._file_search_process import Outcome, is_possible, searched

__all__ = ["FilesystemFileSearchMiddleware"]

GLOB_SEARCH_DESCRIPTION = """\
Find files by their names. Gives their paths, one a line, the ones changed last first.

The pattern is relative to `path`: `*` and `?` stand for characters of a name, `[ab]` for one of some, `{a,b}` for one \
of several texts, and `**` for any number of folders, so `*.py` finds files in the folder itself and `**/*.py` also \
those below it. Names that begin with a dot are found only by a part that does so too (`.github/**`). Links are not \
followed."""
"""What the model reads about `glob_search`."""

GREP_SEARCH_DESCRIPTION = """\
Find files by what stands in them. The pattern is a regular expression as Python has them; it is matched in one line \
at a time, so it cannot span lines.

`output_mode` says what is given: `files_with_matches` the paths, `content` the matching lines as path:number:line, \
`count` the number of matching lines as path:number. Not looked into are binary and very large files, links, and names \
that begin with a dot, unless `path` or `include` names them (`include=".env*"`)."""
"""What the model reads about `grep_search`."""

OutputMode: TypeAlias = Literal["files_with_matches", "content", "count"]
_Glob: TypeAlias = Annotated[str, Field(description="The glob pattern, such as **/*.py or src/**/*.{ts,tsx}.")]
_Regex: TypeAlias = Annotated[str, Field(description="The regular expression.")]
_Path: TypeAlias = Annotated[str, Field(description='Where to search. "/" is the top of what can be searched.')]
_Include: TypeAlias = Annotated[
    str | None,
    Field(description="Only files whose names match this glob, such as *.{ts,tsx}. With a slash: whose paths do."),
]
_Mode: TypeAlias = Annotated[OutputMode, Field(description="What is given.")]

_MOST_ENTRIES = 500_000  # names of files and folders that one search looks at
_MOST_RESULTS = 1_000  # files, or lines
_MOST_DEPTH = 100  # folders within folders
_MOST_CHARACTERS = 50_000  # of a result
_LONGEST_REGEX = 1_000  # characters

_STOPPED = {
    "time": "The search was stopped after {seconds:g} seconds, so there may be more. Search in a smaller folder, or "
    "with a simpler pattern.",
    "memory": "The search was stopped as it took too much memory, so there may be more. Search in a smaller folder, or "
    "with a simpler pattern.",
    "entries": f"The search was stopped after {_MOST_ENTRIES} files and folders, so there may be more. Search in a "
    "smaller folder.",
    "depth": f"Folders more than {_MOST_DEPTH} deep were left out. Search in one that lies deeper.",
    "results": "There are more; these are the first found. Use a narrower pattern or a smaller folder.",
    "text": "There are more; the rest is left out as too long. Use a narrower pattern or a smaller folder.",
}


class FilesystemFileSearchMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Gives the model two tools, `glob_search` and `grep_search`, that search the files below one folder.

    The folder is "/" to the model, and paths in results are given from there. Nothing outside can be reached: each part
    of a path is opened within the folder before it and never through a link, and links are not listed either, wherever
    they lead. Two things it cannot know: whether a file is a hard link, or a folder a mount, of something outside.

    A search runs in a process of its own, as a regular expression that runs away cannot be stopped otherwise. The
    process ends with the time limit or with the run, whichever is first; what was found until the limit is given. With
    ripgrep, files that cannot match are left out sooner; the results are the same, also which files are hidden, binary
    (a NUL byte) or too large. Text is read as UTF-8, a wrong byte as a mark of its own. Files that version control
    ignores are searched like others.

    At most 1,000 files or lines, 500 characters of a line and 50,000 in all are given, and 500,000 names looked at; the
    result says what was left out. Names and lines are shown on one line each, control characters as escapes. What is
    wrong with an argument is told to the model.

    It has no hooks, adds nothing to the state or the stream, makes no model calls and takes no step of the graph; each
    search is a tool call, and so a turn of the model, and starts a process (some 50 ms, 150 on a busy machine).

    Args:
        root_path: the folder that can be searched; it must exist. A link is resolved when this object is made.
        use_ripgrep: whether to use `rg`, where it is installed. A program below `root_path` is not used.
        max_file_size_mb: files above this size, in megabytes of 1,048,576 bytes, are not looked into.
        time_limit: seconds that one search may take.

    Raises:
        ConfigurationError: an argument cannot work, or this system cannot open files relative to a folder (Windows) or
            has no Python to start (a frozen program).

    Example:
        >>> import tempfile, pathlib
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> root = tempfile.mkdtemp()
        >>> _ = pathlib.Path(root, "notes.md").write_text("buy milk")
        >>> model = ScriptedModel(tool_call("grep_search", pattern="milk", output_mode="content"), "Milk.")
        >>> agent = create_agent(model, middleware=[FilesystemFileSearchMiddleware(root_path=root)])
        >>> agent.invoke({"messages": "What must I buy?"})["messages"][2].text
        '/notes.md:1:buy milk'
    """

    def __init__(
        self,
        *,
        root_path: str | os.PathLike[str],
        use_ripgrep: bool = True,
        max_file_size_mb: float = 10,
        time_limit: float = 10.0,
    ) -> None:
        super().__init__()
        if not is_possible():
            raise ConfigurationError(
                "FilesystemFileSearchMiddleware cannot work here: it needs a system that opens files relative to a "
                "folder, as all but Windows do, and a Python of its own to start, which a frozen program has not."
            )
        self.root_path = _root(root_path)
        self.use_ripgrep = use_ripgrep
        self.max_file_size_bytes = int(_positive("max_file_size_mb", max_file_size_mb) * 1024 * 1024)
        self.time_limit = _positive("time_limit", time_limit)
        self._rg = _ripgrep(self.root_path) if use_ripgrep else None
        self.glob_search = StructuredTool.from_function(
            self._glob, self._aglob, name="glob_search", description=GLOB_SEARCH_DESCRIPTION
        )
        self.grep_search = StructuredTool.from_function(
            self._grep, self._agrep, name="grep_search", description=GREP_SEARCH_DESCRIPTION
        )
        self.tools = [self.glob_search, self.grep_search]

    def _glob(self, pattern: _Glob, path: _Path = "/") -> str:
        """Find files by their names."""
        nothing = "No files found"
        try:
            at, globs = components(path, "path"), alternatives(pattern)
        except ValueError as error:
            return f"{nothing}: {error}."
        outcome = searched(self._request(path=at, globs=globs))
        problem = _problem(outcome, nothing, path)
        if problem:
            return problem
        names = [one["file"] for one in outcome.found]
        if outcome.stopped in {None, "depth"} and outcome.total > len(names):
            outcome.stopped = "results"
        return self._told(names, nothing, outcome)

    def _grep(
        self, pattern: _Regex, path: _Path = "/", include: _Include = None, output_mode: _Mode = "files_with_matches"
    ) -> str:
        """Find files by what stands in them."""
        nothing = "No matches found"
        if len(pattern) > _LONGEST_REGEX:
            return f"Invalid regex pattern: it has {len(pattern)} characters; the most are {_LONGEST_REGEX}"
        try:
            at = components(path, "path")
        except ValueError as error:
            return f"{nothing}: {error}."
        try:
            globs = _globs_of(include)
        except ValueError as error:
            return f"Invalid include pattern: {error}"
        outcome = searched(self._request(path=at, globs=globs, regex=pattern, output=output_mode, rg=self._rg))
        if outcome.invalid is not None:
            return f"Invalid regex pattern: {outcome.invalid}"
        return _problem(outcome, nothing, path) or self._told(_lines(outcome, output_mode), nothing, outcome)

    # Async twins of their own, since a run that is cancelled waits for the sync tools that it has in threads.
    async def _aglob(self, pattern: _Glob, path: _Path = "/") -> str:
        return await bridge.run_blocking(self._glob, pattern, path)

    async def _agrep(
        self, pattern: _Regex, path: _Path = "/", include: _Include = None, output_mode: _Mode = "files_with_matches"
    ) -> str:
        return await bridge.run_blocking(self._grep, pattern, path, include, output_mode)

    def _request(self, **given: Any) -> dict[str, Any]:
        bounds = {"entries": _MOST_ENTRIES, "depth": _MOST_DEPTH, "results": _MOST_RESULTS}
        sizes = {"seconds": self.time_limit, "most_bytes": self.max_file_size_bytes}
        return {"root": str(self.root_path), "regex": None, "output": None, "rg": None, **bounds, **sizes, **given}

    def _told(self, lines: list[str], nothing: str, outcome: Outcome) -> str:
        """The lines, as many as there is room for, and what was left out."""
        kept, room = [], _MOST_CHARACTERS
        for line in lines:
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line)
        stopped = outcome.stopped if len(kept) == len(lines) else "text"
        note = [] if stopped is None else [f"[{_STOPPED[stopped].format(seconds=self.time_limit)}]"]
        return "\n".join([*(kept or [nothing]), *note])


def _problem(outcome: Outcome, nothing: str, path: str) -> str | None:
    if not outcome.started:
        return f"{nothing}: the search could not be started. It may succeed later."
    if outcome.missing:
        return f"{nothing}: there is nothing at {path[:200]!r} that can be searched. Links are not followed."
    return None


def _lines(outcome: Outcome, mode: OutputMode) -> list[str]:
    found = sorted(outcome.found, key=lambda one: str(one["file"]))
    if mode == "content":
        return [f"{one['file']}:{number}:{line}" for one in found for number, line in one["lines"]]
    if mode == "count":
        return [f"{one['file']}:{one['count']}" for one in found]
    return [one["file"] for one in found]


def _globs_of(include: str | None) -> list[list[str]]:
    """The patterns of the paths that are looked into; one without a slash is for names at any depth."""
    if include is None:
        return [[ANY_DEPTH]]
    return [[ANY_DEPTH, *parts] if len(parts) == 1 else parts for parts in alternatives(include, "include")]


def _positive(name: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigurationTypeError(f"{name} is {repr(given)[:200]}; expected was a number.")
    if not 0 < given < math.inf:
        raise ConfigurationError(f"{name} is {given!r}; expected was a positive, finite number.")
    return given


def _root(given: object) -> Path:
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise ConfigurationTypeError(f"root_path is {repr(given)[:200]}; expected was the path of a folder.")
    try:
        root = Path(given).resolve(strict=True) if os.fspath(given) else None
    except (OSError, ValueError, RuntimeError):
        root = None
    if root is None or not root.is_dir():
        raise ConfigurationError(f"root_path is {str(given)[:200]!r}; expected was the path of a folder that exists.")
    return root


def _ripgrep(root: Path) -> str | None:
    """The program, where it is installed; not one that lies where an agent may have put it."""
    found = shutil.which("rg")
    if found is None or not Path(found).is_absolute():
        return None
    places: Iterable[Path] = (Path(found), Path(found).resolve())
    return None if any(place.is_relative_to(root) for place in places) else found
