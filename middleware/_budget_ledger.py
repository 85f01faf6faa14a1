"""Who spends from which budget: bookings of this process that no state holds yet, and the agents above a subagent.

Each model call and each subagent is booked under a key of its own, as its whole, so that booking it again replaces it.
A booking goes to the state in the update that brings the message it belongs to; the state then says that it has it. So
nothing counts twice, and nothing is lost where an update is thrown away: the next one brings it.

Calls that run side by side see each other's bookings, and hold what they will spend at least while they run.
"""

import contextlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from ._budget_keys import Place
from ._budget_limits import Budget, Standing
from ._budget_prices import Prices
from ._budget_usage import Usage, as_subagent, run_of, usage_of

__all__ = ["CALLER", "LOCK", "Level", "Tab", "tab_of"]

LOCK = threading.RLock()
"""Guards all bookings: looking at a budget and holding a part of it must be one step. Nobody waits while holding it."""

_MOST_RUNS = 4096
_tabs: "OrderedDict[str, Tab]" = OrderedDict()


@dataclass
class Tab:
    """The bookings of one run in this process.

    Attributes:
        id: of these bookings; another process has others.
        booked: what was spent, by the key of the booking.
        held: what calls that are being made will spend at least, by the same keys.
        busy: seconds of work that are not booked yet.
        active: how many calls are at work.
        since: when the first of them began.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    booked: dict[str, Usage] = field(default_factory=dict)
    held: dict[str, Usage] = field(default_factory=dict)
    busy: float = 0.0
    active: int = 0
    since: float = 0.0

    def name(self, key: str) -> str:
        """The booking as the state names it."""
        return f"{self.id}/{key}"

    def open(self, seen: Iterable[str]) -> dict[str, Usage]:
        """The bookings that a state does not have yet, by their keys."""
        known = frozenset(seen)
        return {key: usage for key, usage in self.booked.items() if self.name(key) not in known}

    def running(self) -> float:
        """The seconds of work that are not booked yet, up to now."""
        return self.busy + (time.monotonic() - self.since if self.active else 0.0)

    def take_seconds(self) -> float:
        """The same, to be booked by the caller."""
        seconds, self.busy, self.since = self.running(), 0.0, time.monotonic()
        return seconds

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the time of a call; that of calls side by side counts once."""
        with LOCK:
            self.since = self.since if self.active else time.monotonic()
            self.active += 1
        try:
            yield
        finally:
            with LOCK:
                self.busy = self.running()
                self.active -= 1
                self.since = time.monotonic()


def tab_of(run: str) -> Tab:
    """The bookings of a run; those of the runs that were used longest ago are forgotten."""
    with LOCK:
        tab = _tabs.setdefault(run, Tab())
        _tabs.move_to_end(run)
        while len(_tabs) > _MOST_RUNS:
            _tabs.popitem(last=False)
        return tab


