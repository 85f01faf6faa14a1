"""A forced tool call that did not come: asked for once more, then a typed error; in all four ways of running."""

import pickle
from collections.abc import Mapping

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from agentgraph import AgentMiddleware, create_agent
from agentgraph.errors import EmptyTurnError, MalformedToolCallError, MissingToolCallError
from agentgraph.history import feedback_kind
from agentgraph.middleware import ModelFallbackMiddleware, hook_config
from agentgraph.progress import MAX_MALFORMED
from agentgraph.structured_output import ToolStrategy
from agentgraph.testing import ScriptedModel, ai, assert_valid_history, describe, invalid_call, tool_call
from agentgraph.tools import tool

RUNS: list[str] = []
HI = {"messages": "hi"}
ROME = tool_call("weather", city="Rome", id="r")
NEWS = tool_call("news", topic="cats", id="n")
SUNNY = "tool weather: sunny in Rome"
CALLED = ["ai: -> weather(city='Rome')", SUNNY]
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def news(topic: str) -> str:
    """The news."""
    RUNS.append(topic)
    return f"no news of {topic}"


class Forecast(BaseModel):
    """A forecast."""

    sky: str


class Forcing(AgentMiddleware):
    """Demands a call until a tool has answered well."""

    def __init__(self, choice="any", *, by_settings=False):
        super().__init__()
        self.change = {"model_settings": {"tool_choice": choice}} if by_settings else {"tool_choice": choice}

    def model_call(self, request):
        done = any(isinstance(m, ToolMessage) and m.status == "success" for m in request.messages)
        return (yield request if done else request.override(**self.change))


def forced(*replies, choice="any", tools=(weather, news), before=(), after=(), **options):
    """An agent whose model has to call a tool, and the model."""
    model = options.pop("model", None) or ScriptedModel(*replies)
    by_settings = options.pop("by_settings", False)
    middleware = [*before, Forcing(choice, by_settings=by_settings), *after]
    return create_agent(model, list(tools), middleware=middleware, **options), model


def told(result):
    return [message.text for message in result["messages"] if feedback_kind(message) == "missing_tool_call"]


ANY = "Your last turn had to call one of the tools 'weather' or 'news', and did not. Call it now."
NAMED = "Your last turn had to call the tool 'weather', and did not. Call it now."
CHOICES = {
    "any": ("any", ANY),
    "required": ("required", ANY),
    "true": (True, ANY),
    "a name": ("weather", NAMED),
    "OpenAI's form": ({"type": "function", "function": {"name": "weather"}}, NAMED),
    "a form with the name in it": ({"type": "tool", "name": "weather"}, NAMED),
    "Anthropic's form of any": ({"type": "any"}, ANY),
    "a list of allowed tools": (
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]},
        NAMED,
    ),
    "Gemini's form": ({"function_calling_config": {"mode": "ANY", "allowed_function_names": ["weather"]}}, NAMED),
    "Gemini's form of any": ({"functionCallingConfig": {"mode": "ANY"}}, ANY),
}


@pytest.mark.parametrize("by_settings", [False, True], ids=["by the request", "by settings"])
@pytest.mark.parametrize("name", CHOICES)
def test_prose_in_place_of_a_forced_call_is_asked_again(run, name, by_settings):
    choice, text = CHOICES[name]
    model = ScriptedModel("Sunny, I guess.", ROME, "Sunny.", strict=False)
    agent, _ = forced(model=model, choice=choice, by_settings=by_settings)
    result = run(agent, HI)
    assert describe(result["messages"]) == ["human: hi", "ai: Sunny, I guess.", f"human: {text}", *CALLED, "ai: Sunny."]
    assert told(result) == [text]
    assert_valid_history(result["messages"])
    model.assert_played()


@pytest.mark.parametrize(
    ("reply", "given"),
    [
        ("I do not know.", "wrote: 'I do not know.'"),
        ("", "wrote nothing"),
        (AIMessage("I think", response_metadata={"finish_reason": "length"}), "limit of tokens (raise max_tokens)"),
        (NEWS, "called 'news'"),
        ("x" * 5000, "x" * 200 + "'. Some servers"),
    ],
    ids=["prose", "an empty turn", "cut off", "another tool", "long prose"],
)
def test_a_forced_call_that_does_not_come_at_all_is_a_typed_error(run, reply, given):
    agent, model = forced("No.", reply, choice="weather")
    RUNS.clear()
    with pytest.raises(MissingToolCallError) as caught:
        run(agent, HI)
    assert "had to call the tool 'weather' (tool_choice)" in str(caught.value)
    assert given in str(caught.value)
    assert 'tool_protocol="json"' in str(caught.value)
    assert caught.value.tool_names == ("weather",)
    assert (RUNS, len(model.requests)) == ([], 2)
    assert len(str(caught.value)) < 1000


