import asyncio
import json
import subprocess

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import (
    BaseExecutionPolicy,
    HostExecutionPolicy,
    HumanInTheLoopMiddleware,
    RedactionRule,
    ShellStartError,
    ShellToolMiddleware,
)
from agentgraph.testing import ScriptedModel, assert_valid_history, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import WAYS

THREAD = {"configurable": {"thread_id": "t"}}
NEW = "[This is a new shell: directory, variables and background jobs of the one before are gone.]\n"


def calls(*commands):
    return [tool_call("shell", command=one) for one in commands]


def agent_of(*commands, saver=None, before=(), tools=(), **settings):
    model = ScriptedModel(*calls(*commands), "Done")
    middleware = [*before, ShellToolMiddleware(**settings)]
    return create_agent(model, tools, middleware=middleware, checkpointer=saver)


def told(state):
    assert_valid_history(state["messages"])
    return [m.text for m in state["messages"] if m.type == "tool"]


def answer(*commands, **settings):
    (*_, last) = [m for m in agent_of(*commands, **settings).invoke({"messages": "go"})["messages"] if m.type == "tool"]
    return last


@WAYS
def test_directory_variables_and_functions_last_from_call_to_call(run, tmp_path):
    agent = agent_of("mkdir d; cd d; x=5; f() { echo f$1; }", "pwd; echo $x; f 1", workspace_root=tmp_path)
    state = run(agent, {"messages": "go"})
    assert told(state) == ["<no output>", f"{tmp_path}/d\n5\nf1"]


def test_the_result_of_a_run_has_the_messages_alone():
    assert sorted(agent_of("ls").invoke({"messages": "go"})) == ["messages"]


@WAYS
def test_the_result_says_what_was_an_error_and_how_it_ended(run):
    agent = agent_of("echo out; echo err >&2; (exit 3)")
    (message,) = [m for m in run(agent, {"messages": "go"})["messages"] if m.type == "tool"]
    assert sorted(message.text.splitlines()) == ["Exit code: 3", "[stderr] err", "out"]
    assert message.text.endswith("\nExit code: 3")
    assert (message.status, message.name) == ("error", "shell")
    assert message.artifact == {
        "exit_code": 3,
        "timed_out": False,
        "truncated_by_lines": False,
        "truncated_by_bytes": False,
        "total_lines": 2,
        "total_bytes": 8,
    }


@WAYS
def test_a_restart_gives_a_shell_that_knows_nothing(run):
    replies = [
        tool_call("shell", command="x=5"),
        tool_call("shell", restart=True),
        tool_call("shell", command="echo -$x"),
    ]
    agent = create_agent(ScriptedModel(*replies, "Done"), middleware=[ShellToolMiddleware()])
    expected = ["<no output>", "The shell was ended, and a new one is ready.", "-"]
    assert told(run(agent, {"messages": "go"})) == expected


@pytest.mark.parametrize("args", [{}, {"command": " "}, {"command": "ls", "restart": True}, {"restart": False}])
def test_a_call_without_exactly_one_of_command_and_restart_is_told_so(args):
    agent = create_agent(ScriptedModel(tool_call("shell", **args), "Done"), middleware=[ShellToolMiddleware()])
    (text,) = told(agent.invoke({"messages": "go"}))
    assert "exactly one of them" in text


def test_what_the_model_may_send_is_a_command_and_a_restart():
    (shell,) = ShellToolMiddleware(tool_name="sh", tool_description="Run.").tools
    assert (shell.name, shell.description) == ("sh", "Run.")
    assert sorted(shell.tool_call_schema.model_json_schema()["properties"]) == ["command", "restart"]


