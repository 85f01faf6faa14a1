"""The life of one thread, played at random: after each step its history is valid, and no work was lost or done twice.

Each rule is something that people, tools, models and machines do to a thread. After each of them is checked that

* a provider accepts the history, or what a new message makes of it (the model is as strict as one);
* each result that a tool gave is there, once, and is the tool's own;
* nothing ran that had run, that was answered, or that nobody approved with exactly these arguments.

`THREAD_MACHINE_EXAMPLES=1000` plays so many lives, at random, instead of the few that are always the same.
"""

import os
import tempfile
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentgraph import threads
from agentgraph.errors import ConfigurationError
from tests.contract.machine_events import Again, Decide, GoOn, Say, Start, Trouble
from tests.contract.machine_ledger import GUARDED
from tests.contract.machine_world import TOOLS, World

EXAMPLES = os.environ.get("THREAD_MACHINE_EXAMPLES")
STEPS = 12

# As long as it takes, where somebody asks for more.
pytestmark = [pytest.mark.timeout(0)] if EXAMPLES else []

CALLS = st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3).map(tuple)
SAYS = st.builds(Say, st.lists(CALLS, max_size=2).map(tuple))
ASKS = st.builds(Say, st.tuples(CALLS.map(lambda calls: (GUARDED, *calls[1:]))))
DECISIONS = st.lists(st.sampled_from(["approve", "edit", "reject", "respond"]), min_size=1, max_size=2).map(tuple)
DECIDES = st.builds(Decide, DECISIONS, only_first=st.booleans())
STARTS: st.SearchStrategy[Start] = st.one_of(SAYS, DECIDES, st.just(GoOn()), st.just(Again()))
PLACES = st.sampled_from(["in a tool", "after a tool", "in the model"])
NTH = st.integers(1, 3)
# Of as many as there are then: how many that is must not change what is drawn.
SOME = st.integers(0, 20)


