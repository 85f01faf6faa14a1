"""The ReAct protocol (arXiv 2210.03629): Thought, Action, Action Input, Observation, Final Answer.

Thoughts are kept apart from the text for the user, and shown to the model again with the call that they led to.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.protocols.base import TextProtocol, ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.gbnf import Grammar, call_rule
from agentgraph.protocols.react_reader import ReActTurnParser
from agentgraph.protocols.schemas import signature

__all__ = ["OriginalReActProtocol", "ReActProtocol"]

_STOP = "\nObservation"
_FINISH = "Finish"
# A line that would be read as a label, though it is part of a thought or of a result.
_POSING = re.compile(r"^(?=[ \t*#>]*(?:thought|action|observation|final answer))", re.IGNORECASE | re.MULTILINE)


class ReActProtocol(TextProtocol):
    """Thoughts, actions and observations in lines. One call a turn.

    Args:
        constrain: whether to send a grammar (GBNF) of the turn as `grammar`. A server that refuses it is asked without
            from then on.

    Example:
        >>> print(ReActProtocol().call_text([WrittenCall("add", {"a": 1})], "I have to add."))
        Thought: I have to add.
        Action: add
        Action Input: {"a": 1}
    """

    name: ClassVar[str] = "react"
    reminder = (
        'Write the lines "Action: NAME" and "Action Input: {...}" (one JSON object) to use a tool, or '
        '"Final Answer: ..." to answer.'
    )

    def __init__(self, *, constrain: bool = True) -> None:
        self.constrain = constrain

    def render(self, offer: ToolOffer) -> str:
        """Describe the lines and the tools, one line a tool."""
        lines = ["To use a tool, write these lines and stop:", *self._form()]
        if offer.required:
            lines.append("Use a tool now.")
        else:
            lines += ["To answer the user, write:", self.answer_text("..."), "Use a tool whenever one fits."]
        return "\n".join([*lines, "", "Tools:", *map(signature, offer.tools)])

    def _form(self) -> list[str]:
        return ["Thought: why", "Action: NAME", "Action Input: {...}"]

    def settings(self, offer: ToolOffer) -> Mapping[str, Any]:
        """Give the word to stop at and the grammar of a turn."""
        if not self.constrain:
            return {"stop": [_STOP]}
        grammar = Grammar()
        calls = [
            call_rule(grammar, f"Action: {tool.name}\nAction Input: ", tool.parameters, "") for tool in offer.tools
        ]
        thought = grammar.rule(r'("Thought: " [^\n]+ "\n")?')
        turn = grammar.turn(
            [f"{thought} {call}" for call in calls],
            f'{thought} "Final Answer: " ([^\\x00])+',
            replace(offer, parallel=False),
        )
        return {"stop": [_STOP], "grammar": turn}

    def parser(self, offer: ToolOffer) -> ReActTurnParser:
        """Make a reader of one turn."""
        return ReActTurnParser(offer)

    def rewrite(self, messages: Sequence[BaseMessage], offer: ToolOffer) -> list[BaseMessage]:
        """Rewrite a history; the thoughts that led to a call are written before it."""
        return super().rewrite([_thinking(message) for message in messages], offer)

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        """Write the calls of a turn, each as two lines, behind the thought.

        A turn without one gets a plain one: small models that see a line before each action write better actions.
        """
        thought = text.strip() or f"I should use {' and '.join(dict.fromkeys(call.name for call in calls))}."
        return "\n".join([f"Thought: {_quoted(thought)}", *map(self._action, calls)])

    def _action(self, call: WrittenCall) -> str:
        return f"Action: {call.name}\nAction Input: {_input(call.args)}"

    def answer_text(self, text: str) -> str:
        """Write an answer."""
        return f"Final Answer: {text}"

    def result_text(self, results: Sequence[ToolResult]) -> str:
        """Write each result as an observation, with what could pose as a label set apart."""
        return "\n".join(f"Observation: {'Error: ' if failed else ''}{_quoted(text)}" for _, text, failed in results)


class OriginalReActProtocol(ReActProtocol):
    r"""ReAct in the form of the paper: `Action: Search[query]`, and `Action: Finish[answer]` to answer.

    For tools that take one text; the input of others is a JSON object in the brackets. No grammar.

    Example:
        >>> OriginalReActProtocol().call_text([WrittenCall("Search", {"query": "green tea"})], "")
        'Thought: I should use Search.\nAction: Search[green tea]'
    """

    name: ClassVar[str] = "react-original"
    reminder = 'Write the line "Action: NAME[input]" to use a tool, or "Action: Finish[...]" to answer.'

    def __init__(self) -> None:
        super().__init__(constrain=False)

    def _form(self) -> list[str]:
        return ["Thought: why", "Action: NAME[input]"]

    def parser(self, offer: ToolOffer) -> ReActTurnParser:
        """Make a reader of one turn."""
        return ReActTurnParser(offer, finish=_FINISH)

    def _action(self, call: WrittenCall) -> str:
        values = list(call.args.values()) if isinstance(call.args, Mapping) else []
        is_text = len(values) == 1 and isinstance(values[0], str)
        return f"Action: {call.name}[{values[0] if is_text else _input(call.args)}]"

    def answer_text(self, text: str) -> str:
        """Write an answer."""
        return f"Action: {_FINISH}[{text}]"


def _thinking(message: BaseMessage) -> BaseMessage:
    thought = message.additional_kwargs.get("reasoning_content")
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return message
    said = [text for text in (thought, message.text) if isinstance(text, str) and text.strip()]
    return message.model_copy(update={"content": "\n".join(said)})


def _quoted(text: str) -> str:
    return _POSING.sub("| ", text)


def _input(args: Mapping[str, Any] | str) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)
