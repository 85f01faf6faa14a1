"""Threads in a Postgres database: any number of processes and machines."""

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from agentgraph.errors import CheckpointError, ConfigurationError
from agentgraph.persistence.checkpointer import GAP, InThreads, Life, OnBusy, Workers, gap_parameters, no_letter
from agentgraph.persistence.leases import lease_number
from agentgraph.persistence.serializing import Apart, StrictSerializer
from agentgraph.persistence.sessions import SessionLeases

__all__ = ["PostgresCheckpointer"]

CONNECT_SECONDS = 10
POOL_SECONDS = 30.0  # how long a call waits for a free connection
IDLE_SECONDS = 1.0  # a connection unused for longer is tried before it is used; the server may have restarted
SETUP_SECONDS = 60.0  # how long another process that makes the tables is waited for
PAUSE_SECONDS = 0.05

# A connection must neither be used nor closed in a forked child; held here, it is never collected.
_abandoned: list[Any] = []


class PostgresCheckpointer(InThreads, PostgresSaver):
    """langgraph's PostgresSaver on a pool of connections; `open_checkpointer("postgresql://...")`.

    Args:
        url: of the database, with its password.
        serde: the serializer.
        on_busy: see Checkpointer.
        max_connections: of the pool; one more holds the leases.
    """

    def __init__(
        self, url: str, *, serde: SerializerProtocol, on_busy: OnBusy = "raise", max_connections: int = 10
    ) -> None:
        life = Life(_shown(url))
        self._pool = _Pool(url, life, max_connections)
        self._sessions = SessionLeases(self._pool.connect)
        self._begin(life, self._sessions, on_busy)
        self._workers = Workers(max_connections)
        PostgresSaver.__init__(self, self._pool, serde=serde)
        # langgraph lets one call at a time through, which a single connection needs and a pool does not.
        self.lock = nullcontext()  # type: ignore[assignment] # it is only ever used in `with`

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - langgraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first, as they are at this moment, so that no connection is held in between."""
        yield from [*super().list(config, filter=filter, before=before, limit=limit)]

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        if StrictSerializer.within(self.serde) is None:
            return super().put(config, checkpoint, metadata, new_versions)
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        apart = {name for name, value in values.items() if name in versions and self._keeps_apart(value)}
        values = {name: Apart(value) if name in apart else value for name, value in values.items()}
        # Also what did not change, which langgraph would put into the JSON again; bytes that are there stay.
        stored = {**new_versions, **{name: versions[name] for name in apart}}
        return super().put(config, {**checkpoint, "channel_values": values}, metadata, stored)

    def _gap(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> str | None:
        with self._pool.connection() as connection:
            found: str | None = _value(
                connection, GAP.replace("?", "%s"), *gap_parameters(thread_id, namespace, checkpoint_id)
            )
        return found

    def _keeps_apart(self, value: Any) -> bool:
        plain = isinstance(value, str | int | float)
        return plain and (isinstance(self.serde, EncryptedSerializer) or not _fits_json(value))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune` from async code."""
        await self._workers.write(self.prune, thread_ids, strategy=strategy)

    def _release(self) -> None:
        self._workers.close()
        self._sessions.close()
        self._pool.finish()


def _fits_json(value: Any) -> bool:
    """Whether langgraph may keep it in the checkpoint's JSON column, where it keeps strings and numbers.

    Others are stored in bytes of their own: enums that are strings or numbers would lose their class there, encrypted
    values would be readable, and some strings and numbers have no form in Postgres's JSON.
    """
    if isinstance(value, str):
        return type(value) is str and "\0" not in value and not any("\ud800" <= one <= "\udfff" for one in value)
    if isinstance(value, float):
        return type(value) is float and math.isfinite(value)
    return not isinstance(value, int) or type(value) in {int, bool}


