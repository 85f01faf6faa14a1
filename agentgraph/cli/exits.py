"""How a command ends: the exit codes, and the error that carries one."""

import enum
import sys

__all__ = ["CommandError", "ExitCode", "explain", "one_line"]

LINE_LIMIT = 1000


class ExitCode(enum.IntEnum):
    """What the process says to the shell that started it."""

    OK = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    PAUSED = 4
    CANCELLED = 130


class CommandError(Exception):
    """A command cannot go on; its text is shown as one line, without a traceback.

    Attributes:
        code: the exit code of the process.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """`text` without line breaks, in at most `limit` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"


def explain(message: str) -> None:
    """Print one line on standard error, as from the `agentgraph` program."""
    print(f"agentgraph: {one_line(message)}", file=sys.stderr, flush=True)  # noqa: T201  a program speaks
