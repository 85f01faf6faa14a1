"""The words of a conversation: langchain-core's message classes and content blocks, and trimming.

Everything here is langchain-core's own object, so that every LangChain chat model and tool works with it. The names
are loaded when they are first asked for.

Example:
    >>> from agentgraph.messages import HumanMessage
    >>> HumanMessage("hello").content
    'hello'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        Annotation,
        AnyMessage,
        AudioContentBlock,
        BaseMessage,
        BaseMessageChunk,
        ChatMessage,
        Citation,
        ContentBlock,
        DataContentBlock,
        FileContentBlock,
        HumanMessage,
        HumanMessageChunk,
        ImageContentBlock,
        InputTokenDetails,
        InvalidToolCall,
        MessageLikeRepresentation,
        NonStandardAnnotation,
        NonStandardContentBlock,
        OutputTokenDetails,
        PlainTextContentBlock,
        ReasoningContentBlock,
        RefusalContentBlock,
        RemoveMessage,
        ServerToolCall,
        ServerToolCallChunk,
        ServerToolResult,
        SystemMessage,
        SystemMessageChunk,
        TextContentBlock,
        ToolCall,
        ToolCallChunk,
        ToolMessage,
        ToolMessageChunk,
        UsageMetadata,
        VideoContentBlock,
        convert_to_messages,
        filter_messages,
        get_buffer_string,
        merge_message_runs,
        message_chunk_to_message,
        messages_from_dict,
        messages_to_dict,
        trim_messages,
    )

__all__ = [
    "AIMessage",
    "AIMessageChunk",
    "Annotation",
    "AnyMessage",
    "AudioContentBlock",
    "BaseMessage",
    "BaseMessageChunk",
    "ChatMessage",
    "Citation",
    "ContentBlock",
    "DataContentBlock",
    "FileContentBlock",
    "HumanMessage",
    "HumanMessageChunk",
    "ImageContentBlock",
    "InputTokenDetails",
    "InvalidToolCall",
    "MessageLikeRepresentation",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "OutputTokenDetails",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "RefusalContentBlock",
    "RemoveMessage",
    "ServerToolCall",
    "ServerToolCallChunk",
    "ServerToolResult",
    "SystemMessage",
    "SystemMessageChunk",
    "TextContentBlock",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UsageMetadata",
    "VideoContentBlock",
    "convert_to_messages",
    "filter_messages",
    "get_buffer_string",
    "merge_message_runs",
    "message_chunk_to_message",
    "messages_from_dict",
    "messages_to_dict",
    "trim_messages",
]


def __getattr__(name: str) -> Any:
    # PEP 562: a module that only names message classes in annotations should not wait for langchain-core.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("langchain_core.messages"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
