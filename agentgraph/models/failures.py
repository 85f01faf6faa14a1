"""From what a server answered to one typed error: status, body and headers in, ModelError out. No I/O.

The error of every wire format is read here (OpenAI, llama.cpp, vLLM, Anthropic, Gemini, Ollama, gateways), because one
server speaks several of them. Whatever the server wrote is hostile text: it is scrubbed of keys, stripped of control
characters and bounded before it is shown.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import SecretStr

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    InvalidResponseError,
    ModelError,
    ModelNotFoundError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from agentgraph.models.json_text import parse_json
from agentgraph.models.retries import RETRYABLE_STATUSES, retry_after, should_retry
from agentgraph.models.urls import redact_url

__all__ = ["Origin", "failure_in", "failure_of_status", "invalid_response", "request_id"]

_SHOWN: Final = 500
_REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "apim-request-id", "x-goog-request-id", "cf-ray")
_KEY_SHAPES: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|r8|key)[-_][\w*-]{8,}|\bAIza[\w-]{16,}|\bbearer\s+[\w.~+/=-]{8,}", re.IGNORECASE
)
_OVERFLOW: Final = re.compile(
    r"maximum context length|maximum prompt length|context (?:length|window|size|limit)|prompt is too long"
    r"|input token count|input is too long|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
_FILTERED: Final = re.compile(
    r"content[ _-]?filter|content management policy|content policy|content exists risk", re.IGNORECASE
)

# The first row whose codes meet those of the body decides; only then does the status.
_BY_CODE: Final[tuple[tuple[type[ModelError], frozenset[str]], ...]] = (
    (
        ContextOverflowError,
        frozenset({"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"}),
    ),
    (
        QuotaError,
        frozenset({
            "insufficient_quota", "billing_hard_limit_reached", "insufficient_balance", "billing_error",
            "insufficient_credits",
        }),
    ),
    (
        ContentFilterError,
        frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"}),
    ),
    (
        AuthenticationError,
        frozenset({
            "authentication_error", "permission_error", "invalid_api_key", "api_key_invalid", "unauthenticated",
            "permission_denied",
        }),
    ),
    (ModelNotFoundError, frozenset({"model_not_found", "not_found_error", "not_found"})),
    (
        RateLimitError,
        frozenset({"rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"}),
    ),
    (OverloadedError, frozenset({"overloaded_error", "unavailable", "engine_overloaded", "server_overloaded"})),
    (
        BadRequestError,
        frozenset({"invalid_request_error", "invalid_argument", "badrequesterror", "failed_precondition"}),
    ),
)  # fmt: skip
_BY_STATUS: Final[Mapping[int, type[ModelError]]] = {
    401: AuthenticationError,
    402: QuotaError,
    403: AuthenticationError,
    404: ModelNotFoundError,
    429: RateLimitError,
    503: OverloadedError,
    529: OverloadedError,
}
_ADVICE: Final[Mapping[type[ModelError], str]] = {
    AuthenticationError: "Check the API key and what it is allowed to do.",
    QuotaError: "Waiting does not help: check plan and billing of the account.",
    RateLimitError: "Wait, or send less at once (max_concurrency).",
    ModelNotFoundError: "Check the model's name and base_url.",
    ContextOverflowError: "Shorten the conversation (trim or summarise it), or take a model with a larger window.",
    ContentFilterError: "The provider's filter refused it; change the prompt.",
    OverloadedError: "Try again later, or name a fallback model.",
    ServerError: "Try again later; quote the request id to the provider if it stays.",
    BadRequestError: "Check the model's settings against what this server accepts.",
    InvalidResponseError: "Check base_url, and whether a proxy or gateway answers in the server's place.",
}
# Waiting mends none of these, whatever status they came with (some servers send 429 or 500 for them).
_NEVER_BY_WAITING: Final = (QuotaError, ContextOverflowError, ContentFilterError, AuthenticationError)


@dataclass(frozen=True, slots=True, repr=False)
class Origin:
    """Whom a request asked, for the text of errors.

    Attributes:
        provider: name of the provider.
        url: the URL asked, already redacted.
        secrets: what must not be shown even when the server sends it back.
    """

    provider: str
    url: str
    secrets: tuple[SecretStr, ...] = ()

    def excerpt(self, text: str, limit: int = _SHOWN) -> str:
        """Return hostile text as it may be shown: without keys and control characters, on one line, bounded."""
        for secret in self.secrets:
            for value in (secret.get_secret_value(), secret.get_secret_value().rpartition(" ")[2]):
                # A key of a few letters (a local server's "x") would blacken every word that holds it.
                text = text.replace(value, "***") if len(value) > 5 else text  # noqa: PLR2004 - the sentence above
        text = _KEY_SHAPES.sub("***", text)
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return text if len(text) <= limit else text[: limit - 3] + "..."

    def __repr__(self) -> str:
        return f"Origin({self.provider!r}, {self.url!r})"


@dataclass(frozen=True, slots=True)
class _ErrorBody:
    message: str
    code: str | None = None
    codes: frozenset[str] = frozenset()
    status: int | None = None
    retry_after: float | None = None


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the provider's id of a request from the answer's headers (lower-case names), None without one."""
    return next((headers[name][:200] for name in _REQUEST_ID_HEADERS if headers.get(name)), None)


