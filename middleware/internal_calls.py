"""Model calls that middleware makes for itself, which the user's stream must not show.

Such a call is made with `config={"metadata": internal_call_metadata()}`. `InternalCallTransformer`, declared on the
middleware's class as `transformers = (InternalCallTransformer,)`, keeps it out of `stream_events(version="v3")`. In the
other stream modes the tag `nostream` does that.
"""

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

from langchain_core.messages import BaseMessage
from langgraph.stream import StreamTransformer

__all__ = ["INTERNAL_CALL_METADATA_KEY", "InternalCallTransformer", "internal_call_metadata"]

INTERNAL_CALL_METADATA_KEY = "lc_internal_call"
"""Under which key of its metadata a model call says that it is internal."""

# A value that cannot be known outside this process: a caller's metadata must not hide the calls of the agent itself.
_MARK = secrets.token_hex(16)


def internal_call_metadata() -> dict[str, Any]:
    """The metadata that marks a model call as internal to middleware.

    It holds in this process only, so it is asked for at each call and not stored.

    Returns:
        A new dict, to be merged into the `metadata` of the call's config.

    Example:
        >>> list(internal_call_metadata()) == [INTERNAL_CALL_METADATA_KEY]
        True
    """
    return {INTERNAL_CALL_METADATA_KEY: _MARK}


class InternalCallTransformer(StreamTransformer):
    """Keeps internal model calls out of `run.messages` and out of the raw events of `stream_events(version="v3")`.

    Args:
        scope: the namespace of the run, as langgraph gives it.

    Example:
        >>> from agentgraph.middleware import AgentMiddleware
        >>> class Classifying(AgentMiddleware):
        ...     transformers = (InternalCallTransformer,)
    """

    before_builtins: ClassVar[bool] = True
    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)

    def init(self) -> dict[str, Any]:
        """Adds nothing to the run's stream."""
        return {}

    def process(self, event: Any) -> bool:
        """Drop the events of internal calls.

        Args:
            event: an event of the run.

        Returns:
            False for an event of an internal call, which drops it; else True.
        """
        if event["method"] != "messages":
            return True
        payload, metadata = event["params"]["data"]
        if not isinstance(metadata, Mapping) or metadata.get(INTERNAL_CALL_METADATA_KEY) != _MARK:
            return True
        # A dropped event still reaches the transformers that come later. The one that collects messages passes over the
        # calls whose start is a tool's, and over what is no message.
        if isinstance(payload, BaseMessage):
            event["params"]["data"] = (None, metadata)
        elif isinstance(payload, dict) and payload.get("event") == "message-start":
            payload["role"] = "tool"
        return False
