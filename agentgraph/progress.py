"""Whether a run gets on (I4): a model that repeats itself, or cannot write a call, is told, then stopped.

What is counted belongs to the run and is kept in its state, so that no hook which adds or trims messages can begin a
count anew. Pure functions from counts to counts.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson
from langchain_core.messages import AIMessage, ToolMessage

from agentgraph.errors import MalformedToolCallError, RepeatedToolCallError
from agentgraph.history import answers_to, feedback, last_ai_message
from agentgraph.state import RunProgress

__all__ = ["MAX_MALFORMED", "STOP_REPEATING_AFTER", "TELL_REPEATING_AFTER", "count_malformed", "count_rounds"]

TELL_REPEATING_AFTER = 4
"""After so many identical rounds (same calls, same results) the model is told."""

STOP_REPEATING_AFTER = 8
"""After so many identical rounds the run ends with a RepeatedToolCallError."""

MAX_MALFORMED = 5
"""So many turns in a row with nothing but unreadable calls are answered; the next one ends the run."""

LONGEST_CYCLE = 3
"""A model may also go round in a circle of so many different rounds."""


def count_rounds(
    progress: RunProgress, messages: Sequence[Any], polling: frozenset[str] = frozenset()
) -> tuple[RunProgress, list[Any]]:
    """Count the last round of calls, once its results are there.

    Args:
        progress: the run's counts so far.
        messages: the conversation, with the answers to the last calls.
        polling: tools that may be called again and again, such as one that waits for a job.

    Returns:
        The counts, and what to tell a model that repeats itself: one message, or none while it gets on.

    Raises:
        RepeatedToolCallError: the model was told and still goes on.
    """
    last = last_ai_message(messages)
    if last is None or not last.tool_calls or last.id == progress.get("round"):
        return progress, []
    known = [*progress.get("rounds", []), _fingerprint(last, answers_to(messages, last), polling)]
    counted: RunProgress = {
        **progress,
        "round": last.id or "",
        "rounds": known[-LONGEST_CYCLE * STOP_REPEATING_AFTER :],
    }
    length, count = _repeats(counted["rounds"])
    names = ", ".join(repr(name) for name in dict.fromkeys(call["name"] for call in last.tool_calls))
    if count >= STOP_REPEATING_AFTER:
        raise RepeatedToolCallError(
            f"The model repeated the same {length} round(s) of calls (the last of {names}) {count} times in a row and "
            "got the same results each time, also after it was told. Make the result say what to do next, or, if "
            'calling it again and again is its purpose, set metadata={"polling": True} on the tool.'
        )
    if count != TELL_REPEATING_AFTER:
        return counted, []
    notice = (
        f"You have called {names} {count} times in a row with the same arguments, and the result was the same each "
        "time. Do not repeat the call: use the result, try something else, or say what is missing."
    )
    return counted, [feedback("repetition", notice)]


def count_malformed(progress: RunProgress, message: AIMessage) -> RunProgress:
    """Count answers with nothing but unreadable calls.

    Args:
        progress: the run's counts so far.
        message: the newest answer of the model.

    Returns:
        The counts.

    Raises:
        MalformedToolCallError: more than MAX_MALFORMED in a row.
    """
    if message.tool_calls or not message.invalid_tool_calls:
        return {**progress, "malformed": 0} if progress.get("malformed") else progress
    row = progress.get("malformed", 0) + 1
    if row > MAX_MALFORMED:
        call = message.invalid_tool_calls[-1]
        raise MalformedToolCallError(
            f"The model sent {row} turns in a row with tool calls whose arguments cannot be read (the last for "
            f"{str(call.get('name'))[:64]!r}: {str(call.get('error') or 'not JSON')[:200]}), although it was told each "
            "time. Raise the model's output limit if calls are cut off, simplify the tool's arguments, or take another "
            "model."
        )
    return {**progress, "malformed": row}


def _repeats(rounds: Sequence[str]) -> tuple[int, int]:
    """How often the end of a list repeats itself: the length of the repeated part, and how often it stands there."""
    best = (1, 1)
    for length in range(1, LONGEST_CYCLE + 1):
        part = rounds[-length:]
        count = 0
        while rounds[len(rounds) - (count + 1) * length : len(rounds) - count * length] == part and part[0]:
            count += 1
        best = max(best, (length, count), key=lambda found: found[1])
    return best


def _fingerprint(message: AIMessage, answers: dict[str, ToolMessage], polling: frozenset[str]) -> str:
    """A round's calls and results in short; "" for a round that may be repeated."""
    if any(call["name"] in polling for call in message.tool_calls):
        return ""
    parts = [
        [call["name"], call["args"], answers[call["id"]].content if call["id"] in answers else None]
        for call in message.tool_calls
    ]
    try:
        written = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=repr)
    except TypeError:  # an integer beyond 64 bits, or text that is no text
        written = repr(parts).encode(errors="replace")
    return hashlib.blake2b(written, digest_size=8).hexdigest()
