"""Direct nodes: the same run, without a callback run for each node, while nobody listens."""

import asyncio
import contextvars
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, CallbackManager
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.types import Command, interrupt

from agentgraph import AgentMiddleware, create_agent
from agentgraph.nodes.direct import is_observed
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool

HI = {"messages": "hi"}
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="unset")


class Handler(BaseCallbackHandler):
    """Notes which runs it is told of, and with which names and metadata."""

    def __init__(self) -> None:
        self.chains: list[Any] = []
        self.models: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.chains.append(kwargs.get("name"))

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        metadata = kwargs["metadata"]
        self.models.append((kwargs.get("name"), metadata["langgraph_node"], metadata["langgraph_step"]))


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


class Watching(AgentMiddleware):
    """Notes what a hook sees of its surroundings, and soils its context."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def before_model(self, state: Any, runtime: Any) -> None:
        config = get_config()
        metadata = config["metadata"]
        self.seen.append((metadata["langgraph_node"], "run_name" in config, MARK.get(), bool(runtime.stream_writer)))
        MARK.set("soiled")


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> str:
    """Which of the two kinds of runs."""
    return str(request.param)


def play(agent: Any, way: str, given: Any = HI, config: Any = None) -> Any:
    if way == "sync":
        return agent.invoke(given, config)
    return asyncio.run(asyncio.wait_for(agent.ainvoke(given, config), 30))


def replies() -> list[Any]:
    return [tool_call("weather", city="Rome", id="r"), "Done."]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The names of all callback runs of chains that langchain-core opens."""
    names: list[Any] = []
    for cls in (CallbackManager, AsyncCallbackManager):
        original = cls.on_chain_start

        def counted(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            names.append(kwargs.get("name"))
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(cls, "on_chain_start", counted)
    return names


def test_a_run_without_listeners_opens_one_callback_run_for_the_whole_graph(way: str, opened: list[Any]) -> None:
    play(create_agent(ScriptedModel(*replies()), [weather], middleware=[Watching()], name="shop"), way)
    assert opened == ["shop"]


def test_a_listener_is_told_of_each_node(way: str) -> None:
    handler = Handler()
    agent = create_agent(ScriptedModel(*replies()), [weather], middleware=[Watching()], name="shop")
    play(agent, way, config={"callbacks": [handler]})
    loop = ["Watching.before_model", "model"]
    assert [name for name in handler.chains if name != "exit rules"] == ["shop", *loop, "tools", *loop]


def test_listened_to_or_not_a_hook_sees_the_same_surroundings(way: str) -> None:
    seen = []
    for callbacks in ([], [Handler()]):
        watching = Watching()
        play(
            create_agent(ScriptedModel(*replies()), [weather], middleware=[watching]),
            way,
            config={"callbacks": callbacks},
        )
        seen.append(watching.seen)
    assert seen[0] == seen[1] == [("Watching.before_model", False, "unset", True)] * 2


def test_what_a_hook_sets_in_its_context_stays_in_its_node(way: str) -> None:
    async def outside() -> str:
        await create_agent(ScriptedModel("Done."), middleware=[Watching()]).ainvoke(HI)
        return MARK.get()

    if way == "sync":
        play(create_agent(ScriptedModel("Done."), middleware=[Watching()]), way)
        assert MARK.get() == "unset"
    else:
        assert asyncio.run(asyncio.wait_for(outside(), 30)) == "unset"


def test_a_handler_of_the_model_itself_learns_the_node_and_the_step(way: str) -> None:
    handler = Handler()
    model = ScriptedModel(*replies())
    model.callbacks = [handler]
    play(create_agent(model, [weather]), way)
    assert handler.models == [(None, "model", 1), (None, "model", 3)]


def test_a_hook_without_listeners_pauses_and_goes_on(way: str) -> None:
    class Asking(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [("user", f"The answer is {interrupt('which?')}.")]}

    agent = create_agent(ScriptedModel("Done."), middleware=[Asking()], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    paused = play(agent, way, config=thread)
    assert [one.value for one in paused["__interrupt__"]] == ["which?"]
    answered = play(agent, way, Command(resume="42"), thread)
    assert [message.text for message in answered["messages"]] == ["hi", "The answer is 42.", "Done."]


def test_an_error_in_a_hook_without_listeners_reaches_the_caller(way: str) -> None:
    class Failing(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        play(create_agent(ScriptedModel("Done."), middleware=[Failing()]), way)


@pytest.mark.parametrize("mode", ["messages", ["updates", "messages"]])
def test_a_stream_of_messages_is_a_listener(way: str, mode: Any, opened: list[Any]) -> None:
    agent = create_agent(ScriptedModel("Done."), name="shop")

    async def streamed() -> list[Any]:
        return [piece async for piece in agent.astream(HI, stream_mode=mode)]

    pieces = list(agent.stream(HI, stream_mode=mode)) if way == "sync" else asyncio.run(streamed())
    assert pieces
    assert "model" in opened


def test_events_name_each_node() -> None:
    agent = create_agent(ScriptedModel(*replies()), [weather], middleware=[Watching()], name="shop")

    async def names() -> list[str]:
        events = [event async for event in agent.astream_events(HI, version="v2")]
        return [event["name"] for event in events if event["event"] == "on_chain_start"]

    told = asyncio.run(asyncio.wait_for(names(), 30))
    assert {"shop", "Watching.before_model", "model", "tools"} <= set(told)


@pytest.mark.parametrize(
    ("config", "observed"),
    [
        ({}, True),
        ({"callbacks": [Handler()]}, True),
        ({"callbacks": CallbackManager([])}, False),
        ({"callbacks": CallbackManager([Handler()])}, True),
        ({"callbacks": CallbackManager([], inheritable_handlers=[Handler()])}, True),
        ({"callbacks": AsyncCallbackManager([])}, False),
    ],
)
def test_only_a_manager_without_any_handler_means_that_nobody_listens(config: Any, observed: bool) -> None:
    assert is_observed(config) is observed
