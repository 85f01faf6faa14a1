"""Which parameters a server of OpenAI's APIs says that it does not take. Pure."""

import re
from collections.abc import Container, Iterable
from typing import Final

__all__ = ["refused_parameters"]

_REFUSAL_WORDS: Final = re.compile(
    r"unsupported|not (?:be )?support|does ?n[o']t support|not permitted|not allowed|unknown|unrecogni[sz]ed|unexpected"
    r"|extra_forbidden|extra inputs|no such|invalid (?:field|param|argument name)",
    re.IGNORECASE,
)


def refused_parameters(sent: Container[str], message: str, optional: Iterable[str]) -> list[str]:
    """Find the optional parameters that a server refuses by name.

    Args:
        sent: the parameters of the request.
        message: the server's error.
        optional: parameters that can be left out, or have another name.

    Example:
        >>> refused_parameters({"store"}, "Unknown parameter: 'store'.", ("store", "include"))
        ['store']
    """
    if not _REFUSAL_WORDS.search(message):
        return []
    return [key for key in optional if key in sent and re.search(rf"\b{key}\b", message)]
