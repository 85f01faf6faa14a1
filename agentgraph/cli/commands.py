"""The commands and their options. Each body says what is done; how is in the modules it calls.

The graph library is imported inside the commands that need it, so that `--help` and `doctor` answer at once, the latter
also on a broken installation.
"""

import asyncio
import json
import shlex
import sys
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from agentgraph.cli.diagnosis import diagnose, installed_version
from agentgraph.cli.exits import CommandError, ExitCode, one_line
from agentgraph.cli.streams import own_output
from agentgraph.cli.threads import threads

if TYPE_CHECKING:
    from agentgraph.cli.conversation import Conversation
    from agentgraph.cli.targets import Graph

__all__ = ["app", "run"]

EXIT_CODES = (
    "Exit codes: 0 the agent answered; 1 the run failed; 2 wrong usage; 3 an extra or a program is missing; "
    "4 paused for a decision; 130 cancelled."
)

app = typer.Typer(
    name="agentgraph",
    help="Talk to an agent, run it once, draw it, look at stored threads and at the installation.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(threads)

Target = Annotated[str, typer.Argument(help="module:agent or path/to/file.py:agent.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON event a line.")]
Thread = Annotated[
    str | None, typer.Option("--thread", help="Id of the thread; by default a new one.", show_default=False)
]
Model = Annotated[str | None, typer.Option("--model", help="Make an agent with this model, e.g. openai:gpt-5.")]
Tools = Annotated[str, typer.Option("--tools", help="Its tools: module:function, separated by commas.")]
System = Annotated[str | None, typer.Option("--system", help="Its system prompt.")]
Protocol = Annotated[
    str | None, typer.Option("--protocol", help="Its tool protocol, for a model without native tools: json.")
]

FLAGS = {"tool_protocol": "--protocol json", "model_provider": "--model provider:name", "system_prompt": "--system"}
"""A parameter that an error of Python's side names -> how it is given here."""


@dataclass(frozen=True)
class _Recipe:
    """An agent made of options instead of one that a module holds."""

    model: str | None
    tools: str
    system: str | None
    protocol: str | None

    def __bool__(self) -> bool:
        return any(astuple(self))


def run(arguments: list[str]) -> int:
    """Parse `arguments` and run the command they name.

    Raises:
        SystemExit: with the command's exit code.
        CommandError: the command could not start.
    """
    app(args=arguments, prog_name="agentgraph")
    return ExitCode.OK


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agentgraph {installed_version()}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


@app.command(epilog=EXIT_CODES)
def chat(
    target: Annotated[str | None, typer.Argument(help="module:agent or path/to/file.py:agent.")] = None,
    *,
    model: Model = None,
    tools: Tools = "",
    system: System = None,
    protocol: Protocol = None,
    thread: Thread = None,
    as_json: AsJson = False,
) -> None:
    """Talk to an agent: each line is a message; Ctrl-C cancels an answer; /help lists the commands.

    An agent that is paused takes /approve, /reject why, or /resume JSON. With --thread a chat goes on with a thread
    that the agent's checkpointer has kept, also with one that is paused.
    """
    from agentgraph.cli.chat import Chat  # noqa: PLC0415  see the module's docstring
    from agentgraph.cli.conversation import Conversation  # noqa: PLC0415  see the module's docstring
    from agentgraph.cli.screen import JsonScreen, Transcript  # noqa: PLC0415  see the module's docstring

    is_terminal = sys.stdin.isatty() and not as_json
    with _reported(as_json=as_json, alone=as_json) as out, asyncio.Runner() as runner:
        graph = _agent_of(target, _Recipe(model, tools, system, protocol), runner)
        conversation = Conversation(graph, thread or uuid.uuid4().hex)
        runner.run(conversation.read_thread())
        screen = JsonScreen(out) if as_json else Transcript(out)
        code = Chat(runner, conversation, screen, is_terminal=is_terminal).run()
        if conversation.pending and conversation.outlives_process:
            screen.note(_how_to_go_on(conversation, target))
    raise typer.Exit(code)


@app.command("run", epilog=EXIT_CODES)
def run_once(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODULE:AGENT] MESSAGE",
            help="The agent, unless --model makes one, and what is said to it; - reads that from standard input.",
            show_default=False,
        ),
    ],
    *,
    model: Model = None,
    tools: Tools = "",
    system: System = None,
    protocol: Protocol = None,
    thread: Thread = None,
    as_json: AsJson = False,
    with_traceback: Annotated[bool, typer.Option("--traceback", help="Show where a run failed.")] = False,
) -> None:
    """Say one thing to an agent; the answer goes to standard output, tool calls and errors to standard error.

    Either `agentgraph run module:agent "message"`, or `agentgraph run --model provider:name "message"`.
    """
    from agentgraph.cli.chat import STATUS_CODES, play  # noqa: PLC0415  see the module's docstring
    from agentgraph.cli.conversation import Conversation  # noqa: PLC0415  see the module's docstring
    from agentgraph.cli.screen import JsonScreen, Transcript  # noqa: PLC0415  see the module's docstring

    with _reported(as_json=as_json) as out, asyncio.Runner() as runner:
        recipe = _Recipe(model, tools, system, protocol)
        target, message = _target_and_message(words, recipe)
        conversation = Conversation(_agent_of(target, recipe, runner), thread or uuid.uuid4().hex)
        runner.run(conversation.read_thread())
        if conversation.pending:
            raise CommandError(_how_to_go_on(conversation, target), ExitCode.PAUSED)
        said = sys.stdin.read() if message == "-" else message
        if not said.strip():
            raise CommandError("the message is empty; nothing was sent to the model")
        screen = JsonScreen(out) if as_json else Transcript(out, aside=sys.stderr)
        ended = play(runner, conversation, conversation.say(said), screen)
        if conversation.pending:
            screen.note(_how_to_go_on(conversation, target))
        if with_traceback and conversation.failure is not None:
            traceback.print_exception(conversation.failure)
    raise typer.Exit(STATUS_CODES[ended.status])


