"""The policies that put a program around the shell: the Codex sandbox, and Docker containers."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

from ._shell_policies import TEMPORARY_PREFIX, BaseExecutionPolicy, basic_environment, found, launch

__all__ = ["CodexSandboxExecutionPolicy", "DockerExecutionPolicy"]


@dataclass
class CodexSandboxExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell by `codex sandbox`, the command line of Codex, which limits what it may write and reach.

    Args:
        command_timeout: see `BaseExecutionPolicy`, as the next four.
        startup_timeout: see there.
        termination_timeout: see there.
        max_output_lines: see there.
        max_output_bytes: see there.
        binary: the program, a name or a path. Default "codex".
        platform: "linux", "macos", or "auto" for the one this is.
        config_overrides: settings of the sandbox, handed on as `-c name=value` with values in TOML.

    Raises:
        ConfigurationError: a number is not positive, or the platform unknown. When the shell is started: the program is
            not there.
    """

    binary: str = "codex"
    platform: Literal["auto", "macos", "linux"] = "auto"
    config_overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.platform not in {"auto", "macos", "linux"}:
            raise ConfigurationError(f"platform is {self.platform!r:.200}; expected was auto, macos or linux.")
        for name, value in self.config_overrides.items():
            _toml(value, name)

    def argv(self, command: Sequence[str]) -> list[str]:
        """What is run for a command.

        Args:
            command: the program inside and its arguments.
        """
        platform = self.platform if self.platform != "auto" else _platform()
        overrides = [
            part
            for name, value in sorted(self.config_overrides.items())
            for part in ("-c", f"{name}={_toml(value, name)}")
        ]
        return [self.binary, "sandbox", platform, *overrides, "--", *command]

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start the shell; see `BaseExecutionPolicy.spawn`."""
        program = found(self.binary, os.environ.get("PATH"), "binary=, after installing the Codex command line,")
        argv = [program, *self.argv(command)[1:]]
        return launch(argv, workspace, basic_environment() | dict(env), grace=self.termination_timeout / 2)


@dataclass
class DockerExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell in a container of its own, by default without a network.

    The workspace is mounted under its own path; a temporary one is not, the shell then starts in "/". Of the
    environment the container gets `env` only. When the shell ends, or has to, the container is killed.

    Args:
        command_timeout: see `BaseExecutionPolicy`, as the next four.
        startup_timeout: see there; it includes fetching an image that is not there yet.
        termination_timeout: see there.
        max_output_lines: see there.
        max_output_bytes: see there.
        binary: the program, a name or a path. Default "docker".
        image: the image. Default "python:3.12-alpine3.19".
        remove_container_on_exit: whether the container is removed at its end. Default True.
        network_enabled: whether it has a network. Default False.
        extra_run_args: further arguments of `docker run`. They are as powerful as Docker is.
        memory_bytes: memory of the whole container; None for any.
        cpu_time_seconds: processor time that each process may use; None for any.
        cpus: how many processors it may use at a time, such as "1.5"; None for all.
        read_only_rootfs: whether its file system is read-only, but for the workspace. Default False.
        user: user, or user and group ("1000:1000"); None for the image's own.

    Raises:
        ConfigurationError: a number is not positive, a text empty. When the shell is started: the program is not there.
    """

    binary: str = "docker"
    image: str = "python:3.12-alpine3.19"
    remove_container_on_exit: bool = True
    network_enabled: bool = False
    extra_run_args: Sequence[str] | None = None
    memory_bytes: int | None = None
    cpu_time_seconds: int | None = None
    cpus: str | None = None
    read_only_rootfs: bool = False
    user: str | None = None

    default_shell: ClassVar[tuple[str, ...]] = ("/bin/sh",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("binary", "image", "cpus", "user"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or not given.strip() or given.startswith("-")):
                raise ConfigurationError(f"{name} is {given!r:.200}; expected was a text, and no option.")
        if isinstance(self.extra_run_args, str):
            raise ConfigurationTypeError("extra_run_args is a text; expected was a list of arguments.")
        self.extra_run_args = tuple(self.extra_run_args or ())

    def argv(self, *, name: str, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> list[str]:
        """What is run for a command.

        Args:
            name: of the container.
            workspace: mounted, unless it is a temporary one.
            env: variables. Values are not shown in the list of processes, but for names that Docker itself looks at.
            command: the program inside and its arguments.
        """
        options: list[tuple[bool, Sequence[str]]] = [
            (self.remove_container_on_exit, ("--rm",)),
            (not self.network_enabled, ("--network", "none")),
            (self.memory_bytes is not None, ("--memory", str(self.memory_bytes))),
            (self.cpu_time_seconds is not None, ("--ulimit", f"cpu={self.cpu_time_seconds}")),
            (self.cpus is not None, ("--cpus", str(self.cpus))),
            (self.user is not None, ("--user", str(self.user))),
            (self.read_only_rootfs, ("--read-only",)),
            (True, _mounted(workspace)),
            *((True, ("--env", one if not _is_dockers(one) else f"{one}={value}")) for one, value in env.items()),
        ]
        chosen = [part for wanted, parts in options if wanted for part in parts]
        return [self.binary, "run", "-i", "--name", name, *chosen, *(self.extra_run_args or ()), self.image, *command]

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start the container; see `BaseExecutionPolicy.spawn`."""
        program = found(self.binary, os.environ.get("PATH"), "binary=, after installing Docker,")
        name = TEMPORARY_PREFIX + secrets.token_hex(8)
        argv = self.argv(name=name, workspace=workspace, env=env, command=command)
        # Docker's program needs to know its server and the user's logins; the container sees only what is named.
        whole = dict(os.environ) | {one: value for one, value in env.items() if not _is_dockers(one)}
        grace = self.termination_timeout / 2
        return launch([program, *argv[1:]], workspace, whole, grace=grace, at_the_end=[program, "kill", name])


def _platform() -> str:
    return "macos" if sys.platform == "darwin" else "linux"


def _toml(value: Any, name: str) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(one, name)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one, name) for one in value) + "]"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value)
    raise ConfigurationTypeError(f"config_overrides[{name!r}] has {value!r:.100}, for which TOML has no form.")


def _mounted(workspace: Path) -> tuple[str, ...]:
    if workspace.name.startswith(TEMPORARY_PREFIX):
        return ("-w", "/")
    if ":" in str(workspace):
        raise ConfigurationError(f"workspace_root is {str(workspace)!r:.200}; Docker mounts no path with a colon.")
    return ("-v", f"{workspace}:{workspace}", "-w", str(workspace))


def _is_dockers(name: str) -> bool:
    """Whether Docker's own program may look at the variable, so that it must not be set for it."""
    return name in os.environ or name.startswith(("DOCKER", "LD_"))
