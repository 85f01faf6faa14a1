"""Chat models of an Ollama server, in Ollama's own format, which sets the window and keeps models in memory.

The model is a thin shell: `ollama_request` makes the body, `ollama_codec` reads the answer, `wire_model` does the rest.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import AliasChoices, Field, model_validator

from agentgraph.models import openai_structured as structured
from agentgraph.models.ollama_call import PATH, Call, advising
from agentgraph.models.ollama_codec import PROVIDER, Asked
from agentgraph.models.ollama_request import host_url, is_cloud, layered, request_body, window_of
from agentgraph.models.open_profiles import ollama_profile
from agentgraph.models.openai_blocks import V1
from agentgraph.models.openai_tools import function_tool
from agentgraph.models.tagged_thoughts import TaggedThoughts
from agentgraph.models.transport import Timeouts
from agentgraph.models.wire_model import WireChatModel

__all__ = ["ChatOllama"]

# A server that loads a model, or writes a long tool call, which it sends only when it is whole, is silent for minutes.
_PATIENT = Timeouts(first_event=600.0, between_events=600.0)

# What reaches a call from langchain-core and is no parameter of the API.
_NOT_SENT = frozenset(
    {
        "extra_body",
        "ls_structured_output_format",
        "run_manager",
        "stop",
        "stream",
        "stream_usage",
        "structured_output_format",
    }
)


class ChatOllama(WireChatModel):
    """A chat model of an Ollama server, over its own chat API.

    Nothing is opened when it is built; the first call connects. It can be shared by threads and by event loops. Keys
    are in no repr, error, log, dump or pickle; a model read from a pickle takes its key from the environment again.

    A prompt that is longer than the window is an error: `ContextOverflowError`. Ollama's own way is to leave out the
    oldest messages in silence, and with them what the model was told to do; `truncate=True` allows it. A server too old
    to know the difference is caught where `num_ctx` is set and the prompt fills it to the last token. Where the counts
    say that a part of the prompt was left out by permission, or forgotten while a long answer was written, the answer's
    `response_metadata["prompt_truncated"]` is True.

    Ollama cannot demand a call: `tool_choice` with a name shows the model that tool alone, "none" shows it none, and
    "any" shows all, so look at the answer's `tool_calls`. It cannot keep an answer to a schema beside tools either.

    Args:
        model: the model's name at the server, e.g. "qwen3:8b".
        base_url: the server. Default: `OLLAMA_HOST`, else "http://127.0.0.1:11434". Also a host with or without port.
        api_key: default: `OLLAMA_API_KEY`. Only Ollama's own service needs one.
        timeout: seconds without a sign of life, or `agentgraph.models.call.Timeouts`. Default: ten minutes,
            for a server is silent while it loads the model, reads the prompt, and writes a tool call.
        max_retries: further attempts of a call that failed for a reason that waiting mends, before its first event.
        max_concurrency: calls that run at once.
        http_client: an httpx or httpx2 client to use in place of ours; `http_async_client` likewise.
        default_headers: sent with every request; shown nowhere, since they may hold keys.
        default_query: query parameters of every request.
        num_ctx: the window in tokens, prompt and answer together. None: the server's default, which is small.
        temperature: and the other options of the model under their own names: `top_k`, `top_p`, `min_p`, `typical_p`,
            `seed`, `stop`, `repeat_penalty`, `repeat_last_n`, `presence_penalty`, `frequency_penalty`, `mirostat`,
            `mirostat_eta`, `mirostat_tau`, `num_keep`, `num_gpu`, `num_thread`. What is None is not sent.
        max_tokens: the limit of an answer's tokens (`num_predict`); -1 is none.
        options: further options, by Ollama's names.
        think: whether the model is to think first, True or False, or how much: "low", "medium", "high". None: as the
            model does by itself.
        format: "json", or the JSON schema that answers keep to.
        keep_alive: how long the model stays in memory afterwards: seconds, or a text such as "10m"; -1 is for ever.
        truncate: whether the server may leave out messages of a prompt that is too long.
        shift: whether it may forget the beginning while it writes an answer that is too long, in place of ending it.
        logprobs: give log probabilities, of `top_logprobs` alternatives each.
        thoughts_in_text: for a server that leaves the model's thoughts in the text: "tags" where the answer holds them
            between `<think>` and `</think>`, "opened" where the prompt's template opens the tag, so that only its end
            comes. They are then the answer's reasoning. With "opened" a stream without `</think>` is all thought.
        extra_body: further parameters, sent as they are; they win over all others.
        profile: what the model can do. Default: its window, where `num_ctx` is set.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        ModelNotFoundError: the server has no such model; the text says how it gets it.

    Example:
        >>> model = ChatOllama(model="qwen3:8b", num_ctx=16384, temperature=0)
        >>> model.profile["max_input_tokens"]
        16384
    """

    if TYPE_CHECKING:
        # Checkers would ask for what the fields hold (keys that are SecretStr already), and refuse other names of them.
        def __init__(self, **settings: Any) -> None: ...

    default_base_url: ClassVar[str] = "http://127.0.0.1:11434"
    base_url_variables: ClassVar[tuple[str, ...]] = ("OLLAMA_HOST",)
    setting_names: ClassVar[tuple[str, ...]] = (
        "model",
        "temperature",
        "max_tokens",
        "top_p",
        "stop",
        "top_k",
        "min_p",
        "typical_p",
        "seed",
        "num_ctx",
        "num_keep",
        "num_gpu",
        "num_thread",
        "repeat_penalty",
        "repeat_last_n",
        "presence_penalty",
        "frequency_penalty",
        "mirostat",
        "mirostat_eta",
        "mirostat_tau",
        "options",
        "think",
        "format",
        "keep_alive",
        "truncate",
        "shift",
        "logprobs",
        "top_logprobs",
    )

    provider: str = PROVIDER
    key_variables: tuple[str, ...] = ("OLLAMA_API_KEY",)
    max_tokens: int | None = Field(default=None, ge=-2, validation_alias=AliasChoices("max_tokens", "num_predict"))
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    num_ctx: int | None = Field(default=None, ge=1)
    num_keep: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    mirostat: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = Field(default=None, validation_alias=AliasChoices("think", "reasoning"))
    thoughts_in_text: TaggedThoughts | None = None
    format: str | dict[str, Any] | None = None
    keep_alive: int | float | str | None = None
    truncate: bool | None = False
    shift: bool | None = False
    logprobs: bool | None = None
    top_logprobs: int | None = None

    @model_validator(mode="after")
    def _complete_host(self) -> Self:
        if self.base_url is not None:
            self.base_url = host_url(self.base_url)
        return self

    @property
    def _llm_type(self) -> str:
        return "ollama-chat"

    def _resolve_model_profile(self) -> ModelProfile | None:
        return ollama_profile(self.model, window_of(layered(self._settings())))

    def _needs_key(self, server: str) -> bool:
        return bool(self.key_variables) and is_cloud(server)

    def _version_prefix(self, server: str) -> str | None:  # noqa: ARG002 none has a version
        return None

    def _limits(self) -> float | Timeouts | None:
        own_client = self.http_client is not None or self.http_async_client is not None
        return _PATIENT if self.timeout is None and not own_client else self.timeout

    def _described(self, tool: Any, *, strict: bool | None) -> dict[str, Any]:
        return function_tool(tool, strict=strict)

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> Call:
        link = self._connected()
        given = {key: value for key, value in kwargs.items() if key not in _NOT_SENT}
        if stop:
            given["stop"] = stop
        if "response_format" in given:
            given["response_format"] = structured.response_format_of(given["response_format"], strict=None)
        settings = layered(self._settings(), given)
        extra = {**self.extra_body, **(kwargs.get("extra_body") or {})}
        body = request_body(messages, settings, stream=stream, extra=extra)
        asked = Asked(
            link.asked_at(PATH),
            str(body["model"]),
            window_of(body),
            truncate=body.get("truncate") is True,
            standard=stream and self.output_version == V1,
        )
        return Call(link, body, asked, self.thoughts_in_text)

    # The same calls, whose failures say what to do

    def _asked_model(self, kwargs: Mapping[str, Any]) -> str:
        return str(kwargs.get("model") or self.model)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with advising(self._asked_model(kwargs)):
            return super()._generate(messages, stop, run_manager, **kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with advising(self._asked_model(kwargs)):
            return await super()._agenerate(messages, stop, run_manager, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with advising(self._asked_model(kwargs)):
            yield from super()._stream(messages, stop, run_manager, **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        with advising(self._asked_model(kwargs)):
            async with aclosing(super()._astream(messages, stop, run_manager, **kwargs)) as chunks:  # type: ignore[type-var]  # the base types its generator as an iterator
                async for chunk in chunks:
                    yield chunk
