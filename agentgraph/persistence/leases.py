"""Leases: at most one run at a time works on a thread, in this process and in any other that shares the database.

A lease is taken at the start of a run and given back at its end. Taking one never waits: whoever does not get it
decides what to do. Every lease is tied to something that ends with the process (memory, a lock of the operating
system, a session of the database server), so that a crash, also a `kill -9`, gives it back at once.

================  ========================  ============================================
leases            among                     used by
================  ========================  ============================================
`LeaseTable`      threads of one process    `memory://`, `sqlite:///:memory:`
`FileLeases`      processes on one machine  `sqlite:///path`
`SessionLeases`   all who use one database  `postgresql://`; see persistence/sessions.py
================  ========================  ============================================
"""

import asyncio
import contextlib
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from agentgraph.errors import CheckpointError

__all__ = ["FileLeases", "LeaseTable", "Leases", "ThreadLease", "lease_number"]


class ThreadLease:
    """The right to run on one thread, until it is released.

    Given by a checkpointer's `thread_lease`. It ends with `release`, with its `with` block, when nobody refers to it
    any more, and when the process dies.

    Attributes:
        thread_id: the thread it is for.

    Example:
        >>> from agentgraph.persistence import open_checkpointer
        >>> saver = open_checkpointer("memory://")
        >>> with saver.thread_lease("order-17"):
        ...     print(saver.thread_lease("order-17"))
        None
    """

    def __init__(self, thread_id: str, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self._pid = os.getpid()
        self.thread_id = thread_id

    def release(self) -> None:
        """Give it back. May be called again, and from any thread; it never waits for another lease."""
        give_back, self._give_back = self._give_back, None
        # The copy that a forked child has is not the child's to give back.
        if give_back is not None and self._pid == os.getpid():
            give_back()

    async def arelease(self) -> None:
        """Give it back from async code: with Postgres a round trip to the server, which must not block the loop."""
        await asyncio.to_thread(self.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"ThreadLease({self.thread_id!r}, {'released' if self._give_back is None else 'held'})"


class Leases(Protocol):
    """Where a checkpointer's leases come from."""

    def take(self, thread_id: str) -> ThreadLease | None:
        """The lease on a thread; None while another run holds it."""
        ...


class LeaseTable:
    """Leases among the threads of one process."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        # Reentrant, because the garbage collector may release a forgotten lease at any point, also inside `take`.
        self._lock = threading.RLock()
        self._held: dict[str, object] = {}

    def take(self, thread_id: str) -> ThreadLease | None:
        """The lease on a thread; None while another run holds it."""
        if self._pid != os.getpid():
            # The runs that held them, and maybe the lock, stayed behind in the parent.
            self._begin()
        with self._lock:
            if thread_id in self._held or not self._claim(thread_id):
                return None
            token = object()
            self._held[thread_id] = token
        return ThreadLease(thread_id, lambda: self._drop(thread_id, token))

    def _drop(self, thread_id: str, token: object) -> None:
        with self._lock:
            if self._held.get(thread_id) is token:
                del self._held[thread_id]
                self._free(thread_id)

    def _claim(self, thread_id: str) -> bool:
        """Ask beyond this process; here there is nothing beyond."""
        del thread_id
        return True

    def _free(self, thread_id: str) -> None:
        """Tell beyond this process."""


class _LeaseFile(LeaseTable):
    """A file whose bytes are locked, one byte a thread. Nothing is ever written to it.

    Locks of the operating system belong to the process, and closing any descriptor of the file drops all of them. So
    there is one of these a file and process, and its descriptor stays open.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)

    def is_current(self) -> bool:
        """Whether the file is still the one at its path; one that was deleted protects from nobody."""
        try:
            return bool(self._held) or os.path.samestat(os.fstat(self._fd), Path(self._path).stat())
        except OSError:
            return False

    def _claim(self, thread_id: str) -> bool:
        return _lock_byte(self._fd, lease_number(thread_id))

    def _free(self, thread_id: str) -> None:
        _unlock_byte(self._fd, lease_number(thread_id))


class FileLeases:
    """Leases among the processes of one machine that use one SQLite file.

    Args:
        database: absolute path of the database; the leases' file stands beside it.
    """

    def __init__(self, database: str) -> None:
        self._path = f"{database}.leases"

    def take(self, thread_id: str) -> ThreadLease | None:
        """The lease on a thread; None while another run holds it.

        Raises:
            CheckpointError: the file of the leases cannot be opened or locked.
        """
        try:
            return _lease_file(self._path).take(thread_id)
        except OSError as error:
            raise CheckpointError(
                f"The thread {thread_id!r:.200} cannot be reserved for a run: {self._path!r:.300} cannot be opened or "
                f"locked ({error.strerror}). It must be a writable file on a file system with locks."
            ) from error


_files: dict[str, _LeaseFile] = {}
_opening = threading.Lock()


def _lease_file(path: str) -> _LeaseFile:
    path = os.path.realpath(path)
    with _opening:
        file = _files.get(path)
        if file is None or not file.is_current():
            file = _files[path] = _LeaseFile(path)
        return file


def _forget_files() -> None:
    global _opening  # noqa: PLW0603 - another thread of the parent may have held it when the child was forked
    _opening = threading.Lock()
    _files.clear()


if hasattr(os, "register_at_fork"):
    # Locks of the operating system do not pass to a child, so the child's descriptors must be new as well.
    os.register_at_fork(after_in_child=_forget_files)


def lease_number(thread_id: str) -> int:
    """A number for a thread, 0 to 2**62 - 1, the same in every process."""
    return int.from_bytes(hashlib.sha256(thread_id.encode("utf-8", "surrogatepass")).digest()[:8]) >> 2


if sys.platform == "win32":
    import msvcrt

    def _lock_byte(fd: int, offset: int) -> bool:
        os.lseek(fd, offset, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock_byte(fd: int, offset: int) -> None:
        os.lseek(fd, offset, os.SEEK_SET)
        with contextlib.suppress(OSError):
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock_byte(fd: int, offset: int) -> bool:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except (BlockingIOError, PermissionError):  # which of the two is left open by POSIX
            return False
        return True

    def _unlock_byte(fd: int, offset: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.lockf(fd, fcntl.LOCK_UN, 1, offset)
