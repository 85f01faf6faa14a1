"""Savers as runs use them: what copies of one share, how objects are read back, and reading on past what cannot be.

langgraph copies a saver at will (in its strict mode with every agent that is compiled), so that the object itself says
little about which threads it keeps.
"""

import copy
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.errors import GraphBubbleUp

from agentgraph.persistence.restoring import restoring

__all__ = ["lasting", "reading_back", "shared_by_copies", "unread_in"]

_SHARED = ("conn", "storage", "_leases")
_VALUES = (str, bytes, int, float)

_twins: WeakKeyDictionary[Any, tuple[Any, Any, Any]] = WeakKeyDictionary()


def shared_by_copies(saver: Any) -> Any:
    """What a saver and its copies have in common: where they keep their threads; the saver itself if that is not known.

    Args:
        saver: a checkpoint saver.

    Returns:
        An object to be compared by identity.
    """
    own = getattr(saver, "__dict__", {})
    found = (own.get(name) for name in _SHARED)
    # Equal values may be one object by chance.
    return next((one for one in found if one is not None and not isinstance(one, _VALUES)), saver)


def reading_back(saver: Any) -> Any:
    """The saver that reads objects back as what they were (`restoring`), made once while the saver stays as it is.

    Args:
        saver: a checkpointer, or what else `create_agent` takes for one.

    Returns:
        A copy of one of langgraph's savers; any other as it is.
    """
    if not type(saver).__module__.startswith("langgraph."):
        return saver
    state = saver.serde, shared_by_copies(saver)
    known = _twins.get(saver)
    if known is not None and known[0] is state[0] and known[1] is state[1]:
        return known[2]
    twin = restoring(saver)
    if twin is not saver:
        _twins[saver] = (*state, twin)
    return twin


class _Unread(dict[str, Any]):
    """Stands where something stored could not be read; as a checkpoint it is an empty one.

    Args:
        error: why.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(empty_checkpoint())
        self.error = error


class _LastingSerializer:
    """A serializer that goes on past what cannot be read.

    Args:
        theirs: the serializer.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, or an _Unread."""
        try:
            return self._theirs.loads_typed(data)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - stored bytes may make any class fail; whoever reads is told of it
            return _Unread(error)


def lasting(saver: Any) -> Any:
    """A copy of a saver whose `list` goes on past checkpoints that cannot be read; ask `unread_in` about each.

    Args:
        saver: a checkpoint saver; one that is not derived from langgraph's class is used as it is.
    """
    if not isinstance(saver, BaseCheckpointSaver) or "serde" not in getattr(saver, "__dict__", {}):
        return saver
    twin: Any = copy.copy(saver)
    twin.serde = _LastingSerializer(saver.serde)
    return twin


def unread_in(saved: CheckpointTuple) -> Exception | None:
    """Why a part of a checkpoint could not be read, None if all was.

    Args:
        saved: from a saver of `lasting`.
    """
    written = (value for _, _, value in saved.pending_writes or ())
    parts = (saved.checkpoint, saved.metadata, *saved.checkpoint["channel_values"].values(), *written)
    return next((one.error for one in parts if isinstance(one, _Unread)), None)
