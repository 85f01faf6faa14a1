"""Tools: what a model can call.

The names users need, each loaded when it is first used (PEP 562). `tool` and the base classes are langchain-core's, the
injection marks and `ToolRuntime` are langgraph's, `ToolNode` is this package's own.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool as BaseTool
    from langchain_core.tools import InjectedToolArg as InjectedToolArg
    from langchain_core.tools import InjectedToolCallId as InjectedToolCallId
    from langchain_core.tools import ToolException as ToolException
    from langchain_core.tools import tool as tool
    from langgraph.prebuilt import InjectedState as InjectedState
    from langgraph.prebuilt import InjectedStore as InjectedStore
    from langgraph.prebuilt import ToolRuntime as ToolRuntime
    from langgraph.prebuilt import tools_condition as tools_condition
    from langgraph.prebuilt.tool_node import ToolCallRequest as ToolCallRequest
    from langgraph.prebuilt.tool_node import ToolInvocationError as ToolInvocationError

    from agentgraph.tools.node import ToolNode as ToolNode

_WHERE = {
    "BaseTool": "langchain_core.tools",
    "InjectedState": "langgraph.prebuilt",
    "InjectedStore": "langgraph.prebuilt",
    "InjectedToolArg": "langchain_core.tools",
    "InjectedToolCallId": "langchain_core.tools",
    "ToolCallRequest": "langgraph.prebuilt.tool_node",
    "ToolException": "langchain_core.tools",
    "ToolInvocationError": "langgraph.prebuilt.tool_node",
    "ToolNode": "agentgraph.tools.node",
    "ToolRuntime": "langgraph.prebuilt",
    "tool": "langchain_core.tools",
    "tools_condition": "langgraph.prebuilt",
}

__all__ = [
    "BaseTool",
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "ToolCallRequest",
    "ToolException",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "tool",
    "tools_condition",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentgraph.tools' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value  # found once, then an ordinary attribute
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
