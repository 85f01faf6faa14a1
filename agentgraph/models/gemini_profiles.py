"""What Google's models can do, as far as agents ask: windows, tools, structured answers, media.

Figures from https://ai.google.dev/gemini-api/docs/models. A model that is not listed has no profile, and its user
gives one.
"""

import re
from typing import Final

from langchain_core.language_models.model_profile import ModelProfile

__all__ = ["gemini_profile"]

# (name, window, answer, reasoning): the first row whose pattern fits decides, so the more special ones stand first.
_ROWS: Final[tuple[tuple[str, int, int, bool], ...]] = (
    (r"gemini-1\.5-pro", 2_097_152, 8_192, False),
    (r"gemini-1\.5-flash", 1_048_576, 8_192, False),
    (r"gemini-2\.0-flash", 1_048_576, 8_192, False),
    (r"gemini-2\.5-(?:pro|flash)", 1_048_576, 65_536, True),
    (r"gemini-3[.\d]*-(?:pro|flash)", 1_048_576, 65_536, True),
    (r"gemini-(?:pro|flash|flash-lite)-latest", 1_048_576, 65_536, True),
)
# They have the names of their families, and other windows and skills.
_SPECIAL: Final = re.compile(r"-(?:audio|computer|image|live|tts|robotics|thinking)(?![a-z])")


def gemini_profile(model: str) -> ModelProfile | None:
    """Give the profile of one of Google's models by its name, None if it is unknown."""
    name = model.lower().rpartition("/")[2]
    row = next((row for row in _ROWS if re.match(row[0], name)), None)
    if row is None or _SPECIAL.search(name):
        return None
    _, window, answer, reasoning = row
    return ModelProfile(
        max_input_tokens=window,
        max_output_tokens=answer,
        text_inputs=True,
        text_outputs=True,
        image_inputs=True,
        image_url_inputs=True,
        audio_inputs=True,
        pdf_inputs=True,
        video_inputs=True,
        reasoning_output=reasoning,
        temperature=True,
        tool_calling=True,
        tool_choice=True,
        structured_output=True,
    )
