"""One agent on one thread, with everything that can happen to it; `test_thread_machine.py` plays it at random.

The text of a message says what the model is to do: `Please do: note pay / slow` is two rounds of calls. So the model
is a function of the conversation, as a real one is, and does the same after a crash, a fork and a rewind.
"""

import asyncio
import copy
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphRecursionError
from langgraph.types import Command, StateSnapshot

from agentgraph import create_agent, threads
from agentgraph.errors import DeadlineError, ResumeError, RunCancelledError
from agentgraph.history import feedback_kind
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.persistence import open_checkpointer
from agentgraph.runs import RunControl, outcome, pending_questions
from agentgraph.testing import FunctionModel, history_faults, tool_call
from agentgraph.tools import tool
from tests.contract.machine_events import PLEASE, Again, Decide, Say, Start, Trouble, Where
from tests.contract.machine_ledger import (
    GUARDED,
    Action,
    Execution,
    Ledger,
    actions_of,
    answer_for,
    result_text,
)
from tests.contract.machine_process import Process, tool_messages

SECONDS = 20
TOOLS = ("note", GUARDED, GUARDED, "fails", "breaks", "slow")
NOW = frozenset({"now", "deadline", "task"})


@dataclass
class Run:
    """A run at work."""

    trouble: Trouble
    control: RunControl = field(default_factory=RunControl)
    came: dict[str, int] = field(default_factory=dict)
    happened: bool = False
    cancel_task: Callable[[], object] | None = None


def _with_results(snapshot: StateSnapshot) -> list[Any]:
    """The conversation, with the results of tools that are stored, but no part of it yet."""
    messages = snapshot.values.get("messages", [])
    known = {one.id for one in messages}
    written = [task.result for task in snapshot.tasks if isinstance(task.result, dict)]
    results = [one for update in written for one in tool_messages(update.get("messages"))]
    return [*messages, *(one for one in results if one.id not in known)]


