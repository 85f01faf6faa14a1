"""Tools for testing agents: models that play a script, histories as strict as a provider, faults on demand.

A test in full::

    call = tool_call("weather", city="Rome")
    model = ScriptedModel(call, "It is sunny.")  # what the model says, turn by turn
    agent = create_agent(model, [weather])

    result = agent.invoke({"messages": [HumanMessage("How is Rome?")]})

    assert_messages(
        result["messages"],
        [HumanMessage("How is Rome?"), ai(call), answer(call, "sunny"), AIMessage("It is sunny.")],
    )

Nothing here needs pytest; the fixtures for it are in `agentgraph.testing.pytest_plugin`.
"""

from agentgraph.testing.calls import ai, answer, invalid_call, tool_call
from agentgraph.testing.comparing import assert_messages, describe
from agentgraph.testing.faults import flaky
from agentgraph.testing.gate import Gate, Signal
from agentgraph.testing.histories import assert_valid_history, history_faults
from agentgraph.testing.models import FunctionModel, ScriptedModel, ScriptExhausted
from agentgraph.testing.network import NetworkRefused, no_network
from agentgraph.testing.provider import ProviderRejected, settings_faults
from agentgraph.testing.record import Request
from agentgraph.testing.replies import Reply, cut

__all__ = [
    "FunctionModel",
    "Gate",
    "NetworkRefused",
    "ProviderRejected",
    "Reply",
    "Request",
    "ScriptExhausted",
    "ScriptedModel",
    "Signal",
    "ai",
    "answer",
    "assert_messages",
    "assert_valid_history",
    "cut",
    "describe",
    "flaky",
    "history_faults",
    "invalid_call",
    "no_network",
    "settings_faults",
    "tool_call",
]
