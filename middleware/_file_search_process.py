"""Running a search in a process of its own, for a limited time and for no longer than the run that wants it."""

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agentgraph.pausing import pause

__all__ = ["Outcome", "is_possible", "searched"]

_FOLDER = str(Path(__file__).resolve().parent)
# The files are loaded as a package of their own, since loading the catalogue would take longer than most searches.
_START = (
    "import sys, types; package = types.ModuleType('search'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['search'] = package; from search._file_search_worker import main; main()"
)
_TICK = 0.05  # seconds after which it is seen that the run was cancelled
_GRACE = 5.0  # seconds to start and to end, besides the time for the search
_MOST_BYTES = 8_000_000
_READ = 65_536


@dataclass
class Outcome:
    """What a search found.

    Attributes:
        found: the files, each as the process that searched told of it.
        stopped: why not everything was searched or told: "time", "memory", "entries", "depth", "results", "text"; None
            where all was.
        total: how many files match, as far as is known.
        invalid: what is wrong with the regular expression.
        missing: whether there is nothing at the path.
        started: whether the search began at all.
    """

    found: list[dict[str, Any]] = field(default_factory=list)
    stopped: str | None = "time"
    total: int = 0
    invalid: str | None = None
    missing: bool = False
    started: bool = False

    def add(self, line: bytes) -> None:
        """Take in one line of what the process wrote."""
        event = json.loads(line)
        if "file" in event:
            self.found.append(event)
        elif "ready" in event:
            self.started = True
        else:
            for name, value in event.items():
                setattr(self, name, value)


def is_possible() -> bool:
    """Whether this system and this program can run such a search."""
    # The executable of a frozen program is no Python, and would start the program once more.
    return bool(sys.executable) and not getattr(sys, "frozen", False) and os.open in os.supports_dir_fd


def searched(request: Mapping[str, Any]) -> Outcome:
    """Search; the process and all that it started are ended in every case.

    Args:
        request: what `_file_search_worker.search` takes.

    Raises:
        asyncio.CancelledError: the run was cancelled meanwhile.
    """
    outcome = Outcome()
    with contextlib.suppress(OSError), _process() as process:
        rest, size = b"", 0
        for chunk in _written(process, json.dumps(request).encode(), request["seconds"] + _GRACE):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                outcome.add(line)
            size += len(chunk)
            if size > _MOST_BYTES:
                outcome.stopped = "text"
                break
    return outcome


@contextlib.contextmanager
def _process() -> Generator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-W", "ignore", "-c", _START, _FOLDER]
    process = subprocess.Popen(  # noqa: S603 (this very Python, with code of our own)
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )
    try:
        yield process
    finally:
        # Before it is waited for, as until then nobody else can get its number.
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)


def _written(process: "subprocess.Popen[bytes]", given: bytes, seconds: float) -> Generator[bytes]:
    """What the process writes when it was given a request, until it ends or the time is over."""
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(_pipe(process.stdin), selectors.EVENT_WRITE)
        selector.register(_pipe(process.stdout), selectors.EVENT_READ)
        while time.monotonic() < until:
            pause(0.0)
            for key, _ in selector.select(_TICK):
                if key.fileobj is process.stdin:
                    given = _rest_to_give(key.fd, given)
                    if not given:
                        selector.unregister(key.fileobj)
                        _pipe(process.stdin).close()
                elif chunk := os.read(key.fd, _READ):
                    yield chunk
                else:
                    return


def _rest_to_give(descriptor: int, given: bytes) -> bytes:
    try:
        # No more than a pipe takes at once when it takes anything, so that this never waits.
        return given[os.write(descriptor, given[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return b""


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise OSError("a process was started without a pipe")
    return stream
