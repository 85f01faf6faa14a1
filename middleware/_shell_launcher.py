"""Stands over one shell and ends, with it, everything that it started. Run as a script, with nothing but the stdlib.

A command can start processes that leave its process group, its session and its parent. On Linux they still come back
to this process, which is their reaper (`PR_SET_CHILD_SUBREAPER`), so that it finds them all. It ends when the shell
has ended, when it is told to (SIGTERM), or when the other end of its standard input is gone: that is closed by the
system also where the agent was killed in a way that nothing can be done about any more.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

__all__: list[str] = []  # a script

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_LAST_SECONDS = 5.0  # what is still there then (a process of another user) cannot be ended by this one
_FINALLY_SECONDS = 10.0
_CANNOT_START = 127


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _parents() -> dict[int, int]:
    """Of all processes, which is whose child; empty where the system does not tell."""
    found: dict[int, int] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes twice as long to import
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - the same
                    # The name of a program may have spaces and brackets, so the fields are counted from its end.
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    return found


def _below(root: int) -> list[int]:
    """The processes that came from this one, the nearest first."""
    parents = _parents()
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    found, rest = [], list(children.get(root, ()))
    while rest:
        one = rest.pop(0)
        found.append(one)
        rest += children.get(one, ())
    return found


class _Launcher:
    """One shell, and what has to be done at its end."""

    def __init__(self, spec: dict[str, Any], command: list[str]) -> None:
        self._spec = spec
        self._command = command
        self._shell = 0
        self._status: int | None = None
        self._told = False

    def run(self) -> int:
        """Start the shell, wait for an end, end all; the exit code of the shell."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._tell)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _prctl(_SET_CHILD_SUBREAPER, 1)
        self._shell = os.fork()
        if not self._shell:
            self._become_shell()
        self._let_go()
        self._watch(wake)
        self._end_all()
        self._finally()
        return 128 + signal.SIGKILL if self._status is None else self._status

    def _tell(self, *_: object) -> None:
        self._told = True

    def _become_shell(self) -> None:
        try:
            _prctl(_SET_PDEATHSIG, signal.SIGKILL)
            if self._spec["group"]:
                os.setsid()
            signal.set_wakeup_fd(-1)
            for one in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(one, signal.SIG_DFL)
            for name, value in self._spec["limits"].items():
                resource.setrlimit(getattr(resource, name), (value, value))
            if not self._spec["ctype"]:
                # Python puts it there itself, where the environment has no locale.
                os.environ.pop("LC_CTYPE", None)
            os.execvp(self._command[0], self._command)  # noqa: S606 - without a shell of its own is the point
        except (OSError, ValueError) as error:
            os.write(2, f"{self._command[0]}: {error}\n".encode())
        finally:
            os._exit(_CANNOT_START)

    @staticmethod
    def _let_go() -> None:
        """Keep no end of the output open: its reader sees the end of it when the others are gone."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)

    def _watch(self, wake: int) -> None:
        poll = select.poll()
        poll.register(0, 0)  # no events but the hang-up, which says that nobody can write any more
        poll.register(wake, select.POLLIN)
        while self._status is None and not self._told:
            if any(found == 0 for found, _ in poll.poll()):
                # An idle shell sees the same end, and ends by itself.
                return
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 512)
            self._reap()

    def _reap(self) -> bool:
        """Take note of those that ended; whether there may be others."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                if pid == self._shell:
                    code = os.waitstatus_to_exitcode(status)
                    self._status = code if code >= 0 else 128 - code
        return False

    def _end_all(self) -> None:
        if not self._told:
            self._send(signal.SIGTERM)
            self._send(signal.SIGCONT)
            until = time.monotonic() + self._spec["grace"]
            while self._reap() and not self._told and time.monotonic() < until:
                time.sleep(0.01)
        until = time.monotonic() + _LAST_SECONDS
        while self._reap() and time.monotonic() < until:
            self._send(signal.SIGKILL)
            time.sleep(0.005)

    def _send(self, number: signal.Signals) -> None:
        found = _below(os.getpid())
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        if not found and self._spec["group"]:
            with contextlib.suppress(OSError):
                os.killpg(self._shell, number)

    def _finally(self) -> None:
        if self._spec["finally"]:
            import subprocess  # noqa: PLC0415 - a third of the time that this process takes to start

            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(  # noqa: S603 - built by the policy
                    self._spec["finally"], stdin=subprocess.DEVNULL, timeout=_FINALLY_SECONDS, check=False
                )


if __name__ == "__main__":
    sys.exit(_Launcher(json.loads(sys.argv[1]), sys.argv[2:]).run())
