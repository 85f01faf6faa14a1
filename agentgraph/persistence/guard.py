"""The guard of savers: does one keep the history that messages stored as changes are rebuilt from?

A thread's messages are stored as what each step added, so reading them needs the earlier checkpoints and their
writes. A saver that keeps only the newest checkpoint of a thread would lose messages silently; for such a saver an
agent stores them whole at every step instead.
"""

import uuid
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.persistence.checkpointer import Checkpointer

__all__ = ["KEEPING", "keeps_history"]

# By name, so that no database's package is loaded to compare a class with it.
KEEPING = frozenset(
    {
        "langgraph.checkpoint.sqlite.SqliteSaver",
        "langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver",
        "langgraph.checkpoint.postgres.PostgresSaver",
        "langgraph.checkpoint.postgres.aio.AsyncPostgresSaver",
    }
)
# A subclass that overrides none of these stores what its parent stores.
_STORING = ("put", "aput", "put_writes", "aput_writes")
_CHANNEL = "messages"

_found: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def keeps_history(saver: Any) -> bool:
    """Whether a saver keeps earlier checkpoints with their writes, as messages stored as changes need it.

    Known for langgraph's savers and ours. Any other class is tried once: two checkpoints of a throw-away thread are
    stored, the first one's write is asked back, and the thread is deleted. A class can answer for itself with the class
    attribute `keeps_history = True` or `False`.

    Args:
        saver: a checkpointer; what else `create_agent` takes for one (None, a bool) counts as keeping.

    Returns:
        True where it is sure. False for a saver that drops history and for one that cannot be tried: it has only async
        methods, cannot delete a thread, or raised. A failed trial is not remembered.

    Example:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> keeps_history(InMemorySaver())
        True
    """
    if not isinstance(saver, BaseCheckpointSaver):
        return True
    cls = type(saver)
    declared = getattr(cls, "keeps_history", None)
    if isinstance(declared, bool):
        return declared
    if _is_known(cls):
        return True
    if cls not in _found:
        try:
            _found[cls] = _try(saver)
        except Exception:  # noqa: BLE001 - a foreign saver may raise anything; then it is not sure
            return False
    return _found[cls]


def _is_known(cls: type) -> bool:
    for ancestor in cls.__mro__:
        if ancestor in {InMemorySaver, Checkpointer} or f"{ancestor.__module__}.{ancestor.__name__}" in KEEPING:
            return True
        if any(name in vars(ancestor) for name in _STORING):
            return False
    return False


def _try(saver: BaseCheckpointSaver[Any]) -> bool:
    if type(saver).delete_thread is BaseCheckpointSaver.delete_thread:
        return False
    thread = f"agentgraph-trial-{uuid.uuid4()}"
    try:
        return _write_comes_back(saver, thread)
    finally:
        saver.delete_thread(thread)


def _write_comes_back(saver: BaseCheckpointSaver[Any], thread: str) -> bool:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    for step in range(2):
        checkpoint: Checkpoint = {
            **empty_checkpoint(),
            "channel_versions": {_CHANNEL: saver.get_next_version(None, None)},
        }
        config = saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, {})
        saver.put_writes(config, [(_CHANNEL, step)], f"task-{step}")
    history = saver.get_delta_channel_history(config=config, channels=[_CHANNEL])
    return [value for _, _, value in history[_CHANNEL]["writes"]] == [0]
