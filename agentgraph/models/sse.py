"""Server-sent events and JSON lines: bytes in, events out, no I/O.

The transport feeds every read of a streamed answer to one of the two decoders, which share one shape (`feed`, `close`).
Framing follows the WHATWG specification of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html):
lines end in CR, LF or CRLF and in nothing else, so the U+2028 and U+0085 that JSON may hold do not cut an event in two.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from agentgraph.errors import InvalidResponseError
from agentgraph.models.json_text import parse_json

__all__ = ["MAX_EVENT_BYTES", "EventDecoder", "JSONLinesDecoder", "SSEDecoder", "ServerSentEvent"]

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a stream.

    Attributes:
        event: the event's type, "message" when the server named none; "json" for a JSON document that came unframed.
        data: the payload; several `data:` lines are joined with a line feed.
        id: the last event id the server set, None if it set none.
    """

    event: str
    data: str
    id: str | None = None


class EventDecoder(Protocol):
    """What the transport needs of a framing: events of bytes, and whether the end was a clean one."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that they completed."""
        ...

    def close(self) -> bool:
        """Say that no more bytes come; True when an unfinished event was left."""
        ...


class _Lines:
    """Splits bytes into lines wherever they were cut; a CRLF that two reads share is one line end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head: bytes | None = b""
        self._partial: list[bytes] = []
        self._after_cr = False
        self.pending = 0

    def feed(self, data: bytes) -> list[bytes]:
        data = self._without_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        # On bytes, splitlines knows the ASCII line ends only; on str it would also cut at U+0085 and U+2028.
        lines = data.splitlines(keepends=True)
        if not lines:
            return lines
        self._after_cr = lines[-1].endswith(b"\r")
        rest = b"" if lines[-1].endswith((b"\r", b"\n")) else lines.pop()
        if lines and self._partial:
            lines[0] = b"".join([*self._partial, lines[0]])
            self._partial, self.pending = [], 0
        if rest:
            self._partial.append(rest)
            self.pending += len(rest)
        return [line.rstrip(b"\r\n") for line in lines]

    def _without_bom(self, data: bytes) -> bytes:
        if self._head is None:
            return data
        self._head += data
        if len(self._head) < len(_BOM) and _BOM.startswith(self._head):
            return b""
        head, self._head = self._head, None
        return head.removeprefix(_BOM)

    def take(self) -> bytes:
        """Hand out the line that has begun and will not end."""
        rest, self._partial, self.pending = self.begun(), [], 0
        return rest

    def begun(self) -> bytes:
        """The line that has begun and has no end yet."""
        return b"".join(self._partial)

    def check(self, held: int) -> None:
        """Refuse an event that grew over the bound, whether its line has ended or not."""
        if held + self.pending > self._limit:
            raise InvalidResponseError(
                f"The server sent one event of more than {self._limit} bytes. Expected events of a chat answer, which "
                "are far smaller. Check that base_url leads to a chat model and not to a file or a proxy."
            )


class SSEDecoder:
    r"""An incremental decoder of `text/event-stream`, for one answer.

    Comments, `retry`, unknown fields, and events without data are dropped, as the specification has it. The field
    `error:`, which elder llama.cpp servers write in place of `data:`, is read as data of an event of type "error".

    Args:
        max_event_bytes: the bound of one event in bytes, default 16 MiB.

    Example:
        >>> SSEDecoder().feed(b"data: {}\n\n")
        [ServerSentEvent(event='message', data='{}', id=None)]
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._lines = _Lines(max_event_bytes)
        self._data: list[str] = []
        self._held = 0
        self._event = ""
        self._id: str | None = None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes, cut anywhere, and return the events that they completed.

        Args:
            data: bytes as they came off the wire, decompressed.

        Returns:
            The completed events in order, often none or several.

        Raises:
            InvalidResponseError: an event is over the bound.
        """
        events: list[ServerSentEvent] = []
        for line in self._lines.feed(data):
            if not line:
                events.extend(self._dispatch())
            else:
                self._read_field(line)
                self._lines.check(self._held)
        self._lines.check(self._held)
        return events

    def close(self) -> bool:
        """Say that no more bytes come.

        Returns:
            True when an event had begun and its closing blank line never came: the stream was cut. A comment and a
            `[DONE]` are whole without it, since nothing can be missing from them.
        """
        rest = self._lines.take()
        if rest.startswith(b":"):
            rest = b""
        self._read_field(rest)
        return bool(rest or self._data) and self._data != ["[DONE]"]

    def _dispatch(self) -> list[ServerSentEvent]:
        data, event = "\n".join(self._data), self._event or "message"
        self._data, self._held, self._event = [], 0, ""
        # An empty payload is a keep-alive of some gateways; no API of ours has an empty event.
        return [ServerSentEvent(event, data, self._id)] if data else []

    def _read_field(self, line: bytes) -> None:
        name, _, raw = line.partition(b":")
        value = raw.removeprefix(b" ").decode("utf-8", "replace")
        match name:
            case b"data":
                self._data.append(value)
                self._held += len(line)
            case b"error":
                self._event = "error"
                self._data.append(value)
                self._held += len(line)
            case b"event":
                self._event = value
            case b"id" if "\0" not in value:
                self._id = value
            case _:
                return


class JSONLinesDecoder:
    r"""An incremental decoder of newline-delimited JSON (Ollama): each line that is not blank is one event "json".

    Args:
        max_event_bytes: the bound of one line in bytes, default 16 MiB.

    Example:
        >>> JSONLinesDecoder().feed(b'{"done": true}\n')
        [ServerSentEvent(event='json', data='{"done": true}', id=None)]
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._lines = _Lines(max_event_bytes)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the lines that they completed.

        Raises:
            InvalidResponseError: a line is over the bound.
        """
        events = []
        for line in self._lines.feed(data):
            self._lines.check(len(line))
            if line.strip():
                events.append(ServerSentEvent("json", line.decode("utf-8", "replace")))
        self._lines.check(0)
        return events

    def ends_whole(self) -> bool:
        """Whether the last line lacks nothing but its end, which some servers leave out."""
        try:
            parse_json(self._lines.begun().decode())
        except ValueError:
            return False
        return True

    def close(self) -> bool:
        """Say that no more bytes come; True when a line was left without its end."""
        return self._lines.pending > 0
