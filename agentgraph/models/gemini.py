"""Chat models that speak Gemini's generateContent: Google's own service, and servers and gateways in its place.

The model is a thin shell: `gemini_request` makes the body, `gemini_codec` reads the answer, `wire_model` does the rest.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import BaseMessage
from pydantic import AliasChoices, Field, SecretStr

from agentgraph.models import openai_structured as structured
from agentgraph.models.gemini_call import Call, mended, path_of
from agentgraph.models.gemini_codec import Asked
from agentgraph.models.gemini_parts import PROVIDER
from agentgraph.models.gemini_profiles import gemini_profile
from agentgraph.models.gemini_request import request_body
from agentgraph.models.gemini_tools import checked_own, declared, is_own_tool, tool_names
from agentgraph.models.openai_blocks import V1
from agentgraph.models.openai_tools import function_tool
from agentgraph.models.wire_model import WireChatModel

__all__ = ["ChatGemini"]

# What reaches a call from langchain-core and is no parameter of the API.
_NOT_SENT = frozenset(
    {"extra_body", "ls_structured_output_format", "run_manager", "stream", "stream_usage", "structured_output_format"}
)


class ChatGemini(WireChatModel):
    """A chat model behind Google's Gemini API, or a server that speaks it.

    Nothing is opened when it is built; the first call connects. It can be shared by threads and by event loops. Keys
    are in no repr, error, log, dump or pickle; a model read from a pickle takes its key from the environment again.

    A plain answer's content is a string. One with thoughts, images, code that Google ran, or with signatures that have
    to go back (Gemini 3 and later) is a list of blocks; `text`, `content_blocks` and `tool_calls` work for both.

    Google's own tools are given as dicts beside others: `{"google_search": {}}`, `{"code_execution": {}}`. Gemini 2
    does not take them beside functions; Gemini 3 does, with `toolConfig.includeServerSideToolInvocations` set by
    `extra_body`. Several calls at once cannot be forbidden, so `parallel_tool_calls` is not sent.

    Args:
        model: the model's name, e.g. "gemini-2.5-flash", or a resource such as "tunedModels/mine".
        base_url: the server, with or without a version ("/v1beta" is added). Default: `GOOGLE_GEMINI_BASE_URL`, else
            Google's own service.
        api_key: default: `GOOGLE_API_KEY`, else `GEMINI_API_KEY`. It is sent in the header `x-goog-api-key`.
        timeout: seconds without a sign of life, or `agentgraph.models.call.Timeouts`.
        max_retries: further attempts of a call that failed for a reason that waiting mends, before its first event.
        max_concurrency: calls that run at once.
        http_client: an httpx or httpx2 client to use in place of ours; `http_async_client` likewise.
        default_headers: sent with every request; shown nowhere, since they may hold keys.
        default_query: query parameters of every request.
        temperature: and the other parameters of the API: `top_p`, `top_k`, `stop` (at most five), `seed`,
            `presence_penalty`, `frequency_penalty`, `response_logprobs`, `logprobs`. What is None is not sent.
        max_tokens: the limit of an answer's tokens, thoughts included.
        thinking_budget: tokens to think with; 0 for none, -1 for as many as the model likes (Gemini 2.5).
        thinking_level: "minimal", "low", "medium" or "high" (Gemini 3 and later).
        include_thoughts: whether summaries of the thoughts come with the answer.
        safety_settings: thresholds by category (`{"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}`), or the API's list.
        response_modalities: what the answer may be, e.g. `["TEXT", "IMAGE"]`.
        media_resolution: how finely images and videos are read.
        speech_config: the voice of an answer that is spoken, as the API's `speechConfig`.
        image_config: the shape of images, as the API's `imageConfig`.
        cached_content: the name of a cache that stands before the messages; it must hold instruction and tools.
        extra_body: further parameters in the API's form; they win over all others, `generationConfig` and `toolConfig`
            are merged.
        profile: what the model can do, where that is not known by its name.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed, the prompt was blocked, or the answer ended badly; `code` is Google's reason.
        AuthenticationError: also when a key is needed and there is none; the text names the variables.

    Example:
        >>> ChatGemini(model="gemini-2.5-flash", temperature=0, thinking_budget=0).thinking_budget
        0
    """

    if TYPE_CHECKING:
        # Checkers would ask for what the fields hold (keys that are SecretStr already), and refuse other names of them.
        def __init__(self, **settings: Any) -> None: ...

    default_base_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    base_url_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_GEMINI_BASE_URL",)
    setting_names: ClassVar[tuple[str, ...]] = (
        "model",
        "temperature",
        "max_tokens",
        "top_p",
        "top_k",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "response_logprobs",
        "logprobs",
        "thinking_budget",
        "thinking_level",
        "include_thoughts",
        "safety_settings",
        "response_modalities",
        "media_resolution",
        "speech_config",
        "image_config",
        "cached_content",
    )

    provider: str = PROVIDER
    key_variables: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    api_key: SecretStr | None = Field(default=None, validation_alias=AliasChoices("api_key", "google_api_key"))
    max_tokens: int | None = Field(default=None, ge=1, validation_alias=AliasChoices("max_tokens", "max_output_tokens"))
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None
    include_thoughts: bool | None = None
    safety_settings: dict[str, str] | list[dict[str, Any]] | None = None
    response_modalities: list[str] | None = None
    media_resolution: str | None = None
    speech_config: dict[str, Any] | None = None
    image_config: dict[str, Any] | None = None
    cached_content: str | None = None

    @property
    def _llm_type(self) -> str:
        return "gemini-chat"

    def _resolve_model_profile(self) -> ModelProfile | None:
        return gemini_profile(self.model)

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def _version_prefix(self, server: str) -> str | None:  # noqa: ARG002 every server of this API has the same
        return "v1beta"

    def _described(self, tool: Any, *, strict: bool | None) -> dict[str, Any]:
        return checked_own(tool) if is_own_tool(tool) else function_tool(tool, strict=strict)

    def _wire_tools(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return declared(tools)

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> Call:
        link = self._connected()
        settings = {**self._settings(), **{key: value for key, value in kwargs.items() if key not in _NOT_SENT}}
        if stop:
            settings["stop"] = stop
        if "response_format" in settings:
            settings["response_format"] = structured.response_format_of(settings["response_format"], strict=None)
        extra = {**self.extra_body, **(kwargs.get("extra_body") or {})}
        body = mended(request_body(messages, settings, extra=extra), link.refused)
        model = str(settings["model"])
        names = tool_names(settings.get("tools") or ())
        path = path_of(model, stream=stream)
        asked = Asked(link.asked_at(path), model, names, standard=stream and self.output_version == V1)
        return Call(link, path, body, asked)
