"""From a name such as "openai:gpt-4o" to a chat model.

`PROVIDERS` is the table of what we speak ourselves: a row for each provider, with the class's import path, the
environment variable of its key, its defaults, and the prefixes of model names by which it is recognised. A new wire
format is a new row. Packages may add rows through the entry point group `agentgraph.models`: each entry point loads
a `Provider`. Providers we do not speak are served by their LangChain integration where that is installed
(`INTEGRATIONS`).

Classes are imported when a model of them is built, so that this module costs nothing.
"""

import difflib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from agentgraph.models.configurable import ConfigurableChatModel

__all__ = ["INTEGRATIONS", "PROVIDERS", "Integration", "Provider", "init_chat_model"]

_ENTRY_POINTS = "agentgraph.models"
_OPENAI = "agentgraph.models.openai:ChatOpenAI"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider whose wire format agentgraph speaks.

    Attributes:
        name: what stands before the colon in "name:model".
        path: where the chat model class (or a function that builds one) is, as "module:attribute".
        key_variables: environment variables that may hold its key; the first one that is set counts.
        prefixes: beginnings of model names, lower case, by which the provider is inferred.
        defaults: keyword arguments for the class, below those of the caller.

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

    def build(self, model: str, settings: Mapping[str, Any]) -> "BaseChatModel":
        """Build the chat model `model` with `settings` over this provider's defaults."""
        extras: dict[str, Any] = {}
        if self.defaults or self.path == _OPENAI:
            # Without them the model would take, and send, the key of another provider.
            extras = {"provider": self.name, "key_variables": self.key_variables}
        built: BaseChatModel = _load(self.path)(**{"model": model, **extras, **self.defaults, **settings})
        return built


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


def _compatible(name: str, base_url: str, variable: str, *prefixes: str) -> Provider:
    return Provider(name, _OPENAI, (variable,), prefixes, MappingProxyType({"base_url": base_url}))


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        row.name: row
        for row in (
            Provider("openai", _OPENAI, ("OPENAI_API_KEY",), ("gpt-", "o1", "o3", "o4", "chatgpt", "ft:gpt-")),
            Provider("openai_responses", "agentgraph.models.openai_responses:ChatOpenAIResponses", ("OPENAI_API_KEY",)),
            Provider("anthropic", "agentgraph.models.anthropic:ChatAnthropic", ("ANTHROPIC_API_KEY",), ("claude",)),
            Provider(
                "google_genai",
                "agentgraph.models.gemini:ChatGemini",
                ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
                ("gemini",),
            ),
            Provider("local", "agentgraph.models.local:local_chat_model"),
            Provider("ollama", "agentgraph.models.ollama:ChatOllama", ("OLLAMA_API_KEY",)),
            _compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek"),
            _compatible(
                "fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", "accounts/fireworks"
            ),
            _compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
            _compatible("mistralai", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral", "mixtral"),
            _compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
            _compatible("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
            _compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY", "grok"),
        )
    }
)
"""What agentgraph speaks itself, by name."""

