"""Chat models for tests: they play a script or call a function, and are as strict as a provider."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from agentgraph.errors import AgentGraphError
from agentgraph.testing import effects
from agentgraph.testing.effects import Pause
from agentgraph.testing.histories import history_faults
from agentgraph.testing.provider import ProviderRejected, settings_faults
from agentgraph.testing.record import Record, Request
from agentgraph.testing.replies import (
    Reply,
    Staged,
    check_function,
    check_reply,
    chunks_of,
    cut_at_stop,
    is_exception,
    to_message,
)
from agentgraph.testing.schemas import structured

__all__ = ["FunctionModel", "ScriptExhausted", "ScriptedModel"]


class ScriptExhausted(AgentGraphError, AssertionError):  # noqa: N818 (says what happened, as a test reads it)
    """A scripted model was called more often than its script allows, or less often than it demands."""


class _TestModel(BaseChatModel):
    """What the models of this module have in common; a subclass says where the reply of a call comes from."""

    strict: bool = True
    usage: UsageMetadata | None = None

    _record: Record = PrivateAttr(default_factory=Record)

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order in which they came; also those that were refused."""
        return self._record.requests

    @property
    def binds(self) -> int:
        """How often tools were bound to the model or to a copy of it."""
        return self._record.binds

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools to the model, as every chat model does.

        Args:
            tools: tools in any form that langchain-core takes; a dict that it does not know stays as it is.
            tool_choice: "auto", "any", "none", the name of a tool, or a provider's own form.
            **kwargs: further settings of the calls.

        Returns:
            The model with the tools' schemas bound.
        """
        self._record.add_bind()
        choice = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=[_schema(tool) for tool in tools], **choice, **kwargs)

    def with_structured_output(
        self,
        schema: Any,
        *,
        include_raw: bool = False,
        method: str | None = None,
        **kwargs: Any,  # noqa: ARG002 (what a provider may take; a script answers as it is written)
    ) -> Runnable[LanguageModelInput, Any]:
        """A form of the model that answers in a schema.

        Args:
            schema: a pydantic class, TypedDict or JSON schema.
            include_raw: whether to return `{"raw": message, "parsed": value, "parsing_error": error}`.
            method: "function_calling" (the reply is a tool call with the schema's name) or "json_schema" (the reply is
                a JSON text). By default the first, or the second if the model's profile says `structured_output`.
            **kwargs: what providers take besides (`strict`); it changes nothing here.

        Returns:
            A runnable from messages to the value: an object of the pydantic class, else a dict.
        """
        native = bool((self.profile or {}).get("structured_output")) if method is None else method == "json_schema"
        if native:
            return structured(self, schema, include_raw=include_raw)
        return cast(
            "Runnable[LanguageModelInput, Any]", super().with_structured_output(schema, include_raw=include_raw)
        )

    @abstractmethod
    def _reply(self) -> Reply:
        """The reply of the next call."""

    def _accept(self, messages: list[BaseMessage], settings: dict[str, Any]) -> None:
        """Write a request down, and refuse it as a provider would."""
        self._record.add(Request.of(messages, settings))
        if not self.strict:
            return
        faults = history_faults(messages) if messages else ["no messages"]
        faults += settings_faults(settings, cast("Mapping[str, Any] | None", self.profile))
        if faults:
            raise ProviderRejected(faults)

    def _answer(
        self, messages: list[BaseMessage], settings: dict[str, Any]
    ) -> Generator[Pause, Any, tuple[AIMessage, list[Staged]]]:
        """One call up to the finished message, with the stages at which its stream waits or breaks off."""
        self._accept(messages, settings)
        reply: Any = self._reply()
        stages: list[Staged] = []
        while True:
            if isinstance(reply, Staged):
                stages.append(reply)
                reply = reply.reply
            elif is_exception(reply):
                raise reply
            elif callable(reply):
                reply = yield effects.Call(reply, (list(messages), dict(settings)))
            else:
                break
        message = cut_at_stop(to_message(reply), settings.get("stop"))
        message.usage_metadata = message.usage_metadata or self.usage
        return self._record.tell_apart(message, messages), stages

    def _whole(self, messages: list[BaseMessage], settings: dict[str, Any]) -> Generator[Pause, Any, AIMessage]:
        message, stages = yield from self._answer(messages, settings)
        for stage in stages:
            yield from _act(stage)
        return message

    def _pieces(
        self, messages: list[BaseMessage], settings: dict[str, Any]
    ) -> Generator[Pause | AIMessageChunk, Any, None]:
        message, stages = yield from self._answer(messages, settings)
        chunks = list(chunks_of(message))
        for place, chunk in enumerate(chunks):
            for stage in stages:
                # A stage beyond the end still happens: before the piece that ends the stream.
                if min(stage.after, len(chunks) - 1) == place:
                    yield from _act(stage)
            yield chunk

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (the interface of chat models)
        **kwargs: Any,
    ) -> ChatResult:
        return _result(effects.run(self._whole(messages, _settings(stop, kwargs))))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> ChatResult:
        return _result(await effects.arun(self._whole(messages, _settings(stop, kwargs))))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (the interface of chat models)
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in effects.stream(self._pieces(messages, _settings(stop, kwargs))):
            yield _generation_chunk(chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in effects.astream(self._pieces(messages, _settings(stop, kwargs))):
            yield _generation_chunk(chunk)


class ScriptedModel(_TestModel):
    """A chat model that plays a script, one reply a call, and never touches the network.

    Before each reply it reads the request as a provider does and refuses what would be answered with 400, so a test
    that passes has sent nothing that a real model would not take. It streams word by word, runs natively in async code,
    and is safe to call from several threads; copies (`bind`, `model_copy`) play on in the same script and write to the
    same record.

    Args:
        *script: the replies, in order: a text; an AIMessage; a `tool_call(...)` or a list of them; an exception, which
            is raised; a function `(messages, settings)`, sync or async, that returns any of these; `Gate.hold(...)`;
            `cut(...)`.
        replies: more replies, for a script that is a list already.
        strict: whether to refuse, with `ProviderRejected`, histories (`history_faults`) and settings that a provider
            refuses.
        repeat_last: how often the last reply is played again when the script is over; True for ever.
        usage: token usage to report with each reply that has none of its own.
        profile: what the model can do, e.g. `{"structured_output": True}`, `{"tool_calling": False}`.
        **fields: further fields of BaseChatModel (`metadata`, `callbacks`, `rate_limiter`, ...).

    Raises:
        ScriptExhausted: in a call for which there is no reply any more.

    Example:
        >>> from agentgraph.testing import tool_call
        >>> model = ScriptedModel(tool_call("weather", city="Rome"), "It is sunny.")
        >>> model.invoke("How is the weather in Rome?").tool_calls[0]["args"]
        {'city': 'Rome'}
        >>> [chunk.content for chunk in model.stream("And in Oslo?")]
        ['It', ' is', ' sunny.', '']
        >>> [request.messages[-1].content for request in model.requests]
        ['How is the weather in Rome?', 'And in Oslo?']
    """

    replies: list[Any] = Field(repr=False)
    repeat_last: int | bool = 0

    def __init__(
        self,
        *script: Reply,
        replies: Sequence[Reply] = (),
        strict: bool = True,
        repeat_last: int | bool = 0,
        usage: UsageMetadata | None = None,
        profile: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        played = [*script, *replies]
        for reply in played:
            check_reply(reply)
        named: dict[str, Any] = {
            "replies": played,
            "strict": strict,
            "repeat_last": repeat_last,
            "usage": usage,
            "profile": profile,
        }
        super().__init__(**named, **fields)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def remaining(self) -> int:
        """How many replies of the script were not played yet; repetitions do not count."""
        return max(0, len(self.replies) - self._record.played)

    def assert_played(self) -> None:
        """Assert that the script was played to its end, and that nobody asked for more.

        Useful where something between the model and the test (a retry, a fallback) may have swallowed a
        `ScriptExhausted`.

        Raises:
            ScriptExhausted: how many replies are left, or were missing.
        """
        if self.remaining or not self._allows(self._record.played - 1):
            raise ScriptExhausted(
                f"the script has {len(self.replies)} replies and the model was asked for {self._record.played}"
            )

    def _allows(self, place: int) -> bool:
        if self.repeat_last is True and self.replies:
            return True
        return place < len(self.replies) + (self.repeat_last if self.replies else 0)

    def _reply(self) -> Reply:
        __tracebackhide__ = True  # pytest then shows who called the model once too often
        place = self._record.next_place()
        if place < len(self.replies):
            return cast("Reply", self.replies[place])
        if not self._allows(place):
            raise ScriptExhausted(
                f"call {place + 1} of a scripted model that has {len(self.replies)} replies: "
                "add a reply, set repeat_last, or find out who calls the model once too often (model.requests)"
            )
        last = self.replies[-1]
        # The same id twice would make the second message replace the first in a state.
        return last.model_copy(update={"id": None}) if isinstance(last, AIMessage) else cast("Reply", last)


class FunctionModel(_TestModel):
    """A chat model that is a function of the request: for replies that depend on what was asked.

    As strict as a `ScriptedModel`, and with the same record of requests.

    Args:
        function: `(messages, settings) -> reply`, sync or async; settings holds `tools`, `tool_choice`, `stop` and
            whatever else was bound. A sync one runs in a thread when the model is called from async code.
        stream: `(messages, settings)` that yields texts or AIMessageChunks, a sync or async generator function; by
            default the function's reply is streamed word by word.
        strict: whether to refuse what a provider refuses, with `ProviderRejected`.
        usage: token usage to report with each reply that has none of its own.
        profile: what the model can do.
        **fields: further fields of BaseChatModel.

    Raises:
        ConfigurationTypeError: a function does not take the two arguments.

    Example:
        >>> model = FunctionModel(lambda messages, settings: f"{len(messages)} message(s)")
        >>> model.invoke("hi").content
        '1 message(s)'
    """

    function: Callable[..., Any] = Field(repr=False)

    _pieces_of: Callable[..., Any] | None = PrivateAttr(default=None)

    def __init__(
        self,
        function: Callable[[list[BaseMessage], dict[str, Any]], Any],
        *,
        stream: Callable[[list[BaseMessage], dict[str, Any]], Any] | None = None,
        strict: bool = True,
        usage: UsageMetadata | None = None,
        profile: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        check_function(function)
        if stream is not None:
            check_function(stream)
        named: dict[str, Any] = {"function": function, "strict": strict, "usage": usage, "profile": profile}
        super().__init__(**named, **fields)
        self._pieces_of = stream

    @property
    def _llm_type(self) -> str:
        return "function"

    def _reply(self) -> Reply:
        return self.function

    def _pieces(
        self, messages: list[BaseMessage], settings: dict[str, Any]
    ) -> Generator[Pause | AIMessageChunk, Any, None]:
        if self._pieces_of is None:
            yield from super()._pieces(messages, settings)
            return
        self._accept(messages, settings)
        source = yield effects.Open(self._pieces_of, (list(messages), dict(settings)))
        while (piece := (yield effects.Next(source))) is not effects.END:
            yield piece if isinstance(piece, AIMessageChunk) else AIMessageChunk(content=piece)


def _act(stage: Staged) -> Generator[Pause, Any, None]:
    if stage.pause is not None:
        yield stage.pause
    if stage.error is not None:
        raise stage.error


def _settings(stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    return kwargs if stop is None else {**kwargs, "stop": stop}


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _generation_chunk(chunk: AIMessageChunk) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=chunk)


def _schema(tool: Any) -> Any:
    if isinstance(tool, Mapping) and tool.get("type") not in {None, "function", "object"}:
        return tool  # a provider's own tool, e.g. {"type": "web_search_20250305", "name": "web_search"}
    try:
        return convert_to_openai_tool(tool)
    except ValueError:
        if isinstance(tool, Mapping):
            return tool  # the same without a type, e.g. {"google_search": {}}
        raise
