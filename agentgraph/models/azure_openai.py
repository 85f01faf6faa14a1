"""Chat models of Azure's OpenAI service: Chat Completions as OpenAI's own, under other URLs and another header.

Azure has two forms of URL. The v1 API takes the deployment as the `model` of the body; the older one has it in the
path, and wants a dated `api-version` in the query.

URLs: https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from langchain_core.messages import BaseMessage
from pydantic import AliasChoices, Field, SecretStr, model_validator

from agentgraph.errors import ConfigurationError
from agentgraph.models.bearer import BearerChatModel
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.openai_call import Call
from agentgraph.models.wire_settings import from_environment

__all__ = ["ChatAzureOpenAI", "azure_url"]

_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"/(?:v1|deployments/[^/]+)(?:/chat/completions)?$")


def azure_url(endpoint: str, deployment: str, version: str | None) -> str:
    """Give the base URL of a deployment.

    Args:
        endpoint: the resource's URL as the portal shows it, or one that names the API or the deployment already, which
            is taken as it is.
        deployment: the deployment's name.
        version: the API's version. A date chooses the older form; "preview" and "latest" belong to v1.

    Example:
        >>> azure_url("https://acme.openai.azure.com/", "gpt-4o", None)
        'https://acme.openai.azure.com/openai/v1'
        >>> azure_url("https://acme.openai.azure.com", "gpt-4o", "2024-10-21")
        'https://acme.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-10-21'
    """
    parts = urlsplit(endpoint.strip())
    path, query = parts.path.rstrip("/"), parts.query
    dated = version is not None and _DATED.match(version) is not None
    if not _WHOLE.search(path):
        below = f"deployments/{quote(deployment, safe='')}" if dated else "v1"
        path = f"{path.removesuffix('/openai')}/openai/{below}"
    told = any(name == "api-version" for name, _ in parse_qsl(query))
    wanted = dated if "/deployments/" in path else version not in {None, "v1"} and not dated
    if wanted and not told:
        query = f"{query}&api-version={version}" if query else f"api-version={version}"
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


class ChatAzureOpenAI(BearerChatModel, ChatOpenAI):
    """A chat model that is deployed at Azure's OpenAI service.

    It is `ChatOpenAI` in all but where it is found and how it is paid for. Which parameters it takes is told by the
    model's name: where the deployment has another one, give both.

    Args:
        model: the model's name, which is the deployment's too where no other is given. Default: `azure_deployment`.
        azure_deployment: the deployment's name. Default: `model`.
        base_url: the resource's URL, e.g. "https://acme.openai.azure.com", also as `azure_endpoint`. One that ends in
            "/v1" or names the deployment is taken as it is. Default: `AZURE_OPENAI_ENDPOINT`.
        api_version: a date, e.g. "2024-10-21", asks the older API, which has the deployment in its path; "preview" and
            "latest" choose among the versions of the v1 API. Default: `OPENAI_API_VERSION`, else the v1 API.
        api_key: sent in the header `api-key`. Default: `AZURE_OPENAI_API_KEY`.
        auth_token: a token of Microsoft Entra, in place of the key, also as `azure_ad_token`. Default, where neither is
            given and no key is in the environment: `AZURE_OPENAI_AD_TOKEN`.
        kwargs: everything else as for `ChatOpenAI`.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range; at the first call: no endpoint is known.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        AuthenticationError: also when there is neither key nor token; the text names the variable.

    Example:
        >>> url = "https://acme.openai.azure.com"
        >>> ChatAzureOpenAI(model="gpt-4o", azure_deployment="ours", azure_endpoint=url).azure_deployment
        'ours'
    """

    if TYPE_CHECKING:
        # Checkers would ask for what the fields hold (keys that are SecretStr already), and refuse other names of them.
        def __init__(self, **settings: Any) -> None: ...

    key_header: ClassVar[str] = "api-key"
    base_url_variables: ClassVar[tuple[str, ...]] = ("AZURE_OPENAI_ENDPOINT",)
    token_variables: ClassVar[tuple[str, ...]] = ("AZURE_OPENAI_AD_TOKEN",)

    provider: str = "azure_openai"
    key_variables: tuple[str, ...] = ("AZURE_OPENAI_API_KEY",)
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "azure_endpoint"))
    auth_token: SecretStr | None = Field(default=None, validation_alias=AliasChoices("auth_token", "azure_ad_token"))
    azure_deployment: str | None = Field(
        default=None, validation_alias=AliasChoices("azure_deployment", "deployment_name")
    )
    api_version: str | None = Field(
        default_factory=lambda: from_environment(("OPENAI_API_VERSION",)),
        validation_alias=AliasChoices("api_version", "openai_api_version"),
    )

    @model_validator(mode="before")
    @classmethod
    def _name_by_deployment(cls, given: Any) -> Any:
        """Take the deployment's name for the model's, where that is not said: many give them the same one."""
        if not isinstance(given, dict) or {"model", "model_name"} & given.keys():
            return given
        deployment = given.get("azure_deployment") or given.get("deployment_name")
        return {**given, "model": deployment} if deployment else given

    @property
    def _llm_type(self) -> str:
        return "azure-openai-chat"

    def _base_url_variables(self) -> tuple[str, ...]:
        return self.base_url_variables

    def _server(self) -> str:
        if not self.base_url:
            raise ConfigurationError(
                f"{self.provider}: no endpoint. Set the environment variable {self.base_url_variables[0]}, or give "
                "base_url=, to the URL of your resource, e.g. 'https://acme.openai.azure.com'."
            )
        return azure_url(self.base_url, self.azure_deployment or self.model, self.api_version)

    def _needs_key(self, server: str) -> bool:  # noqa: ARG002 Azure lets nobody in without one
        return bool(self.key_variables)

    def _version_prefix(self, server: str) -> str | None:  # noqa: ARG002 every URL of `azure_url` is whole
        return None

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> Call:
        if kwargs.get("model"):
            # The older form has the deployment in its URL, so another one is another server.
            rest = {key: value for key, value in kwargs.items() if key != "model"}
            other = self.model_copy(update={"model": kwargs["model"], "azure_deployment": None})
            return other._call(messages, stop, rest, stream=stream)  # noqa: SLF001 another of this class
        call = super()._call(messages, stop, kwargs, stream=stream)
        if self.azure_deployment:
            call.body["model"] = self.azure_deployment
        return call
