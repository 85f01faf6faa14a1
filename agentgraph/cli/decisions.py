"""What a person says to a paused run, in the form that the question asks for."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgraph.cli.events import Paused

__all__ = ["decided", "how_to_answer", "is_approval"]

BATCHED = "action_requests"
PER_CALL = "tool_approval"


def is_approval(question: Paused) -> bool:
    """Whether the question takes yes and no: it is about tool calls, or a breakpoint."""
    is_about_call = isinstance(question.value, Mapping) and question.value.get("type") == PER_CALL
    return question.is_breakpoint or is_about_call or _is_batched(question)


def how_to_answer(questions: Sequence[Paused]) -> str:
    """What a person can write in a chat that is paused."""
    if all(map(is_approval, questions)):
        return "/approve, /reject why, or /resume JSON"
    if len(questions) == 1:
        return "a line of text, or /resume JSON"
    return f"/resume [JSON, ...]: its {len(questions)} questions in their order"


def decided(command: str, questions: Sequence[Paused], rest: str) -> dict[str, Any]:
    """What is handed to the run, by the question's id.

    Args:
        command: `/approve`, `/reject` or `/resume`.
        questions: the open questions.
        rest: what stands after the command: the reason of a rejection, told to the model; JSON after `/resume`.

    Raises:
        ValueError: the JSON cannot be read, or does not say which question it answers; a breakpoint was rejected.
    """
    if command != "/approve" and any(question.is_breakpoint for question in questions):
        raise ValueError("a breakpoint takes nothing but /approve")
    if command == "/resume":
        return _resumed(questions, rest)
    decision = {"type": "approve"} if command == "/approve" else {"type": "reject"}
    if command == "/reject" and rest:
        decision["message"] = rest
    return {question.id: _decision(question, decision) for question in questions}


def _resumed(questions: Sequence[Paused], text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError as error:
        expected = f"{text!r:.60} is not JSON; expected the answer as JSON, for example {_example(questions)}"
        raise ValueError(expected) from error
    ids = [question.id for question in questions]
    if isinstance(answer, dict) and set(answer) == set(ids):
        return answer
    if len(ids) == 1:
        return {ids[0]: answer}
    if isinstance(answer, list) and len(answer) == len(ids):
        return dict(zip(ids, answer, strict=True))
    raise ValueError(
        f"{len(ids)} questions are open; expected a list with an answer for each, in their order, or an object with "
        f"the keys {', '.join(ids)}"
    )


def _example(questions: Sequence[Paused]) -> str:
    yes = {"type": "approve"}
    answers = [_decision(one, yes) if is_approval(one) else "a text" for one in questions]
    return json.dumps(answers[0] if len(answers) == 1 else answers)


def _is_batched(question: Paused) -> bool:
    return isinstance(question.value, Mapping) and isinstance(question.value.get(BATCHED), Sequence)


def _decision(question: Paused, decision: dict[str, Any]) -> Any:
    return {"decisions": [decision] * len(question.value[BATCHED])} if _is_batched(question) else decision
