"""An edited call is checked against the agent's own tools, before the answer that edits it is stored.

A batched question shows what is asked about, and no schemas: what a person changes would else be found wrong only when
the tool runs, with the question spent.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Interrupt

from agentgraph.approvals import mismatches, refused
from agentgraph.composing import has_hook
from agentgraph.hooks import HOOKS
from agentgraph.nodes.tools import ToolsNode
from agentgraph.plan import TOOLS_NODE

__all__ = ["check_edits"]


def check_edits(graph: Any, question: Interrupt[Any], answer: Any) -> None:
    """Refuse edits that name no tool of the agent, or do not fit its arguments.

    Args:
        graph: the agent that asked.
        question: the open question; of others than batched approvals nothing is checked.
        answer: to it, of the right shape.

    Raises:
        ResumeError: an edit does not fit.
    """
    node = getattr(graph.nodes.get(TOOLS_NODE), "bound", None)
    requests = question.value.get("action_requests") if isinstance(question.value, Mapping) else None
    if not isinstance(node, ToolsNode) or not isinstance(requests, list):
        return
    configs = {one.get("action_name"): one for one in question.value["review_configs"] if isinstance(one, Mapping)}
    decisions = answer["decisions"]
    for place, (decision, request) in enumerate(zip(decisions, requests, strict=True)):
        action = decision.get("edited_action")
        if action is None or (
            action["name"] == request.get("name") and "args_schema" in configs.get(action["name"], {})
        ):
            continue
        if problem := _problem(node, action, request.get("name")):
            raise refused(question, answer, f"decision {place + 1} of {len(decisions)}: {problem}")


def _problem(node: ToolsNode, action: Mapping[str, Any], asked_about: Any) -> str | None:
    name = action["name"]
    prepared = node.tools.get(name)
    if prepared is not None:
        # As the model is shown it: without what is injected.
        schema = convert_to_openai_tool(prepared.tool)["function"]["parameters"]
        problems = mismatches(schema, action["args"])
        return f"its edited arguments do not fit the tool {name!r}: {problems}" if problems else None
    near = difflib.get_close_matches(name, node.tools, n=1)
    if name == asked_about or (_is_open_ended(node) and not near):
        return None
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(node.tools)}"
    return f"it names the tool {name!r:.200}, which this agent does not have ({hint})"


def _is_open_ended(node: ToolsNode) -> bool:
    """Whether other middleware than those that ask may run tools that nobody registered."""
    asks = [one for one in node.middleware if not getattr(one, "interrupt_on", None)]
    return any(has_hook(one, HOOKS["wrap_tool_call"]) for one in asks)