def test_the_error_survives_a_pickle_whole():
    error = MissingToolCallError("No call.", tool_names=("weather",), ai_message=AIMessage("No."))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 our own bytes
    assert (str(again), again.tool_names, again.ai_message) == ("No call.", ("weather",), AIMessage("No."))


def test_another_tool_than_the_forced_one_is_not_run(run):
    agent, model = forced(ai(NEWS, text="Let me see."), ROME, "Sunny.", choice="weather")
    RUNS.clear()
    result = run(agent, HI)
    text = "Not run: this turn has to call the tool 'weather', and nothing else. Call it now."
    assert describe(result["messages"]) == [
        "human: hi",
        "ai: Let me see. -> news(topic='cats')",
        f"tool news error: {text}",
        *CALLED,
        "ai: Sunny.",
    ]
    assert RUNS == []
    assert_valid_history(model.requests[1].messages)


FITTING = {
    "the forced call": (ROME, "weather"),
    "the forced call beside another one": ([ROME, NEWS], "weather"),
    "any call": (NEWS, "any"),
    "no demand": ("Sunny.", "auto"),
    "no calls allowed": ("Sunny.", "none"),
}


@pytest.mark.parametrize("name", FITTING)
def test_an_answer_that_keeps_to_the_choice_is_left_alone(run, name):
    reply, choice = FITTING[name]
    agent, model = forced(reply, *([] if reply == "Sunny." else ["So."]), choice=choice)
    assert told(run(agent, HI)) == []
    model.assert_played()


@pytest.mark.parametrize("tools", [[], [weather, WEB_SEARCH]], ids=["no tools", "a tool that the provider runs"])
def test_where_it_cannot_be_told_whether_a_call_was_due_prose_is_an_answer(run, tools):
    agent, model = forced(model=ScriptedModel("Sunny.", strict=False), tools=tools)
    assert describe(run(agent, HI)["messages"]) == ["human: hi", "ai: Sunny."]
    model.assert_played()


@pytest.mark.parametrize(("thinking", "asked"), [("enabled", 1), ("adaptive", 1), ("disabled", 2)])
def test_a_model_that_may_not_be_forced_while_it_thinks_is_only_wished_for_a_call(run, thinking, asked):
    class Thinking(ScriptedModel):
        thinking: Mapping[str, str]

    model = Thinking("Sunny.", *([ROME, "So."] if asked == 2 else []), thinking={"type": thinking})
    agent, _ = forced(model=model)
    run(agent, HI)
    model.assert_played()


@pytest.mark.parametrize(
    "reply",
    [
        AIMessage("", additional_kwargs={"refusal": "I will not."}),
        AIMessage([{"type": "refusal", "refusal": "I will not."}]),
        AIMessage("I will not.", response_metadata={"finish_reason": "refusal"}),
    ],
    ids=["beside the content", "as a block", "as the ending"],
)
def test_a_refusal_in_place_of_a_forced_call_is_raised_at_once(run, reply):
    agent, model = forced(reply)
    with pytest.raises(MissingToolCallError, match=r"It refused: 'I will not\.'"):
        run(agent, HI)
    assert len(model.requests) == 1


def test_each_forced_call_of_a_run_may_be_asked_for_again_once(run):
    class Always(AgentMiddleware):
        def model_call(self, request):
            return (yield request.override(tool_choice="any"))

    @tool(return_direct=True)
    def done() -> str:
        """Be done."""
        return "done"

    model = ScriptedModel("Hm.", ROME, "Hm.", NEWS, "Hm.", tool_call("done"))
    agent = create_agent(model, [weather, news, done], middleware=[Always()])
    result = run(agent, HI)
    assert len(told(result)) == 3
    assert result["messages"][-1].text == "done"


