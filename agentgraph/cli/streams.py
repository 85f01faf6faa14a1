"""The process's three streams: there is always one to write to, and no print of others gets into an answer.

Tools, middleware and modules print what they like. Where programs read the answer, that goes to standard error.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

__all__ = ["drop_output", "own_output", "prepare_streams"]

STDOUT, STDERR = 1, 2


def prepare_streams() -> None:
    """Make the standard streams safe to use: whatever their encoding, and also where the caller closed them."""
    # A descriptor that is closed at the start is None here. Nobody can read or write there, which is no reason to fail.
    sys.stdin = sys.stdin or _nothing()
    sys.stdout = sys.stdout or _nothing()
    sys.stderr = sys.stderr or _nothing()
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _nothing() -> TextIO:
    return open(os.devnull, "r+", encoding="utf-8")  # noqa: PTH123  for the whole process


@contextlib.contextmanager
def own_output() -> Iterator[TextIO]:
    """Standard output for the command alone; what is printed meanwhile, also by child processes, goes to stderr.

    Yields:
        The stream to write to.
    """
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        if _is_descriptor(out, STDOUT) and _is_descriptor(sys.stderr, STDERR):
            with _own_descriptor(out) as ours:
                yield ours
        else:
            yield out


@contextlib.contextmanager
def _own_descriptor(out: TextIO) -> Iterator[TextIO]:
    out.flush()
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    ours = open(kept, "w", encoding=out.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115  closed below
    try:
        yield ours
    finally:
        # Each event was flushed when it was written; what could not be written then has been told.
        with contextlib.suppress(OSError):
            ours.close()
        os.dup2(kept, STDOUT)
        os.close(kept)


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):
        return False


def drop_output() -> None:
    """Let what could not be written go, so that the end of the process does not fail at it once more."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
