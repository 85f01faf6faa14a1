"""What a model of a test was asked: shared by the model and all copies of it."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing.provider import tool_name
from agentgraph.testing.replies import with_unique_ids

__all__ = ["Record", "Request"]


@dataclass(frozen=True)
class Request:
    """What a model was sent in one call.

    Attributes:
        messages: the history; copies, so that later changes do not show.
        tools: names of the tools it was offered.
        tool_choice: what was demanded of it, None if nothing.
        settings: everything else that was bound or given with the call: `stop`, `response_format`, ...
        tool_schemas: the tools as the model was shown them.
    """

    messages: list[BaseMessage]
    tools: list[str] = field(default_factory=list)
    tool_choice: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    tool_schemas: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], settings: Mapping[str, Any]) -> "Request":
        """Sort the arguments of a call.

        Args:
            messages: the history.
            settings: all keyword arguments of the call.
        """
        others = dict(settings)
        schemas = list(others.pop("tools", None) or ())
        return cls(
            messages=[message.model_copy() for message in messages],
            tools=[tool_name(tool) for tool in schemas],
            tool_choice=others.pop("tool_choice", None),
            settings=others,
            tool_schemas=schemas,
        )


class Record:
    """The requests so far, and the place in the script. Copying it gives itself, so that copies of a model share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._call_ids: set[str] = set()
        self._binds = 0
        self._played = 0

    def __copy__(self) -> "Record":
        return self

    def __deepcopy__(self, memo: object) -> "Record":
        return self

    @property
    def requests(self) -> list[Request]:
        """The requests so far, a list of its own."""
        with self._lock:
            return list(self._requests)

    @property
    def binds(self) -> int:
        """How often tools were bound."""
        return self._binds

    @property
    def played(self) -> int:
        """How many replies were asked for."""
        return self._played

    def add(self, request: Request) -> None:
        """Write down a request."""
        with self._lock:
            self._requests.append(request)

    def add_bind(self) -> None:
        """Count one binding of tools."""
        with self._lock:
            self._binds += 1

    def next_place(self) -> int:
        """The place in the script of the reply to play now; each is given once."""
        with self._lock:
            self._played += 1
            return self._played - 1

    def tell_apart(self, message: AIMessage, history: Sequence[BaseMessage]) -> AIMessage:
        """Give the calls of a reply ids that no earlier call has, where they are derived ones."""
        earlier = [m for m in history if isinstance(m, AIMessage)]
        ids = [call["id"] for m in earlier for call in (*m.tool_calls, *m.invalid_tool_calls)]
        with self._lock:
            self._call_ids.update(call_id for call_id in ids if call_id)
            return with_unique_ids(message, self._call_ids)
