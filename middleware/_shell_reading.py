"""Reading what a shell prints, from the start of one command to its end."""

import contextlib
import os
import select
import selectors
import subprocess
import threading
import time
from typing import Any, Literal

from agentgraph.errors import RunError

from ._shell_output import STDERR, Output, Stream

__all__ = ["LOOK", "Ended", "Reading", "ShellStartError", "descriptor"]

LOOK = 0.05
"""Seconds after which the end of the shell, or of the run, is noticed at the latest."""

Ended = Literal["done", "exited", "timeout", "cancelled"]

_QUIET = 0.3  # seconds for what is still in a pipe when the shell, or the other stream, has ended
_PIECE = 1 << 16


class ShellStartError(RunError):
    """The shell of a run did not start, or one of its startup commands failed."""


class Reading:
    """The streams of a shell from the start of one command to its end."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes] | None",
        output: Output,
        token: str,
        line: bytes,
        rests: tuple[bytes, bytes],
    ) -> None:
        if process is None:
            raise ShellStartError("There is no shell.")
        self._process = process
        self._line = line
        self._out, self._err = Stream(output, token), Stream(output, token, STDERR)
        self._quiet_since = time.monotonic()
        self._marked_at: float | None = None
        self._out.feed(rests[0])
        self._err.feed(rests[1])

    @property
    def status(self) -> int | None:
        return self._out.status

    @property
    def rests(self) -> tuple[bytes, bytes]:
        return self._out.rest, self._err.rest

    def wait(self, until: float, cancelled: threading.Event) -> Ended:
        """Write the line and read what comes, until the end of the command or of something else."""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor(self._process.stdin), selectors.EVENT_WRITE)
            for pipe, stream in ((self._process.stdout, self._out), (self._process.stderr, self._err)):
                selector.register(descriptor(pipe), selectors.EVENT_READ, stream)
            while (ended := self._ended(until, cancelled)) is None:
                self._step(selector)
        self._out.flush()
        self._err.flush()
        return ended

    def _ended(self, until: float, cancelled: threading.Event) -> Ended | None:
        now = time.monotonic()
        if None not in {self._out.status, self._err.status} or now - (self._marked_at or now) > _QUIET:
            return "done"
        if now - self._quiet_since > _QUIET and self._process.poll() is not None:
            return "exited"
        if cancelled.is_set():
            return "cancelled"
        return "timeout" if now >= until else None

    def _step(self, selector: selectors.BaseSelector) -> None:
        if not selector.get_map():
            # Both ends were closed, and the shell has not ended.
            select.select([], [], [], LOOK)
        for key, _ in selector.select(LOOK):
            if key.data is None:
                self._write(selector, key.fd)
            else:
                self._read(selector, key.fd, key.data)

    def _write(self, selector: selectors.BaseSelector, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                self._line = self._line[os.write(fd, self._line[:_PIECE]) :]
            except BrokenPipeError:
                self._line = b""
        if not self._line:
            selector.unregister(fd)

    def _read(self, selector: selectors.BaseSelector, fd: int, stream: Stream) -> None:
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return
        self._quiet_since = time.monotonic()
        stream.feed(data)
        if stream.status is not None:
            # What background jobs print now stays in the pipe for the next command, and slows them down.
            self._marked_at = self._marked_at or self._quiet_since
        elif data:
            return
        selector.unregister(fd)
        if not any(key.data for key in selector.get_map().values()):
            self._quiet_since = -_QUIET  # nothing more can come


def descriptor(pipe: Any) -> int:
    """The number of a pipe's descriptor; raises where the policy has made no pipe."""
    if pipe is None:
        raise ShellStartError("The policy has started a shell without pipes; expected were stdin, stdout and stderr.")
    number: int = pipe.fileno()
    return number
