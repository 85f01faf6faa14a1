"""From a URL to a checkpointer."""

import difflib
import importlib
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

from langgraph.checkpoint.serde.base import SerializerProtocol

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.persistence.checkpointer import Checkpointer, OnBusy
from agentgraph.persistence.memory import MemoryCheckpointer
from agentgraph.persistence.serializing import StrictSerializer

__all__ = ["open_checkpointer"]

EXAMPLES = "memory://, sqlite:///threads.db, sqlite:////absolute/threads.db or postgresql://user:password@host/database"


def open_checkpointer(
    url: str,
    *,
    types: Iterable[Any] = (),
    serde: SerializerProtocol | None = None,
    on_busy: OnBusy = "raise",
    max_connections: int = 10,
) -> Checkpointer:
    """Open the place where threads are kept: a saver for `create_agent(checkpointer=...)`, for sync and async code.

    ===========================  ==================================================================
    URL                          threads are kept
    ===========================  ==================================================================
    `memory://`                  in this process, until it ends
    `sqlite:///threads.db`       in a file; four slashes for an absolute path (`sqlite:////var/t.db`)
    `sqlite:///:memory:`         in this process, by SQLite
    `postgresql://user@host/db`  in a Postgres database
    ===========================  ==================================================================

    Nothing is connected and no table is made before the first use. What is stored is read back strictly: only types of
    agentgraph, of langgraph's and langchain-core's state, and registered ones become objects again. The types that an
    agent's state and response schemas name are registered when the agent is built; name others in `types`. Options of
    SQLite stand in the URL: `?timeout=30` (seconds to wait for another writer), `?synchronous=full` (also a loss of
    power loses nothing); beside its file stands another, `threads.db.leases`, through which the processes of a machine
    see which threads are in use. A Postgres URL takes the options of its client library (`?sslmode=require`).

    Encryption is langgraph's, around our serializer; what stays readable are thread ids, the metadata of checkpoints
    and runs, and the names of fields and nodes::

        from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

        serde = EncryptedSerializer.from_pycryptodome_aes(StrictSerializer([Order]), key=key)
        open_checkpointer("sqlite:///threads.db", serde=serde)

    Args:
        url: as above. Passwords never show in errors and representations.
        types: further types that threads hold: classes (their fields' types included), modules (all their enums,
            dataclasses, pydantic models and named tuples), or annotations such as `list[Order]`.
        serde: another serializer, for instance an encrypting one; `types` are registered with the StrictSerializer
            inside it.
        on_busy: what a run does when another one, in any process, is at work on its thread: "raise" a ThreadBusyError,
            or "wait" for its turn.
        max_connections: of Postgres, at most; one more holds the leases.

    Returns:
        A langgraph saver that is also a context manager (`with`, `async with`); see Checkpointer. Close it at the end.

    Raises:
        ConfigurationError: the URL, an option or a type cannot work, or the extra of the database is not installed.
        CheckpointError: the file is no SQLite database.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel
        >>> with open_checkpointer("memory://") as saver:
        ...     agent = create_agent(ScriptedModel(replies=["Hello!", "Again!"]), checkpointer=saver)
        ...     thread = {"configurable": {"thread_id": "1"}}
        ...     _ = agent.invoke({"messages": "hi"}, thread)
        ...     len(agent.invoke({"messages": "hi"}, thread)["messages"])
        4
    """
    place = _Place.of(url)
    if on_busy not in {"raise", "wait"}:
        raise ConfigurationError(f"on_busy={on_busy!r:.100} was given; expected 'raise' or 'wait'.")
    if isinstance(max_connections, bool) or not isinstance(max_connections, int) or max_connections < 1:
        raise ConfigurationError(f"max_connections={max_connections!r:.100} was given; expected a number from 1 up.")
    serializer = _serializer(types, serde)
    return _OPENERS[place.scheme](place, serde=serializer, on_busy=on_busy, max_connections=max_connections)


@dataclass(frozen=True)
class _Place:
    """A URL in parts; it may hold a password and is never shown as a whole."""

    scheme: str
    rest: str = field(repr=False)

    @property
    def url(self) -> str:
        """The whole."""
        return f"{self.scheme}://{self.rest}"

    @classmethod
    def of(cls, url: str) -> "_Place":
        if not isinstance(url, str):
            raise ConfigurationTypeError(
                f"A checkpointer's URL is a string, not {type(url).__name__}; for example {EXAMPLES}."
            )
        scheme, mark, rest = url.partition("://")
        scheme = {"postgres": "postgresql"}.get(scheme, scheme)
        if not mark or scheme not in _OPENERS:
            raise ConfigurationError(_unknown_scheme(scheme if mark else url.partition(":")[0]))
        return cls(scheme, rest)