@app.command(epilog=EXIT_CODES)
def graph(
    target: Target,
    *,
    output: Annotated[
        Path | None, typer.Option(help="A file: .mmd, .md, .dot; .png or .svg where Graphviz or mmdc is installed.")
    ] = None,
    xray: Annotated[bool, typer.Option("--xray", help="Show what is inside subgraphs.")] = False,
) -> None:
    """Print the agent's graph as Mermaid, or write it to a file."""
    from agentgraph.cli.drawing import write_picture  # noqa: PLC0415  see the module's docstring

    with asyncio.Runner() as runner:
        drawable = _load(target, runner).get_graph(xray=xray)
    if output is None:
        typer.echo(drawable.draw_mermaid(), nl=False)
    else:
        write_picture(drawable, output)
        typer.echo(f"wrote {output}", err=True)


@app.command(epilog=EXIT_CODES)
def doctor(*, as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False) -> None:
    """Show versions, extras, which API keys are set (never their values), and whether the local model is there."""
    findings = diagnose()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        marks = {True: "+", None: "-", False: "!"}
        for finding in findings:
            typer.echo(f"{marks[finding.ok]} {finding.topic:<12} {finding.name:<20} {finding.value}")
    raise typer.Exit(ExitCode.FAILED if any(finding.ok is False for finding in findings) else ExitCode.OK)


def _how_to_go_on(conversation: "Conversation", target: str | None) -> str:
    """What a person does about a thread that is paused, once this process has ended."""
    from agentgraph.cli.decisions import how_to_answer  # noqa: PLC0415  see the module's docstring

    if target is None or not conversation.outlives_process:
        return (
            "the agent is paused, and its thread is in memory, so it ends with this process; use `agentgraph chat`, or "
            "an agent with a checkpointer that lasts"
        )
    words = shlex.join(["agentgraph", "chat", target, "--thread", conversation.thread_id])
    return f"the agent is paused; answer with: {words}, then {how_to_answer(conversation.pending)}"


def _target_and_message(words: list[str], recipe: _Recipe) -> tuple[str | None, str]:
    """Tell the words of `run` apart: the message is the last one, an agent's name stands before it."""
    *targets, message = words
    if len(targets) > 1:
        raise CommandError(f"{len(words)} words were given; put the message into quotes")
    if not targets and not recipe:
        raise CommandError(
            f"only {one_line(message, 80)!r} was given; expected an agent and a message (module:agent 'message'), or "
            "--model provider:name and a message"
        )
    return (targets[0] if targets else None), message


def _agent_of(target: str | None, recipe: _Recipe, runner: asyncio.Runner) -> "Graph":
    if target is None:
        return _make_agent(recipe)
    if recipe:
        raise CommandError("--model, --tools, --system and --protocol make an agent; module:agent names one")
    return _load(target, runner)


def _load(target: str, runner: asyncio.Runner) -> "Graph":
    from agentgraph.cli.targets import load_agent, search_working_directory  # noqa: PLC0415  see the module's docstring

    search_working_directory()
    return load_agent(target, runner)


def _make_agent(recipe: _Recipe) -> "Graph":
    from agentgraph import create_agent  # noqa: PLC0415  see the module's docstring
    from agentgraph.cli.targets import load_tools, search_working_directory  # noqa: PLC0415  see the module's docstring
    from agentgraph.errors import ConfigurationError  # noqa: PLC0415  see the module's docstring

    if recipe.model is None:
        raise CommandError("name an agent (module:agent) or a model (--model provider:name)")
    search_working_directory()
    try:
        return create_agent(
            recipe.model, load_tools(recipe.tools), system_prompt=recipe.system, tool_protocol=recipe.protocol
        )
    except ConfigurationError as error:
        raise CommandError(f"{type(error).__name__}: {error}{_as_flags(str(error))}") from error


def _as_flags(text: str) -> str:
    """How the parameters that a text names are given on the command line."""
    flags = [flag for parameter, flag in FLAGS.items() if parameter in text]
    return f" On the command line: {', '.join(flags)}." if flags else ""


@contextmanager
def _reported(*, as_json: bool, alone: bool = True) -> Iterator[TextIO]:
    """Where a command writes; a program that reads events learns also from them that the command could not go on.

    Args:
        as_json: whether events are written.
        alone: whether nothing but the command writes there.
    """
    with own_output() if alone else nullcontext(sys.stdout) as out:
        try:
            yield out
        except CommandError as error:
            if as_json:
                out.write(f"{json.dumps({'type': 'error', 'error': error.code.name.lower(), 'message': str(error)})}\n")
                out.flush()
            raise
