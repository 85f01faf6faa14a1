"""Errors of tools: the policy, and the text that tells the model what went wrong and what to do.

`on_tool_error` of `create_agent` is one of

- `"return"`: the model is told, by a tool message with status "error" (the default);
- `"raise"`: the run raises;
- a function `(error, request)` that returns the text or the ToolMessage for the model, or None to raise.

Whatever it is, langgraph's control flow (interrupts), cancellation and an answer to an interrupt that does not fit
always pass.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from pydantic import ValidationError

from agentgraph.errors import ConfigurationError, ToolTimeoutError
from agentgraph.tools.results import ToolAnswer, answer, answered

__all__ = [
    "OnToolError",
    "arguments_error",
    "check_policy",
    "error_text",
    "let_out",
    "passes",
    "told",
    "unknown_tool",
]

OnToolError: TypeAlias = Literal["return", "raise"] | Callable[[Exception, ToolCallRequest], str | ToolMessage | None]

TEXT_LIMIT = 2_000
"""The longest text of an error that a model is shown, in characters."""

_VALUE_LIMIT = 100
_ERRORS_SHOWN = 10
_NAMES_SHOWN = 50
_LET_OUT = "_agentgraph_let_out"


def check_policy(policy: Any) -> OnToolError:
    """Refuse what cannot be an `on_tool_error`.

    Raises:
        ConfigurationError: it is neither "return" nor "raise" nor a function.
    """
    if policy in {"return", "raise"} if isinstance(policy, str) else callable(policy) and not isinstance(policy, type):
        return cast("OnToolError", policy)
    raise ConfigurationError(
        f"on_tool_error is {_bounded(repr(policy), _VALUE_LIMIT)}; expected 'return' (tell the model), 'raise', or a "
        "function (error, request) that returns a text, a ToolMessage, or None to raise."
    )


def let_out(error: Exception) -> Exception:
    """Mark an error of a tool so that the run raises it, whatever `on_tool_error` says.

    For a wrapper that decides about errors itself, such as a retry that was told to let some kinds out:
    `raise let_out(error)`.

    Args:
        error: an error that came out of the wrapper's handler.

    Returns:
        The same error.
    """
    error.__dict__[_LET_OUT] = True
    return error


def passes(error: BaseException) -> bool:
    """Whether an exception is no error of the tool: control flow, cancellation, an unfit answer to an interrupt."""
    return not isinstance(error, Exception) or isinstance(error, GraphBubbleUp) or is_invalid_resume(error)


def told(error: Exception, request: ToolCallRequest, policy: OnToolError) -> ToolAnswer | None:
    """What the model is told of an error; None when it is to be raised.

    Args:
        error: what the tool raised; wrong arguments come as ToolInvocationError.
        request: the call.
        policy: the agent's `on_tool_error`.
    """
    if passes(error) or policy == "raise" or getattr(error, _LET_OUT, False):
        return None
    call = request.tool_call
    if policy == "return":
        return answer(call, error_text(error, call), error=True)
    said = cast("Callable[[Exception, ToolCallRequest], Any]", policy)(error, request)
    if said is None:
        return None
    return answered(said, call) if isinstance(said, ToolMessage) else answer(call, _bounded(str(said)), error=True)


def error_text(error: Exception, call: ToolCall) -> str:
    """What a model is told of an error: the tool, what went wrong, what to do. Bounded in length."""
    name = call["name"]
    if isinstance(error, ToolInvocationError):
        return _bounded(_arguments_text(error))
    if isinstance(error, ToolTimeoutError):
        return _bounded(f"Error: {_said(error)} Try a smaller task, or go on without this tool.")
    if isinstance(error, ToolException):
        return _bounded(f"Error from the tool {name!r}: {_said(error) or 'it gave no reason.'}")
    # The text of a ValidationError shows the values it was given, which may be injected ones.
    if isinstance(error, ValidationError):
        what = "\n" + _problems(error.errors(include_url=False, include_input=False))
    else:
        what = _said(error)
    return _bounded(
        f"Error: the tool {name!r} failed with {type(error).__name__}{f': {what}' if what.strip() else ''}\n"
        "Correct the call, try another way, or say that it did not work."
    )


def arguments_error(
    call: ToolCall, source: ValidationError, hidden: frozenset[str], visible: dict[str, Any]
) -> ToolInvocationError:
    """The error for arguments that do not fit the tool's schema, without any injected value.

    Args:
        call: the model's call.
        source: what validating them raised.
        hidden: names of the injected parameters.
        visible: the arguments that the model sent.
    """
    problems = source.errors(include_url=False, include_context=False, include_input=True)
    own = [problem for problem in problems if not problem["loc"] or problem["loc"][0] not in hidden]
    for problem in own:
        # The input of a missing or surplus whole is the dict of all arguments, injected ones too.
        if not problem["loc"] or problem["type"] == "missing" or _holds(problem["input"], hidden):
            problem["input"] = None
    return ToolInvocationError(call["name"], source, visible, own)


def _holds(value: Any, hidden: frozenset[str]) -> bool:
    return isinstance(value, dict) and not hidden.isdisjoint(value)


def _arguments_text(error: ToolInvocationError) -> str:
    problems = error.filtered_errors or []
    if not problems:
        return (
            f"Error: the tool {error.tool_name!r} was not run, because what the runtime adds to its arguments does not "
            "fit. Your arguments are not the reason; go on without this tool."
        )
    return (
        f"Error: the arguments of the tool {error.tool_name!r} are wrong; it was not run.\n"
        f"{_problems(problems)}\nCall it again with corrected arguments."
    )


def _problems(problems: Iterable[Any]) -> str:
    listed = list(problems)
    lines = [_problem(problem) for problem in listed[:_ERRORS_SHOWN]]
    if len(listed) > _ERRORS_SHOWN:
        lines.append(f"- and {len(listed) - _ERRORS_SHOWN} more")
    return "\n".join(lines)


def _problem(problem: Any) -> str:
    place = ".".join(str(step) for step in problem["loc"]) or "all arguments together"
    given = problem.get("input")
    shown = "" if given is None else f" (given {_bounded(repr(given), _VALUE_LIMIT)})"
    return f"- {_bounded(place, _VALUE_LIMIT)}: {problem['msg']}{shown}"


def unknown_tool(call: ToolCall, names: Iterable[str]) -> ToolMessage:
    """The answer to a call of a tool that does not exist: the valid names, the nearest one first to be seen."""
    known = list(names)
    wanted = str(call["name"])
    near = difflib.get_close_matches(wanted, known, n=1)
    shown = ", ".join(known[:_NAMES_SHOWN]) + (", ..." if len(known) > _NAMES_SHOWN else "")
    return answer(
        call,
        _bounded(
            f"Error: there is no tool named {_bounded(wanted, _VALUE_LIMIT)!r}."
            f"{f' Did you mean {near[0]!r}?' if near else ''} The tools are: {shown or 'none'}."
        ),
        error=True,
    )


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (an error whose text cannot be made must not hide that there was one)
        return ""


def _bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."
