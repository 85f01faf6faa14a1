"""The state of an agent: its schema, the marks on its fields, and how schemas are merged.

A state is what a checkpoint keeps and what every node reads. `AgentState` is the smallest one; middleware and
users add fields by schemas of their own, which `merge_schemas` lays over each other when the agent is built.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

from langchain_core.messages import AnyMessage, BaseMessage, MessageLikeRepresentation, RemoveMessage
from langgraph.channels import EphemeralValue, Topic, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.managed.base import is_managed_value
from langgraph.types import Command
from typing_extensions import TypedDict, TypeVar

from agentgraph.channels import MessagesChannel
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
    "RunProgress",
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

_MessagesChannel = MessagesChannel()


class AgentState(TypedDict, Generic[ResponseT]):
    """The state every agent has. Subclass it to add fields of your own.

    Attributes:
        messages: the conversation; writes are merged by message id, and only they are stored. A schema with
            `messages: Annotated[list[AnyMessage], add_messages]` stores the whole conversation after each step.
        jump_to: where a hook sends the run; lasts one step, never shown.
        structured_response: the validated answer where `response_format` was given.

    Example:
        >>> class Shop(AgentState):
        ...     basket: NotRequired[list[str]]
    """

    messages: Required[Annotated[list[AnyMessage], _MessagesChannel]]
    jump_to: NotRequired[Annotated[JumpTo | None, _JumpChannel, PrivateStateAttr]]
    structured_response: NotRequired[Annotated[ResponseT, OmitFromInput]]


class InputAgentState(TypedDict):
    """What a run of an agent takes: a text, or messages, also as dicts and pairs such as `("user", "hi")`."""

    messages: Required[Annotated[str | BaseMessage | Sequence[MessageLikeRepresentation], _MessagesChannel]]


class OutputAgentState(TypedDict, Generic[ResponseT]):
    """What a run of an agent returns."""

    messages: Required[Annotated[list[AnyMessage], _MessagesChannel]]
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
        kind: "empty_turn", "structured_response" or "missing_tool_call".
        text: what to tell the model.
        message_id: the assistant message in question.
    """

    kind: str
    text: str
    message_id: str


class RunProgress(TypedDict, total=False):
    """What is counted over one run, so that it ends.

    Attributes:
        empty: whether the model was already asked again for an empty turn.
        malformed: turns in a row with nothing but unreadable calls.
        structured: structured answers that were asked for again.
        forced: whether the model was already asked again for a forced tool call, and has not made it since.
        round: id of the last assistant message whose calls were counted.
        rounds: fingerprints of the last rounds of calls and results.
    """

    empty: bool
    malformed: int
    structured: int
    forced: bool
    round: str
    rounds: list[str]


class RuntimeState(TypedDict):
    """Fields the runtime keeps for itself, in no hook's state and in no result.

    Attributes:
        ask_again: what the model node found wrong with its last answer.
        run_progress: what is counted over this run; not stored.
        tool_exits: wishes of the last step's tools. A tool task cannot see its neighbours, so the first node after
            the tools weighs these, all at once. Emptied with each step.
    """

    tool_exits: NotRequired[Annotated[list[ToolExit], Topic(dict), PrivateStateAttr]]
    ask_again: NotRequired[Annotated[AskAgain | None, PrivateStateAttr]]
    run_progress: NotRequired[Annotated[RunProgress, UntrackedValue(dict, guard=False), PrivateStateAttr]]


StateT = TypeVar("StateT", bound=AgentState[Any], default=AgentState[Any])
"""A middleware's state."""

StateT_co = TypeVar("StateT_co", bound=AgentState[Any], default=AgentState[Any], covariant=True)
"""A middleware's state, where it is only read."""

_HIDDEN = frozenset({"jump_to", *RuntimeState.__annotations__})

_LANGGRAPH_FIELDS = frozenset({"__start__", "__end__", "__interrupt__"})


@dataclass(frozen=True)
class StateSchemas:
    """The merged schemas of one agent: what it keeps, what it takes, what it returns."""

    state: type[Any]
    input: type[Any]
    output: type[Any]


def merge_schemas(schemas: Iterable[type[Any]]) -> StateSchemas:
    """Lay schemas over each other; a later one wins a field.

    Args:
        schemas: classes with annotations (TypedDict, dataclass, pydantic model), the most important last. That one
            must have `messages`; the other fields of AgentState are there in any case.

    Returns:
        The schemas of state, input and output, as TypedDicts.

    Raises:
        ConfigurationError: a schema is no class with fields, names an unknown type, or the last has no `messages` that
            can be appended to.
    """
    given = list(schemas)
    _check_free(given)
    fields: dict[str, _Field] = {}
    for schema in (AgentState, *given, RuntimeState):
        fields.update({name: _field(hint) for name, hint in _hints_of(schema).items()})
    _check_messages(_hints_of(given[-1]))
    return StateSchemas(
        state=_typed_dict("AgentGraphState", fields),
        input=_typed_dict("AgentGraphInput", {name: one for name, one in fields.items() if not one.omitted("input")}),
        output=_typed_dict(
            "AgentGraphOutput", {name: one for name, one in fields.items() if not one.omitted("output")}
        ),
    )


