"""Chat models that speak Anthropic's Messages API: Anthropic itself, and servers that are compatible with it.

The model is a thin shell: `anthropic_request` makes the body, `anthropic_codec` reads the answer, `wire_model` does the
rest.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import AliasChoices, Field, SecretStr

from agentgraph.models import openai_structured as structured
from agentgraph.models.anthropic_call import PATH, Call, Turn
from agentgraph.models.anthropic_codec import Asked
from agentgraph.models.anthropic_profiles import anthropic_profile
from agentgraph.models.anthropic_request import expects_only_text, request_body
from agentgraph.models.anthropic_tools import tool_of
from agentgraph.models.bearer import BearerChatModel
from agentgraph.models.transport import Timeouts
from agentgraph.models.wire import acomplete, astream_chunks, complete, stream_chunks

__all__ = ["ChatAnthropic"]

# What reaches a call from langchain-core and is no parameter of the API.
_NOT_SENT = frozenset(
    {"extra_body", "ls_structured_output_format", "run_manager", "stream", "stream_usage", "structured_output_format"}
)
# The first version of the API that refuses sampling altogether; versions are dates.
_WITHOUT_SAMPLING = "2026-10-21"

# While the model thinks unseen, or a tool runs at the provider, nothing comes but pings, which are no sign of progress.
_PATIENT = Timeouts(between_events=600.0)


class ChatAnthropic(BearerChatModel):
    """A chat model behind Anthropic's Messages API, or a server compatible with it.

    Nothing is opened when it is built; the first call connects. It can be shared by threads and by event loops. Keys
    are in no repr, error, log, dump or pickle; a model read from a pickle takes its key from the environment again.

    `content` of an answer is a string where only text can come, and a list of Anthropic's blocks with tools, thinking
    or documents: `text` is the text of both, whole and streamed alike. Thoughts with their signatures are in the list
    and go back as they came. A turn that the provider pauses amid its own tools is gone on with by itself.

    Models that refuse `temperature`, `top_p` and `top_k` are not sent them, nor is one that is asked to think; the
    latter is not forced to call a tool either, since the API refuses that: a forced call becomes a wish.

    Args:
        model: the model's name at the server.
        base_url: the server, with or without "/v1". Default: `ANTHROPIC_BASE_URL`, else Anthropic's own service.
        api_key: default: `ANTHROPIC_API_KEY`. Without one no `x-api-key` header is sent.
        auth_token: sent as `Authorization: Bearer ...` in place of the key, as gateways want it. Default, where neither
            is given and no key is in the environment: `ANTHROPIC_AUTH_TOKEN`.
        timeout: seconds without a sign of life, or `agentgraph.models.call.Timeouts`. Default: that of
            `Timeouts`, with ten minutes between two events of a stream.
        max_retries: further attempts of a call that failed for a reason that waiting mends, before its first event.
        max_concurrency: calls that run at once.
        http_client: an httpx or httpx2 client to use in place of ours; `http_async_client` likewise.
        default_headers: sent with every request; shown nowhere, since they may hold keys.
        default_query: query parameters of every request.
        temperature: and the other parameters of the API under their own names: `top_p`, `top_k`, `stop_sequences`,
            `service_tier`, `inference_geo`, `context_management`, `container`. What is None is not sent.
        max_tokens: the limit of an answer's tokens, those of thinking among them. Default: the model's own limit where
            it streams, at most 20,000 where the answer is awaited whole, 4,096 for models whose limit is not known.
        thinking: e.g. `{"type": "adaptive"}`, or `{"type": "enabled", "budget_tokens": 4096}`.
        effort: how much work goes into an answer: "low", "medium", "high" ...
        cache_control: have the prompt cached up to its end, e.g. `{"type": "ephemeral"}`. Blocks and tools can be
            marked one by one as well; of more than four marks the latest of the conversation stay.
        betas: names of features that are not generally available, sent as a header.
        anthropic_version: the version of the API.
        extra_body: further parameters, sent as they are; they win over all others.
        profile: what the model can do, where that is not known by its name.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        AuthenticationError: also when a key is needed and there is none; the text names the variable.

    Example:
        >>> model = ChatAnthropic(model="claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 2048})
        >>> (model.profile or {})["max_output_tokens"]
        64000
    """

    if TYPE_CHECKING:
        # Checkers would ask for what the fields hold (keys that are SecretStr already), and refuse other names of them.
        def __init__(self, **settings: Any) -> None: ...

    default_base_url: ClassVar[str] = "https://api.anthropic.com/v1"
    base_url_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL")
    token_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_AUTH_TOKEN",)
    setting_names: ClassVar[tuple[str, ...]] = (
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop",
        "thinking",
        "effort",
        "cache_control",
        "service_tier",
        "inference_geo",
        "context_management",
        "container",
    )

    provider: str = "anthropic"
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "anthropic_api_url"))
    api_key: SecretStr | None = Field(default=None, validation_alias=AliasChoices("api_key", "anthropic_api_key"))
    max_tokens: int | None = Field(
        default=None, ge=1, validation_alias=AliasChoices("max_tokens", "max_tokens_to_sample")
    )
    top_k: int | None = None
    thinking: dict[str, Any] | None = None
    effort: str | None = None
    cache_control: dict[str, Any] | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    context_management: dict[str, Any] | None = None
    container: Any = None
    betas: list[str] = Field(default_factory=list)
    anthropic_version: str = "2023-06-01"

    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"

    def _resolve_model_profile(self) -> ModelProfile | None:
        return anthropic_profile(self.model)

    def _fixed_headers(self) -> dict[str, str]:
        features = {"anthropic-beta": ",".join(self.betas)} if self.betas else {}
        return {"anthropic-version": self.anthropic_version, **features}

    def _needs_key(self, server: str) -> bool:
        host = urlsplit(server).hostname or ""
        return bool(self.key_variables) and (host == "anthropic.com" or host.endswith(".anthropic.com"))

    def _version_prefix(self, server: str) -> str | None:
        return None if urlsplit(server).path.rstrip("/").endswith(f"/{PATH}") else "v1"

    def _limits(self) -> float | Timeouts | None:
        own_client = self.http_client is not None or self.http_async_client is not None
        return _PATIENT if self.timeout is None and not own_client else self.timeout

    # Tools

    def _described(self, tool: Any, *, strict: bool | None) -> dict[str, Any]:
        own = tool_of(tool, strict=strict)
        return {"type": "function", "function": {"name": own.get("name")}, "own": own}

    def _wire_tools(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [tool["own"] for tool in tools]

    # Calls

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> Call:
        if "betas" in kwargs:
            rest = {key: value for key, value in kwargs.items() if key != "betas"}
            other = self.model_copy(update={"betas": list(kwargs["betas"] or ())})
            return other._call(messages, stop, rest, stream=stream)  # noqa: SLF001 another of this class
        link = self._connected()
        settings = {**self._settings(), **{key: value for key, value in kwargs.items() if key not in _NOT_SENT}}
        if stop:
            settings["stop"] = stop
        if settings.get("response_format") is not None:
            settings["response_format"] = structured.response_format_of(settings["response_format"], strict=False)
        if stream:
            settings["stream"] = True
        extra = {**self.extra_body, **(kwargs.get("extra_body") or {})}
        sampling = self.anthropic_version < _WITHOUT_SAMPLING
        body, names = request_body(messages, settings, sampling=sampling, extra=extra)
        return Call(link, body, Asked(link.asked_at(PATH), body["model"], names, plain=expects_only_text(body)))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> ChatResult:
        self._prepare()
        turn, result = Turn(messages), None
        while result is None:
            call = self._call(turn.conversation(), stop, self._checked(kwargs), stream=False)
            result = turn.result(complete(turn.continued(call)))
        return result

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> ChatResult:
        await self._aprepare()
        turn, result = Turn(messages), None
        while result is None:
            call = self._call(turn.conversation(), stop, self._checked(kwargs), stream=False)
            result = turn.result(await acomplete(turn.continued(call)))
        return result

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._prepare()
        turn, goes_on = Turn(messages), True
        while goes_on:
            call = self._call(turn.conversation(), stop, self._checked(kwargs), stream=True)
            came: list[AIMessageChunk] = []
            with closing(stream_chunks(turn.continued(call))) as chunks:
                for chunk in chunks:
                    came.append(_message_of(chunk))
                    yield chunk
            goes_on = turn.goes_on(came)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        await self._aprepare()
        turn, goes_on = Turn(messages), True
        while goes_on:
            call = self._call(turn.conversation(), stop, self._checked(kwargs), stream=True)
            came: list[AIMessageChunk] = []
            async with aclosing(astream_chunks(turn.continued(call))) as chunks:
                async for chunk in chunks:
                    came.append(_message_of(chunk))
                    yield chunk
            goes_on = turn.goes_on(came)


def _message_of(chunk: ChatGenerationChunk) -> AIMessageChunk:
    assert isinstance(chunk.message, AIMessageChunk)  # noqa: S101 narrows what langchain-core types as any chunk
    return chunk.message
