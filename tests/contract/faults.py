"""What goes wrong in a run, one function a fault, and the scene on which it happens.

A `Scene` is one agent on one thread, run in one way, sync or async, with tools whose side effects are counted. A fault
acts on it; what must be left of it stands in the table of `test_fault_matrix.py`.
"""

import asyncio
import contextlib
import inspect
import signal
import threading
from collections import Counter

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.errors import GraphRecursionError
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from agentgraph import create_agent, threads
from agentgraph.errors import DeadlineError, ResumeError, RunCancelledError, ThreadBusyError
from agentgraph.middleware import HumanInTheLoopMiddleware
from agentgraph.runs import RunControl, pending_questions
from agentgraph.testing import Gate, ScriptedModel, Signal, describe
from agentgraph.tools import tool

SECONDS = 30
THREAD = {"configurable": {"thread_id": "1"}}
APPROVE = {"decisions": [{"type": "approve"}]}
REJECT = {"decisions": [{"type": "reject", "message": "Too much."}]}
EDIT = {"decisions": [{"type": "edit", "edited_action": {"name": "pay", "args": {"x": "2"}}}]}


class Scene:
    """One agent on one thread; `log` counts what its tools did."""

    def __init__(self, way, saver, replies):
        self.way = way
        self.thread = THREAD
        self.log = Counter()
        self.gate = Gate(timeout=SECONDS)
        self.model = ScriptedModel(replies=[*replies, "Here."])
        self.agent = create_agent(
            self.model,
            [*_simple_tools(way, self.log), *_meeting_tools(way, self.log, self.gate)],
            checkpointer=saver,
            on_tool_error="raise",
            middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
        )

    def run(self, given, config=None, **options):
        """Run to the end, bounded; gives the state."""
        config = {**self.thread, **(config or {})}
        if self.way == "sync":
            return self.agent.invoke(given, config, **options)
        return asyncio.run(asyncio.wait_for(self.agent.ainvoke(given, config, **options), SECONDS))

    def say(self, text, config=None, **options):
        return self.run({"messages": text}, config, **options)

    def pause(self):
        """Begin, up to a question; gives the question's id."""
        (asked,) = self.say("go")["__interrupt__"]
        return asked.id

    def held(self, then, **options):
        """Begin, do `then` as soon as a tool stands at the gate; gives what the run raised, None if it ended well."""
        if self.way == "sync":
            return self._held_in_thread(then, options)
        return asyncio.run(asyncio.wait_for(self._held_in_task(then, options), SECONDS))

    def _held_in_thread(self, then, options):
        raised = []

        def work():
            try:
                self.agent.invoke({"messages": "go"}, self.thread, **options)
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.gate.arrived.wait()
        then()
        thread.join(SECONDS)
        assert not thread.is_alive()
        return raised[0] if raised else None

    async def _held_in_task(self, then, options):
        task = asyncio.create_task(self.agent.ainvoke({"messages": "go"}, self.thread, **options))
        await self.gate.arrived.wait_async()
        done = then(task) if inspect.signature(then).parameters else then()
        if inspect.isawaitable(done):
            await done
        (raised,) = await asyncio.gather(task, return_exceptions=True)
        return raised if isinstance(raised, BaseException) else None


def _simple_tools(way, log):
    def good(x: str) -> str:
        """Works."""
        log[f"good {x}"] += 1
        return f"good {x}"

    def pay(x: str) -> str:
        """Needs an approval."""
        log[f"pay {x}"] += 1
        return f"paid {x}"

    @tool
    def ask(question: str) -> str:
        """Asks a person."""
        reply = interrupt(question)
        log[f"told {reply}"] += 1
        return f"told {reply}"

    return [_in_way(way, good), _in_way(way, pay), ask]


def _meeting_tools(way, log, gate):
    """Tools of which one raises only when its neighbour has come as far: nothing depends on which is faster."""
    came = {name: Signal(f"{name} did not come", timeout=SECONDS) for name in ("first", "1", "2")}

    def first(x: str) -> str:
        """Works, and lets its neighbour go on."""
        log[f"first {x}"] += 1
        came["first"].set()
        return f"first {x}"

    if way == "sync":

        @tool
        def raises(x: str, neighbour: str) -> str:
            """Raises."""
            log[f"raises {x}"] += 1
            came[x].set()
            came[neighbour].wait()
            raise ConnectionError(x)

    else:

        @tool
        async def raises(x: str, neighbour: str) -> str:
            """Raises."""
            log[f"raises {x}"] += 1
            came[x].set()
            await came[neighbour].wait_async()
            raise ConnectionError(x)

    return [_in_way(way, first), raises, *_held_tools(gate, came["first"], log)]


def _held_tools(gate, neighbour, log):
    @tool
    async def slow(x: str) -> str:
        """Stands at the gate; async, so it can be cancelled."""
        log[f"slow {x} began"] += 1
        await neighbour.wait_async()
        await gate.arun()
        log[f"slow {x}"] += 1
        return f"slow {x}"

    @tool
    def blocking(x: str) -> str:
        """Stands at the gate; sync, so nobody can end it."""
        neighbour.wait()
        gate.run()
        log[f"blocking {x}"] += 1
        return f"blocking {x}"

    return [slow, blocking]


def _in_way(way, function):
    """The tool of a function, sync or async as the run is."""
    if way == "sync":
        return tool(function)

    async def twin(x: str) -> str:
        return function(x)

    twin.__name__, twin.__doc__ = function.__name__, function.__doc__
    return tool(twin)


# Tools that fail.


