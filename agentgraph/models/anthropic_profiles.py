"""What Anthropic's models can do, by their names: windows, limits of an answer, thinking, structured answers.

Figures from https://platform.claude.com/docs/en/about-claude/models/overview. A model that is not listed has no
profile, and its user gives one.
"""

import re

from langchain_core.language_models.model_profile import ModelProfile

__all__ = ["anthropic_profile", "default_max_tokens", "takes_sampling"]

# (family, window, answer, thinking, structured answers): the first row whose pattern is found decides.
_ROWS: tuple[tuple[str, int, int, bool, bool], ...] = (
    (r"claude-haiku-5", 200_000, 64_000, True, True),
    (r"claude-(?:opus|sonnet|fable|mythos)-(?:5|preview)", 1_000_000, 128_000, True, True),
    (r"claude-(?:opus|sonnet)-4-[678](?!\d)", 1_000_000, 128_000, True, True),
    (r"claude-(?:opus|sonnet|haiku)-4-5(?!\d)", 200_000, 64_000, True, True),
    (r"claude-opus-4-1(?!\d)", 200_000, 32_000, True, True),
    (r"claude-(?:opus-4|4-opus)", 200_000, 32_000, True, False),
    (r"claude-(?:sonnet-4|4-sonnet|3-7-sonnet)", 200_000, 64_000, True, False),
    (r"claude-3-5-(?:sonnet|haiku)", 200_000, 8_192, False, False),
    (r"claude-3-", 200_000, 4_096, False, False),
)
_NO_SAMPLING = re.compile(r"claude-(?:(?:opus|sonnet)-4-[78](?!\d)|(?:opus|sonnet|haiku|fable|mythos)-(?:5|preview))")
_UNKNOWN_LIMIT = 4_096
# A whole answer of more tokens may take longer than the ten minutes after which connections are cut.
_LONGEST_WHOLE = 20_000


def _row(model: str) -> tuple[str, int, int, bool, bool] | None:
    name = model.lower()
    return next((row for row in _ROWS if re.search(row[0], name)), None)


def takes_sampling(model: str) -> bool:
    """Whether a model takes `temperature`, `top_p` and `top_k`; newer ones refuse them."""
    return _NO_SAMPLING.search(model.lower()) is None


def default_max_tokens(model: str, *, stream: bool, budget: int = 0) -> int:
    """Give the limit of an answer where none was set, which the API demands.

    Args:
        model: its name.
        stream: whether the answer is streamed, so that it may take as long as it likes.
        budget: tokens that were set aside for thinking, which count as well.
    """
    row = _row(model)
    if row is None:
        return _UNKNOWN_LIMIT + budget
    return row[2] if stream else min(row[2], _LONGEST_WHOLE + budget)


def anthropic_profile(model: str) -> ModelProfile | None:
    """Give the profile of one of Anthropic's models by its name (also dated, or a cloud's), None if it is unknown."""
    row = _row(model)
    if row is None:
        return None
    _, window, answer, thinking, structured = row
    return ModelProfile(
        max_input_tokens=window,
        max_output_tokens=answer,
        text_inputs=True,
        image_inputs=True,
        image_url_inputs=True,
        pdf_inputs=True,
        audio_inputs=False,
        video_inputs=False,
        image_tool_message=True,
        pdf_tool_message=True,
        text_outputs=True,
        image_outputs=False,
        audio_outputs=False,
        reasoning_output=thinking,
        tool_calling=True,
        tool_choice=True,
        structured_output=structured,
        temperature=takes_sampling(model),
    )
