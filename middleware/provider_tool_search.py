"""Tool search at the provider: the model is sent short notes of many tools, and looks up those that it needs."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

from langchain_core.runnables import ensure_config
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool
from langgraph.typing import ContextT

from agentgraph.errors import ConfigurationError
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ModelRequest
from agentgraph.state import ResponseT, StateT

from ._retrying import names_of

__all__ = ["ProviderToolSearchMiddleware"]

_MARK: Final = "defer_loading"
_SEARCH: Final = "tool_search"
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
# https://developers.openai.com/api/docs/guides/tools-tool-search
_SEARCH_TOOLS: Final = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai": {"type": _SEARCH},
}
# How the names of the APIs (`_llm_type`) begin that have a search.
_KINDS: Final = {"anthropic": "anthropic", "openai-responses": "openai"}
_CHAT_COMPLETIONS: Final = "agentgraph.models.openai"
_KEPT_COPIES: Final = 1_000


class ProviderToolSearchMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Marks tools as ones that the model has to look up, and offers it the provider's own tool for that.

    For agents with many tools: what a request offers gets short, and the search runs at the provider, within the same
    model call. OpenAI's Responses API and Anthropic have it. A tool is marked if it is named here, or says so itself
    (`extras={"defer_loading": True}`). A search tool that the agent has already is not added a second time, so another
    kind of search can be chosen by giving it among the agent's tools.

    It stands around each model call, and changes the request alone: tools run as they did, and what the search found is
    kept in the messages, where the provider wants it again. A model whose API has no search is an error as soon as
    something is marked, because all tools sent at once is what was not wanted; where nothing is, every model passes.

    It adds nothing to the state. It costs no model calls and no steps of the graph; providers charge what the search
    reads as input.

    Args:
        searchable_tools: tools, or names of tools, to mark; None for those only that say so themselves.

    Raises:
        ConfigurationError: it is no list of tools and names; in a run, a name that is no tool of the request, or a
            model whose API has no search.

    Example:
        >>> from agentgraph.middleware import ModelRequest
        >>> from agentgraph.models.anthropic import ChatAnthropic
        >>> from agentgraph.tools import tool
        >>> @tool
        ... def orders(customer: str) -> str:
        ...     "List the orders of a customer."
        ...     return "none"
        >>> search = ProviderToolSearchMiddleware(searchable_tools=["orders"])
        >>> model = ChatAnthropic(model="claude-sonnet-4-5")
        >>> request = ModelRequest(model=model, messages=[], tools=[orders])
        >>> search.wrap_model_call(request, lambda sent: [getattr(one, "extras", one) for one in sent.tools])
        [{'defer_loading': True}, {'type': 'tool_search_tool_bm25_20251119', 'name': 'tool_search_tool_bm25'}]
    """

    def __init__(self, *, searchable_tools: Sequence[str | BaseTool | Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self.searchable_tool_names = names_of(searchable_tools if searchable_tools is not None else ()) or frozenset()
        # The same objects in each request, so that the model is bound to them once.
        self._search_tools = {provider: dict(tool) for provider, tool in _SEARCH_TOOLS.items()}
        self._copies: dict[int, tuple[Any, Any]] = {}

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Make the call with the marked tools and the search.

        Args:
            request: the call.

        Returns:
            The response.

        Raises:
            ConfigurationError: a name is no tool of the request, or the model's API has no search.
        """
        return (yield self._prepared(request))

    def _prepared(self, request: ModelRequest[ContextT]) -> ModelRequest[ContextT]:
        tools = list(request.tools)
        _check_known(self.searchable_tool_names, [_name_of(tool) for tool in tools])
        tools = [self._marked(tool) if _name_of(tool) in self.searchable_tool_names else tool for tool in tools]
        if not any(_is_marked(tool) for tool in tools):
            return request
        search = self._search_tools[_provider_of(request.model)]
        if not any(_is_search(tool) for tool in tools):
            tools.append(search)
        return request.override(tools=tools)

    def _marked(self, tool: Any) -> Any:
        """The tool with the mark; the same copy of it each time."""
        if _is_marked(tool):
            return tool
        original, copy = self._copies.get(id(tool), (None, None))
        # The original is kept beside, so that its identity cannot be given to another tool.
        if original is tool:
            return copy
        if isinstance(tool, BaseTool):
            copy = tool.model_copy(update={"extras": {**(tool.extras or {}), _MARK: True}})
        else:
            copy = {**tool, _MARK: True}
        self._copies[id(tool)] = (tool, copy)
        for oldest in list(self._copies)[:-_KEPT_COPIES]:
            self._copies.pop(oldest, None)
        return copy


def _name_of(tool: Any) -> str | None:
    """The name of a tool that can be looked up; None for what runs at the provider."""
    if isinstance(tool, BaseTool):
        return tool.name
    if not isinstance(tool, Mapping) or tool.get("type", "function") not in {"function", "custom"}:
        return None
    inner = tool.get("function")
    name = inner.get("name") if isinstance(inner, Mapping) else tool.get("name")
    return name if isinstance(name, str) else None


def _is_marked(tool: Any) -> bool:
    said = (tool.extras or {}) if isinstance(tool, BaseTool) else tool
    return isinstance(said, Mapping) and said.get(_MARK) is True


def _is_search(tool: Any) -> bool:
    return isinstance(tool, Mapping) and str(tool.get("type")).startswith(_SEARCH)


def _check_known(wanted: frozenset[str], names: Sequence[str | None]) -> None:
    unknown = sorted(wanted.difference(name for name in names if name))
    if unknown:
        known = ", ".join(name for name in names[:50] if name) or "none"
        raise ConfigurationError(
            f"searchable_tools names {unknown[0]!r}, which is no tool of this request; it has {known}. Correct the "
            "name, or give the agent the tool."
        )


def _provider_of(model: Any) -> str:
    """The provider whose search a model has.

    Raises:
        ConfigurationError: it has none.
    """
    real = _real(model)
    if any(cls.__module__ == _CHAT_COMPLETIONS for cls in type(real).__mro__):
        raise ConfigurationError(
            f"{type(real).__name__} speaks Chat Completions, which has no tool search. Take OpenAI's Responses API: "
            "'openai_responses:...' in place of 'openai:...'."
        )
    kind = str(getattr(real, "_llm_type", ""))
    found = next((provider for name, provider in _KINDS.items() if kind.startswith(name)), None) or _declared(real)
    if found in _SEARCH_TOOLS:
        return found
    raise ConfigurationError(
        f"Tools are marked to be looked up, and {type(real).__name__} ({found or 'of an unknown provider'}) has no "
        "search for them. Take a model of Anthropic or of OpenAI's Responses API, or LLMToolSelectorMiddleware, which "
        "works with every model; or take the marks away."
    )


def _declared(model: Any) -> str:
    """The provider that a model says it is of, for tracers; "" where it says nothing."""
    declare = getattr(model, "_get_ls_params", None)
    declared = declare() if callable(declare) else None
    said = declared.get("ls_provider") if isinstance(declared, Mapping) else None
    return said.lower().replace("-", "_") if isinstance(said, str) else ""


def _real(model: Any) -> Any:
    """The chat model that a binding holds, or that the config of the run chooses."""
    # Such a model is made anew for each config: our own says `_resolve`, LangChain's `_model`.
    for name in ("_resolve", "_model"):
        resolve = getattr(type(model), name, None)
        if callable(resolve):
            model = resolve(model, ensure_config())
            break
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model
