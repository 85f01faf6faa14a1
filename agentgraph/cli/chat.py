"""The loop of `agentgraph chat`: lines in, turns out, slash commands, Ctrl-C."""

import asyncio
import difflib
import re
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress

from agentgraph.cli.conversation import Conversation
from agentgraph.cli.decisions import decided, how_to_answer, is_approval
from agentgraph.cli.events import Done, Event, Failed, Usage
from agentgraph.cli.exits import ExitCode
from agentgraph.cli.screen import JsonScreen, Transcript

__all__ = ["Chat", "lines_of", "play"]

PROMPT = "you> "
COMMANDS = {
    "/exit": "leave; also /quit, /q",
    "/usage": "tokens so far",
    "/approve": "say yes to what the agent is paused for",
    "/reject": "say no; the words after it are told to the model",
    "/resume": "answer what the agent is paused for with JSON",
    "/help": "these lines",
}
LEAVING = {"/exit", "/quit", "/q"}
A_COMMAND = re.compile(r"/[\w-]+")
STATUS_CODES = {
    "ok": ExitCode.OK,
    "failed": ExitCode.FAILED,
    "paused": ExitCode.PAUSED,
    "cancelled": ExitCode.CANCELLED,
}


def lines_of(*, is_terminal: bool) -> Iterator[str]:
    """The lines that a person types, or those of a pipe; ends with the input."""
    if not is_terminal:
        yield from sys.stdin
        return
    with suppress(ImportError):
        __import__("readline")  # gives `input` line editing and a history, where the platform has it
    while True:
        try:
            yield input(PROMPT)
        except (EOFError, KeyboardInterrupt) as left:
            sys.stdout.write("\n")
            if isinstance(left, KeyboardInterrupt):
                raise
            return


def play(
    runner: asyncio.Runner,
    conversation: Conversation,
    turn: AsyncGenerator[Event, None],
    screen: JsonScreen | Transcript,
) -> Done:
    """Run one turn to its end and show it; Ctrl-C ends it early and leaves the conversation usable.

    Returns:
        The turn's last event.

    Raises:
        SystemExit: code of the agent's called `sys.exit`; that is told, and the code is 1.
        CommandError: the turn failed, and the thread cannot be read any more.
    """
    ended = Done("cancelled")
    try:
        ended = runner.run(_show_all(turn, screen))
    except KeyboardInterrupt:
        screen.show(ended)
    except SystemExit as left:
        # It has torn the loop down with it, so there is no going on; and its code would be read as one of ours.
        screen.show(Failed("SystemExit", f"the agent's code left the process with {left.code!r:.100}"))
        screen.show(Done("failed"))
        raise SystemExit(ExitCode.FAILED) from None
    if ended.status in {"failed", "cancelled"}:
        runner.run(conversation.read_thread())
    return ended


async def _show_all(turn: AsyncGenerator[Event, None], screen: JsonScreen | Transcript) -> Done:
    done = Done("ok")
    async with aclosing(turn) as events:
        async for event in events:
            screen.show(event)
            done = event if isinstance(event, Done) else done
    return done


class Chat:
    """A person, or a pipe, in conversation with an agent.

    Args:
        runner: the loop that all turns share: a model's connections belong to one loop.
        conversation: the thread.
        screen: where it is shown.
        is_terminal: whether a person sits there: then a failed turn is history when the person leaves; otherwise it
            is the exit code.
    """

    def __init__(
        self, runner: asyncio.Runner, conversation: Conversation, screen: JsonScreen | Transcript, *, is_terminal: bool
    ) -> None:
        self._runner = runner
        self._conversation = conversation
        self._screen = screen
        self._is_terminal = is_terminal
        self._worst = ExitCode.OK

    def run(self) -> ExitCode:
        """Talk until the input ends or `/exit` comes; the code says how it went."""
        for question in self._conversation.pending:
            self._screen.show(question)
        for line in lines_of(is_terminal=self._is_terminal):
            text = line.strip()
            if text in LEAVING:
                break
            if text and not self._take(text):
                return ExitCode.PAUSED
        if self._is_terminal:
            return ExitCode.OK
        return ExitCode.PAUSED if self._conversation.pending else self._worst

    def _take(self, text: str) -> bool:
        """Deal with one line; False when nobody is there who could say what the agent waits for."""
        command, _, rest = text.partition(" ")
        if command in LEAVING:
            self._screen.note(f"{command} takes nothing after it; write {command} alone to leave")
        elif command in COMMANDS:
            self._obey(command, rest.strip())
        elif A_COMMAND.fullmatch(text):
            # A slip, far more likely than a message; one about "/tmp" has more than that word.
            self._screen.note(_unknown(text))
        elif not self._conversation.pending:
            self._play(self._conversation.say(text))
        elif len(self._conversation.pending) == 1 and not is_approval(self._conversation.pending[0]):
            self._play(self._conversation.answer({self._conversation.pending[0].id: text}))
        else:
            self._screen.note(f"the agent is paused; answer with {how_to_answer(self._conversation.pending)}")
            return self._is_terminal
        return True

    def _obey(self, command: str, rest: str) -> None:
        if command == "/usage":
            self._show_usage(self._conversation.usage)
        elif command == "/help":
            self._screen.note("\n".join(f"{name:<9} {meaning}" for name, meaning in COMMANDS.items()))
        elif not self._conversation.pending:
            self._screen.note(f"{command}: the agent is not paused")
        else:
            self._decide(command, rest)

    def _decide(self, command: str, rest: str) -> None:
        questions = self._conversation.pending
        if command != "/resume" and not all(map(is_approval, questions)):
            self._screen.note(f"{command}: the question is not about tool calls; answer with /resume JSON")
            return
        try:
            answers = decided(command, questions, rest)
        except ValueError as error:
            self._screen.note(f"{command}: {error}")
            return
        self._play(self._conversation.answer(answers))

    def _show_usage(self, usage: Usage) -> None:
        if isinstance(self._screen, Transcript):
            self._screen.show_usage(usage)
        else:
            self._screen.show(usage)

    def _play(self, turn: AsyncGenerator[Event, None]) -> None:
        status = play(self._runner, self._conversation, turn, self._screen).status
        if status in {"failed", "cancelled"}:
            self._worst = max(self._worst, STATUS_CODES[status])


def _unknown(command: str) -> str:
    near = difflib.get_close_matches(command.lower(), [*COMMANDS, *LEAVING], n=1, cutoff=0.7)
    return f"there is no command {command}; {f'did you mean {near[0]}?' if near else '/help lists those there are'}"
