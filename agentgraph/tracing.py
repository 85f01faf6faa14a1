"""What tracers record of the nodes of middleware."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from langgraph.types import TracePolicy

__all__ = ["configure_trace_policy", "hook_policy"]

_default: list[TracePolicy] = []


def configure_trace_policy(policy: TracePolicy | None) -> None:
    """Set what tracers record of middleware nodes in this process, where a middleware has no `trace_policy` itself.

    Call it once at start-up; agents that exist already follow it too.

    Args:
        policy: langgraph's TracePolicy, such as `TracePolicy(process_inputs=omit_payload)`; None records everything.
    """
    _default[:] = [] if policy is None else [policy]


def hook_policy(*middleware: Any) -> TracePolicy:
    """The policy of a node of hooks: that of each middleware in it, one after the other.

    A middleware without one of its own follows the process's, looked up when something is recorded.
    """
    own = [getattr(one, "trace_policy", None) for one in middleware]
    return TracePolicy(
        process_inputs=_recording(own, "process_inputs"), process_outputs=_recording(own, "process_outputs")
    )


def _recording(
    own: Sequence[TracePolicy | None], side: Literal["process_inputs", "process_outputs"]
) -> Callable[[Any], Any]:
    def record(payload: Any) -> Any:
        policies = [one or (_default[0] if _default else None) for one in own]
        for policy in {id(one): one for one in policies}.values():
            process = getattr(policy, side, None)
            payload = process(payload) if process else payload
        return payload

    return record