def visible_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state as hooks and tools see it: without what lasts only one step and without the runtime's own fields."""
    return {key: value for key, value in state.items() if key not in _HIDDEN}


def shown_fields(channels: Mapping[str, Any]) -> list[str]:
    """The fields that streams and snapshots of the state show: all but the runtime's own and langgraph's managed ones.

    langgraph's channels that are no fields (of its edges) have a colon in their name or two underscores before it.
    """
    stored = [key for key, channel in channels.items() if isinstance(channel, BaseChannel)]
    return [key for key in stored if key not in _HIDDEN and ":" not in key and not key.startswith("__")]


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
    near = difflib.get_close_matches(str(key), fields, n=1)
    return (
        f"{who} writes {key!r}, which is no field of the state{f' (did you mean {near[0]!r}?)' if near else ''}; "
        f"it has {', '.join(fields)}. Declare the field in a `state_schema`."
    )


def replaced_messages(messages: Sequence[AnyMessage]) -> list[Any]:
    """An update that makes `messages` the whole conversation."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]


def _hints_of(schema: Any) -> dict[str, Any]:
    schema = get_origin(schema) or schema  # AgentState[Weather] has the fields of AgentState
    if not isinstance(schema, type) or not getattr(schema, "__annotations__", None):
        raise ConfigurationTypeError(
            f"A state schema must be a class with annotated fields, such as one derived from agentgraph.AgentState; "
            f"given was {schema!r:.200}."
        )
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"The state schema {schema.__name__!r} names a type that cannot be found: {error}. "
            "Define the type at the top level of the schema's module, where it can be looked up."
        ) from error
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar and hint is not ClassVar}


def _check_messages(hints: Mapping[str, Any]) -> None:
    if "messages" not in hints:
        raise ConfigurationError(
            f"The state schema has the fields {sorted(set(hints) - _HIDDEN)}, but no `messages`, which the agent works "
            "on. Derive it from agentgraph.AgentState."
        )
    if not _field(hints["messages"]).rules:
        raise ConfigurationError(
            "The state schema's `messages` has no reducer, so each message would replace the conversation. Derive the "
            "schema from agentgraph.AgentState, or write messages: Annotated[list[AnyMessage], add_messages]."
        )


def _check_free(schemas: Iterable[type[Any]]) -> None:
    for schema in schemas:
        taken = sorted((RuntimeState.__annotations__.keys() | _LANGGRAPH_FIELDS) & _hints_of(schema).keys())
        if taken:
            raise ConfigurationError(
                f"The state schema {schema.__name__!r} has the field {taken[0]!r}, which the runtime uses itself. "
                "Give the field another name."
            )


class _Field(NamedTuple):
    """The annotation of a field, taken apart.

    Attributes:
        type: without what was around it.
        wrapper: `Required`, `NotRequired` or None.
        rules: the rest of the metadata: a reducer, a channel.
        marks: OmitFromSchema objects, ours or LangChain's.
    """

    type: Any
    wrapper: Any
    rules: tuple[Any, ...] = ()
    marks: tuple[Any, ...] = ()

    def omitted(self, side: Literal["input", "output"]) -> bool:
        # langgraph computes managed values itself, and takes them in neither schema.
        managed = any(is_managed_value(rule) for rule in self.rules)
        return managed or any(getattr(mark, side) is True for mark in self.marks)

    def annotation(self) -> Any:
        """The annotation without its marks: langgraph finds a reducer only where it stands last."""
        bare = Annotated[self.type, *self.rules] if self.rules else self.type
        return bare if self.wrapper is None else self.wrapper[bare]


def _field(annotation: Any) -> _Field:
    """Take an annotation apart, in whichever order `Annotated` and `NotRequired` are nested."""
    origin = get_origin(annotation)
    if origin in {Required, NotRequired}:
        return _field(get_args(annotation)[0])._replace(wrapper=origin)
    if origin is not Annotated:
        return _Field(annotation, None)
    inner, *metadata = get_args(annotation)
    rules = tuple(one for one in metadata if not _is_mark(one))
    marks = tuple(one for one in metadata if _is_mark(one))
    known = _field(inner)
    return known._replace(rules=(*known.rules, *rules), marks=(*known.marks, *marks))


def _is_mark(one: Any) -> bool:
    # Marks of other packages are recognised by their two flags, so that middleware written for them keeps its meaning.
    return isinstance(getattr(one, "input", None), bool) and isinstance(getattr(one, "output", None), bool)


def _typed_dict(name: str, fields: Mapping[str, _Field]) -> type[Any]:
    annotations = {key: one.annotation() for key, one in fields.items()}
    made: type[Any] = TypedDict(name, annotations)  # type: ignore[misc] # the functional form, with fields known at run time only
    return made
