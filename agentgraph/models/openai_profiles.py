"""What OpenAI's own models can do, as far as agents ask: windows, tools, structured answers, images.

A model that is not listed has no profile, and its user gives one.
"""

from functools import partial
from typing import Final

from langchain_core.language_models.model_profile import ModelProfile

from agentgraph.models.profiles import IMAGES, TEXT_ONLY, ProfileRow, find_row, profile_of

__all__ = ["OPENAI_ROWS", "openai_profile"]

_row = partial(
    ProfileRow,
    source="https://platform.openai.com/docs/models",
    as_of="2026-11-30",
    shared_window=True,
    structured=True,
    inputs=IMAGES,
)

OPENAI_ROWS: Final[tuple[ProfileRow, ...]] = (
    _row(r"gpt-5[.\d]*-chat", 128_000, answer=16_384),
    _row(r"gpt-5", 400_000, answer=128_000, reasoning=True, sampling=False),
    _row(r"gpt-4\.1", 1_047_576, answer=32_768),
    _row(r"gpt-4o-2024-05-13", 128_000, answer=4_096, structured=False),
    _row(r"gpt-4o", 128_000, answer=16_384),
    _row(r"gpt-4-turbo", 128_000, answer=4_096, structured=False),
    _row(r"gpt-3\.5-turbo", 16_385, answer=4_096, structured=False, inputs=TEXT_ONLY),
    _row(
        r"o1-mini",
        128_000,
        answer=65_536,
        reasoning=True,
        sampling=False,
        tools=False,
        structured=False,
        inputs=TEXT_ONLY,
    ),
    _row(r"o3-mini", 200_000, answer=100_000, reasoning=True, sampling=False, inputs=TEXT_ONLY),
    _row(r"o1|o3|o4", 200_000, answer=100_000, reasoning=True, sampling=False),
)
"""OpenAI's models; the first row that fits decides."""


def openai_profile(model: str) -> ModelProfile | None:
    """Give the profile of one of OpenAI's models by its name (also fine-tuned or dated), None if it is unknown."""
    row = find_row(OPENAI_ROWS, model.lower().removeprefix("ft:"))
    return None if row is None else profile_of(row)
