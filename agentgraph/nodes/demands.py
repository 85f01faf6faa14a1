"""Forced tool calls: what a request demands by its tool choice, and what to do about an answer without the call.

Not every server keeps to `tool_choice`: some drop it, some answer in prose all the same. So the answer is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool

from agentgraph.errors import MissingToolCallError
from agentgraph.history import MARK, feedback_kind, this_turn
from agentgraph.models.refusals import refusal_in
from agentgraph.requests import CallRecord

__all__ = ["MISSING_TOOL_CALL", "Demand", "ask_for_call", "demand_of", "was_asked"]

MISSING_TOOL_CALL = "missing_tool_call"
"""The kind of the feedback that asks for a forced call again."""

_EXCERPT = 200
_LISTED = 300
_ANY = frozenset({"any", "required"})
_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})


@dataclass(frozen=True)
class Demand:
    """A call that an answer has to hold.

    Attributes:
        names: the tools of which one is to be called.
        free: whether it may be any of the tools that were offered.
        structured: whether a structured answer would be such a call; one that is missing is then asked for as that.
    """

    names: tuple[str, ...]
    free: bool = False
    structured: bool = False

    def missed_by(self, message: AIMessage) -> bool:
        """Whether an answer does not hold the call. One with nothing but unreadable calls is told of these instead."""
        if not message.tool_calls:
            return not message.invalid_tool_calls and not self.structured
        if self.free:
            return False
        return not any(call["name"] in self.names for call in (*message.tool_calls, *message.invalid_tool_calls))

    def __str__(self) -> str:
        listed = " or ".join(map(repr, self.names))
        named = f"the tool {listed}" if len(self.names) == 1 else f"one of the tools {listed}"
        return named if len(named) <= _LISTED else "one of the tools"


def demand_of(model: Any, tools: Sequence[Any], choice: Any, settings: Mapping[str, Any]) -> Demand | None:
    """The call that a binding demands, None for none, and where it cannot be told whether it came.

    Args:
        model: the chat model. One that thinks, behind an API that then refuses to be forced, is only wished for a call.
        tools: what is bound; a dict that describes no function is a tool that the provider runs itself.
        choice: the tool choice.
        settings: of the model; a `tool_choice` in it wins.

    Example:
        >>> weather = {"type": "function", "function": {"name": "weather", "parameters": {}}}
        >>> str(demand_of(None, [weather], "weather", {}))
        "the tool 'weather'"
    """
    wanted = settings.get("tool_choice", choice)
    if not wanted or not tools or _only_wishes(model, settings):
        return None
    names = [_name_of(tool) for tool in tools]
    known = tuple(name for name in names if name is not None)
    if _is_free(wanted):
        # A call of a tool that the provider runs has come and gone within the answer.
        return Demand(known, free=True) if len(known) == len(names) else None
    chosen = tuple(name for name in _names_in(wanted) if name in known)
    return Demand(chosen) if chosen else None


def ask_for_call(demand: Demand, message: AIMessage, record: CallRecord) -> list[ToolMessage]:
    """Note in the record that the call is asked for again.

    Args:
        demand: what was demanded.
        message: the answer without it.
        record: of this turn.

    Returns:
        Answers to the calls of other tools, which are not run: whoever forces a call counts on nothing else happening.

    Raises:
        MissingToolCallError: it was asked again already, or the model refused, so that asking again is no use.
    """
    refusal = _refusal(message)
    if record.asked or refusal is not None:
        raise _missing(demand, message, refusal)
    record.forced, record.kind = True, MISSING_TOOL_CALL
    record.missing = f"Your last turn had to call {demand}, and did not. Call it now."
    text = f"Not run: this turn has to call {demand}, and nothing else. Call it now."
    mark = {MARK: {"feedback": MISSING_TOOL_CALL}}
    return [
        ToolMessage(
            text, name=call["name"], tool_call_id=call["id"] or "", status="error", response_metadata=dict(mark)
        )
        for call in message.tool_calls
    ]


def was_asked(messages: Sequence[Any]) -> bool:
    """Whether a conversation ends with the demand for a forced call: a pause forgets counts, but not messages."""
    for message in reversed(this_turn(messages)):
        if isinstance(message, AIMessage):
            return False
        if feedback_kind(message) == MISSING_TOOL_CALL:
            return True
    return False


def _missing(demand: Demand, message: AIMessage, refusal: str | None) -> MissingToolCallError:
    if refusal is not None:
        what = f"It refused: {refusal[:_EXCERPT]!r}. Asking again is no use: change the prompt, or take another model."
    else:
        what = (
            f"Asked again, it {_given(message)}. Some servers ignore tool_choice, and some models cannot keep to it: "
            'pass create_agent(..., tool_protocol="json"), which has calls written as text, take a model whose server '
            "enforces the choice, or do not force the call."
        )
    return MissingToolCallError(
        f"The model had to call {demand} (tool_choice) and did not. {what}",
        tool_names=demand.names,
        ai_message=message,
    )


def _given(message: AIMessage) -> str:
    if message.tool_calls:
        return f"called {', '.join(repr(call['name']) for call in message.tool_calls)[:_EXCERPT]}"
    text = str(message.text).strip()
    wrote = f"wrote: {text[:_EXCERPT]!r}" if text else "wrote nothing"
    cut = _ending(message) in _CUT
    return f"{wrote} and reached its limit of tokens (raise max_tokens)" if cut else wrote


def _refusal(message: AIMessage) -> str | None:
    """The model's or the provider's refusal, None where there is none."""
    refusal = refusal_in(message)
    return None if refusal is None else refusal["refusal"] or str(message.text).strip() or "no reason given"


def _ending(message: AIMessage) -> str:
    return str(message.response_metadata.get("finish_reason")).lower()


def _only_wishes(model: Any, settings: Mapping[str, Any]) -> bool:
    thinking = settings.get("thinking", getattr(model, "thinking", None))
    return isinstance(thinking, Mapping) and thinking.get("type") not in {None, "disabled"}


def _name_of(tool: Any) -> str | None:
    """The name under which a tool is called; None for one that the provider runs."""
    if not isinstance(tool, Mapping):
        named = tool.name if isinstance(tool, BaseTool) else getattr(tool, "__name__", None)
        return named if isinstance(named, str) else None
    function = tool.get("function")
    if isinstance(function, Mapping):
        return str(function.get("name"))
    described = any(key in tool for key in ("parameters", "input_schema", "properties"))
    name = tool.get("name", tool.get("title"))
    return name if described and isinstance(name, str) else None


def _is_free(choice: Any) -> bool:
    """Whether any tool will do, in the forms of the providers."""
    if isinstance(choice, Mapping):
        return str(choice.get("type")) in _ANY or _allowed_by_gemini(choice) == []
    return choice is True or (isinstance(choice, str) and choice in _ANY)


def _names_in(choice: Any) -> list[str]:
    """The names of a choice: plain, or in the forms of OpenAI, Anthropic and Gemini; also lists of allowed tools."""
    if isinstance(choice, str):
        return [choice]
    if not isinstance(choice, Mapping):
        return []
    if (allowed := _allowed_by_gemini(choice)) is not None:
        return allowed
    if choice.get("type") != "allowed_tools":
        return _chosen([choice])
    allowed = choice.get("allowed_tools", choice)
    required = isinstance(allowed, Mapping) and allowed.get("mode") == "required"
    return _chosen(allowed.get("tools")) if required else []


def _allowed_by_gemini(choice: Mapping[str, Any]) -> list[str] | None:
    """The names in Gemini's form, empty for all; None where it is another form or demands nothing."""
    config = choice.get("function_calling_config", choice.get("functionCallingConfig"))
    if not isinstance(config, Mapping) or str(config.get("mode")).upper() != "ANY":
        return None
    names = config.get("allowed_function_names", config.get("allowedFunctionNames")) or ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else [str(names)]


def _chosen(choices: Any) -> list[str]:
    """The names in a list of choices; what has no form of one is the server's to refuse."""
    listed = choices if isinstance(choices, list | tuple) else ()
    named = [choice for choice in listed if isinstance(choice, Mapping)]
    functions = [choice["function"] if isinstance(choice.get("function"), Mapping) else choice for choice in named]
    return [name for function in functions if isinstance(name := function.get("name"), str)]
