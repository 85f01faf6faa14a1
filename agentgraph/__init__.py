"""agentgraph: a graph-based agent runtime on LangGraph.

The public names, each loaded when it is first used (PEP 562), so that `import agentgraph` costs next to nothing.

Example:
    >>> from agentgraph import create_agent
    >>> from agentgraph.testing import ScriptedModel
    >>> agent = create_agent(ScriptedModel(replies=["Hello!"]))
    >>> agent.invoke({"messages": "hi"})["messages"][-1].text
    'Hello!'
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.prebuilt import ToolRuntime as ToolRuntime

    from agentgraph.agent import create_agent as create_agent
    from agentgraph.errors import AgentGraphError as AgentGraphError
    from agentgraph.errors import AuthenticationError as AuthenticationError
    from agentgraph.errors import BadRequestError as BadRequestError
    from agentgraph.errors import ConfigurationError as ConfigurationError
    from agentgraph.errors import ConfigurationTypeError as ConfigurationTypeError
    from agentgraph.errors import ContentFilterError as ContentFilterError
    from agentgraph.errors import ContextOverflowError as ContextOverflowError
    from agentgraph.errors import EmptyTurnError as EmptyTurnError
    from agentgraph.errors import InvalidResponseError as InvalidResponseError
    from agentgraph.errors import MalformedToolCallError as MalformedToolCallError
    from agentgraph.errors import MissingToolCallError as MissingToolCallError
    from agentgraph.errors import ModelConnectionError as ModelConnectionError
    from agentgraph.errors import ModelError as ModelError
    from agentgraph.errors import ModelNotFoundError as ModelNotFoundError
    from agentgraph.errors import ModelTimeoutError as ModelTimeoutError
    from agentgraph.errors import OverloadedError as OverloadedError
    from agentgraph.errors import QuotaError as QuotaError
    from agentgraph.errors import RateLimitError as RateLimitError
    from agentgraph.errors import RepeatedToolCallError as RepeatedToolCallError
    from agentgraph.errors import RunError as RunError
    from agentgraph.errors import ServerError as ServerError
    from agentgraph.errors import ToolTimeoutError as ToolTimeoutError
    from agentgraph.errors import TruncatedStreamError as TruncatedStreamError
    from agentgraph.hooks import AgentMiddleware as AgentMiddleware
    from agentgraph.models import init_chat_model as init_chat_model
    from agentgraph.state import AgentState as AgentState
    from agentgraph.structured_output import MissingStructuredOutputError as MissingStructuredOutputError
    from agentgraph.structured_output import MultipleStructuredOutputsError as MultipleStructuredOutputsError
    from agentgraph.structured_output import StructuredOutputError as StructuredOutputError
    from agentgraph.structured_output import StructuredOutputValidationError as StructuredOutputValidationError
    from agentgraph.tools import tool as tool

_ERRORS = (
    "AgentGraphError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "ConfigurationTypeError",
    "ContentFilterError",
    "ContextOverflowError",
    "EmptyTurnError",
    "InvalidResponseError",
    "MalformedToolCallError",
    "MissingToolCallError",
    "ModelConnectionError",
    "ModelError",
    "ModelNotFoundError",
    "ModelTimeoutError",
    "OverloadedError",
    "QuotaError",
    "RateLimitError",
    "RepeatedToolCallError",
    "RunError",
    "ServerError",
    "ToolTimeoutError",
    "TruncatedStreamError",
)

_STRUCTURED_ERRORS = (
    "MissingStructuredOutputError",
    "MultipleStructuredOutputsError",
    "StructuredOutputError",
    "StructuredOutputValidationError",
)

_WHERE = {
    "AgentMiddleware": "agentgraph.hooks",
    "AgentState": "agentgraph.state",
    "ToolRuntime": "langgraph.prebuilt",
    "create_agent": "agentgraph.agent",
    "init_chat_model": "agentgraph.models",
    "tool": "agentgraph.tools",
    **dict.fromkeys(_ERRORS, "agentgraph.errors"),
    **dict.fromkeys(_STRUCTURED_ERRORS, "agentgraph.structured_output"),
}

__version__ = "0.1.0"

__all__ = [
    "AgentGraphError",
    "AgentMiddleware",
    "AgentState",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "ConfigurationTypeError",
    "ContentFilterError",
    "ContextOverflowError",
    "EmptyTurnError",
    "InvalidResponseError",
    "MalformedToolCallError",
    "MissingStructuredOutputError",
    "MissingToolCallError",
    "ModelConnectionError",
    "ModelError",
    "ModelNotFoundError",
    "ModelTimeoutError",
    "MultipleStructuredOutputsError",
    "OverloadedError",
    "QuotaError",
    "RateLimitError",
    "RepeatedToolCallError",
    "RunError",
    "ServerError",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolRuntime",
    "ToolTimeoutError",
    "TruncatedStreamError",
    "create_agent",
    "init_chat_model",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentgraph' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value  # found once, then an ordinary attribute
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
