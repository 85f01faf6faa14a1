"""The channel that holds a conversation: it stores what is new, not the whole conversation again after each step.

langgraph's `DeltaChannel` keeps a field as the writes that made it, with a snapshot now and then. `MessagesChannel` is
one for messages::

    checkpoint     1     2     3   ...  100        101    102  ...
    stored        [+a]  [+b]  [+c]      snapshot  [+x]   [+y]

So bytes a turn do not grow with the conversation, and to read a thread the last snapshot and the writes after it are
enough. The rules are those of `add_messages`: messages are merged by id, dicts and texts become messages, chunks become
whole ones, what has no id is given one.

Two rules differ, because writes must give the same whether they are applied one by one or all at once: a message that
is removed and written again in one update stands at the end (not in its old place), and what follows a removal of all
messages is merged by id as well. And only what is written is stored: a message that a hook changes in place, without
giving it back, is in the next checkpoint as it was.
"""

import uuid
import warnings
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph._internal._typing import MISSING
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.channels.binop import _get_overwrite
from langgraph.checkpoint.base import PendingWrite
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.errors import EmptyChannelError, InvalidUpdateError
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages

from agentgraph.errors import CheckpointError, ConfigurationError, ConfigurationTypeError

__all__ = ["LEAST_UPDATES_A_SNAPSHOT", "MessagesChannel", "store_whole"]

LEAST_UPDATES_A_SNAPSHOT = 100
"""So many updates lie between two snapshots of a short conversation.

In a long one it is half the number of its messages. Then a snapshot holds about twice as many messages as the one
before, and all of them together twice as many as the last: bytes a turn stay flat. At most half of the messages are
read one by one, which is about half as dear again as to read them from a snapshot.
"""

Places = dict[str, int]
"""The place of each message by its id."""


