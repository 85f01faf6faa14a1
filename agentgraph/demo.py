"""`make demo`, or `python -m agentgraph.demo`: an agent with real tools answers three questions, step by step.

By default it runs on SmolLM2, a language model of 135 million parameters in this very process, which has no native tool
calls: the JSON text protocol makes it an agent model. `--model openai:gpt-...` asks a provider's model instead.

At the end stands what was measured: whether the right tool was called, and whether the answer holds what the tool said.
"""

import argparse
import ast
import asyncio
import operator
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool

try:
    from rich.console import Console
    from rich.rule import Rule
    from rich.text import Text as Styled
except ImportError:
    if __name__ != "__main__":
        raise
    from agentgraph.cli import MISSING_EXTRA
    from agentgraph.cli.exits import ExitCode, explain

    explain(MISSING_EXTRA)
    sys.exit(ExitCode.MISSING)

from agentgraph.agent import create_agent
from agentgraph.cli.chat import play
from agentgraph.cli.conversation import Conversation
from agentgraph.cli.events import Done, Event, Text, ToolAnswered, ToolCalled
from agentgraph.cli.exits import ExitCode, explain
from agentgraph.cli.screen import Transcript
from agentgraph.cli.streams import drop_output, prepare_streams
from agentgraph.errors import AgentGraphError
from agentgraph.models import init_chat_model

__all__ = ["LOCAL_ANSWER", "QUESTIONS", "Outcome", "Question", "calculate", "demonstrate", "main", "repository_tools"]

LOCAL_MODEL = "local:smollm2"
# Tokens an answer may have: a model this small does not always find an end.
LOCAL_ANSWER = 120
SYSTEM_PROMPT = "You answer questions with the help of tools. Use a tool whenever one fits, then say what it found."
EXPRESSION_LIMIT = 200
BASE_LIMIT = 10**6
EXPONENT_LIMIT = 100
FILE_LIMIT = 400
ENTRY_LIMIT = 40

SMALL_MODEL = (
    "What you saw is a language model of 135 million parameters, thousands of times smaller than the known ones. "
    "The JSON protocol constrains what it writes to the tools' schemas, so it can choose a tool and fill in its "
    "arguments for a plain question. The questions are worded for it: of three tools it would take the wrong one as "
    "soon as a number looks like an address. It cannot plan, combine several results, or be trusted to repeat a result "
    "correctly: read the tool's card, not the sentence after it. `make demo MODEL=openai:gpt-...` asks a large model "
    "the same questions."
)


@dataclass(frozen=True)
class Question:
    """A question of the demo, and how one sees that it was answered with a tool.

    Attributes:
        text: what the agent is asked; in a form that the smallest model understands.
        tool: the name of the tool that can answer it.
        holds: a piece of text that the tool's answer and the final answer hold when all went well.
    """

    text: str
    tool: str
    holds: str


@dataclass(frozen=True)
class Outcome:
    """What became of a question.

    Attributes:
        called: the right tool was called and its result is the right one.
        answered: the final answer holds that result.
        failed: the run ended with an error.
        seconds: how long it took.
    """

    called: bool
    answered: bool
    failed: bool
    seconds: float


QUESTIONS = (
    Question("How much is 127 * 49? Use the calculator.", tool="calculator", holds="6223"),
    Question("Which files are in the folder notebooks?", tool="list_files", holds=".ipynb"),
    Question("Read the file pyproject.toml. What is the project called?", tool="read_file", holds="agentgraph-runtime"),
)