class World:
    """An agent, its thread, its storage, and the ledger of what its tools did."""

    def __init__(self, way: str, url: str, mode: Any, ids: str) -> None:
        self.way, self.url, self.mode, self.ids = way, url, mode, ids
        self.ledger = Ledger()
        self.thread: Any = {"configurable": {"thread_id": "thread 0"}}
        self.now = Run(Trouble())
        self.questions: dict[str, Any] = {}
        self.last_answers: dict[str, Any] = {}
        self._decided: dict[str, list[tuple[Action, str]]] = {}
        self._serials, self._names = itertools.count(1), itertools.count(1)
        self._next_serial = 1
        self._broken: set[int] = set()
        self.written: set[str | None] = set()
        self._saver: Any = open_checkpointer(url)
        self.start_process()

    # The program.

    def start_process(self) -> None:
        """A new process on the same storage."""
        self.process = Process()
        if self.url == "memory://":
            self.saver = self.process.live_on(copy.copy(self._saver))
        else:
            self._saver.close()
            self._saver = open_checkpointer(self.url)
            self.saver = self.process.live_on(self._saver)
        self.model = FunctionModel(self._areply if self.way == "async" else self._reply)
        self.agent = create_agent(
            self.model,
            self._tools(),
            middleware=[HumanInTheLoopMiddleware({GUARDED: True}, interrupt_mode=self.mode)],
            on_tool_error=lambda error, _: str(error) if isinstance(error, ToolException) else None,
            checkpointer=self.saver,
        )

    def close(self) -> None:
        self._saver.close()

    def _reply(self, messages: list[BaseMessage], _: Any) -> Any:
        self.meet("in the model")
        said = max(i for i, one in enumerate(messages) if isinstance(one, HumanMessage) and feedback_kind(one) is None)
        done = sum(isinstance(one, AIMessage) for one in messages[said:])
        rounds = messages[said].text.removeprefix(PLEASE).split(" / ")
        names = rounds[done].split() if done < len(rounds) else []
        return [self._call(place, name) for place, name in enumerate(names)] or "Done."

    async def _areply(self, messages: list[BaseMessage], settings: Any) -> Any:
        return self._reply(messages, settings)

    def _call(self, place: int, name: str) -> Any:
        serial = next(self._serials)
        self._next_serial = serial + 1
        call_id = f"call {serial}" if self.ids == "unique" else f"call {place}"
        return tool_call(name, id=call_id, serial=serial, amount=serial)

    def _tool(self, name: str, run: Callable[[int, int], str]) -> Any:
        """A tool; those that work are sync or async as the runs are, those that fail are always sync."""

        def sync(serial: int, amount: int) -> str:
            return run(serial, amount)

        async def asynchronous(serial: int, amount: int) -> str:
            return run(serial, amount)

        function: Any = asynchronous if self.way == "async" and name in {"note", GUARDED} else sync
        function.__name__, function.__doc__ = name, "Works, or not."
        return tool(function)

    def _tools(self) -> list[Any]:
        def works(name: str) -> Callable[[int, int], str]:
            return lambda serial, amount: self._finish(self._begin(Action(name, serial, amount)))

        def fails(serial: int, amount: int) -> str:
            raise ToolException(self._finish(self._begin(Action("fails", serial, amount))))

        def breaks(serial: int, amount: int) -> str:
            execution = self._begin(Action("breaks", serial, amount))
            if serial not in self._broken:
                self._broken.add(serial)
                raise ConnectionError(result_text(execution))
            return self._finish(execution)

        functions = {"note": works("note"), GUARDED: works(GUARDED), "fails": fails, "breaks": breaks}
        return [*(self._tool(name, function) for name, function in functions.items()), self._slow_tool()]

    def _slow_tool(self) -> Any:
        @tool
        async def slow(serial: int, amount: int) -> str:
            """Waits; async in all runs, so that it can be cancelled."""
            execution = self._begin(Action("slow", serial, amount))
            if self.now.happened and self.now.trouble.what in NOW:
                await asyncio.sleep(SECONDS)
                self.ledger.faults.append(f"{execution} was not cancelled")
            await asyncio.sleep(0)
            return self._finish(execution)

        return slow

    def _begin(self, action: Action) -> Execution:
        self.process.check()
        execution = self.ledger.begin(action)
        self.meet("in a tool")
        return execution

    def _finish(self, execution: Execution) -> str:
        self.process.check()
        text = self.ledger.finish(execution)
        self.meet("after a tool")
        return text

    # Trouble.

    def meet(self, where: Where) -> None:
        """The run comes to a place, at which trouble may wait for it."""
        self.process.check()
        run, trouble = self.now, self.now.trouble
        run.came[where] = run.came.get(where, 0) + 1
        if (where, run.came[where]) != (trouble.where, trouble.nth):
            return
        run.happened = True
        match trouble.what:
            case "killed":
                self.process.die()
            case "error":
                raise TimeoutError("The model is busy.")
            case "deadline":
                run.control.expire()
            case "task":
                assert run.cancel_task is not None
                run.cancel_task()
            case mode if mode != "nothing":
                run.control.cancel(mode)  # type: ignore[arg-type] # the other troubles are named above

    # Runs.

    def run(self, start: Start, trouble: Trouble | None = None, *, config: Any = None, **options: Any) -> None:
        """Run, and see that the run ends in a way that the trouble explains."""
        approved = dict(self.ledger.approved)
        given = self._given(start)
        self.now = Run(trouble or Trouble())
        new_only = isinstance(given, dict)
        before = self.agent.get_state(self.thread)
        self.ledger.begin_run(not_before=self._next_serial if new_only else 0)
        try:
            end: Any = self._invoke(given, {**self.thread, **(config or {})}, control=self.now.control, **options)
        except BaseException as error:
            end = error
        if isinstance(start, Again) and isinstance(end, ResumeError):
            assert self.agent.get_state(self.thread) == before
            self.ledger.approved = approved
        elif not self.process.alive:
            self.ledger.lose_what_was_not_stored(self.process.stored)
            self.start_process()
        else:
            self._check_end(end, at_rest=given is None and not before.tasks, limited=bool(config))
        self.now = Run(Trouble())

    def _check_end(self, end: Any, *, at_rest: bool, limited: bool) -> None:
        """A run ends with an answer, a question, or an error for a reason; where nothing is to do, as it began."""
        if isinstance(end, BaseException):
            if not isinstance(end, self._possible(limited=limited)):
                raise end
        else:
            # What is written after the model's answer, but before the hooks behind it, is not answered by itself.
            unanswered = end["messages"][-1].id in self.written
            assert at_rest or unanswered or outcome(end).kind in {"answer", "interrupt"}

    def _possible(self, *, limited: bool) -> tuple[type[BaseException], ...]:
        """The errors that may end the present run."""
        ends: dict[str, type[BaseException]] = {
            "error": TimeoutError,
            "deadline": DeadlineError,
            "task": asyncio.CancelledError,
        }
        ran = self.ledger.executions[self.ledger.first_of_run :]
        possible: list[type[BaseException]] = []
        if any(one.action.tool == "breaks" and not one.returned for one in ran):
            possible.append(ConnectionError)
        if limited:
            possible.append(GraphRecursionError)
        if self.now.happened and self.now.trouble.what != "nothing":
            possible.append(ends.get(self.now.trouble.what, RunCancelledError))
        return tuple(possible)

    def _given(self, start: Start) -> Any:
        questions = self.asked()
        match start:
            case Say():
                return {"messages": start.text}
            case Again() if self.last_answers:
                open_now = {one.id for one in questions} & set(self.last_answers)
                self.ledger.decide(pair for key in open_now for pair in self._decided[key])
                return Command(resume=self.last_answers)
            case Decide() if questions:
                asked = questions[:1] if start.only_first else questions
                kinds = itertools.cycle(start.kinds)
                self._decided = {one.id: [(each, next(kinds)) for each in actions_of(one.value)] for one in asked}
                self.ledger.decide(pair for pairs in self._decided.values() for pair in pairs)
                self.last_answers = {one.id: answer_for(one.value, self._decided[one.id]) for one in asked}
                return Command(resume=self.last_answers)
            case _:
                return None

    def _invoke(self, given: Any, config: Any, **options: Any) -> Any:
        if self.way == "sync":
            return self.agent.invoke(given, config, **options)

        async def bounded() -> Any:
            task = asyncio.create_task(self.agent.ainvoke(given, config, **options))
            loop = asyncio.get_running_loop()
            self.now.cancel_task = lambda: loop.call_soon_threadsafe(task.cancel)
            return await asyncio.wait_for(task, 3 * SECONDS)

        return asyncio.run(bounded())

    def refuses_late(self, question_id: str) -> None:
        """An answer that would fit, and that nobody has given before, comes when the question is not open any more."""
        question = self.questions[question_id]
        changed = [(replace(one, amount=one.amount + 5000), "edit") for one in actions_of(question)]
        self.refuses({question_id: answer_for(question, changed)})

    def refuses(self, answer: Any) -> None:
        """An answer is refused, and leaves no trace."""
        before = self.agent.get_state(self.thread)
        self.ledger.begin_run(not_before=self._next_serial)
        try:
            self._invoke(Command(resume=answer), self.thread)
        except ResumeError:
            assert self.agent.get_state(self.thread) == before
        else:
            raise AssertionError(f"the answer {answer} was taken")

    # The thread.

    def write(self, text: str) -> None:
        """Somebody writes a message into the state."""
        message = HumanMessage(text, id=f"written {next(self._names)}")
        self.written.add(message.id)
        self._either(self.agent.update_state, self.agent.aupdate_state)(self.thread, {"messages": message})

    def asked(self) -> Sequence[Any]:
        return pending_questions(self.agent, self.thread)

    def steps(self) -> Sequence[threads.Step]:
        return threads.history(self.agent, self.thread, limit=None)

    def fork(self, step: threads.Step, *, apart: bool) -> None:
        """Go on from a step, in a new thread or in this one."""
        old = self.agent.get_state(self.thread)
        thread_id = f"thread {next(self._names)}" if apart else None
        new = self._either(threads.fork, threads.afork)(self.agent, step.config, thread_id=thread_id)
        assert not apart or self.agent.get_state(self.thread) == old
        self.thread = new
        self._branched_off(step)

    def rewind(self, step: threads.Step) -> None:
        """Go back to a step."""
        self._either(threads.rewind, threads.arewind)(self.agent, self.thread, to=step.checkpoint_id)
        self._branched_off(step)

    def prune(self, keep_last: int, *, snapshot: bool) -> None:
        """Delete old checkpoints; where the thread is at rest, perhaps after storing its messages whole."""
        at_rest = not self.agent.get_state(self.thread).tasks
        name = self.thread["configurable"]["thread_id"]
        pruning = self._either(threads.prune, threads.aprune)
        pruning(self.agent, name, keep_last=keep_last, snapshot=snapshot and at_rest)

    def _branched_off(self, step: threads.Step) -> None:
        snapshot = self.agent.get_state(step.config)
        there = snapshot.values.get("messages", [])
        assert threads.messages(self.agent, self.thread) == there
        # Asked before the tools, what was decided is part of the state; asked inside of them, it is not.
        self.ledger.branch_off(
            there, keep_approvals=self.mode == "batched" and any(task.name == "tools" for task in snapshot.tasks)
        )

    def _either(self, sync: Any, asynchronous: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
        if self.way == "sync":
            return sync
        return lambda *args, **kwargs: asyncio.run(asyncio.wait_for(asynchronous(*args, **kwargs), SECONDS))

    # What holds at all times.

    def look(self) -> None:
        """See that the thread is as it must be, and that a new message would find it in order."""
        snapshot = self.agent.get_state(self.thread)
        messages = snapshot.values.get("messages", [])
        asked = self.asked()
        self.questions.update({one.id: one.value for one in asked})
        serials = [action.serial for one in asked for action in actions_of(one.value)]
        self.ledger.look(_with_results(snapshot), serials)
        self.ledger.check()
        # A step whose tasks have all stored what they did has no next nodes, but is not over.
        if snapshot.tasks:
            self._look_ahead()
        else:
            assert history_faults(messages) == []
            assert threads.repair_report(self.agent, self.thread).findings == ()

    def _look_ahead(self) -> None:
        """On a copy of the thread, a new message gets its answer, and finds the results that are stored."""
        thread, copied = self.thread, f"copy {next(self._names)}"
        threads.copy_thread(self.saver, thread["configurable"]["thread_id"], copied)
        try:
            self.thread = {"configurable": {"thread_id": copied}}
            self.run(Say())
            messages = threads.messages(self.agent, self.thread)
            assert history_faults(messages) == []
            assert messages[-1].text == "Done."
            closed, approved = self.ledger.closed, self.ledger.approved
            self.ledger.look(messages, [])
            self.ledger.closed, self.ledger.approved = closed, approved
            self.ledger.check()
        finally:
            self.thread = thread