class MessagesChannel(DeltaChannel[list[AnyMessage]]):
    """The channel of `messages`, made for `Annotated`.

    A list that was handed out is never changed afterwards: each update makes a new one.

    Args:
        reducer: for langgraph, which makes the channel anew from its annotation; leave it out.
        typ: likewise.
        snapshot_frequency: how many updates lie between two snapshots at the least; half as many as the
            conversation has messages where that is more. Default 100.

    Example:
        >>> from typing import Annotated, TypedDict
        >>> class Chat(TypedDict):
        ...     messages: Annotated[list[AnyMessage], MessagesChannel()]
    """

    __slots__ = ("_least", "borrowed", "places", "seeded")

    def __init__(
        self,
        # langgraph gives messages ids before they are stored where it finds this very function.
        reducer: Any = _messages_delta_reducer,
        typ: Any = list,
        *,
        snapshot_frequency: int = LEAST_UPDATES_A_SNAPSHOT,
    ) -> None:
        if reducer is not _messages_delta_reducer:
            raise ConfigurationTypeError(
                f"MessagesChannel was given the reducer {reducer!r:.200}, but it merges messages by rules of its own. "
                "Write MessagesChannel(), or annotate the field with your reducer instead of the channel."
            )
        super().__init__(cast("Any", reducer), typ, snapshot_frequency=snapshot_frequency)
        self.places: Places | None = None
        self.borrowed: int | None = None
        self.seeded = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesChannel) and hash(self) == hash(other)

    def __hash__(self) -> int:
        return hash((type(self), self._least))

    @property
    def snapshot_frequency(self) -> int:
        """How many updates lie between two snapshots, for a conversation of the present length."""
        return max(self._least, len(self.value) // 2) if self.is_available() else self._least

    @snapshot_frequency.setter
    def snapshot_frequency(self, least: int) -> None:
        self._least = least

    def copy(self) -> Self:
        """A channel of the same messages that goes its own way from here."""
        new = self._empty()
        # Lists are never changed, so they can be shared. Places are taken over when the copy is written to.
        new.value, new.places, new.borrowed = self.value, self.places, len(self.places or ())
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """A channel with what a checkpoint holds: a snapshot, the whole list as `add_messages` keeps it, or nothing."""
        new = self._empty()
        new.value = []
        new.seeded = checkpoint is not MISSING and checkpoint is not None
        if isinstance(checkpoint, _DeltaSnapshot):
            new.value = list(checkpoint.value)
        elif new.seeded:
            new.value = _flat([checkpoint])
            new.places = _places_of(new.value)
            if len(new.places) != len(new.value):
                # A list that add_messages made may hold one message twice.
                new.value, new.places = _merged([], {}, new.value).done()
        return new

    def replay_writes(self, writes: Sequence[PendingWrite]) -> None:
        """Apply the writes since the snapshot, the oldest first.

        Raises:
            CheckpointError: there is neither a snapshot nor a write, so the conversation is lost.
        """
        if not writes and not self.seeded:
            raise CheckpointError(_lost(self.key))
        values = [value for _, _, value in writes]
        resets = [place for place, value in enumerate(values) if _get_overwrite(value)[0]]
        if resets:
            self._restart(values[resets[-1]])
            values = values[resets[-1] + 1 :]
        # Not strict: they were checked when they were made.
        self._take(_flat(values))

    def update(self, values: Sequence[Any]) -> bool:
        """Take the writes of one step.

        Raises:
            ConfigurationError: the removal of a message that is not there.
            InvalidUpdateError: two writes that replace everything.
        """
        if not values:
            return False
        resets = [value for value in values if _get_overwrite(value)[0]]
        if len(resets) > 1:
            raise InvalidUpdateError(
                f"{len(resets)} writes of one step replace the whole of {self.key!r} (Overwrite); expected was one."
            )
        if resets:
            self._restart(resets[0])
        else:
            self._take(_named(_flat(values)), strict=True)
        return True

    def get(self) -> list[AnyMessage]:
        """The messages, in a list of the caller's own: whoever appends to it does not change the conversation."""
        if not self.is_available():
            raise EmptyChannelError
        return list(self.value)

    def _empty(self) -> Self:
        new = type(self)(self.reducer, self.typ, snapshot_frequency=self._least)
        new.key = self.key
        return new

    def _restart(self, overwrite: Any) -> None:
        _, messages = _get_overwrite(overwrite)
        self.value, self.places, self.borrowed = [], {}, None
        self._take(_named(_flat([] if messages is None else [list(messages)])))

    def _take(self, writes: Iterable[Any], *, strict: bool = False) -> None:
        """Merge messages into the conversation; strict: refuse to remove what is not there."""
        before = self.value if self.is_available() else []
        places, self.places, self.borrowed = self._own_places(before), None, None
        draft = _merged(before, places, writes)
        if strict and draft.unknown:
            raise ConfigurationError(_no_such_message(draft.unknown))
        self.value, self.places = draft.done()

    def _own_places(self, messages: Sequence[Any]) -> Places:
        """The places as they are for these messages, in a dict that may be changed."""
        if self.places is None or self.borrowed is None:
            return _places_of(messages) if self.places is None else self.places
        places = dict(self.places)
        # The channel that was copied may have gone on since, and its places with it: they only ever grow in number.
        return places if len(places) == self.borrowed else _places_of(messages)


def store_whole(channels: MutableMapping[str, Any], saver: object) -> None:
    """Let each checkpoint hold all messages, for a saver that does not keep earlier checkpoints; warns that it does.

    To be called before a graph is compiled. Where the saver is known only later, because a graph around the agent
    brings it or it is set on the compiled agent, messages stay changes; then a saver that lost them is noticed when
    the thread is read, by a CheckpointError.

    Args:
        channels: of a StateGraph; each MessagesChannel among them is replaced by one with the rules of `add_messages`.
        saver: the checkpointer, for the warning.
    """
    found = [name for name, channel in channels.items() if isinstance(channel, MessagesChannel)]
    for name in found:
        channels[name] = BinaryOperatorAggregate(list, add_messages)
        channels[name].key = name
    if found:
        warnings.warn(_dear(found, saver), stacklevel=3)


@dataclass
class _Draft:
    """A conversation while it is written to.

    Attributes:
        messages: with None where one was removed.
        places: of the messages by id; grows in place, which is what makes adding a message cheap.
        removed: the ids of the messages that were removed.
        unknown: ids to be removed that were not there.
    """

    messages: list[Any]
    places: Places
    removed: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)

    def put(self, message: Any) -> None:
        """Replace the message of the same id, or add one. A message without an id cannot be replaced."""
        at = self.places.get(message.id) if message.id else None
        if at is not None:
            self.messages[at] = message
            return
        if message.id:
            self.places[message.id] = len(self.messages)
        self.messages.append(message)

    def remove(self, name: str) -> None:
        """Remove the message of an id, or all."""
        if name == REMOVE_ALL_MESSAGES:
            self.messages, self.places = [], {}
            self.removed, self.unknown = set(), []
        elif name in self.places:
            if not self.removed:
                self.places = dict(self.places)  # a copy of the channel may be reading the old ones
            self.messages[self.places.pop(name)] = None
            self.removed.add(name)
        elif name not in self.removed:  # parallel tools may well remove the same message
            self.unknown.append(name)

    def done(self) -> tuple[list[Any], Places]:
        """The messages and their places."""
        if not self.removed:
            return self.messages, self.places
        kept = [message for message in self.messages if message is not None]
        return kept, _places_of(kept)


