"""Chat models that speak OpenAI's Responses API: OpenAI itself, and the servers that are compatible with it.

The model is a thin shell: `responses_request` makes the body, `responses_codec` reads the answer, `wire_model` does the
rest.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from pydantic import AliasChoices, Field, SecretStr

from agentgraph.models import openai_structured as structured
from agentgraph.models.openai_profiles import openai_profile
from agentgraph.models.openai_request import is_openai
from agentgraph.models.openai_tools import described_tool
from agentgraph.models.responses_call import PATH, Call
from agentgraph.models.responses_codec import Asked
from agentgraph.models.responses_request import request_body, responses_dialect
from agentgraph.models.responses_tools import described_with, flat_tools, names_of, nested_tool
from agentgraph.models.wire_model import WireChatModel
from agentgraph.models.wire_settings import from_environment

__all__ = ["ChatOpenAIResponses"]

_BASE_URL_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
# What reaches a call from langchain-core and is no parameter of the API.
_NOT_SENT = frozenset(
    {"extra_body", "ls_structured_output_format", "run_manager", "stream", "stream_usage", "structured_output_format"}
)


class ChatOpenAIResponses(WireChatModel):
    """A chat model behind OpenAI's Responses API, or a server compatible with it.

    It has what Chat Completions has not: thoughts that go back to the model between tool calls, and the provider's own
    tools (web search, file search, code interpreter, image generation, MCP), bound as dicts: `{"type": "web_search"}`.

    Nothing is opened when it is built; the first call connects. It can be shared by threads and by event loops. Keys
    are in no repr, error, log, dump or pickle; a model read from a pickle takes its key from the environment again.

    The provider stores nothing unless `store` says so: the conversation is sent whole in each call, thoughts encrypted.
    A server that refuses an optional parameter by name (`include`, `store`, `parallel_tool_calls`, `tool_choice`) is
    asked once more without it, and not sent it again; one that refuses the thoughts of earlier turns, which another
    account or model had, is asked once more without these. OpenAI's reasoning models are not sent `temperature` and
    `top_p`, which they refuse.

    Args:
        model: the model's name at the server.
        base_url: the server, with or without "/v1"; one that ends in "/responses" is taken as it is. Default:
            `OPENAI_BASE_URL`, else OpenAI's own service.
        api_key: default: `OPENAI_API_KEY`. Without one no Authorization header is sent.
        timeout: seconds without a sign of life, or `agentgraph.models.call.Timeouts`.
        max_retries: further attempts of a call that failed for a reason that waiting mends, before its first event.
        max_concurrency: calls that run at once.
        http_client: an httpx or httpx2 client to use in place of ours; `http_async_client` likewise.
        default_headers: sent with every request; shown nowhere, since they may hold keys.
        default_query: query parameters of every request, e.g. Azure's `api-version`.
        temperature: and the other parameters of the API under their own names: `top_p`, `reasoning`, `text`,
            `truncation`, `include`, `service_tier`, `top_logprobs`, `max_tool_calls`,
            `parallel_tool_calls`, `prompt_cache_key`, `safety_identifier`, `user`. What is None is not sent.
        max_tokens: the limit of an answer's tokens, thoughts among them; `max_output_tokens` is its name in the API.
        reasoning_effort: short for `reasoning={"effort": ...}`; `verbosity` is short for `text={"verbosity": ...}`.
        store: whether the provider keeps the answers. Default False.
        previous_response_id: an answer that the provider has kept, to go on from. What the conversation has up to that
            answer is not sent again.
        stop: not known to OpenAI's service, which is told when it is called; sent to other servers.
        extra_body: further parameters, sent as they are; they win over all others.
        profile: what the model can do, where that is not known by its name.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        AuthenticationError: also when a key is needed and there is none; the text names the variable.

    Example:
        >>> model = ChatOpenAIResponses(model="gpt-5", reasoning={"effort": "low", "summary": "auto"})
        >>> model.store, model.profile["reasoning_output"]
        (False, True)
    """

    if TYPE_CHECKING:
        # Checkers would ask for what the fields hold (keys that are SecretStr already), and refuse other names of them.
        def __init__(self, **settings: Any) -> None: ...

    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    setting_names: ClassVar[tuple[str, ...]] = (
        "model",
        "temperature",
        "max_tokens",
        "top_p",
        "stop",
        "reasoning",
        "reasoning_effort",
        "verbosity",
        "text",
        "store",
        "previous_response_id",
        "truncation",
        "include",
        "service_tier",
        "top_logprobs",
        "max_tool_calls",
        "parallel_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "user",
    )

    provider: str = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "openai_api_base"))
    api_key: SecretStr | None = Field(default=None, validation_alias=AliasChoices("api_key", "openai_api_key"))
    max_tokens: int | None = Field(
        default=None, ge=1, validation_alias=AliasChoices("max_tokens", "max_output_tokens", "max_completion_tokens")
    )
    reasoning: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    text: dict[str, Any] | None = None
    store: bool | None = False
    previous_response_id: str | None = None
    truncation: str | None = None
    include: list[str] | None = None
    service_tier: str | None = None
    top_logprobs: int | None = None
    max_tool_calls: int | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None

    @property
    def _llm_type(self) -> str:
        return "openai-responses"

    def _resolve_model_profile(self) -> ModelProfile | None:
        server = self.base_url or from_environment(_BASE_URL_VARIABLES) or self.default_base_url
        return openai_profile(self.model) if is_openai(server) else None

    def _base_url_variables(self) -> tuple[str, ...]:
        # The variables name OpenAI's server, or one in its place; another provider's model has its own.
        return _BASE_URL_VARIABLES if self.provider == "openai" else ()

    def _needs_key(self, server: str) -> bool:
        return bool(self.key_variables) and (is_openai(server) or self.provider != "openai")

    def _version_prefix(self, server: str) -> str | None:
        return None if urlsplit(server).path.rstrip("/").endswith(f"/{PATH}") else "v1"

    def _described(self, tool: Any, *, strict: bool | None) -> dict[str, Any]:
        described = nested_tool(tool) or described_tool(tool, strict=strict)
        return described_with(tool.extras, described) if isinstance(tool, BaseTool) else described

    def _wire_tools(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return flat_tools(tools)

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> Call:
        link = self._connected()
        settings = {**self._settings(), **{key: value for key, value in kwargs.items() if key not in _NOT_SENT}}
        if stop:
            settings["stop"] = stop
        if "response_format" in settings:
            settings["response_format"] = structured.response_format_of(settings["response_format"], strict=None)
        if stream:
            settings["stream"] = True
        dialect = responses_dialect(self.provider, link.made_of[0], settings)
        extra = {**self.extra_body, **(kwargs.get("extra_body") or {})}
        body = request_body(messages, settings, dialect, extra=extra, refused=link.refused)
        limit = body.get("max_output_tokens")
        asked = Asked(
            link.asked_at(PATH),
            str(body.get("model")),
            names_of(settings.get("tools") or ()),
            limit if isinstance(limit, int) else None,
        )
        return Call(link, body, asked)
