"""From the arguments of `create_agent` to an AgentPlan: all validation, with errors that name the fix."""

import difflib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_origin

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.prebuilt import ToolCallTransformer
from langgraph.store.base import BaseStore
from langgraph.types import CachePolicy, RetryPolicy, TimeoutPolicy

from agentgraph.composing import has_hook
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.hooks import HOOKS, AgentMiddleware, check_hooks
from agentgraph.models import init_chat_model
from agentgraph.state import AgentState, StateSchemas, merge_schemas
from agentgraph.structured_output import ResponsePlan
from agentgraph.subagents import SubagentTransformer
from agentgraph.tools.failures import OnToolError, check_policy
from agentgraph.tools.prepare import PreparedTool, prepare

__all__ = ["AgentPlan", "NodePolicies", "check_nodes", "check_surroundings", "make_plan"]

MODEL_NODE = "model"
TOOLS_NODE = "tools"

# langgraph builds namespaces and names of checkpoints with these.
_RESERVED = ("|", ":")


@dataclass(frozen=True)
class NodePolicies:
    """langgraph's policies by node; the key "" stands for the model and the tools, which do the I/O.

    Attributes:
        retry: RetryPolicy, or a sequence of these.
        timeout: seconds, timedelta or TimeoutPolicy; langgraph holds it in async runs only.
        cache: CachePolicy.
    """

    retry: Mapping[str, Any]
    timeout: Mapping[str, Any]
    cache: Mapping[str, Any]

    def of(self, node: str) -> dict[str, Any]:
        """The keyword arguments for `add_node` of this node."""
        chosen = {"retry_policy": self.retry, "timeout": self.timeout, "cache_policy": self.cache}
        default = "" if node in {MODEL_NODE, TOOLS_NODE} else node
        return {
            name: value
            for name, policies in chosen.items()
            if (value := policies.get(node, policies.get(default))) is not None
        }


@dataclass(frozen=True)
class AgentPlan:
    """What an agent is made of, checked and complete.

    Attributes:
        model: the chat model.
        system_message: put before the conversation in each request, None for none.
        tools: the tools the agent runs itself, by name.
        provider_tools: tools that the provider runs, as dicts.
        middleware: in the user's order.
        names: the name of each middleware in this agent, each once.
        schemas: of state, input and output.
        context_schema: of the run's context, None for none.
        response: of the structured answer, None for none.
        tool_protocol: how tool calls are written as text, None for native tool calling.
        on_tool_error: what happens when a tool fails.
        policies: langgraph's policies by node.
        transformers: factories of stream transformers, in order, each once.
        name: the agent's name, None for none.
    """

    model: Any
    system_message: SystemMessage | None
    tools: Mapping[str, PreparedTool]
    provider_tools: tuple[dict[str, Any], ...]
    middleware: tuple[Any, ...]
    names: tuple[str, ...]
    schemas: StateSchemas
    context_schema: type[Any] | None
    response: ResponsePlan | None
    tool_protocol: Any
    on_tool_error: OnToolError
    policies: NodePolicies
    transformers: tuple[Callable[..., Any], ...]
    name: str | None

    @property
    def wraps_tools(self) -> bool:
        """Whether a middleware stands around tool calls, and so may run tools that nobody registered."""
        return any(has_hook(one, HOOKS["wrap_tool_call"]) for one in self.middleware)

    @property
    def wraps_model(self) -> bool:
        """Whether a middleware stands around model calls, and so may change the model."""
        return any(has_hook(one, HOOKS["wrap_model_call"]) for one in self.middleware)


def make_plan(
    model: Any,
    tools: Any,
    *,
    system_prompt: Any = None,
    middleware: Any = (),
    response_format: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    tool_protocol: Any = None,
    on_tool_error: Any = "return",
    retry_policy: Any = None,
    timeout: Any = None,
    cache_policy: Any = None,
    transformers: Any = None,
    name: Any = None,
) -> AgentPlan:
    """Check the arguments of `create_agent` and bring them into one form.

    Raises:
        ConfigurationError: an argument cannot work; the text says which, why, and what to do.
    """
    mounted = _middleware(middleware)
    client, provider = _tools(tools, mounted)
    response = ResponsePlan.of(response_format)
    _check_names(client, response)
    base_schema = AgentState if state_schema is None else state_schema
    return AgentPlan(
        model=_model(model),
        system_message=_system_message(system_prompt),
        tools=client,
        provider_tools=provider,
        middleware=mounted,
        names=_names(mounted),
        schemas=merge_schemas([*(getattr(one, "state_schema", AgentState) for one in mounted), base_schema]),
        context_schema=_context_schema(context_schema),
        response=response,
        tool_protocol=tool_protocol,
        on_tool_error=check_policy(on_tool_error),
        policies=NodePolicies(
            retry=_by_node("retry_policy", retry_policy, RetryPolicy),
            timeout=_by_node("timeout", timeout, int, float, timedelta, TimeoutPolicy),
            cache=_by_node("cache_policy", cache_policy, CachePolicy),
        ),
        transformers=_transformers(mounted, transformers),
        name=_name(name),
    )


