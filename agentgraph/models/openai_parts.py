"""Parts of a message of Chat Completions: texts under their many names, what comes along, counted tokens. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from agentgraph.models.json_text import without_halves

__all__ = ["Attachments", "extras_of", "read_usage", "texts_of"]


def texts_of(content: Any, kinds: Collection[str]) -> str:
    """Read the text of a content that is a string, null, or a list of parts of which some kinds count."""
    if isinstance(content, str):
        return content if "text" in kinds else ""
    found: list[str] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            found.append(texts_of(part, kinds))
        elif isinstance(part, dict) and part.get("type") in kinds:
            inner = next((part[key] for key in ("text", "thinking", "reasoning") if key in part), "")
            found.append(texts_of(inner, ("text",)))
    return "".join(found)


def _reasoning(message: Mapping[str, Any]) -> str:
    """Read the reasoning, for which servers have several names; they often send one text under two of them."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            return str(message[key])
    details = message.get("reasoning_details")
    found = texts_of(details, ("reasoning.text",)) if isinstance(details, list) else ""
    return found or texts_of(message.get("content"), ("thinking", "reasoning"))


def extras_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Read the words that are not the text: reasoning and refusal."""
    extras: dict[str, Any] = {}
    if reasoning := _reasoning(message):
        extras["reasoning_content"] = reasoning
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        extras["refusal"] = message["refusal"]
    return extras


@dataclass(slots=True)
class Attachments:
    """Citations, sound and log probabilities: collected to the end, for langchain-core cannot add up their pieces."""

    annotations: list[Any] = field(default_factory=list)
    audio: dict[str, Any] = field(default_factory=dict)
    logprobs: dict[str, list[Any]] = field(default_factory=dict)

    def take(self, message: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        """Take what a message, or a piece of one, brings along."""
        found = (message.get("annotations"), message.get("audio"), choice.get("logprobs"))
        annotations, audio, logprobs = map(without_halves, found)
        self.annotations += annotations if isinstance(annotations, list) else []
        for key, value in audio.items() if isinstance(audio, dict) else ():
            pieces = key in {"data", "transcript"} and isinstance(value, str)
            self.audio[key] = f"{self.audio.get(key, '')}{value}" if pieces else value
        for key, value in logprobs.items() if isinstance(logprobs, dict) else ():
            self.logprobs.setdefault(key, []).extend(value if isinstance(value, list) else [])

    def extras(self) -> dict[str, Any]:
        """Give what belongs into `additional_kwargs`."""
        return {key: value for key, value in (("annotations", self.annotations), ("audio", self.audio)) if value}

    def metadata(self) -> dict[str, Any]:
        """Give what belongs into `response_metadata`."""
        return {"logprobs": self.logprobs} if self.logprobs else {}


def _count(usage: Mapping[str, Any], *path: str) -> int | None:
    value: Any = usage
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_usage(usage: Any) -> UsageMetadata | None:
    """Read a `usage` object; None if there is none."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if prompt is None and completion is None:
        return None
    read = UsageMetadata(input_tokens=prompt or 0, output_tokens=completion or 0, total_tokens=0)
    read["total_tokens"] = _count(usage, "total_tokens") or read["input_tokens"] + read["output_tokens"]
    cached = _count(usage, "prompt_tokens_details", "cached_tokens")
    taken: dict[str, int | None] = {
        "audio": _count(usage, "prompt_tokens_details", "audio_tokens"),
        "cache_read": cached if cached is not None else _count(usage, "prompt_cache_hit_tokens"),
    }
    made: dict[str, int | None] = {
        "audio": _count(usage, "completion_tokens_details", "audio_tokens"),
        "reasoning": _count(usage, "completion_tokens_details", "reasoning_tokens"),
    }
    if known := {key: value for key, value in taken.items() if value is not None}:
        read["input_token_details"] = InputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    if known := {key: value for key, value in made.items() if value is not None}:
        read["output_token_details"] = OutputTokenDetails(**known)  # type: ignore[typeddict-item]  # keys from the literal above
    return read
