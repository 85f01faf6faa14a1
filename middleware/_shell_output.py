"""What a command prints: found by marks that it cannot forge, and bounded while it is produced."""

import re
from collections import deque
from typing import Literal

__all__ = ["MARK_LENGTH", "Output", "Stream", "mark_command"]

MARK_LENGTH = 64
"""More bytes than a mark has: so many are held back, since a mark may come in two pieces."""

STDERR = b"[stderr] "

_CUT = b" [... the rest of the line is left out ...]"


def mark_command(token: str, out: int, err: int) -> str:
    """The shell command that marks the end of another on both streams, and gives its exit code.

    The mark has a byte which this text has not, so that a shell that prints what it reads (`set -v`) makes no mark. A
    shell that prints what it runs (`set -x`) does so on the redirected stream.

    Args:
        token: of this command alone.
        out: the descriptor under which the shell keeps its standard output.
        err: the same of its standard error.
    """
    printed = "command printf '\\036%s %s\\036\\n'"
    return f"{{ {printed} {token} $? >&{out}; {printed} {token} 0 >&{err}; }} 2>/dev/null"


class Output:
    """The first and the last lines of an output, whatever its size.

    Args:
        max_lines: lines that are kept, half of them from the start.
        max_bytes: bytes that are kept, half of them from the start.

    Attributes:
        total_lines: lines that there were.
        total_bytes: bytes that there were.
    """

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._head_lines, self._tail_lines = max_lines - max_lines // 2, max_lines // 2
        self._head_bytes, self._tail_bytes = max_bytes - max_bytes // 2, max_bytes // 2
        self._in_head = self._in_tail = 0
        self._dropped_lines = self._cut_lines = 0
        self._head_full = False
        self.line_bytes = max(self._head_bytes, self._tail_bytes)
        self.total_lines = self.total_bytes = 0

    def add(self, block: bytes, prefix: bytes = b"", cut: bool = False) -> None:
        """Take whole lines, the last of which may have no end.

        Args:
            block: the lines.
            prefix: put before each that is kept.
            cut: whether the last of them is not all of its line.
        """
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        self.total_lines += count
        while block and not self._head_full:
            line, _, block = block.partition(b"\n")
            self._add_to_head(prefix + line + (_CUT if cut and not block else b"") + b"\n")
            count -= 1
        if not block:
            return
        # Only the last lines can stay, so the others are not even looked at.
        lines = block.removesuffix(b"\n").rsplit(b"\n", self._tail_lines)
        kept = lines[1:] if len(lines) > self._tail_lines else lines
        self._dropped_lines += count - len(kept)
        for number, line in enumerate(kept, 1):
            self._add_to_tail(prefix + line + (_CUT if cut and number == len(kept) else b"") + b"\n")

    def _add_to_head(self, line: bytes) -> None:
        if len(self._head) >= self._head_lines or self._in_head + len(line) > self._head_bytes:
            self._head_full = True
            self._add_to_tail(line)
        else:
            self._head.append(line)
            self._in_head += len(line)

    def _add_to_tail(self, line: bytes) -> None:
        if len(line) > self._tail_bytes:
            # Of one line that is too long for all, the start says more than its end.
            line = line[: max(0, self._tail_bytes - len(_CUT) - 1)] + _CUT + b"\n"
            self._cut_lines += 1
        self._tail.append(line)
        self._in_tail += len(line)
        while len(self._tail) > self._tail_lines or (len(self._tail) > 1 and self._in_tail > self._tail_bytes):
            self._in_tail -= len(self._tail.popleft())
            self._dropped_lines += 1

    @property
    def dropped(self) -> Literal["", "lines", "bytes"]:
        """What the limit was that something was left out for, "" where nothing was."""
        if self._cut_lines:
            return "bytes"
        if not self._dropped_lines:
            return ""
        return "lines" if len(self._head) + len(self._tail) >= self._head_lines + self._tail_lines else "bytes"

    def text(self) -> str:
        """What is kept, with a line in the middle that says how much is not."""
        parts = [b"".join(self._head)]
        if self._dropped_lines:
            told = f"[... {self._dropped_lines} of {self.total_lines} lines are left out here ...]\n"
            parts.append(told.encode())
        parts += self._tail
        return b"".join(parts).removesuffix(b"\n").decode("utf-8", "replace")


class Stream:
    """One of the two streams of a shell, as the bytes come in.

    Args:
        output: takes the lines.
        token: of the mark to look for.
        prefix: put before each line.
    """

    def __init__(self, output: Output, token: str, prefix: bytes = b"") -> None:
        self._output = output
        self._prefix = prefix
        self._mark = re.compile(rb"\x1e" + token.encode() + rb" (\d{1,3})\x1e\n")
        self._held = b""
        self._line = bytearray()
        self._overlong = False
        self.status: int | None = None
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Take bytes, up to the mark; what comes after it belongs to the next command."""
        if self.status is not None:
            self.rest += data
            return
        data = self._held + data
        if found := self._mark.search(data):
            self._take(data[: found.start()])
            self._held, self.rest, self.status = b"", data[found.end() :], int(found[1])
            self.flush()
        else:
            self._take(data[:-MARK_LENGTH])
            self._held = data[-MARK_LENGTH:]

    def flush(self) -> None:
        """Give on the last line, which has no end, when nothing more will come."""
        self._take(self._held)
        self._held = b""
        if self._line:
            self._output.add(bytes(self._line), self._prefix, self._overlong)
        self._line.clear()

    def _take(self, data: bytes) -> None:
        self._output.total_bytes += len(data)
        first, end, others = data.partition(b"\n")
        self._grow(first)
        if not end:
            return
        self._output.add(bytes(self._line) + b"\n", self._prefix, self._overlong)
        self._line.clear()
        self._overlong = False
        whole, end, last = others.rpartition(b"\n")
        if end:
            self._output.add(whole + end, self._prefix)
        self._grow(last)

    def _grow(self, data: bytes) -> None:
        room = self._output.line_bytes - len(self._line)
        self._line += data[:room] if room > 0 else b""
        self._overlong = self._overlong or len(data) > room
