"""From a name such as "openai:gpt-4o" to a chat model.

The tables of providers are in `providers`: what we speak ourselves, and what is reached through a LangChain integration
where that is installed.

A package adds rows by an entry point of the group `agentgraph.models` that loads a `Provider`, in its pyproject.toml:

    [project.entry-points."agentgraph.models"]
    acme = "acme_models:provider"

and in `acme_models.py`, where it should import nothing that is slow:

    from agentgraph.models.registry import Provider

    provider = Provider("acme", "acme_models.chat:ChatAcme", ("ACME_API_KEY",), prefixes=("acme-",))

`"acme:large"` is then a model wherever a name is one. Names of our own rows cannot be taken over.

Classes are imported when a model of them is built, so that this module costs nothing.
"""

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, overload

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.providers import INTEGRATIONS, PROVIDERS, Integration, Provider, attribute_of

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from agentgraph.models.configurable import ConfigurableChatModel

__all__ = [
    "INTEGRATIONS",
    "PROVIDERS",
    "Integration",
    "Provider",
    "build_chat_model",
    "infer_provider",
    "init_chat_model",
    "split_model",
]

_ENTRY_POINTS = "agentgraph.models"
# What others write between a provider and a model, and what stands in no provider's name.
_SEPARATOR = re.compile(r"[/|>=@\s]")


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
        if _is_sound(row):
            rows[_normal(row.name)] = row
        else:
            warnings.warn(
                f"The model provider {point.name!r} ({point.value}) is left out: {row!r:.300}. Expected a Provider "
                "whose name and path are texts, with prefixes and key_variables that are tuples of such, none empty.",
                stacklevel=2,
            )
    return rows


def _is_sound(row: Any) -> bool:
    """Whether a row can be looked at beside the others; a text in place of a tuple would be as many as its letters."""
    if not isinstance(row, Provider):
        return False
    lists: list[Any] = [row.prefixes, row.key_variables, row.url_variables]
    if not all(isinstance(names, tuple | list) for names in lists):
        return False
    return all(
        isinstance(text, str) and text.strip() for text in (row.name, row.path, *(t for ts in lists for t in ts))
    )


def _providers() -> dict[str, Provider]:
    return {**_foreign_providers(), **PROVIDERS}


def _normal(name: str) -> str:
    return name.strip().replace("-", "_").lower()


def infer_provider(model: str) -> str | None:
    """Name the provider of a bare model name by its beginning, case-insensitively; None if no prefix fits.

    A name with a slash is that of a repository of weights, or of a router: whose server has it, its owner does not say.
    """
    rows: list[tuple[str, tuple[str, ...]]] = [
        *((name, row.prefixes) for name, row in _providers().items()),
        *((name, row.prefixes) for name, row in INTEGRATIONS.items()),
    ]
    lowered = model.lower()
    fits = [(len(prefix), name) for name, prefixes in rows for prefix in prefixes if lowered.startswith(prefix)]
    fits = [fit for fit in fits if "/" not in lowered or any("/" in prefix for prefix in dict(rows)[fit[1]])]
    return max(fits)[1] if fits else None


def _is_family(head: str) -> bool:
    """Whether what stands before a colon is all that tells the provider, such as "gemini" or "mistral".

    The name behind it was meant for a provider of that name: with the word in it, no server would know it.
    """
    rows: list[Provider | Integration] = [*_providers().values(), *INTEGRATIONS.values()]
    return head.lower() in {prefix.rstrip("-") for row in rows for prefix in row.prefixes}


def split_model(model: str, model_provider: str | None) -> tuple[str, str]:
    """Split "provider:name" into (provider, name), inferring what is not said.

    A colon also stands inside names ("llama3:8b"), so what is before it counts only if it is a known provider, or the
    bare name of a family of models ("gemini:..."), or nothing else tells the provider.

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
    if inferred is not None and not (colon and rest and _is_family(head)):
        return inferred, model
    if colon and rest and not _SEPARATOR.search(head):
        return _normal(head), rest
    raise ConfigurationError(
        f"The provider of the model {model[:200]!r} does not follow from its name.{_separated(model)} "
        f'Write "provider:{model[:200]}" or give model_provider=; known providers: {", ".join(sorted(known))}.'
    )


def _nearest(provider: str) -> str | None:
    """Name the known provider that a name was probably meant to be."""
    known = sorted({*_providers(), *INTEGRATIONS})
    name = _normal(provider)
    if name in known:
        return name
    begun = [one for one in known if len(name) > 2 and one.startswith(name)]  # noqa: PLR2004 two letters tell nothing
    guesses = (infer_provider(name), *difflib.get_close_matches(name, known, n=1), *begun)
    return next((guess for guess in guesses if guess), None)


def _separated(model: str) -> str:
    """Guess what a name with another separator than the colon was meant to be."""
    head, *rest = _SEPARATOR.split(model[:200], maxsplit=1)
    nearest = _nearest(head) if rest and rest[0] else None
    if nearest is None:
        return ""
    routed = f', or "openrouter:{model[:200]}"' if "/" in model and nearest != "openrouter" else ""
    return f' Did you mean "{nearest}:{rest[0]}"{routed}?'


def _unknown_provider(provider: str) -> ConfigurationError:
    known = sorted({*_providers(), *INTEGRATIONS})
    nearest = _nearest(provider)
    guess = f" Did you mean {nearest!r}?" if nearest else ""
    return ConfigurationError(
        f"Unknown model provider {provider[:100]!r}.{guess} Known: {', '.join(known)}. A server that speaks the OpenAI "
        'API is reached by "openai:<model>" with base_url=...; any other by giving a chat model object.'
    )


def _build_integration(provider: str, model: str, settings: Mapping[str, Any]) -> "BaseChatModel":
    row = INTEGRATIONS[provider]
    try:
        factory = attribute_of(row.path)
    except ImportError as error:
        raise ConfigurationError(
            f"agentgraph does not speak {provider!r} itself, and its LangChain integration is not installed. "
            f"Install it (pip install {row.package}), or give a chat model object, or reach an OpenAI-compatible "
            f'endpoint of it by "openai:{model[:200]}" with base_url=...'
        ) from error
    built: BaseChatModel = factory(**{row.model_argument: model, **settings})
    return built


def _build_foreign(row: Provider, model: str, settings: Mapping[str, Any]) -> "BaseChatModel":
    try:
        attribute_of(row.path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"The model provider {row.name!r} of an installed package does not load: {row.path!r:.200}: "
            f"{error!s:.300}. Mend or update that package, or give a chat model object."
        ) from error
    return row.build(model, settings)


def build_chat_model(model: str, model_provider: str | None = None, **settings: Any) -> "BaseChatModel":
    """Build one fixed chat model: the part of `init_chat_model` that is left when nothing is configurable."""
    provider, name = split_model(model, model_provider)
    if not name:
        raise ConfigurationError(f'The model {model!r} names a provider but no model: write "{provider}:<model>".')
    row = _providers().get(provider)
    if row is not None:
        return row.build(name, settings) if provider in PROVIDERS else _build_foreign(row, name, settings)
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
    if model_provider is not None and not isinstance(model_provider, str):
        raise ConfigurationTypeError(
            f'model_provider is a {type(model_provider).__name__}; expected the name of a provider, such as "openai".'
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