ENDINGS = [
    ("printf abc", "abc"),
    ("printf 'a\\nb'", "a\nb"),
    ("echo \"it's\"; echo 'a\"b'", "it's\na\"b"),
    ("echo a \\\n  b\necho c", "a b\nc"),
    ("printf '\\377\\376x'", "\ufffd\ufffdx"),
    ("cat; echo $?", "0"),
    ("echo ä # ' ( {", "ä"),
    ("set -u; echo $((1 + 1))", "2"),
    ("sleep 100 & echo next", "next"),
    ("exec 8>&1 9>&2; echo x >&8", "x"),
    ("trap 'echo bye' EXIT; exit 0", "bye\nExit code: 0. The shell has ended; the next command gets a new one."),
    ("exit 3", f"{NEW}<no output>\nExit code: 3. The shell has ended; the next command gets a new one."),
    ("exec sh -c 'echo x; exit 4'", f"{NEW}x\nExit code: 4. The shell has ended; the next command gets a new one."),
    ("set -e; false", f"{NEW}<no output>\nExit code: 1. The shell has ended; the next command gets a new one."),
    ("kill -9 $$", f"{NEW}<no output>\nExit code: 137. The shell has ended; the next command gets a new one."),
    ("echo next", f"{NEW}next"),
    ("exec >/dev/null; echo hidden", "<no output>"),
    ("echo hidden", "<no output>"),
]


@pytest.mark.parametrize("shell", [None, "/bin/sh", ["/bin/bash", "--norc"]])
def test_a_command_ends_whatever_it_does(shell):
    agent = agent_of(*(command for command, _ in ENDINGS), shell_command=shell)
    assert told(agent.invoke({"messages": "go"})) == [expected for _, expected in ENDINGS]


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_an_unfinished_command_does_not_swallow_the_next(shell):
    broken = ["if", "echo '", "cat <<X\nabc", "case", ")", "}", 'echo "']
    agent = agent_of(*(one for command in broken for one in (command, "echo next")), shell_command=shell)
    assert told(agent.invoke({"messages": "go"}))[1::2] == ["next"] * len(broken)


def test_after_the_end_of_a_shell_the_next_command_is_told_that_its_shell_is_new():
    assert answer("x=5; exit 1", "echo -$x").text == NEW + "-"


def test_settings_of_the_shell_do_not_hide_the_end_of_a_command():
    settings = ["set -x", "set -v", "set -o posix", "shopt -s expand_aliases; alias eval=false"]
    agent = agent_of(*(one for setting in settings for one in (setting, "echo next")))
    assert [text.splitlines().count("next") for text in told(agent.invoke({"messages": "go"}))[1::2]] == [1, 1, 1, 1]


def test_a_character_that_no_shell_can_be_given_is_refused():
    assert "no shell can be given" in answer("echo a\0b").text


@WAYS
def test_a_command_out_of_time_is_stopped_and_the_next_gets_a_new_shell(run):
    policy = HostExecutionPolicy(command_timeout=0.3)
    agent = agent_of("x=5; echo started; sleep 100", "echo -$x", execution_policy=policy)
    state = run(agent, {"messages": "go"})
    stopped = "Error: the command was stopped after 0.3 seconds, with all that ran. The next one gets a new shell."
    assert told(state) == [f"started\n{stopped}", NEW + "-"]
    first = next(m for m in state["messages"] if m.type == "tool")
    assert (first.status, first.artifact["timed_out"], first.artifact["exit_code"]) == ("error", True, None)


@pytest.mark.parametrize(
    ("command", "lines", "size", "expected"),
    [
        ("seq 4", 4, None, "1\n2\n3\n4"),
        ("seq 5", 4, None, "1\n2\n[... 1 of 5 lines are left out here ...]\n4\n5"),
        ("seq 9", 1, None, "1\n[... 8 of 9 lines are left out here ...]"),
        ("seq 9; printf x", 3, None, "1\n2\n[... 7 of 10 lines are left out here ...]\nx"),
        ("seq 9", 100, 8, "1\n2\n[... 5 of 9 lines are left out here ...]\n8\n9"),
    ],
)
def test_of_a_long_output_the_middle_is_left_out(command, lines, size, expected):
    policy = HostExecutionPolicy(max_output_lines=lines, max_output_bytes=size)
    result = answer(command, execution_policy=policy)
    assert result.text == expected
    dropped = (result.artifact["truncated_by_lines"], result.artifact["truncated_by_bytes"])
    assert dropped == (expected.count("left out") and not size, bool(size))


def test_startup_commands_run_before_the_model_and_shutdown_commands_after_the_agent(tmp_path):
    log = tmp_path / "log"
    startup, shutdown = [f"x=5; echo up >> {log}"], [f"echo down $x >> {log}", "false"]
    agent = agent_of(f"echo run $x >> {log}", startup_commands=startup, shutdown_commands=shutdown)
    agent.invoke({"messages": "go"})
    assert log.read_text() == "up\nrun 5\ndown 5\n"


