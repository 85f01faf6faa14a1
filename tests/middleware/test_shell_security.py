import asyncio
import gc
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunCancelledError
from agentgraph.middleware import (
    CodexSandboxExecutionPolicy,
    DockerExecutionPolicy,
    HostExecutionPolicy,
    HumanInTheLoopMiddleware,
    RedactionRule,
    ShellToolMiddleware,
)
from agentgraph.runs import RunControl
from agentgraph.testing import FunctionModel, ScriptedModel, tool_call
from tests.middleware.test_shell import agent_of, answer, told

SECONDS = 20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process the orphans below it")


def is_gone(pid):
    """Whether the process ends, now or soon; the wait is bounded."""
    try:
        descriptor = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        for _ in range(SECONDS * 10):
            if select.select([descriptor], [], [], 0.1)[0]:
                return True
            gc.collect()  # what is left of a run that failed is a cycle, which threads may have held until now
        return False
    finally:
        os.close(descriptor)


@pytest.fixture
def fifo(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def hiding(fifo):
    """A command that starts processes in the hardest places to find, tells their ids, and goes on."""
    return (
        f"(setsid sh -c 'trap \"\" TERM HUP; echo $$ > {fifo}.1; sleep 1000' &) ; "
        f"nohup sleep 1001 >/dev/null 2>&1 & b=$!; while ! test -s {fifo}.1; do :; done; "
        f"echo $b $$ $(cat {fifo}.1) > {fifo}; sleep 1002"
    )


def test_nothing_of_the_environment_reaches_a_command(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("LC_ALL", "C")
    names = answer("env", env={"MINE": 5}).text.splitlines()
    found = {line.partition("=")[0] for line in names}
    assert found - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG", "MINE"}


@LINUX
def test_the_descriptors_that_the_shell_keeps_are_closed_to_commands():
    assert answer("ls /proc/self/fd | xargs echo").text == "0 1 2 3"


@pytest.mark.parametrize("end", ["\\036{} 0\\036\\n", "\\036{} 0\\036", "{} 0\\n"])
def test_an_output_cannot_pretend_to_be_the_end(end):
    forged = end.format("0" * 32)
    result = answer(f"printf '{forged}'; echo more; false")
    assert result.text.splitlines()[-2:] == ["more", "Exit code: 1"] or result.text.endswith("more\nExit code: 1")


@pytest.mark.parametrize("rule", ["redact", "block"])
def test_values_are_kept_from_the_model(rule):
    result = answer("echo to a@example.org; echo b@example.org >&2", redaction_rules=[RedactionRule("email", rule)])
    if rule == "block":
        assert result.text == "[The output is withheld: it has 2 value(s) of type email.]"
    else:
        assert sorted(result.text.splitlines()) == ["[stderr] [REDACTED_EMAIL]", "to [REDACTED_EMAIL]"]
    assert "example" not in repr(result)


def test_an_output_without_end_does_not_grow_the_memory():
    policy = HostExecutionPolicy(command_timeout=0.7, max_output_lines=4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    agent = agent_of("yes", "tr '\\0' a </dev/zero", "yes >&2", "(yes &) ; sleep 0.1; echo x", execution_policy=policy)
    answers = told(agent.invoke({"messages": "go"}))
    assert all(len(one) < 1_100_000 for one in answers)
    assert "left out" in answers[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # KiB; more than a gigabyte passed


@LINUX
@pytest.mark.parametrize("after", ["end", "timeout", "restart", "exit"])
def test_what_a_command_started_ends_with_its_shell(after, fifo):
    policy = HostExecutionPolicy(command_timeout=5 if after != "timeout" else 2, termination_timeout=0.5)
    command = hiding(fifo).removesuffix("; sleep 1002")
    found = []
    reader = threading.Thread(target=lambda: found.extend(fifo.read_text().split()), daemon=True)
    reader.start()
    more = {
        "end": [],
        "timeout": [tool_call("shell", command="sleep 1003")],
        "restart": [tool_call("shell", restart=True)],
        "exit": [tool_call("shell", command="exit 0")],
    }[after]
    model = ScriptedModel(tool_call("shell", command=command), *more, "Done")
    create_agent(model, middleware=[ShellToolMiddleware(execution_policy=policy)]).invoke({"messages": "go"})
    reader.join(SECONDS)
    assert len(found) == 3
    assert all(is_gone(pid) for pid in found)


@LINUX
def test_a_cancelled_async_run_ends_what_its_command_started(fifo):
    async def main():
        run = asyncio.ensure_future(agent_of(hiding(fifo)).ainvoke({"messages": "go"}))
        found = (await asyncio.wait_for(asyncio.to_thread(fifo.read_text), SECONDS)).split()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, SECONDS)
        return found

    found = asyncio.run(main())
    assert len(found) == 3
    assert all(is_gone(pid) for pid in found)


@LINUX
def test_a_cancelled_sync_run_ends_what_its_command_started(fifo):
    control, found = RunControl(), []

    def cancel():
        found.extend(fifo.read_text().split())
        control.cancel()

    reader = threading.Thread(target=cancel, daemon=True)
    reader.start()
    with pytest.raises(RunCancelledError):
        agent_of(hiding(fifo)).invoke({"messages": "go"}, control=control)
    reader.join(SECONDS)
    assert len(found) == 3
    assert all(is_gone(pid) for pid in found)


def failing(*replies):
    """A model that plays its replies and then fails."""
    rest = list(replies)

    def reply(messages, settings):
        if not rest:
            raise ValueError("no more")
        return rest.pop(0)

    return FunctionModel(reply)


@LINUX
@pytest.mark.parametrize("saver", [None, InMemorySaver()])
def test_a_run_that_fails_leaves_no_shell(saver, tmp_path):
    shell = ShellToolMiddleware()
    shell.idle_seconds = 0.05
    command = tool_call("shell", command=f"sleep 1000 & echo $! $$ > {tmp_path}/ids")
    agent = create_agent(failing(command), middleware=[shell], checkpointer=saver)
    with pytest.raises(ValueError, match="no more"):
        agent.invoke({"messages": "go"}, {"configurable": {"thread_id": "t"}} if saver else None)
    assert all(is_gone(pid) for pid in (tmp_path / "ids").read_text().split())


@LINUX
@pytest.mark.parametrize("how", ["new message", "agent is dropped", "idle"])
def test_the_shell_of_a_paused_run_ends_when_nobody_can_or_will_go_on(how, tmp_path):
    shell = ShellToolMiddleware()
    shell.idle_seconds = 0.05 if how == "idle" else 600.0
    model = ScriptedModel(tool_call("shell", command=f"echo $$ > {tmp_path}/id"), tool_call("ask"), "Done")
    guard = HumanInTheLoopMiddleware({"ask": True})
    agent = create_agent(model, [ask], middleware=[guard, shell], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": "go"}, thread)
    if how == "new message":
        agent.invoke({"messages": "something else"}, thread)
    if how == "agent is dropped":
        del agent, shell
    assert is_gone((tmp_path / "id").read_text())


def ask() -> str:
    """Ask."""
    return "asked"


AGENT = """
import sys
from agentgraph import create_agent
from agentgraph.middleware import HostExecutionPolicy, ShellToolMiddleware
from agentgraph.testing import ScriptedModel, tool_call
shell = ShellToolMiddleware(execution_policy=HostExecutionPolicy(command_timeout=60, termination_timeout=0.5))
model = ScriptedModel(tool_call("shell", command=sys.argv[1]), "Done")
create_agent(model, middleware=[shell]).invoke({"messages": "go"})
"""


@LINUX
def test_nothing_outlives_an_agent_that_is_killed(fifo):
    process = subprocess.Popen([sys.executable, "-c", AGENT, hiding(fifo)])  # noqa: S603 (this test's own program)
    try:
        found = fifo.read_text().split()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
    assert len(found) == 3
    assert all(is_gone(pid) for pid in found)


@LINUX
def test_a_command_that_stops_or_kills_what_stands_over_it_loses_its_shell():
    policy = HostExecutionPolicy(command_timeout=1, termination_timeout=1)
    agent = agent_of("kill -STOP $PPID; sleep 100", "kill -9 $PPID; sleep 100", "echo next", execution_policy=policy)
    texts = told(agent.invoke({"messages": "go"}))
    assert [text.splitlines()[-1] for text in texts] == [
        "Error: the command was stopped after 1 seconds, with all that ran. The next one gets a new shell.",
        "Exit code: 137. The shell has ended; the next command gets a new one.",
        "next",
    ]


def test_processes_have_the_limits_of_the_policy():
    policy = HostExecutionPolicy(cpu_time_seconds=77, memory_bytes=1 << 30)
    assert answer("ulimit -t; ulimit -v", execution_policy=policy).text == f"77\n{(1 << 30) // 1024}"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: HostExecutionPolicy(command_timeout=0), ConfigurationError),
        (lambda: HostExecutionPolicy(max_output_lines=0), ConfigurationError),
        (lambda: HostExecutionPolicy(max_output_bytes=-1), ConfigurationError),
        (lambda: HostExecutionPolicy(memory_bytes="1g"), ConfigurationTypeError),
        (lambda: HostExecutionPolicy(cpu_time_seconds=True), ConfigurationTypeError),
        (lambda: CodexSandboxExecutionPolicy(platform="windows"), ConfigurationError),
        (lambda: CodexSandboxExecutionPolicy(config_overrides={"a": None}), ConfigurationTypeError),
        (lambda: DockerExecutionPolicy(image="--privileged"), ConfigurationError),
        (lambda: DockerExecutionPolicy(user=" "), ConfigurationError),
        (lambda: DockerExecutionPolicy(extra_run_args="--gpus all"), ConfigurationTypeError),
    ],
)
def test_a_policy_that_cannot_work_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_codex_is_called_with_its_settings():
    overrides = {"sandbox_mode": "workspace-write", "sandbox": {"network": False, "roots": ["/a", 1]}}
    policy = CodexSandboxExecutionPolicy(platform="linux", config_overrides=overrides)
    assert policy.argv(["/bin/sh"]) == [
        "codex",
        "sandbox",
        "linux",
        "-c",
        'sandbox={"network" = false, "roots" = ["/a", 1]}',
        "-c",
        'sandbox_mode="workspace-write"',
        "--",
        "/bin/sh",
    ]


def test_docker_is_called_with_its_settings(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    env, command = {"KEY": "secret", "PATH": "/x"}, ["/bin/sh"]
    plain = DockerExecutionPolicy().argv(name="n", workspace=Path("/tmp/agentgraph-shell-x"), env=env, command=command)
    assert plain == [
        *("docker", "run", "-i", "--name", "n", "--rm", "--network", "none", "-w", "/"),
        *("--env", "KEY", "--env", "PATH=/x", "python:3.12-alpine3.19", "/bin/sh"),
    ]
    policy = DockerExecutionPolicy(
        image="i",
        remove_container_on_exit=False,
        network_enabled=True,
        extra_run_args=["--pids-limit", "9"],
        memory_bytes=5,
        cpu_time_seconds=6,
        cpus="1.5",
        read_only_rootfs=True,
        user="1:1",
    )
    assert policy.argv(name="n", workspace=Path("/w"), env={}, command=command) == [
        *("docker", "run", "-i", "--name", "n", "--memory", "5", "--ulimit", "cpu=6", "--cpus", "1.5"),
        *("--user", "1:1", "--read-only", "-v", "/w:/w", "-w", "/w", "--pids-limit", "9", "i", "/bin/sh"),
    ]
    with pytest.raises(ConfigurationError, match="colon"):
        policy.argv(name="n", workspace=Path("/w:x"), env={}, command=command)


@pytest.mark.parametrize(
    "policy", [CodexSandboxExecutionPolicy(binary="no-codex"), DockerExecutionPolicy(binary="no-d")]
)
def test_a_program_that_is_not_there_is_named(policy):
    agent = agent_of("ls", execution_policy=policy, startup_commands="true")
    with pytest.raises(ConfigurationError, match=policy.binary):
        agent.invoke({"messages": "go"})


FAKE = """#!/bin/sh
echo "$1 $5" >> {log}
test "$1" = run || exit 0
while test "$1" != python:3.12-alpine3.19; do shift; done
shift
exec "$@"
"""


def test_a_container_runs_the_commands_and_is_killed_at_its_end(tmp_path):
    log, binary = tmp_path / "log", tmp_path / "docker"
    binary.write_text(FAKE.format(log=log))
    binary.chmod(0o755)
    policy = DockerExecutionPolicy(binary=str(binary), command_timeout=0.5)
    texts = told(
        agent_of("x=$KEY", "echo $x; sleep 100", execution_policy=policy, env={"KEY": "7"}).invoke({"messages": "go"})
    )
    assert texts[1].startswith("7\nError: the command was stopped")
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["run", "kill"]
