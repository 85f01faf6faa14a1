"""Leases among all who use one Postgres database: advisory locks, which the server drops when the session ends."""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

from agentgraph.errors import CheckpointError
from agentgraph.persistence.leases import LeaseTable, lease_number

__all__ = ["SessionLeases"]

_log = logging.getLogger(__name__)


class SessionLeases(LeaseTable):
    """Leases as advisory locks of one session, on a connection of its own that opens with the first lease.

    The locks belong to the session, so a pooler that changes sessions between transactions (PgBouncer in transaction
    mode) must not stand in between. When the connection breaks, the server drops the locks; they are taken again with
    the next lease that is asked for.

    Args:
        connect: opens a connection, in autocommit mode.
    """

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        super().__init__()
        self._connect = connect

    def _begin(self) -> None:
        super()._begin()
        self._connection: Connection[Any] | None = None
        self._unlocks: deque[str] = deque()
        self._asking = False

    def close(self) -> None:
        """End the session, and with it all leases."""
        with self._lock:
            self._held.clear()
            self._hang_up()

    def _claim(self, thread_id: str) -> bool:
        self._asking = True
        try:
            return self._lock_thread(thread_id)
        except psycopg.Error as error:
            self._hang_up()
            raise CheckpointError(
                f"The thread {thread_id!r:.200} cannot be reserved for a run: the database does not answer ({error})."
            ) from error
        finally:
            self._asking = False
            self._unlock_waiting()

    def _free(self, thread_id: str) -> None:
        self._unlocks.append(thread_id)
        # The garbage collector may release a forgotten lease while this very thread is asking the server.
        if not self._asking:
            self._unlock_waiting()

    def _unlock_waiting(self) -> None:
        while self._unlocks:
            thread_id = self._unlocks.popleft()
            if self._connection is None:
                continue
            self._asking = True
            try:
                self._ask(self._connection, "SELECT pg_advisory_unlock(%s)", thread_id)
            except psycopg.Error:
                self._hang_up()
            finally:
                self._asking = False

    def _lock_thread(self, thread_id: str) -> bool:
        statement = "SELECT pg_try_advisory_lock(%s)"
        if self._connection is not None:
            try:
                return self._ask(self._connection, statement, thread_id)
            except psycopg.OperationalError:
                self._hang_up()
        self._connection = self._connect()
        self._lock_again(self._connection)
        return self._ask(self._connection, statement, thread_id)

    def _lock_again(self, connection: Connection[Any]) -> None:
        """Runs go on while the connection was broken, so what they hold is locked in the new session too."""
        for thread_id in [*self._held]:
            if not self._ask(connection, "SELECT pg_try_advisory_lock(%s)", thread_id):
                _log.warning("thread %r was taken by another run while the database was away", thread_id)

    @staticmethod
    def _ask(connection: Connection[Any], statement: str, thread_id: str) -> bool:
        # The server counts in signed 64 bits.
        row = connection.execute(statement.encode(), [lease_number(thread_id)], prepare=False).fetchone()
        return bool(row and next(iter(row.values())))

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._unlocks.clear()
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
