"""What well-known open models can do, whoever serves them.

Windows are those that the models were made for. A host may serve less, and whoever starts a server of his own chooses:
behind programs that one runs oneself the profile therefore names no window and no tool calls. Where several sizes or
versions go by one name, the row has what all of them have.
"""

import re
from functools import partial
from typing import Final, cast
from urllib.parse import urlsplit

from langchain_core.language_models.model_profile import ModelProfile

from agentgraph.models.presets import preset_of
from agentgraph.models.profiles import IMAGES, TEXT_ONLY, ProfileRow, find_row, profile_of

__all__ = ["OLLAMA_WITHOUT_TOOLS", "OPEN_ROWS", "ollama_profile", "open_row", "served_profile"]

_SERVERS_OWN: Final = frozenset({"max_input_tokens", "max_output_tokens", "tool_calling", "tool_choice"})
_row = partial(ProfileRow, as_of="2026-11-30", sampling=None, inputs=TEXT_ONLY)
_meta = partial(_row, source="https://www.llama.com/docs/model-cards-and-prompt-formats/")
_qwen = partial(_row, source="https://qwen.readthedocs.io/en/latest/getting_started/concepts.html")
_mistral = partial(_row, source="https://docs.mistral.ai/getting-started/models/models_overview/")
_deepseek = partial(_row, source="https://api-docs.deepseek.com/quick_start/pricing")
_gemma = partial(_row, source="https://ai.google.dev/gemma/docs/core", tools=None)
_phi = partial(_row, source="https://huggingface.co/microsoft/phi-4", tools=None)
_smollm = partial(_row, source="https://huggingface.co/HuggingFaceTB/SmolLM2-1.7B-Instruct", tools=None)

OPEN_ROWS: Final[tuple[ProfileRow, ...]] = (
    _meta(r"(?:meta-)?llama-?v?3[.p]2.*vision", 131_072, tools=None, inputs=IMAGES),
    _meta(r"(?:meta-)?llama-?v?3[.p][123]", 131_072),
    _meta(r"(?:meta-)?llama-?v?3(?![.\dp])", 8_192, tools=None),
    _qwen(r"qwen2[.p]5-?vl", 32_768, tools=None, inputs=IMAGES),
    _qwen(r"qwen2[.p]5(?!-?omni|-?math|-?1m|.*-1m)", 32_768),
    _qwen(r"qwen3-(?:coder|next)|qwen3-.*instruct-2507|qwen3-.*thinking-2507", 262_144),
    _qwen(r"qwen3-?vl", 262_144, inputs=IMAGES),
    _qwen(r"qwen3(?![.\d])(?!.*(?:embedding|reranker|omni|guard))", 32_768, reasoning=True),
    _mistral(r"(?:open-)?mistral-nemo", 131_072),
    _mistral(r"ministral", 131_072),
    _mistral(r"mistral-large", 131_072),
    _mistral(r"mistral-small-?(?:3\.[12]|latest|2503|2506|3\.[12]-24b)", 131_072, inputs=IMAGES),
    _mistral(r"mistral-small", 32_768),
    _mistral(r"(?:open-)?mixtral-?8x22b", 65_536),
    _mistral(r"(?:open-)?mixtral", 32_768, tools=None),
    _mistral(r"(?:open-)?mistral-7b.*v0[.p]3", 32_768),
    _mistral(r"(?:open-)?mistral-7b", 32_768, tools=None),
    _deepseek(r"deepseek-r1.*distill", 131_072, reasoning=True, tools=None),
    _deepseek(r"deepseek-r1", 131_072, reasoning=True, tools=None),
    _deepseek(r"deepseek-v?3", 131_072),
    # Names that move on to the newest version: the least that any of them had.
    _deepseek(r"deepseek-chat", 65_536, answer=8_192),
    _deepseek(r"deepseek-reasoner", 65_536, reasoning=True, tools=None),
    _gemma(r"gemma-?2", 8_192),
    _gemma(r"gemma-?3n|gemma-?3[-:](?:1b|270m)", 32_768, inputs={}),
    _gemma(r"gemma-?3", 131_072, inputs=IMAGES),
    _smollm(r"smollm2", 8_192),
    _phi(r"phi-?4-mini", 131_072, source="https://huggingface.co/microsoft/Phi-4-mini-instruct"),
    _phi(r"phi-?4(?!-multimodal)", 16_384),
    _phi(r"phi-?3\.5-mini", 131_072, source="https://huggingface.co/microsoft/Phi-3.5-mini-instruct"),
    _phi(r"phi-?3-.*128k", 131_072, source="https://huggingface.co/microsoft/Phi-3-mini-128k-instruct"),
    _phi(r"phi-?3(?![.\d])", 4_096, source="https://huggingface.co/microsoft/Phi-3-mini-4k-instruct"),
)
"""Open models; the first row that fits decides."""

OLLAMA_WITHOUT_TOOLS: Final = re.compile(
    r"(?:codegemma|codellama|gemma|gemma2|gemma3|llama2|llama3|phi|phi3|phi4|tinyllama)(?::[^/]*)?"
)
"""Models of Ollama's own library whose template has no place for tools, so that the server refuses them.

Source: https://ollama.com/search?c=tools, looked over on 2026-11-30. Names with an owner are other people's builds."""


def open_row(model: str) -> ProfileRow | None:
    """Give the row of an open model, by its name at a host, at a router, in a repository of weights, or as a file."""
    return find_row(OPEN_ROWS, model.lower().rpartition("/")[2])


def served_profile(provider: str, base_url: str, model: str) -> ModelProfile | None:
    """Give what is known of a model behind a compatible server.

    Args:
        provider: the provider's name in the registry.
        base_url: the server.
        model: the model's name there.

    Returns:
        A profile; None if neither the server nor the model is known.

    Example:
        >>> served_profile("groq", "https://api.groq.com/openai/v1", "llama-3.3-70b-versatile")["max_input_tokens"]
        131072
        >>> served_profile("vllm", "http://localhost:8000/v1", "our-own-model")
        {'structured_output': True}
    """
    preset = preset_of(provider, (urlsplit(base_url).hostname or "").lower())
    if preset is None:
        return None
    row = open_row(model)
    profile = ModelProfile() if row is None else profile_of(row)
    if preset.self_run:
        profile = _of_model_alone(profile)
    if preset.structured_output is not None:
        profile["structured_output"] = preset.structured_output
    return profile or None


def ollama_profile(model: str, window: int | None) -> ModelProfile:
    """Give what is known of a model behind Ollama's own API.

    Args:
        model: its name there.
        window: the window in tokens that the requests set, if they do.

    Example:
        >>> ollama_profile("gemma3:4b", 8192)["tool_calling"]
        False
    """
    row = open_row(model)
    profile = ModelProfile() if row is None else _of_model_alone(profile_of(row))
    profile |= ModelProfile(structured_output=True, tool_choice=False)
    if OLLAMA_WITHOUT_TOOLS.fullmatch(model.lower()):
        profile["tool_calling"] = False
    if window is not None:
        profile["max_input_tokens"] = window
    return profile


def _of_model_alone(profile: ModelProfile) -> ModelProfile:
    """Leave out what whoever starts the server decides."""
    return cast("ModelProfile", {key: value for key, value in profile.items() if key not in _SERVERS_OWN})
