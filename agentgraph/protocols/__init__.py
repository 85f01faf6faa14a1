"""Text protocols: tool calls as text, for models that have no native ones.

`create_agent(..., tool_protocol="json")` is all most users need. A format of one's own derives from `TextProtocol`;
`ProtocolChatModel` is the chat model that speaks a protocol, also without an agent.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgraph.protocols.base import (
        CallArguments,
        CallEnd,
        CallStart,
        Event,
        Parsed,
        ReasoningDelta,
        StreamParser,
        TextDelta,
        TextProtocol,
        ToolOffer,
        ToolResult,
        ToolSpec,
        WrittenCall,
    )
    from agentgraph.protocols.chat_model import ProtocolChatModel
    from agentgraph.protocols.json import JSONProtocol
    from agentgraph.protocols.reading import parse
    from agentgraph.protocols.registry import resolve_protocol

__all__ = [
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Event",
    "JSONProtocol",
    "Parsed",
    "ProtocolChatModel",
    "ReasoningDelta",
    "StreamParser",
    "TextDelta",
    "TextProtocol",
    "ToolOffer",
    "ToolResult",
    "ToolSpec",
    "WrittenCall",
    "parse",
    "resolve_protocol",
]

_ELSEWHERE = {
    "JSONProtocol": "json",
    "ProtocolChatModel": "chat_model",
    "parse": "reading",
    "resolve_protocol": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'base')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
