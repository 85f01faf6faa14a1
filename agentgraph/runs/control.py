"""Cancelling and limiting a run from outside: `RunControl`.

A control is given to one run. Another thread or task may then ask the run to end:

============== ==============================================================================================
`after_turn`   the model's answer and the tools it calls are finished; no further model call begins
`after_tools`  what runs at the moment (tools, or a model call) is finished; nothing new begins
`now`          async work is cancelled; sync tools, which nobody can kill, are awaited, and nothing new begins
============== ==============================================================================================

In each case what was finished is kept, the thread can be used on, and the run raises a RunCancelledError that says what
was done. A deadline is `now`, asked for by the clock; it raises a DeadlineError.

Cancelling the task of an async run (`task.cancel()`, `asyncio.timeout`, Ctrl-C) does what `now` does, and ends in
`asyncio.CancelledError`. Cancelling it a second time ends the waiting for a sync tool at once. The thread then stays
busy until that tool has ended, so that its result is kept and it never runs twice at the same time. Without a
checkpointer the tool goes on by itself. A sync model call, or a sync hook of the model, of an async run is not awaited;
what it gives is dropped.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, Literal, get_args

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl as DrainControl

from agentgraph.errors import ConfigurationError, DeadlineError, RunCancelledError, RunError

__all__ = ["CancelMode", "NestedControl", "RunControl", "control_of"]

CancelMode = Literal["now", "after_tools", "after_turn"]
"""How soon a cancelled run ends."""

_URGENCY: dict[CancelMode, int] = {"after_turn": 1, "after_tools": 2, "now": 3}

# Two underscores: langgraph keeps such settings out of the metadata of checkpoints.
CONTROL_KEY = "__agentgraph_control"

_MODEL, _TOOLS = "model", "tools"


class RunControl(DrainControl):
    """What one run is cancelled and limited with.

    Give it to the run as `agent.invoke(..., control=control)` (also `stream`, `ainvoke`, `astream`, `stream_events`),
    or, where only a config can be handed over, as `agent.invoke(..., control.config(config))`. It is for one run, of an
    agent that is not itself called by another; the agents that this one calls as tools end with it.

    Args:
        deadline: seconds the run may take, counted from its start and including the wait for a busy thread. None for
            no limit. Sync code cannot be killed: a sync tool beyond the deadline is awaited, and in a sync run a model
            call as well.
        on_busy: whether the run waits while another is at work on its thread ("wait", until the deadline if there is
            one) or raises a ThreadBusyError ("raise"). None: what the checkpointer's `on_busy` says, else "raise".

    Raises:
        ConfigurationError: a deadline that is not positive, or an unknown `on_busy`.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel
        >>> control = RunControl(deadline=30)
        >>> agent = create_agent(ScriptedModel("Hello."))
        >>> agent.invoke({"messages": "hi"}, control=control)["messages"][-1].text
        'Hello.'
        >>> control.cancel("after_turn")  # it has ended
        False
    """

    def __init__(self, *, deadline: float | None = None, on_busy: Literal["raise", "wait"] | None = None) -> None:
        super().__init__()
        if deadline is not None and not deadline > 0:
            raise ConfigurationError(
                f"deadline={deadline!r} was given; expected was a positive number of seconds, or None."
            )
        if on_busy not in {None, "raise", "wait"}:
            raise ConfigurationError(f'on_busy={on_busy!r} was given; expected was "raise", "wait" or None.')
        self.deadline = deadline
        self.on_busy = on_busy
        self._lock = threading.Lock()
        self._state: Literal["new", "running", "ended"] = "new"
        self._until: float | None = None
        self._mode: CancelMode | None = None
        self._reason: str | None = None
        self._expired = False
        self._interrupts: dict[int, Callable[[], object]] = {}
        self._finished: list[str] = []
        self._turn_is_done = False

    def __repr__(self) -> str:
        return f"RunControl({self._state}, cancelled={self._mode!r}, deadline={self.deadline!r})"

    def config(self, config: RunnableConfig | None = None) -> RunnableConfig:
        """A config with this control in it.

        Args:
            config: the config to add it to, which is left alone.
        """
        given: RunnableConfig = config or {}
        return {**given, "configurable": {**given.get("configurable", {}), CONTROL_KEY: self}}

    def cancel(self, mode: CancelMode = "now", *, reason: str | None = None) -> bool:
        """Ask the run to end; from any thread or task, also before the run has begun. A second call may make it sooner.

        Args:
            mode: how soon. "now" cancels async work and waits for sync tools; "after_tools" lets the running tools or
                model call finish; "after_turn" lets the answer and the tools it calls finish. Nothing new begins, and
                what was finished is kept.
            reason: why, for the error's text.

        Returns:
            Whether the run had not ended yet. It may still end by itself before it notices.
        """
        if mode not in get_args(CancelMode):
            raise ConfigurationError(f"mode={mode!r} was given; expected was one of {', '.join(get_args(CancelMode))}.")
        return self._cancel(mode, reason)

    @property
    def cancelled(self) -> CancelMode | None:
        """How it was asked to end, None if it was not."""
        return self._mode

    @property
    def drain_requested(self) -> bool:
        """Whether langgraph is to stop before the next step."""
        if super().drain_requested or self._mode in {"now", "after_tools"}:
            return True
        return self._mode == "after_turn" and self._turn_is_done

    @property
    def drain_reason(self) -> str | None:
        """Why, for langgraph."""
        return super().drain_reason if self._mode is None else self._reason or f"cancelled {self._mode}"

    @property
    def until(self) -> float | None:
        """When the deadline is, on the clock of `time.monotonic`; None for none."""
        return self._until

    def node_finished(self, name: str) -> None:
        """Note that a node of the run is done; called by langgraph."""
        self._finished.append(name)
        if name in {_MODEL, _TOOLS}:
            self._turn_is_done = name == _TOOLS

    @contextlib.contextmanager
    def run(self) -> Generator[None]:
        """Stand around the whole run.

        Raises:
            ConfigurationError: it controls, or has controlled, another run.
        """
        with self._lock:
            if self._state != "new":
                raise ConfigurationError("This RunControl was given to a run before; make a new one for each run.")
            self._state = "running"
            self._until = None if self.deadline is None else time.monotonic() + self.deadline
        try:
            yield
        finally:
            with self._lock:
                self._state = "ended"

    @contextlib.contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Generator[None]:
        """Have `interrupt` called, in any thread, when the run is to end now."""
        with self._lock:
            self._interrupts[id(interrupt)] = interrupt
            due = self._mode == "now"
        try:
            if due:
                interrupt()
            yield
        finally:
            with self._lock:
                del self._interrupts[id(interrupt)]

    @contextlib.contextmanager
    def clock(self) -> Generator[None]:
        """Watch the deadline of a sync run, from a thread."""
        if self._until is None:
            yield
            return
        timer = threading.Timer(max(0.0, self._until - time.monotonic()), self.expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextlib.asynccontextmanager
    async def step(self) -> AsyncGenerator[None]:
        """Stand around each await of an async run: it ends when the run is to end now, or at the deadline."""
        cancel = _TaskCancel()
        loop = asyncio.get_running_loop()
        timer = None if self._until is None else loop.call_later(self._until - time.monotonic(), self.expire)
        try:
            with self.interrupting(cancel):
                yield
        except asyncio.CancelledError:
            if cancel.leave():
                raise self.error() from None
            raise
        finally:
            cancel.leave()
            if timer is not None:
                timer.cancel()

    def expire(self) -> None:
        """The deadline has come."""
        with self._lock:
            if self._state == "ended" or self._mode == "now":
                return
            self._expired = True
        self._cancel("now", None)

    def check(self) -> None:
        """Raise what ends the run, if it was asked to end."""
        if self._mode is not None:
            raise self.error()

    def error(self) -> RunError:
        """What the run raises in the end."""
        finished = tuple(self._finished)
        done = f"Finished were: {', '.join(finished[-10:])}" if finished else "Nothing had been finished"
        kept = "what was finished is kept and the thread can be used on: with a new message, or with None to go on."
        if self._expired:
            return DeadlineError(f"The run did not end within its deadline of {self.deadline} s. {done}; {kept}")
        why = f" ({self._reason:.200})" if self._reason else ""
        return RunCancelledError(
            f"The run was cancelled{why}, mode {self._mode!r}. {done}; {kept}",
            mode=self._mode or "now",
            reason=self._reason,
            finished=finished,
        )

    def _cancel(self, mode: CancelMode, reason: str | None) -> bool:
        with self._lock:
            if self._state == "ended":
                return False
            if self._mode is None or _URGENCY[mode] > _URGENCY[self._mode]:
                self._mode, self._reason = mode, reason
            interrupts = list(self._interrupts.values()) if self._mode == "now" else []
        for interrupt in interrupts:
            interrupt()
        return True


def control_of(config: Mapping[str, Any], given: Any) -> RunControl | None:
    """The control of a run: the one that was given with the call, or in its config; None if there is none of ours."""
    control = given if given is not None else config.get("configurable", {}).get(CONTROL_KEY)
    return control if isinstance(control, RunControl) else None


class NestedControl(DrainControl):
    """The control of an agent that runs inside another: only "now" ends it, every other mode lets it finish."""

    def __init__(self, outer: RunControl) -> None:
        super().__init__()
        self._outer = outer

    @property
    def drain_requested(self) -> bool:
        """Whether langgraph is to stop before the next step."""
        return self._outer.cancelled == "now"

    @property
    def drain_reason(self) -> str | None:
        """Why, for langgraph."""
        return self._outer.drain_reason


class _TaskCancel:
    """Cancels one task from any thread while it is inside a step, and tells this cancelling from every other."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._before = self._task.cancelling() if self._task else 0
        self._asked = False
        self._left = False

    def __call__(self) -> None:
        # A closed loop has no step left.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self._left and not self._asked:
            self._asked = True
            self._task.cancel()

    def leave(self) -> bool:
        """End the step, once; whether the task was cancelled by this object alone."""
        asked, self._asked, self._left = self._asked, False, True
        return asked and self._task is not None and self._task.uncancel() <= self._before
