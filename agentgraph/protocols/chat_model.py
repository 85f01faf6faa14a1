"""The chat model that speaks a text protocol.

It wraps any chat model and has what the wrapped one lacks: `bind_tools`. Before a call it writes tools and history as
text; after it, it reads the text back. To callbacks and streams it is one model: the wrapped one is called without
them, so that no protocol text is ever seen by a user.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableWithFallbacks
from langchain_core.tools import BaseTool
from langchain_core.tracers.context import _configure_hooks
from pydantic import Field, PrivateAttr

from agentgraph.errors import BadRequestError, ConfigurationError, ContentFilterError, ContextOverflowError
from agentgraph.protocols.answers import answer_chunks, explained, last_chunk, told_as_read, whole_answer
from agentgraph.protocols.base import TextProtocol, ToolOffer, ToolSpec
from agentgraph.protocols.examples import example_dialogues
from agentgraph.protocols.reading import TurnReader, new_call_id
from agentgraph.protocols.registry import resolve_protocol

__all__ = ["ProtocolChatModel"]

_QUIET: RunnableConfig = {"callbacks": [], "tags": ["nostream"]}
_CONSTRAINTS = ("response_format", "grammar")
_REFUSALS = {400, 422}
_EXAMPLES_NOTE = "\n\nExamples come first, then the conversation."


@dataclass(frozen=True, slots=True)
class _Bound:
    """What `bind_tools` computes once: the offer, its prompt, the example turns, the server's settings."""

    offer: ToolOffer
    prompt: str
    examples: tuple[BaseMessage, ...]
    settings: Mapping[str, Any]


@dataclass(slots=True)
class _Server:
    """What was learnt about the server. Shared by a model and all copies of it."""

    takes_constraints: bool = True


@dataclass(slots=True)
class _Request:
    """One call of the wrapped model."""

    messages: list[BaseMessage]
    settings: dict[str, Any]
    constraints: dict[str, Any] = field(default_factory=dict)
    reader: TurnReader | None = None

    @property
    def kwargs(self) -> dict[str, Any]:
        return {**self.settings, **self.constraints}

    def relax(self, error: Exception) -> None:
        """Drop the constraints if it is them that the error is about, else raise it.

        Raises:
            Exception: the error itself.
        """
        if not self.constraints or not _refuses(error, self.constraints):
            raise error
        self.constraints = {}


def _refuses(error: Exception, constraints: Mapping[str, Any]) -> bool:
    if isinstance(error, TypeError):
        # A client that knows no such parameter.
        return any(name in str(error) for name in constraints)
    if isinstance(error, ContextOverflowError | ContentFilterError):
        return False
    if isinstance(error, BadRequestError):
        return error.status in {None, *_REFUSALS}
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    return status in _REFUSALS


@contextmanager
def _uncounted() -> Iterator[None]:
    """Hide callbacks that langchain-core takes from context variables: they see the outer call already.

    There is no public way; without it `get_usage_metadata_callback` counts every call twice.
    """
    hidden = [(hook[0], hook[0].set(None)) for hook in _configure_hooks if hook[0].get() is not None]
    try:
        yield
    finally:
        for variable, token in reversed(hidden):
            variable.reset(token)