INTEGRATIONS: Mapping[str, Integration] = MappingProxyType(
    {
        "azure_openai": Integration("langchain-openai", "langchain_openai:AzureChatOpenAI"),
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


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


@cache
def _foreign_providers() -> Mapping[str, Provider]:
    """Rows that installed packages add. One that cannot be loaded is reported and left out."""
    rows: dict[str, Provider] = {}
    for point in entry_points(group=_ENTRY_POINTS):
        try:
            row = point.load()
        except Exception as error:  # noqa: BLE001 a broken plug-in must not break every other provider
            warnings.warn(f"The model provider {point.name!r} ({point.value}) does not load: {error}", stacklevel=2)
            continue
        if isinstance(row, Provider):
            rows[row.name] = row
    return rows


def _providers() -> dict[str, Provider]:
    return {**_foreign_providers(), **PROVIDERS}


def _normal(name: str) -> str:
    return name.strip().replace("-", "_").lower()


def infer_provider(model: str) -> str | None:
    """Name the provider of a bare model name by its beginning, case-insensitively; None if no prefix fits."""
    rows: list[tuple[str, tuple[str, ...]]] = [
        *((name, row.prefixes) for name, row in _providers().items()),
        *((name, row.prefixes) for name, row in INTEGRATIONS.items()),
    ]
    lowered = model.lower()
    fits = [(len(prefix), name) for name, prefixes in rows for prefix in prefixes if lowered.startswith(prefix)]
    return max(fits)[1] if fits else None


def split_model(model: str, model_provider: str | None) -> tuple[str, str]:
    """Split "provider:name" into (provider, name), inferring what is not said.

    A colon also stands inside names ("llama3:8b"), so what is before it counts only if it is a known provider or
    nothing else tells the provider.

    Raises:
        ConfigurationError: no provider was named, and none follows from the name.
    """
    known = {*_providers(), *INTEGRATIONS}
    model = model.strip()
    head, colon, rest = (part.strip() for part in model.partition(":"))
    if model_provider:
        provider = _normal(model_provider)
        return provider, rest if colon and rest and _normal(head) == provider else model
    if colon and _normal(head) in known:
        return _normal(head), rest
    inferred = infer_provider(model)
    if inferred is not None:
        return inferred, model
    if colon and rest:
        return _normal(head), rest
    raise ConfigurationError(
        f"The provider of the model {model[:200]!r} does not follow from its name. "
        f'Write "provider:{model[:200]}" or give model_provider=; known providers: {", ".join(sorted(known))}.'
    )


def _unknown_provider(provider: str) -> ConfigurationError:
    known = sorted({*_providers(), *INTEGRATIONS})
    nearest = difflib.get_close_matches(provider, known, n=1)
    guess = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return ConfigurationError(
        f"Unknown model provider {provider[:100]!r}.{guess} Known: {', '.join(known)}. A server that speaks the OpenAI "
        'API is reached by "openai:<model>" with base_url=...; any other by giving a chat model object.'
    )


def _build_integration(provider: str, model: str, settings: Mapping[str, Any]) -> "BaseChatModel":
    row = INTEGRATIONS[provider]
    try:
        factory = _load(row.path)
    except ImportError as error:
        raise ConfigurationError(
            f"agentgraph does not speak {provider!r} itself, and its LangChain integration is not installed. "
            f"Install it (pip install {row.package}), or give a chat model object, or reach an OpenAI-compatible "
            f'endpoint of it by "openai:{model[:200]}" with base_url=...'
        ) from error
    built: BaseChatModel = factory(**{row.model_argument: model, **settings})
    return built


def build_chat_model(model: str, model_provider: str | None = None, **settings: Any) -> "BaseChatModel":
    """Build one fixed chat model: the part of `init_chat_model` that is left when nothing is configurable."""
    provider, name = split_model(model, model_provider)
    if not name:
        raise ConfigurationError(f'The model {model!r} names a provider but no model: write "{provider}:<model>".')
    row = _providers().get(provider)
    if row is not None:
        return row.build(name, settings)
    if provider in INTEGRATIONS:
        return _build_integration(provider, name, settings)
    raise _unknown_provider(provider)


@overload
def init_chat_model(
    model: str,
    *,
    model_provider: str | None = None,
    configurable_fields: None = None,
    config_prefix: str | None = None,
    **kwargs: Any,
) -> "BaseChatModel": ...
@overload
def init_chat_model(
    model: None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: None = None,
    config_prefix: str | None = None,
    **kwargs: Any,
) -> "ConfigurableChatModel": ...
@overload
def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str],
    config_prefix: str | None = None,
    **kwargs: Any,
) -> "ConfigurableChatModel": ...
def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str] | None = None,
    config_prefix: str | None = None,
    **kwargs: Any,
) -> "BaseChatModel | ConfigurableChatModel":
    """Build a chat model from its name.

    Args:
        model: "provider:name", or a bare name whose provider is given or well known ("gpt-4o"). Without it the model
            is chosen at each run, by `config["configurable"]["model"]`.
        model_provider: the provider, where `model` does not name it.
        configurable_fields: what a run's config may set: names such as ("model", "temperature"), or "any". Only name
            fields you trust the config's author with: "any" lets it set `base_url` and `api_key` too.
        config_prefix: looked for before each key of the config: "judge" makes it `judge_model`.
        kwargs: settings of the model, such as `temperature`, `api_key`, `base_url`, `timeout`.

    Returns:
        A chat model, or a configurable one that stands for it until a run's config is known.

    Raises:
        ConfigurationError: an unknown provider (the nearest name is in the text), or one that is not installed.

    Example:
        >>> init_chat_model("openai:gpt-4o", temperature=0).temperature
        0.0
        >>> init_chat_model("qwen3", model_provider="openai", base_url="http://localhost:8000").model
        'qwen3'
    """
    if model is not None and not isinstance(model, str):
        raise ConfigurationTypeError(
            f'model is a {type(model).__name__}; expected a name such as "openai:gpt-4o". '
            "A chat model that is already built is used as it is, without init_chat_model."
        )
    if model and configurable_fields is None:
        if config_prefix:
            warnings.warn(
                f"config_prefix={config_prefix!r} has no effect: nothing is configurable. Give configurable_fields=.",
                stacklevel=2,
            )
        return build_chat_model(model, model_provider, **kwargs)
    from agentgraph.models.configurable import ConfigurableChatModel  # noqa: PLC0415 brings langchain-core's runnables

    named = {"model": model, "model_provider": model_provider}
    return ConfigurableChatModel(
        defaults={**kwargs, **{key: value for key, value in named.items() if value}},
        fields=("model", "model_provider") if configurable_fields is None else configurable_fields,
        prefix=config_prefix or "",
    )
