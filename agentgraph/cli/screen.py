"""Showing events: as a transcript for people, or as one line of JSON each for programs.

What a model or a tool wrote is hostile: it could hold escape sequences that move the cursor, retitle the window or hide
text. Only visible characters, line breaks and tabs reach the terminal.
"""

import json
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.panel import Panel
from rich.text import Text as Styled

from agentgraph.cli.events import Done, Event, Failed, Paused, Text, ToolAnswered, ToolCalled, Usage, as_json
from agentgraph.cli.exits import one_line
from agentgraph.cli.plain import plain

__all__ = ["JsonScreen", "Screen", "Transcript", "visible"]

CARD_LIMIT = 1200
# Control, format (also those that reorder a line), surrogate, private use, unassigned, Unicode's own line breaks.
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Emoji and several scripts are written with these two.
JOINERS = {"\u200c", "\u200d"}


def visible(text: str) -> str:
    """`text` with everything that a terminal would obey instead of show written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text.replace("\r\n", "\n")))


def _visible_character(character: str) -> str:
    if character in "\n\t" or character in JOINERS or unicodedata.category(character) not in INVISIBLE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, limit: int = CARD_LIMIT) -> str:
    """`text`, cut to `limit` characters, with the number of those that are not shown."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def call_text(call: ToolCalled) -> str:
    """The call as one would write it: `weather(city="Rome")`."""
    arguments = ", ".join(f"{name}={_value_text(value)}" for name, value in call.args.items())
    return f"{call.name}({arguments})"


def _value_text(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def question_text(value: Any) -> str:
    """What a paused run asks, for a person."""
    requests = value.get("action_requests") if isinstance(value, Mapping) else None
    if isinstance(requests, list | tuple) and all(isinstance(request, Mapping) for request in requests):
        asked = [str(request.get("description") or _value_text(dict(request))) for request in requests]
        return ("\n\n" if any("\n" in one for one in asked) else "\n").join(asked)
    if isinstance(value, Mapping) and "description" in value:
        return str(value["description"])
    return value if isinstance(value, str) else _value_text(value)


class Screen(Protocol):
    """Where the events of a conversation are shown."""

    def show(self, event: Event) -> None:
        """Show one event, at once."""

    def note(self, text: str) -> None:
        """Say something that is no event: a hint, an answer to a slash command."""


class JsonScreen:
    """Each event as one line of ASCII JSON, flushed: nothing in it can break a line or a decoder."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out

    def show(self, event: Event) -> None:
        """Write the event's line."""
        self._out.write(f"{json.dumps(as_json(event))}\n")
        self._out.flush()

    def note(self, text: str) -> None:
        """Hints are for people: they go to standard error."""
        print(one_line(text), file=sys.stderr, flush=True)  # noqa: T201  a program speaks


class Transcript:
    """The conversation as people read it: streamed text, a card for each tool call and each result.

    Args:
        out: where the model's text goes.
        aside: where cards, notes and errors go; by default where the text goes.
    """

    def __init__(self, out: TextIO | None = None, aside: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._aside = Console(file=aside or self._out, highlight=False, markup=False, emoji=False)
        # A pipe has no width: what is one line stays one.
        self._aside.soft_wrap = not self._aside.is_terminal
        self._open_message: str | None = None
        self._in_line = False

    def show(self, event: Event) -> None:
        """Write the event: text as it comes, all else on lines of its own."""
        match event:
            case Text():
                self._write_text(event)
            case ToolCalled():
                self._card(event.name, call_text(event), "cyan", "→")
            case ToolAnswered(status="error"):
                self._card(event.name or "tool", event.content, "red", "✗")
            case ToolAnswered():
                self._card(event.name or "tool", event.content, "green", "←")
            case Paused():
                self._card("paused", question_text(event.value), "yellow", "?")
            case Failed():
                said = one_line(event.message)
                self._styled(f"error: {event.error}: {said}" if said else f"error: {event.error}", "bold red")
            case Done():
                self._finish(event)

    def note(self, text: str) -> None:
        """Write a line beside the conversation."""
        self._styled(text, "dim")

    def show_usage(self, usage: Usage) -> None:
        """Write how many tokens were used."""
        self.note(f"{usage.input_tokens} tokens in, {usage.output_tokens} out, {usage.total_tokens} together")

    def _write_text(self, event: Text) -> None:
        if self._in_line and event.id != self._open_message:
            self._end_line()
        self._open_message = event.id
        shown = visible(event.text)
        self._out.write(shown)
        self._out.flush()
        self._in_line = not shown.endswith("\n")

    def _finish(self, done: Done) -> None:
        self._end_line()
        if done.structured_response is not None:
            # It is the answer, so it goes where answers go.
            self._out.write(f"{visible(_value_text(done.structured_response))}\n")
            self._out.flush()
        if done.status == "cancelled":
            self._styled("[cancelled]", "yellow")

    def _end_line(self) -> None:
        if self._in_line:
            self._out.write("\n")
            self._out.flush()
            self._in_line = False

    def _card(self, title: str, body: str, colour: str, mark: str) -> None:
        self._end_line()
        shown, name = visible(shortened(body)), visible(one_line(title, 80))
        if self._aside.is_terminal:
            frame = Panel(Styled(shown), title=Styled(f"{mark} {name}"), title_align="left", border_style=colour)
            self._aside.print(frame)
        else:
            indented = shown.replace("\n", "\n  ")
            self._aside.print(f"{mark} {indented}" if mark == "→" else f"{mark} {name}: {indented}")

    def _styled(self, text: str, style: str) -> None:
        self._end_line()
        self._aside.print(Styled(visible(text), style=style))
