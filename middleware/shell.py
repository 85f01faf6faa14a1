"""A shell for the model: one session for each run, in which directory, variables and files last from call to call."""

import asyncio
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.channels import UntrackedValue
from langgraph.config import get_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.typing import ContextT
from pydantic import BaseModel, Field, model_validator

from agentgraph import bridge
from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.state import AgentState, PrivateStateAttr, ResponseT

from ._pii_rules import RedactionRule
from ._shell_containers import CodexSandboxExecutionPolicy, DockerExecutionPolicy
from ._shell_policies import BaseExecutionPolicy, HostExecutionPolicy
from ._shell_runs import Key, Lease, RunSessions
from ._shell_session import CommandResult, ShellSession, ShellStartError
from ._shell_settings import cleaning, default_shell, environment_of, policy_of, sendable, texts

__all__ = [
    "BaseExecutionPolicy",
    "CodexSandboxExecutionPolicy",
    "DockerExecutionPolicy",
    "HostExecutionPolicy",
    "ShellStartError",
    "ShellToolMiddleware",
    "ShellToolState",
]

SHELL_TOOL_DESCRIPTION = """\
Run a command in a shell. The shell stays the same from call to call, so directory, variables and functions last; \
calls run one after the other.

- Lines that begin with [stderr] were printed to the standard error.
- Commands get no input: do not start programs that ask questions or open a screen; pass them the options they need.
- A command that takes too long is stopped, with everything else that runs in the shell, and a new shell is started. \
Put what takes long into the background, with its output in a file.
- Of a long output the middle is left out. Print only what you need: use head, tail, grep, or write to a file.
- Give either `command`, or `restart` as true to start anew with a shell that hangs or is in a wrong state."""
"""What the model reads about the tool; edit it by `tool_description`."""

_NEW = "[This is a new shell: directory, variables and background jobs of the one before are gone.]"

T = TypeVar("T")


class ShellToolState(AgentState[ResponseT]):
    """The fields that the shell keeps in the state.

    Attributes:
        shell_session_resources: the id of the session while its run goes on; not stored.
        shell_session_id: the same; stored, so that a run that was paused finds its session again.
    """

    shell_session_resources: NotRequired[Annotated[str, UntrackedValue(str, guard=False), PrivateStateAttr]]
    shell_session_id: NotRequired[Annotated[str, PrivateStateAttr]]


class _ShellInput(BaseModel):
    command: str | None = Field(default=None, description="What to run.")
    restart: bool | None = Field(default=None, description="Whether to end the shell and start a new one.")

    @model_validator(mode="after")
    def _is_one(self) -> "_ShellInput":
        if bool(self.command and self.command.strip()) == bool(self.restart):
            raise ValueError("expected is either a command, or restart as true; exactly one of them")
        return self


