"""The ready-made middleware, one row an entry: how to build it with a scripted model, what it changes, what it costs.

The conversation of all rows: a question; two calls at once of `look`; one call of `pay`; the answer. So a run without
middleware has three model calls, three tool calls and five steps of the graph. Whatever the model says depends on the
end of the history alone, so that many threads can share one agent.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agentgraph import middleware
from agentgraph.middleware import AgentMiddleware
from agentgraph.testing import FunctionModel, tool_call
from agentgraph.tools import tool

MAIL = "ann@example.org"
TAIL = " and".ljust(260, ".")
"""What makes a result of `look` a long one."""


class Model(FunctionModel):
    """A function of the request that passes for a model whose provider can look up tools."""

    @property
    def _llm_type(self):
        return "anthropic-chat"


@tool
def look(place: str) -> str:
    """Look at a place."""
    return seen(place)


def payer(log):
    """The tool that is guarded; the log has whom it paid."""

    @tool
    def pay(to: str, note: str) -> str:
        """Pay somebody."""
        log.append(to)
        return paid(to, note)

    return pay


def seen(place):
    return f"saw {place}{TAIL}"


def paid(to, note=f"for {MAIL}"):
    return f"paid {to} {note}"


def question(key):
    return f"Look at {key}-1 and {key}-2, pay {key}, write to {MAIL}."


def conversation(messages, settings):
    """The next message of the agent's model; the key of the conversation is in each of its calls."""
    if not isinstance(messages[-1], ToolMessage):
        key = re.search(r"Look at (\w+)-1", messages[-1].text)[1]
        return [tool_call("look", place=f"{key}-1"), tool_call("look", place=f"{key}-2")]
    called = next(message for message in reversed(messages) if isinstance(message, AIMessage)).tool_calls[0]
    if called["name"] == "look":
        key = called["args"]["place"].removesuffix("-1")
        return tool_call("pay", to=key, note=f"for {MAIL}")
    return f"Done for {called['args']['to']}, {MAIL}."


def plain(key):
    """What a run without middleware has as its messages."""
    return [
        f"human: {question(key)}",
        f"ai: -> look(place='{key}-1') -> look(place='{key}-2')",
        f"tool look: {seen(f'{key}-1')}",
        f"tool look: {seen(f'{key}-2')}",
        f"ai: -> pay(to='{key}', note='for {MAIL}')",
        f"tool pay: {paid(key)}",
        f"ai: Done for {key}, {MAIL}.",
    ]


def never(messages, settings):
    raise AssertionError("this entry calls no model of its own here")


def same(lines):
    return lines


@dataclass(frozen=True)
class Entry:
    """A row.

    The figures are those of the conversation above.

    Attributes:
        name: the class.
        build: makes the middleware, given a folder and the model for its own calls.
        plays: what that model says.
        alters: what it makes of the lines of a run.
        tools: the tools that it brings.
        asks: how often it pauses a run for a person.
        again: how often a guard that stands after this entry asks once more, because the tool is given other arguments
            than the messages show.
        steps: further steps of the graph.
        calls: model calls of its own.
        result: further keys of the result.
        stored: further keys of the stored state, with those of the result.
        written: further keys in a stream of updates.
        hides: the entries that do nothing where they stand after this one.
        mends: the error that it makes good, of a model call ("model") or a tool call ("tool").
    """

    name: str
    build: Callable[[Any, Any], Any]
    plays: Callable[[Any, Any], Any] = never
    alters: Callable[[list[str]], list[str]] = same
    tools: tuple[str, ...] = ()
    asks: int = 0
    again: int = 0
    steps: int = 0
    calls: int = 0
    result: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    hides: tuple[str, ...] = ()
    mends: str = ""

    def model(self):
        return Model(self.plays)


# What the models of entries say, and what entries change


def choose_tools(messages, settings):
    return tool_call(settings["tools"][0]["function"]["name"], tools=["look", "pay"])


def emulate(messages, settings):
    return seen(re.search(r"\w+-[12]", messages[-1].text)[0])


def route(messages, settings):
    return tool_call("Classification", reason="It is work.", choice="work")


def judge(messages, settings):
    return tool_call("Classification", reason="It is what was asked for.", answer=False)


def notes(messages, settings):
    return "Notes."


def without_mail(lines):
    return [line.replace(MAIL, "[REDACTED_EMAIL]") for line in lines]


def without_beginning(lines):
    """The question and the first turn were replaced by notes before the last model call."""
    start = next(place for place, line in enumerate(lines) if "-> pay" in line)
    return [SUMMARY, *lines[start:]]


def with_heads(lines):
    return [f"{line[: len(LOOK) + 60]}{LEFT_OUT}" if line.startswith(LOOK) else line for line in lines]


LOOK = "tool look: "
SUMMARY = "human: Notes on the conversation so far, in place of its older messages:\n\nNotes."
LEFT_OUT = (
    "\n[209 of 269 characters are left out here. The whole result is kept. To read on, call read_result with "
    'id="..." and offset=60; with find="some text" it lists the places that hold a text.]'
)


def keys(text):
    return frozenset(text.split())


APPROVALS = keys("hitl_edited_tool_calls hitl_reviews")
BUDGET = keys("usage thread_usage budget_marks")

