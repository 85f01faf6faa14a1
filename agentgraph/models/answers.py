"""What the bytes of a successful answer are, whatever its headers say: events, JSON lines, JSON, or a page. No I/O."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, assert_never

from agentgraph.errors import InvalidResponseError, ModelError, TruncatedStreamError
from agentgraph.models.failures import Origin, failure_in, invalid_response, request_id
from agentgraph.models.json_text import parse_json, without_halves
from agentgraph.models.sse import MAX_EVENT_BYTES, EventDecoder, JSONLinesDecoder, ServerSentEvent, SSEDecoder

__all__ = ["EVENTS_KEY", "MAX_JSON_BYTES", "AnswerReader", "as_document"]

EVENTS_KEY: Final = "__events__"
MAX_JSON_BYTES: Final = 64 * 1024 * 1024
_JSON_LINES: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
_SHOWN_OF_PAGE: Final = 4096
_SSE_FIELD: Final = re.compile(rb":|(?:data|event|id|retry|error):")
_LONGEST_FIELD: Final = 6
_SPACES: Final = re.compile(r"\s*")
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_KEEP_ALIVES: Final = frozenset({"ping", "heartbeat", "keepalive", "keep-alive", "keep_alive"})

Framing = Literal["sse", "jsonl", "json", "page"]


def _framing(mime: str, head: bytes, *, whole: bool) -> Framing | None:
    """Return how the answer is framed by its first bytes, None while they are too few to tell."""
    if not head:
        return None
    if head[:1] in {b"{", b"["}:
        return "jsonl" if mime in _JSON_LINES else "json"
    if head[:1] == b"<":
        return "page"
    if mime == "text/event-stream" or _SSE_FIELD.match(head):
        return "sse"
    return "page" if whole or len(head) >= _LONGEST_FIELD else None


def _is_json(line: bytes) -> bool:
    """Whether a line is a whole document; one that is too long for an event of a stream is not asked."""
    if len(line) > MAX_EVENT_BYTES:
        return False
    try:
        parse_json(line.decode())
    except ValueError:
        return False
    return True


def _values_in_a_row(body: bytes) -> list[str]:
    """Part objects that follow each other without line ends; none where anything else stands between them."""
    decoder = json.JSONDecoder(strict=False)
    values: list[str] = []
    try:
        text, at = body[:MAX_EVENT_BYTES].decode().strip(), 0
        while text.startswith("{", at):
            end = decoder.raw_decode(text, at)[1]
            parse_json(text[at:end])
            values.append(text[at:end])
            at = end + len(_SPACES.match(text, end)[0])  # type: ignore[index]  # it matches nothing as well
    except (ValueError, RecursionError):
        return []
    return values if at == len(text) and len(body) <= MAX_EVENT_BYTES else []


class AnswerReader:
    """Reads one successful answer: feed bytes, take events; raises when the answer is no answer.

    Keep-alives (comments, blank lines, `event: ping` and its like) yield nothing, so that no deadline counts them as
    life. The first event is looked at for an error in the place of content, because until then the request can still
    be sent again.

    Args:
        origin: whom the request asked.
        status: the HTTP status, 2xx.
        headers: the answer's headers with lower-case names.
    """

    def __init__(self, origin: Origin, status: int, headers: Mapping[str, str]) -> None:
        self._origin = origin
        self._status = status
        self._headers = headers
        self._mime = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._framing: Framing | None = None
        self._decoder: EventDecoder = SSEDecoder()
        self._parts: list[bytes] = []
        self._size = 0
        self._one_line = True
        self._begun = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that they completed.

        Raises:
            InvalidResponseError: a page in place of an answer, or something over its bound.
            ModelError: the first event is an error of the server's.
        """
        if self._framing is None:
            data = b"".join([*self._parts, data]).lstrip(_BLANK)
            self._parts = [data] if data else []
            self._settle(data, whole=False)
            if self._framing is None:
                return []
            self._parts = []
        return self._read(data)

    def close(self) -> list[ServerSentEvent]:
        """Say that the answer ended by itself and return the events that were left.

        Raises:
            TruncatedStreamError: the end came within an event, or before the first.
            InvalidResponseError: an empty body, half a JSON, a page.
        """
        events: list[ServerSentEvent] = []
        if self._framing is None and self._parts:
            data, self._parts = b"".join(self._parts), []
            self._settle(data, whole=True)
            events = self._read(data)
        match self._framing:
            case "json":
                return self._checked(self._documents())
            case "page":
                raise self._page()
            case "sse" | "jsonl":
                events += self._last_line()
                cut = self._decoder.close()
            case None:
                cut = False
                if self._mime != "text/event-stream":
                    raise self._invalid("an empty body. Expected JSON or events.")
            case _ as never:
                assert_never(never)
        if cut or not (events or self._begun):
            raise self.truncated("within an event" if cut else "before its first event")
        return events

    def _last_line(self) -> list[ServerSentEvent]:
        whole = isinstance(self._decoder, JSONLinesDecoder) and self._decoder.ends_whole()
        return self._read(b"\n") if whole else []

    def truncated(self, where: str) -> TruncatedStreamError:
        """Return the error of an answer that was cut.

        Args:
            where: the place, e.g. "within an event".
        """
        return TruncatedStreamError(
            f"{self._origin.provider}: {self._origin.url}: the answer ended {where}. Expected it whole. "
            "Nothing of it was run; ask again.",
            provider=self._origin.provider,
            status=self._status,
            url=self._origin.url,
            request_id=request_id(self._headers),
        )

    def _settle(self, head: bytes, *, whole: bool) -> None:
        self._framing = _framing(self._mime, head, whole=whole)
        if self._framing == "jsonl":
            self._decoder = JSONLinesDecoder()

    def _read(self, data: bytes) -> list[ServerSentEvent]:
        if self._framing in {"sse", "jsonl"}:
            try:
                events = self._decoder.feed(data)
            except InvalidResponseError as error:
                raise self._invalid(str(error)) from None
            return self._checked([event for event in events if event.event not in _KEEP_ALIVES])
        self._parts.append(data)
        self._size += len(data)
        if self._framing == "json" and self._one_line and b"\n" in data:
            self._one_line = False
            if _is_json(b"".join(self._parts).partition(b"\n")[0]):
                return self._as_lines()
        if self._framing == "page" and self._size > _SHOWN_OF_PAGE:
            raise self._page()
        if self._size > MAX_JSON_BYTES:
            raise self._invalid(f"a body of more than {MAX_JSON_BYTES} bytes. Expected an answer of a chat model.")
        return []

    def _as_lines(self) -> list[ServerSentEvent]:
        """Go on as lines of JSON: the first line is a whole one. A document of one line is the same, read so."""
        data, self._parts = b"".join(self._parts), []
        self._framing, self._decoder = "jsonl", JSONLinesDecoder()
        return self._read(data)

    def _checked(self, events: list[ServerSentEvent]) -> list[ServerSentEvent]:
        if events and not self._begun:
            error = self._error_in(events[0])
            if error is not None:
                raise error
            self._begun = True
        return events

    def _error_in(self, event: ServerSentEvent) -> ModelError | None:
        if '"error"' not in event.data and event.event != "error":
            return None
        try:
            payload = parse_json(event.data)
        except ValueError:
            payload = event.data
        if event.event == "error" and not (isinstance(payload, dict) and "error" in payload):
            payload = {"error": payload}
        return failure_in(self._origin, payload, status=self._status, headers=self._headers)

    def _documents(self) -> list[ServerSentEvent]:
        body = b"".join(self._parts)
        try:
            text = body.decode()
            parse_json(text)
        except ValueError as error:
            what = f"something that is not JSON ({error}), {len(body)} bytes: {body[:200].decode('utf-8', 'replace')}"
        else:
            return [ServerSentEvent("json", text)]
        values = _values_in_a_row(body)
        if not values:
            raise self._invalid(what)
        return [ServerSentEvent("json", value) for value in values]

    def _page(self) -> InvalidResponseError:
        text = b"".join(self._parts)[:_SHOWN_OF_PAGE].decode("utf-8", "replace")
        return self._invalid(f"neither JSON nor events but {self._mime or 'an unnamed type'}: {text}")

    def _invalid(self, what: str) -> InvalidResponseError:
        return invalid_response(self._origin, what, status=self._status, headers=self._headers)


def as_document(events: list[ServerSentEvent]) -> Any:
    """Return the JSON of an answer that was asked for whole.

    A server that streams although it was not asked to is read as well: its events come as `{EVENTS_KEY: [data, ...]}`,
    each the text of one event, for the codec of the format to put together as it does with a stream.

    Args:
        events: all events of the answer, as `AnswerReader` made them.
    """
    if len(events) == 1 and events[0].event == "json":
        return without_halves(parse_json(events[0].data))
    return {EVENTS_KEY: [event.data for event in events]}
