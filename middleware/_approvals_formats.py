"""The data that approvals are asked with and answered by, as clients of a paused run see it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

__all__ = [
    "Action",
    "ActionRequest",
    "ApproveDecision",
    "Decision",
    "DecisionType",
    "DescriptionFactory",
    "EditDecision",
    "HITLRequest",
    "HITLResponse",
    "InterruptMode",
    "InterruptOnConfig",
    "RejectDecision",
    "RespondDecision",
    "ReviewConfig",
    "ToolApprovalRequest",
    "answer_schema",
    "decision_schema",
]

DecisionType = Literal["approve", "edit", "reject", "respond"]
"""What a person may decide about a tool call."""

InterruptMode = Literal["batched", "per_call"]
"""Whether a turn's calls are asked about together, or each by a question of its own."""


class Action(TypedDict):
    """What a call does.

    Attributes:
        name: of the tool.
        args: the arguments by name.
    """

    name: str
    args: dict[str, Any]


class ActionRequest(TypedDict):
    """A call that waits for a decision.

    Attributes:
        name: of the tool.
        args: the arguments by name.
        description: what the person is told about it.
    """

    name: str
    args: dict[str, Any]
    description: NotRequired[str]


class ReviewConfig(TypedDict):
    """How a call may be decided.

    Attributes:
        action_name: of the tool.
        allowed_decisions: the kinds of decisions that are taken.
        args_schema: the JSON schema that edited arguments must fit, where one was configured.
    """

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]


class HITLRequest(TypedDict):
    """The question of a batched approval.

    Attributes:
        action_requests: the calls, in the order of the model's message.
        review_configs: one for each of them, in the same order.
    """

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class ApproveDecision(TypedDict):
    """The call runs as it is."""

    type: Literal["approve"]


class EditDecision(TypedDict):
    """Another call runs in its place.

    Attributes:
        type: "edit".
        edited_action: what runs. Where it is guarded itself, it is asked about again.
    """

    type: Literal["edit"]
    edited_action: Action


class RejectDecision(TypedDict):
    """The call does not run, and the model is told so.

    Attributes:
        type: "reject".
        message: the reason, for the model.
    """

    type: Literal["reject"]
    message: NotRequired[str]


class RespondDecision(TypedDict):
    """The person answers in the tool's place; it does not run.

    Attributes:
        type: "respond".
        message: what the model gets as the tool's result.
    """

    type: Literal["respond"]
    message: str


Decision: TypeAlias = ApproveDecision | EditDecision | RejectDecision | RespondDecision
"""What a person says about one call."""


class HITLResponse(TypedDict):
    """The answer to a batched approval.

    Attributes:
        decisions: one for each action request, in their order.
    """

    decisions: list[Decision]


class ToolApprovalRequest(TypedDict):
    """The question about one call; it is answered with one decision, by the id of the interrupt.

    Attributes:
        type: "tool_approval".
        tool_call_id: of the call in the model's message.
        name: of the tool.
        args: the arguments by name.
        description: what the person is told about it.
    """

    type: Literal["tool_approval"]
    tool_call_id: str
    name: str
    args: dict[str, Any]
    description: str


DescriptionFactory: TypeAlias = Callable[[ToolCall, Any, Runtime[Any]], str]
"""`(tool_call, state, runtime)` to what the person is told."""


class InterruptOnConfig(TypedDict):
    """How calls of one tool are approved.

    Attributes:
        allowed_decisions: the kinds of decisions that are taken; at least one.
        description: what the person is told, or a function `(tool_call, state, runtime)` that says it.
        args_schema: a JSON schema that edited arguments must fit. Default: in `per_call` mode the tool's own.
        when: asks only where it gives True for the call; the request's `tool` is None in `batched` mode, where the
            question comes before the tools. Once a call was asked about, the answer holds, whatever it would say then.
    """

    allowed_decisions: list[DecisionType]
    description: NotRequired[str | DescriptionFactory]
    args_schema: NotRequired[dict[str, Any]]
    when: NotRequired[Callable[[ToolCallRequest], bool]]


def answer_schema(count: int) -> dict[str, Any]:
    """The JSON schema of the answer to a batched approval of so many calls."""
    decisions = {"type": "array", "items": {"type": "object"}, "minItems": count, "maxItems": count}
    return _object("HITLResponse", {"decisions": decisions}, ["decisions"])


def decision_schema(
    allowed: Sequence[DecisionType], name: str, tool: BaseTool | None, args_schema: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The JSON schema of a decision on one call; an edit keeps to the tool and to the schema of its arguments.

    Args:
        allowed: the kinds of decisions.
        name: of the tool.
        tool: the tool, None where it is not known.
        args_schema: takes the place of the tool's own schema.

    Example:
        >>> decision_schema(["approve"], "pay", None)["properties"]
        {'type': {'const': 'approve', 'type': 'string'}}
    """
    args = dict(_arguments_of(tool) if args_schema is None else args_schema)
    # References inside of it count from the root, so its definitions move there.
    definitions: dict[str, Any] = {key: args.pop(key) for key in ("$defs", "definitions") if key in args}
    action = _object("EditedAction", {"name": {"const": name, "type": "string"}, "args": args}, ["name", "args"])
    text = {"type": "string"}
    fields: dict[DecisionType, tuple[dict[str, Any], list[str]]] = {
        "approve": ({}, []),
        "edit": ({"edited_action": action}, ["edited_action"]),
        "reject": ({"message": text}, []),
        "respond": ({"message": text}, ["message"]),
    }
    members = [_branch(kind, *fields[kind]) for kind in allowed]
    if len(members) == 1:
        return {**members[0], **definitions}
    return {"oneOf": members, "discriminator": {"propertyName": "type"}, **definitions}


def _branch(kind: str, properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    own = {"type": {"const": kind, "type": "string"}, **properties}
    return _object(f"{kind.capitalize()}Decision", own, ["type", *required])


def _object(title: str, properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"title": title, "type": "object", "properties": dict(properties), "required": list(required)}


def _arguments_of(tool: BaseTool | None) -> Mapping[str, Any]:
    schema: Any = None if tool is None else tool.tool_call_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    return schema if isinstance(schema, dict) else {"type": "object"}
