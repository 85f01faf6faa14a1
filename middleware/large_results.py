"""Large tool results: kept whole outside the conversation, which holds their beginning and how to read on."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeAlias

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT
from pydantic import Field

from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.flows import adrive, drive
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ToolCallRequest
from agentgraph.state import AgentState, PrivateStateAttr, ResponseT, StateT

from ._large_results_keeping import FolderKeeping, Keeping, StoreKeeping, is_id, is_scope
from ._large_results_text import id_of, messages_in, part, replaced, text_of, up_to_line, with_text

__all__ = ["LargeResultMiddleware", "LargeResultState"]

ToolResult: TypeAlias = ToolMessage | Command[Any]
_Id: TypeAlias = Annotated[str, Field(description="The id of the result.")]
_Offset: TypeAlias = Annotated[int, Field(description="Where to read on, in characters from the start.")]
_Find: TypeAlias = Annotated[str, Field(description="List the places that hold this text instead.")]

_log = logging.getLogger("agentgraph")

READ_TOOL_DESCRIPTION = """\
Read on in a long result of a tool, of which the conversation holds only the beginning. Give the id that stands at the
end of that beginning. Either a part is read, from `offset` on, or with `find` the places holding a text are listed."""

_CONTINUED = (
    "\n[{left} of {size} characters are left out here. The whole result is kept. To read on, call {tool} with "
    'id="{id}" and offset={offset}; with find="some text" it lists the places that hold a text.]'
)


class LargeResultState(AgentState[ResponseT]):
    """The state with the scope of the thread's kept results.

    Attributes:
        large_results_scope: a random name, made in the thread's first run; only who has the thread's state can read
            what is kept under it. A fork of the thread has it too. Private: neither input nor output.
    """

    large_results_scope: NotRequired[Annotated[str, PrivateStateAttr]]


@dataclass(frozen=True)
class _Keep:
    """What the flow yields to have a text kept; the yield gives nothing or raises what went wrong."""

    where: Keeping
    scope: str
    id: str
    text: str


class LargeResultMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Keeps a tool result that is too long outside the conversation, and has the model read on by a tool.

    It stands around each tool call. A result whose text is longer than `limit` is replaced by its beginning, its size
    and an id; the whole text is kept, in the agent's store or in a folder. In a list of content blocks the texts count
    together, and images and files stay as they are. Results inside a Command and error results are treated alike; an
    artifact is left alone. Where the text cannot be kept, the result stays whole and a warning is logged, since nothing
    may be lost.

    What is kept lies under a random name that is part of the thread's state: the ids of one thread say nothing in
    another, a fork can read on, and summaries and trimming of messages do not touch it. Nothing is deleted by itself:
    give `ttl` where the store can forget, or delete old folders.

    It adds the private field `large_results_scope` to the state and the tool to the agent. It makes no model calls and
    takes no step of the graph; each reading is a tool call, and so a turn of the model.

    Args:
        limit: the longest text that stays, in characters.
        head: how much of a longer one is shown, in characters; it is cut at the end of a line where one is near.
        read: the most that one reading gives, in characters.
        folder: where to keep them; None: in the agent's store.
        ttl: minutes after which the store may forget them, counted as the store does it.
        tools: names of the tools whose results are looked at; None: all.
        exclude: names of tools whose results always stay.
        tool_name: the name of the tool that reads on.

    Raises:
        ConfigurationError: a size is out of range, or `ttl` is given for a folder; in a run: there is neither a folder
            nor a store, or the store cannot forget.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> from langgraph.store.memory import InMemoryStore
        >>> def log() -> str:
        ...     '''Read the log.'''
        ...     return "all is well. " * 10_000
        >>> model = ScriptedModel(tool_call("log"), "All is well.")
        >>> large = LargeResultMiddleware(limit=1_000, head=100)
        >>> agent = create_agent(model, [log], middleware=[large], store=InMemoryStore())
        >>> result = agent.invoke({"messages": "How is it going?"})["messages"][2].text
        >>> len(result) < 500, "of 130000 characters" in result
        (True, True)
    """

    state_schema = LargeResultState  # type: ignore[assignment] # a subclass of the bound, which mypy cannot see here

    def __init__(
        self,
        *,
        limit: int = 20_000,
        head: int = 2_000,
        read: int = 8_000,
        folder: str | Path | None = None,
        ttl: float | None = None,
        tools: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        tool_name: str = "read_result",
    ) -> None:
        super().__init__()
        for name, given, least in (("limit", limit, 1), ("head", head, 0), ("read", read, 1)):
            _check_size(name, given, least)
        if head > limit:
            raise ConfigurationError(f"head={head} is more than limit={limit}; a result is cut to be shorter.")
        if ttl is not None and folder is not None:
            raise ConfigurationError("ttl is for results in a store; files in a folder are deleted by its owner.")
        self.limit, self.head, self.read, self.ttl = limit, head, read, ttl
        self.folder = None if folder is None else Path(folder).absolute()
        self.only = None if tools is None else _names("tools", tools)
        self.exclude = _names("exclude", exclude) | {tool_name}
        self.tool_name = tool_name
        self.tools = [self._reading_tool()]

    @hook_config(inline=True)
    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Name the scope of the thread's results.

        Raises:
            ConfigurationError: there is no place to keep them.
        """
        _keeping(self.folder, self.ttl, runtime.store)
        scope = state.get("large_results_scope")
        return None if is_scope(scope) else {"large_results_scope": secrets.token_hex(16)}

    @hook_config(inline=True)
    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As `before_model`, for async runs: there is nothing to wait for, so no thread is taken."""
        return self.before_model(state, runtime)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> ToolResult:
        """Run the tool, and cut its result.

        Args:
            request: the call.
            handler: runs the tool.

        Returns:
            What the handler gave, with the beginning of every text that is too long.
        """

        def answer(asked: Any) -> Any:
            return asked.where.put(asked.scope, asked.id, asked.text) if isinstance(asked, _Keep) else handler(asked)

        result: ToolResult = drive(self._cut(request), answer)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> ToolResult:
        """As `wrap_tool_call`, for async runs."""

        async def answer(asked: Any) -> Any:
            if isinstance(asked, _Keep):
                return await asked.where.aput(asked.scope, asked.id, asked.text)
            return await handler(asked)

        result: ToolResult = await adrive(self._cut(request), answer)
        return result

    def _cut(self, request: ToolCallRequest) -> Generator[Any, Any, ToolResult]:
        result: ToolResult = yield request
        name = request.tool_call["name"]
        if name in self.exclude or (self.only is not None and name not in self.only):
            return result
        scope = request.state.get("large_results_scope") if isinstance(request.state, dict) else None
        if not is_scope(scope):
            return result
        for message in messages_in(result):
            text = text_of(message)
            if len(text) <= self.limit:
                continue
            keep = _Keep(_keeping(self.folder, self.ttl, request.runtime.store), str(scope), id_of(message, text), text)
            try:
                yield keep
            except Exception:  # noqa: BLE001 - whatever a store raises; interrupts never reach a flow
                _log.warning(
                    "The large result of the tool %r could not be kept, so it stays whole.", name, exc_info=True
                )
                continue
            result = replaced(result, message, self._shown(message, keep))
        return result

    def _shown(self, message: ToolMessage, keep: _Keep) -> ToolMessage:
        """The message with the beginning in place of the text."""
        start = up_to_line(keep.text, self.head)
        told = _CONTINUED.format(
            left=len(keep.text) - len(start), size=len(keep.text), tool=self.tool_name, id=keep.id, offset=len(start)
        )
        return message.model_copy(update={"content": with_text(message.content, start + told)})

    def _reading_tool(self) -> BaseTool:
        folder, ttl, read = self.folder, self.ttl, self.read

        def read_result(
            runtime: ToolRuntime,
            id: _Id,  # noqa: A002 - the word that the model reads
            offset: _Offset = 0,
            find: _Find = "",
        ) -> str:
            """Read on."""
            scope = _asked_scope(runtime, id)
            return part(_keeping(folder, ttl, runtime.store).get(scope, id), id, offset, find, read)

        async def aread_result(
            runtime: ToolRuntime,
            id: _Id,  # noqa: A002 - the word that the model reads
            offset: _Offset = 0,
            find: _Find = "",
        ) -> str:
            """Read on."""
            scope = _asked_scope(runtime, id)
            return part(await _keeping(folder, ttl, runtime.store).aget(scope, id), id, offset, find, read)

        return StructuredTool.from_function(
            read_result, coroutine=aread_result, name=self.tool_name, description=READ_TOOL_DESCRIPTION
        )


