"""Other Python processes for tests: they say a line when they have done something, and go on when they are told."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 60
ROOT = Path(__file__).resolve().parents[2]


class Other:
    """A running program."""

    def __init__(self, code: str, *arguments: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and a test's own code
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def says(self) -> str:
        """The next line it prints; empty when it has ended without one."""
        alarm = threading.Timer(SECONDS, self._process.kill)
        alarm.start()
        try:
            return self._process.stdout.readline().strip()
        finally:
            alarm.cancel()

    def tell(self, line: str = "go on") -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        self._process.kill()
        self._process.wait(SECONDS)

    def end(self) -> int:
        """Wait for its end; its exit code."""
        self._process.stdin.close()
        try:
            return self._process.wait(SECONDS)
        finally:
            self.kill()
            self._process.stdout.close()


@contextmanager
def other_process(code: str, *arguments: str) -> Iterator[Other]:
    """Run Python code in another process, which does not outlive the block."""
    process = Other(code, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.end()
