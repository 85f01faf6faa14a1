"""What Gemini's answers say beside the answer: counts of tokens, sources, ratings. Pure.

Format: https://ai.google.dev/api/generate-content#UsageMetadata
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from agentgraph.models.json_text import without_halves

__all__ = ["read_details", "read_usage"]

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_KEPT: Final[Mapping[str, str]] = {
    "safetyRatings": "safety_ratings",
    "citationMetadata": "citation_metadata",
    "urlContextMetadata": "url_context_metadata",
    "avgLogprobs": "avg_logprobs",
    "logprobsResult": "logprobs",
    "finishMessage": "finish_message",
}


# Tokens


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _of_sound(usage: Mapping[str, Any], name: str) -> int | None:
    rows = usage.get(name)
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    counts = [_count(row, "tokenCount") for row in found if row.get("modality") == "AUDIO"]
    return sum(count or 0 for count in counts) if counts else None


def read_usage(usage: Mapping[str, Any]) -> UsageMetadata | None:
    """Read a `usageMetadata` object; None if it counts nothing.

    Thoughts are counted as output, and what Google's own tools put into the prompt as input.

    Args:
        usage: the object.
    """
    prompt, tools = _count(usage, "promptTokenCount"), _count(usage, "toolUsePromptTokenCount")
    answer, thoughts = _count(usage, "candidatesTokenCount"), _count(usage, "thoughtsTokenCount")
    if prompt is None and answer is None and thoughts is None:
        return None
    read = UsageMetadata(
        input_tokens=(prompt or 0) + (tools or 0), output_tokens=(answer or 0) + (thoughts or 0), total_tokens=0
    )
    read["total_tokens"] = _count(usage, "totalTokenCount") or read["input_tokens"] + read["output_tokens"]
    taken = {
        "audio": _of_sound(usage, "promptTokensDetails"),
        "cache_read": _count(usage, "cachedContentTokenCount"),
    }
    made = {"audio": _of_sound(usage, "candidatesTokensDetails"), "reasoning": thoughts}
    if known := {key: value for key, value in taken.items() if value is not None}:
        read["input_token_details"] = InputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    if known := {key: value for key, value in made.items() if value is not None}:
        read["output_token_details"] = OutputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    return read


# Sources


def _snake(value: Any) -> Any:
    if isinstance(value, list):
        return [_snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    # langchain-core looks for this one key as it is sent.
    return {key if key == "placeId" else _CAPITAL.sub(r"_\1", key).lower(): _snake(item) for key, item in value.items()}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _grounding(found: Any) -> dict[str, Any]:
    """Give grounding in the form from which langchain-core makes citations, without what it would stumble over."""
    read = _snake(found) if isinstance(found, dict) else {}
    chunks = read.get("grounding_chunks")
    if isinstance(chunks, list):
        # No chunk may go, because the supports count them.
        read["grounding_chunks"] = [_sources(chunk) for chunk in chunks]
    if "grounding_supports" in read:
        read["grounding_supports"] = [_support(one) for one in _objects(read["grounding_supports"])]
    if not isinstance(chunks, list):
        read.pop("grounding_chunks", None)
    return read if isinstance(read, dict) else {}


def _sources(chunk: Any) -> dict[str, Any]:
    return {key: value for key, value in chunk.items() if isinstance(value, dict)} if isinstance(chunk, dict) else {}


def _support(support: dict[str, Any]) -> dict[str, Any]:
    segment, indices = support.get("segment"), support.get("grounding_chunk_indices")
    return {
        **support,
        "segment": segment if isinstance(segment, dict) else {},
        "grounding_chunk_indices": [at for at in indices if isinstance(at, int) and at >= 0]
        if isinstance(indices, list)
        else [],
    }


def read_details(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a candidate tells beside its content: sources, ratings, probabilities.

    Args:
        candidate: the candidate, its pieces added up.
    """
    details = {name: without_halves(candidate[key]) for key, name in _KEPT.items() if candidate.get(key) is not None}
    grounding = _grounding(without_halves(candidate.get("groundingMetadata")))
    return details | ({"grounding_metadata": grounding} if grounding else {})