_OPERATORS: dict[type[ast.operator | ast.unaryop], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def calculate(expression: str) -> int | float:
    """The value of an arithmetic expression: numbers, + - * / // % **, parentheses, and nothing else.

    The expression comes from a model, so it is never evaluated as Python, and its powers are bounded.

    Raises:
        ValueError: the expression is too long, holds something else, or its value is too large.
    """
    if len(expression) > EXPRESSION_LIMIT:
        raise ValueError(f"an expression of {len(expression)} characters; expected at most {EXPRESSION_LIMIT}")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ValueError(f"cannot calculate {expression!r}: {error}") from error


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            return _real(_OPERATORS[type(sign)](_value(operand)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _real(_power(_value(left), _value(right)))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _real(_OPERATORS[type(sign)](_value(left), _value(right)))
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic; expected numbers, + - * / // % ** and parentheses")


def _power(base: float, exponent: float) -> Any:
    if abs(base) > BASE_LIMIT or abs(exponent) > EXPONENT_LIMIT:
        raise ValueError(f"{base} ** {exponent} is too large; expected at most {BASE_LIMIT} ** {EXPONENT_LIMIT}")
    return base**exponent


def _real(number: Any) -> int | float:
    if isinstance(number, int | float):
        return number
    raise ValueError(f"{number} is not a real number")


def repository_tools(root: Path) -> list[BaseTool]:
    """The three tools of the demo: a calculator, and two that look into `root` and nowhere else.

    Args:
        root: the folder that the tools may read. Hidden files, and links that lead out of it, are out of reach.
    """

    @tool
    def calculator(expression: str) -> str:
        """Calculate an arithmetic expression, for example "12 * (3 + 4)"."""
        return f"{expression.strip()} = {calculate(expression)}"

    @tool
    def list_files(folder: str) -> str:
        """List the files in a folder."""
        names = [f"{path.name}/" if path.is_dir() else path.name for path in _within(root, folder).iterdir()]
        shown = sorted(name for name in names if not name.startswith((".", "__pycache__")))
        return f"The files are: {', '.join(shown[:ENTRY_LIMIT])}" if shown else "The folder is empty."

    @tool
    def read_file(path: str) -> str:
        """Read the beginning of a text file."""
        with _within(root, path).open(encoding="utf-8", errors="replace") as file:
            return file.read(FILE_LIMIT)

    return [list_files, read_file, calculator]


def _within(root: Path, path: str) -> Path:
    base = root.resolve()
    found = (base / path.strip().lstrip("/")).resolve()
    if not found.is_relative_to(base) or any(part.startswith(".") for part in found.relative_to(base).parts):
        raise ValueError(f"{path!r} is outside of what can be read; expected a path within the repository")
    if not found.exists():
        raise ValueError(f"there is no {path!r}; list_files shows what there is")
    return found


class _Witness(Transcript):
    """A transcript that remembers what it showed."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self.events: list[Event] = []

    def show(self, event: Event) -> None:
        self.events.append(event)
        super().show(event)

    def outcome(self, question: Question, seconds: float) -> Outcome:
        called = {event.id for event in self.events if isinstance(event, ToolCalled) and event.name == question.tool}
        results = [event for event in self.events if isinstance(event, ToolAnswered) and event.id in called]
        pieces = [event for event in self.events if isinstance(event, Text)]
        final = "".join(piece.text for piece in pieces if piece.id == pieces[-1].id)
        ended = self.events[-1]
        return Outcome(
            called=any(question.holds in result.content for result in results),
            answered=question.holds in final,
            failed=not (isinstance(ended, Done) and ended.status == "ok"),
            seconds=seconds,
        )


def demonstrate(
    model: BaseChatModel,
    *,
    protocol: str | None,
    root: Path,
    out: TextIO,
    questions: Sequence[Question] = QUESTIONS,
) -> list[Outcome]:
    """Ask an agent the questions, each in a conversation of its own, and show every step.

    Args:
        model: the chat model.
        protocol: the tool protocol, for a model without native tool calls.
        root: the folder that the tools may read.
        out: where it is shown.
        questions: what is asked.

    Returns:
        What became of each question, in their order.

    Raises:
        KeyboardInterrupt: a question was cancelled.
    """
    tools = repository_tools(root)
    agent = create_agent(model, tools, system_prompt=SYSTEM_PROMPT, tool_protocol=protocol)
    console = Console(file=out, highlight=False, markup=False)
    console.print(f"an agent with the tools {_listed(tools)}")
    outcomes = []
    with asyncio.Runner() as runner:
        for number, question in enumerate(questions, start=1):
            console.print(Rule(Styled(question.text, style="bold"), align="left"))
            screen = _Witness(out)
            started = time.monotonic()
            conversation = Conversation(agent, f"question-{number}")
            if play(runner, conversation, conversation.say(question.text), screen).status == "cancelled":
                # Who has had enough of one question does not wait for the others.
                raise KeyboardInterrupt
            outcomes.append(screen.outcome(question, time.monotonic() - started))
    return outcomes


def _listed(tools: Sequence[BaseTool]) -> str:
    return ", ".join(one.name for one in tools)


def _measured(outcomes: Sequence[Outcome]) -> str:
    called, answered = sum(o.called for o in outcomes), sum(o.answered for o in outcomes)
    seconds = sum(o.seconds for o in outcomes)
    return (
        f"right tool with right arguments: {called} of {len(outcomes)}; "
        f"final answer holds the tool's result: {answered} of {len(outcomes)}; {seconds:.0f} seconds"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the process's exit code is returned: 1 when a run failed, 130 when it was cancelled."""
    prepare_streams()
    parser = argparse.ArgumentParser(prog="python -m agentgraph.demo", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--model", default=LOCAL_MODEL, help="provider:name (default: %(default)s)")
    chosen: str = parser.parse_args(arguments).model
    try:
        return _show(chosen)
    except KeyboardInterrupt:
        return ExitCode.CANCELLED
    except OSError as error:
        drop_output()
        explain(f"{type(error).__name__}: {error}")
        return ExitCode.FAILED


def _show(chosen: str) -> int:
    is_local = chosen.startswith("local:")
    console = Console(highlight=False, markup=False)
    try:
        model = init_chat_model(chosen, max_tokens=LOCAL_ANSWER) if is_local else init_chat_model(chosen)
        console.print(f"model: {chosen}")
        outcomes = demonstrate(model, protocol="json" if is_local else None, root=Path.cwd(), out=sys.stdout)
    except AgentGraphError as error:
        console.print(f"{type(error).__name__}: {error}", style="bold red")
        return 1
    console.print(Rule())
    console.print(_measured(outcomes), style="bold")
    if is_local:
        console.print(SMALL_MODEL)
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
