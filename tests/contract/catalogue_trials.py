"""Running an agent with entries of the catalogue: to its end through every question, in a given way, with its costs."""

import re

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.messages import AIMessageChunk
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.testing import assert_valid_history, describe
from tests.contract import catalogue

MOST_QUESTIONS = 5


def on(thread):
    return {"configurable": {"thread_id": thread}}


def guard():
    """The approval pause in the middle of a run."""
    return HumanInTheLoopMiddleware({"pay": True})


def shown(messages):
    """Messages as lines, with three dots in place of ids that are made up at random."""
    assert_valid_history(messages)
    return [re.sub(r'id="\w+"', 'id="..."', line) for line in describe(messages)]


def expected(key, *entries):
    """The lines of a run with these entries, in the order of the list."""
    lines = catalogue.plain(key)
    for place, entry in enumerate(entries):
        if not any(entry.name in before.hides for before in entries[:place]):
            lines = entry.alters(lines)
    return lines


APPROVE = {"type": "approve"}


def approval(question, decision=APPROVE):
    """What a person says to an open question."""
    asked = question.value
    if not isinstance(asked, dict):
        return "yes"
    if "action_requests" in asked:
        return {"decisions": [decision for _ in asked["action_requests"]]}
    return decision


class Trial:
    """An agent with entries, each with a model of its own for the calls it makes."""

    def __init__(self, folder, *entries, guarded=False, saver=None, tools=None, model=None):
        self.entries = entries
        self.models = [entry.model() for entry in entries]
        self.built = [entry.build(folder, own) for entry, own in zip(entries, self.models, strict=True)]
        middle = [guard()] if guarded else []
        self.paid = []
        self.model = model or catalogue.Model(catalogue.conversation)
        self.agent = create_agent(
            self.model,
            tools or [catalogue.look, catalogue.payer(self.paid)],
            middleware=[*self.built[:1], *middle, *self.built[1:]],
            checkpointer=saver or InMemorySaver(),
        )

    @property
    def calls(self):
        """How many model calls the entries have made for themselves."""
        return sum(len(own.requests) for own in self.models)

    def stored(self, thread="t"):
        """The keys of the stored state besides the messages."""
        return set(self.agent.get_state(on(thread)).values) - {"messages"}

    def say(self, run, key, thread="t"):
        return run(self.agent, {"messages": catalogue.question(key)}, on(thread))

    def questions(self, thread="t"):
        return self.agent.get_state(on(thread)).interrupts

    def answer(self, run, thread="t", first=APPROVE):
        """Decide what is open until nothing is, later questions by approval; gives the last result, how often asked."""
        result, asked = None, 0
        while (open_now := self.questions(thread)) and asked < MOST_QUESTIONS:
            decision = APPROVE if asked else first
            asked += len(open_now)
            given = Command(resume={one.id: approval(one, decision) for one in open_now})
            result = run(self.agent, given, on(thread))
        return result, asked

    def finish(self, run, key, thread="t"):
        """A whole run; gives its result and how often was asked."""
        first = self.say(run, key, thread)
        last, asked = self.answer(run, thread)
        return last or first, asked

    def updates(self, thread="t"):
        """The keys that a stream of updates shows in a whole run, besides the messages."""
        seen, given = set(), {"messages": catalogue.question("k00")}
        while given is not None:
            for update in self.agent.stream(given, on(thread), stream_mode="updates"):
                written = [one for name, value in update.items() if name != "__interrupt__" for one in _listed(value)]
                seen.update(*written)
            open_now = self.questions(thread)
            given = Command(resume={one.id: approval(one) for one in open_now}) if open_now else None
        return seen - {"messages"}

    def said(self, thread="t"):
        """The texts of models that a stream of messages shows in a whole run."""
        texts, given = [], {"messages": catalogue.question("k00")}
        while given is not None:
            pieces = self.agent.stream(given, on(thread), stream_mode="messages")
            texts += [piece.text for piece, _ in pieces if isinstance(piece, AIMessageChunk)]
            open_now = self.questions(thread)
            given = Command(resume={one.id: approval(one) for one in open_now}) if open_now else None
        return "".join(texts)


def _listed(value):
    """A step's update, or those of the tasks of a step."""
    return value if isinstance(value, list) else [value or {}]
