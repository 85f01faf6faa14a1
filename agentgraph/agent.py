"""The front door: `create_agent`, an outline that reads like the picture of a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

ResponseT = TypeVar("ResponseT")

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import SystemMessage
    from langchain_core.tools import BaseTool
    from langgraph.cache.base import BaseCache
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore
    from langgraph.types import CachePolicy, Checkpointer, RetryPolicy, TimeoutPolicy
    from langgraph.typing import ContextT

    from agentgraph.hooks import AgentMiddleware, MiddlewareLike
    from agentgraph.protocols import TextProtocol
    from agentgraph.state import AgentState, InputAgentState, OutputAgentState
    from agentgraph.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
    from agentgraph.tools.failures import OnToolError

    Format = ToolStrategy[ResponseT] | ProviderStrategy[ResponseT] | AutoStrategy[ResponseT]

__all__ = ["create_agent"]

RECURSION_LIMIT = 9999
"""langgraph's limit of supersteps; what stops a run that does not get on are the rules of `agentgraph.progress`."""


@overload
def create_agent(
    model: "str | BaseChatModel",
    tools: "Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None" = None,
    *,
    system_prompt: "str | SystemMessage | None" = None,
    middleware: "Sequence[AgentMiddleware[Any, Any, Any] | MiddlewareLike]" = (),
    response_format: "Format[ResponseT] | type[ResponseT]",
    state_schema: "type[AgentState[Any]] | None" = None,
    context_schema: "type[ContextT] | None" = None,
    checkpointer: "Checkpointer" = None,
    store: "BaseStore | None" = None,
    interrupt_before: "list[str] | Literal['*'] | None" = None,
    interrupt_after: "list[str] | Literal['*'] | None" = None,
    debug: bool = False,
    name: str | None = None,
    cache: "BaseCache[Any] | None" = None,
    transformers: "Sequence[Callable[..., Any]] | None" = None,
    tool_protocol: "str | TextProtocol | None" = None,
    on_tool_error: "OnToolError" = "return",
    retry_policy: "RetryPolicy | Sequence[RetryPolicy] | Mapping[str, Any] | None" = None,
    timeout: "float | TimeoutPolicy | Mapping[str, Any] | None" = None,
    cache_policy: "CachePolicy[Any] | Mapping[str, Any] | None" = None,
) -> "CompiledStateGraph[AgentState[ResponseT], ContextT, InputAgentState, OutputAgentState[ResponseT]]": ...
@overload
def create_agent(
    model: "str | BaseChatModel",
    tools: "Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None" = None,
    *,
    system_prompt: "str | SystemMessage | None" = None,
    middleware: "Sequence[AgentMiddleware[Any, Any, Any] | MiddlewareLike]" = (),
    response_format: "dict[str, Any] | None" = None,
    state_schema: "type[AgentState[Any]] | None" = None,
    context_schema: "type[ContextT] | None" = None,
    checkpointer: "Checkpointer" = None,
    store: "BaseStore | None" = None,
    interrupt_before: "list[str] | Literal['*'] | None" = None,
    interrupt_after: "list[str] | Literal['*'] | None" = None,
    debug: bool = False,
    name: str | None = None,
    cache: "BaseCache[Any] | None" = None,
    transformers: "Sequence[Callable[..., Any]] | None" = None,
    tool_protocol: "str | TextProtocol | None" = None,
    on_tool_error: "OnToolError" = "return",
    retry_policy: "RetryPolicy | Sequence[RetryPolicy] | Mapping[str, Any] | None" = None,
    timeout: "float | TimeoutPolicy | Mapping[str, Any] | None" = None,
    cache_policy: "CachePolicy[Any] | Mapping[str, Any] | None" = None,
) -> "CompiledStateGraph[AgentState[Any], ContextT, InputAgentState, OutputAgentState[Any]]": ...
def create_agent(  # noqa: PLR0913 - the public contract names these
    model: "str | BaseChatModel",
    tools: "Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None" = None,
    *,
    system_prompt: "str | SystemMessage | None" = None,
    middleware: "Sequence[AgentMiddleware[Any, Any, Any] | MiddlewareLike]" = (),
    response_format: Any = None,
    state_schema: "type[AgentState[Any]] | None" = None,
    context_schema: "type[ContextT] | None" = None,
    checkpointer: "Checkpointer" = None,
    store: "BaseStore | None" = None,
    interrupt_before: "list[str] | Literal['*'] | None" = None,
    interrupt_after: "list[str] | Literal['*'] | None" = None,
    debug: bool = False,
    name: str | None = None,
    cache: "BaseCache[Any] | None" = None,
    transformers: "Sequence[Callable[..., Any]] | None" = None,
    tool_protocol: "str | TextProtocol | None" = None,
    on_tool_error: "OnToolError" = "return",
    retry_policy: "RetryPolicy | Sequence[RetryPolicy] | Mapping[str, Any] | None" = None,
    timeout: "float | TimeoutPolicy | Mapping[str, Any] | None" = None,
    cache_policy: "CachePolicy[Any] | Mapping[str, Any] | None" = None,
) -> "CompiledStateGraph[AgentState[Any], ContextT, InputAgentState, OutputAgentState[Any]]":
    """Build an agent: a graph that calls the model, runs the tools it asks for, and goes on until there is an answer.

    ::

        START -> before_agent -> before_model -> model -> after_model -> tools -> (before_model ...)
                                                                      -> after_agent -> END

    Args:
        model: a chat model, or a name such as "openai:gpt-5" or "local:smollm2".
        tools: functions, BaseTools, or dicts (tools that the provider runs). None or empty: no tools.
        system_prompt: put before the conversation in each request.
        middleware: what stands around the model and the tools; the first is the outermost. Objects of classes written
            for LangChain's AgentMiddleware are taken as they are.
        response_format: a schema or strategy of the structured answer, found in `structured_response`.
        state_schema: fields of your own in the state; derive it from AgentState.
        context_schema: the type of the run's context (`invoke(..., context=...)`).
        checkpointer: keeps threads, so that they can be resumed; needed for approvals.
        store: memory across threads, reachable from tools and hooks.
        interrupt_before: nodes before which the run pauses.
        interrupt_after: nodes after which the run pauses.
        debug: langgraph prints each step.
        name: of the graph; put on each message of the model, and marks the agent as a subagent inside others.
        cache: where langgraph caches nodes that have a `cache_policy`.
        transformers: factories of stream transformers, after the agent's own and the middleware's.
        tool_protocol: tool calls as text, for models without native tool calling: "json", or a TextProtocol.
        on_tool_error: "return" (default) tells the model about a failing tool; "raise" ends the run with the tool's
            exception; a function `(error, request)` gives the text or ToolMessage to tell, or None to raise.
        retry_policy: langgraph's, for the model and the tools; or a dict by node name. With on_tool_error="return" a
            tool's error is told to the model inside the node, so that a policy on the tools never sees one.
        timeout: of one attempt of a node, in seconds, for the model and the tools; or a dict by node name. It needs
            async runs: langgraph refuses a sync one. A tool's own limit is `metadata={"timeout": seconds}`.
        cache_policy: langgraph's, for the model and the tools; or a dict by node name.

    Returns:
        A compiled graph with `invoke`, `ainvoke`, `stream`, `astream` and the rest of langgraph's interface.

    Raises:
        ConfigurationError: an argument cannot work; the text says which, why, and what to do.

    Example:
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> def weather(city: str) -> str:
        ...     "The weather of a city."
        ...     return f"sunny in {city}"
        >>> agent = create_agent(ScriptedModel(replies=[[tool_call("weather", city="Rome")], "Sunny."]), [weather])
        >>> agent.invoke({"messages": "How is Rome?"})["messages"][-1].text
        'Sunny.'
    """
    # Loaded here, so that importing create_agent costs next to nothing; langgraph alone takes most of a second.
    from agentgraph.graph import build, collect_stations, fit_to_saver, lay_route  # noqa: PLC0415 - see above
    from agentgraph.guards import warn_of_unknown  # noqa: PLC0415 - see above
    from agentgraph.nodes.direct import make_direct  # noqa: PLC0415 - see above
    from agentgraph.plan import check_surroundings, make_plan  # noqa: PLC0415 - see above
    from agentgraph.runs.compiled import AgentGraph, approver  # noqa: PLC0415 - see above
    from agentgraph.state import shown_fields  # noqa: PLC0415 - see above

    plan = make_plan(
        model,
        tools,
        system_prompt=system_prompt,
        middleware=middleware,
        response_format=response_format,
        state_schema=state_schema,
        context_schema=context_schema,
        tool_protocol=tool_protocol,
        on_tool_error=on_tool_error,
        retry_policy=retry_policy,
        timeout=timeout,
        cache_policy=cache_policy,
        transformers=transformers,
        name=name,
    )
    warn_of_unknown(plan.middleware, plan.tools)
    stations = collect_stations(plan)
    route = lay_route(plan, stations)
    graph = build(plan, stations, route)
    check_surroundings(
        graph.nodes,
        checkpointer=checkpointer,
        store=store,
        cache=cache,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
    )
    fit_to_saver(graph, plan, checkpointer)
    compiled = graph.compile(
        checkpointer=checkpointer,
        store=store,
        cache=cache,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name,
        transformers=plan.transformers,
    )
    make_direct(compiled.nodes[name] for name in graph.nodes)
    compiled.stream_channels = shown_fields(compiled.channels)
    agent = AgentGraph.of(compiled, approves=approver(plan.middleware, plan.names))
    return agent.with_config(recursion_limit=RECURSION_LIMIT, metadata=_metadata(name))


def _metadata(name: str | None) -> dict[str, Any]:
    return {"ls_integration": "agentgraph", **({"lc_agent_name": name} if name else {})}
