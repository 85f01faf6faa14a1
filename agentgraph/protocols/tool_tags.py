"""The tool tags protocol: a call is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, all else is the answer.

Many open models were trained on it, so that they write it unasked; without examples it is the one to try first.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from agentgraph.protocols.base import TextProtocol, ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.gbnf import Grammar, call_rule
from agentgraph.protocols.json_scanner import Steps
from agentgraph.protocols.schemas import inlined
from agentgraph.protocols.turns import MarkedTurnParser

__all__ = ["ToolTagsProtocol", "ToolTagsTurnParser"]

_CALL, _END = "<tool_call>", "</tool_call>"
# A result that the model writes is made up: nothing behind it counts.
_RESULT = "<tool_response>"
_EMPTY = (_END, "</tool_response>", "<|im_end|>", "<|eot_id|>", "<|tool_call|>", "<|python_tag|>")
_MARKS = (_CALL, _RESULT, *_EMPTY)
_ANSWER_RULE = r"[^<{ \t\n] [^<]*"


class ToolTagsProtocol(TextProtocol):
    """Tool calls as JSON objects in tags.

    Args:
        constrain: whether to send a grammar (GBNF) of the turn as `grammar`. A server that refuses it is asked without
            from then on.

    Example:
        >>> print(ToolTagsProtocol().call_text([WrittenCall("add", {"a": 1})], ""))
        <tool_call>
        {"name": "add", "arguments": {"a": 1}}
        </tool_call>
    """

    name: ClassVar[str] = "tool_tags"
    reminder = (
        'Write <tool_call>{"name": NAME, "arguments": {...}}</tool_call> to use a tool, valid JSON with double quotes, '
        "or answer in plain text."
    )

    def __init__(self, *, constrain: bool = True) -> None:
        self.constrain = constrain

    def render(self, offer: ToolOffer) -> str:
        """Describe the tags and the tools, each as a JSON object of its own line."""
        lines = ['To use a tool, write <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.']
        if offer.parallel:
            lines.append("For several tools at once, write one such element for each.")
        lines.append("Use a tool now." if offer.required else "To answer the user, write plain text without tags.")
        return " ".join([*lines, "The tools:"]) + "\n<tools>\n" + "\n".join(map(_described, offer.tools)) + "\n</tools>"

    def settings(self, offer: ToolOffer) -> Mapping[str, Any]:
        """Give the words to stop at and the grammar of a turn."""
        stop = [_RESULT] if offer.parallel else [_END, _RESULT]
        if not self.constrain:
            return {"stop": stop}
        grammar = Grammar()
        calls = [
            call_rule(grammar, f'{_CALL}\n{{"name": {_dump(tool.name)}, "arguments": ', tool.parameters, f"}}\n{_END}")
            for tool in offer.tools
        ]
        return {"stop": stop, "grammar": grammar.turn(calls, _ANSWER_RULE, offer)}

    def parser(self, offer: ToolOffer) -> "ToolTagsTurnParser":
        """Make a reader of one turn."""
        return ToolTagsTurnParser(offer)

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        """Write the calls of a turn, one element each."""
        written = [f"{_CALL}\n{_dump({'name': call.name, 'arguments': call.args})}\n{_END}" for call in calls]
        return "\n".join([text, *written] if text.strip() else written)

    def result_text(self, results: Sequence[ToolResult]) -> str:
        """Write each result as a JSON object in an element, which its text cannot leave."""
        return "\n".join(
            f"{_RESULT}\n{_dump({'name': name, 'error' if failed else 'content': text})}\n</tool_response>"
            for name, text, failed in results
        )


def _described(tool: Any) -> str:
    parameters = inlined(tool.parameters)
    return _dump({"name": tool.name, "description": tool.description, "parameters": parameters})


def _dump(value: object) -> str:
    # "<\/" is "</" to every reader of JSON, and ends no element.
    return json.dumps(value, ensure_ascii=False, default=str).replace("</", "<\\/")


class ToolTagsTurnParser(MarkedTurnParser):
    """The reader of one turn.

    Example:
        >>> parser = ToolTagsTurnParser(ToolOffer(()))
        >>> parser.feed("Hel") + parser.feed("lo.") + parser.close()
        [TextDelta(text='Hel'), TextDelta(text='lo.')]
    """

    def _turn(self) -> Steps:
        while not self._called:
            mark = yield from self._until(_MARKS, stops="{[`")
            if mark in {"", _RESULT}:
                return
            yield from self._at(mark)
        while mark := (yield from self._between()):
            yield from self._at(mark)

    def _at(self, mark: str) -> Steps:
        if mark == "`":
            # A fence or a bracket belongs to the text unless a call follows in it.
            self._text.hold((yield from self._fence()))
        elif mark == "[":
            self._text.hold(self._scan.take())
        elif mark == "{":
            yield from self._object({}, meant=False)
        elif mark == _CALL:
            yield from self._tagged()

    def _between(self) -> Generator[None, None, str]:
        """Between calls only separators may stand: what follows prose is made up, as a result that never came."""
        while char := (yield from self._scan.peek()):
            if char in "{[":
                return char
            if char == "<":
                mark = yield from self._mark(_MARKS)
                if mark not in _EMPTY:
                    return mark if mark == _CALL else ""
            elif char.isspace() or char in ",;]}":
                self._scan.take()
            elif char != "`" or not (yield from self._fence()):
                return ""
        return ""

    def _tagged(self) -> Steps:
        yield from self._fence()
        char = yield from self._scan.peek()
        if char and char in "{[":
            yield from self._object({"name": "tool"}, meant=True)
            return
        body: list[str] = []
        yield from self._until((_END,), body)
        raw = "".join(body).strip()
        self._fail("", raw, "it is not a JSON object." if raw else "it is empty.")
