"""Which messages were looked at and have nothing, so that a long history is not searched again in every round."""

import weakref
from typing import Any

from langchain_core.messages import AIMessage

__all__ = ["SeenMessages"]


class SeenMessages:
    """Messages that are nothing but a text in which nothing was found, for as long as they live.

    A message is known again as the same object with the same text object. Texts cannot be changed in place, and what
    can be (lists of blocks, arguments of calls) is looked at each time.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[weakref.ref[Any], str, bool]] = {}

    def __reduce__(self) -> Any:
        # What lives in one process is nothing to copy.
        return type(self), ()

    def has(self, message: Any) -> bool:
        """Whether nothing was found in this message, and it is as it was."""
        known = self._texts.get(id(message))
        if known is None:
            return False
        alive, text, may_call = known
        is_same = alive() is message
        return is_same and message.content is text and not (may_call and _has_more(message))

    def add(self, message: Any) -> None:
        """Remember a message in which nothing was found; one that is more than a text is not."""
        may_call = isinstance(message, AIMessage)
        if isinstance(message.content, str) and not (may_call and _has_more(message)):
            texts, key = self._texts, id(message)
            texts[key] = (weakref.ref(message, lambda _: texts.pop(key, None)), message.content, may_call)


def _has_more(message: Any) -> Any:
    return (
        message.tool_calls
        or message.invalid_tool_calls
        or message.additional_kwargs
        or getattr(message, "tool_call_chunks", None)
    )