def tool_raises(scene):
    with pytest.raises(ConnectionError):
        scene.say("go")


def nothing(scene):
    """The run ends well by itself: the fault is in what the model says."""
    scene.say("go")


# Runs that are ended.


def task_cancelled(scene):
    assert isinstance(scene.held(lambda task: task.cancel()), asyncio.CancelledError)


def task_cancelled_in_sync_code(scene):
    def then(task):
        task.cancel()
        scene.gate.open()

    assert isinstance(scene.held(then), asyncio.CancelledError)


def cancelled_now(scene):
    control = RunControl()
    assert isinstance(scene.held(lambda: control.cancel("now") and None, control=control), RunCancelledError)


def cancelled_now_in_sync_code(scene):
    control = RunControl()

    def then():
        control.cancel("now")
        scene.gate.open()

    assert isinstance(scene.held(then, control=control), RunCancelledError)


def deadline(scene):
    """The clock's own call, made at the moment when the tool is at work."""
    control = RunControl(deadline=10 * SECONDS)
    assert isinstance(scene.held(control.expire, control=control), DeadlineError)


def deadline_in_sync_code(scene):
    control = RunControl(deadline=10 * SECONDS)

    def then():
        control.expire()
        scene.gate.open()

    assert isinstance(scene.held(then, control=control), DeadlineError)


def stream_closed(scene):
    """Left by its reader, after the first tool's result and before the second one's."""
    _read_and_close(scene, lambda: None)


def stream_closed_in_sync_code(scene):
    _read_and_close(scene, scene.gate.open)


def _read_and_close(scene, then):
    # With the mode "custom" langgraph wakes up for each piece; else, in sync runs, only when the next tool has ended.
    modes = {"stream_mode": ["updates", "custom"]}

    def close():
        with contextlib.closing(scene.agent.stream({"messages": "go"}, scene.thread, **modes)) as pieces:
            assert next(piece for _, piece in pieces if "tools" in piece)
            scene.gate.arrived.wait()
            then()

    async def aclose():
        async with contextlib.aclosing(scene.agent.astream({"messages": "go"}, scene.thread, **modes)) as pieces:
            while "tools" not in (await anext(pieces))[1]:
                pass
            await scene.gate.arrived.wait_async()
            then()

    if scene.way == "sync":
        close()
    else:
        asyncio.run(asyncio.wait_for(aclose(), SECONDS))


def interrupted(scene):
    """Ctrl-C while a tool is at work that nobody can end."""

    def press():
        scene.gate.arrived.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        scene.gate.open()

    pressing = threading.Thread(target=press, daemon=True)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        scene.say("go")
    pressing.join(SECONDS)


def step_limit(steps):
    def happen(scene):
        with pytest.raises(GraphRecursionError):
            scene.say("go", {"recursion_limit": steps})

    return happen


def model_error(scene):
    with pytest.raises(TimeoutError):
        scene.say("go")


# Questions.


def pauses(scene):
    scene.pause()


def answers(answer):
    def happen(scene):
        scene.pause()
        scene.run(Command(resume=answer))

    return happen


def _refused(scene, *given):
    before = scene.agent.get_state(scene.thread)
    for one in given:
        with pytest.raises(ResumeError):
            scene.run(Command(resume=one))
    assert scene.agent.get_state(scene.thread) == before


def wrong_answer(scene):
    asked = scene.pause()
    wrong = {"decisions": [{"type": "maybe"}]}
    _refused(scene, "yes", {"decisions": []}, wrong, {asked: wrong}, {"0" * 32: APPROVE})
    scene.run(Command(resume=APPROVE))


def double_answer(scene):
    asked = scene.pause()
    scene.run(Command(resume={asked: APPROVE}))
    _refused(scene, {asked: APPROVE}, {asked: REJECT}, APPROVE)


def late_answer(scene):
    asked = scene.pause()
    scene.say("never mind")
    _refused(scene, {asked: APPROVE}, APPROVE, "yes")


# Histories that change.


def summary(happen):
    """The history is replaced by a summary, after `happen`."""

    def then(scene):
        happen(scene)
        update = {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Summary.")]}
        if scene.way == "sync":
            scene.agent.update_state(scene.thread, update)
        else:
            asyncio.run(asyncio.wait_for(scene.agent.aupdate_state(scene.thread, update), SECONDS))
        assert pending_questions(scene.agent, scene.thread) == []

    return then


def fork(scene):
    """A new thread branches off where the tools were about to run; the old one is left alone."""
    scene.say("go")
    old = describe(scene.agent.get_state(THREAD).values["messages"])
    (step,) = [one for one in threads.history(scene.agent, THREAD) if one.next == ("tools",)]
    if scene.way == "sync":
        scene.thread = threads.fork(scene.agent, step.config, thread_id="2")
    else:
        branch = threads.afork(scene.agent, step.config, thread_id="2")
        scene.thread = asyncio.run(asyncio.wait_for(branch, SECONDS))
    assert describe(scene.agent.get_state(THREAD).values["messages"]) == old


# Two runs at once.


def two_runs(scene):
    """The second is refused while the first one's tool is at work, and the first is not disturbed."""

    def refused():
        with pytest.raises(ThreadBusyError):
            scene.agent.invoke({"messages": "second"}, scene.thread)
        scene.gate.open()

    async def refused_async():
        with pytest.raises(ThreadBusyError):
            await scene.agent.ainvoke({"messages": "second"}, scene.thread)
        scene.gate.open()

    assert scene.held(refused if scene.way == "sync" else refused_async) is None