class ProtocolChatModel(BaseChatModel):
    """A chat model with tools, made of one without.

    Args:
        model: the chat model that is to be given tools; also one with settings bound, with retries or fallbacks.
        protocol: the text protocol: its name, a TextProtocol, or a class of one.
        examples: of how many tools the prompt shows a dialogue; 0 for none. Small models need 3.
        new_call_id: makes the ids of tool calls; for tests.

    Raises:
        ConfigurationError: the protocol is not known; `response_format` is used together with tools.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> model = FakeListChatModel(responses=['{"tool": "add", "args": {"a": 1, "b": 2}}'])
        >>> add = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
        >>> ProtocolChatModel(model=model, protocol="json").bind_tools([add]).invoke("1 + 2").tool_calls[0]["args"]
        {'a': 1, 'b': 2}
    """

    model: Runnable[LanguageModelInput, AIMessage]
    protocol: TextProtocol
    examples: int = 3
    new_call_id: Callable[[], str] = Field(default=new_call_id, exclude=True, repr=False)
    # The wrapped model has its own cache; one of whole turns would give two calls the same id.
    cache: Any = Field(default=False, exclude=True, repr=False)

    _bound: _Bound | None = PrivateAttr(default=None)
    _server: _Server = PrivateAttr(default_factory=_Server)

    def __init__(
        self,
        *,
        model: Runnable[LanguageModelInput, AIMessage],
        protocol: str | TextProtocol | type[TextProtocol],
        **fields: Any,
    ) -> None:
        named: dict[str, Any] = {"model": model, "protocol": resolve_protocol(protocol)}
        super().__init__(**named, **fields)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,  # noqa: ARG002 -- a promise of native tool calls, meaningless here
        **settings: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return a model that is offered these tools. Prompt, examples and schema are computed here, once.

        Args:
            tools: tools, functions, schema classes or function dicts.
            tool_choice: None or "auto", "any" (also "required", True), "none", the name of a tool, or a dict that
                names one.
            parallel_tool_calls: False for at most one call a turn.
            strict: without effect.
            **settings: bound to the model, e.g. `temperature`.

        Raises:
            ConfigurationError: a tool cannot be written down, the choice names no tool, or `response_format` is
                among the settings.
        """
        specs = [ToolSpec.of(tool) for tool in tools]
        offer = ToolOffer.of(specs, tool_choice, parallel=parallel_tool_calls is not False)
        if offer.tools:
            self._check_settings(settings)
        copy = self.model_copy()
        copy._bound = self._bind(offer)  # noqa: SLF001 -- a copy of this object
        return copy.bind(**settings) if settings else copy

    def _bind(self, offer: ToolOffer) -> _Bound:
        if not offer.tools:
            return _Bound(offer, "", (), {})
        dialogues = example_dialogues(offer.tools, count=self.examples, answers=not offer.required)
        shown = tuple(self.protocol.rewrite(dialogues, offer)) if self.examples else ()
        return _Bound(
            offer=offer,
            prompt=self.protocol.render(offer) + (_EXAMPLES_NOTE if shown else ""),
            examples=shown,
            settings=self.protocol.settings(offer),
        )

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        if settings.get("response_format") is not None:
            raise ConfigurationError(
                f"response_format={settings['response_format']!r:.200} was given together with tools to a model that "
                f"speaks the text protocol {self.protocol.name!r}: the protocol needs the answer's form for itself. "
                "Use ToolStrategy(schema) for the structured answer, or a model with native tool calls."
            )

    # One call.

    def _request(self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]) -> _Request:
        bound = self._bound
        if bound is None or not bound.offer.tools:
            return _Request(self._plain(messages), {**({"stop": stop} if stop else {}), **kwargs})
        self._check_settings(kwargs)
        settings = {**bound.settings, **kwargs}
        stops = [*_words(stop), *_words(settings.pop("stop", None))]
        constraints = {name: settings.pop(name) for name in _CONSTRAINTS if name in settings}
        return _Request(
            messages=self._prompted(messages, bound),
            settings={**settings, **({"stop": stops} if stops else {})},
            constraints=constraints if self._server.takes_constraints else {},
            reader=TurnReader(self.protocol, bound.offer, self.new_call_id),
        )

    def _plain(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        return self.protocol.rewrite(messages, ToolOffer(())) if any(map(_is_of_a_call, messages)) else messages

    def _prompted(self, messages: list[BaseMessage], bound: _Bound) -> list[BaseMessage]:
        first = messages[0] if messages else None
        system = SystemMessage(bound.prompt)
        rest = messages
        if isinstance(first, SystemMessage):
            system, rest = _appended(first, bound.prompt), messages[1:]
        return [system, *bound.examples, *self.protocol.rewrite(rest, bound.offer)]

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 -- the outer call reports
        **kwargs: Any,
    ) -> ChatResult:
        request = self._request(messages, stop, kwargs)
        with _uncounted():
            try:
                reply = self.model.invoke(request.messages, _QUIET, **request.kwargs)
            except Exception as error:  # noqa: BLE001 -- raised again by relax unless a constraint was refused
                request.relax(error)
                reply = self.model.invoke(request.messages, _QUIET, **request.kwargs)
                self._server.takes_constraints = False
        return whole_answer(reply, request.reader)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 -- the outer call reports
        **kwargs: Any,
    ) -> ChatResult:
        request = self._request(messages, stop, kwargs)
        with _uncounted():
            try:
                reply = await self.model.ainvoke(request.messages, _QUIET, **request.kwargs)
            except Exception as error:  # noqa: BLE001 -- raised again by relax unless a constraint was refused
                request.relax(error)
                reply = await self.model.ainvoke(request.messages, _QUIET, **request.kwargs)
                self._server.takes_constraints = False
        return whole_answer(reply, request.reader)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 -- the outer call reports
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = self._request(messages, stop, kwargs)
        stream = self.model.stream(request.messages, _QUIET, **request.kwargs)
        with _uncounted():
            # Handlers are looked up, and refusals come, with the first chunk.
            try:
                first = next(stream, None)
            except Exception as error:  # noqa: BLE001 -- raised again by relax unless a constraint was refused
                request.relax(error)
                stream = self.model.stream(request.messages, _QUIET, **request.kwargs)
                first = next(stream, None)
                self._server.takes_constraints = False
        with told_as_read(request.reader), closing(cast("Any", stream)):
            for chunk in chain([first] if first is not None else [], stream):
                yield from answer_chunks(chunk, request.reader)
        if request.reader is not None:
            yield last_chunk(request.reader)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 -- the outer call reports
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = self._request(messages, stop, kwargs)
        stream = self.model.astream(request.messages, _QUIET, **request.kwargs)
        with _uncounted():
            try:
                first = await anext(stream, None)
            except Exception as error:  # noqa: BLE001 -- raised again by relax unless a constraint was refused
                request.relax(error)
                stream = self.model.astream(request.messages, _QUIET, **request.kwargs)
                first = await anext(stream, None)
                self._server.takes_constraints = False
        with told_as_read(request.reader):
            async with aclosing(cast("Any", stream)):
                for piece in answer_chunks(first, request.reader) if first is not None else ():
                    yield piece
                async for chunk in stream:
                    for piece in answer_chunks(chunk, request.reader):
                        yield piece
        if request.reader is not None:
            yield last_chunk(request.reader)

    def generate(self, *args: Any, **kwargs: Any) -> LLMResult:
        """As of every chat model; calls that could not be read are told why, also where they were streamed."""
        return explained(super().generate(*args, **kwargs))

    async def agenerate(self, *args: Any, **kwargs: Any) -> LLMResult:
        """As of every chat model; calls that could not be read are told why, also where they were streamed."""
        return explained(await super().agenerate(*args, **kwargs))

    # What it says of itself: mostly what the wrapped model says.

    @property
    def _chat_model(self) -> BaseChatModel | None:
        """The chat model itself, out of what was bound around it; None if it is not known yet."""
        inner: Any = self.model
        while not isinstance(inner, BaseChatModel) and isinstance(inner, RunnableBinding | RunnableWithFallbacks):
            inner = inner.bound if isinstance(inner, RunnableBinding) else inner.runnable
        return inner if isinstance(inner, BaseChatModel) else None

    def _resolve_model_profile(self) -> ModelProfile | None:
        known = dict(self._chat_model.profile or {}) if self._chat_model else {}
        known.pop("tool_calls_in_text", None)  # the protocol reads the text; langchain-core warns of keys of ours
        return cast("ModelProfile", {**known, "tool_calling": True, "structured_output": False})

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        if self._chat_model is None:
            return super()._get_ls_params(stop=stop, **kwargs)
        return self._chat_model._get_ls_params(stop=stop, **kwargs)  # noqa: SLF001 -- the hook of every chat model

    def get_token_ids(self, text: str) -> list[int]:
        """Give the wrapped model's tokens of a text."""
        return self._chat_model.get_token_ids(text) if self._chat_model else super().get_token_ids(text)

    @property
    def _llm_type(self) -> str:
        return f"agentgraph-{self.protocol.name}-protocol"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        wrapped = self._chat_model._llm_type if self._chat_model else type(self.model).__name__  # noqa: SLF001 -- as above
        return {"protocol": self.protocol.name, "model": wrapped}


def _words(stop: str | Sequence[str] | None) -> Sequence[str]:
    return (stop,) if isinstance(stop, str) else stop or ()


def _is_of_a_call(message: BaseMessage) -> bool:
    called = isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)
    return called or isinstance(message, ToolMessage)


def _appended(system: SystemMessage, prompt: str) -> SystemMessage:
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{prompt}" if system.content else prompt})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": prompt}]})
