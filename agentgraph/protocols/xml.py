"""The XML protocol: `<tool>name</tool><tool_input>{...}</tool_input>` is a call, `<final_answer>` holds an answer."""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from agentgraph.protocols.base import TextProtocol, ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.gbnf import Grammar, call_rule
from agentgraph.protocols.json_scanner import Steps
from agentgraph.protocols.schemas import signature
from agentgraph.protocols.turns import MarkedTurnParser, takes_nothing

__all__ = ["XMLProtocol", "XMLTurnParser"]

_ANSWER_RULE = r'"<final_answer>" ([^<] | "<" [^/])* "</final_answer>"'
_CALL_MARKS = ("<tool>", "<tool_input>")
_ANSWER_MARK = "<final_answer>"
# A result that the model writes is made up: nothing behind it counts.
_END_MARKS = ("<observation>",)
_EMPTY_MARKS = ("</tool>", "</tool_input>", "</final_answer>", "</observation>", "<tool_call>", "</tool_call>")
_MARKS = (*_CALL_MARKS, _ANSWER_MARK, *_END_MARKS, *_EMPTY_MARKS, "<|im_end|>", "<|eot_id|>")


class XMLProtocol(TextProtocol):
    """Tool calls as XML elements, with a JSON object as input.

    Args:
        constrain: whether to send a grammar (GBNF) of the turn as `grammar`. A server that refuses it is asked without
            from then on.

    Example:
        >>> XMLProtocol().call_text([WrittenCall("add", {"a": 1})], "")
        '<tool>add</tool><tool_input>{"a": 1}</tool_input>'
    """

    name: ClassVar[str] = "xml"
    reminder = (
        "Write <tool>NAME</tool><tool_input>{...}</tool_input> to use a tool, its arguments as one JSON object, or "
        "<final_answer>...</final_answer> to answer."
    )

    def __init__(self, *, constrain: bool = True) -> None:
        self.constrain = constrain

    def render(self, offer: ToolOffer) -> str:
        """Describe the elements and the tools, one line a tool."""
        lines = [
            "To use a tool, write <tool>NAME</tool><tool_input>{...}</tool_input>, its arguments as a JSON object."
        ]
        if offer.parallel:
            lines.append("For several tools at once, write one such line for each.")
        if offer.required:
            lines.append("Use a tool now.")
        else:
            lines.append("To answer the user: <final_answer>...</final_answer>. Use a tool whenever one fits.")
        return " ".join(lines) + "\n\nTools:\n" + "\n".join(signature(tool) for tool in offer.tools)

    def settings(self, offer: ToolOffer) -> Mapping[str, Any]:
        """Give the words to stop at and the grammar of a turn."""
        stop = ["<observation>"] if offer.parallel else ["</tool_input>", "<observation>"]
        if not self.constrain:
            return {"stop": stop}
        grammar = Grammar()
        calls = [
            call_rule(grammar, f"<tool>{tool.name}</tool><tool_input>", tool.parameters, "</tool_input>")
            for tool in offer.tools
        ]
        return {"stop": stop, "grammar": grammar.turn(calls, _ANSWER_RULE, offer)}

    def parser(self, offer: ToolOffer) -> "XMLTurnParser":
        """Make a reader of one turn."""
        return XMLTurnParser(offer)

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        """Write the calls of a turn, one a line."""
        lines = [f"<tool>{call.name}</tool><tool_input>{_input(call.args)}</tool_input>" for call in calls]
        return "\n".join([text, *lines] if text.strip() else lines)

    def answer_text(self, text: str) -> str:
        """Write an answer."""
        return f"<final_answer>{text}</final_answer>"

    def result_text(self, results: Sequence[ToolResult]) -> str:
        """Write each result as an element, which its text cannot leave."""
        return "\n".join(
            f"<observation>{'Error: ' if failed else ''}{text.replace('</', '&lt;/')}</observation>"
            for _, text, failed in results
        )


def _input(args: Mapping[str, Any] | str) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)


class XMLTurnParser(MarkedTurnParser):
    """The reader of one turn.

    Example:
        >>> parser = XMLTurnParser(ToolOffer(()))
        >>> parser.feed("<final_answer>Hel") + parser.feed("lo.</final_answer>") + parser.close()
        [TextDelta(text='Hel'), TextDelta(text='lo.')]
    """

    def _turn(self) -> Steps:
        mark = yield from self._before()
        while mark in _CALL_MARKS:
            self._text.drop()
            mark = (yield from self._call(mark)) or (yield from self._between())

    def _before(self) -> Generator[None, None, str]:
        while mark := (yield from self._until(_MARKS)):
            if mark in _CALL_MARKS or mark in _END_MARKS:
                return mark
            if mark == _ANSWER_MARK:
                yield from self._until(("</final_answer>", *_END_MARKS))
                return ""
        return ""

    def _between(self) -> Generator[None, None, str]:
        """Between calls only separators may stand: what follows prose is made up, as a result that never came."""
        while char := (yield from self._scan.peek()):
            if char != "<":
                if not char.isspace() and char not in ",;`}":
                    return ""
                self._scan.take()
                continue
            mark = yield from self._mark(_MARKS)
            if mark not in _EMPTY_MARKS:
                return mark
        return ""

    def _call(self, mark: str) -> Generator[None, None, str]:
        """Take a call; return the mark behind it if that was taken too, else ""."""
        named: list[str] = []
        if mark == "<tool>":
            mark = yield from self._until(("</tool>", "<tool_input>", *_END_MARKS), named)
        if mark == "</tool>":
            yield from self._fence()
            mark = (yield from self._mark(_MARKS)) if (yield from self._scan.peek()) == "<" else ""
        name = "".join(named).strip().strip("\"'`")
        tool = self._tools.get(name)
        if mark == "<tool_input>" and name:
            self._begin(name)
            yield from self._body()
            return ""
        if name and tool is not None and takes_nothing(tool):
            self._begin(name)
            self._end()
        else:
            self._fail(name, "", "it has no <tool_input>." if name else "it names no tool.")
        return mark if mark in _MARKS and mark not in _EMPTY_MARKS and mark != "<tool_input>" else ""

    def _body(self) -> Steps:
        yield from self._fence()
        if (yield from self._scan.peek()) == "{":
            if (yield from self._input()):
                return
            yield from self._until(("</tool_input>",), [])
            return
        text: list[str] = []
        closed = yield from self._until(("</tool_input>",), text)
        # The word to stop at is left out by servers; without one, an open end is a cut.
        self._plain_input("".join(text), is_open=not closed, is_cut=not closed and self._offer.parallel)