def _unknown_scheme(scheme: str) -> str:
    # Whatever follows the scheme may hold a password, so it is not repeated.
    near = difflib.get_close_matches(scheme.partition("+")[0].lower(), [*_OPENERS, "postgres"], n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}://?" if near else ""
    return f"A checkpointer's URL cannot begin with {scheme!r:.40}.{hint} Expected for example {EXAMPLES}."


def _serializer(types: Iterable[Any], serde: SerializerProtocol | None) -> SerializerProtocol:
    if serde is None:
        return StrictSerializer(types)
    strict = StrictSerializer.within(serde)
    given = [*types]
    if given and strict is None:
        raise ConfigurationError(
            f"types were given together with the serializer {type(serde).__name__}, which registers none. "
            "Put a StrictSerializer into it, or leave types out."
        )
    if strict is not None:
        strict.register(*given)
    return serde


def _open_memory(place: _Place, *, serde: SerializerProtocol, on_busy: OnBusy, max_connections: int) -> Checkpointer:
    del max_connections
    if place.rest.strip("/"):
        raise ConfigurationError(f"Nothing may follow memory://, but {place.rest!r:.100} does.")
    return MemoryCheckpointer(serde=serde, on_busy=on_busy)


def _open_sqlite(place: _Place, *, serde: SerializerProtocol, on_busy: OnBusy, max_connections: int) -> Checkpointer:
    del max_connections
    name, _, query = place.rest.partition("?")
    if not name.startswith("/") or len(name) == 1:
        raise ConfigurationError(
            f"{'sqlite://' + name!r:.200} names no file. Expected three slashes and a path, sqlite:///threads.db, four "
            "and an absolute path, sqlite:////var/threads.db, or sqlite:///:memory:."
        )
    sqlite = _module("sqlite")
    path = name[1:]
    if path != sqlite.IN_MEMORY:
        path = _absolute(path)
    options = _sqlite_options(query)
    checkpointer: Checkpointer = sqlite.SqliteCheckpointer(path, serde=serde, on_busy=on_busy, **options)
    return checkpointer


def _absolute(path: str) -> str:
    """Once and for all, because the working directory may change while the checkpointer is open."""
    try:
        os.fsencode(path)
        place = Path(path).expanduser().absolute()
        has_folder = place.parent.is_dir()
    except (ValueError, RuntimeError, OSError) as error:  # letters, a home of nobody's, a name that is too long
        raise ConfigurationError(_no_path(path, error)) from error
    if "\0" in path:
        raise ConfigurationError(_no_path(path, "it holds a NUL"))
    if not has_folder:
        raise ConfigurationError(
            f"The folder of the database {path!r:.300} does not exist. Make it first, or name another path."
        )
    return str(place)


def _no_path(path: str, why: object) -> str:
    return f"The path of the database {path!r:.300} is none that a file can have: {why!s:.200}. Name another path."


def _sqlite_options(query: str) -> dict[str, Any]:
    """`timeout=30&synchronous=full` as keyword arguments."""
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _SQLITE_OPTIONS:
            raise ConfigurationError(f"{name!r:.100} is no option of SQLite; expected {' or '.join(_SQLITE_OPTIONS)}.")
        options[name] = _SQLITE_OPTIONS[name](value)
    return options


def _timeout(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigurationError(f"timeout={value!r:.100} was given; expected seconds, for example timeout=30.")
    return seconds


def _synchronous(value: str) -> str:
    if value not in {"normal", "full"}:
        raise ConfigurationError(f"synchronous={value!r:.100} was given; expected 'normal' or 'full'.")
    return value


_SQLITE_OPTIONS: dict[str, Callable[[str], Any]] = {"timeout": _timeout, "synchronous": _synchronous}


def _open_postgres(place: _Place, *, serde: SerializerProtocol, on_busy: OnBusy, max_connections: int) -> Checkpointer:
    postgres = _module("postgres")
    checkpointer: Checkpointer = postgres.PostgresCheckpointer(
        place.url, serde=serde, on_busy=on_busy, max_connections=max_connections
    )
    return checkpointer


def _module(name: str) -> ModuleType:
    """Our module for a database, which needs the database's package."""
    try:
        return importlib.import_module(f"agentgraph.persistence.{name}")
    except ImportError as error:
        raise ConfigurationError(
            f"{name}:// needs a package that is not installed ({error.name}). Run:"
            f' pip install "agentgraph-runtime[{name}]"'
        ) from error


_OPENERS: dict[str, Callable[..., Checkpointer]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
}
