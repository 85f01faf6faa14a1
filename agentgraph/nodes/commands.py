"""Commands that come out of the tools: what they may do to this graph, and what they ask of the agent's loop.

A command to the parent graph is the parent's matter. One to this graph may write fields of the state and may end the
run. Anything else langgraph would drop without a word, or do beside the loop's own way; it is refused here, since
neither the model nor a retry can mend it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.constants import END
from langgraph.types import Command

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.state import unknown_field, visible_state

__all__ = ["check_command", "ends_run", "without_way"]

_JUMP = "jump_to"


def check_command(command: Command[Any], who: str, channels: Mapping[str, Any] | None) -> None:
    """Refuse a command of a tool, or of a hook around it, of which a part would have no effect or a wrong one.

    Args:
        command: any command.
        who: whose it is, for errors.
        channels: the state's fields; None where they are not known.

    Raises:
        ConfigurationError: it goes to another node of this graph or to an unknown graph, answers interrupts, or writes
            what is no field; the text says what to write instead.
    """
    _check_graph(command, who)
    if command.resume is not None:
        raise ConfigurationError(
            f"{who} returned a Command with resume={_shown(command.resume)}, which only the caller of a run can give: "
            "agent.invoke(Command(resume=...))."
        )
    if command.graph is None:
        _check_goto(command, who)
        _check_update(command, who, None if channels is None else visible_state(channels))


def ends_run(command: Command[Any]) -> bool:
    """Whether a command to this graph asks to end the run: goto=END, or the field jump_to set to "end"."""
    return END in _targets(command) or dict(_pairs(command)).get(_JUMP) == "end"


def without_way(command: Command[Any]) -> Command[Any]:
    """The command without its way to the end, which langgraph would take beside the loop's own way."""
    if END in _targets(command):
        command = replace(command, goto=[])
    if not any(key == _JUMP for key, _ in _pairs(command)):
        return command
    return replace(command, update=[pair for pair in _pairs(command) if pair[0] != _JUMP])


def _check_graph(command: Command[Any], who: str) -> None:
    if command.graph is not None and command.graph != Command.PARENT:
        raise ConfigurationError(
            f"{who} returned a Command with graph={_shown(command.graph)}; expected Command.PARENT, to leave for the "
            "graph around this agent, or nothing, to write to the agent's own state."
        )


def _check_goto(command: Command[Any], who: str) -> None:
    others = [target for target in _targets(command) if target != END]
    if others:
        raise ConfigurationError(
            f"{who} returned a Command with goto={_shown(command.goto)}. The edge out of the tools would be taken as "
            "well, so a goto cannot redirect the run. Return Command(graph=Command.PARENT, goto=...) to leave for the "
            "graph around this agent, goto=END to end the run, or no goto to go on."
        )


def _check_update(command: Command[Any], who: str, fields: Mapping[str, Any] | None) -> None:
    for key, value in _pairs(command):
        if key == "__root__":
            raise ConfigurationTypeError(
                f"{who} returned a Command with update={_shown(command.update)}; expected was a dict of state fields, "
                'as in Command(update={"messages": [...]}).'
            )
        if key == _JUMP:
            if value is not None and value != "end":
                raise ConfigurationError(
                    f"{who} sets jump_to to {_shown(value)}. After the tools the model is next in any case; a tool can "
                    'only end the run, with "end" or goto=END.'
                )
        elif fields is not None and key not in fields:
            raise ConfigurationError(unknown_field(who, key, fields))


def _pairs(command: Command[Any]) -> Sequence[tuple[str, Any]]:
    return command._update_as_tuples()  # noqa: SLF001 - langgraph's own reading of all forms of an update


def _targets(command: Command[Any]) -> Sequence[Any]:
    return command.goto if isinstance(command.goto, list | tuple) else [command.goto]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:96]} ..."  # noqa: PLR2004 - as many characters as one looks at