def _model(model: Any) -> Any:
    if isinstance(model, str):
        return init_chat_model(model)
    if isinstance(model, type):
        raise ConfigurationTypeError(
            f"model is the class {model.__name__}; expected was a chat model object. Make one: {model.__name__}(...)."
        )
    text_only = isinstance(model, BaseLanguageModel) and not isinstance(model, BaseChatModel)
    if text_only or not hasattr(model, "invoke") or not hasattr(model, "ainvoke"):
        raise ConfigurationTypeError(
            f"model is of the type {type(model).__name__}; expected was a chat model, or a name such as 'openai:gpt-5' "
            "or 'local:smollm2'."
        )
    return model


def _system_message(prompt: Any) -> SystemMessage | None:
    if prompt is None or isinstance(prompt, SystemMessage):
        return prompt
    if isinstance(prompt, str):
        return SystemMessage(content=prompt)
    raise ConfigurationTypeError(
        f"system_prompt is {type(prompt).__name__}; expected was a str or a SystemMessage. "
        "For a prompt that depends on the run, use the decorator agentgraph.middleware.dynamic_prompt."
    )


def _middleware(middleware: Any) -> tuple[Any, ...]:
    if isinstance(middleware, AgentMiddleware | str) or not isinstance(middleware, Iterable):
        raise ConfigurationTypeError(f"middleware is {middleware!r:.200}; expected was a list. Write middleware=[...].")
    mounted = tuple(middleware)
    for position, one in enumerate(mounted):
        _check_middleware(one)
        check_hooks(one)
        if any(one is other for other in mounted[:position]):
            raise ConfigurationError(
                f"The middleware object {_name_of(one)!r} is mounted twice; mount it once, or make a second object."
            )
    return mounted


def _check_middleware(one: Any) -> None:
    if isinstance(one, type):
        raise ConfigurationTypeError(
            f"middleware holds the class {one.__name__}; expected was an object of it. Write {one.__name__}(...)."
        )
    if not all(hasattr(one, spec.name) for spec in HOOKS.values()):
        raise ConfigurationTypeError(
            f"middleware holds {one!r:.200}, which is no middleware. Derive its class from AgentMiddleware, or turn a "
            "function into one with a decorator such as agentgraph.middleware.before_model."
        )


def _name_of(one: Any) -> str:
    return str(getattr(one, "name", type(one).__name__))