def _asked_scope(runtime: ToolRuntime[Any, Any], given: str) -> str:
    scope = runtime.state.get("large_results_scope")
    if is_scope(scope) and is_id(given):
        return str(scope)
    raise ToolException(f"{given[:50]!r} is no id of a kept result. An id stands at the end of a result that was cut.")


def _keeping(folder: Path | None, ttl: float | None, store: Any) -> Keeping:
    if folder is not None:
        return FolderKeeping(folder)
    if store is None:
        raise ConfigurationError(
            "LargeResultMiddleware has no place to keep results. Give create_agent a store=, or it a folder=."
        )
    if ttl is not None and not getattr(store, "supports_ttl", False):
        raise ConfigurationError(
            f"ttl={ttl} is given, but {type(store).__name__} cannot forget by itself. Leave ttl out, or take a store "
            "that can."
        )
    return StoreKeeping(store, ttl)


def _check_size(name: str, given: Any, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ConfigurationTypeError(f"{name} is {repr(given)[:100]}; expected was a number of characters.")
    if given < least:
        raise ConfigurationError(f"{name}={given}; expected was {least} or more characters.")


def _names(name: str, given: Any) -> frozenset[str]:
    # A text is a sequence of texts too, of its letters.
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(one, str) for one in given):
        raise ConfigurationTypeError(f"{name} is {repr(given)[:100]}; expected was a list of the names of tools.")
    return frozenset(given)
