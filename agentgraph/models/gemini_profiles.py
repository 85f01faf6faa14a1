"""What Google's models can do, as far as agents ask: windows, tools, structured answers, media.

A model that is not listed has no profile, and its user gives one.
"""

import re
from functools import partial
from typing import Final

from langchain_core.language_models.model_profile import ModelProfile

from agentgraph.models.profiles import IMAGES, TEXT_ONLY, ProfileRow, find_row, profile_of

__all__ = ["GEMINI_ROWS", "gemini_profile", "gemini_row"]

_MEDIA: Final = {**IMAGES, "audio_inputs": True, "pdf_inputs": True, "video_inputs": True}
_row = partial(
    ProfileRow,
    source="https://ai.google.dev/gemini-api/docs/models",
    as_of="2026-11-30",
    structured=True,
    inputs=_MEDIA,
)
# Behind this API the older Gemmas take neither an instruction, nor functions, nor a schema.
_gemma = partial(
    ProfileRow,
    source="https://ai.google.dev/gemma/docs/core/prompt-structure",
    as_of="2026-11-30",
    answer=8_192,
    tools=False,
    structured=False,
    system=False,
)

GEMINI_ROWS: Final[tuple[ProfileRow, ...]] = (
    _row(r"gemini-1\.5-pro", 2_097_152, answer=8_192, schema_beside_tools=False),
    _row(r"gemini-1\.5-flash", 1_048_576, answer=8_192, schema_beside_tools=False),
    _row(r"gemini-2\.0-flash", 1_048_576, answer=8_192, schema_beside_tools=False),
    _row(r"gemini-2\.5-(?:pro|flash)", 1_048_576, answer=65_536, reasoning=True, schema_beside_tools=False),
    _row(r"gemini-3[.\d]*-(?:pro|flash)", 1_048_576, answer=65_536, reasoning=True),
    _row(
        r"gemini-(?:pro|flash|flash-lite)-latest", 1_048_576, answer=65_536, reasoning=True, schema_beside_tools=False
    ),
    _gemma(r"gemma-2-", 8_192, inputs=TEXT_ONLY),
    _gemma(r"gemma-3-1b|gemma-3n-", 32_768, inputs=TEXT_ONLY),
    _gemma(r"gemma-3-", 131_072, inputs=IMAGES),
)
"""Google's models; the first row that fits decides."""

# They have the names of their families, and other windows and skills.
_SPECIAL: Final = re.compile(r"-(?:audio|computer|image|live|tts|robotics|thinking)(?![a-z])")


def gemini_row(model: str) -> ProfileRow | None:
    """Give the row of one of Google's models by its name, also as a resource ("models/..."), None if it is unknown."""
    name = model.lower().rpartition("/")[2]
    return None if _SPECIAL.search(name) else find_row(GEMINI_ROWS, name)


def gemini_profile(model: str) -> ModelProfile | None:
    """Give the profile of one of Google's models by its name, None if it is unknown."""
    row = gemini_row(model)
    return None if row is None else profile_of(row)
