"""Callback handlers that are told of a call without its sensitive values.

All streams of a run come from callback handlers: the tokens of `stream_mode="messages"`, the events of tools, those of
`astream_events` and `stream_events`. So each handler of the run is replaced, for as long as the call lasts, by one that
tells it the clean form of what happens. What is called stays the same object, whatever it is made of.
"""

import copy
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import _configure_hooks as global_handlers
from langgraph.pregel._tools import _tool_call_writer as delta_writer

from ._pii_messages import clean_message, clean_value
from ._pii_rules import PIIDetectionError, ResolvedRule
from ._pii_streams import ChunkStream, EventStream, TextStream

__all__ = ["clean_config", "clean_error", "cleanly"]

Call = tuple[str | Callable[..., None], tuple[Any, ...], dict[str, Any]]


@contextmanager
def cleanly(rule: ResolvedRule) -> Generator[None]:
    """Within it, what is called inside a run tells the run's handlers only the clean form of its results."""
    config = var_child_runnable_config.get()
    cleaned = None if config is None else clean_config(config, rule)
    if cleaned is None:
        yield
        return
    token = var_child_runnable_config.set(cleaned)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def clean_config(
    config: RunnableConfig, rule: ResolvedRule, *, inputs: bool = False, results: bool = True
) -> RunnableConfig | None:
    """A config whose handlers are told the clean form of what happens.

    Args:
        config: the run's.
        rule: what to look for.
        inputs: whether the arguments of tools are cleaned.
        results: whether what is produced is cleaned.

    Returns:
        A new config; None where nobody listens.
    """
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager) or not callbacks.handlers:
        return None
    ambient = [hook[0].get() for hook in global_handlers]
    told: dict[int, Any] = {}
    for handler in [*callbacks.handlers, *callbacks.inheritable_handlers]:
        told[id(handler)] = handler if _left_alone(handler, ambient) else CleanHandler(handler, rule, inputs, results)
    changed = copy.copy(callbacks)
    changed.handlers = [told[id(handler)] for handler in callbacks.handlers]
    changed.inheritable_handlers = [told[id(handler)] for handler in callbacks.inheritable_handlers]
    return {**config, "callbacks": changed}


def _left_alone(handler: Any, ambient: list[Any]) -> bool:
    # Tracers and handlers of a context are looked up by their identity, and would be added a second time.
    streams = hasattr(handler, "tap_output_iter")
    return any(handler is one for one in ambient) or (isinstance(handler, BaseTracer) and not streams)


def clean_error(error: BaseException, rule: ResolvedRule) -> None:
    """Take sensitive values out of what an error says, in place, so that whoever catches it knows it by its class."""
    cleaned = clean_value(error.args, rule)
    if cleaned is not error.args:
        error.args = cleaned


