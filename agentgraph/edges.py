"""The exit rules: where a run goes from a station, as an ordered tuple of small pure functions.

Each rule is `(state, exits) -> destination or None`; the first answer wins, else the default is taken.

Out of the model, or of the last `after_model`:

1. `jump`: a hook asked for it
2. `no_ai_message`: the history was cleared, so the run ends
3. `to_tools`: one `Send` for each call that has no answer yet
4. `to_end_with_structured_response`
5. `ask_again`: an empty turn, or prose where a structured answer was asked for
6. `answered_or_unreadable`: calls that a hook answered, and unreadable ones, lead to the model again
7. else: the end

Out of the tools: `left_by_tools`, `to_end_with_structured_response`, else the loop's start.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command, Send

from agentgraph.history import answers_to, last_ai_message, pending_calls

__all__ = [
    "AFTER_MODEL_RULES",
    "AFTER_TOOLS_RULES",
    "JUMP_RULES",
    "Edge",
    "Exits",
    "Route",
    "Rule",
    "decide",
    "settle_tools",
]

Destination = str | list[Send]
State = Mapping[str, Any]


@dataclass(frozen=True)
class Exits:
    """Where the loop starts and where it leads out, and what the rules must know of the tools.

    Attributes:
        loop: the loop's start: the first before_model hook, or the model.
        end: the first after_agent hook, or the graph's end.
        tools: the name of the tools node, None where there is none.
        return_direct: tools whose result is the run's answer.
        structured: names of the tools of structured output; the model node answers these.
    """

    loop: str
    end: str
    tools: str | None = None
    return_direct: frozenset[str] = frozenset()
    structured: frozenset[str] = frozenset()


Rule = Callable[[State, Exits], Destination | None]


@dataclass(frozen=True)
class Edge:
    """What leads out of one node.

    Attributes:
        source: the node.
        default: where it goes when no rule answers.
        exits: what the rules must know.
        rules: asked in order; empty for a plain edge.
        destinations: all nodes that may follow.
    """

    source: str
    default: str
    exits: Exits
    rules: tuple[Rule, ...] = ()
    destinations: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Route:
    """The stations of an agent and how they are connected; a value that can be printed and compared."""

    entry: str
    exits: Exits
    edges: tuple[Edge, ...]


def decide(edge: Edge, state: State) -> Destination:
    """Where the run goes: the first rule's answer, else the edge's default."""
    for rule in edge.rules:
        answer = rule(state, edge.exits)
        if answer is not None:
            return answer
    return edge.default


def jump(state: State, exits: Exits) -> Destination | None:
    """A hook's `jump_to`. A jump to the tools runs only calls without an answer, so none that was rejected."""
    match state.get("jump_to"):
        case "model":
            return exits.loop
        case "end":
            return exits.end
        case "tools":
            return to_tools(state, exits)
        case _:
            return None


def no_ai_message(state: State, exits: Exits) -> Destination | None:
    """There is nothing to go on from when a hook has cleared the history."""
    return exits.end if last_ai_message(state["messages"]) is None else None


def to_tools(state: State, exits: Exits) -> Destination | None:
    """One Send for each call of the last assistant message that is not answered and not a structured answer."""
    if exits.tools is None:
        return None
    pending = [call for call in pending_calls(state["messages"]) if call["name"] not in exits.structured]
    return [Send(exits.tools, [call]) for call in pending] or None


def to_end_with_structured_response(state: State, exits: Exits) -> Destination | None:
    """The promised answer is there; the model node resets it with each call, so it is fresh."""
    return exits.end if state.get("structured_response") is not None else None


def ask_again(state: State, exits: Exits) -> Destination | None:
    """The model node noted that its answer is none; it tells the model when it comes there again."""
    note = state.get("ask_again")
    last = last_ai_message(state["messages"])
    return exits.loop if note and last is not None and note["message_id"] == last.id else None


def answered_or_unreadable(state: State, exits: Exits) -> Destination | None:
    """The model must see the answers to its calls: given by a hook, or due because a call is unreadable."""
    last = last_ai_message(state["messages"])
    if last is None or not (last.tool_calls or last.invalid_tool_calls):
        return None
    return exits.loop


def left_by_tools(state: State, exits: Exits) -> Destination | None:
    """A tool ended the run, or gave its answer directly.

    A tool's task sees its own result only. Where others ran beside it, the loop's first node decides for all.
    """
    if not state.get("tool_exits"):
        return None
    alone = _all_answered(state["messages"], exits)
    return exits.end if alone and settle_tools(state, exits) == "end" else exits.loop


def settle_tools(state: State, exits: Exits) -> Command[Any] | str | None:
    """What the last step's tools decided together: to leave for the parent graph, to end the run, or to go on.

    Args:
        state: the state after all tools of the step.
        exits: for which tools return directly.

    Returns:
        A command to the parent graph, "end", or None.
    """
    wishes = state.get("tool_exits") or ()
    parents = [wish["command"] for wish in wishes if wish["kind"] == "parent"]
    if parents:
        return _merged(parents)
    if any(wish["kind"] == "end" for wish in wishes):
        return "end"
    if any(wish["kind"] == "return_direct" for wish in wishes) and _all_direct(state["messages"], exits):
        return "end"
    return None


def _merged(commands: Sequence[Command[Any]]) -> Command[Any]:
    """One command for the parent graph out of several: a graph can be left only once."""
    if len(commands) == 1:
        return commands[0]
    targets = [target for command in commands for target in _targets(command)]
    sends = [target for target in targets if isinstance(target, Send)]
    names = dict.fromkeys(target for target in targets if isinstance(target, str))
    return Command(
        graph=commands[0].graph,
        goto=[*names, *sends],
        update=[pair for command in commands for pair in command._update_as_tuples()],  # noqa: SLF001 - langgraph's own reading of all forms of an update
    )


def _targets(command: Command[Any]) -> Sequence[Send | str]:
    return [command.goto] if isinstance(command.goto, (str, Send)) else command.goto


def _client_calls(message: AIMessage, exits: Exits) -> list[Any]:
    return [call for call in message.tool_calls if call["name"] not in exits.structured]


def _all_answered(messages: Sequence[Any], exits: Exits) -> bool:
    last = last_ai_message(messages)
    if last is None:
        return False
    answers = answers_to(messages, last)
    return all(call["id"] in answers for call in _client_calls(last, exits))


def _all_direct(messages: Sequence[Any], exits: Exits) -> bool:
    last = last_ai_message(messages)
    if last is None:
        return False
    answers = answers_to(messages, last)
    calls = _client_calls(last, exits)
    return all(call["name"] in exits.return_direct and _succeeded(answers.get(call["id"])) for call in calls)


def _succeeded(answer: ToolMessage | None) -> bool:
    return answer is not None and answer.status != "error"


JUMP_RULES: tuple[Rule, ...] = (jump,)
"""Out of a before or after hook that declares jumps."""

AFTER_MODEL_RULES: tuple[Rule, ...] = (
    jump,
    no_ai_message,
    to_tools,
    to_end_with_structured_response,
    ask_again,
    answered_or_unreadable,
)
"""Out of the model, or of the last after_model hook."""

AFTER_TOOLS_RULES: tuple[Rule, ...] = (left_by_tools, to_end_with_structured_response)
"""Out of the tools."""
