"""What a service mounts: approvals, summaries, personal data, two limits and retries, in the same order for all.

Nothing of it has anything to do here (no call is guarded, nothing is too long, no limit is reached), so that only what
it costs to look is measured.
"""

import importlib
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from tests.benchmarks.workloads import CountingModel, Workload

__all__ = ["ready_made", "saver_of", "tools_beside"]


def ready_made(module: str, model: CountingModel) -> list[Any]:
    """The catalogue's stack, of ours or of LangChain's, whose names and arguments are the same.

    Args:
        module: where its classes are.
        model: would write the summaries.
    """
    found = importlib.import_module(module)
    return [
        found.HumanInTheLoopMiddleware({"erase": True}),
        found.SummarizationMiddleware(model, trigger=("tokens", 100_000), keep=("messages", 20)),
        found.PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True),
        found.ModelCallLimitMiddleware(run_limit=100),
        found.ToolCallLimitMiddleware(run_limit=100),
        found.ToolRetryMiddleware(),
    ]


def erase(path: str) -> str:
    """Erase a file."""
    return path


def tools_beside(workload: Workload) -> list[BaseTool]:
    """The tool that is guarded, and never called."""
    return [StructuredTool.from_function(erase)] if workload.catalogue else []


def saver_of(workload: Workload) -> InMemorySaver | None:
    """Approvals need a checkpointer, so whoever is compared with them has one too."""
    return InMemorySaver() if workload.catalogue else None
