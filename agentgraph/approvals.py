"""Answers to the questions of a paused run: does an answer fit its question?

A run pauses with an `Interrupt`: a question with an id. An answer that does not fit is refused before it is stored, so
that the question stays open and the right answer still works. Three kinds of questions are known:

* batched approvals: `{"action_requests": [...], "review_configs": [...]}`, answered with `{"decisions": [...]}`, one
  for each request, in their order;
* the approval of one call: `{"type": "tool_approval", ...}`, answered with one decision;
* any question with a JSON schema for its answer (`response_schema`).

A checked answer names the calls it was given for (`asked`, digests), so that the one who asked can tell when something
else would be decided by it. Everything here is pure.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph.errors import _mark_invalid_resume
from langgraph.types import Interrupt
from pydantic_core import to_jsonable_python

from agentgraph.errors import ResumeError

__all__ = ["ASKED", "DECISIONS", "call_digest", "check_answer", "mismatches", "refused"]

DECISIONS = ("approve", "edit", "reject", "respond")
"""The kinds of decisions on a tool call."""

ASKED = "asked"
"""The key under which a checked answer names the calls it is for."""

_SHOWN = 200
_MISMATCHES_SHOWN = 5

Object = Mapping[str, Any]


def check_answer(interrupt: Interrupt[Any], answer: Any) -> Any:
    """The answer as it is to be stored, if it fits the question.

    A paused run's answers pass here before they reach the thread, and once more where they are used.

    Args:
        interrupt: the open question, as `get_state(config).tasks[...].interrupts` or a run's result shows it.
        answer: what `Command(resume=...)` would carry for this question alone.

    Returns:
        For approvals a clean copy that names the calls it is for; every other answer as it is.

    Raises:
        ResumeError: it does not fit; the text says what was asked, what was given, and what was expected.

    Example:
        >>> question = Interrupt({"type": "tool_approval", "name": "pay", "args": {}}, id="q1")
        >>> check_answer(question, {"type": "reject", "message": "too much"})["type"]
        'reject'
    """
    value = interrupt.value
    if isinstance(value, Mapping):
        if _is_list(value.get("action_requests")) and _is_list(value.get("review_configs")):
            return _check_batched(interrupt, answer)
        if value.get("type") == "tool_approval" and isinstance(value.get("name"), str):
            return _check_one(interrupt, answer)
    problems = mismatches(interrupt.response_schema, answer)
    if problems:
        raise refused(interrupt, answer, f"it does not fit the schema of the question: {problems}")
    return answer


def call_digest(name: str, args: Any) -> str:
    """What a call does as one short text: equal for equal name and arguments, in every process.

    Example:
        >>> call_digest("pay", {"to": "ann", "amount": 1}) == call_digest("pay", {"amount": 1, "to": "ann"})
        True
    """
    try:
        text = json.dumps([name, args], sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that cannot be sorted, circles
        text = repr([name, args])
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:32]


def refused(interrupt: Interrupt[Any], answer: Any, why: str) -> ResumeError:
    """The error for an answer that does not fit: what was asked, what was given, why it is refused, what to do.

    Args:
        interrupt: the question.
        answer: what was given.
        why: half a sentence on what was expected.
    """
    error = ResumeError(
        f"The answer to {_asked_about(interrupt)} was refused: {why}. Given was {_bounded(_shown(answer))}. "
        "It decides nothing and the question is still open; resume with an answer that fits."
    )
    # langgraph's mark for this kind of error (its reader, `is_invalid_resume`, is public): tool nodes let it pass
    # instead of telling the model, so that it reaches the one who answered.
    _mark_invalid_resume(error)
    return error


def _asked_about(interrupt: Interrupt[Any]) -> str:
    value = interrupt.value
    requests = value.get("action_requests", [value]) if isinstance(value, Mapping) else []
    names = [str(one["name"]) for one in requests if isinstance(one, Mapping) and "name" in one]
    about = f" (approval of {_bounded(', '.join(names))})" if names else ""
    # Where an answer is used, its question has no id that one could look up.
    which = f"the question {_bounded(str(interrupt.id))!r}" if interrupt.id else "a question"
    return f"{which}{about}"


def _check_batched(interrupt: Interrupt[Any], answer: Any) -> dict[str, Any]:
    requests = [one if isinstance(one, Mapping) else {} for one in interrupt.value["action_requests"]]
    given: Any = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not _is_list(given):
        raise refused(interrupt, answer, 'expected was {"decisions": [...]}, a list with one decision for each call')
    if len(given) != len(requests):
        raise refused(
            interrupt,
            answer,
            f"it has {len(given)} decisions where {len(requests)} were expected, one for each call, in their order",
        )
    configs = [_config(interrupt.value["review_configs"], place, one) for place, one in enumerate(requests)]
    decisions = []
    for place, (decision, config) in enumerate(zip(given, configs, strict=True)):
        problem = _problem(decision, _allowed(config)) or _edit_problem(decision, requests[place], config)
        if problem:
            raise refused(interrupt, answer, f"decision {place + 1} of {len(given)}: {problem}")
        decisions.append(_clean(decision))
    return {"decisions": decisions, ASKED: _bound(interrupt, answer, requests)}


def _check_one(interrupt: Interrupt[Any], answer: Any) -> dict[str, Any]:
    schema = interrupt.response_schema
    branches = _branches(schema) if isinstance(schema, Mapping) else {}
    problem = _problem(answer, tuple(branches) or DECISIONS)
    if problem:
        raise refused(interrupt, answer, problem)
    decision = _clean(answer)
    problems = mismatches(branches.get(decision["type"]), decision)
    if problems:
        raise refused(interrupt, answer, f"it does not fit the schema of the question: {problems}")
    return {**decision, ASKED: _bound(interrupt, answer, [interrupt.value])}


def _bound(interrupt: Interrupt[Any], answer: Object, requests: Sequence[Object]) -> list[str]:
    """Digests of the calls in question; an answer that names others was given for another question."""
    digests = [call_digest(request.get("name", ""), request.get("args")) for request in requests]
    if ASKED in answer and answer[ASKED] != digests:
        raise refused(interrupt, answer, "it was given for other calls than those that are asked about now")
    return digests


def _config(configs: Sequence[Any], place: int, request: Object) -> Object:
    """The review config of a request: the one with its name, preferably at its own place."""
    candidates = [one for one in (*configs[place : place + 1], *configs) if isinstance(one, Mapping)]
    return next((one for one in candidates if one.get("action_name") == request.get("name")), {})


def _allowed(config: Object) -> Sequence[str]:
    allowed = config.get("allowed_decisions")
    return cast("Sequence[str]", allowed) if _is_list(allowed) else DECISIONS


def _problem(decision: Any, allowed: Sequence[str]) -> str | None:
    """What is wrong with the shape of a decision; None when nothing is."""
    expected = f'expected was one of {", ".join(repr(kind) for kind in allowed)} as its "type"'
    kind = decision.get("type") if isinstance(decision, Mapping) else None
    if not isinstance(decision, Mapping):
        return f'{expected}, as in {{"type": {json.dumps(next(iter(allowed), "approve"))}}}, but it is no object'
    if not isinstance(kind, str) or kind not in allowed:
        known = "is not allowed here" if kind in DECISIONS else "is no decision"
        return f"{expected}; {_bounded(_shown(kind))} {known}"
    if kind == "edit":
        return _action_problem(decision.get("edited_action"))
    if "edited_action" in decision:
        return f'{kind!r} takes no "edited_action"; an edit has the type "edit"'
    return _message_problem(kind, decision)


def _message_problem(kind: str, decision: Object) -> str | None:
    if kind == "approve":
        return None
    message = decision.get("message")
    if isinstance(message, str) or (kind == "reject" and message is None):
        return None
    return f'{kind!r} takes a "message", a text for the model'


def _action_problem(action: Any) -> str | None:
    if not isinstance(action, Mapping) or not isinstance(action.get("name"), str) or not action["name"]:
        return '"edit" takes an "edited_action" {"name": ..., "args": {...}} with the name of a tool'
    args = action.get("args")
    if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
        return 'the "args" of its "edited_action" must be an object, the arguments by their names'
    return None


def _edit_problem(decision: Object, request: Object, config: Object) -> str | None:
    """What an edit violates of the schema that was given for the arguments of its tool."""
    action = decision.get("edited_action")
    if action is None or action["name"] != request.get("name"):
        return None
    problems = mismatches(config.get("args_schema"), action["args"])
    return f"its edited arguments do not fit the schema: {problems}" if problems else None


def _clean(decision: Object) -> dict[str, Any]:
    """The decision with the parts that belong to its kind, and nothing else."""
    kind = decision["type"]
    if kind == "edit":
        action = decision["edited_action"]
        return {"type": kind, "edited_action": {"name": action["name"], "args": dict(action["args"])}}
    message = decision.get("message")
    return {"type": kind} if kind == "approve" or message is None else {"type": kind, "message": message}


def _branches(schema: Object) -> dict[str, Object]:
    """The schema of each allowed decision, by its type; empty for a schema that is no choice of decisions."""
    found: dict[str, Object] = {}
    for given in schema.get("oneOf") or schema.get("anyOf") or [schema]:
        branch = _resolved(given, schema)
        kind = branch.get("properties", {}).get("type", {})
        name = kind.get("const") or next(iter(kind.get("enum", ())), None)
        if name not in DECISIONS:
            return {}
        found[name] = {**{key: schema[key] for key in ("$defs", "definitions") if key in schema}, **branch}
    return found


def _resolved(branch: Object, root: Object) -> Object:
    reference = str(branch.get("$ref", ""))
    definitions: Object = root.get("$defs", {})
    found: Object = definitions.get(reference.removeprefix("#/$defs/"), branch) if reference else branch
    return found


def mismatches(schema: Any, answer: Any) -> str:
    """Where an answer violates a JSON schema, as one text; empty when it fits or there is no schema."""
    if not isinstance(schema, Mapping):
        return ""
    from agentgraph.structured_output.json_schemas import json_mismatches  # noqa: PLC0415 - most questions have none

    try:
        data = to_jsonable_python(answer)  # langgraph also takes models and dataclasses as answers
    except (TypeError, ValueError, RecursionError) as error:
        return _bounded(f"it cannot be written as JSON ({error})")
    try:
        found = json_mismatches(schema, data, at_most=_MISMATCHES_SHOWN)
    except Exception:  # noqa: BLE001 - pure code: a schema of somebody else's that is unsound can refuse nothing
        return ""
    return "; ".join(_bounded(one) for one in found)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an answer whose text cannot be made must not hide that it was refused
        return f"a {type(value).__name__}"


def _bounded(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
