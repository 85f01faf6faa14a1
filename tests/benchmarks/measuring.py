"""How it is measured: CPU time of the whole process, interleaved, without the garbage collector, as medians."""

import asyncio
import gc
import itertools
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from tests.benchmarks.rivals import Rival
from tests.benchmarks.workloads import Workload

__all__ = ["Samples", "import_costs", "interleaved", "run_costs", "summary"]

ROOT = Path(__file__).parents[2]

Samples = dict[str, list[float]]
"""CPU milliseconds of each repetition, for each rival."""


def run_costs(
    workload: Workload, rivals: Sequence[Rival], *, repetitions: int, runs: int
) -> tuple[Samples, dict[str, str]]:
    """Measure all rivals on a workload.

    The rivals take turns, and each turn begins with another one, so that a busy moment of the machine hits all alike.

    Args:
        workload: what to run.
        rivals: who runs it.
        repetitions: samples for each rival.
        runs: runs in a sample; a sample is their mean.

    Returns:
        The samples, and for each rival that could not take part the reason.
    """
    absent: dict[str, str] = {}
    with asyncio.Runner() as loop:
        runners: dict[str, Callable[[], Any]] = {}
        for rival in rivals:
            try:
                runner = _runner(rival.build(workload), workload, loop)
                if runner is not None:
                    runner()
                    runners[rival.name] = runner
            except Exception as error:
                absent[rival.name] = f"{type(error).__name__}: {error}"
        return interleaved(runners, repetitions, runs), absent


def _runner(graph: Any, workload: Workload, loop: asyncio.Runner) -> Callable[[], Any] | None:
    """One run of a graph, checked once."""
    if graph is None:
        return None
    number = itertools.count()

    def config() -> Any:
        # With a checkpointer each run has a thread of its own.
        return {"recursion_limit": 1000, "configurable": {"thread_id": str(next(number))}}

    def run() -> Any:
        return graph.invoke({"messages": [HumanMessage("go")]}, config())

    async def arun() -> Any:
        return await graph.ainvoke({"messages": [HumanMessage("go")]}, config())

    def run_async() -> Any:
        return loop.run(arun())

    runner = run_async if workload.asynchronous else run
    messages = runner()["messages"]
    if len(messages) != workload.messages or messages[-1].content != "done":
        raise AssertionError(f"{len(messages)} messages instead of {workload.messages}: {messages[-1]!r:.200}")
    return runner


def interleaved(runners: Mapping[str, Callable[[], Any]], repetitions: int, runs: int) -> Samples:
    """Let all take turns; each turn begins with another one.

    Args:
        runners: one run of each.
        repetitions: samples for each.
        runs: runs in a sample; a sample is their mean.
    """
    samples: Samples = {name: [] for name in runners}
    names = list(runners)
    for repetition in range(repetitions):
        first = repetition % len(names) if names else 0
        for name in names[first:] + names[:first]:
            samples[name].append(_sample(runners[name], runs))
    return samples


def _sample(runner: Callable[[], Any], runs: int) -> float:
    with _no_collector():
        start = time.process_time()
        for _ in range(runs):
            runner()
        return (time.process_time() - start) / runs * 1000


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


FIRST_AGENT = (
    "from langchain_core.language_models.fake_chat_models import FakeListChatModel as Model; "
    "create_agent(Model(responses=['x'])).invoke({'messages': [('user', 'hi')]})"
)
IMPORTS = {
    "python alone": "pass",
    "import agentgraph": "import agentgraph",
    "agentgraph: create_agent": "from agentgraph import create_agent",
    "langchain: create_agent": "from langchain.agents import create_agent",
    # A lazy import only moves its cost; this is what the first answer costs.
    "agentgraph: first run": f"from agentgraph import create_agent; {FIRST_AGENT}",
    "langchain: first run": f"from langchain.agents import create_agent; {FIRST_AGENT}",
}


def import_costs(*, repetitions: int) -> tuple[Samples, dict[str, str]]:
    """Measure imports: CPU time of fresh processes, interleaved.

    Args:
        repetitions: processes for each statement.

    Returns:
        The samples, and for each statement that failed its error.
    """
    samples: Samples = {name: [] for name in IMPORTS}
    absent: dict[str, str] = {}
    for repetition in range(repetitions + 1):
        for name, statement in IMPORTS.items():
            cost, error = _process(statement)
            if error:
                absent[name] = error
            elif repetition:  # the first one fills the caches of files and bytecode
                samples[name].append(cost)
    return {name: values for name, values in samples.items() if name not in absent}, absent


def _process(statement: str) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(  # noqa: S603 (our own interpreter)
        [sys.executable, "-P", "-c", statement],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = done.stderr.strip().splitlines() or ["failed"]
    return cpu * 1000, lines[-1] if done.returncode else ""


def summary(samples: Samples) -> dict[str, dict[str, float]]:
    """Medians and quartiles of samples, in milliseconds."""
    return {name: _quartiles(values) for name, values in samples.items()}


def _quartiles(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"median_ms": round(middle, 3), "low_ms": round(low, 3), "high_ms": round(high, 3), "samples": len(values)}
