"""Opening and walking the folders of the file search without following a link.

Every name is opened relative to the folder that is already open, and never through a link, so that nothing made or
moved between looking and opening can lead outside. Only the standard library is used.
"""

import contextlib
import os
import stat
import time
from collections.abc import Generator, Sequence
from typing import NamedTuple

from ._file_search_patterns import Glob

__all__ = ["Budget", "Found", "folder", "opened", "read", "walk"]

_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# Without O_NONBLOCK, opening a named pipe would wait for somebody to write.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Budget:
    """What one search may take; `stopped` says what ran out: "time", "entries", "depth" or "results".

    Args:
        seconds: the time, from now.
        entries: names of files and folders that may be looked at.
        depth: folders within folders.
        results: files, or lines, that are given.
    """

    # Not a dataclass: loading those takes a third of the time that the process needs to start.
    def __init__(self, *, seconds: float, entries: int, depth: int, results: int) -> None:
        self.until = time.monotonic() + seconds
        self.entries = entries
        self.depth = depth
        self.results = results
        self.stopped: str | None = None

    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.until - time.monotonic())

    def over(self) -> bool:
        """Whether the search has to end now. What only left something out (`stopped`) does not end it."""
        if time.monotonic() >= self.until:
            self.stopped = self.stopped or "time"
            return True
        return self.entries < 0 or self.results < 0

    def looked(self) -> bool:
        """Count one name; whether there is room for it."""
        self.entries -= 1
        if self.entries < 0:
            self.stopped = "entries"
        return not self.over()


class Found(NamedTuple):
    """A file that matches by name.

    Attributes:
        parent: the descriptor of its folder, open as long as the walk stands at it.
        parts: its path below the folder in which the walk began.
    """

    parent: int
    parts: tuple[str, ...]


def _below(name: str) -> str:
    """The name, if it can only lead down. The last guard, whatever was checked before."""
    if name in {"", ".", ".."} or "/" in name:
        raise FileNotFoundError(name)
    return name


@contextlib.contextmanager
def opened(parent: int | None, name: str) -> Generator[int]:
    """A folder, open; OSError where it is a link, none, or not allowed."""
    descriptor = os.open(name if parent is None else _below(name), _FOLDER, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def folder(root: int, parts: Sequence[str]) -> Generator[int]:
    """The folder at a path below an open one; OSError where any part of the path is a link or no folder."""
    with contextlib.ExitStack() as stack:
        at = root
        for part in parts:
            at = stack.enter_context(opened(at, part))
        yield at


def read(parent: int, name: str, most: int) -> bytes | None:
    """The bytes of an ordinary file.

    Args:
        parent: the descriptor of its folder.
        name: its name in there.
        most: bytes that it may have.

    Returns:
        None where it is longer, is a link or no ordinary file, or cannot be read.
    """
    try:
        descriptor = os.open(_below(name), _FILE, dir_fd=parent)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 (a descriptor, not a path)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            data = b""
            # It may grow while it is read, so the size alone says too little.
            while len(data) <= most and (more := file.read(most + 1 - len(data))):
                data += more
        except OSError:
            return None
    return data if len(data) <= most else None


def walk(at: int, glob: Glob, budget: Budget) -> Generator[Found]:
    """The files below a folder that match, in the order of their paths, part by part; links are left out.

    Args:
        at: the descriptor of the folder.
        glob: what their path below it has to match.
        budget: ends the walk early.
    """
    yield from _walk(at, glob, budget, (), glob.start)


def _walk(
    at: int, glob: Glob, budget: Budget, above: tuple[str, ...], places: frozenset[tuple[int, int]]
) -> Generator[Found]:
    for name, is_folder in _listed(at, budget):
        after = glob.step(places, name)
        if budget.over():
            return
        if not after:
            continue
        if not is_folder:
            if glob.accepts(after):
                yield Found(at, (*above, name))
        elif len(above) + 1 >= budget.depth:
            budget.stopped = "depth"
        else:
            # One that is gone, may not be read, or has become a link.
            with contextlib.suppress(OSError), opened(at, name) as below:
                yield from _walk(below, glob, budget, (*above, name), after)


def _listed(at: int, budget: Budget) -> list[tuple[str, bool]]:
    """The ordinary files (False) and folders (True) in a folder, sorted."""
    found = []
    with contextlib.suppress(OSError), os.scandir(at) as entries:
        for entry in entries:
            if not budget.looked():
                break
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    found.append((entry.name, True))
                elif entry.is_file(follow_symlinks=False):
                    found.append((entry.name, False))
    return sorted(found)