class _Pool(ConnectionPool[Connection[DictRow]]):
    """A pool that opens itself, makes the tables first, starts anew in a forked child, and speaks our errors."""

    def __init__(self, url: str, life: Life, size: int) -> None:
        self._life = life
        self._size = size
        self._url = url
        # What the URL says comes first.
        self._settings = {name: value for name, value in _SETTINGS.items() if name not in conninfo_to_dict(url)}
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._ready = False
        self._preparing = threading.Lock()
        self._used: WeakKeyDictionary[Connection[Any], float] = WeakKeyDictionary()
        super().__init__(
            self._url,
            kwargs={**self._settings, "row_factory": dict_row},
            check=self._try_idle,
            min_size=0,
            max_size=self._size,
            timeout=POOL_SECONDS,
            open=False,
            name="agentgraph-checkpoints",
        )

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Connection[DictRow]]:
        """A connection for one call of the saver's."""
        self._life.check()
        try:
            self._prepare()
            with super().connection(timeout) as connection:
                yield connection
                self._used[connection] = time.monotonic()
        except (psycopg.Error, PoolTimeout) as error:
            raise CheckpointError(f"{self._life.name!r} cannot be used: {str(error).strip()}") from error
        except UnicodeEncodeError as error:
            raise CheckpointError(f"{self._life.name!r} cannot be used: {no_letter(error)}") from error

    def connect(self) -> Connection[DictRow]:
        """A connection outside the pool."""
        return Connection[DictRow].connect(self._url, row_factory=dict_row, **self._settings)

    def finish(self) -> None:
        """Close the pool; what a forked child inherited is its parent's."""
        if self._ready and self._pid == os.getpid():
            self.close()

    def _prepare(self) -> None:
        if self._pid != os.getpid():
            _abandoned.append(vars(self).copy())
            self._begin()
        if self._ready:
            return
        with self._preparing:
            if not self._ready:
                with self.connect() as connection:
                    _make_tables(connection)
                self.open()
                self._ready = True

    def _try_idle(self, connection: Connection[Any]) -> None:
        if time.monotonic() - self._used.get(connection, 0.0) > IDLE_SECONDS:
            ConnectionPool.check_connection(connection)


_SETTINGS: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": 0,
    "connect_timeout": CONNECT_SECONDS,
}


def _make_tables(connection: Connection[DictRow]) -> None:
    """Run langgraph's migrations where they are missing, by one process at a time."""
    if _is_current(connection):
        return
    key = lease_number("agentgraph: making the tables")
    until = time.monotonic() + SETUP_SECONDS
    # Asked again and again, because a session that waits in a statement would block `CREATE INDEX CONCURRENTLY`.
    while not _value(connection, "SELECT pg_try_advisory_lock(%s)", key):
        if time.monotonic() > until:
            raise CheckpointError(
                "Another process has been making the tables of the checkpoints for too long; try again."
            )
        time.sleep(PAUSE_SECONDS)
    try:
        PostgresSaver(connection).setup()
    finally:
        _value(connection, "SELECT pg_advisory_unlock(%s)", key)


def _is_current(connection: Connection[DictRow]) -> bool:
    # A role that may use the tables is often not allowed to make any, so this must not try to.
    if _value(connection, "SELECT to_regclass('checkpoint_migrations')") is None:
        return False
    newest = _value(connection, "SELECT max(v) FROM checkpoint_migrations")
    return newest is not None and newest >= len(PostgresSaver.MIGRATIONS) - 1


def _value(connection: Connection[DictRow], statement: str, *values: Any) -> Any:
    row = connection.execute(statement.encode(), values or None).fetchone()
    return next(iter(row.values())) if row else None


def _shown(url: str) -> str:
    """The URL without what may be secret."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        parts = None
    if parts is None or not _is_plausible(parts):
        # The client library's own words would repeat the URL, and with it the password.
        raise ConfigurationError(
            "The Postgres URL cannot be read. Expected postgresql://user:password@host:5432/database?option=value, "
            "with special characters of the password in percent-encoding (urllib.parse.quote)."
        )
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{parts.get('host', '')}{port}/{parts.get('dbname', '')}"


def _is_plausible(parts: dict[str, str]) -> bool:
    # A password with an unescaped slash or @ is cut in pieces, which end up in other parts.
    return "@" not in parts.get("dbname", "") + parts.get("host", "") and not parts.get("port", "").strip("0123456789,")
