"""What is known of servers that speak OpenAI's Chat Completions in their own way, as data: a row for each.

A row says where the server is, whose key it takes, and what it makes of a request. `openai_request` asks it by the
provider's name or by the host, so that a server is known also under a `base_url` of the user's; the registry makes its
providers of it. A new compatible server is a new row.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["PRESETS", "Preset", "preset_of"]


@dataclass(frozen=True, slots=True)
class Preset:
    """One compatible server, or the program that serves.

    Attributes:
        name: the provider's name in the registry.
        base_url: where it is by default.
        key_variables: environment variables that may hold its key; the first one that is set counts.
        source: the page that says so.
        as_of: the day on which the row was written or last looked over, as YYYY-MM-DD.
        host: the end of its hosts' names, by which it is known under any provider's name; "" for programs that anyone
            may run anywhere.
        url_variables: environment variables that may name another server.
        key_needed: whether a call without a key is sure to be refused.
        prefixes: beginnings of model names, lower case, by which the provider is inferred.
        self_run: whether whoever starts the server chooses its window and its parsers of tool calls, so that a model's
            name tells neither.
        structured_output: whether it keeps an answer to a JSON schema, for every model; None if that is not known.
        schema_beside_tools: whether it does so in a request that has tools, with the tools still in use.
        refused: optional parameters that it answers with an error, or does not need; they are not sent.
        refused_by: the same, of the models whose name the pattern finds.
        renamed: parameters that it takes under another name, as (name, its name).
        nine_character_ids: whether ids of tool calls must be exactly nine letters and digits.
        reasoning_back: whether an assistant's turn with calls has to bring its reasoning along.
        named_choice: whether `tool_choice` may be an object that names a tool; else the one tool is sent alone.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...]
    source: str
    as_of: str
    host: str = ""
    url_variables: tuple[str, ...] = ()
    key_needed: bool = True
    prefixes: tuple[str, ...] = ()
    self_run: bool = False
    structured_output: bool | None = None
    schema_beside_tools: bool = True
    refused: frozenset[str] = frozenset()
    refused_by: tuple[str, frozenset[str]] = (r"(?!)", frozenset())
    renamed: tuple[tuple[str, str], ...] = ()
    nine_character_ids: bool = False
    reasoning_back: bool = False
    named_choice: bool = True


_AS_OF: Final = "2026-11-30"

PRESETS: Final[tuple[Preset, ...]] = (
    Preset(
        "deepseek",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        "https://api-docs.deepseek.com/guides/thinking_mode",
        _AS_OF,
        host="deepseek.com",
        prefixes=("deepseek",),
        structured_output=False,
        reasoning_back=True,
    ),
    Preset(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
        _AS_OF,
        host="fireworks.ai",
        prefixes=("accounts/fireworks",),
    ),
    Preset(
        "groq",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        "https://console.groq.com/docs/structured-outputs",
        _AS_OF,
        host="groq.com",
        schema_beside_tools=False,
    ),
    Preset(
        "llamacpp",
        "http://localhost:8080/v1",
        ("LLAMACPP_API_KEY", "LLAMA_API_KEY"),
        "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        _AS_OF,
        url_variables=("LLAMACPP_BASE_URL",),
        key_needed=False,
        self_run=True,
        structured_output=True,
        schema_beside_tools=False,
    ),
    Preset(
        "lmstudio",
        "http://localhost:1234/v1",
        ("LMSTUDIO_API_KEY",),
        "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/670",
        _AS_OF,
        url_variables=("LMSTUDIO_BASE_URL",),
        key_needed=False,
        self_run=True,
        structured_output=True,
        schema_beside_tools=False,
        named_choice=False,
    ),
    Preset(
        "mistralai",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        "https://docs.mistral.ai/api",
        _AS_OF,
        host="mistral.ai",
        prefixes=("mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral", "open-mi"),
        # Its streams tell the tokens unasked, and a field that it does not know ends the call with 422.
        refused=frozenset({"stream_options"}),
        renamed=(("seed", "random_seed"),),
        nine_character_ids=True,
    ),
    Preset(
        "openrouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "https://openrouter.ai/docs/api-reference/parameters",
        _AS_OF,
        host="openrouter.ai",
    ),
    Preset(
        "together",
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        "https://docs.together.ai/docs/openai-api-compatibility",
        _AS_OF,
        host="together.xyz",
    ),
    Preset(
        "vllm",
        "http://localhost:8000/v1",
        ("VLLM_API_KEY",),
        "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        _AS_OF,
        url_variables=("VLLM_BASE_URL",),
        key_needed=False,
        self_run=True,
        structured_output=True,
        schema_beside_tools=False,
    ),
    Preset(
        "xai",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        "https://docs.x.ai/docs/guides/reasoning",
        _AS_OF,
        host="x.ai",
        prefixes=("grok",),
        refused_by=(
            r"grok-(?:3-mini|4|code)(?!.*non-reasoning)",
            frozenset({"presence_penalty", "frequency_penalty"}),
        ),
    ),
)
"""The compatible servers that are known, by name in alphabetical order."""

_BY_NAME: Final = {row.name: row for row in PRESETS}


def preset_of(provider: str, host: str) -> Preset | None:
    """Find what is known of a server.

    Args:
        provider: its provider's name in the registry; it decides, where it is a row's.
        host: the host of its URL, lower case.

    Example:
        >>> preset_of("openai", "api.mistral.ai").name
        'mistralai'
    """
    named = _BY_NAME.get(provider)
    if named is not None:
        return named
    return next((row for row in PRESETS if row.host and (host == row.host or host.endswith(f".{row.host}"))), None)
