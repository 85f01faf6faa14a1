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
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.prebuilt import ToolRuntime as ToolRuntime

    from agentgraph.agent import create_agent as create_agent
    from agentgraph.errors import AgentGraphError as AgentGraphError
    from agentgraph.errors import AuthenticationError as AuthenticationError
    from agentgraph.errors import BadRequestError as BadRequestError
    from agentgraph.errors import CheckpointError as CheckpointError
    from agentgraph.errors import ConfigurationError as ConfigurationError
    from agentgraph.errors import ConfigurationTypeError as ConfigurationTypeError
    from agentgraph.errors import ContentFilterError as ContentFilterError
    from agentgraph.errors import ContextOverflowError as ContextOverflowError
    from agentgraph.errors import DeadlineError as DeadlineError
    from agentgraph.errors import EmptyTurnError as EmptyTurnError
    from agentgraph.errors import InvalidResponseError as InvalidResponseError
    from agentgraph.errors import MalformedToolCallError as MalformedToolCallError
    from agentgraph.errors import MissingCheckpointerError as MissingCheckpointerError
    from agentgraph.errors import MissingToolCallError as MissingToolCallError
    from agentgraph.errors import ModelConnectionError as ModelConnectionError
    from agentgraph.errors import ModelError as ModelError
    from agentgraph.errors import ModelNotFoundError as ModelNotFoundError
    from agentgraph.errors import ModelTimeoutError as ModelTimeoutError
    from agentgraph.errors import OverloadedError as OverloadedError
    from agentgraph.errors import QuotaError as QuotaError
    from agentgraph.errors import RateLimitError as RateLimitError
    from agentgraph.errors import RefusalError as RefusalError
    from agentgraph.errors import RepeatedToolCallError as RepeatedToolCallError
    from agentgraph.errors import ResumeError as ResumeError
    from agentgraph.errors import RunCancelledError as RunCancelledError
    from agentgraph.errors import RunError as RunError
    from agentgraph.errors import ServerError as ServerError
    from agentgraph.errors import ThreadBusyError as ThreadBusyError
    from agentgraph.errors import ToolTimeoutError as ToolTimeoutError
    from agentgraph.errors import TruncatedStreamError as TruncatedStreamError
    from agentgraph.hooks import AgentMiddleware as AgentMiddleware
    from agentgraph.models import init_chat_model as init_chat_model
    from agentgraph.persistence import open_checkpointer as open_checkpointer
    from agentgraph.runs import RunControl as RunControl
    from agentgraph.runs import ainbox as ainbox
    from agentgraph.runs import apending_questions as apending_questions
    from agentgraph.runs import aresume as aresume
    from agentgraph.runs import inbox as inbox
    from agentgraph.runs import outcome as outcome
    from agentgraph.runs import pending_questions as pending_questions
    from agentgraph.runs import resume as resume
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
    "CheckpointError",
    "ConfigurationError",
    "ConfigurationTypeError",
    "ContentFilterError",
    "ContextOverflowError",
    "DeadlineError",
    "EmptyTurnError",
    "InvalidResponseError",
    "MalformedToolCallError",
    "MissingCheckpointerError",
    "MissingToolCallError",
    "ModelConnectionError",
    "ModelError",
    "ModelNotFoundError",
    "ModelTimeoutError",
    "OverloadedError",
    "QuotaError",
    "RateLimitError",
    "RefusalError",
    "RepeatedToolCallError",
    "ResumeError",
    "RunCancelledError",
    "RunError",
    "ServerError",
    "ThreadBusyError",
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
    "RunControl": "agentgraph.runs",
    "ToolRuntime": "langgraph.prebuilt",
    "ainbox": "agentgraph.runs",
    "apending_questions": "agentgraph.runs",
    "aresume": "agentgraph.runs",
    "create_agent": "agentgraph.agent",
    "inbox": "agentgraph.runs",
    "init_chat_model": "agentgraph.models",
    "open_checkpointer": "agentgraph.persistence",
    "outcome": "agentgraph.runs",
    "pending_questions": "agentgraph.runs",
    "resume": "agentgraph.runs",
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
    "CheckpointError",
    "ConfigurationError",
    "ConfigurationTypeError",
    "ContentFilterError",
    "ContextOverflowError",
    "DeadlineError",
    "EmptyTurnError",
    "InvalidResponseError",
    "MalformedToolCallError",
    "MissingCheckpointerError",
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
    "RefusalError",
    "RepeatedToolCallError",
    "ResumeError",
    "RunCancelledError",
    "RunControl",
    "RunError",
    "ServerError",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ThreadBusyError",
    "ToolRuntime",
    "ToolTimeoutError",
    "TruncatedStreamError",
    "ainbox",
    "apending_questions",
    "aresume",
    "create_agent",
    "inbox",
    "init_chat_model",
    "open_checkpointer",
    "outcome",
    "pending_questions",
    "resume",
    "tool",
]


