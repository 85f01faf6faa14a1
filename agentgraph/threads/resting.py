"""Writing to the messages of a thread that is at rest, so that it is at rest afterwards as well."""

from collections.abc import Iterable
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import END
from langgraph.types import Send, StateUpdate

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps
from agentgraph.threads.access import Agent, AgentOrSaver, either, graph_of, in_thread, is_reader

__all__ = ["knowing_agent", "nodes_led_to", "unfinished", "write_messages"]

BRANCH = "branch:to:"
"""How the name of the channel begins by which langgraph's edges lead to a node."""


def knowing_agent(target: AgentOrSaver, what: str) -> Agent:
    """The agent, where a saver alone is not enough.

    Raises:
        ConfigurationError: a saver was given, or an agent without one.
    """
    graph = graph_of(target)
    if is_reader(graph):
        raise ConfigurationError(
            f"{what} was asked of a checkpointer, which does not know the thread's nodes. Give the agent instead."
        )
    return graph


def unfinished(thread_id: str, nodes: Iterable[str], advice: str) -> ConfigurationError:
    """The error for a thread on which the step of some nodes is not over."""
    names = ", ".join(dict.fromkeys(nodes))
    return ConfigurationError(
        f"The thread {thread_id!r:.200} is not at rest: the step of {names} is not over. {advice}"
    )


def nodes_led_to(saved: CheckpointTuple | None) -> tuple[str, ...]:
    """The nodes that are to run after a checkpoint, read from itself, for those who do not know the agent."""
    values = {} if saved is None else saved.checkpoint["channel_values"]
    sent = [one.node for one in values.get(TASKS) or () if isinstance(one, Send)]
    return (*sent, *(channel.removeprefix(BRANCH) for channel in values if channel.startswith(BRANCH)))


def write_messages(graph: Agent, thread_id: str, update: Any) -> Steps:
    """Update the messages of a thread at rest."""
    node = "model" if "model" in graph.nodes else None
    # Written as a node's, so the edges after it say what comes next; then that is called off.
    steps = [[StateUpdate({"messages": update}, node)], [StateUpdate(None, END)]]
    yield either(graph.bulk_update_state, graph.abulk_update_state, in_thread(thread_id), steps)
