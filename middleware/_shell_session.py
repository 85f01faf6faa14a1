"""One shell that lives from command to command: starting it, running commands in it one at a time, ending it."""

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ._shell_output import Output, mark_command
from ._shell_policies import TEMPORARY_PREFIX, BaseExecutionPolicy
from ._shell_reading import LOOK, Ended, Reading, ShellStartError, descriptor

__all__ = ["CommandResult", "ShellSession", "ShellStartError"]

_DEFAULT_BYTES = 1_000_000


@dataclass(frozen=True)
class CommandResult:
    """What came of a command.

    Attributes:
        output: what it printed, within the limits of the policy.
        ended: "done"; or, with the shell, by itself ("exited"), out of time ("timeout"), or with its run ("cancelled").
        exit_code: None where it did not get so far.
        dropped: the limit that something is left out for, "" where nothing is.
        total_lines: lines that it printed.
        total_bytes: bytes that it printed.
        renewed: whether the shell was a new one, after another that had been used.
    """

    output: str
    ended: Ended
    exit_code: int | None
    dropped: Literal["", "lines", "bytes"]
    total_lines: int
    total_bytes: int
    renewed: bool = False


@dataclass
class ShellSession:
    """A shell, started when it is first needed, and anew after it has ended. Commands wait for each other.

    Args:
        policy: starts it.
        command: the program and its arguments; a POSIX shell that reads commands from its input.
        env: variables for it.
        root: the directory it starts in; None for a temporary one, which is removed at the end.
        startup: commands that are run first in each new shell.
        clean: takes out of an output what nobody is to see; used where an error tells one.
        renewed: whether it stands for a session that is lost.
    """

    policy: BaseExecutionPolicy
    command: Sequence[str]
    env: Mapping[str, str]
    root: Path | None
    startup: Sequence[str] = ()
    clean: Callable[[str], str] = str
    renewed: bool = False
    used: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: "subprocess.Popen[bytes] | None" = None
    _workspace: Path | None = None
    _rests: tuple[bytes, bytes] = (b"", b"")
    _closed: bool = False
    _remove: Callable[[], object] = lambda: None

    def run(self, command: str, cancelled: threading.Event) -> CommandResult:
        """Run a command, after those before it.

        Args:
            command: what is run.
            cancelled: set where nobody waits for the result any more; what runs is then ended.

        Raises:
            ShellStartError: there was no shell, and none could be started.
            ConfigurationError: the same, since a program is not there.
        """
        with self._turn(cancelled):
            renewed = self._start(cancelled)
            result = self._run(command, self.policy.command_timeout, cancelled)
        return CommandResult(**{**vars(result), "renewed": renewed})

    def start(self, cancelled: threading.Event) -> None:
        """Start the shell where there is none; errors as those of `run`."""
        with self._turn(cancelled):
            self._start(cancelled)

    def restart(self, cancelled: threading.Event) -> None:
        """End the shell with all that runs in it, and start another; errors as those of `run`."""
        with self._turn(cancelled):
            self._kill()
            self.renewed = False
            self._start(cancelled)

    def close(self, shutdown: Sequence[str] = (), *, politely: bool = True) -> list[tuple[str, CommandResult]]:
        """End the shell, what it started, and its temporary directory.

        Args:
            shutdown: commands that are run before, where the shell is still there.
            politely: whether processes are told before they are killed.

        Returns:
            What came of the commands.
        """
        never, results = threading.Event(), list[tuple[str, CommandResult]]()
        with self._lock:
            for command in shutdown:
                if not self._is_alive():
                    break
                results.append((command, self._run(command, self.policy.command_timeout, never)))
            self._closed = True
            if politely:
                self._leave()
            self._kill()
            self._remove()
        return results

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return not self._closed

    @contextlib.contextmanager
    def _turn(self, cancelled: threading.Event) -> Generator[None]:
        while not self._lock.acquire(timeout=LOOK):
            if cancelled.is_set():
                raise ShellStartError("The run has ended before its command could be run.")
        try:
            if self._closed:
                raise ShellStartError("The shell session was closed, since its run has ended.")
            self.used = time.monotonic()
            yield
            self.used = time.monotonic()
        finally:
            self._lock.release()

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self, cancelled: threading.Event) -> bool:
        """Start a shell where there is none; whether it comes after another."""
        if self._is_alive():
            return False
        self._kill()
        try:
            self._process = self.policy.spawn(workspace=self._place(), env=self.env, command=self.command)
        except OSError as error:
            raise ShellStartError(f"The shell {self.command[0]!r:.200} could not be started: {error}") from error
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(descriptor(pipe), False)
        self._rests = (b"", b"")
        try:
            self._begin(cancelled)
        except BaseException:
            self._kill()
            raise
        renewed, self.renewed = self.renewed, True
        return renewed

    def _begin(self, cancelled: threading.Event) -> None:
        out, err = self._kept
        for command in ("", *self.startup):
            setup = "" if command else f"exec {out}>&1 {err}>&2\n"
            result = self._run(command or ":", self.policy.startup_timeout, cancelled, setup)
            if result.ended != "done" or result.exit_code:
                what = f"The startup command {command!r:.200}" if command else f"The shell {self.command[0]!r:.200}"
                code = "" if result.exit_code is None else f", exit code {result.exit_code}"
                said = self.clean(result.output)[-1000:].strip()
                raise ShellStartError(f"{what} failed ({result.ended}{code}): {said or '-'}")

    def _place(self) -> Path:
        if self._workspace is None and self.root is None:
            self._workspace = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
            self._remove = weakref.finalize(self, shutil.rmtree, self._workspace, ignore_errors=True)
        place = (self.root or self._workspace or Path()).absolute()
        place.mkdir(parents=True, exist_ok=True)  # a command may have removed it
        return place

    @property
    def _kept(self) -> tuple[int, int]:
        # Commands like low numbers for their own files; shells other than bash know no higher ones.
        return (250, 251) if Path(self.command[0]).name == "bash" else (8, 9)

    def _run(self, command: str, timeout: float, cancelled: threading.Event, setup: str = "") -> CommandResult:
        token, (out, err) = secrets.token_hex(16), self._kept
        # One line, which the shell has read as a whole before it runs any of it; what is wrong in the command ends
        # within the quotes. A command reads no input, which is the line to the next one.
        run, mark = f"command eval {shlex.quote(command)} </dev/null {out}>&- {err}>&-", mark_command(token, out, err)
        output = Output(self.policy.max_output_lines, self.policy.max_output_bytes or _DEFAULT_BYTES)
        reading = Reading(self._process, output, token, f"{setup}{run}; {mark}\n".encode(), self._rests)
        ended = reading.wait(time.monotonic() + timeout, cancelled)
        self._rests = reading.rests
        code = reading.status
        if ended != "done":
            code = self._process.poll() if ended == "exited" and self._process is not None else None
            code = 128 - code if code is not None and code < 0 else code
            self._kill()
        return CommandResult(output.text(), ended, code, output.dropped, output.total_lines, output.total_bytes)

    def _leave(self) -> None:
        """Let the shell end by itself: its input is over."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.policy.termination_timeout)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a command may have stopped it
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.policy.termination_timeout)
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr] # a policy gives all three