_ELSEWHERE = {
    "agentgraph.structured_output": ("AutoStrategy", "ProviderStrategy", "ResponseFormat", "ToolStrategy"),
    "agentgraph.middleware": (
        "ModelRequest",
        "ModelResponse",
        "after_agent",
        "after_model",
        "before_agent",
        "before_model",
        "dynamic_prompt",
        "hook_config",
        "wrap_model_call",
        "wrap_tool_call",
    ),
    "agentgraph.messages": (
        "AIMessage",
        "AIMessageChunk",
        "HumanMessage",
        "RemoveMessage",
        "SystemMessage",
        "ToolMessage",
    ),
    "agentgraph.tools": (
        "BaseTool",
        "InjectedState",
        "InjectedStore",
        "InjectedToolCallId",
        "ToolException",
        "ToolNode",
    ),
    "agentgraph.models": ("BaseChatModel",),
    "agentgraph.models.anthropic": ("ChatAnthropic",),
    "agentgraph.models.gemini": ("ChatGemini",),
    "agentgraph.models.ollama": ("ChatOllama",),
    "agentgraph.models.openai": ("ChatOpenAI",),
    "agentgraph.models.openai_responses": ("ChatOpenAIResponses",),
    "agentgraph.protocols": ("TextProtocol",),
    "agentgraph.testing": ("FunctionModel", "ScriptedModel"),
    "agentgraph.classic": (
        "AgentExecutor",
        "AgentType",
        "create_json_chat_agent",
        "create_openai_functions_agent",
        "create_openai_tools_agent",
        "create_react_agent",
        "create_self_ask_with_search_agent",
        "create_structured_chat_agent",
        "create_tool_calling_agent",
        "create_xml_agent",
        "initialize_agent",
    ),
}
"""Names that are looked for here, by the module that has them."""


def _advice(name: str) -> str:
    """Where a name is that is not here, "" if nobody knows."""
    listed = (module for module, names in _ELSEWHERE.items() if name in names)
    module = next(listed, "agentgraph.middleware" if name.endswith("Middleware") else None)
    if module is None:
        return ""
    if importlib.util.find_spec(module) is None:
        return (
            f"; the older builders are not here yet, and create_agent does their work: {name} is in langchain_classic"
        )
    return f"; it is in {module}: from {module} import {name}"


class _Catalogue:
    """Finds `agentgraph.middleware` beside this folder, where it lies in a checkout.

    An installed package has it inside, and an editable install finds it by itself. This is for a Python that runs in
    the checkout while the package is installed otherwise, or not at all: it takes the core from the working directory.
    """

    FOLDER = Path(__file__).parents[1] / "middleware"

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG003 - the interface of a finder
        start = cls.FOLDER / "__init__.py"
        if name != "agentgraph.middleware" or not start.is_file():
            return None
        return importlib.util.spec_from_file_location(name, start, submodule_search_locations=[str(cls.FOLDER)])


if not Path(__file__).with_name("middleware").is_dir():
    sys.meta_path.append(_Catalogue)


if not TYPE_CHECKING:  # with a module `__getattr__` type checkers would take every slip for a name

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            value = getattr(importlib.import_module(_WHERE[name]), name)
            globals()[name] = value  # found once, then an ordinary attribute
            return value
        advice = _advice(name)
        # An import statement looks for names through this module, and drops the text of an AttributeError.
        asking = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 (documented, and the one way to know)
        is_told = advice and asking == "importlib._bootstrap"
        raise (ImportError if is_told else AttributeError)(f"module 'agentgraph' has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
