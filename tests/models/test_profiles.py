"""What is known of models by their names: the rows, whom they fit, and what comes of them."""

import json
import re
from datetime import UTC, date, datetime
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool

from agentgraph.errors import ConfigurationError
from agentgraph.models import init_chat_model
from agentgraph.models.anthropic_profiles import ANTHROPIC_ROWS, anthropic_profile
from agentgraph.models.gemini import ChatGemini
from agentgraph.models.gemini_profiles import GEMINI_ROWS, gemini_profile
from agentgraph.models.open_profiles import OPEN_ROWS, ollama_profile, open_row, served_profile
from agentgraph.models.openai_profiles import OPENAI_ROWS, openai_profile
from agentgraph.models.presets import PRESETS
from agentgraph.models.profiles import ProfileRow, profile_of
from agentgraph.structured_output import supports_native

TABLES = {"openai": OPENAI_ROWS, "anthropic": ANTHROPIC_ROWS, "gemini": GEMINI_ROWS, "open": OPEN_ROWS}
ROWS = [pytest.param(row, id=f"{name}-{row.pattern}") for name, rows in TABLES.items() for row in rows]
DEEPSEEK = ("deepseek", "https://api.deepseek.com/v1")
GROQ = ("groq", "https://api.groq.com/openai/v1")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def is_a_past_day(text: str) -> bool:
    return date(2024, 1, 1) <= date.fromisoformat(text) <= datetime.now(UTC).date()


@pytest.mark.parametrize("row", ROWS)
def test_every_row_says_where_its_sane_figures_are_from_and_of_when(row: ProfileRow) -> None:
    assert re.fullmatch(r"https://[a-z0-9.-]+/\S*", row.source)
    assert is_a_past_day(row.as_of)
    assert 4_096 <= row.window <= 10_000_000
    assert row.answer is None or 1_024 <= row.answer <= row.window
    assert 0 < profile_of(row)["max_input_tokens"] <= row.window
    assert {True, False} >= set(row.inputs.values())
    assert re.compile(row.pattern).match("") is None


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_says_where_it_is_from_and_of_when(preset: Any) -> None:
    assert preset.source.startswith("https://")
    assert is_a_past_day(preset.as_of)
    assert preset.base_url.startswith("http://localhost:" if preset.self_run else "https://")
    assert preset.key_needed is not preset.self_run


def test_a_row_becomes_a_profile_without_what_is_not_known() -> None:
    row = ProfileRow(
        "m", 100_000, "https://x.test/", "2026-01-01", answer=40_000, shared_window=True, structured=None, sampling=None
    )
    assert profile_of(row) == {
        "max_input_tokens": 60_000,
        "max_output_tokens": 40_000,
        "text_inputs": True,
        "text_outputs": True,
        "reasoning_output": False,
        "tool_calling": True,
        "tool_choice": True,
    }


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (openai_profile("ft:gpt-4o-mini:acme"), (111_616, 16_384, True, True, True)),
        (openai_profile("o1-mini"), (128_000, 65_536, False, False, False)),
        (openai_profile("gpt-4o-2024-05-13"), (123_904, 4_096, True, False, True)),
        (openai_profile("gpt-5.2-codex"), (272_000, 128_000, True, True, True)),
        (anthropic_profile("claude-opus-4-1-20250805"), (200_000, 32_000, True, True, True)),
        (anthropic_profile("us.anthropic.claude-opus-4-5-20251101-v1:0"), (200_000, 64_000, True, True, True)),
        (anthropic_profile("claude-3-5-haiku-latest"), (200_000, 8_192, True, False, True)),
        (gemini_profile("models/gemini-2.5-pro"), (1_048_576, 65_536, True, True, True)),
        (gemini_profile("gemma-3-27b-it"), (131_072, 8_192, False, False, True)),
        (gemini_profile("gemma-3-1b-it"), (32_768, 8_192, False, False, False)),
    ],
)
def test_a_vendors_models_are_known_by_their_names(profile: Any, expected: tuple[Any, ...]) -> None:
    keys = ("max_input_tokens", "max_output_tokens", "tool_calling", "structured_output", "image_inputs")
    assert tuple(profile[key] for key in keys) == expected


