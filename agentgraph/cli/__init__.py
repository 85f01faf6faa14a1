"""The `agentgraph` command: talk to an agent, run it once, draw it, look at stored threads and at the installation.

::

    agentgraph chat module:agent                       talk to an agent of yours
    agentgraph chat --model local:smollm2 --protocol json --tools module:fn,module:fn2
    agentgraph run module:agent "message"              one run, the answer on standard output
    agentgraph run --model openai:gpt-5 "message"      the same, with an agent made like that of chat
    agentgraph graph module:agent --output graph.svg   the graph as Mermaid text or as a picture
    agentgraph threads list sqlite:///threads.db       stored threads; also show, history, rewind, prune, delete ...
    agentgraph doctor                                  versions, extras, keys, the local model

`module:agent` (or `path/to/file.py:agent`) names a compiled graph, or a function without parameters that returns
one. The working directory is searched for modules first.

`chat` and `run` take `--json`: then each event is one line of JSON on standard output, with a `type`:

- `text` (`id`, `text`): a piece of the model's answer; `id` is the message it belongs to;
- `tool_call` (`id`, `name`, `args`) and `tool_result` (`id`, `name`, `status`, `content`);
- `interrupt` (`id`, `value`, `thread`): the run waits for a decision; `--thread` with that id goes on there;
- `usage` (`input_tokens`, `output_tokens`, `total_tokens`): of the turn, or of the conversation after `/usage`;
- `error` (`error`, `message`): the type of what went wrong, and its text;
- `done` (`status`, and `structured_response` if there is one): the turn's end: `ok`, `failed`, `paused`, `cancelled`.

Nothing else is on standard output then, nor with `run` without it: what tools print goes to standard error. So does,
with every command, what a module prints while it is imported.

A run that is paused says on standard error how it is answered, which is done in `agentgraph chat`, by this or another
process. That takes an agent whose checkpointer outlives the process: a thread in memory ends with it.

Exit codes:

====  =======================================================================
0     the agent answered
1     the run failed; the error is one line on standard error
2     usage: the command line names something that cannot be used
3     an extra or a program that the command needs is not installed
4     the run is paused for a decision (an interrupt) that nobody could give
130   cancelled with Ctrl-C
====  =======================================================================

This module imports neither typer nor rich (the `cli` extra), so that their absence can be told in one line.
"""

import importlib
import sys
from collections.abc import Sequence

from agentgraph.cli.exits import CommandError, ExitCode, explain
from agentgraph.cli.streams import drop_output, prepare_streams

__all__ = ["MISSING_EXTRA", "CommandError", "ExitCode", "main"]

MISSING_EXTRA = "the command line needs typer and rich; install them with: pip install 'agentgraph-runtime[cli]'"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with the code that says how it went.

    Args:
        arguments: the words after the program's name; by default those of the process.

    Raises:
        SystemExit: always, with one of the codes of `ExitCode`.

    Example:
        >>> main(["--version"])  # doctest: +SKIP
        agentgraph 0.1.0
    """
    sys.exit(_run(sys.argv[1:] if arguments is None else list(arguments)))


def _run(arguments: list[str]) -> int:
    prepare_streams()
    try:
        if not all(map(_is_importable, ("typer", "rich"))):
            explain(MISSING_EXTRA)
            return ExitCode.MISSING
        return int(importlib.import_module("agentgraph.cli.commands").run(arguments))
    except CommandError as error:
        explain(str(error))
        return error.code
    except OSError as error:
        # What an agent's own code raises is told elsewhere: this is the input or the output of the command.
        drop_output()
        explain(f"{type(error).__name__}: {error}")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.CANCELLED


def _is_importable(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True