@WAYS
@pytest.mark.parametrize("command", ["echo no key 123; false", "exit 2", "kill -9 $$"])
def test_a_startup_command_that_fails_ends_the_run(run, command):
    agent = agent_of("ls", startup_commands=command, redaction_rules=[RedactionRule("key", detector="[0-9]+")])
    with pytest.raises(ShellStartError) as raised:
        run(agent, {"messages": "go"})
    assert command in str(raised.value)
    assert "key 123\n" not in str(raised.value)


class Counting(HostExecutionPolicy):
    """Counts the shells that it starts."""

    def spawn(self, **given):
        self.places = [*getattr(self, "places", ()), given["workspace"]]
        return super().spawn(**given)


def test_a_run_that_needs_no_shell_starts_none_and_a_temporary_directory_does_not_outlive_its_run():
    policy = Counting()
    assert agent_of(execution_policy=policy).invoke({"messages": "go"})["messages"][-1].text == "Done"
    assert not hasattr(policy, "places")
    agent_of("touch file; mkdir sub", execution_policy=policy).invoke({"messages": "go"})
    assert [place.exists() for place in policy.places] == [False]


def test_a_workspace_is_made_and_kept_and_its_loss_does_no_harm(tmp_path):
    root = tmp_path / "a" / "b"
    assert answer(f"touch x; rm -r {root}; exit 0", "pwd", workspace_root=str(root)).text == f"{NEW}{root}"
    assert root.is_dir()


def test_it_costs_two_steps_and_puts_one_text_into_state_and_stream():
    saver = InMemorySaver()
    agent = agent_of("echo x", saver=saver)
    updates = list(agent.stream({"messages": "go"}, THREAD, stream_mode="updates"))
    names = [name for update in updates for name in update]
    assert names == [
        "ShellToolMiddleware.before_agent",
        "model",
        "tools",
        "model",
        "ShellToolMiddleware.after_agent",
    ]
    begun = updates[0]["ShellToolMiddleware.before_agent"]
    assert json.loads(json.dumps(begun)) == begun
    assert sorted(begun) == ["shell_session_id", "shell_session_resources"]
    kept = agent.get_state(THREAD).values
    assert sorted(kept) == ["messages", "shell_session_id"]


@WAYS
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_session_outlives_the_pauses_for_approvals(run, mode):
    guard = HumanInTheLoopMiddleware({"shell": True}, interrupt_mode=mode)
    agent = agent_of("cd /; x=5", "echo $x; pwd", saver=InMemorySaver(), before=[guard])
    approve = {"type": "approve"}
    resume = Command(resume={"decisions": [approve]} if mode == "batched" else approve)
    run(agent, {"messages": "go"}, THREAD)
    run(agent, resume, THREAD)
    assert told(run(agent, resume, THREAD)) == ["<no output>", "5\n/"]


def test_a_run_that_goes_on_without_its_session_gets_a_new_one_that_says_so():
    saver, approve = InMemorySaver(), Command(resume={"decisions": [{"type": "approve"}]})
    agents = [
        create_agent(
            ScriptedModel(*replies),
            middleware=[HumanInTheLoopMiddleware({"shell": True}), ShellToolMiddleware()],
            checkpointer=saver,
        )
        for replies in (calls("x=5", "echo -$x"), ["Done"])
    ]
    agents[0].invoke({"messages": "go"}, THREAD)
    agents[0].invoke(approve, THREAD)
    assert told(agents[1].invoke(approve, THREAD)) == ["<no output>", NEW + "-"]


def test_the_calls_of_one_turn_share_the_shell_one_after_the_other():
    commands = [f"cd /; echo {n}; sleep 0.05; echo {n}; n=$((n + 1))" for n in range(4)]
    agent = create_agent(
        ScriptedModel(calls(*commands), calls("echo $n")[0], "Done"), middleware=[ShellToolMiddleware()]
    )
    assert told(agent.invoke({"messages": "go"})) == ["0\n0", "1\n1", "2\n2", "3\n3", "4"]


