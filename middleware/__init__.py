"""The public door to middleware: the contract, and the catalogue of ready-made entries.

Everything is imported from here: `from agentgraph.middleware import AgentMiddleware`.
"""

from langgraph.runtime import Runtime
from langgraph.types import TracePolicy, omit_payload
from langgraph.typing import ContextT

from agentgraph.decorators import (
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from agentgraph.hooks import AgentMiddleware, Pause
from agentgraph.requests import (
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
    ToolCallWrapper,
)
from agentgraph.state import (
    AgentState,
    InputAgentState,
    JumpTo,
    OmitFromInput,
    OmitFromOutput,
    OmitFromSchema,
    OutputAgentState,
    PrivateStateAttr,
    ResponseT,
    StateT,
    StateT_co,
)
from agentgraph.tracing import configure_trace_policy

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "ContextT",
    "ExtendedModelResponse",
    "InputAgentState",
    "JumpTo",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "Pause",
    "PrivateStateAttr",
    "ResponseT",
    "Runtime",
    "StateT",
    "StateT_co",
    "ToolCallRequest",
    "ToolCallWrapper",
    "TracePolicy",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "configure_trace_policy",
    "dynamic_prompt",
    "hook_config",
    "omit_payload",
    "wrap_model_call",
    "wrap_tool_call",
]
