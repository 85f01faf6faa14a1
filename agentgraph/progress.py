"""Whether a run gets on (I4): a model that repeats itself, or cannot write a call, is told, then stopped.

Pure functions on the messages of a turn.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agentgraph.errors import MalformedToolCallError, RepeatedToolCallError
from agentgraph.history import feedback, feedback_kind, this_turn

__all__ = ["MAX_MALFORMED", "STOP_REPEATING_AFTER", "TELL_REPEATING_AFTER", "check_malformed", "repetition_notice"]

TELL_REPEATING_AFTER = 4
"""After so many identical rounds (same calls, same results) the model is told."""

STOP_REPEATING_AFTER = 8
"""After so many identical rounds the run ends with a RepeatedToolCallError."""

MAX_MALFORMED = 5
"""So many turns in a row with nothing but unreadable calls are answered; the next one ends the run."""


def repetition_notice(messages: Sequence[Any], polling: frozenset[str] = frozenset()) -> list[Any]:
    """What to tell a model that repeats one round of calls with the same results; nothing while it gets on.

    Args:
        messages: the conversation, with the answers to the last calls.
        polling: tools that may be called again and again, such as one that waits for a job.

    Returns:
        The message to add, in a list, or an empty list.

    Raises:
        RepeatedToolCallError: the model was told and still goes on.
    """
    if not messages or not isinstance(messages[-1], ToolMessage):
        return []
    count, names = _identical_rounds(this_turn(messages), polling)
    if count >= STOP_REPEATING_AFTER:
        raise RepeatedToolCallError(
            f"The model called {names} {count} times in a row with the same arguments and got the same results each "
            "time, also after it was told. Make the tool's result say what to do next, or, if calling it again and "
            'again is its purpose, set metadata={"polling": True} on the tool.'
        )
    if count != TELL_REPEATING_AFTER:
        return []
    return [
        feedback(
            "repetition",
            f"You have called {names} {count} times in a row with the same arguments, and the result was the same each "
            "time. Do not repeat the call: use the result, try something else, or say what is missing.",
        )
    ]


def check_malformed(messages: Sequence[Any]) -> None:
    """Stop a model that has sent nothing but unreadable calls too many times in a row.

    Args:
        messages: the conversation, with the newest assistant message last.

    Raises:
        MalformedToolCallError: more than MAX_MALFORMED in a row.
    """
    row = 0
    last: AIMessage | None = None
    for message in reversed(this_turn(messages)):
        if not isinstance(message, AIMessage):
            continue
        if message.tool_calls or not message.invalid_tool_calls:
            break
        last = last or message
        row += 1
    if last is not None and row > MAX_MALFORMED:
        call = last.invalid_tool_calls[-1]
        raise MalformedToolCallError(
            f"The model sent {row} turns in a row with tool calls whose arguments cannot be read (the last for "
            f"{call.get('name')!r}: {str(call.get('error') or 'not JSON')[:200]}), although it was told each time. "
            "Raise the model's output limit if calls are cut off, simplify the tool's arguments, or take another model."
        )


def _identical_rounds(turn: list[Any], polling: frozenset[str]) -> tuple[int, str]:
    """How many rounds at the end are the same as the last one, and the names of their tools."""
    rounds = _rounds_from_the_end(turn)
    last = next(rounds, [])
    if not last or any(name in polling for name, _, _ in last):
        return 0, ""
    count = 1 + sum(1 for _ in itertools.takewhile(lambda one: one == last, rounds))
    return count, ", ".join(repr(name) for name in dict.fromkeys(name for name, _, _ in last))


def _rounds_from_the_end(turn: list[Any]) -> Iterator[list[tuple[str, str, str]]]:
    """Each assistant message with calls, newest first, as its calls: name, arguments, result.

    Lazy, because in a run that gets on the first two already differ.
    """
    answers: dict[str, ToolMessage] = {}
    for message in reversed(turn):
        if isinstance(message, ToolMessage):
            answers[message.tool_call_id] = message
        elif isinstance(message, AIMessage) and message.tool_calls:
            yield [_round_entry(call, answers) for call in message.tool_calls]
            answers = {}
        elif feedback_kind(message) is None:
            yield []  # something else happened in between


def _round_entry(call: Any, answers: dict[str, ToolMessage]) -> tuple[str, str, str]:
    answer = answers.get(call["id"])
    content = "" if answer is None else json.dumps(answer.content, sort_keys=True, default=str)
    return call["name"], json.dumps(call["args"], sort_keys=True, default=str), content