def failure_of_status(
    origin: Origin, status: int, headers: Mapping[str, str], body: bytes, *, now: float
) -> ModelError:
    """Return the typed error of an HTTP answer that is no success.

    Args:
        origin: whom the request asked.
        status: the HTTP status, 300 or more.
        headers: the answer's headers with lower-case names.
        body: what was read of the body.
        now: seconds since the epoch, for a Retry-After that is a date.
    """
    if status < 400:  # noqa: PLR2004 - HTTP's own border between redirect and error
        target = origin.excerpt(redact_url(headers.get("location", "nowhere").partition("?")[0]), 200)
        found = _ErrorBody(f"a redirect to {target}, which is not followed so that no key reaches another host.")
        return _build(InvalidResponseError, origin, status, headers, found, retryable=False)
    found = _read_body(body, headers.get("content-type", ""))
    kind = _classify(status, found)
    asked = should_retry(headers)
    retryable = status in RETRYABLE_STATUSES if asked is None else asked
    if issubclass(kind, _NEVER_BY_WAITING):
        retryable = asked is True and not issubclass(kind, QuotaError)
    return _build(kind, origin, status, headers, found, retryable=retryable, now=now)


def failure_in(
    origin: Origin, payload: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> ModelError | None:
    """Return the typed error that a JSON payload of a successful answer holds at its top, None if it holds none.

    Servers that have sent 200 already can say that they failed only like this: `{"error": ...}`, also inside a list,
    or `{"type": "error", ...}`.

    Args:
        origin: whom the request asked.
        payload: a parsed event or body.
        status: the HTTP status of the answer.
        headers: the answer's headers with lower-case names.
    """
    found = _read_payload(payload)
    if found is None:
        return None
    kind = _classify(found.status, found)
    return _build(kind, origin, found.status or status, headers or {}, found, retryable=kind.retryable_by_default)


def invalid_response(
    origin: Origin, what: str, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> InvalidResponseError:
    """Return the error of an answer that is not what the API says.

    Args:
        origin: whom the request asked.
        what: what came in its place, e.g. "an empty body"; shown as an excerpt.
        status: the HTTP status.
        headers: the answer's headers with lower-case names.
    """
    error = _build(InvalidResponseError, origin, status, headers or {}, _ErrorBody(what), retryable=False)
    assert isinstance(error, InvalidResponseError)  # noqa: S101 - narrows the type that _build was given
    return error


def _classify(status: int | None, found: _ErrorBody) -> type[ModelError]:
    for kind, codes in _BY_CODE[:-1]:
        if codes & found.codes:
            return kind
    if status in {None, 400, 413, 422, 500} and _OVERFLOW.search(found.message):
        return ContextOverflowError
    if status in {None, 400, 422} and _FILTERED.search(found.message):
        return ContentFilterError
    if "credit balance is too low" in found.message:
        return QuotaError
    if status is None:
        return BadRequestError if _BY_CODE[-1][1] & found.codes else ServerError
    return _BY_STATUS.get(status) or (ServerError if status >= 500 else BadRequestError)  # noqa: PLR2004 - HTTP


def _build(
    kind: type[ModelError],
    origin: Origin,
    status: int | None,
    headers: Mapping[str, str],
    found: _ErrorBody,
    *,
    retryable: bool,
    now: float = 0.0,
) -> ModelError:
    wait = retry_after(headers, now=now)
    wait = found.retry_after if wait is None else wait
    said = origin.excerpt(found.message) or "no message"
    code = origin.excerpt(found.code, 100) if found.code else None
    told = [f"code {code!r}"] if code else []
    told += [f"retry after {wait:g} s"] if wait is not None else []
    reference = request_id(headers)
    told += [f"request id {reference!r}"] if reference else []
    where = f"HTTP {status} from {origin.url}" if status is not None else origin.url
    detail = f" ({', '.join(told)})" if told else ""
    text, advice = f"{origin.provider}: {where}: {said}{detail}", _ADVICE.get(kind, "")
    # A server's words often lack the full stop that parts them from ours.
    between = " " if text[-1] in ".!?" else ". "
    return kind(
        f"{text}{between}{advice}" if advice else text,
        provider=origin.provider,
        status=status,
        code=code,
        request_id=reference,
        url=origin.url,
        retryable=retryable,
        retry_after=wait,
    )


def _read_body(body: bytes, content_type: str) -> _ErrorBody:
    try:
        payload = parse_json(body.decode("utf-8", "replace"))
    except ValueError:
        text = body.decode("utf-8", "replace").strip()
        if "html" in content_type.lower() or text[:1] == "<":
            return _ErrorBody(f"a page of HTML instead of JSON, probably a proxy's: {re.sub('<[^>]*>', ' ', text)}")
        return _ErrorBody(text or "an empty body")
    return _read_payload(payload) or _ErrorBody(body.decode("utf-8", "replace"))


def _read_payload(payload: Any) -> _ErrorBody | None:
    """Find the error object, wherever the format puts it."""
    if isinstance(payload, list):
        return next(filter(None, map(_read_payload, payload[:10])), None)
    if not isinstance(payload, dict):
        return None
    error = payload.get("error")
    if isinstance(error, str) and error.startswith("{") and (inner := _in_text(error)) is not None:
        return inner
    if isinstance(error, str) and error:
        return _read_error({"message": error} | {"code": payload.get("code"), "type": payload.get("error_type")})
    if isinstance(error, dict) and error:
        return _read_error(error)
    if payload.get("type") == "error" or payload.get("object") == "error":
        return _read_error({**payload, "type": None} if payload.get("type") == "error" else payload)
    if "detail" in payload and "choices" not in payload:
        return _read_error({"message": payload["detail"]})
    return None


def _in_text(text: str) -> _ErrorBody | None:
    """The error object that some servers hand on from behind them as text (Ollama, of its runner)."""
    try:
        payload = parse_json(text)
    except ValueError:
        return None
    inner = payload.get("error") if isinstance(payload, dict) else None
    return _read_error(inner) if isinstance(inner, dict) and inner else None


def _read_error(error: Mapping[str, Any]) -> _ErrorBody:
    message = error.get("message") or error.get("detail") or error
    details = [row for row in _rows(error.get("details")) if isinstance(row, dict)]
    names = [error.get("code"), error.get("type"), error.get("status"), *(row.get("reason") for row in details)]
    inner = error.get("innererror")
    names.append(inner.get("code") if isinstance(inner, dict) else None)
    words = [name for name in names if isinstance(name, str) and name and not name.isdigit()]
    return _ErrorBody(
        message=message if isinstance(message, str) else _as_text(message),
        code=words[0] if words else None,
        codes=frozenset(word.lower() for word in words),
        status=next(_statuses(error), None),
        retry_after=next(_delays(details), None),
    )


def _as_text(value: Any) -> str:
    try:
        return orjson.dumps(value, default=repr).decode()
    except orjson.JSONEncodeError:
        # Halves of characters, and numbers of more than 64 bits.
        return json.dumps(value, default=repr)


def _rows(value: Any) -> list[Any]:
    return value[:50] if isinstance(value, list) else []


def _statuses(error: Mapping[str, Any]) -> Iterator[int]:
    for name in ("code", "status", "status_code"):
        value = str(error.get(name))
        if re.fullmatch(r"[45]\d\d", value):
            yield int(value)


def _delays(details: list[dict[str, Any]]) -> Iterator[float]:
    """Google's RetryInfo: {"retryDelay": "34s"}."""
    for row in details:
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", str(row.get("retryDelay")))
        if match:
            yield float(match[1])