class ShellToolMiddleware(AgentMiddleware[ShellToolState[ResponseT], ContextT, ResponseT]):
    """Gives the model a tool that runs commands in a shell, one session for each run.

    The session belongs to the run. It is started with the first command, or before the model is first called where
    there are startup or shutdown commands, and ended after the agent with all that it has started. It is also ended
    when a command runs out of time, when the run is cancelled during one, and, on Linux, when this process is killed.
    A run that pauses for a person keeps its session for `idle_seconds` after its last command, as does one on a thread
    that failed. Where it is gone (later, or in another process), the next command starts a new one and says so.

    Commands see PATH, HOME, LANG and `env`, and nothing else of the environment of this process. With the default
    policy they can do all that this process can; approvals (`HumanInTheLoopMiddleware({"shell": True})`) and the other
    policies narrow that. Redaction keeps values from the model, not from the commands.

    It adds `shell_session_resources` and `shell_session_id` to the state, private ones, the first of which is not
    stored; a stream of states or updates shows them as a text. It makes no model calls and takes two steps of the graph
    a run, before and after the agent. Several in one agent each have a session; give their tools different names.

    Args:
        workspace_root: the directory the shell starts in, made where it is missing; None for a temporary one, which is
            removed with the session.
        startup_commands: run first in each new shell; one that fails ends the run.
        shutdown_commands: run before the session is ended after the agent; what comes of them does not matter.
        execution_policy: where and within which limits the shell runs; None for `HostExecutionPolicy()`.
        redaction_rules: applied to what commands print; a rule with the strategy "block" withholds all of it.
        tool_description: what the model reads about the tool.
        tool_name: its name. Default "shell".
        shell_command: a POSIX shell that reads commands from its input, a path or a list with arguments; None for the
            policy's own: bash, else sh.
        env: variables for the shell; values that are no texts are made so.

    Attributes:
        idle_seconds: how long a session is kept after its last command that no run holds. Default 600.

    Raises:
        ConfigurationError: an argument cannot work. In a run: a program is not there.
        ConfigurationTypeError: one is of a wrong type.
        ShellStartError: in a run, the shell did not start, or a startup command failed.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> model = ScriptedModel(
        ...     tool_call("shell", command="n=6"), tool_call("shell", command="echo $((n * 7))"), "It is 42."
        ... )
        >>> agent = create_agent(model, middleware=[ShellToolMiddleware()])
        >>> agent.invoke({"messages": "What is 6 times 7?"})["messages"][-2].text
        '42'
    """

    state_schema = ShellToolState  # type: ignore[assignment] # generic in the response, which is not bound here
    idle_seconds: float = 600.0

    def __init__(
        self,
        workspace_root: str | Path | None = None,
        *,
        startup_commands: Sequence[str] | str | None = None,
        shutdown_commands: Sequence[str] | str | None = None,
        execution_policy: BaseExecutionPolicy | None = None,
        redaction_rules: Sequence[RedactionRule] | None = None,
        tool_description: str | None = None,
        tool_name: str = "shell",
        shell_command: Sequence[str] | str | None = None,
        env: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(workspace_root, str | Path | None):
            raise ConfigurationTypeError(f"workspace_root is {workspace_root!r:.200}; expected was a path.")
        self._root = Path(workspace_root) if workspace_root else None
        self._policy = policy_of(execution_policy)
        self._command = texts("shell_command", shell_command) or default_shell(self._policy)
        self._startup = texts("startup_commands", startup_commands)
        self._shutdown = texts("shutdown_commands", shutdown_commands)
        self._env = environment_of(env)
        self._clean = cleaning(redaction_rules)
        self._sessions = RunSessions(self._session, lambda: self.idle_seconds)
        self.tools = [self._tool(tool_name, tool_description or SHELL_TOOL_DESCRIPTION)]

    @hook_config(inline=True)
    def before_agent(self, state: ShellToolState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Begin the session of the run; see `abefore_agent`."""
        return bridge.run_coroutine(lambda: self.abefore_agent(state, runtime))

    @hook_config(inline=True)
    async def abefore_agent(
        self,
        state: ShellToolState[ResponseT],
        runtime: Runtime[ContextT],  # noqa: ARG002 - the hook's signature
    ) -> dict[str, Any] | None:
        """Begin the session of the run.

        Args:
            state: the state, with the id of the session of a run before, which is ended.
            runtime: not used.

        Returns:
            The id of the session; None where another middleware of this kind has given it.

        Raises:
            ShellStartError: the shell was to be started here, and was not.
            ConfigurationError: a program is not there.
        """
        given, thread = state.get("shell_session_resources"), _thread_of(get_config())
        lease = given if isinstance(given, Lease) else Lease(secrets.token_hex(16))
        if before := self._sessions.end((state.get("shell_session_id") or "", thread)):
            await bridge.run_blocking(before.close)
        session = self._sessions.begin((str(lease), thread), lease)
        if self._startup or self._shutdown:
            try:
                await _in_thread(session.start)
            except BaseException:
                self._sessions.end((str(lease), thread))
                await bridge.run_blocking(session.close, politely=False)
                raise
        if lease is given:
            return None
        return {"shell_session_resources": lease, "shell_session_id": str(lease)}

    @hook_config(inline=True)
    def after_agent(self, state: ShellToolState[ResponseT], runtime: Runtime[ContextT]) -> None:
        """End the session of the run; see `aafter_agent`."""
        return bridge.run_coroutine(lambda: self.aafter_agent(state, runtime))

    @hook_config(inline=True)
    async def aafter_agent(self, state: ShellToolState[ResponseT], runtime: Runtime[ContextT]) -> None:  # noqa: ARG002 - the contract
        """Run the shutdown commands, and end the session with all that it has started.

        Args:
            state: the state, with the id of the session.
            runtime: not used.
        """
        if session := self._sessions.end(_key(state, get_config())):
            await bridge.run_blocking(session.close, self._shutdown)

    def _session(self, lost: bool) -> ShellSession:
        return ShellSession(
            self._policy, self._command, self._env, self._root, self._startup, clean=self._clean, renewed=lost
        )

    def _tool(self, name: str, description: str) -> BaseTool:
        for what, given in (("tool_name", name), ("tool_description", description)):
            if not isinstance(given, str) or not given:
                raise ConfigurationTypeError(f"{what} is {given!r:.200}; expected was a text.")

        async def arun(
            runtime: ToolRuntime[Any, Any], command: str | None = None, restart: bool | None = None
        ) -> ToolMessage:
            key = _key(runtime.state, runtime.config)
            if not any(key):
                raise ToolException(
                    "There is no session here: the tool has to be used by an agent with its middleware."
                )
            session = self._sessions.of(key)
            if restart:
                await _in_thread(session.restart)
                return self._message("The shell was ended, and a new one is ready.", runtime, {})
            text = sendable(command or "")
            result = await _in_thread(lambda cancelled: session.run(text, cancelled))
            return self._told(result, runtime)

        def run(runtime: ToolRuntime[Any, Any], command: str | None = None, restart: bool | None = None) -> ToolMessage:
            return bridge.run_coroutine(lambda: arun(runtime, command, restart))

        return StructuredTool.from_function(run, arun, name, description, args_schema=_ShellInput)

    def _told(self, result: CommandResult, runtime: ToolRuntime[Any, Any]) -> ToolMessage:
        artifact: dict[str, Any] = {
            "exit_code": result.exit_code,
            "timed_out": result.ended == "timeout",
            "truncated_by_lines": result.dropped == "lines",
            "truncated_by_bytes": result.dropped == "bytes",
            "total_lines": result.total_lines,
            "total_bytes": result.total_bytes,
        }
        parts = [self._clean(result.output) or "<no output>", self._end_of(result)]
        text = "\n".join(part for part in (_NEW if result.renewed else "", *parts) if part)
        is_error = bool(result.exit_code) or result.ended in {"timeout", "cancelled"}
        return self._message(text, runtime, artifact, "error" if is_error else "success")

    def _end_of(self, result: CommandResult) -> str:
        code = f"Exit code: {result.exit_code}" if result.exit_code else ""
        if result.ended == "timeout":
            seconds = f"{self._policy.command_timeout:g} seconds"
            return f"Error: the command was stopped after {seconds}, with all that ran. The next one gets a new shell."
        if result.ended == "exited":
            return f"Exit code: {result.exit_code}. The shell has ended; the next command gets a new one."
        return code

    def _message(
        self, text: str, runtime: ToolRuntime[Any, Any], artifact: dict[str, Any], status: Any = "success"
    ) -> ToolMessage:
        name = self.tools[0].name  # type: ignore[union-attr] # made above
        return ToolMessage(
            text, tool_call_id=runtime.tool_call_id or "", name=name, status=status, artifact=artifact or None
        )


async def _in_thread(work: Callable[[threading.Event], T]) -> T:
    """Do the work of a session in a thread, which is told where this is cancelled."""
    cancelled = threading.Event()
    try:
        return await bridge.run_blocking(work, cancelled)
    except asyncio.CancelledError:
        cancelled.set()
        raise


def _thread_of(config: Mapping[str, Any]) -> str:
    return str((config.get("configurable") or {}).get("thread_id") or "")


def _key(state: Any, config: Mapping[str, Any]) -> Key:
    found = state.get("shell_session_resources") or state.get("shell_session_id") or ""
    return str(found), _thread_of(config)
