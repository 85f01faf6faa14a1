"""The process that searches: it reads one request, writes what it finds line by line, and ends.

It is a process of its own because a regular expression that runs away cannot be stopped within one. It loads nothing
but the standard library and the files beside it, and ends by itself when its time is over.
"""

import contextlib
import json
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._file_search_patterns import Glob, shown
from ._file_search_ripgrep import candidates
from ._file_search_tree import Budget, Found, folder, opened, read, walk

__all__ = ["main", "search"]

Emit = Callable[[Mapping[str, Any]], None]

GRACE = 0.5  # seconds after which the process ends that did not stop by itself
_MEMORY = 1 << 30  # bytes, besides those for the largest file
_MEMORY_PER_BYTE = 20  # a line of text takes more as a string than in the file
_LONGEST_LINE = 500  # characters of a line that are given
_BUDGETS = ("seconds", "entries", "depth", "results")


def main() -> None:
    """Do the search that is asked for on the standard input."""
    request = json.loads(sys.stdin.buffer.read())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + GRACE)
    memory = _MEMORY + _MEMORY_PER_BYTE * request["most_bytes"]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    search(request, _written)


def _written(event: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(event).encode() + b"\n")
    sys.stdout.buffer.flush()


def search(request: Mapping[str, Any], emit: Emit) -> None:
    """Search, and tell of it.

    Args:
        request: `root`, `path` (its parts), `globs` (lists of parts), `regex` (None to find names), `output`, `rg`
            (the program, or None), `most_bytes` of a file, and the fields of a Budget.
        emit: takes first {"ready"}; then a {"file"} each, with "count" and "lines" where a content was searched; then
            {"stopped", "total"}, or instead {"invalid"} or {"missing"}.
    """
    emit({"ready": True})
    budget = Budget(**{name: request[name] for name in _BUDGETS})
    try:
        regex = None if request["regex"] is None else re.compile(request["regex"])
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        emit({"invalid": shown(str(error))[:200] or type(error).__name__})
        return
    try:
        with opened(None, request["root"]) as root:
            total = _names(request, root, budget, emit) if regex is None else _grep(request, root, regex, budget, emit)
    except OSError:
        emit({"missing": True})
        return
    except MemoryError:
        emit({"stopped": "memory"})
        return
    emit({"stopped": budget.stopped, "total": total})


def _virtual(parts: Iterable[str]) -> str:
    return shown("/" + "/".join(parts))


def _names(request: Mapping[str, Any], root: int, budget: Budget, emit: Emit) -> int:
    """The newest files whose names match, the newest first; returns how many match."""
    found = []
    with folder(root, request["path"]) as at:
        for file in walk(at, Glob(request["globs"]), budget):
            with contextlib.suppress(OSError):
                changed = os.stat(file.parts[-1], dir_fd=file.parent, follow_symlinks=False).st_mtime_ns
                found.append((-changed, _virtual((*request["path"], *file.parts))))
    for _, name in sorted(found)[: budget.results]:
        emit({"file": name})
    return len(found)


def _grep(request: Mapping[str, Any], root: int, regex: re.Pattern[str], budget: Budget, emit: Emit) -> int:
    """The files in which a line matches; returns how many."""
    total = 0
    for file in _files(request, root, budget):
        if budget.over():
            break
        data = read(file.parent, file.parts[-1], request["most_bytes"])
        if data is None or b"\0" in data:
            continue
        matched = _matched(data, regex, first=request["output"] == "files_with_matches")
        if matched:
            total += 1
            _tell(request, file, matched, budget, emit)
    return total


def _tell(request: Mapping[str, Any], file: Found, matched: list[tuple[int, str]], budget: Budget, emit: Emit) -> None:
    lines = matched[: budget.results] if request["output"] == "content" else []
    left_out = len(matched) - len(lines) if lines else 0
    budget.results -= len(lines) or 1
    if left_out or budget.results < 0:
        budget.stopped, budget.results = "results", -1
    if lines or budget.results >= 0:
        told = [[at, _cut(one)] for at, one in lines]
        emit({"file": _virtual(file.parts), "count": len(matched), "lines": told})


def _cut(line: str) -> str:
    return shown(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ...")


def _matched(data: bytes, regex: re.Pattern[str], *, first: bool) -> list[tuple[int, str]]:
    """The lines that match, by their numbers."""
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    found = []
    for number, line in enumerate(lines, 1):
        text = line.removesuffix("\r")
        if regex.search(text):
            found.append((number, text))
            if first:
                break
    return found


def _files(request: Mapping[str, Any], root: int, budget: Budget) -> Iterator[Found]:
    """The files to look into, with their paths below the root; a path may lead to a single one as well."""
    path = tuple(request["path"])
    try:
        with folder(root, path) as at:
            for file in _below(request, at, budget):
                yield Found(file.parent, (*path, *file.parts))
            return
    except NotADirectoryError:
        if not path:
            raise
    with folder(root, path[:-1]) as at:
        if not stat.S_ISREG(os.stat(path[-1], dir_fd=at, follow_symlinks=False).st_mode):
            raise NotADirectoryError(path[-1])
        yield Found(at, path)


def _below(request: Mapping[str, Any], at: int, budget: Budget) -> Iterator[Found]:
    glob = Glob(request["globs"])
    listed = None
    if request["rg"] is not None:
        listed = candidates(request["rg"], request["regex"], at, budget, hidden=glob.names_hidden)
    if listed is None:
        yield from walk(at, glob, budget)
        return
    for parts in listed:
        if len(parts) > budget.depth:
            budget.stopped = budget.stopped or "depth"
        elif glob.matches(parts):
            # One that is gone meanwhile, or lies behind what has become a link.
            with contextlib.suppress(OSError), folder(at, parts[:-1]) as parent:
                yield Found(parent, parts)
