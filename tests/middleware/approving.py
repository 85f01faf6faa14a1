"""What the tests of approvals share: guarded tools that keep a log, and asking, answering, looking at a paused run."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.testing import ScriptedModel, assert_valid_history
from agentgraph.tools import tool
from tests.contract import conftest

WAYS = pytest.mark.parametrize(
    "run",
    [conftest._invoke, conftest._stream, conftest._ainvoke, conftest._astream],
    ids=["invoke", "stream", "ainvoke", "astream"],
)

THREAD = {"configurable": {"thread_id": "t"}}
APPROVE = {"type": "approve"}
GUARDS = {"transfer": True, "close": True}


def reject(message=None):
    return {"type": "reject"} if message is None else {"type": "reject", "message": message}


def respond(message):
    return {"type": "respond", "message": message}


def edit(name, **args):
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


class Bank:
    """Two tools that move money and one that only looks; `log` has what they did."""

    def __init__(self):
        self.log = log = []

        @tool
        def transfer(to: str, amount: int) -> str:
            """Move money."""
            log.append(("transfer", to, amount))
            return f"sent {amount} to {to}"

        @tool
        def close(account: str) -> str:
            """Close an account."""
            log.append(("close", account))
            return f"closed {account}"

        @tool
        def balance(account: str) -> str:
            """Look at an account."""
            log.append(("balance", account))
            return f"{account} has 10"

        self.tools = [transfer, close, balance]


class Desk:
    """An agent with approvals on one thread, run in one of the four ways."""

    def __init__(self, run, *replies, guards=GUARDS, before=(), after=(), tools=(), saver=None, agent=None, **options):
        self.bank = Bank()
        self.model = ScriptedModel(*replies)
        settings = {name: options.pop(name) for name in SETTINGS & set(options)}
        self.agent = create_agent(
            self.model,
            [*self.bank.tools, *tools],
            middleware=[*before, HumanInTheLoopMiddleware(guards, **settings), *after],
            checkpointer=saver or InMemorySaver(),
            **options,
        )
        self._run = run

    @property
    def log(self):
        return self.bank.log

    @property
    def messages(self):
        found = self.agent.get_state(THREAD).values["messages"]
        assert_valid_history(found) if not self.questions else None
        return found

    @property
    def questions(self):
        """The open questions, as the saved thread shows them."""
        return [one for task in self.agent.get_state(THREAD).tasks for one in task.interrupts]

    @property
    def question(self):
        (one,) = self.questions
        return one

    def say(self, text="hi", **options):
        return self._run(self.agent, {"messages": text}, THREAD, **options)

    def resume(self, answer, **options):
        given = answer if isinstance(answer, Command) else Command(resume=answer)
        return self._run(self.agent, given, THREAD, **options)

    def answers(self):
        """The tool messages by the ids of their calls."""
        return {m.tool_call_id: m for m in self.messages if m.type == "tool"}


SETTINGS = {"description_prefix", "edit_notice", "interrupt_mode"}
