"""Summaries: a long conversation goes on with notes in place of its older part."""

import logging
import uuid
import warnings
from collections.abc import Generator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime
from langgraph.typing import ContextT

from agentgraph import bridge
from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, DeadlineError, RunCancelledError
from agentgraph.flows import adrive, drive
from agentgraph.hooks import AgentMiddleware
from agentgraph.state import ResponseT, StateT, replaced_messages
from agentgraph.tools.failures import passes

from ._summaries import (
    DEFAULT_SUMMARY_PROMPT,
    Summarizer,
    Writer,
    chat_model,
    check_prompt,
    filled,
    is_overflow,
    selection,
    shortened,
    text_of,
    transcript,
)
from ._summaries_sizes import (
    SOURCE,
    SOURCE_KEY,
    ContextSize,
    Divider,
    Division,
    TokenCounter,
    Trigger,
    TriggerClause,
    size_of,
    sizes_of,
)

__all__ = [
    "DEFAULT_SUMMARY_PROMPT",
    "ContextSize",
    "SummarizationMiddleware",
    "Summarizer",
    "TokenCounter",
    "TriggerClause",
]

_KEEP: ContextSize = ("messages", 20)
_INTRODUCTION = "Notes on the conversation so far, in place of its older messages:\n\n"
_log = logging.getLogger(__name__)


class SummarizationMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Replaces the older part of a conversation by a summary once it has become too long.

    It stands before each model call, inside the model's step. When a trigger is reached, a model writes the summary,
    and the messages of the state become that summary and the newest messages. Calls are never parted from their
    answers, and system messages at the start stay. Where `keep` would leave so much that nearly every call had its
    summary, half of the trigger's tokens are kept: where it leaves as many as trigger it, or, if `keep` is in messages,
    three quarters of that. Where the summary fails, the history stays as it is, a warning is logged, and it is tried
    again before the next call.

    It adds nothing to the state. It costs one model call for each summary (two, where the first one overflows the
    writer's window) and no superstep.

    Args:
        model: writes the summaries; a chat model or its name. Its window is what fractions are of.
        trigger: when: `("tokens", n)`, `("messages", n)` or `("fraction", f)`; a dict of these, all of which must be
            reached; or a list, any of which. At that size or above. Default None: never.
        keep: how much stays as it is, at the least the last message and the calls that it answers. Default
            `("messages", 20)`.
        token_counter: counts the tokens of messages. By default they are estimated, and where the model's server has
            reported more, that counts.
        summary_prompt: what the model is asked, with `{messages}` where the conversation goes.
        trim_tokens_to_summarize: how much the writer is given to read, in tokens: the beginning and the end of what is
            too long. None for all. Default 4000.
        summarizer: writes in place of `model`: another chat model or its name, or a runnable or function, sync or
            async, that is given the messages and returns the text.
        max_tokens_before_summary: the older form of `trigger=("tokens", n)`.
        messages_to_keep: the older form of `keep=("messages", n)`.

    Raises:
        ConfigurationError: a size that is none, a fraction with a model whose window is not known, a prompt without
            `{messages}`.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.messages import HumanMessage
        >>> from agentgraph.testing import ScriptedModel
        >>> writer = ScriptedModel("The user told four facts.")
        >>> short = SummarizationMiddleware(writer, trigger=("messages", 4), keep=("messages", 1))
        >>> agent = create_agent(ScriptedModel("Noted."), middleware=[short])
        >>> result = agent.invoke({"messages": [HumanMessage(f"Fact {n}.") for n in range(5)]})
        >>> [message.text.split()[-1] for message in result["messages"]]
        ['facts.', '4.', 'Noted.']
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        trigger: Trigger | None = None,
        keep: ContextSize = _KEEP,
        token_counter: TokenCounter = count_tokens_approximately,
        summary_prompt: str = DEFAULT_SUMMARY_PROMPT,
        trim_tokens_to_summarize: int | None = 4000,
        summarizer: Summarizer | None = None,
        max_tokens_before_summary: int | None = None,
        messages_to_keep: int | None = None,
    ) -> None:
        super().__init__()
        if max_tokens_before_summary is not None:
            _warn("max_tokens_before_summary", "trigger", ("tokens", max_tokens_before_summary))
            trigger = ("tokens", max_tokens_before_summary) if trigger is None else trigger
        if messages_to_keep is not None:
            _warn("messages_to_keep", "keep", ("messages", messages_to_keep))
            keep = ("messages", messages_to_keep) if keep == _KEEP else keep
        if not callable(token_counter):
            raise ConfigurationTypeError(
                f"token_counter is {repr(token_counter)[:200]}; expected was a function from messages to their tokens."
            )
        self.model = chat_model("model", model)
        self.trigger = trigger
        self.keep = keep
        self.token_counter = token_counter
        self.summary_prompt = check_prompt(summary_prompt)
        self.trim_tokens_to_summarize = _limit(trim_tokens_to_summarize)
        window = _window(self.model)
        self._estimates = token_counter is count_tokens_approximately
        self._divider = Divider(
            sizes_of(trigger, window), size_of("keep", keep, window), token_counter, self._estimates
        )
        self._writer = Writer.of(self.model if summarizer is None else summarizer)

    @hook_config(inline=True)
    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:  # noqa: ARG002 (the contract)
        """Replace the older messages by their summary where that is due.

        Args:
            state: the state.
            runtime: not used.

        Returns:
            The new conversation; None where nothing is due, or the summary has failed.
        """
        prepared = self._prepared(state["messages"])
        if prepared is None:
            return None
        update: dict[str, Any] | None = drive(self._replacing(*prepared), self._writer.sync)
        return update

    @hook_config(inline=True)
    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:  # noqa: ARG002 (the contract)
        """As `before_model`, for async runs."""
        if not self._divider.triggers:
            return None
        # A counter of the user's may be slow, or ask a server.
        prepared = (
            self._prepared(state["messages"])
            if self._estimates
            else await bridge.run_blocking(self._prepared, state["messages"])
        )
        if prepared is None:
            return None
        update: dict[str, Any] | None = await adrive(self._replacing(*prepared), self._writer.asynchronous)
        return update

    def _prepared(self, messages: Any) -> tuple[Division, Any] | None:
        """The parts of a conversation whose summary is due, and what the writer is given to read."""
        division = self._divider.divide(messages)
        return None if division is None else (division, self._reading(division.old))

    def _replacing(self, division: Division, reading: Any) -> Generator[Any, Any, dict[str, Any] | None]:
        """A flow that yields what the writer is given and receives what it answers."""
        try:
            summary = yield from self._summary(reading)
        except Exception as error:
            if passes(error) or isinstance(error, ConfigurationError | RunCancelledError | DeadlineError):
                raise
            _log.warning("A summary failed, and the history stays as it is. %s: %.200s", type(error).__name__, error)
            return None
        if not summary:
            _log.warning("A summary came out empty, and the history stays as it is.")
            return None
        message = HumanMessage(_INTRODUCTION + summary, id=str(uuid.uuid4()), additional_kwargs={SOURCE_KEY: SOURCE})
        return {"messages": replaced_messages([*division.front, message, *division.kept])}

    def _summary(self, reading: Any) -> Generator[Any, Any, str]:
        if not self._writer.reads_prompt:
            return text_of((yield reading))
        try:
            return _whole_text((yield filled(self.summary_prompt, reading)))
        except Exception as error:
            if not is_overflow(error):
                raise
        # Half of its characters is half of its tokens, whoever counts them.
        half = shortened(reading, len(reading) // 2, lambda messages: len(str(messages[0].content)))
        return _whole_text((yield filled(self.summary_prompt, half)))

    def _reading(self, old: list[Any]) -> Any:
        """What the writer is given: the conversation as a text, or its messages."""
        arrange = transcript if self._writer.reads_prompt else selection
        return arrange(old, self.trim_tokens_to_summarize, self.token_counter)


def _whole_text(answer: Any) -> str:
    """The text of a model's summary; one that asked for a tool instead has none."""
    return "" if isinstance(answer, AIMessage) and answer.tool_calls else text_of(answer)


def _warn(old: str, new: str, value: ContextSize) -> None:
    warnings.warn(f"{old} is the older form of {new}={value!r}; use that.", DeprecationWarning, stacklevel=3)


def _limit(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return given
    raise ConfigurationError(
        f"trim_tokens_to_summarize is {given!r}; expected was a whole number above 0, or None for all."
    )


def _window(model: BaseChatModel) -> int | None:
    """The model's window in tokens, where its profile says it."""
    profile = getattr(model, "profile", None)
    size = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    return size if isinstance(size, int) and size > 0 else None
