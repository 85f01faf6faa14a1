"""The providers of chat models, as data.

`PROVIDERS` is what we speak ourselves: a row for each, with the class's import path, its environment variables, its
defaults, and the prefixes of model names by which it is recognised. A new wire format is a new row; a new server that
speaks OpenAI's is one in `presets`. `INTEGRATIONS` are the providers that we do not speak.

Environment variables; of several, the first one that is set counts. What is given as an argument goes before them:

    provider          key                                        server
    anthropic         ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN     ANTHROPIC_BASE_URL ANTHROPIC_API_URL
    azure_openai      AZURE_OPENAI_API_KEY AZURE_OPENAI_AD_TOKEN AZURE_OPENAI_ENDPOINT
    deepseek          DEEPSEEK_API_KEY                           -
    fireworks         FIREWORKS_API_KEY                          -
    google_genai      GOOGLE_API_KEY GEMINI_API_KEY              GOOGLE_GEMINI_BASE_URL
    groq              GROQ_API_KEY                               -
    llamacpp          LLAMACPP_API_KEY LLAMA_API_KEY             LLAMACPP_BASE_URL
    lmstudio          LMSTUDIO_API_KEY                           LMSTUDIO_BASE_URL
    local             -                                          -
    mistralai         MISTRAL_API_KEY                            -
    ollama            OLLAMA_API_KEY                             OLLAMA_HOST
    openai            OPENAI_API_KEY                             OPENAI_BASE_URL OPENAI_API_BASE
    openai_responses  OPENAI_API_KEY                             OPENAI_BASE_URL OPENAI_API_BASE
    openrouter        OPENROUTER_API_KEY                         -
    together          TOGETHER_API_KEY                           -
    vllm              VLLM_API_KEY                               VLLM_BASE_URL
    xai               XAI_API_KEY                                -

Azure also reads OPENAI_API_VERSION.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentgraph.models.presets import PRESETS

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

__all__ = ["INTEGRATIONS", "PROVIDERS", "Integration", "Provider", "attribute_of"]

_OPENAI = "agentgraph.models.openai:ChatOpenAI"


def attribute_of(path: str) -> Any:
    """Import what "module:attribute" names."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider whose wire format agentgraph speaks.

    Attributes:
        name: what stands before the colon in "name:model".
        path: where the chat model class (or a function that builds one) is, as "module:attribute".
        key_variables: environment variables that may hold its key; the first one that is set counts.
        prefixes: beginnings of model names, lower case, by which the provider is inferred.
        defaults: keyword arguments for the class, below those of the caller.
        url_variables: environment variables that may name another server than that of `defaults`.

    Example:
        >>> url = "https://llm.acme.test/v1"
        >>> acme = Provider("acme", "agentgraph.models.openai:ChatOpenAI", defaults={"base_url": url})
        >>> acme.build("large", {}).base_url
        'https://llm.acme.test/v1'
    """

    name: str
    path: str
    key_variables: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    url_variables: tuple[str, ...] = ()

    def build(self, model: str, settings: Mapping[str, Any]) -> "BaseChatModel":
        """Build the chat model `model` with `settings` over this provider's defaults."""
        extras: dict[str, Any] = {}
        if self.defaults or self.path == _OPENAI:
            # Without them the model would take, and send, the key of another provider.
            extras = {"provider": self.name, "key_variables": self.key_variables}
        given = {"model": model, **extras, **self._defaults_here(settings), **settings}
        built: BaseChatModel = attribute_of(self.path)(**given)
        return built

    def _defaults_here(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults, with the server that the environment names, and without one beside the caller's."""
        defaults = dict(self.defaults)
        if "base_url" in defaults:
            named = (url for name in self.url_variables if (url := os.environ.get(name)))
            defaults["base_url"] = next(named, defaults["base_url"])
            if settings.get("openai_api_base") is not None:
                del defaults["base_url"]
        return defaults


@dataclass(frozen=True, slots=True)
class Integration:
    """A provider that is reached through its LangChain integration package.

    Attributes:
        package: the distribution to install.
        path: the chat model class, as "module:attribute".
        prefixes: beginnings of model names, lower case, by which the provider is inferred.
        model_argument: the constructor's name for the model.
    """

    package: str
    path: str
    prefixes: tuple[str, ...] = ()
    model_argument: str = "model"


_OPENAI_URLS = ("OPENAI_BASE_URL", "OPENAI_API_BASE")

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        row.name: row
        for row in (
            Provider(
                "openai",
                _OPENAI,
                ("OPENAI_API_KEY",),
                ("gpt-", "o1", "o3", "o4", "chatgpt", "ft:gpt-"),
                url_variables=_OPENAI_URLS,
            ),
            Provider(
                "openai_responses",
                "agentgraph.models.openai_responses:ChatOpenAIResponses",
                ("OPENAI_API_KEY",),
                url_variables=_OPENAI_URLS,
            ),
            Provider(
                "azure_openai",
                "agentgraph.models.azure_openai:ChatAzureOpenAI",
                ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
                url_variables=("AZURE_OPENAI_ENDPOINT",),
            ),
            Provider(
                "anthropic",
                "agentgraph.models.anthropic:ChatAnthropic",
                ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
                ("claude",),
                url_variables=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"),
            ),
            Provider(
                "google_genai",
                "agentgraph.models.gemini:ChatGemini",
                ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
                ("gemini",),
                url_variables=("GOOGLE_GEMINI_BASE_URL",),
            ),
            Provider("local", "agentgraph.models.local:local_chat_model"),
            Provider(
                "ollama",
                "agentgraph.models.ollama:ChatOllama",
                ("OLLAMA_API_KEY",),
                url_variables=("OLLAMA_HOST",),
            ),
            *(
                Provider(
                    row.name,
                    _OPENAI,
                    row.key_variables,
                    row.prefixes,
                    MappingProxyType({"base_url": row.base_url}),
                    row.url_variables,
                )
                for row in PRESETS
            ),
        )
    }
)
"""What agentgraph speaks itself, by name."""

INTEGRATIONS: Mapping[str, Integration] = MappingProxyType(
    {
        "bedrock": Integration(
            "langchain-aws", "langchain_aws:ChatBedrock", ("amazon.", "anthropic.", "meta."), "model_id"
        ),
        "bedrock_converse": Integration("langchain-aws", "langchain_aws:ChatBedrockConverse"),
        "cohere": Integration("langchain-cohere", "langchain_cohere:ChatCohere", ("command",)),
        "google_vertexai": Integration("langchain-google-vertexai", "langchain_google_vertexai:ChatVertexAI"),
        "nvidia": Integration("langchain-nvidia-ai-endpoints", "langchain_nvidia_ai_endpoints:ChatNVIDIA"),
        "perplexity": Integration("langchain-perplexity", "langchain_perplexity:ChatPerplexity", ("sonar",)),
        "upstage": Integration("langchain-upstage", "langchain_upstage:ChatUpstage", ("solar",)),
    }
)
"""What is reached through a LangChain integration, by name."""
