"""Thoughts that a server leaves in the text, between tags: told apart from the answer, whole and streamed. Pure.

Many servers part them; those that do not send `<think>...</think>` in front of the answer. Some templates (DeepSeek R1,
Qwen) open the tag in the prompt, so that only its end comes. A stream cannot know that until the end is there, and by
then the thought would have been shown as the answer: who runs the server says which it is.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import ModelError, TruncatedStreamError
from agentgraph.models.openai_blocks import V1, piece_chunks
from agentgraph.models.sse import ServerSentEvent
from agentgraph.models.wire import Opened, StreamReader

__all__ = ["TaggedThoughts", "ThoughtSplitter", "ThoughtStreamReader", "with_thoughts"]

TaggedThoughts = Literal["tags", "opened"]
"""Where thoughts stand: between `<think>` and `</think>`, or before `</think>`, whose beginning is in the prompt."""

_BEGIN: Final = "<think>"
_END: Final = "</think>"


class ThoughtSplitter:
    """Sets the thought at the beginning of an answer apart, however the text is cut.

    Args:
        where: "tags": a thought begins with its tag; "opened": the answer begins within a thought.

    Example:
        >>> splitter = ThoughtSplitter("opened")
        >>> [splitter.feed(piece) for piece in ("hm", "</th", "ink>Hello")]
        [('hm', ''), ('', ''), ('', 'Hello')]
    """

    def __init__(self, where: TaggedThoughts) -> None:
        self._opened = where == "opened"
        self._place = "start"
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of text; returns what it brings of the thought, and of the answer."""
        if self._place == "answer":
            return "", text
        self._held += text
        if self._place == "start":
            self._begin()
        if self._place == "opening":
            self._held = self._held.lstrip("\n")
            self._place = "thought" if self._held else "opening"
        thought = self._thought() if self._place == "thought" else ""
        answer = self._answer() if self._place in {"answer", "gap"} else ""
        return thought, answer

    def parted(self) -> None:
        """Take notice that the server parts thoughts itself, so that the text holds none."""
        if self._place == "start":
            self._place = "answer"

    def rest(self) -> tuple[str, str]:
        """End the text; returns what was held of the thought, and of the answer."""
        held, self._held = self._held, ""
        within = self._place == "thought" or (self._place == "start" and self._opened)
        return (held, "") if within else ("", held)

    def _begin(self) -> None:
        said = self._held.lstrip()
        if said.startswith(_BEGIN):
            self._place, self._held = "opening", said.removeprefix(_BEGIN)
        elif not _BEGIN.startswith(said):
            self._place = "thought" if self._opened else "answer"

    def _thought(self) -> str:
        thought, end, behind = self._held.partition(_END)
        if end:
            self._place, self._held = "gap", behind
            return thought
        kept = next((size for size in range(len(_END) - 1, 0, -1) if self._held.endswith(_END[:size])), 0)
        cut = len(self._held) - kept
        thought, self._held = self._held[:cut], self._held[cut:]
        return thought

    def _answer(self) -> str:
        answer = self._held.lstrip() if self._place == "gap" else self._held
        self._held = ""
        self._place = "answer" if answer else self._place
        return answer


def _split(text: str, where: TaggedThoughts) -> tuple[str, str]:
    # Of an answer that is there as a whole one sees whether it holds a thought.
    if _END not in text and not text.lstrip().startswith(_BEGIN):
        return "", text
    splitter = ThoughtSplitter(where)
    pieces = [splitter.feed(text), splitter.rest()]
    return "".join(thought for thought, _ in pieces), "".join(answer for _, answer in pieces)


def _thoughtful(metadata: Mapping[str, Any]) -> dict[str, Any]:
    # langchain-core's reading of "openai" messages knows no reasoning, its reading of unknown providers' does.
    return {
        **metadata,
        **({"model_provider": "openai_compatible"} if metadata.get("model_provider") == "openai" else {}),
    }


def with_thoughts(result: ChatResult, where: TaggedThoughts | None) -> ChatResult:
    """Set the thought of a whole answer apart.

    Args:
        result: the answer; one whose server parted the thought already stays as it is, as one without a thought does.
        where: where thoughts stand; None for nowhere.
    """
    if where is None:
        return result
    return ChatResult(generations=[ChatGeneration(message=_apart(one.message, where)) for one in result.generations])


def _apart(message: Any, where: TaggedThoughts) -> Any:
    extras = message.additional_kwargs
    if not isinstance(message.content, str) or "reasoning_content" in extras:
        return message
    thought, text = _split(message.content, where)
    if not thought:
        return message.model_copy(update={"content": text})
    changed = {"content": text, "additional_kwargs": {**extras, "reasoning_content": thought}}
    return message.model_copy(update={**changed, "response_metadata": _thoughtful(message.response_metadata)})


class ThoughtStreamReader:
    """Reads a streamed answer, and sets the thought in its text apart.

    Args:
        reader: of the answer as the server sends it.
        where: where thoughts stand.
    """

    def __init__(self, reader: StreamReader, where: TaggedThoughts) -> None:
        self._reader = reader
        self._where: TaggedThoughts = where
        self._splitter = ThoughtSplitter(where)
        self._thought = False

    def opened(self, reply: Opened) -> None:
        """Take notice of status and headers."""
        self._reader.opened(reply)

    def feed(self, event: ServerSentEvent) -> list[AIMessageChunk]:
        """Take one event; returns the chunks that follow from it."""
        return [made for chunk in self._reader.feed(event) for made in self._parted(chunk)]

    def finish(self) -> list[AIMessageChunk]:
        """End the answer; raises where its end did not come."""
        try:
            chunks = self._reader.finish()
        except TruncatedStreamError as error:
            self._mark(error)
            raise
        return [made for chunk in chunks for made in self._parted(chunk)]

    def broken(self, error: ModelError) -> None:
        """Take notice that the connection broke; raises the error, with what came, unless the answer was complete."""
        try:
            self._reader.broken(error)
        except TruncatedStreamError as broken:
            self._mark(broken)
            raise

    def _mark(self, error: TruncatedStreamError) -> None:
        partial: Any = error.partial
        if isinstance(partial, AIMessage) and isinstance(partial.content, str):
            splitter = ThoughtSplitter(self._where)
            pieces = [splitter.feed(partial.content), splitter.rest()]
            thought, text = ("".join(parts) for parts in zip(*pieces, strict=True))
            extras = {**partial.additional_kwargs, **({"reasoning_content": thought} if thought else {})}
            error.partial = partial.model_copy(update={"content": text, "additional_kwargs": extras})

    def _parted(self, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        if chunk.additional_kwargs.get("reasoning_content"):
            self._splitter.parted()
        standard = chunk.response_metadata.get("output_version") == V1
        if chunk.chunk_position == "last":
            made = self._pieces(*self._splitter.rest(), {}, standard=isinstance(chunk.content, list))
            if self._thought:
                chunk.response_metadata = _thoughtful(chunk.response_metadata)
            return [*made, chunk]
        if not chunk.text:
            return [chunk]
        text = str(chunk.text)  # langchain-core gives a subclass, which does not add up with other texts
        return self._pieces(*self._splitter.feed(text), chunk.additional_kwargs, standard=standard)

    def _pieces(self, thought: str, text: str, extras: Mapping[str, Any], *, standard: bool) -> list[AIMessageChunk]:
        self._thought = self._thought or bool(thought)
        told = {**extras, **({"reasoning_content": thought} if thought else {})}
        return piece_chunks(text, told, (), standard=standard)
