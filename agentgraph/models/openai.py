"""Chat models that speak OpenAI's Chat Completions: OpenAI itself, and the many servers that are compatible with it.

The model is a thin shell: `openai_request` makes the body, `transport` sends it, `openai_codec` reads the answer. Whole
and streamed, sync and async differ only in which method of the transport is called.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
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

from agentgraph.errors import AuthenticationError, ConfigurationError
from agentgraph.models import openai_structured as structured
from agentgraph.models.failures import Origin
from agentgraph.models.openai_call import PATH, Call, Link, acomplete, aevents_of, complete, events_of
from agentgraph.models.openai_codec import Asked, StreamReader
from agentgraph.models.openai_profiles import openai_profile
from agentgraph.models.openai_request import dialect_of, is_openai, renamed, request_body, tool_choice_of, tool_names
from agentgraph.models.settings import settings_fault
from agentgraph.models.transport import Timeouts, Transport
from agentgraph.models.urls import Endpoint, public_query, public_url, redact_url

__all__ = ["ChatOpenAI"]

_DEFAULT_BASE_URL = "https://api.openai.com/v1"
_BASE_URL_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key"})
# What reaches a call from langchain-core and is no parameter of the API.
_NOT_SENT = frozenset(
    {"extra_body", "ls_structured_output_format", "run_manager", "stream", "stream_usage", "structured_output_format"}
)
# What belongs to the connection; sent as parameters of the API they would be refused, and show the key.
_OF_THE_MODEL = frozenset(
    {
        "api_key",
        "base_url",
        "default_headers",
        "default_query",
        "extra_headers",
        "extra_query",
        "http_async_client",
        "http_client",
        "max_concurrency",
        "max_retries",
        "timeout",
    }
)
_SETTINGS = (
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


def _from_environment(names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


class ChatOpenAI(BaseChatModel):
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
        timeout: seconds without a sign of life, or a `Timeouts`.
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
        stream_usage: ask for the count of tokens at the end of a stream.
        profile: what the model can do, where that is not known by its name.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        AuthenticationError: also when a key is needed and there is none; the text names the variable.

    Example:
        >>> ChatOpenAI(model="qwen3", base_url="http://localhost:8000", temperature=0).invoke("Hello").text
    """

    # An error that shows its input would show the key that stands beside a misspelt argument.
    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, populate_by_name=True, arbitrary_types_allowed=True
    )

    model: str = Field(validation_alias=AliasChoices("model", "model_name"))
    provider: str = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "openai_api_base"))
    api_key: SecretStr | None = Field(default=None, validation_alias=AliasChoices("api_key", "openai_api_key"))
    timeout: float | Timeouts | None = Field(default=None, validation_alias=AliasChoices("timeout", "request_timeout"))
    max_retries: int = Field(default=2, ge=0)
    max_concurrency: int | None = Field(default=None, ge=1)
    http_client: Any = Field(default=None, exclude=True, repr=False)
    http_async_client: Any = Field(default=None, exclude=True, repr=False)
    default_headers: dict[str, SecretStr] = Field(default_factory=dict, exclude=True, repr=False)
    default_query: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    temperature: float | None = None
    max_tokens: int | None = Field(
        default=None, ge=1, validation_alias=AliasChoices("max_tokens", "max_completion_tokens")
    )
    top_p: float | None = None
    stop: list[str] | str | None = Field(default=None, validation_alias=AliasChoices("stop", "stop_sequences"))
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
    extra_body: dict[str, Any] = Field(default_factory=dict)
    streaming: bool = False
    stream_usage: bool = True

    _link: Link | None = PrivateAttr(default=None)

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
        if self.provider == "openai" and self.base_url is None:
            self.base_url = _from_environment(_BASE_URL_VARIABLES)
        if self.api_key is None:
            key = _from_environment(self.key_variables)
            self.api_key = None if key is None else SecretStr(key)
        return self

    # What it is

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        server = {} if self.base_url is None else {"base_url": redact_url(self.base_url)}
        return {**self._settings(), **self.extra_body, **server}

    def _settings(self) -> dict[str, Any]:
        return {name: value for name in _SETTINGS if (value := getattr(self, name)) is not None}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop or self._stops(), **kwargs)
        params["ls_provider"] = self.provider
        return params

    def _stops(self) -> list[str] | None:
        return [self.stop] if isinstance(self.stop, str) else self.stop

    def _resolve_model_profile(self) -> ModelProfile | None:
        server = self.base_url or _from_environment(_BASE_URL_VARIABLES) or _DEFAULT_BASE_URL
        return openai_profile(self.model) if is_openai(server) else None

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
        return {"api_key": self.key_variables[0] if self.key_variables else "OPENAI_API_KEY"}

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

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "ChatOpenAI":
        # Connections and locks cannot be copied, and nothing of a model changes when it is used.
        return self.model_copy()

    # The connection

    def _server(self) -> str:
        return self.base_url or _DEFAULT_BASE_URL

    def _key(self) -> SecretStr | None:
        if self.api_key is not None:
            return self.api_key
        value = _from_environment(self.key_variables)
        return None if value is None else SecretStr(value)

    def _headers(self, server: str) -> dict[str, SecretStr]:
        key = self._key()
        if any(name.lower() in _KEY_HEADERS for name in self.default_headers):
            return self.default_headers
        if key is not None and key.get_secret_value():
            return {"Authorization": SecretStr(f"Bearer {key.get_secret_value()}"), **self.default_headers}
        own_client = self.http_client is not None or self.http_async_client is not None
        if self.key_variables and not own_client and (is_openai(server) or self.provider != "openai"):
            raise AuthenticationError(
                f"{self.provider}: no API key for {redact_url(server)}. Set the environment variable "
                f"{' or '.join(self.key_variables)}, or give api_key=.",
                provider=self.provider,
                url=redact_url(server),
            )
        return self.default_headers

    def _connected(self) -> Link:
        """Give the transport for the settings as they are now; a copy with others gets its own."""
        server = self._server()
        made_of = (
            server,
            self._headers(server),
            self.default_query,
            self.timeout,
            self.max_retries,
            self.max_concurrency,
            self.http_client,
            self.http_async_client,
        )
        link = self._link
        if link is None or link.made_of != made_of:
            transport = Transport(
                provider=self.provider,
                base_url=server,
                secret_headers=made_of[1],
                query=self.default_query,
                timeouts=self.timeout,
                max_retries=self.max_retries,
                max_concurrency=self.max_concurrency,
                http_client=self.http_client,
                http_async_client=self.http_async_client,
                version_prefix=None if urlsplit(server).path.rstrip("/").endswith(f"/{PATH}") else "v1",
            )
            secrets = tuple(made_of[1].values())
            link = self._link = Link(
                made_of, transport, Origin(self.provider, redact_url(transport.url(PATH)), secrets)
            )
        return link

    # Calls

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> Call:
        if misplaced := sorted(_OF_THE_MODEL & kwargs.keys()):
            raise ConfigurationError(
                f"{', '.join(misplaced)}: given for one call, where only parameters of the API can be set. Give it to "
                f"{type(self).__name__} when it is built, or to another one (model_copy(update={{...}}))."
            )
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
        return Call(link, body, Asked(link.origin, settings["model"], tool_names(settings.get("tools") or ())))

    def _prepare(self) -> None:
        """Do what has to be done before the first call. A model whose server is started for it overrides this."""

    async def _aprepare(self) -> None:
        """As `_prepare`, without blocking the event loop."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> ChatResult:
        self._prepare()
        call = self._call(messages, stop, kwargs, stream=False)
        return complete(call)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> ChatResult:
        await self._aprepare()
        call = self._call(messages, stop, kwargs, stream=False)
        return await acomplete(call)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._prepare()
        call = self._call(messages, stop, kwargs, stream=True)
        reader = StreamReader(call.asked)
        with closing(events_of(call, reader)) as events:
            for event in events:
                for chunk in reader.feed(event):
                    yield ChatGenerationChunk(message=chunk)
        for chunk in reader.finish():
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        await self._aprepare()
        call = self._call(messages, stop, kwargs, stream=True)
        reader = StreamReader(call.asked)
        async with aclosing(aevents_of(call, reader)) as events:
            async for event in events:
                for chunk in reader.feed(event):
                    yield ChatGenerationChunk(message=chunk)
        for chunk in reader.finish():
            yield ChatGenerationChunk(message=chunk)

    # Tools and structured answers

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools to the model.

        Args:
            tools: tools, functions, pydantic classes, or dicts in OpenAI's form. They are converted now, not in calls.
            tool_choice: None or "auto": as the model likes; "any", "required" or True: one has to be called;
                "none"; the name of the one that has to be called; a dict is passed on. Not every server keeps to it, so
                look at the answer's `tool_calls`.
            strict: ask for arguments that keep to the schema exactly.
            parallel_tool_calls: whether several calls may come at once.
            kwargs: further parameters of each call.

        Raises:
            ConfigurationError: `tool_choice` names a tool that is not there, or the model's profile says that it has no
                tool calling.
        """
        if tools and (self.profile or {}).get("tool_calling") is False:
            raise ConfigurationError(
                f"The model {self.model[:200]!r} has no tool calling of its own (its profile says so). Give "
                'create_agent tool_protocol="json", which has tools called as text, or a model that calls tools; if '
                'this one does after all, give it profile={"tool_calling": True}.'
            )
        formatted = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        given = {"tool_choice": tool_choice_of(tool_choice, formatted), "parallel_tool_calls": parallel_tool_calls}
        return self.bind(tools=formatted, **{key: value for key, value in given.items() if value is not None}, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: structured.Method = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Have answers in the form of a schema.

        Args:
            schema: a pydantic class (answers are its instances), a TypedDict class or a JSON schema (they are dicts).
            method: "json_schema": the server keeps the text to the schema; "function_calling": the answer is a tool
                call; "json_mode": the text is some JSON, and the prompt must say which.
            include_raw: give a dict of raw, parsed and parsing_error, and raise nothing.
            strict: as the API's; None: where the schema allows it.
            kwargs: further parameters of each call.

        Raises:
            ConfigurationError: an unknown method, or no schema.
        """
        trace: dict[str, Any] = {"ls_structured_output_format": {"kwargs": {"method": method}, "schema": schema}}
        if method == "function_calling":
            tool = structured.tool_of(schema, strict=strict)
            name = tool["function"]["name"]
            bound = self.bind_tools([tool], tool_choice=name, parallel_tool_calls=False, **trace, **kwargs)
            return structured.reading(bound, partial(structured.read_call, schema, name), include_raw=include_raw)
        if method == "json_schema":
            response_format = structured.response_format_of(schema, strict=strict)
        elif method == "json_mode":
            response_format = {"type": "json_object"}
        else:
            raise ConfigurationError(
                f'method={method!r} is unknown; expected "json_schema", "function_calling" or "json_mode".'
            )
        bound = self.bind(response_format=response_format, **trace, **kwargs)
        return structured.reading(bound, partial(structured.read_text, schema), include_raw=include_raw)
