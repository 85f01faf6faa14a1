"""What the commands of `agentgraph threads` do, on a database that is open."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from langchain_core.runnables import RunnableConfig

from agentgraph import threads
from agentgraph.cli.exits import CommandError, ExitCode
from agentgraph.cli.screen import visible
from agentgraph.cli.targets import load_agent, load_object, search_working_directory
from agentgraph.cli.threads_output import Printer, counted
from agentgraph.errors import AgentGraphError, ConfigurationError
from agentgraph.persistence import Checkpointer, open_checkpointer, register_types
from agentgraph.threads.access import AgentOrSaver, in_thread, thread_of

__all__ = ["Operator", "at_work"]

SQLITE = "sqlite:///"
DAY = 86_400.0
MOST_DAYS = 100_000
FLAGS = (
    (r"Look with list_threads", "Look with `agentgraph threads list`"),
    (r"Look with history", "Look with `agentgraph threads history`"),
    (r"Take the id from `messages`", "Take the id from `agentgraph threads show`"),
    (r"Give the agent instead", "Give the agent: --agent module:agent"),
    (r"(?<!\w)thread_id=", "--new-thread "),
    (r"(target|thread_id) must be the id of a thread", "expected the id of a thread"),
    (
        r"before='' was given; expected a checkpoint id, or None for the first page",
        "--before '' was given; expected a checkpoint id; leave it out for the first page",
    ),
    (r"open_checkpointer\(\.\.\., types=\[([^\]]*)\]\), or name it in the agent's state schema", r"--types module:\1"),
)
"""How an error of Python's side says what is given here by an option or looked up by a command: (pattern, words)."""


class Operator:
    """Does what is asked with the threads of a database, and prints what came of it.

    Args:
        target: the checkpointer, or an agent that uses it.
        printer: where results go.
    """

    def __init__(self, target: AgentOrSaver, printer: Printer) -> None:
        self._target = target
        self._printer = printer

    def list_threads(self, limit: int, before: str | None) -> None:
        """Print the threads, the last used first."""
        self._printer.threads(threads.list_threads(self._target, limit=limit, before=before))

    def show(self, thread: str, checkpoint: str | None) -> None:
        """Print the messages."""
        self._printer.messages(threads.messages(self._target, in_thread(thread, checkpoint)))

    def history(self, thread: str, checkpoint: str | None, limit: int) -> None:
        """Print the steps."""
        self._printer.steps(threads.history(self._target, in_thread(thread, checkpoint), limit=limit))

    def diff(self, thread: str, before: str, after: str | None) -> None:
        """Print what differs."""
        self._printer.diff(threads.diff(self._target, in_thread(thread, before), in_thread(thread, after)))

    def fork(self, thread: str, checkpoint: str | None, new_thread: str | None) -> None:
        """Branch off."""
        branch = threads.fork(self._target, in_thread(thread, checkpoint), thread_id=new_thread)
        made = thread_of(branch)
        self._printer.done(f"the branch is the newest checkpoint of {made!r}", thread_id=made)

    def rewind(self, thread: str, checkpoint: str | None, before_message: str | None) -> None:
        """Go back."""
        if (checkpoint is None) == (before_message is None):
            raise CommandError("say where to go back to with one of --checkpoint and --before-message")
        place = in_thread(thread)
        branch: RunnableConfig = threads.rewind(self._target, place, to=checkpoint, before_message=before_message)
        left = len(threads.messages(self._target, branch))
        self._printer.done(f"{thread!r} is back at {counted(left, 'message')}", thread_id=thread, messages=left)

    def copy(self, thread: str, new_thread: str) -> None:
        """Copy whole."""
        threads.copy_thread(self._target, thread, new_thread)
        self._printer.done(f"{thread!r} was copied to {new_thread!r}", thread_id=new_thread)

    def delete(self, thread: str, *, is_agreed: bool) -> None:
        """Delete whole, after a question unless it is agreed already."""
        count = threads.size(self._target, thread).checkpoints
        asked = visible(f"Delete the thread {thread!r} with its {counted(count, 'checkpoint')} for good?")
        if not (is_agreed or _confirm(asked)):
            raise CommandError("nothing was deleted; --yes deletes without asking", ExitCode.CANCELLED)
        threads.delete_thread(self._target, thread)
        self._printer.done(f"{thread!r} was deleted", thread_id=thread, checkpoints=count)

    def size(self, thread: str) -> None:
        """Print how much room it takes."""
        self._printer.size(threads.size(self._target, thread))

    def prune(self, thread: str, keep_last: int | None, days: float | None, *, snapshot: bool) -> None:
        """Delete old checkpoints."""
        if keep_last is None and days is None:
            raise CommandError("say what is to stay: --keep-last 1, or --max-age with a number of days")
        if days is not None and days > MOST_DAYS:
            raise CommandError(f"--max-age {days:g} was given; expected a number of days, {MOST_DAYS} at most")
        age = None if days is None else days * DAY
        self._printer.pruned(threads.prune(self._target, thread, keep_last=keep_last, max_age=age, snapshot=snapshot))

    def repair(self, thread: str, *, write: bool) -> None:
        """Print what is wrong, and mend it if told to; ends with code 1 where something stays wrong."""
        found = threads.repair(self._target, in_thread(thread), write=write)
        self._printer.repair(found)
        if not (found.is_sound or found.is_written):
            raise typer.Exit(ExitCode.FAILED)


@contextmanager
def at_work(url: str, agent: str | None, types: str, *, as_json: bool) -> Iterator[Operator]:
    """An operator on the database, which is closed afterwards.

    Args:
        url: of the database.
        agent: `module:agent` whose threads they are, None to do without.
        types: further types, `module:Name` separated by commas.
        as_json: print JSON.

    Raises:
        CommandError: whatever went wrong, with its exit code.
    """
    try:
        with _open(url, types) as saver, asyncio.Runner() as runner:
            yield Operator(_agent_on(saver, agent, runner) if agent else saver, Printer(as_json=as_json))
    except ConfigurationError as error:
        code = ExitCode.MISSING if isinstance(error.__cause__, ImportError) else ExitCode.USAGE
        raise CommandError(_in_words_of_the_command(str(error)), code) from error
    except AgentGraphError as error:
        said = f"{type(error).__name__}: {_in_words_of_the_command(str(error))}"
        raise CommandError(said, ExitCode.FAILED) from error


def _in_words_of_the_command(text: str) -> str:
    for pattern, words in FLAGS:
        text = re.sub(pattern, words, text)
    return text


def _confirm(asked: str) -> bool:
    try:
        return typer.confirm(asked, err=True)
    except typer.Abort:  # nobody is there to answer
        return False


def _open(url: str, types: str) -> Checkpointer:
    search_working_directory()
    path = url.partition("?")[0].removeprefix(SQLITE)
    if url.startswith(SQLITE) and path not in {"", ":memory:"} and not Path(path).expanduser().is_file():
        # SQLite would make an empty one, and a slip of the pen would look like the loss of all threads.
        raise CommandError(f"there is no database {path!r}")
    names = filter(None, (part.strip() for part in types.split(",")))
    return open_checkpointer(url, types=[load_object(name) for name in names])


def _agent_on(saver: Checkpointer, target: str, runner: asyncio.Runner) -> Any:
    graph = load_agent(target, runner)
    if "messages" not in graph.channels:
        raise CommandError(f"{target!r} has no `messages` in its state; expected an agent")
    builder = getattr(graph, "builder", None)
    if builder is not None:
        # The agent was built without this checkpointer, which so has not heard of its types.
        register_types(saver, builder.state_schema)
    return graph.copy({"checkpointer": saver})
