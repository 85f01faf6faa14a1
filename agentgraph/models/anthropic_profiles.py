"""What Anthropic's models can do, by their names: windows, limits of an answer, thinking, structured answers.

A model that is not listed has no profile, and its user gives one.
"""

import re
from functools import partial
from typing import Final

from langchain_core.language_models.model_profile import ModelProfile

from agentgraph.models.profiles import IMAGES, ProfileRow, find_row, profile_of

__all__ = ["ANTHROPIC_ROWS", "anthropic_profile", "default_max_tokens", "takes_sampling"]

_row = partial(
    ProfileRow,
    source="https://platform.claude.com/docs/en/about-claude/models/overview",
    as_of="2026-11-30",
    reasoning=True,
    structured=True,
    inputs={**IMAGES, "pdf_inputs": True, "audio_inputs": False, "video_inputs": False},
    further={
        "image_tool_message": True,
        "pdf_tool_message": True,
        "image_outputs": False,
        "audio_outputs": False,
    },
)

ANTHROPIC_ROWS: Final[tuple[ProfileRow, ...]] = (
    _row(r"claude-haiku-(?:5|preview)", 200_000, answer=64_000, sampling=False),
    _row(r"claude-(?:opus|sonnet|fable|mythos)-(?:5|preview)", 1_000_000, answer=128_000, sampling=False),
    _row(r"claude-(?:opus|sonnet)-4-[78](?!\d)", 1_000_000, answer=128_000, sampling=False),
    _row(r"claude-(?:opus|sonnet)-4-6(?!\d)", 1_000_000, answer=128_000),
    _row(r"claude-(?:opus|sonnet|haiku)-4-5(?!\d)", 200_000, answer=64_000),
    _row(r"claude-opus-4-1(?!\d)", 200_000, answer=32_000),
    _row(r"claude-(?:opus-4|4-opus)", 200_000, answer=32_000, structured=False),
    _row(r"claude-(?:sonnet-4|4-sonnet|3-7-sonnet)", 200_000, answer=64_000, structured=False),
    _row(r"claude-3-5-(?:sonnet|haiku)", 200_000, answer=8_192, reasoning=False, structured=False),
    _row(r"claude-3-", 200_000, answer=4_096, reasoning=False, structured=False),
)
"""Anthropic's models; the first row that fits decides."""

_NAME = re.compile(r"claude-.*")
_UNKNOWN_LIMIT = 4_096
# A whole answer of more tokens may take longer than the ten minutes after which connections are cut.
_LONGEST_WHOLE = 20_000


def _found(model: str) -> ProfileRow | None:
    # Clouds put their own words before the name.
    name = _NAME.search(model.lower())
    return None if name is None else find_row(ANTHROPIC_ROWS, name[0])


def takes_sampling(model: str) -> bool:
    """Whether a model takes `temperature`, `top_p` and `top_k`; newer ones refuse them."""
    row = _found(model)
    return row is None or row.sampling is not False


def default_max_tokens(model: str, *, stream: bool, budget: int = 0) -> int:
    """Give the limit of an answer where none was set, which the API demands.

    Args:
        model: its name.
        stream: whether the answer is streamed, so that it may take as long as it likes.
        budget: tokens that were set aside for thinking, which count as well.
    """
    row = _found(model)
    if row is None or row.answer is None:
        return _UNKNOWN_LIMIT + budget
    return row.answer if stream else min(row.answer, _LONGEST_WHOLE + budget)


def anthropic_profile(model: str) -> ModelProfile | None:
    """Give the profile of one of Anthropic's models by its name (also dated, or a cloud's), None if it is unknown."""
    row = _found(model)
    return None if row is None else profile_of(row)
