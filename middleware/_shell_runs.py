"""Which shell belongs to which run: from its start over its pauses to its end, also where nobody tells of the end."""

import functools
import heapq
import itertools
import queue
import threading
import time
import weakref
from collections.abc import Callable

from ._shell_session import ShellSession

__all__ = ["Key", "Lease", "RunSessions"]

Key = tuple[str, str]
"""The id of a session, which is in the state of its run, and that of the thread: a fork of one has the same state."""


class Lease(str):
    """The id of a session, in the state of a run that goes on. When it is gone, so is the run.

    A text, since streams show the state, and who gets them may have to write it down.
    """

    __slots__ = ("__weakref__",)


class _Reaper:
    """One thread that looks after sessions when it is time to."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[tuple[float, Callable[[], float | None]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """See to it that there is the thread; also anew in a process that was forked."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="agentgraph-shells", daemon=True)
                self._thread.start()

    def tell(self, seconds: float, look: Callable[[], float | None]) -> None:
        """Have something looked at later; it says after how many seconds again. Safe wherever garbage is collected."""
        self._inbox.put((time.monotonic() + seconds, look))

    def _serve(self) -> None:
        order, waiting = itertools.count(), list[tuple[float, int, Callable[[], float | None]]]()
        while True:
            try:
                due, look = self._inbox.get(timeout=max(0.0, waiting[0][0] - time.monotonic()) if waiting else None)
                heapq.heappush(waiting, (due, next(order), look))
            except queue.Empty:
                look = heapq.heappop(waiting)[2]
                if (again := look()) is not None:
                    self.tell(again, look)
            del look  # an idle thread must keep no session alive


_reaper = _Reaper()


class RunSessions:
    """The sessions of all runs that one middleware serves.

    Args:
        make: makes a session; told whether it stands for one that is lost.
        idle_seconds: how long a session is kept that no run holds.
    """

    def __init__(self, make: Callable[[bool], ShellSession], idle_seconds: Callable[[], float]) -> None:
        self._make = make
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._open: dict[Key, ShellSession] = {}
        weakref.finalize(self, _reaper.tell, 0.0, functools.partial(_close_all, self._open)).atexit = False

    def begin(self, key: Key, lease: Lease) -> ShellSession:
        """The session of a run that begins.

        Args:
            key: of the session.
            lease: its life says how long the run goes on. One without a thread cannot be gone on with later.
        """
        session = self._add(key, lost=False)
        seconds = self._idle_seconds() if key[1] else 0.0
        weakref.finalize(lease, _abandoned, weakref.ref(self), key, seconds).atexit = False
        return session

    def of(self, key: Key) -> ShellSession:
        """The session with this key; one that takes its place, where it is gone."""
        with self._lock:
            session = self._open.get(key)
        if session is not None:
            return session
        session = self._add(key, lost=True)
        _reaper.tell(self._idle_seconds(), _Look(weakref.ref(self), key))
        return session

    def end(self, key: Key) -> ShellSession | None:
        """The session with this key, which is to be closed now; None where there is none."""
        with self._lock:
            return self._open.pop(key, None)

    def has(self, key: Key) -> bool:
        """Whether there is a session with this key; takes no lock."""
        return key in self._open

    def look(self, key: Key) -> float | None:
        """End a session that nobody holds and that was not used lately; else after how many seconds to look again."""
        with self._lock:
            session = self._open.get(key)
            if session is None:
                return None
            left = session.used + self._idle_seconds() - time.monotonic()
            if key[1] and left > 0:
                return left
            del self._open[key]
        session.close(politely=False)
        return None

    def _add(self, key: Key, *, lost: bool) -> ShellSession:
        _reaper.begin()
        session = self._make(lost)
        with self._lock:
            return self._open.setdefault(key, session)


def _abandoned(sessions: "weakref.ref[RunSessions]", key: Key, seconds: float) -> None:
    found = sessions()
    # Called wherever garbage is collected, so it waits for nothing; most runs have ended their sessions themselves.
    if found is not None and found.has(key):
        _reaper.tell(seconds, _Look(sessions, key))


def _close_all(sessions: dict[Key, ShellSession]) -> None:
    for session in list(sessions.values()):
        session.close(politely=False)


class _Look:
    """Looks at one session, as long as its middleware is there."""

    def __init__(self, sessions: "weakref.ref[RunSessions]", key: Key) -> None:
        self._sessions = sessions
        self._key = key

    def __call__(self) -> float | None:
        sessions = self._sessions()
        return None if sessions is None else sessions.look(self._key)
