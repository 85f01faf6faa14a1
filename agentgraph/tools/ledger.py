"""The finished tool calls of a run, written down until langgraph has stored them.

langgraph hands a task's result to the saver when the task is over. A run that ends at that very moment, cancelled or
out of time, has no ear for it any more, and the tool would run again when the thread goes on. So the tools node writes
down what each call came to, and whoever runs the graph stores what is missing when the run breaks off.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONF, CONFIG_KEY_RUNTIME

__all__ = ["FinishedCall", "Ledger", "current_ledger"]


@dataclass(frozen=True, eq=False)
class FinishedCall:
    """A tool call that has come to its end.

    Attributes:
        node: the node that ran it.
        update: what it writes to the state.
        config: of its task.
    """

    node: Any
    update: Any
    config: RunnableConfig

    @property
    def place(self) -> Any:
        """The ids of its task, thread and checkpoint: langgraph's ExecutionInfo, None outside a graph."""
        return getattr(self.config.get(CONF, {}).get(CONFIG_KEY_RUNTIME), "execution_info", None)


class Ledger:
    """The finished calls of the newest step of one run; those before it are part of its checkpoint.

    Attributes:
        at_work: what goes on in tasks of its own, in async code, and has to end before the run can be compared with
            its saver.
    """

    def __init__(self) -> None:
        self.at_work: set[asyncio.Task[Any]] = set()
        self._by_checkpoint: dict[str, list[FinishedCall]] = {}

    @property
    def calls(self) -> list[FinishedCall]:
        """The calls, in the order in which they ended."""
        return [call for calls in list(self._by_checkpoint.values()) for call in calls]

    def note(self, call: FinishedCall) -> None:
        """Write down a call; from any thread."""
        if call.place is None:
            return
        at = call.place.checkpoint_id
        # Neighbours do this at the same moment: `setdefault` lets only one of them make the list.
        self._by_checkpoint.setdefault(at, []).append(call)
        if len(self._by_checkpoint) > 1:
            for earlier in [key for key in list(self._by_checkpoint) if key != at]:
                self._by_checkpoint.pop(earlier, None)


current_ledger: ContextVar[Ledger | None] = ContextVar("agentgraph_ledger", default=None)
"""Of the run that this code is part of; None where it keeps no thread."""
