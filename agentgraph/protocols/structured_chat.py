"""The structured chat protocol: a JSON blob in a fence, `{"action": ..., "action_input": ...}`, is the turn.

The action is the name of a tool, or "Final Answer".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from agentgraph.protocols.base import TextProtocol, ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.gbnf import Grammar, call_rule, literal
from agentgraph.protocols.json_scanner import Steps
from agentgraph.protocols.schemas import signature
from agentgraph.protocols.turns import MarkedTurnParser

__all__ = ["StructuredChatProtocol", "StructuredChatTurnParser"]

_FINAL = "Final Answer"
_LABEL = "Action:"
# A result that the model writes is made up: nothing behind it counts.
_RESULT = "\nObservation:"
_MARKS = (_LABEL, _RESULT, "<|im_end|>", "<|eot_id|>")
_KEYS = {"action": "tool", "action_input": "args"}


class StructuredChatProtocol(TextProtocol):
    """Tool calls and answers as an action blob in a fence. One call a turn.

    Args:
        constrain: whether to send a grammar (GBNF) of the turn as `grammar`. A server that refuses it is asked without
            from then on.

    Example:
        >>> print(StructuredChatProtocol().answer_text("Hello."))
        ```json
        {"action": "Final Answer", "action_input": "Hello."}
        ```
    """

    name: ClassVar[str] = "structured_chat"
    reminder = (
        'Write one JSON object in a fence: ```json {"action": NAME, "action_input": {...}} ``` to use a tool, with '
        '"Final Answer" as NAME and a string as input to answer.'
    )

    def __init__(self, *, constrain: bool = True) -> None:
        self.constrain = constrain

    def render(self, offer: ToolOffer) -> str:
        """Describe the blob and the tools, one line a tool."""
        lines = ["Write one JSON object in a fence and nothing else. To use a tool:", _blob("NAME", "{...}")]
        if offer.required:
            lines.append("Use a tool now.")
        else:
            lines += ["To answer the user:", _blob(_FINAL, '"..."'), "Use a tool whenever one fits."]
        return "\n".join([*lines, "", "Tools:", *map(signature, offer.tools)])

    def settings(self, offer: ToolOffer) -> Mapping[str, Any]:
        """Give the word to stop at and the grammar of a turn."""
        if not self.constrain:
            return {"stop": [_RESULT]}
        grammar = Grammar()
        calls = [call_rule(grammar, *_around(tool.name, tool.parameters)) for tool in offer.tools]
        before, after = _blob(_FINAL, "\0").split("\0")
        answer = f"{literal(before)} string {literal(after)}"
        return {"stop": [_RESULT], "grammar": grammar.turn(calls, answer, replace(offer, parallel=False))}

    def parser(self, offer: ToolOffer) -> "StructuredChatTurnParser":
        """Make a reader of one turn."""
        return StructuredChatTurnParser(offer)

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        """Write the calls of a turn, one blob each."""
        written = [_blob(call.name, _dump(call.args)) for call in calls]
        return "\n".join([text, *written] if text.strip() else written)

    def answer_text(self, text: str) -> str:
        """Write an answer."""
        return _blob(_FINAL, _dump(text))

    def result_text(self, results: Sequence[ToolResult]) -> str:
        """Write each result in a line of its own, as a JSON string, so that none can pose as something else."""
        return "\n".join(
            f"Observation: {_dump({'error_of' if failed else 'result_of': name, 'text': text})}"
            for name, text, failed in results
        )


def _around(name: str, parameters: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], str]:
    before, after = _blob(name, "\0").split("\0")
    return before, parameters, after


def _blob(action: str, written: str) -> str:
    return f'```json\n{{"action": {_dump(action)}, "action_input": {written}}}\n```'


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class StructuredChatTurnParser(MarkedTurnParser):
    """The reader of one turn.

    Example:
        >>> parser = StructuredChatTurnParser(ToolOffer(()))
        >>> parser.feed('{"action": "Final Answer", "action_input": "Hel') + parser.feed('lo."}') + parser.close()
        [TextDelta(text='Hel'), TextDelta(text='lo.')]
    """

    final_name = "final answer"

    def _turn(self) -> Steps:
        while not self._called:
            mark = yield from self._until(_MARKS, stops="{[`")
            if mark == "{":
                yield from self._object(_KEYS, meant=False)
            elif mark == "`":
                # A fence belongs to the text unless an action follows in it.
                self._text.hold((yield from self._fence()))
            elif mark == "[":
                self._text.hold(self._scan.take())
            elif mark == _LABEL:
                self._text.hold(mark)
            elif mark in {"", _RESULT}:
                break
        if _LABEL in self._text.held:
            self._text.drop()
