"""Whole threads in the tables of langgraph's SQLite and Postgres savers.

An operation is a script: a generator that yields statements and is sent their rows. It does no I/O, so one script
serves both databases, sync and async; what runs it makes one transaction of it.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps
from agentgraph.threads.access import either, no_thread
from agentgraph.threads.rows import Key, Place, Removal, ThreadRow, ThreadSize, thread_exists

__all__ = ["POSTGRES", "SQLITE", "Dialect", "SqlStorage", "postgres_storage", "sqlite_storage"]

IDS_A_STATEMENT = 500
"""SQLite takes 999 parameters in its older builds."""


class Statement(NamedTuple):
    """SQL with `?` for its parameters."""

    sql: str
    parameters: tuple[Any, ...] = ()


Rows: TypeAlias = list[tuple[Any, ...]]
Script: TypeAlias = Generator[Statement, Rows, Any]


@dataclass(frozen=True)
class Dialect:
    """How the two savers' tables differ.

    Attributes:
        writes: the table of what tasks wrote.
        value: its column for the value.
        blobs: the table of values of the state; None where they lie in the checkpoint.
        bytes: the function that gives how many bytes a column takes.
    """

    writes: str
    value: str
    blobs: str | None
    bytes: str


SQLITE = Dialect(writes="writes", value="value", blobs=None, bytes="LENGTH")
POSTGRES = Dialect(writes="checkpoint_writes", value="blob", blobs="checkpoint_blobs", bytes="pg_column_size")

# The statements are put together from the names above and from placeholders alone; values are always parameters.
# ruff: noqa: S608


def newest(dialect: Dialect, limit: int, before: Place | None) -> Script:
    """The rows of the most recently used threads."""
    older, parameters = "", tuple[Any, ...]()
    if before is not None:
        older = "HAVING MAX(checkpoint_id) < ? OR (MAX(checkpoint_id) = ? AND thread_id < ?)"
        parameters = (before.newest, *before)
    rows = yield Statement(
        f"""
        SELECT t.thread_id, t.newest, t.oldest, t.checkpoints, (
            SELECT COUNT(DISTINCT w.task_id) FROM {dialect.writes} w
            WHERE w.thread_id = t.thread_id AND w.checkpoint_ns = '' AND w.checkpoint_id = t.newest
            AND w.channel = '__interrupt__' AND NOT EXISTS (
                SELECT 1 FROM {dialect.writes} d
                WHERE d.thread_id = w.thread_id AND d.checkpoint_ns = '' AND d.checkpoint_id = w.checkpoint_id
                AND d.task_id = w.task_id AND d.idx >= 0
            )
        ) AS waiting
        FROM (
            SELECT thread_id, MAX(checkpoint_id) AS newest, MIN(checkpoint_id) AS oldest, COUNT(*) AS checkpoints
            FROM checkpoints WHERE checkpoint_ns = ''
            GROUP BY thread_id {older} ORDER BY 2 DESC, 1 DESC LIMIT ?
        ) AS t ORDER BY 2 DESC, 1 DESC
        """,
        (*parameters, limit),
    )
    return [ThreadRow(*row) for row in rows]


def weigh(dialect: Dialect, thread_id: str) -> Script:
    """The size of a thread."""
    size = dialect.bytes
    found = [
        (yield _measure("checkpoints", f"{size}(checkpoint) + {size}(metadata)", thread_id)),
        (yield _measure(dialect.writes, f"{size}({dialect.value})", thread_id)),
    ]
    if dialect.blobs is not None:
        # A value that is empty has no bytes at all, not zero.
        found.append((yield _measure(dialect.blobs, f"COALESCE({size}(blob), 0)", thread_id)))
    counts = [int(rows[0][0]) for rows in found]
    return ThreadSize(counts[0], counts[1], sum(counts[2:]), sum(int(rows[0][1]) for rows in found))


def _measure(table: str, size: str, thread_id: str) -> Statement:
    return Statement(
        f"SELECT COUNT(*) AS rows, COALESCE(SUM({size}), 0) AS bytes FROM {table} WHERE thread_id = ?", (thread_id,)
    )


def copy(dialect: Dialect, source: str, target: str, removal: Removal) -> Script:
    """A new thread with the rows of another."""
    present = "SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1"
    if not (yield Statement(present, (source,))):
        raise no_thread(source)
    if (yield Statement(present, (target,))):
        raise thread_exists(target)
    tables = {
        "checkpoints": "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
        dialect.writes: f"checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, {dialect.value}",
    }
    if dialect.blobs is not None:
        tables[dialect.blobs] = "checkpoint_ns, channel, version, type, blob"
    for table, columns in tables.items():
        yield Statement(
            f"INSERT INTO {table} (thread_id, {columns}) SELECT ?, {columns} FROM {table} WHERE thread_id = ?",
            (target, source),
        )
    yield from remove(dialect, target, removal)


def remove(dialect: Dialect, thread_id: str, removal: Removal) -> Script:
    """Delete rows, and what only they needed."""
    yield from _delete(dialect.writes, thread_id, (*removal.checkpoints, *removal.writes))
    if not removal.checkpoints:
        return
    yield from _delete("checkpoints", thread_id, removal.checkpoints)
    yield Statement(
        """
        UPDATE checkpoints SET parent_checkpoint_id = NULL
        WHERE thread_id = ? AND parent_checkpoint_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM checkpoints p WHERE p.thread_id = checkpoints.thread_id
            AND p.checkpoint_ns = checkpoints.checkpoint_ns AND p.checkpoint_id = checkpoints.parent_checkpoint_id
        )
        """,
        (thread_id,),
    )
    if dialect.blobs is not None:
        # NOT IN over one set is a hashed lookup; NOT EXISTS would go through all checkpoints for each blob.
        yield Statement(
            f"""
            DELETE FROM {dialect.blobs} WHERE thread_id = ? AND (checkpoint_ns, channel, version) NOT IN (
                SELECT c.checkpoint_ns, v.key, v.value FROM checkpoints c
                CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') AS v WHERE c.thread_id = ?
            )
            """,
            (thread_id, thread_id),
        )


def _delete(table: str, thread_id: str, keys: Iterable[Key]) -> Script:
    spaces: dict[str, list[str]] = defaultdict(list)
    for namespace, checkpoint_id in keys:
        spaces[namespace].append(checkpoint_id)
    for namespace, ids in spaces.items():
        for start in range(0, len(ids), IDS_A_STATEMENT):
            some = ids[start : start + IDS_A_STATEMENT]
            marks = ", ".join("?" * len(some))
            yield Statement(
                f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id IN ({marks})",
                (thread_id, namespace, *some),
            )


@dataclass(frozen=True)
class SqlStorage:
    """The tables of one saver.

    Attributes:
        dialect: how they are called.
        transact: runs a script as one transaction.
        atransact: the same in async code; None to run it in a thread.
    """

    dialect: Dialect
    transact: Callable[[Script], Any]
    atransact: Callable[[Script], Awaitable[Any]] | None

    def newest(self, limit: int, before: Place | None) -> Steps:
        """See Storage."""
        return self._do(newest(self.dialect, limit, before))

    def copy(self, source: str, target: str, removal: Removal) -> Steps:
        """See Storage."""
        return self._do(copy(self.dialect, source, target, removal))

    def weigh(self, thread_id: str) -> Steps:
        """See Storage."""
        return self._do(weigh(self.dialect, thread_id))

    def remove(self, thread_id: str, removal: Removal) -> Steps:
        """See Storage."""
        return self._do(remove(self.dialect, thread_id, removal))

    def _do(self, script: Script) -> Steps:
        return (yield either(self.transact, self.atransact, script))


def sqlite_storage(saver: Any) -> SqlStorage:
    """The tables of a SqliteSaver or an AsyncSqliteSaver."""
    if hasattr(saver, "loop"):
        return SqlStorage(SQLITE, _refuse_sync, _AsyncSqlite(saver))
    return SqlStorage(SQLITE, _Sqlite(saver), None)


def postgres_storage(saver: Any) -> SqlStorage:
    """The tables of a PostgresSaver or an AsyncPostgresSaver."""
    if hasattr(saver, "loop"):
        return SqlStorage(POSTGRES, _refuse_sync, _AsyncPostgres(saver))
    return SqlStorage(POSTGRES, _Postgres(saver), None)


def _refuse_sync(_: Script) -> Any:
    raise ConfigurationError(
        "The checkpointer is one for async code only. Call the async form of the function (its name begins with an a), "
        "or use open_checkpointer, whose checkpointers serve both."
    )


@dataclass(frozen=True)
class _Sqlite:
    saver: Any

    def __call__(self, script: Script) -> Any:
        # Without langgraph's own transaction, which commits also what an error cut short.
        with self.saver.cursor(transaction=False) as cursor:
            try:
                result = _run(script, lambda one: cursor.execute(*one).fetchall())
            except BaseException:
                cursor.connection.rollback()
                raise
            cursor.connection.commit()
            return result


@dataclass(frozen=True)
class _AsyncSqlite:
    saver: Any

    async def __call__(self, script: Script) -> Any:
        await self.saver.setup()
        async with self.saver.lock, self.saver.conn.cursor() as cursor:
            try:
                with closing(script):
                    result = await _arun(script, cursor)
            except BaseException:
                await self.saver.conn.rollback()
                raise
            await self.saver.conn.commit()
            return result


@dataclass(frozen=True)
class _Postgres:
    saver: Any

    def __call__(self, script: Script) -> Any:
        # langgraph has no public way to its connections, which may be one, a pool, or a pipeline.
        with self.saver._cursor() as cursor, cursor.connection.transaction():  # noqa: SLF001 - as above
            return _run(script, lambda one: _rows_of(cursor.execute(_translated(one.sql), one.parameters)))


@dataclass(frozen=True)
class _AsyncPostgres:
    saver: Any

    async def __call__(self, script: Script) -> Any:
        async with self.saver._cursor() as cursor, cursor.connection.transaction():  # noqa: SLF001 - as in _Postgres
            with closing(script):
                return await _arun(script, cursor, translate=True)


def _run(script: Script, execute: Callable[[Statement], Rows]) -> Any:
    with closing(script):
        try:
            statement = next(script)
            while True:
                statement = script.send(execute(statement))
        except StopIteration as stop:
            return stop.value


async def _arun(script: Script, cursor: Any, *, translate: bool = False) -> Any:
    try:
        statement = next(script)
        while True:
            sql = _translated(statement.sql) if translate else statement.sql
            await cursor.execute(sql, statement.parameters)
            rows = await cursor.fetchall() if cursor.description else []
            statement = script.send([_values(row) for row in rows])
    except StopIteration as stop:
        return stop.value


def _rows_of(cursor: Any) -> Rows:
    return [_values(row) for row in cursor.fetchall()] if cursor.description else []


def _values(row: Any) -> tuple[Any, ...]:
    """A row as a tuple; cursors of langgraph's Postgres savers give dictionaries."""
    return tuple(row.values()) if isinstance(row, dict) else tuple(row)


def _translated(sql: str) -> str:
    """With Postgres' placeholders."""
    return sql.replace("?", "%s")
