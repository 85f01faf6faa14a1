"""Which chat models enforce a JSON schema themselves: by their profile, else by well-known names."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agentgraph.models.gemini_profiles import gemini_row
from agentgraph.models.presets import preset_of

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
# Its server keeps the whole answer to the schema, so that no call can be written.
_EITHER_OR = frozenset({"ollama"})


def supports_native(model: Any, *, tools_bound: bool = False) -> bool:
    """Tell whether a chat model's provider enforces a JSON schema.

    Args:
        model: a chat model, or the name of one. Its `profile["structured_output"]` decides, if known, else its name.
        tools_bound: whether the same call has tools. Gemini before 3 refuses both together; Ollama, and the compatible
            servers whose preset says so, let the schema win and call nothing.

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
        known = bool(_SUPPORTING.search(name)) and not _EXCEPTIONS.search(name)
    return bool(known) and not (tools_bound and _clashes(model, name))


def _clashes(model: Any, name: str) -> bool:
    """Whether a schema and tools in one request get in each other's way."""
    provider, server = getattr(model, "provider", None), getattr(model, "base_url", None)
    told = provider if isinstance(provider, str) else ""
    preset = preset_of(told, (urlsplit(server).hostname or "").lower() if isinstance(server, str) else "")
    if told in _EITHER_OR or (preset is not None and not preset.schema_beside_tools):
        return True
    gemini = _GEMINI.search(name)
    if gemini is None:
        return False
    row = gemini_row(name)
    return int(gemini[1] or 0) < _FIRST_GEMINI_WITH_BOTH if row is None else not row.schema_beside_tools


def _name_of(model: Any) -> str:
    if isinstance(model, str):
        return model
    named = (getattr(model, attribute, None) for attribute in ("model_name", "model", "model_id"))
    return next((name for name in named if isinstance(name, str) and name), "")
