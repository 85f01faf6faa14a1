"""Emulated tools: which calls a model answers, what it is shown, and that the tool does not run."""

from dataclasses import dataclass

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from agentgraph import ToolRuntime, create_agent
from agentgraph.errors import ConfigurationError, ServerError
from agentgraph.middleware import LLMToolEmulator, wrap_tool_call
from agentgraph.testing import FunctionModel, ScriptedModel, ai, answer, assert_messages, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import WAYS

RAN = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


BETA = pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.beta_decorator.LangChainBetaWarning"
)


def weather(city: str) -> str:
    """Get the weather."""
    RAN.append(city)
    return f"sunny in {city}"


@tool
def mail(to: str) -> str:
    """Send a mail."""
    RAN.append(to)
    return "sent"


BOTH = [tool_call("weather", city="Zürich"), tool_call("mail", to="ann")]


@WAYS
@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (None, ["made up", "made up"]),
        (["weather"], ["made up", "sent"]),
        ([weather], ["made up", "sent"]),
        ([mail], ["sunny in Zürich", "made up"]),
        ((weather, "mail"), ["made up", "made up"]),
        ({"mail"}, ["sunny in Zürich", "made up"]),
        ([], ["sunny in Zürich", "sent"]),
    ],
    ids=["all", "name", "function", "tool", "mixed", "set", "none"],
)
def test_the_chosen_tools_are_emulated_and_the_others_run(run, which, expected):
    emulator = LLMToolEmulator(tools=which, model=ScriptedModel("made up", repeat_last=True))
    agent = create_agent(ScriptedModel(BOTH, "Done."), [weather, mail], middleware=[emulator])

    result = run(agent, {"messages": "hi"})

    told = [answer(call, text) for call, text in zip(BOTH, expected, strict=True)]
    assert_messages(result["messages"], [HumanMessage("hi"), ai(*BOTH), *told, AIMessage("Done.")])
    real = {"sunny in Zürich": "Zürich", "sent": "ann"}
    assert sorted(RAN) == sorted(real[text] for text in expected if text in real)


@WAYS
def test_the_emulating_model_sees_the_tool_and_what_the_model_wrote_but_nothing_injected(run):
    @dataclass
    class User:
        key: str

    @tool
    def secret(query: str, runtime: ToolRuntime[User]) -> str:
        """Look it up."""
        raise AssertionError("it ran")

    pretender = ScriptedModel("found")
    emulator = LLMToolEmulator(model=pretender, system_prompt="Pretend.")
    model = ScriptedModel(tool_call("secret", query="äpfel"), "Done.")
    agent = create_agent(model, [secret], middleware=[emulator], context_schema=User)
    result = run(agent, {"messages": "hi"}, context=User("hidden"))
    shown = 'Tool: secret\nDescription: Look it up.\nArguments: {"query": "äpfel"}'
    assert_messages(pretender.requests[0].messages, [SystemMessage("Pretend."), HumanMessage(shown)])
    assert result["messages"][-2].text == "found"


@WAYS
def test_only_the_text_of_an_answer_in_blocks_becomes_the_result(run):
    blocks = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "22 degrees"}]
    emulator = LLMToolEmulator(model=ScriptedModel(AIMessage(blocks)))
    model = ScriptedModel(tool_call("weather", city="Rome"), "Done.")
    result = run(create_agent(model, [weather], middleware=[emulator]), {"messages": "hi"})
    assert result["messages"][-2].content == "22 degrees"


@WAYS
def test_an_error_of_the_emulating_model_is_raised_since_the_tool_is_not_to_blame(run):
    emulator = LLMToolEmulator(model=ScriptedModel(ServerError("down")))
    agent = create_agent(ScriptedModel(tool_call("weather", city="Rome")), [weather], middleware=[emulator])
    with pytest.raises(ServerError, match="down"):
        run(agent, {"messages": "hi"})
    assert RAN == []


@WAYS
def test_a_call_of_a_tool_that_nobody_has_is_not_emulated_unless_it_is_named(run):
    call = tool_call("radar", city="Rome")
    for which, status in ((None, "error"), (["radar"], "success")):
        emulator = LLMToolEmulator(tools=which, model=ScriptedModel("made up"))
        agent = create_agent(ScriptedModel(call, "Done."), [weather], middleware=[emulator])
        assert run(agent, {"messages": "hi"})["messages"][-2].status == status


@WAYS
def test_hooks_further_out_see_the_emulated_result(run):
    seen = []

    @wrap_tool_call
    def outer(request, handler):
        result = handler(request)
        seen.append(result.text)
        return result

    emulator = LLMToolEmulator(model=ScriptedModel("made up"))
    model = ScriptedModel(tool_call("weather", city="Rome"), "Done.")
    run(create_agent(model, [weather], middleware=[outer, emulator]), {"messages": "hi"})
    assert seen == ["made up"]


def test_the_call_of_the_emulating_model_is_not_streamed():
    emulator = LLMToolEmulator(model=ScriptedModel("made up"))
    agent = create_agent(ScriptedModel(tool_call("weather", city="Rome"), "Done."), [weather], middleware=[emulator])
    pieces = [piece for piece, _ in agent.stream({"messages": "hi"}, stream_mode="messages")]
    assert [(piece.type, piece.text) for piece in pieces if piece.text] == [
        ("tool", "made up"),
        ("AIMessageChunk", "Done."),
    ]


@BETA
def test_the_call_of_the_emulating_model_is_in_no_event_of_the_run():
    emulator = LLMToolEmulator(model=ScriptedModel("made up"))
    agent = create_agent(ScriptedModel(tool_call("weather", city="Rome"), "Done."), [weather], middleware=[emulator])
    run = agent.stream_events({"messages": "hi"}, version="v3")
    assert [str(message.text) for message in run.messages] == ["", "Done."]


def test_one_emulator_serves_many_runs_at_once():
    emulator = LLMToolEmulator(model=FunctionModel(lambda messages, _: messages[-1].text.rpartition("\n")[2]))

    def turn(messages, settings):
        last = messages[-1]
        return "Done." if last.type == "tool" else tool_call("weather", city=last.text)

    agent = create_agent(FunctionModel(turn), [weather], middleware=[emulator])
    cities = [f"city {number}" for number in range(20)]
    results = agent.batch([{"messages": city} for city in cities])
    assert [one["messages"][-2].text for one in results] == [f'Arguments: {{"city": "{city}"}}' for city in cities]


def test_without_a_model_the_usual_one_is_taken_with_a_warning():
    with pytest.warns(DeprecationWarning, match="LLMToolEmulator\\(model=...\\)"):
        emulator = LLMToolEmulator()
    assert (emulator.model.model, emulator.model.temperature) == ("claude-sonnet-4-5", 1.0)


def test_a_model_is_found_by_its_name():
    assert LLMToolEmulator(model="openai:gpt-5").model.model == "gpt-5"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tools": "weather"}, "tools is 'weather'; expected was a list"),
        ({"tools": 3}, "tools is 3"),
        ({"tools": [3]}, "tools has 3; expected was a name, a tool or a function"),
        ({"model": 3}, "model is 3"),
        ({"system_prompt": 3}, "system_prompt is 3"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, told):
    with pytest.raises(ConfigurationError, match=told):
        LLMToolEmulator(**{"model": ScriptedModel(), **options})
