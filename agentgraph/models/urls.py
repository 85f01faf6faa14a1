"""URLs of model servers: checked once, joined without losing a part, shown and logged without secrets."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

from agentgraph.errors import ConfigurationError

__all__ = ["Endpoint", "public_query", "public_url", "redact_url", "redacted_logs"]

_VERSION_SEGMENT: Final = re.compile(r"v\d+(?:(?:alpha|beta)\d*)?")
_PUBLIC_QUERY: Final = frozenset({"alt", "api-version", "api_version", "version"})


def redact_url(url: str) -> str:
    """Return the URL as it may be shown: no user, password or fragment, no query value but the well-known public ones.

    Args:
        url: any URL, also a broken one.

    Example:
        >>> redact_url("https://me:pw@host/v1?alt=sse&key=abc")
        'https://host/v1?alt=sse&key=***'
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = "&".join(
            f"{name}={value if name.lower() in _PUBLIC_QUERY else '***'}"
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
    except ValueError:
        return "<a URL that cannot be read>"
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def public_query(query: Mapping[str, str]) -> dict[str, str]:
    """Return those query parameters of which it is well known that they are no secrets, e.g. Azure's `api-version`."""
    return {name: value for name, value in query.items() if name.lower() in _PUBLIC_QUERY}


def public_url(url: str) -> str:
    """Return a base URL as it may be stored: without user, password and all query parameters that may be secrets.

    Args:
        url: a base URL that `Endpoint.parse` takes.

    Example:
        >>> public_url("https://me:pw@host/v1?api-version=1&key=abc")
        'https://host/v1?api-version=1'
    """
    parts = urlsplit(url.strip())
    query = urlencode(public_query(dict(parse_qsl(parts.query, keep_blank_values=True))))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


@dataclass(frozen=True, slots=True, repr=False)
class Endpoint:
    """Where a provider's paths lie.

    Attributes:
        base: the checked base URL, with the version prefix, without a trailing slash, query and fragment.
        query: query parameters of every request.
    """

    base: SplitResult
    query: Mapping[str, str]

    @classmethod
    def parse(cls, base_url: str, query: Mapping[str, str], version_prefix: str | None) -> "Endpoint":
        """Read a base URL as people write it: with or without version, trailing slash, path prefix, query.

        Args:
            base_url: e.g. "http://localhost:8080", "https://gateway/openai/v1/", "https://host/v1?tenant=a".
            query: further query parameters; they win over those of the base URL.
            version_prefix: segment to add when the path has none like "v1" or "v1beta" and the query no `api-version`;
                None or "" adds nothing.

        Raises:
            ConfigurationError: it is no http or https URL with a host.
        """
        parts = _checked(base_url.strip())
        merged = dict(parse_qsl(parts.query, keep_blank_values=True)) | dict(query)
        path = parts.path.rstrip("/")
        versioned = any(map(_VERSION_SEGMENT.fullmatch, path.split("/"))) or "api-version" in merged
        if version_prefix and not versioned:
            path = f"{path}/{version_prefix.strip('/')}"
        return cls(parts._replace(path=path, query="", fragment=""), merged)

    def join(self, path: str) -> str:
        """Return the full URL of a path below the base; a part that both sides have is not doubled.

        Args:
            path: e.g. "chat/completions", "/v1/messages", "models/m:streamGenerateContent?alt=sse".
        """
        below, _, query = path.partition("?")
        base = self.base.path.split("/")
        segments = [segment for segment in below.split("/") if segment]
        overlap = next((n for n in range(len(segments), 0, -1) if base[-n:] == segments[:n]), 0)
        merged = dict(self.query) | dict(parse_qsl(query, keep_blank_values=True))
        joined = "/".join([*base, *segments[overlap:]])
        return urlunsplit(self.base._replace(path=joined, query=urlencode(merged)))

    @property
    def secrets(self) -> tuple[SecretStr, ...]:
        """The user's password and the query values that must not be shown, whoever sends them back."""
        hidden = [value for name, value in self.query.items() if name.lower() not in _PUBLIC_QUERY]
        return tuple(SecretStr(value) for value in [self.base.password or "", *hidden] if value)

    def __repr__(self) -> str:
        return f"Endpoint({redact_url(self.join(''))!r})"


def _checked(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        # Asking for the port raises when it is no number.
        fits = base_url.isprintable() and parts.scheme in {"http", "https"}
        if fits and parts.hostname and parts.port != 0 and parts.hostname.encode("idna"):
            return parts
    except ValueError:
        pass  # a broken bracket, host or port is told like every other base URL that is none
    shown = redact_url(base_url)[:200]
    raise ConfigurationError(
        f"base_url is {shown!r}. Expected an http or https URL with a host, e.g. 'http://localhost:8080/v1'. "
        "Write the scheme and the host in full."
    )


_SENDING: Final[ContextVar[bool]] = ContextVar("agentgraph_request_being_sent", default=False)


class _RedactURLs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass; in those of our own requests the URLs are redacted first."""
        if _SENDING.get() and isinstance(record.args, tuple):
            record.args = tuple(redact_url(str(arg)) if _is_url(arg) else arg for arg in record.args)
        return True


def _is_url(value: object) -> bool:
    return str(value).startswith(("http://", "https://")) if not isinstance(value, int | float) else False


@contextmanager
def redacted_logs(client: object) -> Iterator[None]:
    """Keep secrets out of the line that the client's library logs for each request, with the URL and its query in full.

    Requests of others, over the same library, are logged as ever.

    Args:
        client: the client about to send; its library's logger is the one named after the library.
    """
    for root in {cls.__module__.partition(".")[0] for cls in type(client).__mro__[:-1]}:
        logger = logging.getLogger(root)
        if not any(isinstance(present, _RedactURLs) for present in logger.filters):
            logger.addFilter(_RedactURLs())
    token = _SENDING.set(True)
    try:
        yield
    finally:
        _SENDING.reset(token)
