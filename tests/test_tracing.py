"""What tracers record of the nodes of middleware."""

import pytest
from langchain_core.tracers.base import BaseTracer

from agentgraph import AgentMiddleware, create_agent
from agentgraph.middleware import TracePolicy, configure_trace_policy, hook_config, omit_payload
from agentgraph.testing import ScriptedModel
from agentgraph.tracing import hook_policy


@pytest.fixture(autouse=True)
def _no_policy_of_the_process():
    yield
    configure_trace_policy(None)


def policy(word):
    return TracePolicy(process_inputs=lambda payload: f"{payload} {word}", process_outputs=lambda payload: word)


class Traced(AgentMiddleware):
    def __init__(self, own=None):
        if own is not None:
            self.trace_policy = own


def test_without_any_policy_everything_is_recorded():
    recorded = hook_policy(Traced())
    assert (recorded.process_inputs("in"), recorded.process_outputs("out")) == ("in", "out")


def test_a_middlewares_own_policy_goes_before_that_of_the_process():
    own, follows = hook_policy(Traced(policy("own"))), hook_policy(Traced())
    configure_trace_policy(policy("process"))
    assert own.process_inputs("in") == "in own"
    assert (follows.process_inputs("in"), follows.process_outputs("out")) == ("in process", "process")


def test_the_policy_of_the_process_is_looked_up_when_something_is_recorded():
    follows = hook_policy(Traced())
    configure_trace_policy(policy("later"))
    assert follows.process_inputs("in") == "in later"
    configure_trace_policy(None)
    assert follows.process_inputs("in") == "in"


def test_a_policy_for_one_side_leaves_the_other_alone():
    recorded = hook_policy(Traced(TracePolicy(process_outputs=lambda payload: "short")))
    assert (recorded.process_inputs("in"), recorded.process_outputs("out")) == ("in", "short")


def test_hooks_that_share_a_node_share_their_policies_each_once():
    one, other = policy("one"), policy("other")
    assert hook_policy(Traced(one), Traced(), Traced(other), Traced(one)).process_inputs("in") == "in one other"


class Recorder(BaseTracer):
    """A tracer that keeps what it was told of each node."""

    def __init__(self):
        super().__init__()
        self.nodes = {}

    def _persist_run(self, run):
        self.nodes = {child.name: (child.inputs, child.outputs) for child in run.child_runs}


class Note(AgentMiddleware):
    trace_policy = TracePolicy(process_inputs=lambda payload: {"messages": len(payload["messages"])})

    def before_model(self, state, runtime):
        return {"messages": []}


class Open(AgentMiddleware):
    @hook_config(inline=True)
    def before_agent(self, state, runtime):
        """Nothing."""


class Closed(Open):
    trace_policy = TracePolicy(process_inputs=omit_payload)


def test_a_tracer_records_what_the_policy_leaves():
    recorder = Recorder()
    agent = create_agent(ScriptedModel("Hello."), middleware=[Note(), Open(), Closed()])
    agent.invoke({"messages": "secret"}, {"callbacks": [recorder]})
    assert recorder.nodes["Note.before_model"][0] == {"messages": 1}
    assert "secret" not in str(recorder.nodes["Open+Closed.before_agent"][0])
    assert "secret" in str(recorder.nodes["model"])