def test_turns_without_a_demand_in_between_do_not_begin_the_count_anew(run):
    class EverySecond(AgentMiddleware):
        def __init__(self):
            super().__init__()
            self.turn = 0

        def model_call(self, request):
            self.turn += 1
            return (yield request.override(tool_choice="any") if self.turn % 2 else request)

    model = ScriptedModel("Hm.", "", repeat_last=True)
    with pytest.raises((MissingToolCallError, EmptyTurnError)):
        run(create_agent(model, [weather], middleware=[EverySecond()]), HI)
    assert len(model.requests) == 3


def test_unreadable_calls_are_told_as_what_they_are(run):
    bad = AIMessage("", invalid_tool_calls=[invalid_call("weather", id="bad", args='{"city": "Ro', error="cut off")])
    agent, _ = forced(bad, ROME, "Sunny.", choice="weather")
    assert told(run(agent, HI)) == []
    agent, model = forced(model=ScriptedModel(bad, repeat_last=True), choice="weather")
    with pytest.raises(MalformedToolCallError):
        run(agent, HI)
    assert len(model.requests) == MAX_MALFORMED + 1


class TestStructuredAnswers:
    def test_prose_is_asked_again_as_the_structured_answer_that_it_is_not(self, run):
        agent, _ = forced("Sunny.", tool_call("Forecast", sky="blue"), response_format=ToolStrategy(Forecast))
        result = run(agent, HI)
        assert told(result) == []
        assert [feedback_kind(m) for m in result["messages"] if feedback_kind(m)] == ["structured_response"]
        assert result["structured_response"] == Forecast(sky="blue")

    def test_a_forced_tool_goes_before_the_structured_answer(self, run):
        answer = tool_call("Forecast", sky="grey", id="f")
        blue = tool_call("Forecast", sky="blue")
        agent, _ = forced(answer, ROME, blue, choice="weather", response_format=ToolStrategy(Forecast))
        result = run(agent, HI)
        assert describe(result["messages"])[2].startswith("tool Forecast error: Not run")
        assert result["structured_response"] == Forecast(sky="blue")


def test_a_fallback_model_is_asked_where_the_first_does_not_make_the_call(run):
    spare = ScriptedModel(ROME)
    agent, model = forced("No.", "No.", "Sunny.", after=[ModelFallbackMiddleware(spare)])
    assert describe(run(agent, HI)["messages"]) == ["human: hi", "ai: No.", f"human: {ANY}", *CALLED, "ai: Sunny."]
    model.assert_played()
    spare.assert_played()


def test_a_hook_that_calls_the_model_twice_uses_up_nothing(run):
    class Twice(AgentMiddleware):
        def model_call(self, request):
            yield request
            return (yield request)

    agent, model = forced("No.", "No.", ROME, ROME, "Sunny.", "Sunny.", after=[Twice()])
    assert len(told(run(agent, HI))) == 1
    model.assert_played()


@pytest.mark.parametrize("inline", [False, True], ids=["a node of its own", "inline"])
def test_a_hook_that_jumps_decides_over_a_missing_call(run, inline):
    class Ending(AgentMiddleware):
        @hook_config(can_jump_to=["end"], inline=inline)
        def after_model(self, state, runtime):
            return {"jump_to": "end"}

    agent, _ = forced("Sunny.", before=[Ending()])
    assert describe(run(agent, HI)["messages"]) == ["human: hi", "ai: Sunny."]


class Pausing(AgentMiddleware):
    def after_model(self, state, runtime):
        interrupt("go on?")


@pytest.mark.parametrize("reply", ["No.", NEWS], ids=["prose", "another tool"])
def test_a_pause_does_not_begin_the_count_anew(run, reply):
    agent, model = forced(reply, "No.", choice="weather", before=[Pausing()], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    run(agent, HI, config)
    with pytest.raises(MissingToolCallError):
        run(agent, Command(resume="yes"), config)
    assert len(model.requests) == 2


def test_a_new_question_on_the_thread_begins_anew(run):
    agent, model = forced("No.", "No.", "No.", ROME, "Sunny.", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    with pytest.raises(MissingToolCallError):
        run(agent, HI, config)
    result = run(agent, {"messages": "And now?"}, config)
    assert describe(result["messages"])[-5:] == ["ai: No.", f"human: {ANY}", *CALLED, "ai: Sunny."]
    assert_valid_history(result["messages"])
    model.assert_played()
