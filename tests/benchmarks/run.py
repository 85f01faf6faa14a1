"""What agents cost, in CPU time: agentgraph, LangChain, and a graph written by hand, on the same fake model.

    python -P tests/benchmarks/run.py [--quick] [--repetitions N] [--no-imports] [--no-streams] [--json FILE]

CPU time of the whole process with all its threads, so that other work on the machine disturbs little; the rivals take
turns in one process. The table shows medians and, in brackets, their ratio to the graph written by hand (which has no
middleware, also where the others have some). Streamed answers of servers are measured as in `streaming`. Nothing here
fails because something is slow: it measures.
"""

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks import streaming
from tests.benchmarks.measuring import import_costs, run_costs, summary
from tests.benchmarks.rivals import BASE, RIVALS
from tests.benchmarks.workloads import WORKLOADS

__all__ = ["main", "measure", "table"]


def measure(*, repetitions: int, runs: int, imports: bool, streams: bool) -> dict[str, Any]:
    """Measure everything.

    Args:
        repetitions: samples for each rival and workload.
        runs: runs in a sample.
        imports: whether to measure imports as well.
        streams: whether to measure streamed answers as well.

    Returns:
        `about` (versions, settings), `runs` (workload -> rival -> medians), `imports` (statement -> medians), `streams`
        (as `streaming.measure` gives them), `absent` (who could not take part, and why).
    """
    absent: dict[str, str] = {}
    costs: dict[str, Any] = {}
    for workload in WORKLOADS:
        samples, missing = run_costs(workload, RIVALS, repetitions=repetitions, runs=runs)
        costs[workload.name] = summary(samples)
        absent |= missing
    imported: dict[str, Any] = {}
    if imports:
        samples, missing = import_costs(repetitions=max(1, repetitions // 3))
        imported = summary(samples)
        absent |= missing
    streamed = streaming.measure(repetitions=max(1, repetitions // 2), chunks=500) if streams else {}
    absent |= streamed.get("absent", {})
    return {
        "about": _about(repetitions, runs),
        "runs": costs,
        "imports": imported,
        "streams": streamed.get("streams", {}),
        "absent": absent,
    }


def _about(repetitions: int, runs: int) -> dict[str, Any]:
    versions = {name: importlib.metadata.version(name) for name in ("langgraph", "langchain-core", "langchain")}
    return {"python": platform.python_version(), **versions, "repetitions": repetitions, "runs": runs}


def table(report: Mapping[str, Any]) -> str:
    """The report as text."""
    return "\n".join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    names = [rival.name for rival in RIVALS]
    yield "CPU ms a run, median" + " " * 14 + "".join(f"{name:>26}" for name in names)
    for workload, costs in report["runs"].items():
        base = costs.get(BASE, {}).get("median_ms")
        yield f"{workload:<34}" + "".join(f"{_cell(costs.get(name), base):>26}" for name in names)
    if report["imports"]:
        yield ""
        yield "CPU ms of a fresh process, median"
        for statement, cost in report["imports"].items():
            yield f"{statement:<34}{cost['median_ms']:>26.0f}"
    if report["streams"]:
        yield ""
        yield streaming.table({**report, "absent": {}})
    for name, reason in report["absent"].items():
        yield f"absent: {name}: {reason}"


def _cell(cost: Mapping[str, float] | None, base: float | None) -> str:
    if cost is None:
        return "-"
    ratio = f" ({cost['median_ms'] / base:.2f})" if base else ""
    return f"{cost['median_ms']:.2f}{ratio}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description="CPU time of agents, compared")
    parser.add_argument("--json", type=Path, help="file for all medians and quartiles")
    parser.add_argument("--quick", action="store_true", help="few repetitions: a look, no measurement")
    parser.add_argument("--repetitions", type=int, help="samples for each rival and workload (31, quick 5)")
    parser.add_argument("--no-imports", action="store_true", help="leave the imports out")
    parser.add_argument("--no-streams", action="store_true", help="leave the streamed answers out")
    given = parser.parse_args(arguments)
    repetitions = given.repetitions or (5 if given.quick else 31)
    report = measure(
        repetitions=repetitions,
        runs=1 if given.quick else 3,
        imports=not given.no_imports,
        streams=not given.no_streams,
    )
    sys.stdout.write(table(report) + "\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
