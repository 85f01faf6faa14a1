"""Errors of tools: the policy, and the text that tells the model what went wrong and what to do.

`on_tool_error` of `create_agent` is one of

- `"return"`: the model is told, by a tool message with status "error" (the default);
- `"raise"`: the run raises;
- a function `(error, request)`, sync or async, that returns the text or the ToolMessage for the model, or None to
  raise. In async runs a sync one is called in a thread.

Whatever it is, langgraph's control flow (interrupts), cancellation and an answer to an interrupt that does not fit
always pass.
"""

import difflib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from pydantic import ValidationError

from agentgraph import bridge
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, ResumeError, ToolTimeoutError
from agentgraph.tools.results import ToolAnswer, answer, answered

__all__ = [
    "OnToolError",
    "Tell",
    "arguments_error",
    "check_policy",
    "error_text",
    "halves",
    "let_out",
    "passes",
    "tell_by",
    "unknown_tool",
]

Told: TypeAlias = str | ToolMessage | None
OnToolError: TypeAlias = (
    Literal["return", "raise"]
    | Callable[[Exception, ToolCallRequest], Told]
    | Callable[[Exception, ToolCallRequest], Awaitable[Told]]
)

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
        "function (error, request), sync or async, that returns a text, a ToolMessage, or None to raise."
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
    if isinstance(error, ValidationError):
        # Only this class is marked; others, such as mocks, may have every attribute they are asked for.
        return is_invalid_resume(error)
    return not isinstance(error, Exception) or isinstance(error, GraphBubbleUp | ResumeError)


@dataclass(frozen=True)
class Tell:
    """Says what the model is told of an error, in sync and in async runs; None to raise it.

    Attributes:
        sync: `(error, request)`; wrong arguments come as ToolInvocationError.
        asynchronous: the same, to be awaited.
    """

    sync: Callable[[Exception, ToolCallRequest], ToolAnswer | None]
    asynchronous: Callable[[Exception, ToolCallRequest], Awaitable[ToolAnswer | None]]

    @classmethod
    def at_once(cls, decide: Callable[[Exception, ToolCallRequest], ToolAnswer | None]) -> "Tell":
        """From a function that neither waits nor is a user's."""

        async def asynchronous(error: Exception, request: ToolCallRequest) -> ToolAnswer | None:
            return decide(error, request)

        return cls(decide, asynchronous)

    def only_for(self, wanted: Callable[[Exception], bool]) -> "Tell":
        """The same for some errors; the others are raised."""

        async def asynchronous(error: Exception, request: ToolCallRequest) -> ToolAnswer | None:
            return await self.asynchronous(error, request) if wanted(error) else None

        return Tell(lambda error, request: self.sync(error, request) if wanted(error) else None, asynchronous)


def tell_by(policy: OnToolError) -> Tell:
    """What the model is told by an agent's `on_tool_error`."""
    if policy == "raise":
        return Tell.at_once(lambda _, __: None)
    if policy == "return":
        return Tell.at_once(_told_in_words).only_for(_is_tellable)
    sync, asynchronous = halves(cast("Callable[..., Any]", policy))

    async def ask(error: Exception, request: ToolCallRequest) -> ToolAnswer | None:
        return _answer_of(policy, await asynchronous(error, request), request.tool_call)

    asking = Tell(lambda error, request: _answer_of(policy, sync(error, request), request.tool_call), ask)
    return asking.only_for(_is_tellable)


def halves(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """A user's function, sync or async, as one to call in sync runs and one to await in async runs."""
    is_async = any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004 - an object's own method may be async

    def sync(*args: Any) -> Any:
        value = function(*args)
        return bridge.run_coroutine(value) if inspect.isawaitable(value) else value

    async def asynchronous(*args: Any) -> Any:
        value = function(*args) if is_async else await bridge.run_blocking(function, *args)
        return await value if inspect.isawaitable(value) else value

    return sync, asynchronous


def _is_tellable(error: Exception) -> bool:
    # Not by getattr: an exception class may have every attribute it is asked for.
    return not passes(error) and not error.__dict__.get(_LET_OUT)


def _told_in_words(error: Exception, request: ToolCallRequest) -> ToolAnswer:
    return answer(request.tool_call, error_text(error, request.tool_call), error=True)


def _answer_of(policy: Any, said: Any, call: ToolCall) -> ToolAnswer | None:
    if said is None:
        return None
    if isinstance(said, ToolMessage):
        return answered(said, call)
    if isinstance(said, str):
        return answer(call, _bounded(said), error=True)
    raise ConfigurationTypeError(
        f"on_tool_error {_bounded(repr(policy), _VALUE_LIMIT)} returned {_bounded(repr(said), _VALUE_LIMIT)}; expected "
        "the text for the model, a ToolMessage, or None to raise the error."
    )


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
    """The answer to a call without a tool: the valid names, the nearest one first to be seen."""
    known = list(names)
    wanted = str(call["name"])
    if wanted in known:
        # A hook has set the request's tool to None.
        said = f"Error: the tool {wanted!r} was taken away from this call by a hook; it was not run. Go on without it."
        return answer(call, _bounded(said), error=True)
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
