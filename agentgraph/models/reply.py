"""An answer of a server as the codecs get it: what it holds, and what its head said. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentgraph.models.failures import request_id

__all__ = ["Arrival", "Reply"]

_NOT_SHOWN: Final = frozenset({"set-cookie", "set-cookie2", "authorization", "proxy-authenticate", "www-authenticate"})


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that was asked for whole.

    Attributes:
        json: the parsed body. Of a server that streams although it was not asked to: `{EVENTS_KEY: [data, ...]}`.
        request_id: the provider's id of the request, to quote to its support; None if it gave none.
        status: the HTTP status, 2xx.
        headers: the answer's headers with lower-case names, without cookies.
    """

    json: dict[str, Any]
    request_id: str | None
    status: int
    headers: dict[str, str]


class Arrival:
    """Status and headers of the attempt that succeeded.

    Args:
        on_reply: told of them as soon as they are there; None for nobody.
    """

    def __init__(self, on_reply: Callable[[Reply], None] | None) -> None:
        self._on_reply = on_reply
        self._status = 0
        self._headers: dict[str, str] = {}

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take notice of the head of the attempt that succeeded."""
        self._status = status
        self._headers = dict(headers)
        if self._on_reply is not None:
            self._on_reply(self.reply({}))

    def reply(self, json: dict[str, Any]) -> Reply:
        """Give the answer with this body."""
        shown = {name: value for name, value in self._headers.items() if name not in _NOT_SHOWN}
        return Reply(json=json, request_id=request_id(self._headers), status=self._status, headers=shown)