class CleanHandler:
    """Stands for a callback handler, of whose class it says it is, and tells it the clean form of what happens.

    Args:
        handler: the run's.
        rule: what to look for.
        inputs: whether the arguments of tools are cleaned.
        results: whether what is produced is cleaned.
    """

    def __init__(self, handler: Any, rule: ResolvedRule, inputs: bool, results: bool) -> None:
        self._handler = handler
        self._rule = rule
        self._streams: dict[Any, dict[Any, Any]] = {}
        self._blocked: dict[Any, PIIDetectionError] = {}
        self._inputs = inputs
        self._results = results
        self._rewrites: dict[str, Callable[..., list[Call]]] = {"on_tool_start": self._tool_start}
        if results:
            self._rewrites |= {
                "on_llm_new_token": self._token,
                "on_stream_event": self._event,
                "on_llm_end": self._llm_end,
                "on_llm_error": self._llm_error,
                "on_chain_end": self._chain_end,
                "on_tool_end": self._tool_end,
                "on_tool_error": self._tool_error,
            }

    @property  # type: ignore[misc] # read by isinstance, never written
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] # the same
        return self._handler.__class__

    def __getattr__(self, name: str) -> Any:
        told = getattr(self._handler, name)
        rewrite = self._rewrites.get(name)
        if rewrite is None:
            return told
        return self._asynchronous(rewrite) if inspect.iscoroutinefunction(told) else self._sync(rewrite)

    def _sync(self, rewrite: Callable[..., list[Call]]) -> Callable[..., None]:
        def tell(*args: Any, **kwargs: Any) -> None:
            for told, given, named in rewrite(*args, **kwargs):
                (getattr(self._handler, told) if isinstance(told, str) else told)(*given, **named)

        return tell

    def _asynchronous(self, rewrite: Callable[..., list[Call]]) -> Callable[..., Any]:
        async def tell(*args: Any, **kwargs: Any) -> None:
            for told, given, named in rewrite(*args, **kwargs):
                if isinstance(told, str):
                    await getattr(self._handler, told)(*given, **named)

        return tell

    def _stream(self, run_id: Any, make: Callable[[ResolvedRule], Any]) -> Any:
        """The stream of a call; a model may report the same text as tokens and as events."""
        streams = self._streams.setdefault(run_id, {})
        if make not in streams:
            streams[make] = make(self._rule)
        return streams[make]

    def _fed(self, run_id: Any, feed: Callable[[], Any]) -> Any:
        """What a stream shows; None from the moment on that it is blocked."""
        if run_id in self._blocked:
            return None
        try:
            return feed()
        except PIIDetectionError as error:
            self._blocked[run_id] = error
            return None

    def _token(self, token: Any, *, chunk: Any = None, run_id: Any = None, **rest: Any) -> list[Call]:
        message = getattr(chunk, "message", None)
        if isinstance(message, AIMessageChunk):
            stream = self._stream(run_id, ChunkStream)
            return _told_chunk(self._fed(run_id, lambda: stream.feed(message)), run_id, rest)
        stream = self._stream(run_id, TextStream)
        text = token if isinstance(token, str) else getattr(message, "text", "")
        shown = self._fed(run_id, lambda: stream.feed(text))
        return [("on_llm_new_token", (shown,), {"run_id": run_id, **rest})] if shown else []

    def _event(self, event: Any, *, run_id: Any = None, **rest: Any) -> list[Call]:
        stream = self._stream(run_id, EventStream)
        shown = self._fed(run_id, lambda: stream.feed(event)) or []
        return [("on_stream_event", (one,), {"run_id": run_id, **rest}) for one in shown]

    def _llm_end(self, response: LLMResult, *, run_id: Any = None, **rest: Any) -> list[Call]:
        streams = self._streams.pop(run_id, {})
        calls: list[Call] = []
        if ChunkStream in streams:
            calls = _told_chunk(self._fed(run_id, streams[ChunkStream].end), run_id, rest)
        if TextStream in streams and (shown := self._fed(run_id, streams[TextStream].end)):
            calls.append(("on_llm_new_token", (shown,), {"run_id": run_id, **rest}))
        cleaned = self._fed(run_id, lambda: _clean_result(response, self._rule))
        blocked = self._blocked.pop(run_id, None)
        if blocked is not None:
            return [("on_llm_error", (blocked,), {"run_id": run_id, **rest})]
        return [*calls, ("on_llm_end", (cleaned,), {"run_id": run_id, **rest})]

    def _llm_error(self, error: BaseException, *, run_id: Any = None, **rest: Any) -> list[Call]:
        # What was held back is not decided, and never will be.
        self._streams.pop(run_id, None)
        self._blocked.pop(run_id, None)
        rule = self._rule.softened()
        if isinstance(rest.get("response"), LLMResult):
            rest["response"] = _clean_result(rest["response"], rule)
        return [("on_llm_error", (error,), {"run_id": run_id, **rest})]

    def _chain_end(self, outputs: Any, **rest: Any) -> list[Call]:
        return [("on_chain_end", (clean_value(outputs, self._rule.softened()),), rest)]

    def _tool_start(
        self, serialized: Any, input_str: str, *, inputs: Any = None, run_id: Any = None, **rest: Any
    ) -> list[Call]:
        if self._inputs:
            rule = self._rule.softened()
            inputs, input_str = clean_value(inputs, rule), clean_value(input_str, rule)
        told: Call = ("on_tool_start", (serialized, input_str), {"inputs": inputs, "run_id": run_id, **rest})
        return [told, (self._clean_deltas, (run_id,), {})] if self._results else [told]

    def _clean_deltas(self, run_id: Any) -> None:
        """What the tool shows while it runs goes to the writer that the handler has just set."""
        writer = delta_writer.get()
        if writer is not None:
            deltas = self._stream(run_id, lambda rule: Deltas(writer, rule))
            delta_writer.set(lambda delta: self._fed(run_id, lambda: deltas.write(delta)))

    def _tool_end(self, output: Any, *, run_id: Any = None, **rest: Any) -> list[Call]:
        told: Call = ("on_tool_end", (clean_value(output, self._rule.softened()),), {"run_id": run_id, **rest})
        self._end_deltas(run_id)
        return [told]

    def _tool_error(self, error: BaseException, *, run_id: Any = None, **rest: Any) -> list[Call]:
        clean_error(error, self._rule.softened())
        self._end_deltas(run_id)
        return [("on_tool_error", (error,), {"run_id": run_id, **rest})]

    def _end_deltas(self, run_id: Any) -> None:
        streams = self._streams.pop(run_id, {})
        for deltas in streams.values():
            self._fed(run_id, deltas.end)
        self._blocked.pop(run_id, None)


class Deltas:
    """What a tool shows while it runs.

    Args:
        writer: shows it.
        rule: what to look for.
    """

    def __init__(self, writer: Callable[[Any], None], rule: ResolvedRule) -> None:
        self._writer = writer
        self._rule = rule
        self._text = TextStream(rule)

    def write(self, delta: Any) -> None:
        """Show a delta as far as it is decided; texts that follow each other are one."""
        shown = self._text.feed(delta) if isinstance(delta, str) else clean_value(delta, self._rule)
        if shown != "":
            self._writer(shown)

    def end(self) -> None:
        """Show the rest."""
        if shown := self._text.end():
            self._writer(shown)


def _told_chunk(message: AIMessageChunk | None, run_id: Any, rest: dict[str, Any]) -> list[Call]:
    if message is None:
        return []
    told = {"chunk": ChatGenerationChunk(message=message), "run_id": run_id, **rest}
    return [("on_llm_new_token", (message.text,), told)]


def _clean_result(response: LLMResult, rule: ResolvedRule) -> LLMResult:
    return response.model_copy(
        update={"generations": [[_clean_generation(one, rule) for one in row] for row in response.generations]}
    )


def _clean_generation(generation: Any, rule: ResolvedRule) -> Any:
    message = getattr(generation, "message", None)
    if message is None:
        text = rule.text(generation.text)
        return generation if text == generation.text else generation.model_copy(update={"text": text})
    cleaned = clean_message(message, rule)
    if cleaned is message:
        return generation
    return generation.model_copy(update={"message": cleaned, "text": cleaned.text})
