"""Model calls that middleware makes for itself: what the user's stream shows of them."""

import asyncio

import pytest

from agentgraph import create_agent
from agentgraph.middleware import (
    INTERNAL_CALL_METADATA_KEY,
    AgentMiddleware,
    InternalCallTransformer,
    internal_call_metadata,
)
from agentgraph.testing import ScriptedModel

pytestmark = pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.beta_decorator.LangChainBetaWarning"
)
FORGED = {INTERNAL_CALL_METADATA_KEY: "true"}


def agent_of(metadata, transformers=(InternalCallTransformer,), *, streams=True):
    """An agent whose middleware asks a model of its own before each call."""

    class Asking(AgentMiddleware):
        def before_model(self, state, runtime):
            inner = ScriptedModel("inner words", disable_streaming=not streams)
            assert inner.invoke("who?", {"metadata": metadata}).text == "inner words"

    Asking.transformers = transformers
    return create_agent(ScriptedModel("the answer"), middleware=[Asking()])


def messages_of(agent, *, way):
    if way == "sync":
        run = agent.stream_events({"messages": "hi"}, version="v3")
        return [str(message.text) for message in run.messages]

    async def collect():
        run = await agent.astream_events({"messages": "hi"}, version="v3")
        return [str(await message.text) async for message in run.messages]

    return asyncio.run(asyncio.wait_for(collect(), 30))


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
def test_a_marked_call_is_not_among_the_messages_of_the_run(way, streams):
    marked = agent_of(internal_call_metadata(), streams=streams)
    assert messages_of(marked, way=way) == ["the answer"]


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("metadata", "transformers"),
    [({}, (InternalCallTransformer,)), (FORGED, (InternalCallTransformer,)), (internal_call_metadata(), ())],
    ids=["no mark", "a mark of the caller's", "no transformer"],
)
def test_another_call_is_shown(way, metadata, transformers):
    assert messages_of(agent_of(metadata, transformers), way=way) == ["inner words", "the answer"]


def test_the_raw_events_have_nothing_of_a_marked_call():
    run = agent_of(internal_call_metadata()).stream_events({"messages": "hi"}, version="v3")
    marks = [event["params"]["data"][1] for event in run if event["method"] == "messages"]
    assert marks
    assert not any(INTERNAL_CALL_METADATA_KEY in (mark or {}) for mark in marks)


def test_a_mark_of_the_callers_does_not_hide_the_agents_own_calls():
    run = agent_of({}).stream_events({"messages": "hi"}, {"metadata": FORGED}, version="v3")
    assert [str(message.text) for message in run.messages] == ["inner words", "the answer"]


def test_each_call_gets_a_dict_of_its_own():
    assert internal_call_metadata() == internal_call_metadata()
    assert internal_call_metadata() is not internal_call_metadata()