@pytest.mark.parametrize(
    ("name", "window", "tools", "reasoning", "images"),
    [
        ("llama-3.3-70b-versatile", 131_072, True, False, False),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072, True, False, False),
        ("accounts/fireworks/models/llama-v3p1-70b-instruct", 131_072, True, False, False),
        ("llama3.2-vision:11b", 131_072, None, False, True),
        ("llama3:8b", 8_192, None, False, False),
        ("Meta-Llama-3-70B-Instruct", 8_192, None, False, False),
        ("qwen2.5:7b-instruct", 32_768, True, False, False),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", 32_768, True, False, False),
        ("qwen2.5-vl-72b-instruct", 32_768, None, False, True),
        ("qwen3:8b", 32_768, True, True, False),
        ("qwen/qwen3-235b-a22b-instruct-2507", 262_144, True, False, False),
        ("mistral-nemo", 131_072, True, False, False),
        ("open-mixtral-8x22b", 65_536, True, False, False),
        ("mixtral-8x7b-32768", 32_768, None, False, False),
        ("ministral-8b-latest", 131_072, True, False, False),
        ("mistral-small-latest", 131_072, True, False, True),
        ("Mistral-Small-24B-Instruct-2501", 32_768, True, False, False),
        ("mistralai/Mistral-7B-Instruct-v0.3", 32_768, True, False, False),
        ("mistralai/Mistral-7B-Instruct-v0.2", 32_768, None, False, False),
        ("deepseek-ai/DeepSeek-V3", 131_072, True, False, False),
        ("deepseek-r1-distill-llama-70b", 131_072, None, True, False),
        ("deepseek-chat", 65_536, True, False, False),
        ("google/gemma-2-9b-it", 8_192, None, False, False),
        ("google/gemma-3-27b-it:free", 131_072, None, False, True),
        ("gemma3:1b", 32_768, None, False, None),
        ("smollm2:135m", 8_192, None, False, False),
        ("microsoft/phi-4", 16_384, None, False, False),
        ("Phi-3-mini-128k-instruct", 131_072, None, False, False),
    ],
)
def test_open_models_are_known_under_the_names_of_whoever_serves_them(
    name: str, window: int, tools: bool | None, reasoning: bool, images: bool | None
) -> None:
    row = open_row(name)
    assert row is not None
    assert (row.window, row.tools, row.reasoning, row.inputs.get("image_inputs")) == (window, tools, reasoning, images)


@pytest.mark.parametrize(
    "name", ["", "llama", "llama-4-scout", "qwen3-embedding-8b", "qwen3.5", "my-llama3.1", "phi-5", "gpt-4o", "gemma"]
)
def test_a_model_that_is_not_listed_has_no_row(name: str) -> None:
    assert open_row(name) is None


@pytest.mark.parametrize(
    ("provider", "url", "model", "expected"),
    [
        ("openai", "http://localhost:9000", "qwen3:8b", None),
        (*GROQ, "unheard-of", None),
        ("openai", GROQ[1], "gemma2-9b-it", {"max_input_tokens": 8_192}),
        ("deepseek", "https://api.deepseek.com/v1", "unheard-of", {"structured_output": False}),
        (
            "deepseek",
            "https://api.deepseek.com/v1",
            "deepseek-chat",
            {"max_input_tokens": 65_536, "tool_calling": True},
        ),
        ("vllm", "http://gpu:8000/v1", "Qwen/Qwen3-8B", {"structured_output": True, "reasoning_output": True}),
    ],
)
def test_a_served_model_has_what_its_server_and_its_name_tell(
    provider: str, url: str, model: str, expected: dict[str, Any] | None
) -> None:
    profile = served_profile(provider, url, model)
    assert profile is None if expected is None else expected.items() <= (profile or {}).items()


@pytest.mark.parametrize("provider", ["vllm", "llamacpp", "lmstudio"])
def test_who_starts_a_server_of_his_own_decides_on_windows_and_tools(provider: str) -> None:
    profile = init_chat_model(f"{provider}:Qwen/Qwen3-8B").profile or {}
    assert {"max_input_tokens", "max_output_tokens", "tool_calling", "tool_choice"} & profile.keys() == set()
    assert profile["structured_output"] is True