def test_many_runs_of_one_object_do_not_see_each_other():
    shell = ShellToolMiddleware()
    agents = [
        create_agent(ScriptedModel(*calls(f"x={n}; pwd", "echo $x; pwd"), "Done"), middleware=[shell]) for n in range(6)
    ]

    async def together():
        work = (agent.ainvoke({"messages": "go"}, THREAD) for agent in agents)
        return await asyncio.wait_for(asyncio.gather(*work), 30)

    answers = [told(state) for state in asyncio.run(together())]
    assert [second for _, second in answers] == [f"{n}\n{first}" for n, (first, _) in enumerate(answers)]
    assert len({first for first, _ in answers}) == 6


def test_a_subagent_has_a_shell_of_its_own():
    shell = ShellToolMiddleware()
    inner = create_agent(ScriptedModel(*calls("echo -$x"), "inner"), middleware=[shell])

    @tool
    def ask() -> str:
        """Ask the other."""
        return "|".join(told(inner.invoke({"messages": "go"})))

    model = ScriptedModel(*calls("x=5"), tool_call("ask"), *calls("echo $x"), "Done")
    agent = create_agent(model, [ask], middleware=[shell])
    assert told(agent.invoke({"messages": "go"})) == ["<no output>", "-", "5"]


def test_two_in_one_agent_have_a_shell_each():
    second = ShellToolMiddleware(tool_name="other")
    model = ScriptedModel(*calls("x=5"), tool_call("other", command="echo -$x"), *calls("echo $x"), "Done")
    agent = create_agent(model, middleware=[ShellToolMiddleware(), second])
    assert told(agent.invoke({"messages": "go"})) == ["<no output>", "-", "5"]
    assert second._sessions._open == {}


def test_an_async_run_leaves_the_loop_free():
    async def main():
        beats = 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.01)

        heart = asyncio.ensure_future(beat())
        agent = agent_of("sleep 0.5", startup_commands="sleep 0.2", shutdown_commands="sleep 0.2")
        await asyncio.wait_for(agent.ainvoke({"messages": "go"}), 30)
        heart.cancel()
        return beats

    assert asyncio.run(main()) > 20


class Plain(BaseExecutionPolicy):
    """A policy of a user's own: text pipes, and nothing that stands over the shell."""

    def spawn(self, *, workspace, env, command):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, **pipes, text=True, cwd=workspace, env=dict(env))  # noqa: S603 (no shell but this)


def test_a_policy_of_ones_own_will_do():
    assert answer("x=5", "echo $x$y", execution_policy=Plain(), env={"y": 6, "PATH": "/bin"}).text == "56"
    policy = Plain(command_timeout=0.3)
    assert answer("exec sleep 100", "echo -", execution_policy=policy).text == NEW + "-"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"workspace_root": 5}, ConfigurationTypeError),
        ({"execution_policy": HostExecutionPolicy}, ConfigurationTypeError),
        ({"execution_policy": "docker"}, ConfigurationTypeError),
        ({"shell_command": []}, ConfigurationError),
        ({"shell_command": [5]}, ConfigurationTypeError),
        ({"startup_commands": [" "]}, ConfigurationError),
        ({"shutdown_commands": [None]}, ConfigurationTypeError),
        ({"env": {5: "a"}}, ConfigurationTypeError),
        ({"env": {"a=b": "c"}}, ConfigurationError),
        ({"env": {"a": "b\0"}}, ConfigurationError),
        ({"redaction_rules": ["email"]}, ConfigurationTypeError),
        ({"redaction_rules": [RedactionRule("unknown")]}, ConfigurationError),
        ({"tool_name": ""}, ConfigurationTypeError),
        ({"tool_description": 5}, ConfigurationTypeError),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings, error):
    with pytest.raises(error):
        ShellToolMiddleware(**settings)


def test_a_shell_that_is_not_there_ends_the_run_or_is_told():
    agent = agent_of("ls", startup_commands="true", shell_command="no-such-shell")
    with pytest.raises(ConfigurationError, match="no-such-shell"):
        agent.invoke({"messages": "go"})
    assert "no-such-shell" in answer("ls", shell_command="no-such-shell").text
