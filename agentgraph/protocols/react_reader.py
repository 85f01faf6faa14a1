"""Reads a turn of the ReAct protocol as it comes, in both of its forms."""

import re
from collections.abc import Callable, Collection, Generator

from agentgraph.protocols.base import ReasoningDelta, ToolOffer
from agentgraph.protocols.json_scanner import Steps
from agentgraph.protocols.turns import MarkedTurnParser, TrimmedText, takes_nothing

__all__ = ["ReActTurnParser"]

_LABELS = ("thought", "action", "action input", "observation", "final answer")
_ALL = frozenset(_LABELS)
_LETTER = 2  # so many characters at the end may be the text's own, more are the beginning of a label
_MARGIN = re.compile(r"[ \t*#>]+")
_NUMBER = re.compile(r"[ \t0-9*]+")
_BLANKS = re.compile(r"[ \t]+")
_STARS = re.compile(r"\*+")
_LINE = re.compile(r"[^\n]+")
_QUOTES = " \t\r\n\"'`*\u201c\u201d\u2018\u2019"


class ReActTurnParser(MarkedTurnParser):
    r"""The reader of one turn.

    Args:
        offer: what was offered for the turn.
        finish: name of the action whose input is the answer (`Finish[...]`); "" for none.

    Example:
        >>> parser = ReActTurnParser(ToolOffer(()))
        >>> parser.feed("Thought: Easy.\nFinal Ans") + parser.feed("wer: Hello.") + parser.close()
        [ReasoningDelta(text='Easy.'), TextDelta(text='Hello.')]
    """

    def __init__(self, offer: ToolOffer, finish: str = "") -> None:
        super().__init__(offer)
        self._finish = finish.lower()
        self._labelled = self._at_line_start = False
        self._thinking = TrimmedText(lambda text: self._events.append(ReasoningDelta(text)))

    def _turn(self) -> Steps:
        self._at_line_start = True
        label = yield from self._section(self._text.add)
        while label == "thought":
            label = yield from self._section(self._thinking.add)
        if label == "final answer":
            yield from self._scan.run(_BLANKS)
            yield from self._section(self._text.add, ends={"observation"})
        elif label == "action":
            yield from self._action()
        elif label == "action input":
            yield from self._nameless()
        if self._labelled and not (self._text.has_begun or self._called):
            self._fail("", "", "it has neither an Action nor a Final Answer.")

    # Lines.

    def _section(self, take: Callable[[str], None], ends: Collection[str] = _ALL) -> Generator[None, None, str]:
        """Take text up to a label at the beginning of a line, which is taken too; return the label, "" at the end."""
        while (yield from self._scan.peek()):
            if self._at_line_start:
                raw, label = yield from self._label()
                if label in ends:
                    self._labelled = True
                    return label
                take(raw)
            elif piece := self._scan.take(_LINE):
                take(piece)
            else:
                take(self._scan.take())
                self._at_line_start = True
        return ""

    def _label(self) -> Generator[None, None, tuple[str, str]]:
        """Take a label with its colon, or as much as could have been one; return it as written and as meant."""
        self._at_line_start = False
        margin = yield from self._scan.run(_MARGIN)
        word = ""
        while (char := (yield from self._scan.peek())) and any(
            label.startswith((word + char).lower()) for label in _LABELS
        ):
            word += self._scan.take()
        label = word.strip().lower()
        raw = margin + word
        if label in _ALL:
            raw += yield from self._scan.run(_NUMBER)
            if (yield from self._scan.peek()) == ":":
                raw += self._scan.take()
                raw += (yield from self._scan.run(_STARS)) if "*" in margin else ""
                return raw, label
        is_cut = self._scan.exhausted and self._labelled and len(word) > _LETTER
        return ("" if is_cut else raw), ""

    # Calls.

    def _action(self) -> Steps:
        written: list[str] = []
        label = yield from self._section(written.append)
        text = "".join(written).strip(_QUOTES)
        name, inner = _split(text)
        if inner is None and self._finish and text.lower() == self._finish and label == "":
            inner = ""
        if label == "action input":
            yield from self._body(text)
        elif self._finish and name.lower() == self._finish and inner is not None:
            self._text.add(inner)
        elif inner is not None:
            self._begin(name)
            self._plain_input(inner)
        elif (tool := self._tools.get(text)) is not None and takes_nothing(tool):
            self._begin(text)
            self._end()
        else:
            self._fail(name, "", "it has no input." if name else "it names no tool.")

    def _body(self, name: str) -> Steps:
        if not name:
            yield from self._nameless()
            return
        self._begin(name)
        yield from self._fence()
        if (yield from self._scan.peek()) == "{":
            yield from self._input()
            return
        text: list[str] = []
        yield from self._section(text.append)
        self._plain_input("".join(text))

    def _nameless(self) -> Steps:
        text: list[str] = []
        yield from self._section(text.append)
        self._fail("", "".join(text).strip(), "it names no tool.")


def _split(text: str) -> tuple[str, str | None]:
    """Split `name[input]` or `name {...}`; the input is None where there is none, or where it is cut."""
    start = min((at for at in (text.find("["), text.find("{")) if at > 0), default=-1)
    if start < 0:
        return text, None
    opener, closer = text[start], "]" if text[start] == "[" else "}"
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opener) - (text[at] == closer)
        if not depth:
            return text[:start].strip(), text[start + 1 : at] if opener == "[" else text[start : at + 1]
    return text[:start].strip(), None
