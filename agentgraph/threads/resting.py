"""Writing to the messages of a thread that is at rest, so that it is at rest afterwards as well."""

from typing import Any

from langgraph.graph import END
from langgraph.types import StateUpdate

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.effects import Steps
from agentgraph.threads.access import Agent, AgentOrSaver, either, graph_of, in_thread, is_reader

__all__ = ["knowing_agent", "unfinished", "write_messages"]


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


def unfinished(thread_id: str, following: tuple[str, ...], advice: str) -> ConfigurationError:
    """The error for a thread on which something is to run next."""
    return ConfigurationError(
        f"The thread {thread_id!r:.200} is not at rest: {', '.join(following)} is to run next. {advice}"
    )


def write_messages(graph: Agent, thread_id: str, update: Any) -> Steps:
    """Update the messages of a thread at rest."""
    node = "model" if "model" in graph.nodes else None
    # Written as a node's, so the edges after it say what comes next; then that is called off.
    steps = [[StateUpdate({"messages": update}, node)], [StateUpdate(None, END)]]
    yield either(graph.bulk_update_state, graph.abulk_update_state, in_thread(thread_id), steps)
