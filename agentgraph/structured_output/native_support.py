"""Which chat models enforce a JSON schema themselves: by their profile, else by well-known names."""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["supports_native"]

# Documented by the providers as supporting structured outputs; a name is matched part by part, never as a substring.
_FAMILIES = (
    "gpt-4o",
    "gpt-4.1",
    "gpt-5",
    "gpt-6",
    "o3",
    "o4-mini",
    "claude-haiku-4-5",
    "claude-opus-4-[5-8]",
    "claude-sonnet-4-[56]",
    "claude-(?:fable|mythos)-5",
    "grok-4",
    "grok-build",
)
_SUPPORTING = re.compile(rf"(?:^|[/:.@])(?:{'|'.join(name.replace('.', '[.]') for name in _FAMILIES)})(?![a-z0-9])")
# Members of these families that the providers document as exceptions.
_EXCEPTIONS = re.compile(
    r"gpt-4o-2024-05-13|gpt-5[.]\d+-pro|-(?:audio|realtime|transcribe|tts|search|image)(?![a-z0-9])"
)
_GEMINI = re.compile(r"gemini(?:-(\d+))?")
_FIRST_GEMINI_WITH_BOTH = 3


def supports_native(model: Any, *, tools_bound: bool = False) -> bool:
    """Tell whether a chat model's provider enforces a JSON schema.

    Args:
        model: a chat model, or the name of one. Its `profile["structured_output"]` decides, if known, else its name.
        tools_bound: whether the same call has tools; Gemini before 3 cannot have both.

    Returns:
        True if it does; False if it does not or nothing is known of it: tool calling then works in any case.

    Example:
        >>> supports_native("openai/gpt-4o-mini"), supports_native("my-gpt-4over")
        (True, False)
    """
    name = _name_of(model).lower()
    profile = getattr(model, "profile", None)
    known = profile.get("structured_output") if isinstance(profile, Mapping) else None
    if known is None:
        return bool(_SUPPORTING.search(name)) and not _EXCEPTIONS.search(name)
    gemini = _GEMINI.search(name)
    clashes = gemini is not None and int(gemini[1] or 0) < _FIRST_GEMINI_WITH_BOTH
    return bool(known) and not (tools_bound and clashes)


def _name_of(model: Any) -> str:
    if isinstance(model, str):
        return model
    named = (getattr(model, attribute, None) for attribute in ("model_name", "model", "model_id"))
    return next((name for name in named if isinstance(name, str) and name), "")