def _names(mounted: Sequence[Any]) -> tuple[str, ...]:
    """A name for each middleware; the second with one name is `Name#2`, and so on."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for one in mounted:
        name = _name_of(one)
        if not name or any(sign in name for sign in _RESERVED):
            raise ConfigurationError(
                f"A middleware is called {name!r}. Its name becomes part of node names, which must not be empty and "
                f"must not contain {' or '.join(map(repr, _RESERVED))}. Give it another `name`."
            )
        seen[name] += 1
        numbered = (name if number == 1 else f"{name}#{number}" for number in itertools.count(seen[name]))
        names.append(next(free for free in numbered if free not in names))
    return tuple(names)


def _tools(tools: Any, mounted: Sequence[Any]) -> tuple[dict[str, PreparedTool], tuple[dict[str, Any], ...]]:
    """The client-side tools by name (the middleware's first), and the provider tools."""
    brought = [tool for one in mounted for tool in _tool_list(getattr(one, "tools", None), f"{_name_of(one)}.tools")]
    given = [*brought, *_tool_list(tools, "tools")]
    client: dict[str, PreparedTool] = {}
    for tool in given:
        if isinstance(tool, dict):
            continue
        prepared = prepare(tool)
        known = client.get(prepared.tool.name)
        if known is not None and known.tool is not prepared.tool:
            raise ConfigurationError(_same_name(prepared.tool.name))
        client[prepared.tool.name] = prepared
    provider = tuple(tool for tool in given if isinstance(tool, dict))
    for tool in provider:
        if (name := tool.get("name") or (tool.get("function") or {}).get("name")) in client:
            raise ConfigurationError(_same_name(name))
    return client, provider


def _same_name(name: Any) -> str:
    return (
        f"Two tools are called {name!r}; the model could not tell which one it calls. "
        "Rename one, for instance with @tool('another_name')."
    )


def _tool_list(tools: Any, where: str) -> list[Any]:
    if tools is None:
        return []
    if hasattr(tools, "tools_by_name"):
        raise ConfigurationTypeError(
            f"{where} is a ToolNode; expected was the list of tools itself, since the agent builds its own tools node. "
            "Write tools=list(node.tools_by_name.values()); its error handling becomes on_tool_error=..."
        )
    if isinstance(tools, BaseTool | str | Mapping) or not isinstance(tools, Iterable):
        # The values of a provider tool may be secret, such as the headers of a server.
        given = f"a dict with the keys {list(tools)}" if isinstance(tools, Mapping) else f"{tools!r:.200}"
        raise ConfigurationTypeError(
            f"{where} is {given}; expected was a list of tools, functions or provider tools. Write tools=[...]."
        )
    return list(tools)


def _check_names(client: Mapping[str, PreparedTool], response: ResponsePlan | None) -> None:
    for name in response.declared if response else ():
        if name in client:
            raise ConfigurationError(
                f"The tool {name!r} and the schema {name!r} of response_format have one name; the model could not tell "
                "which one it calls. Rename the tool, or the schema's class or title."
            )


def _context_schema(schema: Any) -> Any:
    if schema is None or isinstance(get_origin(schema) or schema, type):
        return schema
    raise ConfigurationTypeError(
        f"context_schema is {schema!r:.200}; expected was a class: a dataclass, a TypedDict or a pydantic model. The "
        "context itself is given with each run: agent.invoke(..., context=...)."
    )


def _by_node(argument: str, policy: Any, *kinds: type[Any]) -> Mapping[str, Any]:
    if policy is None:
        return {}
    by_node = policy if isinstance(policy, Mapping) else {"": policy}
    for one in by_node.values():
        _check_policy(argument, one, kinds)
    return by_node


def _check_policy(argument: str, policy: Any, kinds: tuple[type[Any], ...]) -> None:
    several = argument == "retry_policy" and isinstance(policy, Sequence) and not isinstance(policy, str | RetryPolicy)
    for one in policy if several else (policy,):
        if not isinstance(one, kinds) or isinstance(one, bool):
            raise ConfigurationTypeError(
                f"{argument} is {one!r:.200}; expected was {_either(kinds)}, or a dict of these by node name."
            )
        if isinstance(one, int | float) and one <= 0:
            raise ConfigurationError(f"{argument} is {one!r}; expected were seconds above 0, or None for no limit.")


def check_nodes(plan: AgentPlan, nodes: Iterable[str]) -> None:
    """Refuse policies for nodes that the agent does not have.

    Raises:
        ConfigurationError: a policy names an unknown node.
    """
    policies = (plan.policies.retry, plan.policies.timeout, plan.policies.cache)
    _check_known_nodes("A policy", [name for one in policies for name in one if name], list(nodes))


def check_surroundings(
    nodes: Iterable[str],
    *,
    checkpointer: Any = None,
    store: Any = None,
    cache: Any = None,
    interrupt_before: Any = None,
    interrupt_after: Any = None,
) -> None:
    """Check what the graph is compiled with: where runs are kept, and where they pause.

    Args:
        nodes: the names of all nodes.
        checkpointer: langgraph's; True and False say whether a subgraph has one of its own.
        store: langgraph's.
        cache: langgraph's.
        interrupt_before: a list of nodes, "*" for all, None for none.
        interrupt_after: the same.

    Raises:
        ConfigurationError: an object of another type, or the name of an unknown node.
    """
    _check_kind("checkpointer", checkpointer, bool, BaseCheckpointSaver)
    _check_kind("store", store, BaseStore)
    _check_kind("cache", cache, BaseCache)
    known = list(nodes)
    for argument, names in (("interrupt_before", interrupt_before), ("interrupt_after", interrupt_after)):
        if names is None or names == "*":
            continue
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ConfigurationTypeError(
                f"{argument} is {names!r:.200}; expected was a list of node names, or '*' for all. "
                f"Write {argument}=[{names!r:.200}]."
            )
        _check_known_nodes("An interrupt", names, known)


def _check_known_nodes(what: str, names: Iterable[Any], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            raise ConfigurationError(
                f"{what} is given for the node {name!r}{f' (did you mean {near[0]!r}?)' if near else ''}; "
                f"this agent has {', '.join(known)}."
            )


def _check_kind(argument: str, value: Any, *kinds: type[Any]) -> None:
    if value is not None and not isinstance(value, kinds):
        raise ConfigurationTypeError(f"{argument} is {value!r:.200}; expected was {_either(kinds)}, or None.")


def _either(kinds: Iterable[type[Any]]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def _transformers(mounted: Sequence[Any], given: Any) -> tuple[Callable[..., Any], ...]:
    """Tool calls, subagents, the middleware's, the caller's; each factory once, by identity."""
    brought = [factory for one in mounted for factory in getattr(one, "transformers", ())]
    factories = [] if given is None else list(given) if isinstance(given, Iterable) else None
    if factories is None or not all(map(callable, factories)):
        raise ConfigurationTypeError(
            f"transformers is {given!r:.200}; expected was a list of factories, each called as factory(scope)."
        )
    ordered = [ToolCallTransformer, SubagentTransformer, *brought, *factories]
    return tuple(factory for n, factory in enumerate(ordered) if not any(factory is other for other in ordered[:n]))


def _name(name: Any) -> str | None:
    if name is None or (isinstance(name, str) and name and not any(sign in name for sign in _RESERVED)):
        return name
    raise ConfigurationError(
        f"name is {name!r:.200}; expected was a str that is not empty and has none of {' '.join(_RESERVED)} in it."
    )
