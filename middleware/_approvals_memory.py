"""What the approvals around a tool know of each other while one call runs."""

from dataclasses import dataclass, field

from langgraph.prebuilt.tool_node import ToolCallRequest

from ._approvals_formats import Decision
from ._approvals_policy import Put

__all__ = ["Memory", "memory_of"]


@dataclass
class Memory:
    """The decisions of this run of a call: a retry further out is not asked about again.

    Attributes:
        decisions: by the mark of the policy and the digest of the call.
        used: digests of the calls whose answers were taken, once each.
        foreign: answers by digest that were taken by an approval that does not guard the call.
        edited: what became of calls, by the digest of what runs.
    """

    decisions: dict[str, Decision | None] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    foreign: dict[str, Decision] = field(default_factory=dict)
    edited: dict[str, Put] = field(default_factory=dict)


def memory_of(request: ToolCallRequest) -> Memory:
    """The memory of all approvals, on the call's runtime: made anew for every run, the same for all tries of one."""
    if request.runtime is None:
        return Memory()
    memory: Memory = vars(request.runtime).setdefault("_hitl_decisions", Memory())
    return memory