def _merged(before: list[Any], places: Places, writes: Iterable[Any]) -> _Draft:
    draft = _Draft(list(before), places)
    for message in writes:
        if isinstance(message, RemoveMessage):
            draft.remove(str(message.id))
        else:
            draft.put(message)
    return draft


def _places_of(messages: Sequence[Any]) -> Places:
    return {message.id: place for place, message in enumerate(messages) if message.id}


def _flat(writes: Iterable[Any]) -> list[Any]:
    """The messages of writes: of each a list of messages, or one in any form."""
    flat: list[Any] = []
    for write in writes:
        if isinstance(write, list):
            flat.extend(write)
        else:
            flat.append(write)
    return _as_messages(flat)


def _as_messages(given: Sequence[Any]) -> list[Any]:
    """Messages out of messages, chunks, dicts, texts and tuples; whole messages come back as they are."""
    # Long lists are of few types, so these are checked instead of each message.
    if all(issubclass(one, BaseMessage) and not issubclass(one, BaseMessageChunk) for one in set(map(type, given))):
        return list(given)
    messages = convert_to_messages(given)
    return [message_chunk_to_message(one) if isinstance(one, BaseMessageChunk) else one for one in messages]


def _named(messages: list[Any]) -> list[Any]:
    """The messages, where each without an id was given one: on the object itself, as the sender holds it too."""
    for message in messages:
        if message.id is None:
            message.id = str(uuid.uuid4())
    return messages


def _no_such_message(unknown: Sequence[str]) -> str:
    return (
        f"A RemoveMessage names {unknown[0]!r:.200}, which is the id of no message in this conversation. Take the id "
        "from a message in the state, and remove a message once."
    )


def _dear(fields: Sequence[str], saver: object) -> str:
    return (
        f"{type(saver).__name__} keeps only the newest checkpoint of a thread, or cannot be asked whether it does. So "
        f"each checkpoint will hold the whole of {', '.join(map(repr, fields))}, and bytes a turn grow with the "
        "conversation. Take a checkpointer that keeps earlier checkpoints; one that does but cannot be tried says so "
        "by the class attribute `keeps_history = True`; a state schema with `messages: Annotated[list[AnyMessage], "
        "add_messages]` does the same without this warning."
    )


def _lost(key: str) -> str:
    return (
        f"The thread has {key!r}, but the checkpointer gave neither a snapshot of it nor a single write: it does not "
        "keep the checkpoints before the newest one, or they were deleted. Take a checkpointer that keeps them; for "
        "one that does not, annotate the field with langgraph's add_messages, so that each checkpoint holds it whole."
    )