@pytest.mark.parametrize(
    ("model", "window", "expected"),
    [
        ("gemma3:4b", 8_192, {"tool_calling": False, "max_input_tokens": 8_192, "image_inputs": True}),
        ("someone/gemma3-tools:4b", None, {"image_inputs": True}),
        ("qwen3:8b", None, {"reasoning_output": True}),
        ("our-own", 4_096, {"max_input_tokens": 4_096}),
    ],
)
def test_ollama_is_known_to_refuse_tools_only_for_models_of_its_own_library(
    model: str, window: int | None, expected: dict[str, Any]
) -> None:
    profile = ollama_profile(model, window)
    assert (expected | {"structured_output": True, "tool_choice": False}).items() <= profile.items()
    assert ("tool_calling" in profile) is ("tool_calling" in expected)
    assert ("max_input_tokens" in profile) is (window is not None)


# What the facts are for


@pytest.mark.parametrize(
    ("name", "alone", "beside_tools"),
    [
        ("openai:gpt-4o", True, True),
        ("openai:gpt-4-turbo", False, False),
        ("anthropic:claude-sonnet-4-5", True, True),
        ("google_genai:gemini-2.5-flash", True, False),
        ("google_genai:gemini-3-pro-preview", True, True),
        ("google_genai:gemini-flash-latest", True, False),
        ("google_genai:gemma-3-27b-it", False, False),
        ("vllm:Qwen/Qwen3-8B", True, False),
        ("llamacpp:anything", True, False),
        ("lmstudio:anything", True, False),
        ("deepseek:deepseek-chat", False, False),
        ("groq:llama-3.3-70b-versatile", False, False),
        ("xai:grok-4", True, True),
        ("openrouter:openai/gpt-4o", True, True),
    ],
)
def test_a_schema_is_left_to_the_server_only_where_it_gets_along_with_the_tools(
    name: str, alone: bool, beside_tools: bool
) -> None:
    model = init_chat_model(name, api_key="sk-of-nobody")
    assert (supports_native(model), supports_native(model, tools_bound=True)) == (alone, beside_tools)


def test_what_a_user_says_of_a_model_goes_before_the_rows() -> None:
    model = init_chat_model("groq:anything", api_key="k", profile={"structured_output": True})
    assert (supports_native(model), supports_native(model, tools_bound=True)) == (True, False)


def test_an_ollama_server_lets_a_schema_win_over_tools() -> None:
    model = init_chat_model("ollama:qwen3:8b", profile={"structured_output": True})
    assert (supports_native(model), supports_native(model, tools_bound=True)) == (True, False)


def sent_by(model: str, *messages: Any) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def answered(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        parts = {"role": "model", "parts": [{"text": "Hello"}]}
        return httpx.Response(200, json={"candidates": [{"content": parts, "finishReason": "STOP"}]})

    with httpx.Client(transport=httpx.MockTransport(answered)) as client:
        assert ChatGemini(model=model, http_client=client).invoke(list(messages)).text == "Hello"
    return seen[0]


def test_a_gemma_reads_its_instruction_at_the_head_of_the_first_turn() -> None:
    told = (
        SystemMessage("Be kind."),
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        AIMessage("Ho"),
        HumanMessage("?"),
    )
    assert sent_by("gemma-3-27b-it", *told) == {
        "contents": [
            {"role": "user", "parts": [{"text": "Be kind.\n\n"}, {"text": "Be brief.\n\n"}, {"text": "Hi"}]},
            {"role": "model", "parts": [{"text": "Ho"}]},
            {"role": "user", "parts": [{"text": "?"}]},
        ]
    }
    assert sent_by("gemma-3-27b-it", SystemMessage("Be kind."), AIMessage("Ho"), HumanMessage("?"))["contents"][0] == {
        "role": "user",
        "parts": [{"text": "Be kind.\n\n"}],
    }


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemma-4-31b-it"])
def test_other_models_have_an_instruction_of_their_own(model: str) -> None:
    assert sent_by(model, SystemMessage("Be kind."), HumanMessage("Hi")) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
    }


def test_a_gemma_behind_googles_api_is_told_to_have_no_tools_before_it_is_asked() -> None:
    with pytest.raises(ConfigurationError, match="tool_protocol"):
        ChatGemini(model="gemma-3-27b-it", api_key="k").bind_tools([add])
