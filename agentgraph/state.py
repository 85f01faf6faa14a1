"""The state of an agent: its schema, the marks on its fields, and how schemas are merged.

A state is what a checkpoint keeps and what every node reads. `AgentState` is the smallest one; middleware and
users add fields by schemas of their own, which `merge_schemas` lays over each other when the agent is built.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NotRequired, Required, get_args, get_origin, get_type_hints

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.channels import EphemeralValue, Topic
from langgraph.channels.base import BaseChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command
from typing_extensions import TypedDict, TypeVar

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

__all__ = [
    "AgentState",
    "AskAgain",
    "InputAgentState",
    "JumpTo",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "PrivateStateAttr",
    "ResponseT",
    "StateSchemas",
    "StateT",
    "StateT_co",
    "ToolExit",
    "apply_update",
    "merge_schemas",
    "replaced_messages",
    "shown_fields",
    "unknown_field",
    "visible_state",
]

JumpTo = Literal["tools", "model", "end"]
"""Where a hook may send the run instead of the next station."""

ResponseT = TypeVar("ResponseT", default=Any)
"""The type of the structured response."""


@dataclass(frozen=True)
class OmitFromSchema:
    """A mark on a state field, inside `Annotated`: leave it out of the input, the output or both.

    Args:
        input: the caller's input cannot set the field. Default True.
        output: the run's result does not show the field. Default True.

    Example:
        >>> class Counting(AgentState):
        ...     calls: NotRequired[Annotated[int, PrivateStateAttr]]
    """

    input: bool = True
    output: bool = True


OmitFromInput = OmitFromSchema(input=True, output=False)
"""Mark: the caller's input cannot set the field."""

OmitFromOutput = OmitFromSchema(input=False, output=True)
"""Mark: the run's result does not show the field."""

PrivateStateAttr = OmitFromSchema(input=True, output=True)
"""Mark: the field is the middleware's own business, in neither input nor result."""

# Several tools of one step may ask to end the run, so the channel must take more than one write.
_JumpChannel: EphemeralValue[Any] = EphemeralValue(Any, guard=False)


class AgentState(TypedDict, Generic[ResponseT]):
    """The state every agent has. Subclass it to add fields of your own.

    Attributes:
        messages: the conversation; writes are merged by message id.
        jump_to: where a hook sends the run; lasts one step, never shown.
        structured_response: the validated answer where `response_format` was given.

    Example:
        >>> class Shop(AgentState):
        ...     basket: NotRequired[list[str]]
    """

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    jump_to: NotRequired[Annotated[JumpTo | None, _JumpChannel, PrivateStateAttr]]
    structured_response: NotRequired[Annotated[ResponseT, OmitFromInput]]


class InputAgentState(TypedDict):
    """What a run of an agent takes; messages may also be dicts such as `{"role": "user", "content": "hi"}`."""

    messages: Required[Annotated[list[AnyMessage | dict[str, Any]], add_messages]]


class OutputAgentState(TypedDict, Generic[ResponseT]):
    """What a run of an agent returns."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    structured_response: NotRequired[ResponseT]


class ToolExit(TypedDict):
    """A tool's wish to leave the loop.

    Attributes:
        kind: "end" of the run, "parent" (a command to the parent graph), or "return_direct" (its result is the answer).
        command: the command, where kind is "parent".
    """

    kind: Literal["end", "parent", "return_direct"]
    command: NotRequired[Command[Any]]


class AskAgain(TypedDict):
    """Why an answer of the model is none, and what the model will be told.

    Attributes:
        kind: "empty_turn" or "structured_response".
        text: what to tell the model.
        message_id: the assistant message in question.
    """

    kind: str
    text: str
    message_id: str


class RuntimeState(TypedDict):
    """Fields the runtime keeps for itself, in no hook's state and in no result.

    Attributes:
        ask_again: what the model node found wrong with its last answer.
        tool_exits: wishes of the last step's tools. A tool task cannot see its neighbours, so the first node after
            the tools weighs these, all at once. Emptied with each step.
    """

    tool_exits: NotRequired[Annotated[list[ToolExit], Topic(dict), PrivateStateAttr]]
    ask_again: NotRequired[Annotated[AskAgain | None, PrivateStateAttr]]


StateT = TypeVar("StateT", bound=AgentState[Any], default=AgentState[Any])
"""A middleware's state."""

StateT_co = TypeVar("StateT_co", bound=AgentState[Any], default=AgentState[Any], covariant=True)
"""A middleware's state, where it is only read."""

