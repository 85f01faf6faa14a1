"""`agentgraph threads`: what an operator does with stored conversations, over the URL of a database.

Every command takes the URL first, and most take a thread. What is read of a thread without `--agent` are its messages;
with it also which nodes ran, other fields of the state, and what is to run next. The bodies are in
`agentgraph.cli.threads_operator`, which loads the graph library.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from agentgraph.cli.exits import CommandError

if TYPE_CHECKING:
    from agentgraph.cli.threads_operator import Operator

__all__ = ["threads"]

EXIT_CODES = (
    "Exit codes: 0 done; 1 it failed: a busy, unreadable or missing thread, or a history that repair found broken and "
    "did not write; 2 wrong usage; 3 an extra is missing; 130 cancelled."
)

threads = typer.Typer(
    name="threads",
    help="Look at stored conversations; rewind, fork, copy, prune, repair and delete them.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)

Url = Annotated[str, typer.Argument(help="The database: sqlite:///threads.db, postgresql://...", show_default=False)]
Thread = Annotated[str, typer.Argument(help="Id of the thread.", show_default=False)]
Agent = Annotated[str | None, typer.Option("--agent", help="module:agent whose thread it is.", show_default=False)]
Types = Annotated[str, typer.Option("--types", help="Further types that threads hold: module:Name, by commas.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Checkpoint = Annotated[
    str | None, typer.Option("--checkpoint", help="Id of a checkpoint; by default the newest.", show_default=False)
]


@threads.command("list", epilog=EXIT_CODES)
def list_(
    url: Url,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many threads at most.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only threads used before this checkpoint id.")] = None,
    as_json: AsJson = False,
) -> None:
    """List threads, the last used first: when, how many checkpoints, whether a person is waited for, the id."""
    with _operator(url, as_json=as_json) as operator:
        operator.list_threads(limit, before)


@threads.command(epilog=EXIT_CODES)
def show(
    url: Url,
    thread: Thread,
    *,
    checkpoint: Checkpoint = None,
    agent: Agent = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Show a thread's messages."""
    with _operator(url, agent, types, as_json=as_json) as operator:
        operator.show(thread, checkpoint)


@threads.command(epilog=EXIT_CODES)
def history(
    url: Url,
    thread: Thread,
    *,
    checkpoint: Checkpoint = None,
    limit: Annotated[int, typer.Option(min=1, help="How many steps at most, the last ones.")] = 100,
    agent: Agent = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Show what each step of a thread did."""
    with _operator(url, agent, types, as_json=as_json) as operator:
        operator.history(thread, checkpoint, limit)


@threads.command(epilog=EXIT_CODES)
def diff(
    url: Url,
    thread: Thread,
    before: Annotated[str, typer.Argument(help="Id of the earlier checkpoint.", show_default=False)],
    after: Annotated[str | None, typer.Argument(help="Id of the later one; by default the newest.")] = None,
    *,
    agent: Agent = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Show what differs between two checkpoints."""
    with _operator(url, agent, types, as_json=as_json) as operator:
        operator.diff(thread, before, after)


@threads.command(epilog=EXIT_CODES)
def fork(
    url: Url,
    thread: Thread,
    *,
    checkpoint: Checkpoint = None,
    new_thread: Annotated[
        str | None, typer.Option(help="Id of a new thread; by default a branch of the same one.", show_default=False)
    ] = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Branch off at a checkpoint; what came after it is no part of the branch."""
    with _operator(url, None, types, as_json=as_json) as operator:
        operator.fork(thread, checkpoint, new_thread)


@threads.command(epilog=EXIT_CODES)
def rewind(
    url: Url,
    thread: Thread,
    *,
    checkpoint: Annotated[str | None, typer.Option(help="Id of the checkpoint to go back to.")] = None,
    before_message: Annotated[str | None, typer.Option(help="Id of the message to go back before.")] = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Take a thread back; what came after stays readable by its checkpoint ids."""
    with _operator(url, None, types, as_json=as_json) as operator:
        operator.rewind(thread, checkpoint, before_message)


@threads.command(epilog=EXIT_CODES)
def copy(
    url: Url,
    thread: Thread,
    new_thread: Annotated[str, typer.Argument(help="Id of the new thread.", show_default=False)],
    *,
    as_json: AsJson = False,
) -> None:
    """Copy a thread whole, with its history and its open questions."""
    with _operator(url, as_json=as_json) as operator:
        operator.copy(thread, new_thread)


@threads.command(epilog=EXIT_CODES)
def delete(
    url: Url,
    thread: Thread,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a thread for good."""
    with _operator(url, as_json=as_json) as operator:
        operator.delete(thread, is_agreed=yes)


@threads.command(epilog=EXIT_CODES)
def size(url: Url, thread: Thread, *, as_json: AsJson = False) -> None:
    """Show how much of the database a thread takes."""
    with _operator(url, as_json=as_json) as operator:
        operator.size(thread)


@threads.command(epilog=EXIT_CODES)
def prune(
    url: Url,
    thread: Thread,
    *,
    keep_last: Annotated[int | None, typer.Option(min=1, help="How many of the newest checkpoints stay.")] = None,
    max_age: Annotated[float | None, typer.Option(min=0, help="Younger checkpoints stay as well: days.")] = None,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="First store the messages whole; needs --agent.")
    ] = False,
    agent: Agent = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Delete old checkpoints of a thread; its messages and open questions stay."""
    with _operator(url, agent, types, as_json=as_json) as operator:
        operator.prune(thread, keep_last, max_age, snapshot=snapshot)


@threads.command(epilog=EXIT_CODES)
def repair(
    url: Url,
    thread: Thread,
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the repair; needs --agent.")] = False,
    agent: Agent = None,
    types: Types = "",
    as_json: AsJson = False,
) -> None:
    """Show what is wrong with a thread's messages, and with --write mend it."""
    with _operator(url, agent, types, as_json=as_json) as operator:
        operator.repair(thread, write=write)


@contextmanager
def _operator(url: str, agent: str | None = None, types: str = "", *, as_json: bool) -> "Iterator[Operator]":
    from agentgraph.cli.threads_operator import at_work  # noqa: PLC0415  so that --help answers at once

    try:
        with at_work(url, agent, types, as_json=as_json) as operator:
            yield operator
    except CommandError as error:
        if as_json:
            typer.echo(json.dumps({"type": "error", "error": error.code.name.lower(), "message": str(error)}))
        raise
