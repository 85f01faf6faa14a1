"""A chat model that is chosen when it is run.

It stands where a chat model stands, also in `create_agent`: `bind_tools`, `with_structured_output`, `bind` and
`with_config` are recorded, and applied to the real model once the run's config says which one that is.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, Self, cast

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.registry import build_chat_model
from agentgraph.models.urls import public_url

__all__ = ["ConfigurableChatModel"]

_KEPT_MODELS = 8
# Settings, of whatever provider, that a pickle must not hold, or cannot.
_SECRET: Final = re.compile(r"key|secret|password|credential|headers|query|(?:^|_)token$|client$", re.IGNORECASE)
# What langgraph and its servers keep in `configurable` for themselves; "any" must not read it as settings.
_FOREIGN_KEYS = frozenset(
    {
        "assistant_id",
        "checkpoint_id",
        "checkpoint_map",
        "checkpoint_ns",
        "graph_id",
        "run_id",
        "thread_id",
        "thread_ts",
    }
)

_Step = tuple[str, tuple[Any, ...], dict[str, Any]]


def _checked_fields(fields: Literal["any"] | Sequence[str]) -> tuple[str, ...] | None:
    if fields == "any":
        return None
    if isinstance(fields, str):
        raise ConfigurationTypeError(
            f'configurable_fields={fields!r} is a str; expected "any" or a sequence of names, such as ({fields!r},).'
        )
    return tuple(fields)


def settings_of(config: RunnableConfig | None, prefix: str, fields: tuple[str, ...] | None) -> dict[str, Any]:
    """Read a model's settings from a run's config; `fields` None takes every one that is not langgraph's own."""
    configurable = (config or {}).get("configurable") or {}
    found = {key.removeprefix(prefix): value for key, value in configurable.items() if key.startswith(prefix)}
    if fields is None:
        return {key: value for key, value in found.items() if key not in _FOREIGN_KEYS and not key.startswith("__")}
    return {key: value for key, value in found.items() if key in fields}


class ConfigurableChatModel(Runnable[LanguageModelInput, Any]):
    """A chat model whose name and settings come from `config["configurable"]` of a run.

    Made by `init_chat_model`, not by hand. Attributes of a chat model that are not listed here (`profile`, ...) are
    those of the model that the defaults name, if they name one.
    """

    def __init__(
        self,
        *,
        defaults: Mapping[str, Any],
        fields: Literal["any"] | Sequence[str] = "any",
        prefix: str = "",
        steps: Sequence[_Step] = (),
    ) -> None:
        self._defaults = dict(defaults)
        self._fields = _checked_fields(fields)
        self._prefix = prefix if not prefix or prefix.endswith("_") else f"{prefix}_"
        self._steps = tuple(steps)
        self._built: list[tuple[dict[str, Any], Runnable[Any, Any]]] = []

    def __repr__(self) -> str:
        fields = "any" if self._fields is None else list(self._fields)
        return f"ConfigurableChatModel(model={self._defaults.get('model')!r}, configurable_fields={fields!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out keys, connections and models: as our chat models, it takes its key from the environment again."""
        kept = {name: value for name, value in self._defaults.items() if not _SECRET.search(name)}
        if isinstance(kept.get("base_url"), str):
            kept["base_url"] = public_url(kept["base_url"])
        return {**self.__dict__, "_defaults": kept, "_built": []}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # By its state it would lose its key; and nothing in it changes when it is used.
        return self

    def __copy__(self) -> Self:
        return self

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are not set; dunder names are asked for by copy and pickle before __init__ ran.
        if name.startswith("__") or name in {"_defaults", "_built"} or "model" not in self._defaults:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}"
                + ("" if name.startswith("_") else ": it is not known yet which model it stands for")
            )
        return getattr(self._resolve(None), name)

    def _copy(self, *, defaults: Mapping[str, Any] | None = None, steps: Sequence[_Step]) -> "ConfigurableChatModel":
        return ConfigurableChatModel(
            defaults=self._defaults if defaults is None else defaults,
            fields="any" if self._fields is None else self._fields,
            prefix=self._prefix,
            steps=steps,
        )

    def _queued(self, method: str, *args: Any, **kwargs: Any) -> "ConfigurableChatModel":
        return self._copy(steps=(*self._steps, (method, args, kwargs)))

    def _resolve(self, config: RunnableConfig | None) -> Runnable[Any, Any]:
        """Give the real model for this run, with everything recorded applied; a few are kept."""
        settings = {**self._defaults, **settings_of(ensure_config(config), self._prefix, self._fields)}
        for known, runnable in self._built:
            if known == settings:
                return runnable
        if not settings.get("model"):
            raise ConfigurationError(
                "This configurable model does not know which model to use: the config of the run has no "
                f'config["configurable"]["{self._prefix}model"]; give it there, such as "openai:gpt-4o".'
            )
        runnable = build_chat_model(**settings)
        for method, args, kwargs in self._steps:
            runnable = getattr(runnable, method)(*args, **kwargs)
        self._built = [*self._built, (settings, runnable)][-_KEPT_MODELS:]
        return runnable

    # What is recorded

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ConfigurableChatModel":
        """Record the tools; they are bound to the model that the run chooses."""
        return self._queued("bind_tools", tools, **kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> "ConfigurableChatModel":
        """Record the schema; the answers of the model that the run chooses are read by it."""
        return self._queued("with_structured_output", schema, **kwargs)

    def bind(self, **kwargs: Any) -> "ConfigurableChatModel":
        """Record arguments for each call of the model that the run chooses."""
        return self._queued("bind", **kwargs)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> "ConfigurableChatModel":
        """Set settings now (those in `configurable` that are the model's), and record the rest of the config."""
        merged: dict[str, Any] = {**(config or {}), **kwargs}
        settings = settings_of(RunnableConfig(**merged), self._prefix, self._fields)  # type: ignore[typeddict-item]  # the caller's keys
        left = {
            key: value
            for key, value in (merged.get("configurable") or {}).items()
            if not (key.startswith(self._prefix) and key.removeprefix(self._prefix) in settings)
        }
        rest = {key: value for key, value in merged.items() if key != "configurable"}
        if left:
            rest["configurable"] = left
        steps = (*self._steps, ("with_config", (), {"config": rest})) if rest else self._steps
        return self._copy(defaults={**self._defaults, **settings}, steps=steps)

    # What is run

    def invoke(self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 the name in Runnable
        """Call the model that the config names."""
        return self._resolve(config).invoke(input, config, **kwargs)

    async def ainvoke(self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 the name in Runnable
        """Call the model that the config names."""
        return await self._resolve(config).ainvoke(input, config, **kwargs)

    def stream(
        self,
        input: LanguageModelInput,  # noqa: A002 the name in Runnable
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Stream from the model that the config names."""
        yield from self._resolve(config).stream(input, config, **kwargs)

    async def astream(
        self,
        input: LanguageModelInput,  # noqa: A002 the name in Runnable
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Stream from the model that the config names."""
        chunks = cast("AsyncGenerator[Any, None]", self._resolve(config).astream(input, config, **kwargs))
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    @property
    def InputType(self) -> Any:  # noqa: N802 the name in Runnable
        """What a chat model takes."""
        return LanguageModelInput

    @property
    def OutputType(self) -> Any:  # noqa: N802 the name in Runnable
        """What a chat model gives; a recorded `with_structured_output` gives another."""
        return AIMessage