@dataclass(frozen=True)
class Level:
    """An agent's run at one moment, as its own calls and its subagents see it.

    Attributes:
        run: id of the run.
        agent: name of the agent, None where it has none.
        tool: the tool that is being called, "" at the model.
        tab: the bookings of this process.
        seen: the bookings that the state has.
        of_run: what the state says of the run.
        of_thread: what it says of the thread.
        budgets: the agent's own, in order.
        places: for each of these, where its key's records are; None without a key.
        raised: what people have added, by the key of the standing and the dimension.
        warned: which warnings this run has had.
        prices: where prices are looked up.
        parent: the agent whose tool called this one.
        children: runs of subagents that the tool has called.
    """

    run: str
    agent: str | None
    tool: str
    tab: Tab
    seen: frozenset[str]
    of_run: Usage
    of_thread: Usage
    budgets: tuple[Budget, ...]
    places: tuple[Place | None, ...]
    raised: Mapping[str, str]
    warned: frozenset[str]
    prices: Prices
    parent: "Level | None"
    children: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, state: Mapping[str, Any], thread: str, **rest: Any) -> "Level":
        """The level of a state.

        Args:
            state: the agent's state.
            thread: id of the thread, or of what else tells the run from others. A copy of a thread has bookings of its
                own, and a run that had begun before a budget was mounted goes by it.
            **rest: the other fields.
        """
        marks, own = state.get("budget_marks") or {}, run_of(state) or f"of {thread}"
        known = marks if marks.get("run") == own else {}
        return cls(
            run=own,
            tab=tab_of(f"{own}@{thread}"),
            seen=frozenset(known.get("seen", ())),
            of_run=usage_of(state),
            of_thread=usage_of(state, of="thread"),
            raised=dict(known.get("raised", {})),
            warned=frozenset(known.get("warned", ())),
            parent=CALLER.get(),
            **rest,
        )

    def chain(self) -> list["Level"]:
        """This level and those above it."""
        return [self, *(self.parent.chain() if self.parent is not None else [])]

    def total(self) -> Usage:
        """What the run has spent by now, its subagents included."""
        with LOCK:
            return sum(self.tab.open(self.seen).values(), self.of_run)

    def standings(self, elsewhere: Mapping[Place, Usage], caller: "Level") -> list[Standing]:
        """How the budgets of this level stand for a call of `caller`, which is this one or below it."""
        with LOCK:
            total, held = self.total(), sum(self.tab.held.values(), Usage())
            live = replace(held, seconds=self.tab.running())
            before = self.of_thread.without(self.of_run)
            own = caller.total().own()
        spent: dict[Any, Usage] = {"run": total + live, "thread": total + before + live}
        return [
            Standing(
                budget,
                f"{number}",
                spent[budget.scope] if isinstance(budget.scope, str) else elsewhere.get(place, Usage()) + own,  # type: ignore[arg-type] # a key has a place
                refused=total.refused_calls > 0,
                raised=self._raised(number),
                inherited=caller is not self,
            )
            for number, (budget, place) in enumerate(zip(self.budgets, self.places, strict=True))
        ]

    def _raised(self, number: int) -> dict[str, Any]:
        mine = {key.partition(":")[2]: value for key, value in self.raised.items() if key.startswith(f"{number}:")}
        return {key: _amount(key, value) for key, value in mine.items()}

    def report(self, child: str, agent: str | None, usage: Usage) -> None:
        """Book what the run of a subagent has spent in all, and tell the agents above."""
        # Metadata is inherited, so an agent without a name seems to have that of its caller.
        name = agent if agent and agent != self.agent else self.tool
        with LOCK:
            self.tab.booked[child] = as_subagent(name, usage)
            self.children.add(child)
        self.tell()

    def tell(self) -> None:
        """Tell the agent above what this run has spent."""
        if self.parent is not None:
            with LOCK:  # the sum that is told must not be older than one that was told before
                self.parent.report(self.run, self.agent, self.total())

    def update(self, keys: Iterable[str] | None = None, **marks: Any) -> dict[str, Any]:
        """What to write to the state so that it has the bookings: those with the given keys, or all."""
        with LOCK:
            found = self.tab.open(self.seen)
            wanted = list(found) if keys is None else [key for key in found if key in set(keys)]
            spent = sum((found[key] for key in wanted), Usage()).as_dict()
            named = [self.tab.name(key) for key in wanted]
        return {
            "usage": {"run": self.run, **spent},
            "thread_usage": spent,
            "budget_marks": {"run": self.run, "seen": named, **{key: one for key, one in marks.items() if one}},
        }

    def settled(self, **marks: Any) -> dict[str, Any]:
        """The update of a model's step, after which what the state had before needs no mark any more."""
        with LOCK:
            mine = [name for name in self.seen if name.startswith(f"{self.tab.id}/")]
            for name in mine:
                self.tab.booked.pop(name.partition("/")[2], None)
        return self.update(forget=sorted(mine), **marks)

    def attached(self, result: Any) -> Any:
        """The result of the tool, with what its subagents have spent."""
        if not self.children:
            return result
        update = self.update(sorted(self.children))
        if isinstance(result, ToolMessage):
            return Command(update={"messages": [result], **update})
        items: Sequence[Any] = result if isinstance(result, list) else [result]
        return [*items, Command(update=update)]


CALLER: ContextVar[Level | None] = ContextVar("agentgraph_budget_caller", default=None)
"""The agent whose tool is being called, as its subagents find it."""


def _amount(key: str, text: str) -> Any:
    return Decimal(text) if key == "cost" else float(text) if key == "seconds" else int(text)
