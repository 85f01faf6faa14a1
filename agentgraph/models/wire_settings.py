"""What every chat model over HTTP is told when it is built, and how its secrets are kept out of sight.

Keys stand in no repr, error, log, dump or pickle. A model that comes out of a pickle takes its key from the environment
again; where it was given one as an argument, it has to be built anew.
"""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_serializer,
    model_validator,
)

from agentgraph.errors import ConfigurationError
from agentgraph.models.settings import settings_fault
from agentgraph.models.transport import Timeouts
from agentgraph.models.urls import Endpoint, public_query, public_url, redact_url

__all__ = ["ServerSettings", "from_environment"]


def from_environment(names: Sequence[str]) -> str | None:
    """The first of these environment variables that is set to something."""
    return next((value for name in names if (value := os.environ.get(name))), None)


class ServerSettings(BaseChatModel):
    """The settings of a chat model behind a server; `WireChatModel` has the calls.

    Attributes:
        default_base_url: the provider's own service.
        base_url_variables: environment variables that may name another server.
        setting_names: the fields that are parameters of the API.
    """

    # An error that shows its input would show the key that stands beside a misspelt argument.
    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, populate_by_name=True, arbitrary_types_allowed=True
    )

    default_base_url: ClassVar[str] = ""
    base_url_variables: ClassVar[tuple[str, ...]] = ()
    setting_names: ClassVar[tuple[str, ...]] = ("model", "temperature", "max_tokens", "top_p", "stop")

    model: str = Field(validation_alias=AliasChoices("model", "model_name"))
    provider: str = ""
    key_variables: tuple[str, ...] = ()
    base_url: str | None = None
    api_key: SecretStr | None = None
    timeout: float | Timeouts | None = Field(default=None, validation_alias=AliasChoices("timeout", "request_timeout"))
    max_retries: int = Field(default=2, ge=0)
    max_concurrency: int | None = Field(default=None, ge=1)
    http_client: Any = Field(default=None, exclude=True, repr=False)
    http_async_client: Any = Field(default=None, exclude=True, repr=False)
    default_headers: dict[str, SecretStr] = Field(default_factory=dict, exclude=True, repr=False)
    default_query: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    temperature: float | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    top_p: float | None = None
    stop: list[str] | str | None = Field(default=None, validation_alias=AliasChoices("stop", "stop_sequences"))
    extra_body: dict[str, Any] = Field(default_factory=dict)
    streaming: bool = False

    _link: Any = PrivateAttr(default=None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        problem = ""
        try:
            super().__init__(*args, **kwargs)
        except ValidationError as error:
            problem = settings_fault(type(self).__name__, error, type(self).model_fields)
        # Outside of the `except`, and without the locals: both hold the key that stood beside the mistake.
        del args, kwargs
        if problem:
            raise ConfigurationError(problem)
        if self.base_url is not None:
            Endpoint.parse(self.base_url, {}, None)
        if self.timeout is not None:
            Timeouts.of(self.timeout)

    @model_validator(mode="after")
    def _read_environment(self) -> Self:
        """Keep what the environment says now, so that a later change of it does not move a model to another server."""
        if self.base_url is None:
            self.base_url = from_environment(self._base_url_variables())
        if self.api_key is None:
            key = from_environment(self.key_variables)
            self.api_key = None if key is None else SecretStr(key)
        return self

    # What it is

    @property
    def _identifying_params(self) -> dict[str, Any]:
        server = {} if self.base_url is None else {"base_url": redact_url(self.base_url)}
        return {**self._settings(), **self.extra_body, **server}

    def _settings(self) -> dict[str, Any]:
        return {name: value for name in self.setting_names if (value := getattr(self, name)) is not None}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop or self._stops(), **kwargs)
        params["ls_provider"] = self.provider
        return params

    def _stops(self) -> list[str] | None:
        return [self.stop] if isinstance(self.stop, str) else self.stop

    def get_token_ids(self, text: str) -> list[int]:
        """Count tokens roughly, one for four bytes: the ids mean nothing, their number does.

        The base class would load another model's tokenizer, which is slow and no less wrong.
        """
        return list(range(-(-len(text.encode("utf-8", "replace")) // 4)))

    # Secrets

    @field_serializer("base_url")
    def _redacted(self, value: str | None) -> str | None:
        return None if value is None else redact_url(value)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether langchain-core may dump it: yes, its key as the name of an environment variable."""
        return True

    @property
    def lc_secrets(self) -> dict[str, str]:
        """The argument that is a secret, and the variable that holds it."""
        return {"api_key": self.key_variables[0] if self.key_variables else "API_KEY"}

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """The base URL as it may be shown."""
        return {} if self.base_url is None else {"base_url": redact_url(self.base_url)}

    def __repr_args__(self) -> Any:
        for name, value in super().__repr_args__():
            yield name, redact_url(value) if name == "base_url" and isinstance(value, str) else value

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        kept = {**state["__dict__"], "api_key": None, "http_client": None, "http_async_client": None}
        kept |= {"default_headers": {}, "default_query": public_query(self.default_query)}
        kept["base_url"] = None if self.base_url is None else public_url(self.base_url)
        kept.pop("_serialized", None)
        return {**state, "__dict__": kept, "__pydantic_private__": {"_link": None}}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # Connections and locks cannot be copied, and nothing of a model changes when it is used.
        return self.model_copy()

    # The environment

    def _base_url_variables(self) -> tuple[str, ...]:
        """Environment variables that may name the server."""
        return self.base_url_variables
