"""How Gemini's answers end: which endings are answers, and the typed error of each other one. Pure.

Format: https://ai.google.dev/api/generate-content#FinishReason
"""

from collections.abc import Mapping
from typing import Any, Final

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    InvalidResponseError,
    ModelError,
    ServerError,
)
from agentgraph.models.endings import unknown_ending
from agentgraph.models.failures import Origin
from agentgraph.models.openai_tool_calls import given

__all__ = ["GARBLED_CALL", "LIMIT", "blocked", "refuse_bad_ending"]

LIMIT: Final = frozenset({"CONTINUATION", "MAX_TOKENS"})
"""Endings at the limit of tokens: an answer, and whoever reads it sees the reason."""
GARBLED_CALL: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
"""Endings at a call that the server did not let through: the model can be told."""

_FILTERED: Final = "Google's filter cut the answer. Rephrase the request, or change safety_settings."
_AGAIN: Final = "Ask again; if it stays, change the request or the model."
# The class of the error, whether asking again may help, and what to do.
_ENDINGS: Final[Mapping[str, tuple[type[ModelError], bool, str]]] = {
    "SAFETY": (ContentFilterError, False, _FILTERED),
    "RECITATION": (
        ContentFilterError,
        True,
        "The answer was a recitation of a source. Ask for it in the model's own words, or with a higher temperature.",
    ),
    "LANGUAGE": (ContentFilterError, False, "The model does not speak the language. Ask in another one."),
    "BLOCKLIST": (ContentFilterError, False, _FILTERED),
    "PROHIBITED_CONTENT": (ContentFilterError, False, _FILTERED),
    "SPII": (ContentFilterError, False, "The answer held sensitive personal data. Ask for less of it."),
    "MODEL_ARMOR": (ContentFilterError, False, _FILTERED),
    "ESCALATION": (ContentFilterError, False, _FILTERED),
    "IMAGE_SAFETY": (ContentFilterError, False, _FILTERED),
    "IMAGE_PROHIBITED_CONTENT": (ContentFilterError, False, _FILTERED),
    "IMAGE_RECITATION": (ContentFilterError, True, "The image was like one of a source. Ask for another one."),
    "PUP_LIMITED_DISABLED": (AuthenticationError, False, "Google has limited the account for how it was used."),
    "MISSING_THOUGHT_SIGNATURE": (
        BadRequestError,
        False,
        "A call came back without its signature: leave content and additional_kwargs of its messages as they are.",
    ),
    "MALFORMED_RESPONSE": (InvalidResponseError, True, _AGAIN),
    "TOO_MANY_TOOL_CALLS": (InvalidResponseError, True, "Google's own tools were called too often. Ask for less."),
    "NO_IMAGE": (InvalidResponseError, True, "No image was made. Ask for one in so many words."),
    "IMAGE_OTHER": (ServerError, True, _AGAIN),
    "OTHER": (ServerError, True, _AGAIN),
    "FINISH_REASON_UNSPECIFIED": (ServerError, True, _AGAIN),
}


def refuse_bad_ending(
    reason: str, told: str, origin: Origin, request_id: str | None, *, holds_something: bool = True
) -> None:
    """Raise the error of an ending that is none of an answer. Of one that is unknown, `endings` has the rule.

    Args:
        reason: Gemini's finish reason.
        told: what Gemini tells of it.
        origin: whom the request asked.
        request_id: the provider's id of the request.
        holds_something: whether a text, a thought or a call came.
    """
    if reason == "STOP" or reason in LIMIT or reason in GARBLED_CALL:
        return
    if reason not in _ENDINGS:
        if (unknown := unknown_ending(reason, origin, request_id, holds_something=holds_something, told=told)) is None:
            return
        raise unknown
    kind, retryable, advice = _ENDINGS[reason]
    code = origin.excerpt(reason, 100)
    said = f": {origin.excerpt(told)}" if told else ""
    raise kind(
        f"{origin.provider}: the answer ended with finishReason {code!r}{said}. {advice}",
        provider=origin.provider,
        code=code,
        request_id=request_id,
        url=origin.url,
        retryable=retryable,
    )


def blocked(body: Mapping[str, Any], origin: Origin, request_id: str | None) -> ModelError | None:
    """Make the error of a prompt that was blocked, None if it was not.

    Args:
        body: an answer, or an event of one.
        origin: whom the request asked.
        request_id: the provider's id of the request.
    """
    feedback = body.get("promptFeedback")
    reason = given(feedback.get("blockReason")) if isinstance(feedback, Mapping) else None
    if not isinstance(feedback, Mapping) or reason is None:
        return None
    told = given(feedback.get("blockReasonMessage"))
    said = f": {origin.excerpt(told)}" if told else ""
    code = origin.excerpt(reason, 100)
    return ContentFilterError(
        f"{origin.provider}: the prompt was blocked, blockReason {code!r}{said}. Rephrase it, or change "
        "safety_settings.",
        provider=origin.provider,
        code=code,
        request_id=request_id,
        url=origin.url,
    )
