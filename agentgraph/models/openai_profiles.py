"""What OpenAI's own models can do, as far as agents ask: windows, tools, structured answers, images.

Figures from https://platform.openai.com/docs/models. A model that is not listed has no profile, and its user gives one.
"""

import re

from langchain_core.language_models.model_profile import ModelProfile

__all__ = ["openai_profile"]

# (name, window, answer, reasoning): the first row whose pattern fits decides, so the more special ones stand first.
_ROWS: tuple[tuple[str, int, int, bool], ...] = (
    (r"gpt-5[.\d]*-chat", 128_000, 16_384, False),
    (r"gpt-5", 400_000, 128_000, True),
    (r"gpt-4\.1", 1_047_576, 32_768, False),
    (r"gpt-4o", 128_000, 16_384, False),
    (r"gpt-4-turbo", 128_000, 4_096, False),
    (r"gpt-3\.5-turbo", 16_385, 4_096, False),
    (r"o1|o3|o4", 200_000, 100_000, True),
)
_TEXT_ONLY = re.compile(r"gpt-3\.5|o1-mini|o3-mini")
_NO_SCHEMA = re.compile(r"gpt-3\.5|gpt-4-turbo|o1-mini|gpt-4o-2024-05-13")


def openai_profile(model: str) -> ModelProfile | None:
    """Give the profile of one of OpenAI's models by its name (also fine-tuned or dated), None if it is unknown."""
    name = model.lower().removeprefix("ft:")
    row = next((row for row in _ROWS if re.match(row[0], name)), None)
    if row is None:
        return None
    _, window, answer, reasoning = row
    return ModelProfile(
        # An answer's tokens come out of the window, so the prompt cannot have all of it.
        max_input_tokens=window - answer if window > 2 * answer else window,
        max_output_tokens=answer,
        text_inputs=True,
        text_outputs=True,
        image_inputs=not _TEXT_ONLY.search(name),
        image_url_inputs=not _TEXT_ONLY.search(name),
        reasoning_output=reasoning,
        temperature=not reasoning,
        tool_calling=not name.startswith("o1-mini"),
        tool_choice=not name.startswith("o1-mini"),
        structured_output=not _NO_SCHEMA.search(name),
    )