ENTRIES = (
    Entry(
        "ApprovalPolicyMiddleware",
        lambda folder, own: middleware.ApprovalPolicyMiddleware(
            [middleware.ApprovalRule("ask", tools="pay")], default="allow"
        ),
        asks=1,
        steps=3,
        stored=APPROVALS,
        written=APPROVALS,
    ),
    Entry(
        "AutoModeMiddleware",
        lambda folder, own: middleware.AutoModeMiddleware(tools=["pay"], classifier=own),
        plays=judge,
        calls=1,
    ),
    Entry(
        "BudgetMiddleware",
        lambda folder, own: middleware.BudgetMiddleware(middleware.Budget(model_calls=10)),
        steps=1,
        result=keys("usage"),
        stored=BUDGET,
        written=BUDGET,
    ),
    Entry(
        "ContextEditingMiddleware",
        lambda folder, own: middleware.ContextEditingMiddleware(
            edits=[middleware.ClearToolUsesEdit(trigger=100, keep=2)]
        ),
    ),
    Entry(
        "FilesystemFileSearchMiddleware",
        lambda folder, own: middleware.FilesystemFileSearchMiddleware(root_path=folder),
        tools=("glob_search", "grep_search"),
    ),
    Entry(
        "HumanInTheLoopMiddleware",
        lambda folder, own: middleware.HumanInTheLoopMiddleware({"pay": True}),
        asks=1,
        steps=3,
        stored=APPROVALS,
        written=APPROVALS,
    ),
    Entry(
        "LLMToolEmulator",
        lambda folder, own: middleware.LLMToolEmulator(tools=["look"], model=own),
        plays=emulate,
        calls=2,
        hides=("LargeResultMiddleware",),
    ),
    Entry(
        "LLMToolSelectorMiddleware",
        lambda folder, own: middleware.LLMToolSelectorMiddleware(model=own),
        plays=choose_tools,
        calls=3,
    ),
    Entry(
        "LargeResultMiddleware",
        lambda folder, own: middleware.LargeResultMiddleware(limit=250, head=60, folder=folder / "results"),
        tools=("read_result",),
        alters=with_heads,
        stored=keys("large_results_scope"),
        written=keys("large_results_scope"),
    ),
    Entry(
        "ModelCallLimitMiddleware",
        lambda folder, own: middleware.ModelCallLimitMiddleware(run_limit=10),
        stored=keys("thread_model_call_count"),
        written=keys("thread_model_call_count run_model_call_count"),
    ),
    Entry(
        "ModelFallbackMiddleware",
        lambda folder, own: middleware.ModelFallbackMiddleware(own),
        plays=conversation,
        mends="model",
    ),
    Entry("ModelRefusalMiddleware", lambda folder, own: middleware.ModelRefusalMiddleware()),
    Entry(
        "ModelRetryMiddleware",
        lambda folder, own: middleware.ModelRetryMiddleware(initial_delay=0),
        mends="model",
    ),
    Entry(
        "ModelRouterMiddleware",
        lambda folder, own: middleware.ModelRouterMiddleware(
            choices={"work": middleware.ModelChoice(Model(conversation), "Work.")},
            instructions="Choose.",
            classifier=own,
        ),
        plays=route,
        steps=1,
        calls=1,
        result=keys("model_route"),
        stored=keys("model_route"),
        written=keys("model_route"),
    ),
    Entry(
        "PIIMiddleware",
        lambda folder, own: middleware.PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True),
        alters=without_mail,
        again=1,
        stored=keys("pii_email_arguments"),
        written=keys("pii_email_arguments"),
    ),
    Entry(
        "ProviderToolSearchMiddleware",
        lambda folder, own: middleware.ProviderToolSearchMiddleware(searchable_tools=["look"]),
    ),
    Entry(
        "ShellToolMiddleware",
        lambda folder, own: middleware.ShellToolMiddleware(folder),
        tools=("shell",),
        steps=2,
        stored=keys("shell_session_id"),
        written=keys("shell_session_id shell_session_resources"),
    ),
    Entry(
        "SummarizationMiddleware",
        lambda folder, own: middleware.SummarizationMiddleware(own, trigger=("messages", 6), keep=("messages", 2)),
        plays=notes,
        alters=without_beginning,
        calls=1,
    ),
    Entry("TodoListMiddleware", lambda folder, own: middleware.TodoListMiddleware(), tools=("write_todos",)),
    Entry(
        "ToolCallLimitMiddleware",
        lambda folder, own: middleware.ToolCallLimitMiddleware(run_limit=10),
        stored=keys("thread_tool_call_count counted_tool_calls"),
        written=keys("thread_tool_call_count run_tool_call_count counted_tool_calls"),
    ),
    Entry(
        "ToolErrorMiddleware",
        lambda folder, own: middleware.ToolErrorMiddleware(
            lambda error, request: f"paid {request.tool_call['args']['to']}"
        ),
    ),
    Entry("ToolRetryMiddleware", lambda folder, own: middleware.ToolRetryMiddleware(initial_delay=0), mends="tool"),
)


def exported():
    """The names of the middleware classes that the public door has."""
    found = {name: getattr(middleware, name) for name in middleware.__all__}
    return sorted(
        name
        for name, value in found.items()
        if isinstance(value, type) and issubclass(value, AgentMiddleware) and value is not AgentMiddleware
    )