_HIDDEN = frozenset({"ask_again", "jump_to", "tool_exits"})


@dataclass(frozen=True)
class StateSchemas:
    """The merged schemas of one agent: what it keeps, what it takes, what it returns."""

    state: type[Any]
    input: type[Any]
    output: type[Any]


def merge_schemas(schemas: Iterable[type[Any]]) -> StateSchemas:
    """Lay schemas over each other; a later one wins a field.

    Args:
        schemas: classes with annotations (TypedDict, dataclass, pydantic model), the most important last.

    Returns:
        The schemas of state, input and output, as TypedDicts.

    Raises:
        ConfigurationError: a schema is no class with fields, names an unknown type, or there is no `messages`.
    """
    fields: dict[str, Any] = {}
    for schema in (*dict.fromkeys(schemas), RuntimeState):
        fields.update(_fields_of(schema))
    if "messages" not in fields:
        raise ConfigurationError(
            f"The state has the fields {sorted(set(fields) - _HIDDEN)}, but no `messages`, which the agent works on. "
            "Derive the schema from agentgraph.AgentState."
        )
    return StateSchemas(
        state=_typed_dict("AgentGraphState", fields),
        input=_typed_dict("AgentGraphInput", {k: v for k, v in fields.items() if not _omitted(v, "input")}),
        output=_typed_dict("AgentGraphOutput", {k: v for k, v in fields.items() if not _omitted(v, "output")}),
    )


def visible_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state as hooks and tools see it: without what lasts only one step and without the runtime's own fields."""
    return {key: value for key, value in state.items() if key not in _HIDDEN}


def shown_fields(known: Iterable[str]) -> list[str]:
    """The fields that streams and snapshots of the state show: all but the runtime's own.

    langgraph's channels that are no fields (of its edges) have a colon in their name or two underscores before it.
    """
    return [key for key in known if key not in _HIDDEN and ":" not in key and not key.startswith("__")]


def apply_update(
    channels: Mapping[str, BaseChannel[Any, Any, Any]], state: dict[str, Any], update: Iterable[tuple[str, Any]]
) -> dict[str, Any]:
    """The state as it will be after an update, by the rules of its channels; the given state is left alone.

    Hooks that share a node need it: the second must see what the first wrote, before anything is stored.
    """
    after = dict(state)
    for key, value in update:
        channel = channels[key]
        # A channel is started from the plain value it had, takes the write, and is asked again.
        started = channel.from_checkpoint(after[key]) if key in after else channel.copy()
        started.update([value])
        after[key] = started.get()
    return after


def unknown_field(who: str, key: str, known: Iterable[str]) -> str:
    """The error text for an update of a field that the state does not have."""
    fields = sorted(set(known) - _HIDDEN)
    near = difflib.get_close_matches(key, fields, n=1)
    return (
        f"{who} writes {key!r}, which is no field of the state{f' (did you mean {near[0]!r}?)' if near else ''}; "
        f"it has {', '.join(fields)}. Declare the field in a `state_schema`."
    )


def replaced_messages(messages: Sequence[AnyMessage]) -> list[Any]:
    """An update that makes `messages` the whole conversation."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]


def _fields_of(schema: type[Any]) -> dict[str, Any]:
    if not isinstance(schema, type) or not getattr(schema, "__annotations__", None):
        raise ConfigurationTypeError(
            f"A state schema must be a class with annotated fields, such as one derived from agentgraph.AgentState; "
            f"given was {schema!r}."
        )
    try:
        return get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"The state schema {schema.__name__!r} names a type that cannot be found: {error}. "
            "Define the type at the top level of the schema's module, where it can be looked up."
        ) from error


def _omitted(annotation: Any, side: Literal["input", "output"]) -> bool:
    # Marks of other packages are recognised by their two flags, so that middleware written for them keeps its meaning.
    return any(getattr(mark, side, None) is True and hasattr(mark, "output") for mark in _marks(annotation))


def _marks(annotation: Any) -> list[Any]:
    origin = get_origin(annotation)
    if origin in {Required, NotRequired}:
        return _marks(get_args(annotation)[0])
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        return [*marks, *_marks(inner)]
    return []


def _typed_dict(name: str, fields: dict[str, Any]) -> type[Any]:
    made: type[Any] = TypedDict(name, fields)  # type: ignore[misc] # the functional form, with fields known at run time only
    return made
