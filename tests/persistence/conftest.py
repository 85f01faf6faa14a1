"""Databases for tests: SQLite files, and a Postgres server that a wheel brings and that lives as long as the session.

Tests of other folders import the fixtures: `from tests.persistence.conftest import postgres_server, postgres_url,
sqlite_url`; all share one server. `TEST_DATABASE_URL` names another, whose user must be allowed to create databases.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.persistence.postgres_server import shared_server

SECONDS = 60


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file of the test's own."""
    return f"sqlite:///{tmp_path}/threads.db"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server on which databases can be made."""
    with shared_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty database of the test's own."""
    name = f"agentgraph_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True, connect_timeout=SECONDS) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield _with_database(postgres_server, name)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _with_database(url: str, name: str) -> str:
    old = conninfo_to_dict(url)["dbname"]
    head, _, tail = url.rpartition(f"/{old}")
    return f"{head}/{name}{tail}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Each kind of place in turn, empty."""
    return "memory://" if request.param == "memory" else str(request.getfixturevalue(f"{request.param}_url"))
