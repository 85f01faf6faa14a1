"""Endings of answers that are known by no name: one rule for every wire format that names how an answer ended. Pure.

Providers add reasons, and so do servers in their place. What such an answer holds stands: its text, and the calls whose
arguments are whole; `finish_reason` in the message's metadata has the reason in the server's word. But an answer that
holds nothing is an error that names the reason, and so is a reason whose name tells of a filter: half a text would pass
for a whole one.
"""

import re
from typing import Final

from agentgraph.errors import ContentFilterError, ModelError, ServerError
from agentgraph.models.failures import Origin

__all__ = ["is_filtered", "unknown_ending"]

_FILTERED: Final = re.compile(
    r"filter|safety|prohibited|blocklist|blocked|recitation|sensitive|moderation", re.IGNORECASE
)
_SHOWN: Final = 100


def is_filtered(reason: str) -> bool:
    """Whether a reason's name tells of a filter.

    Args:
        reason: why the answer ended, in the server's word.

    Example:
        >>> is_filtered("IMAGE_SAFETY"), is_filtered("stop")
        (True, False)
    """
    return _FILTERED.search(reason) is not None


def unknown_ending(
    reason: str, origin: Origin, request_id: str | None, *, holds_something: bool, told: str = ""
) -> ModelError | None:
    """Make the error of an ending whose reason is unknown; None where the answer stands.

    Args:
        reason: why it ended, in the server's word.
        origin: whom the request asked.
        request_id: the provider's id of the request.
        holds_something: whether a text, a thought or a call came.
        told: what the server tells of the reason.
    """
    filtered = is_filtered(reason)
    if holds_something and not filtered:
        return None
    kind: type[ModelError] = ContentFilterError if filtered else ServerError
    code = origin.excerpt(reason, _SHOWN)
    said = f": {origin.excerpt(told)}" if told else ""
    what = (
        "By its name that is a filter's, so the answer cannot be taken to be whole. Rephrase the request."
        if filtered
        else "The reason is unknown here, and the answer holds nothing. Ask again; if it stays, change the request."
    )
    return kind(
        f"{origin.provider}: {origin.url}: the answer ended for the reason {code!r}{said}. {what}",
        provider=origin.provider,
        code=code,
        request_id=request_id,
        url=origin.url,
        retryable=False,
    )
