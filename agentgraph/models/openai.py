"""Chat models that speak OpenAI's Chat Completions: OpenAI itself, and the many servers that are compatible with it.

The model is a thin shell: `openai_request` makes the body, `openai_codec` reads the answer, `wire_model` does the rest.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import BaseMessage
from pydantic import AliasChoices, Field, SecretStr

from agentgraph.models import openai_structured as structured
from agentgraph.models.open_profiles import served_profile
from agentgraph.models.openai_blocks import V1
from agentgraph.models.openai_call import PATH, Call
from agentgraph.models.openai_codec import Asked
from agentgraph.models.openai_profiles import openai_profile
from agentgraph.models.openai_request import dialect_of, is_openai, renamed, request_body, tool_names
from agentgraph.models.openai_tools import function_tool
from agentgraph.models.presets import preset_of
from agentgraph.models.tagged_thoughts import TaggedThoughts
from agentgraph.models.wire_model import WireChatModel
from agentgraph.models.wire_settings import from_environment

__all__ = ["ChatOpenAI"]

_BASE_URL_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
# What reaches a call from langchain-core and is no parameter of the API.
_NOT_SENT = frozenset(
    {"extra_body", "ls_structured_output_format", "run_manager", "stream", "stream_usage", "structured_output_format"}
)


class ChatOpenAI(WireChatModel):
    """A chat model behind OpenAI's Chat Completions API, or a server compatible with it.

    Nothing is opened when it is built; the first call connects. It can be shared by threads and by event loops. Keys
    are in no repr, error, log, dump or pickle; a model read from a pickle takes its key from the environment again.

    A server that refuses an optional parameter by name (`stream_options`, `parallel_tool_calls`, `tool_choice`, the
    name of the limit of tokens) is asked once more without it, and not sent it again. OpenAI's reasoning models are not
    sent `temperature`, `top_p` and penalties, which they refuse.

    Args:
        model: the model's name at the server.
        base_url: the server, with or without "/v1"; one that ends in "/chat/completions" is taken as it is. Default:
            `OPENAI_BASE_URL`, else OpenAI's own service.
        api_key: default: `OPENAI_API_KEY`. Without one no Authorization header is sent.
        timeout: seconds without a sign of life, or `agentgraph.models.call.Timeouts`.
        max_retries: further attempts of a call that failed for a reason that waiting mends, before its first event.
        max_concurrency: calls that run at once.
        http_client: an httpx or httpx2 client to use in place of ours; `http_async_client` likewise.
        default_headers: sent with every request; shown nowhere, since they may hold keys.
        default_query: query parameters of every request, e.g. Azure's `api-version`.
        temperature: and the other parameters of the API under their own names: `top_p`, `stop`, `seed`,
            `frequency_penalty`, `presence_penalty`, `logprobs`, `top_logprobs`, `logit_bias`, `reasoning_effort`,
            `verbosity`, `service_tier`, `parallel_tool_calls`, `store`, `user`. What is None is not sent.
        max_tokens: the limit of an answer's tokens.
        extra_body: further parameters, sent as they are; they win over all others.
        thoughts_in_text: for a server that leaves the model's thoughts in the text: "tags" where the answer holds them
            between `<think>` and `</think>`, "opened" where the prompt's template opens the tag, so that only its end
            comes. They are then the answer's reasoning. With "opened" a stream without `</think>` is all thought.
        stream_usage: ask for the count of tokens at the end of a stream.
        profile: what the model can do, where that is not known by its name.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        AuthenticationError: also when a key is needed and there is none; the text names the variable.

    Example:
        >>> ChatOpenAI(model="qwen3", base_url="http://localhost:8000", temperature=0).invoke("Hello").text
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
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "reasoning_effort",
        "verbosity",
        "service_tier",
        "parallel_tool_calls",
        "store",
        "user",
    )

    provider: str = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "openai_api_base"))
    api_key: SecretStr | None = Field(default=None, validation_alias=AliasChoices("api_key", "openai_api_key"))
    max_tokens: int | None = Field(
        default=None, ge=1, validation_alias=AliasChoices("max_tokens", "max_completion_tokens")
    )
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    parallel_tool_calls: bool | None = None
    store: bool | None = None
    user: str | None = None
    stream_usage: bool = True
    thoughts_in_text: TaggedThoughts | None = None

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    def _resolve_model_profile(self) -> ModelProfile | None:
        server = self.base_url or from_environment(_BASE_URL_VARIABLES) or self.default_base_url
        if is_openai(server) or self.provider == "azure_openai":
            return openai_profile(self.model)
        return served_profile(self.provider, server, self.model)

    def _base_url_variables(self) -> tuple[str, ...]:
        # The variables name OpenAI's server, or one in its place; another provider's model has its own.
        return _BASE_URL_VARIABLES if self.provider == "openai" else ()

    def _needs_key(self, server: str) -> bool:
        preset = preset_of(self.provider, "")
        needed = self.provider != "openai" if preset is None else preset.key_needed
        return bool(self.key_variables) and (needed or is_openai(server))

    def _version_prefix(self, server: str) -> str | None:
        return None if urlsplit(server).path.rstrip("/").endswith(f"/{PATH}") else "v1"

    def _described(self, tool: Any, *, strict: bool | None) -> dict[str, Any]:
        return function_tool(tool, strict=strict)

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
            settings["stream_options"] = (
                {"include_usage": True} if kwargs.get("stream_usage", self.stream_usage) else None
            )
        dialect = dialect_of(self.provider, link.made_of[0], settings["model"])
        extra = {**self.extra_body, **(kwargs.get("extra_body") or {})}
        body = renamed(request_body(messages, settings, dialect, extra=extra), link.refused)
        names = tool_names(settings.get("tools") or ())
        standard = stream and self.output_version == V1
        asked = Asked(link.asked_at(PATH), settings["model"], names, standard=standard)
        return Call(link, body, asked, thoughts=self.thoughts_in_text)
