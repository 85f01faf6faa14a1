"""Context editing: old results of tools are cleared from what the model is sent; the state keeps them."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.typing import ContextT

from agentgraph import bridge
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ModelCallResult, ModelRequest, ModelResponse
from agentgraph.state import ResponseT, StateT

from ._summaries_sizes import TokenCounter

__all__ = ["ClearToolUsesEdit", "ContextEdit", "ContextEditingMiddleware"]

_METADATA_KEY = "context_editing"
_RAW_INPUTS = {"tool_use": "input", "tool_call": "args", "function_call": "arguments"}
"""Content blocks that repeat a call, and where in them its arguments are."""

CountMethod = Literal["approximate", "model"]


class ContextEdit(Protocol):
    """One way to shorten what the model is sent."""

    def apply(self, messages: list[Any], *, count_tokens: TokenCounter) -> None:
        """Edit the list in place.

        Args:
            messages: a list of the edit's own.
            count_tokens: counts the tokens of messages.
        """
        ...


@dataclass(slots=True)
class ClearToolUsesEdit:
    """Clears the results of older tool calls, the oldest first; every call keeps its answer.

    Args:
        trigger: clears when there are more tokens than that. Default 100000.
        clear_at_least: stops when so many tokens are saved; 0 clears all that may be. Default 0.
        keep: so many of the newest results stay. Default 3.
        clear_tool_inputs: clears the arguments of those calls as well. Default False.
        exclude_tools: names of tools whose results stay. Default none.
        placeholder: what stands in place of a result. Default "[cleared]".

    Raises:
        ConfigurationError: a number below 0, or one text in place of a list of names.

    Example:
        >>> from agentgraph.testing import ai, answer, tool_call
        >>> call = tool_call("read", path="a")
        >>> messages = [ai(call), answer(call, "a long text")]
        >>> ClearToolUsesEdit(trigger=0, keep=0).apply(messages, count_tokens=len)
        >>> messages[1].content
        '[cleared]'
    """

    trigger: int = 100_000
    clear_at_least: int = 0
    keep: int = 3
    clear_tool_inputs: bool = False
    exclude_tools: Sequence[str] = ()
    placeholder: str = "[cleared]"

    def __post_init__(self) -> None:
        for name in ("trigger", "clear_at_least", "keep"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConfigurationError(f"{name} is {value!r}; expected was a whole number, 0 or more.")
        if isinstance(self.exclude_tools, str):
            raise ConfigurationTypeError(
                f"exclude_tools is the text {self.exclude_tools!r}; expected was a list of tool names: "
                f"[{self.exclude_tools!r}]."
            )
        if not isinstance(self.placeholder, str) or not self.placeholder.strip():
            raise ConfigurationError(f"placeholder is {self.placeholder!r}; expected was a text that is not empty.")

    def apply(self, messages: list[Any], *, count_tokens: TokenCounter) -> None:
        """Clear results in the list, which is changed in place; its messages are replaced and never changed.

        Args:
            messages: the list.
            count_tokens: counts the tokens of messages.
        """
        tokens = count_tokens(messages)
        if tokens <= self.trigger:
            return
        found = self._clearable(messages)
        number = len(found)
        if self.clear_at_least and found:
            # Each clearing saves some, so the fewest that save enough are found by halving.
            number = 1 + bisect_left(
                range(1, len(found)),
                self.clear_at_least,
                key=lambda n: tokens - count_tokens(self._cleared(messages, found[:n])),
            )
        messages[:] = self._cleared(messages, found[:number])

    def _clearable(self, messages: list[Any]) -> list[tuple[int, int]]:
        """Where the results stand that may be cleared, and their calls, oldest first."""
        results: list[tuple[int, int | None]] = []
        callers: dict[str, int] = {}
        for place, message in enumerate(messages):
            if isinstance(message, AIMessage):
                callers.update((call["id"], place) for call in _calls(message) if call["id"])
            elif isinstance(message, ToolMessage):
                results.append((place, callers.get(message.tool_call_id)))
        old = results[: max(len(results) - self.keep, 0)]
        return [
            (place, caller)
            for place, caller in old
            if caller is not None and not self._stays(messages[place], messages[caller])
        ]

    def _stays(self, result: ToolMessage, caller: AIMessage) -> bool:
        called = next(call["name"] for call in _calls(caller) if call["id"] == result.tool_call_id)
        done = result.response_metadata.get(_METADATA_KEY)
        is_cleared = isinstance(done, dict) and bool(done.get("cleared"))
        return is_cleared or (result.name or called) in self.exclude_tools

    def _cleared(self, messages: list[Any], found: list[tuple[int, int]]) -> list[Any]:
        """The messages with these results cleared."""
        edited = list(messages)
        inputs: dict[int, set[str]] = {}
        for place, caller in found:
            edited[place] = self._without_result(messages[place])
            inputs.setdefault(caller, set()).add(messages[place].tool_call_id)
        if self.clear_tool_inputs:
            for caller, ids in inputs.items():
                edited[caller] = _without_inputs(messages[caller], ids)
        return edited

    def _without_result(self, result: ToolMessage) -> ToolMessage:
        mark = {"cleared": True, "strategy": "clear_tool_uses"}
        metadata = {**result.response_metadata, _METADATA_KEY: mark}
        return result.model_copy(update={"content": self.placeholder, "artifact": None, "response_metadata": metadata})


class ContextEditingMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Clears old tool results from what the model is sent once that has become too long.

    It stands around each model call and edits a copy in the request: the state keeps every result, so that people and
    later runs see them. Each edit sees what the ones before it have left.

    It adds nothing to the state. It costs no model call and no superstep, but with `token_count_method="model"`
    whatever the model needs to count.

    Args:
        edits: what is done, in order; an object with `apply(messages, *, count_tokens)`. Default one
            `ClearToolUsesEdit()`.
        token_count_method: "approximate" estimates, "model" asks the model of the request, with its system message and
            tools. Default "approximate".
        token_counter: counts tokens in place of both.

    Raises:
        ConfigurationError: an edit without `apply`, another method.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def read(path: str) -> str:
        ...     "Read a file."
        ...     return "long " * 100
        >>> model = ScriptedModel(tool_call("read", path="a"), "Read.")
        >>> small = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=50, keep=0)])
        >>> result = create_agent(model, [read], middleware=[small]).invoke({"messages": "Read a."})
        >>> model.requests[1].messages[-1].content, len(result["messages"][-2].content)
        ('[cleared]', 500)
    """

    def __init__(
        self,
        *,
        edits: Iterable[ContextEdit] | None = None,
        token_count_method: CountMethod = "approximate",  # noqa: S107 (no secret)
        token_counter: TokenCounter | None = None,
    ) -> None:
        super().__init__()
        if token_count_method not in get_args(CountMethod):
            raise ConfigurationError(
                f"token_count_method is {repr(token_count_method)[:200]}; expected was 'approximate' or 'model'."
            )
        if token_counter is not None and not callable(token_counter):
            raise ConfigurationTypeError(
                f"token_counter is {repr(token_counter)[:200]}; expected was a function from messages to their tokens."
            )
        self.edits: list[ContextEdit] = list(edits or ()) or [ClearToolUsesEdit()]
        for edit in self.edits:
            if isinstance(edit, type) or not callable(getattr(edit, "apply", None)):
                raise ConfigurationTypeError(
                    f"edits has {repr(edit)[:200]}; expected was an object with apply(messages, *, count_tokens), such "
                    "as ClearToolUsesEdit()."
                )
        self.token_count_method = token_count_method
        self.token_counter = token_counter
        self._foreign = any(type(edit) is not ClearToolUsesEdit for edit in self.edits)

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> ModelCallResult[ResponseT]:
        """Call the model with the edited messages.

        Args:
            request: the call.
            handler: makes it.
        """
        return handler(self._edited(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelCallResult[ResponseT]:
        """As `wrap_model_call`, for async runs."""
        # Code of others, and a model that counts by asking its server, would block the loop.
        if self._foreign or self.token_counter is not None or self.token_count_method == "model":  # noqa: S105 (no secret)
            return await handler(await bridge.run_blocking(self._edited, request))
        return await handler(self._edited(request))

    def _edited(self, request: ModelRequest[ContextT]) -> ModelRequest[ContextT]:
        if not request.messages:
            return request
        # An edit of the user's may change the messages themselves, which are those of the state.
        messages: list[Any] = deepcopy(request.messages) if self._foreign else list(request.messages)
        count_tokens = self._counter(request)
        for edit in self.edits:
            edit.apply(messages, count_tokens=count_tokens)
        return request.override(messages=messages)

    def _counter(self, request: ModelRequest[ContextT]) -> TokenCounter:
        if self.token_counter is not None:
            return self.token_counter
        if self.token_count_method == "approximate":  # noqa: S105 (no secret)
            return count_tokens_approximately
        front: list[BaseMessage] = [] if request.system_message is None else [request.system_message]
        return lambda messages: request.model.get_num_tokens_from_messages([*front, *messages], request.tools)


def _without_inputs(message: AIMessage, ids: set[str]) -> AIMessage:
    """The message whose calls of these ids have no arguments, in all the places that repeat them."""
    done = message.response_metadata.get(_METADATA_KEY)
    before = done if isinstance(done, dict) else {}
    cleared = sorted({*before.get("cleared_tool_inputs", ()), *ids})
    content: Any = message.content
    if isinstance(content, list):
        content = [_block_without_input(block, ids) for block in content]
    return message.model_copy(
        update={
            "tool_calls": [{**call, "args": {}} if call["id"] in ids else call for call in message.tool_calls],
            "content": content,
            # A provider's own copy of the calls still has the arguments.
            "additional_kwargs": {key: one for key, one in message.additional_kwargs.items() if key != "tool_calls"},
            "response_metadata": {
                **message.response_metadata,
                _METADATA_KEY: {**before, "cleared_tool_inputs": cleared},
            },
        }
    )


def _block_without_input(block: Any, ids: set[str]) -> Any:
    key = _RAW_INPUTS.get(str(block.get("type"))) if isinstance(block, dict) else None
    if key is None or (block.get("call_id") or block.get("id")) not in ids:
        return block
    return {**block, key: "{}" if key == "arguments" else {}}


def _calls(message: AIMessage) -> list[ToolCall | InvalidToolCall]:
    """Those that could not be read, too: their answers are results as well."""
    return [*message.tool_calls, *message.invalid_tool_calls]
