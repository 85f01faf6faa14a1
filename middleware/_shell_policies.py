"""How the shell of `ShellToolMiddleware` is started, and the policy that runs it on this machine."""

import abc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

__all__ = ["TEMPORARY_PREFIX", "BaseExecutionPolicy", "HostExecutionPolicy", "basic_environment", "found", "launch"]

TEMPORARY_PREFIX = "agentgraph-shell-"

_LAUNCHER = Path(__file__).with_name("_shell_launcher.py")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class BaseExecutionPolicy(abc.ABC):
    """How a shell is started, and what bounds it. Derive from it to run shells somewhere else.

    Args:
        command_timeout: seconds that one command may take. Default 30.
        startup_timeout: seconds until the shell answers, and for each startup command. Default 30.
        termination_timeout: seconds that the shell and what it started are given to end by themselves. Default 10.
        max_output_lines: lines of the output of one command that the model is shown. Default 100.
        max_output_bytes: bytes of it; None for a million.

    Raises:
        ConfigurationError: a number is not positive.
        ConfigurationTypeError: it is no number.
    """

    command_timeout: float = 30.0
    startup_timeout: float = 30.0
    termination_timeout: float = 10.0
    max_output_lines: int = 100
    max_output_bytes: int | None = None

    default_shell: ClassVar[tuple[str, ...]] = ("/bin/bash", "/bin/sh")
    """What is run where `shell_command` is None: the first of them that this machine has."""

    def __post_init__(self) -> None:
        for name in ("command_timeout", "startup_timeout", "termination_timeout"):
            _check_positive(name, getattr(self, name), (int, float))
        _check_positive("max_output_lines", self.max_output_lines, (int,))
        for name in ("max_output_bytes", "memory_bytes", "cpu_time_seconds"):
            if getattr(self, name, None) is not None:
                _check_positive(name, getattr(self, name), (int,))

    @abc.abstractmethod
    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start the shell, with pipes for its input and its two outputs.

        Args:
            workspace: the directory it starts in, which exists.
            env: variables for it, beside those that it needs to work at all. Nothing else is to be handed on.
            command: the program and its arguments.

        Returns:
            The process. Its end has to be the end of everything that ran in the shell; SIGTERM has to end it at once,
            the end of its input as soon as it can be.

        Raises:
            ConfigurationError: the program, or what it would run in, is not there.
        """


@dataclass
class HostExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell on this machine, with the rights of this process. It is no sandbox.

    Commands can read and change all that the user of this process can, and use the network. For input that you do not
    trust take a container or a virtual machine around the whole service, or `DockerExecutionPolicy`.

    It works on POSIX systems. A small process stands over the shell. It ends all that commands have started, also in
    the background and in other process groups (there on Linux only), when a command runs out of time, a run ends, or
    this process dies.

    Args:
        command_timeout: see `BaseExecutionPolicy`, as the next four.
        startup_timeout: see there.
        termination_timeout: see there.
        max_output_lines: see there.
        max_output_bytes: see there.
        cpu_time_seconds: processor time that each process of the shell may use; None for any.
        memory_bytes: address space that each process may have; None for any.
        create_process_group: whether the shell is out of reach of the signals of this terminal (Ctrl-C). Default True.

    Raises:
        ConfigurationError: a number is not positive.
    """

    cpu_time_seconds: int | None = None
    memory_bytes: int | None = None
    create_process_group: bool = True

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start the shell; see `BaseExecutionPolicy.spawn`."""
        whole = basic_environment() | dict(env)
        program = found(command[0], whole.get("PATH"), "shell_command=")
        limits = {"RLIMIT_CPU": self.cpu_time_seconds, "RLIMIT_AS": self.memory_bytes}
        return launch(
            [program, *command[1:]],
            workspace,
            whole,
            grace=self.termination_timeout / 2,
            group=self.create_process_group,
            limits={name: value for name, value in limits.items() if value is not None},
        )


def launch(
    argv: Sequence[str],
    workspace: Path,
    env: Mapping[str, str],
    *,
    grace: float,
    group: bool = True,
    limits: Mapping[str, int] | None = None,
    at_the_end: Sequence[str] = (),
) -> "subprocess.Popen[bytes]":
    """Start a program under the launcher, which ends with it all that it started."""
    ctype = "LC_CTYPE" in env
    spec = {"grace": grace, "group": group, "limits": dict(limits or {}), "ctype": ctype, "finally": list(at_the_end)}
    return subprocess.Popen(  # noqa: S603 - the launcher of this package, and what the policy was told to run
        [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(spec), *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=workspace,
        env=env,
        bufsize=0,
        start_new_session=group,
    )


def basic_environment() -> dict[str, str]:
    """What programs need to work at all. All else of this process (keys of models!) is not handed on."""
    return {"PATH": os.environ.get("PATH") or _DEFAULT_PATH, "HOME": os.path.expanduser("~"), "LANG": "C.UTF-8"}  # noqa: PTH111 - Path.home raises where there is none


def found(program: str, path: str | None, remedy: str) -> str:
    """The absolute path of a program; raises with the remedy where there is none."""
    place = shutil.which(program, path=path)
    if place is None:
        raise ConfigurationError(
            f"There is no program {program!r:.200} that can be run here. Name another by {remedy}."
        )
    return os.path.abspath(place)  # noqa: PTH100 - Path.resolve follows links, and some programs go by their name


def _check_positive(name: str, given: Any, types: tuple[type[Any], ...]) -> None:
    if isinstance(given, bool) or not isinstance(given, types):
        raise ConfigurationTypeError(f"{name} is {given!r:.200}; expected was a number.")
    if not given > 0:
        raise ConfigurationError(f"{name} is {given!r}; expected was a number above 0.")
