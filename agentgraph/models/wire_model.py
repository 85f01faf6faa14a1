"""The base of our chat models over HTTP: the settings of the connection, secrets, tools, and how a call is made.

A wire format adds a class with its own settings and one method, `_call`, that makes a `WireCall` of messages. Whole and
streamed, sync and async differ only in which function of `wire` is called.
"""

import warnings
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import SecretStr, model_validator

from agentgraph.errors import AuthenticationError, ConfigurationError
from agentgraph.models import openai_structured as structured
from agentgraph.models.failures import Origin
from agentgraph.models.openai_request import tool_choice_of
from agentgraph.models.transport import Timeouts, Transport
from agentgraph.models.urls import redact_url
from agentgraph.models.wire import Link, WireCall, acomplete, astream_chunks, complete, stream_chunks
from agentgraph.models.wire_settings import ServerSettings, from_environment

__all__ = ["CALLS_IN_TEXT", "WireChatModel"]

_KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
CALLS_IN_TEXT = "tool_calls_in_text"
"""The key of a profile that says that the model writes tool calls into its text."""

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


def _is_ready(tool: Any) -> bool:
    """Whether a tool is a dict as it is sent; what else is wrong with it, the server says."""
    return isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping | None)


class WireChatModel(ServerSettings):
    """A chat model behind a server that is asked over HTTP; the base class of those for the single wire formats.

    Nothing is opened when it is built; the first call connects. It can be shared by threads and by event loops. Keys
    are in no repr, error, log, dump or pickle; a model read from a pickle takes its key from the environment again.

    Args:
        model: the model's name at the server.
        base_url: the server. Default: what the environment says, else the provider's own service.
        api_key: default: from the environment. Without one no header with a key is sent.
        timeout: seconds without a sign of life, or a `Timeouts`.
        max_retries: further attempts of a call that failed for a reason that waiting mends, before its first event.
        max_concurrency: calls that run at once.
        http_client: an httpx or httpx2 client to use in place of ours; `http_async_client` likewise.
        default_headers: sent with every request; shown nowhere, since they may hold keys.
        default_query: query parameters of every request.
        temperature: and `top_p`, `stop`: parameters that all formats know. What is None is not sent.
        max_tokens: the limit of an answer's tokens.
        extra_body: further parameters, sent as they are; they win over all others.
        profile: what the model can do, where that is not known by its name. Small models write tool calls into their
            text where the server does not know their way of writing them (bare or fenced JSON, `<tool_call>`,
            `[TOOL_CALLS]`, `<|python_tag|>`): `{"tool_calls_in_text": True}` has these read as tool calls, if they are
            calls of tools that were bound, and hides their text while it is streamed.

    Raises:
        ConfigurationError: an argument is unknown, or out of its range.
        ModelError: a call failed; `agentgraph.errors` has the tree.
        AuthenticationError: also when a key is needed and there is none; the text names the variable.

    Example:
        >>> from agentgraph.models.openai import ChatOpenAI
        >>> issubclass(ChatOpenAI, WireChatModel)
        True
    """

    # The connection

    def _server(self) -> str:
        return self.base_url or self.default_base_url

    def _key(self) -> SecretStr | None:
        if self.api_key is not None:
            return self.api_key
        value = from_environment(self.key_variables)
        return None if value is None else SecretStr(value)

    def _key_headers(self, key: str) -> dict[str, str]:
        """The headers that hold the key."""
        return {"Authorization": f"Bearer {key}"}

    def _fixed_headers(self) -> dict[str, str]:
        """Headers of every request that hold no secret; the user's own win over them."""
        return {}

    def _needs_key(self, server: str) -> bool:
        """Whether this server is known to refuse a request without a key."""
        return bool(self.key_variables) and server == self.default_base_url

    def _version_prefix(self, server: str) -> str | None:  # noqa: ARG002 a format may look at it
        """What is put behind a base URL without a version."""
        return "v1"

    def _limits(self) -> float | Timeouts | None:
        """Limits of time; a format whose servers are silent for longer widens them where the user set none."""
        return self.timeout

    def _headers(self, server: str) -> dict[str, SecretStr]:
        key = self._key()
        if any(name.lower() in _KEY_HEADERS for name in self.default_headers):
            return self.default_headers
        if key is not None and key.get_secret_value():
            own = {name: SecretStr(value) for name, value in self._key_headers(key.get_secret_value()).items()}
            return {**own, **self.default_headers}
        own_client = self.http_client is not None or self.http_async_client is not None
        if not own_client and self._needs_key(server):
            tokens: tuple[str, ...] = getattr(self, "token_variables", ())
            arguments = "api_key= or auth_token=" if tokens else "api_key="
            raise AuthenticationError(
                f"{self.provider}: no API key for {redact_url(server)}. Set the environment variable "
                f"{' or '.join((*self.key_variables, *tokens))}, or give {arguments}.",
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
            self._limits(),
            self.max_retries,
            self.max_concurrency,
            self.http_client,
            self.http_async_client,
            self._calls_in_text(),
            self._fixed_headers(),
        )
        link: Link | None = self._link
        if link is None or link.made_of != made_of:
            transport = Transport(
                provider=self.provider,
                base_url=server,
                headers=made_of[-1],
                secret_headers=made_of[1],
                query=self.default_query,
                timeouts=made_of[3],
                max_retries=self.max_retries,
                max_concurrency=self.max_concurrency,
                http_client=self.http_client,
                http_async_client=self.http_async_client,
                version_prefix=self._version_prefix(server),
            )
            secrets = tuple(made_of[1].values())
            origin = Origin(self.provider, redact_url(transport.url("")), secrets)
            link = self._link = Link(made_of, transport, origin, calls_in_text=self._calls_in_text())
        return link

    def _calls_in_text(self) -> bool:
        profile: Mapping[str, Any] = self.profile or {}
        return profile.get(CALLS_IN_TEXT) is True

    @model_validator(mode="after")
    def _check_profile_keys(self) -> Self:
        """Warn of unknown keys in the profile, as langchain-core does, whose check knows only its own."""
        unknown = sorted((self.profile or {}).keys() - ModelProfile.__annotations__.keys() - {CALLS_IN_TEXT})
        if unknown:
            warnings.warn(f"The profile has the unknown keys {unknown!r:.500}; nothing reads them.", stacklevel=2)
        return self

    # Calls

    @abstractmethod
    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, stream: bool
    ) -> WireCall:
        """Make the call of messages: what a wire format is about."""

    def _checked(self, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of one call, without any that belong to the model."""
        if misplaced := sorted(_OF_THE_MODEL & kwargs.keys()):
            own = ", ".join(name.replace("extra_headers", "default_headers") for name in misplaced)
            raise ConfigurationError(
                f"{', '.join(misplaced)}: given for one call, where only parameters of the API can be set. Give "
                f"{own.replace('extra_query', 'default_query')} to {type(self).__name__} when it is built, or "
                "to a copy of the model (model_copy(update={...}))."
            )
        tools = kwargs.get("tools") or ()
        if not isinstance(tools, list | tuple) or not all(map(_is_ready, tools)):
            raise ConfigurationError(
                f"tools={tools!r:.200}: given for one call, where only dicts in the form of the API can be sent. "
                "Bind tools by model.bind_tools([...]), which describes them to the server."
            )
        return kwargs

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
        return complete(self._call(messages, stop, self._checked(kwargs), stream=False))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> ChatResult:
        await self._aprepare()
        return await acomplete(self._call(messages, stop, self._checked(kwargs), stream=False))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._prepare()
        with closing(stream_chunks(self._call(messages, stop, self._checked(kwargs), stream=True))) as chunks:
            yield from chunks

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 langchain-core fires the callbacks
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        await self._aprepare()
        async with aclosing(astream_chunks(self._call(messages, stop, self._checked(kwargs), stream=True))) as chunks:
            async for chunk in chunks:
                yield chunk

    # Tools and structured answers

    def _described(self, tool: Any, *, strict: bool | None) -> dict[str, Any]:
        """Describe a tool in OpenAI's form; a format whose provider has tools of its own lets them pass."""
        return convert_to_openai_tool(tool, strict=strict)

    def _wire_tools(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give the described tools as the format sends them: made once, when they are bound, not in each call."""
        return tools

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
        formatted = [self._described(tool, strict=strict) for tool in tools]
        given = {"tool_choice": tool_choice_of(tool_choice, formatted), "parallel_tool_calls": parallel_tool_calls}
        kept = {key: value for key, value in given.items() if value is not None}
        return self.bind(tools=self._wire_tools(formatted), **kept, **kwargs)

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
