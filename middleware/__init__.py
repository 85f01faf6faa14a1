"""The public door to middleware: the contract, and the ready-made entries that there are.

Everything is imported from here: `from agentgraph.middleware import AgentMiddleware`. The file of an entry is loaded
when one of its names is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .approval_policy import (
        ApprovalGrant,
        ApprovalPolicyMiddleware,
        ApprovalPolicyState,
        ApprovalRule,
        ApprovalVerdict,
        Argument,
        Caller,
    )
    from .auto_mode import AutoModeMiddleware, ClassificationError
    from .budget import (
        Budget,
        BudgetExceededError,
        BudgetKey,
        BudgetMiddleware,
        BudgetState,
        Degrade,
        Price,
        Usage,
        usage_of,
    )
    from .context_editing import ClearToolUsesEdit, ContextEdit, ContextEditingMiddleware
    from .file_search import FilesystemFileSearchMiddleware
    from .human_in_the_loop import (
        Action,
        ActionRequest,
        ApproveDecision,
        Decision,
        DecisionType,
        EditDecision,
        HITLRequest,
        HITLResponse,
        HumanInTheLoopMiddleware,
        InterruptMode,
        InterruptOnConfig,
        RejectDecision,
        RespondDecision,
        ReviewConfig,
        ToolApprovalRequest,
    )
    from .internal_calls import INTERNAL_CALL_METADATA_KEY, InternalCallTransformer, internal_call_metadata
    from .large_results import LargeResultMiddleware, LargeResultState
    from .model_call_limit import ModelCallLimitExceededError, ModelCallLimitMiddleware, ModelCallLimitState
    from .model_fallback import ModelFallbackMiddleware
    from .model_refusal import ModelRefusalMiddleware
    from .model_retry import ModelRetryMiddleware
    from .model_router import ModelChoice, ModelRouterMiddleware, ModelRouterState
    from .pii import (
        PIIDetectionError,
        PIIMatch,
        PIIMiddleware,
        RedactionRule,
        detect_credit_card,
        detect_email,
        detect_ip,
        detect_mac_address,
        detect_url,
    )
    from .provider_tool_search import ProviderToolSearchMiddleware
    from .shell import (
        BaseExecutionPolicy,
        CodexSandboxExecutionPolicy,
        DockerExecutionPolicy,
        HostExecutionPolicy,
        ShellStartError,
        ShellToolMiddleware,
        ShellToolState,
    )
    from .summarization import (
        DEFAULT_SUMMARY_PROMPT,
        ContextSize,
        SummarizationMiddleware,
        Summarizer,
        TokenCounter,
        TriggerClause,
    )
    from .todo import PlanningState, Todo, TodoListMiddleware, write_todos
    from .tool_call_limit import ToolCallLimitExceededError, ToolCallLimitMiddleware, ToolCallLimitState
    from .tool_emulator import LLMToolEmulator
    from .tool_error import ToolErrorMiddleware
    from .tool_retry import ToolRetryMiddleware
    from .tool_selection import LLMToolSelectorMiddleware, ToolSelectionError

__all__ = [
    "DEFAULT_SUMMARY_PROMPT",
    "INTERNAL_CALL_METADATA_KEY",
    "Action",
    "ActionRequest",
    "AgentMiddleware",
    "AgentState",
    "ApprovalGrant",
    "ApprovalPolicyMiddleware",
    "ApprovalPolicyState",
    "ApprovalRule",
    "ApprovalVerdict",
    "ApproveDecision",
    "Argument",
    "AutoModeMiddleware",
    "BaseExecutionPolicy",
    "Budget",
    "BudgetExceededError",
    "BudgetKey",
    "BudgetMiddleware",
    "BudgetState",
    "Caller",
    "ClassificationError",
    "ClearToolUsesEdit",
    "CodexSandboxExecutionPolicy",
    "ContextEdit",
    "ContextEditingMiddleware",
    "ContextSize",
    "ContextT",
    "Decision",
    "DecisionType",
    "Degrade",
    "DockerExecutionPolicy",
    "EditDecision",
    "ExtendedModelResponse",
    "FilesystemFileSearchMiddleware",
    "HITLRequest",
    "HITLResponse",
    "HostExecutionPolicy",
    "HumanInTheLoopMiddleware",
    "InputAgentState",
    "InternalCallTransformer",
    "InterruptMode",
    "InterruptOnConfig",
    "JumpTo",
    "LLMToolEmulator",
    "LLMToolSelectorMiddleware",
    "LargeResultMiddleware",
    "LargeResultState",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ModelCallLimitState",
    "ModelCallResult",
    "ModelChoice",
    "ModelFallbackMiddleware",
    "ModelRefusalMiddleware",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryMiddleware",
    "ModelRouterMiddleware",
    "ModelRouterState",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "Pause",
    "PlanningState",
    "Price",
    "PrivateStateAttr",
    "ProviderToolSearchMiddleware",
    "RedactionRule",
    "RejectDecision",
    "RespondDecision",
    "ResponseT",
    "ReviewConfig",
    "Runtime",
    "ShellStartError",
    "ShellToolMiddleware",
    "ShellToolState",
    "StateT",
    "StateT_co",
    "SummarizationMiddleware",
    "Summarizer",
    "Todo",
    "TodoListMiddleware",
    "TokenCounter",
    "ToolApprovalRequest",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
    "ToolCallLimitState",
    "ToolCallRequest",
    "ToolCallWrapper",
    "ToolErrorMiddleware",
    "ToolRetryMiddleware",
    "ToolSelectionError",
    "TracePolicy",
    "TriggerClause",
    "Usage",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "configure_trace_policy",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_url",
    "dynamic_prompt",
    "hook_config",
    "internal_call_metadata",
    "omit_payload",
    "usage_of",
    "wrap_model_call",
    "wrap_tool_call",
    "write_todos",
]


_ENTRIES = {
    module: tuple(names.split())
    for module, names in {
        "budget": ("Budget BudgetExceededError BudgetKey BudgetMiddleware BudgetState Degrade Price Usage usage_of"),
        "approval_policy": (
            "ApprovalGrant ApprovalPolicyMiddleware ApprovalPolicyState ApprovalRule ApprovalVerdict Argument Caller"
        ),
        "auto_mode": "AutoModeMiddleware ClassificationError",
        "context_editing": "ClearToolUsesEdit ContextEdit ContextEditingMiddleware",
        "file_search": "FilesystemFileSearchMiddleware",
        "human_in_the_loop": (
            "Action ActionRequest ApproveDecision Decision DecisionType EditDecision HITLRequest "
            "HITLResponse HumanInTheLoopMiddleware InterruptMode InterruptOnConfig RejectDecision "
            "RespondDecision ReviewConfig ToolApprovalRequest"
        ),
        "internal_calls": "INTERNAL_CALL_METADATA_KEY InternalCallTransformer internal_call_metadata",
        "large_results": "LargeResultMiddleware LargeResultState",
        "model_call_limit": "ModelCallLimitExceededError ModelCallLimitMiddleware ModelCallLimitState",
        "model_fallback": "ModelFallbackMiddleware",
        "model_refusal": "ModelRefusalMiddleware",
        "model_retry": "ModelRetryMiddleware",
        "model_router": "ModelChoice ModelRouterMiddleware ModelRouterState",
        "pii": (
            "PIIDetectionError PIIMatch PIIMiddleware RedactionRule detect_credit_card detect_email "
            "detect_ip detect_mac_address detect_url"
        ),
        "provider_tool_search": "ProviderToolSearchMiddleware",
        "shell": (
            "BaseExecutionPolicy CodexSandboxExecutionPolicy DockerExecutionPolicy HostExecutionPolicy "
            "ShellStartError ShellToolMiddleware ShellToolState"
        ),
        "summarization": (
            "DEFAULT_SUMMARY_PROMPT ContextSize SummarizationMiddleware Summarizer TokenCounter TriggerClause"
        ),
        "todo": "PlanningState Todo TodoListMiddleware write_todos",
        "tool_call_limit": "ToolCallLimitExceededError ToolCallLimitMiddleware ToolCallLimitState",
        "tool_emulator": "LLMToolEmulator",
        "tool_error": "ToolErrorMiddleware",
        "tool_retry": "ToolRetryMiddleware",
        "tool_selection": "LLMToolSelectorMiddleware ToolSelectionError",
    }.items()
}
"""The ready-made entries, by the file that has them; a file is loaded when one of its names is first used."""

_WHERE = {name: module for module, names in _ENTRIES.items() for name in names}

if not TYPE_CHECKING:  # with a module `__getattr__` type checkers would take every slip for a name

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            value = getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
            globals()[name] = value  # found once, then an ordinary attribute
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
