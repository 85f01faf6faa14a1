"""Threads in an SQLite file: several processes of one machine may use it at once."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.utils import search_where

from agentgraph.errors import CheckpointError
from agentgraph.persistence.checkpointer import GAP, InThreads, Life, OnBusy, Workers, gap_parameters, no_letter
from agentgraph.persistence.leases import FileLeases, LeaseTable, ThreadLease

__all__ = ["IN_MEMORY", "SqliteCheckpointer"]

IN_MEMORY = ":memory:"
PAUSE_SECONDS = 0.02  # between two tries where SQLite does not wait by itself

# A connection must neither be used nor closed in a forked child; held here, it is never collected.
_abandoned: list[sqlite3.Connection] = []


class SqliteCheckpointer(InThreads, SqliteSaver):
    """langgraph's SqliteSaver for sync and async code; `open_checkpointer("sqlite:///...")`.

    One connection, used by one thread at a time: SQLite has one writer anyway, and a step's read and write take some
    hundred microseconds. The file is in WAL mode, so that processes read while another one writes.

    Args:
        path: absolute path of the file, or ":memory:".
        serde: the serializer.
        on_busy: see Checkpointer.
        timeout: seconds to wait while another process writes.
        synchronous: SQLite's own setting. "normal" keeps all through a crash of the process and may lose the last
            moments when the machine loses power; "full" keeps these as well and waits for the disk at each step.
    """

    def __init__(
        self,
        path: str,
        *,
        serde: SerializerProtocol,
        on_busy: OnBusy = "raise",
        timeout: float = 30.0,
        synchronous: str = "normal",
    ) -> None:
        self._path = path
        self._timeout = timeout
        self._synchronous = synchronous
        self._begin(Life(f"sqlite:///{path}"), LeaseTable() if path == IN_MEMORY else FileLeases(path), on_busy)
        self._workers = Workers(1)
        self._pid = os.getpid()
        self._file: tuple[int, int] | None = None
        SqliteSaver.__init__(self, self._connect(), serde=serde)

    def setup(self) -> None:
        """Make the tables where they are missing; called on first use."""
        if self.is_setup:
            return
        until = time.monotonic() + self._timeout
        while True:
            try:
                self.conn.execute("PRAGMA journal_mode=WAL")
                super().setup()
            except sqlite3.OperationalError as error:
                # Switching to WAL fails at once, whatever the timeout, while another process does the same.
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                self._file = self._file_at_path()
                return

    def thread_lease(self, thread_id: str) -> ThreadLease | None:
        """Reserve a thread for one run, without waiting; see Checkpointer.

        Raises:
            CheckpointError: also where the file was deleted or replaced, because what is written would be lost.
        """
        if self._file is not None and self._file != self._file_at_path() and not self._life.closed:
            raise CheckpointError(
                f"The file of {self.url!r} was deleted or replaced while it was open, so what a run writes would be "
                "lost. Nothing was done. Close the checkpointer, see to the file, and open it again."
            )
        return super().thread_lease(thread_id)

    def _file_at_path(self) -> tuple[int, int] | None:
        """Which file is at the path now; None for none, and for a database in memory."""
        if self._path == IN_MEMORY:
            return None
        try:
            found = Path(self._path).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """The one way to the database: open, in this process, and all or nothing."""
        self._life.check()
        self._notice_fork()
        try:
            with self.lock:
                self._life.check()
                self.setup()
                yield from self._transaction(commit=transaction)
        except sqlite3.Error as error:
            raise CheckpointError(f"{self.url!r} cannot be used: {error}. {_advice(error)}") from error
        except UnicodeEncodeError as error:
            raise CheckpointError(f"{self.url!r} cannot be used: {no_letter(error)}") from error

    def _transaction(self, *, commit: bool) -> Iterator[sqlite3.Cursor]:
        cursor = self.conn.cursor()
        try:
            yield cursor
        except BaseException:
            self.conn.rollback()
            raise
        else:
            if commit:
                self.conn.commit()
        finally:
            cursor.close()

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - langgraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first, each read when it is asked for, so that no lock is held in between."""
        where, values = search_where(config, filter, before)
        query = f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints {where} ORDER BY checkpoint_id DESC"  # noqa: S608 - placeholders
        if limit is not None:
            query, values = f"{query} LIMIT ?", (*values, limit)
        with self.cursor(transaction=False) as cursor:
            found = cursor.execute(query, values).fetchall()
        for thread, namespace, checkpoint in found:
            names = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
            if (one := self.get_tuple({"configurable": names})) is not None:
                yield one

    def _gap(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> str | None:
        with self.cursor(transaction=False) as cursor:
            row = cursor.execute(GAP, gap_parameters(thread_id, namespace, checkpoint_id)).fetchone()
        return row[0] if row else None

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self._path, timeout=self._timeout, check_same_thread=False)
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
        except sqlite3.Error as error:
            raise CheckpointError(f"{self.url!r} cannot be opened: {error}. {_advice(error)}") from error
        return connection

    def _notice_fork(self) -> None:
        if self._pid == os.getpid():
            return
        if self._path == IN_MEMORY:
            raise CheckpointError(
                f"{self.url!r} belongs to the process that opened it, and this is a forked child of it. "
                "Open a file (sqlite:///path), or open the checkpointer after the fork."
            )
        _abandoned.append(self.conn)
        self.lock = threading.Lock()
        self.conn = self._connect()
        self._file = self._file_at_path()
        self._pid = os.getpid()

    def _release(self) -> None:
        self._workers.close()
        if self._pid == os.getpid():
            with self.lock:
                self.conn.close()


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text:
        return (
            "Another process has been writing for longer than the timeout; raise it (?timeout=seconds) or find out why."
        )
    if "not a database" in text or "malformed" in text:
        return "The file is something else, or damaged; nothing was changed."
    if "no such column" in text:
        return "It has a table of another program's under the name of one of ours. Name another file."
    return "Nothing was changed by this call. Check the path, the rights and the space on the disk."
