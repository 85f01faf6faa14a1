"""What models can do, as data: the form of a row, and how a name finds its row.

The rows are beside it, a file for each vendor: `openai_profiles`, `anthropic_profiles`, `gemini_profiles`, and
`open_profiles` for models that anyone may serve. Each says where its figures are from, and when they were looked over.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from langchain_core.language_models.model_profile import ModelProfile

__all__ = ["IMAGES", "TEXT_ONLY", "ProfileRow", "find_row", "profile_of"]

IMAGES: Final[Mapping[str, bool]] = {"image_inputs": True, "image_url_inputs": True}
"""What a row's `inputs` are for a model that sees."""

TEXT_ONLY: Final[Mapping[str, bool]] = {"image_inputs": False, "image_url_inputs": False}
"""And for one that only reads."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What is known of a family of models. None, and what `inputs` does not name, is what nobody documents.

    Attributes:
        pattern: a regular expression that its names, in lower case, begin with.
        window: tokens that a prompt may have; with `shared_window` the answer's are among them.
        source: the page with the figures.
        as_of: the day on which the row was written or last looked over, as YYYY-MM-DD.
        answer: tokens that an answer may have.
        shared_window: whether the limit of an answer has to be kept free of the window.
        reasoning: whether it thinks before it answers.
        tools: whether it was trained to call tools, in a form that servers know.
        structured: whether its vendor's server keeps answers to a JSON schema.
        schema_beside_tools: whether that works in a request that has tools, with the tools still in use.
        system: whether it takes a system instruction; else that is the beginning of the first user message.
        sampling: whether it takes `temperature`.
        inputs: what may come in beside text, by the names of a `ModelProfile`.
        further: more of a `ModelProfile`.
    """

    pattern: str
    window: int
    source: str
    as_of: str
    answer: int | None = None
    shared_window: bool = False
    reasoning: bool = False
    tools: bool | None = True
    structured: bool | None = None
    schema_beside_tools: bool = True
    system: bool = True
    sampling: bool | None = True
    inputs: Mapping[str, bool] = field(default_factory=dict)
    further: Mapping[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def find_row(rows: Iterable[ProfileRow], name: str) -> ProfileRow | None:
    """Give the first row that a model's name begins as; the more special ones stand first in their table.

    Args:
        rows: a table.
        name: the model's name without the parts that tell who serves it.
    """
    lowered = name.lower()
    return next((row for row in rows if _compiled(row.pattern).match(lowered)), None)


def profile_of(row: ProfileRow) -> ModelProfile:
    """Make langchain-core's form of a row."""
    # Where an answer is nearly as long as the window, it is never that long beside a prompt.
    kept_free = row.answer if row.shared_window and row.answer and row.window > 2 * row.answer else 0
    known: dict[str, Any] = {
        "max_input_tokens": row.window - (kept_free or 0),
        "max_output_tokens": row.answer,
        "text_inputs": True,
        "text_outputs": True,
        **row.inputs,
        "reasoning_output": row.reasoning,
        "temperature": row.sampling,
        "tool_calling": row.tools,
        "tool_choice": row.tools,
        "structured_output": row.structured,
        **row.further,
    }
    return cast("ModelProfile", {key: value for key, value in known.items() if value is not None})
