"""Assistant messages as items of the Responses API: what the model said, thought and called, in its order. Pure.

An answer of this API keeps its items as content blocks, so that they survive checkpoints and trimming. The calls
themselves are read from `tool_calls`, which hooks may have changed: a block only says where its call stood.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.models.openai_request import arguments_text, legal_tool_name
from agentgraph.models.responses_content import text_of
from agentgraph.models.responses_tools import sent_call_id

__all__ = ["CUSTOM_INPUT", "assistant_items", "custom_call_ids", "whose"]

CUSTOM_INPUT: Final = "__arg1"
"""The argument under which a custom tool gets its text: the name that langchain-core's one-argument tools use."""

_CALL_IDS: Final = {
    "custom_tool_call": "call_id",
    "function_call": "call_id",
    "invalid_tool_call": "id",
    "tool_call": "id",
    "tool_use": "id",
}
# What the provider's own tools did, which it wants back as it was.
_RECORDS: Final = frozenset(
    {
        "apply_patch_call",
        "code_interpreter_call",
        "compaction",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)


def whose(provider: str) -> dict[str, str]:
    """Give the metadata that say whose answer a message is.

    langchain-core reads the blocks of this API where `model_provider` is "openai", and misreads them for any other.

    Args:
        provider: the provider's name in the registry.
    """
    return {"model_provider": "openai", **({} if provider == "openai" else {"served_by": provider})}


def custom_call_ids(messages: Sequence[BaseMessage]) -> frozenset[str]:
    """Collect the ids of calls of custom tools, whose outputs have another type."""
    return frozenset(
        str(block.get("call_id"))
        for message in messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
        for block in message.content
        if isinstance(block, dict) and block.get("type") == "custom_tool_call"
    )


def assistant_items(message: AIMessage, provider: str, *, openai: bool, reasoning: bool) -> list[dict[str, Any]]:
    """Give the items of an assistant message.

    Args:
        message: of this provider or of any other; thoughts and records of built-in tools of others are left out.
        provider: whom the request goes to.
        openai: whether that is OpenAI's own service, which refuses ids that it did not store.
        reasoning: whether its model reasons; on OpenAI's service others refuse thoughts.
    """
    native = whose(provider).items() <= message.response_metadata.items()
    builder = _Items(
        message,
        native=native,
        stored=native and message.response_metadata.get("store") is True,
        openai=openai,
        thoughts=native and (reasoning or not openai),
    )
    content = [message.content] if isinstance(message.content, str) else message.content
    for block in content:
        builder.take(block)
    refusal = message.additional_kwargs.get("refusal")
    if isinstance(refusal, str) and refusal and not builder.said:
        builder.say(refusal, {})
    return builder.close()


class _Items:
    """The items of one message while they are put together."""

    def __init__(self, message: AIMessage, *, native: bool, stored: bool, openai: bool, thoughts: bool) -> None:
        self._native = native
        self._stored = stored
        self._openai = openai
        self._thoughts = thoughts
        self._calls: dict[str, deque[Mapping[str, Any]]] = {}
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            self._calls.setdefault(call.get("id") or "", deque()).append(call)
        self._items: list[dict[str, Any]] = []
        self._open: tuple[Any, ...] | None = None
        self.said = False

    def take(self, block: Any) -> None:
        """Take the next content block."""
        text = text_of(block)
        if text is not None:
            self.say(text, block if isinstance(block, Mapping) else {})
            return
        kind = str(block.get("type"))
        if kind == "refusal":
            self.say(str(block.get("refusal") or ""), block)
        elif kind == "reasoning" and self._thoughts:
            self._think(block)
        elif kind in _CALL_IDS:
            waiting = self._calls.get(block.get(_CALL_IDS[kind]) or "")
            if waiting:
                self._call(waiting.popleft(), block if self._native else {})
        elif kind in _RECORDS and self._native:
            self._open = None
            self._items.append({key: value for key, value in block.items() if key != "index"})

    def say(self, text: str, block: Mapping[str, Any]) -> None:
        """Add text; pieces of one message of the model's stay one message."""
        if not text:
            return
        self.said = True
        kept = {"phase": block["phase"]} if self._native and block.get("phase") else {}
        mine = ("message", block.get("id"), kept.get("phase"))
        if self._open == mine:
            self._items[-1]["content"] += text
            return
        self._open = mine
        named = {"id": block["id"]} if self._stored and block.get("id") else {}
        self._items.append({"type": "message", "role": "assistant", "content": text, **kept, **named})

    def _think(self, block: Mapping[str, Any]) -> None:
        mine = ("reasoning", block.get("id"))
        extras = block.get("extras") or {}
        encrypted = block.get("encrypted_content") or extras.get("encrypted_content")
        if self._open != mine or not block.get("id"):
            self._open = mine
            self._items.append({"type": "reasoning", "id": block.get("id"), "summary": []})
        item = self._items[-1]
        if encrypted:
            item["encrypted_content"] = encrypted
        item["summary"] += [
            {"type": "summary_text", "text": str(part.get("text") or "")} for part in block.get("summary") or ()
        ]
        words = block.get("reasoning")
        if isinstance(words, str) and words:
            # OpenAI shows summaries alone; other servers show the thoughts themselves.
            kind, key = ("summary_text", "summary") if self._openai else ("reasoning_text", "content")
            item.setdefault(key, []).append({"type": kind, "text": words})

    def _call(self, call: Mapping[str, Any], block: Mapping[str, Any]) -> None:
        self._open = None
        name = legal_tool_name(call.get("name") or "unknown")
        item: dict[str, Any] = {"call_id": sent_call_id(call.get("id") or ""), "name": name}
        if block.get("namespace"):
            item["namespace"] = block["namespace"]
        args = call.get("args")
        if block.get("type") == "custom_tool_call":
            text = args.get(CUSTOM_INPUT, "") if isinstance(args, Mapping) else args
            item |= {"type": "custom_tool_call", "input": text if isinstance(text, str) else json.dumps(text)}
        else:
            item |= {"type": "function_call", "arguments": arguments_text(args)}
        if self._stored and block.get("type") in {"custom_tool_call", "function_call"} and block.get("id"):
            item["id"] = block["id"]
        self._items.append(item)

    def close(self) -> list[dict[str, Any]]:
        """Add the calls that no block stood for, and leave out what the server would refuse."""
        for waiting in self._calls.values():
            for call in waiting:
                self._call(call, {})
        items = [item for item in map(self._sendable, self._items) if item is not None]
        # A thought that nothing follows is refused.
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        return items

    def _sendable(self, item: dict[str, Any]) -> dict[str, Any] | None:
        if item["type"] == "message" and "id" in item:
            text = {"type": "output_text", "text": item["content"], "annotations": []}
            return {**item, "status": "completed", "content": [text]}
        if item["type"] != "reasoning" or self._stored:
            return item
        if not item.get("encrypted_content") and (self._openai or not item.get("content")):
            return None
        return {key: value for key, value in item.items() if key != "id" or (value and not self._openai)}
