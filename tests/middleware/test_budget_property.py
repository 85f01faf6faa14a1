"""Whatever a model sends and whatever is limited: no limit is exceeded, the history holds, and the sum is right."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgraph import create_agent
from agentgraph.middleware import Budget, BudgetMiddleware, usage_of
from agentgraph.runs import outcome
from agentgraph.testing import ScriptedModel, assert_valid_history, tool_call

TOKENS = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}

counts = st.none() | st.integers(0, 6)
turns = st.lists(st.integers(1, 4), max_size=6)


@settings(max_examples=60, deadline=None)
@given(turns=turns, model_calls=counts, tool_calls=counts, keeps=st.booleans(), shared=st.booleans())
def test_no_limit_of_calls_is_exceeded_and_everything_is_counted_once(turns, model_calls, tool_calls, keeps, shared):
    ran = []

    def work(number: int) -> str:
        """Work."""
        ran.append(number)
        return poet.invoke({"messages": "hi"})["messages"][-1].text if shared else "done"

    poet_model = ScriptedModel("Roses.", repeat_last=True, usage=TOKENS)
    poet = create_agent(poet_model, middleware=[BudgetMiddleware()], name="poet")
    script = [[tool_call("work", number=n, id=f"{turn}-{n}") for n in range(size)] for turn, size in enumerate(turns)]
    model = ScriptedModel(*script, "Done.", repeat_last=True, usage=TOKENS)
    given_limits = {"model_calls": model_calls, "tool_calls": tool_calls}
    limits = [Budget(**{key: value}) for key, value in given_limits.items() if value is not None]
    agent = create_agent(model, [work], middleware=[BudgetMiddleware(limits, reserve=100 if keeps else None)])

    result = agent.invoke({"messages": "hi"})

    spent = usage_of(result)
    asked = len(model.requests) + len(poet_model.requests)
    assert_valid_history(result["messages"])
    assert (spent.model_calls, spent.tool_calls, spent.tokens) == (asked, len(ran), 10 * asked)
    assert asked <= (asked if model_calls is None else model_calls)
    assert len(ran) <= (len(ran) if tool_calls is None else tool_calls)
    assert outcome(result).kind in ({"answer", "limit"} if limits else {"answer"})
