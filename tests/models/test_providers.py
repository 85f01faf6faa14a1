"""Providers as data: their names and those they are mistaken for, their variables, and rows of other packages."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agentgraph.errors import ConfigurationError
from agentgraph.models import init_chat_model
from agentgraph.models import providers as providers_module
from agentgraph.models.registry import PROVIDERS, Provider, split_model

ACME_PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-models"
version = "1.0"

[project.entry-points."agentgraph.models"]
acme = "acme_models:provider"

[tool.setuptools]
py-modules = ["acme_models"]
"""
ACME_MODULE = """
from agentgraph.models.registry import Provider

provider = Provider(
    "acme",
    "agentgraph.models.openai:ChatOpenAI",
    ("ACME_API_KEY",),
    ("acme-",),
    {"base_url": "https://llm.acme.test/v1"},
    ("ACME_BASE_URL",),
)
"""


# Names


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("openai/gpt-4o", '"openai:gpt-4o", or "openrouter:openai/gpt-4o"?'),
        ("opnai/gpt-4o", '"openai:gpt-4o", or "openrouter:opnai/gpt-4o"?'),
        ("google/gemini-2.5-flash", '"google_genai:gemini-2.5-flash", or'),
        ("openrouter/openai/gpt-4o", '"openrouter:openai/gpt-4o"?'),
        ("ollama qwen3:8b", '"ollama:qwen3:8b"?'),
        ("ollama/qwen3:8b", '"ollama:qwen3:8b", or'),
        ("vllm@Qwen3", '"vllm:Qwen3"?'),
    ],
)
def test_another_separator_than_the_colon_is_guessed_at(name: str, guess: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        init_chat_model(name)
    assert f"Did you mean {guess}" in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "guess"),
    [
        ("azure", "azure_openai"),
        ("claude", "anthropic"),
        ("gemini", "google_genai"),
        ("google", "google_genai"),
        ("grok", "xai"),
        ("mistral", "mistralai"),
        ("llama.cpp", "llamacpp"),
        ("lm-studio", "lmstudio"),
    ],
)
def test_a_provider_by_another_of_its_names_is_guessed_at(provider: str, guess: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Did you mean '{guess}'"):
        init_chat_model("some-model", model_provider=provider)


@pytest.mark.parametrize("name", ["zzz/some-model", "some model", "qq:m"])
def test_what_is_like_nothing_known_is_not_guessed_at(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        init_chat_model(name)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", ["mistralai/Mistral-7B-Instruct-v0.3", "deepseek-ai/DeepSeek-V3", "gpt-neo/gpt"])
def test_a_repository_of_weights_tells_no_provider(name: str) -> None:
    with pytest.raises(ConfigurationError, match="does not follow from its name"):
        init_chat_model(name)
    assert split_model("accounts/fireworks/models/qwen3", None)[0] == "fireworks"


# The environment


def classes_variables(provider: Provider) -> tuple[tuple[str, ...], tuple[str, ...]]:
    model = provider.build("m", {})
    tokens = getattr(model, "token_variables", ())
    return (*model.key_variables, *tokens), model._base_url_variables()


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "local"])
def test_a_row_names_the_variables_that_its_class_reads(name: str) -> None:
    row = PROVIDERS[name]
    keys, urls = classes_variables(row)
    assert keys == row.key_variables
    assert urls == (() if "base_url" in row.defaults else row.url_variables)


def test_the_table_of_variables_is_that_of_the_rows() -> None:
    said = {}
    for line in (providers_module.__doc__ or "").splitlines():
        words = line.split()
        if line.startswith("    ") and words and words[0] in PROVIDERS:
            columns = [" ".join(line[start:end].split()) for start, end in ((4, 22), (22, 65), (65, None))]
            said[columns[0]] = tuple(tuple(column.replace("-", "").split()) for column in columns[1:])
    assert said == {name: (row.key_variables, row.url_variables) for name, row in PROVIDERS.items()}
    assert list(said) == sorted(said)


@pytest.mark.parametrize("name", ["vllm", "llamacpp", "lmstudio"])
def test_the_environment_says_where_a_server_of_ones_own_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    [variable] = PROVIDERS[name].url_variables
    default = PROVIDERS[name].defaults["base_url"]
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.test/v1")
    monkeypatch.delenv(variable, raising=False)
    assert init_chat_model(f"{name}:m").base_url == default
    monkeypatch.setenv(variable, "http://gpu:9000")
    assert init_chat_model(f"{name}:m").base_url == "http://gpu:9000"
    for alias in ("base_url", "openai_api_base"):
        given = init_chat_model(f"{name}:m", **{alias: "http://mine:1"})
        assert given.base_url == "http://mine:1"


# Other packages


def python(code: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(  # noqa: S603 our own
        [sys.executable, "-P", "-c", code],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_provider_of_an_installed_distribution_is_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(ACME_PYPROJECT, encoding="utf-8")
    (tmp_path / "acme_models.py").write_text(ACME_MODULE, encoding="utf-8")
    python("import setuptools.build_meta as build; build.build_wheel('dist')", tmp_path)
    [wheel] = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "from agentgraph.models import init_chat_model\n"
        "for name in ('acme:large', 'ACME-small'):\n"
        "    model = init_chat_model(name)\n"
        "    print(model.provider, model.model, model.base_url, model.api_key.get_secret_value())\n"
    )
    paths = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).resolve().parents[2])])
    given = {"PYTHONPATH": paths, "ACME_API_KEY": "k-1", "OPENAI_API_KEY": "sk-2", "ACME_BASE_URL": ""}
    assert python(code, tmp_path, **given).splitlines() == [
        "acme large https://llm.acme.test/v1 k-1",
        "acme ACME-small https://llm.acme.test/v1 k-1",
    ]
