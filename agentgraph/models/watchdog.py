"""A deadline for a thread that is blocked in a read.

A sync read has the limit it was started with and each ping of the server starts it anew. The watchdog shuts the socket
down when no event came in time, whatever bytes did, and the read comes back at once. The loop of asyncio needs none.
"""

import math
import socket
import threading
import time
from typing import Any

__all__ = ["Watchdog"]


class Watchdog:
    """Shuts a socket down unless it is armed anew in time. One sleeping thread, until `stop`.

    Args:
        sock: the socket that a thread may be blocked on.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._due: float | None = None
        self._changed = threading.Condition()
        self._wakes_at = -math.inf
        self._stopped = False
        self._barked = False
        self._thread: threading.Thread | None = None

    @classmethod
    def over(cls, response: Any) -> "Watchdog | None":
        """Return a watchdog over the answer's connection, None where there is no socket (a mock, another transport).

        Args:
            response: an answer of httpx or of its like.
        """
        stream = response.extensions.get("network_stream")
        sock = None if stream is None else stream.get_extra_info("socket")
        return cls(sock) if isinstance(sock, socket.socket) else None

    @property
    def barked(self) -> bool:
        """Whether the socket was shut down because no one armed it in time."""
        return self._barked

    def arm(self, seconds: float | None) -> None:
        """Give the socket so many seconds from now; None lets it be."""
        due = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            self._due = due
            # A later moment needs no waking, which would cost a switch of threads for each event: the thread looks
            # again when the moment has come that it sleeps to.
            if due is not None and due < self._wakes_at:
                self._changed.notify()
        if due is not None and self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="agentgraph-read-deadline", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the watch; the socket may be used again."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                if self._due is not None and self._due <= now:
                    self._barked = True
                    self._shut_down()
                    return
                self._wakes_at = math.inf if self._due is None else self._due
                self._changed.wait(None if self._due is None else self._due - now)

    def _shut_down(self) -> None:
        try:
            # Not SSLSocket.shutdown, which would drop the TLS object under the thread that reads from it.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return  # closed already: nothing can be blocked on it
