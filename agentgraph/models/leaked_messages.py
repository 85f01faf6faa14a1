"""Messages and streams whose text may hold tool calls, with the calls in its place. For every wire format; no I/O."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import ModelError
from agentgraph.models.leaked_calls import LeakedCall, LeakedCallReader, read_leaked_calls
from agentgraph.models.sse import ServerSentEvent

if TYPE_CHECKING:
    from agentgraph.models.wire import Opened, StreamReader

__all__ = ["LeakedStreamReader", "offered_names", "with_leaked_calls"]

_STANDARD = "v1"
_CLIENT_SIDE = frozenset({"function", "custom"})


def offered_names(body: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, str]:
    """The tools that a request offers, in any wire format; none where it forbids calls.

    Args:
        body: of the request.
        renamed: names as they were sent -> as they are called here, for those that had to be changed.

    Returns:
        The names as they were sent -> as they are called here.

    Example:
        >>> offered_names({"tools": [{"type": "function", "function": {"name": "add"}}]}, {})
        {'add': 'add'}
    """
    if _forbids_calls(body):
        return {}
    names = (name for tool in body.get("tools") or () if isinstance(tool, Mapping) for name in _names_of(tool))
    return {name: renamed.get(name, name) for name in names}


def _forbids_calls(body: Mapping[str, Any]) -> bool:
    """Whether a request forbids calls, in the forms of all formats."""
    choice = body.get("tool_choice")
    if choice == "none" or (isinstance(choice, Mapping) and choice.get("type") == "none"):
        return True
    config = body.get("toolConfig", body.get("tool_config"))
    calling = isinstance(config, Mapping) and config.get("functionCallingConfig", config.get("function_calling_config"))
    return isinstance(calling, Mapping) and str(calling.get("mode")).upper() == "NONE"


def _names_of(tool: Mapping[str, Any]) -> Iterator[str]:
    """The names of what one entry describes; none for tools that the provider runs itself."""
    if "functionDeclarations" in tool or "function_declarations" in tool:
        described = tool.get("functionDeclarations", tool.get("function_declarations"))
    else:
        described = [tool.get("function", tool)] if tool.get("type", "custom") in _CLIENT_SIDE else []
    for one in described:
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            yield one["name"]


def with_leaked_calls(result: ChatResult, names: Mapping[str, str]) -> ChatResult:
    """The result of a whole answer, with the calls in its text as calls.

    Args:
        result: of the answer.
        names: as `offered_names` gives them.
    """
    return ChatResult(
        generations=[_whole(generation, names) for generation in result.generations], llm_output=result.llm_output
    )


def _whole(generation: ChatGeneration, names: Mapping[str, str]) -> ChatGeneration:
    message = generation.message
    if not isinstance(message, AIMessage) or message.tool_calls or message.invalid_tool_calls:
        return generation
    text, calls = read_leaked_calls(str(message.text), names)
    if not calls:
        return generation
    made = [tool_call(name=call.name, args=call.arguments, id=_new_id()) for call in calls]
    content = _with_text(message.content, text)
    if message.response_metadata.get("output_version") == _STANDARD and isinstance(content, list):
        content = [*content, *made]
    message = message.model_copy(update={"content": content, "tool_calls": made})
    return ChatGeneration(message=message, generation_info=generation.generation_info)


class LeakedStreamReader:
    """Reads a streamed answer as another reader does, and makes calls of those in its text.

    Args:
        inner: the reader of the wire format.
        names: as `offered_names` gives them.
    """

    def __init__(self, inner: "StreamReader", names: Mapping[str, str]) -> None:
        self._inner = inner
        self._calls = LeakedCallReader(names)
        self._native = False
        self._standard = False
        self._block: dict[str, Any] = {}
        self._last: list[AIMessageChunk] = []

    def opened(self, reply: "Opened") -> None:
        """Take notice of status and headers."""
        self._inner.opened(reply)

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Read an event."""
        return list(self._passed(self._inner.feed(event)))

    def finish(self) -> list[AIMessageChunk]:
        """Read the end; raises where the end of the format did not come."""
        chunks = list(self._passed(self._inner.finish()))
        text, calls = self._calls.close(native=self._native)
        if text:
            chunks.append(self._chunk(text))
        if calls:
            chunks.append(self._chunk("", [_chunk_of(call, index) for index, call in enumerate(calls)]))
        return [*chunks, *self._last]

    def broken(self, error: ModelError) -> None:
        """Take notice that the connection broke."""
        self._inner.broken(error)

    def _passed(self, chunks: Sequence[AIMessageChunk]) -> Iterator[AIMessageChunk]:
        for chunk in chunks:
            self._native = self._native or bool(chunk.tool_call_chunks)
            self._standard = self._standard or chunk.response_metadata.get("output_version") == _STANDARD
            text = str(chunk.text)
            said = self._without_calls(chunk, self._calls.feed(text)) if text else chunk
            if chunk.chunk_position == "last":
                # Whoever sees it takes the message for whole; what is still held has to come before it.
                self._last.append(said)
            elif not text or said.content or _says_more(said):
                yield said

    def _without_calls(self, chunk: AIMessageChunk, text: str) -> AIMessageChunk:
        """The chunk with the text that may be shown by now."""
        if isinstance(chunk.content, list):
            # What else a block says is kept until some of its text is shown.
            self._block |= next((block for block in chunk.content if isinstance(block, dict) and _is_text(block)), {})
        content = _with_text(chunk.content, text, self._block)
        if text and self._block:
            self._block = {key: self._block[key] for key in ("type", "index") if key in self._block}
        return chunk.model_copy(update={"content": content})

    def _chunk(self, text: str, calls: Sequence[ToolCallChunk] = ()) -> AIMessageChunk:
        metadata = {"output_version": _STANDARD} if self._standard else {}
        blocks: list[str | dict[Any, Any]] = [{**self._block, "text": text}] if self._block and text else []
        if self._standard:
            blocks += [{**call, "type": "tool_call_chunk", "index": f"lc_tc_{call['index']}"} for call in calls]
        content = blocks if self._block or self._standard else text
        return AIMessageChunk(content=content, tool_call_chunks=list(calls), response_metadata=metadata)


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"


def _chunk_of(call: LeakedCall, index: int) -> ToolCallChunk:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return tool_call_chunk(name=call.name, args=arguments, id=_new_id(), index=index)


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


def _with_text(content: Any, text: str, fields: Mapping[str, Any] | None = None) -> Any:
    """A content with another text: in the place of its first block of text, the others left out.

    Args:
        content: of a message that has some text.
        text: the other text.
        fields: what else its block says; by default what the first block of text said.
    """
    if isinstance(content, str):
        return text
    place = next(number for number, block in enumerate(content) if _is_text(block))
    kept: list[Any] = [block for block in content if not _is_text(block)]
    if text:
        kept.insert(place, {**(content[place] if fields is None else fields), "text": text})
    return kept


def _says_more(chunk: AIMessageChunk) -> bool:
    return bool(
        chunk.tool_call_chunks or chunk.additional_kwargs or chunk.response_metadata or chunk.usage_metadata or chunk.id
    )
