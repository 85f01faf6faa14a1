"""A guarded name that no tool has is spoken of when the agent is built."""

import warnings
from typing import Any

import pytest
from langchain.agents import middleware as lc
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph import AgentMiddleware, create_agent
from agentgraph.guards import unknown_guarded
from agentgraph.middleware import ApprovalPolicyMiddleware, ApprovalRule, HumanInTheLoopMiddleware
from agentgraph.testing import ScriptedModel


def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


class Wrapping(AgentMiddleware):
    """May run any tool."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


@pytest.mark.parametrize("guard", [HumanInTheLoopMiddleware, lc.HumanInTheLoopMiddleware])
def test_a_misspelt_name_is_warned_of_with_the_nearest_one(guard: Any) -> None:
    expected = (
        r"^Approvals are asked for the tool 'pey', which this agent does not have \(did you mean 'pay'\?\)\. "
        r"It does not hold for tools of other names; there are: pay\.$"
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        create_agent(ScriptedModel("Hi."), [pay], middleware=[guard({"pey": True})])
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (ApprovalRule("deny", tools="pey"), "A rule denies the tool 'pey'"),
        (ApprovalRule("ask", tools=["pay", "pey"]), "Approvals are asked for the tool 'pey'"),
    ],
)
def test_a_misspelt_name_of_a_rule_is_warned_of(rule: Any, said: str) -> None:
    policy = ApprovalPolicyMiddleware([rule], default="allow", interrupt_mode="per_call")
    with pytest.warns(UserWarning, match=rf"^{said}, which this agent does not have \(did you mean 'pay'\?\)\. "):
        create_agent(ScriptedModel("Hi."), [pay], middleware=[policy], checkpointer=InMemorySaver())


def test_patterns_and_what_is_allowed_are_not_spoken_of() -> None:
    rules = [ApprovalRule("deny", tools="pey*"), ApprovalRule("allow", tools="pey"), ApprovalRule("deny")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_agent(ScriptedModel("Hi."), [pay], middleware=[ApprovalPolicyMiddleware(rules, default="allow")])


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_right_names_are_not_spoken_of(mode: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
        create_agent(ScriptedModel("Hi."), [pay], middleware=[guard])


@pytest.mark.parametrize(
    ("guarded", "open_ended", "spoken_of"),
    [
        ({"transfer": True}, False, ["transfer"]),
        ({"transfer": True}, True, []),
        ({"pey": True, "transfer": True}, True, ["pey"]),
        ({"pay": True}, False, []),
        (None, False, []),
    ],
)
def test_where_other_tools_may_come_only_likely_slips_are_spoken_of(
    guarded: Any, open_ended: bool, spoken_of: list[str]
) -> None:
    texts = unknown_guarded(guarded, ["pay"], open_ended=open_ended)
    assert [text.split("'")[1] for text in texts] == spoken_of


def test_a_middleware_around_tool_calls_may_bring_the_tool() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard = HumanInTheLoopMiddleware({"transfer": True})
        create_agent(ScriptedModel("Hi."), [pay], middleware=[guard, Wrapping()])