class ThreadMachine(RuleBasedStateMachine):
    """One thread; subclasses say how it is run and where it is kept."""

    way: ClassVar[str]
    place: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world: Any = None

    def teardown(self) -> None:
        if self.world is not None:
            self.world.close()
        self.folder.cleanup()

    @initialize(
        mode=st.sampled_from(["batched", "per_call"]), ids=st.sampled_from(["unique", "anew in each turn"]), start=SAYS
    )
    def a_conversation_begins(self, mode: str, ids: str, start: Say) -> None:
        url = "memory://" if self.place == "memory" else f"sqlite:///{self.folder.name}/threads.db"
        self.world = World(self.way, url, mode, ids)
        self.world.run(start)

    @rule(start=SAYS)
    def somebody_says_something(self, start: Say) -> None:
        self.world.run(start)

    @rule()
    def the_run_goes_on(self) -> None:
        self.world.run(GoOn())

    @rule(asks=ASKS, decide=DECIDES)
    def somebody_decides_what_is_asked(self, asks: Say, decide: Decide) -> None:
        if not self.world.asked():
            self.world.run(asks)
        self.world.run(decide)

    @rule(start=STARTS, where=PLACES, nth=NTH, durability=st.sampled_from(["sync", "async"]))
    def the_process_is_killed_at_work(self, start: Start, where: Any, nth: int, durability: str) -> None:
        self.world.run(start, Trouble("killed", where, nth), durability=durability)

    @rule(start=STARTS, writes=st.integers(0, 12), durability=st.sampled_from(["sync", "async"]))
    def the_process_is_killed_as_it_writes(self, start: Start, writes: int, durability: str) -> None:
        self.world.process.writes_left = writes
        self.world.run(start, durability=durability)
        self.world.process.writes_left = None

    @rule(start=STARTS, mode=st.sampled_from(["now", "after_tools", "after_turn", "deadline"]), where=PLACES, nth=NTH)
    def the_run_is_cancelled(self, start: Start, mode: str, where: Any, nth: int) -> None:
        self.world.run(start, Trouble(mode, where, nth))

    @rule(start=STARTS, steps=st.integers(1, 6))
    def the_run_reaches_the_step_limit(self, start: Start, steps: int) -> None:
        self.world.run(start, config={"recursion_limit": steps})

    @rule(start=STARTS, nth=st.integers(1, 2))
    def the_model_fails(self, start: Start, nth: int) -> None:
        self.world.run(start, Trouble("error", "in the model", nth))

    @rule(wrong=st.sampled_from(["yes", {"decisions": []}, {"decisions": [{"type": "maybe"}]}, {"0" * 32: "yes"}]))
    def a_wrong_answer_is_refused(self, wrong: Any) -> None:
        self.world.refuses(wrong)

    @rule()
    def the_last_answer_is_delivered_again(self) -> None:
        self.world.run(Again())

    @rule(some=SOME)
    def a_late_answer_is_refused(self, some: int) -> None:
        late = sorted(set(self.world.questions) - {one.id for one in self.world.asked()})
        if late:
            self.world.refuses_late(late[some % len(late)])

    @rule(some=SOME, apart=st.booleans())
    def somebody_forks_the_thread(self, some: int, apart: bool) -> None:
        steps = self.world.steps()
        self.world.fork(steps[some % len(steps)], apart=apart)

    @rule(some=SOME)
    def somebody_rewinds_the_thread(self, some: int) -> None:
        steps = self.world.steps()
        self.world.rewind(steps[some % len(steps)])

    @rule(keep_last=st.integers(1, 3), snapshot=st.booleans())
    def old_checkpoints_are_pruned(self, keep_last: int, *, snapshot: bool) -> None:
        if snapshot and self.is_refused_in_the_middle("prune", self.thread_id, keep_last=keep_last, snapshot=True):
            return
        self.world.prune(keep_last, snapshot=snapshot)

    @rule()
    def the_thread_is_repaired(self) -> None:
        if not self.is_refused_in_the_middle("repair", self.world.thread):
            before = self.world.steps()
            assert self.on_threads("repair", self.world.thread).findings == ()
            assert self.world.steps() == before

    @property
    def thread_id(self) -> str:
        name: str = self.world.thread["configurable"]["thread_id"]
        return name

    def on_threads(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function of `agentgraph.threads`."""
        return self.world._either(getattr(threads, name), getattr(threads, f"a{name}"))(
            self.world.agent, *args, **kwargs
        )

    def is_refused_in_the_middle(self, name: str, *args: Any, **kwargs: Any) -> bool:
        """Whether a step is not over; then what needs a thread at rest is refused, and leaves no trace."""
        before = self.world.agent.get_state(self.world.thread)
        if not before.tasks:
            return False
        with pytest.raises(ConfigurationError, match="not at rest"):
            self.on_threads(name, *args, **kwargs)
        assert self.world.agent.get_state(self.world.thread) == before
        return True

    @rule(start=SAYS)
    def somebody_writes_a_message_into_the_state(self, start: Say) -> None:
        self.world.write(start.text)

    @invariant()
    def the_thread_is_in_order(self) -> None:
        if self.world is not None:
            self.world.look()


class AsyncThreadMachine(ThreadMachine):
    """The same with a run in a task, which can be cancelled from outside."""

    @rule(start=STARTS, where=PLACES, nth=NTH)
    def the_task_is_cancelled(self, start: Start, where: Any, nth: int) -> None:
        self.world.run(start, Trouble("task", where, nth))


class SyncMemory(ThreadMachine):
    way, place = "sync", "memory"


class SyncSqlite(ThreadMachine):
    way, place = "sync", "sqlite"


class AsyncMemory(AsyncThreadMachine):
    way, place = "async", "memory"


class AsyncSqlite(AsyncThreadMachine):
    way, place = "async", "sqlite"


PLAYED = settings(
    max_examples=int(EXAMPLES or 12),
    stateful_step_count=STEPS,
    derandomize=EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)

for machine in (SyncMemory, SyncSqlite, AsyncMemory, AsyncSqlite):
    machine.TestCase.settings = PLAYED

TestSyncMemory = SyncMemory.TestCase
TestSyncSqlite = SyncSqlite.TestCase
TestAsyncMemory = AsyncMemory.TestCase
TestAsyncSqlite = AsyncSqlite.TestCase
